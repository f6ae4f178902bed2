//! The foreign key values of the rows that a statement writes.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use hobt_base::SqlError;
use hobt_table::StatementRun;
use parking_lot::Mutex;

use crate::held::HeldBatches;

/// The foreign key values of new rows: for each key its columns in their order, batch by batch.
#[derive(Debug)]
pub struct NewKeys {
    run: Arc<StatementRun>,
    /// The positions of each key's columns.
    keys: Vec<Vec<usize>>,
    taken: Vec<Mutex<HeldBatches>>,
}

impl NewKeys {
    /// No values yet, for keys over these columns.
    pub fn new(run: &Arc<StatementRun>, keys: Vec<Vec<usize>>) -> NewKeys {
        let taken = keys.iter().map(|_| Mutex::new(HeldBatches::new(run))).collect();
        NewKeys { run: Arc::clone(run), keys, taken }
    }

    /// Takes the values of a key collected so far.
    pub fn take(&self, key: usize) -> HeldBatches {
        std::mem::replace(&mut self.taken[key].lock(), HeldBatches::new(&self.run))
    }

    /// Notes the values of rows with these columns; `changed` are the columns that change, `None` for new rows.
    ///
    /// # Errors
    /// 5123, 1105 and 823 of a spill file.
    pub(crate) fn note(&self, columns: &[ArrayRef], changed: Option<&[usize]>) -> Result<(), SqlError> {
        for (places, taken) in self.keys.iter().zip(&self.taken) {
            if changed.is_none_or(|changed| places.iter().any(|place| changed.contains(place))) {
                let values =
                    places.iter().enumerate().map(|(at, &place)| (format!("c{at}"), Arc::clone(&columns[place]), true));
                let batch = RecordBatch::try_from_iter_with_nullable(values);
                taken.lock().keep(batch.map_err(|error| SqlError::internal(error.to_string()))?)?;
            }
        }
        Ok(())
    }
}
