//! The byte layouts of pages, and the one function that changes them.
//!
//! ```text
//! +--------+------------------------------------------------------------+
//! | header | body, by page type                                         |
//! | 64     | row page: column areas (PAX) · separators · run list · …   |
//! +--------+------------------------------------------------------------+
//! ```
//!
//! Every page starts with a [`PageHeader`] in one format. [`seal`] puts the CRC-32C of the rest into its first four
//! bytes. [`verify`] checks it together with the page's own address, so that a flipped bit, a torn write and a page
//! written to the wrong place are all found.
//!
//! A row page belongs to a heap or is a leaf of a B+tree. A leaf is *ordered*: it also stores its rows' slots in key
//! order ([`RowLayout::ordered`], [`RowPage::find`]).
//!
//! Every change of a page is a [`PageChange`] applied by [`apply`], which returns the change that undoes it. A page
//! that a bulk load builds in private memory is formatted by [`BulkPageBuilder`] instead and becomes visible as a
//! whole.
//!
//! This crate handles only bytes: no files, no latches, no SQL types beyond their physical form.

#![deny(unsafe_code)]

mod allocation;
mod bulk;
mod change;
mod checksum;
mod file_header;
mod header;
mod index_page;
mod large_value;
mod layout;
mod leaf_split;
mod row_image;
mod row_page;
mod run_list;
mod written_map;

pub use allocation::{
    AllocationMap, EXTENTS_PER_MAP, INTERVAL_PAGES, MAP_PAGE_IN_INTERVAL, RESERVED_PAGES, map_page_of,
};
pub use bulk::{BulkColumn, BulkPage, BulkPageBuilder, ValidityBits};
pub use change::{EncodingDamage, EncodingReader, PageChange, apply, put_number};
pub use checksum::{ValueChecksum, seal, verify};
pub use file_header::{
    BOOT_COPY_PAGE, BOOT_PAGE, BootPage, FILE_HEADER_COPY_PAGE, FILE_HEADER_PAGE, FileHeader, SystemHobt,
};
pub use header::{FORMAT_VERSION, NEWEST_WRITER_WORD, PageDamage, PageFlags, PageHeader, PageType};
pub use index_page::{INDEX_KEY_BYTES_MAX, IndexPage, IndexSplit, check_index_page};
pub use large_value::{
    IN_ROW_BYTES_MAX, LARGE_VALUE_BYTES_MAX, LargeValuePage, PIECE_BYTES_MAX, POINTER_BYTES, ValuePointer,
};
pub use layout::{ColumnLayout, MAX_COLUMNS, MAX_LAYOUT_COLUMNS, PageLayout, RowLayout};
pub use leaf_split::LeafSplit;
pub use row_image::{ColumnValue, RowImage};
pub use row_page::{RowPage, StoredValue, check_row_page};
pub use run_list::{RUNS_PER_PAGE, Run, RunContents, RunListPage};
pub use written_map::{WrittenMap, WrittenSince};

use hobt_base::PAGE_SIZE;

/// The bytes of a page.
pub type PageBytes = [u8; PAGE_SIZE];

/// Reads a little-endian `u16` at a fixed offset of a page.
#[inline]
fn u16_at(page: &PageBytes, at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

/// Reads a little-endian `u32` at a fixed offset of a page.
fn u32_at(page: &PageBytes, at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

/// Reads a little-endian `u64` at a fixed offset of a page.
#[inline]
fn u64_at(page: &PageBytes, at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes a little-endian `u16`.
fn put_u16(page: &mut PageBytes, at: usize, value: u16) {
    page[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Writes a little-endian `u32`.
fn put_u32(page: &mut PageBytes, at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Writes a little-endian `u64`.
fn put_u64(page: &mut PageBytes, at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
