//! The typed changes of a page, and the one function that applies them.
//!
//! [`apply`] returns the change that undoes it. A statement keeps these in memory and, when it fails or is cancelled,
//! applies them in reverse order. The log keeps the changes themselves (`codec` defines their bytes), and recovery
//! calls the same function. A change that does not fit the page leaves it unchanged.

mod codec;
mod new_layout;
mod ordered;
mod replace;
mod rows;

use hobt_base::{PAGE_SIZE, PageId, SlotId, Stamp};

pub use codec::{EncodingDamage, EncodingReader, put_number};
use ordered::{insert, keep, remove};
use replace::replace;
use rows::{append, remove_last, set_deleted};

use crate::header::HEADER_SIZE;
use crate::index_page::{INDEX_KEY_BYTES_MAX, IndexPage, insert_entry, keep_entries, remove_entry, set_leftmost};
use crate::{PageBytes, PageDamage, PageFlags, PageHeader, PageType, RowImage, RowLayout, RowPage};

/// A change of one page.
#[derive(Clone, PartialEq, Debug)]
pub enum PageChange {
    /// Formats the page: this header, an empty body. A row page gets areas for `header.capacity` slots.
    Format {
        /// The new header.
        header: PageHeader,
    },
    /// Replaces the whole page: the undo of `Format` and of a change of layout.
    Image {
        /// The page's bytes.
        bytes: Box<PageBytes>,
    },
    /// Adds a row after the last slot.
    AppendRow {
        /// The row.
        row: RowImage,
        /// The statement that writes.
        writer: Stamp,
    },
    /// Removes the row of the last slot: the undo of `AppendRow`.
    RemoveLastRow {
        /// The newest writer before the append.
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
    /// Puts another row into a slot. If the slot is deleted, it stays so.
    ReplaceRow {
        /// The row's slot.
        slot: SlotId,
        /// The new row.
        row: RowImage,
        /// The statement that writes.
        writer: Stamp,
    },
    /// Adds a row after the last slot of an ordered page, at a position of its order.
    InsertRow {
        /// How many rows, deleted ones included, come before it.
        position: u16,
        /// The row.
        row: RowImage,
        /// The statement that writes.
        writer: Stamp,
    },
    /// Removes the row in the last slot of an ordered page: the undo of `InsertRow`.
    RemoveRow {
        /// The row's position in the page's order.
        position: u16,
        /// The newest writer before the insert.
        writer: Stamp,
    },
    /// Keeps some rows of an ordered page and lays it out again: the part that a split leaves here, or a page without
    /// its deleted rows. Slots are renumbered in the page's order.
    KeepRows {
        /// The first position that is kept.
        from: u16,
        /// The position after the last one that is kept.
        to: u16,
        /// Whether deleted rows are dropped.
        drop_deleted: bool,
        /// The new newest writer.
        writer: Stamp,
    },
    /// Adds an entry to a page above a B+tree's leaves.
    InsertEntry {
        /// How many entries come before it.
        position: u16,
        /// Its separator, 1 to [`INDEX_KEY_BYTES_MAX`] bytes.
        key: Vec<u8>,
        /// The child that holds the keys from the separator on.
        child: PageId,
    },
    /// Removes an entry: the undo of `InsertEntry`.
    RemoveEntry {
        /// The entry's position.
        position: u16,
    },
    /// Sets the child of the keys before the first separator.
    SetLeftmost {
        /// The child.
        child: PageId,
    },
    /// Keeps some entries: the part that a split leaves here. The child before them becomes the leftmost.
    KeepEntries {
        /// The first position that is kept.
        from: u16,
        /// The position after the last one that is kept.
        to: u16,
    },
    /// Overwrites bytes after the header: bitmaps, run lists, file headers.
    Write {
        /// The first byte's offset in the page.
        offset: u16,
        /// The new bytes.
        bytes: Vec<u8>,
    },
    /// Replaces the header's fields, except the checksum.
    SetHeader {
        /// The new header.
        header: PageHeader,
    },
}

impl PageChange {
    /// Whether the change can belong to this page, so that [`apply`] does not panic. Recovery calls this for a change
    /// that it has read. Code that makes a change from the current page need not.
    ///
    /// # Errors
    /// The change cannot belong to it: the page is damaged, or the change is for another page.
    pub fn check(&self, page: &PageBytes, rows: Option<&RowLayout>) -> Result<(), PageDamage> {
        let rule = |holds: bool, rule| if holds { Ok(()) } else { Err(PageDamage::Structure { rule }) };
        let rows = || rows.ok_or(PageDamage::Structure { rule: "a change of rows in a page that has none" });
        match self {
            PageChange::Format { header } if header.page_type == PageType::Row => {
                rule(rows()?.page_layout(header.capacity).is_some(), "capacity of a row page")
            }
            PageChange::Format { .. } | PageChange::Image { .. } | PageChange::SetHeader { .. } => Ok(()),
            PageChange::AppendRow { row, .. } => {
                rule(!rows()?.is_ordered(), "a row without a position")?;
                rule(row.fits_columns(rows()?), "a row of another table")
            }
            PageChange::RemoveLastRow { .. } => {
                rule(!rows()?.is_ordered(), "a row without a position")?;
                rule(RowPage::open(page, rows()?)?.row_count() > 0, "the last row of a page without rows")
            }
            PageChange::ReplaceRow { slot, row, .. } => {
                rule(usize::from(slot.0) < RowPage::open(page, rows()?)?.row_count(), "a slot of the page")?;
                rule(row.fits_columns(rows()?), "a row of another table")
            }
            PageChange::InsertRow { position, row, .. } => {
                let view = RowPage::open(page, rows()?)?;
                rule(rows()?.is_ordered() && usize::from(*position) <= view.row_count(), "a position of the page")?;
                rule(row.fits_columns(rows()?), "a row of another table")
            }
            PageChange::RemoveRow { position, .. } => {
                let view = RowPage::open(page, rows()?)?;
                rule(rows()?.is_ordered() && usize::from(*position) < view.row_count(), "a position of the page")
            }
            PageChange::InsertEntry { position, key, .. } => {
                let count = IndexPage::open(page)?.len();
                rule(usize::from(*position) <= count, "a position of the page")?;
                rule((1..=INDEX_KEY_BYTES_MAX).contains(&key.len()), "the length of a key")
            }
            PageChange::RemoveEntry { position } => {
                rule(usize::from(*position) < IndexPage::open(page)?.len(), "a position of the page")
            }
            PageChange::SetLeftmost { .. } => IndexPage::open(page).map(drop),
            PageChange::KeepEntries { from, to } => {
                rule(from <= to && usize::from(*to) <= IndexPage::open(page)?.len(), "a position of the page")
            }
            PageChange::KeepRows { from, to, .. } => {
                let view = RowPage::open(page, rows()?)?;
                rule(rows()?.is_ordered() && usize::from(*to) <= view.row_count(), "a position of the page")?;
                rule(from <= to, "a position of the page")
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

/// Applies `change`; returns the change that undoes it, or `Ok(None)` if the page has no room for the row or entry.
///
/// `rows` is the table's layout. Changes of row pages need it.
///
/// # Errors
/// The page contradicts its layout (damage).
///
/// # Panics
/// If the change cannot belong to this page at all: a row of another table, a slot that does not exist. The caller then
/// breaks an invariant. Check changes from a log with [`PageChange::check`] first.
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
        PageChange::ReplaceRow { slot, row, writer } => {
            replace(page, rows.expect("a row page has a layout"), *slot, row, *writer)
        }
        PageChange::InsertRow { position, row, writer } => {
            insert(page, rows.expect("a row page has a layout"), *position, row, *writer)
        }
        PageChange::RemoveRow { position, writer } => {
            remove(page, rows.expect("a row page has a layout"), *position, *writer).map(Some)
        }
        PageChange::KeepRows { from, to, drop_deleted, writer } => {
            keep(page, rows.expect("a row page has a layout"), *from..*to, *drop_deleted, *writer).map(Some)
        }
        PageChange::InsertEntry { position, key, child } => {
            let has_room = insert_entry(page, *position, key, *child)?;
            Ok(has_room.then_some(PageChange::RemoveEntry { position: *position }))
        }
        PageChange::RemoveEntry { position } => {
            let (key, child) = remove_entry(page, *position)?;
            Ok(Some(PageChange::InsertEntry { position: *position, key, child }))
        }
        PageChange::SetLeftmost { child } => Ok(Some(PageChange::SetLeftmost { child: set_leftmost(page, *child)? })),
        PageChange::KeepEntries { from, to } => Ok(Some(PageChange::Image { bytes: keep_entries(page, *from, *to)? })),
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
    header.flags = header.flags.without(PageFlags::ORDERED);
    if rows.is_ordered() {
        header.flags = header.flags.with(PageFlags::ORDERED);
    }
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

#[cfg(test)]
mod tests;
