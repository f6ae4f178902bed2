//! Hides the order of rows, so that a sort above takes all of them before it gives one.
//!
//! A sort by a constant, or of rows that are already sorted, passes rows on as they come. An `INSERT` that reads the
//! table that it fills would then meet its own rows and never end.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties};

use crate::inputs::{shows_its_name, with_inputs, without_expressions};

/// Passes on the rows of its input's one partition.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> UnorderedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        UnorderedExec { input, properties: Arc::new(properties) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> UnorderedExec {
        UnorderedExec::new(input)
    }
}

shows_its_name!(UnorderedExec);

impl ExecutionPlan for UnorderedExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(input);
    without_expressions!();

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
