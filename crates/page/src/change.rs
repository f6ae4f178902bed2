//! The typed changes of a page, and the one function that makes them.
//!
//! [`apply`] returns the change that takes the page back. A statement keeps those in memory and, when it fails or is
//! cancelled, applies them in reverse order; the log will keep the changes themselves (`codec` has their bytes), and
//! recovery will call the same function. A change that does not fit the page leaves it as it was.

mod codec;

use hobt_base::{PAGE_SIZE, SlotId, Stamp};

pub use codec::EncodingDamage;

use crate::header::HEADER_SIZE;
use crate::layout::{PageLayout, RowLayout};
use crate::row_image::RowImage;
use crate::row_page::{POINTER_BIT, RowPage, StoredValue};
use crate::{PageBytes, PageDamage, PageHeader, PageType, put_u16, u16_at};

/// A page with less room than this is not laid out anew for another row: it would be again for each of the last rows.
const NEW_LAYOUT_FREE_MIN: usize = PAGE_SIZE / 32;

/// A change of one page.
#[derive(Clone, PartialEq, Debug)]
pub enum PageChange {
    /// Makes the page anew: this header, an empty body; a row page gets areas for `header.capacity` slots.
    Format {
        /// The new header.
        header: PageHeader,
    },
    /// Replaces the whole page: the undo of `Format` and of a change of layout.
    Image {
        /// The page's bytes.
        bytes: Box<PageBytes>,
    },
    /// Adds a row behind the last slot.
    AppendRow {
        /// The row.
        row: RowImage,
        /// The statement that writes.
        writer: Stamp,
    },
    /// Takes the last slots away: the undo of `AppendRow`.
    RemoveLastRow {
        /// The newest writer before.
        writer: Stamp,
    },
    /// Sets or clears a row's deleted bit.
    SetDeleted {
        /// The row's slot.
        slot: SlotId,
        /// Deleted or not.
        deleted: bool,
        /// The statement that writes.
        writer: Stamp,
    },
    /// Overwrites bytes behind the header: bitmaps, run lists, file headers.
    Write {
        /// The first byte's place in the page.
        offset: u16,
        /// The new bytes.
        bytes: Vec<u8>,
    },
    /// Replaces the header's fields, checksum excepted.
    SetHeader {
        /// The new header.
        header: PageHeader,
    },
}

impl PageChange {
    /// Whether the change can belong to this page, so that [`apply`] does not panic: what recovery asks of a change that
    /// it has read. Who makes a change from the page that it has before it knows.
    ///
    /// # Errors
    /// It cannot: the page is damaged, or the change is another page's.
    pub fn check(&self, page: &PageBytes, rows: Option<&RowLayout>) -> Result<(), PageDamage> {
        let rule = |holds: bool, rule| if holds { Ok(()) } else { Err(PageDamage::Structure { rule }) };
        let rows = || rows.ok_or(PageDamage::Structure { rule: "a change of rows in a page that has none" });
        match self {
            PageChange::Format { header } if header.page_type == PageType::Row => {
                rule(rows()?.page_layout(header.capacity).is_some(), "capacity of a row page")
            }
            PageChange::Format { .. } | PageChange::Image { .. } | PageChange::SetHeader { .. } => Ok(()),
            PageChange::AppendRow { row, .. } => rule(row.fits_columns(rows()?), "a row of another table"),
            PageChange::RemoveLastRow { .. } => {
                rule(RowPage::open(page, rows()?)?.row_count() > 0, "the last row of a page without rows")
            }
            PageChange::SetDeleted { slot, deleted, .. } => {
                let view = RowPage::open(page, rows()?)?;
                let slot = usize::from(slot.0);
                rule(slot < view.row_count(), "a slot of the page")?;
                rule(view.is_deleted(slot) != *deleted, "the deleted bit of a row")
            }
            PageChange::Write { offset, bytes } => {
                let start = usize::from(*offset);
                rule(start >= HEADER_SIZE && start + bytes.len() <= PAGE_SIZE, "the place of bytes in a page")
            }
        }
    }
}

/// Applies `change`; returns the change that undoes it, or `Ok(None)` if the page has no room for the row.
///
/// `rows` is the table's layout: needed by changes of row pages.
///
/// # Errors
/// The page contradicts its layout (damage).
///
/// # Panics
/// If the change cannot belong to this page at all: a row of another table, a slot that is not there. That is a
/// broken invariant of the caller; for changes from a log there is [`PageChange::check`].
pub fn apply(
    page: &mut PageBytes,
    rows: Option<&RowLayout>,
    change: &PageChange,
) -> Result<Option<PageChange>, PageDamage> {
    match change {
        PageChange::Format { header } => {
            let undo = PageChange::Image { bytes: Box::new(*page) };
            format(page, rows, header);
            Ok(Some(undo))
        }
        PageChange::Image { bytes } => {
            let undo = PageChange::Image { bytes: Box::new(*page) };
            page.copy_from_slice(&bytes[..]);
            Ok(Some(undo))
        }
        PageChange::AppendRow { row, writer } => append(page, rows.expect("a row page has a layout"), row, *writer),
        PageChange::RemoveLastRow { writer } => {
            remove_last(page, rows.expect("a row page has a layout"), *writer).map(Some)
        }
        PageChange::SetDeleted { slot, deleted, writer } => {
            set_deleted(page, rows.expect("a row page has a layout"), *slot, *deleted, *writer).map(Some)
        }
        PageChange::Write { offset, bytes } => {
            let start = usize::from(*offset);
            assert!(start >= HEADER_SIZE, "the header has a change of its own");
            let target = &mut page[start..start + bytes.len()];
            let undo = PageChange::Write { offset: *offset, bytes: target.to_vec() };
            target.copy_from_slice(bytes);
            Ok(Some(undo))
        }
        PageChange::SetHeader { header } => {
            let undo = PageChange::SetHeader { header: PageHeader::read(page)? };
            header.write(page);
            Ok(Some(undo))
        }
    }
}

fn format(page: &mut PageBytes, rows: Option<&RowLayout>, header: &PageHeader) {
    page.fill(0);
    let mut header = *header;
    let Some(rows) = rows.filter(|_| header.page_type == PageType::Row) else {
        header.write(page);
        return;
    };
    header.column_count = u16::try_from(rows.columns().len()).expect("at most 1024 columns");
    header.row_count = 0;
    header.deleted_count = 0;
    header.write(page);
    let layout = rows.page_layout(header.capacity).expect("the caller asks for a capacity that fits");
    let share = (PAGE_SIZE - usize::from(layout.variable_base)) / rows.variable_count().max(1);
    for index in 0..=rows.variable_count() {
        let start = if index == rows.variable_count() && index > 0 {
            PAGE_SIZE
        } else {
            usize::from(layout.variable_base) + index * share
        };
        layout.set_area_start(page, index, u16::try_from(start).expect("a page's size"));
    }
}

fn append(
    page: &mut PageBytes,
    rows: &RowLayout,
    row: &RowImage,
    writer: Stamp,
) -> Result<Option<PageChange>, PageDamage> {
    assert_eq!(row.column_count(), rows.columns().len(), "a row of this table");
    let view = RowPage::open(page, rows)?;
    let fits = view.row_count() < view.capacity()
        && (0..row.column_count()).filter(|&column| rows.variable_rank(column).is_some()).all(|column| {
            view.variable_used(column) + row.value(column).map_or(0, <[u8]>::len) <= view.variable(column).len()
        });
    if fits {
        let mut header = PageHeader::read(page)?;
        let undo = PageChange::RemoveLastRow { writer: header.newest_writer };
        let layout = rows.page_layout(header.capacity).expect("opened above");
        put_row(page, rows, layout, usize::from(header.row_count), row);
        header.row_count += 1;
        header.flags = header.flags.with(row.flags());
        header.newest_writer = writer;
        header.write(page);
        return Ok(Some(undo));
    }
    let Some(bytes) = lay_out_with(&view, page, rows, row)? else {
        return Ok(None);
    };
    let undo = PageChange::Image { bytes: Box::new(*page) };
    let mut header = PageHeader::read(&bytes)?;
    header.newest_writer = writer;
    page.copy_from_slice(&bytes[..]);
    header.write(page);
    Ok(Some(undo))
}

/// Writes a row's values into `slot`; the areas have room.
fn put_row(page: &mut PageBytes, rows: &RowLayout, layout: &PageLayout, slot: usize, row: &RowImage) {
    for (column, described) in rows.columns().iter().enumerate() {
        let value = row.value(column);
        match described.physical.width() {
            Some(width) => {
                let at = usize::from(layout.values[column]) + slot * width;
                match value {
                    Some(bytes) => page[at..at + width].copy_from_slice(bytes),
                    None => page[at..at + width].fill(0),
                }
            }
            None => {
                let rank = rows.variable_rank(column).expect("a variable-length column");
                let area = usize::from(layout.area_start(page, rank));
                let ends = usize::from(layout.values[column]);
                let start = if slot == 0 { 0 } else { usize::from(u16_at(page, ends + 2 * (slot - 1)) & !POINTER_BIT) };
                let bytes = value.unwrap_or_default();
                page[area + start..area + start + bytes.len()].copy_from_slice(bytes);
                let end = u16::try_from(start + bytes.len()).expect("below the page size");
                let is_pointer = row.is_pointer(column);
                put_u16(page, ends + 2 * slot, if is_pointer { end | POINTER_BIT } else { end });
                if is_pointer || !bytes.is_ascii() {
                    layout.mark_not_ascii(page, rank);
                }
            }
        }
        if described.nullable {
            let at = usize::from(layout.validity[column]) + slot / 8;
            let bit = 1u8 << (slot % 8);
            if value.is_some() {
                page[at] |= bit;
            } else {
                page[at] &= !bit;
                let count = usize::from(layout.null_counts) + 2 * column;
                let nulls = u16_at(page, count) + 1;
                put_u16(page, count, nulls);
            }
        } else {
            assert!(value.is_some(), "NULL in a NOT NULL column is refused before it comes here");
        }
    }
    let deleted = usize::from(layout.deleted) + slot / 8;
    page[deleted] &= !(1 << (slot % 8));
}

/// The page laid out anew with `row` added and room to grow, slot numbers unchanged; `None` if it is full.
fn lay_out_with(
    view: &RowPage<'_>,
    page: &PageBytes,
    rows: &RowLayout,
    row: &RowImage,
) -> Result<Option<Box<PageBytes>>, PageDamage> {
    let variable_columns = (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some());
    // NULLs are copied without a look at their end offsets, so that only the order of all of them bounds the sum.
    if !variable_columns.clone().all(|column| view.ends_are_ordered(column)) {
        return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" });
    }
    let old_count = view.row_count();
    let used: Vec<usize> =
        variable_columns.map(|column| view.variable_used(column) + row.value(column).map_or(0, <[u8]>::len)).collect();
    let variable: usize = used.iter().sum();
    let count = old_count + 1;
    let Some(free) = PAGE_SIZE.checked_sub(rows.page_bytes_bound(count, variable)) else {
        return Ok(None);
    };
    if free < NEW_LAYOUT_FREE_MIN && old_count > 0 {
        return Ok(None);
    }
    let average = variable.div_ceil(count).max(row.variable_bytes(rows) / 2);
    let mut capacity = rows.capacity_for(average).max(u16::try_from(count).expect("fewer rows than bytes"));
    let layout = loop {
        match rows.page_layout(capacity) {
            Some(layout) if usize::from(layout.variable_base) + variable <= PAGE_SIZE => break layout,
            _ if usize::from(capacity) > count => capacity -= 1,
            _ => return Ok(None),
        }
    };
    let mut fresh = Box::new([0u8; PAGE_SIZE]);
    let mut header = PageHeader::read(page)?;
    header.capacity = capacity;
    header.row_count = 0;
    header.write(&mut fresh);
    place_areas(&mut fresh, rows, layout, &used, variable);
    for slot in 0..old_count {
        let values: Result<Vec<StoredValue<'_>>, PageDamage> =
            (0..rows.columns().len()).map(|column| view.stored(column, slot)).collect();
        put_row(&mut fresh, rows, layout, slot, &RowImage::of_stored(values?));
    }
    let deleted = usize::from(layout.deleted);
    fresh[deleted..deleted + view.deleted().len()].copy_from_slice(view.deleted());
    // A deleted row's NULLs were counted again by put_row; the stored counts leave them out.
    for column in 0..rows.columns().len() {
        put_u16(
            &mut fresh,
            usize::from(layout.null_counts) + 2 * column,
            u16::try_from(view.null_count(column)).expect("a u16 in the page"),
        );
    }
    put_row(&mut fresh, rows, layout, old_count, row);
    header.flags = header.flags.with(row.flags());
    header.row_count = u16::try_from(count).expect("fewer rows than bytes");
    header.write(&mut fresh);
    Ok(Some(fresh))
}

/// Shares the free bytes among the variable areas in proportion to what each uses.
fn place_areas(page: &mut PageBytes, rows: &RowLayout, layout: &PageLayout, used: &[usize], variable: usize) {
    let free = PAGE_SIZE - usize::from(layout.variable_base) - variable;
    let mut at = usize::from(layout.variable_base);
    let weight: usize = used.iter().map(|bytes| bytes + 1).sum();
    for (rank, &used) in used.iter().enumerate() {
        layout.set_area_start(page, rank, u16::try_from(at).expect("in the page"));
        at += used + free * (used + 1) / weight;
    }
    let end = if rows.variable_count() == 0 { at } else { PAGE_SIZE };
    layout.set_area_start(page, rows.variable_count(), u16::try_from(end).expect("a page's size"));
}

fn remove_last(page: &mut PageBytes, rows: &RowLayout, writer: Stamp) -> Result<PageChange, PageDamage> {
    let view = RowPage::open(page, rows)?;
    let slot = view.row_count().checked_sub(1).expect("a row to remove");
    if view.is_deleted(slot) {
        return Err(PageDamage::Structure { rule: "the row that was appended last is deleted" });
    }
    let values: Result<Vec<StoredValue<'_>>, PageDamage> =
        (0..rows.columns().len()).map(|column| view.stored(column, slot)).collect();
    let row = RowImage::of_stored(values?);
    let mut header = PageHeader::read(page)?;
    let undo = PageChange::AppendRow { row, writer: header.newest_writer };
    let layout = rows.page_layout(header.capacity).expect("opened above");
    let counts = null_counts_after(&view, rows, slot, false)?;
    put_null_counts(page, layout, &counts);
    header.row_count -= 1;
    header.newest_writer = writer;
    header.write(page);
    Ok(undo)
}

/// The columns in which the row of `slot` is NULL, each with its null count once the row counts (`live`) or not.
fn null_counts_after(
    view: &RowPage<'_>,
    rows: &RowLayout,
    slot: usize,
    live: bool,
) -> Result<Vec<(usize, u16)>, PageDamage> {
    let damage = PageDamage::Structure { rule: "null count of a column" };
    (0..rows.columns().len())
        .filter(|&column| view.is_null(column, slot))
        .map(|column| {
            let count = view.null_count(column);
            let after = if live { Some(count + 1) } else { count.checked_sub(1) };
            after.and_then(|after| u16::try_from(after).ok()).map(|after| (column, after)).ok_or(damage)
        })
        .collect()
}

fn put_null_counts(page: &mut PageBytes, layout: &PageLayout, counts: &[(usize, u16)]) {
    for &(column, count) in counts {
        put_u16(page, usize::from(layout.null_counts) + 2 * column, count);
    }
}

fn set_deleted(
    page: &mut PageBytes,
    rows: &RowLayout,
    slot: SlotId,
    deleted: bool,
    writer: Stamp,
) -> Result<PageChange, PageDamage> {
    let view = RowPage::open(page, rows)?;
    let index = usize::from(slot.0);
    assert!(index < view.row_count(), "a slot of the page");
    assert_ne!(view.is_deleted(index), deleted, "the row changes its state");
    let counts = null_counts_after(&view, rows, index, !deleted)?;
    let mut header = PageHeader::read(page)?;
    let undo = PageChange::SetDeleted { slot, deleted: !deleted, writer: header.newest_writer };
    let layout = rows.page_layout(header.capacity).expect("opened above");
    put_null_counts(page, layout, &counts);
    page[usize::from(layout.deleted) + index / 8] ^= 1 << (index % 8);
    header.deleted_count = if deleted { header.deleted_count + 1 } else { header.deleted_count.saturating_sub(1) };
    header.newest_writer = writer;
    header.write(page);
    Ok(undo)
}

#[cfg(test)]
mod tests;
