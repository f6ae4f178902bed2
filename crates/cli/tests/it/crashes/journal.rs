//! The journal outside the process: what each session was about to do, and what answers it received.
//!
//! One line per note, in the order of each session. Lines of several lives follow each other. After a check there are
//! lines with the outcome of the transactions in doubt.
//!
//! ```text
//!   setup                          the databases `a` and `b` and their tables exist
//!   begin 10200007 a b             a transaction that changes these databases is about to run
//!   done 10200007                  its COMMIT was acknowledged
//!   undone 10200007                it was rolled back, and that was acknowledged
//!   creating x3 / created x3 / dropping x3 / dropped x3, and bare x3 if its creation was interrupted
//!   checkpoint a                   a CHECKPOINT in this database has ended
//!   wrong …                        an answer that must not occur
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use hobt_disk::RecordingDisk;

/// The destination of a life's notes.
#[derive(Clone)]
pub(super) enum Notes {
    /// A file to which each line is appended with one call, so the end of the process does not damage it.
    File(Arc<File>),
    /// The trace, so that notes and writes are in one order.
    Trace(Arc<RecordingDisk>),
}

impl Notes {
    pub(super) fn to_file(path: &Path) -> Notes {
        let file = OpenOptions::new().create(true).append(true).open(path).expect("the journal");
        Notes::File(Arc::new(file))
    }

    pub(super) fn note(&self, line: &str) {
        match self {
            Notes::File(file) => (&**file).write_all(format!("{line}\n").as_bytes()).expect("a line of the journal"),
            Notes::Trace(disk) => disk.mark(format!("{line}\n").as_bytes()),
        }
    }
}

/// Whether a database exists, according to the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    There,
    /// Its creation was interrupted after the database itself: it may lack its tables.
    Bare,
    Gone,
    InDoubt,
}

/// The state that a journal requires.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) is_set_up: bool,
    /// The databases that each transaction changes.
    pub(super) databases_of: BTreeMap<i64, Vec<String>>,
    pub(super) committed: BTreeSet<i64>,
    pub(super) in_doubt: BTreeSet<i64>,
    pub(super) databases: BTreeMap<String, Presence>,
    /// Answers that must not occur.
    pub(super) wrong: Vec<String>,
}

impl Known {
    pub(super) fn of(journal: &str) -> Known {
        let mut known = Known::default();
        // The last line may be incomplete.
        for line in journal.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            known.line(line);
        }
        known
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (verb, what) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let number = || what.parse::<i64>().unwrap_or_else(|_| panic!("a line of the journal: {line}"));
        match verb {
            "setup" => {
                self.is_set_up = true;
                self.databases.extend(["a", "b"].map(|name| (name.to_owned(), Presence::There)));
            }
            "begin" => {
                self.databases_of.insert(number(), words.map(str::to_owned).collect());
                self.in_doubt.insert(number());
            }
            "done" => {
                self.in_doubt.remove(&number());
                self.committed.insert(number());
            }
            "undone" => {
                self.in_doubt.remove(&number());
            }
            "creating" | "dropping" => {
                self.databases.insert(what.to_owned(), Presence::InDoubt);
            }
            "created" => {
                self.databases.insert(what.to_owned(), Presence::There);
            }
            "bare" => {
                self.databases.insert(what.to_owned(), Presence::Bare);
            }
            "dropped" => {
                self.databases.insert(what.to_owned(), Presence::Gone);
            }
            "checkpoint" => {}
            "wrong" => self.wrong.push(line.to_owned()),
            _ => panic!("a line of the journal: {line}"),
        }
    }
}
