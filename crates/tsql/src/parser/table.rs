//! Tables: `CREATE TABLE`, `ALTER TABLE`, columns and constraints.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// Parses from `TABLE`.
    pub(super) fn create_table(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let definition = self.table_definition()?;
        let mut table = CreateTable { name, definition, storage: None, text_storage: None, options: Vec::new() };
        loop {
            if self.at(Keyword::ON) && table.storage.is_none() {
                table.storage = self.optional_storage()?;
            } else if table.text_storage.is_none() && self.eat_word("TEXTIMAGE_ON") {
                table.text_storage = Some(self.identifier_or_string()?);
            } else if table.options.is_empty() && self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
                table.options = self.with_option_list()?;
            } else {
                return Ok(StatementKind::CreateTable(Box::new(table)));
            }
        }
    }

    /// `ON name`, `ON scheme(column)`.
    pub(super) fn optional_storage(&mut self) -> Result<Option<Storage>> {
        if !self.eat(Keyword::ON) {
            return Ok(None);
        }
        let name = self.identifier_or_string()?;
        let column = if self.eat_mark(Mark::Open) {
            let column = self.identifier()?;
            self.expect_mark(Mark::Close)?;
            Some(column)
        } else {
            None
        };
        Ok(Some(Storage { name, column }))
    }

    /// `(columns, constraints)`.
    pub(super) fn table_definition(&mut self) -> Result<TableDefinition> {
        self.expect_mark(Mark::Open)?;
        let mut definition = TableDefinition { columns: Vec::new(), constraints: Vec::new(), indexes: Vec::new() };
        loop {
            if self.constraint_begins() {
                let constraint = self.constraint(true)?;
                definition.constraints.push(constraint);
            } else if self.at(Keyword::INDEX) {
                definition.indexes.push(self.table_index(true)?);
            } else {
                definition.columns.push(self.column_definition()?);
            }
            // A comma is allowed before the closing parenthesis.
            if !self.eat_mark(Mark::Comma) || self.at_mark(Mark::Close) {
                break;
            }
        }
        if definition.columns.is_empty() {
            return Err(self.unexpected());
        }
        self.expect_mark(Mark::Close)?;
        Ok(definition)
    }

    fn constraint_begins(&self) -> bool {
        matches!(
            self.current.kind,
            TokenKind::Keyword(
                Keyword::CONSTRAINT
                    | Keyword::PRIMARY
                    | Keyword::UNIQUE
                    | Keyword::CHECK
                    | Keyword::FOREIGN
                    | Keyword::REFERENCES
                    | Keyword::DEFAULT
            )
        )
    }

    pub(super) fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.identifier()?;
        let kind = if self.eat(Keyword::AS) {
            let value = self.expression()?;
            let persisted = self.eat_word("PERSISTED");
            ColumnKind::Computed { value, persisted }
        } else {
            ColumnKind::Typed(self.data_type()?)
        };
        let mut column = ColumnDefinition {
            name,
            kind,
            collation: None,
            nullable: None,
            identity: None,
            rowguidcol: false,
            sparse: false,
            constraints: Vec::new(),
            indexes: Vec::new(),
        };
        while self.column_property(&mut column)? {}
        Ok(column)
    }

    /// One property after a column's type; false if there is none.
    fn column_property(&mut self, column: &mut ColumnDefinition) -> Result<bool> {
        match self.current.kind {
            TokenKind::Keyword(Keyword::NULL) => {
                self.advance();
                column.nullable = Some(true);
            }
            TokenKind::Keyword(Keyword::NOT) => {
                self.advance();
                self.expect(Keyword::NULL)?;
                column.nullable = Some(false);
            }
            TokenKind::Keyword(Keyword::COLLATE) => {
                self.advance();
                column.collation = Some(self.identifier()?);
            }
            TokenKind::Keyword(Keyword::ROWGUIDCOL) => {
                self.advance();
                column.rowguidcol = true;
            }
            TokenKind::Word if self.at_word("SPARSE") => {
                self.advance();
                column.sparse = true;
            }
            TokenKind::Keyword(Keyword::IDENTITY) => column.identity = Some(self.identity()?),
            TokenKind::Keyword(Keyword::INDEX) => column.indexes.push(self.table_index(false)?),
            _ if self.constraint_begins() => {
                let constraint = self.constraint(false)?;
                column.constraints.push(constraint);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn identity(&mut self) -> Result<IdentityDefinition> {
        self.advance();
        let mut seed_increment = None;
        if self.eat_mark(Mark::Open) {
            let seed = self.constant()?;
            self.expect_mark(Mark::Comma)?;
            let increment = self.constant()?;
            self.expect_mark(Mark::Close)?;
            seed_increment = Some((seed, increment));
        }
        Ok(IdentityDefinition { seed_increment, not_for_replication: self.not_for_replication()? })
    }

    fn not_for_replication(&mut self) -> Result<bool> {
        if !self.at(Keyword::NOT) || !self.next_is(Keyword::FOR) {
            return Ok(false);
        }
        self.advance();
        self.advance();
        self.expect(Keyword::REPLICATION)?;
        Ok(true)
    }

    /// A constraint on a table (`table`) or on a column.
    fn constraint(&mut self, table: bool) -> Result<Constraint> {
        let mark = self.mark();
        let name = if self.eat(Keyword::CONSTRAINT) { Some(self.identifier()?) } else { None };
        let kind = match self.current.kind {
            TokenKind::Keyword(Keyword::DEFAULT) => self.default_constraint(table)?,
            TokenKind::Keyword(Keyword::PRIMARY | Keyword::UNIQUE) => self.key_constraint(table)?,
            TokenKind::Keyword(Keyword::CHECK) => {
                self.advance();
                let not_for_replication = self.not_for_replication()?;
                self.expect_mark(Mark::Open)?;
                let condition = self.condition()?;
                self.expect_mark(Mark::Close)?;
                ConstraintKind::Check { condition, not_for_replication }
            }
            TokenKind::Keyword(Keyword::FOREIGN | Keyword::REFERENCES) => self.foreign_key(table)?,
            _ => return Err(self.unexpected()),
        };
        Ok(Constraint { name, kind, span: self.span(mark) })
    }

    fn default_constraint(&mut self, table: bool) -> Result<ConstraintKind> {
        self.advance();
        let value = self.expression()?;
        let column = if table {
            self.expect(Keyword::FOR)?;
            Some(self.identifier()?)
        } else {
            None
        };
        let with_values = self.at(Keyword::WITH) && self.next_is(Keyword::VALUES);
        if with_values {
            self.advance();
            self.advance();
        }
        Ok(ConstraintKind::Default { value, column, with_values })
    }

    fn key_constraint(&mut self, table: bool) -> Result<ConstraintKind> {
        let primary = self.eat(Keyword::PRIMARY);
        if primary {
            self.expect(Keyword::KEY)?;
        } else {
            self.expect(Keyword::UNIQUE)?;
        }
        let clustered = self.optional_clustered();
        let columns = if table || self.at_mark(Mark::Open) { self.index_columns()? } else { Vec::new() };
        let mut options = self.with_option_list()?;
        if self.at(Keyword::WITH) && self.next_is(Keyword::FILLFACTOR) {
            self.advance();
            options.push(self.option_item()?);
        }
        let storage = self.optional_storage()?;
        Ok(ConstraintKind::Key { primary, clustered, columns, options, storage })
    }

    /// Parses from `INDEX`: an index on a table (`table`) or on a column.
    fn table_index(&mut self, table: bool) -> Result<TableIndex> {
        self.advance();
        let name = self.identifier()?;
        let unique = self.eat(Keyword::UNIQUE);
        let clustered = self.optional_clustered();
        let columnstore = self.eat_word("COLUMNSTORE");
        let has_columns = (table && !columnstore) || self.at_mark(Mark::Open);
        let columns = if has_columns { self.index_columns()? } else { Vec::new() };
        let include = if self.eat_word("INCLUDE") { self.identifier_list()? } else { Vec::new() };
        let condition = self.optional_condition(Keyword::WHERE)?;
        let options = self.with_option_list()?;
        let storage = self.optional_storage()?;
        Ok(TableIndex { name, unique, clustered, columnstore, columns, include, condition, options, storage })
    }

    /// `CLUSTERED` (true) or `NONCLUSTERED` (false).
    pub(super) fn optional_clustered(&mut self) -> Option<bool> {
        if self.eat(Keyword::CLUSTERED) {
            return Some(true);
        }
        self.eat(Keyword::NONCLUSTERED).then_some(false)
    }

    /// `(column [ASC | DESC], …)`.
    pub(super) fn index_columns(&mut self) -> Result<Vec<IndexColumn>> {
        self.parenthesized_list(|p| {
            let name = p.identifier()?;
            let descending = p.eat(Keyword::DESC);
            if !descending {
                p.eat(Keyword::ASC);
            }
            Ok(IndexColumn { name, descending })
        })
    }

    fn foreign_key(&mut self, table: bool) -> Result<ConstraintKind> {
        let mut columns = Vec::new();
        if self.eat(Keyword::FOREIGN) {
            self.expect(Keyword::KEY)?;
            // A table constraint may follow a column without a comma.
            if table || self.at_mark(Mark::Open) {
                columns = self.identifier_list()?;
            }
        }
        self.expect(Keyword::REFERENCES)?;
        let target = self.object_name()?;
        let referenced = if self.at_mark(Mark::Open) { self.identifier_list()? } else { Vec::new() };
        let (mut on_delete, mut on_update) = (None, None);
        while self.at(Keyword::ON) && (self.next_is(Keyword::DELETE) || self.next_is(Keyword::UPDATE)) {
            self.advance();
            let delete = self.eat(Keyword::DELETE);
            if !delete {
                self.advance();
            }
            let action = Some(self.referential_action()?);
            if delete {
                on_delete = action;
            } else {
                on_update = action;
            }
        }
        let not_for_replication = self.not_for_replication()?;
        Ok(ConstraintKind::ForeignKey { columns, table: target, referenced, on_delete, on_update, not_for_replication })
    }

    fn referential_action(&mut self) -> Result<ReferentialAction> {
        if self.eat(Keyword::CASCADE) {
            return Ok(ReferentialAction::Cascade);
        }
        if self.eat(Keyword::SET) {
            if self.eat(Keyword::NULL) {
                return Ok(ReferentialAction::SetNull);
            }
            self.expect(Keyword::DEFAULT)?;
            return Ok(ReferentialAction::SetDefault);
        }
        self.expect_word("NO")?;
        self.expect_word("ACTION")?;
        Ok(ReferentialAction::NoAction)
    }

    /// Parses from `TABLE`.
    pub(super) fn alter_table(&mut self) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let action = self.alter_table_action()?;
        Ok(StatementKind::AlterTable(Box::new(AlterTable { name, action })))
    }

    fn alter_table_action(&mut self) -> Result<AlterTableAction> {
        let mut check = None;
        if self.eat(Keyword::WITH) {
            check = Some(self.eat(Keyword::CHECK));
            if check == Some(false) {
                self.expect(Keyword::NOCHECK)?;
            }
        }
        match self.current.kind {
            TokenKind::Keyword(Keyword::ADD) => self.alter_table_add(check),
            TokenKind::Keyword(Keyword::CHECK | Keyword::NOCHECK) => {
                let enable = self.at(Keyword::CHECK);
                self.advance();
                self.expect(Keyword::CONSTRAINT)?;
                let names = if self.eat(Keyword::ALL) { Vec::new() } else { self.comma_list(Parser::identifier)? };
                Ok(AlterTableAction::EnableConstraints { check, enable, names })
            }
            _ if check.is_some() => Err(self.unexpected()),
            TokenKind::Keyword(Keyword::ALTER) => self.alter_column(),
            TokenKind::Keyword(Keyword::DROP) => {
                self.advance();
                Ok(AlterTableAction::Drop { items: self.alter_table_drops()? })
            }
            TokenKind::Keyword(Keyword::SET) => {
                self.advance();
                Ok(AlterTableAction::Set { options: self.option_list()? })
            }
            TokenKind::Word if self.at_word("REBUILD") => {
                self.advance();
                let partition = self.partition_selector()?;
                Ok(AlterTableAction::Rebuild { partition, options: self.with_option_list()? })
            }
            TokenKind::Word if self.at_word("SWITCH") => self.switch(),
            _ => Err(self.unexpected()),
        }
    }

    fn alter_table_add(&mut self, check: Option<bool>) -> Result<AlterTableAction> {
        self.advance();
        let (mut columns, mut constraints) = (Vec::new(), Vec::new());
        loop {
            if self.constraint_begins() {
                constraints.push(self.constraint(true)?);
            } else {
                self.eat(Keyword::COLUMN);
                columns.push(self.column_definition()?);
            }
            if !self.eat_mark(Mark::Comma) {
                return Ok(AlterTableAction::Add { check, columns, constraints });
            }
        }
    }

    fn alter_column(&mut self) -> Result<AlterTableAction> {
        self.advance();
        self.expect(Keyword::COLUMN)?;
        let name = self.identifier()?;
        let data_type = self.data_type()?;
        let collation = if self.eat(Keyword::COLLATE) { Some(self.identifier()?) } else { None };
        let nullable = self.nullability()?;
        Ok(AlterTableAction::AlterColumn { name, data_type, collation, nullable })
    }

    /// `NULL` or `NOT NULL` behind a column's type; `None` without either.
    pub(super) fn nullability(&mut self) -> Result<Option<bool>> {
        if self.eat(Keyword::NOT) {
            self.expect(Keyword::NULL)?;
            return Ok(Some(false));
        }
        Ok(self.eat(Keyword::NULL).then_some(true))
    }

    /// The word `COLUMN` or `CONSTRAINT` applies to the names after it, until the other word follows.
    fn alter_table_drops(&mut self) -> Result<Vec<AlterTableDrop>> {
        let (mut columns, mut if_exists) = (false, false);
        self.comma_list(|p| {
            if p.at(Keyword::COLUMN) || p.at(Keyword::CONSTRAINT) {
                columns = p.at(Keyword::COLUMN);
                p.advance();
                if_exists = p.if_exists()?;
            }
            let name = p.identifier()?;
            if columns {
                return Ok(AlterTableDrop::Column { name, if_exists });
            }
            Ok(AlterTableDrop::Constraint { name, if_exists, options: p.with_option_list()? })
        })
    }

    /// `PARTITION = n | ALL`.
    pub(super) fn partition_selector(&mut self) -> Result<Option<PartitionSelector>> {
        if !self.eat_word("PARTITION") {
            return Ok(None);
        }
        self.expect_mark(Mark::Equal)?;
        if self.eat(Keyword::ALL) {
            return Ok(Some(PartitionSelector::All));
        }
        Ok(Some(PartitionSelector::Number(self.expression()?)))
    }

    fn switch(&mut self) -> Result<AlterTableAction> {
        self.advance();
        let source_partition = if self.eat_word("PARTITION") { Some(self.expression()?) } else { None };
        self.expect(Keyword::TO)?;
        let target = self.object_name()?;
        let target_partition = if self.eat_word("PARTITION") { Some(self.expression()?) } else { None };
        let options = self.with_option_list()?;
        Ok(AlterTableAction::Switch { source_partition, target, target_partition, options })
    }
}
