//! Hides what is known of rows: their order, which of their columns are equal or constant, and by what they are spread.
//!
//! - A sort by a constant, or of rows that are already sorted, passes rows on as they come. An `INSERT` that reads the
//!   table that it fills would then meet its own rows and never end. Over hidden rows the sort takes all of them before
//!   it gives one.
//! - Grouping sets have NULL in place of keys, so that what holds for the keys below does not hold above.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties};

use crate::inputs::{shows_its_name, with_inputs, without_expressions};

/// Passes on the rows of its input, by the same workers.
#[derive(Debug)]
pub struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    /// Hides what is known of the rows of `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>) -> UnorderedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
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
