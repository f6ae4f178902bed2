//! `DISTINCT` in an aggregate: each value counts once.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use super::aggregate::SharedOneGroup;

/// The state is the list of the values seen, as comparable rows.
pub(super) fn distinct_state_fields(name: &str) -> Vec<FieldRef> {
    let item = Field::new_list_field(DataType::Binary, true);
    vec![Field::new(format!("{name}[distinct]"), DataType::List(item.into()), true).into()]
}

/// Passes every value on to the inner accumulator, but only at its first occurrence.
#[derive(Debug)]
pub(super) struct DistinctAccumulator {
    inner: SharedOneGroup,
    converter: RowConverter,
    seen: HashSet<OwnedRow>,
    bytes: usize,
}

impl DistinctAccumulator {
    pub(super) fn new(inner: SharedOneGroup, types: Vec<DataType>) -> Result<DistinctAccumulator> {
        let fields = types.into_iter().map(SortField::new).collect();
        Ok(DistinctAccumulator { inner, converter: RowConverter::new(fields)?, seen: HashSet::new(), bytes: 0 })
    }

    /// Passes on those of `rows` that are new.
    fn take(&mut self, rows: Vec<OwnedRow>) -> Result<()> {
        let mut fresh = Vec::new();
        for row in rows {
            if self.seen.insert(row.clone()) {
                self.bytes += row.row().as_ref().len() + size_of::<OwnedRow>();
                fresh.push(row);
            }
        }
        if fresh.is_empty() {
            return Ok(());
        }
        let columns = self.converter.convert_rows(fresh.iter().map(|row| row.row()))?;
        self.inner.update_batch(&columns)
    }
}

impl Accumulator for DistinctAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = self.converter.convert_columns(values)?;
        let rows = rows.iter().map(|row| row.owned()).collect();
        self.take(rows)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        let parser = self.converter.parser();
        for list in lists.iter().flatten() {
            let rows: &BinaryArray = list.as_binary();
            let rows = rows.iter().flatten().map(|bytes| parser.parse(bytes).owned()).collect();
            self.take(rows)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let rows = BinaryArray::from_iter_values(self.seen.iter().map(|row| row.row().as_ref().to_vec()));
        let offsets = OffsetBuffer::from_lengths([rows.len()]);
        let item = Field::new_list_field(DataType::Binary, true);
        let list = arrow::array::ListArray::new(item.into(), offsets, Arc::new(rows), None);
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.bytes
    }
}
