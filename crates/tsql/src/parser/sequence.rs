//! Sequences.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Parses from `SEQUENCE`.
    pub(super) fn sequence(&mut self, alter: bool) -> Result<StatementKind> {
        self.advance();
        let name = self.object_name()?;
        let mut options = Vec::new();
        loop {
            let mark = self.mark();
            let Some(kind) = self.sequence_option()? else { break };
            options.push(SequenceOption { kind, span: self.span(mark) });
        }
        Ok(StatementKind::Sequence(Box::new(SequenceDefinition { alter, name, options })))
    }

    fn sequence_option(&mut self) -> Result<Option<SequenceOptionKind>> {
        if self.eat(Keyword::AS) {
            return Ok(Some(SequenceOptionKind::As(self.data_type()?)));
        }
        Ok(Some(if self.eat_word("START") {
            self.expect(Keyword::WITH)?;
            SequenceOptionKind::Start(self.expression()?)
        } else if self.eat_word("RESTART") {
            let value = if self.eat(Keyword::WITH) { Some(self.expression()?) } else { None };
            SequenceOptionKind::Restart(value)
        } else if self.eat_word("INCREMENT") {
            self.expect(Keyword::BY)?;
            SequenceOptionKind::Increment(self.expression()?)
        } else if self.eat_word("MINVALUE") {
            SequenceOptionKind::Minimum(Some(self.expression()?))
        } else if self.eat_word("MAXVALUE") {
            SequenceOptionKind::Maximum(Some(self.expression()?))
        } else if self.eat_word("CYCLE") {
            SequenceOptionKind::Cycle(true)
        } else if self.eat_word("CACHE") {
            let has_size = self.current.kind == TokenKind::Integer;
            SequenceOptionKind::Cache(if has_size { Some(self.expression()?) } else { None })
        } else if self.at_word("NO") {
            self.advance();
            if self.eat_word("MINVALUE") {
                SequenceOptionKind::Minimum(None)
            } else if self.eat_word("MAXVALUE") {
                SequenceOptionKind::Maximum(None)
            } else if self.eat_word("CYCLE") {
                SequenceOptionKind::Cycle(false)
            } else {
                self.expect_word("CACHE")?;
                SequenceOptionKind::NoCache
            }
        } else {
            return Ok(None);
        }))
    }
}
