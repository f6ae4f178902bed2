//! Which ungrouped aggregates are computed inside the scan.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use hobt_access::scan::{Arithmetic, IntegerWidth, ScanAggregate, ScanExpression};
use hobt_functions::BinaryOperator;
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_types::{PhysicalType, SqlType};

use crate::exact_tests::exact_tests;
use hobt_operators::{AggregateScanExec, Exchange, Passing, Role, ScanExec, role, substituted};
use hobt_udf::{Kernel, Operation, SqlAggregate};

/// Moves aggregates into the scan below them.
#[derive(Debug, Default)]
pub struct AggregateScanRule;

impl PhysicalOptimizerRule for AggregateScanRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            Ok(match fuse(&node) {
                Some(fused) => Transformed::new(Arc::new(fused), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    crate::named_rule!("hobt_aggregate_scan");
}

/// The fused operator for `node`, if it is an aggregate that the scan can compute.
fn fuse(node: &Arc<dyn ExecutionPlan>) -> Option<AggregateScanExec> {
    let aggregate = node.downcast_ref::<AggregateExec>()?;
    let finish = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return None,
    };
    let plain = aggregate.group_expr().is_empty() && aggregate.filter_expr().iter().all(Option::is_none);
    if !plain || aggregate.aggr_expr().is_empty() {
        return None;
    }
    let ScanBelow { scan, columns, filter } = scan_below(aggregate.input())?;
    let source = scan.downcast_ref::<ScanExec>().filter(|source| !source.table().hint().forces_seek())?;
    let mut kinds = Vec::new();
    let mut definitions = Vec::new();
    for expr in aggregate.aggr_expr() {
        let function: &dyn Any = expr.fun().inner().as_ref();
        let definition = *function.downcast_ref::<SqlAggregate>()?.aggregate();
        let arguments = expr.expressions();
        if expr.is_distinct() || arguments.len() != 1 {
            return None;
        }
        kinds.push(scan_aggregate(&definition, &arguments[0], &columns, source)?);
        definitions.push(definition);
    }
    let tests = match &filter {
        None => None,
        // A filter keeps whole pages from being added at once.
        Some(_) if !kinds.iter().all(ScanAggregate::takes_slots) => return None,
        Some(filter) => Some((exact_tests(filter.downcast_ref::<FilterExec>()?.predicate(), source)?, filter)),
    };
    let fused = AggregateScanExec::new(Arc::clone(&scan), kinds, definitions, finish, node.schema());
    Some(match tests {
        Some((tests, filter)) => fused.filtered(tests, Arc::clone(filter)),
        None => fused,
    })
}

/// A scan, and what lies between it and a plan above.
struct ScanBelow {
    scan: Arc<dyn ExecutionPlan>,
    /// The definition of each column of the plan in terms of the scan's columns.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    /// A filter right above the scan.
    filter: Option<Arc<dyn ExecutionPlan>>,
}

/// The scan under projections, exchanges and a filter.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<ScanBelow> {
    if plan.is::<ScanExec>() {
        let fields = plan.schema();
        let columns = fields.fields().iter().enumerate();
        let columns = columns.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as Arc<dyn PhysicalExpr>);
        return Some(ScanBelow { scan: Arc::clone(plan), columns: columns.collect(), filter: None });
    }
    match role(plan.as_ref()) {
        Role::Project(projection) => {
            let below = scan_below(projection.input())?;
            let definition = |at: usize| below.columns.get(at).cloned();
            let above = projection.expr().iter().map(|item| substituted(&item.expr, &definition));
            Some(ScanBelow { columns: above.collect::<Option<_>>()?, ..below })
        }
        Role::Filter(filter) if filter.fetch().is_none() && filter.input().is::<ScanExec>() => {
            let below = scan_below(filter.input())?;
            let columns = match filter.projection() {
                Some(places) => places.iter().map(|&place| below.columns.get(place).cloned()).collect::<Option<_>>()?,
                None => below.columns,
            };
            Some(ScanBelow { columns, filter: Some(Arc::clone(plan)), ..below })
        }
        Role::Passes(Passing::Yields) | Role::Exchange(Exchange::Spread(_)) => scan_below(plan.children().first()?),
        _ => None,
    }
}

fn scan_aggregate(
    definition: &Aggregate,
    argument: &Arc<dyn PhysicalExpr>,
    columns: &[Arc<dyn PhysicalExpr>],
    scan: &ScanExec,
) -> Option<ScanAggregate> {
    let argument = substituted(argument, &|at| columns.get(at).cloned())?;
    let column = table_column(&argument, scan);
    let text = definition.input.is_text();
    Some(match definition.kind {
        AggregateKind::Count | AggregateKind::CountBig => match (column, argument.downcast_ref::<Literal>()) {
            (Some(column), _) => ScanAggregate::CountColumn(column),
            (None, Some(literal)) if !literal.value().is_null() => ScanAggregate::CountRows,
            _ => return None,
        },
        AggregateKind::Min if text => ScanAggregate::MinText(column?, definition.collation),
        AggregateKind::Max if text => ScanAggregate::MaxText(column?, definition.collation),
        AggregateKind::Min => ScanAggregate::Min(number(definition.input, &argument, scan)?),
        AggregateKind::Max => ScanAggregate::Max(number(definition.input, &argument, scan)?),
        AggregateKind::Sum => ScanAggregate::Sum(number(definition.input, &argument, scan)?),
        _ => return None,
    })
}

/// The table's column that an expression is, if it is one.
fn table_column(expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<usize> {
    let column = expr.downcast_ref::<Column>()?;
    // A row's RID is no column of the table.
    let columns = scan.table().table().columns.len();
    scan.projection().get(column.index()).copied().filter(|&column| column < columns)
}

fn width_of(sql_type: SqlType) -> Option<IntegerWidth> {
    Some(match sql_type {
        SqlType::TinyInt => IntegerWidth::Unsigned8,
        SqlType::SmallInt => IntegerWidth::Signed16,
        SqlType::Int => IntegerWidth::Signed32,
        SqlType::BigInt => IntegerWidth::Signed64,
        _ => return None,
    })
}

/// What the scan can evaluate of type `sql_type`: an expression of integers, or a column that is stored as integers.
fn number(sql_type: SqlType, expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<ScanExpression> {
    if width_of(sql_type).is_some() {
        return integer(sql_type, expr, scan);
    }
    let column = table_column(expr, scan)?;
    let is_digits = matches!(sql_type, SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney);
    let is_stored_so = matches!(sql_type.physical(), PhysicalType::Fixed4 | PhysicalType::Fixed8);
    let fits = (is_digits || sql_type.is_temporal()) && is_stored_so;
    (fits && scan.table().table().columns[column].sql_type == sql_type).then_some(ScanExpression::Column(column))
}

/// An integer expression that the scan can evaluate, of type `sql_type`.
fn integer(sql_type: SqlType, expr: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<ScanExpression> {
    width_of(sql_type)?;
    if let Some(column) = table_column(expr, scan) {
        let declared = scan.table().table().columns[column].sql_type;
        return width_of(declared).map(|_| ScanExpression::Column(column));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return integer_literal(literal).map(ScanExpression::Literal);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function: &dyn Any = call.fun().inner().as_ref();
    let arguments = call.args();
    match function.downcast_ref::<Kernel>()?.operation() {
        Operation::Binary { operator, left, right, result } => {
            let operation = match operator {
                BinaryOperator::Add => Arithmetic::Add,
                BinaryOperator::Subtract => Arithmetic::Subtract,
                BinaryOperator::Multiply => Arithmetic::Multiply,
                _ => return None,
            };
            Some(ScanExpression::Arithmetic {
                operation,
                left: Box::new(integer(*left, &arguments[0], scan)?),
                right: Box::new(integer(*right, &arguments[1], scan)?),
                width: width_of(*result)?,
            })
        }
        Operation::Cast { from, to, style: None, attempt: false } => {
            let widens = widens(width_of(*from)?, width_of(*to)?);
            widens.then(|| integer(*from, &arguments[0], scan)).flatten()
        }
        Operation::Function { def, arguments: types, .. } if def.name.eq_ignore_ascii_case("LEN") => {
            let column = table_column(&arguments[0], scan)?;
            types[0].is_text().then_some(ScanExpression::Length(column))
        }
        _ => None,
    }
}

/// Whether every value of `from` is also a value of `to`.
fn widens(from: IntegerWidth, to: IntegerWidth) -> bool {
    let bits = |width| match width {
        IntegerWidth::Unsigned8 => 8,
        IntegerWidth::Signed16 => 16,
        IntegerWidth::Signed32 => 32,
        IntegerWidth::Signed64 => 64,
    };
    from == to || bits(from) < bits(to)
}

fn integer_literal(literal: &Literal) -> Option<i64> {
    use datafusion::common::ScalarValue as S;
    match literal.value() {
        S::UInt8(Some(value)) => Some(i64::from(*value)),
        S::Int16(Some(value)) => Some(i64::from(*value)),
        S::Int32(Some(value)) => Some(i64::from(*value)),
        S::Int64(Some(value)) => Some(*value),
        _ => None,
    }
}
