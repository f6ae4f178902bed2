//! Sets of keys of rows.

use arrow::array::{Array, ArrayRef};
use hobt_access::scan::KeySet;

use hobt_table::{for_each_key, is_number};

/// The most keys that the workers of a build side keep together. Of more, only the bounds are kept.
pub(super) const KEYS_MAX: usize = 4 << 20;

/// The keys of some rows.
#[derive(Debug)]
pub(super) struct Collected {
    keys: Vec<i64>,
    low: i64,
    high: i64,
    /// Whether `keys` has all of them; otherwise it is empty.
    is_whole: bool,
    pub(super) has_null: bool,
    /// Whether the numbers have the order of the values.
    pub(super) is_ordered: bool,
}

impl Default for Collected {
    fn default() -> Collected {
        Collected { keys: Vec::new(), low: i64::MAX, high: i64::MIN, is_whole: true, has_null: false, is_ordered: true }
    }
}

impl Collected {
    /// Adds the keys of a batch. `false` for a type that has no keys.
    pub(super) fn add_array(&mut self, array: &ArrayRef) -> bool {
        self.has_null |= array.null_count() > 0;
        self.is_ordered &= is_number(array.data_type());
        for_each_key(array, |_, key| {
            if let Some((key, is_exact)) = key {
                self.is_ordered &= is_exact;
                (self.low, self.high) = (self.low.min(key), self.high.max(key));
                if self.is_whole && self.keys.last() != Some(&key) {
                    self.keys.push(key);
                }
            }
        })
    }

    /// How many keys are kept.
    pub(super) fn kept(&self) -> usize {
        self.keys.len()
    }

    /// Keeps only the bounds.
    pub(super) fn forget_keys(&mut self) {
        self.is_whole = false;
        self.keys = Vec::new();
    }

    /// Adds the keys of other rows.
    pub(super) fn add(&mut self, other: Collected) {
        (self.low, self.high) = (self.low.min(other.low), self.high.max(other.high));
        self.has_null |= other.has_null;
        self.is_ordered &= other.is_ordered;
        if self.is_whole && other.is_whole {
            if self.keys.is_empty() { self.keys = other.keys } else { self.keys.extend(other.keys) }
        } else {
            self.forget_keys();
        }
    }

    /// The set of the keys.
    pub(super) fn into_set(self) -> KeySet {
        if self.is_whole { KeySet::of(&self.keys) } else { KeySet::between(self.low, self.high) }
    }
}
