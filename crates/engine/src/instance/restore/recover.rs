//! The end of a restore: the database is recovered from its log, and can be used. For standbys see `standby`.

use hobt_base::{PageId, errors};
use hobt_log::ChainState;

use crate::data_file::DataFile;
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::registry::{Entry, EntryState};

impl Instance {
    /// Recovers a database that was restored: `RESTORE DATABASE … WITH RECOVERY`. Blocks.
    ///
    /// # Errors
    /// 3118 it does not exist, 3153 it is not being restored, 3101 it is in use, 4333 its log was not restored up to
    /// where its pages may be, or the pages that are being restored not up to its end, 3195 a load has filled one of
    /// these past the log; 926 and 945 if it cannot be recovered.
    pub fn recover_restored(&self, name: &str) -> Result<()> {
        let entry = self.restoring_or(name, errors::ALREADY_RECOVERED.error())?;
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        self.close_standby(&entry);
        let (files, pages) = self.open_restored(&entry).inspect_err(|_| self.reopen_standby(&entry))?;
        if !pages.is_empty() {
            return self.end_page_restore(&entry, files, &pages, transition);
        }
        // From here on the database is one that a crash has left.
        self.note_restoring(&entry, false)?;
        self.drop_overlay_file(&entry);
        *entry.state.lock() = EntryState::Closed(files);
        drop(transition);
        let database = self.database_by_id(entry.id)?;
        *entry.options.lock() = database.options();
        Ok(())
    }

    /// Opens the data files of a database that is to be recovered. Pages that are being restored are rolled forward and
    /// written to them first; returns these.
    ///
    /// # Errors
    /// 4333, 3195, as [`Instance::recover_restored`]; 945 it was not restored whole.
    pub(in crate::instance) fn open_restored(&self, entry: &Entry) -> Result<(Vec<DataFile>, Vec<PageId>)> {
        let files = self.open_restoring(entry)?;
        let log = self.open_restored_log(entry)?;
        let (chain, end) = (log.chain().unwrap_or_default(), log.end());
        let is_restored = end >= chain.floor;
        let pages = if is_restored { self.put_pages_back(entry, &files, &log) } else { Ok(Vec::new()) };
        log.close();
        drop(log);
        let pages = pages?;
        // Without a chain a crash came when the log had been made, and nothing was noted in it yet.
        if !is_restored || (pages.is_empty() && chain == ChainState::default()) {
            return Err(EngineError::Statement(errors::LOG_NOT_RESTORED.error()));
        }
        Ok((files, pages))
    }
}
