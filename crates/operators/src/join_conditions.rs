//! The conditions of a join in the forms that other joins need.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};

/// The condition over columns that may be NULL: a merge also evaluates it for rows without a partner.
pub fn of_nullable(filter: &JoinFilter) -> JoinFilter {
    let fields = filter.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    JoinFilter::new(Arc::clone(filter.expression()), filter.column_indices().to_vec(), Arc::new(schema))
}

/// All conditions that a joining pair of rows fulfils: the equations, and the join's filter.
pub fn all_conditions(join: &HashJoinExec) -> Result<Option<JoinFilter>> {
    let mut filter = Conditions::of(join);
    let operator = match join.null_equality() {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    for (left, right) in join.on() {
        let left = filter.expression(left, JoinSide::Left, join.left())?;
        let right = filter.expression(right, JoinSide::Right, join.right())?;
        let equal: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(Arc::clone(&left), operator, Arc::clone(&right)));
        filter.and(match join.null_aware {
            false => equal,
            // A row that may be equal, as far as is known, excludes the other.
            true => {
                let unknown = [left, right].map(|side| Arc::new(IsNullExpr::new(side)) as Arc<dyn PhysicalExpr>);
                unknown.into_iter().fold(equal, |any, one| Arc::new(BinaryExpr::new(any, Operator::Or, one)))
            }
        });
    }
    Ok(filter.done())
}

/// Conditions over columns of both sides.
struct Conditions {
    columns: Vec<ColumnIndex>,
    fields: Vec<Field>,
    all: Option<Arc<dyn PhysicalExpr>>,
}

impl Conditions {
    /// The conditions of a join beside its equations.
    fn of(join: &HashJoinExec) -> Conditions {
        let Some(filter) = join.filter() else {
            return Conditions { columns: Vec::new(), fields: Vec::new(), all: None };
        };
        let fields = filter.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        Conditions { columns: filter.column_indices().to_vec(), fields, all: Some(Arc::clone(filter.expression())) }
    }

    /// Rewrites an expression over one side to one over the columns of the conditions.
    fn expression(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        side: JoinSide,
        plan: &Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = plan.schema();
        Arc::clone(expr)
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let index = column.index();
                let known = self.columns.iter().position(|known| known.index == index && known.side == side);
                let at = known.unwrap_or_else(|| {
                    self.columns.push(ColumnIndex { index, side });
                    self.fields.push(schema.field(index).clone());
                    self.columns.len() - 1
                });
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
            })
            .data()
    }

    fn and(&mut self, condition: Arc<dyn PhysicalExpr>) {
        self.all = Some(match self.all.take() {
            Some(all) => Arc::new(BinaryExpr::new(all, Operator::And, condition)),
            None => condition,
        });
    }

    fn done(self) -> Option<JoinFilter> {
        Some(JoinFilter::new(self.all?, self.columns, Arc::new(Schema::new(self.fields))))
    }
}
