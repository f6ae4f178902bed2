//! The bytes of pages on disk change only together with the format's version.

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SlotId, SplitMix64, Stamp, crc32c};
use hobt_page::{
    BulkColumn, BulkPageBuilder, ColumnLayout, PageChange, PageHeader, PageType, RowImage, RowLayout, StoredValue,
    ValidityBits, ValuePointer, apply, check_row_page,
};
use hobt_types::PhysicalType;

fn heap() -> RowLayout {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    RowLayout::new(vec![
        column(PhysicalType::Fixed1, true),
        column(PhysicalType::Variable, true),
        column(PhysicalType::Fixed16, false),
        column(PhysicalType::Fixed2, true),
        column(PhysicalType::Variable, false),
        column(PhysicalType::Fixed8, true),
        column(PhysicalType::Fixed4, false),
    ])
}

fn row(random: &mut SplitMix64, rows: &RowLayout) -> RowImage {
    let pointer = ValuePointer { length: 9000, first: PageId::new(FileId(1), 16), checksum: 7 };
    let values: Vec<Option<Vec<u8>>> = rows
        .columns()
        .iter()
        .map(|column| {
            let length = column.physical.width().unwrap_or(random.below(40) as usize);
            (!column.nullable || random.below(3) > 0).then(|| vec![random.below(128) as u8; length])
        })
        .collect();
    let has_pointer = random.below(9) == 0;
    RowImage::of_stored(values.iter().enumerate().map(|(column, value)| match value {
        None => StoredValue::Null,
        Some(_) if column == 4 && has_pointer => StoredValue::Pointer(pointer),
        Some(bytes) => StoredValue::InRow(bytes),
    }))
}

#[test]
fn a_heap_page_has_the_bytes_that_it_always_had() {
    let rows = heap();
    let mut random = SplitMix64::new(21);
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 9), 5, HobtId(1));
    header.capacity = 6;
    let mut checksums = Vec::new();
    let mut change = |change: &PageChange| {
        let undo = apply(&mut page, Some(&rows), change).expect("sound");
        check_row_page(&page, &rows).expect("sound");
        checksums.push(crc32c(&page[..]));
        undo
    };
    change(&PageChange::Format { header });
    for count in 0.. {
        let row = row(&mut random, &rows);
        let Some(_) = change(&PageChange::AppendRow { row, writer: Stamp(3) }) else { break };
        if count % 5 == 0 {
            change(&PageChange::SetDeleted { slot: SlotId(count), deleted: true, writer: Stamp(4) });
        }
        if count % 7 == 3 && count % 5 != 0 {
            let undo = change(&PageChange::RemoveLastRow { writer: Stamp(5) }).expect("a row");
            change(&undo);
        }
    }
    let whole: Vec<u8> = checksums.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
    assert_eq!((checksums.len(), crc32c(&whole)), (174, 286_815_957));
}

#[test]
fn a_bulk_page_has_the_bytes_that_it_always_had() {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    let rows = RowLayout::new(vec![
        column(PhysicalType::Fixed4, true),
        column(PhysicalType::Variable, false),
        column(PhysicalType::Fixed1, false),
    ]);
    let builder = BulkPageBuilder::new(&rows);
    let count = builder.rows_that_fit(&[5; 4000]);
    let mut bytes = Box::new([0; PAGE_SIZE]);
    let header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 9), 5, HobtId(1));
    let mut page = builder.start(&mut bytes, header, count);
    let bits = vec![0b1011_0111; count.div_ceil(8)];
    let ints: Vec<u8> = (0..count as u32).flat_map(u32::to_le_bytes).collect();
    page.column(0, BulkColumn::Fixed(&ints), Some(ValidityBits { bytes: &bits, offset: 0 }));
    page.column(1, BulkColumn::Variable(&vec![&b"three"[..]; count]), None);
    page.column(2, BulkColumn::Fixed(&vec![9; count]), None);
    page.finish();
    check_row_page(&bytes, &rows).expect("sound");
    assert_eq!((count, crc32c(&bytes[..])), (661, 1_447_272_969));
}
