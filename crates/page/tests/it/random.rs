//! Random bytes, and sound pages with random damage, into every decoder and every change.

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SlotId, SplitMix64, Stamp};
use hobt_page::{
    BootPage, ColumnLayout, FileHeader, LargeValuePage, MAX_COLUMNS, PageBytes, PageChange, PageDamage, PageFlags,
    PageHeader, PageType, RowImage, RowLayout, RowPage, RunListPage, StoredValue, ValuePointer, apply, check_row_page,
    verify,
};
use hobt_types::PhysicalType;

fn layouts() -> Vec<RowLayout> {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    vec![
        RowLayout::new(vec![
            column(PhysicalType::Fixed8, false),
            column(PhysicalType::Variable, true),
            column(PhysicalType::Variable, true),
            column(PhysicalType::Fixed2, true),
            column(PhysicalType::Variable, false),
        ]),
        RowLayout::new(vec![column(PhysicalType::Fixed1, true)]),
        RowLayout::new(vec![column(PhysicalType::Variable, false); 3]),
        RowLayout::new(vec![column(PhysicalType::Fixed16, true); MAX_COLUMNS]),
        RowLayout::new(vec![
            column(PhysicalType::Variable, true),
            column(PhysicalType::Fixed2, true),
            column(PhysicalType::Variable, false),
        ])
        .ordered(),
        RowLayout::new(vec![column(PhysicalType::Fixed1, false)]).ordered(),
    ]
}

fn row(random: &mut SplitMix64, rows: &RowLayout) -> RowImage {
    let pointer = ValuePointer { length: 9000, first: PageId::new(FileId(1), 16), checksum: 7 };
    let values: Vec<Option<Vec<u8>>> = rows
        .columns()
        .iter()
        .map(|column| {
            let length = column.physical.width().unwrap_or(random.below(90) as usize);
            (!column.nullable || random.below(3) > 0).then(|| vec![random.below(256) as u8; length])
        })
        .collect();
    RowImage::of_stored(values.iter().zip(rows.columns()).map(|(value, column)| match value {
        None => StoredValue::Null,
        Some(bytes) if column.physical.width().is_none() && bytes.len() % 9 == 1 => StoredValue::Pointer(pointer),
        Some(bytes) => StoredValue::InRow(bytes),
    }))
}

fn filled(random: &mut SplitMix64, rows: &RowLayout) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 9), 5, HobtId(1));
    header.capacity = rows.capacity_for(30);
    if header.capacity == 0 {
        header.capacity = rows.capacity_for(0);
    }
    apply(&mut page, Some(rows), &PageChange::Format { header }).expect("sound").expect("always");
    for slot in 0..random.below(60) {
        let row = row(random, rows);
        let change = if rows.is_ordered() {
            PageChange::InsertRow { position: random.below(slot + 1) as u16, row, writer: Stamp(1) }
        } else {
            PageChange::AppendRow { row, writer: Stamp(1) }
        };
        if apply(&mut page, Some(rows), &change).expect("sound").is_none() {
            break;
        }
        if slot % 4 == 0 {
            let change = PageChange::SetDeleted { slot: SlotId(slot as u16), deleted: true, writer: Stamp(1) };
            apply(&mut page, Some(rows), &change).expect("sound");
        }
    }
    page
}

/// Overwrites some bytes, mostly those of counts, offsets and bits.
fn damage(random: &mut SplitMix64, page: &mut PageBytes) {
    for _ in 0..1 + random.below(6) {
        let bound = if random.below(3) == 0 { PAGE_SIZE as u64 } else { 700 };
        let at = random.below(bound) as usize;
        page[at] = match random.below(4) {
            0 => 0xFF,
            1 => 0,
            _ => random.below(256) as u8,
        };
    }
}

/// Uses a page in all the ways of its owner.
fn use_row_page(random: &mut SplitMix64, page: &PageBytes, rows: &RowLayout) {
    let sound = check_row_page(page, rows).is_ok();
    let Ok(view) = RowPage::open(page, rows) else { return };
    for (column, described) in rows.columns().iter().enumerate().take(8) {
        if described.physical.width().is_none() {
            let ordered = view.ends_are_ordered(column);
            assert!(!sound || ordered);
            let _bytes = view.variable_used(column);
        }
        let _bits = (view.validity(column), view.null_count(column), view.deleted());
        for slot in 0..view.row_count() {
            assert!(view.stored(column, slot).is_ok() || !sound);
        }
    }
    for slot in view.order() {
        assert!(!sound || slot.is_ok());
    }
    let _found_or_damage = view.find(|slot| Ok::<_, PageDamage>(slot.cmp(&(view.row_count() / 2))));
    let position = random.below(view.row_count() as u64 + 1) as usize;
    let _place_or_damage = view.split(position, &row(random, rows));
    for _ in 0..6 {
        let change = row_change(random, &view, rows);
        change.check(page, Some(rows)).expect("made from this page");
        let mut copy = Box::new(*page);
        match apply(&mut copy, Some(rows), &change) {
            Ok(Some(undo)) => drop(apply(&mut copy, Some(rows), &undo)),
            _ => assert!(copy[..] == page[..], "a change that does not come about leaves the page as it was"),
        }
    }
}

/// A change that the page's owner could make, based on the page's contents.
fn row_change(random: &mut SplitMix64, view: &RowPage<'_>, rows: &RowLayout) -> PageChange {
    let (writer, count) = (Stamp(2), view.row_count() as u64);
    let position = random.below(count + 1) as u16;
    let row = row(random, rows);
    let kind = if count == 0 { 0 } else { random.below(5) };
    match kind {
        0 | 1 if rows.is_ordered() => PageChange::InsertRow { position, row, writer },
        0 | 1 => PageChange::AppendRow { row, writer },
        2 => PageChange::ReplaceRow { slot: SlotId(random.below(count) as u16), row, writer },
        3 => {
            let slot = random.below(count);
            let deleted = !view.is_deleted(slot as usize);
            PageChange::SetDeleted { slot: SlotId(slot as u16), deleted, writer }
        }
        _ if !rows.is_ordered() => PageChange::RemoveLastRow { writer },
        _ if random.below(2) == 0 => PageChange::RemoveRow { position: random.below(count) as u16, writer },
        _ => PageChange::KeepRows { from: position, to: count as u16, drop_deleted: random.below(2) == 0, writer },
    }
}

fn use_any_page(page: &PageBytes) {
    let _runs_or_damage = RunListPage::read(page);
    let _piece_or_damage = LargeValuePage::read(page, HobtId(1));
    let _header_or_damage = FileHeader::read(page);
    let _boot_or_damage = BootPage::read(page);
    let _sound_or_not = verify(page, PageId::new(FileId(1), 9), 5);
}

#[test]
fn damaged_row_pages_are_refused_or_read_within_bounds() {
    for (seed, rows) in layouts().iter().enumerate() {
        let mut random = SplitMix64::new(seed as u64);
        for _ in 0..300 {
            let page = filled(&mut random, rows);
            check_row_page(&page, rows).expect("a sound page");
            for _ in 0..if rows.columns().len() > 100 { 1 } else { 12 } {
                let mut broken = page.clone();
                damage(&mut random, &mut broken);
                use_row_page(&mut random, &broken, rows);
            }
        }
    }
}

#[test]
fn random_bytes_are_refused_or_read_within_bounds() {
    let layouts = layouts();
    let mut random = SplitMix64::new(99);
    for _ in 0..4000 {
        let mut page = Box::new([0u8; PAGE_SIZE]);
        for chunk in page.as_chunks_mut::<8>().0 {
            *chunk = random.next_u64().to_le_bytes();
        }
        use_any_page(&page);
        // What a decoder checks first is right, so that it continues.
        page[4] = hobt_page::FORMAT_VERSION;
        for (page_type, magic) in
            [(PageType::RunList, None), (PageType::FileHeader, Some(b"HOBTFILE")), (PageType::Boot, Some(b"HOBTBOOT"))]
        {
            page[5] = page_type as u8;
            if let Some(magic) = magic {
                page[64..72].copy_from_slice(magic);
            }
            page[48..50].copy_from_slice(&(random.below(600) as u16).to_le_bytes());
            page[120..122].copy_from_slice(&(random.below(600) as u16).to_le_bytes());
            use_any_page(&page);
        }
        page[5] = PageType::Row as u8;
        for rows in &layouts {
            page[14..16].copy_from_slice(&(rows.columns().len() as u16).to_le_bytes());
            let capacity = random.below(200) as u16;
            page[50..52].copy_from_slice(&capacity.to_le_bytes());
            page[48..50].copy_from_slice(&(random.below(u64::from(capacity) + 1) as u16).to_le_bytes());
            page[52..54].fill(0);
            page[6] = if rows.is_ordered() { PageFlags::ORDERED.0 as u8 } else { 0 };
            let areas = 64 + 2 * rows.columns().len();
            for index in 0..=rows.variable_count() {
                let start = PAGE_SIZE as u16 - 900 + 100 * index as u16;
                page[areas + 2 * index..areas + 2 * index + 2].copy_from_slice(&start.to_le_bytes());
            }
            use_row_page(&mut random, &page, rows);
        }
    }
}
