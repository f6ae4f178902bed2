//! Leaves of a plan whose conditions have parameters: how they are planned for other values of these.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use hobt_table::{NameCounts, ParameterValues, TableRead, parameters_in, with_values};

/// Plans the reading of columns of a table's rows that satisfy conditions.
pub type PlanLeaf = fn(&Arc<TableRead>, &[usize], &[Expr]) -> Result<Arc<dyn ExecutionPlan>>;

/// The conditions of a leaf, of which some have parameters.
pub struct LeafParameters {
    conditions: Vec<Expr>,
    plan: PlanLeaf,
}

impl fmt::Debug for LeafParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeafParameters").field("conditions", &self.conditions).finish_non_exhaustive()
    }
}

impl LeafParameters {
    /// Of a leaf that `plan` has made under these conditions. `None` if they have no parameters.
    pub fn of(conditions: &[Expr], plan: PlanLeaf) -> Option<Arc<LeafParameters>> {
        let has_any = !parameters_in(conditions).is_empty();
        has_any.then(|| Arc::new(LeafParameters { conditions: conditions.to_vec(), plan }))
    }

    /// How often each parameter occurs.
    pub(crate) fn names(&self) -> NameCounts {
        parameters_in(&self.conditions)
    }

    /// The leaf for other values of its parameters.
    ///
    /// # Errors
    /// If an index cannot be opened.
    pub(crate) fn planned(
        &self,
        table: &Arc<TableRead>,
        projection: &[usize],
        values: &ParameterValues,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let conditions = self.conditions.iter().map(|condition| with_values(condition, values));
        (self.plan)(table, projection, &conditions.collect::<Result<Vec<_>>>()?)
    }
}
