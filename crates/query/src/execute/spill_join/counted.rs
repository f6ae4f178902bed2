//! What the joins counted that an output partition was made of, as if one operator had done it all.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricsSet};

/// The counter of how often rows were put on disk anew before they fitted.
pub(in crate::execute) const SPILL_LEVEL: &str = "spill_level";

/// The counters of a join that may spill. Clones are the same counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted(ExecutionPlanMetricsSet);

impl Counted {
    /// Takes up the counters of partition `from` of an operator whose rows are the join's own of `partition`, and which
    /// has begun: it counts on in them.
    pub(super) fn take_up(&self, operator: &dyn ExecutionPlan, from: usize, partition: usize) {
        let counters = operator.metrics();
        for counter in counters.iter().flat_map(MetricsSet::iter).filter(|counter| counter.partition() == Some(from)) {
            self.0.register(Arc::new(Metric::new(counter.value().clone(), Some(partition))));
        }
    }

    /// Both sides were put on disk for the time of this number, from 1.
    pub(super) fn note_level(&self, level: usize, partition: usize) {
        MetricBuilder::new(&self.0).gauge(SPILL_LEVEL, partition).set_max(level);
    }

    /// For who counts by itself.
    pub(super) fn own(&self) -> &ExecutionPlanMetricsSet {
        &self.0
    }

    /// All counters as they stand.
    pub(super) fn all(&self) -> MetricsSet {
        self.0.clone_inner()
    }
}
