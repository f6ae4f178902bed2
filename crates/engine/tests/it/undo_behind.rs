//! Transactions that a crash has left open and that are undone behind the opening: what is locked until then, what is
//! open, and that crashes, closes and errors in the middle leave the undo to the next start.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use hobt_base::{SessionId, Stamp, number};
use hobt_catalog::{IndexOptions, row_image};
use hobt_disk::{Disk, Fault, FaultKind, Operation, SimulatedDisk};
use hobt_engine::{
    DataSpaceDefinition, DatabaseState, DatabaseUse, IndexDefinition, Instance, InstanceSettings, RowAt, RowUpdate,
    TableDefinition, TableWriter,
};
use hobt_page::RowImage;
use hobt_txn::locks::{LockMode, LockOwner, LockOwnerKind, LockResource, Patience};
use hobt_txn::{RECOVERED_SESSION, StatementContext, Transaction};
use hobt_types::Value;

use crate::fixture::{
    FOLDER, check_extents, create, number_of, row, run, settings, simulated, table, table_named, unlocked,
};
use crate::log_full;

const EIO: i32 = 5;

/// Every undo goes on behind the opening, when a test says so.
pub(crate) fn by_hand() -> InstanceSettings {
    InstanceSettings { undo_behind_from_bytes: Some(0), checkpoints_by_hand: true, ..settings() }
}

pub(crate) fn open_with(disk: &Arc<SimulatedDisk>, settings: InstanceSettings) -> Arc<Instance> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    Instance::open_on(disk, Path::new(FOLDER), settings).expect("the instance opens")
}

fn index(name: &str, column: &str, is_clustered: bool) -> IndexDefinition {
    IndexDefinition {
        name: Some(name.to_owned()),
        is_clustered: Some(is_clustered),
        columns: vec![(column.to_owned(), false)],
        included: Vec::new(),
        data_space: DataSpaceDefinition::Default,
        constraint: None,
        options: IndexOptions { is_unique: is_clustered, ..IndexOptions::default() },
        drops_existing: false,
    }
}

/// A table with the index `n` on `text`: a heap, or a tree in the order of `id`.
pub(crate) fn indexed(name: &str, is_tree: bool) -> TableDefinition {
    let clustered = is_tree.then(|| index("c", "id", true));
    TableDefinition { indexes: clustered.into_iter().chain([index("n", "text", false)]).collect(), ..table_named(name) }
}

fn writer(database: &DatabaseUse, name: &str) -> TableWriter {
    TableWriter::open(database, &database.snapshot(), table(database, name)).expect("its indexes")
}

fn image(database: &DatabaseUse, name: &str, values: &[Value]) -> RowImage {
    row_image(table(database, name).columns.iter().map(|column| column.sql_type), values).expect("typed values")
}

pub(crate) fn insert(database: &DatabaseUse, ctx: &StatementContext, name: &str, ids: std::ops::Range<i64>) {
    let writer = writer(database, name);
    for id in ids {
        writer.insert(ctx, 0, &image(database, name, &row(id))).expect("inserted");
    }
}

/// The places of rows and their values.
fn found(database: &DatabaseUse, name: &str) -> Vec<(RowAt, Vec<Option<Vec<u8>>>)> {
    let mut all = Vec::new();
    let read = writer(database, name).for_each_row(0, &mut |at, row| {
        all.push((at.clone(), (0..3).map(|column| row.value(column).map(<[u8]>::to_vec)).collect()));
        true
    });
    read.expect("readable");
    all
}

/// The rows of a table: their values.
pub(crate) type Contents = BTreeSet<Vec<Option<Vec<u8>>>>;

pub(crate) fn contents(database: &DatabaseUse, name: &str) -> Contents {
    found(database, name).into_iter().map(|(_, values)| values).collect()
}

/// The tables that a transaction changes which a crash leaves open.
pub(crate) fn changed(database: &DatabaseUse) -> [Contents; 2] {
    ["heap", "tree"].map(|name| contents(database, name))
}

/// An instance with the database `d` and 300 rows in each of the heap `heap` and the trees `tree` and `other`.
pub(crate) fn world() -> (Arc<SimulatedDisk>, Arc<Instance>, DatabaseUse) {
    let disk = simulated();
    let instance = open_with(&disk, by_hand());
    let database = create(&instance, "d");
    for (name, is_tree) in [("heap", false), ("tree", true), ("other", true)] {
        run(&instance, |ctx| database.create_table(ctx, &indexed(name, is_tree))).expect("made");
        run(&instance, |ctx| {
            insert(&database, ctx, name, 0..300);
            Ok(())
        })
        .expect("inserted");
    }
    instance.checkpoint().expect("saved");
    (disk, instance, database)
}

/// Inserts, replaces and deletes rows of a table.
pub(crate) fn change(database: &DatabaseUse, ctx: &StatementContext, name: &str) {
    insert(database, ctx, name, 1000..1800);
    let (writer, all) = (writer(database, name), found(database, name));
    for (place, (at, values)) in all.into_iter().enumerate().take(200) {
        match place % 4 {
            0 => writer.delete(ctx, &at).expect("deleted"),
            rest => {
                // Shorter and longer rows, some of which have to move.
                let text = "x".repeat(rest * 30 % 91);
                let id = i32::from_le_bytes(values[0].as_ref().expect("an id")[..4].try_into().expect("four bytes"));
                let row = image(database, name, &[Value::Int(id.into()), Value::Text(text), Value::Null]);
                let update = RowUpdate { at, partition: 0, row };
                writer.update(ctx, &[update], &mut || false).expect("replaced");
            }
        }
    }
}

/// A transaction that changes tables, and is not ended.
pub(crate) fn begin_changes(
    instance: &Instance,
    database: &DatabaseUse,
    session: i32,
    names: &[&str],
) -> Arc<Transaction> {
    let transaction = instance.begin_transaction(SessionId(session)).expect("begun");
    for name in names {
        let ctx = instance.statement_of(&transaction, SessionId(session), 1, Arc::default());
        change(database, &ctx, name);
        instance.end_statement(&ctx, true, &[database]).expect("the statement ends");
    }
    transaction
}

/// Makes durable what was appended to the log, and cuts the power.
pub(crate) fn crash(
    disk: &Arc<SimulatedDisk>,
    instance: Arc<Instance>,
    database: DatabaseUse,
    open: Vec<Arc<Transaction>>,
) {
    database.flush_log().expect("durable");
    disk.crash(1);
    drop((open, database, instance));
    disk.power_on();
}

/// A world with the power cut while a transaction is open that has changed `heap` and `tree`; and what these had
/// before.
fn crashed_world() -> (Arc<SimulatedDisk>, [Contents; 2]) {
    let (disk, instance, database) = world();
    let before = changed(&database);
    let open = begin_changes(&instance, &database, 51, &["heap", "tree"]);
    crash(&disk, instance, database, vec![open]);
    (disk, before)
}

/// Starts after a crash. Nothing is undone behind the opening by itself.
pub(crate) fn restart(disk: &Arc<SimulatedDisk>) -> (Arc<Instance>, DatabaseUse) {
    let instance = open_with(disk, by_hand());
    let database = instance.database("d").expect("it opens");
    (instance, database)
}

/// Whether another session may lock a table like a reader.
pub(crate) fn is_free(instance: &Instance, database: &DatabaseUse, name: &str) -> bool {
    let owner = LockOwner::new(SessionId(60), LockOwnerKind::Session, Stamp(0));
    let resource = LockResource::Object(database.id(), table(database, name).id);
    instance.locks().is_free_for(&owner, &resource, LockMode::SchemaStability)
}

/// Undoes this number of records, or all that are left.
pub(crate) fn undo_some(database: &DatabaseUse, records: u64) {
    let left = Cell::new(records);
    let goes_on = || {
        let some = left.get() > 0;
        left.set(left.get().saturating_sub(1));
        some
    };
    database.undo_by_hand(&goes_on);
}

pub(crate) fn assert_whole(database: &DatabaseUse) {
    assert_eq!(database.state(), DatabaseState::Online);
    let problems = database.check().expect("readable");
    assert!(problems.is_empty(), "{problems:?}");
    check_extents(database);
    let count = |name| writer(database, name).base()[0].hobt().row_count();
    assert_eq!(["heap", "tree"].map(count), ["heap", "tree"].map(|name| found(database, name).len() as u64));
}

/// The tables that it has changed are locked until it is undone, by the session that views show as a recovery's. All
/// others are open at once. Then its rows are as they were before.
#[test]
fn what_a_large_transaction_has_changed_is_locked_and_all_else_is_open() {
    let (disk, instance, database) = world();
    let before = changed(&database);
    let open = begin_changes(&instance, &database, 51, &["heap", "tree"]);
    let id = open.stamp().0;
    crash(&disk, instance, database, vec![open]);

    let (instance, database) = restart(&disk);
    let undone = database.transactions_undone();
    assert_eq!(undone.iter().map(|one| one.transaction).collect::<Vec<_>>(), [id]);
    let log = database.storage().log().expect("a log");
    let chains = log.open_chains();
    assert!(chains.len() == 1 && chains[0].transaction == id && chains[0].reserved_bytes > 0, "{chains:?}");
    assert_eq!(["heap", "tree", "other"].map(|name| is_free(&instance, &database, name)), [false, false, true]);
    let held = instance.locks().rows();
    assert!(held.iter().all(|lock| lock.session == RECOVERED_SESSION && lock.mode == LockMode::SchemaModification));
    let work = |ids: std::ops::Range<i64>| {
        run(&instance, |ctx| {
            insert(&database, ctx, "other", ids.clone());
            Ok(())
        })
        .expect("the other table is open")
    };
    work(300..400);

    // Checkpoints and other transactions go on beside it.
    let mut last = 0.0;
    for step in 4..8 {
        undo_some(&database, 500);
        let [one] = database.transactions_undone()[..] else { panic!("it is not undone yet") };
        assert!(one.percent > last && one.percent < 100.0, "{one:?} after {last}");
        last = one.percent;
        assert!(!is_free(&instance, &database, "tree"));
        work(step * 100..step * 100 + 100);
        database.checkpoint().expect("saved");
    }
    database.wait_for_undo().expect("undone");
    assert_eq!(database.transactions_undone(), []);
    assert!(instance.locks().rows().is_empty());
    assert_eq!(changed(&database), before);
    assert_eq!((contents(&database, "other").len(), log.open_count()), (800, 0));
    assert_whole(&database);
    drop(database);
    instance.close().expect("closed");
    let (_instance, database) = restart(&disk);
    assert_eq!(database.transactions_undone(), []);
    assert_eq!(changed(&database), before);
    assert_whole(&database);
}

/// A thread undoes it, and a reader that waits for its lock finds the rows as they were.
#[test]
fn a_table_is_undone_when_its_lock_is_granted() {
    let (disk, before) = crashed_world();
    let instance = open_with(&disk, InstanceSettings { checkpoints_by_hand: false, ..by_hand() });
    let database = instance.database("d").expect("it opens");
    let owner = LockOwner::new(SessionId(60), LockOwnerKind::Session, Stamp(0));
    for (name, before) in ["heap", "tree"].iter().zip(&before) {
        let resource = LockResource::Object(database.id(), table(&database, name).id);
        let locks = instance.locks();
        let held = locks.hold(&owner, resource, LockMode::SchemaStability, Patience::default(), &|| false);
        let _held = held.expect("granted when it is undone");
        assert_eq!(contents(&database, name), *before);
    }
    database.wait_for_undo().expect("undone");
    assert_whole(&database);
}

/// What is undone in a moment is undone before the opening, and so is everything if a start asks for that.
#[test]
fn what_is_small_is_undone_before_the_opening() {
    for from in [None, Some(u64::MAX)] {
        let (disk, before) = crashed_world();
        let instance = open_with(&disk, InstanceSettings { undo_behind_from_bytes: from, ..by_hand() });
        let database = instance.database("d").expect("it opens");
        assert_eq!(database.transactions_undone(), []);
        assert_eq!(changed(&database), before);
        assert_whole(&database);
    }
}

/// Crashes between two records of the undo: each recovery goes on where the last one was. What others have committed
/// beside it is kept.
#[test]
fn crashes_in_the_middle_leave_the_rest_to_the_next_start() {
    for records in [1, 150, 700] {
        let (disk, before) = crashed_world();
        let mut lives = 0_i64;
        loop {
            let (instance, database) = restart(&disk);
            if database.transactions_undone().is_empty() || lives == 12 {
                database.wait_for_undo().expect("undone");
                assert_eq!(changed(&database), before, "{records}");
                let others = 300 + 50 * usize::try_from(lives).expect("positive");
                assert_eq!(contents(&database, "other").len(), others, "what others have committed meanwhile");
                assert_whole(&database);
                break;
            }
            undo_some(&database, records);
            let ids = (lives + 1) * 1000;
            run(&instance, |ctx| {
                insert(&database, ctx, "other", ids..ids + 50);
                Ok(())
            })
            .expect("the other table is open");
            if lives % 2 == 1 {
                database.checkpoint().expect("saved");
            }
            crash(&disk, instance, database, Vec::new());
            lives += 1;
        }
        assert!(lives > 3, "{lives} lives of {records} records");
    }
}

/// The power fails at any write of the undo, and of a checkpoint beside it.
#[test]
fn a_power_failure_at_any_write_of_the_undo_loses_nothing() {
    let (disk, before) = crashed_world();
    let mut cuts = 0;
    for cut in [1, 2, 3, 5, 8, 13, 21, 34, 3, 55, 8, 89, 2] {
        let (instance, database) = restart(&disk);
        disk.crash_at(disk.changes() + cut, cut);
        for _ in 0..20 {
            undo_some(&database, 40);
            // The power fails in one of these.
            let _saved = database.checkpoint();
        }
        cuts += u32::from(disk.is_off());
        disk.crash(cut);
        drop((database, instance));
        disk.power_on();
    }
    assert!(cuts > 8, "{cuts} cuts");
    let (_instance, database) = restart(&disk);
    database.wait_for_undo().expect("undone");
    assert_eq!(changed(&database), before);
    assert_whole(&database);
}

/// A close, and `OFFLINE`, stop the undo between two records. The next start goes on with it.
#[test]
fn a_close_in_the_middle_leaves_the_rest_to_the_next_start() {
    let (disk, before) = crashed_world();
    for life in 0..3 {
        let (instance, database) = restart(&disk);
        undo_some(&database, 300);
        assert_eq!(database.transactions_undone().len(), 1, "life {life}");
        drop(database);
        instance.set_offline("d").expect("offline");
        assert!(instance.locks().rows().is_empty(), "an offline database locks nothing");
        instance.set_online("d").expect("online");
        let database = instance.database("d").expect("it opens");
        assert!(!is_free(&instance, &database, "heap"));
        drop(database);
        instance.close().expect("closed");
    }
    // A thread that undoes is stopped.
    let instance = open_with(&disk, InstanceSettings { checkpoints_by_hand: false, ..by_hand() });
    drop(instance.database("d").expect("it opens"));
    instance.close().expect("closed");
    let (_instance, database) = restart(&disk);
    database.wait_for_undo().expect("undone");
    assert_eq!(changed(&database), before);
    assert_whole(&database);
}

/// A database that is dropped ends its undo. One that is detached is clean: its log is not needed any more.
#[test]
fn a_database_is_dropped_at_once_and_detached_when_all_is_undone() {
    for detaches in [false, true] {
        let (disk, before) = crashed_world();
        let instance = open_with(&disk, by_hand());
        undo_some(&instance.database("d").expect("it opens"), 100);
        if !detaches {
            instance.drop_database("d").expect("dropped");
            assert!(instance.locks().rows().is_empty());
            create(&instance, "d");
            continue;
        }
        instance.detach_database("d").expect("detached");
        let files = [Path::new(FOLDER).join("d.mdf"), Path::new(FOLDER).join("d_log.ldf")];
        disk.remove(&files[1]).expect("it is there");
        let attached = instance.attach_database("d", &files[..1], false).expect("attached without its log");
        let database = attached.database;
        assert_eq!(changed(&database), before);
        assert_whole(&database);
    }
}

/// Several transactions, in the same tables and in others. Those with changes of the catalog are undone before the
/// opening, and with them those that have changed one of their tables.
#[test]
fn who_shares_a_table_with_a_change_of_the_catalog_is_undone_before_the_opening() {
    let (disk, instance, database) = world();
    let names = ["heap", "tree", "other"];
    let before = names.map(|name| contents(&database, name));
    let mut open = Vec::new();
    let mut statement = |session: i32, work: &dyn Fn(&StatementContext)| {
        let transaction = instance.begin_transaction(SessionId(session)).expect("begun");
        let ctx = instance.statement_of(&transaction, SessionId(session), 1, Arc::default());
        work(&ctx);
        instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
        let id = transaction.stamp().0;
        open.push(transaction);
        id
    };
    statement(51, &|ctx| {
        database.create_table(ctx, &table_named("new")).expect("made");
        insert(&database, ctx, "heap", 2000..2010);
    });
    statement(52, &|ctx| insert(&database, ctx, "heap", 3000..3010));
    // It has a table in common with the one before, and is undone with it.
    statement(53, &|ctx| {
        insert(&database, ctx, "heap", 4000..4010);
        insert(&database, ctx, "tree", 4000..4010);
    });
    let large = statement(54, &|ctx| insert(&database, ctx, "other", 5000..5500));
    let small = statement(55, &|ctx| insert(&database, ctx, "other", 6000..6010));
    crash(&disk, instance, database, open);

    let (instance, database) = restart(&disk);
    let undone: Vec<u64> = database.transactions_undone().iter().map(|one| one.transaction).collect();
    assert_eq!(undone, [small, large], "the smallest first");
    assert_eq!(names.map(|name| is_free(&instance, &database, name)), [true, true, false]);
    assert_eq!(changed(&database), before[..2]);
    assert!(database.snapshot().table(1, "new").is_none());
    while database.transactions_undone().len() == 2 {
        undo_some(&database, 10);
    }
    assert!(!is_free(&instance, &database, "other"), "the other transaction still has it");
    database.wait_for_undo().expect("undone");
    assert_eq!(names.map(|name| contents(&database, name)), before);
    assert_whole(&database);
}

/// What a rollback to a savepoint has undone before the crash is not looked for: its table may not exist any more.
#[test]
fn a_table_in_which_nothing_is_left_to_undo_may_be_gone() {
    let (disk, instance, database) = world();
    let before = changed(&database);
    let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
    let savepoint = transaction.set_savepoint();
    for (name, is_kept) in [("other", false), ("heap", true), ("tree", true)] {
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        change(&database, &ctx, name);
        instance.end_statement(&ctx, true, &[&database]).expect("the statement ends");
        if !is_kept {
            instance.roll_back_to(&transaction, &savepoint, &[&database]).expect("undone");
        }
    }
    run(&instance, |ctx| database.drop_table(ctx, "dbo", "other", &mut unlocked)).expect("dropped");
    crash(&disk, instance, database, vec![transaction]);
    let (instance, database) = restart(&disk);
    assert_eq!(["heap", "tree"].map(|name| is_free(&instance, &database, name)), [false, false]);
    database.wait_for_undo().expect("undone");
    assert_eq!(changed(&database), before);
    assert_whole(&database);
}

/// Every commit over two databases that is cut off is in both or in none once all is undone.
#[test]
fn prepared_transactions_are_undone_before_the_opening() {
    for cut in 1..40 {
        let (disk, instance, database) = world();
        let second = create(&instance, "second");
        run(&instance, |ctx| second.create_table(ctx, &indexed("tree", true))).expect("made");
        instance.checkpoint().expect("saved");
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        for database in [&database, &second] {
            let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
            insert(database, &ctx, "tree", 1000..1100);
            instance.end_statement(&ctx, true, &[database]).expect("the statement ends");
        }
        let id = transaction.stamp().0;
        disk.crash_at(disk.changes() + cut, cut);
        let committed = instance.end_transaction(&transaction, true, &[&database, &second]);
        let was_cut = disk.is_off();
        disk.crash(cut);
        drop((transaction, database, second, instance));
        disk.power_on();
        let instance = open_with(&disk, by_hand());
        let uses = ["second", "d"].map(|name| instance.database(name).expect("it opens"));
        let kept = uses.each_ref().map(|database| {
            let has_log = |record: &hobt_engine::UndoneTransaction| record.transaction == id;
            let is_open = database.transactions_undone().iter().any(has_log);
            database.wait_for_undo().expect("undone");
            let rows = contents(database, "tree").len();
            assert!(!is_open || rows.is_multiple_of(100), "cut at {cut}");
            rows % 300 == 100
        });
        assert_eq!(kept[0], kept[1], "cut at {cut}");
        if !was_cut {
            assert!(committed.is_ok() && kept[0]);
            return;
        }
    }
    panic!("the commit was never complete");
}

/// A record that cannot be read makes the database suspect, as in a rollback, and statements that wait fail. The next
/// start undoes it.
#[test]
fn an_undo_that_fails_refuses_the_database_until_the_next_start() {
    let (disk, before) = crashed_world();
    let (instance, database) = restart(&disk);
    disk.inject(Fault { forever: true, ..Fault::once(Operation::Read, 0, FaultKind::Error(EIO)) });
    let waited = number_of(database.wait_for_undo());
    assert_eq!((waited, database.state()), (number::DATABASE_SUSPECT, DatabaseState::Suspect));
    assert_eq!(database.transactions_undone(), []);
    assert!(instance.locks().rows().is_empty(), "who waits finds out");
    disk.clear_faults();
    drop(database);
    instance.close().expect("closed");
    let (_instance, database) = restart(&disk);
    database.wait_for_undo().expect("undone");
    assert_eq!(changed(&database), before);
    assert_whole(&database);
}

/// A transaction has filled the log, with rows that got shorter and whose room is taken. While it is undone, others
/// fill what is left of the log; there is room for the undo and for checkpoints all the same.
#[test]
fn a_full_log_has_room_for_the_undo_beside_other_work() {
    let mut were_behind = 0;
    for shortens in [false, true] {
        let disk = simulated();
        let (instance, database) = log_full::with_small_log_as(&disk, by_hand());
        run(&instance, |ctx| database.create_table(ctx, &log_full::tree_named("third"))).expect("made");
        for id in 0..20 {
            run(&instance, |ctx| log_full::insert(&database, ctx, "t", id * 100, 1900)).expect("inserted");
        }
        instance.checkpoint().expect("saved");
        let transaction = instance.begin_transaction(SessionId(51)).expect("begun");
        let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
        if shortens {
            let updates: Vec<RowUpdate> = log_full::places(&database, "t")
                .into_iter()
                .zip(0..)
                .map(|((at, _), id)| RowUpdate { at, partition: 0, row: log_full::image(id * 100, 10) })
                .collect();
            log_full::writer(&database, "t").update(&ctx, &updates, &mut || false).expect("room");
            for id in 0..20 {
                for more in 1..4 {
                    run(&instance, |ctx| log_full::insert(&database, ctx, "t", id * 100 + more, 600)).expect("in");
                }
            }
        }
        let full = (0..100_000).find_map(|id| log_full::insert(&database, &ctx, "filler", id, 1000).err());
        assert_eq!(full.expect("8 MiB are full").to_sql_error().number, number::LOG_FULL);
        instance.end_statement(&ctx, true, &[&database]).expect("ended");
        drop(ctx);
        let sizes = |database: &DatabaseUse| -> Vec<usize> {
            log_full::places(database, "t").into_iter().map(|(_, bytes)| bytes).filter(|bytes| *bytes != 600).collect()
        };
        crash(&disk, instance, database, vec![transaction]);

        let (instance, database) = restart(&disk);
        were_behind += database.transactions_undone().len();
        for step in 0.. {
            let full = (step * 1000..)
                .find_map(|id| run(&instance, |ctx| log_full::insert(&database, ctx, "third", id, 100)).err());
            assert_eq!(full.expect("it is full again").to_sql_error().number, number::LOG_FULL);
            if database.transactions_undone().is_empty() {
                break;
            }
            undo_some(&database, 1000);
            // If there is no room for it now, there is later.
            let _saved = database.checkpoint();
            assert_eq!(database.state(), DatabaseState::Online);
        }
        assert_eq!(sizes(&database), [1900; 20]);
        assert!(found_none(&database, "filler"));
        assert_eq!(database.state(), DatabaseState::Online);
        let problems = database.check().expect("readable");
        assert!(problems.is_empty(), "{problems:?}");
        drop(database);
        instance.close().expect("closed");
    }
    assert!(were_behind > 0, "a log with room for it is the usual case");
}

fn found_none(database: &DatabaseUse, name: &str) -> bool {
    log_full::places(database, name).is_empty()
}
