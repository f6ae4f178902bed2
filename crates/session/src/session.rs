//! One session: its state, its batches, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::{SessionId, SqlError, errors};
use hobt_interpreter::{Event, EventSink, SessionState, end_session, roll_back_session, run_batch};

use crate::server::Server;
use hobt_views::{SessionOptions, is_stopped};

/// Cancels what a session runs, from any thread.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    cancelled: Arc<AtomicBool>,
}

impl CancelHandle {
    /// Asks the running batch to stop, or the one announced by [`Session::expect_batch`]. It ends with error 3617 and
    /// leaves nothing half done. Without such a batch nothing happens.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }
}

/// A session. Dropping it rolls back its open transaction and drops its temporary tables.
#[derive(Debug)]
pub struct Session {
    server: Arc<Server>,
    state: SessionState,
    cancelled: Arc<AtomicBool>,
}

impl Session {
    pub(crate) fn new(server: Arc<Server>, options: &SessionOptions) -> Result<Session, SqlError> {
        Session::cancelled_by(server, options, Arc::default())
    }

    /// A session whose batches end when `cancelled` is set.
    pub(crate) fn cancelled_by(
        server: Arc<Server>,
        options: &SessionOptions,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Session, SqlError> {
        let database = server.instance().database(&options.database).map_err(|error| error.to_sql_error())?;
        let id = server.registry().add(options, Arc::clone(&cancelled));
        let mut state = SessionState::new(id, database);
        state.login.clone_from(&options.login);
        state.host.clone_from(&options.host);
        state.program.clone_from(&options.program);
        server.registry().set_counters(id, Arc::clone(&state.waits), Arc::clone(&state.progress));
        Ok(Session { server, state, cancelled })
    }

    /// `@@SPID`.
    pub fn id(&self) -> SessionId {
        self.state.id
    }

    /// The current database's name.
    pub fn database(&self) -> &str {
        self.state.database.name()
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// The state that the session keeps between batches.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// Sets whether [`Event::Statistics`] contains the plan of its statement, with the figures of each operator.
    /// Reading a plan after its run costs some microseconds.
    pub fn collect_plans(&mut self, collects: bool) {
        self.state.collects_plans = collects;
    }

    /// A handle to cancel the session's batches from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle { cancelled: Arc::clone(&self.cancelled) }
    }

    /// Announces that a batch is about to run: a cancellation from now on applies to that batch, even if it has not
    /// begun yet.
    pub fn expect_batch(&mut self) {
        // A `KILL` that set this flag too is not lost: when the batch begins, the registry still has the session as
        // killed.
        self.cancelled.store(false, Ordering::SeqCst);
    }

    /// Runs a batch (the text between two `GO` lines) and sends its output. Blocks until it has ended. Returns whether
    /// it ran to its end. Errors have been sent as output. An error that ended only a statement does not count.
    pub fn execute(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        self.expect_batch();
        self.execute_expected(batch, sink)
    }

    /// Like [`Session::execute`], for the batch announced by [`Session::expect_batch`], maybe on another thread.
    pub fn execute_expected(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        let registry = Arc::clone(self.server.registry());
        if !registry.batch_begins(self.state.id, batch) {
            let error = errors::SESSION_KILLED.error();
            let _flow = sink.event(Event::Error(error));
            return false;
        }
        if is_stopped() {
            self.cancelled.store(true, Ordering::SeqCst);
        }
        let ended = run_batch(self.server.environment(), &mut self.state, batch, &self.cancelled, sink);
        let killed = registry.batch_ends(self.state.id, self.state.database.name(), self.state.row_count);
        if killed && let Err(error) = roll_back_session(self.server.environment(), &mut self.state) {
            let _flow = sink.event(Event::Error(error));
        }
        ended
    }

    /// Runs a batch and returns the first error, if there was one. For programs that need only its effect.
    ///
    /// # Errors
    /// The first error that the batch sent.
    pub fn run(&mut self, batch: &str) -> Result<(), SqlError> {
        self.expect_batch();
        self.run_expected(batch)
    }

    /// Like [`Session::run`], for a batch that was announced, and may have been cancelled since.
    pub(crate) fn run_expected(&mut self, batch: &str) -> Result<(), SqlError> {
        let mut first = None;
        self.execute_expected(batch, &mut |event: Event| {
            if let Event::Error(error) = event {
                first.get_or_insert(error);
            }
            crate::Flow::Continue
        });
        first.map_or(Ok(()), Err)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        end_session(self.server.environment(), &mut self.state);
        self.server.registry().remove(self.state.id);
    }
}
