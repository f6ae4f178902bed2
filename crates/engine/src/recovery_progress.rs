//! How far the recovery of a database is, for whoever has started the instance.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_access::RecoveryPhase;
use hobt_base::DatabaseId;

/// A recovery that ends before this is not reported.
const FIRST_AFTER: Duration = Duration::from_secs(2);
/// The time between two reports.
const EVERY: Duration = Duration::from_secs(2);

/// How far the recovery of a database is. Shown as SQL Server's message 3450.
#[derive(Clone, PartialEq, Debug)]
pub struct RecoveryProgress {
    /// The database's name.
    pub name: String,
    /// Its id.
    pub database: DatabaseId,
    /// What recovery does: analysis, redo or undo.
    pub phase: RecoveryPhase,
    /// How much of that is done, in per cent.
    pub percent: u8,
    /// How long this phase will still take, if it goes on as until now; `None` at its beginning.
    pub remaining: Option<Duration>,
}

impl fmt::Display for RecoveryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryProgress { name, database, phase, percent, remaining } = self;
        write!(f, "Recovery of database '{name}' ({}) is {percent}% complete", database.0)?;
        if let Some(remaining) = remaining {
            write!(f, " (approximately {} seconds remain)", remaining.as_secs())?;
        }
        write!(f, ". Phase {} of 3. This is an informational message only. No user action is required.", phase.number())
    }
}

/// What is called with the progress of recoveries: after two seconds of one, and then every two seconds. It is called
/// by the thread that recovers, which it should not keep.
#[derive(Clone)]
pub struct RecoveryObserver(Arc<dyn Fn(&RecoveryProgress) + Send + Sync>);

impl RecoveryObserver {
    /// An observer that calls `report`.
    pub fn new(report: impl Fn(&RecoveryProgress) + Send + Sync + 'static) -> RecoveryObserver {
        RecoveryObserver(Arc::new(report))
    }
}

impl fmt::Debug for RecoveryObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryObserver")
    }
}

/// Reports the recovery of one database, not too often.
pub(crate) struct RecoveryReports<'a> {
    observer: Option<&'a RecoveryObserver>,
    name: &'a str,
    database: DatabaseId,
    /// When the next report is due.
    due: Cell<Instant>,
    /// The phase, when it began, and how much was done then.
    began: Cell<(RecoveryPhase, Instant, u64)>,
}

impl<'a> RecoveryReports<'a> {
    pub(crate) fn new(
        observer: Option<&'a RecoveryObserver>,
        name: &'a str,
        database: DatabaseId,
    ) -> RecoveryReports<'a> {
        let now = Instant::now();
        let began = Cell::new((RecoveryPhase::Analysis, now, 0));
        RecoveryReports { observer, name, database, due: Cell::new(now + FIRST_AFTER), began }
    }

    /// Notes that `done` of `total` are done of a phase.
    pub(crate) fn note(&self, phase: RecoveryPhase, done: u64, total: u64) {
        self.note_at(Instant::now(), phase, done, total);
    }

    fn note_at(&self, now: Instant, phase: RecoveryPhase, done: u64, total: u64) {
        let Some(RecoveryObserver(report)) = self.observer else { return };
        if self.began.get().0 != phase {
            self.began.set((phase, now, done));
        }
        if now < self.due.get() {
            return;
        }
        self.due.set(now + EVERY);
        let (_, since, before) = self.began.get();
        let (since, done_since) = (now.duration_since(since), done.saturating_sub(before));
        let left = total.saturating_sub(done);
        let remaining = (done_since > 0).then(|| since.mul_f64(left as f64 / done_since as f64));
        let percent = u8::try_from(done.min(total).saturating_mul(100) / total.max(1)).unwrap_or(100);
        report(&RecoveryProgress { name: self.name.to_owned(), database: self.database, phase, percent, remaining });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Nothing for two seconds, then one report every two seconds, with what is left of the phase.
    #[test]
    fn reports_come_after_two_seconds_and_not_too_often() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&seen);
        let observer = RecoveryObserver::new(move |progress| into.lock().expect("no panic").push(progress.to_string()));
        let reports = RecoveryReports::new(Some(&observer), "x", DatabaseId(5));
        let begin = Instant::now();
        for tenth in 0..70 {
            let now = begin + Duration::from_millis(100 * tenth);
            match tenth {
                0..30 => reports.note_at(now, RecoveryPhase::Analysis, tenth, 30),
                _ => reports.note_at(now, RecoveryPhase::Redo, tenth - 30, 200),
            }
        }
        let end = ". This is an informational message only. No user action is required.";
        let expected = [
            "Recovery of database 'x' (5) is 66% complete (approximately 1 seconds remain). Phase 1 of 3",
            "Recovery of database 'x' (5) is 5% complete (approximately 19 seconds remain). Phase 2 of 3",
            "Recovery of database 'x' (5) is 15% complete (approximately 17 seconds remain). Phase 2 of 3",
        ];
        assert_eq!(*seen.lock().expect("no panic"), expected.map(|text| format!("{text}{end}")));
        let silent = RecoveryReports::new(None, "x", DatabaseId(5));
        silent.note_at(begin + Duration::from_secs(60), RecoveryPhase::Undo, 1, 0);
    }
}
