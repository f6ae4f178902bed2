//! One damage for each structure and each meaningful field, and the errors that report it.

use hobt_base::{FileId, PageId, SlotId, Stamp};
use hobt_catalog::SystemTable;
use hobt_page::{
    AllocationMap, BOOT_COPY_PAGE, BOOT_PAGE, IndexPage, PageChange, PageType, Run, RunContents, RunListPage, apply,
};

use hobt_types::statistics::{Summary, encode};

use super::world::{NEXT_IDENTITY, Outcome, World, world, world_of_many_runs};

const TYPE: usize = 5;
const FLAGS: usize = 6;
const TAG: usize = 8;
const FILE: usize = 12;
const COLUMNS: usize = 14;
const NUMBER: usize = 16;
const VERSION: usize = 20;
const HOBT: usize = 24;
const LSN: usize = 32;
const WRITER: usize = 40;
const ROWS: usize = 48;
const CAPACITY: usize = 50;
const DELETED: usize = 52;
const LEVEL: usize = 54;
const KEPT: usize = 55;
const NEXT: usize = 56;
/// The first byte after the header.
const BODY: usize = 64;
/// The allocation map of the file.
const MAP: u32 = 2;

/// A database that cannot be used.
const SUSPECT: i32 = 926;

/// What is damaged, how, and the errors of which at least one must occur. The function returns the page that an error
/// must name, or 0 if the database is refused, or another page is named.
type Damage = (&'static str, fn(&mut World) -> u32, &'static [i32]);

/// Changes a number of two bytes.
fn add(world: &mut World, page: u32, at: usize, by: i16) -> u32 {
    let found = u16::from_le_bytes([world.page(page)[at], world.page(page)[at + 1]]);
    world.put(page, at, &found.wrapping_add_signed(by).to_le_bytes())
}

fn heap(world: &World) -> u32 {
    world.rows_page("heap", 0, 1)
}

fn leaf(world: &World) -> u32 {
    world.rows_page("tree", 0, 2)
}

/// Where an entry of an index page begins: its child, then its key.
fn entry_at(world: &World, page: u32, index: usize) -> usize {
    let slot = BODY + 8 + 4 * index;
    usize::from(u16::from_le_bytes([world.page(page)[slot], world.page(page)[slot + 1]]))
}

fn set_child(world: &mut World, index: usize, child: u32) -> u32 {
    let root = world.root("tree", 0);
    let at = entry_at(world, root, index);
    world.put(root, at, &child.to_le_bytes());
    child
}

fn child_of(world: &World, index: usize) -> u32 {
    IndexPage::open(world.page(world.root("tree", 0))).expect("a root").entry(index).expect("an entry").1.number
}

/// Applies a change of rows.
fn change(world: &mut World, table: &str, place: usize, page: u32, change: &PageChange) -> u32 {
    let rows = world.layout(table, place);
    world.edit(page, |bytes| {
        apply(bytes, Some(&rows), change).expect("a sound change").expect("it has room");
    });
    page
}

fn delete(world: &mut World, table: &str, place: usize, page: u32, slot: u16) -> u32 {
    let deleted = PageChange::SetDeleted { slot: SlotId(slot), deleted: true, writer: Stamp(1) };
    change(world, table, place, page, &deleted)
}

fn put_value(world: &mut World, table: &str, page: u32, column: usize, slot: usize, value: &[u8]) -> u32 {
    let at = world.place_of(table, 0, page, column, slot);
    world.put(page, at, value)
}

fn put_type(world: &mut World, column: usize, value: &[u8]) -> u32 {
    let page = world.rows_page("types", 0, 0);
    put_value(world, "types", page, column, 1, value)
}

/// The offset of the bytes of a text column in a page.
fn text_at(world: &World, table: &str, place: usize, page: u32, column: usize) -> usize {
    let rows = world.layout(table, place);
    let view = hobt_page::RowPage::open(world.page(page), &rows).expect("a sound page");
    view.extents(column)[1].0
}

/// The offsets of a variable-length column's end offsets, and of its area starts.
fn ends_at(world: &World, table: &str, place: usize, page: u32, column: usize) -> (usize, usize) {
    let rows = world.layout(table, place);
    let layout = rows.page_layout(world.header(page).capacity).expect("a sound page");
    (usize::from(layout.values[column]), usize::from(layout.area_starts))
}

/// Replaces a run in a run list.
fn put_run(world: &mut World, table: &str, index: usize, change: impl FnOnce(Run) -> Run) -> u32 {
    let page = world.list_page(table, 0);
    let run = RunListPage::read(world.page(page)).expect("a run list")[index];
    let (at, bytes) = RunListPage::entry_bytes(index, &change(run));
    world.put(page, at.into(), &bytes)
}

fn value_page(world: &World, nth: usize) -> u32 {
    world.pages_of(world.hobt("long", 0), PageType::LargeValue)[nth]
}

fn set_allocated(world: &mut World, page: u32, allocated: bool) -> u32 {
    let (at, bytes) = AllocationMap::set_bytes(world.page(MAP), page / 8, 1, allocated);
    world.put(MAP, at.into(), &bytes);
    page / 8 * 8
}

fn rowset_of(world: &World, table: &str) -> [u8; 8] {
    world.hobt(table, 0).0.to_le_bytes()
}

#[rustfmt::skip]
const HEADERS: &[Damage] = &[
    ("the type of a row page", |w| { let p = heap(w); w.put(p, TYPE, &[2]) }, &[2533, 8939]),
    ("a type that there is not", |w| { let p = heap(w); w.put(p, TYPE, &[99]) }, &[2533]),
    ("the format", |w| { let p = heap(w); w.put(p, 4, &[9]) }, &[8928]),
    ("a flag that there is not", |w| { let p = heap(w); w.put(p, FLAGS + 1, &[1]) }, &[8939]),
    ("a heap's page that says it is ordered", |w| { let p = heap(w); w.put(p, FLAGS, &[4]) }, &[8939]),
    ("a heap's page that says it is free", |w| { let p = heap(w); w.put(p, FLAGS, &[8]) }, &[8939]),
    ("the tag", |w| { let p = heap(w); add(w, p, TAG, 1) }, &[8928]),
    ("the address", |w| { let p = heap(w); add(w, p, NUMBER, 1) }, &[8909]),
    ("the file in the address", |w| { let p = heap(w); add(w, p, FILE, 1) }, &[8909]),
    ("the owner", |w| { let p = heap(w); add(w, p, HOBT, 1) }, &[2533]),
    ("the owner of a leaf", |w| { let p = leaf(w); add(w, p, HOBT, 1) }, &[2533]),
    ("a log sequence number behind the end of the log", |w| { let p = heap(w); w.put(p, LSN + 5, &[9]) }, &[8939]),
    ("the same of a leaf", |w| { let p = leaf(w); w.put(p, LSN + 5, &[9]) }, &[8939]),
    ("a writer that there was not", |w| { let p = heap(w); w.put(p, WRITER + 6, &[9]) }, &[8939]),
    ("the number of columns", |w| { let p = heap(w); add(w, p, COLUMNS, 1) }, &[8939]),
    ("the layout version", |w| { let p = heap(w); w.put(p, VERSION, &[2]) }, &[8939]),
    ("no layout version", |w| { let p = heap(w); w.put(p, VERSION, &[0]) }, &[8939]),
    ("the layout version of a leaf", |w| { let p = leaf(w); w.put(p, VERSION + 3, &[1]) }, &[8939]),
    ("the layout version of an index page", |w| { let p = w.root("tree", 0); w.put(p, VERSION, &[7]) }, &[8939]),
    ("one row more", |w| { let p = heap(w); add(w, p, ROWS, 1) }, &[8939]),
    ("one row less", |w| { let p = heap(w); add(w, p, ROWS, -1); 0 }, &[2508, 8939]),
    ("more rows than slots", |w| { let p = heap(w); add(w, p, ROWS, 5000) }, &[8939]),
    ("the slots", |w| { let p = heap(w); add(w, p, CAPACITY, 8) }, &[8939]),
    ("more slots than fit", |w| { let p = heap(w); w.put(p, CAPACITY, &[0xFF, 0xFF]) }, &[8939]),
    ("the number of deleted rows", |w| { let p = heap(w); add(w, p, DELETED, 1) }, &[8939]),
    ("more deleted rows than rows", |w| { let p = heap(w); add(w, p, DELETED, 5000) }, &[8939]),
    ("the level of a heap's page", |w| { let p = heap(w); w.put(p, LEVEL, &[1]) }, &[8939]),
    ("a byte that is kept for later", |w| { let p = heap(w); w.put(p, KEPT, &[1]) }, &[8939]),
    ("the next page of a heap's page", |w| { let p = heap(w); w.put(p, NEXT, &[1]) }, &[8939]),
];

#[rustfmt::skip]
const ROW_PAGES: &[Damage] = &[
    ("a count of NULLs", |w| { let p = heap(w); add(w, p, BODY + 2, 1) }, &[8939]),
    ("a count of NULLs of a column that has none", |w| { let p = heap(w); add(w, p, BODY, 1) }, &[8939]),
    ("the bit of a NULL", |w| {
        let p = heap(w);
        let rows = w.layout("heap", 0);
        let at = usize::from(rows.page_layout(w.header(p).capacity).expect("sound").validity[1]);
        let byte = w.page(p)[at] ^ 4;
        w.put(p, at, &[byte])
    }, &[8939]),
    ("the bit of a deleted row", |w| {
        let p = heap(w);
        let rows = w.layout("heap", 0);
        let at = usize::from(rows.page_layout(w.header(p).capacity).expect("sound").deleted);
        w.put(p, at, &[2])
    }, &[8939]),
    ("a row that is deleted and counted", |w| { let p = heap(w); delete(w, "heap", 0, p, 3); 0 }, &[2508]),
    ("a bit that is 7", |w| put_type(w, 0, &[7]), &[2570]),
    ("a date beyond the last", |w| put_type(w, 1, &[0, 0, 0, 0x70]), &[2570]),
    ("a time of more than a day", |w| put_type(w, 2, &[0, 0, 0, 0, 0, 0, 0, 1]), &[2570]),
    ("a datetime before the first", |w| put_type(w, 3, &[0, 0, 0, 0, 0, 0, 0, 0x90]), &[2570]),
    ("a decimal of too many digits", |w| put_type(w, 4, &1_000_000i32.to_le_bytes()), &[2570]),
    ("a large decimal of too many digits", |w| put_type(w, 5, &i128::MAX.to_le_bytes()), &[2570]),
    ("a real that is no number", |w| put_type(w, 6, &f32::NAN.to_le_bytes()), &[2570]),
    ("a float that has no end", |w| put_type(w, 7, &f64::NEG_INFINITY.to_le_bytes()), &[2570]),
    ("text that is not UTF-8", |w| {
        let p = w.rows_page("types", 0, 0);
        let at = text_at(w, "types", 0, p, 10);
        w.put(p, at + 1, &[0xFF])
    }, &[2570]),
    ("text that is not ASCII where all is", |w| {
        let p = heap(w);
        let at = text_at(w, "heap", 0, p, 1);
        w.put(p, at, &[0xC3, 0xA4])
    }, &[8939]),
    ("an end offset that falls", |w| {
        let p = heap(w);
        let (ends, _) = ends_at(w, "heap", 0, p, 1);
        w.put(p, ends + 20, &[0, 0])
    }, &[8939]),
    ("an end offset behind its area", |w| {
        let p = heap(w);
        let (ends, _) = ends_at(w, "heap", 0, p, 1);
        let last = ends + 2 * usize::from(w.header(p).row_count - 1);
        w.put(p, last, &[0xFF, 0x7F])
    }, &[8939]),
    ("the start of an area", |w| {
        let p = heap(w);
        let (_, starts) = ends_at(w, "heap", 0, p, 1);
        w.put(p, starts, &[0, 0])
    }, &[8939]),
    ("the end of the last area", |w| {
        let p = heap(w);
        let (_, starts) = ends_at(w, "heap", 0, p, 1);
        w.put(p, starts + 2, &[0xFF, 0x7F])
    }, &[8939]),
    ("a fixed binary of another length", |w| {
        let p = w.rows_page("types", 0, 0);
        let (ends, _) = ends_at(w, "types", 0, p, 8);
        add(w, p, ends + 2, -1)
    }, &[2570]),
    ("a slot twice in the order", |w| {
        let p = leaf(w);
        let order = usize::from(w.layout("tree", 0).page_layout(w.header(p).capacity).expect("sound").order);
        let width = w.layout("tree", 0).page_layout(w.header(p).capacity).expect("sound").order_width();
        let first = w.page(p)[order..order + width].to_vec();
        w.put(p, order + width, &first)
    }, &[8939]),
    ("a slot in the order that is not in use", |w| {
        let p = leaf(w);
        let order = usize::from(w.layout("tree", 0).page_layout(w.header(p).capacity).expect("sound").order);
        w.put(p, order, &[0xFF, 0xFF])
    }, &[8939]),
];

#[rustfmt::skip]
const TREES: &[Damage] = &[
    ("the order of keys", |w| {
        let p = leaf(w);
        let slot = hobt_page::RowPage::open(w.page(p), &w.layout("tree", 0)).expect("sound").slot_at(5).expect("sound");
        put_value(w, "tree", p, 0, slot, &0i32.to_le_bytes())
    }, &[2511, 8934]),
    ("a key beyond the separator", |w| {
        let p = leaf(w);
        let last = usize::from(w.header(p).row_count) - 1;
        let slot =
            hobt_page::RowPage::open(w.page(p), &w.layout("tree", 0)).expect("sound").slot_at(last).expect("sound");
        put_value(w, "tree", p, 0, slot, &i32::MAX.to_le_bytes())
    }, &[8934]),
    ("a separator", |w| {
        let root = w.root("tree", 0);
        let at = entry_at(w, root, 2) + 6 + 3;
        add(w, root, at - 1, 0x0100);
        0
    }, &[8934]),
    ("the order of separators", |w| {
        let root = w.root("tree", 0);
        let at = entry_at(w, root, 2) + 6;
        w.put(root, at, &[0])
    }, &[8939]),
    ("the level of a leaf", |w| { let p = leaf(w); w.put(p, LEVEL, &[1]) }, &[2533, 8939]),
    ("the level of the root", |w| { let p = w.root("tree", 0); w.put(p, LEVEL, &[2]); 0 }, &[8931]),
    ("a leaf whose next is the one after", |w| {
        let p = leaf(w);
        let next = w.header(w.header(p).next.number).next.number;
        w.put(p, NEXT, &next.to_le_bytes())
    }, &[8936]),
    ("a leaf without a next", |w| { let p = leaf(w); w.put(p, NEXT, &[0; 6]) }, &[8936]),
    ("a leaf whose next is itself", |w| { let p = leaf(w); w.put(p, NEXT, &p.to_le_bytes()) }, &[8936]),
    ("a child of another tree", |w| { let p = w.rows_page("alike", 0, 0); set_child(w, 1, p) }, &[8980]),
    ("a child that is free", |w| { let p = w.page_count() - 1; set_child(w, 1, p) }, &[8980]),
    ("a child behind the end of the file", |w| set_child(w, 1, 1 << 30), &[8980]),
    ("a child that is the root", |w| { let p = w.root("tree", 0); set_child(w, 1, p) }, &[8937]),
    ("a child twice", |w| { let p = child_of(w, 2); set_child(w, 1, p) }, &[8937]),
    ("a child in a file that is not there", |w| {
        let root = w.root("tree", 0);
        let at = entry_at(w, root, 1) + 4;
        w.put(root, at, &[9, 0]);
        0
    }, &[8980]),
    ("a leaf to which nothing leads", |w| {
        let (root, lost) = (w.root("tree", 0), child_of(w, 3));
        change(w, "tree", 0, root, &PageChange::RemoveEntry { position: 3 });
        lost
    }, &[8979]),
    ("a leaf that is there and says it is free", |w| { let p = leaf(w); w.put(p, FLAGS, &[12]); 0 }, &[8939, 2508]),
    ("two rows with one hidden number", |w| {
        let p = w.rows_page("alike", 0, 0);
        let view = hobt_page::RowPage::open(w.page(p), &w.layout("alike", 0)).expect("sound").slot_at(1).expect("sound");
        put_value(w, "alike", p, 3, view, &0i32.to_le_bytes())
    }, &[2511]),
    ("the slot of an entry of an index page", |w| { let p = w.root("tree", 0); add(w, p, BODY + 8, 3) }, &[8939]),
    ("the bytes of entries of an index page", |w| { let p = w.root("tree", 0); add(w, p, BODY + 6, 1) }, &[8939]),
];

#[rustfmt::skip]
const INDEXES: &[Damage] = &[
    ("an included value", |w| {
        let p = w.rows_page("heap", 1, 0);
        let at = text_at(w, "heap", 1, p, 2);
        w.put(p, at, b"X");
        0
    }, &[8951]),
    ("the reference of a row", |w| {
        let p = w.rows_page("heap", 1, 0);
        let at = w.place_of("heap", 1, p, 1, 3);
        add(w, p, at, 500);
        0
    }, &[8951, 8952, 2511]),
    ("an entry that is missing", |w| {
        let p = w.rows_page("heap", 1, 0);
        delete(w, "heap", 1, p, 3);
        w.count_rows("heap", 1, -1);
        0
    }, &[8951]),
    ("an entry that is too many", |w| {
        let p = heap(w);
        delete(w, "heap", 0, p, 3);
        w.count_rows("heap", 0, -1);
        0
    }, &[8952]),
    ("a row of the table that has another key", |w| {
        let p = heap(w);
        put_value(w, "heap", p, 2, 3, &77_777i32.to_le_bytes());
        0
    }, &[8951, 8952]),
    ("text of a key column that is not UTF-8", |w| {
        let p = leaf(w);
        let at = text_at(w, "tree", 0, p, 1);
        let (_, starts) = ends_at(w, "tree", 0, p, 1);
        // The flag says that the text is not all ASCII.
        let high = w.page(p)[starts + 1] | 0x80;
        w.put(p, starts + 1, &[high]);
        w.put(p, at + 1, &[0xFF])
    }, &[2570]),
];

#[rustfmt::skip]
const EXTENTS: &[Damage] = &[
    ("the count of rows", |w| { w.count_rows("heap", 0, 5); 0 }, &[2508]),
    ("the slots of a run list, which has none", |w| { let p = w.list_page("heap", 0); add(w, p, CAPACITY, 1) }, &[8939]),
    ("the owner of a run list", |w| { let p = w.list_page("heap", 0); add(w, p, HOBT, 1) }, &[2533]),
    ("more entries of a run list", |w| { let p = w.list_page("heap", 0); add(w, p, ROWS, 1) }, &[8939]),
    ("more entries than a run list has", |w| { let p = w.list_page("heap", 0); add(w, p, ROWS, 5000) }, &[8939]),
    ("a run list without its last run", |w| { let p = w.list_page("long", 0); add(w, p, ROWS, -1); 0 }, &[8905, 8939]),
    ("a run list that returns to itself", |w| {
        let p = w.list_page("heap", 0);
        w.put(p, NEXT, &p.to_le_bytes());
        w.put(p, NEXT + 4, &[1, 0])
    }, &[8939]),
    ("the log sequence number of a run list", |w| { let p = w.list_page("heap", 0); w.put(p, LSN + 5, &[9]) }, &[8939]),
    ("a run of pages that are not formatted", |w| {
        put_run(w, "types", 0, |run| Run { used: run.page_count, ..run });
        0
    }, &[2533, 8928]),
    ("a run with fewer pages than have rows", |w| { put_run(w, "types", 0, |run| Run { used: 1, ..run }); 0 }, &[2508]),
    ("more pages used than a run has", |w| put_run(w, "types", 0, |run| Run { used: 99, ..run }), &[8939]),
    ("a run that is not the list's own", |w| put_run(w, "types", 0, |run| Run { skip: 0, ..run }), &[8939]),
    ("a run in a file that is not there", |w| {
        put_run(w, "long", 1, |run| Run { first: PageId::new(FileId(7), run.first.number), ..run })
    }, &[8939]),
    ("a run behind the end of the file", |w| {
        put_run(w, "long", 1, |run| Run { first: PageId::new(FileId(1), 80_000), ..run })
    }, &[8939]),
    ("a run that overlaps another of the list", |w| {
        let first = PageId::new(FileId(1), w.list_page("long", 0));
        put_run(w, "long", 1, |run| Run { first, ..run })
    }, &[8939]),
    ("a run that is another table's too", |w| {
        let first = PageId::new(FileId(1), w.list_page("types", 0));
        put_run(w, "long", 1, |run| Run { first, page_count: 8, used: run.used.min(8), ..run });
        0
    }, &[8904]),
    ("a run of rows that says it has large values", |w| {
        put_run(w, "long", 1, |run| Run { contents: RunContents::Rows, skip: 0, ..run });
        0
    }, &[2533, 8939]),
    ("an extent that is in use and free", |w| {
        let p = w.rows_page("heap", 0, 0);
        set_allocated(w, p, false);
        w.list_page("heap", 0)
    }, &[8939]),
    ("an extent that is allocated and nothing's", |w| {
        let p = w.page_count() - 8;
        set_allocated(w, p, true)
    }, &[8905]),
    ("an extent of the map behind the end of the file", |w| { w.put(MAP, 4000, &[1]) }, &[8939]),
    ("the type of the map", |w| { w.put(MAP, TYPE, &[1]); 0 }, &[SUSPECT, 824]),
    ("the owner of the map", |w| w.put(MAP, HOBT, &[1]), &[8939]),
    ("the log sequence number of the map", |w| w.put(MAP, LSN + 5, &[9]), &[8939]),
];

#[rustfmt::skip]
const FILE_PAGES: &[Damage] = &[
    ("the name in a header", |w| { w.put(0, 114, b"X"); 0 }, &[SUSPECT]),
    ("the name in the copy of a header", |w| w.put(1, 114, b"X"), &[8939]),
    ("the growth in the copy of a header", |w| w.put(1, 96, &[1]), &[8939]),
    ("the magic of a header", |w| w.put(0, 64, b"X"), &[8939]),
    ("the size in a header", |w| { w.put(0, 94, &[1]); 0 }, &[SUSPECT]),
    ("the database in a header", |w| { w.put(0, 80, &[1, 2]); 0 }, &[SUSPECT]),
    ("the number of the file in a header", |w| { w.put(0, 88, &[9]); w.put(0, FILE, &[9]); 0 }, &[SUSPECT]),
    ("the end of the log in a header", |w| { w.put(0, 516, &[9]); 0 }, &[SUSPECT]),
    ("the magic of the boot page", |w| w.put(BOOT_PAGE, 64, b"X"), &[8939]),
    ("the copy of the boot page", |w| { w.put(BOOT_COPY_PAGE, 88, &[9]) }, &[8939]),
    ("where a system table is, in the boot page", |w| { w.put(BOOT_PAGE, 512 + 8, &[9]); 0 }, &[SUSPECT, 824]),
    ("the database in the boot page", |w| { w.put(BOOT_PAGE, 80, &[1, 2]); 0 }, &[SUSPECT]),
    ("how many system tables the boot page has", |w| { w.put(BOOT_PAGE, 120, &[3]); 0 }, &[SUSPECT]),
];

#[rustfmt::skip]
const VALUES: &[Damage] = &[
    ("the length of a piece", |w| { let p = value_page(w, 1); add(w, p, ROWS, -1) }, &[8939]),
    ("no length of a piece", |w| { let p = value_page(w, 1); w.put(p, ROWS, &[0, 0]) }, &[8939]),
    ("the place of a piece in its value", |w| { let p = value_page(w, 1); w.put(p, BODY, &[9]) }, &[8939]),
    ("a byte of a value", |w| { let p = value_page(w, 1); w.put(p, 3000, &[9]); 0 }, &[8928]),
    ("the next page of a piece", |w| { let p = value_page(w, 0); w.put(p, NEXT, &[0; 6]) }, &[8939]),
    ("a chain that returns to itself", |w| { let p = value_page(w, 1); w.put(p, NEXT, &p.to_le_bytes()) }, &[8939]),
    ("a piece in a page of another table", |w| {
        let (p, other) = (value_page(w, 0), heap(w));
        w.put(p, NEXT, &other.to_le_bytes());
        0
    }, &[2533]),
    ("the owner of a piece", |w| { let p = value_page(w, 1); add(w, p, HOBT, 1) }, &[2533]),
    ("two rows with one value", |w| {
        let p = w.rows_page("long", 0, 0);
        let at = text_at(w, "long", 0, p, 1);
        let pointer = w.page(p)[at..at + 24].to_vec();
        w.put(p, at + 24, &pointer);
        0
    }, &[8974]),
    ("the length in a pointer", |w| {
        let p = w.rows_page("long", 0, 0);
        let at = text_at(w, "long", 0, p, 1);
        w.put(p, at, &[1, 0]);
        0
    }, &[8939]),
    ("a pointer that is none", |w| {
        let p = w.rows_page("long", 0, 0);
        let at = text_at(w, "long", 0, p, 1);
        w.put(p, at + 20, &[1])
    }, &[8939]),
    ("a page of pointers that says it has none", |w| {
        let p = w.rows_page("long", 0, 0);
        w.put(p, FLAGS, &[0])
    }, &[8939]),
    ("a value in another partition", |w| {
        let p = w.rows_page("part", 0, 0);
        put_value(w, "part", p, 0, 3, &500i32.to_le_bytes())
    }, &[8984]),
];

#[rustfmt::skip]
const SYSTEM_TABLES: &[Damage] = &[
    ("an index whose HOBT is another", |w| {
        let key = rowset_of(w, "heap");
        w.set_in_system(SystemTable::Rowsets, ("rowsetid", &key), "rowsetid", &[1, 2, 3]);
        w.list_page("heap", 0)
    }, &[2533]),
    ("an index whose run list is elsewhere", |w| {
        let key = rowset_of(w, "heap");
        w.set_in_system(SystemTable::Rowsets, ("rowsetid", &key), "runpage", &0x7777i32.to_le_bytes());
        0
    }, &[8939]),
    ("an index whose run list is in no file", |w| {
        let key = rowset_of(w, "heap");
        w.set_in_system(SystemTable::Rowsets, ("rowsetid", &key), "runfile", &77i16.to_le_bytes());
        0
    }, &[8939]),
    ("a HOBT of two partitions", |w| {
        let (key, other) = (rowset_of(w, "heap"), rowset_of(w, "types"));
        w.set_in_system(SystemTable::Rowsets, ("rowsetid", &key), "rowsetid", &other);
        0
    }, &[SUSPECT]),
    ("the number of a partition", |w| {
        let key = rowset_of(w, "heap");
        w.set_in_system(SystemTable::Rowsets, ("rowsetid", &key), "numpart", &9i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("the type of a column", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Columns, ("id", &id), "xtype", &[1]);
        0
    }, &[SUSPECT]),
    ("a column twice", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Columns, ("id", &id), "colid", &2i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("a table twice", |w| {
        let (id, other) = (w.table("heap").id.0.to_le_bytes(), w.table("types").id.0.to_le_bytes());
        w.set_in_system(SystemTable::Objects, ("id", &id), "id", &other);
        0
    }, &[SUSPECT]),
    ("a table of no schema", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Objects, ("id", &id), "nsid", &99i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("an index of a column that there is not", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::IndexColumns, ("idmajor", &id), "intprop", &99i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("the kind of an index", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Indexes, ("id", &id), "type", &[9]);
        0
    }, &[SUSPECT]),
    ("how many boundaries a function has", |w| {
        let two = 2i32.to_le_bytes();
        w.set_in_system(SystemTable::Functions, ("boundaries", &two), "boundaries", &3i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("a scheme without its function", |w| {
        w.set_in_system(SystemTable::Schemes, ("name", b"ps"), "function", &99i32.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("the boundaries of a function out of order", |w| {
        let key = 100i32.to_le_bytes();
        for page in w.pages_of(SystemTable::Values.hobt(), PageType::Row) {
            let found = w.page(page).windows(4).position(|bytes| bytes == key);
            if let Some(at) = found {
                w.put(page, at, &300i32.to_le_bytes());
                break;
            }
        }
        0
    }, &[SUSPECT]),
    ("a sequence that goes nowhere", |w| {
        let name = sequence_id(w);
        w.set_in_system(SystemTable::Sequences, ("id", &name), "increment", &0i128.to_le_bytes());
        0
    }, &[SUSPECT]),
    ("a value of a system table that is none", |w| {
        let page = w.pages_of(SystemTable::Columns.hobt(), PageType::Row)[0];
        let nullable =
            SystemTable::Columns.columns().iter().position(|column| column.name == "nullable").expect("a column");
        put_value(w, SystemTable::Columns.name(), page, nullable, 0, &[7]);
        0
    }, &[SUSPECT, 2570]),
];

/// The location of the identity column's position, and of what was gathered for statistics.
fn position_at(world: &World) -> (u32, usize) {
    world.find_in_system(SystemTable::Values, &NEXT_IDENTITY.to_le_bytes())
}

fn image_at(world: &World) -> (u32, usize) {
    let mut image = Vec::new();
    encode(&Summary::empty(1), &mut image);
    world.find_in_system(SystemTable::StatisticsParts, &image)
}

#[rustfmt::skip]
const ADVICE: &[Damage] = &[
    ("a next value that the identity column's type has not", |w| {
        let (p, at) = position_at(w);
        w.put(p, at + 8, &[1])
    }, &[8992]),
    ("whether an identity column has had a value", |w| {
        let (p, at) = position_at(w);
        w.put(p, at + 16, &[7])
    }, &[8992]),
    ("a number of what was gathered for statistics", |w| {
        let (p, at) = image_at(w);
        w.put(p, at + 5, &[7])
    }, &[8992]),
    ("the version of what was gathered for statistics", |w| {
        let (p, at) = image_at(w);
        w.put(p, at, &[99])
    }, &[8992]),
    ("the number of a piece of statistics", |w| {
        let key = rowset_of(w, "heap");
        w.set_in_system(SystemTable::StatisticsParts, ("rowsetid", &key), "valnum", &3i32.to_le_bytes())
    }, &[8992]),
    ("the rows that statistics were of", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Statistics, ("id", &id), "unfilteredrows", &(-1i64).to_le_bytes())
    }, &[8992]),
    ("who wanted statistics", |w| {
        let id = w.table("heap").id.0.to_le_bytes();
        w.set_in_system(SystemTable::Statistics, ("id", &id), "origin", &[9])
    }, &[8992]),
];

/// A page of the heap's run list, which has three.
fn later_list_page(world: &World, nth: usize) -> u32 {
    let pages = world.list_pages("heap", 0);
    assert_eq!(pages.len(), 3, "a run list of three pages");
    pages[nth]
}

/// Replaces the second run of a later page of a run list; the first one is the page's own.
fn put_later_run(world: &mut World, page: u32, change: impl FnOnce(Run) -> Run) -> u32 {
    let run = RunListPage::read(world.page(page)).expect("a run list")[1];
    let (at, bytes) = RunListPage::entry_bytes(1, &change(run));
    world.put(page, at.into(), &bytes)
}

#[rustfmt::skip]
const LATER_LISTS: &[Damage] = &[
    ("the owner of the second page", |w| { let p = later_list_page(w, 1); add(w, p, HOBT, 1) }, &[2533, 8939]),
    ("the type of the third page", |w| { let p = later_list_page(w, 2); w.put(p, TYPE, &[1]) }, &[2533, 8939]),
    ("more entries than the third page has", |w| { let p = later_list_page(w, 2); add(w, p, ROWS, 5000) }, &[8939]),
    ("the log sequence number of the second page", |w| { let p = later_list_page(w, 1); w.put(p, LSN + 5, &[9]) }, &[8939]),
    ("a second page that leads nowhere", |w| { let p = later_list_page(w, 1); w.put(p, NEXT, &[0; 6]); 0 }, &[8905, 8939]),
    ("a third page that leads to the second", |w| {
        let (second, p) = (later_list_page(w, 1), later_list_page(w, 2));
        w.put(p, NEXT, &second.to_le_bytes());
        w.put(p, NEXT + 4, &[1, 0])
    }, &[8939]),
    ("a run of the second page that overlaps the list's own", |w| {
        let (first, p) = (PageId::new(FileId(1), w.list_page("heap", 0)), later_list_page(w, 1));
        put_later_run(w, p, |run| Run { first, ..run });
        // The page where the list begins, since either page may be the wrong one.
        first.number
    }, &[8939]),
    ("a run of the third page that is another table's too", |w| {
        let (first, p) = (PageId::new(FileId(1), w.list_page("types", 0)), later_list_page(w, 2));
        put_later_run(w, p, |run| Run { first, ..run });
        0
    }, &[8904]),
    ("more pages used than a run of the second page has", |w| {
        let p = later_list_page(w, 1);
        put_later_run(w, p, |run| Run { used: 99, ..run })
    }, &[8939]),
];

/// The id of the sequence, as its row stores it.
fn sequence_id(world: &World) -> Vec<u8> {
    let page = world.pages_of(SystemTable::Sequences.hobt(), PageType::Row)[0];
    let rows = world.layout(SystemTable::Sequences.name(), 0);
    let view = hobt_page::RowPage::open(world.page(page), &rows).expect("sound");
    view.value(0, 0).expect("sound").expect("an id").to_vec()
}

fn check_list(list: &[Damage]) {
    check_list_in(world, list);
}

fn check_list_in(world: fn() -> World, list: &[Damage]) {
    let mut wrong = Vec::new();
    for (what, plant, numbers) in list {
        let mut damaged = world();
        let page = plant(&mut damaged);
        let (outcome, instance, database) = damaged.start();
        drop((instance, database));
        let is_named = |message: &str| page == 0 || message.contains(&format!("(1:{page})"));
        let tells = |error: &hobt_base::SqlError| numbers.contains(&error.number) && is_named(&error.message);
        let is_told = outcome.errors().iter().any(tells) && !matches!(outcome, Outcome::Unchecked(_));
        if !is_told {
            wrong.push(format!("{what}: {numbers:?} of page {page} is expected, found {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), list.len(), wrong.join("\n"));
}

#[test]
fn every_field_of_a_header_is_checked() {
    check_list(HEADERS);
}

#[test]
fn every_part_of_a_row_page_is_checked() {
    check_list(ROW_PAGES);
}

#[test]
fn every_rule_of_a_tree_is_checked() {
    check_list(TREES);
}

#[test]
fn an_index_is_held_against_its_table() {
    check_list(INDEXES);
}

#[test]
fn run_lists_and_allocation_maps_are_checked() {
    check_list(EXTENTS);
}

#[test]
fn both_copies_of_headers_and_of_the_boot_page_are_checked() {
    check_list(FILE_PAGES);
}

#[test]
fn statistics_and_positions_of_identity_columns_are_checked() {
    check_list(ADVICE);
}

#[test]
fn later_pages_of_run_lists_are_checked() {
    check_list_in(world_of_many_runs, LATER_LISTS);
}

#[test]
fn long_values_and_partitions_are_checked() {
    check_list(VALUES);
}

#[test]
fn system_tables_are_checked() {
    check_list(SYSTEM_TABLES);
}
