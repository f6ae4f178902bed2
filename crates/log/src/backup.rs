//! The part of a log that backups need, and what its oldest segment waits for.

use std::sync::atomic::Ordering;

use hobt_base::Lsn;

use crate::truncation::{NO_BACKUP, TruncationWait, wait_of};
use crate::{Log, LogError};

impl Log {
    /// What its oldest segment waits for. `oldest` is the first position that an open transaction may need.
    pub fn truncation_wait(&self, oldest: Option<Lsn>) -> TruncationWait {
        let firsts = self.segments().iter().filter_map(|segment| segment.first).collect();
        wait_of(firsts, self.needed_by_backup(), oldest)
    }

    /// Sets whether records are kept until they have been backed up ([`Log::backed_up`]), from the oldest that still
    /// exists. Otherwise they are kept only as long as recovery needs them.
    pub fn keep_for_backup(&self, keeps: bool) {
        let now = self.segments.lock().files.first().map_or(NO_BACKUP, |first| first.header.retain.0);
        // If records are kept already, that stays; records that are gone cannot be kept.
        let _kept = self.backup.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |from| {
            Some(if keeps { from.min(now) } else { NO_BACKUP })
        });
    }

    /// Everything before `until` is in a backup of the log, or not needed by one. Durable when it returns. After a
    /// crash before it returns, more than that is kept.
    ///
    /// # Errors
    /// The header of the first file cannot be written.
    pub fn backed_up(&self, until: Lsn) -> Result<(), LogError> {
        self.backup.store(until.0, Ordering::Relaxed);
        match self.recovery_start() {
            Some(start) => self.write_recovery_start(start),
            None => self.check(),
        }
    }

    /// The first position that a backup of the log needs.
    pub(crate) fn needed_by_backup(&self) -> Lsn {
        Lsn(self.backup.load(Ordering::Relaxed))
    }
}
