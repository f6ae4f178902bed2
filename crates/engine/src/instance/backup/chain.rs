//! The chain of backups of a log: whether the log can be backed up, and what a backup does to it.

use hobt_backup::SetFacts;
use hobt_base::{Lsn, errors};

use super::{BackupRequest, BackupWhat};
use crate::database::MASTER;
use crate::error::{EngineError, Result};
use crate::instance::{DatabaseUse, Instance};
use crate::options::RecoveryModel;

impl Instance {
    /// Whether the log of a database can be backed up.
    ///
    /// # Errors
    /// 4208 the recovery model is `SIMPLE`, 4214 there is no full backup, or a part of the log since the last backup is
    /// gone.
    pub(super) fn check_chain(&self, database: &DatabaseUse) -> Result<()> {
        let options = database.options();
        if options.recovery_model == RecoveryModel::Simple {
            return Err(EngineError::Statement(errors::LOG_BACKUP_UNDER_SIMPLE.with([&"BACKUP LOG"])));
        }
        let chain = database.storage().log().and_then(|log| log.log().chain()).unwrap_or_default();
        let retained = database.storage().log().map_or(Lsn(0), |log| log.log().retained_from());
        if !options.has_log_chain || chain.from == Lsn(0) || chain.from < retained {
            return Err(EngineError::Statement(errors::LOG_BACKUP_WITHOUT_BASE.error()));
        }
        Ok(())
    }

    /// Records what follows from a backup that is complete.
    pub(super) fn backup_was_made(
        &self,
        database: &DatabaseUse,
        request: &BackupRequest<'_>,
        facts: &SetFacts,
    ) -> Result<()> {
        if request.is_copy_only || request.keeps_log {
            return Ok(());
        }
        match request.what {
            BackupWhat::Log => self.log_was_backed_up(database, Lsn(facts.last)),
            // A differential one after SIMPLE has what the log does not have any more.
            BackupWhat::Database | BackupWhat::Differential if database.id() != MASTER => {
                self.database_was_backed_up(database)?;
                self.begin_chain(database, Lsn(facts.first))
            }
            BackupWhat::Database | BackupWhat::Differential => Ok(()),
        }
    }

    /// Notes in the log where the first backup of it begins, if the log is kept and was not backed up before.
    fn begin_chain(&self, database: &DatabaseUse, first: Lsn) -> Result<()> {
        let Some(log) = database.storage().log().filter(|_| database.options().keeps_log()) else { return Ok(()) };
        let log = log.log();
        let chain = log.chain().unwrap_or_default();
        if chain.from != Lsn(0) && chain.from >= log.retained_from() {
            return Ok(());
        }
        let from = first.max(log.retained_from());
        let begun = log.set_chain(hobt_log::ChainState { from, ..chain });
        begun.map_err(|error| database.storage_error(error.into()))
    }
}
