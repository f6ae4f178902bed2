//! `RESTORE DATABASE … PAGE = …`: single pages, from a backup and the log behind it.
//!
//! ```text
//! RESTORE DATABASE PAGE   copies of the pages, and the log in that backup   → the work files
//! RESTORE LOG             the log in each backup of it                      → the work files
//! RECOVERY                the live log, to its end                          → the data files; the database opens
//! ```
//!
//! The data files keep what they have until `RECOVERY`; the pages are rolled forward in work files beside the first
//! data file ([`work_file`]). `master` lists the database as being restored once these are there. So a crash leaves
//! either the database as it was, or one that is restoring and whose last statement is repeated.
//!
//! Left to others: redo of a page ([`hobt_access::RolledPages`]), the recovery of the database, which may be one that a
//! crash has left.

mod source;
mod work_file;

use std::collections::BTreeSet;
use std::time::Instant;

use hobt_access::{AccessError, RolledPages};
use hobt_backup::{SetFacts, SetKind};
use hobt_base::{Lsn, PAGE_SIZE, PageId, errors};
use hobt_disk::AlignedBuffer;
use hobt_log::{Log, LogReader};
use hobt_page::{INTERVAL_PAGES, RESERVED_PAGES};

use super::{Outcome, RestoreDone, RestoreEnd, RestoreRequest, Source};
use crate::DatabaseState;
use crate::data_file::DataFile;
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::create::is_system;
use crate::instance::registry::{Entry, EntryState, Transition};
use crate::options::{DatabaseOptions, RecoveryModel};

/// The most pages that are restored at once, as in SQL Server.
pub const RESTORED_PAGES_MAX: usize = 1000;

/// Pages that are being restored.
pub(super) struct PageRestore {
    pages: RolledPages,
    /// Every change before this position is in them.
    position: Lsn,
    /// Names the backup of the whole database on which a differential one builds that fits them.
    base: u64,
    /// Counts the times that it was written.
    writes: u64,
}

impl PageRestore {
    /// Adds what was restored before. The log is read again from where the first of all pages needs it, with the
    /// layouts of that position.
    fn beside(self, before: PageRestore) -> Result<PageRestore> {
        let (base, writes) = (self.base, before.writes);
        let is_first = self.position < before.position;
        let (mut first, other) = if is_first { (self, before) } else { (before, self) };
        // Of a page that both have, the copy that was asked for now is taken.
        first.pages.add(other.pages, !is_first);
        let count = first.pages.ids().count();
        if count > RESTORED_PAGES_MAX {
            return Err(too_many(count));
        }
        Ok(PageRestore { base, writes, ..first })
    }
}

impl Instance {
    /// Restores pages of a database from a backup of its data, and leaves it restoring, or recovers it. Blocks.
    ///
    /// # Errors
    /// The errors of [`Instance::restore`], and 3031 an option that does not go with pages, 3111 a page is one of those
    /// that describe the file, 3115 the recovery model is `SIMPLE`, 3116 the backup is of another history of the
    /// database, 3183 the page is damaged in the backup too, 3194 there is no such page, 3195 the backup does not have
    /// it, 3709 the database has snapshots. The database is what it was then.
    pub fn restore_pages(&self, request: &RestoreRequest<'_>, pages: &[PageId]) -> Result<RestoreDone> {
        let since = Instant::now();
        check_options(request)?;
        let pages = check_pages(pages)?;
        let media = self.open_media(request.paths)?;
        let number = request.set.unwrap_or(1);
        let place = media.set(number).map_err(|error| super::of_set(error, request.paths))?.clone();
        super::check_positions(&media, &place)?;
        let facts = &place.facts;
        if request.checks && !facts.has_checksums {
            return Err(EngineError::Statement(errors::NO_BACKUP_CHECKSUMS.error()));
        }
        if facts.kind == SetKind::Log {
            let device = request.paths.first().map(|path| path.display().to_string()).unwrap_or_default();
            return Err(EngineError::Statement(errors::BACKUP_SET_KIND.with([&device, &"BACKUP LOG"])));
        }
        let missing = || EngineError::Statement(errors::RESTORE_NO_DATABASE.with([&request.name]));
        let entry = self.registry.named(request.name).ok_or_else(missing)?;
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::RESTORE_OF_MASTER.with([&entry.name])));
        }
        if entry.guid[..4] != facts.database_guid.0[..4] {
            return Err(EngineError::Statement(errors::RESTORE_OTHER_DATABASE.with([&entry.name])));
        }
        if entry.is_snapshot() {
            return Err(EngineError::Statement(errors::BACKUP_OF_SNAPSHOT.error()));
        }
        // The files are written past what keeps their former pages.
        self.registry.refuse_source(&entry)?;
        if entry.is_standby() {
            // What was undone for its readers is not in its log.
            return Err(EngineError::Statement(errors::BACKUP_OPTIONS_CONFLICT.with([&"page", &"standby"])));
        }
        let source = Source { media: &media, place: &place };
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        // Again, now that no snapshot can be made any more.
        self.registry.refuse_source(&entry)?;
        self.put_away(&entry)?;
        let begun = self.begin_page_restore(request, &source, &entry, &pages);
        match &begun {
            Ok(()) => *entry.state.lock() = EntryState::restoring(),
            Err(_) => self.look_again(&entry),
        }
        drop(transition);
        begun?;
        let recovers = request.end == RestoreEnd::Recovery;
        let recovered = if recovers { self.recover_restored(request.name) } else { Ok(()) };
        let unnoted = self.note_restore(request, facts, recovers && recovered.is_ok()).err();
        recovered?;
        Ok(RestoreDone {
            unnoted,
            facts: facts_of(facts, &pages),
            position: place.number,
            elapsed: since.elapsed(),
            is_recovered: recovers,
            ends_before_stop: false,
        })
    }

    /// Whether pages of this database are being restored. Blocks on the disk.
    ///
    /// # Errors
    /// A device's error.
    pub fn is_restoring_pages(&self, name: &str) -> Result<bool> {
        let Some(entry) = self.registry.named(name) else { return Ok(false) };
        let is_restoring = entry.state_unless_opening().is_some_and(|state| state.is_restoring());
        Ok(is_restoring && self.read_page_restore(&entry)?.is_some())
    }

    /// Rolls the pages forward by a backup of the log, or by what a differential backup has of them and of the log.
    pub(super) fn roll_pages(&self, request: &RestoreRequest<'_>, source: &Source<'_>) -> Result<Outcome> {
        check_options(request)?;
        let facts = source.facts();
        let entry = self.restoring(request.name)?;
        if facts.kind == SetKind::Log {
            let log = self.open_restored_log(&entry)?;
            let end = log.end();
            log.close();
            drop(log);
            if facts.last > end.0 {
                // The whole database is rolled forward with them, and first: they must not be ahead of its log.
                self.restore_log(request, source)?;
            }
        }
        let in_use = || EngineError::Statement(errors::RESTORE_IN_USE.error());
        let _transition = self.take_unused(entry.id).ok_or_else(in_use)?;
        if entry.guid[..4] != facts.database_guid.0[..4] {
            return Err(EngineError::Statement(errors::RESTORE_OTHER_DATABASE.with([&entry.name])));
        }
        let no_files = || EngineError::Statement(errors::NO_ROLL_FORWARD.error());
        let mut restore = self.read_page_restore(&entry)?.ok_or_else(no_files)?;
        let log = self.open_restored_log(&entry)?;
        let (fork, end) = (fork_of(&entry, &log), log.end());
        log.close();
        drop(log);
        if facts.kind == SetKind::Log {
            let refuse = |error| Err(EngineError::Statement(error));
            if facts.fork.0 != fork {
                return refuse(errors::LOG_OF_ANOTHER_FORK.error());
            }
            if facts.first > restore.position.0 {
                return refuse(errors::LOG_TOO_RECENT.with([&facts.first, &restore.position.0]));
            }
            if facts.last < restore.position.0 {
                return refuse(errors::LOG_TOO_EARLY.with([&facts.last, &restore.position.0]));
            }
        } else {
            check_path(facts, fork, end)?;
            if base_of(facts) != restore.base {
                return Err(EngineError::Statement(errors::DIFFERENTIAL_BASE_DIFFERS.error()));
            }
        }
        let wanted: BTreeSet<PageId> = restore.pages.ids().collect();
        self.take_from(request, source, &entry, &wanted, &mut restore)?;
        restore.position = restore.position.max(Lsn(facts.last));
        self.write_page_restore(&entry, &mut restore)?;
        Ok(Outcome { ends_before_stop: false })
    }

    /// Closes a database, or leaves it as it is if that is impossible: its pages may be damaged.
    fn put_away(&self, entry: &Entry) -> Result<()> {
        let is_usable = match &*entry.state.lock() {
            EntryState::Unavailable { state: DatabaseState::Offline, reason } => {
                return Err(entry.unavailable(DatabaseState::Offline, reason));
            }
            EntryState::Unavailable { .. } => false,
            EntryState::Closed(_) | EntryState::Open(_) => true,
        };
        if is_usable && entry.shut(&self.parts, &self.registry).is_err() {
            self.look_again(entry);
        }
        let closed = EntryState::Unavailable { state: DatabaseState::RecoveryPending, reason: "it was closed".into() };
        let mut state = entry.state.lock();
        if !state.is_restoring() {
            *state = closed;
        }
        Ok(())
    }

    /// Takes the pages from a backup, and lists the database as being restored.
    fn begin_page_restore(
        &self,
        request: &RestoreRequest<'_>,
        source: &Source<'_>,
        entry: &Entry,
        pages: &BTreeSet<PageId>,
    ) -> Result<()> {
        let facts = source.facts();
        let files = self.open_restoring(entry)?;
        let boot = files.first().map(DataFile::read_boot).transpose()?;
        if let Some(Ok(boot)) = boot
            && DatabaseOptions::decode(boot.options).recovery_model == RecoveryModel::Simple
        {
            return Err(EngineError::Statement(errors::PAGES_UNDER_SIMPLE.error()));
        }
        for id in pages {
            let file = files.iter().find(|file| file.header.file == id.file);
            let bytes = file.map_or(Ok(0), |file| file.disk.size())?;
            if u64::from(id.number) >= bytes / PAGE_SIZE as u64 {
                return Err(EngineError::Statement(errors::PAGE_BEHIND_END.with([id])));
            }
        }
        drop(files);
        let log = self.open_restored_log(entry)?;
        let (fork, end) = (fork_of(entry, &log), log.end());
        log.close();
        drop(log);
        check_path(facts, fork, end)?;
        let (position, base) = (Lsn(facts.last), base_of(facts));
        let mut restore = PageRestore { pages: RolledPages::default(), position, base, writes: 0 };
        self.take_from(request, source, entry, pages, &mut restore)?;
        let is_restoring = entry.state.lock().is_restoring();
        if let Some(before) = if is_restoring { self.read_page_restore(entry)? } else { None } {
            restore = restore.beside(before)?;
        } else {
            self.forget_page_restore(entry);
        }
        self.write_page_restore(entry, &mut restore)?;
        self.note_restoring(entry, true)
    }

    /// Rolls the pages forward by the live log, to its end, and writes them to the files. Returns them; none if no
    /// pages are being restored.
    pub(super) fn put_pages_back(
        &self,
        entry: &Entry,
        files: &[DataFile],
        log: &std::sync::Arc<Log>,
    ) -> Result<Vec<PageId>> {
        let Some(mut restore) = self.read_page_restore(entry)? else { return Ok(Vec::new()) };
        let has_all = restore.position >= log.retained_from() || restore.position == log.end();
        if !has_all || restore.position > log.end() {
            return Err(EngineError::Statement(errors::LOG_NOT_RESTORED.error()));
        }
        let (mut reader, mut at) = (LogReader::forwards(log), restore.position);
        while at < log.end() {
            let bytes = reader.bytes_from(at)?;
            let mut redone = Ok(());
            let next = hobt_log::for_each_saved(bytes, at, &mut |record| {
                redone = restore.pages.redo(record);
                redone.is_ok()
            });
            redone.map_err(|error| of_redo(entry, error))?;
            let lost = |lsn| AccessError::LogFailed(format!("there is no record at {lsn}"));
            at = next.map_err(|lsn| EngineError::from(lost(lsn)))?;
        }
        // A part of the log that is in the chain of its backups names the runs that loads have filled past it.
        let chain = log.chain().unwrap_or_default();
        let is_in_chain = chain.from != Lsn(0) && restore.position >= chain.from;
        if let Some(id) = restore.pages.missing(is_in_chain || restore.position == log.end()) {
            return Err(EngineError::Statement(errors::PAGE_NOT_IN_LOG.with([&id])));
        }
        let ids: Vec<PageId> = restore.pages.ids().collect();
        let mut buffer = AlignedBuffer::new(PAGE_SIZE)?;
        for id in &ids {
            let file = files.iter().find(|file| file.header.file == id.file);
            let file = file.ok_or_else(|| EngineError::Statement(errors::PAGE_BEHIND_END.with([id])))?;
            buffer.copy_from_slice(&restore.pages.sealed(*id).expect("one of its pages")[..]);
            file.disk.write_at(&buffer, id.byte_offset())?;
        }
        for file in files {
            file.disk.sync()?;
        }
        Ok(ids)
    }

    /// Opens a database whose pages were written back, and ends the restore.
    pub(super) fn end_page_restore(
        &self,
        entry: &Entry,
        files: Vec<DataFile>,
        pages: &[PageId],
        transition: Transition<'_>,
    ) -> Result<()> {
        *entry.state.lock() = EntryState::Closed(files);
        let opened = entry.open(&self.parts, &self.registry).and_then(|database| {
            // The next differential backup has them, whatever the last full one had in their place.
            database.prepare_to_change()?;
            for id in pages {
                if let Ok(file) = database.storage().file(id.file) {
                    file.pool_file().written().note(id.number, 1);
                }
            }
            database.checkpoint()?;
            *entry.options.lock() = database.options();
            Ok(())
        });
        // Even if the database cannot be opened: it has these pages now, and more may be restored.
        self.note_restoring(entry, false)?;
        self.forget_page_restore(entry);
        drop(transition);
        opened
    }
}

/// Refuses options that do not go with pages.
fn check_options(request: &RestoreRequest<'_>) -> Result<()> {
    let ends = matches!(request.end, RestoreEnd::Recovery | RestoreEnd::NoRecovery);
    let given = [
        ("stopat", request.stop.is_some()),
        ("replace", request.replaces),
        ("move", !request.moves.is_empty()),
        ("standby", !ends),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(EngineError::Statement(errors::BACKUP_OPTIONS_CONFLICT.with([&"page", name]))),
        None => Ok(()),
    }
}

/// The pages that are asked for, each once.
fn check_pages(pages: &[PageId]) -> Result<BTreeSet<PageId>> {
    let all: BTreeSet<PageId> = pages.iter().copied().collect();
    if all.is_empty() || all.len() > RESTORED_PAGES_MAX {
        return Err(too_many(all.len()));
    }
    // The headers, the boot page, the maps: what they say is of the file as a whole.
    match all.iter().find(|id| id.number % INTERVAL_PAGES < RESERVED_PAGES) {
        Some(id) => Err(EngineError::Statement(errors::CONTROL_PAGE.with([id]))),
        None => Ok(all),
    }
}

fn too_many(pages: usize) -> EngineError {
    EngineError::Statement(errors::RESTORED_PAGES.with([&pages, &RESTORED_PAGES_MAX]))
}

/// Refuses a backup of the data that is of another history of the database, or of a later state than its log has.
fn check_path(facts: &SetFacts, fork: [u8; 16], end: Lsn) -> Result<()> {
    match facts.fork.0 == fork && facts.last <= end.0 {
        true => Ok(()),
        false => Err(EngineError::Statement(errors::PAGES_OF_ANOTHER_PATH.error())),
    }
}

/// What tells the log apart from that of others restored from the same backups.
fn fork_of(entry: &Entry, log: &Log) -> [u8; 16] {
    let fork = log.chain().unwrap_or_default().fork;
    if fork == [0; 16] { entry.guid } else { fork }
}

/// Names the backup of the whole database that a backup of the data is, or builds on.
fn base_of(facts: &SetFacts) -> u64 {
    let guid = if facts.kind == SetKind::Differential { &facts.base } else { &facts.guid };
    u64::from_le_bytes(*guid.0.first_chunk().expect("sixteen bytes"))
}

/// The error of a redo that names no file, with the database.
fn of_redo(entry: &Entry, error: AccessError) -> EngineError {
    EngineError::Storage { database: entry.name.clone(), filegroup: None, error }
}

/// What the messages at the end say was restored: the pages alone.
fn facts_of(facts: &SetFacts, pages: &BTreeSet<PageId>) -> SetFacts {
    let mut facts = SetFacts { first: 0, last: 0, logs: Vec::new(), pages: pages.len() as u64, ..facts.clone() };
    facts.files.retain_mut(|file| {
        file.pages_saved = pages.iter().filter(|id| id.file.0 == file.id).count() as u64;
        file.pages_saved > 0
    });
    facts
}
