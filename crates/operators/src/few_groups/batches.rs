//! Groups as batches of states.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::take;
use datafusion::common::{Result, internal_datafusion_err};

use super::shape::{Set, Shape};
use crate::key_codes::{Chain, Codes};

/// The values of all keys, by their codes.
pub(crate) struct KeyValues {
    values: Vec<ArrayRef>,
    /// As a batch of states gives them.
    shown: Vec<ArrayRef>,
}

/// The codes of a set's groups, for each key that is in the set.
pub(crate) type GroupCodes = Vec<Option<UInt32Array>>;

impl KeyValues {
    /// # Errors
    /// Arrow refuses a column.
    pub(crate) fn of(shape: &Shape, codes: &[Codes]) -> Result<KeyValues> {
        let values = codes.iter().map(Codes::values).collect::<Result<Vec<_>>>()?;
        let shown = shape.keys.iter().zip(&values).map(|(key, values)| key.shown(values)).collect::<Result<_>>()?;
        Ok(KeyValues { values, shown })
    }

    /// The columns of a batch of states that say which groups they are: the keys, and the number of the set.
    ///
    /// # Errors
    /// Arrow refuses a column.
    pub(crate) fn columns(&self, shape: &Shape, set: &Set, chain: &Chain) -> Result<(Vec<ArrayRef>, GroupCodes)> {
        let groups = chain.count();
        let mut codes: GroupCodes = vec![None; shape.keys.len()];
        for (&key, of_key) in chain.columns().iter().zip(chain.codes()) {
            codes[key] = Some(UInt32Array::from(of_key));
        }
        let mut columns = Vec::with_capacity(shape.schema().fields().len());
        for ((key, codes), shown) in shape.keys.iter().zip(&codes).zip(&self.shown) {
            columns.push(match codes {
                Some(codes) => take(shown, codes, None)?,
                None => new_null_array(key.given(), groups),
            });
        }
        if let Some(number) = &set.number {
            columns.push(number.to_array_of_size(groups)?);
        }
        Ok((columns, codes))
    }

    /// The texts of a key, for each group.
    ///
    /// # Errors
    /// The set is without the key.
    pub(crate) fn texts(&self, key: usize, codes: &GroupCodes) -> Result<ArrayRef> {
        let codes = codes[key].as_ref().ok_or_else(|| internal_datafusion_err!("a set without its key"))?;
        Ok(take(&self.values[key], codes, None)?)
    }
}

/// The rows of `batch` in batches of `rows`.
pub(crate) fn cut(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let (count, rows) = (batch.num_rows(), rows.max(1));
    (0..count).step_by(rows).map(move |start| batch.slice(start, rows.min(count - start)))
}
