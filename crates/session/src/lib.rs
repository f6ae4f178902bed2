//! Sessions, SQL Server's views, and the list of connections.
//!
//! A [`Server`] is an instance with its sessions and views. A [`Session`] runs batches and sends their output to an
//! [`EventSink`]. This is the only crate that knows the names and columns of `sys.*` and of the dynamic management
//! views. Their rows come from the crates that keep the counters.
//!
//! Not here: the meaning of a batch (crate `query`), how events are displayed (clients).

mod registry;
mod server;
mod session;
mod statistics_thread;
mod views;

pub use hobt_binder::STACK_BYTES;
pub use hobt_interpreter::{
    DoneKind, Event, EventSink, Flow, Message, ResultColumn, SessionState, StatementStatistics, TableReads, ThreadTime,
};
pub use registry::stop_all_sessions;
pub use server::Server;
pub use session::{CancelHandle, Session, SessionOptions};
