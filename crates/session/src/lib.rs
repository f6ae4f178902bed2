//! Servers and sessions.
//!
//! A [`Server`] is an instance with its sessions and views. A [`Session`] runs batches and sends their output to an
//! [`EventSink`]. A thread of the server updates statistics.
//!
//! Not here: the meaning of a batch (crate `interpreter`), the views (`views`), how events are displayed (clients).

mod server;
mod session;
mod statistics_thread;

pub use hobt_binder::STACK_BYTES;
pub use hobt_interpreter::{
    DoneKind, Event, EventSink, Flow, Message, ResultColumn, SessionState, StatementStatistics, TableReads, ThreadTime,
};
pub use hobt_views::{SessionOptions, stop_all_sessions};
pub use server::Server;
pub use session::{CancelHandle, Session};
