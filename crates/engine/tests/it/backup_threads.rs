//! Backups and restores on a real disk, where several threads copy, beside others that use it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hobt_base::{SqlError, errors, number};
use hobt_engine::{BackupRequest, BackupWhat, DatabaseUse, Instance, RecoveryModel, RestoreEnd, RestoreRequest};
use hobt_types::Value;

use crate::backup::{Restoring, add, assert_sound, ids, request, shop};
use crate::fixture::{Folder, insert, number_of, run, table};

/// More than there are threads, in blocks of 1 MiB.
const ROWS: i64 = 100_000;
/// Nothing here takes so long.
const LONG: Duration = Duration::from_secs(120);

fn prepared(name: &str) -> (Folder, Arc<Instance>, DatabaseUse) {
    let folder = Folder::new(name);
    let instance = folder.open();
    let database = shop(&instance, RecoveryModel::Full);
    let wide = |id: i64| vec![Value::Int(id), Value::Text("x".repeat(100)), Value::Null];
    let made = table(&database, "t");
    run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..ROWS).map(wide))).expect("inserted");
    (folder, instance, database)
}

/// A backup ends although others use the disk all the time, and what it and they have written comes back.
#[test]
fn a_backup_ends_beside_others_that_never_rest() {
    let (_folder, instance, database) = prepared("backup-beside");
    for (name, compresses, files) in [("plain", false, 1), ("packed", true, 1), ("striped", false, 3)] {
        let paths: Vec<PathBuf> = (0..files).map(|file| PathBuf::from(format!("{name}{file}.bak"))).collect();
        let (is_made, is_late) = (AtomicBool::new(false), AtomicBool::new(false));
        let next = AtomicI64::new(ids(&database).len() as i64);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // Each of them flushes the log.
                    while !is_made.load(Ordering::Relaxed) && !is_late.load(Ordering::Relaxed) {
                        let id = next.fetch_add(1, Ordering::Relaxed);
                        add(&instance, &database, id..id + 1);
                        is_late.fetch_or(begun.elapsed() > LONG, Ordering::Relaxed);
                    }
                });
            }
            let wanted = BackupRequest { compresses, ..request(BackupWhat::Database, &paths) };
            let made = instance.back_up(&database, &wanted);
            is_made.store(true, Ordering::Relaxed);
            assert!(!made.expect("backed up").facts.is_damaged);
        });
        assert!(!is_late.into_inner(), "the backup {name} did not end before the others did");
        let (first, rest) = paths.split_first().expect("a file");
        let mut restoring = Restoring::of("copy", &first.display().to_string()).moved().recovery();
        restoring.paths.extend_from_slice(rest);
        restoring.run(&instance).expect("restored");
        let copy = instance.database("copy").expect("online");
        let found = ids(&copy);
        assert!(found.len() as i64 >= ROWS && found.iter().zip(0..).all(|(id, at)| *id >= at), "{}", found.len());
        assert_sound(&copy);
        drop(copy);
        instance.drop_database("copy").expect("dropped");
    }
}

/// A backup or a restore that is cancelled leaves nothing, and the next one finds everything as it was.
#[test]
fn what_is_cancelled_leaves_nothing() {
    let (folder, instance, database) = prepared("backup-cancelled");
    let cancel = |_done: u64, _all: u64| -> Result<(), SqlError> { Err(errors::CANCELED.error()) };
    let paths = [PathBuf::from("full.bak")];
    for compresses in [false, true] {
        let wanted = BackupRequest { compresses, observe: &cancel, ..request(BackupWhat::Database, &paths) };
        assert_eq!(number_of(instance.back_up(&database, &wanted)), number::CANCELED);
        assert!(!folder.0.join("full.bak").exists());
    }
    instance.back_up(&database, &request(BackupWhat::Database, &paths)).expect("backed up");
    let length = |file: &str| std::fs::metadata(folder.0.join(file)).expect("a file").len();
    let before = length("full.bak");
    // Behind a backup set that is there, its room is given back.
    let wanted = BackupRequest { observe: &cancel, ..request(BackupWhat::Database, &paths) };
    assert_eq!(number_of(instance.back_up(&database, &wanted)), number::CANCELED);
    assert_eq!(length("full.bak"), before);
    let moves = [("shop", "copy.mdf"), ("shop_log", "copy.ldf")].map(|(name, path)| (name.to_owned(), path.into()));
    let restore = |observe| {
        instance.restore(&RestoreRequest {
            name: "copy",
            is_log: false,
            paths: &paths,
            set: None,
            moves: &moves,
            replaces: false,
            end: RestoreEnd::Recovery,
            stop: None,
            checks: false,
            continues_after_error: false,
            user: "tester".to_owned(),
            observe,
        })
    };
    assert_eq!(number_of(restore(&cancel)), number::CANCELED);
    for file in ["copy.mdf", "copy.ldf"] {
        assert!(!folder.0.join(file).exists(), "{file}");
    }
    restore(&|_, _| Ok(())).expect("restored");
    let copy = instance.database("copy").expect("online");
    assert_eq!(ids(&copy), (0..ROWS).collect::<Vec<_>>());
}
