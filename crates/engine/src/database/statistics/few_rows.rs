//! A few rows as bytes, one after the other: the columns that statistics use.
//!
//! ```text
//! row      kind │ from │ to │ old values, unless inserted │ new values, unless deleted
//! value    length + 1 (0: NULL) │ bytes                    numbers have four bytes
//! ```

/// The maximum number of rows that are kept as they are, and of their bytes.
const ROWS_MAX: usize = 64;
const BYTES_MAX: usize = 16 << 10;
/// Bits of `kind`.
const HAS_OLD: u32 = 1;
const HAS_NEW: u32 = 2;

/// A row's values, in the order of the recorded columns.
type Values<'a> = Vec<Option<&'a [u8]>>;

/// A row that was inserted, deleted or updated.
pub(super) struct Change<'a> {
    /// The partitions (from 0) where it was and where it is.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) old: Option<Values<'a>>,
    pub(super) new: Option<Values<'a>>,
}

#[derive(Default, Debug)]
pub(super) struct FewRows {
    bytes: Vec<u8>,
    rows: usize,
}

impl FewRows {
    /// Adds a row. `old` and `new` return its values by their places in the table.
    pub(super) fn add<'v>(
        &mut self,
        places: &[usize],
        (from, to): (usize, usize),
        old: Option<impl Fn(usize) -> Option<&'v [u8]>>,
        new: Option<impl Fn(usize) -> Option<&'v [u8]>>,
    ) {
        let kind = if old.is_some() { HAS_OLD } else { 0 } | if new.is_some() { HAS_NEW } else { 0 };
        [kind, from as u32, to as u32].into_iter().for_each(|number| self.put(number));
        if let Some(old) = old {
            places.iter().for_each(|place| self.put_value(old(*place)));
        }
        if let Some(new) = new {
            places.iter().for_each(|place| self.put_value(new(*place)));
        }
        self.rows += 1;
    }

    /// Adds the rows of `others`, of the same columns.
    pub(super) fn append(&mut self, others: &FewRows) {
        self.bytes.extend_from_slice(&others.bytes);
        self.rows += others.rows;
    }

    fn put(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn put_value(&mut self, value: Option<&[u8]>) {
        self.put(value.map_or(0, |value| value.len() as u32 + 1));
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// Whether they are too many to keep.
    pub(super) fn are_many(&self) -> bool {
        self.rows >= ROWS_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Passes the rows to `see` in their order; each has `columns` values.
    pub(super) fn for_each(&self, columns: usize, mut see: impl FnMut(&Change<'_>)) {
        let mut rest = Reader(&self.bytes);
        for _ in 0..self.rows {
            let kind = rest.number();
            let (from, to) = (rest.number() as usize, rest.number() as usize);
            let old = (kind & HAS_OLD != 0).then(|| rest.values(columns));
            let new = (kind & HAS_NEW != 0).then(|| rest.values(columns));
            see(&Change { from, to, old, new });
        }
    }

    /// No rows, with the memory kept.
    pub(super) fn emptied(mut self) -> FewRows {
        self.bytes.clear();
        FewRows { bytes: self.bytes, rows: 0 }
    }

    /// The memory they hold in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> u32 {
        let (number, rest) = self.0.split_first_chunk().expect("a number was put here");
        self.0 = rest;
        u32::from_le_bytes(*number)
    }

    fn values(&mut self, columns: usize) -> Values<'a> {
        let value = |_| {
            let length = self.number().checked_sub(1)?;
            let (value, rest) = self.0.split_at(length as usize);
            self.0 = rest;
            Some(value)
        };
        (0..columns).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type NoValues = fn(usize) -> Option<&'static [u8]>;
    const NONE: Option<NoValues> = None;

    #[test]
    fn rows_come_back_as_they_were_put() {
        let mut rows = FewRows::default();
        let old = |place: usize| (place != 3).then_some(&b"old"[..place.min(3)]);
        let new = |place: usize| Some(if place == 3 { &b""[..] } else { b"newer" });
        rows.add(&[1, 3], (4, 4), NONE, Some(new));
        rows.add(&[1, 3], (5, 5), Some(old), NONE);
        rows.add(&[1, 3], (6, 700_000), Some(old), Some(new));
        let mut seen = Vec::new();
        rows.for_each(2, |row| {
            let owned = |values: &Option<Values<'_>>| format!("{values:?}");
            seen.push((row.from, row.to, owned(&row.old), owned(&row.new)));
        });
        let (old, new) =
            (format!("{:?}", Some([Some(b"o"), None])), format!("{:?}", Some([Some(&b"newer"[..]), Some(b"")])));
        let none = "None".to_owned();
        let expected = vec![(4, 4, none.clone(), new.clone()), (5, 5, old.clone(), none), (6, 700_000, old, new)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn rows_are_many_by_their_number_or_their_bytes() {
        let long = vec![0; BYTES_MAX];
        let mut rows = FewRows::default();
        assert!(!rows.are_many());
        rows.add(&[0], (0, 0), NONE, Some(|_| Some(&*long)));
        assert!(rows.are_many());
        let mut rows = rows.emptied();
        for row in 0..ROWS_MAX {
            assert!(!rows.are_many(), "{row}");
            rows.add(&[0], (0, 0), NONE, Some(|_| None::<&[u8]>));
        }
        assert!(rows.are_many());
    }
}
