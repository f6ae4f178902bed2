//! The position column of plans: the first column of a plan that changes rows, and the one that a scan or seek makes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, Decimal128Array, RecordBatch};
use arrow::datatypes::Decimal128Type;
use datafusion::common::Result as PlanResult;
use hobt_access::scan::{KeyPlace, KeyPlaces, PlaceVector, RowPlace};
use hobt_access::{AccessError, RowStore};
use hobt_base::{PageId, SqlError};
use hobt_catalog::Table;
use hobt_engine::RowAt;
use hobt_page::RowPage;

use super::scan_exec::array_of;
use hobt_table::place_type;
use hobt_udf::external;

/// The positions of a batch's rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Places<'b> {
    /// In a heap.
    Numbers(&'b Decimal128Array),
    /// In a clustered index.
    Keys(&'b BinaryViewArray),
}

impl<'b> Places<'b> {
    /// The positions in a batch's first column.
    ///
    /// # Errors
    /// It is not a position column.
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Places<'b>, SqlError> {
        let column = batch.columns().first();
        let numbers = column.and_then(|column| column.as_primitive_opt::<Decimal128Type>()).map(Places::Numbers);
        let places = numbers.or_else(|| column.and_then(|column| column.as_binary_view_opt()).map(Places::Keys));
        places.ok_or_else(|| SqlError::internal("rows to change without their places"))
    }

    /// How many rows have no position.
    pub(super) fn null_count(&self) -> usize {
        match self {
            Places::Numbers(numbers) => numbers.null_count(),
            Places::Keys(keys) => keys.null_count(),
        }
    }

    /// Whether a row has a position.
    pub(super) fn is_somewhere(&self, row: usize) -> bool {
        match self {
            Places::Numbers(numbers) => numbers.is_valid(row),
            Places::Keys(keys) => keys.is_valid(row),
        }
    }

    /// The position of a row, if it has one.
    ///
    /// # Errors
    /// The value is not a position.
    pub(super) fn place(&self, row: usize) -> Result<Option<RowAt>, SqlError> {
        if !self.is_somewhere(row) {
            return Ok(None);
        }
        Ok(Some(match self {
            Places::Numbers(numbers) => {
                let RowPlace { partition, page, slot } = RowPlace::of_number(numbers.value(row));
                RowAt::Heap { partition: partition as usize, page, slot }
            }
            Places::Keys(_) => {
                let (partition, key) = self.key(row)?;
                RowAt::Tree { partition, key: key.to_vec() }
            }
        }))
    }

    /// The partition and the key of a clustered index's row.
    ///
    /// # Errors
    /// It is not such a row, or has no position.
    pub(super) fn key(&self, row: usize) -> Result<(usize, &'b [u8]), SqlError> {
        let Places::Keys(keys) = self else { return Err(nowhere()) };
        let place = keys.is_valid(row).then(|| keys.value(row)).ok_or_else(nowhere)?;
        let KeyPlace { partition, key } = KeyPlace::read(place).ok_or_else(nowhere)?;
        Ok((partition as usize, key))
    }

    /// The partition of a row.
    ///
    /// # Errors
    /// It has no position.
    pub(super) fn partition(&self, row: usize) -> Result<usize, SqlError> {
        match self {
            Places::Numbers(_) => self.of_heap(row).map(|place| place.partition as usize),
            Places::Keys(_) => self.key(row).map(|(partition, _)| partition),
        }
    }

    /// The position of a heap's row.
    ///
    /// # Errors
    /// It is not such a row, or has no position.
    pub(super) fn of_heap(&self, row: usize) -> Result<RowPlace, SqlError> {
        let Places::Numbers(numbers) = self else { return Err(nowhere()) };
        numbers.is_valid(row).then(|| RowPlace::of_number(numbers.value(row))).ok_or_else(nowhere)
    }

    /// The position of a row to be changed.
    ///
    /// # Errors
    /// It has no position.
    pub(super) fn row(&self, row: usize) -> Result<RowAt, SqlError> {
        self.place(row)?.ok_or_else(nowhere)
    }
}

/// Collects the positions of a batch's rows.
pub(super) enum PlaceBuilder {
    /// In a heap.
    Numbers(PlaceVector),
    /// In a clustered index.
    Keys(KeyPlaces),
}

impl PlaceBuilder {
    /// An empty builder for rows of `table`.
    pub(super) fn of(table: &Table) -> PlaceBuilder {
        match table.is_clustered() {
            true => PlaceBuilder::Keys(KeyPlaces::new(0)),
            false => PlaceBuilder::Numbers(PlaceVector::default()),
        }
    }

    /// Adds those of a page's live rows, or of the rows in `slots`. The page is of `store`, the table's partition
    /// `partition`.
    ///
    /// # Errors
    /// The page is damaged.
    pub(super) fn append(
        &mut self,
        (partition, store): (usize, &RowStore),
        id: PageId,
        page: &RowPage<'_>,
        slots: Option<&[usize]>,
    ) -> Result<(), AccessError> {
        let tree = || store.tree().expect("a clustered index is a tree");
        match (self, slots) {
            (PlaceBuilder::Numbers(places), None) => places.append_page(partition, id, page),
            (PlaceBuilder::Numbers(places), Some(slots)) => places.append_slots(partition, id, slots),
            (PlaceBuilder::Keys(places), None) => places.append_page(partition, tree(), id, page)?,
            (PlaceBuilder::Keys(places), Some(slots)) => places.append_slots(partition, tree(), id, page, slots)?,
        }
        Ok(())
    }

    /// The positions collected, as a column; the builder is empty afterwards.
    ///
    /// # Errors
    /// Arrow's errors.
    pub(super) fn take(&mut self, table: &Table) -> PlanResult<ArrayRef> {
        match self {
            PlaceBuilder::Numbers(places) => {
                number_array(table, Decimal128Array::new(std::mem::take(&mut places.numbers).into(), None))
            }
            PlaceBuilder::Keys(places) => {
                let next = places.next();
                array_of(&place_type(table), std::mem::replace(places, next).into_vector()).map_err(external)
            }
        }
    }
}

/// Positions in a heap as an array of their numbers.
fn number_array(table: &Table, numbers: impl Into<Decimal128Array>) -> PlanResult<ArrayRef> {
    Ok(Arc::new(numbers.into().with_precision_and_scale(place_type(table).precision(), 0)?))
}

/// The position of one row as a column of a scan.
///
/// # Errors
/// Arrow's errors.
pub(super) fn place_array(table: &Table, at: &RowAt) -> PlanResult<ArrayRef> {
    places_array(table, [Some(at)].into_iter())
}

/// Positions of a table's rows as a column.
///
/// # Errors
/// Arrow's errors.
pub(super) fn places_array<'r>(table: &Table, rows: impl Iterator<Item = Option<&'r RowAt>>) -> PlanResult<ArrayRef> {
    let narrow = |partition: usize| u32::try_from(partition).expect("at most 15,000 partitions");
    if table.is_clustered() {
        let bytes = rows.map(|at| match at {
            Some(RowAt::Tree { partition, key }) => {
                let mut place = Vec::new();
                KeyPlace { partition: narrow(*partition), key }.write(&mut place);
                Some(place)
            }
            _ => None,
        });
        return Ok(Arc::new(bytes.collect::<BinaryViewArray>()));
    }
    let numbers = rows.map(|at| match at {
        Some(RowAt::Heap { partition, page, slot }) => {
            Some(RowPlace { partition: narrow(*partition), page: *page, slot: *slot }.number())
        }
        _ => None,
    });
    number_array(table, numbers.collect::<Vec<Option<i128>>>())
}

fn nowhere() -> SqlError {
    SqlError::internal("a row to change that lies nowhere")
}
