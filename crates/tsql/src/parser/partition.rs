//! Partition functions and schemes.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::Mark;

impl Parser<'_> {
    /// Parses from `PARTITION`.
    pub(super) fn create_partition(&mut self) -> Result<StatementKind> {
        self.advance();
        if self.eat(Keyword::FUNCTION) {
            return self.create_partition_function();
        }
        self.expect_word("SCHEME")?;
        let name = self.identifier()?;
        self.expect(Keyword::AS)?;
        self.expect_word("PARTITION")?;
        let function = self.identifier()?;
        let all = self.eat(Keyword::ALL);
        self.expect(Keyword::TO)?;
        let filegroups = self.parenthesized_list(|p| {
            // `PRIMARY` is reserved, but many scripts omit its brackets.
            let bare_primary = p.at(Keyword::PRIMARY);
            let mut name = if bare_primary { p.take_identifier() } else { p.identifier_or_string()? };
            name.quoted |= bare_primary;
            Ok(name)
        })?;
        let scheme = CreatePartitionScheme { name, function, all, filegroups };
        Ok(StatementKind::CreatePartitionScheme(Box::new(scheme)))
    }

    fn create_partition_function(&mut self) -> Result<StatementKind> {
        let name = self.identifier()?;
        self.expect_mark(Mark::Open)?;
        let data_type = self.data_type()?;
        let collation = if self.eat(Keyword::COLLATE) { Some(self.identifier()?) } else { None };
        self.expect_mark(Mark::Close)?;
        self.expect(Keyword::AS)?;
        self.expect_word("RANGE")?;
        let range_right = self.eat(Keyword::RIGHT);
        if !range_right {
            self.eat(Keyword::LEFT);
        }
        self.expect(Keyword::FOR)?;
        let mark = self.mark();
        self.expect(Keyword::VALUES)?;
        self.expect_mark(Mark::Open)?;
        let values = if self.at_mark(Mark::Close) { Vec::new() } else { self.comma_list(Parser::expression)? };
        self.expect_mark(Mark::Close)?;
        let values_span = self.span(mark);
        let function = CreatePartitionFunction { name, data_type, collation, range_right, values, values_span };
        Ok(StatementKind::CreatePartitionFunction(Box::new(function)))
    }

    /// Parses from `PARTITION`.
    pub(super) fn alter_partition(&mut self) -> Result<StatementKind> {
        self.advance();
        if self.eat_word("SCHEME") {
            let name = self.identifier()?;
            self.expect_word("NEXT")?;
            self.expect_word("USED")?;
            let filegroup = if self.at_identifier() { Some(self.take_identifier()) } else { None };
            return Ok(StatementKind::AlterPartitionScheme(Box::new(AlterPartitionScheme { name, filegroup })));
        }
        self.expect(Keyword::FUNCTION)?;
        let name = self.identifier()?;
        self.expect_mark(Mark::Open)?;
        self.expect_mark(Mark::Close)?;
        let split = self.eat_word("SPLIT");
        if !split {
            self.expect(Keyword::MERGE)?;
        }
        self.expect_word("RANGE")?;
        self.expect_mark(Mark::Open)?;
        let value = if split && self.at_mark(Mark::Close) { None } else { Some(self.expression()?) };
        self.expect_mark(Mark::Close)?;
        Ok(StatementKind::AlterPartitionFunction(Box::new(AlterPartitionFunction { name, split, value })))
    }
}
