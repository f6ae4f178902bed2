//! Changes of ordered pages, the leaves of B+trees: inserting a row at its position, and keeping some of the rows.
//!
//! A new row goes into the slot after the last, whatever its position is. So slots keep their numbers, and only the
//! later entries of the order move. Slots are renumbered when rows leave the page ([`keep`]), which is how a page is
//! split and how deleted rows are removed.

use hobt_base::Stamp;

use super::PageChange;
use super::new_layout::lay_out_slots;
use super::rows::{Added, add_row, take_last};
use crate::{PageBytes, PageDamage, PageHeader, RowImage, RowLayout, RowPage};

/// Adds a row at a position of the order.
pub(super) fn insert(
    page: &mut PageBytes,
    rows: &RowLayout,
    position: u16,
    row: &RowImage,
    writer: Stamp,
) -> Result<Option<PageChange>, PageDamage> {
    assert!(rows.is_ordered(), "a heap's rows have no positions");
    let header = PageHeader::read(page)?;
    assert!(position <= header.row_count, "a position of the page");
    if matches!(add_row(page, rows, row, writer)?, Added::NoRoom) {
        return Ok(None);
    }
    let capacity = PageHeader::read(page)?.capacity;
    let layout = rows.page_layout(capacity).expect("the page has just taken a row");
    let (at, count) = (usize::from(position), usize::from(header.row_count));
    layout.move_order(page, at, count, at + 1);
    layout.put_slot_at(page, at, count);
    // Not the image of a page laid out again: removing the row is as good, and short.
    Ok(Some(PageChange::RemoveRow { position, writer: header.newest_writer }))
}

/// Removes the row at a position, which must be that of the last slot.
pub(super) fn remove(
    page: &mut PageBytes,
    rows: &RowLayout,
    position: u16,
    writer: Stamp,
) -> Result<PageChange, PageDamage> {
    let view = RowPage::open(page, rows)?;
    let (at, count) = (usize::from(position), view.row_count());
    assert!(rows.is_ordered() && at < count, "a position of an ordered page");
    if view.slot_at(at)? + 1 != count {
        return Err(PageDamage::Structure { rule: "the row to take away is not in the last slot" });
    }
    let (row, writer) = take_last(page, rows, writer)?;
    let layout = rows.page_layout(PageHeader::read(page)?.capacity).expect("opened above");
    layout.move_order(page, at + 1, count, at);
    Ok(PageChange::InsertRow { position, row, writer })
}

/// Lays the page out again with only the rows at `positions`, without deleted ones if these are dropped. Slots are then
/// numbered in the page's order.
pub(super) fn keep(
    page: &mut PageBytes,
    rows: &RowLayout,
    positions: std::ops::Range<u16>,
    drop_deleted: bool,
    writer: Stamp,
) -> Result<PageChange, PageDamage> {
    let view = RowPage::open(page, rows)?;
    let positions = usize::from(positions.start)..usize::from(positions.end);
    assert!(rows.is_ordered(), "a heap's slots keep their numbers");
    assert!(positions.start <= positions.end && positions.end <= view.row_count(), "positions of the page");
    let slots = positions.map(|position| view.slot_at(position)).collect::<Result<Vec<_>, _>>()?;
    let slots: Vec<usize> = slots.into_iter().filter(|&slot| !drop_deleted || !view.is_deleted(slot)).collect();
    let fresh = lay_out_slots(&view, &slots)?;
    let undo = PageChange::Image { bytes: Box::new(*page) };
    page.copy_from_slice(&fresh[..]);
    let mut header = PageHeader::read(page)?;
    header.newest_writer = writer;
    header.write(page);
    Ok(undo)
}
