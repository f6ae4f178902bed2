//! `GO`: splits a script into batches, as a client does before it sends them.

use crate::lexer::is_word_character;

/// One batch of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchText {
    /// The text between two `GO` lines; may be blank.
    pub text: String,
    /// The script's line on which the text begins, from 1.
    pub first_line: u32,
    /// How many times it is to be run: the count after `GO`, 1 if absent.
    pub repeat: u32,
}

/// What a line begins inside of.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Code,
    /// A block comment, nested this deep.
    Comment(u32),
    /// A string or quoted name that ends with this character.
    Quotes(u8),
}

/// Splits `script` at its `GO` lines.
///
/// A `GO` line contains only `GO`, in any letter case, blanks, a count, a semicolon and a `--` comment, and begins
/// outside comments and strings. Blank batches are left out. A count of 0 keeps its batch with `repeat` 0. A count that
/// a client cannot read is left in the text, and the parser refuses it.
pub fn split_batches(script: &str) -> Vec<BatchText> {
    let mut batches = Vec::new();
    let mut inside = Inside::Code;
    let (mut start, mut first_line) = (0, 1);
    let mut at = 0;
    for (line, number) in script.split_inclusive('\n').zip(1u32..) {
        let end = at + line.len();
        match (inside, go_count(line)) {
            (Inside::Code, Some(repeat)) => {
                push(&mut batches, &script[start..at], first_line, repeat);
                (start, first_line) = (end, number + 1);
            }
            _ => inside = scan(line.as_bytes(), inside),
        }
        at = end;
    }
    push(&mut batches, &script[start..], first_line, 1);
    batches
}

fn push(batches: &mut Vec<BatchText>, text: &str, first_line: u32, repeat: u32) {
    let blank = text.chars().all(|c| c.is_whitespace() || c == '\u{feff}');
    if !blank {
        batches.push(BatchText { text: text.to_owned(), first_line, repeat });
    }
}

/// How many times a `GO` line repeats its batch; `None` for any other line.
fn go_count(line: &str) -> Option<u32> {
    let line = line.split("--").next().unwrap_or("");
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').trim_end_matches(';').trim_end();
    let (word, rest) = line.split_at(line.find(|c: char| !is_word_character(c)).unwrap_or(line.len()));
    if !word.eq_ignore_ascii_case("GO") {
        return None;
    }
    let rest = rest.trim();
    if rest.is_empty() { Some(1) } else { rest.parse().ok() }
}

/// What is open after `line` if `inside` is open before it.
fn scan(line: &[u8], mut inside: Inside) -> Inside {
    let mut at = 0;
    while at < line.len() {
        let pair = (line[at], line.get(at + 1).copied().unwrap_or(0));
        at += 1;
        inside = match (inside, pair) {
            (Inside::Code, (b'-', b'-')) => return Inside::Code,
            (Inside::Code, (b'/', b'*')) => {
                at += 1;
                Inside::Comment(1)
            }
            (Inside::Code, (b'\'', _)) => Inside::Quotes(b'\''),
            (Inside::Code, (b'"', _)) => Inside::Quotes(b'"'),
            (Inside::Code, (b'[', _)) => Inside::Quotes(b']'),
            (Inside::Comment(depth), (b'/', b'*')) => {
                at += 1;
                Inside::Comment(depth + 1)
            }
            (Inside::Comment(depth), (b'*', b'/')) => {
                at += 1;
                if depth == 1 { Inside::Code } else { Inside::Comment(depth - 1) }
            }
            // `]]` is a bracket within the name; other doubled quotes close and open again, with the same result.
            (Inside::Quotes(b']'), (b']', b']')) => {
                at += 1;
                inside
            }
            (Inside::Quotes(quote), (byte, _)) if byte == quote => Inside::Code,
            _ => inside,
        };
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<(String, u32, u32)> {
        split_batches(script).into_iter().map(|b| (b.text, b.first_line, b.repeat)).collect()
    }

    #[test]
    fn go_lines_cut_and_count() {
        let script = "SELECT 1\nGO\n\n  go 3 -- thrice\nSELECT 2\r\nGo;\r\nSELECT 3";
        let expected =
            [("SELECT 1\n".to_owned(), 1, 1), ("SELECT 2\r\n".to_owned(), 5, 1), ("SELECT 3".to_owned(), 7, 1)];
        assert_eq!(texts(script), expected);
        assert_eq!(texts("SELECT 1\nGO 5"), [("SELECT 1\n".to_owned(), 1, 5)]);
    }

    #[test]
    fn go_in_comments_strings_and_names_does_not_cut() {
        for script in [
            "/* a /* b */\nGO\n*/ SELECT 1",
            "SELECT 'it''s\nGO\n'",
            "SELECT 1 AS [a]]\nGO\n]",
            "SELECT \"a\nGO\n\"",
            "GOTO x\nGO_ON",
            "SELECT 1 GO",
        ] {
            assert_eq!(texts(script), [(script.to_owned(), 1, 1)]);
        }
        assert_eq!(texts("SELECT 1 -- it's\nGO\nSELECT 2").len(), 2);
    }
}
