//! Puts another row into a slot: in place if the areas have room, else by a new layout of the page.
//!
//! Values of fixed length are overwritten. If a value of variable length changes its length, the bytes after it in its
//! column's area move, and the end offsets from its slot on change. A column whose value stays is not touched.

use hobt_base::{SlotId, Stamp};

use super::PageChange;
use super::new_layout::lay_out_with;
use super::rows::{put_null_counts, put_validity};
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::{POINTER_BIT, RowPage, StoredValue};
use crate::{PageBytes, PageDamage, PageHeader, RowImage, put_u16, u16_at};

/// Puts `row` into a slot in use, deleted or not; `None` if the page has no room.
pub(super) fn replace(
    page: &mut PageBytes,
    rows: &RowLayout,
    slot: SlotId,
    row: &RowImage,
    writer: Stamp,
) -> Result<Option<PageChange>, PageDamage> {
    assert!(row.fits_columns(rows), "a row of this table");
    let view = RowPage::open(page, rows)?;
    let index = usize::from(slot.0);
    assert!(index < view.row_count(), "a slot of the page");
    let before = view.row_image(index)?;
    let mut header = PageHeader::read(page)?;
    let columns: Vec<usize> =
        (0..rows.columns().len()).filter(|&column| row.stored(column) != before.stored(column)).collect();
    let Some(moves) = moves(&view, rows, index, row, &columns)? else {
        let Some(fresh) = lay_out_with(&view, index, row)? else { return Ok(None) };
        let undo = PageChange::Image { bytes: Box::new(*page) };
        page.copy_from_slice(&fresh[..]);
        header = PageHeader::read(page)?;
        header.newest_writer = writer;
        header.write(page);
        return Ok(Some(undo));
    };
    let counts = null_counts_after(&view, &before, index, row, &columns)?;
    let undo = PageChange::ReplaceRow { slot, row: before, writer: header.newest_writer };
    let layout = rows.page_layout(header.capacity).expect("opened above");
    let count = view.row_count();
    for moved in &moves {
        put_variable(page, layout, count, index, moved, row.stored(moved.column));
    }
    for &column in &columns {
        if let Some(width) = rows.columns()[column].physical.width() {
            let at = usize::from(layout.values[column]) + index * width;
            match row.value(column) {
                Some(bytes) => page[at..at + width].copy_from_slice(bytes),
                None => page[at..at + width].fill(0),
            }
        }
        if rows.columns()[column].nullable {
            put_validity(page, layout, column, index, row.value(column).is_some());
        }
    }
    put_null_counts(page, layout, &counts);
    header.flags = header.flags.with(row.flags());
    header.newest_writer = writer;
    header.write(page);
    Ok(Some(undo))
}

/// A column of variable length whose value changes, and the old value's position in its area.
struct Move {
    column: usize,
    rank: usize,
    start: usize,
    end: usize,
    /// Bytes of the area in use.
    used: usize,
}

/// The columns to move when `row` replaces the row in `slot`; `None` if an area has no room.
fn moves(
    view: &RowPage<'_>,
    rows: &RowLayout,
    slot: usize,
    row: &RowImage,
    columns: &[usize],
) -> Result<Option<Vec<Move>>, PageDamage> {
    let mut moves = Vec::new();
    for &column in columns {
        let Some(rank) = rows.variable_rank(column) else { continue };
        if !view.ends_are_ordered(column) {
            return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" });
        }
        let (start, end) = view.span(column, slot);
        let used = view.variable_used(column);
        if used - (end - start) + row.stored(column).byte_count() > view.variable(column).len() {
            return Ok(None);
        }
        moves.push(Move { column, rank, start, end, used });
    }
    Ok(Some(moves))
}

/// Overwrites a value with another, for which the area has room, and moves the bytes after it.
fn put_variable(
    page: &mut PageBytes,
    layout: &PageLayout,
    row_count: usize,
    slot: usize,
    moved: &Move,
    value: StoredValue<'_>,
) {
    let pointer = value.pointer_bytes();
    let bytes = value.in_row().or(pointer.as_ref().map(|bytes| &bytes[..])).unwrap_or_default();
    let area = usize::from(layout.area_start(page, moved.rank));
    let new_end = moved.start + bytes.len();
    page.copy_within(area + moved.end..area + moved.used, area + new_end);
    page[area + moved.start..area + new_end].copy_from_slice(bytes);
    let ends = usize::from(layout.values[moved.column]);
    for behind in slot..row_count {
        let at = ends + 2 * behind;
        let old = u16_at(page, at);
        let end = usize::from(old & !POINTER_BIT) - moved.end + new_end;
        let bit = if behind == slot { if pointer.is_some() { POINTER_BIT } else { 0 } } else { old & POINTER_BIT };
        put_u16(page, at, u16::try_from(end).expect("in the area") | bit);
    }
    if pointer.is_some() || !bytes.is_ascii() {
        layout.mark_not_ascii(page, moved.rank);
    }
}

/// The null counts of the columns that become NULL or stop being NULL. Those of a deleted row do not count.
fn null_counts_after(
    view: &RowPage<'_>,
    before: &RowImage,
    slot: usize,
    row: &RowImage,
    columns: &[usize],
) -> Result<Vec<(usize, u16)>, PageDamage> {
    if view.is_deleted(slot) {
        return Ok(Vec::new());
    }
    let live = view.row_count() - view.deleted_count();
    let damage = PageDamage::Structure { rule: "null count of a column" };
    columns
        .iter()
        .filter(|&&column| before.value(column).is_none() != row.value(column).is_none())
        .map(|&column| {
            let count = view.null_count(column);
            let after = if row.value(column).is_none() { Some(count + 1) } else { count.checked_sub(1) };
            let after = after.filter(|after| *after <= live).ok_or(damage)?;
            Ok((column, u16::try_from(after).expect("at most as many as there are rows")))
        })
        .collect()
}
