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

/// Up to so many groups have their sums in [`LANES`] parts.
const FEW_GROUPS: usize = 32;
/// Rows of one group that follow each other are added to different parts, so that none waits for the one before.
const LANES: usize = 4;

/// Sums of numbers of 64 bits, by group.
#[derive(Default)]
pub(super) struct Sums {
    /// [`LANES`] or one for each group: what came since the last time that it was added to `sums`.
    lanes: Vec<i64>,
    /// What no lane is beyond, with either sign.
    reach: u64,
    sums: Vec<i128>,
}

impl Sums {
    fn resize(&mut self, groups: usize) {
        let before = self.sums.len();
        if groups == before {
            return;
        }
        if before <= FEW_GROUPS && groups > FEW_GROUPS {
            self.flush();
            self.lanes.clear();
        }
        self.lanes.resize(if groups <= FEW_GROUPS { groups * LANES } else { groups }, 0);
        self.sums.resize(groups, 0);
    }

    /// Adds what is in the lanes to the sums.
    fn flush(&mut self) {
        let width = if self.sums.len() <= FEW_GROUPS { LANES } else { 1 };
        for (sum, lanes) in self.sums.iter_mut().zip(self.lanes.chunks_mut(width)) {
            *sum += lanes.iter().map(|lane| i128::from(*lane)).sum::<i128>();
            lanes.fill(0);
        }
        self.reach = 0;
    }

    fn add(&mut self, groups: &[u32], numbers: &[i64]) {
        // All bits of all numbers, negative ones complemented: at least the greatest of them.
        let bits = numbers.iter().fold(0, |bits, number| bits | (number ^ (number >> 63)));
        let more = (bits.cast_unsigned() + 1).saturating_mul(numbers.len() as u64);
        if self.reach.saturating_add(more) > i64::MAX.cast_unsigned() {
            self.flush();
        }
        if more > i64::MAX.cast_unsigned() {
            groups.iter().zip(numbers).for_each(|(group, number)| self.sums[*group as usize] += i128::from(*number));
            return;
        }
        self.reach += more;
        add_to_lanes(&mut self.lanes, self.sums.len(), groups, |row| numbers[row]);
    }

    fn bytes(&self) -> usize {
        8 * self.lanes.capacity() + 16 * self.sums.capacity()
    }
}

/// Adds a number of each row to its group.
#[inline(always)]
fn add_to_lanes(lanes: &mut [i64], count: usize, groups: &[u32], number: impl Fn(usize) -> i64) {
    if count > FEW_GROUPS {
        groups.iter().enumerate().for_each(|(row, group)| lanes[*group as usize] += number(row));
        return;
    }
    let (whole, rest) = groups.as_chunks::<LANES>();
    for (at, chunk) in whole.iter().enumerate() {
        for (lane, group) in chunk.iter().enumerate() {
            lanes[*group as usize * LANES + lane] += number(at * LANES + lane);
        }
    }
    let before = whole.len() * LANES;
    rest.iter().enumerate().for_each(|(at, group)| lanes[*group as usize * LANES] += number(before + at));
}

/// The rows of each group.
#[derive(Default)]
pub(super) struct RowCounts {
    lanes: Vec<i64>,
    groups: usize,
}

impl RowCounts {
    pub(super) fn resize(&mut self, groups: usize) {
        if self.groups <= FEW_GROUPS && groups > FEW_GROUPS {
            self.lanes = self.counts();
        }
        self.groups = groups;
        self.lanes.resize(if groups <= FEW_GROUPS { groups * LANES } else { groups }, 0);
    }

    pub(super) fn add(&mut self, groups: &[u32]) {
        add_to_lanes(&mut self.lanes, self.groups, groups, |_| 1);
    }

    /// By group.
    pub(super) fn counts(&self) -> Vec<i64> {
        let width = if self.groups <= FEW_GROUPS { LANES } else { 1 };
        self.lanes.chunks(width).map(|lanes| lanes.iter().sum()).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        8 * self.lanes.capacity()
    }
}

/// A value of each group, for one of [`GroupValue`].
pub(super) enum State {
    /// How many rows a group has: [`RowCounts`].
    Rows,
    /// The rows with a value in a column are those that are not NULL.
    Values {
        column: usize,
        nulls: Vec<i64>,
    },
    /// The sum of a formula, and how many rows of a group it has no value for.
    Sum {
        formula: Formula,
        sums: Sums,
        nulls: Vec<i64>,
    },
    Extreme {
        formula: Formula,
        is_greatest: bool,
        best: Vec<Option<i64>>,
    },
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
            GroupValue::Rows => State::Rows,
            GroupValue::Values(column) => State::Values { column: *column, nulls: Vec::new() },
            GroupValue::Sum(formula) => {
                State::Sum { formula: formula.clone(), sums: Sums::default(), nulls: Vec::new() }
            }
            GroupValue::Extreme { formula, is_greatest } => {
                State::Extreme { formula: formula.clone(), is_greatest: *is_greatest, best: Vec::new() }
            }
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            State::Rows => 0,
            State::Values { nulls, .. } => 8 * nulls.capacity(),
            State::Sum { sums, nulls, .. } => sums.bytes() + 8 * nulls.capacity(),
            State::Extreme { best, .. } => 16 * best.capacity(),
        }
    }

    /// Makes room for so many groups.
    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            State::Rows => {}
            State::Values { nulls, .. } => nulls.resize(groups, 0),
            State::Sum { sums, nulls, .. } => {
                sums.resize(groups);
                nulls.resize(groups, 0);
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
            State::Rows => true,
            State::Values { column, nulls } => {
                if page.null_count(*column) > 0 {
                    let is_null = |slot: usize| i64::from(page.is_null(*column, slot));
                    groups.iter().zip(rows.slots()).for_each(|(group, slot)| nulls[*group as usize] += is_null(slot));
                }
                true
            }
            State::Sum { formula, sums, nulls } => {
                let has_nulls = formula.read_valid(page, rows, valid);
                if !formula.read(page, rows, numbers) {
                    return add_wide(
                        formula,
                        (page, rows),
                        groups,
                        has_nulls.then_some(valid),
                        (&mut sums.sums, nulls),
                    );
                }
                if has_nulls {
                    for ((group, number), valid) in groups.iter().zip(&mut *numbers).zip(&*valid) {
                        *number *= i64::from(*valid);
                        nulls[*group as usize] += i64::from(!*valid);
                    }
                }
                sums.add(groups, numbers);
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

    /// The state arrays of an aggregate, as crate `functions` defines them. `rows` are those of each group.
    pub(super) fn arrays(&mut self, definition: &Aggregate, rows: &[i64]) -> Result<Vec<ArrayRef>> {
        let counted = |nulls: &[i64]| {
            let counts = rows.iter().zip(nulls).map(|(rows, nulls)| rows - nulls);
            Arc::new(Int64Array::from_iter_values(counts)) as ArrayRef
        };
        Ok(match (self, definition.kind) {
            (State::Rows, AggregateKind::Count | AggregateKind::CountBig) => {
                vec![Arc::new(Int64Array::from(rows.to_vec()))]
            }
            (State::Values { nulls, .. }, AggregateKind::Count | AggregateKind::CountBig) => vec![counted(nulls)],
            (State::Sum { sums, nulls, .. }, AggregateKind::Sum | AggregateKind::Avg) => {
                sums.flush();
                let sums = Decimal128Array::from(sums.sums.clone()).with_precision_and_scale(38, 0)?;
                vec![Arc::new(sums), counted(nulls)]
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
    (sums, nulls): (&mut [i128], &mut [i64]),
) -> bool {
    for (row, (group, slot)) in groups.iter().zip(rows.slots()).enumerate() {
        let group = *group as usize;
        if valid.as_ref().is_some_and(|valid| !valid[row]) {
            nulls[group] += 1;
            continue;
        }
        let Some(sum) = formula.wide(page, slot).and_then(|number| sums[group].checked_add(number)) else {
            return false;
        };
        sums[group] = sum;
    }
    true
}
