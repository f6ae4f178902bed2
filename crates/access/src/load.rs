//! Bulk insert: pages built in private memory, written straight into runs of the loader's own.
//!
//! Each worker of a parallel insert has one loader for each target partition. A loader fills pages in table order. Its
//! `RunWriter` writes them, with a few writes in flight, and allocates ever longer runs. Values that do not fit their
//! rows are written first, as chains of pages in runs of their own. Nothing that a loader writes is visible before
//! [`crate::Hobt::publish`]. If the statement fails, its runs are freed.

mod run_writer;

use std::sync::Arc;

use hobt_base::{PageId, crc32c};
use hobt_page::{
    BulkColumn, BulkPageBuilder, LargeValuePage, PIECE_BYTES_MAX, POINTER_BYTES, PageHeader, PageType, Run,
    RunContents, ValidityBits, ValuePointer,
};
use hobt_txn::StatementContext;

pub(crate) use self::run_writer::RunWriter;
use crate::btree::{BTreeError, LeafChain};
use crate::{AccessError, Hobt};

/// One column of a batch to load.
#[derive(Clone, Debug)]
pub struct LoadColumn<'a> {
    /// The values.
    pub values: LoadValues<'a>,
    /// Which rows have a value; `None` if all have one.
    pub validity: Option<ValidityBits<'a>>,
}

/// A column's values.
#[derive(Clone, Debug)]
pub enum LoadValues<'a> {
    /// `rows × width` bytes, little-endian, in the column's physical form.
    Fixed(&'a [u8]),
    /// One slice for each row; empty for NULL.
    Variable(Vec<&'a [u8]>),
}

/// The result of a loader.
#[derive(Debug, Default)]
pub struct LoadedRuns {
    /// Its runs, in order.
    pub runs: Vec<Run>,
    /// The rows in them.
    pub rows: u64,
}

/// Rows that do not fill a page yet, by column.
#[derive(Debug, Default)]
struct Staged {
    rows: usize,
    columns: Vec<StagedColumn>,
    variable_bytes: usize,
}

#[derive(Debug, Default)]
struct StagedColumn {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Which values of variable length are pointers.
    pointers: Vec<bool>,
    validity: Vec<u8>,
    nulls: usize,
}

/// A batch whose values all fit their rows, or are pointers.
#[derive(Clone, Copy)]
struct Batch<'a> {
    rows: usize,
    columns: &'a [LoadColumn<'a>],
    /// For each column which of its values are pointers; empty if there are none.
    pointers: &'a [Vec<bool>],
    /// The variable bytes of each row.
    variable_bytes: &'a [u32],
}

impl Batch<'_> {
    /// Whether a value is a pointer.
    fn is_pointer(&self, column: usize, row: usize) -> bool {
        self.pointers[column].get(row).copied().unwrap_or(false)
    }
}

/// Builds and writes pages of one HOBT for one worker.
pub struct Loader {
    hobt: Arc<Hobt>,
    context: Arc<StatementContext>,
    staged: Staged,
    writer: RunWriter,
    /// Created for the first value that does not fit its row.
    value_writer: Option<RunWriter>,
    /// Set for a B+tree's loader, whose pages are leaves, in order and linked.
    chain: Option<LeafChain>,
    /// Whether the page to be written is the last one.
    is_last_page: bool,
    row_count: u64,
    /// An error occurred: what is staged or written is incomplete.
    failed: bool,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("hobt", &self.hobt.id()).field("rows", &self.row_count).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader into `hobt` that has written nothing yet.
    pub fn new(hobt: Arc<Hobt>, context: Arc<StatementContext>) -> Loader {
        let columns = hobt.row_layout().columns().len();
        Loader {
            writer: RunWriter::new(Arc::clone(&hobt), Arc::clone(&context), RunContents::Rows),
            value_writer: None,
            hobt,
            context,
            staged: Staged { columns: (0..columns).map(|_| StagedColumn::default()).collect(), ..Staged::default() },
            chain: None,
            is_last_page: false,
            row_count: 0,
            failed: false,
        }
    }

    /// A loader of a B+tree's leaves.
    pub(crate) fn of_tree(hobt: Arc<Hobt>, context: Arc<StatementContext>, chain: LeafChain) -> Loader {
        Loader { chain: Some(chain), ..Loader::new(hobt, context) }
    }

    /// Why the tree refuses the rows, if that was the cause of an error.
    pub(crate) fn refusal(&mut self) -> Option<BTreeError> {
        self.chain.as_mut().and_then(LeafChain::refusal)
    }

    /// As [`Loader::finish`], and returns the levels above the leaves.
    pub(crate) fn finish_tree(mut self) -> Result<(Result<LoadedRuns, AccessError>, LeafChain), AccessError> {
        let loaded = self.finish_pages();
        Ok((loaded, self.chain.take().expect("a loader of leaves")))
    }

    /// How many of the rows with these variable bytes fit a page after `rows` other rows with `bytes` variable bytes; 0
    /// if not even one fits an empty page.
    fn rows_that_fit(&self, builder: &BulkPageBuilder<'_>, rows: usize, bytes: usize, variable_bytes: &[u32]) -> usize {
        let room = builder.rows_that_fit_behind(rows, bytes, variable_bytes);
        let Some(leaf_bytes) = self.chain.as_ref().and_then(LeafChain::leaf_bytes) else { return room };
        let layout = self.hobt.row_layout();
        let (mut count, mut bytes) = (0, bytes);
        for &variable in &variable_bytes[..room] {
            bytes += variable as usize;
            if rows + count > 0 && layout.page_bytes_bound(rows + count + 1, bytes) > leaf_bytes {
                break;
            }
            count += 1;
        }
        count
    }

    /// Adds `rows` rows. Blocks when too many writes are in flight.
    ///
    /// # Errors
    /// A row is larger than a page even without its large values, the filegroup is full, the device fails, or the
    /// statement is cancelled.
    ///
    /// # Panics
    /// If the columns do not have the table's shape, or a NOT NULL column has a NULL: the caller checks both.
    pub fn append(&mut self, rows: usize, columns: &[LoadColumn<'_>]) -> Result<(), AccessError> {
        assert_eq!(columns.len(), self.hobt.row_layout().columns().len(), "a batch of this table");
        self.expect_sound()?;
        if rows == 0 {
            return Ok(());
        }
        let appended = self.append_rows(rows, columns);
        self.failed = appended.is_err();
        appended
    }

    /// After an error some of the rows are lost. The others must not be published without them.
    fn expect_sound(&self) -> Result<(), AccessError> {
        if self.failed {
            return Err(AccessError::Closed("the load has failed before; undo its statement".to_owned()));
        }
        Ok(())
    }

    fn append_rows(&mut self, rows: usize, columns: &[LoadColumn<'_>]) -> Result<(), AccessError> {
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        let variable_bytes = variable_bytes(rows, columns);
        let layout = self.hobt.row_layout();
        let most = variable_bytes.iter().copied().max().unwrap_or(0) as usize;
        if !layout.fits_in_row(most) {
            return self.append_long(rows, columns, variable_bytes);
        }
        let pointers = vec![Vec::new(); columns.len()];
        self.append_batch(Batch { rows, columns, pointers: &pointers, variable_bytes: &variable_bytes })
    }

    /// Adds rows some of which have values that do not fit.
    fn append_long(
        &mut self,
        rows: usize,
        columns: &[LoadColumn<'_>],
        mut variable_bytes: Vec<u32>,
    ) -> Result<(), AccessError> {
        let layout = Arc::clone(self.hobt.row_layout());
        let value = |column: usize, row: usize| match &columns[column].values {
            LoadValues::Fixed(_) => &[][..],
            LoadValues::Variable(values) => values[row],
        };
        let mut moved: Vec<(usize, usize, [u8; POINTER_BYTES])> = Vec::new();
        for (row, bytes) in variable_bytes.iter_mut().enumerate() {
            if layout.fits_in_row(*bytes as usize) {
                continue;
            }
            let lengths = (0..columns.len()).map(|column| value(column, row).len());
            let whole: usize = lengths.fold(0, usize::saturating_add);
            let Some(out) = self.hobt.columns_to_move_out(|column| value(column, row).len()) else {
                return Err(AccessError::RowTooLarge { bytes: whole.saturating_add(layout.fixed_row_bytes()) });
            };
            let mut left = whole;
            for column in out {
                let pointer = self.write_value(value(column, row))?;
                left = left - pointer.length + POINTER_BYTES;
                moved.push((column, row, pointer.to_bytes()));
            }
            *bytes = u32::try_from(left).expect("it fits a page");
        }
        let mut stored = columns.to_vec();
        let mut pointers = vec![Vec::new(); columns.len()];
        for (column, row, pointer) in &moved {
            if let LoadValues::Variable(values) = &mut stored[*column].values {
                values[*row] = pointer;
            }
            pointers[*column].resize(rows, false);
            pointers[*column][*row] = true;
        }
        self.append_batch(Batch { rows, columns: &stored, pointers: &pointers, variable_bytes: &variable_bytes })
    }

    /// Writes the chain of a value that is not empty.
    fn write_value(&mut self, value: &[u8]) -> Result<ValuePointer, AccessError> {
        let writer = self.value_writer.get_or_insert_with(|| {
            RunWriter::new(Arc::clone(&self.hobt), Arc::clone(&self.context), RunContents::LargeValues)
        });
        let (tag, hobt, writer_stamp) = (self.hobt.storage().database_tag(), self.hobt.id(), self.context.stamp());
        let first = writer.next_page()?;
        let pieces = value.len().div_ceil(PIECE_BYTES_MAX);
        for (ordinal, piece) in (0u32..).zip(value.chunks(PIECE_BYTES_MAX)) {
            if self.context.is_cancelled() {
                return Err(AccessError::Cancelled);
            }
            let is_last = ordinal as usize + 1 == pieces;
            let next = if is_last { PageId::default() } else { writer.page_after_next()? };
            writer.write(|id, lsn, page| {
                let mut header = LargeValuePage::header(id, tag, hobt, piece, next);
                header.lsn = lsn;
                header.newest_writer = writer_stamp;
                LargeValuePage::build(page, &header, ordinal, piece);
            })?;
        }
        Ok(ValuePointer { length: value.len(), first, checksum: crc32c(value) })
    }

    fn append_batch(&mut self, batch: Batch<'_>) -> Result<(), AccessError> {
        let layout = Arc::clone(self.hobt.row_layout());
        let builder = BulkPageBuilder::new(&layout);
        let rows = batch.rows;
        let mut from = 0;
        if self.staged.rows > 0 {
            from = self.top_up(&builder, &batch)?;
        }
        while from < rows {
            let count = self.rows_that_fit(&builder, 0, 0, &batch.variable_bytes[from..]);
            if count == 0 {
                let bytes = batch.variable_bytes[from] as usize + layout.fixed_row_bytes();
                return Err(AccessError::RowTooLarge { bytes });
            }
            if from + count == rows {
                self.stage(from, count, &batch);
                break;
            }
            self.write_page(&builder, count, |page| {
                for (index, column) in batch.columns.iter().enumerate() {
                    let validity = column.validity.map(|bits| bits.skip(from));
                    let values = match &column.values {
                        LoadValues::Fixed(bytes) => {
                            let width = bytes.len() / rows;
                            BulkColumn::Fixed(&bytes[from * width..(from + count) * width])
                        }
                        LoadValues::Variable(values) if batch.pointers[index].is_empty() => {
                            BulkColumn::Variable(&values[from..from + count])
                        }
                        LoadValues::Variable(values) => {
                            let pointers = &batch.pointers[index][from..from + count];
                            BulkColumn::VariableOrPointer(&values[from..from + count], pointers)
                        }
                    };
                    page.column(index, values, validity);
                }
            })?;
            from += count;
        }
        Ok(())
    }

    /// Fills the staged page with the batch's first rows; returns how many it took.
    fn top_up(&mut self, builder: &BulkPageBuilder<'_>, batch: &Batch<'_>) -> Result<usize, AccessError> {
        let (rows, bytes) = (self.staged.rows, self.staged.variable_bytes);
        let take = self.rows_that_fit(builder, rows, bytes, batch.variable_bytes);
        self.stage(0, take, batch);
        if take < batch.rows {
            self.write_staged(builder)?;
        }
        Ok(take)
    }

    fn stage(&mut self, from: usize, count: usize, batch: &Batch<'_>) {
        let rows_before = self.staged.rows;
        for (index, (staged, column)) in self.staged.columns.iter_mut().zip(batch.columns).enumerate() {
            match &column.values {
                LoadValues::Fixed(bytes) => {
                    let width = bytes.len() / batch.rows;
                    staged.bytes.extend_from_slice(&bytes[from * width..(from + count) * width]);
                }
                LoadValues::Variable(values) => {
                    for (row, value) in (from..).zip(&values[from..from + count]) {
                        staged.bytes.extend_from_slice(value);
                        staged.ends.push(u32::try_from(staged.bytes.len()).expect("at most a page"));
                        staged.pointers.push(batch.is_pointer(index, row));
                    }
                }
            }
            staged.validity.resize((rows_before + count).div_ceil(8), 0);
            for row in 0..count {
                if column.validity.is_none_or(|bits| bits.is_valid(from + row)) {
                    staged.validity[(rows_before + row) / 8] |= 1 << ((rows_before + row) % 8);
                } else {
                    staged.nulls += 1;
                }
            }
        }
        let bytes = &batch.variable_bytes[from..from + count];
        self.staged.variable_bytes += bytes.iter().map(|&bytes| bytes as usize).sum::<usize>();
        self.staged.rows += count;
    }

    fn write_staged(&mut self, builder: &BulkPageBuilder<'_>) -> Result<(), AccessError> {
        let mut staged = std::mem::take(&mut self.staged);
        let rows = staged.rows;
        self.write_page(builder, rows, |page| {
            for (index, column) in staged.columns.iter().enumerate() {
                let validity = (column.nulls > 0).then_some(ValidityBits { bytes: &column.validity, offset: 0 });
                if column.ends.is_empty() {
                    page.column(index, BulkColumn::Fixed(&column.bytes), validity);
                } else {
                    let mut start = 0;
                    let values: Vec<&[u8]> = column
                        .ends
                        .iter()
                        .map(|&end| {
                            let value = &column.bytes[start..end as usize];
                            start = end as usize;
                            value
                        })
                        .collect();
                    page.column(index, BulkColumn::VariableOrPointer(&values, &column.pointers), validity);
                }
            }
        })?;
        for column in &mut staged.columns {
            column.bytes.clear();
            column.ends.clear();
            column.pointers.clear();
            column.validity.clear();
            column.nulls = 0;
        }
        staged.variable_bytes = 0;
        staged.rows = 0;
        self.staged = staged;
        Ok(())
    }

    /// Calls `fill` with the next page, writes it and counts its rows.
    fn write_page(
        &mut self,
        builder: &BulkPageBuilder<'_>,
        rows: usize,
        fill: impl FnOnce(&mut hobt_page::BulkPage<'_, '_>),
    ) -> Result<(), AccessError> {
        let (tag, hobt, version) = (self.hobt.storage().database_tag(), self.hobt.id(), self.hobt.layout_version());
        let writer_stamp = self.context.stamp();
        let is_linked = self.chain.is_some() && !self.is_last_page;
        let next = if is_linked { self.writer.page_after_next()? } else { PageId::default() };
        let mut added = Ok(());
        self.writer.write(|id, lsn, page| {
            let mut header = PageHeader::new(PageType::Row, id, tag, hobt);
            header.lsn = lsn;
            header.layout_version = version;
            header.newest_writer = writer_stamp;
            header.next = next;
            let mut bulk = builder.start(page, header, rows);
            fill(&mut bulk);
            bulk.finish();
            added = self.chain.as_mut().map_or(Ok(()), |chain| chain.add_leaf(id, page));
        })?;
        added?;
        self.row_count += rows as u64;
        Ok(())
    }

    /// Writes the remaining rows, waits for all writes, and frees the unused end of the last run.
    ///
    /// The caller syncs the files before it publishes.
    ///
    /// # Errors
    /// As [`Loader::append`]. The statement is then to be undone.
    pub fn finish(mut self) -> Result<LoadedRuns, AccessError> {
        self.finish_pages()
    }

    fn finish_pages(&mut self) -> Result<LoadedRuns, AccessError> {
        self.expect_sound()?;
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        if self.staged.rows > 0 {
            let layout = Arc::clone(self.hobt.row_layout());
            self.is_last_page = true;
            self.write_staged(&BulkPageBuilder::new(&layout))?;
        }
        let mut runs = match &mut self.value_writer {
            Some(values) => values.finish()?,
            None => Vec::new(),
        };
        runs.extend(self.writer.finish()?);
        Ok(LoadedRuns { runs, rows: self.row_count })
    }
}

/// The variable bytes of each row.
fn variable_bytes(rows: usize, columns: &[LoadColumn<'_>]) -> Vec<u32> {
    let mut bytes = vec![0u32; rows];
    for column in columns {
        match &column.values {
            LoadValues::Fixed(_) => {}
            LoadValues::Variable(values) => {
                assert_eq!(values.len(), rows);
                for (sum, value) in bytes.iter_mut().zip(values) {
                    *sum = sum.saturating_add(u32::try_from(value.len()).unwrap_or(u32::MAX));
                }
            }
        }
    }
    bytes
}
