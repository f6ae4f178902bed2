//! The environment of a session, as the interpreter needs it.

use std::sync::{Arc, Weak};

use hobt_base::{SessionId, SqlError};
use hobt_engine::{BackgroundWork, Instance};

use super::{PlanStore, SetOptions, StatementStatistics, StatisticsQueue, SystemViews};
use crate::identities::Identities;
use crate::open_transaction::SharedTransaction;
use hobt_operators::Executor;
use hobt_table::{OperatorProfile, StatementRun};
use hobt_txn::Progress;

/// The other sessions of an instance, as statements need them.
pub trait SessionDirectory: Send + Sync {
    /// Cancels what a session runs and ends the session, which rolls its transaction back. If the session runs nothing,
    /// returns its transaction, and the caller rolls it back.
    ///
    /// # Errors
    /// 6106 if there is no such session.
    fn kill(&self, session: SessionId) -> Result<Option<Arc<SharedTransaction>>, SqlError>;

    /// How far a session's statement is.
    ///
    /// # Errors
    /// 6106 if there is no such session.
    fn progress(&self, session: SessionId) -> Result<Arc<Progress>, SqlError>;

    /// Reports what the session executes now; shown by `sys.dm_exec_requests`.
    fn statement_begins(&self, session: SessionId, command: &str, database: &str);

    /// Reports the session's current options; shown by `sys.dm_exec_sessions`.
    fn options_are(&self, session: SessionId, options: &SetOptions);

    /// Makes the statement's operators visible while it runs.
    fn statement_runs(&self, session: SessionId, run: Weak<StatementRun>);

    /// Reports the cost of the session's last statement.
    fn statement_ends(&self, session: SessionId, cost: &StatementStatistics, operators: Vec<Arc<OperatorProfile>>);

    /// The open transactions of all sessions, with their begin times in 100 ns since 1970-01-01 UTC.
    fn open_transactions(&self) -> Vec<(SessionId, Arc<SharedTransaction>, i64)>;

    /// Reports the session's open transaction and `@@TRANCOUNT`.
    fn transaction_is(&self, session: SessionId, open: Option<(Arc<SharedTransaction>, usize)>);

    /// Whether another session has this database as its current one. Such a database cannot be dropped.
    fn uses_database(&self, database: &str, except: SessionId) -> bool;
}

/// Data shared by all sessions of an instance.
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
    /// The plan store.
    pub plans: Arc<PlanStore>,
    /// The queue of statistics updated in the background.
    pub statistics: Arc<StatisticsQueue>,
    pub(super) executor: Arc<Executor>,
    /// The next identity value of each table that has been asked for one.
    pub(super) identities: Arc<Identities>,
}

impl Environment {
    /// The environment of an instance's sessions. Operators use the part of the memory budget that the buffer pool
    /// leaves, and spill into a folder inside the instance's folder.
    ///
    /// # Errors
    /// If the folder for spilling cannot be used.
    pub fn new(
        instance: Arc<Instance>,
        views: Arc<dyn SystemViews>,
        sessions: Arc<dyn SessionDirectory>,
        plans: Arc<PlanStore>,
        (server_name, version): (&str, &str),
    ) -> Result<Environment, SqlError> {
        let executor = Arc::new(Executor::new(&instance)?);
        let statistics = Arc::new(StatisticsQueue::default());
        instance.stop_before_closing(Arc::clone(&statistics) as Arc<dyn BackgroundWork>);
        Ok(Environment {
            instance,
            views,
            sessions,
            server_name: Arc::from(server_name),
            version: Arc::from(version),
            plans,
            statistics,
            executor,
            identities: Arc::default(),
        })
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
