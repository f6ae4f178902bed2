//! Hides the order of rows, so that a sort above takes all of them before it gives one.
//!
//! A sort by a constant, or of rows that are already sorted, passes rows on as they come. An `INSERT` that reads the
//! table that it fills would then meet its own rows and never end.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use crate::inputs::{about_as_many_rows, with_inputs, without_expressions};

/// Passes on the rows of its input's one partition.
#[derive(Debug)]
pub struct UnorderedExec {
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

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(input);
    without_expressions!();

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(about_as_many_rows(&self.schema(), inputs))
    }
}
