//! Golden files: cases in plain text, each what a test is given and what comes of it.
//!
//! ```text
//! SELECT a FROM t
//! ----
//! Projection: t.a
//!   TableScan: t
//!
//! ```
//! Blank lines divide cases; a result has none. With `HOBT_BLESS=1` a test writes the results that it has into the
//! file, for a look at the difference that version control then shows.

use std::fmt::Write;
use std::fs;
use std::path::Path;

const DIVIDER: &str = "\n----\n";

/// Whether tests write what they have into the files that they compare it with.
pub fn is_blessed() -> bool {
    std::env::var_os("HOBT_BLESS").is_some_and(|value| value == "1")
}

/// Compares what `run` makes of each case of the file with what the file says.
///
/// # Panics
/// When they differ and `HOBT_BLESS` is not set, or the file cannot be read or written.
pub fn check_golden(path: &Path, mut run: impl FnMut(&str) -> String) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut blessed = String::new();
    let mut differences = String::new();
    for case in text.split("\n\n").map(|case| case.trim_matches('\n')).filter(|case| !case.is_empty()) {
        let (input, expected) = case.split_once(DIVIDER).unwrap_or((case.trim_end_matches("\n----"), ""));
        let lines: Vec<String> =
            run(input).lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect();
        let result = lines.join("\n");
        if result != expected {
            writeln!(differences, "{input}\n----\n{}", difference(expected, &result)).expect("a string");
        }
        write!(blessed, "{input}{DIVIDER}{result}\n\n").expect("a string");
    }
    if is_blessed() {
        blessed.truncate(blessed.trim_end().len());
        fs::write(path, blessed + "\n").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let hint = "HOBT_BLESS=1 writes the new results into the file";
    assert!(differences.is_empty(), "{}\n\n{differences}\n- as the file has it, + as it is; {hint}", path.display());
}

/// The lines of both texts, those at the front and at the end that are equal once.
fn difference(expected: &str, result: &str) -> String {
    let (expected, result): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), result.lines().collect());
    let front = expected.iter().zip(&result).take_while(|(left, right)| left == right).count();
    let (left, right) = (&expected[front..], &result[front..]);
    let end = left.iter().rev().zip(right.iter().rev()).take_while(|(left, right)| left == right).count();
    let mut text = String::new();
    let mut push = |mark: char, lines: &[&str]| {
        lines.iter().for_each(|line| writeln!(text, "{mark} {line}").expect("a string"));
    };
    push(' ', &expected[..front]);
    push('-', &left[..left.len() - end]);
    push('+', &right[..right.len() - end]);
    push(' ', &left[left.len() - end..]);
    text
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_shows_what_was_and_what_is() {
        assert_eq!(difference("a\nb\nc", "a\nx\ny\nc"), "  a\n- b\n+ x\n+ y\n  c\n");
        assert_eq!(difference("", "a"), "+ a\n");
    }
}
