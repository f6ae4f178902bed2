//! Indexes and statistics.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};
use hobt_base::errors;

impl Parser<'_> {
    /// Parses from `UNIQUE`, `CLUSTERED`, `NONCLUSTERED`, `COLUMNSTORE` or `INDEX`.
    pub(super) fn create_index(&mut self) -> Result<StatementKind> {
        let unique = self.eat(Keyword::UNIQUE);
        let clustered = self.optional_clustered();
        let columnstore = self.eat_word("COLUMNSTORE");
        self.expect(Keyword::INDEX)?;
        let name = self.identifier()?;
        self.expect(Keyword::ON)?;
        let table = self.object_name()?;
        let columns = if columnstore && !self.at_mark(Mark::Open) { Vec::new() } else { self.index_columns()? };
        let include = if self.eat_word("INCLUDE") { self.identifier_list()? } else { Vec::new() };
        let condition = self.optional_condition(Keyword::WHERE)?;
        let options = if self.at(Keyword::WITH) { self.with_options()? } else { Vec::new() };
        let storage = self.optional_storage()?;
        Ok(StatementKind::CreateIndex(Box::new(CreateIndex {
            name,
            unique,
            clustered,
            columnstore,
            table,
            columns,
            include,
            condition,
            options,
            storage,
        })))
    }

    /// Parses from `INDEX`.
    pub(super) fn alter_index(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = if self.eat(Keyword::ALL) { None } else { Some(self.identifier()?) };
        self.expect(Keyword::ON)?;
        let table = self.object_name()?;
        let action = if self.eat_word("REBUILD") {
            let partition = self.partition_selector()?;
            AlterIndexAction::Rebuild { partition, options: self.with_option_list()? }
        } else if self.eat_word("REORGANIZE") {
            let partition = self.partition_selector()?;
            AlterIndexAction::Reorganize { partition, options: self.with_option_list()? }
        } else if self.eat_word("DISABLE") {
            AlterIndexAction::Disable
        } else {
            self.expect(Keyword::SET)?;
            AlterIndexAction::Set { options: self.option_list()? }
        };
        Ok(StatementKind::AlterIndex(Box::new(AlterIndex { name, table, action })))
    }

    /// Parses from `INDEX`.
    pub(super) fn drop_index(&mut self) -> Result<StatementKind> {
        self.advance();
        let if_exists = self.if_exists()?;
        let indexes = self.comma_list(|p| {
            let mut parts = p.name_parts()?;
            let (name, table) = if parts.len() == 1 && p.eat(Keyword::ON) {
                let Some(name) = parts.pop().flatten() else { return Err(p.unexpected()) };
                (name, p.object_name()?)
            } else {
                // The old syntax `table.index`.
                if parts.len() < 2 {
                    return Err(errors::INDEX_NEEDS_TABLE.error().at(p.current.position));
                }
                let Some(name) = parts.pop().flatten() else { return Err(p.unexpected()) };
                (name, p.object_name_of(parts)?)
            };
            Ok(DroppedIndex { name, table, options: p.with_option_list()? })
        })?;
        Ok(StatementKind::DropIndex(Box::new(DropIndex { if_exists, indexes })))
    }

    /// Parses from `STATISTICS`.
    pub(super) fn create_statistics(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = self.identifier()?;
        self.expect(Keyword::ON)?;
        let table = self.object_name()?;
        let columns = self.identifier_list()?;
        let condition = self.optional_condition(Keyword::WHERE)?;
        let options = self.with_options()?;
        let statistics = CreateStatistics { name, table, columns, condition, options };
        Ok(StatementKind::CreateStatistics(Box::new(statistics)))
    }

    pub(super) fn update_statistics(&mut self) -> Result<StatementKind> {
        self.advance();
        self.advance();
        let table = self.object_name()?;
        let targets = match self.current.kind {
            TokenKind::Mark(Mark::Open) => self.identifier_list()?,
            TokenKind::Word | TokenKind::Quoted if !self.next_is_mark(Mark::Colon) => vec![self.take_identifier()],
            _ => Vec::new(),
        };
        let options = self.with_options()?;
        Ok(StatementKind::UpdateStatistics(Box::new(UpdateStatistics { table, targets, options })))
    }
}
