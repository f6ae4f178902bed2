//! Fuzz targets: a page of any bytes, and a sequence of changes that a log could hold. The driver is
//! `hobt_testing::FuzzTarget`; the corpora are in `__fuzz__` beside this file.
//!
//! ```text
//! page:    bytes of the layout u8 │ layout │ change Image
//! changes: bytes of the layout u8 │ layout │ ( bytes of the change u16 │ change )*
//! ```

use std::cmp::Ordering;

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SlotId, Stamp};
use hobt_page::{
    BootPage, ColumnLayout, EncodingDamage, EncodingReader, FileHeader, IndexPage, LargeValuePage, PageBytes,
    PageChange, PageDamage, PageHeader, PageType, RowImage, RowLayout, RowPage, RunListPage, StoredValue, ValuePointer,
    apply, check_index_page, check_row_page, seal, verify,
};
use hobt_testing::{check_corpus, fuzz_target};
use hobt_types::PhysicalType;

/// A layout of 1024 columns and a few copies of a page, and what an encoding unfolds to.
const LIMIT: (usize, usize) = (512 << 10, 64);

fuzz_target!(page, LIMIT, |bytes| {
    let _read_or_damage = read_any_page(bytes);
});

fuzz_target!(changes, LIMIT, |bytes| {
    let _applied_or_damage = apply_any_changes(bytes);
});

/// The layout in front of an input. Asserts that it is encoded in one way.
fn layout(reader: &mut EncodingReader<'_>) -> Result<RowLayout, EncodingDamage> {
    let count = usize::from(reader.u8()?);
    let bytes = reader.bytes(count)?;
    let layout = RowLayout::decode(bytes)?;
    assert_eq!(encoded(|out| layout.encode(out)), bytes);
    Ok(layout)
}

/// The change in these bytes. Asserts that it is encoded in one way.
fn change(bytes: &[u8]) -> Result<PageChange, EncodingDamage> {
    let change = PageChange::decode(bytes)?;
    assert_eq!(encoded(|out| change.encode(out)), bytes, "two encodings of {change:?}");
    Ok(change)
}

fn read_any_page(bytes: &[u8]) -> Result<(), EncodingDamage> {
    let mut reader = EncodingReader::new(bytes);
    let rows = layout(&mut reader)?;
    let PageChange::Image { mut bytes } = change(reader.rest())? else { return Ok(()) };
    let Ok(header) = PageHeader::read(&bytes) else { return Ok(()) };
    let _rows_or_damage = read_rows(&bytes, &rows);
    let _entries_or_damage = read_entries(&bytes);
    let _piece_or_damage = LargeValuePage::read(&bytes, header.hobt);
    for (index, run) in RunListPage::read(&bytes).into_iter().flatten().enumerate() {
        let _pages = (run.used_end(), run.row_pages(), run.row_page_count());
        let (offset, entry) = RunListPage::entry_bytes(index, &run);
        let mut copy = bytes.clone();
        copy[usize::from(offset)..usize::from(offset) + entry.len()].copy_from_slice(&entry);
        assert_eq!(RunListPage::read(&copy).map(|runs| runs[index]), Ok(run));
    }
    if let Ok(file) = FileHeader::read(&bytes) {
        assert_eq!(FileHeader::read(&file.to_page(0)), Ok(file));
    }
    if let Ok(boot) = BootPage::read(&bytes) {
        assert_eq!(BootPage::read(&boot.to_page(9)), Ok(boot));
    }
    seal(&mut bytes);
    if bytes != Box::new([0; PAGE_SIZE]) && header.page_type != PageType::Unformatted {
        verify(&bytes, header.page, header.database_tag).expect("sealed");
    }
    Ok(())
}

fn read_rows(bytes: &PageBytes, rows: &RowLayout) -> Result<(), PageDamage> {
    let is_sound = check_row_page(bytes, rows).is_ok();
    let page = RowPage::open(bytes, rows)?;
    for slot in page.order() {
        let slot = slot?;
        let image = page.row_image(slot);
        assert!(image.is_ok() || !is_sound, "a sound page has sound rows");
        let _split_or_damage = page.split(page.row_count() / 2, &image?);
        let _is_deleted = page.is_deleted(slot);
    }
    for column in 0..rows.columns().len() {
        let _extents = (page.extents(column), page.null_count(column));
        let _is_ascii = rows.variable_rank(column).map(|_| page.is_ascii(column));
    }
    page.find(|slot| page.stored(0, slot).map(|_| Ordering::Less)).map(drop)
}

fn read_entries(bytes: &PageBytes) -> Result<(), PageDamage> {
    let is_sound = check_index_page(bytes).is_ok();
    let page = IndexPage::open(bytes)?;
    for index in 0..page.len() {
        let entry = page.entry(index);
        assert!(entry.is_ok() || !is_sound, "a sound page has sound entries");
        let (key, child) = entry?;
        assert!(!is_sound || page.child_for(key) == Ok(child), "a key is found again");
        let _split_or_damage = page.split(index, key.len());
    }
    let _free = page.free_bytes();
    page.child_for(b"key").map(drop)
}

fn apply_any_changes(bytes: &[u8]) -> Result<(), EncodingDamage> {
    let mut reader = EncodingReader::new(bytes);
    let rows = layout(&mut reader)?;
    let mut page = Box::new([0; PAGE_SIZE]);
    // As many as a page of a log could get between two checkpoints, and still fast.
    for _ in 0..64 {
        let length = usize::from(reader.u16()?);
        let change = change(reader.bytes(length)?)?;
        // Recovery gives no layout to pages that have no rows.
        let has_rows = page[5] == PageType::Row as u8 || matches!(change, PageChange::Format { .. });
        let rows = has_rows.then_some(&rows);
        if change.check(&page, rows).is_err() {
            continue;
        }
        if let Ok(Some(undo)) = apply(&mut page, rows, &change)
            && undo.check(&page, rows).is_ok()
        {
            let mut copy = page.clone();
            let _undone_or_damage = apply(&mut copy, rows, &undo);
        }
    }
    Ok(())
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// The layouts of the corpora: a table, its clustered index, a wide table.
fn layouts() -> [RowLayout; 3] {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    let columns = vec![
        column(PhysicalType::Fixed4, true),
        column(PhysicalType::Variable, false),
        column(PhysicalType::Fixed1, false),
        column(PhysicalType::Variable, true),
    ];
    let widths = [PhysicalType::Fixed2, PhysicalType::Fixed8, PhysicalType::Fixed16];
    let wide = (0..60).map(|number| column(widths[number % 3], number % 2 == 0)).collect();
    [RowLayout::new(columns.clone()), RowLayout::new(columns).ordered(), RowLayout::new(wide)]
}

/// A row of a layout, whose values follow from a number.
fn row(rows: &RowLayout, number: u8) -> RowImage {
    let bytes = [number; 16];
    let pointer = ValuePointer { length: 9000, first: PageId::new(FileId(1), 8), checksum: 7 };
    RowImage::of_stored(rows.columns().iter().enumerate().map(|(place, column)| match column.physical.width() {
        _ if column.nullable && (usize::from(number) + place).is_multiple_of(5) => StoredValue::Null,
        Some(width) => StoredValue::InRow(&bytes[..width]),
        None if number == 7 => StoredValue::Pointer(pointer),
        None => StoredValue::InRow(&bytes[..usize::from(number) % 9]),
    }))
}

/// The changes of a page's life, one list for each kind of page.
fn lives() -> Vec<(RowLayout, Vec<PageChange>)> {
    let writer = Stamp(3);
    let format = |page_type, capacity, level| {
        let mut header = PageHeader::new(page_type, PageId::new(FileId(1), 8), 7, HobtId(9));
        (header.capacity, header.level) = (capacity, level);
        PageChange::Format { header }
    };
    let mut lives = Vec::new();
    for rows in layouts() {
        let mut changes = vec![format(PageType::Row, 12, 0)];
        for number in 0..9 {
            let row = row(&rows, number);
            changes.push(match rows.is_ordered() {
                true => PageChange::InsertRow { position: u16::from(number) / 2, row, writer },
                false => PageChange::AppendRow { row, writer },
            });
        }
        changes.push(PageChange::SetDeleted { slot: SlotId(2), deleted: true, writer });
        changes.push(PageChange::ReplaceRow { slot: SlotId(1), row: row(&rows, 8), writer });
        changes.extend(match rows.is_ordered() {
            true => [
                PageChange::RemoveRow { position: 4, writer },
                PageChange::KeepRows { from: 1, to: 6, drop_deleted: true, writer },
            ],
            false => [
                PageChange::RemoveLastRow { writer },
                PageChange::SetDeleted { slot: SlotId(0), deleted: true, writer },
            ],
        });
        lives.push((rows, changes));
    }
    let child = PageId::new(FileId(1), 77);
    let mut index = vec![format(PageType::Index, 0, 1), PageChange::SetLeftmost { child }];
    index.extend((0..8).map(|number| PageChange::InsertEntry { position: number, key: vec![number as u8; 5], child }));
    index.extend([PageChange::RemoveEntry { position: 2 }, PageChange::KeepEntries { from: 1, to: 5 }]);
    let [rows, other, _] = layouts();
    lives.push((rows, index));
    let mut header = PageHeader::new(PageType::RunList, PageId::new(FileId(1), 8), 7, HobtId(9));
    header.row_count = 1;
    let bytes = vec![1; 40];
    lives.push((
        other,
        vec![
            format(PageType::RunList, 0, 0),
            PageChange::Write { offset: 64, bytes },
            PageChange::SetHeader { header },
        ],
    ));
    lives
}

#[test]
fn the_corpora_are_what_is_made_here() {
    let input = |rows: &RowLayout, rest: &[u8]| {
        let layout = encoded(|out| rows.encode(out));
        [&[layout.len() as u8][..], &layout, rest].concat()
    };
    let image = |bytes: &PageBytes| encoded(|out| PageChange::Image { bytes: Box::new(*bytes) }.encode(out));
    let (mut pages, mut sequences) = (Vec::new(), Vec::new());
    for (rows, changes) in lives() {
        let mut page = Box::new([0; PAGE_SIZE]);
        let mut sequence = Vec::new();
        for change in &changes {
            change.check(&page, Some(&rows)).expect("a change of this page");
            apply(&mut page, Some(&rows), change).expect("sound").expect("room");
            let bytes = encoded(|out| change.encode(out));
            sequence.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            sequence.extend_from_slice(&bytes);
            // Before a change that other entries go beyond, the page is an entry of its own.
            if matches!(
                change,
                PageChange::SetDeleted { .. } | PageChange::RemoveEntry { .. } | PageChange::KeepRows { .. }
            ) {
                pages.push(input(&rows, &image(&page)));
                sequences.push(input(&rows, &sequence));
            }
        }
        sequences.push(input(&rows, &sequence));
        pages.push(input(&rows, &image(&page)));
        let restored = encoded(|out| PageChange::Image { bytes: page }.encode(out));
        sequences.push(input(&rows, &[&(restored.len() as u16).to_le_bytes()[..], &restored].concat()));
    }
    let [rows, ..] = layouts();
    pages.extend(crate::flips::pages().iter().map(|(_, page)| input(&rows, &image(page))));
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "page", &pages);
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "changes", &sequences);
}
