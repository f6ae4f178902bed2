//! The procedural interpreter: runs the statements of a batch one after the other.
//!
//! A batch is parsed, flattened into steps (`program`) and run (`run`): variables, control of flow, `TRY … CATCH`,
//! calls. Each statement that accesses data has a context: cancel flag, memory, and the stamp and the locks of its
//! transaction. That is its own transaction or the session's open one (`transaction`). A statement that fails is undone
//! completely. The client receives a statement's results as [`Event`]s.
//!
//! Names and types are handled by `binder`, plans by `execute`, definitions by the crate `engine`, the contents of
//! views by the crate `session` (behind [`SystemViews`]).

mod automatic_statistics;
mod backup;
mod call;
mod capture;
mod change;
mod changed_keys;
mod changed_table;
mod compile;
mod configuration;
mod context;
mod control;
mod dbcc;
mod ddl;
mod direct;
mod environment;
mod event;
mod failure;
mod files;
mod foreign_key;
mod format;
mod frame;
mod globals;
mod identities;
mod identity;
mod insert;
mod insert_target;
mod interpreter;
mod merge;
mod names;
mod open_transaction;
mod output;
mod output_clause;
mod place;
mod plans;
mod procedures;
mod program;
mod query;
mod reading;
mod row_locks;
mod run;
mod sequence;
mod server;
mod settings;
mod state;
mod statement;
mod statement_kind;
mod statistics;
mod statistics_queue;
mod stored_table;
mod system_functions;
mod system_messages;
mod system_views;
mod table_locks;
mod transaction;
mod used_sequences;
mod values;
mod watch;

pub use configuration::{OPTIONS, ServerOption};
pub use environment::{Environment, SessionDirectory};
pub use event::{DoneKind, Event, EventSink, Flow, Message, ResultColumn, StatementStatistics, TableReads, ThreadTime};
pub use files::{ExternalFormat, ExternalTable};
pub use hobt_txn::Progress;
pub use names::MSDB;
pub use open_transaction::SharedTransaction;
pub use output::{cell_text, output_batch};
pub use plans::{CachedPlan, Measure, PlanStore, QueryStats, sql_handle};
pub use run::run_batch;
pub use state::{SessionState, SetOptions, TraceFlags};
pub use statistics_queue::{StatisticsQueue, StatisticsUpdate};
pub use system_functions::{PRODUCT_VERSION, type_names};
pub use system_views::{SystemView, SystemViews, ViewColumn, ViewContext, ViewRows};
pub use transaction::{end_session, roll_back_session};
