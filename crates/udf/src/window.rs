//! Aggregates over a sliding frame: rows enter at the end and leave at the front.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use hobt_functions::aggregate::Aggregate;

use super::aggregate::OneGroup;

/// Keeps the rows of the frame and computes the aggregate over them again for each result. This is exact for every
/// type, but costs the frame's length for each row.
#[derive(Debug)]
pub(super) struct WindowAccumulator {
    aggregate: Aggregate,
    types: Vec<DataType>,
    /// The rows that entered, in the batches in which they came, each with one array per argument.
    pieces: std::collections::VecDeque<Vec<ArrayRef>>,
}

impl WindowAccumulator {
    pub(super) fn new(aggregate: Aggregate, types: Vec<DataType>) -> WindowAccumulator {
        WindowAccumulator { aggregate, types, pieces: Default::default() }
    }
}

fn one_way() -> DataFusionError {
    DataFusionError::Internal("a sliding window has no state to merge".into())
}

impl Accumulator for WindowAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|array| !array.is_empty()) {
            self.pieces.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = values.first().map_or(0, |array| array.len());
        while leaving > 0 {
            let Some(front) = self.pieces.front_mut() else { return Err(one_way()) };
            let rows = front[0].len();
            if rows <= leaving {
                leaving -= rows;
                self.pieces.pop_front();
            } else {
                for array in front.iter_mut() {
                    *array = array.slice(leaving, rows - leaving);
                }
                leaving = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut accumulator = OneGroup::open(self.aggregate, &self.types)?;
        for piece in &self.pieces {
            accumulator.update_batch(piece)?;
        }
        accumulator.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(one_way())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(one_way())
    }

    fn size(&self) -> usize {
        let rows = self.pieces.iter().flatten().map(|array| array.get_array_memory_size());
        size_of_val(self) + rows.sum::<usize>()
    }
}
