//! An instance and its sessions, for an embedding program.

use std::path::Path;
use std::sync::Arc;

use hobt_base::SqlError;
use hobt_disk::Disk;
use hobt_engine::InstanceSettings;
use hobt_session::{CancelHandle, EventSink, Server, SessionOptions};
use hobt_txn::Progress;

use crate::stream::Query;

/// An open instance: a folder with its databases, locked against other processes.
#[derive(Clone, Debug)]
pub struct Instance {
    server: Arc<Server>,
}

impl Instance {
    /// Opens the instance in `folder`, which is created if it does not exist. Blocks on the disk.
    ///
    /// # Errors
    /// If the folder cannot be used, another process has it open, or `master` is damaged.
    pub fn open(folder: impl AsRef<Path>) -> Result<Instance, SqlError> {
        Instance::open_with(folder, InstanceSettings::default())
    }

    /// Like [`Instance::open`], with settings.
    ///
    /// # Errors
    /// As for [`Instance::open`].
    pub fn open_with(folder: impl AsRef<Path>, settings: InstanceSettings) -> Result<Instance, SqlError> {
        let instance = hobt_engine::Instance::open(folder.as_ref(), settings).map_err(|error| error.to_sql_error())?;
        Ok(Instance { server: Server::new(instance)? })
    }

    /// Opens the instance in a folder of `disk`. Ignores `settings.disk`. For tests with a disk of their own in front
    /// of the system's.
    ///
    /// # Errors
    /// As for [`Instance::open`].
    #[doc(hidden)]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        folder: impl AsRef<Path>,
        settings: InstanceSettings,
    ) -> Result<Instance, SqlError> {
        let instance = hobt_engine::Instance::open_on(disk, folder.as_ref(), settings);
        Ok(Instance { server: Server::new(instance.map_err(|error| error.to_sql_error())?)? })
    }

    /// Opens a session in `master`.
    ///
    /// # Errors
    /// None in practice: `master` exists while the instance is open.
    pub fn session(&self) -> Result<Session, SqlError> {
        self.session_with(&SessionOptions::default())
    }

    /// Opens a session with options, such as its login and its database.
    ///
    /// # Errors
    /// 911 and others if the database cannot be used.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session, SqlError> {
        Ok(Session { inner: Some(self.server.session(options)?) })
    }

    /// The server: the engine, the name, and the data shared by sessions.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Writes everything to disk and marks the databases as closed. Otherwise they are recovered at their next use,
    /// unless the instance is dropped while nothing runs, which closes it too. Sessions fail afterwards.
    ///
    /// # Errors
    /// If a page cannot be written.
    pub fn close(self) -> Result<(), SqlError> {
        self.server.instance().close().map_err(|error| error.to_sql_error())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // End background work, so that none is active in the folder when it is opened again.
        self.server.end_background();
    }
}

/// A session: runs one batch at a time.
#[derive(Debug)]
pub struct Session {
    /// `None` while a [`Query`] owns it.
    pub(crate) inner: Option<hobt_session::Session>,
}

impl Session {
    /// Runs a batch and returns an iterator over its results. The batch runs on a thread of its own, and waits while
    /// its items are not taken. Dropping the query cancels it.
    pub fn query(&mut self, batch: &str) -> Query<'_> {
        Query::new(self, batch)
    }

    /// Announces that a batch is about to run. A cancellation from now on applies to that batch, even if it has not
    /// begun yet.
    pub fn expect_batch(&mut self) {
        self.session().expect_batch();
    }

    /// Like [`Session::execute`], for the batch announced by [`Session::expect_batch`].
    pub fn execute_expected(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        self.session().execute_expected(batch, sink)
    }

    /// Runs a batch on this thread and passes its events to `sink`, with rows in carriers. Returns whether it ran to
    /// its end. Text that is not the program's own may need a stack of [`crate::STACK_BYTES`].
    pub fn execute(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        self.session().execute(batch, sink)
    }

    /// Runs a batch on this thread for its effect, like [`Session::execute`].
    ///
    /// # Errors
    /// The first error that it raised.
    pub fn run(&mut self, batch: &str) -> Result<(), SqlError> {
        self.session().run(batch)
    }

    /// Sets whether [`crate::Event::Statistics`] includes the plan of its statement, with each operator's figures.
    pub fn collect_plans(&mut self, collects: bool) {
        self.session().collect_plans(collects);
    }

    /// A handle to cancel the session's batches from another thread. It applies to the running batch, or to the one
    /// announced by [`Session::expect_batch`].
    pub fn cancel_handle(&mut self) -> CancelHandle {
        self.session().cancel_handle()
    }

    /// How far the running statement is, for a thread that shows it. It stays empty while a statement runs that does
    /// not know how far it is.
    pub fn progress(&mut self) -> Arc<Progress> {
        Arc::clone(&self.session().state().progress)
    }

    /// How many transactions are open, one in the other: `@@TRANCOUNT`.
    pub fn transaction_count(&mut self) -> usize {
        self.session().state().transaction_count()
    }

    /// The current database's name.
    pub fn database(&mut self) -> String {
        self.session().database().to_owned()
    }

    /// The underlying session.
    ///
    /// # Panics
    /// Never: a query returns the session before it releases its borrow of this one.
    fn session(&mut self) -> &mut hobt_session::Session {
        self.inner.as_mut().expect("a query gives the session back when it is dropped")
    }
}
