//! Whether loops begin with so few rows that one worker is enough.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::expected::rows_of;
use hobt_operators::{Join, Role, role};

/// The most rows that loops may be estimated to begin with if their plan has one worker. Each row costs a few
/// microseconds, and waking another worker some hundred.
const SERIAL_ROWS: f64 = 1000.0;

/// Whether a plan consists of loops that are estimated to begin with so few rows that more than one worker does not
/// pay.
pub fn believes_few_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn has_loops(plan: &Arc<dyn ExecutionPlan>) -> bool {
        matches!(role(plan.as_ref()), Role::Join(Join::RowLoops(_))) || plan.children().into_iter().any(has_loops)
    }
    fn is_small(plan: &Arc<dyn ExecutionPlan>) -> bool {
        let inputs = plan.children();
        if !inputs.is_empty() {
            return inputs.into_iter().all(is_small);
        }
        is_chosen(plan) && rows_of(plan) <= SERIAL_ROWS
    }
    has_loops(plan) && is_small(plan)
}

/// Whether conditions select what is read of a table: ranges of an index, or some of its partitions.
fn is_chosen(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match role(plan.as_ref()) {
        Role::Seek(_) => true,
        Role::Scan(scan) => scan.partitions().len() < scan.table().table().base_index().partitions.len(),
        _ => false,
    }
}
