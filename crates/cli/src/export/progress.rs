//! A line on the terminal for an export that takes more than two seconds: rows so far, and how many a second.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hobt_showplan::{count, counted};
use indicatif::{ProgressBar, ProgressStyle};

/// What is over before needs no line.
const QUIET: Duration = Duration::from_secs(2);
/// Time between two figures.
const STEP: Duration = Duration::from_millis(200);

/// The line, drawn by a thread of its own, so that it is there while the query sends no rows. Removed when dropped.
#[derive(Debug)]
pub(super) struct ShownProgress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ShownProgress {
    /// Shows `rows` as they grow. Shows nothing if the error stream is no terminal.
    pub(super) fn begin(rows: Arc<AtomicU64>) -> ShownProgress {
        if !std::io::stderr().is_terminal() {
            return ShownProgress { running: None };
        }
        let (ends, ended) = channel();
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(move || show(&rows, &ended));
        // Without the thread there is no line, and nothing else is missing.
        ShownProgress { running: thread.ok().map(|thread| (ends, thread)) }
    }

    /// Removes the line.
    pub(super) fn end(self) {}
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        if let Some((ends, thread)) = self.running.take() {
            drop(ends);
            let _ended = thread.join();
        }
    }
}

fn show(rows: &AtomicU64, ended: &Receiver<()>) {
    let begun = Instant::now();
    let goes_on = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    if !goes_on(QUIET) {
        return;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} [{elapsed}] {msg}") {
        bar.set_style(style);
    }
    bar.set_elapsed(begun.elapsed());
    loop {
        let rows = rows.load(Ordering::Relaxed);
        let rate = rows as f64 / begun.elapsed().as_secs_f64();
        bar.set_message(format!("{}, {} a second", counted(rows, "row"), count(rate as u64)));
        bar.tick();
        if !goes_on(STEP) {
            break;
        }
    }
    bar.finish_and_clear();
}
