//! `LIKE` under a collation, and the patterns of `PATINDEX`.
//!
//! `%` matches any text, `_` one character, `[a-f]` one character of a set, `[^a-f]` one not in it. A constant pattern
//! is compiled once. `'abc'`, `'abc%'`, `'%abc'` and `'%abc%'` over ASCII compare bytes ignoring case. The rest is
//! matched by backtracking only to the last `%`, so no pattern takes more than pattern × text steps. `PATINDEX` uses
//! the same match: the whole match begins at the first occurrence of the part before the second `%`. If the rest
//! matches after a later occurrence, it also matches after the first.

use std::borrow::Cow;
use std::cmp::Ordering;

use arrow::array::{AsArray, BooleanArray, BooleanBuilder, StringViewArray};
use arrow::buffer::BooleanBuffer;
use hobt_base::{SqlError, errors};
use hobt_types::Collation;
use memchr::memmem::Finder;
use memchr::{memchr_iter, memchr2_iter};

use crate::ascii::AsciiTexts;
use crate::ascii::search::{Haystack, Needle};
use crate::column::Column;
use crate::watch::Meter;

/// One element of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Literal(char),
    AnyText,
    AnyOne,
    Set(CharacterSet),
}

/// The characters in brackets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CharacterSet {
    /// Inclusive ranges.
    ranges: Vec<(char, char)>,
    /// Whether a character in one of the ranges matches, or one in none of them.
    positive: bool,
    /// The ASCII characters that match, one bit each.
    ascii: u128,
}

impl CharacterSet {
    fn new(ranges: Vec<(char, char)>, positive: bool, collation: Collation) -> CharacterSet {
        let mut set = CharacterSet { ranges, positive, ascii: 0 };
        let matching = (0..128u8).filter(|byte| set.compares(char::from(*byte), collation));
        set.ascii = matching.fold(0, |bits, byte| bits | 1 << byte);
        set
    }

    fn has(&self, character: char, collation: Collation) -> bool {
        if character.is_ascii() {
            return self.ascii >> u32::from(character) & 1 == 1;
        }
        self.compares(character, collation)
    }

    fn compares(&self, character: char, collation: Collation) -> bool {
        let inside = |(low, high): &(char, char)| {
            equal(*low, character, collation)
                || compare(character, *low, collation) != Ordering::Less
                    && compare(character, *high, collation) != Ordering::Greater
        };
        self.ranges.iter().any(inside) == self.positive
    }
}

/// A text as a sequence of characters.
trait Characters {
    fn count(&self) -> usize;
    fn at(&self, place: usize) -> char;
}

/// A text of only ASCII.
impl Characters for &[u8] {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, place: usize) -> char {
        char::from(self[place])
    }
}

impl Characters for Vec<char> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, place: usize) -> char {
        self[place]
    }
}

/// The forms of patterns that need no matcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Exact,
    Prefix,
    Suffix,
    Contains,
    /// `'%abc%def%'`
    Parts,
    General,
}

/// What follows the literal characters at the start of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternRest {
    /// Nothing: the text equals those characters.
    Nothing,
    /// A single `%`.
    AnyText,
    /// Something else.
    More,
}

/// A pattern that is only a text and `%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlainPattern<'p> {
    /// `'abc%'`
    Prefix(&'p str),
    /// `'%abc%'`
    Contains(&'p str),
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    tokens: Vec<Token>,
    collation: Collation,
    shape: Shape,
    /// The bytes of the four simple forms, in lower case if case is ignored.
    bytes: Vec<u8>,
    /// The texts between the wildcards of [`Shape::Parts`], in lower case if case is ignored.
    parts: Vec<Finder<'static>>,
}

impl Pattern {
    /// Compiles `pattern`. The character after `escape` is literal.
    pub fn new(pattern: &str, escape: Option<char>, collation: Collation) -> Pattern {
        let tokens = tokens(pattern, escape, collation);
        let (shape, middle) = match tokens.as_slice() {
            [Token::AnyText, middle @ .., Token::AnyText] => (Shape::Contains, middle),
            [Token::AnyText, middle @ ..] => (Shape::Suffix, middle),
            [middle @ .., Token::AnyText] => (Shape::Prefix, middle),
            middle => (Shape::Exact, middle),
        };
        let bytes: Option<Vec<u8>> = middle
            .iter()
            .map(|token| match token {
                Token::Literal(character) if character.is_ascii() => u8::try_from(*character).ok(),
                _ => None,
            })
            .collect();
        let fold = |byte: u8| if collation.ignores_case() { byte.to_ascii_lowercase() } else { byte };
        let shape = if bytes.is_some() { shape } else { Shape::General };
        let parts = parts_of(&tokens, collation).filter(|_| shape == Shape::General).unwrap_or_default();
        let shape = if parts.is_empty() { shape } else { Shape::Parts };
        let bytes = bytes.unwrap_or_default().into_iter().map(fold).collect();
        Pattern { tokens, collation, shape, bytes, parts }
    }

    /// The characters that every matching text begins with, and what follows them in the pattern.
    pub fn prefix(&self) -> (String, PatternRest) {
        let literal = |token: &Token| if let Token::Literal(character) = token { Some(*character) } else { None };
        let prefix: String = self.tokens.iter().map_while(literal).collect();
        let rest = match self.tokens[prefix.chars().count()..] {
            [] => PatternRest::Nothing,
            [Token::AnyText] => PatternRest::AnyText,
            _ => PatternRest::More,
        };
        (prefix, rest)
    }

    /// The text that every matching ASCII text begins with (`'abc%'`), or contains (`'%abc%'`), if the pattern says no
    /// more than that; in lower case if case is ignored.
    pub fn plain(&self) -> Option<PlainPattern<'_>> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        match self.shape {
            Shape::Prefix => Some(PlainPattern::Prefix(text)),
            Shape::Contains => Some(PlainPattern::Contains(text)),
            Shape::Exact | Shape::Suffix | Shape::Parts | Shape::General => None,
        }
    }

    /// Whether the whole of `text` matches.
    ///
    /// # Errors
    /// The statement was cancelled; 701.
    pub fn is_match(&self, text: &str) -> Result<bool, SqlError> {
        self.matches(text, &mut Meter::new())
    }

    /// Whether the whole of `text` matches. Trailing spaces of the text need not be in the pattern.
    ///
    /// # Errors
    /// The statement was cancelled; 701.
    fn matches(&self, text: &str, meter: &mut Meter) -> Result<bool, SqlError> {
        meter.step(text.len())?;
        if text.is_ascii() {
            if self.shape == Shape::Parts {
                return Ok(self.has_parts(text.as_bytes()));
            }
            if self.shape != Shape::General {
                return self.matches_bytes(text.as_bytes(), meter);
            }
            let trimmed = text.trim_end_matches(' ').len();
            return Ok(self.place(&text.as_bytes(), trimmed, meter)?.is_some());
        }
        meter.value(text.len())?;
        let characters: Vec<char> = text.chars().collect();
        let trimmed = text.trim_end_matches(' ').chars().count();
        Ok(self.place(&characters, trimmed, meter)?.is_some())
    }

    fn same(&self, text: &[u8]) -> bool {
        if self.collation.ignores_case() { self.bytes.eq_ignore_ascii_case(text) } else { self.bytes == text }
    }

    fn matches_bytes(&self, text: &[u8], meter: &mut Meter) -> Result<bool, SqlError> {
        let length = self.bytes.len();
        let trimmed = text.len() - text.iter().rev().take_while(|byte| **byte == b' ').count();
        Ok(match self.shape {
            Shape::Prefix => text.get(..length).is_some_and(|head| self.same(head)),
            Shape::Contains => {
                let Some(first) = self.bytes.first() else { return Ok(true) };
                let starts = &text[..(text.len() + 1).saturating_sub(length)];
                return match self.collation.ignores_case() {
                    true => self.matches_at(text, memchr2_iter(*first, first.to_ascii_uppercase(), starts), meter),
                    false => self.matches_at(text, memchr_iter(*first, starts), meter),
                };
            }
            // Trailing spaces of the text may be left over, or match the end of the pattern.
            Shape::Suffix => (trimmed..=text.len())
                .rev()
                .any(|end| end.checked_sub(length).is_some_and(|start| self.same(&text[start..end]))),
            _ => trimmed <= length && text.get(..length).is_some_and(|head| self.same(head)),
        })
    }

    /// Whether an ASCII text has all parts, one behind the other.
    fn has_parts(&self, text: &[u8]) -> bool {
        let is_folded =
            !self.collation.ignores_case() || !text.iter().fold(false, |any, byte| any | byte.is_ascii_uppercase());
        let text = if is_folded { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) };
        let mut from = 0;
        self.parts.iter().all(|part| match part.find(&text[from..]) {
            Some(place) => {
                from += place + part.needle().len();
                true
            }
            None => false,
        })
    }

    /// Whether the bytes begin at one of these places in `text`.
    fn matches_at(
        &self,
        text: &[u8],
        places: impl Iterator<Item = usize>,
        meter: &mut Meter,
    ) -> Result<bool, SqlError> {
        let length = self.bytes.len();
        for place in places {
            if self.same(&text[place..place + length]) {
                return Ok(true);
            }
            meter.step(length)?;
        }
        Ok(false)
    }

    /// Which texts match, for a pattern of one of the simple forms; `None` for another.
    fn matches_ascii(&self, texts: &AsciiTexts, meter: &mut Meter) -> Result<Option<BooleanBuffer>, SqlError> {
        let views = texts.views();
        meter.step(texts.bytes())?;
        Ok(Some(match self.shape {
            Shape::Parts | Shape::General => return Ok(None),
            Shape::Contains if self.bytes.is_empty() => BooleanBuffer::new_set(views.len()),
            Shape::Contains => {
                let mut is_found = vec![false; views.len()];
                let needle = Needle::new(&self.bytes, self.collation.ignores_case());
                Haystack::new(texts, 0).first_in_each_row(&needle, |row, _| is_found[row] = true);
                BooleanBuffer::from(is_found)
            }
            Shape::Prefix => {
                let begins = texts.begins_with(&self.bytes, self.collation.ignores_case());
                BooleanBuffer::collect_bool(views.len(), begins)
            }
            Shape::Exact | Shape::Suffix => {
                let mut is_match = Vec::with_capacity(views.len());
                for row in 0..views.len() {
                    is_match.push(self.matches_bytes(texts.array().value(row).as_bytes(), meter)?);
                }
                BooleanBuffer::from(is_match)
            }
        }))
    }

    fn one(&self, token: &Token, character: char) -> bool {
        match token {
            Token::Literal(literal) => equal(*literal, character, self.collation),
            Token::AnyOne => true,
            Token::Set(set) => set.has(character, self.collation),
            Token::AnyText => false,
        }
    }

    /// Matches all tokens against `text`. The match may end at any position from `may_end` on. Returns where the match
    /// begins; with a leading `%` that is where the text of that `%` ends.
    fn place(&self, text: &impl Characters, may_end: usize, meter: &mut Meter) -> Result<Option<usize>, SqlError> {
        let (mut token, mut at) = (0, 0);
        // The position to retry from: the token after the last `%`, and where its text began.
        let mut again: Option<(usize, usize)> = None;
        let is_floating = self.tokens.first() == Some(&Token::AnyText);
        let mut begin = (!is_floating).then_some(0);
        loop {
            match self.tokens.get(token) {
                Some(Token::AnyText) => {
                    begin = begin.or(again.map(|(_, start)| start));
                    if token + 1 == self.tokens.len() {
                        return Ok(Some(begin.unwrap_or(0)));
                    }
                    again = Some((token + 1, at));
                    token += 1;
                    continue;
                }
                Some(other) if at < text.count() && self.one(other, text.at(at)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at >= may_end => return Ok(begin.or(again.map(|(_, start)| start))),
                _ => {}
            }
            match again {
                Some((after, start)) if start < text.count() => {
                    meter.step(at - start)?;
                    again = Some((after, start + 1));
                    token = after;
                    at = start + 1;
                }
                _ => return Ok(None),
            }
        }
    }

    /// The position (from 1) of the first match of a `PATINDEX` pattern, 0 if there is none. With a leading `%` the
    /// match may begin anywhere, with a trailing one it may end anywhere.
    ///
    /// # Errors
    /// The statement was cancelled; 701.
    pub(crate) fn find(&self, text: &str, meter: &mut Meter) -> Result<usize, SqlError> {
        meter.step(text.len())?;
        if text.is_ascii() {
            let place = self.place(&text.as_bytes(), text.len(), meter)?;
            return Ok(place.map_or(0, |place| place + 1));
        }
        meter.value(text.len())?;
        let characters: Vec<char> = text.chars().collect();
        let place = self.place(&characters, characters.len(), meter)?;
        Ok(place.map_or(0, |place| characters[..place].iter().map(|c| c.len_utf16()).sum::<usize>() + 1))
    }
}

/// The texts between the wildcards of a pattern that begins and ends with `%`, if they are ASCII and nothing else is in
/// it.
fn parts_of(tokens: &[Token], collation: Collation) -> Option<Vec<Finder<'static>>> {
    let [Token::AnyText, middle @ .., Token::AnyText] = tokens else { return None };
    let part = |tokens: &[Token]| {
        let byte = |token: &Token| match token {
            Token::Literal(character) if character.is_ascii() => u8::try_from(*character).ok(),
            _ => None,
        };
        let bytes = tokens.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        let bytes = if collation.ignores_case() { bytes.to_ascii_lowercase() } else { bytes };
        Some(Finder::new(&bytes).into_owned())
    };
    middle.split(|token| *token == Token::AnyText).map(part).collect()
}

fn equal(left: char, right: char, collation: Collation) -> bool {
    if left.is_ascii() && right.is_ascii() {
        return left == right || collation.ignores_case() && left.eq_ignore_ascii_case(&right);
    }
    left == right || collation.ignores_case() && compare(left, right, collation) == Ordering::Equal
}

fn compare(left: char, right: char, collation: Collation) -> Ordering {
    let (mut left_bytes, mut right_bytes) = ([0; 4], [0; 4]);
    // A comparison of texts would trim a space.
    match (left, right) {
        (' ', ' ') => Ordering::Equal,
        (' ', _) => Ordering::Less,
        (_, ' ') => Ordering::Greater,
        _ => collation.compare(left.encode_utf8(&mut left_bytes), right.encode_utf8(&mut right_bytes)),
    }
}

fn tokens(pattern: &str, escape: Option<char>, collation: Collation) -> Vec<Token> {
    let characters: Vec<char> = pattern.chars().collect();
    let mut tokens = Vec::with_capacity(characters.len());
    let mut at = 0;
    while let Some(character) = characters.get(at).copied() {
        at += 1;
        let token = match character {
            _ if Some(character) == escape => match characters.get(at) {
                Some(next) => {
                    at += 1;
                    Token::Literal(*next)
                }
                None => Token::Literal(character),
            },
            '%' if tokens.last() == Some(&Token::AnyText) => continue,
            '%' => Token::AnyText,
            '_' => Token::AnyOne,
            '[' => match set(&characters[at..], escape, collation) {
                Some((token, length)) => {
                    at += length;
                    token
                }
                None => Token::Literal('['),
            },
            _ => Token::Literal(character),
        };
        tokens.push(token);
    }
    tokens
}

/// The set after a `[`, and the number of characters it takes; `None` if no `]` closes it.
fn set(rest: &[char], escape: Option<char>, collation: Collation) -> Option<(Token, usize)> {
    let positive = rest.first() != Some(&'^');
    let mut at = usize::from(!positive);
    let start = at;
    let mut ranges = Vec::new();
    let next = |at: &mut usize| -> Option<char> {
        let mut character = *rest.get(*at)?;
        if Some(character) == escape && *at + 1 < rest.len() {
            *at += 1;
            character = rest[*at];
        }
        *at += 1;
        Some(character)
    };
    loop {
        if rest.get(at) == Some(&']') && at > start {
            return Some((Token::Set(CharacterSet::new(ranges, positive, collation)), at + 1));
        }
        let low = next(&mut at)?;
        if rest.get(at) == Some(&'-') && rest.get(at + 1).is_some_and(|end| *end != ']') {
            at += 1;
            let high = next(&mut at)?;
            ranges.push((low, high));
        } else {
            ranges.push((low, low));
        }
    }
}

/// The escape character of `ESCAPE`.
///
/// # Errors
/// 506: it is not one character.
pub fn escape_character(text: &str) -> Result<char, SqlError> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(errors::INVALID_ESCAPE.with([&text])),
    }
}

fn texts(column: &Column) -> Result<&StringViewArray, SqlError> {
    column.array().as_string_view_opt().ok_or_else(|| SqlError::internal("LIKE over what is not text"))
}

/// `text LIKE pattern [ESCAPE escape]`, all in the text carrier. NULL if any of the three is NULL.
///
/// # Errors
/// 506 if the escape is not one character; the statement was cancelled; 701.
pub fn like(
    text: &Column,
    pattern: &Column,
    escape: Option<&Column>,
    collation: Collation,
    rows: usize,
) -> Result<BooleanArray, SqlError> {
    let (values, patterns) = (texts(text)?, texts(pattern)?);
    let escapes = escape.map(texts).transpose()?;
    let is_constant = pattern.is_scalar() && escape.is_none_or(Column::is_scalar);
    let mut compiled: Option<Pattern> = None;
    let mut meter = Meter::new();
    // A constant pattern is compiled for the first row that needs it: a wrong escape is no error if there is none.
    if is_constant && escape.is_none() && !pattern.is_null(0) && rows > 0 {
        let ready = Pattern::new(patterns.value(0), None, collation);
        if !matches!(ready.shape, Shape::Parts | Shape::General)
            && let Some(ascii) = AsciiTexts::of_rows(text, rows)
            && let Some(matches) = ready.matches_ascii(&ascii, &mut meter)?
        {
            return Ok(BooleanArray::new(matches, ascii.nulls().cloned()));
        }
        compiled = Some(ready);
    }
    let mut builder = BooleanBuilder::with_capacity(rows);
    for row in 0..rows {
        let no_escape = escape.is_some_and(|escape| escape.is_null(row));
        if text.is_null(row) || pattern.is_null(row) || no_escape {
            builder.append_null();
            continue;
        }
        let ready = match compiled.take() {
            Some(ready) if is_constant => ready,
            _ => {
                let escape = escapes.zip(escape).map(|(array, column)| escape_character(array.value(column.row(row))));
                Pattern::new(patterns.value(pattern.row(row)), escape.transpose()?, collation)
            }
        };
        builder.append_value(ready.matches(values.value(text.row(row)), &mut meter)?);
        compiled = Some(ready);
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::number;

    fn all_of(text: &str, pattern: &Pattern) -> bool {
        pattern.matches(text, &mut Meter::new()).expect("nobody cancels")
    }

    fn matches(text: &str, pattern: &str) -> bool {
        all_of(text, &Pattern::new(pattern, None, Collation::default()))
    }

    #[test]
    fn patterns_say_what_texts_begin_with() {
        use PatternRest::{AnyText, More, Nothing};
        let of = |pattern| Pattern::new(pattern, Some('!'), Collation::default()).prefix();
        for (pattern, prefix, rest) in [
            ("Smith", "Smith", Nothing),
            ("Sm%", "Sm", AnyText),
            ("Sm%%", "Sm", AnyText),
            ("5!%%", "5%", AnyText),
            ("é_", "é", More),
            ("S[mn]%", "S", More),
            ("%x", "", More),
            ("%", "", AnyText),
            ("", "", Nothing),
        ] {
            assert_eq!(of(pattern), (prefix.to_owned(), rest), "{pattern}");
        }
    }

    #[test]
    fn patterns_match_as_documented() {
        for (text, pattern) in [
            ("Smith", "sm%"),
            ("Smith", "%ITH"),
            ("Smith  ", "%ith"),
            ("Smith", "%mi%"),
            ("Smith", "smith"),
            ("Smith", "S_ith"),
            ("Carson", "[CK]ars[eo]n"),
            ("Larsen", "%[a-z]en"),
            ("5%", "5[%]"),
            ("_n", "[_]n"),
            ("abcd", "a%c_"),
            ("", "%"),
            ("a]b", "a]b"),
            ("[", "[[]"),
            ("ÉTÉ", "été"),
            ("xay", "x[^b-z]y"),
            ("a ", "a"),
            ("a   ", "a%[^b]"),
            ("a   ", "a "),
            ("b  ", "% "),
            ("xéy", "%[a-f]y"),
            ("aXbXc", "a%x%C"),
            ("special packages requests", "%Special%requests%"),
            ("SPECIALrequests", "%special%Requests%"),
            ("a b a c", "%a%a%"),
        ] {
            assert!(matches(text, pattern), "{text:?} LIKE {pattern:?}");
        }
        for (text, pattern) in [
            ("Smith", "sm"),
            ("Smith", "_mit"),
            ("mab", "m[^a]%"),
            ("abc", "a%d"),
            ("a", "a "),
            ("", "_"),
            ("abc", "[abc"),
            ("requests special", "%special%requests%"),
            ("aba", "%ab%ba%"),
            ("", "%a%b%"),
        ] {
            assert!(!matches(text, pattern), "{text:?} NOT LIKE {pattern:?}");
        }
        assert!(!all_of("Smith", &Pattern::new("sm%", None, Collation::Latin1GeneralBin2)));
        assert!(all_of("10% off", &Pattern::new("10!%%", Some('!'), Collation::default())));
        assert!(!all_of("100 off", &Pattern::new("10!%%", Some('!'), Collation::default())));
    }

    #[test]
    fn a_pattern_of_many_wildcards_ends() {
        let text = "a".repeat(20_000);
        assert!(!matches(&text, &format!("{}b", "%a".repeat(200))));
        assert!(!matches(&format!("{}b", " ".repeat(1_000_000)), "%ab"));
    }

    #[test]
    fn a_match_that_takes_long_can_be_cancelled() {
        let statement = crate::watch::tests::Limited::new(1 << 30);
        statement.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        let _guard = crate::watch::set_watch(Some(statement));
        let text = "a".repeat(100_000);
        for pattern in ["%aaaaaaaaaaaaaaaaaaaaaab%", "%[a]aaaaaaaaaaaaaaaaaaaaaaab%"] {
            let pattern = Pattern::new(pattern, None, Collation::default());
            let error = pattern.matches(&text, &mut Meter::new()).expect_err("cancelled");
            assert_eq!(error.number, number::CANCELED);
        }
    }

    #[test]
    fn a_match_is_found_at_its_first_character() {
        let find = |text: &str, pattern: &str| {
            Pattern::new(pattern, None, Collation::default()).find(text, &mut Meter::new()).expect("nobody cancels")
        };
        assert_eq!(find("interesting data", "%ter%"), 3);
        assert_eq!(find("abc", "%[0-9]%"), 0);
        assert_eq!(find("abc", "a%"), 1);
        assert_eq!(find("abc", "b%"), 0);
        assert_eq!(find("abc", "%c"), 3);
        assert_eq!(find("abab", "%ab"), 3);
        assert_eq!(find("xa1ya2b", "%a_%b%"), 2);
        assert_eq!(find("xa1ya2b", "%a_b"), 5);
        assert_eq!(find("é-aé😀9", "%😀[0-9]%"), 5);
        assert_eq!(find("abc", "%b%d%"), 0);
        assert_eq!(find("abc", "%"), 1);
        let long = "ab ".repeat(300_000);
        assert_eq!(find(&long, "%[a-z]%[0-9]%[a-z]%"), 0);
        assert_eq!(find(&format!("{long}z9 y"), "%z%[0-9]%y%"), 900_001);
    }
}
