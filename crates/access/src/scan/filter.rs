//! Filters of a scan: which rows of a page may have a key of a set, tested before any other column is read; and which
//! pages cannot have one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_page::{RowLayout, RowPage};
use hobt_types::PhysicalType;

use super::Scan;
use super::dispenser::PageRange;
use super::kernels::Kernels;
use super::key_set::{Byte, KeySet, LowerHalf, Number16, Number32, Number64};
use crate::KeyRange;

/// A condition on one column of fixed length: its value is in a set. Values of sixteen bytes are represented by their
/// lower half.
#[derive(Clone, Debug)]
pub struct ColumnFilter {
    column: usize,
    keys: Arc<KeySet>,
    keeps_null: bool,
    kernels: Kernels,
}

impl ColumnFilter {
    /// The condition that column `column` of rows of this layout has a value of `keys`, or is NULL if it `keeps_null`.
    /// `None` if the column's length is not fixed.
    pub fn new(rows: &RowLayout, column: usize, keys: Arc<KeySet>, keeps_null: bool) -> Option<ColumnFilter> {
        rows.columns().get(column)?.physical.width()?;
        Some(ColumnFilter { column, keys, keeps_null, kernels: Kernels::new() })
    }

    /// The column.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Replaces `slots` by the slots of the page's live rows that may fulfil the condition, in order.
    pub fn select(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        slots.clear();
        if page.null_count(self.column) > 0 {
            slots.extend((0..page.row_count()).filter(|&slot| self.passes(page, slot)));
        } else {
            self.select_values(page, slots);
        }
        if page.deleted_count() > 0 {
            slots.retain(|&slot| !page.is_deleted(slot));
        }
    }

    /// Removes the slots that cannot fulfil the condition.
    pub fn retain(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        if page.null_count(self.column) > 0 {
            return slots.retain(|&slot| self.passes(page, slot));
        }
        fn chosen<const N: usize>(keys: &KeySet, bytes: &[u8], slots: &mut Vec<usize>, key: impl Fn([u8; N]) -> i64) {
            let values = bytes.as_chunks().0;
            slots.retain(|&slot| keys.may_have(key(values[slot])));
        }
        let (keys, bytes) = (&*self.keys, page.fixed(self.column));
        match page.row_layout().columns()[self.column].physical {
            PhysicalType::Fixed1 => chosen(keys, bytes, slots, |[byte]| i64::from(byte)),
            PhysicalType::Fixed2 => chosen(keys, bytes, slots, |value| i64::from(i16::from_le_bytes(value))),
            PhysicalType::Fixed4 => chosen(keys, bytes, slots, |value| i64::from(i32::from_le_bytes(value))),
            PhysicalType::Fixed8 => chosen(keys, bytes, slots, i64::from_le_bytes),
            PhysicalType::Fixed16 => chosen(keys, bytes, slots, lower_half),
            PhysicalType::Variable => unreachable!("a column of fixed length"),
        }
    }

    /// Selects the slots, including deleted ones, of a page on which the column is never NULL.
    fn select_values(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        let bytes = page.fixed(self.column);
        match page.row_layout().columns()[self.column].physical {
            PhysicalType::Fixed1 => self.keys.select::<Byte>(bytes.as_chunks().0, self.kernels, slots),
            PhysicalType::Fixed2 => self.keys.select::<Number16>(bytes.as_chunks().0, self.kernels, slots),
            PhysicalType::Fixed4 => self.keys.select::<Number32>(bytes.as_chunks().0, self.kernels, slots),
            PhysicalType::Fixed8 => self.keys.select::<Number64>(bytes.as_chunks().0, self.kernels, slots),
            PhysicalType::Fixed16 => self.keys.select::<LowerHalf>(bytes.as_chunks().0, self.kernels, slots),
            PhysicalType::Variable => unreachable!("a column of fixed length"),
        }
    }

    fn passes(&self, page: &RowPage<'_>, slot: usize) -> bool {
        if page.is_null(self.column, slot) {
            return self.keeps_null;
        }
        let bytes = page.fixed(self.column);
        let width = bytes.len() / page.row_count().max(1);
        let value = &bytes[slot * width..(slot + 1) * width];
        let key = match *value {
            [byte] => i64::from(byte),
            [a, b] => i64::from(i16::from_le_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => value.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)),
        };
        self.keys.may_have(key)
    }
}

fn lower_half(value: [u8; 16]) -> i64 {
    value.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// Which pages of a scan are not needed, as found after it began.
#[derive(Debug)]
pub struct ScanLimits {
    /// Whether each of the scan's partitions is needed.
    pub partitions: Vec<bool>,
    /// The keys whose rows are needed, in the partitions that are trees.
    pub keys: Option<KeyRange>,
    /// The number of pages that were skipped.
    pub skipped_pages: AtomicU64,
}

impl ScanLimits {
    /// The needed part of a range: nothing, or its pages without unneeded pages at its ends.
    pub(super) fn cut(&self, scan: &Scan, range: PageRange) -> Option<PageRange> {
        let cut = self.wanted(scan, range);
        let skipped = range.count - cut.map_or(0, |cut| cut.count);
        self.skipped_pages.fetch_add(u64::from(skipped), Ordering::Relaxed);
        cut
    }

    fn wanted(&self, scan: &Scan, range: PageRange) -> Option<PageRange> {
        if !self.partitions.get(range.partition).is_none_or(|is_wanted| *is_wanted) {
            return None;
        }
        let (Some(keys), Some(leaves)) = (&self.keys, &scan.partitions[range.partition].leaves) else {
            return Some(range);
        };
        let (from, to) = keys.bounds();
        let is_wanted = |page: &u32| {
            let (low, high) = leaves.bounds(range.leaf + *page as usize);
            high.is_none_or(|high| from < high) && to.is_none_or(|to| low < to)
        };
        let first = (0..range.count).find(is_wanted)?;
        let last = (0..range.count).rev().find(is_wanted)?;
        Some(PageRange { count: last - first + 1, ..range.behind(first) })
    }
}
