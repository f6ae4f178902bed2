//! `LIKE` under a collation, and the patterns of `PATINDEX`.
//!
//! `%` any text, `_` one character, `[a-f]` one of a set, `[^a-f]` one not of it. A constant pattern is compiled once;
//! `'abc'`, `'abc%'`, `'%abc'` and `'%abc%'` over ASCII compare bytes with case removed, the rest is matched by
//! backtracking to the last `%` alone, so that no pattern takes more than pattern × text steps.

use std::cmp::Ordering;

use arrow::array::{AsArray, BooleanArray, BooleanBuilder, StringViewArray};
use hobt_base::{SqlError, number};
use hobt_types::Collation;

use crate::column::Column;

/// One place of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    Literal(char),
    AnyText,
    AnyOne,
    /// Ranges with their ends; whether a character in one of them matches.
    Set(Vec<(char, char)>, bool),
}

/// The shapes that need no matcher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    Exact,
    Prefix,
    Suffix,
    Contains,
    General,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    tokens: Vec<Token>,
    collation: Collation,
    shape: Shape,
    /// The bytes of the four simple shapes, in lower case where case does not count.
    bytes: Vec<u8>,
}

impl Pattern {
    /// Compiles `pattern`; the character after `escape` stands for itself.
    pub fn new(pattern: &str, escape: Option<char>, collation: Collation) -> Pattern {
        let tokens = tokens(pattern, escape);
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
        let bytes = bytes.unwrap_or_default().into_iter().map(fold).collect();
        Pattern { tokens, collation, shape, bytes }
    }

    /// Whether the whole of `text` matches. Spaces at the end of the text need not be in the pattern.
    pub fn matches(&self, text: &str) -> bool {
        if self.shape != Shape::General && text.is_ascii() {
            return self.matches_bytes(text.as_bytes());
        }
        let characters: Vec<char> = text.chars().collect();
        let trimmed = text.trim_end_matches(' ').chars().count();
        self.matches_from(&characters, trimmed)
    }

    fn same(&self, text: &[u8]) -> bool {
        if self.collation.ignores_case() { self.bytes.eq_ignore_ascii_case(text) } else { self.bytes == text }
    }

    fn matches_bytes(&self, text: &[u8]) -> bool {
        let length = self.bytes.len();
        match self.shape {
            Shape::Prefix => text.get(..length).is_some_and(|head| self.same(head)),
            Shape::Contains => {
                let Some(first) = self.bytes.first() else { return true };
                let starts = |byte: &u8| byte.eq_ignore_ascii_case(first);
                text.windows(length).any(|window| starts(&window[0]) && self.same(window))
            }
            // Spaces at the text's end may stay over, or be what the pattern ends with.
            Shape::Suffix => (0..=text.len())
                .rev()
                .take_while(|end| text[*end..].iter().all(|b| *b == b' '))
                .any(|end| end.checked_sub(length).is_some_and(|start| self.same(&text[start..end]))),
            _ => text.get(..length).is_some_and(|head| self.same(head)) && text[length..].iter().all(|b| *b == b' '),
        }
    }

    fn one(&self, token: &Token, character: char) -> bool {
        match token {
            Token::Literal(literal) => equal(*literal, character, self.collation),
            Token::AnyOne => true,
            Token::Set(ranges, positive) => {
                let inside = |(low, high): &(char, char)| {
                    equal(*low, character, self.collation)
                        || compare(character, *low, self.collation) != Ordering::Less
                            && compare(character, *high, self.collation) != Ordering::Greater
                };
                ranges.iter().any(inside) == *positive
            }
            Token::AnyText => false,
        }
    }

    /// Matches all tokens against `text`; the match may end anywhere from `may_end` on.
    fn matches_from(&self, text: &[char], may_end: usize) -> bool {
        let (mut token, mut at) = (0, 0);
        // The place to try again from: the token after the last `%`, and where its text began.
        let mut again: Option<(usize, usize)> = None;
        loop {
            match self.tokens.get(token) {
                Some(Token::AnyText) => {
                    again = Some((token + 1, at));
                    token += 1;
                    continue;
                }
                Some(other) if at < text.len() && self.one(other, text[at]) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                None if at >= may_end => return true,
                _ => {}
            }
            match again {
                Some((after, start)) if start < text.len() => {
                    again = Some((after, start + 1));
                    token = after;
                    at = start + 1;
                }
                _ => return false,
            }
        }
    }

    /// The first character (from 1) of the first match of a `PATINDEX` pattern, 0 for none. A leading `%` lets the
    /// match begin anywhere, a trailing one lets it end anywhere.
    pub fn find(&self, text: &str) -> usize {
        let characters: Vec<char> = text.chars().collect();
        let floating = self.tokens.first() == Some(&Token::AnyText);
        let rest = Pattern {
            tokens: self.tokens[usize::from(floating)..].to_vec(),
            collation: self.collation,
            shape: Shape::General,
            bytes: Vec::new(),
        };
        let last = if floating { characters.len() } else { 0 };
        (0..=last)
            .find(|start| rest.matches_from(&characters[*start..], characters.len() - start))
            .map_or(0, |start| characters[..start].iter().map(|c| c.len_utf16()).sum::<usize>() + 1)
    }
}

fn equal(left: char, right: char, collation: Collation) -> bool {
    left == right || collation.ignores_case() && compare(left, right, collation) == Ordering::Equal
}

fn compare(left: char, right: char, collation: Collation) -> Ordering {
    let (mut left_bytes, mut right_bytes) = ([0; 4], [0; 4]);
    // A space would be trimmed by a comparison of texts.
    match (left, right) {
        (' ', ' ') => Ordering::Equal,
        (' ', _) => Ordering::Less,
        (_, ' ') => Ordering::Greater,
        _ => collation.compare(left.encode_utf8(&mut left_bytes), right.encode_utf8(&mut right_bytes)),
    }
}

fn tokens(pattern: &str, escape: Option<char>) -> Vec<Token> {
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
            '[' => match set(&characters[at..], escape) {
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

/// The set after a `[`, with the characters that it takes; `None` when no `]` closes it.
fn set(rest: &[char], escape: Option<char>) -> Option<(Token, usize)> {
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
            return Some((Token::Set(ranges, positive), at + 1));
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

fn escape_character(text: &str) -> Result<char, SqlError> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(SqlError::new(
            number::INVALID_ESCAPE,
            format!("The invalid escape character \"{text}\" was specified in a LIKE predicate."),
        )),
    }
}

fn texts(column: &Column) -> Result<&StringViewArray, SqlError> {
    column.array().as_string_view_opt().ok_or_else(|| SqlError::internal("LIKE over what is not text"))
}

/// `text LIKE pattern [ESCAPE escape]`; all in the text carrier. NULL where any of the three is NULL.
///
/// # Errors
/// 506 when the escape is not one character.
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
        builder.append_value(ready.matches(values.value(text.row(row))));
        compiled = Some(ready);
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(text: &str, pattern: &str) -> bool {
        Pattern::new(pattern, None, Collation::default()).matches(text)
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
        ] {
            assert!(!matches(text, pattern), "{text:?} NOT LIKE {pattern:?}");
        }
        assert!(!Pattern::new("sm%", None, Collation::Latin1GeneralBin2).matches("Smith"));
        assert!(Pattern::new("10!%%", Some('!'), Collation::default()).matches("10% off"));
        assert!(!Pattern::new("10!%%", Some('!'), Collation::default()).matches("100 off"));
    }

    #[test]
    fn a_pattern_of_many_wildcards_ends() {
        let text = "a".repeat(20_000);
        assert!(!matches(&text, &format!("{}b", "%a".repeat(200))));
    }

    #[test]
    fn a_match_is_found_at_its_first_character() {
        let find = |text: &str, pattern: &str| Pattern::new(pattern, None, Collation::default()).find(text);
        assert_eq!(find("interesting data", "%ter%"), 3);
        assert_eq!(find("abc", "%[0-9]%"), 0);
        assert_eq!(find("abc", "a%"), 1);
        assert_eq!(find("abc", "b%"), 0);
        assert_eq!(find("abc", "%c"), 3);
    }
}
