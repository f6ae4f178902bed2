//! hobt as a library: open an instance, open a session, run T-SQL, receive Arrow batches.
//!
//! ```no_run
//! # fn main() -> Result<(), hobt::SqlError> {
//! let instance = hobt::Instance::open("data")?;
//! let mut session = instance.session()?;
//! for item in session.query("SELECT name, create_date FROM sys.databases") {
//!     match item {
//!         hobt::Item::Batch(batch) => println!("{} rows", batch.num_rows()),
//!         hobt::Item::Error(error) => eprintln!("{error}"),
//!         _ => {}
//!     }
//! }
//! instance.close()
//! # }
//! ```
//!
//! There is no network: a batch runs in this process. Its text is what stands between two `GO` lines of a script
//! ([`split_batches`]).

mod instance;
mod stream;

/// The disk under an instance's files: `InstanceSettings::disk`.
pub mod disk {
    pub use hobt_disk::{DeviceCache, DeviceModel, DiskKind, Fault, FaultKind, Operation, SimulatedConfig};
}

/// Plans, as contained in [`StatementStatistics`] for a session that collects them.
pub mod plan {
    pub use hobt_showplan::{
        Actual, Body, Detail, Drawing, Estimate, Figures, Judged, PlanColumn, PlanExpr, PlanNode, PlanObject,
        ShownStatement, WorkerActual, draw, error_of, judge, removed, to_xml, worst_estimate,
    };
}

pub use hobt_base::SqlError;
pub use hobt_engine::{InstanceSettings, RecoveryObserver, RecoveryProgress};
pub use hobt_interpreter::{cell_text, output_batch};
pub use hobt_session::{
    CancelHandle, DoneKind, Event, EventSink, Flow, Message, ResultColumn, STACK_BYTES, SessionOptions,
    StatementStatistics, TableReads, ThreadTime,
};
pub use hobt_tsql::{BatchText, split_batches};
pub use hobt_txn::{Progress, ProgressUnit};
pub use hobt_types::SqlType;
pub use instance::{Instance, Session};
pub use stream::{Item, Query};
