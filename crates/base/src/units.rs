//! Sizes shared by all layers.

/// Bytes in a page. Every page count in a view is of pages of this size.
pub const PAGE_SIZE: usize = 8192;
/// Pages in an extent, the unit of allocation in a file.
pub const EXTENT_PAGES: u32 = 8;
/// Bytes in an extent.
pub const EXTENT_SIZE: usize = PAGE_SIZE * EXTENT_PAGES as usize;

const _: () = assert!(PAGE_SIZE.is_power_of_two() && EXTENT_SIZE == 65_536);
