//! Combines the counters of the joins that make up an output partition, as if one operator had done it all.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricsSet};

/// The counter of how often rows were repartitioned to disk before they fitted.
pub const SPILL_LEVEL: &str = "spill_level";

/// The counters of a join that may spill. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted(ExecutionPlanMetricsSet);

impl Counted {
    /// Adopts the counters of partition `from` of an operator as the join's own for `partition`, since its rows are the
    /// join's. The operator has begun, and continues to count in them.
    pub(super) fn take_up(&self, operator: &dyn ExecutionPlan, from: usize, partition: usize) {
        let counters = operator.metrics();
        for counter in counters.iter().flat_map(MetricsSet::iter).filter(|counter| counter.partition() == Some(from)) {
            self.0.register(Arc::new(Metric::new(counter.value().clone(), Some(partition))));
        }
    }

    /// Notes that both sides were put on disk for the `level`th time, from 1.
    pub(super) fn note_level(&self, level: usize, partition: usize) {
        MetricBuilder::new(&self.0).gauge(SPILL_LEVEL, partition).set_max(level);
    }

    /// The set for counters that the join registers itself.
    pub(super) fn own(&self) -> &ExecutionPlanMetricsSet {
        &self.0
    }

    /// All counters in their current state.
    pub(super) fn all(&self) -> MetricsSet {
        self.0.clone_inner()
    }
}
