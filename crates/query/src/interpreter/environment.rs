//! What the interpreter needs of the world around a session.

use std::sync::{Arc, Weak};

use datafusion::execution::runtime_env::RuntimeEnv;
use hobt_base::{SessionId, SqlError};
use hobt_engine::{BackgroundWork, Instance};

use super::identity::Identities;
use super::memory::{OperatorMemory, operators_runtime};
use super::{PlanStore, SetOptions, SharedTransaction, StatementStatistics, StatisticsQueue, SystemViews};
use crate::execute::{OperatorProfile, StatementRun, WorkerPool};

/// The other sessions of an instance, as far as statements reach them.
pub trait SessionDirectory: Send + Sync {
    /// Cancels what a session runs and ends the session, which rolls its transaction back. Where it runs nothing, that
    /// is left to the caller, who gets the transaction.
    ///
    /// # Errors
    /// 6106 for a session that is not there.
    fn kill(&self, session: SessionId) -> Result<Option<Arc<SharedTransaction>>, SqlError>;

    /// Says what the session is doing now; shown by `sys.dm_exec_requests`.
    fn statement_begins(&self, session: SessionId, command: &str, database: &str);

    /// Says what the session's options are now; shown by `sys.dm_exec_sessions`.
    fn options_are(&self, session: SessionId, options: &SetOptions);

    /// Shows what a statement's operators do while it runs.
    fn statement_runs(&self, session: SessionId, run: Weak<StatementRun>);

    /// Takes what the session's last statement cost.
    fn statement_ends(&self, session: SessionId, cost: &StatementStatistics, operators: Vec<Arc<OperatorProfile>>);

    /// The transactions that sessions have open, with when they began, 100 ns since 1970-01-01 UTC.
    fn open_transactions(&self) -> Vec<(SessionId, Arc<SharedTransaction>, i64)>;

    /// Says which transaction a session has open, and `@@TRANCOUNT`.
    fn transaction_is(&self, session: SessionId, open: Option<(Arc<SharedTransaction>, usize)>);

    /// Whether another session has a database as its current one; such a database cannot be dropped.
    fn uses_database(&self, database: &str, except: SessionId) -> bool;
}

/// What all sessions of an instance share.
#[derive(Clone)]
pub struct Environment {
    /// The instance.
    pub instance: Arc<Instance>,
    /// Its views.
    pub views: Arc<dyn SystemViews>,
    /// Its sessions.
    pub sessions: Arc<dyn SessionDirectory>,
    /// `@@SERVERNAME`.
    pub server_name: Arc<str>,
    /// `@@VERSION`.
    pub version: Arc<str>,
    /// The plans that statements had.
    pub plans: Arc<PlanStore>,
    /// Statistics that are updated behind queries.
    pub statistics: Arc<StatisticsQueue>,
    pub(super) executor: Arc<Executor>,
}

/// The workers and the memory of all statements.
pub(super) struct Executor {
    pub(super) workers: WorkerPool,
    pub(super) runtime: Arc<RuntimeEnv>,
    /// What their operators may hold, and who is let in with how much of it.
    pub(super) memory: Arc<OperatorMemory>,
    /// The next identity value of each table that was asked for one.
    pub(super) identities: Arc<Identities>,
}

impl Environment {
    /// The surroundings of an instance's sessions. Operators take what memory the buffer pool leaves of the budget and
    /// spill into a folder inside the instance's.
    ///
    /// # Errors
    /// The folder for spilling cannot be used.
    pub fn new(
        instance: Arc<Instance>,
        views: Arc<dyn SystemViews>,
        sessions: Arc<dyn SessionDirectory>,
        plans: Arc<PlanStore>,
        (server_name, version): (&str, &str),
    ) -> Result<Environment, SqlError> {
        let memory = OperatorMemory::new(instance.memory());
        let runtime = operators_runtime(&instance, &memory)?;
        let statistics = Arc::new(StatisticsQueue::default());
        instance.stop_before_closing(Arc::clone(&statistics) as Arc<dyn BackgroundWork>);
        let executor = Executor { workers: WorkerPool::default(), runtime, memory, identities: Arc::default() };
        Ok(Environment {
            instance,
            views,
            sessions,
            server_name: Arc::from(server_name),
            version: Arc::from(version),
            plans,
            statistics,
            executor: Arc::new(executor),
        })
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
