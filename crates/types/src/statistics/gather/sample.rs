//! A sample of rows: every row while there are few, then one of two, of four, of eight, and so on.
//!
//! ```text
//! rows    ├──── block ────┤├──── block ────┤      a block is 2^level rows, and one of it is taken, at random, so
//! taken          ▲                      ▲         that neither order nor period of the rows deceives the sample
//! ```
//! When there is no more room, half of the rows taken are dropped and the level increases. The random numbers come from
//! a generator with a fixed seed, so equal input gives an equal sample. Consecutive equal rows are one entry.

use hobt_base::{SplitMix64, compare_bytes};

use crate::statistics::histogram::number_at;

/// The most bytes of keys and values that are held.
const BYTES_MAX: usize = 16 << 20;
/// The most entries whose hashes are all read when different keys are counted. Of more entries, only a part of the
/// hashes is counted.
const COUNTED_MAX: usize = 1 << 13;
/// As an entry's value length: the value is NULL.
const NULL: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Sample {
    level: u32,
    /// Rows to skip before the next one is taken.
    skip: u64,
    /// The rest of the block after the row that is taken next.
    rest: u64,
    random: SplitMix64,
    entries: Vec<Entry>,
    /// The hashes of each entry's prefixes.
    hashes: Vec<u64>,
    columns: usize,
    entries_max: usize,
    bytes: Vec<u8>,
    /// The unit of the rows that are added, and how many units there were before it.
    unit: u32,
    /// Whether the last entry is the row that was added last.
    is_last_current: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    key_len: u32,
    value_len: u32,
    /// Which of the sample's units it is in.
    unit: u32,
    rows: u64,
}

/// Rows of one value.
pub(super) struct Row<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) rows: f64,
    /// In how many units they are.
    pub(super) units: f64,
}

/// Counts of the different keys among the rows taken.
pub(super) struct Counts {
    pub(super) rows: f64,
    pub(super) distinct: f64,
    pub(super) once: f64,
}

impl Sample {
    pub(super) fn new(columns: usize, entries_max: usize) -> Sample {
        Sample {
            level: 0,
            skip: 0,
            rest: 0,
            random: SplitMix64::new(0x5EED),
            entries: Vec::new(),
            hashes: Vec::new(),
            columns,
            entries_max: entries_max.max(1),
            bytes: Vec::new(),
            unit: 0,
            is_last_current: false,
        }
    }

    /// Rows that are added from now on are in another unit.
    pub(super) fn begin_unit(&mut self, unit: u32) {
        self.unit = unit;
        self.is_last_current = false;
    }

    /// Whether every row was taken.
    pub(super) fn is_whole(&self) -> bool {
        self.level == 0
    }

    /// Called when the next row differs from the one before.
    #[inline]
    pub(super) fn row_changes(&mut self) {
        self.is_last_current = false;
    }

    /// Whether the next row is to be taken. Called once for each row.
    #[inline]
    pub(super) fn wants_row(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.level == 0 {
            return true;
        }
        let block = 1 << self.level;
        let place = self.random.next_u64() & (block - 1);
        self.skip = self.rest + place;
        self.rest = block - 1 - place;
        true
    }

    /// Bytes of memory that it holds, approximately.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() + self.hashes.capacity() * size_of::<u64>()
    }

    /// Adds a row to the sample.
    pub(super) fn add(&mut self, key: &[u8], value: Option<&[u8]>, hashes: &[u64]) {
        if self.is_last_current
            && let Some(last) = self.entries.last_mut()
        {
            last.rows += 1;
            return;
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or(&[]));
        let value_len = value.map_or(NULL, |value| value.len() as u32);
        self.entries.push(Entry { at, key_len: key.len() as u32, value_len, unit: self.unit, rows: 1 });
        self.hashes.extend_from_slice(hashes);
        self.is_last_current = true;
        self.thin_while_full();
    }

    /// Adds another sample. Its units follow ours, of which there are `units`.
    pub(super) fn merge(&mut self, mut other: Sample, units: u32) {
        // Otherwise the random choices of all merged samples would begin alike.
        other.random = SplitMix64::new(self.random.next_u64());
        while self.level < other.level {
            self.thin();
        }
        while other.level < self.level {
            other.thin();
        }
        // Neither has more bytes than BYTES_MAX and a row, so the offsets fit.
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |entry: &Entry| Entry { at: entry.at + start, unit: entry.unit + units, ..*entry };
        self.entries.extend(other.entries.iter().map(moved));
        self.hashes.extend_from_slice(&other.hashes);
        self.is_last_current = false;
        self.thin_while_full();
    }

    fn thin_while_full(&mut self) {
        while self.entries.len() > self.entries_max || self.bytes.len() > BYTES_MAX {
            self.thin();
        }
    }

    /// Keeps half of the rows.
    fn thin(&mut self) {
        self.level += 1;
        let mut coins = 0;
        let mut end = 0;
        let mut kept = 0;
        for at in 0..self.entries.len() {
            let mut entry = self.entries[at];
            if at % 64 == 0 {
                coins = self.random.next_u64();
            }
            entry.rows = entry.rows / 2 + (entry.rows & (coins >> (at % 64)) & 1);
            if entry.rows == 0 {
                continue;
            }
            let from = entry.at as usize;
            let len = entry.len();
            self.bytes.copy_within(from..from + len, end);
            entry.at = end as u32;
            end += len;
            self.hashes.copy_within(at * self.columns..(at + 1) * self.columns, kept * self.columns);
            self.entries[kept] = entry;
            kept += 1;
        }
        self.bytes.truncate(end);
        self.entries.truncate(kept);
        self.hashes.truncate(kept * self.columns);
        // The last row's entry may be gone.
        self.is_last_current = false;
    }

    /// The values that are not NULL, in the order of their keys. Equal ones are one row.
    pub(super) fn sorted_values(&self) -> Vec<Row<'_>> {
        let key = |entry: &Entry| &self.bytes[entry.at as usize..(entry.at + entry.key_len) as usize];
        let mut order: Vec<(u64, u32)> = (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.value_len != NULL)
            .map(|(at, entry)| (number_at(key(entry), 1), at))
            .collect();
        let is_number = self.keys_are_numbers();
        if is_number {
            order.sort_unstable();
        } else {
            let key_at = |at: u32| key(&self.entries[at as usize]);
            order.sort_unstable_by(|left, right| {
                let by_number = left.0.cmp(&right.0);
                by_number.then_with(|| compare_bytes(key_at(left.1), key_at(right.1))).then(left.1.cmp(&right.1))
            });
        }
        let mut rows: Vec<Row<'_>> = Vec::with_capacity(order.len());
        let (mut before, mut unit) = (None, 0);
        for (number, at) in order {
            let entry = &self.entries[at as usize];
            let key = key(entry);
            let is_near = before.replace(number) == Some(number);
            if let Some(last) = rows.last_mut().filter(|last| is_near && (is_number || last.key == key)) {
                last.rows += entry.rows as f64;
                last.units += f64::from(u8::from(entry.unit != unit));
                unit = entry.unit;
                continue;
            }
            unit = entry.unit;
            let value_at = (entry.at + entry.key_len) as usize;
            let value = &self.bytes[value_at..value_at + entry.value_len as usize];
            rows.push(Row { key, value, rows: entry.rows as f64, units: 1.0 });
        }
        rows
    }

    /// Whether the keys are equally long and no longer than the number that is made of them.
    fn keys_are_numbers(&self) -> bool {
        let mut lengths = self.entries.iter().filter(|entry| entry.value_len != NULL).map(|entry| entry.key_len);
        let Some(first) = lengths.next() else { return true };
        first as usize <= 1 + size_of::<u64>() && lengths.all(|length| length == first)
    }

    /// Of how many rows one was taken.
    pub(super) fn block_rows(&self) -> f64 {
        (1_u64 << self.level) as f64
    }

    /// The exact number of different keys of a prefix (0: the first column) among the rows taken.
    pub(super) fn distinct(&self, prefix: usize) -> f64 {
        let mut hashes: Vec<u64> = self.hashes.iter().skip(prefix).step_by(self.columns).copied().collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes.len() as f64
    }

    /// The different keys of a prefix (0: the first column) among the rows taken. If there are many entries, only keys
    /// whose hash is in a part of all hashes are counted, and the counts are scaled up.
    pub(super) fn counts(&self, prefix: usize) -> Counts {
        let mut part = 0;
        while self.entries.len() >> part > COUNTED_MAX {
            part += 1;
        }
        let is_counted = |hash: u64| hash & ((1 << part) - 1) == 0;
        let mut keys: Vec<(u64, u64)> = self
            .entries
            .iter()
            .zip(self.hashes.iter().skip(prefix).step_by(self.columns))
            .filter(|(_, hash)| is_counted(**hash))
            .map(|(entry, hash)| (*hash, entry.rows))
            .collect();
        keys.sort_unstable();
        let (mut distinct, mut once) = (0_u64, 0_u64);
        for same in keys.chunk_by(|left, right| left.0 == right.0) {
            distinct += 1;
            once += u64::from(same.len() == 1 && same[0].1 == 1);
        }
        let factor = (1_u64 << part) as f64;
        let rows = self.entries.iter().map(|entry| entry.rows as f64).sum();
        Counts { rows, distinct: distinct as f64 * factor, once: once as f64 * factor }
    }
}

impl Entry {
    fn len(&self) -> usize {
        self.key_len as usize + if self.value_len == NULL { 0 } else { self.value_len as usize }
    }
}

#[cfg(test)]
impl Sample {
    pub(super) fn level(&self) -> u32 {
        self.level
    }
}
