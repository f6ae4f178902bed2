//! Where a restore stops: `STOPAT`, `STOPATMARK`, `STOPBEFOREMARK`.

use hobt_base::{Lsn, errors};
use hobt_log::Record;
use hobt_txn::{COMMIT_RECORD, END_RECORD, LogMark, MARK_RECORD, commit_time};

use crate::error::{EngineError, Result};

/// Where a restore stops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StopPoint {
    /// Behind the last commit up to this time: 100 ns since 1970-01-01 UTC.
    Time(i64),
    /// At the first mark of this name.
    Mark {
        /// The name.
        name: String,
        /// The marked transaction is left out.
        is_before: bool,
        /// Only a mark at or after this time counts.
        after: Option<i64>,
    },
    /// At a position of the log.
    Position {
        /// The position.
        lsn: Lsn,
        /// The record there is left out.
        is_before: bool,
    },
}

impl StopPoint {
    /// The time, if it is one.
    pub(super) fn time(&self) -> Option<i64> {
        match self {
            StopPoint::Time(time) => Some(*time),
            StopPoint::Mark { .. } | StopPoint::Position { .. } => None,
        }
    }

    /// The mark, if it is one.
    pub(super) fn mark(&self) -> Option<String> {
        match self {
            StopPoint::Time(_) => None,
            StopPoint::Mark { name, .. } => Some(name.clone()),
            StopPoint::Position { lsn, .. } => Some(format!("lsn:{}", lsn.0)),
        }
    }

    pub(super) fn is_before(&self) -> bool {
        matches!(self, StopPoint::Mark { is_before: true, .. } | StopPoint::Position { is_before: true, .. })
    }
}

/// Refuses a point before what a backup of the data has, or before what was restored already: that ends at `end`, its
/// last transaction at the time `time`.
///
/// # Errors
/// 4335.
pub(super) fn check_stop(stop: Option<&StopPoint>, time: i64, end: Lsn) -> Result<()> {
    let is_too_early = match stop {
        Some(StopPoint::Time(until)) => *until < time,
        Some(StopPoint::Position { lsn, .. }) => *lsn < end,
        Some(StopPoint::Mark { .. }) | None => false,
    };
    if is_too_early { Err(EngineError::Statement(errors::STOP_TOO_EARLY.error())) } else { Ok(()) }
}

/// Looks for the point in records that come in order.
#[derive(Debug)]
pub(super) struct StopSearch<'a> {
    point: Option<&'a StopPoint>,
    /// The transaction whose mark was found, which is kept.
    marked: Option<u64>,
    /// The last commit before the point: 100 ns since 1970-01-01 UTC; 0 for none.
    pub(super) last_commit: i64,
    /// The first record that is left out, once it is known.
    pub(super) found: Option<Lsn>,
}

impl<'a> StopSearch<'a> {
    pub(super) fn new(point: Option<&'a StopPoint>) -> StopSearch<'a> {
        StopSearch { point, marked: None, last_commit: 0, found: None }
    }

    /// Whether it looks for a mark behind whose transaction the restore stops.
    pub(super) fn is_for_mark(&self) -> bool {
        matches!(self.point, Some(StopPoint::Mark { is_before: false, .. }))
    }

    /// Shows it a record that was restored before. The transaction of a mark there may end behind.
    pub(super) fn pass(&mut self, record: &Record) {
        if let Some(StopPoint::Mark { name, is_before: false, after }) = self.point {
            self.keeps_before_mark(record, name, false, *after);
            if self.marked == Some(0) {
                // It has ended already. Another one of this name may come.
                self.marked = None;
            }
        }
    }

    /// Whether a record is kept. Not asked again once one is not.
    pub(super) fn keeps(&mut self, record: &Record) -> bool {
        let committed = if record.kind == COMMIT_RECORD { commit_time(&record.payload) } else { None };
        let keeps = match self.point {
            None => true,
            Some(StopPoint::Time(until)) => committed.is_none_or(|time| time <= *until),
            Some(StopPoint::Position { lsn, is_before: true }) => record.lsn < *lsn,
            Some(StopPoint::Position { lsn, is_before: false }) => record.lsn <= *lsn,
            Some(StopPoint::Mark { name, is_before, after }) => {
                self.keeps_before_mark(record, name, *is_before, *after)
            }
        };
        match keeps {
            true => self.last_commit = self.last_commit.max(committed.unwrap_or(0)),
            false => self.found = Some(record.lsn),
        }
        keeps
    }

    fn keeps_before_mark(&mut self, record: &Record, name: &str, is_before: bool, after: Option<i64>) -> bool {
        if self.marked == Some(0) {
            return false;
        }
        match record.kind {
            MARK_RECORD if self.marked.is_none() => {
                let mark = LogMark::decode(&record.payload);
                let is_it = mark.is_some_and(|mark| {
                    hobt_catalog::name_equals(&mark.name, name) && after.is_none_or(|after| mark.time >= after)
                });
                if is_it {
                    self.marked = Some(record.transaction);
                }
                !(is_it && is_before)
            }
            COMMIT_RECORD if self.marked == Some(record.transaction) => {
                // Nothing behind it is kept.
                self.marked = Some(0);
                true
            }
            END_RECORD if self.marked == Some(record.transaction) => {
                // It was undone, by a crash between its mark and its commit.
                self.marked = None;
                true
            }
            _ => true,
        }
    }

    /// Whether everything up to the point was seen: the point was found, or the mark was the last transaction.
    pub(super) fn is_reached(&self) -> bool {
        self.point.is_none() || self.found.is_some() || self.marked == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lsn: u64, kind: u8, transaction: u64, payload: Vec<u8>) -> Record {
        Record { lsn: Lsn(lsn), end: Lsn(lsn + 8), kind, transaction, previous: Lsn(0), payload }
    }

    fn commit(lsn: u64, transaction: u64, time: i64) -> Record {
        record(lsn, COMMIT_RECORD, transaction, time.to_le_bytes().to_vec())
    }

    fn mark(lsn: u64, transaction: u64, name: &str, time: i64) -> Record {
        let mark = LogMark { time, name: name.to_owned(), description: String::new() };
        record(lsn, MARK_RECORD, transaction, mark.encode())
    }

    /// The positions that are kept, and where the restore stops.
    fn kept(point: &StopPoint, records: &[Record]) -> (Vec<u64>, Option<u64>, bool) {
        let mut search = StopSearch::new(Some(point));
        let kept = records.iter().take_while(|record| search.keeps(record)).map(|record| record.lsn.0).collect();
        (kept, search.found.map(|lsn| lsn.0), search.is_reached())
    }

    #[test]
    fn the_mark_of_a_transaction_that_was_undone_is_none() {
        let records = [
            mark(8, 1, "month", 100),
            record(16, END_RECORD, 1, vec![]),
            mark(24, 2, "month", 200),
            commit(32, 2, 210),
        ];
        let point = StopPoint::Mark { name: "month".to_owned(), is_before: false, after: None };
        let records = [&records[..], &[commit(40, 3, 220)]].concat();
        assert_eq!(kept(&point, &records), (vec![8, 16, 24, 32], Some(40), true));
    }

    /// The mark is in one backup of the log, the end of its transaction in the next.
    #[test]
    fn a_mark_that_was_restored_before_its_transaction_ends_counts() {
        let point = StopPoint::Mark { name: "month".to_owned(), is_before: false, after: None };
        let mut search = StopSearch::new(Some(&point));
        for record in [mark(8, 1, "month", 100), commit(16, 1, 110), mark(24, 2, "month", 200), commit(32, 3, 210)] {
            search.pass(&record);
        }
        let behind = [commit(40, 4, 220), commit(48, 2, 230), commit(56, 5, 240)];
        let kept: Vec<bool> = behind.iter().map(|record| search.keeps(record)).collect();
        assert_eq!((kept, search.found), (vec![true, true, false], Some(Lsn(56))));
    }

    #[test]
    fn a_restore_stops_where_it_was_told() {
        let records = [
            commit(8, 1, 100),
            mark(16, 2, "month", 150),
            commit(24, 3, 160),
            commit(32, 2, 170),
            record(40, 77, 4, vec![]),
            mark(48, 5, "Month", 300),
            commit(56, 5, 310),
        ];
        let is = |point: StopPoint, lsns: &[u64], found: Option<u64>, is_reached: bool| {
            assert_eq!(kept(&point, &records), (lsns.to_vec(), found, is_reached), "{point:?}");
        };
        is(StopPoint::Time(99), &[], Some(8), true);
        is(StopPoint::Time(165), &[8, 16, 24], Some(32), true);
        is(StopPoint::Time(310), &[8, 16, 24, 32, 40, 48, 56], None, false);
        let at = |is_before, after| StopPoint::Mark { name: "MONTH".to_owned(), is_before, after };
        is(at(false, None), &[8, 16, 24, 32], Some(40), true);
        is(at(true, None), &[8], Some(16), true);
        is(at(true, Some(151)), &[8, 16, 24, 32, 40], Some(48), true);
        is(at(false, Some(151)), &[8, 16, 24, 32, 40, 48, 56], None, true);
        is(at(false, Some(301)), &[8, 16, 24, 32, 40, 48, 56], None, false);
        is(StopPoint::Position { lsn: Lsn(24), is_before: true }, &[8, 16], Some(24), true);
        is(StopPoint::Position { lsn: Lsn(24), is_before: false }, &[8, 16, 24], Some(32), true);
        is(StopPoint::Position { lsn: Lsn(900), is_before: false }, &[8, 16, 24, 32, 40, 48, 56], None, false);
    }
}
