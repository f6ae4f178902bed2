//! Keeps a rule from moving projections below an operator: stands above it while the rule runs, and is in no plan that
//! runs.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

use crate::inputs::{passes_on, without_expressions};

/// Stands above a merge join, and lets no projection through.
#[derive(Debug)]
pub struct FenceExec {
    fenced: Arc<dyn ExecutionPlan>,
}

impl FenceExec {
    /// Puts a fence above `fenced`.
    pub fn new(fenced: Arc<dyn ExecutionPlan>) -> FenceExec {
        FenceExec { fenced }
    }

    /// The plan below it.
    pub fn fenced(&self) -> &Arc<dyn ExecutionPlan> {
        &self.fenced
    }

    fn over(&self, fenced: Arc<dyn ExecutionPlan>) -> FenceExec {
        FenceExec { fenced }
    }
}

impl DisplayAs for FenceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceExec")
    }
}

impl ExecutionPlan for FenceExec {
    fn name(&self) -> &'static str {
        "FenceExec"
    }

    passes_on!(fenced);
    without_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.fenced.execute(partition, context)
    }
}
