//! What a long history of backups costs a start and a backup.

use std::time::Instant;

use hobt_engine::{BackupWhat, RecoveryModel};

use crate::backup::{add, back_up, shop};
use crate::fixture::{open, simulated};

#[test]
#[ignore = "a measurement: cargo test -p hobt-engine --test it -- --ignored history_size --nocapture"]
fn history_size() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..100);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let (_, entry) = instance.backup_history().expect("readable").remove(0);
    for count in [1, 10_000] {
        for _ in 1..count {
            instance.note_in_history(&entry).expect("noted");
        }
        let since = Instant::now();
        instance.note_in_history(&entry).expect("noted");
        println!("{count} entries of {} bytes: another one {:?}", entry.to_text().len(), since.elapsed());
    }
    drop(database);
    instance.close().expect("closed");
    drop(instance);
    let since = Instant::now();
    let instance = open(&disk);
    println!("start {:?}", since.elapsed());
    let since = Instant::now();
    instance.note_in_history(&entry).expect("noted");
    println!("the first one after it {:?}", since.elapsed());
    let since = Instant::now();
    println!("{} entries read in {:?}", instance.backup_history().expect("readable").len(), since.elapsed());
}
