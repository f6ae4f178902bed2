//! `RESTORE LOG`: appends a backup of the log to the log of a database that is being restored.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use hobt_backup::{BlockBuffer, Reading, SetFacts, SetReader};
use hobt_base::{FileId, FilegroupId, Lsn, errors};
use hobt_disk::SIMULATED;
use hobt_log::{ChainState, Log, LogReader, for_each_saved};

use super::create::growth_of;
use super::list::Listing;
use super::pages::{RestoreProgress, Target, missing_log, restore_pages};
use super::point::{StopSearch, check_stop};
use super::{Outcome, RestoreRequest, Source, StopPoint};
use crate::data_file::{DataFile, FilePlan};
use crate::error::{EngineError, Result, cannot_create};
use crate::instance::Instance;
use crate::instance::backup::of_read;
use crate::instance::left_over::LeftOver;
use crate::instance::registry::Entry;
use crate::log_file;

impl Instance {
    pub(super) fn restore_log(&self, request: &RestoreRequest<'_>, source: &Source<'_>) -> Result<Outcome> {
        let facts = source.facts();
        let entry = self.restoring(request.name)?;
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let _transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        if entry.guid[..4] != facts.database_guid.0[..4] {
            return Err(EngineError::Statement(errors::RESTORE_OTHER_DATABASE.with([&entry.name])));
        }
        self.close_standby(&entry);
        let done = self.roll_forward(request, source, &entry);
        // One that was refused has changed nothing: a standby is still one.
        self.reopen_standby(&entry);
        done
    }

    fn roll_forward(&self, request: &RestoreRequest<'_>, source: &Source<'_>, entry: &Entry) -> Result<Outcome> {
        let mut files = self.open_restoring(entry)?;
        let log = self.open_restored_log(entry)?;
        let done = self.apply_log(request, source, entry, &mut files, &log);
        log.close();
        done
    }

    /// Opens the log of a database that is being restored.
    pub(in crate::instance) fn open_restored_log(&self, entry: &Entry) -> Result<Arc<Log>> {
        let paths: Vec<_> = entry.logs.lock().iter().map(|(_, path)| path.clone()).collect();
        let opened = log_file::open(&*self.disk, &paths, &self.parts.log_owner(entry.id, &entry.guid), None);
        let (transactions, _) = opened.map_err(|(path, problem)| EngineError::Unavailable {
            database: entry.name.clone(),
            state: crate::DatabaseState::RecoveryPending,
            reason: format!("its log '{}' was not restored whole: {problem}", path.display()),
        })?;
        Ok(Arc::clone(transactions.log()))
    }

    fn apply_log(
        &self,
        request: &RestoreRequest<'_>,
        source: &Source<'_>,
        entry: &Entry,
        files: &mut Vec<DataFile>,
        log: &Arc<Log>,
    ) -> Result<Outcome> {
        let facts = source.facts();
        let chain = log.chain().unwrap_or_default();
        check_order(facts, &chain, log.end())?;
        check_stop(request.stop.as_ref(), chain.time, log.end())?;
        if facts.has_bulk && request.stop.is_some() && self.stops_within(request, source, log)? {
            return Err(EngineError::Statement(errors::STOP_WITHIN_BULK.error()));
        }
        self.leave_standby(entry)?;
        self.add_new_files(request, facts, entry, files)?;
        let progress = RestoreProgress { observe: request.observe, done: AtomicU64::new(0), all: facts.bytes };
        let reader = SetReader::new(source.media, source.place, Reading::Whole).map_err(of_read)?;
        if facts.has_bulk {
            // The pages may have every change up to the end of this backup.
            log.set_chain(ChainState { floor: chain.floor.max(Lsn(facts.last)), ..chain })?;
            // Pages that loads have filled past the log.
            let target = Target::over(files, facts, self.disk.kind() == SIMULATED)?;
            restore_pages(&reader, &target, &progress, &AtomicBool::new(false))?;
        }
        let mut search = StopSearch::new(request.stop.as_ref());
        begin_search(log, &mut search)?;
        append_log(source, &reader, log, &mut search, &progress)?;
        let chain = log.chain().unwrap_or_default();
        log.set_chain(ChainState { time: chain.time.max(search.last_commit), ..chain })?;
        // Nothing was committed in this database between its last record and the time of the backup.
        let is_passed = matches!(request.stop, Some(StopPoint::Time(time)) if facts.started > time);
        Ok(Outcome { ends_before_stop: !(search.is_reached() || is_passed) })
    }

    /// Whether a restore would stop before the end of a backup set.
    fn stops_within(&self, request: &RestoreRequest<'_>, source: &Source<'_>, log: &Arc<Log>) -> Result<bool> {
        let end = log.end();
        let reader = SetReader::new(source.media, source.place, Reading::Parts).map_err(of_read)?;
        let mut buffer = BlockBuffer::new().map_err(of_read)?;
        while let Some(pass) = reader.next_pass().map_err(of_read)? {
            while reader.next_data_of(pass, &|_| false, &mut buffer).map_err(of_read)?.is_some() {}
        }
        let mut search = StopSearch::new(request.stop.as_ref());
        begin_search(log, &mut search)?;
        let mut at = source.facts().first;
        while at < source.facts().last && search.found.is_none() {
            let block = reader.next_log(at, &mut buffer).map_err(of_read)?.ok_or_else(|| missing_log(source, at))?;
            let seen = for_each_saved(block.payload, Lsn(at), &mut |record| record.lsn < end || search.keeps(record));
            seen.map_err(|_| missing_log(source, at))?;
            at += block.payload.len() as u64;
        }
        Ok(search.found.is_some())
    }

    /// Where a new file goes. The others stay where they are. An empty file that a crash in the middle of an earlier
    /// attempt has left there is removed.
    fn place_of_new(
        &self,
        request: &RestoreRequest<'_>,
        entry: &Entry,
        (name, path): (&str, &str),
        listing: &Listing,
    ) -> Result<PathBuf> {
        let moved = request.moves.iter().find(|(moved, _)| hobt_catalog::name_equals(moved, name));
        let wanted = moved.map_or(Path::new(path), |(_, path)| path);
        let all = || listing.files.iter().chain(&listing.logs).map(|(_, path)| path);
        if let Ok(placed) = self.allowed.place(&*self.disk, wanted)
            && all().all(|path| *path != placed)
            && self.disk.exists(&placed)
        {
            self.remove_left_over(&placed, &mut LeftOver::default());
        }
        let taken: Vec<PathBuf> = all().cloned().collect();
        self.place_of(request, Some(entry), (name, path), &taken)
    }

    /// Makes the files that the database has got since the last backup that was restored.
    pub(super) fn add_new_files(
        &self,
        request: &RestoreRequest<'_>,
        facts: &SetFacts,
        entry: &Entry,
        files: &mut Vec<DataFile>,
    ) -> Result<()> {
        let is_known = |id: u16| files.iter().any(|file| file.header.file.0 == id);
        let new: Vec<_> = facts.files.iter().filter(|fact| !is_known(fact.id)).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        Instance::check_moves(request, facts)?;
        let generation = files.iter().map(|file| file.header.generation).max().unwrap_or(0);
        let mut listing = Listing::of(entry);
        for fact in new {
            let id = FileId(fact.id);
            let path = self.place_of_new(request, entry, (&fact.name, &fact.path), &listing)?;
            let plan = FilePlan {
                file: id,
                filegroup: FilegroupId(fact.filegroup),
                name: fact.name.clone(),
                path: path.clone(),
                size_pages: fact.pages,
                growth: growth_of(fact.growth_pages, fact.growth_percent),
                max_pages: (fact.pages_max > 0).then_some(fact.pages_max),
            };
            let _gone = self.disk.remove(&path);
            let failed = |error| cannot_create(&path, &error);
            let mut file = DataFile::create(&*self.disk, &plan, entry.guid).map_err(failed)?;
            file.complete(generation).map_err(failed)?;
            self.sync_folders(&[path.as_path()])?;
            listing.files.push((id, path));
            files.push(file);
        }
        listing.files.sort();
        let _alone = self.definitions.lock();
        self.list_restoring(&self.master()?, &listing, true)?;
        *entry.files.lock() = listing.files;
        Ok(())
    }
}

/// Shows the log that was restored before to a search for a mark: its transaction may be in two backups of the log.
fn begin_search(log: &Arc<Log>, search: &mut StopSearch<'_>) -> Result<()> {
    if !search.is_for_mark() {
        return Ok(());
    }
    let (mut reader, mut at) = (LogReader::forwards(log), log.retained_from());
    while at < log.end() {
        let bytes = reader.bytes_from(at)?;
        let seen = for_each_saved(bytes, at, &mut |record| {
            search.pass(record);
            true
        });
        let lost = |lsn| hobt_access::AccessError::LogFailed(format!("there is no record at {lsn}"));
        at = seen.map_err(|lsn| EngineError::from(lost(lsn)))?;
    }
    Ok(())
}

/// Whether a backup of the log continues what was restored.
fn check_order(facts: &SetFacts, chain: &ChainState, end: Lsn) -> Result<()> {
    let refuse = |error| Err(EngineError::Statement(error));
    if facts.fork.0 != chain.fork {
        return refuse(errors::LOG_OF_ANOTHER_FORK.error());
    }
    if facts.first > end.0 {
        return refuse(errors::LOG_TOO_RECENT.with([&facts.first, &end.0]));
    }
    if facts.last < end.0 {
        return refuse(errors::LOG_TOO_EARLY.with([&facts.last, &end.0]));
    }
    Ok(())
}

/// Appends the records of a backup set that come behind the log's end, up to the point where the restore stops.
pub(super) fn append_log(
    source: &Source<'_>,
    reader: &SetReader,
    log: &Log,
    search: &mut StopSearch<'_>,
    progress: &RestoreProgress<'_>,
) -> Result<()> {
    let (mut at, last) = (source.facts().first, source.facts().last);
    let mut buffer = BlockBuffer::new().map_err(of_read)?;
    while at < last {
        let block = reader.next_log(at, &mut buffer).map_err(of_read)?.ok_or_else(|| missing_log(source, at))?;
        let payload = block.payload;
        let next = at.checked_add(payload.len() as u64).filter(|next| *next <= last && *next > at);
        let next = next.ok_or_else(|| missing_log(source, at))?;
        let end = log.end();
        let kept = if search.found.is_some() {
            Lsn(at)
        } else {
            let kept = for_each_saved(payload, Lsn(at), &mut |record| record.lsn < end || search.keeps(record));
            kept.map_err(|_| missing_log(source, at))?
        };
        let from = end.0.clamp(at, next);
        if kept.0 > from {
            log.append_saved(&payload[(from - at) as usize..(kept.0 - at) as usize])?;
        }
        progress.add(payload.len());
        progress.report()?;
        at = next;
    }
    reader.check_end().map_err(of_read)
}

/// Removes a file, if it is there.
pub(super) fn remove(instance: &Instance, path: &Path) {
    let _gone = instance.disk.remove(path);
}
