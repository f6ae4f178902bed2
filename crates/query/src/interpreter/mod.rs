//! The procedural interpreter: runs the statements of a batch one after the other.
//!
//! A batch is parsed, flattened into steps ([`program`]) and run ([`run`]): variables, control of flow, `TRY … CATCH`,
//! calls. Each statement that touches data has a context of its own: stamp, cancel flag, table locks; when it fails it
//! is undone whole. What a statement means to a client are [`Event`]s.
//!
//! Leaves to others: names and types (`binder`), plans (`execute`), definitions (crate `engine`), what views show
//! (crate `session`, behind [`SystemViews`]).

mod event;
mod program;
mod state;
mod system_views;

pub use event::{
    DoneKind, Event, EventSink, Flow, Message, ResultColumn, StatementStatistics, TableReads,
};
pub use state::{SessionState, SetOptions, TraceFlags};
pub use system_views::{SystemView, SystemViews, ViewColumn, ViewContext, ViewRows, batch_of_values};
