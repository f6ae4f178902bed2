//! Lists of options: `NAME = value`, `NAME value`, `NAME`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// `(option, …)`.
    pub(super) fn option_list(&mut self) -> Result<Vec<OptionItem>> {
        self.nested(|p| p.parenthesized_list(Parser::option_item))
    }

    /// `WITH (option, …)`; empty if absent.
    pub(super) fn with_option_list(&mut self) -> Result<Vec<OptionItem>> {
        if self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            self.advance();
            return self.option_list();
        }
        Ok(Vec::new())
    }

    /// `WITH option, …`, with parentheses or without; empty if absent.
    pub(super) fn with_options(&mut self) -> Result<Vec<OptionItem>> {
        if !self.eat(Keyword::WITH) {
            return Ok(Vec::new());
        }
        if self.at_mark(Mark::Open) { self.option_list() } else { self.comma_list(Parser::option_item) }
    }

    /// One option.
    pub(super) fn option_item(&mut self) -> Result<OptionItem> {
        let mark = self.mark();
        let mut name = self.option_word()?;
        loop {
            let value = match self.current.kind {
                TokenKind::Mark(Mark::Equal) => {
                    self.advance();
                    self.option_value()?
                }
                TokenKind::Keyword(Keyword::ON) if !self.next_is_word("PARTITIONS") => {
                    self.advance();
                    // `AUTO_CREATE_STATISTICS ON (INCREMENTAL = ON)`: the list implies that it is on.
                    if self.at_mark(Mark::Open) { OptionValue::List(self.option_list()?) } else { OptionValue::On }
                }
                TokenKind::Keyword(Keyword::OFF) => {
                    self.advance();
                    OptionValue::Off
                }
                TokenKind::Integer | TokenKind::Decimal | TokenKind::Float => self.option_value()?,
                TokenKind::Word => {
                    name.push(' ');
                    name.push_str(&self.option_word()?);
                    continue;
                }
                // `READ_COMMITTED …`, `RECOVERY FULL`: reserved words that are part of an option.
                TokenKind::Keyword(Keyword::FULL | Keyword::ALL) => {
                    name.push(' ');
                    name.push_str(&self.option_word()?);
                    continue;
                }
                TokenKind::Mark(Mark::Open) => OptionValue::List(self.option_list()?),
                _ => OptionValue::Absent,
            };
            let partitions = if self.at(Keyword::ON) && self.next_is_word("PARTITIONS") {
                self.advance();
                self.advance();
                self.partition_ranges()?
            } else {
                Vec::new()
            };
            return Ok(OptionItem { name, value, partitions, span: self.span(mark) });
        }
    }

    /// One word of an option's name, reserved or not, in upper case.
    fn option_word(&mut self) -> Result<String> {
        if !matches!(self.current.kind, TokenKind::Word | TokenKind::Keyword(_)) {
            return Err(self.unexpected());
        }
        let word = self.current_text().to_ascii_uppercase();
        self.advance();
        Ok(word)
    }

    fn option_value(&mut self) -> Result<OptionValue> {
        match self.current.kind {
            TokenKind::Keyword(Keyword::ON) => {
                self.advance();
                // `QUERY_STORE = ON (…)`: the list implies that it is on.
                if self.at_mark(Mark::Open) { Ok(OptionValue::List(self.option_list()?)) } else { Ok(OptionValue::On) }
            }
            TokenKind::Keyword(Keyword::OFF) => {
                self.advance();
                Ok(OptionValue::Off)
            }
            TokenKind::Mark(Mark::Open) => Ok(OptionValue::List(self.option_list()?)),
            TokenKind::Word | TokenKind::Quoted => Ok(OptionValue::Word(self.take_identifier())),
            TokenKind::Keyword(keyword) if keyword != Keyword::NULL => Ok(OptionValue::Word(self.take_identifier())),
            _ => {
                let negative = self.at_mark(Mark::Minus);
                let amount = if negative {
                    Literal::Integer(self.integer()?)
                } else {
                    match self.literal()? {
                        Some(Expression::Literal { value, .. }) => value,
                        _ => return Err(self.unexpected()),
                    }
                };
                Ok(self.quantity(amount))
            }
        }
    }

    /// `amount` with the unit after it, if there is one.
    fn quantity(&mut self, amount: Literal) -> OptionValue {
        const UNITS: &[&str] =
            &["ROWS", "SECONDS", "MINUTES", "HOURS", "DAYS", "DAY", "HOUR", "MINUTE", "MONTHS", "KB", "MB", "GB", "TB"];
        if self.eat(Keyword::PERCENT) || self.eat_mark(Mark::Percent) {
            return OptionValue::Quantity { amount, unit: "PERCENT".into() };
        }
        let word = self.current_text();
        if self.current.kind == TokenKind::Word && UNITS.iter().any(|unit| unit.eq_ignore_ascii_case(word)) {
            self.advance();
            return OptionValue::Quantity { amount, unit: word.to_ascii_uppercase() };
        }
        OptionValue::Literal(amount)
    }

    /// `(1, 3 TO 5)`.
    pub(super) fn partition_ranges(&mut self) -> Result<Vec<PartitionRange>> {
        self.parenthesized_list(|p| {
            let first = p.expression()?;
            let last = if p.eat(Keyword::TO) { Some(p.expression()?) } else { None };
            Ok(PartitionRange { first, last })
        })
    }
}
