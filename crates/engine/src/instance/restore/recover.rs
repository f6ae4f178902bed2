//! The end of a restore: the database is recovered from its log, and can be used. For standbys see `standby`.

use hobt_base::errors;

use crate::data_file::DataFile;
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::registry::{Entry, EntryState};

impl Instance {
    /// Recovers a database that was restored: `RESTORE DATABASE … WITH RECOVERY`. Blocks.
    ///
    /// # Errors
    /// 3118 it does not exist, 3117 it is not being restored, 3101 it is in use, 4333 its log was not restored up to
    /// where its pages may be; 926 and 945 if it cannot be recovered.
    pub fn recover_restored(&self, name: &str) -> Result<()> {
        let entry = self.restoring(name)?;
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        self.close_standby(&entry);
        let files = self.open_restored(&entry).inspect_err(|_| self.reopen_standby(&entry))?;
        // From here on the database is one that a crash has left.
        self.note_restoring(&entry, false)?;
        self.drop_overlay_file(&entry);
        *entry.state.lock() = EntryState::Closed(files);
        drop(transition);
        let database = self.database_by_id(entry.id)?;
        *entry.options.lock() = database.options();
        Ok(())
    }

    /// Opens the data files of a database that is to be recovered.
    ///
    /// # Errors
    /// 4333 its log was not restored up to where its pages may be; 945 it was not restored whole.
    pub(in crate::instance) fn open_restored(&self, entry: &Entry) -> Result<Vec<DataFile>> {
        let files = self.open_restoring(entry)?;
        let log = self.open_restored_log(entry)?;
        let (chain, end) = (log.chain().unwrap_or_default(), log.end());
        log.close();
        drop(log);
        if end < chain.floor {
            return Err(EngineError::Statement(errors::LOG_NOT_RESTORED.error()));
        }
        Ok(files)
    }
}
