//! The values of groups so far.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array};
use datafusion::common::{Result, internal_datafusion_err};
use hobt_access::scan::{Formula, PageRows};
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_functions::values_to_array;
use hobt_page::RowPage;
use hobt_types::Value;
use hobt_udf::external;

use super::shape::GroupValue;

/// A value of each group, for one of [`GroupValue`].
pub(super) enum State {
    Rows(Vec<i64>),
    Values(usize, Vec<i64>),
    Sum { formula: Formula, sums: Vec<i128>, counts: Vec<i64> },
    Extreme { formula: Formula, is_greatest: bool, best: Vec<Option<i64>> },
}

/// Memory that is used again for each page.
#[derive(Default)]
pub(super) struct Scratch {
    numbers: Vec<i64>,
    valid: Vec<bool>,
}

impl State {
    pub(super) fn of(value: &GroupValue) -> State {
        match value {
            GroupValue::Rows => State::Rows(Vec::new()),
            GroupValue::Values(column) => State::Values(*column, Vec::new()),
            GroupValue::Sum(formula) => State::Sum { formula: formula.clone(), sums: Vec::new(), counts: Vec::new() },
            GroupValue::Extreme { formula, is_greatest } => {
                State::Extreme { formula: formula.clone(), is_greatest: *is_greatest, best: Vec::new() }
            }
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            State::Rows(counts) | State::Values(_, counts) => 8 * counts.capacity(),
            State::Sum { sums, counts, .. } => 16 * sums.capacity() + 8 * counts.capacity(),
            State::Extreme { best, .. } => 16 * best.capacity(),
        }
    }

    /// Makes room for so many groups.
    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            State::Rows(counts) | State::Values(_, counts) => counts.resize(groups, 0),
            State::Sum { sums, counts, .. } => {
                sums.resize(groups, 0);
                counts.resize(groups, 0);
            }
            State::Extreme { best, .. } => best.resize(groups, None),
        }
    }

    /// Adds rows of a page, each to its group. `false` if a sum is beyond 128 bits.
    pub(super) fn add(
        &mut self,
        (page, rows): (&RowPage<'_>, PageRows<'_>),
        groups: &[u32],
        scratch: &mut Scratch,
    ) -> bool {
        let Scratch { numbers, valid } = scratch;
        match self {
            State::Rows(counts) => {
                groups.iter().for_each(|group| counts[*group as usize] += 1);
                true
            }
            State::Values(column, counts) => {
                let is_valid = |slot: usize| i64::from(!page.is_null(*column, slot));
                groups.iter().zip(rows.slots()).for_each(|(group, slot)| counts[*group as usize] += is_valid(slot));
                true
            }
            State::Sum { formula, sums, counts } => {
                let has_nulls = formula.read_valid(page, rows, valid);
                if !formula.read(page, rows, numbers) {
                    return add_wide(formula, (page, rows), groups, has_nulls.then_some(valid), (sums, counts));
                }
                if has_nulls {
                    for ((group, number), valid) in groups.iter().zip(&*numbers).zip(&*valid) {
                        sums[*group as usize] += i128::from(*number) * i128::from(*valid);
                        counts[*group as usize] += i64::from(*valid);
                    }
                } else {
                    for (group, number) in groups.iter().zip(&*numbers) {
                        sums[*group as usize] += i128::from(*number);
                        counts[*group as usize] += 1;
                    }
                }
                true
            }
            State::Extreme { formula, is_greatest, best } => {
                let has_nulls = formula.read_valid(page, rows, valid);
                // A formula that is one column fits.
                let fits = formula.read(page, rows, numbers);
                for (row, (group, number)) in groups.iter().zip(&*numbers).enumerate() {
                    let best = &mut best[*group as usize];
                    let is_better = best.is_none_or(|best| if *is_greatest { *number > best } else { *number < best });
                    if is_better && (!has_nulls || valid[row]) {
                        *best = Some(*number);
                    }
                }
                fits
            }
        }
    }

    /// The state arrays of an aggregate, as crate `functions` defines them.
    pub(super) fn arrays(&self, definition: &Aggregate) -> Result<Vec<ArrayRef>> {
        let counted = |counts: &Vec<i64>| Arc::new(Int64Array::from(counts.clone())) as ArrayRef;
        Ok(match (self, definition.kind) {
            (State::Rows(counts) | State::Values(_, counts), AggregateKind::Count | AggregateKind::CountBig) => {
                vec![counted(counts)]
            }
            (State::Sum { sums, counts, .. }, AggregateKind::Sum | AggregateKind::Avg) => {
                let sums = Decimal128Array::from(sums.clone()).with_precision_and_scale(38, 0)?;
                vec![Arc::new(sums), counted(counts)]
            }
            (State::Extreme { best, .. }, AggregateKind::Min | AggregateKind::Max) => {
                let values: Vec<Value> = best.iter().map(|best| best.map_or(Value::Null, Value::Int)).collect();
                vec![values_to_array(values.iter(), definition.input).map_err(external)?]
            }
            _ => return Err(internal_datafusion_err!("the state of another aggregate")),
        })
    }
}

/// Adds rows of which one is not a number of 64 bits.
#[cold]
fn add_wide(
    formula: &Formula,
    (page, rows): (&RowPage<'_>, PageRows<'_>),
    groups: &[u32],
    valid: Option<&mut Vec<bool>>,
    (sums, counts): (&mut [i128], &mut [i64]),
) -> bool {
    for (row, (group, slot)) in groups.iter().zip(rows.slots()).enumerate() {
        if valid.as_ref().is_some_and(|valid| !valid[row]) {
            continue;
        }
        let group = *group as usize;
        let Some(sum) = formula.wide(page, slot).and_then(|number| sums[group].checked_add(number)) else {
            return false;
        };
        sums[group] = sum;
        counts[group] += 1;
    }
    true
}
