//! Runs a plan on the statement's own thread, if that is an actor of a schedule. A seed then decides which thread
//! continues, and worker threads would not obey it.
//!
//! The statement's tasks run at the points where it would otherwise wait for its workers ([`turn`]).

use std::cell::RefCell;
use std::rc::Rc;

use hobt_base::SqlError;
use hobt_instruments::schedule::{self, Place};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinError, JoinHandle};

thread_local! {
    static TASKS: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
}

/// Restores the outer statement's tasks when dropped, also on a panic.
struct Outer(Option<Rc<Runtime>>);

impl Drop for Outer {
    fn drop(&mut self) {
        TASKS.set(self.0.take());
    }
}

fn tasks() -> Option<Rc<Runtime>> {
    TASKS.with_borrow(Clone::clone)
}

/// Like [`WorkerPool::run`](super::workers::WorkerPool::run): `drive` gets a handle to spawn on.
///
/// # Errors
/// What `drive` returns.
pub(super) fn run<T>(drive: impl FnOnce(&Handle) -> Result<T, SqlError>) -> Result<T, SqlError> {
    let runtime = Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| SqlError::internal(format!("A runtime could not be made: {error}.")))?;
    let runtime = Rc::new(runtime);
    let _outer = Outer(TASKS.replace(Some(Rc::clone(&runtime))));
    drive(runtime.handle())
}

/// Runs each task of the statement until it waits for something; `false` if the statement has workers.
pub(super) fn turn() -> bool {
    let Some(tasks) = tasks() else { return false };
    tasks.block_on(tokio::task::yield_now());
    true
}

/// Lets other sessions run, because no task of the statement can continue.
pub(super) fn wait() {
    schedule::wait(Place::Moment);
}

/// Waits for a task; returns it unchanged if the statement has workers.
pub(super) fn join(job: JoinHandle<()>) -> Result<Result<(), JoinError>, JoinHandle<()>> {
    match tasks() {
        Some(tasks) => Ok(tasks.block_on(job)),
        None => Err(job),
    }
}
