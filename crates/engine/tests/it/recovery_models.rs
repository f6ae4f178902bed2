//! What the log is kept for, and what loads write to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_access::{LoadColumn, LoadValues, Loader};
use hobt_base::{Lsn, SessionId};
use hobt_engine::{DatabaseUse, Instance, LogDescription, RecoveryModel, TruncationWait};

use crate::fixture::{check_extents, create, insert, open, row, rows, run, simulated, table, table_named};

fn log_of(database: &DatabaseUse) -> LogDescription {
    LogDescription::of(database.storage()).expect("it has a log")
}

/// Changes the database and makes a checkpoint, so often that a log which is not kept would have wrapped around.
fn go_round(instance: &Instance, database: &DatabaseUse) {
    let table = table(database, "t");
    for step in 0..30 {
        run(instance, |ctx| insert(database, ctx, &table, 0, (step * 1000..(step + 1) * 1000).map(row))).expect("in");
        database.checkpoint().expect("saved");
    }
}

fn used_segments(database: &DatabaseUse) -> usize {
    log_of(database).segments.iter().filter(|segment| segment.sequence.is_some()).count()
}

#[test]
fn without_a_full_backup_every_recovery_model_truncates_at_checkpoints() {
    for model in RecoveryModel::ALL {
        let disk = simulated();
        let instance = open(&disk);
        let database = create(&instance, "shop");
        instance.set_options(&database, |options| options.recovery_model = model).expect("set");
        run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
        go_round(&instance, &database);
        let log = log_of(&database);
        assert_eq!(log.reuse_wait, TruncationWait::Nothing, "{model:?}");
        assert_eq!(used_segments(&database), 1, "{model:?}");
    }
}

#[test]
fn after_a_full_backup_the_log_is_kept_until_it_is_backed_up_also_over_restarts() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    instance.set_options(&database, |options| options.recovery_model = RecoveryModel::Full).expect("set");
    instance.database_was_backed_up(&database).expect("noted");
    run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    go_round(&instance, &database);
    assert_eq!(log_of(&database).reuse_wait, TruncationWait::LogBackup);
    let used = used_segments(&database);
    assert!(used > 2);
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("it");
    assert_eq!(used_segments(&database), used);
    database.storage().flush().expect("written");
    drop(database);
    disk.crash(4);
    drop(instance);
    let instance = open(&disk);
    let database = instance.database("shop").expect("recovered");
    assert!(used_segments(&database) >= used);
    assert_eq!(log_of(&database).reuse_wait, TruncationWait::LogBackup);
    // A log backup frees the part it contains.
    let until = log_of(&database).keep;
    instance.log_was_backed_up(&database, until).expect("noted");
    assert!(used_segments(&database) < used);
    assert_ne!(log_of(&database).reuse_wait, TruncationWait::LogBackup);
    // SIMPLE ends the chain: a later FULL waits for another full backup.
    for model in [RecoveryModel::Simple, RecoveryModel::Full] {
        let set = instance.set_options(&database, |options| {
            options.recovery_model = model;
            options.has_log_chain &= model != RecoveryModel::Simple;
        });
        set.expect("set");
    }
    go_round(&instance, &database);
    assert_eq!(log_of(&database).reuse_wait, TruncationWait::Nothing);
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 60_000);
}

/// Loads `count` rows into table `t`, and commits.
pub(crate) fn load(instance: &Instance, database: &DatabaseUse, count: i32) {
    let ctx = instance.statement_context(SessionId(51), 1, Arc::<AtomicBool>::default()).expect("open");
    let hobt = database.hobt(table(database, "t").base_index().partitions[0].hobt).expect("a heap");
    let mut loader = Loader::new(Arc::clone(&hobt), Arc::clone(&ctx));
    let ids: Vec<u8> = (0..count).flat_map(i32::to_le_bytes).collect();
    let amounts: Vec<u8> = (0..count).flat_map(|id| (i128::from(id) * 100).to_le_bytes()).collect();
    let texts: Vec<&[u8]> = (0..count).map(|_| &b"a text of some length"[..]).collect();
    let columns = [
        LoadColumn { values: LoadValues::Fixed(&ids), validity: None },
        LoadColumn { values: LoadValues::Variable(texts), validity: None },
        LoadColumn { values: LoadValues::Fixed(&amounts), validity: None },
    ];
    loader.append(usize::try_from(count).expect("small"), &columns).expect("loaded");
    let loaded = loader.finish().expect("written");
    for file in database.storage().files() {
        file.disk().sync().expect("synced");
    }
    hobt.publish(&ctx, vec![loaded]).expect("published");
    instance.end_statement(&ctx, true, &[database]).expect("committed");
}

#[test]
fn a_load_is_in_the_log_under_full_alone_and_survives_a_crash_under_all() {
    const ROWS: i32 = 20_000;
    for model in RecoveryModel::ALL {
        for seed in 0..3 {
            let disk = simulated();
            let instance = open(&disk);
            let database = create(&instance, "shop");
            instance.set_options(&database, |options| options.recovery_model = model).expect("set");
            run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
            let Lsn(before) = log_of(&database).end;
            load(&instance, &database, ROWS);
            let logged = log_of(&database).end.0 - before;
            let data = u64::from(database.storage().files()[0].size_pages()) * 8192;
            match model {
                RecoveryModel::Full => assert!(logged > ROWS as u64 * 40, "{logged} bytes of {data}"),
                _ => assert!(logged < 100_000, "{model:?}: {logged} bytes of {data}"),
            }
            drop(database);
            disk.crash(seed);
            drop(instance);
            let instance = open(&disk);
            let database = instance.database("shop").expect("recovered");
            check_extents(&database);
            assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), ROWS as usize);
        }
    }
}
