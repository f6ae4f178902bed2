//! The connected sessions and what they run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hobt_base::{SessionId, SqlError, errors};
use hobt_engine::time_of_day;
use hobt_instruments::WaitCounters;
use hobt_interpreter::Progress;
use hobt_interpreter::{SessionDirectory, SetOptions, SharedTransaction, StatementStatistics, TableReads};
use hobt_table::{OperatorProfile, StatementRun};

/// The first id of a user's session.
const FIRST_SESSION: i32 = 51;

/// A client's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionOptions {
    /// The first database.
    pub database: String,
    /// The login's name.
    pub login: String,
    /// The client's computer.
    pub host: String,
    /// The client's program.
    pub program: String,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            database: "master".to_owned(),
            login: "sa".to_owned(),
            host: String::new(),
            program: "hobt".to_owned(),
        }
    }
}

/// One session, as views show it.
#[derive(Clone, Debug)]
pub(crate) struct Connected {
    pub(crate) id: SessionId,
    /// 100 ns since 1970-01-01 UTC.
    pub(crate) login_time: i64,
    pub(crate) login: String,
    pub(crate) host: String,
    pub(crate) program: String,
    pub(crate) database: String,
    pub(crate) options: SetOptions,
    pub(crate) waits: Arc<WaitCounters>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) total: Total,
    pub(crate) request: Option<Request>,
    /// When the last batch began, 100 ns since 1970-01-01 UTC.
    pub(crate) last_request_start: i64,
    /// When the last batch ended.
    pub(crate) last_request_end: Option<i64>,
    pub(crate) row_count: u64,
    pub(crate) operators: Vec<Arc<OperatorProfile>>,
    pub(crate) last_cost: StatementStatistics,
    pub(crate) transaction: Option<OpenTransaction>,
    cancelled: Arc<AtomicBool>,
    killed: bool,
}

impl Connected {
    /// `open_transaction_count` of the views.
    pub(crate) fn open_transaction_count(&self) -> i64 {
        let count = self.transaction.as_ref().map_or(0, |open| open.count);
        i64::try_from(count).unwrap_or(i64::MAX).min(i64::from(i32::MAX))
    }
}

/// The total cost of a session's statements.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Total {
    pub(crate) cpu: Duration,
    pub(crate) elapsed: Duration,
    pub(crate) reads: u64,
    pub(crate) logical_reads: u64,
}

/// The transaction that a session has open.
#[derive(Clone, Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) transaction: Arc<SharedTransaction>,
    /// `@@TRANCOUNT`.
    pub(crate) count: usize,
    /// When it began, 100 ns since 1970-01-01 UTC.
    pub(crate) begun: i64,
}

/// A batch that runs.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) started: Instant,
    pub(crate) start_time: i64,
    pub(crate) command: String,
    pub(crate) text: String,
    pub(crate) run: Weak<StatementRun>,
}

/// Whether the program is ending: no session runs anything any more.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// The registries of the program's servers.
static REGISTRIES: Mutex<Vec<Weak<Registry>>> = Mutex::new(Vec::new());

/// Cancels what every session of the process runs. Later statements fail with error 3617. For a program that was told
/// to end: callers that use sessions get errors, return, and close their instances on the way. This cannot be undone.
pub fn stop_all_sessions() {
    STOPPED.store(true, Ordering::SeqCst);
    let registries = REGISTRIES.lock().unwrap_or_else(PoisonError::into_inner);
    for registry in registries.iter().filter_map(Weak::upgrade) {
        registry.cancel_all();
    }
}

/// Whether [`stop_all_sessions`] was called. A batch asks after it has cleared its own flag, so that it sees either
/// this or the flag set again.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// All sessions of an instance.
#[derive(Default, Debug)]
pub struct Registry {
    sessions: Mutex<BTreeMap<i32, Connected>>,
}

impl Registry {
    /// A registry that [`stop_all_sessions`] reaches.
    pub fn new() -> Arc<Registry> {
        let registry = Arc::new(Registry::default());
        let mut all = REGISTRIES.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&registry));
        registry
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Connected>> {
        // The map is consistent between any two statements on it, so a panic elsewhere does not spoil it.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with(&self, id: SessionId, change: impl FnOnce(&mut Connected)) {
        if let Some(session) = self.lock().get_mut(&id.0) {
            change(session);
        }
    }

    /// Adds a session with the lowest free id.
    pub fn add(&self, options: &SessionOptions, cancelled: Arc<AtomicBool>) -> SessionId {
        let mut sessions = self.lock();
        let id = (FIRST_SESSION..).find(|id| !sessions.contains_key(id)).unwrap_or(i32::MAX);
        let time = time_of_day();
        sessions.insert(
            id,
            Connected {
                id: SessionId(id),
                login_time: time,
                login: options.login.clone(),
                host: options.host.clone(),
                program: options.program.clone(),
                database: options.database.clone(),
                options: SetOptions::default(),
                waits: Arc::default(),
                progress: Arc::default(),
                total: Total::default(),
                request: None,
                last_request_start: time,
                last_request_end: None,
                row_count: 0,
                operators: Vec::new(),
                last_cost: StatementStatistics::default(),
                transaction: None,
                cancelled,
                killed: false,
            },
        );
        SessionId(id)
    }

    /// Cancels what all sessions run.
    fn cancel_all(&self) {
        for session in self.lock().values() {
            session.cancelled.store(true, Ordering::SeqCst);
        }
    }

    /// Removes a session that has ended.
    pub fn remove(&self, id: SessionId) {
        self.lock().remove(&id.0);
    }

    /// Sets the wait counters and the progress of a session's statements.
    pub fn set_counters(&self, id: SessionId, waits: Arc<WaitCounters>, progress: Arc<Progress>) {
        self.with(id, |session| (session.waits, session.progress) = (waits, progress));
    }

    /// Records that a session runs a batch. Returns `false` if the session was killed, and so runs none any more.
    pub fn batch_begins(&self, id: SessionId, text: &str) -> bool {
        let mut sessions = self.lock();
        let Some(session) = sessions.get_mut(&id.0).filter(|session| !session.killed) else { return false };
        session.last_request_start = time_of_day();
        session.request = Some(Request {
            started: Instant::now(),
            start_time: session.last_request_start,
            command: "BATCH".to_owned(),
            text: text.to_owned(),
            run: Weak::new(),
        });
        true
    }

    /// Records that a batch has ended. Returns whether its session was killed meanwhile.
    pub fn batch_ends(&self, id: SessionId, database: &str, row_count: u64) -> bool {
        let mut sessions = self.lock();
        let Some(session) = sessions.get_mut(&id.0) else { return false };
        session.request = None;
        session.last_request_end = Some(time_of_day());
        session.row_count = row_count;
        database.clone_into(&mut session.database);
        session.killed
    }

    /// All sessions in their current state.
    pub(crate) fn all(&self) -> Vec<Connected> {
        self.lock().values().cloned().collect()
    }
}

impl SessionDirectory for Registry {
    fn kill(&self, session: SessionId) -> Result<Option<Arc<SharedTransaction>>, SqlError> {
        let mut sessions = self.lock();
        let found = sessions.get_mut(&session.0).ok_or_else(|| errors::NO_SUCH_SESSION.with([&session]))?;
        // In this order: a batch that begins meanwhile clears the flag before it checks whether it was killed.
        found.killed = true;
        found.cancelled.store(true, Ordering::SeqCst);
        // A batch that runs ends the transaction when it ends.
        let open = if found.request.is_none() { found.transaction.take() } else { None };
        Ok(open.map(|open| open.transaction))
    }

    fn progress(&self, session: SessionId) -> Result<Arc<Progress>, SqlError> {
        let sessions = self.lock();
        let found = sessions.get(&session.0).ok_or_else(|| errors::NO_SUCH_SESSION.with([&session]))?;
        Ok(Arc::clone(&found.progress))
    }

    fn statement_begins(&self, session: SessionId, command: &str, database: &str) {
        self.with(session, |session| {
            database.clone_into(&mut session.database);
            if let Some(request) = &mut session.request {
                command.clone_into(&mut request.command);
            }
        });
    }

    fn options_are(&self, session: SessionId, options: &SetOptions) {
        self.with(session, |session| session.options.clone_from(options));
    }

    fn statement_runs(&self, session: SessionId, run: Weak<StatementRun>) {
        self.with(session, |session| {
            if let Some(request) = &mut session.request {
                request.run = run;
            }
        });
    }

    fn statement_ends(&self, session: SessionId, cost: &StatementStatistics, operators: Vec<Arc<OperatorProfile>>) {
        self.with(session, |session| {
            session.total.cpu += cost.cpu;
            session.total.elapsed += cost.elapsed;
            let (logical, reads) = TableReads::total(&cost.reads);
            session.total.logical_reads += logical;
            session.total.reads += reads;
            // A statement without profiles, such as a query of this view, must not replace them.
            if !operators.is_empty() {
                session.operators = operators;
                session.last_cost = cost.clone();
            }
        });
    }

    fn open_transactions(&self) -> Vec<(SessionId, Arc<SharedTransaction>, i64)> {
        let sessions = self.lock();
        let open = sessions.values().filter_map(|session| {
            let open = session.transaction.as_ref()?;
            Some((session.id, Arc::clone(&open.transaction), open.begun))
        });
        open.collect()
    }

    fn transaction_is(&self, session: SessionId, open: Option<(Arc<SharedTransaction>, usize)>) {
        self.with(session, |session| {
            let known = session.transaction.take();
            session.transaction = open.map(|(transaction, count)| OpenTransaction {
                begun: known
                    .filter(|known| known.transaction.id() == transaction.id())
                    .map_or_else(time_of_day, |known| known.begun),
                transaction,
                count,
            });
        });
    }

    fn uses_database(&self, database: &str, except: SessionId) -> bool {
        self.lock().values().any(|session| session.id != except && session.database.eq_ignore_ascii_case(database))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::number;

    #[test]
    fn ids_start_at_51_and_are_used_again() {
        let registry = Registry::default();
        let first = registry.add(&SessionOptions::default(), Arc::default());
        let second = registry.add(&SessionOptions::default(), Arc::default());
        assert_eq!((first.0, second.0), (51, 52));
        registry.remove(first);
        assert_eq!(registry.add(&SessionOptions::default(), Arc::default()).0, 51);
    }

    #[test]
    fn a_killed_session_is_cancelled_and_stays_killed() {
        let registry = Registry::default();
        let cancelled = Arc::new(AtomicBool::new(false));
        let id = registry.add(&SessionOptions::default(), Arc::clone(&cancelled));
        registry.kill(id).expect("it is there");
        assert!(cancelled.load(Ordering::Relaxed) && !registry.batch_begins(id, "SELECT 1"));
        assert_eq!(registry.kill(SessionId(99)).unwrap_err().number, number::NO_SUCH_SESSION);
    }
}
