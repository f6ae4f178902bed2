//! The parser: recursive descent over tokens, with one token of look-ahead, and more by running a copy of the lexer.
//!
//! Nested text nests on the stack here, and each level is counted: more than [`DEPTH_MAX`] levels are error 191.
//! Repetition (operators, joins, set operators, `ELSE IF`) is parsed in loops into flat lists, so its length is limited
//! only by memory. The parser never backtracks: if a parenthesis may contain different things, a scan of tokens decides
//! beforehand.
//!
//! Not here: whether names exist and types fit (the binder).

mod bulk;
mod condition;
mod control;
mod database;
mod dml;
mod execute;
mod expression;
mod external;
mod hint;
mod index;
mod module;
mod option;
mod partition;
mod query;
mod sequence;
mod set;
mod source;
mod statement;
mod table;

pub(crate) use hint::TABLE_HINTS;
pub(crate) use set::{STATISTICS, SWITCHES, VALUES};

use hobt_base::{Position, SqlError, errors};

use crate::ast::{Batch, Expression, Identifier, ObjectName, Span, VariableName};
use crate::keyword::Keyword;
use crate::lexer::{self, Lexer, Mark, Token, TokenKind};

/// The maximum number of nested levels. A build without optimisation parses, prints and drops this many levels of any
/// kind within the usual 2 MiB of a thread's stack, with a quarter to spare; a test checks that.
pub const DEPTH_MAX: usize = 80;

/// The result of parsing.
type Result<T> = std::result::Result<T, SqlError>;

/// Options for parsing a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseOptions {
    /// Whether `"x"` is an identifier (`SET QUOTED_IDENTIFIER ON`) rather than a string. On by default.
    pub quoted_identifier: bool,
}

impl Default for ParseOptions {
    fn default() -> ParseOptions {
        ParseOptions { quoted_identifier: true }
    }
}

/// Parses one batch.
///
/// # Errors
/// The first error in the text, at its position: 102 and 156 (syntax), 105 (unterminated string), 113 (unterminated
/// comment), 103 (identifier too long), 191 (nested too deeply), 319 (`WITH` without a semicolon before it), 321 and
/// 155 (unknown hint or option), 4145 (a value where a condition belongs). At the end of the text the last word is
/// named.
pub fn parse_batch(text: &str) -> Result<Batch> {
    parse_batch_with(text, ParseOptions::default())
}

/// Like [`parse_batch`], with options.
///
/// # Errors
/// As [`parse_batch`].
pub fn parse_batch_with(text: &str, options: ParseOptions) -> Result<Batch> {
    let mut parser = Parser::new(text, options)?;
    let statements = parser.batch()?;
    Ok(Batch { statements })
}

/// Parses one expression and nothing else.
///
/// # Errors
/// As [`parse_batch`].
pub fn parse_expression(text: &str) -> Result<Expression> {
    let mut parser = Parser::new(text, ParseOptions::default())?;
    let expression = parser.expression()?;
    parser.expect_end()?;
    Ok(expression)
}

/// The positions at which a batch uses variables as tables. Ends at the first error.
pub(crate) fn table_variables(text: &str) -> Vec<Position> {
    let Ok(mut parser) = Parser::new(text, ParseOptions::default()) else { return Vec::new() };
    let _tree = parser.batch();
    parser.table_variables
}

/// A text that is being parsed.
struct Parser<'a> {
    text: &'a str,
    /// Reads the token after `next`.
    lexer: Lexer<'a>,
    previous: Token,
    current: Token,
    next: Token,
    /// The lexer's error, raised when the parser reaches its position.
    lexer_error: Option<SqlError>,
    depth: usize,
    /// The nesting depth of subqueries, in which variables are not assigned.
    subqueries: usize,
    /// Where the batch's first statement begins.
    first: u32,
    /// The variables used as tables.
    table_variables: Vec<Position>,
}

/// Where a node begins.
#[derive(Clone, Copy)]
struct Start {
    position: Position,
    start: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, options: ParseOptions) -> Result<Parser<'a>> {
        // Offsets are 32 bits wide; SQL Server accepts no batch over 256 MiB.
        if text.len() >= u32::MAX as usize {
            return Err(errors::NESTED_TOO_DEEPLY.error().at(Position::default()));
        }
        let end = Token { kind: TokenKind::End, start: 0, end: 0, position: Position::default() };
        let lexer = Lexer::new(text, options.quoted_identifier);
        let (previous, current, next) = (end, end, end);
        let mut parser = Parser {
            text,
            lexer,
            previous,
            current,
            next,
            lexer_error: None,
            depth: 0,
            subqueries: 0,
            first: 0,
            table_variables: Vec::new(),
        };
        parser.advance();
        parser.advance();
        parser.previous = parser.current;
        Ok(parser)
    }

    fn advance(&mut self) {
        self.previous = self.current;
        self.current = self.next;
        if self.lexer_error.is_some() {
            return;
        }
        self.next = match self.lexer.next_token() {
            Ok(token) => token,
            Err(error) => {
                let position = error.position.unwrap_or_default();
                self.lexer_error = Some(error);
                let at = self.text.len() as u32;
                Token { kind: TokenKind::End, start: at, end: at, position }
            }
        };
    }

    /// Runs `parse` one nesting level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            return Err(errors::NESTED_TOO_DEEPLY.error().at(self.current.position));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn token_text(&self, token: Token) -> &'a str {
        &self.text[token.start as usize..token.end as usize]
    }

    fn current_text(&self) -> &'a str {
        self.token_text(self.current)
    }

    /// The tokens after the current one, for looking ahead; ends at the end of the text, or at an error in it.
    fn ahead(&self) -> impl Iterator<Item = Token> + use<'a> {
        let mut lexer = self.lexer;
        let rest = std::iter::from_fn(move || lexer.next_token().ok().filter(|token| token.kind != TokenKind::End));
        std::iter::once(self.next).chain(rest)
    }

    fn mark(&self) -> Start {
        Start { position: self.current.position, start: self.current.start }
    }

    /// The span from `mark` to the end of the last token taken.
    fn span(&self, mark: Start) -> Span {
        Span { position: mark.position, start: mark.start, end: self.previous.end.max(mark.start) }
    }

    /// The span of the current token.
    fn current_span(&self) -> Span {
        Span { position: self.current.position, start: self.current.start, end: self.current.end }
    }

    /// The error for the current token: 156 at a reserved word, otherwise 102. At the end of the text the last token is
    /// named.
    fn unexpected(&mut self) -> SqlError {
        if self.current.kind == TokenKind::End {
            if let Some(error) = self.lexer_error.take() {
                return error;
            }
            return self.unexpected_at(self.previous);
        }
        self.unexpected_at(self.current)
    }

    fn unexpected_at(&self, token: Token) -> SqlError {
        let text = self.token_text(token);
        if let TokenKind::Keyword(_) = token.kind {
            return errors::SYNTAX_KEYWORD.with([&text]).at(token.position);
        }
        let value = match token.kind {
            TokenKind::String | TokenKind::Quoted => lexer::unquote(text),
            TokenKind::NationalString => lexer::unquote(&text[1..]),
            _ => text.to_owned(),
        };
        let shown: String = value.chars().take(128).collect();
        errors::SYNTAX.with([&shown]).at(token.position)
    }

    fn expect_end(&mut self) -> Result<()> {
        if self.current.kind != TokenKind::End || self.lexer_error.is_some() {
            return Err(self.unexpected());
        }
        Ok(())
    }

    fn at(&self, keyword: Keyword) -> bool {
        self.current.kind == TokenKind::Keyword(keyword)
    }

    fn next_is(&self, keyword: Keyword) -> bool {
        self.next.kind == TokenKind::Keyword(keyword)
    }

    fn eat(&mut self, keyword: Keyword) -> bool {
        let found = self.at(keyword);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, keyword: Keyword) -> Result<()> {
        if self.eat(keyword) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn at_mark(&self, mark: Mark) -> bool {
        self.current.kind == TokenKind::Mark(mark)
    }

    fn next_is_mark(&self, mark: Mark) -> bool {
        self.next.kind == TokenKind::Mark(mark)
    }

    fn eat_mark(&mut self, mark: Mark) -> bool {
        let found = self.at_mark(mark);
        if found {
            self.advance();
        }
        found
    }

    fn expect_mark(&mut self, mark: Mark) -> Result<()> {
        if self.eat_mark(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn is_word(&self, token: Token, word: &str) -> bool {
        token.kind == TokenKind::Word && self.token_text(token).eq_ignore_ascii_case(word)
    }

    /// Whether the current token is the word `word`, which is not reserved.
    fn at_word(&self, word: &str) -> bool {
        self.is_word(self.current, word)
    }

    fn next_is_word(&self, word: &str) -> bool {
        self.is_word(self.next, word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// `ON` (true) or `OFF` (false).
    fn on_or_off(&mut self) -> Result<bool> {
        if self.eat(Keyword::ON) {
            return Ok(true);
        }
        self.expect(Keyword::OFF)?;
        Ok(false)
    }

    fn at_identifier(&self) -> bool {
        matches!(self.current.kind, TokenKind::Word | TokenKind::Quoted)
    }

    fn identifier(&mut self) -> Result<Identifier> {
        if !self.at_identifier() {
            return Err(self.unexpected());
        }
        Ok(self.take_identifier())
    }

    /// The current token as an identifier: a word or reserved word as written, anything quoted without its quotes.
    fn take_identifier(&mut self) -> Identifier {
        let (text, position) = (self.current_text(), self.current.position);
        let (value, quoted) = match self.current.kind {
            TokenKind::Quoted => (lexer::unquote(text), true),
            TokenKind::String => (lexer::string_value(text), true),
            TokenKind::NationalString => (lexer::string_value(&text[1..]), true),
            _ => (text.to_owned(), false),
        };
        self.advance();
        Identifier { value, quoted, position }
    }

    /// An identifier, or a string in place of one.
    fn identifier_or_string(&mut self) -> Result<Identifier> {
        if matches!(self.current.kind, TokenKind::String | TokenKind::NationalString) {
            return Ok(self.take_identifier());
        }
        self.identifier()
    }

    /// Identifiers in parentheses, at least one.
    fn identifier_list(&mut self) -> Result<Vec<Identifier>> {
        self.parenthesized_list(Parser::identifier)
    }

    /// `(x, y, …)`, at least one.
    fn parenthesized_list<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_mark(Mark::Open)?;
        let items = self.comma_list(item)?;
        self.expect_mark(Mark::Close)?;
        Ok(items)
    }

    /// `x, y, …`, at least one.
    fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_mark(Mark::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn variable(&mut self) -> Result<VariableName> {
        if !matches!(self.current.kind, TokenKind::Variable | TokenKind::Global) {
            return Err(self.unexpected());
        }
        let name = VariableName { value: self.current_text().to_owned(), position: self.current.position };
        self.advance();
        Ok(name)
    }

    /// A variable used as a table.
    fn table_variable(&mut self) -> Result<VariableName> {
        let name = self.variable()?;
        self.table_variables.push(name.position);
        Ok(name)
    }

    /// The parts of a dotted name; a part left empty is `None`. Stops before `.*` and before `.$`.
    fn name_parts(&mut self) -> Result<Vec<Option<Identifier>>> {
        let mut parts = vec![Some(self.identifier()?)];
        while self.at_mark(Mark::Dot) && !self.next_is_mark(Mark::Star) && self.next.kind != TokenKind::Dollar {
            self.advance();
            if self.at_mark(Mark::Dot) {
                parts.push(None);
            } else {
                parts.push(Some(self.identifier()?));
            }
        }
        Ok(parts)
    }

    /// A name of up to four parts. The first ones may be empty with their dots (`..t`).
    fn object_name(&mut self) -> Result<ObjectName> {
        let mut parts = Vec::new();
        while self.eat_mark(Mark::Dot) {
            parts.push(None);
        }
        parts.append(&mut self.name_parts()?);
        self.object_name_of(parts)
    }

    fn object_name_of(&mut self, mut parts: Vec<Option<Identifier>>) -> Result<ObjectName> {
        if parts.len() > 4 {
            return Err(self.unexpected_at(self.previous));
        }
        let Some(name) = parts.pop().flatten() else { return Err(self.unexpected()) };
        let schema = parts.pop().flatten();
        let database = parts.pop().flatten();
        let server = parts.pop().flatten();
        Ok(ObjectName { server, database, schema, name })
    }

    /// A string constant's characters.
    fn string(&mut self) -> Result<String> {
        if !matches!(self.current.kind, TokenKind::String | TokenKind::NationalString) {
            return Err(self.unexpected());
        }
        Ok(self.take_identifier().value)
    }

    /// Digits that fit 63 bits, or such a number with a minus sign.
    fn integer(&mut self) -> Result<i64> {
        let negative = self.eat_mark(Mark::Minus);
        if self.current.kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        let Ok(value) = self.current_text().parse::<i64>() else { return Err(self.unexpected()) };
        self.advance();
        Ok(if negative { -value } else { value })
    }
}
