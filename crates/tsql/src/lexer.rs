//! The lexer: splits a batch's text into tokens, one at a time, with line and column.
//!
//! A token has a kind and its bytes. The functions below compute the value of the bytes (unquoted text, decoded digits)
//! when the parser needs it. The lexer is a small `Copy` value, so looking further ahead means running a copy. Nothing
//! is allocated per token.
//!
//! Not here: which words have a meaning in which context (the parser), and `GO` (the client, see
//! [`crate::split_batches`]).

use hobt_base::{Position, SqlError, errors, is_currency_sign};

use crate::keyword::{self, Keyword};

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    /// A reserved word.
    Keyword(Keyword),
    /// An unquoted identifier.
    Word,
    /// `[x]` or `"x"`.
    Quoted,
    /// `@x`.
    Variable,
    /// `@@x`.
    Global,
    /// `$x`, where `x` begins with a letter.
    Dollar,
    /// Digits.
    Integer,
    /// Digits with a point.
    Decimal,
    /// Digits with an exponent.
    Float,
    /// A currency sign, with or without digits.
    Money,
    /// `'x'`, or `"x"` if quotes are not for identifiers.
    String,
    /// `N'x'`.
    NationalString,
    /// `0x…`.
    Binary,
    /// An operator or punctuation mark.
    Mark(Mark),
    /// A character that begins no token.
    Unknown,
    /// The end of the text.
    End,
}

/// An operator or punctuation mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Ampersand,
    Bar,
    Caret,
    Tilde,
    Equal,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    NotEqual,
    Exclamation,
    PlusEqual,
    MinusEqual,
    StarEqual,
    SlashEqual,
    PercentEqual,
    AmpersandEqual,
    BarEqual,
    CaretEqual,
    Open,
    Close,
    Comma,
    Semicolon,
    Dot,
    Colon,
    DoubleColon,
}

/// A token: its kind, its bytes, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) position: Position,
}

/// A position in a text from which tokens are read.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    /// The next byte to read; always the start of a character.
    at: usize,
    position: Position,
    /// Whether `"x"` is an identifier rather than a string.
    quoted_identifier: bool,
}

/// The maximum length of an identifier in characters.
const IDENTIFIER_LENGTH_MAX: usize = 128;

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`, which must be shorter than 4 GiB; [`crate::parse_batch`] checks that.
    pub(crate) fn new(text: &'a str, quoted_identifier: bool) -> Lexer<'a> {
        Lexer { text, at: 0, position: Position::default(), quoted_identifier }
    }

    fn peek(&self) -> Option<char> {
        let byte = *self.text.as_bytes().get(self.at)?;
        if byte < 0x80 { Some(byte as char) } else { self.text[self.at..].chars().next() }
    }

    /// The byte at offset `ahead` from the next one; 0 after the end of the text, a byte that no token contains.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Moves past one character, counting lines and columns.
    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.position = Position { line: self.position.line + 1, column: 1 };
        } else {
            self.position.column += 1;
        }
        Some(c)
    }

    /// Moves past `count` ASCII characters that are not line ends.
    fn skip(&mut self, count: usize) {
        self.at += count;
        self.position.column += count as u32;
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.bump();
        }
    }

    /// The next token.
    ///
    /// # Errors
    /// 105 for an unterminated string or quoted identifier, 113 for an unterminated comment, 103 for an identifier over
    /// 128 characters, each at its start.
    pub(crate) fn next_token(&mut self) -> Result<Token, SqlError> {
        self.skip_blanks()?;
        let (start, position) = (self.at, self.position);
        let kind = match self.peek() {
            None => TokenKind::End,
            Some(c) => self.token(c, start, position)?,
        };
        let length = |lexer: &Lexer<'_>| lexer.text[start..lexer.at].chars().count();
        if matches!(kind, TokenKind::Word | TokenKind::Variable)
            && self.at - start > IDENTIFIER_LENGTH_MAX
            && length(self) > IDENTIFIER_LENGTH_MAX
        {
            return Err(too_long(&self.text[start..self.at]).at(position));
        }
        Ok(Token { kind, start: start as u32, end: self.at as u32, position })
    }

    fn token(&mut self, c: char, start: usize, position: Position) -> Result<TokenKind, SqlError> {
        Ok(match c {
            'N' | 'n' if self.byte(1) == b'\'' => {
                self.skip(1);
                self.quoted('\'', position)?;
                TokenKind::NationalString
            }
            '\'' => {
                self.quoted('\'', position)?;
                TokenKind::String
            }
            '[' => {
                self.quoted(']', position)?;
                TokenKind::Quoted
            }
            '"' => {
                self.quoted('"', position)?;
                if self.quoted_identifier { TokenKind::Quoted } else { TokenKind::String }
            }
            '0' if matches!(self.byte(1), b'x' | b'X') => {
                self.skip(2);
                self.skip_while(|c| c.is_ascii_hexdigit());
                TokenKind::Binary
            }
            '0'..='9' => self.number(),
            '.' if self.byte(1).is_ascii_digit() => self.number(),
            '@' => {
                let global = self.byte(1) == b'@';
                self.skip_while(is_word_character);
                if global { TokenKind::Global } else { TokenKind::Variable }
            }
            c if is_currency_sign(c) => self.currency(c),
            c if is_word_start(c) => {
                self.skip_while(is_word_character);
                match keyword::lookup(&self.text[start..self.at]) {
                    Some(keyword) => TokenKind::Keyword(keyword),
                    None => TokenKind::Word,
                }
            }
            _ => self.mark(c),
        })
    }

    /// Skips blanks and comments; block comments nest.
    fn skip_blanks(&mut self) -> Result<(), SqlError> {
        loop {
            match self.peek() {
                Some(c) if is_blank(c) => {
                    self.bump();
                }
                Some('-') if self.byte(1) == b'-' => self.skip_while(|c| c != '\n'),
                Some('/') if self.byte(1) == b'*' => self.block_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn block_comment(&mut self) -> Result<(), SqlError> {
        let position = self.position;
        let mut depth = 0usize;
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.skip(2);
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.skip(2);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {
                    if self.bump().is_none() {
                        let error = errors::UNCLOSED_COMMENT.error();
                        return Err(error.at(position));
                    }
                }
            }
        }
    }

    /// Moves past the opening quote, the quoted text, and the `closing` quote. A doubled quote does not close.
    fn quoted(&mut self, closing: char, position: Position) -> Result<(), SqlError> {
        self.bump();
        let content = self.at;
        loop {
            match self.bump() {
                None => return Err(unclosed(&self.text[content..]).at(position)),
                Some(c) if c == closing => {
                    if self.peek() != Some(closing) {
                        break;
                    }
                    self.bump();
                }
                Some(_) => {}
            }
        }
        let value = &self.text[content..self.at - 1];
        // A string may have any length; only names are limited.
        let is_name = closing == ']' || (closing == '"' && self.quoted_identifier);
        if is_name && value.len() > IDENTIFIER_LENGTH_MAX {
            let doubled = value.matches(closing).count() / 2;
            if value.chars().count() - doubled > IDENTIFIER_LENGTH_MAX {
                return Err(too_long(value).at(position));
            }
        }
        Ok(())
    }

    fn number(&mut self) -> TokenKind {
        let mut kind = TokenKind::Integer;
        self.skip_while(|c| c.is_ascii_digit());
        if self.byte(0) == b'.' {
            kind = TokenKind::Decimal;
            self.skip(1);
            self.skip_while(|c| c.is_ascii_digit());
        }
        if matches!(self.byte(0), b'e' | b'E') {
            // T-SQL reads `1e` as `1e0`; digits and sign of the exponent are optional.
            kind = TokenKind::Float;
            self.skip(1);
            if matches!(self.byte(0), b'+' | b'-') {
                self.skip(1);
            }
            self.skip_while(|c| c.is_ascii_digit());
        }
        kind
    }

    fn currency(&mut self, sign: char) -> TokenKind {
        self.bump();
        if sign == '$' && self.peek().is_some_and(|c| c.is_alphabetic() || c == '_') {
            self.skip_while(is_word_character);
            return TokenKind::Dollar;
        }
        self.skip_while(|c| c.is_ascii_digit());
        if self.byte(0) == b'.' {
            self.skip(1);
            self.skip_while(|c| c.is_ascii_digit());
        }
        TokenKind::Money
    }

    fn mark(&mut self, c: char) -> TokenKind {
        let assigns = self.byte(1) == b'=';
        let (mark, length) = match (c, self.byte(1)) {
            ('+', _) if assigns => (Mark::PlusEqual, 2),
            ('-', _) if assigns => (Mark::MinusEqual, 2),
            ('*', _) if assigns => (Mark::StarEqual, 2),
            ('/', _) if assigns => (Mark::SlashEqual, 2),
            ('%', _) if assigns => (Mark::PercentEqual, 2),
            ('&', _) if assigns => (Mark::AmpersandEqual, 2),
            ('|', _) if assigns => (Mark::BarEqual, 2),
            ('^', _) if assigns => (Mark::CaretEqual, 2),
            ('<', b'=') | ('!', b'>') => (Mark::LessOrEqual, 2),
            ('>', b'=') | ('!', b'<') => (Mark::GreaterOrEqual, 2),
            ('<', b'>') | ('!', b'=') => (Mark::NotEqual, 2),
            (':', b':') => (Mark::DoubleColon, 2),
            ('+', _) => (Mark::Plus, 1),
            ('-', _) => (Mark::Minus, 1),
            ('*', _) => (Mark::Star, 1),
            ('/', _) => (Mark::Slash, 1),
            ('%', _) => (Mark::Percent, 1),
            ('&', _) => (Mark::Ampersand, 1),
            ('|', _) => (Mark::Bar, 1),
            ('^', _) => (Mark::Caret, 1),
            ('~', _) => (Mark::Tilde, 1),
            ('=', _) => (Mark::Equal, 1),
            ('<', _) => (Mark::Less, 1),
            ('>', _) => (Mark::Greater, 1),
            ('!', _) => (Mark::Exclamation, 1),
            ('(', _) => (Mark::Open, 1),
            (')', _) => (Mark::Close, 1),
            (',', _) => (Mark::Comma, 1),
            (';', _) => (Mark::Semicolon, 1),
            ('.', _) => (Mark::Dot, 1),
            (':', _) => (Mark::Colon, 1),
            _ => {
                self.bump();
                return TokenKind::Unknown;
            }
        };
        self.skip(length);
        TokenKind::Mark(mark)
    }
}

fn is_blank(c: char) -> bool {
    c <= ' ' || c == '\u{feff}' || (!c.is_ascii() && c.is_whitespace())
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '#' || (!c.is_ascii() && c.is_alphabetic())
}

pub(crate) fn is_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '#' | '@' | '$') || (!c.is_ascii() && c.is_alphanumeric())
}

fn unclosed(content: &str) -> SqlError {
    let shown: String = content.chars().take(IDENTIFIER_LENGTH_MAX).collect();
    errors::UNCLOSED_QUOTE.with([&shown])
}

fn too_long(name: &str) -> SqlError {
    let shown: String = name.chars().take(IDENTIFIER_LENGTH_MAX).collect();
    errors::IDENTIFIER_TOO_LONG.with([&shown, &128])
}

/// The value of a quoted token (`[x]`, `"x"`, `'x'`): without its quotes, doubled closing quotes reduced to one.
pub(crate) fn unquote(text: &str) -> String {
    let Some(opening) = text.chars().next() else { return String::new() };
    let closing = if opening == '[' { ']' } else { opening };
    let content = &text[1..text.len() - 1];
    let (double, single) = match closing {
        ']' => ("]]", "]"),
        '"' => ("\"\"", "\""),
        _ => ("''", "'"),
    };
    content.replace(double, single)
}

/// The value of a string token: unquoted, without backslashes at line ends and those line ends.
pub(crate) fn string_value(text: &str) -> String {
    let value = unquote(text);
    if !value.contains("\\\n") && !value.contains("\\\r\n") {
        return value;
    }
    let mut joined = String::with_capacity(value.len());
    let mut rest = value.as_str();
    while let Some(at) = rest.find('\\') {
        joined.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        rest = match behind.strip_prefix("\r\n").or_else(|| behind.strip_prefix('\n')) {
            Some(next_line) => next_line,
            None => {
                joined.push('\\');
                behind
            }
        };
    }
    joined.push_str(rest);
    joined
}

/// The bytes of a `0x…` token; a zero is added in front of an odd number of digits.
pub(crate) fn binary_value(text: &str) -> Box<[u8]> {
    let digits = &text.as_bytes()[2..];
    let nibble = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    odd.iter().map(|&d| nibble(d)).chain(pairs.chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))).collect()
}
