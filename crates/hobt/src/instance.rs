//! An instance and its sessions, as an embedding program holds them.

use std::path::Path;
use std::sync::Arc;

use hobt_base::SqlError;
use hobt_disk::Disk;
use hobt_engine::InstanceSettings;
use hobt_session::{CancelHandle, EventSink, Server, SessionOptions};

use crate::stream::Query;

/// An open instance: a folder with its databases, locked against other processes.
#[derive(Clone, Debug)]
pub struct Instance {
    server: Arc<Server>,
}

impl Instance {
    /// Opens the instance in `folder`, which is made when it is not there. Blocks on the disk.
    ///
    /// # Errors
    /// The folder cannot be used, another process has it open, or `master` is damaged.
    pub fn open(folder: impl AsRef<Path>) -> Result<Instance, SqlError> {
        Instance::open_with(folder, InstanceSettings::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// As [`Instance::open`].
    pub fn open_with(folder: impl AsRef<Path>, settings: InstanceSettings) -> Result<Instance, SqlError> {
        let instance = hobt_engine::Instance::open(folder.as_ref(), settings).map_err(|error| error.to_sql_error())?;
        Ok(Instance { server: Server::new(instance)? })
    }

    /// Opens the instance in a folder of `disk`; `settings.disk` is ignored. For tests that put a disk of their own in
    /// front of the system's.
    ///
    /// # Errors
    /// As [`Instance::open`].
    #[doc(hidden)]
    pub fn open_on(
        disk: Arc<dyn Disk>,
        folder: impl AsRef<Path>,
        settings: InstanceSettings,
    ) -> Result<Instance, SqlError> {
        let instance = hobt_engine::Instance::open_on(disk, folder.as_ref(), settings);
        Ok(Instance { server: Server::new(instance.map_err(|error| error.to_sql_error())?)? })
    }

    /// A session in `master`.
    ///
    /// # Errors
    /// None in practice: `master` is there while the instance is open.
    pub fn session(&self) -> Result<Session, SqlError> {
        self.session_with(&SessionOptions::default())
    }

    /// A session that says who it is and where it begins.
    ///
    /// # Errors
    /// 911 and others when the database cannot be used.
    pub fn session_with(&self, options: &SessionOptions) -> Result<Session, SqlError> {
        Ok(Session { inner: Some(self.server.session(options)?) })
    }

    /// The server behind it: the engine, the name, what sessions share.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Writes everything to disk and marks the databases as closed. Without it they are recovered at their next use,
    /// unless the instance is dropped in peace, which closes it too. Sessions fail afterwards.
    ///
    /// # Errors
    /// A page cannot be written.
    pub fn close(self) -> Result<(), SqlError> {
        self.server.instance().close().map_err(|error| error.to_sql_error())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whoever opens the folder next is not to find somebody at work in it.
        self.server.end_background();
    }
}

/// A session: runs one batch at a time.
#[derive(Debug)]
pub struct Session {
    /// Absent while a [`Query`] has it.
    pub(crate) inner: Option<hobt_session::Session>,
}

impl Session {
    /// Runs a batch and gives what it sends, as it comes. The batch runs on a thread of its own and waits when its
    /// items are not taken; dropping the query cancels it.
    pub fn query(&mut self, batch: &str) -> Query<'_> {
        Query::new(self, batch)
    }

    /// Says that a batch is about to run: who cancels from here on means that batch, even where it has not begun yet.
    pub fn expect_batch(&mut self) {
        self.session().expect_batch();
    }

    /// As [`Session::execute`], for the batch that [`Session::expect_batch`] announced.
    pub fn execute_expected(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        self.session().execute_expected(batch, sink)
    }

    /// Runs a batch on this thread and gives its events to `sink`, rows in carriers. Gives whether it ran to its end.
    /// Text that is not the program's own may need a stack of [`crate::STACK_BYTES`].
    pub fn execute(&mut self, batch: &str, sink: &mut dyn EventSink) -> bool {
        self.session().execute(batch, sink)
    }

    /// Runs a batch on this thread for its effect, as [`Session::execute`] does.
    ///
    /// # Errors
    /// The first error that it raised.
    pub fn run(&mut self, batch: &str) -> Result<(), SqlError> {
        self.session().run(batch)
    }

    /// Whether [`crate::Event::Statistics`] brings the plan of its statement, with what each operator did.
    pub fn collect_plans(&mut self, collects: bool) {
        self.session().collect_plans(collects);
    }

    /// A way to cancel the session's batches from another thread. It means the batch that runs, or that was announced
    /// by [`Session::expect_batch`].
    pub fn cancel_handle(&mut self) -> CancelHandle {
        self.session().cancel_handle()
    }

    /// The current database's name.
    pub fn database(&mut self) -> String {
        self.session().database().to_owned()
    }

    /// The session beneath.
    ///
    /// # Panics
    /// Never: a query gives the session back before it lets go of this one.
    fn session(&mut self) -> &mut hobt_session::Session {
        self.inner.as_mut().expect("a query gives the session back when it is dropped")
    }
}
