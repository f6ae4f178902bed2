//! Changes of single rows: added after the last slot, removed again, marked as deleted. Positions are handled by
//! `ordered`, other values in a slot by `replace`.

use hobt_base::{SlotId, Stamp};

use super::PageChange;
use super::new_layout::lay_out_for;
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::{POINTER_BIT, RowPage, StoredValue};
use crate::{PageBytes, PageDamage, PageHeader, RowImage, put_u16, u16_at};

/// Adds a row to a heap's page.
pub(super) fn append(
    page: &mut PageBytes,
    rows: &RowLayout,
    row: &RowImage,
    writer: Stamp,
) -> Result<Option<PageChange>, PageDamage> {
    assert!(!rows.is_ordered(), "the rows of an ordered page have positions");
    let before = PageHeader::read(page)?.newest_writer;
    Ok(match add_row(page, rows, row, writer)? {
        Added::NoRoom => None,
        Added::InPlace => Some(PageChange::RemoveLastRow { writer: before }),
        Added::LaidOutAnew { before } => Some(PageChange::Image { bytes: before }),
    })
}

/// How a row was added to a page.
pub(super) enum Added {
    /// It was not.
    NoRoom,
    /// The areas had room.
    InPlace,
    /// The page was laid out again.
    LaidOutAnew {
        /// The page before.
        before: Box<PageBytes>,
    },
}

/// Adds a row after the last slot. The caller handles an order.
pub(super) fn add_row(
    page: &mut PageBytes,
    rows: &RowLayout,
    row: &RowImage,
    writer: Stamp,
) -> Result<Added, PageDamage> {
    assert_eq!(row.column_count(), rows.columns().len(), "a row of this table");
    let view = RowPage::open(page, rows)?;
    let fits = view.row_count() < view.capacity()
        && (0..row.column_count())
            .filter(|&column| rows.variable_rank(column).is_some())
            .all(|column| view.variable_used(column) + row.stored(column).byte_count() <= view.variable(column).len());
    let added = if fits {
        Added::InPlace
    } else {
        let Some(fresh) = lay_out_for(&view, row)? else { return Ok(Added::NoRoom) };
        let before = Box::new(*page);
        page.copy_from_slice(&fresh[..]);
        Added::LaidOutAnew { before }
    };
    let mut header = PageHeader::read(page)?;
    let layout = rows.page_layout(header.capacity).expect("opened above");
    let slot = usize::from(header.row_count);
    for column in 0..row.column_count() {
        put_value(page, rows, layout, (column, slot), row.stored(column), true);
    }
    page[usize::from(layout.deleted) + slot / 8] &= !(1 << (slot % 8));
    header.row_count += 1;
    header.flags = header.flags.with(row.flags());
    header.newest_writer = writer;
    header.write(page);
    Ok(added)
}

/// Writes the value of a column into a slot after all that are in use. The areas must have room. A NULL is counted if
/// the row is `live`.
pub(super) fn put_value(
    page: &mut PageBytes,
    rows: &RowLayout,
    layout: &PageLayout,
    (column, slot): (usize, usize),
    value: StoredValue<'_>,
    live: bool,
) {
    let described = rows.columns()[column];
    let pointer = value.pointer_bytes();
    let bytes = value.in_row().or(pointer.as_ref().map(|bytes| &bytes[..]));
    match described.physical.width() {
        Some(width) => {
            let at = usize::from(layout.values[column]) + slot * width;
            match bytes {
                Some(bytes) => page[at..at + width].copy_from_slice(bytes),
                None => page[at..at + width].fill(0),
            }
        }
        None => {
            let rank = rows.variable_rank(column).expect("a variable-length column");
            let area = usize::from(layout.area_start(page, rank));
            let ends = usize::from(layout.values[column]);
            let start = if slot == 0 { 0 } else { usize::from(u16_at(page, ends + 2 * (slot - 1)) & !POINTER_BIT) };
            let bytes = bytes.unwrap_or_default();
            page[area + start..area + start + bytes.len()].copy_from_slice(bytes);
            let end = u16::try_from(start + bytes.len()).expect("below the page size");
            put_u16(page, ends + 2 * slot, if pointer.is_some() { end | POINTER_BIT } else { end });
            if pointer.is_some() || !bytes.is_ascii() {
                layout.mark_not_ascii(page, rank);
            }
        }
    }
    if described.nullable {
        put_validity(page, layout, column, slot, bytes.is_some());
        if bytes.is_none() && live {
            let count = usize::from(layout.null_counts) + 2 * column;
            let nulls = u16_at(page, count) + 1;
            put_u16(page, count, nulls);
        }
    } else {
        assert!(bytes.is_some(), "NULL in a NOT NULL column is refused before it comes here");
    }
}

/// Sets a nullable column's bit of a slot.
pub(super) fn put_validity(page: &mut PageBytes, layout: &PageLayout, column: usize, slot: usize, has_value: bool) {
    let at = usize::from(layout.validity[column]) + slot / 8;
    let bit = 1u8 << (slot % 8);
    if has_value {
        page[at] |= bit;
    } else {
        page[at] &= !bit;
    }
}

/// Removes the last row of a heap's page.
pub(super) fn remove_last(page: &mut PageBytes, rows: &RowLayout, writer: Stamp) -> Result<PageChange, PageDamage> {
    assert!(!rows.is_ordered(), "the rows of an ordered page have positions");
    let (row, writer) = take_last(page, rows, writer)?;
    Ok(PageChange::AppendRow { row, writer })
}

/// Removes the row of the last slot. Returns it and the newest writer before. The caller handles an order.
pub(super) fn take_last(
    page: &mut PageBytes,
    rows: &RowLayout,
    writer: Stamp,
) -> Result<(RowImage, Stamp), PageDamage> {
    let view = RowPage::open(page, rows)?;
    let slot = view.row_count().checked_sub(1).expect("a row to remove");
    if view.is_deleted(slot) {
        return Err(PageDamage::Structure { rule: "the row that was appended last is deleted" });
    }
    let row = view.row_image(slot)?;
    let mut header = PageHeader::read(page)?;
    let before = header.newest_writer;
    let layout = rows.page_layout(header.capacity).expect("opened above");
    let counts = null_counts_after(&view, rows, slot, false)?;
    put_null_counts(page, layout, &counts);
    header.row_count -= 1;
    header.newest_writer = writer;
    header.write(page);
    Ok((row, before))
}

/// The columns in which the row of `slot` is NULL, each with its null count after the row is counted (`live`) or not.
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

pub(super) fn put_null_counts(page: &mut PageBytes, layout: &PageLayout, counts: &[(usize, u16)]) {
    for &(column, count) in counts {
        put_u16(page, usize::from(layout.null_counts) + 2 * column, count);
    }
}

pub(super) fn set_deleted(
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
    let (at, bit) = (usize::from(layout.deleted) + index / 8, 1 << (index % 8));
    // If the count says that no row is deleted, the bits are not read.
    if (page[at] & bit != 0) == deleted {
        return Err(PageDamage::Structure { rule: "deleted count of a row page" });
    }
    put_null_counts(page, layout, &counts);
    page[at] ^= bit;
    header.deleted_count = if deleted { header.deleted_count + 1 } else { header.deleted_count.saturating_sub(1) };
    header.newest_writer = writer;
    header.write(page);
    Ok(undo)
}
