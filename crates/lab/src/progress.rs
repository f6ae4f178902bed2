//! What a waiting user sees: a bar on the error stream, where that is a terminal, and nothing where it is not.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden() }
    }

    /// A bar on the error stream. It does not show where that is no terminal.
    pub fn on_terminal() -> Progress {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{spinner} [{elapsed}] {bar:28} {pos}/{len} {wide_msg}")
            .expect("the template is sound");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar }
    }

    /// Says that `steps` more will come.
    pub fn expect(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// Says what begins now; what began before is done.
    pub fn step(&self, what: &str) {
        if self.bar.position() + 1 > self.bar.length().unwrap_or(0) {
            self.bar.inc_length(1);
        }
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
