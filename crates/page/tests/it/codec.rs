//! Changes and layouts as the log's bytes: what is encoded is decoded, and bytes that decode are the only encoding of
//! their value.

use hobt_base::{FileId, HobtId, Lsn, PAGE_SIZE, PageId, SlotId, SplitMix64, Stamp};
use hobt_page::{
    ColumnLayout, PageBytes, PageChange, PageFlags, PageHeader, PageType, RowImage, RowLayout, StoredValue,
    ValuePointer, apply,
};
use hobt_types::PhysicalType;

const PHYSICAL: [PhysicalType; 6] = [
    PhysicalType::Fixed1,
    PhysicalType::Fixed2,
    PhysicalType::Fixed4,
    PhysicalType::Fixed8,
    PhysicalType::Fixed16,
    PhysicalType::Variable,
];

fn bytes(random: &mut SplitMix64, length: u64) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// A number of random size and digits.
fn number(random: &mut SplitMix64) -> u64 {
    random.next_u64() >> random.below(64)
}

fn header(random: &mut SplitMix64) -> PageHeader {
    let mut id = || PageId::new(FileId(random.next_u64() as u16), random.next_u64() as u32);
    let (page, next) = (id(), id());
    let types = [PageType::Unformatted, PageType::Row, PageType::Index, PageType::LargeValue, PageType::Boot];
    let mut header = PageHeader::new(types[random.below(5) as usize], page, random.next_u64() as u32, HobtId(9));
    header.flags = PageFlags(random.next_u64() as u16);
    header.hobt = HobtId(random.next_u64());
    header.lsn = Lsn(random.next_u64());
    header.layout_version = random.next_u64() as u32;
    header.newest_writer = Stamp(random.next_u64());
    header.column_count = random.next_u64() as u16;
    header.row_count = random.next_u64() as u16;
    header.capacity = random.next_u64() as u16;
    header.deleted_count = random.next_u64() as u16;
    header.level = random.next_u64() as u8;
    header.next = next;
    header
}

fn row(random: &mut SplitMix64) -> RowImage {
    let count = 1 + number(random) % 40;
    let longest = [3, 40, 200, 8000][random.below(4) as usize];
    let values: Vec<(u64, Vec<u8>)> = (0..count)
        .map(|_| {
            let length = random.below(longest);
            (random.below(8), bytes(random, length))
        })
        .collect();
    RowImage::of_stored(values.iter().map(|(form, bytes)| match form {
        0 | 1 => StoredValue::Null,
        2 => StoredValue::Pointer(ValuePointer {
            length: 1 + bytes.len(),
            first: PageId::new(FileId(1), 8),
            checksum: 0xFEED_BEEF,
        }),
        _ => StoredValue::InRow(bytes),
    }))
}

fn image(random: &mut SplitMix64) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    for _ in 0..random.below(6) {
        let from = random.below(PAGE_SIZE as u64) as usize;
        let length = random.below((PAGE_SIZE - from) as u64 + 1);
        page[from..from + length as usize].copy_from_slice(&bytes(random, length));
    }
    page
}

fn change(random: &mut SplitMix64) -> PageChange {
    let writer = Stamp(number(random));
    match random.below(15) {
        0 => PageChange::Format { header: header(random) },
        1 => PageChange::Image { bytes: image(random) },
        2 => PageChange::AppendRow { row: row(random), writer },
        3 => PageChange::RemoveLastRow { writer },
        4 => {
            let slot = SlotId(random.next_u64() as u16);
            PageChange::SetDeleted { slot, deleted: random.below(2) == 0, writer }
        }
        5 => {
            let length = random.below(300);
            PageChange::Write { offset: random.next_u64() as u16, bytes: bytes(random, length) }
        }
        6 => PageChange::ReplaceRow { slot: SlotId(random.next_u64() as u16), row: row(random), writer },
        7 => PageChange::InsertRow { position: random.next_u64() as u16, row: row(random), writer },
        8 => PageChange::RemoveRow { position: random.next_u64() as u16, writer },
        9 => {
            let (from, to) = (random.next_u64() as u16, random.next_u64() as u16);
            PageChange::KeepRows { from, to, drop_deleted: random.below(2) == 0, writer }
        }
        10 => {
            let length = 1 + random.below(90);
            let child = PageId::new(FileId(3), random.next_u64() as u32);
            PageChange::InsertEntry { position: random.next_u64() as u16, key: bytes(random, length), child }
        }
        11 => PageChange::RemoveEntry { position: random.next_u64() as u16 },
        12 => PageChange::SetLeftmost { child: PageId::new(FileId(3), random.next_u64() as u32) },
        13 => PageChange::KeepEntries { from: random.next_u64() as u16, to: random.next_u64() as u16 },
        _ => PageChange::SetHeader { header: header(random) },
    }
}

fn encoded(change: &PageChange) -> Vec<u8> {
    let mut bytes = vec![0xAA];
    change.encode(&mut bytes);
    assert_eq!(bytes.remove(0), 0xAA, "it is appended");
    bytes
}

/// Asserts that these bytes are an error, or the encoding of the change that they decode to.
fn assert_canonical(bytes: &[u8]) {
    if let Ok(change) = PageChange::decode(bytes) {
        assert_eq!(encoded(&change), bytes, "two encodings of {change:?}");
    }
}

#[test]
fn a_change_is_decoded_as_it_was_encoded() {
    let mut random = SplitMix64::new(11);
    for _ in 0..4000 {
        let change = change(&mut random);
        assert_eq!(PageChange::decode(&encoded(&change)).as_ref(), Ok(&change));
    }
}

#[test]
fn a_cut_or_flipped_encoding_is_refused_or_is_another_change() {
    let mut random = SplitMix64::new(12);
    for _ in 0..600 {
        let change = change(&mut random);
        let bytes = encoded(&change);
        for _ in 0..20 {
            let cut = random.below(bytes.len() as u64) as usize;
            let is_refused = PageChange::decode(&bytes[..cut]).is_err();
            assert!(
                is_refused || matches!(change, PageChange::Write { .. } | PageChange::InsertEntry { .. }),
                "{cut} bytes of {change:?}"
            );
            let mut flipped = bytes.clone();
            for _ in 0..1 + random.below(3) {
                let bound = if random.below(2) == 0 { 12 } else { bytes.len() as u64 };
                let at = random.below(bound) as usize;
                flipped[at.min(bytes.len() - 1)] ^= 1 << random.below(8);
            }
            assert_canonical(&flipped);
            assert_canonical(&flipped[..cut]);
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(
            PageChange::decode(&longer).is_err()
                || matches!(change, PageChange::Write { .. } | PageChange::InsertEntry { .. })
        );
    }
}

#[test]
fn random_bytes_are_refused_or_are_a_change() {
    let mut random = SplitMix64::new(13);
    for _ in 0..200_000 {
        let length = 1 + random.below(60);
        let mut bytes = bytes(&mut random, length);
        bytes[0] = random.below(20) as u8;
        assert_canonical(&bytes);
        let _layout_or_damage = RowLayout::decode(&bytes);
    }
    assert!(PageChange::decode(&[]).is_err());
}

#[test]
fn an_image_leaves_the_holes_of_a_page_out() {
    let rows = RowLayout::new(vec![
        ColumnLayout { physical: PhysicalType::Fixed8, nullable: false },
        ColumnLayout { physical: PhysicalType::Variable, nullable: true },
        ColumnLayout { physical: PhysicalType::Variable, nullable: true },
    ]);
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 8), 1, HobtId(1));
    header.capacity = rows.capacity_for(30);
    apply(&mut page, Some(&rows), &PageChange::Format { header }).expect("sound");
    for _ in 0..5 {
        let row = RowImage::new([Some(&[1; 8][..]), Some(&[2; 20]), Some(&[3; 10])]);
        apply(&mut page, Some(&rows), &PageChange::AppendRow { row, writer: Stamp(1) }).expect("sound").expect("room");
    }
    let sparse = encoded(&PageChange::Image { bytes: page });
    assert!(sparse.len() < 700, "five short rows take {} bytes", sparse.len());
    let full = encoded(&PageChange::Image { bytes: Box::new([1; PAGE_SIZE]) });
    assert_eq!(full.len(), PAGE_SIZE + 33);
    assert_eq!(encoded(&PageChange::Image { bytes: Box::new([0; PAGE_SIZE]) }).len(), 33);
}

#[test]
fn a_layout_is_decoded_as_it_was_encoded() {
    let mut random = SplitMix64::new(14);
    for round in 0..300 {
        let count = if round == 0 { 1024 } else { 1 + number(&mut random) % 200 };
        let columns: Vec<ColumnLayout> = (0..count)
            .map(|_| ColumnLayout { physical: PHYSICAL[random.below(6) as usize], nullable: random.below(2) == 0 })
            .collect();
        let layout = RowLayout::new(columns);
        let layout = if round % 2 == 0 { layout.ordered() } else { layout };
        let mut bytes = Vec::new();
        layout.encode(&mut bytes);
        let decoded = RowLayout::decode(&bytes).expect("what was encoded");
        assert_eq!((decoded.columns(), decoded.is_ordered()), (layout.columns(), layout.is_ordered()));
        assert!(RowLayout::decode(&bytes[..bytes.len() - 1]).is_err());
        for _ in 0..20 {
            let mut flipped = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            flipped[at] ^= 1 << random.below(8);
            if let Ok(other) = RowLayout::decode(&flipped) {
                let mut again = Vec::new();
                other.encode(&mut again);
                assert_eq!(again, flipped);
            }
        }
    }
}

#[test]
fn a_change_that_passes_its_check_is_applied_or_refused() {
    let heap = RowLayout::new(vec![
        ColumnLayout { physical: PhysicalType::Fixed4, nullable: true },
        ColumnLayout { physical: PhysicalType::Variable, nullable: false },
    ]);
    let mut encoded = Vec::new();
    heap.encode(&mut encoded);
    let leaf = RowLayout::decode(&encoded).expect("what was encoded").ordered();
    for rows in [heap, leaf] {
        check_and_apply(&rows);
    }
}

fn check_and_apply(rows: &RowLayout) {
    let mut random = SplitMix64::new(15);
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 8), 1, HobtId(1));
    header.capacity = 20;
    apply(&mut page, Some(rows), &PageChange::Format { header }).expect("sound");
    let (mut applied, mut refused) = (0, 0);
    for _ in 0..30_000 {
        let length = random.below(40);
        let value = bytes(&mut random, length);
        let row = RowImage::new([None, Some(&value[..])]);
        let (slot, writer, position) = (SlotId(random.below(80) as u16), Stamp(2), random.below(80) as u16);
        let change = match random.below(7) {
            0 => change(&mut random),
            1 => PageChange::AppendRow { row, writer },
            2 => PageChange::SetDeleted { slot, deleted: true, writer },
            3 => PageChange::ReplaceRow { slot, row, writer },
            4 => PageChange::InsertRow { position, row, writer },
            5 => PageChange::RemoveRow { position, writer },
            _ => {
                let to = random.below(80) as u16;
                PageChange::KeepRows { from: position, to, drop_deleted: random.below(2) == 0, writer }
            }
        };
        if change.check(&page, Some(rows)).is_err() {
            refused += 1;
            continue;
        }
        let mut copy = page.clone();
        applied += usize::from(apply(&mut copy, Some(rows), &change).is_ok());
        // The page itself only grows. Changes that replace or shorten it are tried on a copy.
        if matches!(change, PageChange::AppendRow { .. } | PageChange::InsertRow { .. } | PageChange::ReplaceRow { .. })
        {
            page = copy;
        }
    }
    assert!(applied > 3000 && refused > 3000, "{applied} applied, {refused} refused");
}
