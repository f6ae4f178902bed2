//! The end of a restore: the database is recovered from its log, and can be used.

use hobt_base::errors;
use hobt_log::ChainState;

use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::registry::EntryState;

impl Instance {
    /// Recovers a database that was restored: `RESTORE DATABASE … WITH RECOVERY`. Blocks.
    ///
    /// # Errors
    /// 3118 it does not exist, 3117 it is not being restored, 3101 it is in use, 4333 its log was not restored up to
    /// where its pages may be, or the pages that are being restored not up to its end, 3195 a load has filled one of
    /// these past the log; 926 and 945 if it cannot be recovered.
    pub fn recover_restored(&self, name: &str) -> Result<()> {
        let entry = self.restoring(name)?;
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        let files = self.open_restoring(&entry)?;
        let log = self.open_restored_log(&entry)?;
        let (chain, end) = (log.chain().unwrap_or_default(), log.end());
        let is_restored = end >= chain.floor;
        let pages = if is_restored { self.put_pages_back(&entry, &files, &log) } else { Ok(Vec::new()) };
        log.close();
        drop(log);
        if !is_restored {
            return Err(EngineError::Statement(errors::LOG_NOT_RESTORED.error()));
        }
        let pages = pages?;
        if !pages.is_empty() {
            return self.end_page_restore(&entry, files, &pages, transition);
        }
        if chain == ChainState::default() {
            // A crash came when the log had been made, and nothing was noted in it yet.
            return Err(EngineError::Statement(errors::LOG_NOT_RESTORED.error()));
        }
        // From here on the database is one that a crash has left.
        self.note_restoring(&entry, false)?;
        *entry.state.lock() = EntryState::Closed(files);
        drop(transition);
        let database = self.database_by_id(entry.id)?;
        *entry.options.lock() = database.options();
        Ok(())
    }
}
