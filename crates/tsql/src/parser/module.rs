//! Views, functions, procedures and schemas.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// Parses from `SCHEMA`.
    pub(super) fn create_schema(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = self.identifier()?;
        let owner = if self.eat(Keyword::AUTHORIZATION) { Some(self.identifier()?) } else { None };
        Ok(StatementKind::CreateSchema { name, owner })
    }

    /// `WITH SCHEMABINDING, …` before `AS` or `RETURN`.
    fn module_options(&mut self) -> Result<Vec<OptionItem>> {
        if !self.eat(Keyword::WITH) {
            return Ok(Vec::new());
        }
        self.comma_list(|p| {
            let mark = p.mark();
            let mut name = String::new();
            let mut value = OptionValue::Absent;
            while matches!(p.current.kind, TokenKind::Word | TokenKind::Keyword(_)) && !p.at(Keyword::AS)
                || name.starts_with("EXEC") && !name.contains(' ')
            {
                if !name.is_empty() {
                    name.push(' ');
                }
                name.push_str(&p.current_text().to_ascii_uppercase());
                p.advance();
                if name.starts_with("EXEC") && p.eat(Keyword::AS) {
                    name = "EXECUTE AS".into();
                    value = OptionValue::Word(p.identifier_or_string()?);
                    break;
                }
            }
            if name.is_empty() {
                return Err(p.unexpected());
            }
            Ok(OptionItem { name, value, partitions: Vec::new(), span: p.span(mark) })
        })
    }

    /// Parses from `VIEW`.
    pub(super) fn create_view(&mut self, mode: CreateMode) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let columns = if self.at_mark(Mark::Open) { self.identifier_list()? } else { Vec::new() };
        let options = self.module_options()?;
        self.expect(Keyword::AS)?;
        let query = self.query_with_ctes()?;
        let check_option = self.at(Keyword::WITH) && self.next_is(Keyword::CHECK);
        if check_option {
            self.advance();
            self.advance();
            self.expect(Keyword::OPTION)?;
        }
        Ok(StatementKind::CreateView(Box::new(CreateView { mode, name, columns, options, query, check_option })))
    }

    fn parameter(&mut self) -> Result<Parameter> {
        let name = self.variable()?;
        self.eat(Keyword::AS);
        let data_type = self.data_type()?;
        // NULL and NOT NULL after a type matter only to natively compiled modules.
        if self.at(Keyword::NULL) {
            self.advance();
        }
        let default = if self.eat_mark(Mark::Equal) { Some(self.constant_or_word()?) } else { None };
        let output = self.eat_word("OUTPUT") || self.eat_word("OUT");
        let readonly = self.eat_word("READONLY");
        Ok(Parameter { name, data_type, default, output, readonly })
    }

    /// Parses from `FUNCTION`.
    pub(super) fn create_function(&mut self, mode: CreateMode) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        self.expect_mark(Mark::Open)?;
        let parameters = if self.at_mark(Mark::Close) { Vec::new() } else { self.comma_list(Parser::parameter)? };
        self.expect_mark(Mark::Close)?;
        self.expect_word("RETURNS")?;
        let (options, body) = if self.current.kind == TokenKind::Variable {
            let variable = self.variable()?;
            self.expect(Keyword::TABLE)?;
            let definition = self.table_definition()?;
            let options = self.module_options()?;
            let statements = self.function_block()?;
            (options, FunctionBody::MultiStatement { variable, definition, statements })
        } else if self.eat(Keyword::TABLE) {
            let options = self.module_options()?;
            self.eat(Keyword::AS);
            (options, FunctionBody::Inline { query: self.inline_query()? })
        } else {
            let data_type = self.data_type()?;
            let options = self.module_options()?;
            let statements = self.function_block()?;
            (options, FunctionBody::Scalar { data_type, statements })
        };
        Ok(StatementKind::CreateFunction(Box::new(CreateFunction { mode, name, parameters, options, body })))
    }

    /// `RETURN query`, with or without parentheses around the query.
    fn inline_query(&mut self) -> Result<Box<Query>> {
        self.expect(Keyword::RETURN)?;
        let wraps_with = self.at_mark(Mark::Open) && self.next_is(Keyword::WITH);
        let wraps_query = self.at_mark(Mark::Open) && self.next_is(Keyword::SELECT) && self.nothing_behind();
        if wraps_with || wraps_query {
            self.advance();
            let query = self.query_with_ctes()?;
            self.expect_mark(Mark::Close)?;
            return Ok(Box::new(query));
        }
        Ok(Box::new(self.query_with_ctes()?))
    }

    /// Whether the parenthesis at the current token contains the whole query.
    fn nothing_behind(&self) -> bool {
        !matches!(
            self.behind_parenthesis(),
            Some(TokenKind::Keyword(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::ORDER))
        )
    }

    /// `[AS] BEGIN … END`.
    fn function_block(&mut self) -> Result<Vec<Statement>> {
        self.eat(Keyword::AS);
        self.expect(Keyword::BEGIN)?;
        let statements = self.statements_to_end()?;
        self.expect(Keyword::END)?;
        Ok(statements)
    }

    /// Parses from `PROCEDURE`.
    pub(super) fn create_procedure(&mut self, mode: CreateMode) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let parenthesized = self.eat_mark(Mark::Open);
        let parameters =
            if self.current.kind == TokenKind::Variable { self.comma_list(Parser::parameter)? } else { Vec::new() };
        if parenthesized {
            self.expect_mark(Mark::Close)?;
        }
        let options = self.module_options()?;
        self.expect(Keyword::AS)?;
        let mut statements = Vec::new();
        self.skip_semicolons();
        // The body may be empty: scripts create such procedures and alter them later.
        while self.current.kind != TokenKind::End {
            statements.push(self.statement()?);
            self.end_statement()?;
        }
        Ok(StatementKind::CreateProcedure(Box::new(CreateProcedure { mode, name, parameters, options, statements })))
    }
}
