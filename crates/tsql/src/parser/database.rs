//! Databases: their files, filegroups and options.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// Parses from `DATABASE`.
    pub(super) fn create_database(&mut self) -> Result<StatementKind> {
        self.advance();
        let mut database = CreateDatabase {
            name: self.identifier()?,
            containment: None,
            filegroups: Vec::new(),
            log: Vec::new(),
            collation: None,
            attach: None,
            snapshot_of: None,
            options: Vec::new(),
        };
        if self.eat_word("CONTAINMENT") {
            self.expect_mark(Mark::Equal)?;
            database.containment = Some(self.identifier()?);
        }
        if self.eat(Keyword::ON) {
            database.filegroups = self.filegroup_definitions()?;
        }
        if self.eat_word("LOG") {
            self.expect(Keyword::ON)?;
            database.log = self.comma_list(Parser::file_definition)?;
        }
        if self.eat(Keyword::COLLATE) {
            database.collation = Some(self.identifier()?);
        }
        if self.eat(Keyword::FOR) {
            let rebuild = self.eat_word("ATTACH_REBUILD_LOG");
            if !rebuild {
                self.expect_word("ATTACH")?;
            }
            database.attach = Some(if rebuild { Attach::RebuildLog } else { Attach::WithLog });
        }
        if self.eat(Keyword::AS) {
            self.expect_word("SNAPSHOT")?;
            self.expect(Keyword::OF)?;
            database.snapshot_of = Some(self.identifier()?);
        }
        if self.at(Keyword::WITH) {
            database.options = self.with_options()?;
        }
        Ok(StatementKind::CreateDatabase(Box::new(database)))
    }

    fn filegroup_definitions(&mut self) -> Result<Vec<FilegroupDefinition>> {
        let mut filegroups = Vec::new();
        self.eat(Keyword::PRIMARY);
        loop {
            let mut filegroup = FilegroupDefinition { name: None, default: false, contains: None, files: Vec::new() };
            if self.eat_word("FILEGROUP") {
                filegroup.name = Some(self.identifier()?);
                filegroup.contains = self.optional_contains()?;
                filegroup.default = self.eat(Keyword::DEFAULT);
            }
            loop {
                filegroup.files.push(self.file_definition()?);
                if !self.eat_mark(Mark::Comma) {
                    filegroups.push(filegroup);
                    return Ok(filegroups);
                }
                if self.at_word("FILEGROUP") {
                    filegroups.push(filegroup);
                    break;
                }
            }
        }
    }

    fn optional_contains(&mut self) -> Result<Option<Identifier>> {
        if self.eat(Keyword::CONTAINS) { Ok(Some(self.identifier()?)) } else { Ok(None) }
    }

    /// `(NAME = …, …)`.
    fn file_definition(&mut self) -> Result<FileDefinition> {
        let mark = self.mark();
        let mut file = FileDefinition {
            name: Identifier::new(""),
            new_name: None,
            file_name: None,
            size: None,
            max_size: None,
            growth: None,
            offline: false,
            span: self.current_span(),
        };
        let mut named = false;
        self.parenthesized_list(|p| {
            let word = p.current_text().to_ascii_uppercase();
            if p.current.kind != TokenKind::Word {
                return Err(p.unexpected());
            }
            if p.eat_word("OFFLINE") {
                file.offline = true;
                return Ok(());
            }
            if !p.next_is_mark(Mark::Equal) {
                return Err(p.unexpected());
            }
            let token = p.current;
            p.advance();
            p.advance();
            match word.as_str() {
                "NAME" => {
                    file.name = p.identifier_or_string()?;
                    named = true;
                }
                "NEWNAME" => file.new_name = Some(p.identifier_or_string()?),
                "FILENAME" => file.file_name = Some(p.string()?),
                "SIZE" => file.size = Some(p.file_size(false)?),
                "MAXSIZE" if p.eat_word("UNLIMITED") => file.max_size = Some(MaxSize::Unlimited),
                "MAXSIZE" => file.max_size = Some(MaxSize::Limit(p.file_size(false)?)),
                "FILEGROWTH" => file.growth = Some(p.file_size(true)?),
                _ => return Err(p.unexpected_at(token)),
            }
            Ok(())
        })?;
        // `FOR ATTACH` needs only the path of a file.
        if !named && file.file_name.is_none() {
            return Err(self.unexpected_at(self.previous));
        }
        file.span = self.span(mark);
        Ok(file)
    }

    pub(super) fn file_size(&mut self, percent: bool) -> Result<FileSize> {
        let amount = u64::try_from(self.integer()?).map_err(|_| self.unexpected_at(self.previous))?;
        if percent && self.eat_mark(Mark::Percent) {
            return Ok(FileSize { amount, unit: SizeUnit::Percent });
        }
        let units = [
            ("KB", SizeUnit::Kilobytes),
            ("MB", SizeUnit::Megabytes),
            ("GB", SizeUnit::Gigabytes),
            ("TB", SizeUnit::Terabytes),
        ];
        let unit = units.into_iter().find(|(word, _)| self.at_word(word)).map(|(_, unit)| unit);
        if unit.is_some() {
            self.advance();
        }
        Ok(FileSize { amount, unit: unit.unwrap_or(SizeUnit::Megabytes) })
    }

    /// Parses from `DATABASE`.
    pub(super) fn alter_database(&mut self) -> Result<StatementKind> {
        self.advance();
        if self.at_word("SCOPED") && self.next_is_word("CONFIGURATION") {
            return self.scoped_configuration();
        }
        let name = if self.eat(Keyword::CURRENT) { None } else { Some(self.identifier()?) };
        let action = match self.current.kind {
            TokenKind::Keyword(Keyword::ADD) => self.alter_database_add()?,
            TokenKind::Keyword(Keyword::SET) => self.alter_database_set()?,
            TokenKind::Keyword(Keyword::COLLATE) => {
                self.advance();
                AlterDatabaseAction::Collate { collation: self.identifier()? }
            }
            TokenKind::Word if self.at_word("REMOVE") => {
                self.advance();
                if self.eat(Keyword::FILE) {
                    AlterDatabaseAction::RemoveFile { name: self.identifier_or_string()? }
                } else {
                    self.expect_word("FILEGROUP")?;
                    AlterDatabaseAction::RemoveFilegroup { name: self.identifier()? }
                }
            }
            TokenKind::Word if self.at_word("MODIFY") => self.alter_database_modify()?,
            _ => return Err(self.unexpected()),
        };
        Ok(StatementKind::AlterDatabase(Box::new(AlterDatabase { name, action })))
    }

    fn alter_database_add(&mut self) -> Result<AlterDatabaseAction> {
        self.advance();
        if self.eat_word("FILEGROUP") {
            let name = self.identifier()?;
            return Ok(AlterDatabaseAction::AddFilegroup { name, contains: self.optional_contains()? });
        }
        if self.eat_word("LOG") {
            self.expect(Keyword::FILE)?;
            return Ok(AlterDatabaseAction::AddLogFiles { files: self.comma_list(Parser::file_definition)? });
        }
        self.expect(Keyword::FILE)?;
        let files = self.comma_list(Parser::file_definition)?;
        let mut filegroup = None;
        if self.eat(Keyword::TO) {
            self.expect_word("FILEGROUP")?;
            filegroup = Some(self.identifier_or_string()?);
        }
        Ok(AlterDatabaseAction::AddFiles { files, filegroup })
    }

    fn alter_database_modify(&mut self) -> Result<AlterDatabaseAction> {
        self.advance();
        if self.eat(Keyword::FILE) {
            return Ok(AlterDatabaseAction::ModifyFile { file: self.file_definition()? });
        }
        if self.eat_word("NAME") {
            self.expect_mark(Mark::Equal)?;
            return Ok(AlterDatabaseAction::ModifyName { name: self.identifier()? });
        }
        self.expect_word("FILEGROUP")?;
        let name = self.identifier()?;
        let change = if self.eat(Keyword::DEFAULT) {
            FilegroupChange::Default
        } else if self.eat_word("NAME") {
            self.expect_mark(Mark::Equal)?;
            FilegroupChange::Name(self.identifier()?)
        } else if self.eat_word("READONLY") || self.eat_word("READ_ONLY") {
            FilegroupChange::ReadOnly
        } else if self.eat_word("READWRITE") || self.eat_word("READ_WRITE") {
            FilegroupChange::ReadWrite
        } else if self.eat_word("AUTOGROW_SINGLE_FILE") {
            FilegroupChange::AutogrowSingleFile
        } else {
            self.expect_word("AUTOGROW_ALL_FILES")?;
            FilegroupChange::AutogrowAllFiles
        };
        Ok(AlterDatabaseAction::ModifyFilegroup { name, change })
    }

    fn alter_database_set(&mut self) -> Result<AlterDatabaseAction> {
        self.advance();
        let options = self.comma_list(Parser::option_item)?;
        let mut termination = None;
        if self.eat(Keyword::WITH) {
            termination = Some(self.termination()?);
        }
        Ok(AlterDatabaseAction::Set { options, termination })
    }

    fn termination(&mut self) -> Result<Termination> {
        if self.eat_word("NO_WAIT") {
            return Ok(Termination::NoWait);
        }
        self.expect(Keyword::ROLLBACK)?;
        if self.eat_word("IMMEDIATE") {
            return Ok(Termination::RollbackImmediate);
        }
        self.expect_word("AFTER")?;
        let seconds = self.integer()?;
        self.eat_word("SECONDS");
        Ok(Termination::RollbackAfterSeconds(seconds))
    }

    fn scoped_configuration(&mut self) -> Result<StatementKind> {
        self.advance();
        self.advance();
        let action = if self.eat_word("CLEAR") {
            AlterDatabaseAction::ClearScopedConfiguration { name: self.identifier()? }
        } else {
            self.expect(Keyword::SET)?;
            AlterDatabaseAction::ScopedConfiguration { options: self.comma_list(Parser::option_item)? }
        };
        Ok(StatementKind::AlterDatabase(Box::new(AlterDatabase { name: None, action })))
    }
}
