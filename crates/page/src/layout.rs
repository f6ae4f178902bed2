//! Where each column lies in a row page.
//!
//! ```text
//! header 64 | null counts u16 × columns | area starts u16 × (variable columns + 1)
//! fixed-length arrays, widest first; end offsets u16 × capacity of variable columns before those of 2 bytes
//! deleted bits | validity bits, a nullable column each | bytes of the first variable column | … of the last
//! ```
//! An *ordered* page, a leaf of a B+tree, also stores the slots of its rows in key order: an array of 1 byte × capacity
//! after the fixed-length arrays or, if the capacity is above 256, of `u16` × capacity after those of 2 bytes. A heap's
//! pages have none.
//!
//! The counts are together at the front, so that counting a column touches two cache lines of a page. The layout of
//! everything before the variable bytes follows from the columns and the capacity. Only the starts of the byte areas
//! are stored, each with a bit that says whether all of the column's text is ASCII.

use std::sync::{Arc, OnceLock};

use hobt_base::PAGE_SIZE;
use hobt_types::PhysicalType;

use crate::header::HEADER_SIZE;
use crate::{PageBytes, put_u16, u16_at};

/// The most columns a table can have.
pub const MAX_COLUMNS: usize = 1024;
/// The most columns of a layout: those of a table, and what the leaves of an index have beside them (a uniqueifier, a
/// row's place, its partition).
pub const MAX_LAYOUT_COLUMNS: usize = MAX_COLUMNS + 3;

/// The high bit of a stored area start: the column has a value that is not ASCII.
const NOT_ASCII: u16 = 0x8000;

/// What the page layout needs to know of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnLayout {
    /// The physical type: an array element or bytes.
    pub physical: PhysicalType,
    /// Whether the column has validity bits.
    pub nullable: bool,
}

/// The physical columns of a table, with the page layouts computed so far.
#[derive(Debug)]
pub struct RowLayout {
    columns: Vec<ColumnLayout>,
    variable_rank: Vec<Option<u16>>,
    variable_count: usize,
    fixed_row_bytes: usize,
    nullable_count: usize,
    is_ordered: bool,
    layouts: Vec<OnceLock<Arc<PageLayout>>>,
}

/// The offsets of every column's area in a page of one capacity, in bytes from the page's start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageLayout {
    /// Slots that fit the areas.
    pub capacity: u16,
    /// `u16` null counts, one a column.
    pub null_counts: u16,
    /// `u16` starts of the variable byte areas, followed by the end of the last.
    pub area_starts: u16,
    /// One bit a slot: whether the row is deleted.
    pub deleted: u16,
    /// A column's array of fixed-length values, or its array of `u16` end offsets.
    pub values: Vec<u16>,
    /// An ordered page's slots in key order, [`PageLayout::order_width`] bytes each; 0 in a heap's page.
    pub order: u16,
    /// A nullable column's validity bits (1: has a value); 0 for a column that is NOT NULL.
    pub validity: Vec<u16>,
    /// The first byte that the variable areas may use.
    pub variable_base: u16,
}

/// Bytes of each entry of the order, in a page with this capacity.
const fn order_width(capacity: usize) -> usize {
    if capacity <= 1 << u8::BITS { 1 } else { 2 }
}

impl PageLayout {
    /// Bytes of each entry of the order: 1 if every slot fits a byte, else 2.
    #[inline]
    pub fn order_width(&self) -> usize {
        order_width(usize::from(self.capacity))
    }

    /// The slot at `position` of an ordered page's order, unchecked. `position` is below the capacity.
    #[inline]
    pub(crate) fn slot_at(&self, page: &PageBytes, position: usize) -> usize {
        let order = usize::from(self.order);
        match self.order_width() {
            1 => usize::from(page[order + position]),
            _ => usize::from(u16_at(page, order + 2 * position)),
        }
    }

    /// Sets the slot at a position below the capacity.
    pub(crate) fn put_slot_at(&self, page: &mut PageBytes, position: usize, slot: usize) {
        let order = usize::from(self.order);
        match self.order_width() {
            1 => page[order + position] = u8::try_from(slot).expect("at most 256 slots"),
            _ => put_u16(page, order + 2 * position, u16::try_from(slot).expect("fewer slots than bytes")),
        }
    }

    /// Moves the entries `from..count` of the order to start at `to`. All are below the capacity.
    pub(crate) fn move_order(&self, page: &mut PageBytes, from: usize, count: usize, to: usize) {
        let (order, width) = (usize::from(self.order), self.order_width());
        page.copy_within(order + from * width..order + count * width, order + to * width);
    }

    /// The start of the byte area of the variable-length column of this rank. The next rank after the last gives its
    /// end.
    #[inline]
    pub(crate) fn area_start(&self, page: &PageBytes, rank: usize) -> u16 {
        u16_at(page, usize::from(self.area_starts) + 2 * rank) & !NOT_ASCII
    }

    /// Sets the start of an area. The column then counts as ASCII until it is marked otherwise.
    pub(crate) fn set_area_start(&self, page: &mut PageBytes, rank: usize, start: u16) {
        put_u16(page, usize::from(self.area_starts) + 2 * rank, start);
    }

    /// Whether every value of the variable-length column of this rank is ASCII.
    #[inline]
    pub(crate) fn is_ascii(&self, page: &PageBytes, rank: usize) -> bool {
        u16_at(page, usize::from(self.area_starts) + 2 * rank) & NOT_ASCII == 0
    }

    /// Marks a column as not ASCII.
    pub(crate) fn mark_not_ascii(&self, page: &mut PageBytes, rank: usize) {
        let at = usize::from(self.area_starts) + 2 * rank;
        let start = u16_at(page, at) | NOT_ASCII;
        put_u16(page, at, start);
    }
}

impl RowLayout {
    /// The layout of a table or an index with these columns, 1 to [`MAX_LAYOUT_COLUMNS`].
    ///
    /// # Panics
    /// If there is no column or there are too many. The caller checks declarations of users.
    pub fn new(columns: Vec<ColumnLayout>) -> RowLayout {
        assert!((1..=MAX_LAYOUT_COLUMNS).contains(&columns.len()), "1 to {MAX_LAYOUT_COLUMNS} columns");
        let mut variable_rank = Vec::with_capacity(columns.len());
        let mut variable_count = 0;
        let mut fixed_row_bytes = 0;
        for column in &columns {
            match column.physical.width() {
                Some(width) => {
                    fixed_row_bytes += width;
                    variable_rank.push(None);
                }
                None => {
                    fixed_row_bytes += 2;
                    variable_rank.push(Some(u16::try_from(variable_count).expect("at most 1024")));
                    variable_count += 1;
                }
            }
        }
        let nullable_count = columns.iter().filter(|column| column.nullable).count();
        let slots_max = (PAGE_SIZE - HEADER_SIZE) / fixed_row_bytes + 1;
        let layouts = (0..=slots_max).map(|_| OnceLock::new()).collect();
        let is_ordered = false;
        RowLayout { columns, variable_rank, variable_count, fixed_row_bytes, nullable_count, is_ordered, layouts }
    }

    /// The layout of a B+tree's leaves with these columns: their pages are ordered.
    #[must_use]
    pub fn ordered(self) -> RowLayout {
        let layouts = self.layouts.iter().map(|_| OnceLock::new()).collect();
        RowLayout { is_ordered: true, layouts, ..self }
    }

    /// Whether the pages store their rows' order.
    #[inline]
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// The columns, in table order.
    #[inline]
    pub fn columns(&self) -> &[ColumnLayout] {
        &self.columns
    }

    /// How many columns have variable length.
    pub fn variable_count(&self) -> usize {
        self.variable_count
    }

    /// The position of a variable-length column among the variable-length columns.
    #[inline]
    pub fn variable_rank(&self, column: usize) -> Option<usize> {
        self.variable_rank[column].map(usize::from)
    }

    /// Bytes that one more row takes in the fixed arrays and offset arrays, without its bits.
    pub fn fixed_row_bytes(&self) -> usize {
        self.fixed_row_bytes
    }

    /// Bytes of the order of a page with `rows` slots; 0 for a heap's page.
    pub(crate) fn order_bytes(&self, rows: usize) -> usize {
        if self.is_ordered { rows * order_width(rows) } else { 0 }
    }

    /// An upper bound of the page's bytes for `rows` rows whose variable bytes sum to `variable_bytes`; exact to a few
    /// bytes of padding.
    pub fn page_bytes_bound(&self, rows: usize, variable_bytes: usize) -> usize {
        let bits = (self.nullable_count + 1) * rows.div_ceil(8);
        let counts = 2 * self.columns.len() + 2 * (self.variable_count + 1);
        HEADER_SIZE + counts + 14 + bits + rows * self.fixed_row_bytes + self.order_bytes(rows) + variable_bytes
    }

    /// The layout for `capacity` slots, or `None` if its fixed part alone exceeds a page.
    pub fn page_layout(&self, capacity: u16) -> Option<&Arc<PageLayout>> {
        let cell = self.layouts.get(usize::from(capacity))?;
        if let Some(layout) = cell.get() {
            return Some(layout);
        }
        let layout = self.compute(capacity)?;
        Some(cell.get_or_init(|| Arc::new(layout)))
    }

    /// The most slots of a page whose rows have `variable_bytes_per_row` variable bytes each; at least 1 if one fits.
    pub fn capacity_for(&self, variable_bytes_per_row: usize) -> u16 {
        let mut low = 0;
        let mut high = self.layouts.len() - 1;
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.page_bytes_bound(middle, middle * variable_bytes_per_row) <= PAGE_SIZE {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        u16::try_from(low).expect("a page has fewer slots than bytes")
    }

    fn compute(&self, capacity: u16) -> Option<PageLayout> {
        let slots = usize::from(capacity);
        let bits = slots.div_ceil(8);
        let null_counts = HEADER_SIZE;
        let area_starts = null_counts + 2 * self.columns.len();
        let mut at = (area_starts + 2 * (self.variable_count + 1)).next_multiple_of(8);
        let mut values = vec![0usize; self.columns.len()];
        for width in [16, 8, 4] {
            at = self.place(&mut values, at, slots, width);
        }
        for (place, column) in values.iter_mut().zip(&self.columns) {
            if column.physical == PhysicalType::Variable {
                *place = at;
                at += 2 * slots;
            }
        }
        let mut order = 0;
        for width in [2, 1] {
            at = self.place(&mut values, at, slots, width);
            if self.is_ordered && order_width(slots) == width {
                order = at;
                at += slots * width;
            }
        }
        let deleted = at;
        at += bits;
        let mut validity = vec![0usize; self.columns.len()];
        for (place, column) in validity.iter_mut().zip(&self.columns) {
            if column.nullable {
                *place = at;
                at += bits;
            }
        }
        if at > PAGE_SIZE {
            return None;
        }
        let narrow = |place: usize| u16::try_from(place).expect("below the page size");
        Some(PageLayout {
            capacity,
            null_counts: narrow(null_counts),
            area_starts: narrow(area_starts),
            deleted: narrow(deleted),
            values: values.into_iter().map(narrow).collect(),
            order: narrow(order),
            validity: validity.into_iter().map(narrow).collect(),
            variable_base: narrow(at),
        })
    }

    fn place(&self, values: &mut [usize], mut at: usize, slots: usize, width: usize) -> usize {
        for (place, column) in values.iter_mut().zip(&self.columns) {
            if column.physical.width() == Some(width) {
                *place = at.min(PAGE_SIZE);
                at += width * slots;
            }
        }
        at
    }
}
