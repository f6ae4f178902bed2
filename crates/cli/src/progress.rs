//! A bar on the terminal for a statement that takes more than two seconds: how far it is, and how long the rest takes.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hobt::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// What is over before needs no bar.
const QUIET: Duration = Duration::from_secs(2);
/// Time between two figures.
const STEP: Duration = Duration::from_millis(200);
/// Steps of the bar.
const STEPS: u64 = 1000;

/// The bar, drawn by a thread of its own. Removed when dropped.
#[derive(Debug)]
pub(crate) struct StatementProgress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl StatementProgress {
    /// Shows a session's progress. Shows nothing if the error stream is no terminal, or while the running statement
    /// does not say how far it is.
    pub(crate) fn begin(progress: Arc<Progress>) -> StatementProgress {
        if !std::io::stderr().is_terminal() {
            return StatementProgress { running: None };
        }
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || show(&progress, &ended));
        // Without the thread there is no bar, and nothing else is missing.
        StatementProgress { running: thread.ok().map(|thread| (ends, thread)) }
    }
}

impl Drop for StatementProgress {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.running.take() {
            drop(ends);
            let _ended = thread.join();
        }
    }
}

fn show(progress: &Progress, ended: &Receiver<()>) {
    let begun = Instant::now();
    let goes_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(QUIET) {
        return;
    }
    let bar = ProgressBar::new(STEPS);
    if let Ok(style) = ProgressStyle::with_template("[{elapsed}] {bar:40} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar.set_elapsed(begun.elapsed());
    loop {
        let percent = progress.percent();
        if percent > 0.0 {
            bar.set_position((percent / 100.0 * STEPS as f64) as u64);
            bar.set_message(format!("{} left", shown_time(progress.left())));
        }
        if !goes_on(STEP) {
            break;
        }
    }
    bar.finish_and_clear();
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
    }
}
