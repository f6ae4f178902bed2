//! The rows that a plan reads and gives, as the steps of a statement's progress.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use hobt_operators::{FileScanExec, Join, Role, role};
use hobt_table::{PlanRows, Writes};

use crate::expected::rows_of;

/// The rows of a plan: those of tables by the tables' counts, all others as estimated. Rows that it gives count only if
/// they are written.
pub(crate) fn plan_rows(plan: &Arc<dyn ExecutionPlan>, writes: Writes) -> PlanRows {
    let given = if writes == Writes::Nowhere { 0.0 } else { rows_of(plan) };
    let mut rows = PlanRows { read: 0.0, given, of_files: 0.0, are_held: are_held(plan) };
    add(plan, &mut rows);
    rows
}

fn add(plan: &Arc<dyn ExecutionPlan>, rows: &mut PlanRows) {
    let inputs = plan.children();
    match role(plan.as_ref()) {
        Role::Scan(scan) => rows.read += scan.table().rows_read_of(scan.partitions()).unwrap_or(0.0),
        Role::ScanAggregate(aggregate) => {
            let scan = aggregate.source();
            rows.read += scan.table().rows_read_of(scan.partitions()).unwrap_or(0.0);
        }
        Role::Seek(seek) => rows.read += seek.path().rows,
        Role::Made => {
            rows.of_files += plan.downcast_ref::<FileScanExec>().map_or(0.0, FileScanExec::expected_rows);
        }
        // The inner side is looked up, a few rows at a time, and the rounds of a recursion are not known.
        Role::Join(Join::Lookup(_) | Join::RowLoops(_)) | Role::Recursion => {
            inputs.into_iter().take(1).for_each(|input| add(input, rows));
        }
        _ => inputs.into_iter().for_each(|input| add(input, rows)),
    }
}

/// Whether a plan has read all that it reads before it gives its first row.
fn are_held(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let role = role(plan.as_ref());
    if matches!(role, Role::Join(_) | Role::Union | Role::Recursion) {
        return false;
    }
    role.holds_rows()
        || matches!(role, Role::Spool | Role::SpoolRead(_))
        || plan.children().first().is_some_and(|input| are_held(input))
}
