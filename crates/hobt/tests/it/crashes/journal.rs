//! The journal outside of the process: what each session was about to do, and what it was told of it.
//!
//! One line a note, in the order of each session. Lines of several lives follow each other; behind a check stand lines
//! that say what became of what was in doubt.
//!
//! ```text
//!   setup                          the databases `a` and `b` and their tables are there
//!   begin 10200007 a b             a transaction that changes these databases is about to run
//!   done 10200007                  its COMMIT was acknowledged
//!   undone 10200007                it was rolled back, and that was acknowledged
//!   creating x3 / created x3 / dropping x3 / dropped x3, and bare x3 of one whose making was cut off
//!   checkpoint a                   CHECKPOINT there has ended
//!   wrong …                        an answer that no session may get
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use hobt_disk::RecordingDisk;

/// Where a life's notes go.
#[derive(Clone)]
pub(super) enum Notes {
    /// A file that is appended to with one call a line: the end of the process does not touch it.
    File(Arc<File>),
    /// The trace, so that notes and writes have one order.
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

/// Whether a database is there, as far as the journal knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Presence {
    There,
    /// Its making was cut off behind itself: it may lack its tables.
    Bare,
    Gone,
    InDoubt,
}

/// What a journal says must be there.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) is_set_up: bool,
    /// The databases that each transaction changes.
    pub(super) databases_of: BTreeMap<i64, Vec<String>>,
    pub(super) committed: BTreeSet<i64>,
    pub(super) in_doubt: BTreeSet<i64>,
    pub(super) databases: BTreeMap<String, Presence>,
    /// Answers that no session may get.
    pub(super) wrong: Vec<String>,
}

impl Known {
    pub(super) fn of(journal: &str) -> Known {
        let mut known = Known::default();
        // The last line may be cut off.
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
