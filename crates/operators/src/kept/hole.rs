//! Stands for an input of a kept operator.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::inputs::{shows_its_name, without_inputs};

/// Has an input's properties, and no rows. It never runs.
#[derive(Debug)]
pub(crate) struct Hole {
    properties: Arc<PlanProperties>,
}

impl Hole {
    /// In place of `input`.
    pub(super) fn of(input: &Arc<dyn ExecutionPlan>) -> Hole {
        Hole { properties: Arc::clone(input.properties()) }
    }
}

shows_its_name!(Hole);

impl ExecutionPlan for Hole {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    without_inputs!();

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a kept plan ran")
    }
}
