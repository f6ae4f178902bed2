//! What a long history of backups costs: another entry, a start, and the first entry after it.
//!
//! `cargo run --release -p hobt-engine --example history_cost -- FOLDER [entries]`: makes an instance in the folder,
//! which must not exist, and removes it at the end. 10,000 entries unless said.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hobt_engine::{BackupRequest, BackupWhat, Instance, InstanceSettings, Opening};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("arguments: FOLDER [entries]")?);
    let entries = arguments.next().map(|count| count.to_string_lossy().parse()).transpose()?.unwrap_or(10_000);
    std::fs::create_dir(&folder)?;
    let measured = measure(&folder, entries);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &Path, entries: u32) -> Result<(), Box<dyn Error>> {
    let instance = Instance::open(folder, InstanceSettings::default())?;
    let database = instance.database("master")?;
    instance.back_up(
        &database,
        &BackupRequest {
            what: BackupWhat::Database,
            paths: &[PathBuf::from("master.bak")],
            opening: Opening::Append,
            compresses: false,
            checks: false,
            continues_after_error: false,
            is_copy_only: false,
            keeps_log: false,
            leaves_restoring: false,
            name: String::new(),
            description: String::new(),
            media_name: String::new(),
            media_description: String::new(),
            user: "example".to_owned(),
            server: "here".to_owned(),
            observe: &|_, _| Ok(()),
        },
    )?;
    let (_, entry) = instance.backup_history()?.pop().ok_or("the backup is not in the history")?;
    for _ in 1..entries {
        instance.note_in_history(&entry)?;
    }
    let noted = |instance: &Instance, what: &str| -> Result<(), Box<dyn Error>> {
        let since = Instant::now();
        instance.note_in_history(&entry)?;
        println!("{what}: {:.3} ms", since.elapsed().as_secs_f64() * 1e3);
        Ok(())
    };
    println!("{entries} entries of {} bytes", entry.to_text().len());
    noted(&instance, "another entry")?;
    drop(database);
    instance.close()?;
    drop(instance);
    let since = Instant::now();
    let instance = Instance::open(folder, InstanceSettings::default())?;
    println!("start: {:.3} ms", since.elapsed().as_secs_f64() * 1e3);
    noted(&instance, "the first entry after a start")?;
    instance.close()?;
    Ok(())
}
