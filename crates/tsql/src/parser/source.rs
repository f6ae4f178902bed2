//! The sources after `FROM`: tables, functions, derived tables, and joins of them.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// The entries after `FROM`.
    pub(super) fn table_sources(&mut self) -> Result<Vec<TableSource>> {
        self.comma_list(Parser::table_source)
    }

    /// One entry with its joins.
    pub(super) fn table_source(&mut self) -> Result<TableSource> {
        let first = self.table_primary()?;
        self.joins(first)
    }

    fn joins(&mut self, first: TableSource) -> Result<TableSource> {
        let mut rest = Vec::new();
        while let Some(step) = self.join_step()? {
            rest.push(step);
        }
        Ok(if rest.is_empty() { first } else { TableSource::Joined { first: Box::new(first), rest } })
    }

    fn join_step(&mut self) -> Result<Option<JoinStep>> {
        let mark = self.mark();
        let Some((kind, hint)) = self.join_words()? else { return Ok(None) };
        let span = self.span(mark);
        let source = self.table_primary()?;
        if matches!(kind, JoinKind::Cross | JoinKind::CrossApply | JoinKind::OuterApply) {
            return Ok(Some(JoinStep { kind, hint, source, on: None, span }));
        }
        // `a JOIN b JOIN c ON … ON …`: joins before `ON` belong to the right side.
        let source = if self.at(Keyword::ON) { source } else { self.nested(|p| p.joins(source))? };
        self.expect(Keyword::ON)?;
        let on = Some(self.condition()?);
        Ok(Some(JoinStep { kind, hint, source, on, span }))
    }

    /// Takes the words of a join at the current token, if there are any.
    fn join_words(&mut self) -> Result<Option<(JoinKind, Option<JoinHint>)>> {
        let kind = match self.current.kind {
            TokenKind::Keyword(Keyword::JOIN) => {
                self.advance();
                return Ok(Some((JoinKind::Inner, None)));
            }
            TokenKind::Keyword(Keyword::CROSS) => {
                self.advance();
                if self.eat_word("APPLY") {
                    return Ok(Some((JoinKind::CrossApply, None)));
                }
                self.expect(Keyword::JOIN)?;
                return Ok(Some((JoinKind::Cross, None)));
            }
            TokenKind::Keyword(Keyword::OUTER) => {
                self.advance();
                self.expect_word("APPLY")?;
                return Ok(Some((JoinKind::OuterApply, None)));
            }
            TokenKind::Keyword(Keyword::INNER) => JoinKind::Inner,
            TokenKind::Keyword(Keyword::LEFT) => JoinKind::Left,
            TokenKind::Keyword(Keyword::RIGHT) => JoinKind::Right,
            TokenKind::Keyword(Keyword::FULL) => JoinKind::Full,
            _ => return Ok(None),
        };
        self.advance();
        if kind != JoinKind::Inner {
            self.eat(Keyword::OUTER);
        }
        let hint = if self.at(Keyword::JOIN) { None } else { Some(self.join_hint()?) };
        self.expect(Keyword::JOIN)?;
        Ok(Some((kind, hint)))
    }

    fn join_hint(&mut self) -> Result<JoinHint> {
        if self.eat(Keyword::MERGE) {
            return Ok(JoinHint::Merge);
        }
        for (word, hint) in [("HASH", JoinHint::Hash), ("LOOP", JoinHint::Loop), ("REMOTE", JoinHint::Remote)] {
            if self.eat_word(word) {
                return Ok(hint);
            }
        }
        Err(self.unexpected())
    }

    fn table_primary(&mut self) -> Result<TableSource> {
        let mark = self.mark();
        match self.current.kind {
            TokenKind::Mark(Mark::Open) => self.nested(|p| p.parenthesized_source()),
            TokenKind::Keyword(Keyword::OPENROWSET) => self.file_source(),
            TokenKind::Variable => {
                let name = self.table_variable()?;
                let alias = self.table_alias(false)?;
                Ok(TableSource::Variable { name, alias })
            }
            _ => {
                let name = self.object_name()?;
                if self.at_mark(Mark::Open) && !self.hints_ahead() {
                    self.advance();
                    let arguments = if self.at_mark(Mark::Close) {
                        Vec::new()
                    } else {
                        self.nested(|p| p.comma_list(Parser::expression_or_default))?
                    };
                    self.expect_mark(Mark::Close)?;
                    let alias = self.table_alias(true)?;
                    return Ok(TableSource::Function { name, arguments, alias, span: self.span(mark) });
                }
                self.named_table(name, mark)
            }
        }
    }

    fn named_table(&mut self, name: ObjectName, mark: super::Start) -> Result<TableSource> {
        let mut hints = Vec::new();
        // The old order `t (NOLOCK) a` is allowed besides `t a (NOLOCK)` and `t a WITH (NOLOCK)`.
        if self.hints_ahead() {
            hints = self.table_hint_list()?;
        }
        let alias = self.plain_alias()?;
        let sample = if self.at(Keyword::TABLESAMPLE) { Some(self.table_sample()?) } else { None };
        if self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            self.advance();
            hints.extend(self.table_hint_list()?);
        } else if hints.is_empty() && self.hints_ahead() {
            hints = self.table_hint_list()?;
        }
        let span = self.span(mark);
        Ok(TableSource::Table(Box::new(NamedTable { name, alias, sample, hints, span })))
    }

    fn table_sample(&mut self) -> Result<TableSample> {
        self.advance();
        self.eat_word("SYSTEM");
        self.expect_mark(Mark::Open)?;
        let amount = self.expression()?;
        let rows = self.eat_word("ROWS");
        if !rows {
            self.eat(Keyword::PERCENT);
        }
        self.expect_mark(Mark::Close)?;
        let repeatable = if self.eat_word("REPEATABLE") {
            self.expect_mark(Mark::Open)?;
            let seed = self.expression()?;
            self.expect_mark(Mark::Close)?;
            Some(seed)
        } else {
            None
        };
        Ok(TableSample { amount, rows, repeatable })
    }

    /// `[AS] alias`.
    pub(super) fn plain_alias(&mut self) -> Result<Option<Identifier>> {
        if self.eat(Keyword::AS) {
            return Ok(Some(self.identifier()?));
        }
        Ok(self.at_alias().then(|| self.take_identifier()))
    }

    /// Whether the current token is an identifier that is not a label (`SELECT 1 done: SELECT 2`) and not a `WINDOW`
    /// clause.
    pub(super) fn at_alias(&self) -> bool {
        self.at_identifier() && !self.next_is_mark(Mark::Colon) && !self.at_window_clause()
    }

    /// `[AS] alias [(columns)]`; columns are allowed only if `columns` is set.
    pub(super) fn table_alias(&mut self, columns: bool) -> Result<Option<TableAlias>> {
        let Some(name) = self.plain_alias()? else { return Ok(None) };
        let columns = if columns && self.at_mark(Mark::Open) { self.identifier_list()? } else { Vec::new() };
        Ok(Some(TableAlias { name, columns }))
    }

    fn required_alias(&mut self) -> Result<TableAlias> {
        match self.table_alias(true)? {
            Some(alias) => Ok(alias),
            None => Err(self.unexpected()),
        }
    }

    fn parenthesized_source(&mut self) -> Result<TableSource> {
        let mark = self.mark();
        if self.next_is(Keyword::VALUES) {
            self.advance();
            self.advance();
            let rows = self.value_rows()?;
            self.expect_mark(Mark::Close)?;
            let alias = self.required_alias()?;
            return Ok(TableSource::Values { rows, alias, span: self.span(mark) });
        }
        if self.query_ahead(true) {
            let query = self.subquery()?;
            let alias = self.required_alias()?;
            return Ok(TableSource::Derived { query, alias, span: self.span(mark) });
        }
        self.advance();
        let source = self.table_source()?;
        self.expect_mark(Mark::Close)?;
        Ok(source)
    }

    /// `(x, …), (y, …)`, the rows after `VALUES`.
    pub(super) fn value_rows(&mut self) -> Result<Vec<Vec<Expression>>> {
        self.comma_list(|p| p.parenthesized_list(Parser::expression_or_default))
    }
}
