//! Reading a row page: columns as slices of the page.
//!
//! [`RowPage::open`] checks everything that a later read relies on, except the order of end offsets, which
//! [`RowPage::ends_are_ordered`] checks for a column in one pass. A page with a right checksum but wrong counts is
//! refused, so that no read leaves its bounds.

use std::cmp::Ordering;

use hobt_base::HobtId;

use crate::header::PageFlags;
use crate::{
    POINTER_BYTES, PageBytes, PageDamage, PageHeader, PageLayout, PageType, RowImage, RowLayout, ValuePointer, u16_at,
    u64_at,
};

/// The high bit of an end offset: the value's bytes are a pointer to other pages that hold the value.
pub(crate) const POINTER_BIT: u16 = 0x8000;

/// What a row stores for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredValue<'a> {
    /// NULL.
    Null,
    /// Its bytes: fixed-length little-endian or variable.
    InRow(&'a [u8]),
    /// A pointer to the pages that hold its bytes.
    Pointer(ValuePointer),
}

impl<'a> StoredValue<'a> {
    /// Bytes that it takes in the row.
    pub(crate) fn byte_count(self) -> usize {
        match self {
            StoredValue::Null => 0,
            StoredValue::InRow(bytes) => bytes.len(),
            StoredValue::Pointer(_) => POINTER_BYTES,
        }
    }

    /// The value's bytes, if they are in the row.
    pub fn in_row(self) -> Option<&'a [u8]> {
        if let StoredValue::InRow(bytes) = self { Some(bytes) } else { None }
    }

    /// The bytes of the pointer, if the value is on pages of its own.
    pub(crate) fn pointer_bytes(self) -> Option<[u8; POINTER_BYTES]> {
        if let StoredValue::Pointer(pointer) = self { Some(pointer.to_bytes()) } else { None }
    }

    /// The page flags that the value requires.
    pub(crate) fn flags(self) -> PageFlags {
        if matches!(self, StoredValue::Pointer(_)) { PageFlags::HAS_POINTERS } else { PageFlags::default() }
    }
}

/// A row page, opened for reading with its table's layout.
#[derive(Clone, Copy, Debug)]
pub struct RowPage<'a> {
    bytes: &'a PageBytes,
    rows: &'a RowLayout,
    layout: &'a PageLayout,
    row_count: u16,
    deleted_count: u16,
    flags: PageFlags,
}

impl<'a> RowPage<'a> {
    /// Opens a page that passed [`crate::verify`].
    ///
    /// # Errors
    /// `PageDamage` if the header contradicts the layout: the page belongs to another table or was written wrongly.
    pub fn open(bytes: &'a PageBytes, rows: &'a RowLayout) -> Result<RowPage<'a>, PageDamage> {
        let damage = |rule| PageDamage::Structure { rule };
        if bytes[5] != PageType::Row as u8 {
            return Err(PageDamage::Type { found: bytes[5] });
        }
        if usize::from(u16_at(bytes, 14)) != rows.columns().len() {
            return Err(damage("column count of a row page"));
        }
        let (row_count, capacity, deleted_count) = (u16_at(bytes, 48), u16_at(bytes, 50), u16_at(bytes, 52));
        let layout = rows.page_layout(capacity).ok_or(damage("capacity of a row page"))?;
        if row_count > capacity || deleted_count > row_count {
            return Err(damage("row count of a row page"));
        }
        // The number of values is computed from the live rows and these NULL counts. The loop has no branch, so that
        // eight are compared at once.
        let counts = usize::from(layout.null_counts);
        let counts = bytes[counts..counts + 2 * rows.columns().len()].as_chunks::<2>().0;
        let most = counts.iter().fold(0, |most, count| u16::max(most, u16::from_le_bytes(*count)));
        if most > row_count - deleted_count {
            return Err(damage("null count of a column"));
        }
        let flags = PageFlags(u16_at(bytes, 6));
        if flags.contains(PageFlags::ORDERED) != rows.is_ordered() {
            return Err(damage("the order of a row page"));
        }
        let mut previous = layout.variable_base;
        for index in 0..=rows.variable_count() {
            let start = layout.area_start(bytes, index);
            if start < previous || usize::from(start) > bytes.len() {
                return Err(damage("byte areas of a row page"));
            }
            previous = start;
        }
        Ok(RowPage { bytes, rows, layout, row_count, deleted_count, flags })
    }

    /// The heap or B-tree that owns the page.
    #[inline]
    pub fn hobt(&self) -> HobtId {
        HobtId(u64_at(self.bytes, 24))
    }

    /// Slots in use, deleted ones included.
    #[inline]
    pub fn row_count(&self) -> usize {
        usize::from(self.row_count)
    }

    /// Deleted slots.
    #[inline]
    pub fn deleted_count(&self) -> usize {
        usize::from(self.deleted_count)
    }

    /// Slots that fit the page.
    #[inline]
    pub fn capacity(&self) -> usize {
        usize::from(self.layout.capacity)
    }

    /// See [`PageFlags`].
    #[inline]
    pub fn flags(&self) -> PageFlags {
        self.flags
    }

    /// The page's bytes.
    #[inline]
    pub fn bytes(&self) -> &'a PageBytes {
        self.bytes
    }

    /// The table's columns.
    #[inline]
    pub fn row_layout(&self) -> &'a RowLayout {
        self.rows
    }

    /// Slots of `column` that are NULL, without deleted ones.
    #[inline]
    pub fn null_count(&self, column: usize) -> usize {
        usize::from(u16_at(self.bytes, usize::from(self.layout.null_counts) + 2 * column))
    }

    /// The array of a fixed-length column: `row_count` values of its width, little-endian.
    ///
    /// # Panics
    /// If the column has variable length.
    #[inline]
    pub fn fixed(&self, column: usize) -> &'a [u8] {
        let width = self.rows.columns()[column].physical.width().expect("a fixed-length column");
        let start = usize::from(self.layout.values[column]);
        &self.bytes[start..start + width * self.row_count()]
    }

    /// The end offsets of a variable-length column, `u16` little-endian each, relative to [`RowPage::variable`].
    ///
    /// # Panics
    /// If the column has fixed length.
    #[inline]
    pub fn ends(&self, column: usize) -> &'a [[u8; 2]] {
        assert!(self.rows.variable_rank(column).is_some(), "a variable-length column");
        let start = usize::from(self.layout.values[column]);
        self.bytes[start..start + 2 * self.row_count()].as_chunks().0
    }

    /// The bytes of a variable-length column, its unused tail included.
    ///
    /// # Panics
    /// If the column has fixed length.
    #[inline]
    pub fn variable(&self, column: usize) -> &'a [u8] {
        let rank = self.rows.variable_rank(column).expect("a variable-length column");
        let start = usize::from(self.layout.area_start(self.bytes, rank));
        &self.bytes[start..usize::from(self.layout.area_start(self.bytes, rank + 1))]
    }

    /// Whether every value of a variable-length column is known to be ASCII.
    ///
    /// # Panics
    /// If the column has fixed length.
    #[inline]
    pub fn is_ascii(&self, column: usize) -> bool {
        self.layout.is_ascii(self.bytes, self.rows.variable_rank(column).expect("a variable-length column"))
    }

    /// A nullable column's validity bits, lowest bit first, 1 for a value; `None` if the column is NOT NULL.
    #[inline]
    pub fn validity(&self, column: usize) -> Option<&'a [u8]> {
        let start = usize::from(self.layout.validity[column]);
        self.rows.columns()[column].nullable.then(|| &self.bytes[start..start + self.row_count().div_ceil(8)])
    }

    /// The deleted bits, lowest bit first, 1 for a deleted row.
    #[inline]
    pub fn deleted(&self) -> &'a [u8] {
        let start = usize::from(self.layout.deleted);
        &self.bytes[start..start + self.row_count().div_ceil(8)]
    }

    /// Whether the row in `slot` is deleted.
    #[inline]
    pub fn is_deleted(&self, slot: usize) -> bool {
        self.deleted_count > 0 && self.deleted()[slot / 8] >> (slot % 8) & 1 == 1
    }

    /// The slot of the row at `position` of the page's order, deleted rows included. In a heap's page the slot equals
    /// the position.
    ///
    /// # Errors
    /// The order names a slot that is not in use.
    ///
    /// # Panics
    /// If the page has at most `position` rows.
    #[inline]
    pub fn slot_at(&self, position: usize) -> Result<usize, PageDamage> {
        assert!(position < self.row_count(), "a position of the page");
        let slot = if self.rows.is_ordered() { self.layout.slot_at(self.bytes, position) } else { position };
        if slot < self.row_count() { Ok(slot) } else { Err(PageDamage::Structure { rule: "the order of a row page" }) }
    }

    /// The slots in the page's order, deleted rows included.
    ///
    /// Each may be an error, as in [`RowPage::slot_at`].
    pub fn order(&self) -> impl DoubleEndedIterator<Item = Result<usize, PageDamage>> + ExactSizeIterator + '_ {
        (0..self.row_count()).map(|position| self.slot_at(position))
    }

    /// Searches the page's order, deleted rows included. `compare` compares the row in a slot with the searched one.
    /// Rows that are less come before those that are equal, and these before those that are greater. Returns the first
    /// position that is equal, or as an error the position at which such a row belongs.
    ///
    /// # Errors
    /// The order names a slot that is not in use, or an error from `compare`.
    pub fn find<E: From<PageDamage>>(
        &self,
        mut compare: impl FnMut(usize) -> Result<Ordering, E>,
    ) -> Result<Result<usize, usize>, E> {
        let (mut low, mut high) = (0, self.row_count());
        let mut is_equal = false;
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(self.slot_at(middle)?)? {
                Ordering::Less => low = middle + 1,
                found => {
                    high = middle;
                    is_equal = found == Ordering::Equal;
                }
            }
        }
        Ok(if is_equal { Ok(low) } else { Err(low) })
    }

    /// Whether `column` of `slot` is NULL.
    #[inline]
    pub fn is_null(&self, column: usize, slot: usize) -> bool {
        self.validity(column).is_some_and(|bits| bits[slot / 8] >> (slot % 8) & 1 == 0)
    }

    /// Whether values of the page may be pointers. Only then an end offset may have its high bit set.
    #[inline]
    pub fn has_pointers(&self) -> bool {
        self.flags.contains(PageFlags::HAS_POINTERS)
    }

    /// The bits of an end offset that are the offset. Without pointers these include the high bit, which would be out
    /// of bounds.
    #[inline]
    fn end_mask(&self) -> u16 {
        if self.has_pointers() { !POINTER_BIT } else { u16::MAX }
    }

    /// Whether a variable-length column's end offsets increase and stay inside its area, so that every value is a
    /// slice.
    pub fn ends_are_ordered(&self, column: usize) -> bool {
        let mut previous = 0;
        let mut ordered = true;
        let mask = self.end_mask();
        for end in self.ends(column) {
            let end = u16::from_le_bytes(*end) & mask;
            ordered &= previous <= end;
            previous = end;
        }
        ordered && usize::from(previous) <= self.variable(column).len()
    }

    /// Where the bytes of a slot begin and end, in a variable-length column whose end offsets are ordered.
    pub(crate) fn span(&self, column: usize, slot: usize) -> (usize, usize) {
        let end = |slot: usize| usize::from(u16::from_le_bytes(self.ends(column)[slot]) & self.end_mask());
        (if slot == 0 { 0 } else { end(slot - 1) }, end(slot))
    }

    /// One value's bytes: fixed-length little-endian or variable; `None` for NULL. For tables whose values all fit
    /// their rows; for others call [`RowPage::stored`].
    ///
    /// # Errors
    /// `PageDamage` if the end offsets contradict each other, or the value is not in the row.
    pub fn value(&self, column: usize, slot: usize) -> Result<Option<&'a [u8]>, PageDamage> {
        match self.stored(column, slot)? {
            StoredValue::Null => Ok(None),
            StoredValue::InRow(bytes) => Ok(Some(bytes)),
            StoredValue::Pointer(_) => Err(PageDamage::Structure { rule: "a value on pages of its own" }),
        }
    }

    /// One value as the row stores it.
    ///
    /// # Errors
    /// `PageDamage` if the end offsets contradict each other, or a pointer is invalid.
    pub fn stored(&self, column: usize, slot: usize) -> Result<StoredValue<'a>, PageDamage> {
        if self.is_null(column, slot) {
            return Ok(StoredValue::Null);
        }
        if let Some(width) = self.rows.columns()[column].physical.width() {
            return Ok(StoredValue::InRow(&self.fixed(column)[slot * width..(slot + 1) * width]));
        }
        let ends = self.ends(column);
        let mask = self.end_mask();
        let end = |slot: usize| usize::from(u16::from_le_bytes(ends[slot]) & mask);
        let start = if slot == 0 { 0 } else { end(slot - 1) };
        let bytes = self.variable(column).get(start..end(slot));
        let bytes = bytes.ok_or(PageDamage::Structure { rule: "end offsets of a variable-length column" })?;
        if mask != u16::MAX && u16::from_le_bytes(ends[slot]) & POINTER_BIT != 0 {
            return ValuePointer::read(bytes).map(StoredValue::Pointer);
        }
        Ok(StoredValue::InRow(bytes))
    }

    /// The row of a slot, deleted or not.
    ///
    /// # Errors
    /// As [`RowPage::stored`].
    ///
    /// # Panics
    /// If the slot is not in use.
    pub fn row_image(&self, slot: usize) -> Result<RowImage, PageDamage> {
        let values = (0..self.rows.columns().len()).map(|column| self.stored(column, slot));
        Ok(RowImage::of_stored(values.collect::<Result<Vec<_>, _>>()?))
    }

    /// Where a column lies in the page: the offset and length in bytes of its array (or end offsets) and, for variable
    /// length, of its bytes. For prefetching the next page, whose layout is similar.
    #[inline]
    pub fn extents(&self, column: usize) -> [(usize, usize); 2] {
        let at = usize::from(self.layout.values[column]);
        match self.rows.columns()[column].physical.width() {
            Some(width) => [(at, width * self.row_count()), (0, 0)],
            None => {
                let rank = self.rows.variable_rank(column).expect("a variable-length column");
                let start = self.layout.area_start(self.bytes, rank);
                [(at, 2 * self.row_count()), (usize::from(start), self.variable_used(column))]
            }
        }
    }

    /// The bytes of a variable-length column that are in use.
    #[inline]
    pub fn variable_used(&self, column: usize) -> usize {
        self.ends(column).last().map_or(0, |end| usize::from(u16::from_le_bytes(*end) & self.end_mask()))
    }
}

/// Checks a whole row page: counts, bits, offsets, the marks of ASCII text. For `AllocationCheck` of crate `access`,
/// tests and simulation.
///
/// # Errors
/// The first rule that the page breaks.
pub fn check_row_page(bytes: &PageBytes, rows: &RowLayout) -> Result<(), PageDamage> {
    PageHeader::read(bytes)?;
    let page = RowPage::open(bytes, rows)?;
    let ones = |bits: &[u8], count: usize| (0..count).filter(|slot| bits[slot / 8] >> (slot % 8) & 1 == 1).count();
    if ones(page.deleted(), page.row_count()) != page.deleted_count() {
        return Err(PageDamage::Structure { rule: "deleted count of a row page" });
    }
    let mut seen = vec![false; if rows.is_ordered() { page.row_count() } else { 0 }];
    for slot in page.order().take(seen.len()) {
        if std::mem::replace(&mut seen[slot?], true) {
            return Err(PageDamage::Structure { rule: "the order of a row page" });
        }
    }
    for (column, layout) in rows.columns().iter().enumerate() {
        if page.has_pointers() {
            (0..page.row_count()).try_for_each(|slot| page.stored(column, slot).map(drop))?;
        }
        if layout.physical.width().is_none() {
            if !page.ends_are_ordered(column) {
                return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" });
            }
            if page.is_ascii(column) && !page.variable(column)[..page.variable_used(column)].is_ascii() {
                return Err(PageDamage::Structure { rule: "a column of ASCII alone" });
            }
        }
        let nulls = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot) && page.is_null(column, slot)).count();
        if nulls != page.null_count(column) {
            return Err(PageDamage::Structure { rule: "null count of a column" });
        }
    }
    Ok(())
}
