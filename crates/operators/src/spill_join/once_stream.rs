//! An operator over a stream that can be read once: the input of a join whose rows are in memory or in a file.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};
use parking_lot::Mutex;

use crate::inputs::{shows_its_name, without_inputs};

/// Gives a stream, once.
pub(crate) struct OnceStreamExec {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl OnceStreamExec {
    /// An operator of one partition.
    pub(crate) fn once(schema: &SchemaRef, stream: SendableRecordBatchStream) -> Arc<dyn ExecutionPlan> {
        OnceStreamExec::once_in_order(EquivalenceProperties::new(Arc::clone(schema)), stream)
    }

    /// As `once`, for rows of which more is known.
    pub(crate) fn once_in_order(
        known: EquivalenceProperties,
        stream: SendableRecordBatchStream,
    ) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            known,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(OnceStreamExec { stream: Mutex::new(Some(stream)), properties: Arc::new(properties) })
    }
}

impl fmt::Debug for OnceStreamExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceStreamExec")
    }
}

shows_its_name!(OnceStreamExec);

impl ExecutionPlan for OnceStreamExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.stream.lock().take().ok_or_else(|| internal_datafusion_err!("rows that come once were asked for twice"))
    }
}
