//! Filters of a scan on texts: equal to a constant, beginning with it, or containing it.
//!
//! The bytes of a column's texts are contiguous on a page, so they are tested where they lie: no text is copied and no
//! sort key is made. Bytes decide between ASCII texts under every collation: case is ignored or not, and trailing
//! spaces do not count. A text with other characters is kept by [`TextFilter::select`], and decided by a
//! [`TextCheck`] in [`TextFilter::select_exactly`].
//!
//! ```text
//!   area of the page   w12ˣw123ʸW1234ᶻ…         the ends of the values are beside it
//!   = 'w123  '         the value's length, then its bytes
//!   LIKE 'w1%'         the value's first bytes
//!   LIKE '%23%'        one search through the whole area, in lower case; then the value of each hit
//! ```

use std::cmp::Ordering;
use std::error::Error;
use std::sync::Arc;

use hobt_base::{PAGE_SIZE, PageId};
use hobt_page::{PageBytes, RowPage, StoredValue};
use hobt_types::Collation;
use memchr::memmem::Finder;

use super::kernels::Kernels;
use crate::{AccessError, LargeValues};

/// The most constants of a list that are compared with each value one by one.
const LISTED_MAX: usize = 64;
/// Bytes of a value that are compared at once.
const WORD: usize = 8;

/// A condition on one column of texts that bytes can decide.
#[derive(Clone, Debug)]
pub struct TextFilter {
    column: usize,
    ignores_case: bool,
    test: Test,
    keeps_null: bool,
    /// The texts of a page, in lower case.
    folded: Vec<u8>,
    kernels: Kernels,
}

/// Tells whether a text fulfils a condition.
pub type TextCheck = Arc<dyn Fn(&str) -> Result<bool, Box<dyn Error + Send + Sync>> + Send + Sync>;

#[derive(Clone, Debug)]
enum Test {
    /// Equal to one of these, which have no trailing spaces.
    Equal(Vec<Constant>),
    Prefix(Constant),
    Contains(Box<Finder<'static>>),
    Ordered(Box<Limit>),
}

/// A sort key that keys are compared with.
#[derive(Clone, Debug)]
struct Limit {
    key: Box<[u8]>,
    /// The first eight bytes of the key as a number; a byte that it does not have is 0, which is below all weights.
    first: u64,
    weights: &'static [u8; 128],
    /// Whether greater keys pass, or smaller ones.
    is_least: bool,
    /// Whether no character has the weight 0, which then stands for spaces: those behind a text do not count, and
    /// others are below all characters.
    is_quick: bool,
    /// The weights, and the first bytes of the key, with 0 for spaces.
    quick_weights: [u8; 256],
    quick_first: u64,
}

impl Limit {
    fn new(key: &[u8], weights: &'static [u8; 128], is_least: bool) -> Limit {
        let mut first = [0; WORD];
        let count = key.len().min(WORD);
        first[..count].copy_from_slice(&key[..count]);
        let space = weights[usize::from(b' ')];
        let is_quick = weights.iter().all(|weight| *weight > 0);
        let mut quick_weights = [0; 256];
        quick_weights[..128].copy_from_slice(weights);
        quick_weights[usize::from(b' ')] = 0;
        let quick_first = u64::from_be_bytes(first.map(|weight| if weight == space { 0 } else { weight }));
        let first = u64::from_be_bytes(first);
        Limit { key: key.into(), first, weights, is_least, is_quick, quick_weights, quick_first }
    }

    /// Replaces `slots` by those of the texts of an ASCII page that pass, and some that begin like the key.
    fn select(&self, page: &RowPage<'_>, column: usize, slots: &mut Vec<usize>) {
        let (bytes, ends) = (page.bytes(), page.ends(column));
        let [_, (area, _)] = page.extents(column);
        slots.resize(ends.len(), 0);
        let (mut kept, mut start) = (0, area);
        for (slot, end) in ends.iter().enumerate() {
            let end = area + offset(*end);
            let text = word_at(bytes, start).to_le_bytes();
            let weights = text.map(|byte| self.quick_weights[usize::from(byte)]);
            let length = (end - start).min(WORD) as u32;
            // The bytes behind the text are the highest of the word, and the lowest of the number.
            let first = u64::from_be_bytes(weights) & u64::MAX.unbounded_shl(8 * (WORD as u32 - length));
            slots[kept] = slot;
            let passes = if self.is_least { first >= self.quick_first } else { first <= self.quick_first };
            kept += usize::from(passes);
            start = end;
        }
        slots.truncate(kept);
    }

    /// Whether an ASCII text passes.
    #[inline]
    fn passes(&self, value: &[u8]) -> bool {
        let value = &value[..value.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1)];
        let weight = |byte: &u8| self.weights[usize::from(*byte & 0x7F)];
        let first = value.iter().take(WORD).fold(0, |first, byte| first << 8 | u64::from(weight(byte)));
        let first = if value.len() < WORD { first.unbounded_shl(8 * (WORD - value.len()) as u32) } else { first };
        if first != self.first {
            return (first > self.first) == self.is_least;
        }
        match value.iter().map(weight).cmp(self.key.iter().copied()) {
            Ordering::Equal => true,
            order => order.is_gt() == self.is_least,
        }
    }
}

/// A text that values are compared with, and up to eight of its bytes that are compared first, all at once.
#[derive(Clone, Debug)]
struct Constant {
    text: Box<[u8]>,
    /// Where these bytes begin in the text.
    at: usize,
    word: u64,
    /// The bits that are compared.
    mask: u64,
    /// The bits that are set before: those by which letters differ in case, if case is ignored.
    fold: u64,
}

impl Constant {
    /// Compares the last bytes first: texts of one column often begin alike.
    fn new(text: &[u8], ignores_case: bool, is_prefix: bool) -> Constant {
        let count = text.len().min(WORD);
        let at = if is_prefix { 0 } else { text.len() - count };
        let mut bytes = [0; WORD];
        bytes[..count].copy_from_slice(&text[at..at + count]);
        let mask = if count == WORD { u64::MAX } else { (1 << (8 * count)) - 1 };
        let fold = if ignores_case { mask & 0x2020_2020_2020_2020 } else { 0 };
        Constant { text: text.into(), at, word: u64::from_le_bytes(bytes) | fold, mask, fold }
    }

    /// Whether the text from `start` to `end` of the bytes may begin with it.
    #[inline(always)]
    fn may_begin(&self, bytes: &PageBytes, start: usize, end: usize) -> bool {
        let word = word_at(bytes, start + self.at);
        (start + self.text.len() <= end) & ((word | self.fold) & self.mask == self.word)
    }
}

/// The eight bytes from a place of a page on; zeros for those behind its end.
#[inline(always)]
fn word_at(bytes: &PageBytes, from: usize) -> u64 {
    // At the end of the page the bytes before are loaded, too, and shifted out.
    let at = from.min(PAGE_SIZE - WORD);
    let word = bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    word.unbounded_shr(8 * (from - at) as u32)
}

/// What a text is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextTest<'t> {
    /// It is one of these, trailing spaces aside: ASCII, without trailing spaces, in lower case if case is ignored.
    Equal(&'t [Vec<u8>]),
    /// It begins with this.
    Prefix(&'t str),
    /// It contains this.
    Contains(&'t str),
    /// Its sort key is this or a smaller one.
    AtMost(&'t [u8]),
    /// Its sort key is this or a greater one.
    AtLeast(&'t [u8]),
}

impl TextFilter {
    /// The condition that the text in column `column` passes a test under a collation. `None` if bytes do not decide
    /// it: the constant has other characters than ASCII, or is empty where that says nothing, or there are too many.
    pub fn new(column: usize, test: TextTest<'_>, collation: Collation) -> Option<TextFilter> {
        let ignores_case = collation.ignores_case();
        let fold = |text: &str| {
            let bytes = text.as_bytes();
            let folded = if ignores_case { bytes.to_ascii_lowercase() } else { bytes.to_vec() };
            text.is_ascii().then_some(folded)
        };
        let test = match test {
            TextTest::Equal(texts) if texts.len() > LISTED_MAX => return None,
            TextTest::Equal(texts) => {
                Test::Equal(texts.iter().map(|text| Constant::new(text, ignores_case, false)).collect())
            }
            TextTest::Prefix("") | TextTest::Contains("") => return None,
            TextTest::Prefix(text) => Test::Prefix(Constant::new(&fold(text)?, ignores_case, true)),
            TextTest::AtMost(key) => Test::Ordered(Box::new(Limit::new(key, collation.ascii_weights()?, false))),
            TextTest::AtLeast(key) => Test::Ordered(Box::new(Limit::new(key, collation.ascii_weights()?, true))),
            TextTest::Contains(text) => Test::Contains(Box::new(Finder::new(&fold(text)?).into_owned())),
        };
        Some(TextFilter { column, ignores_case, test, keeps_null: false, folded: Vec::new(), kernels: Kernels::new() })
    }

    /// It, but with NULL passing if `keeps_null`.
    #[must_use]
    pub fn keeping_null(self, keeps_null: bool) -> TextFilter {
        TextFilter { keeps_null, ..self }
    }

    /// The column.
    pub fn column(&self) -> usize {
        self.column
    }

    /// How it tests, in a word.
    pub fn kind(&self) -> &'static str {
        match self.test {
            Test::Equal(_) => "text",
            Test::Prefix(_) => "prefix",
            Test::Ordered(_) => "limit",
            Test::Contains(_) => "search",
        }
    }

    /// Replaces `slots` by the slots of the page's live rows that may fulfil the condition, in order. All live rows of
    /// a page whose values are not all in their rows.
    pub fn select(&mut self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        slots.clear();
        if page.has_pointers() || !page.ends_are_ordered(self.column) {
            slots.extend(0..page.row_count());
        } else if let Test::Contains(finder) = &self.test {
            let mut area = &page.variable(self.column)[..page.variable_used(self.column)];
            // Most texts are in lower case already, and need no copy.
            if self.ignores_case && self.kernels.has_upper_case(area) {
                self.folded.clear();
                self.folded.extend_from_slice(area);
                self.folded.make_ascii_lowercase();
                area = &self.folded;
            }
            search(finder, area, page.ends(self.column), page.is_ascii(self.column), slots);
        } else if let Test::Ordered(limit) = &self.test {
            match limit.is_quick && page.is_ascii(self.column) && page.null_count(self.column) == 0 {
                true => limit.select(page, self.column, slots),
                false => self.select_each(page, slots, |value| limit.passes(value)),
            }
        } else {
            self.select_beginnings(page, slots);
        }
        self.drop_absent(page, slots);
    }

    /// Appends the slots of the values that pass, and of those that are not ASCII.
    fn select_each(&self, page: &RowPage<'_>, slots: &mut Vec<usize>, passes: impl Fn(&[u8]) -> bool) {
        let (area, is_ascii) = (page.variable(self.column), page.is_ascii(self.column));
        let mut start = 0;
        for (slot, end) in page.ends(self.column).iter().enumerate() {
            let value = &area[start..offset(*end)];
            // Nothing is known of the bytes that stand for a NULL.
            let is_kept = passes(value) || !(is_ascii || value.is_ascii()) || self.is_kept_null(page, slot);
            if is_kept {
                slots.push(slot);
            }
            start = offset(*end);
        }
    }

    fn is_kept_null(&self, page: &RowPage<'_>, slot: usize) -> bool {
        self.keeps_null && page.is_null(self.column, slot)
    }

    /// Appends the slots of the values that pass, for comparisons with constants.
    fn select_beginnings(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        let (constants, whole) = match &self.test {
            Test::Equal(constants) => (constants.as_slice(), true),
            Test::Prefix(constant) => (std::slice::from_ref(constant), false),
            Test::Contains(_) | Test::Ordered(_) => unreachable!("has no constants"),
        };
        let (bytes, is_ascii) = (page.bytes(), page.is_ascii(self.column));
        let [_, (area, _)] = page.extents(self.column);
        if let ([constant], true) = (constants, is_ascii) {
            return self.select_one((page, area), constant, whole, slots);
        }
        let mut start = area;
        for (slot, end) in page.ends(self.column).iter().enumerate() {
            let end = area + offset(*end);
            let is_equal = |constant: &Constant| {
                constant.may_begin(bytes, start, end) && self.agrees(&bytes[start..end], constant, whole)
            };
            if constants.iter().any(is_equal) || !(is_ascii || bytes[start..end].is_ascii()) {
                slots.push(slot);
            }
            start = end;
        }
    }

    /// As `select_beginnings`, of a page of ASCII texts and one constant: without a branch for each value that is
    /// another one by its first or last bytes.
    fn select_one(
        &self,
        (page, area): (&RowPage<'_>, usize),
        constant: &Constant,
        whole: bool,
        slots: &mut Vec<usize>,
    ) {
        let (bytes, ends) = (page.bytes(), page.ends(self.column));
        slots.resize(ends.len(), 0);
        let (mut kept, mut start) = (0, area);
        for (slot, end) in ends.iter().enumerate() {
            let end = area + offset(*end);
            slots[kept] = slot;
            kept += usize::from(constant.may_begin(bytes, start, end));
            start = end;
        }
        slots.truncate(kept);
        slots.retain(|&slot| {
            let start = if slot == 0 { 0 } else { offset(ends[slot - 1]) };
            self.agrees(&bytes[area + start..area + offset(ends[slot])], constant, whole)
        });
    }

    /// As [`TextFilter::select`], or [`TextFilter::retain`] if `slots` are some already, but leaves only rows that
    /// fulfil the condition; `check` tells where bytes do not. Blocks if texts have to be fetched.
    ///
    /// # Errors
    /// A text is damaged, or cannot be fetched or checked.
    pub fn select_exactly(
        &mut self,
        (id, page): (PageId, &RowPage<'_>),
        values: &dyn LargeValues,
        check: &TextCheck,
        (slots, are_some): (&mut Vec<usize>, bool),
    ) -> Result<(), AccessError> {
        if are_some {
            self.retain(page, slots);
        } else {
            self.select(page, slots);
        }
        if page.is_ascii(self.column) && !page.has_pointers() && page.ends_are_ordered(self.column) {
            return Ok(());
        }
        let mut kept = 0;
        for at in 0..slots.len() {
            let slot = slots[at];
            let stored = page.stored(self.column, slot).map_err(|damage| values.damaged(id, damage))?;
            let is_wanted = match stored {
                StoredValue::Null => false,
                StoredValue::InRow(text) if text.is_ascii() => self.passes(text),
                StoredValue::InRow(text) => is_text_wanted(text, check)?,
                StoredValue::Pointer(pointer) => is_text_wanted(&values.fetch(&pointer)?, check)?,
            };
            slots[kept] = slot;
            kept += usize::from(is_wanted);
        }
        slots.truncate(kept);
        Ok(())
    }

    /// Removes the slots that cannot fulfil the condition.
    pub fn retain(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        if page.has_pointers() || !page.ends_are_ordered(self.column) {
            return;
        }
        let (area, ends) = (page.variable(self.column), page.ends(self.column));
        slots.retain(|&slot| {
            let start = if slot == 0 { 0 } else { offset(ends[slot - 1]) };
            self.passes(&area[start..offset(ends[slot])]) || self.is_kept_null(page, slot)
        });
        self.drop_absent(page, slots);
    }

    /// Removes deleted rows, and NULLs unless they pass.
    fn drop_absent(&self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        if page.null_count(self.column) > 0 && !self.keeps_null {
            slots.retain(|&slot| !page.is_null(self.column, slot));
        }
        if page.deleted_count() > 0 {
            slots.retain(|&slot| !page.is_deleted(slot));
        }
    }

    fn passes(&self, value: &[u8]) -> bool {
        let found = match &self.test {
            Test::Equal(constants) => constants.iter().any(|constant| self.agrees(value, constant, true)),
            Test::Prefix(constant) => self.agrees(value, constant, false),
            Test::Contains(finder) if self.ignores_case => finder.find(&value.to_ascii_lowercase()).is_some(),
            Test::Contains(finder) => finder.find(value).is_some(),
            Test::Ordered(limit) => limit.passes(value),
        };
        found || !value.is_ascii()
    }

    /// Whether a value begins with a constant and, if it has to be `whole`, has only spaces behind it.
    fn agrees(&self, value: &[u8], constant: &Constant, whole: bool) -> bool {
        value.split_at_checked(constant.text.len()).is_some_and(|(head, rest)| {
            self.is_same(head, &constant.text) && (!whole || rest.iter().all(|byte| *byte == b' '))
        })
    }

    #[inline]
    fn is_same(&self, value: &[u8], text: &[u8]) -> bool {
        if self.ignores_case { value.eq_ignore_ascii_case(text) } else { value == text }
    }
}

fn is_text_wanted(bytes: &[u8], check: &TextCheck) -> Result<bool, AccessError> {
    // Text that is not UTF-8 is an error wherever it is read.
    let text = std::str::from_utf8(bytes).map_err(|error| AccessError::Visitor(error.into()))?;
    check(text).map_err(AccessError::Visitor)
}

/// Appends the slots of the values in which the finder finds something, and those that are not ASCII.
fn search(finder: &Finder<'_>, area: &[u8], ends: &[[u8; 2]], is_ascii: bool, slots: &mut Vec<usize>) {
    let length = finder.needle().len();
    let mut from = 0;
    let mut slot = 0;
    let mut start = 0;
    while let Some(found) = area.get(from..).and_then(|rest| finder.find(rest)).map(|place| from + place) {
        // The value in which it begins.
        while let Some(end) = ends.get(slot).map(|end| offset(*end)).filter(|end| *end <= found) {
            if !is_ascii && !area[start..end].is_ascii() {
                slots.push(slot);
            }
            (slot, start) = (slot + 1, end);
        }
        let Some(end) = ends.get(slot).map(|end| offset(*end)) else { return };
        if found + length <= end {
            slots.push(slot);
            (slot, start, from) = (slot + 1, end, end);
        } else {
            // It reaches into the next value.
            from = found + 1;
        }
    }
    if !is_ascii {
        for end in ends[slot..].iter().map(|end| offset(*end)) {
            if !area[start..end].is_ascii() {
                slots.push(slot);
            }
            (slot, start) = (slot + 1, end);
        }
    }
}

fn offset(end: [u8; 2]) -> usize {
    usize::from(u16::from_le_bytes(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CI: Collation = Collation::Latin1GeneralCiAs;
    const BIN: Collation = Collation::Latin1GeneralBin2;

    fn equal(texts: &[&str], collation: Collation) -> TextFilter {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        TextFilter::new(0, TextTest::Equal(&texts), collation).unwrap()
    }

    #[test]
    fn a_value_passes_if_it_fulfils_the_condition_or_bytes_do_not_decide() {
        let filter = equal(&["smith", "x"], CI);
        for (value, passes) in [
            ("smith", true),
            ("SMITH   ", true),
            ("X", true),
            ("Smit", false),
            ("Smiths", false),
            ("Smith s", false),
            (" Smith", false),
            ("", false),
            ("é", true),
        ] {
            assert_eq!(filter.passes(value.as_bytes()), passes, "{value:?}");
        }
        assert!(!equal(&["Smith"], BIN).passes(b"smith"));
        assert!(equal(&[""], CI).passes(b"  "));
        let prefix = TextFilter::new(0, TextTest::Prefix("Sm"), CI).unwrap();
        assert!(prefix.passes(b"sMith") && !prefix.passes(b"xSm") && !prefix.passes(b"s"));
        assert!(TextFilter::new(0, TextTest::Prefix(""), CI).is_none());
    }

    #[test]
    fn limits_pass_what_their_keys_say() {
        let texts =
            ["", " ", "a", "A  ", "ab", "abc", "b", "abcdefgh", "abcdefghi", "abcdefghz", "1", "~", "ab cd", "a\tb"];
        for collation in [CI, BIN] {
            for limit in texts {
                let mut key = Vec::new();
                collation.sort_key(limit, &mut key);
                let most = TextFilter::new(0, TextTest::AtMost(&key), collation).unwrap();
                let least = TextFilter::new(0, TextTest::AtLeast(&key), collation).unwrap();
                for text in texts {
                    let order = collation.compare(text, limit);
                    assert_eq!(most.passes(text.as_bytes()), order.is_le(), "{text:?} <= {limit:?} under {collation}");
                    assert_eq!(least.passes(text.as_bytes()), order.is_ge(), "{text:?} >= {limit:?} under {collation}");
                }
            }
        }
        assert!(TextFilter::new(0, TextTest::AtMost(b"x"), Collation::Latin1GeneralCsAs).is_none());
    }

    #[test]
    fn a_search_finds_each_value_once_and_nothing_across_values() {
        let values = ["needle", "no", "a needle, a needle", "nee", "dle", "n\u{e9}", "", "dleneedle"];
        let (mut area, mut ends) = (Vec::new(), Vec::new());
        for value in values {
            area.extend_from_slice(value.as_bytes());
            ends.push(u16::try_from(area.len()).unwrap().to_le_bytes());
        }
        let finder = Finder::new("needle");
        let mut slots = Vec::new();
        search(&finder, &area, &ends, false, &mut slots);
        assert_eq!(slots, [0, 2, 5, 7]);
        slots.clear();
        search(&finder, &area, &ends, true, &mut slots);
        assert_eq!(slots, [0, 2, 7]);
    }
}
