//! Backups and restores with the clock on, each beside its limit.

use std::path::PathBuf;

use hobt_engine::{HistoryEntry, SetFacts};

use super::super::together::Counters;
use super::places::{DATABASE, FOLDER, RESTORED, devices, remove};
use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;
use crate::limits::disk::DiskProbe;
use crate::report::Case;

/// A full backup.
pub(super) struct Full {
    name: &'static str,
    meaning: &'static str,
    stripes: usize,
    options: &'static str,
}

const fn full(name: &'static str, meaning: &'static str, stripes: usize, options: &'static str) -> Full {
    Full { name, meaning, stripes, options }
}

impl Full {
    pub(super) const ALL: [Full; 6] = [
        full("full_1", "a full backup to one file", 1, "FORMAT"),
        full("full_2", "a full backup to two files", 2, "FORMAT"),
        full("full_4", "a full backup to four files", 4, "FORMAT"),
        full("compressed_1", "a compressed full backup to one file", 1, "FORMAT, COMPRESSION"),
        full("compressed_2", "a compressed full backup to two files", 2, "FORMAT, COMPRESSION"),
        full("checksum_1", "a full backup to one file that stops at a damaged page", 1, "FORMAT, CHECKSUM"),
    ];

    fn statement(&self, devices: &str) -> String {
        format!("BACKUP DATABASE [{DATABASE}] TO {devices} WITH {}", self.options)
    }
}

/// A change of one row in a hundred, before a differential backup.
pub(super) struct Changes {
    name: &'static str,
    meaning: &'static str,
    /// What follows `UPDATE`, for so many rows.
    update: fn(u64) -> String,
}

impl Changes {
    pub(super) const ALL: [Changes; 2] = [
        Changes {
            name: "differential_range",
            meaning: "a differential backup after 1 % of the rows has changed, side by side",
            update: |rows| format!("TOP ({}) dbo.LINEITEM SET l_quantity += 1", (rows / 100).max(1)),
        },
        Changes {
            name: "differential_scattered",
            meaning: "a differential backup after 1 % of the rows has changed, all over the table",
            update: |_| "dbo.LINEITEM SET l_quantity += 1 WHERE l_partkey % 100 = 0".to_owned(),
        },
    ];
}

/// What is done with a backup that is kept.
pub(super) struct Restore {
    name: &'static str,
    meaning: &'static str,
    /// The case that wrote it.
    from: &'static str,
    /// Whether it is restored, or only verified.
    restores: bool,
}

impl Restore {
    pub(super) const ALL: [Restore; 3] = [
        Restore {
            name: "restore",
            meaning: "a restore of the backup of full_1 as a new database, with its recovery",
            from: "full_1",
            restores: true,
        },
        Restore {
            name: "restore_compressed",
            meaning: "a restore of the backup of compressed_1 as a new database, with its recovery",
            from: "compressed_1",
            restores: true,
        },
        Restore {
            name: "verify",
            meaning: "RESTORE VERIFYONLY of the backup of full_1: every block is read and checked",
            from: "full_1",
            restores: false,
        },
    ];

    fn statement(&self, devices: &str) -> String {
        if self.restores {
            format!(
                "RESTORE DATABASE [{RESTORED}] FROM {devices} WITH MOVE '{DATABASE}' TO '{FOLDER}/{RESTORED}.mdf', \
                 MOVE '{DATABASE}_log' TO '{FOLDER}/{RESTORED}.ldf'"
            )
        } else {
            format!("RESTORE VERIFYONLY FROM {devices}")
        }
    }
}

/// The name of the case of the log.
const LOG: &str = "log";

/// What a case reads and writes, in bytes, and what of it counts for its rate.
#[derive(Clone, Copy)]
struct Moved {
    read: u64,
    written: u64,
    counted: u64,
    stored: u64,
}

/// The cases so far, and what they need.
pub(super) struct Timed<'a> {
    probe: &'a DiskProbe,
    rows: u64,
    repeat: usize,
    /// With what the last repetition moved.
    cases: Vec<(Case, Option<Moved>)>,
    /// The backups that are kept for restores: the case, its files, and what it says of itself.
    kept: Vec<(&'static str, Vec<PathBuf>, SetFacts)>,
}

impl<'a> Timed<'a> {
    pub(super) fn new(probe: &'a DiskProbe, rows: u64, repeat: usize) -> Timed<'a> {
        Timed { probe, rows, repeat, cases: Vec::new(), kept: Vec::new() }
    }

    /// The cases, the full backups first, whatever order they ran in.
    pub(super) fn into_cases(mut self) -> Vec<Case> {
        let names: Vec<&str> = Full::ALL
            .iter()
            .map(|full| full.name)
            .chain(Changes::ALL.iter().map(|changes| changes.name))
            .chain([LOG])
            .chain(Restore::ALL.iter().map(|restore| restore.name))
            .collect();
        self.cases.sort_by_key(|(case, _)| names.iter().position(|name| *name == case.name));
        self.cases.into_iter().map(|(case, _)| case).collect()
    }

    /// All full backups, each to new files.
    pub(super) fn fulls(&mut self, lab: &mut Laboratory, repetition: usize) -> Result<()> {
        for full in in_turn(&Full::ALL, repetition) {
            let (devices, files) = devices(lab, full.name, full.stripes);
            let statement = full.statement(&devices);
            let facts = self.back_up(lab, (full.name, full.meaning), &statement, repetition)?;
            if Restore::ALL.iter().any(|restore| restore.from == full.name) {
                self.kept.push((full.name, files, facts));
            } else {
                remove(&files)?;
            }
        }
        Ok(())
    }

    /// Changes rows and takes the differential backups, then the backup of the log.
    pub(super) fn changes(&mut self, lab: &mut Laboratory, repetition: usize) -> Result<()> {
        for changes in &Changes::ALL {
            lab.run(&format!("UPDATE {}", (changes.update)(self.rows)))?;
            let (devices, files) = devices(lab, changes.name, 1);
            let statement = format!("BACKUP DATABASE [{DATABASE}] TO {devices} WITH DIFFERENTIAL, FORMAT");
            self.back_up(lab, (changes.name, changes.meaning), &statement, repetition)?;
            remove(&files)?;
        }
        let (devices, files) = devices(lab, LOG, 1);
        let statement = format!("BACKUP LOG [{DATABASE}] TO {devices} WITH FORMAT");
        let meaning = "a backup of the log of these changes";
        self.back_up(lab, (LOG, meaning), &statement, repetition)?;
        remove(&files)
    }

    /// Restores and verifies the backups that were kept, and removes them.
    pub(super) fn restores(&mut self, lab: &mut Laboratory, repetition: usize) -> Result<()> {
        let kept = std::mem::take(&mut self.kept);
        for restore in in_turn(&Restore::ALL, repetition) {
            let (_, files, facts) =
                kept.iter().find(|(name, ..)| *name == restore.from).expect("every backup to restore is kept");
            let statement = restore.statement(&devices(lab, restore.from, files.len()).0);
            let (database, stored) = (facts.bytes, facts.stored_bytes);
            // Files of the log are filled with zeros when they are made.
            let zeros: u64 = facts.logs.iter().map(|log| log.bytes).sum();
            let moved = Moved {
                read: stored,
                written: if restore.restores { database + zeros } else { 0 },
                counted: if restore.restores { database } else { stored },
                stored,
            };
            self.run(lab, (restore.name, restore.meaning), &statement, repetition, |_| Ok(moved))?;
            if restore.restores {
                self.check_restored(lab, restore)?;
            }
        }
        kept.iter().try_for_each(|(_, files, _)| remove(files))
    }

    /// A restored database has the rows of the table.
    fn check_restored(&self, lab: &mut Laboratory, restore: &Restore) -> Result<()> {
        let found = lab.run(&format!("SELECT COUNT_BIG(*) FROM [{RESTORED}].dbo.LINEITEM"))?.count();
        lab.run(&format!("DROP DATABASE [{RESTORED}]"))?;
        if found != Some(self.rows) {
            return Err(LabError::Wrong(format!("{} brought {found:?} rows of {}", restore.name, self.rows)));
        }
        Ok(())
    }

    /// Runs a backup. Returns what it says of itself.
    fn back_up(
        &mut self,
        lab: &mut Laboratory,
        named: (&'static str, &str),
        statement: &str,
        repetition: usize,
    ) -> Result<SetFacts> {
        lab.run("CHECKPOINT")?;
        let mut made = None;
        self.run(lab, named, statement, repetition, |lab| {
            let facts = made.insert(last_set(lab)?);
            let (database, stored) = (facts.bytes, facts.stored_bytes);
            Ok(Moved { read: database, written: stored, counted: database, stored })
        })?;
        Ok(made.expect("the backup was looked up"))
    }

    /// Runs a statement, and its limit after it; in every second repetition before it, with the bytes of the last one.
    fn run(
        &mut self,
        lab: &mut Laboratory,
        (name, meaning): (&'static str, &str),
        statement: &str,
        repetition: usize,
        moved: impl FnOnce(&Laboratory) -> Result<Moved>,
    ) -> Result<()> {
        lab.progress().step(&format!("{name}, {} of {}", repetition + 1, self.repeat));
        let place = self.cases.iter().position(|(case, _)| case.name == name).unwrap_or_else(|| {
            let case = Case { meaning: meaning.to_owned(), rows: self.rows, ..Case::new(name, statement) };
            self.cases.push((case, None));
            self.cases.len() - 1
        });
        let (case, last) = &mut self.cases[place];
        let earlier = last.filter(|_| repetition % 2 == 1);
        let limit_before = earlier.map(|moved| limit_mb_s(lab, self.probe, moved)).transpose()?;
        let counters = Counters::now(lab)?;
        let cpu_before = hobt_instruments::processor::process_cpu_time();
        let elapsed = lab.run(statement)?.elapsed.as_secs_f64().max(1e-9);
        let cpu = hobt_instruments::processor::process_cpu_time().saturating_sub(cpu_before);
        let counted = counters.since(lab)?;
        let moved = moved(lab)?;
        let limit = limit_before.map_or_else(|| limit_mb_s(lab, self.probe, moved), Ok)?;
        *last = Some(moved);
        let megabytes = moved.counted as f64 / 1e6;
        case.set_bytes(moved.counted);
        case.push("elapsed_s", elapsed);
        case.push("mb_s", megabytes / elapsed);
        case.push("gb_an_hour", megabytes / 1e3 / elapsed * 3600.0);
        case.push("limit_mb_s", limit);
        case.push("over_limit", megabytes / elapsed / limit.max(1e-9));
        case.push("process_cpu_s", cpu.as_secs_f64());
        case.push("stored_mb", moved.stored as f64 / 1e6);
        counted.put_into(case);
        Ok(())
    }
}

/// The rate of the disk alone, for as many bytes.
fn limit_mb_s(lab: &Laboratory, probe: &DiskProbe, moved: Moved) -> Result<f64> {
    let elapsed = lab.copy_time(probe, moved.read, moved.written)?;
    Ok(moved.counted as f64 / 1e6 / elapsed.as_secs_f64().max(1e-9))
}

/// In order, and in every second repetition in reverse order.
fn in_turn<T>(all: &[T], repetition: usize) -> Vec<&T> {
    let mut order: Vec<&T> = all.iter().collect();
    if repetition % 2 == 1 {
        order.reverse();
    }
    order
}

/// What the newest backup of the experiment's database says of itself.
fn last_set(lab: &Laboratory) -> Result<SetFacts> {
    let history = lab.instance().backup_history();
    let history = history.map_err(|error| LabError::sql("reading the history of backups", error))?;
    let mut sets = history.into_iter().rev().filter_map(|(_, entry)| match entry {
        HistoryEntry::Backup { facts, .. } if facts.database == DATABASE => Some(*facts),
        HistoryEntry::Backup { .. } | HistoryEntry::Restore { .. } => None,
    });
    sets.next().ok_or_else(|| LabError::Wrong("a backup is not in the history".to_owned()))
}
