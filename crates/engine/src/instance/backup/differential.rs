//! `BACKUP DATABASE … WITH DIFFERENTIAL`: the extents that were written since the last full backup.

use hobt_backup::{MediaWriter, SetFacts, SetKind};
use hobt_base::errors;

use super::{BackupRequest, Held};
use crate::error::{EngineError, Result};
use crate::instance::{DatabaseUse, Instance};

impl Instance {
    /// Copies the extents that were written since the last full backup, and the log that makes them whole.
    pub(super) fn copy_differential(
        &self,
        database: &DatabaseUse,
        request: &BackupRequest<'_>,
        media: MediaWriter,
    ) -> Result<(SetFacts, Held)> {
        let Some((base, first)) = database.base() else {
            return Err(EngineError::Statement(errors::NO_DIFFERENTIAL_BASE.with([&database.name()])));
        };
        // The log of the backup is shorter for it. If it finds no room, the log that there is does as well.
        let _saved = database.checkpoint();
        let facts = self.first_facts(database, request, SetKind::Differential);
        let facts = SetFacts { base, base_first: first.0, ..facts };
        self.copy_extents(database, request, media, facts, &|file| database.written_runs(file))
    }
}
