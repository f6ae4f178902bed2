//! Builds row pages in private memory, a batch of columns at a time.
//!
//! The loader first calls [`BulkPageBuilder::rows_that_fit`] with the rows' variable bytes, then writes each column's
//! slice of the batch. Areas are exactly as large as the rows need, so nothing is moved later.

use hobt_base::PAGE_SIZE;

use crate::header::FLAGS_PLACE;
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::POINTER_BIT;
use crate::{PageBytes, PageFlags, PageHeader, put_u16, u16_at};

/// The rows of one column that go into one page.
#[derive(Clone, Copy, Debug)]
pub enum BulkColumn<'a> {
    /// Fixed-length values: `rows × width` bytes, little-endian. The bytes of a NULL are ignored.
    Fixed(&'a [u8]),
    /// Variable-length values, one slice each; empty for a NULL.
    Variable(&'a [&'a [u8]]),
    /// As `Variable`, and which of them are pointers to other pages.
    VariableOrPointer(&'a [&'a [u8]], &'a [bool]),
}

/// Validity bits of a batch, lowest bit first, 1 for a value; the first row's bit is at `offset`.
#[derive(Clone, Copy, Debug)]
pub struct ValidityBits<'a> {
    /// The bits.
    pub bytes: &'a [u8],
    /// The position of the first row's bit.
    pub offset: usize,
}

impl ValidityBits<'_> {
    /// The bits of the rows from `row` on.
    #[must_use]
    pub fn skip(self, row: usize) -> Self {
        ValidityBits { bytes: self.bytes, offset: self.offset + row }
    }

    /// Whether row `row` has a value.
    pub fn is_valid(&self, row: usize) -> bool {
        let at = self.offset + row;
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    /// Copies as many bits as `target` holds. Bits beyond the end of the source are 0.
    fn copy_to(&self, target: &mut [u8]) {
        let first = self.offset / 8;
        let shift = self.offset % 8;
        let byte = |index: usize| self.bytes.get(index).copied().unwrap_or(0);
        for (index, out) in target.iter_mut().enumerate() {
            let low = byte(first + index) >> shift;
            *out = if shift == 0 { low } else { low | byte(first + index + 1) << (8 - shift) };
        }
    }
}

/// Formats one page after the other.
#[derive(Debug)]
pub struct BulkPageBuilder<'a> {
    rows: &'a RowLayout,
}

impl<'a> BulkPageBuilder<'a> {
    /// A builder for pages of a table.
    pub fn new(rows: &'a RowLayout) -> BulkPageBuilder<'a> {
        BulkPageBuilder { rows }
    }

    /// How many of the rows fill one page; 0 if not even the first fits. Row `i` has `variable_bytes[i]` variable
    /// bytes.
    pub fn rows_that_fit(&self, variable_bytes: &[u32]) -> usize {
        self.rows_that_fit_behind(0, 0, variable_bytes)
    }

    /// How many of the rows fit after `rows` others whose variable bytes sum to `bytes`.
    pub fn rows_that_fit_behind(&self, rows: usize, bytes: usize, variable_bytes: &[u32]) -> usize {
        let bits = self.rows.columns().iter().filter(|column| column.nullable).count() + 1;
        let base = self.rows.page_bytes_bound(0, 0);
        let mut variable = bytes;
        let mut count = rows;
        for &bytes in variable_bytes {
            variable += bytes as usize;
            let next = count + 1;
            let arrays = next * self.rows.fixed_row_bytes() + self.rows.order_bytes(next);
            if base + arrays + next.div_ceil(8) * bits + variable > PAGE_SIZE {
                break;
            }
            count = next;
        }
        count - rows
    }

    /// Formats `page` with `row_count` rows: header, empty areas, all values present. In an ordered page the rows must
    /// come in their order.
    ///
    /// Each column is then filled by [`BulkPage::column`] in table order.
    ///
    /// # Panics
    /// If the rows do not fit; see [`BulkPageBuilder::rows_that_fit`].
    pub fn start<'p>(&self, page: &'p mut PageBytes, header: PageHeader, row_count: usize) -> BulkPage<'p, 'a> {
        let slots = u16::try_from(row_count).expect("fewer rows than bytes");
        let layout = self.rows.page_layout(slots).expect("the rows fit the page");
        page.fill(0);
        let mut header = header;
        header.column_count = u16::try_from(self.rows.columns().len()).expect("at most 1024 columns");
        header.row_count = slots;
        header.capacity = slots;
        header.flags = header.flags.with(PageFlags::BULK);
        if self.rows.is_ordered() {
            header.flags = header.flags.with(PageFlags::ORDERED);
            (0..row_count).for_each(|slot| layout.put_slot_at(page, slot, slot));
        }
        header.write(page);
        layout.set_area_start(page, 0, layout.variable_base);
        BulkPage { page, rows: self.rows, layout, row_count, area: usize::from(layout.variable_base) }
    }
}

/// A page that is being filled.
#[derive(Debug)]
pub struct BulkPage<'p, 'a> {
    page: &'p mut PageBytes,
    rows: &'a RowLayout,
    layout: &'a PageLayout,
    row_count: usize,
    area: usize,
}

impl BulkPage<'_, '_> {
    /// Writes one column. Variable-length columns must come in table order.
    ///
    /// `validity` says which rows are NULL; `None` means that there are none.
    ///
    /// # Panics
    /// If the column's kind, length or size differs from what `rows_that_fit` was given.
    pub fn column(&mut self, column: usize, values: BulkColumn<'_>, validity: Option<ValidityBits<'_>>) {
        match values {
            BulkColumn::Fixed(bytes) => {
                let width = self.rows.columns()[column].physical.width().expect("a fixed-length column");
                assert_eq!(bytes.len(), width * self.row_count);
                let start = usize::from(self.layout.values[column]);
                self.page[start..start + bytes.len()].copy_from_slice(bytes);
            }
            BulkColumn::Variable(values) => self.variable(column, values),
            BulkColumn::VariableOrPointer(values, pointers) => {
                self.variable(column, values);
                self.pointers(column, pointers);
            }
        }
        if self.rows.columns()[column].nullable {
            self.validity(column, validity);
        } else {
            let is_whole = validity.is_none_or(|bits| (0..self.row_count).all(|row| bits.is_valid(row)));
            assert!(is_whole, "NULL in a NOT NULL column");
        }
    }

    fn variable(&mut self, column: usize, values: &[&[u8]]) {
        let rank = self.rows.variable_rank(column).expect("a variable-length column");
        assert_eq!(values.len(), self.row_count);
        let start = self.area;
        let mut at = start;
        let mut end_at = usize::from(self.layout.values[column]);
        for value in values {
            self.page[at..at + value.len()].copy_from_slice(value);
            at += value.len();
            self.page[end_at..end_at + 2].copy_from_slice(&((at - start) as u16).to_le_bytes());
            end_at += 2;
        }
        if !self.page[start..at].is_ascii() {
            self.layout.mark_not_ascii(self.page, rank);
        }
        self.area = at;
        self.layout.set_area_start(self.page, rank + 1, u16::try_from(at).expect("below the page size"));
    }

    /// Marks the end offsets of pointers, and the page if there are any.
    fn pointers(&mut self, column: usize, pointers: &[bool]) {
        assert_eq!(pointers.len(), self.row_count);
        let ends = usize::from(self.layout.values[column]);
        for (row, _) in pointers.iter().enumerate().filter(|(_, is_pointer)| **is_pointer) {
            let end = u16_at(self.page, ends + 2 * row);
            put_u16(self.page, ends + 2 * row, end | POINTER_BIT);
        }
        if pointers.contains(&true) {
            let flags = PageFlags(u16_at(self.page, FLAGS_PLACE)).with(PageFlags::HAS_POINTERS);
            put_u16(self.page, FLAGS_PLACE, flags.0);
            let rank = self.rows.variable_rank(column).expect("a variable-length column");
            self.layout.mark_not_ascii(self.page, rank);
        }
    }

    fn validity(&mut self, column: usize, validity: Option<ValidityBits<'_>>) {
        let start = usize::from(self.layout.validity[column]);
        let bits = &mut self.page[start..start + self.row_count.div_ceil(8)];
        match validity {
            None => bits.fill(0xFF),
            Some(validity) => validity.copy_to(bits),
        }
        if !self.row_count.is_multiple_of(8) {
            bits[self.row_count / 8] &= (1u8 << (self.row_count % 8)) - 1;
        }
        let valid: u32 = bits.iter().map(|byte| byte.count_ones()).sum();
        let nulls = u16::try_from(self.row_count - valid as usize).expect("fewer rows than bytes");
        put_u16(self.page, usize::from(self.layout.null_counts) + 2 * column, nulls);
    }

    /// Finishes the page by writing its checksum. It is then ready to be written.
    pub fn finish(self) {
        crate::seal(self.page);
    }
}
