//! Windows over rows without columns: `SELECT COUNT(*) OVER () FROM t`.
//!
//! ```text
//!   Window  COUNT(*)          Projection  #1
//!     rows              ►       Window  COUNT(*)
//!                                 Projection  #0 = 0
//!                                   rows
//! ```
//! DataFusion's windows put batches together by a function that takes the number of rows from the first column. Where
//! no column is read they get one, which goes no further.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use hobt_operators::{Role, replaced, role};

use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// Gives a column to windows over rows that have none. It runs before the rule that places sorts and exchanges.
#[derive(Debug, Default)]
pub(crate) struct BareWindowRule;

impl PhysicalOptimizerRule for BareWindowRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        rewritten(plan, over_a_column)
    }

    crate::named_rule!("hobt_bare_window");
}

/// The window over a constant, without it above; `None` if `node` is no window, or has a column to read.
fn over_a_column(node: &Plan) -> Result<Option<Plan>> {
    let inputs = node.children();
    let (Role::Window { .. }, [input]) = (role(node.as_ref()), &inputs[..]) else { return Ok(None) };
    if !input.schema().fields().is_empty() {
        return Ok(None);
    }
    let zero = ProjectionExpr { expr: Arc::new(Literal::new(ScalarValue::Int8(Some(0)))), alias: "row".to_owned() };
    let rows: Plan = Arc::new(ProjectionExec::try_new([zero], Arc::clone(input))?);
    let window = replaced(node, input, &rows)?;
    let schema = node.schema();
    let columns = schema.fields().iter().zip(1..).map(|(field, place)| {
        let expr = Arc::new(Column::new(field.name(), place));
        ProjectionExpr { expr, alias: field.name().clone() }
    });
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, window)?)))
}
