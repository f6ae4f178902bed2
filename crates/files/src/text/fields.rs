//! The fields of rows.

use memchr::{memchr2, memmem};

use super::cut::closing;
use super::layout::TextLayout;

/// Where a field lies in its stretch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Field {
    start: u32,
    /// The length, and two flags in the highest bits.
    length: u32,
}

/// The field was quoted: it is a text even if it is empty.
const QUOTED: u32 = 1 << 31;
/// Two quotes in the field stand for one.
const DOUBLED: u32 = 1 << 30;

/// Bytes of a stretch must be numbered by the bits that the flags leave.
pub(crate) const STRETCH_BYTES_MAX: usize = (DOUBLED - 1) as usize;

impl Field {
    fn new(start: usize, end: usize, flags: u32) -> Field {
        // Stretches are shorter than STRETCH_BYTES_MAX.
        Field { start: start as u32, length: (end - start) as u32 | flags }
    }

    /// A text, empty or not.
    pub(crate) fn text(start: usize, end: usize) -> Field {
        Field::new(start, end, QUOTED)
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + (self.length & (DOUBLED - 1)) as usize
    }

    /// Whether it has no text and no quotes.
    pub(crate) fn is_missing(self) -> bool {
        self.length == 0
    }

    pub(crate) fn is_doubled(self) -> bool {
        self.length & DOUBLED != 0
    }
}

/// What is wrong with the fields of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowFault {
    /// There are fewer fields than columns; so many.
    Few(usize),
    /// There are more.
    Many,
    /// Text stands between a closing quote and the end of the field, which is the one of this number from 0.
    AfterQuote(usize),
    /// The quote of the last field, which has this number from 0, is not closed.
    Unclosed(usize),
}

/// Reads the fields of one row after the other.
pub(crate) struct Fields<'s> {
    layout: &'s TextLayout,
    bytes: &'s [u8],
    at: usize,
    shape: RowShape,
}

/// The fields that rows have and that are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowShape {
    /// Fields from the first on that are wanted; at most `least`.
    pub(crate) wanted: usize,
    /// Fields that a row has at least.
    pub(crate) least: usize,
    /// Whether more fields are an error.
    pub(crate) is_exact: bool,
}

/// How a field ended.
enum End {
    /// At a field terminator; the next field begins behind it.
    Field(usize),
    /// At the row's end; the next row begins behind it.
    Row(usize),
}

impl<'s> Fields<'s> {
    pub(crate) fn new(layout: &'s TextLayout, bytes: &'s [u8], at: usize, shape: RowShape) -> Fields<'s> {
        Fields { layout, bytes, at, shape }
    }

    /// Where the next row begins.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Skips a row; false at the end.
    pub(crate) fn skip(&mut self) -> bool {
        let shape = std::mem::replace(&mut self.shape, RowShape { wanted: 0, least: 0, is_exact: false });
        let is_there = self.next_row(&mut Vec::new()).is_some();
        self.shape = shape;
        is_there
    }

    /// Appends the wanted fields of the next row, always as many, to `fields`; `None` at the end.
    pub(crate) fn next_row(&mut self, fields: &mut Vec<Field>) -> Option<Result<(), RowFault>> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let RowShape { wanted, least, is_exact } = self.shape;
        let (mut count, mut fault) = (0, None);
        loop {
            let (field, end) = self.field(count, &mut fault);
            if count < wanted {
                fields.push(field);
            } else if is_exact
                && count >= least
                && !(count == least && field.is_missing() && matches!(end, End::Row(_)))
            {
                // A terminator behind the last field is no further field.
                fault.get_or_insert(RowFault::Many);
            }
            count += 1;
            match end {
                End::Field(next) => self.at = next,
                End::Row(next) => {
                    self.at = next;
                    break;
                }
            }
        }
        if count < least {
            fault.get_or_insert(RowFault::Few(count));
            fields.extend(std::iter::repeat_n(Field::default(), wanted.saturating_sub(count)));
        }
        Some(fault.map_or(Ok(()), Err))
    }

    /// The field that begins at the current position.
    fn field(&self, number: usize, fault: &mut Option<RowFault>) -> (Field, End) {
        let start = self.at;
        if let Some(quote) = self.layout.quote
            && self.bytes.get(start) == Some(&quote)
        {
            return self.quoted(start + 1, quote, number, fault);
        }
        let (end, how) = self.field_end(start);
        let stripped = match how {
            End::Row(_) if self.layout.strips_return && end > start && self.bytes[end - 1] == b'\r' => end - 1,
            _ => end,
        };
        (Field::new(start, stripped, 0), how)
    }

    fn quoted(&self, start: usize, quote: u8, number: usize, fault: &mut Option<RowFault>) -> (Field, End) {
        let Some(closed) = closing(self.bytes, start, quote) else {
            fault.get_or_insert(RowFault::Unclosed(number));
            return (Field::new(start, self.bytes.len(), QUOTED), End::Row(self.bytes.len()));
        };
        let is_doubled = memchr::memchr(quote, &self.bytes[start..closed]).is_some();
        let field = Field::new(start, closed, if is_doubled { QUOTED | DOUBLED } else { QUOTED });
        let (end, how) = self.field_end(closed + 1);
        let behind = &self.bytes[closed + 1..end];
        let is_return = matches!(how, End::Row(_)) && self.layout.strips_return && behind == b"\r";
        if !is_return && behind.iter().any(|byte| *byte != b' ') {
            fault.get_or_insert(RowFault::AfterQuote(number));
        }
        (field, how)
    }

    /// Where a field without quotes ends that is read from `from` on.
    fn field_end(&self, from: usize) -> (usize, End) {
        let TextLayout { field_end, row_end, .. } = self.layout;
        let mut at = from;
        loop {
            let Some(found) = find_either(&self.bytes[at..], field_end[0], row_end[0]) else {
                return (self.bytes.len(), End::Row(self.bytes.len()));
            };
            let here = at + found;
            let rest = &self.bytes[here..];
            // A row end may begin with a field end.
            if rest[0] == row_end[0] && (row_end.len() == 1 || rest.starts_with(row_end)) {
                return (here, End::Row(here + row_end.len()));
            }
            if rest[0] == field_end[0] && (field_end.len() == 1 || rest.starts_with(field_end)) {
                return (here, End::Field(here + field_end.len()));
            }
            at = here + 1;
        }
    }
}

/// The first position of either byte. Most fields have a few bytes, for which eight bytes at a time are faster than a
/// call that prepares for many.
#[inline]
fn find_either(bytes: &[u8], a: u8, b: u8) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
    let (a_word, b_word) = (LOW * u64::from(a), LOW * u64::from(b));
    let (words, _) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().take(4).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zeros(word ^ a_word) | zeros(word ^ b_word);
        if found != 0 {
            return Some(place * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let searched = words.len().min(4) * 8;
    memchr2(a, b, &bytes[searched..]).map(|found| searched + found)
}

/// The text of a quoted field with each pair of quotes as one.
pub(crate) fn undoubled(text: &str, quote: u8) -> String {
    let pair = [quote, quote];
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = memmem::find(&text.as_bytes()[at..], &pair) {
        out.push_str(&text[at..=at + found]);
        at += found + 2;
    }
    out.push_str(&text[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(layout: &TextLayout, text: &str, wanted: usize) -> Vec<Result<Vec<String>, RowFault>> {
        let mut fields = Fields::new(layout, text.as_bytes(), 0, RowShape { wanted, least: wanted, is_exact: true });
        let mut found = Vec::new();
        let mut row = Vec::new();
        while let Some(read) = fields.next_row(&mut row) {
            assert_eq!(row.len(), wanted);
            let texts = row.drain(..).map(|field| match field.is_doubled() {
                true => undoubled(&text[field.range()], b'"'),
                false => text[field.range()].to_owned(),
            });
            let texts = texts.collect::<Vec<_>>();
            found.push(read.map(|()| texts));
        }
        found
    }

    fn of(texts: &[&str]) -> Result<Vec<String>, RowFault> {
        Ok(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn fields_are_quoted_or_plain_and_lines_end_in_any_way() {
        let csv = TextLayout::csv();
        let text = "a,b\r\n\"c,\"\"d\",\"\"\n\"x\ny\", z";
        assert_eq!(rows(&csv, text, 2), [of(&["a", "b"]), of(&["c,\"d", ""]), of(&["x\ny", " z"])]);
        assert_eq!(rows(&csv, "a\"b,c\"\n", 2), [of(&["a\"b", "c\""])]);
        assert_eq!(rows(&csv, "1,2,\n", 2), [of(&["1", "2"])], "a terminator behind the last field");
    }

    #[test]
    fn a_row_of_another_shape_is_a_fault_and_the_next_row_is_read() {
        let csv = TextLayout::csv();
        let text = "a\nb,c,d\n\"e\"x,f\n1,2\n\"open,3";
        let expected = [
            Err(RowFault::Few(1)),
            Err(RowFault::Many),
            Err(RowFault::AfterQuote(0)),
            of(&["1", "2"]),
            Err(RowFault::Unclosed(0)),
        ];
        assert_eq!(rows(&csv, text, 2), expected);
    }

    #[test]
    fn terminators_of_several_bytes_are_met_whole() {
        let layout =
            TextLayout { field_end: b"|".to_vec(), row_end: b"|\n".to_vec(), strips_return: false, quote: None };
        assert_eq!(rows(&layout, "a|b|\nc\n|d|\n", 2), [of(&["a", "b"]), of(&["c\n", "d"])]);
        let layout = TextLayout { field_end: b"<>".to_vec(), row_end: b"##".to_vec(), ..layout };
        assert_eq!(rows(&layout, "a<b<>c##d<>e#f##", 2), [of(&["a<b", "c"]), of(&["d", "e#f"])]);
    }

    #[test]
    fn either_byte_is_found_first_wherever_it_stands() {
        let mut bytes = vec![b'x'; 90];
        for place in 0..90 {
            bytes[place] = b',';
            for other in place..90 {
                let was = std::mem::replace(&mut bytes[other], b'\n');
                assert_eq!(find_either(&bytes, b',', b'\n'), Some(place));
                assert_eq!(find_either(&bytes, b'\n', b','), Some(place));
                bytes[other] = was;
                bytes[place] = b',';
            }
            bytes[place] = b'x';
        }
        assert_eq!(find_either(&bytes, b',', b'\n'), None);
    }
}
