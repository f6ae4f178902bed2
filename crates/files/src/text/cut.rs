//! Row ends of text files, for stretches.

use hobt_base::SqlError;
use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::layout::TextLayout;
use crate::stretches::{Cut, Cutter};

impl Cutter for TextLayout {
    fn cut(&self, bytes: &[u8], is_last: bool) -> Result<Cut, SqlError> {
        let cut = match self.quote {
            Some(quote) if memchr(quote, bytes).is_some() => self.cut_quoted(bytes, quote),
            _ => self.cut_plain(bytes),
        };
        if !is_last || cut.end == bytes.len() {
            return Ok(cut);
        }
        // The last row has no row end, or its quote is not closed; its fields say which.
        let lines = cut.lines + line_feeds(&bytes[cut.end..]);
        Ok(Cut { end: bytes.len(), rows: cut.rows + 1, lines })
    }
}

fn line_feeds(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

impl TextLayout {
    /// Without quotes: the last row end is searched from the end, and the row ends are counted.
    fn cut_plain(&self, bytes: &[u8]) -> Cut {
        if let [row_end] = self.row_end[..] {
            let Some(last) = memchr::memrchr(row_end, bytes) else { return Cut::default() };
            let rows = memchr_iter(row_end, &bytes[..=last]).count() as u64;
            let lines = if row_end == b'\n' { rows } else { line_feeds(&bytes[..=last]) };
            return Cut { end: last + 1, rows, lines };
        }
        // Row ends of several bytes may overlap, so they are counted from the start.
        let (mut end, mut rows) = (0, 0);
        for found in memmem::find_iter(bytes, &self.row_end) {
            (end, rows) = (found + self.row_end.len(), rows + 1);
        }
        Cut { end, rows, lines: line_feeds(&bytes[..end]) }
    }

    /// With quotes: only quotes and row ends are looked at.
    fn cut_quoted(&self, bytes: &[u8], quote: u8) -> Cut {
        let mut cut = Cut::default();
        let mut at = 0;
        while let Some(found) = memchr2(quote, self.row_end[0], &bytes[at..]) {
            let here = at + found;
            if bytes[here] == quote && self.begins_field(bytes, here, cut.end) {
                match closing(bytes, here + 1, quote) {
                    Some(closed) => at = closed + 1,
                    None => break,
                }
            } else if bytes[here..].starts_with(&self.row_end) {
                at = here + self.row_end.len();
                (cut.end, cut.rows) = (at, cut.rows + 1);
            } else {
                at = here + 1;
            }
        }
        cut.lines = line_feeds(&bytes[..cut.end]);
        cut
    }

    /// Whether a field begins at `here`, in a row that begins at `row`.
    fn begins_field(&self, bytes: &[u8], here: usize, row: usize) -> bool {
        here == row || bytes[row..here].ends_with(&self.field_end)
    }
}

/// Where a quoted field ends whose text begins at `from`: its closing quote. `None` if there is none.
pub(super) fn closing(bytes: &[u8], mut from: usize, quote: u8) -> Option<usize> {
    loop {
        let here = from + memchr(quote, bytes.get(from..)?)?;
        match bytes.get(here + 1) {
            Some(next) if *next == quote => from = here + 2,
            _ => return Some(here),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(layout: &TextLayout, bytes: &[u8], is_last: bool) -> (usize, u64, u64) {
        let Cut { end, rows, lines } = layout.cut(bytes, is_last).expect("text can be cut");
        (end, rows, lines)
    }

    #[test]
    fn rows_end_at_terminators_outside_of_quotes() {
        let csv = TextLayout::csv();
        assert_eq!(cut(&csv, b"a,b\nc,d\ne", false), (8, 2, 2));
        assert_eq!(cut(&csv, b"a,b\nc,d\ne", true), (9, 3, 2));
        assert_eq!(cut(&csv, b"a,\"x\ny\"\nb,\"z\nw", false), (8, 1, 2));
        assert_eq!(cut(&csv, b"a,\"x\"\"\ny\"\n", false), (10, 1, 2));
        assert_eq!(cut(&csv, b"5\" pipe,1\nb\n", false), (12, 2, 2), "a quote inside a field is text");
        assert_eq!(cut(&csv, b"", true), (0, 0, 0));
        assert_eq!(cut(&csv, b"abc", false), (0, 0, 0));
    }

    #[test]
    fn row_ends_of_several_bytes_are_found_whole() {
        let layout =
            TextLayout { field_end: b"|".to_vec(), row_end: b"|\n".to_vec(), strips_return: false, quote: None };
        assert_eq!(cut(&layout, b"a|b|\nc|d|", false), (5, 1, 1));
        assert_eq!(cut(&layout, b"a|b|\nc|d|\n", false), (10, 2, 2));
        let quoted = TextLayout { quote: Some(b'"'), ..layout };
        assert_eq!(cut(&quoted, b"a|\"b|\n\"|\nc", false), (9, 1, 2));
    }
}
