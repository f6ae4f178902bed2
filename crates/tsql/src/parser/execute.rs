//! Calls of procedures and texts, and `DECLARE`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// `EXECUTE …`, parsed from its keyword.
    pub(super) fn execute(&mut self) -> Result<Execute> {
        let mark = self.mark();
        self.advance();
        if self.at_mark(Mark::Open) {
            self.advance();
            let text = self.expression()?;
            self.expect_mark(Mark::Close)?;
            let mut call = self.call_of(ExecuteTarget::Text(text));
            self.call_end(&mut call)?;
            call.span = self.span(mark);
            return Ok(call);
        }
        let mut return_variable = None;
        if self.current.kind == TokenKind::Variable && self.next_is_mark(Mark::Equal) {
            return_variable = Some(self.variable()?);
            self.advance();
        }
        self.procedure_call(mark, return_variable)
    }

    fn call_of(&self, target: ExecuteTarget) -> Execute {
        let span = self.current_span();
        Execute { return_variable: None, target, arguments: Vec::new(), at: None, recompile: false, span }
    }

    /// A procedure's name with its arguments.
    pub(super) fn procedure_call(
        &mut self,
        mark: super::Start,
        return_variable: Option<VariableName>,
    ) -> Result<Execute> {
        let target = if self.current.kind == TokenKind::Variable {
            ExecuteTarget::Variable(self.variable()?)
        } else {
            ExecuteTarget::Procedure(self.object_name()?)
        };
        let mut call = self.call_of(target);
        call.return_variable = return_variable;
        if self.argument_begins() {
            call.arguments = self.comma_list(Parser::execute_argument)?;
        }
        self.call_end(&mut call)?;
        call.span = self.span(mark);
        Ok(call)
    }

    fn call_end(&mut self, call: &mut Execute) -> Result<()> {
        if self.at_word("AT") {
            self.advance();
            call.at = Some(self.identifier()?);
        }
        if self.at(Keyword::WITH) && self.next_is_word("RECOMPILE") {
            self.advance();
            self.advance();
            call.recompile = true;
        }
        Ok(())
    }

    fn argument_begins(&self) -> bool {
        match self.current.kind {
            TokenKind::Word | TokenKind::Quoted => !self.next_is_mark(Mark::Colon) && !self.at_word("AT"),
            TokenKind::Keyword(keyword) => matches!(keyword, Keyword::NULL | Keyword::DEFAULT),
            TokenKind::Mark(mark) => matches!(mark, Mark::Plus | Mark::Minus),
            TokenKind::End | TokenKind::Unknown | TokenKind::Dollar => false,
            _ => true,
        }
    }

    fn execute_argument(&mut self) -> Result<ExecuteArgument> {
        let mut name = None;
        if self.current.kind == TokenKind::Variable && self.next_is_mark(Mark::Equal) {
            name = Some(self.variable()?);
            self.advance();
        }
        let value = if self.at(Keyword::DEFAULT) { self.expression_or_default()? } else { self.constant_or_word()? };
        let output = self.eat_word("OUTPUT") || self.eat_word("OUT");
        Ok(ExecuteArgument { name, value, output })
    }

    pub(super) fn declare(&mut self) -> Result<StatementKind> {
        self.advance();
        let declarations = self.comma_list(|p| {
            let name = p.variable()?;
            p.eat(Keyword::AS);
            if p.eat(Keyword::TABLE) {
                return Ok(Declaration { name, kind: DeclarationKind::Table(p.table_definition()?) });
            }
            let data_type = p.data_type()?;
            let value = if p.eat_mark(Mark::Equal) { Some(p.expression()?) } else { None };
            Ok(Declaration { name, kind: DeclarationKind::Scalar { data_type, value } })
        })?;
        Ok(StatementKind::Declare { declarations })
    }
}
