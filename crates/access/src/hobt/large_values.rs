//! Large values on pages of their own: moved out when a row is inserted, and read back.
//!
//! A value's pages are taken from the last run of large values, and from new runs when that is full. They are written
//! before the row that points to them, and never changed. A statement's undo returns them if no later value follows
//! them in the run. Otherwise they stay unused in their run.
//!
//! Left to others: which values are moved out (`hobt_page::RowLayout::values_to_move_out`), and loads
//! ([`crate::Loader`] writes chains of its own).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{EXTENT_PAGES, PageId, crc32c};
use hobt_buffer::{ReadCounts, ReadOptions};
use hobt_page::{
    LARGE_VALUE_BYTES_MAX, LargeValuePage, PIECE_BYTES_MAX, POINTER_BYTES, PageChange, PageDamage, RowImage, Run,
    RunContents, StoredValue, ValueChecksum, ValuePointer,
};
use hobt_txn::{IoCounts, StatementContext, UndoError};

use super::{Hobt, State};
use crate::AccessError;
use crate::change::Logged;

/// Pages that are read ahead with a value's page.
const READ_AHEAD_MAX: usize = EXTENT_PAGES as usize - 1;
/// The number of pages after which a fetch checks whether the statement was cancelled.
const CANCEL_PAGES: usize = 64;

/// Access to the values that are not in their rows.
pub trait LargeValues {
    /// All bytes of a value. Blocks on reads.
    ///
    /// # Errors
    /// Its chain is damaged or cannot be read, it was not committed and has gone ([`AccessError::DataMoved`]), or the
    /// statement was cancelled.
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError>;

    /// The error for a row page that contradicts itself.
    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError;
}

impl LargeValues for Hobt {
    fn fetch(&self, pointer: &ValuePointer) -> Result<Vec<u8>, AccessError> {
        self.large_value(pointer, None)
    }

    fn damaged(&self, page: PageId, damage: PageDamage) -> AccessError {
        Hobt::damaged(self, page, damage)
    }
}

/// The statement that reads a value.
#[derive(Clone, Copy, Debug)]
pub struct ValueReader<'a> {
    /// The statement.
    pub context: &'a StatementContext,
    /// Where the reads are counted.
    pub counts: &'a IoCounts,
    /// If the row that the value belongs to may be one that is never committed: [`Hobt::retired`] before it was read.
    pub uncommitted_since: Option<u64>,
}

impl Hobt {
    /// All bytes of a value of one of its rows. Blocks on reads.
    ///
    /// # Errors
    /// As [`LargeValues::fetch`].
    pub fn large_value(&self, pointer: &ValuePointer, reader: Option<ValueReader<'_>>) -> Result<Vec<u8>, AccessError> {
        let mut bytes = Vec::new();
        self.for_each_piece(pointer, reader, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Shows a value piece by piece. Its checksum is checked only at the end. Blocks on reads.
    ///
    /// # Errors
    /// As [`LargeValues::fetch`].
    pub fn for_each_piece(
        &self,
        pointer: &ValuePointer,
        reader: Option<ValueReader<'_>>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), AccessError> {
        let counts = ReadCounts::default();
        let walked = self.walk_pieces(pointer, reader, &counts, &mut |_, piece| visit(piece));
        if let Some(reader) = reader {
            let physical = counts.physical.load(Ordering::Relaxed) + counts.read_ahead.load(Ordering::Relaxed);
            reader.counts.lob_logical_reads.fetch_add(counts.logical.load(Ordering::Relaxed), Ordering::Relaxed);
            reader.counts.lob_physical_reads.fetch_add(physical, Ordering::Relaxed);
        }
        match walked {
            // A rollback gives the pages of its values back, and another value or HOBT may have them.
            Err(AccessError::Damaged { .. })
                if reader.and_then(|reader| reader.uncommitted_since).is_some_and(|since| since != self.retired()) =>
            {
                Err(AccessError::DataMoved)
            }
            walked => walked,
        }
    }

    /// Reads a whole value and shows its pages, in order. Blocks on reads.
    ///
    /// # Errors
    /// As [`LargeValues::fetch`]; the pages before a damaged one were shown.
    pub(crate) fn for_each_value_page(
        &self,
        pointer: &ValuePointer,
        visit: &mut dyn FnMut(PageId),
    ) -> Result<(), AccessError> {
        self.walk_pieces(pointer, None, &ReadCounts::default(), &mut |id, _| visit(id))
    }

    fn walk_pieces(
        &self,
        pointer: &ValuePointer,
        reader: Option<ValueReader<'_>>,
        counts: &ReadCounts,
        visit: &mut dyn FnMut(PageId, &[u8]),
    ) -> Result<(), AccessError> {
        let mut checksum = ValueChecksum::default();
        let mut id = pointer.first;
        let pieces = pointer.piece_count();
        for ordinal in 0..pieces {
            if ordinal % CANCEL_PAGES == 0 && reader.is_some_and(|reader| reader.context.is_cancelled()) {
                return Err(AccessError::Cancelled);
            }
            let Some(file) = self.storage.file(id.file).ok().filter(|file| id.number < file.size_pages()) else {
                return Err(self.damaged(id, PageDamage::Structure { rule: "a large value's page that is not there" }));
            };
            let ahead = u32::try_from((pieces - ordinal - 1).min(READ_AHEAD_MAX)).expect("a few");
            // Reads for a statement do not keep pages in the pool.
            let options = ReadOptions { ahead, counts: Some(counts), once: reader.is_some() };
            let page = file.pool_file().read_with(id.number, options);
            let page = page.map_err(|error| AccessError::of_pool(error, file.name()))?;
            let (piece, next) = LargeValuePage::read_piece(&page, self.identity.id, pointer, ordinal)
                .map_err(|damage| self.damaged(id, damage))?;
            checksum.add(piece);
            visit(id, piece);
            id = next;
        }
        if checksum.value() != pointer.checksum {
            let damage = PageDamage::Checksum { expected: pointer.checksum, actual: checksum.value() };
            return Err(self.damaged(pointer.first, damage));
        }
        Ok(())
    }

    /// Writes the values that do not fit a row onto pages of their own. Returns the row as its page stores it, or
    /// `None` if all values fit. Undone with the statement.
    pub(crate) fn move_out(
        self: &Arc<Hobt>,
        context: &StatementContext,
        row: &RowImage,
    ) -> Result<Option<RowImage>, AccessError> {
        if self.identity.rows.fits_in_row(row.variable_bytes(&self.identity.rows)) {
            return Ok(None);
        }
        let length = |column| row.value(column).map_or(0, <[u8]>::len);
        let Some(columns) = self.columns_to_move_out(length) else {
            return Err(AccessError::RowTooLarge { bytes: row.byte_count() });
        };
        let mut stored: Vec<StoredValue<'_>> = (0..row.column_count())
            .map(|column| row.value(column).map_or(StoredValue::Null, StoredValue::InRow))
            .collect();
        for column in columns {
            let value = row.value(column).expect("NULL has no bytes to move out");
            stored[column] = StoredValue::Pointer(self.store_value(context, value)?);
        }
        Ok(Some(RowImage::of_stored(stored)))
    }

    /// The columns whose values are moved out of a row. Columns of a B+tree's key are never moved out.
    pub(crate) fn columns_to_move_out(&self, length: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
        let rows = &self.identity.rows;
        let Some(key) = &self.identity.key else { return rows.values_to_move_out(length) };
        let variable = || (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some());
        let mut bytes = variable().map(&length).fold(0, usize::saturating_add);
        let is_key = |column| key.columns().iter().any(|part| part.column == column);
        let mut columns: Vec<usize> = variable().filter(|&column| !is_key(column)).collect();
        columns.sort_by_key(|&column| (std::cmp::Reverse(length(column)), column));
        let mut out = Vec::new();
        for column in columns {
            if rows.fits_in_row(bytes) {
                break;
            }
            if !(POINTER_BYTES + 1..=LARGE_VALUE_BYTES_MAX).contains(&length(column)) {
                return None;
            }
            bytes = bytes - length(column) + POINTER_BYTES;
            out.push(column);
        }
        rows.fits_in_row(bytes).then_some(out)
    }

    /// Writes a value's chain.
    fn store_value(self: &Arc<Hobt>, context: &StatementContext, value: &[u8]) -> Result<ValuePointer, AccessError> {
        let mut state = self.state_to_change()?;
        let chunks = self.reserve_value_pages(&mut state, context, value.len().div_ceil(PIECE_BYTES_MAX))?;
        let ids: Vec<PageId> = chunks
            .iter()
            .flat_map(|&(index, count)| {
                let run = state.runs[index];
                (run.used_end()..run.used_end() + count).map(move |number| PageId::new(run.first.file, number))
            })
            .collect();
        for ((ordinal, piece), &id) in (0..).zip(value.chunks(PIECE_BYTES_MAX)).zip(&ids) {
            if context.is_cancelled() {
                return Err(AccessError::Cancelled);
            }
            let next = ids.get(ordinal as usize + 1).copied().unwrap_or_default();
            let header = LargeValuePage::header(id, self.storage.database_tag(), self.identity.id, piece, next);
            let (offset, bytes) = LargeValuePage::body(ordinal, piece);
            let file = self.storage.file(id.file)?;
            let mut page =
                file.pool_file().create(id.number).map_err(|error| AccessError::of_pool(error, file.name()))?;
            self.change(&mut page, id, &PageChange::Format { header }, Logged::structure())?;
            self.change(&mut page, id, &PageChange::Write { offset, bytes }, Logged::structure())?;
        }
        for &(index, count) in &chunks {
            let run = state.runs[index];
            let grown = Run { used: run.used + count, ..run };
            self.replace_run(&mut state, index, grown)?;
            let hobt = Arc::clone(self);
            context.on_undo(move || hobt.undo_grow_values(index, grown, count));
        }
        Ok(ValuePointer { length: value.len(), first: ids[0], checksum: crc32c(value) })
    }

    /// Runs with room for `count` pages together, and how many pages of each: the end of the last run, then new runs.
    fn reserve_value_pages(
        self: &Arc<Hobt>,
        state: &mut State,
        context: &StatementContext,
        count: usize,
    ) -> Result<Vec<(usize, u32)>, AccessError> {
        let mut left = u32::try_from(count).expect("a value has fewer bytes");
        let mut chunks = Vec::new();
        if let Some(index) = state.tail(RunContents::LargeValues) {
            let run = state.runs[index];
            let take = (run.page_count - run.used).min(left);
            if take > 0 {
                chunks.push((index, take));
                left -= take;
            }
        }
        while left > 0 {
            let wanted = left.div_ceil(EXTENT_PAGES).max(state.next_value_extents);
            let wanted = wanted.min(self.storage.settings().run_extents_max);
            self.add_run(state, context, RunContents::LargeValues, wanted)?;
            let index = state.runs.len() - 1;
            let take = state.runs[index].page_count.min(left);
            chunks.push((index, take));
            left -= take;
        }
        Ok(chunks)
    }

    fn undo_grow_values(&self, index: usize, grown: Run, count: u32) -> Result<(), UndoError> {
        self.storage.tidy(|| {
            let mut state = self.state.write();
            if state.runs.get(index) != Some(&grown) {
                return Ok(());
            }
            let shrunk = Run { used: grown.used - count, ..grown };
            self.replace_run(&mut state, index, shrunk)
        })
    }
}
