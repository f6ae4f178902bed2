//! `CREATE EXTERNAL TABLE`, `CREATE EXTERNAL FILE FORMAT`, and the kinds of external objects in `DROP`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// Parses from `EXTERNAL`, behind `CREATE`.
    pub(super) fn create_external(&mut self) -> Result<StatementKind> {
        match self.external_kind()? {
            ObjectKind::ExternalTable => self.external_table(),
            ObjectKind::ExternalFileFormat => {
                let name = self.identifier()?;
                self.expect(Keyword::WITH)?;
                let options = self.option_list()?;
                Ok(StatementKind::CreateExternalFileFormat(Box::new(CreateExternalFileFormat { name, options })))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `EXTERNAL TABLE` or `EXTERNAL FILE FORMAT`.
    pub(super) fn external_kind(&mut self) -> Result<ObjectKind> {
        self.expect(Keyword::EXTERNAL)?;
        if self.eat(Keyword::TABLE) {
            return Ok(ObjectKind::ExternalTable);
        }
        self.expect(Keyword::FILE)?;
        self.expect_word("FORMAT")?;
        Ok(ObjectKind::ExternalFileFormat)
    }

    fn external_table(&mut self) -> Result<StatementKind> {
        let name = self.object_name()?;
        let columns =
            if self.at_mark(Mark::Open) { self.parenthesized_list(Parser::external_column)? } else { Vec::new() };
        self.expect(Keyword::WITH)?;
        let options = self.option_list()?;
        let query = if self.eat(Keyword::AS) { Some(Box::new(self.query_with_ctes()?)) } else { None };
        let create = CreateExternalTable { name, columns, options, query };
        Ok(StatementKind::CreateExternalTable(Box::new(create)))
    }

    /// `name [type [COLLATE name] [NULL | NOT NULL]]`.
    fn external_column(&mut self) -> Result<ExternalColumn> {
        let name = self.identifier()?;
        if matches!(self.current.kind, TokenKind::Mark(Mark::Comma | Mark::Close)) {
            return Ok(ExternalColumn { name, data_type: None, collation: None, nullable: None });
        }
        let data_type = Some(self.data_type()?);
        let collation = if self.eat(Keyword::COLLATE) { Some(self.identifier()?) } else { None };
        let nullable = self.nullability()?;
        Ok(ExternalColumn { name, data_type, collation, nullable })
    }
}
