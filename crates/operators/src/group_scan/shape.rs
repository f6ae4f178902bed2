//! Which aggregations a scan computes, in terms of the table's columns.

use std::any::Any;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use hobt_access::scan::{Formula, ScanExpression};
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_udf::SqlAggregate;

use crate::columns::substituted;
use crate::exact_tests::exact_tests;
use crate::few_groups::Shape;
use crate::key_codes::Codes;
use crate::row_tests::RowTest;
use crate::scan_exec::ScanExec;
use crate::scan_expression::{ScanBelow, scan_below, scan_column, scan_digits};

/// An aggregation right above a scan.
pub(crate) struct GroupScanShape {
    pub(super) shape: Arc<Shape>,
    scan: Arc<dyn ExecutionPlan>,
    pub(super) tests: Vec<RowTest>,
    /// The column of each key.
    pub(super) keys: Vec<usize>,
    /// What is computed of each group, once for all aggregates that need it.
    pub(super) values: Vec<GroupValue>,
    /// For each aggregate, which of `values` it needs.
    pub(super) calls: Vec<(Aggregate, usize)>,
}

/// A value of each group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum GroupValue {
    /// How many rows it has.
    Rows,
    /// How many rows of it have a value in a column.
    Values(usize),
    /// The sum of a formula, and of how many rows it is.
    Sum(Formula),
    /// The least or the greatest value of a formula.
    Extreme { formula: Formula, is_greatest: bool },
}

impl GroupScanShape {
    /// The parts of an aggregation; `None` if the scan cannot compute it.
    pub(crate) fn of(aggregation: &AggregateExec) -> Option<GroupScanShape> {
        let shape = Shape::of(aggregation)?;
        let ScanBelow { scan, columns, filter } = scan_below(shape.source())?;
        let source: &ScanExec = scan.downcast_ref()?;
        if !source.filters().is_empty() || source.table().hint().forces_seek() {
            return None;
        }
        let tests = match filter {
            Some(filter) => exact_tests(filter.downcast_ref::<FilterExec>()?.predicate(), source)?,
            None => Vec::new(),
        };
        let over_scan = |expr: &Arc<dyn PhysicalExpr>| {
            let over_source = shape.over_source(expr)?;
            substituted(&over_source, &|at| columns.get(at).cloned())
        };
        let key = |expr: &Arc<dyn PhysicalExpr>| {
            let column = scan_column(&over_scan(expr)?, source)?;
            Codes::reads_pages(source.table().table().columns[column].sql_type).then_some(column)
        };
        let keys = shape.keys.iter().map(|known| key(known.expr())).collect::<Option<Vec<_>>>()?;
        let (mut values, mut calls) = (Vec::new(), Vec::new());
        for call in &shape.calls {
            let function: &dyn Any = call.function.fun().inner().as_ref();
            let definition = *function.downcast_ref::<SqlAggregate>()?.aggregate();
            if call.has_filter() {
                return None;
            }
            let value = match call.text_of {
                // In the sets that do not have the key it would have to be computed.
                Some(key) if shape.sets.iter().all(|set| set.keys.contains(&key)) => GroupValue::Rows,
                Some(_) => return None,
                None => group_value(&definition, &over_scan(call.argument()?)?, source)?,
            };
            let place = values.iter().position(|known| *known == value).unwrap_or_else(|| {
                values.push(value);
                values.len() - 1
            });
            calls.push((definition, place));
        }
        Some(GroupScanShape { shape: Arc::new(shape), scan, tests, keys, values, calls })
    }

    /// The scan.
    pub(crate) fn scan(&self) -> &ScanExec {
        self.scan.downcast_ref().expect("made from a scan")
    }

    /// The columns that are read, each once.
    pub(super) fn columns(&self) -> Vec<usize> {
        let of_value = |value: &GroupValue| match value {
            GroupValue::Rows => Vec::new(),
            GroupValue::Values(column) => vec![*column],
            GroupValue::Sum(formula) | GroupValue::Extreme { formula, .. } => formula.columns().to_vec(),
        };
        let mut columns: Vec<usize> = self.keys.iter().copied().chain(self.values.iter().flat_map(of_value)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

fn group_value(definition: &Aggregate, argument: &Arc<dyn PhysicalExpr>, scan: &ScanExec) -> Option<GroupValue> {
    let formula = || Formula::new(scan_digits(definition.input, argument, scan)?);
    Some(match definition.kind {
        AggregateKind::Count | AggregateKind::CountBig => match argument.downcast_ref::<Literal>() {
            Some(literal) if !literal.value().is_null() => GroupValue::Rows,
            Some(_) => return None,
            None => {
                let column = scan_column(argument, scan)?;
                match scan.table().table().columns[column].nullable {
                    true => GroupValue::Values(column),
                    false => GroupValue::Rows,
                }
            }
        },
        AggregateKind::Sum | AggregateKind::Avg if !definition.input.is_temporal() => GroupValue::Sum(formula()?),
        AggregateKind::Min | AggregateKind::Max => {
            let column = scan_digits(definition.input, argument, scan)?;
            // A result that 64 bits do not hold would need another state.
            matches!(column, ScanExpression::Column(_)).then_some(())?;
            GroupValue::Extreme { formula: Formula::new(column)?, is_greatest: definition.kind == AggregateKind::Max }
        }
        _ => return None,
    })
}
