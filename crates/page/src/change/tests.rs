//! Changes of row pages against a plain list of rows: append, lay out again, delete, undo, damage. The integration
//! tests do the fuzzing of decoders.

use hobt_base::{FileId, HobtId, SplitMix64};
use hobt_types::PhysicalType;

use super::*;
use crate::{ColumnLayout, StoredValue, check_row_page};

fn table() -> RowLayout {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    RowLayout::new(vec![
        column(PhysicalType::Fixed8, false),
        column(PhysicalType::Variable, true),
        column(PhysicalType::Fixed4, true),
        column(PhysicalType::Variable, true),
        column(PhysicalType::Fixed1, false),
    ])
}

fn fresh(rows: &RowLayout, capacity: u16) -> Box<PageBytes> {
    let mut page = Box::new([0u8; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, hobt_base::PageId::new(FileId(1), 8), 1, HobtId(1));
    header.capacity = capacity;
    apply(&mut page, Some(rows), &PageChange::Format { header }).expect("no damage").expect("done");
    page
}

fn random_row(random: &mut SplitMix64) -> Vec<Option<Vec<u8>>> {
    let text = |random: &mut SplitMix64, bound| {
        (random.below(3) > 0).then(|| (0..random.below(bound)).map(|_| random.below(256) as u8).collect())
    };
    vec![
        Some(random.next_u64().to_le_bytes().to_vec()),
        text(random, 60),
        (random.below(2) > 0).then(|| (random.next_u64() as u32).to_le_bytes().to_vec()),
        text(random, 9),
        Some(vec![random.below(2) as u8]),
    ]
}

fn image(row: &[Option<Vec<u8>>]) -> RowImage {
    RowImage::new(row.iter().map(|value| value.as_deref()))
}

fn assert_rows(page: &PageBytes, rows: &RowLayout, expected: &[Vec<Option<Vec<u8>>>]) {
    check_row_page(page, rows).expect("a sound page");
    let view = RowPage::open(page, rows).expect("a sound page");
    assert_eq!(view.row_count(), expected.len());
    for (slot, row) in expected.iter().enumerate() {
        for (column, value) in row.iter().enumerate() {
            assert_eq!(view.value(column, slot).expect("sound"), value.as_deref(), "slot {slot} column {column}");
        }
    }
}

#[test]
fn a_page_keeps_every_row_through_new_layouts() {
    let rows = table();
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let mut page = fresh(&rows, 4 + (seed as u16 % 50));
        let mut expected = Vec::new();
        loop {
            let row = random_row(&mut random);
            let change = PageChange::AppendRow { row: image(&row), writer: Stamp(1) };
            if apply(&mut page, Some(&rows), &change).expect("no damage").is_none() {
                break;
            }
            expected.push(row);
        }
        assert!(expected.len() > 90, "a page of short rows holds many: {}", expected.len());
        assert_rows(&page, &rows, &expected);
    }
}

#[test]
fn undo_in_reverse_restores_what_is_seen() {
    let rows = table();
    let mut random = SplitMix64::new(7);
    let mut page = fresh(&rows, 3);
    let mut expected = Vec::new();
    for _ in 0..20 {
        let row = random_row(&mut random);
        apply(&mut page, Some(&rows), &PageChange::AppendRow { row: image(&row), writer: Stamp(1) })
            .expect("no damage")
            .expect("room");
        expected.push(row);
    }
    let mut undo = Vec::new();
    for step in 0..60u16 {
        let change = if step % 3 == 0 {
            PageChange::SetDeleted { slot: SlotId(step / 3), deleted: true, writer: Stamp(2) }
        } else {
            PageChange::AppendRow { row: image(&random_row(&mut random)), writer: Stamp(2) }
        };
        undo.push(apply(&mut page, Some(&rows), &change).expect("no damage").expect("room"));
        check_row_page(&page, &rows).expect("a sound page");
    }
    assert_eq!(RowPage::open(&page, &rows).expect("sound").deleted_count(), 20);
    for change in undo.iter().rev() {
        apply(&mut page, Some(&rows), change).expect("no damage").expect("always fits");
        check_row_page(&page, &rows).expect("a sound page");
    }
    assert_rows(&page, &rows, &expected);
    assert_eq!(PageHeader::read(&page).expect("sound").newest_writer, Stamp(1));
}

#[test]
fn nonsense_in_a_header_is_refused() {
    let rows = table();
    let page = fresh(&rows, 10);
    for at in 48..54 {
        let mut broken = page.clone();
        broken[at] = 0xFF;
        assert!(RowPage::open(&broken, &rows).is_err(), "byte {at}");
    }
    let mut random = SplitMix64::new(1);
    for _ in 0..20_000 {
        let mut broken = page.clone();
        for _ in 0..4 {
            broken[random.below(PAGE_SIZE as u64) as usize] = random.below(256) as u8;
        }
        if let Ok(view) = RowPage::open(&broken, &rows) {
            for slot in 0..view.row_count() {
                for column in 0..5 {
                    let _bytes_or_damage = view.value(column, slot);
                }
            }
        }
        let _sound_or_not = check_row_page(&broken, &rows);
    }
}

#[test]
fn pointers_live_through_new_layouts_and_undo() {
    let rows = table();
    let mut random = SplitMix64::new(9);
    let mut page = fresh(&rows, 2);
    let pointer = |place: u32| crate::ValuePointer {
        length: 8001 + place as usize,
        first: hobt_base::PageId::new(FileId(2), 8 + place),
        checksum: place,
    };
    let stored = |place: u32, row: &[Option<Vec<u8>>]| {
        RowImage::of_stored(row.iter().enumerate().map(|(column, value)| match value {
            None => StoredValue::Null,
            Some(_) if column == 3 && place % 3 == 1 => StoredValue::Pointer(pointer(place)),
            Some(bytes) => StoredValue::InRow(bytes),
        }))
    };
    let mut expected = Vec::new();
    for place in 0..30 {
        let row = random_row(&mut random);
        let image = stored(place, &row);
        let undo = apply(&mut page, Some(&rows), &PageChange::AppendRow { row: image.clone(), writer: Stamp(1) })
            .expect("no damage")
            .expect("room");
        // Undone and redone, through the change that removes the last row.
        apply(&mut page, Some(&rows), &undo).expect("no damage").expect("always fits");
        apply(&mut page, Some(&rows), &PageChange::AppendRow { row: image, writer: Stamp(1) })
            .expect("no damage")
            .expect("room");
        let again = apply(&mut page, Some(&rows), &PageChange::RemoveLastRow { writer: Stamp(1) })
            .expect("sound")
            .expect("one");
        apply(&mut page, Some(&rows), &again).expect("no damage").expect("room");
        expected.push(row);
    }
    check_row_page(&page, &rows).expect("a sound page");
    let view = RowPage::open(&page, &rows).expect("sound");
    assert!(view.has_pointers() && !view.is_ascii(3));
    let mut pointers = 0;
    for (slot, row) in expected.iter().enumerate() {
        for (column, value) in row.iter().enumerate() {
            let expected = match value {
                None => StoredValue::Null,
                Some(_) if column == 3 && slot % 3 == 1 => StoredValue::Pointer(pointer(slot as u32)),
                Some(bytes) => StoredValue::InRow(bytes),
            };
            pointers += usize::from(matches!(expected, StoredValue::Pointer(_)));
            assert_eq!(view.stored(column, slot), Ok(expected));
            assert_eq!(view.value(column, slot).is_err(), matches!(expected, StoredValue::Pointer(_)));
        }
    }
    assert!(pointers > 3, "{pointers}");
    // Without the page's flag the bits are part of the offsets, which are then out of bounds.
    let mut broken = page.clone();
    broken[6] = 0;
    let view = RowPage::open(&broken, &rows).expect("sound but for the offsets");
    assert!(!view.ends_are_ordered(3) && check_row_page(&broken, &rows).is_err());
}
