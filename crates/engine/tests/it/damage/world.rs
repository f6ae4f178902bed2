//! The files of a closed database as bytes, and what the next start does with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use hobt_access::LoadedRuns;
use hobt_base::EXTENT_PAGES;
use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SqlError, crc32c};
use hobt_catalog::{
    IdentityColumn, IdentityPosition, IndexOptions, Statistics, StatisticsOrigin, StatisticsPart, SystemTable, Table,
    row_image,
};
use hobt_disk::{AlignedBuffer, Disk, OpenOptions, SimulatedDisk};
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, Database, DatabaseDefinition, DatabaseUse, IndexDefinition, Instance,
    SequenceDefinition, StatisticsDefinition, TableDefinition, TableWriter,
};
use hobt_page::{
    PageBytes, PageHeader, PageType, RUNS_PER_PAGE, RowLayout, RowPage, Run, RunContents, RunListPage, seal,
};
use hobt_txn::StatementContext;
use hobt_types::statistics::Summary;
use hobt_types::{MaxLength, SqlType, Value};

use crate::fixture::{FOLDER, create_partitions, database_named, open, run, simulated, small_file, try_open};

/// The number of bytes written at once when a file is put on a disk.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of each of the two copies of a log's header.
const LOG_HEADER_BYTES: usize = 4096;
/// The data file that is damaged.
const FILE: &str = "shop.mdf";

/// The files of a closed instance, with their contents.
#[derive(Clone)]
pub(super) struct World {
    files: BTreeMap<PathBuf, Vec<u8>>,
    tables: Arc<BTreeMap<String, Arc<Table>>>,
}

/// The next value of the world's identity column.
pub(super) const NEXT_IDENTITY: i128 = 123_456_789;

/// The result of a start.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The database was refused.
    Refused(SqlError),
    /// It was opened, with the errors that a check reports.
    Checked(Vec<SqlError>),
    /// It was opened, and could not be checked.
    Unchecked(SqlError),
}

impl Outcome {
    /// All errors.
    pub(super) fn errors(&self) -> &[SqlError] {
        match self {
            Outcome::Refused(error) | Outcome::Unchecked(error) => std::slice::from_ref(error),
            Outcome::Checked(errors) => errors,
        }
    }
}

/// The world that all tests start from.
pub(super) fn world() -> World {
    static WORLD: LazyLock<World> = LazyLock::new(build);
    WORLD.clone()
}

/// The world with a table whose run list has three pages.
pub(super) fn world_of_many_runs() -> World {
    static WORLD: LazyLock<World> = LazyLock::new(|| build_with(2 * RUNS_PER_PAGE));
    WORLD.clone()
}

fn index(name: &str, is_clustered: bool, is_unique: bool, columns: &[&str], included: &[&str]) -> IndexDefinition {
    IndexDefinition {
        name: Some(name.to_owned()),
        is_clustered: Some(is_clustered),
        columns: columns.iter().map(|column| ((*column).to_owned(), false)).collect(),
        included: included.iter().map(|column| (*column).to_owned()).collect(),
        data_space: DataSpaceDefinition::Default,
        constraint: None,
        options: IndexOptions { is_unique, ..IndexOptions::default() },
        drops_existing: false,
    }
}

fn text_of(id: i64) -> Value {
    if id % 5 == 0 { Value::Null } else { Value::Text(format!("text {id} {}", "x".repeat((id % 17) as usize))) }
}

/// The values of a row, by its number.
type RowOf = fn(i64) -> Vec<Value>;

/// The tables: their definitions, the number of rows, and the values of a row.
fn tables() -> Vec<(TableDefinition, i64, RowOf)> {
    let text = SqlType::NVarChar(MaxLength::Limited(100));
    let table = |name: &str, columns: &[(&str, SqlType, bool)], indexes: Vec<IndexDefinition>| TableDefinition {
        schema: "dbo".to_owned(),
        name: name.to_owned(),
        columns: columns
            .iter()
            .map(|(name, sql_type, nullable)| ColumnDefinition::new(*name, *sql_type, *nullable))
            .collect(),
        data_space: DataSpaceDefinition::Default,
        indexes,
    };
    let keyed = [("k", SqlType::Int, false), ("text", text, true), ("n", SqlType::Int, false)];
    let part = TableDefinition {
        data_space: DataSpaceDefinition::Scheme { scheme: "ps".to_owned(), column: "k".to_owned() },
        ..table("part", &[("k", SqlType::Int, false), ("n", SqlType::Int, true)], Vec::new())
    };
    let number = ColumnDefinition {
        identity: Some(IdentityColumn { seed: 1, increment: 1 }),
        ..ColumnDefinition::new("id", SqlType::Int, false)
    };
    let ident = TableDefinition { columns: vec![number], ..table("ident", &[], Vec::new()) };
    vec![
        (ident, 3, |id| vec![Value::Int(id)]),
        (table("heap", &keyed, vec![index("heap_n", false, false, &["n"], &["text"])]), 400, |id| {
            vec![Value::Int(id), text_of(id), Value::Int(id * 7 % 1000)]
        }),
        (
            table(
                "tree",
                &keyed,
                vec![index("tree_k", true, true, &["k"], &[]), index("tree_text", false, false, &["text"], &["n"])],
            ),
            1500,
            |id| vec![Value::Int(id * 3), text_of(id), Value::Int(id)],
        ),
        (table("alike", &keyed, vec![index("alike_n", true, false, &["n"], &[])]), 200, |id| {
            vec![Value::Int(id), text_of(id), Value::Int(id % 10)]
        }),
        (
            table("long", &[("k", SqlType::Int, false), ("value", SqlType::VarChar(MaxLength::Max), true)], Vec::new()),
            4,
            |id| vec![Value::Int(id), Value::Text(char::from(b'a' + id as u8).to_string().repeat(20_000))],
        ),
        (part, 300, |id| vec![Value::Int(id), Value::Int(-id)]),
        (
            table(
                "types",
                &[
                    ("bit", SqlType::Bit, false),
                    ("date", SqlType::Date, false),
                    ("time", SqlType::Time { scale: 7 }, false),
                    ("moment", SqlType::DateTime, false),
                    ("number", SqlType::Decimal { precision: 5, scale: 2 }, false),
                    ("large", SqlType::Decimal { precision: 30, scale: 0 }, true),
                    ("real", SqlType::Real, false),
                    ("float", SqlType::Float, true),
                    ("fixed", SqlType::Binary(4), false),
                    ("guid", SqlType::UniqueIdentifier, true),
                    ("umlaut", SqlType::NVarChar(MaxLength::Limited(20)), false),
                    ("small", SqlType::SmallInt, true),
                ],
                Vec::new(),
            ),
            50,
            |id| {
                vec![
                    Value::Int(id % 2),
                    Value::Int(id * 100),
                    Value::Int(id * 1_000_000),
                    Value::Int(id * 864_000_000_000),
                    Value::Decimal((id * 11).into()),
                    if id % 3 == 0 { Value::Null } else { Value::Decimal(i128::from(id) << 70) },
                    Value::Float(0.5),
                    if id % 4 == 0 { Value::Null } else { Value::Float(-1e100) },
                    Value::Binary(vec![1, 2, 3, id as u8]),
                    Value::Guid([id as u8; 16]),
                    Value::Text(format!("käse {id}")),
                    Value::Int(-id),
                ]
            },
        ),
    ]
}

fn fill(
    database: &DatabaseUse,
    ctx: &StatementContext,
    table: &Arc<Table>,
    rows: impl Iterator<Item = Vec<Value>>,
) -> Result<(), hobt_engine::EngineError> {
    let snapshot = database.snapshot();
    let writer = TableWriter::open(database, &snapshot, Arc::clone(table))?;
    let function = snapshot.partitioning_of(&table.base_index().data_space);
    for values in rows {
        let image = row_image(table.columns.iter().map(|column| column.sql_type), &values).expect("typed values");
        let partition = function.map_or(0, |(column, function)| function.partition_of(&values[column]));
        writer.insert(ctx, partition, &image).expect("inserted");
    }
    Ok(())
}

/// Stores statistics of a table for which nothing was gathered.
fn put_statistics(
    database: &DatabaseUse,
    ctx: &StatementContext,
    table: &Table,
) -> Result<(), hobt_engine::EngineError> {
    let definition = StatisticsDefinition {
        name: "of_n".to_owned(),
        columns: vec![2],
        filter: None,
        origin: StatisticsOrigin::User,
        is_incremental: false,
        no_recompute: true,
        auto_drop: false,
        sample_millionths: 0,
    };
    let made = database.create_statistics(ctx, table, &definition)?;
    let hobt = table.base_index().partitions[0].hobt;
    let parts = vec![StatisticsPart { hobt, summary: Arc::new(Summary::empty(1)) }];
    let gathered = Statistics { parts, updated: Some(1), unfiltered_rows: 400, ..Statistics::clone(&made) };
    database.set_statistics(ctx, table, gathered).map(drop)
}

/// Gives a heap runs without rows.
fn add_runs(database: &DatabaseUse, ctx: &StatementContext, table: &Table, count: usize) {
    let partition = &table.base_index().partitions[0];
    let runs = (0..count).map(|_| {
        let allocated = database.storage().allocate_for(ctx, partition.filegroup, 1).expect("room");
        let run =
            Run { first: allocated.first, page_count: EXTENT_PAGES, used: 0, skip: 0, contents: RunContents::Rows };
        LoadedRuns { runs: vec![run], rows: 0 }
    });
    let runs = runs.collect();
    database.hobt(partition.hobt).expect("a heap").publish(ctx, runs).expect("room");
}

fn build() -> World {
    build_with(0)
}

/// The world, with additional runs in the heap.
fn build_with(runs: usize) -> World {
    let disk = simulated();
    let instance = open(&disk);
    let definition = DatabaseDefinition { primary: vec![small_file("shop")], ..database_named("shop") };
    let database = instance.create_database(&definition).expect("a database").database;
    run(&instance, |ctx| {
        create_partitions(&database, ctx, vec![Value::Int(100), Value::Int(200)], &["PRIMARY"; 3])?;
        let sequence = SequenceDefinition {
            schema: "dbo".to_owned(),
            name: "seq".to_owned(),
            sql_type: SqlType::Int,
            start: None,
            increment: 5,
            minimum: Some(1),
            maximum: Some(1000),
            cycles: false,
            cache: None,
        };
        database.create_sequence(ctx, &sequence).map(drop)
    })
    .expect("made");
    let mut made = BTreeMap::new();
    for (definition, count, row) in tables() {
        let table = run(&instance, |ctx| database.create_table(ctx, &definition)).expect("a table");
        run(&instance, |ctx| fill(&database, ctx, &table, (0..count).map(row))).expect("rows");
        made.insert(definition.name, table);
    }
    run(&instance, |ctx| {
        let position = IdentityPosition { next: NEXT_IDENTITY, used: true };
        database.set_identity_position(ctx, made["ident"].id, Some(position))?;
        add_runs(&database, ctx, &made["heap"], runs);
        put_statistics(&database, ctx, &made["heap"])
    })
    .expect("made");
    for table in database.snapshot().tables.values().filter(|table| table.is_system) {
        made.insert(table.name.clone(), Arc::clone(table));
    }
    let found = database.check().expect("it can be checked");
    assert!(found.is_empty(), "a sound database: {:?}", texts(&found, &database));
    drop(database);
    instance.close().expect("closed");
    World { files: read_files(&disk), tables: Arc::new(made) }
}

fn texts(found: &[hobt_engine::Found], database: &Database) -> Vec<SqlError> {
    found.iter().map(|found| found.to_sql_error(database)).collect()
}

fn read_files(disk: &SimulatedDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in disk.list(Path::new(FOLDER)).expect("the folder") {
        let Ok(file) = disk.open(&path, OpenOptions { read_only: true, ..OpenOptions::default() }) else { continue };
        if path.ends_with("tempdb.mdf") {
            continue;
        }
        let size = usize::try_from(file.size().expect("a size")).expect("a small file");
        let mut content = Vec::new();
        if size > 0 {
            let mut bytes = AlignedBuffer::new(size).expect("memory");
            file.read_at(&mut bytes, 0).expect("read");
            content.extend_from_slice(&bytes);
        }
        files.insert(path, content);
    }
    files
}

impl World {
    /// A disk with the files.
    pub(super) fn disk(&self) -> Arc<SimulatedDisk> {
        let disk = simulated();
        disk.create_directory(Path::new(FOLDER)).expect("a folder");
        let mut buffer = AlignedBuffer::new(CHUNK_BYTES).expect("memory");
        for (path, bytes) in &self.files {
            let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
            let file = disk.open(path, options).expect("made");
            file.set_size(bytes.len() as u64).expect("sized");
            for (at, chunk) in (0..).step_by(CHUNK_BYTES).zip(bytes.chunks(CHUNK_BYTES)) {
                if chunk.iter().any(|byte| *byte != 0) {
                    buffer.set_len(chunk.len());
                    buffer.copy_from_slice(chunk);
                    file.write_at(&buffer, at).expect("written");
                }
            }
            file.sync().expect("synced");
        }
        disk.sync_directory(Path::new(FOLDER)).expect("synced");
        disk
    }

    /// Starts an instance on the files. Returns the result, and the instance with the database, if it is opened.
    pub(super) fn start(&self) -> (Outcome, Arc<Instance>, Option<DatabaseUse>) {
        let instance = try_open(&self.disk()).expect("master is whole");
        match instance.database("shop") {
            Err(error) => (Outcome::Refused(error.to_sql_error()), instance, None),
            Ok(database) => {
                let outcome = match database.check() {
                    Ok(found) => Outcome::Checked(texts(&found, &database)),
                    Err(error) => Outcome::Unchecked(error.to_sql_error()),
                };
                (outcome, instance, Some(database))
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.files[&Path::new(FOLDER).join(FILE)]
    }

    /// How many pages the file has.
    pub(super) fn page_count(&self) -> u32 {
        u32::try_from(self.bytes().len() / PAGE_SIZE).expect("a small file")
    }

    /// A page of the file.
    pub(super) fn page(&self, number: u32) -> &PageBytes {
        let at = number as usize * PAGE_SIZE;
        self.bytes()[at..at + PAGE_SIZE].try_into().expect("a page")
    }

    /// Changes a page, and makes its checksum right.
    pub(super) fn edit(&mut self, number: u32, change: impl FnOnce(&mut PageBytes)) {
        let at = number as usize * PAGE_SIZE;
        let bytes = self.files.get_mut(&Path::new(FOLDER).join(FILE)).expect("the file");
        let page: &mut PageBytes = (&mut bytes[at..at + PAGE_SIZE]).try_into().expect("a page");
        change(page);
        seal(page);
    }

    /// Puts bytes into a page, and makes its checksum right.
    pub(super) fn put(&mut self, number: u32, at: usize, bytes: &[u8]) -> u32 {
        self.edit(number, |page| page[at..at + bytes.len()].copy_from_slice(bytes));
        number
    }

    /// Puts a byte into a copy of the log's header, and makes its checksum right. Returns the old byte.
    pub(super) fn put_in_log_header(&mut self, copy: usize, at: usize, value: u8) -> u8 {
        let bytes = self.files.get_mut(&Path::new(FOLDER).join("shop_log.ldf")).expect("the log");
        let header = &mut bytes[copy * LOG_HEADER_BYTES..(copy + 1) * LOG_HEADER_BYTES];
        let before = std::mem::replace(&mut header[at], value);
        let checksum = crc32c(&header[4..]);
        header[..4].copy_from_slice(&checksum.to_le_bytes());
        before
    }

    /// A table, the system's included.
    pub(super) fn table(&self, name: &str) -> &Arc<Table> {
        &self.tables[name]
    }

    /// The heap or tree of an index by its place, in its first partition.
    pub(super) fn hobt(&self, table: &str, place: usize) -> HobtId {
        self.table(table).indexes[place].partitions[0].hobt
    }

    /// The layout of the rows of an index.
    pub(super) fn layout(&self, table: &str, place: usize) -> Arc<RowLayout> {
        let table = self.table(table);
        let leaf = table.index_leaf(&table.indexes[place]).filter(|_| place > 0);
        leaf.map_or_else(|| Arc::clone(&table.rows), |leaf| leaf.rows)
    }

    /// The pages of one type of a HOBT, by their numbers.
    pub(super) fn pages_of(&self, hobt: HobtId, page_type: PageType) -> Vec<u32> {
        let is_one = |number: &u32| {
            PageHeader::read(self.page(*number))
                .is_ok_and(|header| header.hobt == hobt && header.page_type == page_type)
        };
        (0..self.page_count()).filter(is_one).collect()
    }

    /// A page with rows of an index. For a tree it is a leaf, counted in the order of keys, in which the tree was
    /// filled.
    pub(super) fn rows_page(&self, table: &str, place: usize, nth: usize) -> u32 {
        let pages = self.pages_of(self.hobt(table, place), PageType::Row);
        let is_next_of =
            |number: &u32| pages.iter().any(|other| self.header(*other).next == PageId::new(FileId(1), *number));
        if place == 0 && !self.layout(table, place).is_ordered() {
            return pages[nth];
        }
        let mut leaf = *pages.iter().find(|number| !is_next_of(number)).expect("a first leaf");
        for _ in 0..nth {
            leaf = self.header(leaf).next.number;
        }
        leaf
    }

    /// The root of a tree, which is the page after the first page of its run list.
    pub(super) fn root(&self, table: &str, place: usize) -> u32 {
        self.list_page(table, place) + 1
    }

    /// The first page of a run list.
    pub(super) fn list_page(&self, table: &str, place: usize) -> u32 {
        self.table(table).indexes[place].partitions[0].run_list.number
    }

    /// The pages of a run list, the first one first.
    pub(super) fn list_pages(&self, table: &str, place: usize) -> Vec<u32> {
        let first = Some(self.list_page(table, place));
        let next = |page: &u32| Some(self.header(*page).next.number).filter(|next| *next != 0);
        std::iter::successors(first, next).collect()
    }

    /// The page and offset of bytes that occur in only one place of a system table.
    pub(super) fn find_in_system(&self, table: SystemTable, bytes: &[u8]) -> (u32, usize) {
        let pages = self.pages_of(table.hobt(), PageType::Row);
        let find = |page: u32| Some((page, self.page(page).windows(bytes.len()).position(|found| found == bytes)?));
        pages.into_iter().find_map(find).expect("the bytes are there")
    }

    /// The header of a page.
    pub(super) fn header(&self, number: u32) -> PageHeader {
        PageHeader::read(self.page(number)).expect("a sound header")
    }

    /// The offset of a fixed-length column's value in its page.
    pub(super) fn place_of(&self, table: &str, index: usize, page: u32, column: usize, slot: usize) -> usize {
        let rows = self.layout(table, index);
        let layout = rows.page_layout(self.header(page).capacity).expect("a sound page");
        let width = rows.columns()[column].physical.width().expect("a column of fixed length");
        usize::from(layout.values[column]) + slot * width
    }

    /// Changes the row count in the run list of a table.
    pub(super) fn count_rows(&mut self, table: &str, place: usize, by: i64) {
        let page = self.list_page(table, place);
        let rows = RunListPage::row_count(self.page(page)).checked_add_signed(by).expect("rows");
        let (at, bytes) = RunListPage::row_count_bytes(rows);
        self.put(page, at.into(), &bytes);
    }

    /// Puts a value into the first row of a system table that has `key` in the preceding column. Returns the page.
    pub(super) fn set_in_system(
        &mut self,
        table: SystemTable,
        (key_column, key): (&str, &[u8]),
        column: &str,
        value: &[u8],
    ) -> u32 {
        let columns = table.columns();
        let place = |name: &str| columns.iter().position(|column| column.name == name).expect("a column");
        let (key_column, column) = (place(key_column), place(column));
        let rows = self.layout(table.name(), 0);
        for number in self.pages_of(table.hobt(), PageType::Row) {
            let view = RowPage::open(self.page(number), &rows).expect("a sound page");
            let has_key =
                |slot: &usize| !view.is_deleted(*slot) && view.value(key_column, *slot).expect("a value") == Some(key);
            let Some(slot) = (0..view.row_count()).find(has_key) else { continue };
            let at = self.place_of(table.name(), 0, number, column, slot);
            return self.put(number, at, value);
        }
        panic!("no row of {} has {key:?}", table.name());
    }

    /// All rows of all tables, as far as they can be read, one line each.
    pub(super) fn dump(&self, database: &Database) -> Result<Vec<String>, SqlError> {
        let snapshot = database.snapshot();
        let mut lines = Vec::new();
        for table in snapshot.tables.values() {
            let writer = TableWriter::open_to_read(database, &snapshot, Arc::clone(table));
            let writer = writer.map_err(|error| error.to_sql_error())?;
            for partition in 0..writer.base().len() {
                let read = writer.for_each_row(partition, &mut |_, row| {
                    lines.push(format!("{} {partition} {row:?}", table.name));
                    true
                });
                read.map_err(|error| database.storage_error(error).to_sql_error())?;
            }
        }
        lines.sort_unstable();
        Ok(lines)
    }
}
