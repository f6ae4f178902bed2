//! Aggregates: each call becomes a column that the query's aggregation computes.

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_functions::invalid_argument;
use hobt_functions::type_rules::declared_length;
use hobt_tsql::ast::{Expression, FunctionArguments, FunctionCall, OrderItem};
use hobt_types::{Collation, MaxLength, SqlType, Value};

use super::bound::BoundExpr;
use super::comparison::key;
use super::{Binder, Clause, Site};
use crate::aggregate_call::wrapped;
use hobt_udf::{Kernel, Operation, OrderedStringAgg, has_sort_key};

/// An aggregate that can be called, in a group or over a window.
pub(super) struct AggregateCall {
    pub(super) function: AggregateUDF,
    pub(super) arguments: Vec<Expr>,
    pub(super) distinct: bool,
    pub(super) order_by: Vec<SortExpr>,
    pub(super) result: SqlType,
    pub(super) nullable: bool,
    pub(super) name: &'static str,
    pub(super) collation: super::bound::ExprCollation,
}

/// The aggregate called `name`.
pub(super) fn aggregate_kind(name: &str) -> Option<(AggregateKind, &'static str)> {
    const KINDS: [(AggregateKind, &str); 12] = [
        (AggregateKind::Count, "count"),
        (AggregateKind::CountBig, "count_big"),
        (AggregateKind::Sum, "sum"),
        (AggregateKind::Avg, "avg"),
        (AggregateKind::Min, "min"),
        (AggregateKind::Max, "max"),
        (AggregateKind::Stdev, "stdev"),
        (AggregateKind::StdevP, "stdevp"),
        (AggregateKind::Var, "var"),
        (AggregateKind::VarP, "varp"),
        (AggregateKind::ChecksumAgg, "checksum_agg"),
        (AggregateKind::StringAgg, "string_agg"),
    ];
    KINDS.into_iter().find(|(_, known)| known.eq_ignore_ascii_case(name))
}

/// The error of an aggregate in a clause that allows none.
fn misplaced(clause: Clause) -> SqlError {
    match clause {
        Clause::On => errors::AGGREGATE_IN_ON.error(),
        Clause::GroupBy => errors::AGGREGATE_IN_GROUP_BY.error(),
        Clause::Aggregate => errors::AGGREGATE_OF_AGGREGATE.error(),
        Clause::Set => errors::AGGREGATE_IN_SET_LIST.error(),
        Clause::Output => errors::AGGREGATE_IN_OUTPUT.error(),
        _ => errors::AGGREGATE_IN_WHERE.error(),
    }
}

impl Binder<'_> {
    /// An aggregate over the query's groups.
    pub(super) fn aggregate(
        &self,
        kind: (AggregateKind, &'static str),
        call: &FunctionCall,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        let inner = Site { clause: Clause::Aggregate, collector: None, ..site };
        let Some(collector) = site.collector else {
            // It may belong to the groups of the enclosing query.
            let is_outer = |call: &AggregateCall| {
                call.arguments.iter().any(Expr::contains_outer)
                    && call.arguments.iter().all(|argument| argument.column_refs().is_empty())
            };
            let error = match self.aggregate_call(kind, call, inner) {
                Ok(ready) if site.clause != Clause::Aggregate && is_outer(&ready) => {
                    SqlError::not_supported("An aggregate of a column of an outer query")
                }
                _ => misplaced(site.clause),
            };
            return Err(error.at(position));
        };
        let ready = self.aggregate_call(kind, call, inner)?;
        let (result, nullable, collation, name) = (ready.result, ready.nullable, ready.collation, ready.name);
        let expr = Expr::AggregateFunction(AggregateFunction::new_udf(
            ready.function.into(),
            ready.arguments,
            ready.distinct,
            None,
            ready.order_by,
            None,
        ));
        let mut collector = collector.borrow_mut();
        let known = collector.aggregates.iter().find(|(known, _)| *known == expr).map(|(_, column)| column.clone());
        let column = known.unwrap_or_else(|| {
            let column = Column::new_unqualified(self.fresh(name));
            collector.aggregates.push((expr, column.clone()));
            collector.types.push((column.clone(), result));
            column
        });
        Ok(BoundExpr::new(Expr::Column(column), result, nullable, position).with_collation(collation))
    }

    /// Binds the arguments of an aggregate and chooses its function.
    pub(super) fn aggregate_call(
        &self,
        (kind, name): (AggregateKind, &'static str),
        call: &FunctionCall,
        site: Site<'_>,
    ) -> Result<AggregateCall, SqlError> {
        let position = call.span.position;
        let at = |error: SqlError| error.at(position);
        let is_count = matches!(kind, AggregateKind::Count | AggregateKind::CountBig);
        let (distinct, values) = match &call.arguments {
            FunctionArguments::Star if is_count => {
                let (function, result) = wrapped(kind, SqlType::Int, Collation::default()).map_err(at)?;
                let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
                return Ok(AggregateCall {
                    function,
                    arguments: vec![one],
                    distinct: false,
                    order_by: vec![],
                    result,
                    nullable: false,
                    name,
                    collation: Default::default(),
                });
            }
            FunctionArguments::Star => {
                return Err(at(errors::SYNTAX.with([&"*"])));
            }
            // Not in SQL Server's grammar.
            FunctionArguments::List { distinct: true, .. } if kind == AggregateKind::StringAgg => {
                return Err(at(errors::SYNTAX.with([&","])));
            }
            FunctionArguments::List { distinct, values } => (*distinct, values),
        };
        let wanted = if kind == AggregateKind::StringAgg { 2 } else { 1 };
        if values.len() != wanted {
            return Err(at(errors::FUNCTION_ARGUMENT_COUNT.with([&name, &wanted])));
        }
        let mut bound = values.iter().map(|value| self.expression(value, site)).collect::<Result<Vec<_>, _>>()?;
        let argument = bound.remove(0);
        if argument.is_untyped_null() {
            return Err(at(errors::INVALID_OPERAND_TYPE.with([&"NULL", &name])));
        }
        if crate::subquery_expr::has_subquery(&argument.expr) {
            return Err(at(misplaced(Clause::Aggregate)));
        }
        let by_key = is_count && distinct && has_sort_key(argument.sql_type);
        let input = if by_key { SqlType::VarBinary(MaxLength::Max) } else { argument.sql_type };
        let (function, result) = wrapped(kind, input, argument.collation.collation).map_err(at)?;
        let collation = argument.collation;
        let mut arguments = vec![if by_key { key(&argument) } else { argument.expr }];
        for separator in bound {
            arguments.push(string_agg_separator(separator)?.expr);
        }
        let function = match (call.within_group.as_slice(), kind) {
            ([], _) => function,
            (order, AggregateKind::StringAgg) => {
                let text = arguments.remove(0);
                arguments.insert(0, as_text(text, input, position));
                let descending = self.ordered_arguments(order, &mut arguments, site)?;
                let units_max = match declared_length(result) {
                    Some(MaxLength::Limited(units)) => Some(usize::from(units)),
                    _ => None,
                };
                AggregateUDF::new_from_impl(OrderedStringAgg::new(descending, units_max))
            }
            _ => {
                return Err(at(errors::WITHIN_GROUP_NOT_ALLOWED.with([&name])));
            }
        };
        // MIN and MAX of the distinct values are those of all values.
        let distinct = distinct && !matches!(kind, AggregateKind::Min | AggregateKind::Max);
        Ok(AggregateCall {
            function,
            arguments,
            distinct,
            order_by: vec![],
            result,
            nullable: !is_count,
            name,
            collation,
        })
    }

    /// Puts the keys of `WITHIN GROUP` before the arguments; returns whether each is descending.
    fn ordered_arguments(
        &self,
        order: &[OrderItem],
        arguments: &mut Vec<Expr>,
        site: Site<'_>,
    ) -> Result<Vec<bool>, SqlError> {
        let sorts = self.inner_order(order, site)?;
        let descending = sorts.iter().map(|sort| !sort.asc).collect();
        arguments.splice(0..0, sorts.into_iter().map(|sort| sort.expr));
        Ok(descending)
    }

    /// `GROUPING(x)` and `GROUPING_ID(x, …)`: a column for each argument, combined bit by bit.
    pub(super) fn grouping_function(
        &self,
        call: &FunctionCall,
        is_id: bool,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        let (Some(collector), FunctionArguments::List { values, .. }) = (site.collector, &call.arguments) else {
            return Err(misplaced(site.clause).at(position));
        };
        let mut bits = Vec::with_capacity(values.len());
        for value in values {
            let argument = self.expression(value, Site { collector: None, ..site })?;
            let column = Column::new_unqualified(self.fresh("grouping"));
            collector.borrow_mut().groupings.push((argument.expr, column.clone(), value.position()));
            bits.push(Expr::Column(column));
        }
        if !is_id {
            let [bit] = bits.as_slice() else {
                return Err(errors::FUNCTION_ARGUMENT_COUNT.with([&"grouping", &1]).at(position));
            };
            return Ok(BoundExpr::new(bit.clone(), SqlType::TinyInt, false, position));
        }
        let mut total: Option<BoundExpr> = None;
        for bit in bits {
            let bit = BoundExpr::new(bit, SqlType::TinyInt, false, position);
            let bit = super::convert::implicit(bit, SqlType::Int)?;
            total = Some(match total {
                None => bit,
                Some(total) => {
                    let two = BoundExpr::literal(hobt_types::Value::Int(2), SqlType::Int, position)?;
                    let doubled =
                        super::arithmetic::binary(total, hobt_functions::BinaryOperator::Multiply, two, position)?;
                    super::arithmetic::binary(doubled, hobt_functions::BinaryOperator::Add, bit, position)?
                }
            });
        }
        total.ok_or_else(|| errors::GROUPING_ID_ARGUMENTS.error().at(position))
    }

    /// The sort expressions of an `ORDER BY` inside an expression; constants are left out.
    pub(super) fn inner_order(&self, items: &[OrderItem], site: Site<'_>) -> Result<Vec<SortExpr>, SqlError> {
        let mut order = Vec::with_capacity(items.len());
        for item in items {
            if is_constant_subquery(&item.value) {
                continue;
            }
            let bound = self.expression(&item.value, site)?;
            if is_constant_text(&item.value) {
                return Err(constant_order(&self.evaluate(&bound)?, bound.sql_type).at(item.value.position()));
            }
            if bound.literal.is_none() {
                order.push(SortExpr::new(key(&bound), !item.descending, !item.descending));
            }
        }
        Ok(order)
    }
}

/// The separator of `STRING_AGG`.
///
/// # Errors
/// 8116 if it is not text.
fn string_agg_separator(separator: BoundExpr) -> Result<BoundExpr, SqlError> {
    let position = separator.position;
    if separator.is_untyped_null() {
        return super::convert::implicit(separator, SqlType::VarChar(MaxLength::Limited(1)));
    }
    match separator.sql_type.is_text() {
        true => Ok(separator),
        false => Err(invalid_argument(separator.sql_type, 2, "string_agg").at(position)),
    }
}

/// A value that `STRING_AGG` joins. A value that is not text is converted to `nvarchar`, as Microsoft documents.
fn as_text(value: Expr, from: SqlType, position: Position) -> Expr {
    match from.is_text() {
        true => value,
        false => {
            let to = SqlType::NVarChar(MaxLength::Max);
            Kernel::call(Operation::Cast { from, to, style: None, attempt: false }, vec![value], position)
        }
    }
}

/// Whether an expression consists of constants only.
pub(super) fn is_constant_text(expression: &Expression) -> bool {
    match expression {
        Expression::Literal { .. } => true,
        Expression::Unary { operand, .. } => is_constant_text(operand),
        Expression::Arithmetic { first, rest } => {
            is_constant_text(first) && rest.iter().all(|step| is_constant_text(&step.operand))
        }
        Expression::Cast { operand, .. } | Expression::Convert { operand, .. } => is_constant_text(operand),
        _ => false,
    }
}

/// Errors 5308 and 5309: a constant is not a valid order. One that could be a column's position has an error number of
/// its own.
fn constant_order(value: &Value, sql_type: SqlType) -> SqlError {
    match (value, sql_type) {
        (Value::Int(1..), SqlType::Int) => errors::ORDER_BY_INTEGER.error(),
        _ => errors::ORDER_BY_CONSTANTS.error(),
    }
}

/// Whether an expression is `(SELECT NULL)`, `(SELECT 1)` or the like, which means "in no order".
fn is_constant_subquery(expression: &Expression) -> bool {
    use hobt_tsql::ast::{QueryBody, SelectItem};
    let Expression::Subquery { query, .. } = expression else { return false };
    let QueryBody::Select(select) = &query.body else { return false };
    let constant = matches!(
        select.items.as_slice(),
        [SelectItem::Value { value: Expression::Literal { .. } | Expression::Variable { .. }, .. }]
    );
    select.from.is_empty() && constant
}
