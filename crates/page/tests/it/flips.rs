//! A flipped bit of a sealed page is found in pages of every type.

use hobt_base::{FileId, FilegroupId, HobtId, Lsn, ObjectId, PAGE_SIZE, PageId, SplitMix64, Stamp};
use hobt_page::{
    AllocationMap, BOOT_PAGE, BootPage, BulkColumn, BulkPageBuilder, ColumnLayout, FileHeader, LargeValuePage,
    PageBytes, PageChange, PageHeader, PageType, RowLayout, Run, RunContents, RunListPage, SystemHobt, apply, seal,
    verify,
};
use hobt_types::PhysicalType;

const GUID: [u8; 16] = *b"0123456789abcdef";

fn tag() -> u32 {
    file_header().database_tag()
}

fn file_header() -> FileHeader {
    FileHeader {
        database_guid: GUID,
        file: FileId(1),
        filegroup: FilegroupId(1),
        size_pages: 800,
        growth_pages: 8,
        growth_percent: 0,
        max_pages: 0,
        clean: true,
        generation: 41,
        log_end: Lsn(4711),
        name: "Überbau".to_owned(),
    }
}

fn boot() -> BootPage {
    BootPage {
        database_guid: GUID,
        next_object: ObjectId(4000),
        next_data_space: 3,
        next_hobt: HobtId(90),
        max_stamp: Stamp(17),
        created: -5,
        name: "tests".to_owned(),
        options: 0x8765_4321,
        hobts: vec![SystemHobt { hobt: HobtId(1), run_list: PageId::new(FileId(1), 8) }; 20],
    }
}

fn formatted(page_type: PageType, number: u32) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let header = PageHeader::new(page_type, PageId::new(FileId(1), number), tag(), HobtId(9));
    apply(&mut page, None, &PageChange::Format { header }).expect("sound");
    page
}

/// A sealed page of each type, with its number.
pub(crate) fn pages() -> Vec<(u32, Box<PageBytes>)> {
    let mut map = formatted(PageType::AllocationMap, 2);
    let (offset, bytes) = AllocationMap::set_bytes(&map, 3, 77, true);
    apply(&mut map, None, &PageChange::Write { offset, bytes }).expect("sound");
    seal(&mut map);
    let mut list = formatted(PageType::RunList, 8);
    let run = Run { first: PageId::new(FileId(1), 8), page_count: 8, used: 1, skip: 1, contents: RunContents::Rows };
    let (offset, bytes) = RunListPage::entry_bytes(0, &run);
    apply(&mut list, None, &PageChange::Write { offset, bytes }).expect("sound");
    seal(&mut list);
    let rows = RowLayout::new(vec![
        ColumnLayout { physical: PhysicalType::Fixed4, nullable: true },
        ColumnLayout { physical: PhysicalType::Variable, nullable: false },
    ]);
    let mut bulk = Box::new([0; PAGE_SIZE]);
    let header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 9), tag(), HobtId(9));
    let mut page = BulkPageBuilder::new(&rows).start(&mut bulk, header, 3);
    page.column(0, BulkColumn::Fixed(&[1; 12]), None);
    page.column(1, BulkColumn::Variable(&[b"a", b"", b"ccc"]), None);
    page.finish();
    let piece = [7; 3000];
    let header = LargeValuePage::header(PageId::new(FileId(1), 11), tag(), HobtId(9), &piece, PageId::default());
    let mut large = Box::new([0; PAGE_SIZE]);
    LargeValuePage::build(&mut large, &header, 0, &piece);
    vec![
        (2, map),
        (8, list),
        (9, bulk),
        (11, large),
        (0, file_header().to_page(0)),
        (BOOT_PAGE, boot().to_page(BOOT_PAGE)),
    ]
}

#[test]
fn every_flipped_bit_is_found_in_every_page() {
    for (number, mut page) in pages() {
        let id = PageId::new(FileId(1), number);
        verify(&page, id, tag()).expect("sound");
        for at in (0..PAGE_SIZE).filter(|at| *at < 600 || at % 7 == 0) {
            for bit in 0..8 {
                page[at] ^= 1 << bit;
                assert!(verify(&page, id, tag()).is_err(), "page {number} byte {at} bit {bit}");
                page[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    assert_eq!(FileHeader::read(&file_header().to_page(1)), Ok(file_header()));
    assert_eq!(BootPage::read(&boot().to_page(BOOT_PAGE)), Ok(boot()));
    let mut random = SplitMix64::new(4);
    let mut page = formatted(PageType::AllocationMap, 2);
    let mut model = vec![false; 5000];
    for _ in 0..200 {
        let first = random.below(4900) as usize;
        let count = 1 + random.below(100) as usize;
        let allocated = random.below(2) == 0;
        let (offset, bytes) = AllocationMap::set_bytes(&page, first as u32, count as u32, allocated);
        apply(&mut page, None, &PageChange::Write { offset, bytes }).expect("sound");
        model[first..first + count].fill(allocated);
        assert!(model.iter().zip(0..).all(|(bit, extent)| AllocationMap::is_allocated(&page, extent) == *bit));
    }
}
