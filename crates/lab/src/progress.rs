//! Progress display on the error stream: a bar on a terminal, otherwise a line for each step.
//!
//! A caller that runs steps first announces their number. A step with nothing to do still counts, so that the number is
//! right.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How the progress is shown.
#[derive(Debug, Clone)]
enum Display {
    Nothing,
    Bar(ProgressBar),
    /// One line per step.
    Lines,
}

#[derive(Debug, Default)]
struct Counts {
    expected: AtomicU64,
    begun: AtomicU64,
}

/// The progress of a run. Clones share their state.
#[derive(Debug, Clone)]
pub struct Progress {
    display: Display,
    counts: Arc<Counts>,
    since: Instant,
}

impl Progress {
    fn new(display: Display) -> Progress {
        Progress { display, counts: Arc::default(), since: Instant::now() }
    }

    /// Shows nothing.
    pub fn hidden() -> Progress {
        Progress::new(Display::Nothing)
    }

    /// Displays on the error stream: a bar on a terminal, lines otherwise.
    pub fn on_error_stream() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::new(Display::Lines);
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{spinner} [{elapsed}] {bar:28} {prefix} {wide_msg}")
            .expect("the template is sound");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress::new(Display::Bar(bar))
    }

    /// Announces `steps` more steps.
    pub fn expect(&self, steps: u64) {
        let expected = self.counts.expected.fetch_add(steps, Ordering::Relaxed) + steps;
        if let Display::Bar(bar) = &self.display {
            bar.set_length(expected);
        }
    }

    /// Begins a step. The previous one is done.
    pub fn step(&self, what: &str) {
        let begun = self.counts.begun.fetch_add(1, Ordering::Relaxed) + 1;
        // Do not show step 3 of 2.
        let expected = self.counts.expected.load(Ordering::Relaxed).max(begun);
        match &self.display {
            Display::Nothing => {}
            Display::Bar(bar) => {
                bar.set_length(expected);
                bar.set_position(begun - 1);
                bar.set_prefix(format!("{begun}/{expected}"));
                bar.set_message(what.to_owned());
            }
            Display::Lines => eprintln!("[{:4} s] {begun}/{expected} {what}", self.since.elapsed().as_secs()),
        }
    }

    /// The number of announced steps.
    pub fn expected(&self) -> u64 {
        self.counts.expected.load(Ordering::Relaxed)
    }

    /// The number of steps that have begun.
    pub fn begun(&self) -> u64 {
        self.counts.begun.load(Ordering::Relaxed)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
