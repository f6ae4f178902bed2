//! The databases of an instance: the list, which are open, and their users.
//!
//! A database is opened by its first user. Until then only its headers have been read, and a crash cannot harm it.
//! Every user of a database holds a [`DatabaseUse`], and a database that is held is not dropped.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hobt_base::{DatabaseId, FileId, Stamp, errors};
use hobt_catalog::{DatabaseSnapshot, name_equals};
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::rank::{Ranked, RankedGuard};
use hobt_instruments::schedule::{self, Condvar, Mutex, MutexGuard};
use hobt_log::{LogError, TruncationWait};
use hobt_txn::{DatabaseGuid, GlobalTransaction};

use super::overlay_file::put_over;
use super::snapshot::Copies;
use crate::data_file::DataFile;
use crate::database::{Database, DatabaseState, OldDatabase, StorageParts};
use crate::error::{EngineError, Result};
use crate::isolation::{IsolationOption, IsolationOptions};
use crate::log_description::LogDescription;
use crate::options::DatabaseOptions;
use crate::settings::InDoubtResolution;

/// How long the recovery of a database waits for one of higher id that is being opened too.
const DECIDER_PATIENCE: Duration = Duration::from_secs(5);

/// How long a read of a database's state waits before it checks whether the database is being opened.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// What is known of a database.
pub(super) enum EntryState {
    /// Its files are complete and open, with locks. They may be unclean and need recovery.
    Closed(Vec<DataFile>),
    /// In use.
    Open(Arc<Database>),
    /// Cannot be used.
    Unavailable {
        /// Its state.
        state: DatabaseState,
        /// Why.
        reason: String,
    },
}

impl EntryState {
    /// The state of a database that is listed and must not be opened.
    pub(super) fn offline() -> EntryState {
        EntryState::Unavailable { state: DatabaseState::Offline, reason: "it is offline".to_owned() }
    }
}

/// A database of the instance.
pub(super) struct Entry {
    pub(super) id: DatabaseId,
    pub(super) name: String,
    pub(super) guid: [u8; 16],
    pub(super) created: i64,
    pub(super) isolation: Arc<IsolationOptions>,
    /// As its boot page has them.
    pub(super) options: Mutex<DatabaseOptions>,
    pub(super) files: Mutex<Vec<(FileId, PathBuf)>>,
    /// The files of the log, by their ids.
    pub(super) logs: Mutex<Vec<(FileId, PathBuf)>>,
    /// The file that takes what is written, if the database is opened over its files: a standby or a snapshot.
    pub(super) overlay: Mutex<Option<PathBuf>>,
    /// The copies of a snapshot; `None` for any other database.
    pub(super) copies: Option<Mutex<Copies>>,
    /// Data files that were removed from the database and may still exist.
    pub(super) removed: Mutex<Vec<(FileId, PathBuf)>>,
    /// A thread that opens the database holds `state`, for as long as its recovery takes.
    pub(super) is_opening: AtomicBool,
    pub(super) state: Ranked<Mutex<EntryState>>,
}

impl Entry {
    /// The ids of data files that were removed and may still exist.
    pub(super) fn removed_ids(&self) -> Vec<FileId> {
        self.removed.lock().iter().map(|(id, _)| *id).collect()
    }

    /// Whether a data file or a file of the log has this id.
    pub(super) fn lists(&self, file: FileId) -> bool {
        self.files.lock().iter().chain(self.logs.lock().iter()).any(|(id, _)| *id == file)
    }

    /// The ids that no new file may get: those that `master` lists, even if the database does not know them yet, and
    /// those of removed files that may still exist.
    pub(super) fn taken_ids(&self) -> Vec<FileId> {
        [&self.files, &self.logs, &self.removed]
            .iter()
            .flat_map(|files| files.lock().clone())
            .map(|(id, _)| id)
            .collect()
    }

    pub(super) fn unavailable(&self, state: DatabaseState, reason: &str) -> EngineError {
        EngineError::Unavailable { database: self.name.clone(), state, reason: reason.to_owned() }
    }

    /// Opens the database if it is not open, so that it is recovered, and closes it, clean.
    pub(super) fn shut(&self, parts: &StorageParts, registry: &Registry) -> Result<()> {
        let mut state = self.state.lock();
        let database = self.open_locked(&mut state, parts, registry)?;
        database.note_in_use()?;
        *state = EntryState::Unavailable { state: DatabaseState::Offline, reason: "it is being closed".to_owned() };
        // Released before the last checkpoint: views of databases need the lock and must not wait for the checkpoint.
        drop(state);
        database.close()
    }

    /// Whether its recovery may have to ask another database for a decision: it has not been opened yet and was not
    /// closed cleanly, or could not be opened.
    fn may_be_in_doubt(&self) -> bool {
        match self.state_unless_opening().as_deref() {
            None => true,
            Some(EntryState::Open(_)) => false,
            Some(EntryState::Closed(files)) => !files.iter().all(|file| file.header.clean),
            Some(EntryState::Unavailable { state, .. }) => *state != DatabaseState::Offline,
        }
    }

    /// The database, if it is open.
    fn opened(&self) -> Option<Arc<Database>> {
        match &*self.state.lock() {
            EntryState::Open(database) => Some(Arc::clone(database)),
            EntryState::Closed(_) | EntryState::Unavailable { .. } => None,
        }
    }

    /// The open database; opens it if it is not open.
    pub(super) fn open(&self, parts: &StorageParts, registry: &Registry) -> Result<Arc<Database>> {
        self.open_locked(&mut self.state.lock(), parts, registry)
    }

    fn open_locked(&self, state: &mut EntryState, parts: &StorageParts, registry: &Registry) -> Result<Arc<Database>> {
        let files = match &mut *state {
            EntryState::Open(database) => {
                database.check_usable()?;
                return Ok(Arc::clone(database));
            }
            EntryState::Unavailable { state, reason } => return Err(self.unavailable(*state, reason)),
            EntryState::Closed(files) => std::mem::take(files),
        };
        let opened = self.open_files(files, parts, registry);
        match opened {
            Ok(database) => {
                *state = EntryState::Open(Arc::clone(&database));
                Ok(database)
            }
            Err(error) => {
                let (why, reason) = match &error {
                    EngineError::Unavailable { state, reason, .. } => (*state, reason.clone()),
                    other => (DatabaseState::Suspect, other.to_string()),
                };
                *state = EntryState::Unavailable { state: why, reason };
                Err(error)
            }
        }
    }

    /// Opens the database in its files, or over them.
    fn open_files(&self, mut files: Vec<DataFile>, parts: &StorageParts, registry: &Registry) -> Result<Arc<Database>> {
        if let Some(copies) = self.copies() {
            self.is_opening.store(true, Ordering::Release);
            let opened = self.open_snapshot(&copies, parts, registry);
            self.is_opening.store(false, Ordering::Release);
            return opened;
        }
        self.pass_by(registry, &files)?;
        let overlay = match &*self.overlay.lock() {
            Some(path) => Some(put_over(&*parts.disk, path, &mut files).map_err(|error| {
                let reason = format!("its standby file '{}' cannot be made: {error}", path.display());
                self.unavailable(DatabaseState::RecoveryPending, &reason)
            })?),
            None => None,
        };
        let ask = |transaction: &GlobalTransaction| registry.has_decided(parts, self, transaction);
        let logs: Vec<PathBuf> = self.logs.lock().iter().map(|(_, path)| path.clone()).collect();
        let (name, removed) = (self.name.as_str(), self.removed_ids());
        let (id, logs) = (self.id, &logs[..]);
        let old = OldDatabase {
            id,
            name,
            files,
            logs,
            removed: &removed,
            ask: &ask,
            overlay: overlay.as_ref(),
            is_snapshot: false,
        };
        self.is_opening.store(true, Ordering::Release);
        let opened = Database::open(parts, old);
        self.is_opening.store(false, Ordering::Release);
        opened
    }

    /// The state, unless the database is being opened: readers of the state do not wait for recovery.
    pub(super) fn state_unless_opening(&self) -> Option<RankedGuard<MutexGuard<'_, EntryState>>> {
        loop {
            if let Some(state) = self.state.try_lock_for(LOOK_PAUSE) {
                return Some(state);
            }
            if self.is_opening.load(Ordering::Acquire) {
                return None;
            }
        }
    }

    fn description(&self) -> DatabaseDescription {
        let mut log_reuse_wait = TruncationWait::Nothing;
        let state = match self.state_unless_opening().as_deref() {
            None => DatabaseState::Recovering,
            Some(EntryState::Open(database)) => {
                log_reuse_wait = LogDescription::of(database.storage()).map_or(log_reuse_wait, |log| log.reuse_wait);
                database.state()
            }
            Some(EntryState::Closed(_)) => DatabaseState::Online,
            Some(EntryState::Unavailable { state, .. }) => *state,
        };
        let is_in_standby = self.is_standby();
        DatabaseDescription {
            id: self.id,
            name: self.name.clone(),
            created: self.created,
            state,
            options: *self.options.lock(),
            log_reuse_wait,
            allows_snapshot: self.isolation.has(IsolationOption::AllowSnapshot),
            read_committed_snapshot: self.isolation.has(IsolationOption::ReadCommittedSnapshot),
            files: self.files.lock().iter().map(|(_, path)| path.clone()).collect(),
            log_files: self.logs.lock().iter().map(|(_, path)| path.clone()).collect(),
            overlay_file: self.overlay.lock().clone(),
            is_in_standby,
            source: None,
        }
    }
}

/// A database, as listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DatabaseDescription {
    /// Its id.
    pub id: DatabaseId,
    /// Its name.
    pub name: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Its state.
    pub state: DatabaseState,
    /// Its options.
    pub options: DatabaseOptions,
    /// What the reuse of its log waits for; nothing while it is not open.
    pub log_reuse_wait: TruncationWait,
    /// `ALLOW_SNAPSHOT_ISOLATION`.
    pub allows_snapshot: bool,
    /// `READ_COMMITTED_SNAPSHOT`.
    pub read_committed_snapshot: bool,
    /// The paths of its data files, by file id.
    pub files: Vec<PathBuf>,
    /// The paths of its log files, by file id.
    pub log_files: Vec<PathBuf>,
    /// The file that takes what is written to a standby or a snapshot.
    pub overlay_file: Option<PathBuf>,
    /// Whether it is being restored and can be read.
    pub is_in_standby: bool,
    /// The database that it is a snapshot of.
    pub source: Option<DatabaseId>,
}

/// Entries with their users. A new user gets its share of the entry under the lock, and is counted from then on.
#[derive(Default)]
pub(super) struct Registry {
    entries: Mutex<BTreeMap<DatabaseId, Listed>>,
    /// A transition has ended.
    settled: Condvar,
    in_doubt: Mutex<InDoubtResolution>,
}

impl Registry {
    pub(super) fn insert(&self, entry: Entry) {
        self.entries.lock().insert(entry.id, (Arc::new(entry), Some(Held::default())));
    }

    /// Inserts an entry that cannot be used until the result is dropped.
    pub(super) fn insert_in_transition(&self, entry: Entry) -> Transition<'_> {
        let id = entry.id;
        self.entries.lock().insert(id, (Arc::new(entry), None));
        Transition { registry: self, id }
    }

    /// Replaces the entry of a database that is in transition.
    pub(super) fn replace(&self, entry: Entry) {
        self.entries.lock().insert(entry.id, (Arc::new(entry), None));
    }

    /// Every entry, by id.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.lock().values().map(|(entry, _)| Arc::clone(entry)).collect()
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Entry>> {
        let entries = self.entries.lock();
        entries.values().find(|(entry, _)| name_equals(&entry.name, name)).map(|(entry, _)| Arc::clone(entry))
    }

    pub(super) fn descriptions(&self) -> Vec<DatabaseDescription> {
        let all = self.all();
        let source = |entry: &Entry| {
            let is_its = |other: &&Arc<Entry>| other.guid == entry.guid && !other.is_snapshot();
            if entry.is_snapshot() { all.iter().find(is_its).map(|source| source.id) } else { None }
        };
        all.iter().map(|entry| DatabaseDescription { source: source(entry.as_ref()), ..entry.description() }).collect()
    }

    /// Opens the database that `pick` finds, and holds it; `None` if it finds none.
    pub(super) fn hold(&self, parts: &StorageParts, pick: impl Fn(&Entry) -> bool) -> Option<Result<DatabaseUse>> {
        let (entry, held) = self.entries.lock().values().find(|(entry, _)| pick(entry)).cloned()?;
        let Some(held) = held else {
            return Some(Err(EngineError::Statement(errors::DATABASE_IN_TRANSITION.with([&entry.name]))));
        };
        let isolation = Arc::clone(&entry.isolation);
        let used = |database| DatabaseUse { used: Arc::new(Used { database, isolation, held }), viewer: None };
        Some(entry.open(parts, self).map(used))
    }

    /// Sets what is presumed of transactions whose outcome no database knows, from now on.
    pub(super) fn set_in_doubt_resolution(&self, resolution: InDoubtResolution) {
        *self.in_doubt.lock() = resolution;
    }

    /// Whether `transaction`, which `asker` was prepared for, is to be committed: as its coordinator has decided, or as
    /// presumed if no database can tell any more. An error if the coordinator is listed but cannot be asked now: it may
    /// be able to tell later.
    fn has_decided(
        &self,
        parts: &StorageParts,
        asker: &Entry,
        transaction: &GlobalTransaction,
    ) -> std::result::Result<bool, String> {
        self.ask_decider(parts, asker, transaction).or_else(|unknown| match (unknown, *self.in_doubt.lock()) {
            (Unknown::Now(reason), _) | (Unknown::ForGood(reason), InDoubtResolution::NoPresumption) => Err(reason),
            (Unknown::ForGood(_), InDoubtResolution::PresumeCommit) => Ok(true),
            (Unknown::ForGood(_), InDoubtResolution::PresumeAbort) => Ok(false),
        })
    }

    /// The database with the given GUID, with a share for the caller. Waits up to [`DECIDER_PATIENCE`] for the end of a
    /// transition.
    fn settled(&self, guid: DatabaseGuid) -> Option<Listed> {
        let deadline = schedule::now() + DECIDER_PATIENCE;
        let mut entries = self.entries.lock();
        loop {
            let listed = entries.values().find(|(entry, _)| entry.guid == guid && !entry.is_snapshot())?;
            let left = deadline.saturating_duration_since(schedule::now());
            if listed.1.is_some() || left.is_zero() {
                return Some(listed.clone());
            }
            self.settled.wait_for(&mut entries, left);
        }
    }

    /// Asks the coordinator of `transaction`, which `asker` was prepared for. Opens that database, while `asker` is
    /// being opened.
    fn ask_decider(
        &self,
        parts: &StorageParts,
        asker: &Entry,
        transaction: &GlobalTransaction,
    ) -> std::result::Result<bool, Unknown> {
        let (decider, held) = self.settled(transaction.coordinator).ok_or_else(|| {
            Unknown::ForGood(
                "the database that decides on it is not in this instance: attach it, and set this one ONLINE; or, if it \
                 is lost, say what to presume (sp_configure 'in-doubt xact resolution')"
                    .to_owned(),
            )
        })?;
        let fail = |why: String| {
            Unknown::Now(format!(
                "database '{0}' decides on it and cannot be asked: {why} Then set this one ONLINE. If '{0}' is lost, drop it \
                 and say what to presume (sp_configure 'in-doubt xact resolution')",
                decider.name
            ))
        };
        if decider.is_standby() {
            return Err(fail("it is a standby, whose log may go on.".to_owned()));
        }
        // The coordinator counts as used until it has answered, so that no transition begins.
        let _held = held.ok_or_else(|| fail("it is in transition.".to_owned()))?;
        // The coordinator has the lower id, unless a database was attached, so databases wait for each other in one
        // direction.
        let mut state = if decider.id < asker.id {
            decider.state.lock()
        } else {
            let state = decider.state.try_lock_for(DECIDER_PATIENCE);
            state.ok_or_else(|| fail("it is being opened itself.".to_owned()))?
        };
        let database = decider.open_locked(&mut state, parts, self).map_err(|error| fail(error.to_string()))?;
        let log = database.storage().log().ok_or_else(|| fail("it has no log.".to_owned()))?;
        // An older copy of the database has not reached that life yet.
        if log.log().has_lived(transaction.life) {
            return Ok(log.has_decided(transaction.life, transaction.number));
        }
        // It may have decided to commit, and contain what the transaction did there.
        Err(Unknown::ForGood(format!(
            "database '{}' decides on it, and its log of that time is gone, so that nobody knows what was decided: detach \
             '{}', attach it with that log, and set this one ONLINE; or, if that is lost, say what to presume (sp_configure \
             'in-doubt xact resolution')",
            decider.name, decider.name
        )))
    }

    /// Makes sure that what `decider` has decided for other databases is durable in them, because `decider` is about to
    /// be removed. Opens those that have to be recovered. Returns those that could not be told, and why. Blocks.
    pub(super) fn tell_participants(&self, parts: &StorageParts, decider: &Entry) -> Vec<Untold> {
        if planted::has(Bug::DropBeforeHeard) {
            return Vec::new();
        }
        if decider.is_snapshot() {
            return Vec::new();
        }
        let others = || self.all().into_iter().filter(|entry| entry.guid != decider.guid && !entry.is_snapshot());
        if decider.opened().is_none() {
            if !others().any(|entry| entry.may_be_in_doubt()) {
                return Vec::new();
            }
            // A database that cannot be opened cannot be asked either.
            let _unasked = decider.open(parts, self);
        }
        let waiting = || decider.opened().and_then(|database| Some(database.storage().log()?.tell_participants()));
        let mut unopened = BTreeMap::new();
        for (guid, _) in waiting().unwrap_or_default() {
            // A database that is open or clean then knows every decision.
            if let Some(entry) = others().find(|entry| entry.guid == guid)
                && let Err(error) = entry.open(parts, self)
            {
                unopened.insert(guid, error.to_string());
            }
        }
        let untold = |(guid, failed): (DatabaseGuid, Option<LogError>)| {
            // A database that is not listed was dropped in an earlier life.
            let database = others().find(|entry| entry.guid == guid)?.name.clone();
            let why = failed.map(|error| error.to_string()).or_else(|| unopened.remove(&guid));
            Some(Untold { database, why: why.unwrap_or_default() })
        };
        waiting().unwrap_or_default().into_iter().filter_map(untold).collect()
    }

    /// Begins a transition of a database without users; `None` if it has users.
    pub(super) fn begin_transition(&self, id: DatabaseId) -> Option<Transition<'_>> {
        let mut entries = self.entries.lock();
        let (_, held) = entries.get_mut(&id)?;
        Arc::get_mut(held.as_mut()?)?;
        *held = None;
        Some(Transition { registry: self, id })
    }
}

/// A database that is listed and cannot be used until this is dropped.
#[must_use]
pub(super) struct Transition<'r> {
    registry: &'r Registry,
    id: DatabaseId,
}

impl Transition<'_> {
    /// Removes the database from the list.
    pub(super) fn remove(self) {
        self.registry.entries.lock().remove(&self.id);
    }
}

impl Drop for Transition<'_> {
    fn drop(&mut self) {
        if let Some((_, held)) = self.registry.entries.lock().get_mut(&self.id) {
            *held = Some(Held::default());
        }
        self.registry.settled.notify_all();
        schedule::point(schedule::Place::Transition);
    }
}

/// Why the outcome of a transaction over several databases is unknown.
enum Unknown {
    /// The coordinator exists and cannot be asked now.
    Now(String),
    /// No database of the instance knows.
    ForGood(String),
}

/// A database that could not be told what another one has decided.
pub(super) struct Untold {
    pub(super) database: String,
    pub(super) why: String,
}

/// A user's share of an entry; the entry has the other share.
type Held = Arc<()>;

/// An entry with the share that its users clone; `None` during a [`Transition`].
type Listed = (Arc<Entry>, Option<Held>);

/// A database that is in use.
struct Used {
    database: Arc<Database>,
    isolation: Arc<IsolationOptions>,
    #[expect(dead_code, reason = "counts the use for as long as it lives")]
    held: Held,
}

/// A database that is in use and so cannot be dropped. A session holds one for its current database, a statement one
/// for each database that it names. A clone costs one reference count, which is shared only by the clones of one
/// `DatabaseUse`.
#[derive(Clone)]
pub struct DatabaseUse {
    used: Arc<Used>,
    /// The transaction whose uncommitted changes of objects are visible.
    viewer: Option<Stamp>,
}

impl DatabaseUse {
    /// The database as `transaction` sees it, with its uncommitted changes of objects; committed objects only if
    /// `None`.
    #[must_use]
    pub fn seen_by(mut self, transaction: Option<Stamp>) -> DatabaseUse {
        self.viewer = transaction;
        self
    }

    /// The committed objects, with the changes of the viewing transaction ([`DatabaseUse::seen_by`]). Cheap: a
    /// statement takes it once and keeps it.
    pub fn snapshot(&self) -> Arc<DatabaseSnapshot> {
        match self.viewer {
            Some(stamp) => self.database().snapshot_seen_by(stamp),
            None => self.database().snapshot(),
        }
    }

    /// Its isolation options, as in force now.
    pub fn isolation(&self) -> &IsolationOptions {
        &self.used.isolation
    }

    /// The database. A clone of the `Arc` does not keep it from being dropped.
    pub fn database(&self) -> &Arc<Database> {
        &self.used.database
    }
}

impl Deref for DatabaseUse {
    type Target = Arc<Database>;

    fn deref(&self) -> &Arc<Database> {
        self.database()
    }
}

impl std::fmt::Debug for DatabaseUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.database().fmt(f)
    }
}
