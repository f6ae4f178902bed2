//! Seeds: random statements, a power failure somewhere, recovery. Exactly what had committed is there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_access::{
    AccessError, AllocationCheck, BTree, BTreeError, DataFileDescription, Direction, Hobt, KeyRange, Storage,
    StorageSettings, TreeDescription, recover,
};
use hobt_base::{DatabaseId, FileId, HobtId, Lsn, PAGE_SIZE, PageId, SessionId, SplitMix64};
use hobt_buffer::{BufferPool, PoolSettings};
use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};
use hobt_log::{Log, LogFile};
use hobt_txn::{MemoryBudget, StatementContext, StatementContextSettings, TransactionLog, Transactions};

use super::{Model, build, change, rows_of, shapes};
use crate::world::{GROUP, Row, TAG, image, random_row, rows_in, sorted, table};

const PAGES: u32 = 4096;
const RING_BYTES: usize = 1 << 20;
const LOG_BYTES: u64 = 64 << 20;

/// A database with a log.
struct Logged {
    disk: Arc<SimulatedDisk>,
    budget: Arc<MemoryBudget>,
    storage: Arc<Storage>,
    all: Arc<Transactions>,
}

fn log_file(disk: &Arc<SimulatedDisk>, create_new: bool) -> LogFile {
    let options = OpenOptions { create_new, direct: true, ..OpenOptions::default() };
    let disk = disk.open(Path::new("/log.ldf"), options).expect("a file");
    LogFile { disk, id: 2, name: String::new(), bytes: LOG_BYTES, growth_bytes: 0, bytes_max: LOG_BYTES }
}

fn data_file(disk: &Arc<SimulatedDisk>, create_new: bool) -> DataFileDescription {
    let path = Path::new("/data.mdf").to_path_buf();
    let options = OpenOptions { create_new, direct: true, ..OpenOptions::default() };
    DataFileDescription {
        file: FileId(1),
        filegroup: GROUP,
        name: "data".to_owned(),
        disk: disk.open(&path, options).expect("a file"),
        path,
        size_pages: PAGES,
        growth_pages: 0,
        growth_percent: 0,
        max_pages: 0,
    }
}

fn storage_with(log: Log, pool_pages: usize) -> Arc<Storage> {
    let pool = BufferPool::new(PoolSettings { bytes: pool_pages * PAGE_SIZE }).expect("a pool");
    let log = TransactionLog::new(Arc::new(log));
    Storage::new(DatabaseId(5), TAG, pool, StorageSettings::default(), Some(log))
}

impl Logged {
    fn create(pool_pages: usize) -> Logged {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let log = Log::create(&[log_file(&disk, true)], 77, RING_BYTES).expect("room for a log");
        let storage = storage_with(log, pool_pages);
        storage.create_file(data_file(&disk, true)).expect("room");
        disk.sync_directory(Path::new("/")).expect("the root");
        Logged { disk, budget: MemoryBudget::new(1 << 30), storage, all: Arc::default() }
    }

    fn statement(&self) -> Arc<StatementContext> {
        let running = self.all.begin();
        let settings = StatementContextSettings {
            session: SessionId(51),
            stamp: running.stamp(),
            degree_of_parallelism: 1,
            memory: Arc::clone(&self.budget),
        };
        let context = StatementContext::new(&settings, Arc::default());
        context.transaction().set_running(running);
        context
    }

    /// A checkpoint except for its last step. Saves the row count of `hobt`.
    fn begin_checkpoint(&self, hobt: Option<&Hobt>) -> Result<Option<Lsn>, AccessError> {
        let begun = self.storage.begin_checkpoint()?;
        hobt.map_or(Ok(()), Hobt::save_counts)?;
        self.storage.flush()?;
        Ok(begun)
    }

    fn checkpoint(&self, hobt: Option<&Hobt>) -> Result<(), AccessError> {
        let begun = self.begin_checkpoint(hobt)?;
        self.storage.end_checkpoint(begun)
    }

    /// Opens the database by a recovery, which faults may interrupt; returns how many records were undone.
    fn recover(&mut self, pool_pages: usize) -> Result<u64, AccessError> {
        let (log, recovered) = Log::open(&[log_file(&self.disk, false).disk], RING_BYTES)?;
        self.storage = storage_with(log, pool_pages);
        self.storage.open_file_to_recover(data_file(&self.disk, false));
        let summary = recover(&self.storage, &recovered, &|_| Err("nobody decides for it".to_owned()))?;
        self.checkpoint(None)?;
        Ok(summary.undone)
    }
}

struct Life {
    tree: Arc<BTree>,
    committed: Model,
    /// The content if a commit whose result is unknown has been written.
    perhaps: Option<Model>,
}

/// Runs statements until a fault or their end. The last statement may be open at the end.
fn work(database: &Logged, life: &mut Life, random: &mut SplitMix64, shape: usize) -> Option<Arc<StatementContext>> {
    let shape = &shapes()[shape];
    for _ in 0..random.below(12) {
        let context = database.statement();
        let mut after = life.committed.clone();
        if random.below(12) == 0 {
            if life.tree.truncate(&context).is_err() {
                return Some(context);
            }
            after.clear();
            for _ in 0..random.below(2) * random.below(3000) {
                let row = shape.row(random, 20_000, 300);
                after.insert(life.tree.key_of(&image(&row)).expect("short"), row);
            }
            let rows: Vec<Row> = after.values().cloned().collect();
            match build(&life.tree, &context, &rows, (1 + random.below(900) as usize, 90)) {
                Ok(()) => {}
                Err(BTreeError::Storage(_)) => return Some(context),
                Err(error) => panic!("{error}"),
            }
        }
        if random.below(5) == 0 && life.tree.remove_all_ghosts(&context).is_err() {
            return Some(context);
        }
        // Also if the disk interrupts it.
        if random.below(4) == 0 && life.tree.reorganize(&context, 90, &mut |_, _| {}).is_err() {
            return Some(context);
        }
        for _ in 0..random.below(250) {
            let row = shape.row(random, 20_000, 300);
            if change(&life.tree, &context, random, &mut after, row).is_err() {
                return Some(context);
            }
        }
        match random.below(6) {
            0 => return Some(context),
            1 => {
                // It may end while a checkpoint is in progress, which must not rely on records of its end that are not
                // durable.
                let beside = random.below(2) == 0;
                let begun = if beside { database.begin_checkpoint(Some(life.tree.hobt())) } else { Ok(None) };
                if context.roll_back().is_err() {
                    return None;
                }
                if begun.and_then(|begun| database.storage.end_checkpoint(begun)).is_err() {
                    return None;
                }
            }
            _ => {
                if context.commit().is_err() {
                    life.perhaps = Some(after);
                    return None;
                }
                life.committed = after;
            }
        }
        if random.below(4) == 0 && database.checkpoint(Some(life.tree.hobt())).is_err() {
            return None;
        }
    }
    None
}

fn check(database: &Logged, description: &TreeDescription, run_list: PageId, life: &mut Life, what: &str) {
    life.tree = BTree::open(&database.storage, description, run_list).expect("a sound tree");
    let mut check = AllocationCheck::new(&database.storage).expect("readable maps");
    check.add_tree(&life.tree).expect("readable pages");
    let rows = rows_of(&life.tree, KeyRange::all(), Direction::Forward).expect("readable");
    let found: Model = rows.into_iter().collect();
    if found != life.committed {
        let perhaps = life.perhaps.take();
        assert!(
            perhaps.as_ref() == Some(&found),
            "{what}: the rows of what had committed, {} not {}",
            found.len(),
            life.committed.len()
        );
        life.committed = found;
    }
    life.perhaps = None;
    assert_eq!(check.finish(), [], "{what}");
}

fn run(seed: u64) -> u64 {
    let mut undone = 0;
    let mut random = SplitMix64::new(seed);
    let pool_pages = [48, 128, 1024][random.below(3) as usize];
    let shape = random.below(4) as usize;
    let description = shapes()[shape].description();
    let mut database = Logged::create(pool_pages);
    let context = database.statement();
    let tree = BTree::create(&database.storage, &description, &context).expect("room");
    context.commit().expect("the log is well");
    database.checkpoint(Some(tree.hobt())).expect("the disk is well");
    let run_list = tree.hobt().run_list();
    let mut life = Life { tree, committed: Model::new(), perhaps: None };
    for number in 0..4 {
        let what = format!("seed {seed}, life {number}");
        if random.below(3) == 0 {
            let operation = if random.below(2) == 0 { Operation::Write } else { Operation::Sync };
            let fault = Fault::once(operation, random.below(60), FaultKind::Error(5));
            database.disk.inject(Fault { forever: true, ..fault });
        }
        let open = work(&database, &mut life, &mut random, shape);
        database.disk.crash(random.next_u64());
        database.disk.clear_faults();
        drop(open);
        while random.below(3) == 0 {
            // A recovery may be interrupted as well.
            let fault = Fault::once(Operation::Write, random.below(20), FaultKind::Error(5));
            database.disk.inject(Fault { forever: true, ..fault });
            let _cut_off = database.recover(pool_pages);
            database.disk.crash(random.next_u64());
            database.disk.clear_faults();
        }
        undone += database.recover(pool_pages).unwrap_or_else(|error| panic!("{what}: {error}"));
        check(&database, &description, run_list, &mut life, &what);
    }
    undone
}

const THREADS: u64 = 3;

/// A thread's statements on its own keys until the disk fails. Returns its rows, and its rows in case its last commit
/// has been written.
fn thread_work(
    database: &Logged,
    tree: &Arc<BTree>,
    thread: u64,
    seed: u64,
    mut committed: Model,
) -> (Model, Option<Model>) {
    let shape = &shapes()[0];
    let mut random = SplitMix64::new(seed ^ thread << 32);
    loop {
        let context = database.statement();
        let mut after = committed.clone();
        let changed = (0..random.below(120)).try_for_each(|_| {
            let mut row = shape.row(&mut random, 1, 100);
            let key = random.below(2000) as u32 * THREADS as u32 + thread as u32;
            row[1] = Some(key.to_le_bytes().to_vec());
            change(tree, &context, &mut random, &mut after, row)
        });
        if changed.is_err() {
            // It cannot be undone either: the disk is gone.
            let _undone_by_recovery = context.roll_back();
            return (committed, None);
        }
        if random.below(5) == 0 {
            if context.roll_back().is_err() {
                return (committed, None);
            }
        } else if context.commit().is_err() {
            return (committed, Some(after));
        } else {
            committed = after;
        }
    }
}

/// As [`run`], with threads that split the tree concurrently, and checkpoints meanwhile.
fn run_threads(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let description = shapes()[0].description();
    let mut database = Logged::create(256);
    let context = database.statement();
    let mut tree = BTree::create(&database.storage, &description, &context).expect("room");
    context.commit().expect("the log is well");
    database.checkpoint(Some(tree.hobt())).expect("the disk is well");
    let run_list = tree.hobt().run_list();
    let mut committed = vec![Model::new(); THREADS as usize];
    for life in 0..3 {
        let fault = Fault::once(Operation::Write, 10 + random.below(150), FaultKind::Error(5));
        database.disk.inject(Fault { forever: true, ..fault });
        let work_seed = random.next_u64();
        let results: Vec<_> = std::thread::scope(|scope| {
            let (database, tree) = (&database, &tree);
            let threads: Vec<_> = (0..THREADS)
                .zip(committed.drain(..))
                .map(|(thread, model)| scope.spawn(move || thread_work(database, tree, thread, work_seed, model)))
                .collect();
            let is_over = Arc::new(AtomicBool::new(false));
            let walker = scope.spawn({
                let is_over = Arc::clone(&is_over);
                move || {
                    while !is_over.load(Ordering::Acquire) {
                        let context = database.statement();
                        if tree.reorganize(&context, 80, &mut |_, _| {}).is_err() || context.commit().is_err() {
                            return;
                        }
                    }
                }
            });
            while !threads.iter().any(|thread| thread.is_finished()) && database.checkpoint(Some(tree.hobt())).is_ok() {
            }
            let results = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
            is_over.store(true, Ordering::Release);
            walker.join().expect("no panic");
            results
        });
        database.disk.crash(random.next_u64());
        database.disk.clear_faults();
        database.recover(256).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        tree = BTree::open(&database.storage, &description, run_list).expect("a sound tree");
        let mut check = AllocationCheck::new(&database.storage).expect("readable maps");
        check.add_tree(&tree).expect("readable pages");
        assert_eq!(check.finish(), [], "seed {seed}, life {life}");
        let mut found = vec![Model::new(); THREADS as usize];
        for (key, row) in rows_of(&tree, KeyRange::all(), Direction::Forward).expect("readable") {
            let number = u32::from_le_bytes(row[1].as_ref().expect("a key")[..].try_into().expect("four bytes"));
            found[number as usize % THREADS as usize].insert(key, row);
        }
        for (thread, (found, (known, perhaps))) in found.iter().zip(&results).enumerate() {
            assert!(found == known || perhaps.as_ref() == Some(found), "seed {seed}, life {life}, thread {thread}");
        }
        committed = found;
    }
}

/// Seeds from `HOBT_SEED` on, `HOBT_TREE_SEEDS` of them; a few without.
#[test]
fn after_a_crash_a_tree_has_what_had_committed() {
    let from_environment =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(or);
    let first = from_environment("HOBT_SEED", 0);
    let undone: u64 = (first..first + from_environment("HOBT_TREE_SEEDS", 32)).map(run).sum();
    assert!(undone > 0, "some statements were open when the power failed");
}

/// As [`after_a_crash_a_tree_has_what_had_committed`], with threads. Their order is not determined by the seed.
#[test]
fn after_a_crash_a_tree_has_what_its_threads_had_committed() {
    let from_environment =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(or);
    let first = from_environment("HOBT_SEED", 0);
    (first..first + from_environment("HOBT_TREE_SEEDS", 12) / 2).for_each(run_threads);
}

/// A tree after so many changes, durable in its file.
fn tree_of(database: &Logged, random: &mut SplitMix64, count: usize) -> (Arc<BTree>, Model) {
    let made = database.statement();
    let tree = BTree::create(&database.storage, &shapes()[0].description(), &made).expect("room");
    let mut rows = Model::new();
    change_some(&tree, &made, random, &mut rows, count);
    made.commit().expect("the disk is well");
    database.checkpoint(Some(tree.hobt())).expect("the disk is well");
    (tree, rows)
}

fn change_some(tree: &Arc<BTree>, context: &StatementContext, random: &mut SplitMix64, rows: &mut Model, count: usize) {
    for _ in 0..count {
        let row = shapes()[0].row(random, 20_000, 300);
        change(tree, context, random, rows, row).expect("the disk is well");
    }
}

/// A checkpoint drops no record of a transaction whose end is not durable: of a tree.
#[test]
fn a_tree_is_as_it_was_where_a_rollback_comes_amid_a_checkpoint_and_then_a_crash() {
    for seed in 0..4 {
        let (mut random, mut database) = (SplitMix64::new(seed), Logged::create(128));
        let (tree, rows) = tree_of(&database, &mut random, 200);
        let undone = database.statement();
        change_some(&tree, &undone, &mut random, &mut rows.clone(), 200);
        let begun = database.begin_checkpoint(Some(tree.hobt())).expect("the disk is well");
        undone.roll_back().expect("the disk is well");
        database.storage.end_checkpoint(begun).expect("the disk is well");
        database.disk.crash(seed);
        drop(undone);
        database.recover(128).expect("what is needed is in the log");
        let run_list = tree.hobt().run_list();
        let mut life = Life { tree, committed: rows, perhaps: None };
        check(&database, &shapes()[0].description(), run_list, &mut life, &format!("seed {seed}"));
    }
}

/// A checkpoint drops no record of a transaction whose end is not durable: of a heap.
#[test]
fn a_heap_is_as_it_was_where_a_rollback_comes_amid_a_checkpoint_and_then_a_crash() {
    for seed in 0..4 {
        let (mut random, mut database) = (SplitMix64::new(seed), Logged::create(128));
        let layout = table();
        let mut row = || image(&random_row(&mut random, &layout, 300));
        let made = database.statement();
        let created = Hobt::create(&database.storage, HobtId(77), GROUP, Arc::clone(&layout), 3, &made);
        let heap = created.expect("room");
        let places: Vec<_> = (0..200).map(|_| heap.insert(&made, &row()).expect("room")).collect();
        made.commit().expect("the disk is well");
        database.checkpoint(Some(&heap)).expect("the disk is well");
        let before = sorted(rows_in(&heap));
        let undone = database.statement();
        for (page, slot) in places.iter().step_by(3) {
            heap.delete(&undone, *page, *slot).expect("the disk is well");
            heap.insert(&undone, &row()).expect("room");
        }
        let begun = database.begin_checkpoint(Some(&heap)).expect("the disk is well");
        undone.roll_back().expect("the disk is well");
        database.storage.end_checkpoint(begun).expect("the disk is well");
        database.disk.crash(seed);
        let run_list = heap.run_list();
        drop((undone, heap));
        database.recover(128).expect("what is needed is in the log");
        let opened = Hobt::open(&database.storage, HobtId(77), GROUP, Arc::clone(&layout), 3, run_list);
        let heap = opened.expect("a sound heap");
        assert_eq!(sorted(rows_in(&heap)), before, "seed {seed}");
        let mut check = AllocationCheck::new(&database.storage).expect("readable maps");
        check.add_hobt(&heap).expect("readable pages");
        assert_eq!(check.finish(), [], "seed {seed}");
    }
}

/// A checkpoint drops no record of a transaction whose end is not durable: of one that frees extents after its commit.
#[test]
fn no_extent_is_lost_where_a_drop_comes_amid_a_checkpoint_and_then_a_crash() {
    for seed in 0..4 {
        let (mut random, mut database) = (SplitMix64::new(seed), Logged::create(128));
        let (tree, _) = tree_of(&database, &mut random, 2_000);
        let dropped = database.statement();
        tree.drop_storage(&dropped).expect("the disk is well");
        let begun = database.begin_checkpoint(None).expect("the disk is well");
        dropped.commit().expect("the disk is well");
        database.storage.end_checkpoint(begun).expect("the disk is well");
        database.disk.crash(seed);
        drop((dropped, tree));
        database.recover(128).expect("what is needed is in the log");
        let check = AllocationCheck::new(&database.storage).expect("readable maps");
        assert_eq!(check.finish(), [], "seed {seed}");
    }
}
