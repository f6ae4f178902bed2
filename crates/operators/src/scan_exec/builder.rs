//! The rows of a scan's next batch.
//!
//! A page's rows are taken at once, unless values of theirs are on pages of their own. These may be long, so that a
//! batch ends within the page. Its other rows are taken later from a copy, and no latch is held meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use hobt_access::scan::{ColumnVector, PageVisitor, Scan, ShownPage, VectorData};
use hobt_access::{AccessError, LargeValues};
use hobt_base::PageId;
use hobt_page::{PageBytes, PageDamage, RowPage, StoredValue};

use crate::join_filter::{Kept, Sieve};
use crate::places::PlaceBuilder;

/// About how many values of a column are in a cache line: if one of so many rows is wanted, most lines are.
const ROWS_OF_LINE: usize = 16;

pub(super) struct BatchBuilder {
    pub(super) columns: Vec<ColumnVector>,
    /// The index of the position column in a batch, and the rows' positions, if they are read.
    pub(super) places: Option<(usize, PlaceBuilder)>,
    /// The partitions that are scanned, by their positions in the table.
    pub(super) partitions: Arc<[usize]>,
    pub(super) rows: usize,
    /// Rows of the last page.
    pub(super) page_rows: usize,
    /// Pages of which some rows are still to be taken.
    pub(super) rests: VecDeque<Rest>,
    /// The limits of a batch. One page's rows may exceed them, or one row's values.
    pub(super) rows_max: usize,
    pub(super) bytes_max: usize,
    pub(super) scan: Arc<Scan>,
    /// The filters that leave rows out, if any.
    pub(super) sieve: Option<Sieve>,
}

/// The rows of a page that are still to be taken.
pub(super) struct Rest {
    partition: usize,
    id: PageId,
    page: Box<PageBytes>,
    slots: Vec<usize>,
    /// The first of the slots that was not taken.
    next: usize,
}

impl BatchBuilder {
    /// Whether a page has rows that are still to be taken.
    pub(super) fn has_rest(&self) -> bool {
        !self.rests.is_empty()
    }

    /// Takes such rows until the batch is full. Blocks on reads.
    ///
    /// # Errors
    /// A value cannot be fetched, or the statement was cancelled.
    pub(super) fn take_rest(&mut self) -> Result<(), AccessError> {
        while let Some(mut rest) = self.rests.pop_front() {
            let scan = Arc::clone(&self.scan);
            let page = RowPage::open(&rest.page, scan.row_layout()).expect("it was opened before");
            let shown = ShownPage { partition: rest.partition, id: rest.id, page: &page, next: None };
            rest.next += self.take_some(shown, &rest.slots[rest.next..])?;
            if rest.next < rest.slots.len() {
                self.rests.push_front(rest);
                break;
            }
        }
        Ok(())
    }

    /// Takes the wanted rows of a page, or as many of them as there is room for.
    fn take_kept(&mut self, shown: ShownPage<'_, '_>, kept: &Kept<'_>) -> Result<(), AccessError> {
        let ShownPage { partition, id, page, .. } = shown;
        if !reads_pointers(page, self.columns.iter()) {
            return match kept {
                Kept::All => self.take_page(shown),
                Kept::Slots(slots) => {
                    self.page_rows = slots.len();
                    if slots.is_empty() { Ok(()) } else { self.take_slots(shown, slots) }
                }
            };
        }
        let slots: Vec<usize> = match kept {
            Kept::All => (0..page.row_count()).filter(|&slot| !page.is_deleted(slot)).collect(),
            Kept::Slots(slots) => slots.to_vec(),
        };
        self.page_rows = slots.len();
        let next = if self.has_rest() { 0 } else { self.take_some(shown, &slots)? };
        if next < slots.len() {
            self.rests.push_back(Rest { partition, id, page: Box::new(*page.bytes()), slots, next });
        }
        Ok(())
    }

    /// Takes all rows of a page.
    fn take_page(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError> {
        let ShownPage { partition, id, page, next } = shown;
        // Borrowed rather than cloned: two workers that change its reference count at each page would wait for each
        // other.
        let values = self.scan.large_values(partition);
        self.page_rows = page.row_count() - page.deleted_count();
        self.rows += self.page_rows;
        for column in &mut self.columns {
            if let Some(next) = next {
                next.fetch(page, column.column);
            }
            column.append_page(id, page, &values)?;
        }
        self.note_places(shown, None)
    }

    /// Takes the rows in `slots`.
    fn take_slots(&mut self, shown: ShownPage<'_, '_>, slots: &[usize]) -> Result<(), AccessError> {
        let values = self.scan.large_values(shown.partition);
        self.rows += slots.len();
        for column in &mut self.columns {
            column.append_slots(shown.id, shown.page, slots, &values)?;
        }
        self.note_places(shown, Some(slots))
    }

    /// Collects the positions of all live rows of a page, or of those in `slots`, if they are read.
    fn note_places(&mut self, shown: ShownPage<'_, '_>, slots: Option<&[usize]>) -> Result<(), AccessError> {
        let Some((_, places)) = &mut self.places else { return Ok(()) };
        let store = &self.scan.partitions()[shown.partition].store;
        places.append((self.partitions[shown.partition], store), shown.id, shown.page, slots)
    }

    /// Takes rows until the batch has enough bytes; returns how many.
    fn take_some(&mut self, shown: ShownPage<'_, '_>, slots: &[usize]) -> Result<usize, AccessError> {
        let taken = fitting(shown.page, self.columns.iter(), slots, self.bytes_max);
        let taken = taken.map_err(|damage| self.scan.large_values(shown.partition).damaged(shown.id, damage))?;
        if taken > 0 {
            self.take_slots(shown, &slots[..taken])?;
        }
        Ok(taken)
    }

    fn is_long(&self) -> bool {
        self.columns.iter().map(ColumnVector::value_bytes).sum::<usize>() >= self.bytes_max
    }
}

/// Whether a page has values of these columns that are not in their rows.
pub(crate) fn reads_pointers<'c>(page: &RowPage<'_>, mut columns: impl Iterator<Item = &'c ColumnVector>) -> bool {
    page.has_pointers() && columns.any(|column| matches!(column.data, VectorData::Views { .. }))
}

/// How many of the rows in `slots` it takes until texts and binary values of the columns have `bytes_max` bytes. The
/// last row may exceed that.
///
/// # Errors
/// The page contradicts itself.
pub(crate) fn fitting<'c>(
    page: &RowPage<'_>,
    columns: impl Iterator<Item = &'c ColumnVector>,
    slots: &[usize],
    bytes_max: usize,
) -> Result<usize, PageDamage> {
    let columns: Vec<_> = columns.filter(|column| matches!(column.data, VectorData::Views { .. })).collect();
    let mut bytes: usize = columns.iter().map(|column| column.value_bytes()).sum();
    for (taken, &slot) in slots.iter().enumerate() {
        if bytes >= bytes_max {
            return Ok(taken);
        }
        for column in &columns {
            bytes = bytes.saturating_add(match page.stored(column.column, slot)? {
                StoredValue::Null => 0,
                StoredValue::InRow(value) => value.len(),
                StoredValue::Pointer(pointer) => pointer.length,
            });
        }
    }
    Ok(slots.len())
}

impl PageVisitor for BatchBuilder {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError> {
        let ShownPage { partition, id, page, next } = shown;
        // Taken out so that the rows that it selects, which it owns, can be read meanwhile.
        let Some(mut sieve) = self.sieve.take() else { return self.take_kept(shown, &Kept::All) };
        if let Some(next) = next {
            sieve.first_columns().for_each(|column| next.fetch(page, column));
            if self.page_rows * ROWS_OF_LINE >= page.row_count() {
                self.columns.iter().for_each(|column| next.fetch(page, column.column));
            }
        }
        let kept = sieve.select(id, page, &self.scan.large_values(partition));
        let taken = kept.and_then(|kept| self.take_kept(shown, &kept));
        self.sieve = Some(sieve);
        taken
    }

    fn is_full(&self) -> bool {
        self.rows + self.page_rows > self.rows_max || self.has_rest() || self.is_long()
    }
}
