//! The constants in a text, and the text without them.

use std::borrow::Cow;

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
/// in constants, blanks, comments and letter case become equal; [`parameterized`] changes nothing about it.
pub fn without_constants(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    each_token(text, |kind, token| {
        if !plain.is_empty() {
            plain.push(' ');
        }
        match parameter_type(kind, token) {
            Some(_) => plain.push('?'),
            None if kind == TokenKind::Variable && is_parameter(token) => plain.push('?'),
            None => plain.extend(token.chars().flat_map(char::to_lowercase)),
        }
    });
    plain
}

/// A statement with parameters in place of its constants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameterized {
    /// `(@1 int,@2 varchar(8000))SELECT … @1 … @2`.
    pub text: String,
    /// Where the statement begins in it, in bytes.
    pub start: usize,
}

/// A statement with `@1`, `@2` … for its constants, and their types before it, as SQL Server shows a parameterised
/// statement (Microsoft: "Query Processing Architecture Guide", forced parameterization). `None` if it has no
/// constants, or variables. Constants of `TOP`, `ORDER BY`, hints and `OPTION` stay: another one makes another
/// statement.
pub fn parameterized(statement: &str) -> Option<Parameterized> {
    let (mut types, mut body, mut end) = (String::new(), String::with_capacity(statement.len()), 0);
    let (mut number, mut has_variables, mut stays) = (0, false, Stays::No);
    let mut lexer = Lexer::new(statement, true);
    while let Ok(token) = lexer.next_token() {
        if token.kind == TokenKind::End {
            break;
        }
        has_variables |= token.kind == TokenKind::Variable;
        let (from, to) = (token.start as usize, token.end as usize);
        stays = stays.after(&statement[from..to]);
        if let Some(name) = parameter_type(token.kind, &statement[from..to]) {
            if stays != Stays::No {
                stays = if stays == Stays::One { Stays::No } else { stays };
                continue;
            }
            number += 1;
            types.push_str(if number == 1 { "(" } else { "," });
            types.push_str(&format!("@{number} {name}"));
            body.push_str(&statement[end..from]);
            body.push_str(&format!("@{number}"));
            end = to;
        }
    }
    if number == 0 || has_variables {
        return None;
    }
    types.push(')');
    body.push_str(&statement[end..]);
    Some(Parameterized { start: types.len(), text: types + &body })
}

/// Which constants stay where they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    No,
    /// The next one.
    One,
    /// All up to the end of a list: a closing parenthesis, a semicolon, or what follows `ORDER BY`.
    List,
    /// All that follow.
    Rest,
}

impl Stays {
    fn after(self, token: &str) -> Stays {
        match (self, token.to_ascii_uppercase().as_str()) {
            (Stays::Rest, _) | (_, "OPTION") => Stays::Rest,
            (_, "ORDER" | "WITH") => Stays::List,
            (_, "TOP") => Stays::One,
            (Stays::List, ")" | ";" | "OFFSET" | "UNION" | "EXCEPT" | "INTERSECT" | "SELECT" | "AS") => Stays::No,
            (stays, _) => stays,
        }
    }
}

/// Whether a variable has the name of a parameter of [`parameterized`].
fn is_parameter(variable: &str) -> bool {
    variable.strip_prefix('@').is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The type of the parameter that stands for a constant. `None` for any other token.
fn parameter_type(kind: TokenKind, token: &str) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(match kind {
        TokenKind::Integer if token.parse::<i32>().is_ok() => "int",
        TokenKind::Integer => "numeric(38,0)",
        TokenKind::Decimal => {
            let scale = token.rsplit_once('.').map_or(0, |(_, digits)| digits.len());
            return Some(Cow::Owned(format!("numeric(38,{scale})")));
        }
        TokenKind::Float => "float",
        TokenKind::Money => "money",
        TokenKind::String => "varchar(8000)",
        TokenKind::NationalString => "nvarchar(4000)",
        TokenKind::Binary => "varbinary(8000)",
        _ => return None,
    }))
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
    fn constants_become_parameters_with_types() {
        let of = |text| parameterized(text).map(|it| it.text);
        let shown = "(@1 int,@2 varchar(8000),@3 numeric(38,2))SELECT a FROM t WHERE b=@1 AND c IN (@2, -@3)";
        assert_eq!(of("SELECT a FROM t WHERE b=5 AND c IN ('it''s', -1.25)").as_deref(), Some(shown));
        let one = parameterized("DELETE t WHERE a = 9000000000").expect("a constant");
        assert_eq!(one.text, "(@1 numeric(38,0))DELETE t WHERE a = @1");
        assert_eq!(&one.text[one.start..], "DELETE t WHERE a = @1");
        assert_eq!((of("SELECT a FROM t"), of("SELECT @a + 1")), (None, None));
        assert_eq!(of("SELECT TOP (5) a FROM t WITH (INDEX(2)) ORDER BY 2 OPTION (MAXDOP 1)"), None);
        let shown = "(@1 int,@2 int)SELECT TOP 5 a FROM (SELECT b, ROW_NUMBER() OVER (ORDER BY 7) + @1 c FROM t) x WHERE c=@2 ORDER BY 1";
        let text = "SELECT TOP 5 a FROM (SELECT b, ROW_NUMBER() OVER (ORDER BY 7) + 3 c FROM t) x WHERE c=9 ORDER BY 1";
        assert_eq!(of(text).as_deref(), Some(shown));
    }

    #[test]
    fn parameters_leave_a_text_without_constants_as_it_is() {
        let text = "SELECT a, 0x1F FROM t WHERE b = 1e3 AND d = $5 AND e = N'x'";
        let one = parameterized(text).expect("constants");
        assert_eq!(without_constants(text), without_constants(&one.text[one.start..]));
    }

    #[test]
    fn text_constants_are_found_outside_of_comments() {
        assert_eq!(text_constants("SELECT 'a', N'it''s' /* 'no' */ , 'a' -- 'no'"), ["a", "it's"]);
        assert_eq!(text_constants("SELECT 'a', 'never ends"), ["a"]);
    }
}
