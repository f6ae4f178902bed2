//! Devices that fail, disks that fill, processes that die.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_catalog::Table;
use hobt_disk::{Disk, Fault, FaultKind, Operation, SimulatedConfig, SimulatedDisk};
use hobt_engine::{
    DataSpaceDefinition, DatabaseDefinition, DatabaseState, DatabaseUse, EngineError, FilegroupDefinition, Instance,
    TableDefinition,
};

use crate::fixture::{
    FOLDER, begin, check_extents, create, insert, number_of, open, row, rows, run, simulated, small_file, table,
    table_named, unlocked,
};

/// The system's number for "input/output error" and for "no space left on device".
const EIO: i32 = 5;

#[test]
fn a_definition_that_fails_at_any_read_leaves_nothing() {
    let (mut failed, mut suspect) = (0, 0);
    for after in 0..40 {
        let disk = simulated();
        let instance = open(&disk);
        let database = create(&instance, "shop");
        let kept = run(&instance, |ctx| database.create_table(ctx, &table_named("kept"))).expect("made");
        run(&instance, |ctx| insert(&database, ctx, &kept, 0, (0..500).map(row))).expect("inserted");
        instance.checkpoint().expect("saved");
        instance.pool().drop_clean_buffers(None);
        disk.inject(Fault::once(Operation::Read, after, FaultKind::Error(EIO)));
        let ctx = begin(&instance);
        let statement = || {
            let new = database.create_table(&ctx, &table_named("new"))?;
            // The changes so far are read again, so that later steps fail too.
            instance.checkpoint()?;
            instance.pool().drop_clean_buffers(None);
            insert(&database, &ctx, &new, 0, (0..3000).map(row))?;
            instance.checkpoint()?;
            instance.pool().drop_clean_buffers(None);
            database.drop_table(&ctx, "dbo", "kept", &mut unlocked)
        };
        let done = statement();
        let ended = instance.end_statement(&ctx, done.is_ok(), &[&database]);
        disk.clear_faults();
        drop(ctx);
        if let Err(error) = &ended {
            // The device failed while extents were freed: the pages cannot be trusted, and recovery continues the work.
            assert_eq!(error.to_sql_error().number, number::DATABASE_SUSPECT);
            assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT);
            suspect += 1;
        }
        if let Err(error) = &done {
            failed += 1;
            assert_eq!(error.to_sql_error().number, number::IO_ERROR, "{error}");
        }
        for restart in [false, true].into_iter().skip(usize::from(ended.is_err())) {
            let instance = if restart {
                instance.close().expect("closed");
                open(&disk)
            } else {
                Arc::clone(&instance)
            };
            let database = instance.database("shop").expect("the database");
            check_extents(&database);
            let snapshot = database.snapshot();
            assert_eq!(snapshot.table(1, "new").is_some(), done.is_ok(), "after {after}");
            assert_eq!(snapshot.table(1, "kept").is_none(), done.is_ok(), "after {after}");
            if done.is_err() {
                assert_eq!(rows(&database, &table(&database, "kept")).expect("rows").len(), 500);
            }
        }
    }
    assert!(failed >= 10 && failed + suspect < 40, "{failed} of 40 statements failed, {suspect} could not end");
}

#[test]
fn a_database_that_could_not_be_made_leaves_no_file_and_can_be_made_later() {
    let mut failed = 0;
    for operation in [Operation::Open, Operation::Write, Operation::Sync, Operation::SetSize, Operation::Lock] {
        for after in 0..8 {
            let disk = simulated();
            let instance = open(&disk);
            let definition = DatabaseDefinition {
                name: "shop".to_owned(),
                primary: vec![small_file("shop")],
                filegroups: vec![FilegroupDefinition {
                    name: "more".to_owned(),
                    files: vec![small_file("shop_2")],
                    is_default: false,
                }],
                log: Vec::new(),
            };
            disk.inject(Fault {
                operation,
                path_contains: "shop".to_owned(),
                after,
                kind: FaultKind::Error(EIO),
                forever: false,
            });
            let done = instance.create_database(&definition);
            disk.clear_faults();
            if done.is_err() {
                failed += 1;
                for file in ["shop.mdf", "shop_2.ndf"] {
                    assert!(!disk.exists(&Path::new(FOLDER).join(file)), "{file} is left: {operation} {after}");
                }
                assert_eq!(number_of(instance.database("shop")), number::DATABASE_DOES_NOT_EXIST);
                instance.create_database(&definition).expect("it can be made now");
            }
            drop(done);
            instance.close().expect("closed");
            let instance = open(&disk);
            check_extents(&instance.database("shop").expect("the database"));
        }
    }
    assert!(failed >= 10, "{failed} creations failed");
}

#[test]
fn a_full_disk_is_error_1105_or_9002_and_nothing_is_lost() {
    let config = SimulatedConfig { capacity_bytes: 48 << 20, ..SimulatedConfig::default() };
    let disk = SimulatedDisk::start(config).expect("a disk in memory");
    let instance = open(&disk);
    let database = create(&instance, "shop");
    let made = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..1000).map(row))).expect("inserted");
    let full = run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..2_000_000).map(row)));
    let error = full.expect_err("the disk is full").to_sql_error();
    // Whichever needs room first: the file of the rows, or the log.
    assert!([number::FILEGROUP_FULL, number::LOG_FULL].contains(&error.number), "{error}");
    assert!(error.message.contains("'shop'") && error.message.contains("no room left"), "{error}");
    check_extents(&database);
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("the database");
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows"), (0..1000).map(row).collect::<Vec<_>>());
}

#[test]
fn a_crash_loses_nothing_that_was_committed_and_keeps_nothing_else() {
    for seed in 0..8 {
        let disk = simulated();
        let instance = open(&disk);
        drop(create(&instance, "idle"));
        let changed = create(&instance, "changed");
        let read = create(&instance, "read");
        run(&instance, |ctx| read.create_table(ctx, &table_named("t"))).expect("made");
        drop((changed, read));
        instance.close().expect("closed");
        let instance = open(&disk);
        let (changed, read) = (instance.database("changed").expect("it"), instance.database("read").expect("it"));
        run(&instance, |ctx| changed.create_table(ctx, &table_named("t"))).expect("made");
        assert!(rows(&read, &table(&read, "t")).expect("rows").is_empty());
        drop((changed, read));
        disk.crash(seed);
        drop(instance);
        let instance = open(&disk);
        let states: Vec<_> = instance.databases().into_iter().map(|database| (database.name, database.state)).collect();
        let expected = [
            ("master", DatabaseState::Online),
            ("tempdb", DatabaseState::Online),
            ("idle", DatabaseState::Online),
            ("changed", DatabaseState::Online),
            ("read", DatabaseState::Online),
        ];
        assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state)), "seed {seed}");
        let changed = instance.database("changed").expect("recovered");
        assert!(rows(&changed, &table(&changed, "t")).expect("rows").is_empty());
        check_extents(&changed);
        check_extents(&instance.database("idle").expect("untouched"));
    }
}

#[test]
fn a_crash_while_master_is_changed_is_recovered_from() {
    let disk = simulated();
    let instance = open(&disk);
    let master = instance.master().expect("master");
    run(&instance, |ctx| master.create_table(ctx, &table_named("t"))).expect("made");
    drop(master);
    disk.crash(1);
    drop(instance);
    let instance = open(&disk);
    let master = instance.master().expect("recovered");
    table(&master, "t");
    check_extents(&master);
}

#[test]
fn a_database_whose_undo_failed_is_suspect_until_it_is_recovered() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    database.mark_suspect("a test says so");
    assert_eq!(database.state(), DatabaseState::Suspect);
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT);
    let ctx = begin(&instance);
    assert_eq!(number_of(database.create_table(&ctx, &table_named("u"))), number::DATABASE_SUSPECT);
    instance.end_statement(&ctx, false, &[&database]).expect("there is nothing to undo");
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    table(&instance.database("shop").expect("recovered"), "t");
}

/// An instance with a database and an empty table in it.
fn with_table(disk: &Arc<SimulatedDisk>) -> (Arc<Instance>, DatabaseUse, Arc<Table>) {
    let instance = open(disk);
    let database = create(&instance, "shop");
    let made = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    (instance, database, made)
}

#[test]
fn a_statement_whose_database_became_suspect_meanwhile_does_not_succeed() {
    let disk = simulated();
    let (instance, database, made) = with_table(&disk);
    // One that waits for a lock of the writer sees the writer's rows once that has ended, whichever way.
    let reader = begin(&instance);
    let writer = begin(&instance);
    insert(&database, &writer, &made, 0, (0..10).map(row)).expect("inserted");
    disk.inject(Fault { forever: true, ..Fault::once(Operation::Write, 0, FaultKind::Error(EIO)) });
    let failed = instance.end_statement(&writer, true, &[&database]).expect_err("the log cannot be written");
    assert_eq!(failed.to_sql_error().number, number::DATABASE_SUSPECT);
    let ended = instance.end_statement(&reader, true, &[&database]).expect_err("what it has seen may never have been");
    assert_eq!(ended.to_sql_error().number, number::DATABASE_SUSPECT);
}

#[test]
fn a_transaction_whose_database_became_suspect_meanwhile_is_not_committed() {
    let disk = simulated();
    let (instance, database, made) = with_table(&disk);
    let transaction = instance.begin_transaction(SessionId(51)).expect("open");
    let statement = || instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
    let first = statement();
    insert(&database, &first, &made, 0, (0..10).map(row)).expect("inserted");
    instance.end_statement(&first, true, &[&database]).expect("ended");
    let second = statement();
    insert(&database, &second, &made, 0, (10..20).map(row)).expect("inserted");
    database.mark_suspect("another statement could not be undone");
    // It fails, and nothing of it can be undone now.
    instance.end_statement(&second, true, &[&database]).expect_err("suspect");
    drop((first, second));
    let ended = instance.end_transaction(&transaction, true, &[&database]).expect_err("what failed is not kept");
    assert_eq!(ended.to_sql_error().number, number::DATABASE_SUSPECT);
    drop(transaction);
    // Another transaction, or a full ring, makes durable what was appended: the log says nothing of an end.
    database.storage().log().expect("a log").flush().expect("durable");
    drop((made, database));
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert!(rows(&database, &table(&database, "t")).expect("rows").is_empty());
}

/// In a database that is sound the transaction is undone and ended all the same: its log keeps no record for it.
#[test]
fn a_rollback_that_fails_in_one_database_ends_in_the_others() {
    let disk = simulated();
    let (instance, shop, in_shop) = with_table(&disk);
    let depot = create(&instance, "depot");
    let in_depot = run(&instance, |ctx| depot.create_table(ctx, &table_named("t"))).expect("made");
    let transaction = instance.begin_transaction(SessionId(51)).expect("open");
    let ctx = instance.statement_of(&transaction, SessionId(51), 1, Arc::default());
    insert(&shop, &ctx, &in_shop, 0, (0..100).map(row)).expect("inserted");
    insert(&depot, &ctx, &in_depot, 0, (0..100).map(row)).expect("inserted");
    instance.end_statement(&ctx, true, &[&shop, &depot]).expect("ended");
    shop.storage().mark_broken("another statement could not be undone");
    drop(ctx);
    instance.end_transaction(&transaction, false, &[&shop, &depot]).expect_err("it cannot be undone in one of them");
    drop(transaction);
    assert!(depot.storage().broken().is_none());
    assert_eq!(depot.storage().log().expect("a log").open_count(), 0);
    assert!(rows(&depot, &in_depot).expect("rows").is_empty());
    drop((shop, depot));
    instance.close().expect("closed");
    let instance = open(&disk);
    for name in ["shop", "depot"] {
        let database = instance.database(name).expect("recovered");
        assert!(rows(&database, &table(&database, "t")).expect("rows").is_empty(), "{name}");
    }
}

#[test]
fn an_instance_with_running_statements_is_neither_closed_nor_saved_as_whole() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    let ctx = begin(&instance);
    database.create_table(&ctx, &table_named("t")).expect("made");
    assert_eq!(number_of(instance.close()), number::DATABASE_IN_USE);
    instance.end_statement(&ctx, false, &[&database]).expect("undone");
    instance.close().expect("nothing runs any more");
    drop(database);

    let instance = open(&disk);
    let database = instance.database("shop").expect("saved whole");
    let ctx = begin(&instance);
    database.create_table(&ctx, &table_named("t")).expect("made");
    drop((database, instance));
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert!(database.snapshot().table(1, "t").is_none(), "it was not committed");
    check_extents(&database);
    drop(ctx);
}

/// An instance with database `shop`, table `t` and 500 rows, and a statement that panics after it has created a table
/// and inserted rows. `before` is called right before the panic.
fn panicked(disk: &Arc<SimulatedDisk>, before: impl FnOnce()) -> Arc<Instance> {
    let instance = open(disk);
    let database = create(&instance, "shop");
    let kept = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    run(&instance, |ctx| insert(&database, ctx, &kept, 0, (0..500).map(row))).expect("inserted");
    let statement = || {
        run(&instance, |ctx| -> Result<(), EngineError> {
            database.create_table(ctx, &table_named("new"))?;
            insert(&database, ctx, &kept, 0, (500..3000).map(row))?;
            instance.checkpoint()?;
            instance.pool().drop_clean_buffers(None);
            before();
            panic!("half-way")
        })
    };
    catch_unwind(AssertUnwindSafe(statement)).expect_err("it panics");
    instance
}

#[test]
fn a_statement_whose_thread_panics_is_undone_before_anything_is_saved() {
    for closes in [true, false] {
        let disk = simulated();
        let instance = panicked(&disk, || {});
        if closes {
            instance.close().expect("nothing runs any more");
        }
        drop(instance);
        let instance = open(&disk);
        let database = instance.database("shop").expect("saved whole");
        assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 500);
        check_extents(&database);
        run(&instance, |ctx| database.create_table(ctx, &table_named("new"))).expect("the name is free");
    }
}

#[test]
fn a_statement_whose_thread_panics_and_that_cannot_be_undone_makes_its_database_suspect() {
    let disk = simulated();
    let fault = Fault { forever: true, ..Fault::once(Operation::Read, 0, FaultKind::Error(EIO)) };
    let instance = panicked(&disk, || disk.inject(fault));
    disk.clear_faults();
    assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 500);
    check_extents(&database);
}

#[test]
fn a_panic_amid_a_change_of_pages_makes_the_database_suspect() {
    let disk = simulated();
    let instance = open(&disk);
    let (shop, other) = (create(&instance, "shop"), create(&instance, "other"));
    run(&instance, |ctx| shop.create_table(ctx, &table_named("t"))).expect("made");
    let change = || shop.storage().in_one_piece(|| panic!("half a page"));
    catch_unwind(AssertUnwindSafe(change)).expect_err("it panics");
    drop((shop, other));
    for restart in [false, true] {
        let instance = if restart {
            instance.close().expect("closed");
            open(&disk)
        } else {
            Arc::clone(&instance)
        };
        match restart {
            false => assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT),
            true => drop(table(&instance.database("shop").expect("recovered"), "t")),
        }
        instance.database("other").expect("the panic was not in it");
    }
}

#[test]
fn a_header_that_could_not_be_written_is_written_before_the_next_change() {
    for after in 0..4 {
        let disk = simulated();
        let instance = open(&disk);
        let definition = DatabaseDefinition {
            name: "shop".to_owned(),
            primary: vec![small_file("shop")],
            filegroups: vec![FilegroupDefinition {
                name: "more".to_owned(),
                files: vec![small_file("shop_2")],
                is_default: false,
            }],
            log: Vec::new(),
        };
        let database = instance.create_database(&definition).expect("made").database;
        let on_more = DataSpaceDefinition::Named("more".to_owned());
        let made = TableDefinition { data_space: on_more, ..table_named("t") };
        run(&instance, |ctx| database.create_table(ctx, &made)).expect("made");
        drop(database);
        instance.close().expect("closed");

        let instance = open(&disk);
        let database = instance.database("shop").expect("clean");
        let t = table(&database, "t");
        disk.inject(Fault {
            operation: Operation::Write,
            path_contains: "shop".to_owned(),
            after,
            kind: FaultKind::Error(EIO),
            forever: false,
        });
        let write = |from: i64| run(&instance, |ctx| insert(&database, ctx, &t, 0, (from..from + 500).map(row)));
        assert_eq!(number_of(write(0)), number::IO_ERROR, "a header cannot be written");
        disk.clear_faults();
        let second = write(500);
        // The second statement's writes reach the second file, whose header may be in any state.
        let saved = instance.checkpoint();
        disk.crash(after);
        drop((database, instance));
        let instance = open(&disk);
        match instance.database("shop") {
            Err(error) => assert_eq!(error.to_sql_error().number, number::DATABASE_SUSPECT, "{after}"),
            Ok(database) => {
                let found = rows(&database, &table(&database, "t")).expect("whole");
                assert!(found.is_empty() && second.is_err(), "{after}: changed under headers that say clean");
            }
        }
        assert!(saved.is_err() || second.is_err(), "the file that failed refuses to be written");
    }
}

#[test]
fn an_instance_does_not_close_while_a_statement_commits() {
    let instance = open(&simulated());
    let database = create(&instance, "shop");
    run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    let ctx = begin(&instance);
    let (closing, outcome) = (Arc::clone(&instance), Arc::new(std::sync::OnceLock::new()));
    let seen = Arc::clone(&outcome);
    database.drop_table(&ctx, "dbo", "t", &mut unlocked).expect("dropped");
    // After the catalog's change, after the freeing of the extents, and in other statements between the two.
    ctx.on_commit(move || {
        seen.get_or_init(|| number_of(closing.close()));
        Ok(())
    });
    instance.end_statement(&ctx, true, &[&database]).expect("committed");
    assert_eq!(outcome.get(), Some(&number::DATABASE_IN_USE));
    instance.close().expect("nothing runs any more");
    let refused = instance.statement_context(SessionId(51), 1, Arc::default());
    assert_eq!(number_of(refused), number::SHUTDOWN);
}

#[test]
fn a_master_that_cannot_be_written_never_lists_a_database_without_files() {
    for operation in [Operation::Write, Operation::Sync] {
        for after in 0..12 {
            let disk = simulated();
            let instance = open(&disk);
            drop(create(&instance, "before"));
            disk.inject(Fault {
                operation,
                path_contains: "master".to_owned(),
                after,
                kind: FaultKind::Error(EIO),
                forever: false,
            });
            let done = instance.create_database(&crate::fixture::database_named("shop")).map(drop);
            disk.clear_faults();
            let exists = |instance: &Instance| instance.database("shop").is_ok();
            assert_eq!(done.is_ok(), exists(&instance), "{operation} {after}");
            // If the list could be neither kept nor undone, the files are left to master's recovery.
            let known = done.is_ok() || instance.master().is_ok();
            let has_file = disk.exists(&Path::new(FOLDER).join("shop.mdf"));
            assert!(!known || has_file == done.is_ok(), "{operation} {after}");
            instance.database("before").expect("the others go on");
            drop(instance);
            let instance = open(&disk);
            instance.database("before").expect("listed");
            let is_listed = instance.databases().iter().any(|database| database.name == "shop");
            assert_eq!(is_listed, exists(&instance), "{operation} {after}: listed without files");
            assert!(!known || is_listed == done.is_ok(), "{operation} {after}");
        }
    }
}
