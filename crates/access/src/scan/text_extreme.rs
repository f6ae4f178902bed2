//! `MIN` and `MAX` of a text column.
//!
//! Under the default collation the key of ASCII text is a weight for each byte, in order, so a value's first byte often
//! rejects it. First bytes are tested for a group of values at once, with one branch for all of them.

use hobt_base::PAGE_SIZE;
use hobt_page::{PageBytes, PageDamage, RowPage, StoredValue};
use hobt_types::Collation;

use super::aggregate::{AggregateError, PageAndValues, for_each_text};
use super::kernels::Kernels;

/// The number of values whose first bytes are tested together.
const GROUP: usize = 8;

/// The best text so far, of one worker.
#[derive(Debug)]
pub(super) struct TextExtreme {
    collation: Collation,
    /// Whether the greatest is sought, or the least.
    greatest: bool,
    best: Option<Vec<u8>>,
    /// For each first byte, whether a value with it is certainly worse.
    worse: [bool; 256],
    /// The weights of ASCII characters under the default collation.
    weights: [u8; 128],
}

impl TextExtreme {
    pub(super) fn new(collation: Collation, greatest: bool) -> TextExtreme {
        let mut weights = [0; 128];
        let mut key = Vec::new();
        for (byte, weight) in (0u8..).zip(&mut weights) {
            key.clear();
            Collation::Latin1GeneralCiAs.sort_key(char::from(byte).encode_utf8(&mut [0; 4]), &mut key);
            // A space alone has an empty key, because trailing spaces do not count. A leading space is below all other
            // characters.
            *weight = key.first().copied().unwrap_or(0);
        }
        TextExtreme { collation, greatest, best: None, worse: [false; 256], weights }
    }

    /// The best text, `None` without rows.
    pub(super) fn into_best(self) -> Option<String> {
        self.best.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Adds a page's live values. Blocks if some have to be fetched.
    pub(super) fn add_page(
        &mut self,
        (page, values): PageAndValues<'_, '_>,
        column: usize,
        kernels: Kernels,
    ) -> Result<(), AggregateError> {
        if page.has_pointers() {
            return for_each_text((page, values), column, |_, value| self.offer(value));
        }
        let ends = page.ends(column);
        let [_, (place, used)] = page.extents(column);
        let (_, ordered) = kernels.longest(ends);
        if !ordered || used > page.variable(column).len() {
            return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" }.into());
        }
        let quick = page.is_ascii(column) && self.collation == Collation::Latin1GeneralCiAs;
        // Known from the page's header: the bits themselves would be one more cache line.
        let all_live = page.null_count(column) == 0 && page.deleted_count() == 0;
        let how = (quick, all_live);
        let (groups, rest) = ends.as_chunks::<GROUP>();
        let mut start = 0;
        for (index, group) in groups.iter().enumerate() {
            if !(quick && self.turns_away(page.bytes(), place, start, group)) {
                self.offer_each(page, column, how, (index * GROUP, start, group))?;
            }
            start = offset(group[GROUP - 1]);
        }
        self.offer_each(page, column, how, (groups.len() * GROUP, start, rest))
    }

    /// Adds the values in `slots` of a page. Blocks if some have to be fetched.
    pub(super) fn add_slots(
        &mut self,
        (page, values): PageAndValues<'_, '_>,
        column: usize,
        slots: &[usize],
    ) -> Result<(), AggregateError> {
        for &slot in slots {
            match page.stored(column, slot)? {
                StoredValue::Null => {}
                StoredValue::InRow(bytes) => self.offer(bytes)?,
                StoredValue::Pointer(pointer) => self.offer(&values.fetch(&pointer).map_err(AggregateError::Fetch)?)?,
            }
        }
        Ok(())
    }

    /// Whether every value of a group is worse by its first byte. For an empty value this reads the next value's first
    /// byte. That does not affect a search for the greatest, which an empty value cannot be.
    #[inline]
    fn turns_away(&self, page: &PageBytes, place: usize, mut start: usize, group: &[[u8; 2]; GROUP]) -> bool {
        let mut all_worse = true;
        for end in group {
            let end = offset(*end);
            // Values are in the page, so the mask changes nothing, and saves the bounds check.
            let first = page[(place + start) & (PAGE_SIZE - 1)];
            all_worse &= self.worse[usize::from(first)] & (self.greatest | (start != end));
            start = end;
        }
        all_worse
    }

    /// Offers the live values of rows from `first_row` on, whose bytes begin at `start` of the column's area.
    fn offer_each(
        &mut self,
        page: &RowPage<'_>,
        column: usize,
        (quick, all_live): (bool, bool),
        (first_row, mut start, ends): (usize, usize, &[[u8; 2]]),
    ) -> Result<(), AggregateError> {
        let area = page.variable(column);
        for (row, end) in (first_row..).zip(ends) {
            let value = &area[start..offset(*end)];
            start = offset(*end);
            let turned_away = quick && value.first().is_some_and(|first| self.worse[usize::from(*first)]);
            if !turned_away && (all_live || !(page.is_deleted(row) || page.is_null(column, row))) {
                self.offer(value)?;
            }
        }
        Ok(())
    }

    fn offer(&mut self, value: &[u8]) -> Result<(), AggregateError> {
        let text =
            |bytes| std::str::from_utf8(bytes).map_err(|_| PageDamage::Structure { rule: "text that is not UTF-8" });
        if let Some(best) = &self.best {
            if best == value {
                return Ok(());
            }
            let order = self.collation.compare(text(value)?, text(best)?);
            if order.is_eq() || order.is_gt() != self.greatest {
                return Ok(());
            }
        }
        text(value)?;
        self.best = Some(value.to_vec());
        // A best that is not ASCII rejects nothing by its first byte. No value is less than an empty one.
        self.worse = [value.is_empty() && !self.greatest; 256];
        if let Some(&first) = value.first().filter(|_| value.is_ascii()) {
            let best = self.weights[usize::from(first)];
            for (worse, &weight) in self.worse.iter_mut().zip(&self.weights) {
                *worse = if self.greatest { weight < best } else { weight > best };
            }
        }
        Ok(())
    }
}

fn offset(end: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(end))
}
