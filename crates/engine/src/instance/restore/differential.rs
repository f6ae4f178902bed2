//! `RESTORE DATABASE` of a differential backup: overwrites what has changed since the backup of the whole.

use std::sync::atomic::{AtomicBool, AtomicU64};

use hobt_backup::{Reading, SetReader};
use hobt_base::{Lsn, errors};
use hobt_disk::SIMULATED;
use hobt_log::ChainState;

use super::list::Listing;
use super::pages::{RestoreProgress, Target, restore_pages};
use super::point::check_stop;
use super::{Outcome, RestoreRequest, Source};
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::backup::of_read;
use crate::instance::registry::Entry;

impl Instance {
    pub(super) fn restore_differential(&self, request: &RestoreRequest<'_>, source: &Source<'_>) -> Result<Outcome> {
        let entry = self.restoring(request.name)?;
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let _transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        self.close_standby(&entry);
        let done = self.overwrite_changed(request, source, &entry);
        // One that was refused has changed nothing: a standby is still one.
        self.reopen_standby(&entry);
        done
    }

    fn overwrite_changed(&self, request: &RestoreRequest<'_>, source: &Source<'_>, entry: &Entry) -> Result<Outcome> {
        let facts = source.facts();
        let mut files = self.open_restoring(entry)?;
        let log = self.open_restored_log(entry)?;
        let chain = log.chain().unwrap_or_default();
        let base = u64::from_le_bytes(*facts.base.0.first_chunk().expect("sixteen bytes"));
        let is_its = entry.guid[..4] == facts.database_guid.0[..4] && facts.fork.0 == chain.fork && base == chain.base;
        if !is_its || facts.last < log.end().0 {
            log.close();
            return Err(EngineError::Statement(errors::DIFFERENTIAL_BASE_DIFFERS.error()));
        }
        let last_commit = facts.last_commit.max(facts.started);
        check_stop(request.stop.as_ref(), last_commit, Lsn(facts.last)).inspect_err(|_| log.close())?;
        self.leave_standby(entry).inspect_err(|_| log.close())?;
        // The pages are those of another time until the log of this backup is there.
        let noted = log.set_chain(ChainState { floor: Lsn(u64::MAX), ..chain });
        log.close();
        drop(log);
        noted?;
        self.add_new_files(request, facts, entry, &mut files)?;
        let reader = SetReader::new(source.media, source.place, Reading::Whole).map_err(of_read)?;
        let progress = RestoreProgress { observe: request.observe, done: AtomicU64::new(0), all: facts.bytes };
        let target = Target::over(&files, facts, self.disk.kind() == SIMULATED)?;
        let boot = restore_pages(&reader, &target, &progress, &AtomicBool::new(false))?;
        let listing = self.listing_with_logs(request, source, entry)?;
        self.restore_first_log(source, &listing, &reader, &progress, Lsn(u64::MAX))?;
        self.complete(&listing, facts, &mut files, boot)?;
        // Last: from here on it can be recovered.
        let log = self.open_restored_log(entry)?;
        let chain = ChainState { floor: Lsn(facts.last), ..log.chain().unwrap_or_default() };
        let noted = log.set_chain(chain);
        log.close();
        noted?;
        Ok(Outcome { ends_before_stop: request.stop.is_some() })
    }

    /// What is listed of a database, with the files of the log that the backup lists.
    fn listing_with_logs(&self, request: &RestoreRequest<'_>, source: &Source<'_>, entry: &Entry) -> Result<Listing> {
        let mut listing = Listing::of(entry);
        let facts = source.facts();
        let is_same = facts.logs.len() == listing.logs.len()
            && facts.logs.iter().all(|fact| listing.logs.iter().any(|(id, _)| id.0 == fact.id));
        if is_same {
            return Ok(listing);
        }
        let places = self.places_of(request, facts, Some(entry))?;
        for (_, path) in listing.logs.iter().filter(|log| !places.logs.contains(log)) {
            super::log::remove(self, path);
        }
        listing.logs = places.logs;
        let _alone = self.definitions.lock();
        self.list_restoring(&self.master()?, &listing, true)?;
        *entry.logs.lock() = listing.logs.clone();
        Ok(listing)
    }
}
