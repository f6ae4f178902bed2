//! Files as sources of rows: `OPENROWSET (BULK …)`, `BULK INSERT`, `COPY INTO`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// `OPENROWSET (BULK …)`, from its first word.
    pub(super) fn file_source(&mut self) -> Result<TableSource> {
        let mark = self.mark();
        self.expect(Keyword::OPENROWSET)?;
        self.expect_mark(Mark::Open)?;
        self.expect(Keyword::BULK)?;
        let files = match self.eat_mark(Mark::Open) {
            true => {
                let files = self.comma_list(Parser::file_pattern)?;
                self.expect_mark(Mark::Close)?;
                files
            }
            false => vec![self.file_pattern()?],
        };
        let options = if self.eat_mark(Mark::Comma) { self.comma_list(Parser::file_option)? } else { Vec::new() };
        self.expect_mark(Mark::Close)?;
        let columns = match self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            true => {
                self.advance();
                self.nested(|p| p.parenthesized_list(Parser::file_column))?
            }
            false => Vec::new(),
        };
        let alias = self.table_alias(true)?;
        let span = self.span(mark);
        Ok(TableSource::Files(Box::new(FileSource { files, options, columns, target: None, alias, span })))
    }

    fn file_pattern(&mut self) -> Result<FilePattern> {
        let mark = self.mark();
        let path = self.string()?;
        Ok(FilePattern { path, span: self.span(mark) })
    }

    fn file_option(&mut self) -> Result<FileOption> {
        let mark = self.mark();
        if !self.eat(Keyword::ORDER) {
            return Ok(FileOption::Item(self.option_item()?));
        }
        let columns = self.parenthesized_list(|p| {
            let name = p.identifier()?;
            let descending = p.eat(Keyword::DESC);
            if !descending {
                p.eat(Keyword::ASC);
            }
            Ok(FileOrder { name, descending })
        })?;
        let unique = self.eat(Keyword::UNIQUE);
        Ok(FileOption::Order { columns, unique, span: self.span(mark) })
    }

    /// `name type [COLLATE name] [ordinal | 'path']`.
    fn file_column(&mut self) -> Result<FileSourceColumn> {
        let name = self.identifier()?;
        let data_type = self.data_type()?;
        let collation = if self.eat(Keyword::COLLATE) { Some(self.identifier()?) } else { None };
        let (mut ordinal, mut path) = (None, None);
        match self.current.kind {
            TokenKind::Integer => ordinal = Some(self.integer()?),
            TokenKind::String | TokenKind::NationalString => path = Some(self.string()?),
            _ => {}
        }
        Ok(FileSourceColumn { name, data_type, collation, ordinal, path, nullable: true })
    }

    /// `BULK INSERT …`.
    pub(super) fn bulk_insert(&mut self) -> Result<StatementKind> {
        self.expect(Keyword::BULK)?;
        self.expect(Keyword::INSERT)?;
        let position = self.current.position;
        let target = self.object_name()?;
        self.expect(Keyword::FROM)?;
        let files = vec![self.file_pattern()?];
        let options = self.file_options()?;
        let (is_copy, columns) = (false, Vec::new());
        Ok(StatementKind::BulkInsert(Box::new(BulkInsert { is_copy, target, columns, files, options, position })))
    }

    /// Whether a `COPY INTO` begins here. `COPY` is no reserved word.
    pub(super) fn at_copy(&self) -> bool {
        self.at_word("COPY") && self.next_is(Keyword::INTO)
    }

    /// `COPY INTO …`.
    pub(super) fn copy_into(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect(Keyword::INTO)?;
        let position = self.current.position;
        let target = self.object_name()?;
        let columns = if self.at_mark(Mark::Open) { self.parenthesized_list(Parser::copy_column)? } else { Vec::new() };
        self.expect(Keyword::FROM)?;
        let files = self.comma_list(Parser::file_pattern)?;
        let options = self.file_options()?;
        let copy = BulkInsert { is_copy: true, target, columns, files, options, position };
        Ok(StatementKind::BulkInsert(Box::new(copy)))
    }

    fn copy_column(&mut self) -> Result<CopyColumn> {
        let name = self.identifier()?;
        let default = if self.eat(Keyword::DEFAULT) { Some(self.constant()?) } else { None };
        let field = if self.current.kind == TokenKind::Integer { Some(self.integer()?) } else { None };
        Ok(CopyColumn { name, default, field })
    }

    fn file_options(&mut self) -> Result<Vec<FileOption>> {
        if self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            self.advance();
            return self.nested(|p| p.parenthesized_list(Parser::file_option));
        }
        Ok(Vec::new())
    }
}
