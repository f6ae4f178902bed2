//! `VAR`, `VARP`, `STDEV`, `STDEVP`: count, mean and sum of squared deviations, updated and merged without cancellation
//! (Welford 1962; Chan, Golub, LeVeque 1979).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array};
use arrow::datatypes::{Float64Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::SqlType;

use super::groups::{Groups, Held};
use super::{Aggregate, AggregateKind, Emit, GroupsAccumulator, argument, each_row};
use crate::cast::cast_array;
use crate::error::overflow;

#[derive(Clone, Copy, Default)]
struct Moments {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Held for Moments {}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    fn merge(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        let total = self.count + other.count;
        let delta = other.mean - self.mean;
        self.mean += delta * other.count as f64 / total as f64;
        self.squares += other.squares + delta * delta * self.count as f64 * other.count as f64 / total as f64;
        self.count = total;
    }

    /// NULL if there are too few rows: none for a population, at most one for a sample.
    fn result(self, kind: AggregateKind) -> Option<f64> {
        let sample = matches!(kind, AggregateKind::Var | AggregateKind::Stdev);
        let divisor = self.count - i64::from(sample);
        let variance = (divisor > 0).then(|| self.squares / divisor as f64)?;
        // Rounding may leave it below nothing. A sum that is no number must stay so.
        let variance = if variance < 0.0 { 0.0 } else { variance };
        Some(if matches!(kind, AggregateKind::Stdev | AggregateKind::StdevP) { variance.sqrt() } else { variance })
    }
}

pub(super) struct Variance {
    aggregate: Aggregate,
    groups: Groups<Moments>,
}

impl Variance {
    pub(super) fn new(aggregate: Aggregate) -> Variance {
        Variance { aggregate, groups: Groups::default() }
    }
}

impl GroupsAccumulator for Variance {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.groups.resize(total_groups);
        let wide = cast_array(argument(values)?, self.aggregate.input, SqlType::Float, None, false)?;
        let wide = wide.as_primitive::<Float64Type>();
        let moments = self.groups.as_mut_slice();
        each_row(groups, filter, wide.nulls(), |row, group| moments[group].add(wide.value(row)));
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<(), SqlError> {
        self.groups.resize(total_groups);
        let broken = || SqlError::internal("a variance's state has three columns");
        let [counts, means, squares] = states else {
            return Err(broken());
        };
        let counts = counts.as_primitive_opt::<Int64Type>().ok_or_else(broken)?;
        let means = means.as_primitive_opt::<Float64Type>().ok_or_else(broken)?;
        let squares = squares.as_primitive_opt::<Float64Type>().ok_or_else(broken)?;
        let moments = self.groups.as_mut_slice();
        each_row(groups, filter, counts.nulls(), |row, group| {
            let partial = Moments { count: counts.value(row), mean: means.value(row), squares: squares.value(row) };
            moments[group].merge(partial);
        });
        Ok(())
    }

    fn evaluate(&mut self, emit: Emit) -> Result<ArrayRef, SqlError> {
        let kind = self.aggregate.kind;
        let results = self.groups.take(emit).into_iter().map(|moments| moments.result(kind));
        let results: Vec<Option<f64>> = results.collect();
        if results.iter().flatten().any(|result| !result.is_finite()) {
            return Err(overflow(self.aggregate.result));
        }
        Ok(Arc::new(Float64Array::from(results)))
    }

    fn state(&mut self, emit: Emit) -> Result<Vec<ArrayRef>, SqlError> {
        let groups = self.groups.take(emit);
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(groups.iter().map(|moments| moments.count))),
            Arc::new(Float64Array::from_iter_values(groups.iter().map(|moments| moments.mean))),
            Arc::new(Float64Array::from_iter_values(groups.iter().map(|moments| moments.squares))),
        ])
    }

    fn size(&self) -> usize {
        self.groups.size()
    }
}
