//! Aggregates of distinct values, as a grouping below another one (docs/design/0046).
//!
//! ```text
//!   GROUP BY k: COUNT(DISTINCT x), SUM(y)       GROUP BY k: COUNT(x), SUM of the states s
//!                                         ──►     GROUP BY k, x: s = state of SUM(y)
//!
//!   GROUP BY k: COUNT(DISTINCT x),              GROUP BY k: COUNT(x) of the rows of (k, x), SUM(y) of those of (k, y)
//!               SUM(DISTINCT y)           ──►     GROUPING SETS ((k, x), (k, y))
//! ```
//! Both groupings run on all workers and spill. An aggregate that keeps the distinct values in its own state does
//! neither.
//!
//! DataFusion's rule for this (`SingleDistinctToGroupBy`, which this one replaces) takes no calls with an alias, which
//! is what the binder makes, only one distinct argument, beside it only sums and extremes, and sums them up again with
//! the same function, which has another type by then.
//!
//! Grouping sets of the query become sets with each of the arguments. The set without keys has a row even if there is
//! no input, which the upper grouping can no longer know: a row that takes part in no aggregate is added for it.
//!
//! Left as they are: aggregates beside a `STRING_AGG`, whose order would change.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, Cast, EmptyRelation, Expr, GroupingSet, LogicalPlan, Operator, Projection,
    Union,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use hobt_functions::aggregate::{Aggregate as Function, AggregateKind};
use hobt_udf::{OfStates, SqlAggregate, StateOf};

use crate::lateral::reads_outside;

/// The most keys and arguments. The executor tells grouping sets apart by a number with a bit for each column, and up
/// to 12 bits for equal sets.
const SET_COLUMNS_MAX: usize = 50;

/// Turns aggregates of distinct values into two groupings.
#[derive(Debug)]
pub(super) struct DistinctAggregatesRule;

impl OptimizerRule for DistinctAggregatesRule {
    fn name(&self) -> &'static str {
        "distinct_aggregates"
    }

    /// A subquery that reads from outside is left alone. The rules that turn it into a join know what an aggregate
    /// gives for no rows, and would not know it of two.
    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Subquery(subquery) if reads_outside(&subquery.subquery)? => {
                Ok(Transformed::new(LogicalPlan::Subquery(subquery), false, TreeNodeRecursion::Jump))
            }
            LogicalPlan::Aggregate(aggregate) => match Calls::of(&aggregate) {
                Some(calls) => Ok(Transformed::yes(Levels { aggregate, calls, config }.plan()?)),
                None => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
            },
            other => Ok(Transformed::no(other)),
        })
    }
}

/// The calls of an aggregation that this rule turns.
struct Calls {
    /// The different arguments of distinct aggregates.
    arguments: Vec<Expr>,
    calls: Vec<Call>,
}

enum Call {
    /// A function of distinct values, with the place of its argument.
    Distinct(Arc<AggregateUDF>, usize),
    /// A function of all values, and its arguments.
    Plain(Function, Vec<Expr>),
}

impl Calls {
    /// `None` if there is nothing to turn.
    fn of(aggregate: &Aggregate) -> Option<Calls> {
        let mut arguments: Vec<Expr> = Vec::new();
        let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
        for expr in &aggregate.aggr_expr {
            let Expr::AggregateFunction(AggregateFunction { func, params }) = unnamed(expr) else { return None };
            let AggregateFunctionParams { args, distinct, filter, order_by, .. } = params;
            if filter.is_some() || !order_by.is_empty() {
                return None;
            }
            let function = *func.inner().downcast_ref::<SqlAggregate>()?.aggregate();
            calls.push(match args.as_slice() {
                [argument] if *distinct => {
                    let known = arguments.iter().position(|known| known == argument);
                    let place = known.unwrap_or_else(|| {
                        arguments.push(argument.clone());
                        arguments.len() - 1
                    });
                    Call::Distinct(Arc::clone(func), place)
                }
                _ if *distinct || function.kind == AggregateKind::StringAgg => return None,
                args => Call::Plain(function, args.to_vec()),
            });
        }
        let columns = aggregate.group_expr_len().ok()? + arguments.len();
        let is_turned = !arguments.is_empty() && columns <= SET_COLUMNS_MAX;
        is_turned.then_some(Calls { arguments, calls })
    }
}

/// An aggregation on its way to two.
struct Levels<'c> {
    aggregate: Aggregate,
    calls: Calls,
    config: &'c dyn OptimizerConfig,
}

/// What the lower grouping gives.
struct Lower {
    plan: LogicalPlan,
    keys: Vec<Column>,
    /// The number of the query's grouping set.
    set: Option<Column>,
    /// Which argument a row is about, as a number with one bit for each: 0 for that argument. `None` if there is one
    /// argument only.
    about: Option<(Column, DataType)>,
    values: Vec<Column>,
    states: Vec<Column>,
}

impl Levels<'_> {
    fn plan(&self) -> Result<LogicalPlan> {
        let lower = self.lower()?;
        let filter = |place: usize| -> Result<Option<Box<Expr>>> {
            let Some((about, data_type)) = &lower.about else { return Ok(None) };
            let wanted = ones(lower.values.len()) & !(1 << (lower.values.len() - 1 - place));
            let wanted = number(wanted, data_type)?;
            Ok(Some(Box::new(binary(Expr::Column(about.clone()), Operator::Eq, wanted))))
        };
        let mut states = lower.states.iter();
        let mut made = Vec::with_capacity(self.calls.calls.len());
        for call in &self.calls.calls {
            let (function, argument, place) = match call {
                Call::Distinct(function, place) => (Arc::clone(function), lower.values[*place].clone(), *place),
                // Each row of the input is in one row for each argument. The first stands for all.
                Call::Plain(function, _) => {
                    let whole = AggregateUDF::new_from_impl(OfStates::new(*function));
                    (Arc::new(whole), states.next().expect("a state for each plain call").clone(), 0)
                }
            };
            let (arguments, filter) = (vec![Expr::Column(argument)], filter(place)?);
            let call = AggregateFunction::new_udf(function, arguments, false, filter, vec![], None);
            made.push(Expr::AggregateFunction(call).alias(self.fresh("of_distinct")));
        }
        let keys = lower.keys.iter().chain(&lower.set).cloned().map(Expr::Column).collect();
        let upper = Aggregate::try_new(Arc::new(lower.plan), keys, made)?;
        let columns = upper.schema.columns();
        let upper = Arc::new(LogicalPlan::Aggregate(upper));
        let named = self.aggregate.schema.iter().zip(columns).map(|((qualifier, field), column)| {
            let is_same = (column.relation.as_ref(), &column.name) == (qualifier, field.name());
            let column = Expr::Column(column);
            if is_same { column } else { column.alias_qualified(qualifier.cloned(), field.name()) }
        });
        Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), upper)?))
    }

    /// The lower grouping.
    fn lower(&self) -> Result<Lower> {
        let (input, keys, values) = self.input()?;
        let states = self.calls.calls.iter().filter_map(|call| match call {
            Call::Distinct(..) => None,
            Call::Plain(function, arguments) => {
                let state = Arc::new(AggregateUDF::new_from_impl(StateOf::new(*function)));
                let call = AggregateFunction::new_udf(state, arguments.clone(), false, None, vec![], None);
                Some(Expr::AggregateFunction(call).alias(self.fresh("state")))
            }
        });
        let states: Vec<Expr> = states.collect();
        let names = states.iter().map(|state| Column::new_unqualified(state.schema_name().to_string())).collect();
        let input = Arc::new(input);
        match self.sets(&keys) {
            None if values.len() == 1 => {
                let groups = keys.iter().chain(&values).cloned().map(Expr::Column).collect();
                let plan = LogicalPlan::Aggregate(Aggregate::try_new(input, groups, states)?);
                Ok(Lower { plan, keys, set: None, about: None, values, states: names })
            }
            sets => {
                let sets = (sets.unwrap_or_else(|| vec![keys.clone()]), self.set_id());
                self.lower_sets(input, sets, (keys, values), (states, names))
            }
        }
    }

    /// The lower grouping by grouping sets: each of the query's, with each of the arguments.
    fn lower_sets(
        &self,
        input: Arc<LogicalPlan>,
        (sets, set_id): (Vec<Vec<Column>>, Option<DataType>),
        (keys, values): (Vec<Column>, Vec<Column>),
        (states, state_names): (Vec<Expr>, Vec<Column>),
    ) -> Result<Lower> {
        let with_each = |set: &Vec<Column>| {
            let with = |value: &Column| set.iter().chain([value]).cloned().map(Expr::Column).collect::<Vec<_>>();
            values.iter().map(with).collect::<Vec<_>>()
        };
        let all: Vec<Vec<Expr>> = sets.iter().flat_map(with_each).collect();
        let groups = vec![Expr::GroupingSet(GroupingSet::GroupingSets(all))];
        let grouped = Aggregate::try_new(input, groups, states)?;
        let id_field = grouped.schema.field_with_unqualified_name(Aggregate::INTERNAL_GROUPING_ID)?;
        let id_type = id_field.data_type().clone();
        let id = Expr::Column(Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID));
        let plan = LogicalPlan::Aggregate(grouped);
        let Some(set_type) = set_id else {
            let about = Some((Column::new_unqualified(Aggregate::INTERNAL_GROUPING_ID), id_type));
            return Ok(Lower { plan, keys, set: None, about, values, states: state_names });
        };
        // The bits of an id are, from the highest: which of several equal sets, the keys of the first set, the
        // arguments, the other keys.
        let id = Expr::Cast(Cast::new(Box::new(id), DataType::UInt64));
        let (count, later) = (values.len(), keys.len() - sets.first().map_or(0, Vec::len));
        let literal = |value: u64| Expr::Literal(ScalarValue::UInt64(Some(value)), None);
        let shifted = |by: usize| binary(id.clone(), Operator::BitwiseShiftRight, literal(by as u64));
        let masked = |expr: Expr, bits: usize| binary(expr, Operator::BitwiseAnd, literal(ones(bits)));
        let about = masked(shifted(later), count);
        let mut set = shifted(count + later);
        if later > 0 {
            set = binary(set, Operator::BitwiseShiftLeft, literal(later as u64));
            set = binary(set, Operator::BitwiseOr, masked(id.clone(), later));
        }
        let set = Expr::Cast(Cast::new(Box::new(set), set_type.clone()));
        let name = |part: &str, expr: Expr| expr.alias(self.fresh(part));
        let of_columns = |columns: &[Column]| columns.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let mut exprs: Vec<Expr> = of_columns(&keys).into_iter().map(|key| name("key", key)).collect();
        exprs.extend([name("set", set), name("about", about)]);
        exprs.extend(
            of_columns(&values).into_iter().chain(of_columns(&state_names)).map(|column| name("value", column)),
        );
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        let mut columns = plan.schema().columns().into_iter();
        let mut take = |count: usize| columns.by_ref().take(count).collect::<Vec<_>>();
        let (keys, numbers, values, states) = (take(keys.len()), take(2), take(count), take(state_names.len()));
        let [set, about] = <[Column; 2]>::try_from(numbers).expect("two columns are taken");
        let empty = sets.iter().filter(|set| set.is_empty()).count();
        let plan = with_rows_of_nothing(plan, empty, (keys.len(), count, &set_type))?;
        Ok(Lower { plan, keys, set: Some(set), about: Some((about, DataType::UInt64)), values, states })
    }

    /// The input with a column for each key and argument. A column that is both is there twice: it is grouped as a key
    /// and as an argument.
    fn input(&self) -> Result<(LogicalPlan, Vec<Column>, Vec<Column>)> {
        let mut added = Vec::new();
        let mut column_of = |expr: &Expr, taken: &[Column]| match unnamed(expr) {
            Expr::Column(column) if !taken.contains(column) => column.clone(),
            other => {
                let name = self.fresh("distinct");
                added.push(other.clone().alias(&name));
                Column::new_unqualified(name)
            }
        };
        let keys: Vec<Column> = self.key_exprs()?.into_iter().map(|key| column_of(key, &[])).collect();
        let values: Vec<Column> = self.calls.arguments.iter().map(|argument| column_of(argument, &keys)).collect();
        let input = Arc::clone(&self.aggregate.input);
        if added.is_empty() {
            return Ok((Arc::unwrap_or_clone(input), keys, values));
        }
        let all = input.schema().columns().into_iter().map(Expr::Column).chain(added).collect();
        Ok((LogicalPlan::Projection(Projection::try_new(all, input)?), keys, values))
    }

    /// The keys, in the order of the aggregation's columns.
    fn key_exprs(&self) -> Result<Vec<&Expr>> {
        Ok(match self.aggregate.group_expr.as_slice() {
            [Expr::GroupingSet(sets)] => sets.distinct_expr(),
            keys => keys.iter().collect(),
        })
    }

    /// The query's grouping sets.
    fn sets(&self, keys: &[Column]) -> Option<Vec<Vec<Column>>> {
        let [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] = self.aggregate.group_expr.as_slice() else {
            return None;
        };
        let exprs = self.key_exprs().ok()?;
        let column_of = |key: &Expr| exprs.iter().position(|known| *known == key).map(|place| keys[place].clone());
        sets.iter().map(|set| set.iter().map(column_of).collect()).collect()
    }

    /// The type of the query's numbers of grouping sets.
    fn set_id(&self) -> Option<DataType> {
        let is_set = matches!(self.aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
        let field = self.aggregate.schema.field_with_unqualified_name(Aggregate::INTERNAL_GROUPING_ID).ok();
        field.filter(|_| is_set).map(|field| field.data_type().clone())
    }

    fn fresh(&self, part: &str) -> String {
        self.config.alias_generator().next(&format!("__{part}"))
    }
}

/// Adds a row for each of `empty` grouping sets without keys, which is about no argument.
fn with_rows_of_nothing(
    plan: LogicalPlan,
    empty: usize,
    (keys, values, set_type): (usize, usize, &DataType),
) -> Result<LogicalPlan> {
    let mut inputs = vec![Arc::new(plan)];
    for which in 0..empty {
        let fields = inputs[0].schema().iter().enumerate();
        let nothing = fields.map(|(place, (_, field))| {
            let value = if place == keys {
                scalar((which as u64).checked_shl(keys as u32).unwrap_or(0) | ones(keys), set_type)?
            } else if place == keys + 1 {
                ScalarValue::UInt64(Some(ones(values)))
            } else {
                ScalarValue::try_from(field.data_type())?
            };
            Ok(Expr::Literal(value, None).alias(field.name()))
        });
        let one = EmptyRelation { produce_one_row: true, schema: Arc::new(datafusion::common::DFSchema::empty()) };
        let one = Arc::new(LogicalPlan::EmptyRelation(one));
        let nothing = Projection::try_new(nothing.collect::<Result<_>>()?, one)?;
        inputs.push(Arc::new(LogicalPlan::Projection(nothing)));
    }
    if empty == 0 {
        return Ok(Arc::unwrap_or_clone(inputs.remove(0)));
    }
    Ok(LogicalPlan::Union(Union::try_new(inputs)?))
}

/// An expression without its name.
fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        other => other,
    }
}

/// A number whose lowest `bits` are ones.
fn ones(bits: usize) -> u64 {
    u64::MAX.checked_shr(u64::BITS - bits as u32).unwrap_or(0)
}

fn scalar(value: u64, data_type: &DataType) -> Result<ScalarValue> {
    ScalarValue::UInt64(Some(value)).cast_to(data_type)
}

fn number(value: u64, data_type: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(scalar(value, data_type)?, None))
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}
