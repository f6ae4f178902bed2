//! Conditions that a scan tests itself, exactly: what passes needs no further test.
//!
//! The filters of `join_filter` let some rows pass that are not wanted, since an operator above tests the conditions
//! again. Here nothing does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_access::AccessError;
use hobt_access::scan::{ColumnFilter, KeySet, Scan, ScanValues, ShownPage, TextCheck, TextFilter};

use crate::scan_exec::ScanExec;
use hobt_table::{FilterCounts, OperatorProfile};

/// A condition on one column of a table.
#[derive(Clone)]
pub enum RowTest {
    /// Its number is one of these. NULL is not.
    Number {
        /// The column's index in the table.
        column: usize,
        /// The numbers; the set must be exact.
        keys: Arc<KeySet>,
    },
    /// Its text fulfils a condition. NULL does not.
    Text {
        /// What bytes decide.
        filter: TextFilter,
        /// What decides otherwise.
        check: TextCheck,
    },
}

impl RowTest {
    /// The column's index in the table.
    pub fn column(&self) -> usize {
        match self {
            RowTest::Number { column, .. } => *column,
            RowTest::Text { filter, .. } => filter.column(),
        }
    }
}

impl fmt::Debug for RowTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowTest of column {}", self.column())
    }
}

/// The tests of one worker of a scan.
pub(crate) struct PageFilter {
    tests: Vec<(How, Arc<FilterCounts>)>,
    /// The columns of the tests, and those that are read of the rows that pass.
    tested: Vec<usize>,
    read: Vec<usize>,
    slots: Vec<usize>,
    /// Rows that have passed.
    passed: u64,
    /// Rows of each test left out that are not in its counters yet.
    left_out: Vec<u64>,
}

enum How {
    Number(ColumnFilter),
    Text(TextFilter, TextCheck),
}

/// About how many values of a column are in a cache line: if one of so many rows is wanted, most lines are.
const ROWS_OF_LINE: usize = 16;

impl PageFilter {
    pub(crate) fn new(
        tests: &[RowTest],
        read: impl Iterator<Item = usize>,
        (scan, source): (&Arc<Scan>, &ScanExec),
        profile: &OperatorProfile,
    ) -> PageFilter {
        let how = |test: &RowTest| match test {
            RowTest::Number { column, keys } => {
                let filter = ColumnFilter::new(scan.row_layout(), *column, Arc::clone(keys), false);
                How::Number(filter.expect("a column of numbers"))
            }
            RowTest::Text { filter, check } => How::Text(filter.clone(), Arc::clone(check)),
        };
        let made = tests.iter().enumerate().map(|(place, test)| {
            let name = &source.table().table().columns[test.column()].name;
            let counts = profile.filter(place, name, false);
            counts.kind.get_or_init(|| match test {
                RowTest::Number { keys, .. } => keys.kind(),
                RowTest::Text { filter, .. } => filter.kind(),
            });
            (how(test), counts)
        });
        let tested: Vec<usize> = tests.iter().map(RowTest::column).collect();
        PageFilter {
            tests: made.collect(),
            read: read.filter(|column| !tested.contains(column)).collect(),
            tested,
            slots: Vec::new(),
            passed: 0,
            left_out: vec![0; tests.len()],
        }
    }

    /// The slots of a page's live rows that pass. Blocks if texts have to be fetched.
    ///
    /// # Errors
    /// A text is damaged, or cannot be fetched.
    pub(crate) fn select(
        &mut self,
        shown: ShownPage<'_, '_>,
        values: &ScanValues<'_>,
    ) -> Result<&[usize], AccessError> {
        let ShownPage { id, page, next, .. } = shown;
        if let Some(next) = next {
            self.tested.iter().for_each(|&column| next.fetch(page, column));
            if self.slots.len() * ROWS_OF_LINE >= page.row_count() {
                self.read.iter().for_each(|&column| next.fetch(page, column));
            }
        }
        let mut left = page.row_count() - page.deleted_count();
        for (place, (test, _)) in self.tests.iter_mut().enumerate() {
            let are_some = place > 0;
            match test {
                How::Number(filter) if are_some => filter.retain(page, &mut self.slots),
                How::Number(filter) => filter.select(page, &mut self.slots),
                How::Text(filter, check) => {
                    filter.select_exactly((id, page), values, check, (&mut self.slots, are_some))?;
                }
            }
            self.left_out[place] += (left - self.slots.len()) as u64;
            left = self.slots.len();
        }
        self.passed += self.slots.len() as u64;
        Ok(&self.slots)
    }

    /// Adds what was left out since the last call to the shared counters; gives the rows that have passed so far.
    pub(crate) fn publish(&mut self) -> u64 {
        for ((_, counts), left_out) in self.tests.iter().zip(&mut self.left_out) {
            counts.rows.fetch_add(std::mem::take(left_out), Ordering::Relaxed);
        }
        self.passed
    }
}
