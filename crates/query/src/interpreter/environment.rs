//! What the interpreter needs of the world around a session.

use std::sync::Arc;

use hobt_base::{SessionId, SqlError};
use hobt_engine::Instance;

use super::SystemViews;

/// The other sessions of an instance, as far as statements reach them.
pub trait SessionDirectory: Send + Sync {
    /// Cancels what a session runs and ends the session.
    ///
    /// # Errors
    /// 6106 for a session that is not there.
    fn kill(&self, session: SessionId) -> Result<(), SqlError>;

    /// Says what the session is doing now; shown by `sys.dm_exec_requests`.
    fn statement_begins(&self, session: SessionId, command: &str, database: &str);

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
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}
