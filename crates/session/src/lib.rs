//! Sessions, SQL Server's views, and who is connected.
//!
//! A [`Server`] is an instance with its sessions and views; a [`Session`] runs batches and sends what they say to an
//! [`EventSink`]. This is the only crate that knows the names and columns of `sys.*` and of the dynamic management
//! views; their rows come from the crates that count.
//!
//! Leaves to others: what a batch means (crate `query`), how events are shown (clients).

mod registry;
mod server;
mod session;
mod statistics_thread;
mod views;

pub use hobt_query::binder::STACK_BYTES;
pub use hobt_query::interpreter::{
    DoneKind, Event, EventSink, Flow, Message, ResultColumn, SessionState, StatementStatistics, TableReads, ThreadTime,
};
pub use registry::stop_all_sessions;
pub use server::Server;
pub use session::{CancelHandle, Session, SessionOptions};
