//! The constants in a text, and the text without them.

use crate::lexer::{Lexer, TokenKind, string_value};

/// The text constants in a piece of T-SQL, each once, in order of appearance, up to the first error.
pub fn text_constants(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    each_token(text, |kind, token| {
        if matches!(kind, TokenKind::String | TokenKind::NationalString) {
            let quoted = token.strip_prefix(['N', 'n']).unwrap_or(token);
            let value = string_value(quoted);
            if !found.contains(&value) {
                found.push(value);
            }
        }
    });
    found
}

/// A piece of T-SQL in lower case, with `?` for each constant and single blanks between words. Texts that differ only
/// in constants, blanks, comments and letter case become equal.
pub fn without_constants(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    each_token(text, |kind, token| {
        if !plain.is_empty() {
            plain.push(' ');
        }
        match kind {
            TokenKind::String
            | TokenKind::NationalString
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Float
            | TokenKind::Money
            | TokenKind::Binary => plain.push('?'),
            _ => plain.extend(token.chars().flat_map(char::to_lowercase)),
        }
    });
    plain
}

fn each_token(text: &str, mut take: impl FnMut(TokenKind, &str)) {
    let mut lexer = Lexer::new(text, true);
    while let Ok(token) = lexer.next_token() {
        if token.kind == TokenKind::End {
            break;
        }
        take(token.kind, &text[token.start as usize..token.end as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_by_constants_are_equal_without_them() {
        let first = without_constants("SELECT a FROM t WHERE b = 'x''y' AND c > 12.5 -- one");
        assert_eq!(first, without_constants("select a\n from T where b=N'' and c>7"));
        assert_ne!(first, without_constants("SELECT a FROM t WHERE b = 'x'"));
    }

    #[test]
    fn text_constants_are_found_outside_of_comments() {
        assert_eq!(text_constants("SELECT 'a', N'it''s' /* 'no' */ , 'a' -- 'no'"), ["a", "it's"]);
        assert_eq!(text_constants("SELECT 'a', 'never ends"), ["a"]);
    }
}
