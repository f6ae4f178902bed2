//! A terminal: lines with a history, batches that end with `GO` as in sqlcmd.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};

use super::runner::{Go, Runner};

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

/// Reads and runs batches until the user leaves: `exit`, `quit` or Ctrl-D.
pub(super) fn run(runner: &mut Runner<'_>) -> io::Result<Go> {
    let mut editor = Reedline::create();
    if let Some(path) = history_file() {
        match FileBackedHistory::with_file(HISTORY_LINES, path) {
            Ok(history) => editor = editor.with_history(Box::new(history)),
            Err(error) => eprintln!("The history cannot be kept: {error}"),
        }
    }
    println!("Type T-SQL; GO on a line of its own runs it, .help lists shortcuts, exit leaves.");
    loop {
        let lines = match editor.read_line(&LineNumber(runner.splitter.next_line()))? {
            Signal::Success(lines) => {
                // Now, and not at the end, which a program that is killed does not have. Without a history there is
                // nothing to keep, and that was said.
                let _kept = editor.sync_history();
                lines
            }
            Signal::CtrlC => {
                runner.splitter.rest();
                continue;
            }
            Signal::CtrlD => return Ok(Go::On),
            _ => continue,
        };
        // An empty line may be part of a string.
        for line in lines.split('\n') {
            if runner.line(line.trim_end_matches('\r'))? == Go::Stop {
                return Ok(Go::Stop);
            }
        }
    }
}
