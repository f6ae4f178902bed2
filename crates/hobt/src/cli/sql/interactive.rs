//! A terminal: lines with a history, batches that end with `GO` as in sqlcmd.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};

use super::{Go, Runner};
use crate::batches::Splitter;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 10_000;

/// `1> `, `2> `: the number of the line in the batch.
struct LineNumber(usize);

impl Prompt for LineNumber {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.to_string())
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}

/// Where the history lies: in the user's home.
fn history_file() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".hobt_history"))
}

/// Reads and runs batches until the user leaves: `exit`, `quit`, `:quit` or Ctrl-D.
pub(super) fn run(runner: &mut Runner<'_>) -> io::Result<Go> {
    let mut editor = Reedline::create();
    if let Some(path) = history_file() {
        match FileBackedHistory::with_file(HISTORY_LINES, path) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => eprintln!("The history cannot be kept: {error}"),
        }
    }
    println!("Type T-SQL; GO on a line of its own runs it, exit leaves.");
    let mut splitter = Splitter::default();
    let mut line_number = 1;
    loop {
        let line = match editor.read_line(&LineNumber(line_number))? {
            Signal::Success(line) => line,
            Signal::CtrlC => {
                splitter.rest();
                line_number = 1;
                continue;
            }
            Signal::CtrlD => return Ok(Go::On),
            _ => continue,
        };
        for line in line.lines() {
            let word = line.trim().trim_end_matches(';');
            let leaves = ["exit", "quit", ":quit", ":exit"].iter().any(|leave| word.eq_ignore_ascii_case(leave));
            if leaves && splitter.is_empty() {
                return Ok(Go::On);
            }
            if word.eq_ignore_ascii_case(":reset") || word.eq_ignore_ascii_case("reset") {
                splitter.rest();
                line_number = 1;
                continue;
            }
            line_number += 1;
            if let Some(batch) = splitter.line(line) {
                line_number = 1;
                if runner.batch(&batch)? == Go::Stop {
                    return Ok(Go::Stop);
                }
            }
        }
    }
}
