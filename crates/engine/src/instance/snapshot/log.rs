//! The log of a snapshot: the records that recovery needs for the moment, copied from the source's log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_base::Lsn;
use hobt_log::{ChainState, Log, LogReader, RecoveryStart};

use crate::error::{Result, cannot_create};
use crate::instance::Instance;
use crate::log_file::{self, LogFilePlan, LogOwner};

/// What a log is made of.
pub(in crate::instance) struct LogCopy<'a> {
    /// The log that has the records.
    pub(in crate::instance) from: &'a Arc<Log>,
    /// Where recovery begins. What comes before `keep` is not copied.
    pub(in crate::instance) start: RecoveryStart,
    /// The end of what is copied.
    pub(in crate::instance) end: Lsn,
    /// What its header says of backups.
    pub(in crate::instance) chain: ChainState,
}

impl Instance {
    /// Makes a log with records of another one, each at the position that it has there, and closes it.
    ///
    /// # Errors
    /// The file cannot be made; a device's error. What was made stays.
    pub(in crate::instance) fn copy_log_to(
        &self,
        plan: LogFilePlan,
        copy: &LogCopy<'_>,
        owner: &LogOwner<'_>,
    ) -> Result<()> {
        let made = log_file::create_at(copy.start.keep, &*self.disk, &[plan], owner, &AtomicBool::new(false));
        let made = made.map_err(|(path, error)| cannot_create(&path, &error))?;
        let log = made.log();
        let filled = log.set_chain(copy.chain).and_then(|()| {
            let mut reader = LogReader::forwards(copy.from);
            let mut at = copy.start.keep;
            while at < copy.end {
                let bytes = reader.bytes_from(at)?;
                let wanted = bytes.len().min(usize::try_from(copy.end.0 - at.0).unwrap_or(usize::MAX));
                log.append_saved(&bytes[..wanted])?;
                at = Lsn(at.0 + wanted as u64);
            }
            match copy.start.redo < log.durable() {
                true => log.set_recovery_start(copy.start),
                false => Ok(()),
            }
        });
        log.close();
        Ok(filled?)
    }
}

/// The plan of a log file at a path, like another log's first file.
pub(in crate::instance) fn plan_like(log: &Log, path: &Path, bytes: u64) -> LogFilePlan {
    let usual = LogFilePlan::usual(path.to_path_buf());
    match log.files().first() {
        Some(first) => LogFilePlan {
            name: first.name.clone(),
            bytes,
            growth_bytes: first.growth_bytes,
            bytes_max: first.bytes_max,
            ..usual
        },
        None => usual,
    }
}
