//! A bar on the terminal for a statement that takes more than two seconds: how far it is, how fast, and how long the
//! rest takes.
//!
//! ```text
//!   quiet ──2 s without output──► shown ──before output, or at the end──► quiet, or hidden within a result set
//! ```
//! A thread draws the bar. It is drawn and removed under a lock, so that from [`StatementProgress::hide`] on the line
//! is free for output. Only statements that say how far they are have a bar.
//!
//! The recovery of a database has a bar of its own ([`recovery_observer`]), on a terminal; elsewhere it has lines.

use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hobt::{Progress, ProgressUnit, RecoveryObserver, RecoveryProgress};
use hobt_showplan::count;
use indicatif::{ProgressBar, ProgressStyle};

/// What is over before needs no bar, and is none between two outputs.
const QUIET: Duration = Duration::from_secs(2);
/// Time between two figures.
const STEP: Duration = Duration::from_millis(200);
/// Steps of the bar.
const STEPS: u64 = 1000;

/// The bar of the statements of a session. Removed when dropped.
#[derive(Debug)]
pub(crate) struct StatementProgress {
    /// `None` if the error stream is no terminal.
    drawn: Option<(Arc<Shared>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// When the batch began.
    begun: Option<Instant>,
    /// Since when nothing was written; `None` while there must be no bar.
    quiet_since: Option<Instant>,
    bar: Option<ProgressBar>,
    ends: bool,
}

impl State {
    /// How long no bar is to be drawn; `None` for an unknown time.
    fn waits(&self, now: Instant) -> Option<Duration> {
        self.quiet_since.map(|since| (since + QUIET).saturating_duration_since(now))
    }

    fn remove_bar(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn draw(&mut self, progress: &Progress) {
        let begun = self.begun;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(STEPS);
            if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {bar:40} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar.with_elapsed(begun.map_or(Duration::ZERO, |begun| begun.elapsed()))
        });
        let percent = progress.percent();
        let rate = progress.rate().map(|(rate, unit)| shown_rate(rate, unit)).unwrap_or_default();
        let left = if percent > 0.0 { format!("{} left", shown_time(progress.left())) } else { String::new() };
        bar.set_message([rate, left].iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(", "));
        bar.set_position((percent / 100.0 * STEPS as f64) as u64);
        bar.tick();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements on it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw_until_the_end(&self, progress: &Progress) {
        let mut state = self.lock();
        while !state.ends {
            let wait = match state.waits(Instant::now()) {
                Some(Duration::ZERO) => {
                    if progress.is_known() {
                        state.draw(progress);
                    } else {
                        state.remove_bar();
                    }
                    Some(STEP)
                }
                wait => wait,
            };
            state = match wait {
                Some(wait) => self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.remove_bar();
    }
}

/// What tells a user how far recoveries are: a bar on a terminal, or else a line every two seconds. Nothing for one
/// that takes less.
pub(crate) fn recovery_observer() -> RecoveryObserver {
    if !std::io::stderr().is_terminal() {
        return RecoveryObserver::new(|progress| eprintln!("{progress}"));
    }
    let bar: Mutex<Option<ProgressBar>> = Mutex::default();
    RecoveryObserver::new(move |progress| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.took.is_some() {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
            return;
        }
        let shown = bar.get_or_insert_with(|| {
            let bar = ProgressBar::new(STEPS).with_elapsed(QUIET);
            if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {bar:40} {percent:>3} %  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        shown.set_message(recovery_text(progress));
        shown.set_position((progress.percent_of_all / 100.0 * STEPS as f64) as u64);
        shown.tick();
    })
}

/// What a bar says beside how far it is.
fn recovery_text(progress: &RecoveryProgress) -> String {
    let left = progress.remaining.map(|left| format!(", {} left of it", shown_time(left))).unwrap_or_default();
    format!("recovery of {}, phase {} of 3{left}", progress.name, progress.phase.number())
}

impl StatementProgress {
    /// A bar for a session's progress, which is not shown before [`StatementProgress::begin`]. There is none if the
    /// error stream is no terminal.
    pub(crate) fn of(progress: Arc<Progress>) -> StatementProgress {
        if !std::io::stderr().is_terminal() {
            return StatementProgress { drawn: None };
        }
        let shared = Arc::<Shared>::default();
        let drawing = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("progress".to_owned());
        let thread = thread.spawn(move || drawing.draw_until_the_end(&progress));
        // Without the thread there is no bar, and nothing else is missing.
        StatementProgress { drawn: thread.ok().map(|thread| (shared, thread)) }
    }

    /// A batch begins.
    pub(crate) fn begin(&self) {
        self.change(|state| state.begun = Some(Instant::now()));
        self.allow();
    }

    /// Nothing is written from now on: the bar may be shown, if that stays so for two seconds.
    pub(crate) fn allow(&self) {
        self.change(|state| state.quiet_since = Some(Instant::now()));
        if let Some((shared, _)) = &self.drawn {
            shared.changed.notify_all();
        }
    }

    /// Removes the bar, since something is about to be written.
    pub(crate) fn hide(&self) {
        self.change(|state| {
            state.quiet_since = None;
            state.remove_bar();
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Some((shared, _)) = &self.drawn {
            change(&mut shared.lock());
        }
    }
}

impl Drop for StatementProgress {
    fn drop(&mut self) {
        if let Some((shared, thread)) = self.drawn.take() {
            shared.lock().ends = true;
            shared.changed.notify_all();
            let _ended = thread.join();
        }
    }
}

fn shown_rate(rate: f64, unit: ProgressUnit) -> String {
    match unit {
        ProgressUnit::Rows => format!("{} rows/s", count(rate as u64)),
        ProgressUnit::Bytes => format!("{:.1} MB/s", rate / 1e6),
        ProgressUnit::Pages => format!("{} pages/s", count(rate as u64)),
        ProgressUnit::Steps => String::new(),
    }
}

fn shown_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_reads_best() {
        let shown = |seconds| shown_time(Duration::from_secs(seconds));
        assert_eq!([shown(7), shown(65), shown(7290)], ["7 s", "1:05 min", "2:01 h"]);
        assert_eq!(shown_rate(1_234_567.8, ProgressUnit::Rows), "1,234,567 rows/s");
        assert_eq!(shown_rate(1.25e8, ProgressUnit::Bytes), "125.0 MB/s");
    }

    #[test]
    fn a_bar_waits_for_two_quiet_seconds_and_is_gone_before_output() {
        let mut state = State::default();
        let now = Instant::now();
        assert_eq!(state.waits(now), None, "nothing runs");
        state.quiet_since = Some(now);
        assert_eq!(state.waits(now + QUIET / 2), Some(QUIET / 2));
        assert_eq!(state.waits(now + QUIET), Some(Duration::ZERO));
        let progress = Progress::default();
        progress.set(0, 4);
        progress.add(1);
        state.draw(&progress);
        assert_eq!(state.bar.as_ref().map(ProgressBar::position), Some(STEPS / 4));
        state.remove_bar();
        assert!(state.bar.is_none());
    }
}
