//! Where the rows lie that a statement changes, as the first column of its plan says it.

use arrow::array::{Array, AsArray, BinaryViewArray, Decimal128Array, RecordBatch};
use arrow::datatypes::Decimal128Type;
use hobt_access::scan::RowPlace;
use hobt_base::SqlError;
use hobt_engine::RowAt;

/// Bytes before the key in the place of a clustered index's row: its partition.
const PARTITION_BYTES: usize = 4;

/// The places of a batch's rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Places<'b> {
    /// Of a heap.
    Numbers(&'b Decimal128Array),
    /// Of a clustered index.
    Keys(&'b BinaryViewArray),
}

/// One row's place, to be compared with others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// In a heap, see [`RowPlace::number`].
    Number(i128),
    /// In a clustered index: partition and key.
    Key(Box<[u8]>),
}

impl<'b> Places<'b> {
    /// The places in a batch's first column.
    ///
    /// # Errors
    /// It has none.
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Places<'b>, SqlError> {
        let column = batch.columns().first();
        let numbers = column.and_then(|column| column.as_primitive_opt::<Decimal128Type>()).map(Places::Numbers);
        let places = numbers.or_else(|| column.and_then(|column| column.as_binary_view_opt()).map(Places::Keys));
        places.ok_or_else(|| SqlError::internal("rows to change without their places"))
    }

    /// How many rows lie nowhere.
    pub(super) fn null_count(&self) -> usize {
        match self {
            Places::Numbers(numbers) => numbers.null_count(),
            Places::Keys(keys) => keys.null_count(),
        }
    }

    /// Whether a row lies anywhere.
    pub(super) fn is_somewhere(&self, row: usize) -> bool {
        match self {
            Places::Numbers(numbers) => numbers.is_valid(row),
            Places::Keys(keys) => keys.is_valid(row),
        }
    }

    /// The place of a row, if it lies anywhere.
    pub(super) fn place(&self, row: usize) -> Option<Place> {
        match self {
            Places::Numbers(numbers) => numbers.is_valid(row).then(|| Place::Number(numbers.value(row))),
            Places::Keys(keys) => keys.is_valid(row).then(|| Place::Key(keys.value(row).into())),
        }
    }

    /// Where a row is, for who changes it.
    ///
    /// # Errors
    /// It lies nowhere.
    pub(super) fn row(&self, row: usize) -> Result<RowAt, SqlError> {
        let nowhere = || SqlError::internal("a row to change that lies nowhere");
        match self.place(row).ok_or_else(nowhere)? {
            Place::Number(number) => {
                let RowPlace { partition, page, slot } = RowPlace::of_number(number);
                Ok(RowAt::Heap { partition: partition as usize, page, slot })
            }
            Place::Key(place) => {
                let (partition, key) = place.split_first_chunk::<PARTITION_BYTES>().ok_or_else(nowhere)?;
                Ok(RowAt::Tree { partition: u32::from_be_bytes(*partition) as usize, key: key.to_vec() })
            }
        }
    }
}
