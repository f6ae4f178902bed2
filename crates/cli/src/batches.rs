//! Splits a script that arrives line by line into batches.

use hobt_tsql::{BatchText, split_batches};

/// Collects lines until a `GO` ends their batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splitter {
    text: String,
}

impl Splitter {
    /// Adds a line, given without its end. Returns the batch that it ends, which may be blank.
    pub(crate) fn line(&mut self, line: &str) -> Option<BatchText> {
        let begins_with_go = line.trim_start().get(..2).is_some_and(|word| word.eq_ignore_ascii_case("go"));
        if begins_with_go && let Some(batch) = self.ended_by(line) {
            self.text.clear();
            let blank = BatchText { text: String::new(), first_line: 1, repeat: 1 };
            return Some(batch.unwrap_or(blank));
        }
        self.text.push_str(line);
        self.text.push('\n');
        None
    }

    /// The batch that this line ends, or `Some(None)` if that batch is blank. `None` if the line does not end a batch.
    fn ended_by(&self, line: &str) -> Option<Option<BatchText>> {
        // After a counting GO, the following text is a batch of its own.
        let probe = format!("{}{line}\nX", self.text);
        let mut batches = split_batches(&probe);
        let last = batches.pop()?;
        (last.text == "X").then(|| batches.pop())
    }

    /// Whether nothing has come since the last `GO`.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Whether the next line is outside strings, quoted names and comments.
    pub(crate) fn is_in_code(&self) -> bool {
        self.ended_by("GO").is_some()
    }

    /// The number of the next line in its batch, from 1.
    pub(crate) fn next_line(&self) -> usize {
        self.text.lines().count() + 1
    }

    /// The text since the last `GO`.
    pub(crate) fn rest(&mut self) -> BatchText {
        BatchText { text: std::mem::take(&mut self.text), first_line: 1, repeat: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_ends_what_came_before() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.line("SELECT 1"), None);
        let batch = splitter.line("go 3").expect("a batch");
        assert_eq!((batch.text.as_str(), batch.repeat), ("SELECT 1\n", 3));
        assert_eq!(splitter.next_line(), 1);
        assert_eq!(splitter.line("GO").expect("a blank batch").text, "");
    }

    #[test]
    fn go_inside_a_string_is_text() {
        let mut splitter = Splitter::default();
        for line in ["PRINT 'a", "GO", "b'"] {
            assert_eq!(splitter.line(line), None);
            assert_eq!(splitter.is_in_code(), line == "b'", "{line}");
        }
        assert_eq!(splitter.next_line(), 4);
        assert_eq!(splitter.line("GO").expect("a batch").text, "PRINT 'a\nGO\nb'\n");
        assert_eq!(splitter.line("GOTO x"), None);
        assert_eq!(splitter.rest().text, "GOTO x\n");
    }
}
