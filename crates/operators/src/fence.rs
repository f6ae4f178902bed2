//! Keeps a rule from moving projections below an operator: stands above it while the rule runs, and is in no plan that
//! runs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use crate::inputs::{passes_on, shows_its_name, without_expressions};

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

shows_its_name!(FenceExec);

impl ExecutionPlan for FenceExec {
    passes_on!(fenced);
    without_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.fenced.execute(partition, context)
    }
}
