//! Functions over windows: each call becomes a column that a window node computes.

use datafusion::common::{Column, ScalarValue};
use datafusion::functions_window::{cume_dist, lead_lag, nth_value, ntile, rank, row_number};
use datafusion::logical_expr::expr::{Cast, NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, LogicalPlan, SortExpr, Window as WindowPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, WindowUDF,
};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::aggregate::AggregateKind;
use hobt_functions::carrier;
use hobt_tsql::ast::{FrameBound, FrameUnit, FunctionArguments, FunctionCall, Window};
use hobt_types::{SqlType, Value};
use std::borrow::Cow;
use std::sync::Arc;

use super::bound::BoundExpr;
use super::comparison::key;
use super::convert::implicit;
use super::extent::{check_list, check_windows};
use super::scope::same_name;
use super::{Binder, Clause, Site, shared};
use hobt_udf::sql_error_of;

/// The order and partition of a window.
struct Over {
    partition_by: Vec<Expr>,
    order_by: Vec<SortExpr>,
    frame: WindowFrame,
}

/// Error 4108.
fn misplaced(position: Position) -> SqlError {
    errors::WINDOW_NOT_ALLOWED.error().at(position)
}

impl Binder<'_> {
    /// An aggregate over a window.
    pub(super) fn window_aggregate(
        &self,
        kind: (AggregateKind, &'static str),
        call: &FunctionCall,
        window: &Window,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        if !matches!(site.clause, Clause::Select | Clause::OrderBy) {
            return Err(misplaced(position));
        }
        let window = &*self.whole_window(window, site)?;
        let ready = self.aggregate_call(kind, call, site)?;
        if ready.distinct {
            return Err(errors::DISTINCT_WITH_OVER.error().at(position));
        }
        let over = self.over(window, true, site)?;
        let function = WindowFunctionDefinition::AggregateUDF(ready.function.into());
        let expr = window_expr(function, ready.arguments, over, None);
        let column = self.window_column(expr, ready.name, site, position)?;
        Ok(BoundExpr::new(column, ready.result, ready.nullable, position).with_collation(ready.collation))
    }

    /// `ROW_NUMBER`, `RANK`, `LAG` and the like.
    pub(super) fn window_function(
        &self,
        name: &str,
        call: &FunctionCall,
        window: &Window,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        if !matches!(site.clause, Clause::Select | Clause::OrderBy) {
            return Err(misplaced(position));
        }
        let window = &*self.whole_window(window, site)?;
        if window.order_by.is_empty() {
            return Err(errors::WINDOW_WITHOUT_ORDER.with([&name]).at(position));
        }
        let takes_frame = matches!(name, "FIRST_VALUE" | "LAST_VALUE");
        if window.frame.is_some() && !takes_frame {
            return Err(errors::WINDOW_FRAME_NOT_ALLOWED.with([&name]).at(position));
        }
        let FunctionArguments::List { values, .. } = &call.arguments else {
            return Err(errors::SYNTAX.with([&"*"]).at(position));
        };
        let arguments = values.iter().map(|value| self.expression(value, site)).collect::<Result<Vec<_>, _>>()?;
        let over = self.over(window, takes_frame, site)?;
        let (function, arguments, result, engine) = self.shape(name, arguments, position)?;
        let nulls = call.ignore_nulls.map(|ignore| match ignore {
            true => NullTreatment::IgnoreNulls,
            false => NullTreatment::RespectNulls,
        });
        let expr = window_expr(WindowFunctionDefinition::WindowUDF(function), arguments, over, nulls);
        let column = self.window_column(expr, name, site, position)?;
        // DataFusion's row numbers have types that T-SQL does not have.
        let column = match engine {
            true => Expr::Cast(Cast::new(Box::new(column), carrier(result.sql_type))),
            false => column,
        };
        Ok(BoundExpr { expr: column, ..result })
    }

    /// DataFusion's function for a window function, its arguments and its result; the flag says whether the result
    /// needs a cast.
    fn shape(
        &self,
        name: &str,
        mut arguments: Vec<BoundExpr>,
        position: Position,
    ) -> Result<(Arc<WindowUDF>, Vec<Expr>, BoundExpr, bool), SqlError> {
        let wrong = |count: usize| errors::WINDOW_ARGUMENT_COUNT.with([&name, &count]).at(position);
        let shell = |sql_type, nullable| {
            let expr = Expr::Literal(ScalarValue::Null, None);
            BoundExpr::new(expr, sql_type, nullable, position)
        };
        let number = |function: Arc<WindowUDF>, sql_type| (function, vec![], shell(sql_type, false), true);
        match name {
            "ROW_NUMBER" if arguments.is_empty() => Ok(number(row_number::row_number_udwf(), SqlType::BigInt)),
            "RANK" if arguments.is_empty() => Ok(number(rank::rank_udwf(), SqlType::BigInt)),
            "DENSE_RANK" if arguments.is_empty() => Ok(number(rank::dense_rank_udwf(), SqlType::BigInt)),
            "PERCENT_RANK" if arguments.is_empty() => Ok(number(rank::percent_rank_udwf(), SqlType::Float)),
            "CUME_DIST" if arguments.is_empty() => Ok(number(cume_dist::cume_dist_udwf(), SqlType::Float)),
            "ROW_NUMBER" | "RANK" | "DENSE_RANK" | "PERCENT_RANK" | "CUME_DIST" => Err(wrong(0)),
            "NTILE" => {
                let [_] = arguments.as_slice() else { return Err(wrong(1)) };
                let buckets = implicit(arguments.remove(0), SqlType::BigInt)?;
                let buckets = match self.evaluate(&buckets)? {
                    Value::Int(buckets) if buckets > 0 => buckets,
                    _ => return Err(errors::NTILE_ARGUMENT.error().at(position)),
                };
                let buckets = Expr::Literal(ScalarValue::Int64(Some(buckets)), None);
                Ok((ntile::ntile_udwf(), vec![buckets], shell(SqlType::BigInt, false), true))
            }
            "FIRST_VALUE" | "LAST_VALUE" => {
                let [_] = arguments.as_slice() else { return Err(wrong(1)) };
                let value = arguments.remove(0);
                let function =
                    if name == "FIRST_VALUE" { nth_value::first_value_udwf() } else { nth_value::last_value_udwf() };
                let result =
                    BoundExpr { nullable: true, literal: None, foldable: false, assumed: None, ..value.clone() };
                Ok((function, vec![value.expr], result, false))
            }
            _ => {
                if arguments.is_empty() || arguments.len() > 3 {
                    return Err(wrong(1));
                }
                let mut rest = arguments.split_off(1).into_iter();
                let value = arguments.remove(0);
                let offset = match rest.next() {
                    None => 1,
                    Some(offset) => match self.evaluate(&implicit(offset, SqlType::BigInt)?)? {
                        Value::Int(offset) if offset >= 0 => offset,
                        _ => return Err(errors::NEGATIVE_OFFSET.error().at(position)),
                    },
                };
                let mut exprs = vec![value.expr.clone(), Expr::Literal(ScalarValue::Int64(Some(offset)), None)];
                if let Some(default) = rest.next() {
                    let default = implicit(default, value.sql_type)?;
                    let constant = self.evaluate(&default)?;
                    exprs.push(Expr::Literal(super::bound::scalar_of(&constant, value.sql_type)?, None));
                }
                let function = if name == "LAG" { lead_lag::lag_udwf() } else { lead_lag::lead_udwf() };
                let result = BoundExpr { nullable: true, literal: None, foldable: false, assumed: None, ..value };
                Ok((function, exprs, result, false))
            }
        }
    }

    /// A window, completed by the windows that it refers to.
    fn whole_window<'w>(&self, window: &'w Window, site: Site<'_>) -> Result<Cow<'w, Window>, SqlError> {
        let mut whole = Cow::Borrowed(window);
        let mut seen = 0;
        while let Some(base) = &whole.base {
            let undefined = || errors::UNKNOWN_WINDOW.with([&base.value]).at(base.position);
            let named = site.names.windows.iter().find(|named| same_name(&named.name.value, &base.value));
            let named = named.ok_or_else(undefined)?;
            if named.window.base.as_ref().is_some_and(|own| same_name(&own.value, &named.name.value)) {
                return Err(undefined());
            }
            seen += 1;
            if seen > site.names.windows.len() {
                return Err(errors::CYCLIC_WINDOW.error().at(base.position));
            }
            let from = &named.window;
            let twice = (!whole.partition_by.is_empty() && !from.partition_by.is_empty())
                || (!whole.order_by.is_empty() && !from.order_by.is_empty())
                || (whole.frame.is_some() && from.frame.is_some());
            if twice {
                return Err(errors::WINDOW_ELEMENT_TWICE.error().at(base.position));
            }
            let mut next = from.clone();
            if !whole.partition_by.is_empty() {
                next.partition_by.clone_from(&whole.partition_by);
            }
            if !whole.order_by.is_empty() {
                next.order_by.clone_from(&whole.order_by);
            }
            if whole.frame.is_some() {
                next.frame.clone_from(&whole.frame);
            }
            whole = Cow::Owned(next);
        }
        Ok(whole)
    }

    fn over(&self, window: &Window, takes_frame: bool, site: Site<'_>) -> Result<Over, SqlError> {
        let mut partition_by = Vec::with_capacity(window.partition_by.len());
        for item in &window.partition_by {
            let bound = self.expression(item, site)?;
            if bound.literal.is_none() {
                partition_by.push(key(&bound));
            }
        }
        let order_by = self.inner_order(&window.order_by, site)?;
        let frame = match &window.frame {
            Some(frame) if takes_frame => {
                if window.order_by.is_empty() {
                    return Err(errors::WINDOW_FRAME_WITHOUT_ORDER.error().at(frame.span.position));
                }
                let units = match frame.unit {
                    FrameUnit::Rows => WindowFrameUnits::Rows,
                    FrameUnit::Range => WindowFrameUnits::Range,
                };
                let start = self.bound_of(&frame.start, frame.unit, site)?;
                let end = match &frame.end {
                    Some(end) => self.bound_of(end, frame.unit, site)?,
                    None => WindowFrameBound::CurrentRow,
                };
                if !goes_forward(&start, &end) {
                    return Err(backward(&frame.start, frame.end.as_ref()).at(frame.span.position));
                }
                WindowFrame::new_bounds(units, start, end)
            }
            _ if order_by.is_empty() => WindowFrame::new(None),
            _ => WindowFrame::new(Some(false)),
        };
        Ok(Over { partition_by, order_by, frame })
    }

    fn bound_of(&self, bound: &FrameBound, unit: FrameUnit, site: Site<'_>) -> Result<WindowFrameBound, SqlError> {
        let rows = |value: &hobt_tsql::ast::Expression| {
            let position = value.position();
            if unit == FrameUnit::Range {
                return Err(errors::WINDOW_RANGE_BOUNDS.error().at(position));
            }
            match self.evaluate(&implicit(self.expression(value, site)?, SqlType::BigInt)?)? {
                Value::Int(rows) if rows >= 0 => Ok(ScalarValue::UInt64(Some(u64::try_from(rows).unwrap_or(u64::MAX)))),
                _ => Err(errors::WINDOW_FRAME_NEGATIVE.error().at(position)),
            }
        };
        Ok(match bound {
            FrameBound::UnboundedPreceding => WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            FrameBound::Preceding(value) => WindowFrameBound::Preceding(rows(value)?),
            FrameBound::CurrentRow => WindowFrameBound::CurrentRow,
            FrameBound::Following(value) => WindowFrameBound::Following(rows(value)?),
            FrameBound::UnboundedFollowing => WindowFrameBound::Following(ScalarValue::UInt64(None)),
        })
    }

    fn window_column(&self, expr: Expr, name: &str, site: Site<'_>, position: Position) -> Result<Expr, SqlError> {
        let collector = site.collector.ok_or_else(|| misplaced(position))?;
        let mut collector = collector.borrow_mut();
        // If the same window occurs twice in one node, DataFusion treats it as a common expression and moves it out of
        // the node.
        if let Some((_, known)) = collector.windows.iter().find(|(known, _)| *known == expr) {
            return Ok(Expr::Column(known.clone()));
        }
        check_windows(collector.windows.len())?;
        let column = Column::new_unqualified(self.fresh(name));
        collector.windows.push((expr, column.clone()));
        Ok(Expr::Column(column))
    }
}

/// Whether a frame's end is not before its start.
fn goes_forward(start: &WindowFrameBound, end: &WindowFrameBound) -> bool {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let rows = |bound: &ScalarValue| match bound {
        ScalarValue::UInt64(rows) => rows.map(i128::from),
        _ => None,
    };
    let place = |bound: &WindowFrameBound, unbounded: i128| match bound {
        Preceding(bound) => -rows(bound).unwrap_or(unbounded),
        CurrentRow => 0,
        Following(bound) => rows(bound).unwrap_or(unbounded),
    };
    let beyond = i128::from(u64::MAX) + 1;
    let (start, end) = (place(start, beyond), place(end, beyond));
    start <= end && start != beyond && end != -beyond
}

/// Error 4193; its text contains no numbers.
fn backward(start: &FrameBound, end: Option<&FrameBound>) -> SqlError {
    let shape = |bound: &FrameBound| match bound {
        FrameBound::UnboundedPreceding => "UNBOUNDED PRECEDING",
        FrameBound::Preceding(_) => "... PRECEDING",
        FrameBound::CurrentRow => "CURRENT ROW",
        FrameBound::Following(_) => "... FOLLOWING",
        FrameBound::UnboundedFollowing => "UNBOUNDED FOLLOWING",
    };
    let frame = format!("BETWEEN {} AND {}", shape(start), end.map_or("CURRENT ROW", shape));
    errors::INVALID_WINDOW_FRAME.with([&frame])
}

fn window_expr(
    fun: WindowFunctionDefinition,
    args: Vec<Expr>,
    over: Over,
    null_treatment: Option<NullTreatment>,
) -> Expr {
    Expr::WindowFunction(Box::new(WindowFunction {
        fun,
        params: WindowFunctionParams {
            args,
            partition_by: over.partition_by,
            order_by: over.order_by,
            window_frame: over.frame,
            filter: None,
            null_treatment,
            distinct: false,
        },
    }))
}

/// A partition and order, and the windows with it.
type WindowGroup = ((Vec<Expr>, Vec<SortExpr>), Vec<Expr>);

/// Puts window nodes above a plan: one for each different partition and order.
///
/// # Errors
/// 8631 for too many different ones; an internal error if DataFusion refuses.
pub(super) fn window_plan(mut plan: LogicalPlan, windows: Vec<(Expr, Column)>) -> Result<LogicalPlan, SqlError> {
    let mut groups: Vec<WindowGroup> = Vec::new();
    for (expr, column) in windows {
        let Expr::WindowFunction(window) = &expr else { return Err(SqlError::internal("a window that is none")) };
        let order = (window.params.partition_by.clone(), window.params.order_by.clone());
        let aliased = expr.alias(column.name);
        match groups.iter_mut().find(|(known, _)| *known == order) {
            Some((_, group)) => group.push(aliased),
            None => groups.push((order, vec![aliased])),
        }
    }
    check_list(groups.len())?;
    for (_, group) in groups {
        plan = LogicalPlan::Window(WindowPlan::try_new(group, shared(plan)).map_err(sql_error_of)?);
    }
    Ok(plan)
}

/// A window over all rows in an order, for `TOP … WITH TIES` and `TOP … PERCENT`.
pub(super) fn ranking(fun: WindowFunctionDefinition, args: Vec<Expr>, order_by: Vec<SortExpr>) -> Expr {
    let frame = match order_by.is_empty() {
        true => WindowFrame::new(None),
        false => WindowFrame::new(Some(false)),
    };
    window_expr(fun, args, Over { partition_by: vec![], order_by, frame }, None)
}
