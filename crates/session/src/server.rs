//! An instance with its sessions and views.

use std::sync::Arc;

use hobt_base::SqlError;
use hobt_engine::Instance;
use hobt_interpreter::{Environment, PRODUCT_VERSION, PlanStore, SessionDirectory};
use hobt_views::{Registry, SessionOptions, Views};

use crate::session::Session;
use crate::statistics_thread;

/// What all sessions of an instance share.
#[derive(Debug)]
pub struct Server {
    environment: Environment,
    registry: Arc<Registry>,
}

impl Server {
    /// Prepares an instance for sessions.
    ///
    /// # Errors
    /// The executor cannot use the instance's folder.
    pub fn new(instance: Arc<Instance>) -> Result<Arc<Server>, SqlError> {
        let registry = Registry::new();
        let plans = PlanStore::new(instance.memory());
        let views = Views::new(Arc::clone(&instance), Arc::clone(&registry), Arc::clone(&plans));
        let name = server_name();
        let version = format!(
            "Microsoft SQL Server 2022 compatible - {PRODUCT_VERSION} (X64) hobt {} on {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS
        );
        let directory = Arc::clone(&registry);
        let environment = Environment::new(instance, Arc::new(views), directory, plans, (&name, &version))?;
        let queue = Arc::clone(&environment.statistics);
        let server = Arc::new(Server { environment, registry });
        statistics_thread::start(Arc::downgrade(&server), queue);
        Ok(server)
    }

    /// Ends the background work, for good. Blocks until it has ended.
    pub fn end_background(&self) {
        self.environment.statistics.close();
        self.environment.statistics.stop(None);
    }

    /// Ends the sessions that have a transaction open, as `KILL` does: what they run is cancelled, and their
    /// transactions are rolled back. For a program that closes the instance while its sessions wait for input.
    /// Blocks.
    ///
    /// # Errors
    /// 926 if a transaction could not be undone.
    pub fn end_open_transactions(&self) -> Result<(), SqlError> {
        for (session, ..) in self.registry.open_transactions() {
            // One that has ended meanwhile has left nothing open.
            if let Ok(Some(open)) = self.registry.kill(session) {
                open.roll_back(self.instance())?;
            }
        }
        Ok(())
    }

    /// The instance.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.environment.instance
    }

    /// `@@SERVERNAME`.
    pub fn name(&self) -> &str {
        &self.environment.server_name
    }

    /// A new session.
    ///
    /// # Errors
    /// The database that `options` names cannot be used.
    pub fn session(self: &Arc<Server>, options: &SessionOptions) -> Result<Session, SqlError> {
        Session::new(Arc::clone(self), options)
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.environment.statistics.close();
    }
}

/// The computer's name, in capitals as on Windows.
fn server_name() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|name| name.trim().to_owned());
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "HOBT".to_owned()).to_uppercase()
}
