//! What a media set and a backup set say of themselves: the payloads of label, begin and end blocks, as JSON.
//!
//! Later versions may add fields. Fields that are missing get the defaults of their types.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Sixteen bytes that name something once and for all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Guid(pub [u8; 16]);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Guid, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("a guid has 32 hexadecimal digits");
        let digits = text.as_bytes();
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut guid = [0; 16];
        for (byte, pair) in guid.iter_mut().zip(digits.as_chunks::<2>().0) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Guid(guid))
    }
}

/// What a media set says of itself, in the label of each of its files.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct MediaLabel {
    /// Its id.
    pub media: Guid,
    /// How many files it has.
    pub stripes: u16,
    /// Which of them this is, from 1.
    pub stripe: u16,
    /// `MEDIANAME`.
    pub name: String,
    /// `MEDIADESCRIPTION`.
    pub description: String,
    /// When it was made: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// The program that made it.
    pub software: String,
}

/// What a backup set is of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum SetKind {
    /// A whole database.
    #[default]
    Database,
    /// What has changed in a database since a backup of the whole.
    Differential,
    /// The log.
    Log,
}

impl SetKind {
    /// `BackupType` of `RESTORE HEADERONLY`.
    pub const fn number(self) -> u8 {
        match self {
            SetKind::Database => 1,
            SetKind::Log => 2,
            SetKind::Differential => 5,
        }
    }

    /// `type` of `msdb.dbo.backupset`.
    pub const fn letter(self) -> &'static str {
        match self {
            SetKind::Database => "D",
            SetKind::Log => "L",
            SetKind::Differential => "I",
        }
    }
}

/// A data file of the database.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct DataFileFact {
    /// Its id.
    pub id: u16,
    /// Its filegroup's id.
    pub filegroup: u16,
    /// Its filegroup's name.
    pub filegroup_name: String,
    /// Its logical name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its size in pages when the backup ended.
    pub pages: u32,
    /// Growth in pages, or in percent if this is 0.
    pub growth_pages: u32,
    /// Growth in percent.
    pub growth_percent: u32,
    /// Its largest size in pages; 0 for no limit.
    pub pages_max: u32,
    /// Pages of it in the backup.
    pub pages_saved: u64,
}

/// A file of the log.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LogFileFact {
    /// Its id.
    pub id: u16,
    /// Its logical name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Growth in bytes.
    pub growth_bytes: u64,
    /// Its largest size in bytes.
    pub bytes_max: u64,
}

/// What a backup set says of itself. Positions are log sequence numbers.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SetFacts {
    /// Its id.
    pub guid: Guid,
    /// What it is of.
    pub kind: SetKind,
    /// `NAME`.
    pub name: String,
    /// `DESCRIPTION`.
    pub description: String,
    /// The database's name.
    pub database: String,
    /// The database's guid.
    pub database_guid: Guid,
    /// When the database was created: 100 ns since 1970-01-01 UTC.
    pub database_created: i64,
    /// `FULL`, `BULK_LOGGED`, `SIMPLE`.
    pub recovery_model: String,
    /// When the backup began: 100 ns since 1970-01-01 UTC.
    pub started: i64,
    /// When it ended.
    pub finished: i64,
    /// The first record that it has.
    pub first: u64,
    /// The position after its last record.
    pub last: u64,
    /// Where redo begins, if its records end the log.
    pub redo: u64,
    /// Where analysis begins then.
    pub read_from: u64,
    /// The first record that undo may need then.
    pub keep: u64,
    /// When the last transaction in its records has committed: 100 ns since 1970-01-01 UTC; 0 if none has.
    pub last_commit: i64,
    /// `first` of the last backup of the whole database; 0 if there was none.
    pub database_backup: u64,
    /// Of a differential backup: the guid of the backup that it is based on.
    pub base: Guid,
    /// Of a differential backup: `first` of the backup that it is based on.
    pub base_first: u64,
    /// Tells apart what the log of different restores of one database has.
    pub fork: Guid,
    /// `COPY_ONLY`.
    pub is_copy_only: bool,
    /// The log was backed up although the database could not be opened, or was left restoring behind it.
    pub is_tail: bool,
    /// It has pages that bulk loads have filled, so that a restore cannot stop within it.
    pub has_bulk: bool,
    /// Pages in it are damaged.
    pub is_damaged: bool,
    /// `CHECKSUM`.
    pub has_checksums: bool,
    /// `COMPRESSION`.
    pub is_compressed: bool,
    /// Pages in it.
    pub pages: u64,
    /// Bytes of its blocks, over all files.
    pub stored_bytes: u64,
    /// Bytes of what they hold.
    pub bytes: u64,
    /// The database's isolation options, as `master` has them.
    pub isolation: i32,
    /// The machine's name.
    pub machine: String,
    /// The server's name.
    pub server: String,
    /// The user's name.
    pub user: String,
    /// The program's version.
    pub software: String,
    /// The data files.
    pub files: Vec<DataFileFact>,
    /// The files of the log.
    pub logs: Vec<LogFileFact>,
}

impl SetFacts {
    /// `begins_log_chain`: whether it is the first backup of the log behind the full one that the chain began with.
    pub fn begins_log_chain(&self) -> bool {
        self.kind == SetKind::Log && self.first == self.database_backup
    }

    /// `flags` of `msdb.dbo.backupset` and of `RESTORE HEADERONLY`: 1 with pages that loads have filled past the log,
    /// 16 with checksums, 32 of a damaged database, 512 `COPY_ONLY`.
    pub fn flags(&self) -> i64 {
        let all = [(self.has_bulk, 1), (self.has_checksums, 16), (self.is_damaged, 32), (self.is_copy_only, 512)];
        all.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
    }
}

/// A backup or a restore that was made, for the history of an instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HistoryEntry {
    /// A backup.
    Backup {
        /// What it says of itself.
        facts: Box<SetFacts>,
        /// The media set.
        label: MediaLabel,
        /// Its number in the media set.
        position: u32,
        /// The files of the media set.
        paths: Vec<String>,
    },
    /// A restore of a backup set.
    Restore {
        /// When: 100 ns since 1970-01-01 UTC.
        at: i64,
        /// The name of the database that was restored.
        database: String,
        /// Who restored it.
        user: String,
        /// `D`, `I` or `L`: the kind of the backup set.
        kind: String,
        /// The backup set.
        set: Guid,
        /// Whether another database was overwritten.
        replaces: bool,
        /// Whether the database was recovered.
        recovers: bool,
        /// Where it stopped: 100 ns since 1970-01-01 UTC.
        stop_at: Option<i64>,
        /// The mark at which it stopped.
        stop_at_mark: Option<String>,
        /// Whether it stopped before the mark.
        stops_before_mark: bool,
        /// The paths of the files, by logical name.
        files: Vec<(String, String)>,
    },
}

impl HistoryEntry {
    /// Its text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("an entry has no maps with odd keys")
    }

    /// The entry with this text; `None` if there is none.
    pub fn of_text(text: &str) -> Option<HistoryEntry> {
        serde_json::from_str(text).ok()
    }
}

/// The payload of a block.
pub(crate) fn encode<T: Serialize>(facts: &T) -> Vec<u8> {
    serde_json::to_vec(facts).expect("facts have no maps with odd keys")
}

/// The facts in a payload; `None` if there are none.
pub(crate) fn decode<'de, T: Deserialize<'de>>(payload: &'de [u8]) -> Option<T> {
    serde_json::from_slice(payload).ok()
}
