//! How far the recovery of a database is: for the program that starts the instance, and for views.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_access::RecoveryPhase;
use hobt_base::DatabaseId;
use hobt_instruments::schedule::Mutex;
use hobt_instruments::time_of_day;
use hobt_txn::Progress;

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
    /// How much of the whole recovery is done, in per cent.
    pub percent_of_all: f64,
    /// The recovery has ended, and took this long. Told only if something was told before.
    pub took: Option<Duration>,
}

impl fmt::Display for RecoveryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryProgress { name, database, phase, percent, remaining, took, .. } = self;
        if let Some(took) = took {
            return write!(
                f,
                "Recovery of database '{name}' ({}) has ended after {} seconds.",
                database.0,
                took.as_secs()
            );
        }
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

/// A database that is being recovered, for views.
#[derive(Clone, Debug)]
pub struct RecoveringDatabase {
    /// The database.
    pub database: DatabaseId,
    /// When its recovery began: 100 ns since 1970-01-01 UTC.
    pub since: i64,
    /// How much of it is done, in per cent.
    pub percent: f64,
    /// How long the rest takes at the rate of the phase that runs.
    pub left: Duration,
}

/// The recoveries that run in an instance.
#[derive(Default)]
pub(crate) struct Recoveries(Mutex<Vec<Arc<Running>>>);

/// A recovery that runs.
struct Running {
    database: DatabaseId,
    since: i64,
    progress: Progress,
}

impl Recoveries {
    /// Those that run now.
    pub(crate) fn now(&self) -> Vec<RecoveringDatabase> {
        let running = self.0.lock().clone();
        let shown = running.iter().map(|one| RecoveringDatabase {
            database: one.database,
            since: one.since,
            percent: one.progress.percent(),
            left: one.progress.left(),
        });
        shown.collect()
    }

    fn begin(self: &Arc<Recoveries>, database: DatabaseId) -> Arc<Running> {
        let running = Arc::new(Running { database, since: time_of_day(), progress: Progress::default() });
        self.0.lock().push(Arc::clone(&running));
        running
    }

    fn end(&self, running: &Arc<Running>) {
        self.0.lock().retain(|one| !Arc::ptr_eq(one, running));
    }
}

/// The share of a recovery that is done when a phase is: each redone byte takes longer than one that is only read.
fn share_after(phase: RecoveryPhase) -> f64 {
    match phase {
        RecoveryPhase::Analysis => 0.2,
        RecoveryPhase::Redo => 0.9,
        RecoveryPhase::Undo => 1.0,
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
    /// As views see it.
    recoveries: Arc<Recoveries>,
    running: Arc<Running>,
    /// What the phase has come to there.
    shown: Cell<u64>,
    since: Instant,
    has_reported: Cell<bool>,
}

impl<'a> RecoveryReports<'a> {
    pub(crate) fn new(
        observer: Option<&'a RecoveryObserver>,
        recoveries: &Arc<Recoveries>,
        name: &'a str,
        database: DatabaseId,
    ) -> RecoveryReports<'a> {
        let now = Instant::now();
        RecoveryReports {
            observer,
            name,
            database,
            due: Cell::new(now + FIRST_AFTER),
            began: Cell::new((RecoveryPhase::Analysis, now, 0)),
            recoveries: Arc::clone(recoveries),
            running: recoveries.begin(database),
            shown: Cell::new(0),
            since: now,
            has_reported: Cell::new(false),
        }
    }

    /// Shows views how far a phase is.
    fn show(&self, phase: RecoveryPhase, done: u64, total: u64) {
        let progress = &self.running.progress;
        let is_first = !progress.is_known();
        if is_first {
            progress.set(0, total.max(1));
            progress.ends_at(share_after(RecoveryPhase::Analysis));
        }
        if self.began.get().0 != phase || (is_first && phase != RecoveryPhase::Analysis) {
            progress.begin_part(share_after(phase), total);
            self.shown.set(0);
        }
        progress.add(done.saturating_sub(self.shown.replace(done)));
    }

    /// Notes that `done` of `total` are done of a phase.
    pub(crate) fn note(&self, phase: RecoveryPhase, done: u64, total: u64) {
        self.note_at(Instant::now(), phase, done, total);
    }

    fn note_at(&self, now: Instant, phase: RecoveryPhase, done: u64, total: u64) {
        self.show(phase, done, total);
        if self.began.get().0 != phase {
            self.began.set((phase, now, done));
        }
        let Some(RecoveryObserver(report)) = self.observer else { return };
        if now < self.due.get() {
            return;
        }
        self.due.set(now + EVERY);
        let (_, since, before) = self.began.get();
        let (since, done_since) = (now.duration_since(since), done.saturating_sub(before));
        let left = total.saturating_sub(done);
        let remaining = (done_since > 0).then(|| since.mul_f64(left as f64 / done_since as f64));
        let percent = u8::try_from(done.min(total).saturating_mul(100) / total.max(1)).unwrap_or(100);
        self.has_reported.set(true);
        report(&self.progress(phase, percent, remaining, None));
    }

    fn progress(
        &self,
        phase: RecoveryPhase,
        percent: u8,
        remaining: Option<Duration>,
        took: Option<Duration>,
    ) -> RecoveryProgress {
        let (name, percent_of_all) = (self.name.to_owned(), self.running.progress.percent());
        RecoveryProgress { name, database: self.database, phase, percent, remaining, percent_of_all, took }
    }
}

impl Drop for RecoveryReports<'_> {
    fn drop(&mut self) {
        self.recoveries.end(&self.running);
        if let Some(RecoveryObserver(report)) = self.observer.filter(|_| self.has_reported.get()) {
            report(&self.progress(self.began.get().0, 100, None, Some(self.since.elapsed())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing for two seconds, then one report every two seconds, with what is left of the phase.
    #[test]
    fn reports_come_after_two_seconds_and_not_too_often() {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&seen);
        let observer = RecoveryObserver::new(move |progress| into.lock().push(progress.to_string()));
        let recoveries = Arc::<Recoveries>::default();
        let reports = RecoveryReports::new(Some(&observer), &recoveries, "x", DatabaseId(5));
        let begin = Instant::now();
        for tenth in 0..70 {
            let now = begin + Duration::from_millis(100 * tenth);
            match tenth {
                0..30 => reports.note_at(now, RecoveryPhase::Analysis, tenth, 30),
                _ => reports.note_at(now, RecoveryPhase::Redo, tenth - 30, 200),
            }
        }
        let now = recoveries.now();
        assert!(now.len() == 1 && now[0].database == DatabaseId(5));
        let analysed = 0.2 * 29.0 / 30.0;
        let expected = 100.0 * (analysed + (0.9 - analysed) * 39.0 / 200.0);
        assert!((now[0].percent - expected).abs() < 1e-9, "a fifth for analysis, up to nine tenths for redo: {now:?}");
        let seen_before_end = seen.lock().clone();
        drop(reports);
        assert!(recoveries.now().is_empty());
        assert_eq!(seen.lock().len(), seen_before_end.len() + 1, "its end is told");
        let end = ". This is an informational message only. No user action is required.";
        let expected = [
            "Recovery of database 'x' (5) is 66% complete (approximately 1 seconds remain). Phase 1 of 3",
            "Recovery of database 'x' (5) is 5% complete (approximately 19 seconds remain). Phase 2 of 3",
            "Recovery of database 'x' (5) is 15% complete (approximately 17 seconds remain). Phase 2 of 3",
        ];
        assert_eq!(seen_before_end, expected.map(|text| format!("{text}{end}")));
        let quick = RecoveryReports::new(Some(&observer), &recoveries, "y", DatabaseId(6));
        quick.note(RecoveryPhase::Undo, 1, 2);
        drop(quick);
        assert_eq!(seen.lock().len(), 4, "nothing of what took no time");
        let silent = RecoveryReports::new(None, &recoveries, "x", DatabaseId(5));
        silent.note_at(begin + Duration::from_secs(60), RecoveryPhase::Undo, 1, 0);
    }
}
