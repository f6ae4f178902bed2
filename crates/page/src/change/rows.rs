//! Single rows: added behind the last slot, taken away again, marked as deleted.

use hobt_base::{SlotId, Stamp};

use super::PageChange;
use super::new_layout::lay_out_with;
use crate::layout::{PageLayout, RowLayout};
use crate::row_page::{POINTER_BIT, RowPage, StoredValue};
use crate::{PageBytes, PageDamage, PageHeader, RowImage, put_u16, u16_at};

pub(super) fn append(
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
pub(super) fn put_row(page: &mut PageBytes, rows: &RowLayout, layout: &PageLayout, slot: usize, row: &RowImage) {
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

pub(super) fn remove_last(page: &mut PageBytes, rows: &RowLayout, writer: Stamp) -> Result<PageChange, PageDamage> {
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
    put_null_counts(page, layout, &counts);
    page[usize::from(layout.deleted) + index / 8] ^= 1 << (index % 8);
    header.deleted_count = if deleted { header.deleted_count + 1 } else { header.deleted_count.saturating_sub(1) };
    header.newest_writer = writer;
    header.write(page);
    Ok(undo)
}
