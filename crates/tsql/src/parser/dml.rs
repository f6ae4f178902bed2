//! `INSERT`, `UPDATE`, `DELETE`, `MERGE`, `TRUNCATE TABLE`, and `SELECT` as a statement.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};
use hobt_base::errors;

impl Parser<'_> {
    /// A statement that begins with `WITH name AS (…)`.
    pub(super) fn with_statement(&mut self) -> Result<StatementKind> {
        let mark = self.mark();
        let with = self.common_table_expressions()?;
        match self.current.kind {
            TokenKind::Keyword(Keyword::INSERT) => self.insert(with),
            TokenKind::Keyword(Keyword::UPDATE) => self.update(with),
            TokenKind::Keyword(Keyword::DELETE) => self.delete(with),
            TokenKind::Keyword(Keyword::MERGE) => self.merge(with),
            _ => {
                let mut query = self.query()?;
                query.with = with;
                query.span = self.span(mark);
                let options = self.query_hints()?;
                Ok(StatementKind::Select(Box::new(SelectStatement { query, options })))
            }
        }
    }

    pub(super) fn select_statement(&mut self) -> Result<StatementKind> {
        let query = self.query()?;
        let options = self.query_hints()?;
        Ok(StatementKind::Select(Box::new(SelectStatement { query, options })))
    }

    /// `TOP (n) [PERCENT]`. Here the parentheses are required, and ties do not apply.
    fn optional_top(&mut self) -> Result<Option<Top>> {
        if !self.at(Keyword::TOP) {
            return Ok(None);
        }
        if !self.next_is_mark(Mark::Open) {
            self.advance();
            return Err(self.unexpected());
        }
        let top = self.top()?;
        if top.with_ties { Err(self.unexpected()) } else { Ok(Some(top)) }
    }

    fn target_name(&mut self) -> Result<TargetName> {
        if self.current.kind == TokenKind::Variable {
            return Ok(TargetName::Variable(self.table_variable()?));
        }
        Ok(TargetName::Object(self.object_name()?))
    }

    fn change_target(&mut self) -> Result<ChangeTarget> {
        let mark = self.mark();
        let name = self.target_name()?;
        let hints = if self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            self.advance();
            self.table_hint_list()?
        } else {
            Vec::new()
        };
        Ok(ChangeTarget { name, hints, span: self.span(mark) })
    }

    pub(super) fn insert(&mut self, with: Vec<CommonTableExpression>) -> Result<StatementKind> {
        self.expect(Keyword::INSERT)?;
        let top = self.optional_top()?;
        self.eat(Keyword::INTO);
        let target = self.change_target()?;
        let columns =
            if self.at_mark(Mark::Open) && !self.query_ahead(true) { self.identifier_list()? } else { Vec::new() };
        let output = self.optional_output()?;
        let source = self.insert_source()?;
        let options = self.query_hints()?;
        Ok(StatementKind::Insert(Box::new(Insert { with, top, target, columns, output, source, options })))
    }

    fn insert_source(&mut self) -> Result<InsertSource> {
        match self.current.kind {
            TokenKind::Keyword(Keyword::DEFAULT) => {
                self.advance();
                self.expect(Keyword::VALUES)?;
                Ok(InsertSource::DefaultValues)
            }
            TokenKind::Keyword(Keyword::VALUES) => {
                self.advance();
                Ok(InsertSource::Values { rows: self.value_rows()? })
            }
            TokenKind::Keyword(Keyword::EXEC | Keyword::EXECUTE) => {
                Ok(InsertSource::Execute { call: Box::new(self.execute()?) })
            }
            _ => Ok(InsertSource::Query { query: Box::new(self.query_with_ctes()?) }),
        }
    }

    fn optional_output(&mut self) -> Result<Option<Output>> {
        if !self.eat_word("OUTPUT") {
            return Ok(None);
        }
        let items = self.comma_list(Parser::select_item)?;
        let mut output = Output { items, into: None, columns: Vec::new() };
        if self.eat(Keyword::INTO) {
            output.into = Some(self.target_name()?);
            if self.at_mark(Mark::Open) && !self.query_ahead(true) {
                output.columns = self.identifier_list()?;
            }
        }
        Ok(Some(output))
    }

    pub(super) fn update(&mut self, with: Vec<CommonTableExpression>) -> Result<StatementKind> {
        self.expect(Keyword::UPDATE)?;
        let top = self.optional_top()?;
        let target = self.change_target()?;
        self.expect(Keyword::SET)?;
        let assignments = self.comma_list(Parser::assignment)?;
        let output = self.optional_output()?;
        let from = if self.eat(Keyword::FROM) { self.table_sources()? } else { Vec::new() };
        let condition = self.optional_condition(Keyword::WHERE)?;
        let options = self.query_hints()?;
        let update = Update { with, top, target, assignments, output, from, condition, options };
        Ok(StatementKind::Update(Box::new(update)))
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let mut assignment = Assignment {
            variable: None,
            column: None,
            operator: AssignmentOperator::Assign,
            value: Expression::Default { span: self.current_span() },
        };
        if self.current.kind == TokenKind::Variable {
            assignment.variable = Some(self.variable()?);
            // `@v = c = x` sets both; `@v = c` only reads the column.
            let column_follows = self.at_mark(Mark::Equal)
                && matches!(self.next.kind, TokenKind::Word | TokenKind::Quoted)
                && self.assignment_behind_name();
            if column_follows {
                self.advance();
                assignment.column = Some(self.assigned_column()?);
            }
        } else {
            assignment.column = Some(self.assigned_column()?);
        }
        let Some(operator) = self.assignment_operator_of(self.current) else { return Err(self.unexpected()) };
        self.advance();
        assignment.operator = operator;
        assignment.value = self.expression_or_default()?;
        Ok(assignment)
    }

    /// Whether an assignment operator follows the dotted name that begins at the next token.
    fn assignment_behind_name(&self) -> bool {
        let mut behind = self
            .ahead()
            .skip_while(|token| matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Mark(Mark::Dot)));
        behind.next().is_some_and(|token| self.assignment_operator_of(token).is_some())
    }

    fn assigned_column(&mut self) -> Result<ColumnName> {
        let mut parts = self.name_parts()?;
        let Some(name) = parts.pop().flatten() else { return Err(self.unexpected()) };
        let qualifier = if parts.is_empty() { None } else { Some(self.object_name_of(parts)?) };
        Ok(ColumnName { qualifier, name })
    }

    pub(super) fn delete(&mut self, with: Vec<CommonTableExpression>) -> Result<StatementKind> {
        self.expect(Keyword::DELETE)?;
        let top = self.optional_top()?;
        self.eat(Keyword::FROM);
        let target = self.change_target()?;
        let output = self.optional_output()?;
        let from = if self.eat(Keyword::FROM) { self.table_sources()? } else { Vec::new() };
        let condition = self.optional_condition(Keyword::WHERE)?;
        let options = self.query_hints()?;
        Ok(StatementKind::Delete(Box::new(Delete { with, top, target, output, from, condition, options })))
    }

    pub(super) fn merge(&mut self, with: Vec<CommonTableExpression>) -> Result<StatementKind> {
        self.expect(Keyword::MERGE)?;
        let top = self.optional_top()?;
        self.eat(Keyword::INTO);
        let target = self.change_target()?;
        let alias = if self.at_word("USING") { None } else { self.plain_alias()? };
        self.expect_word("USING")?;
        let source = self.table_source()?;
        self.expect(Keyword::ON)?;
        let condition = self.condition()?;
        let mut clauses = Vec::new();
        while clauses.is_empty() || self.at(Keyword::WHEN) {
            clauses.push(self.merge_clause()?);
        }
        let output = self.optional_output()?;
        let options = self.query_hints()?;
        if !self.at_mark(Mark::Semicolon) {
            return Err(errors::MERGE_SEMICOLON.error().at(self.current.position));
        }
        let merge = Merge { with, top, target, alias, source, condition, clauses, output, options };
        Ok(StatementKind::Merge(Box::new(merge)))
    }

    fn merge_clause(&mut self) -> Result<MergeClause> {
        self.expect(Keyword::WHEN)?;
        let negated = self.eat(Keyword::NOT);
        self.expect_word("MATCHED")?;
        let mut matched = if negated { MergeMatch::NotMatchedByTarget } else { MergeMatch::Matched };
        if negated && self.eat(Keyword::BY) {
            if self.eat_word("SOURCE") {
                matched = MergeMatch::NotMatchedBySource;
            } else {
                self.expect_word("TARGET")?;
            }
        }
        let condition = self.optional_condition(Keyword::AND)?;
        self.expect(Keyword::THEN)?;
        let action = self.merge_action()?;
        Ok(MergeClause { matched, condition, action })
    }

    fn merge_action(&mut self) -> Result<MergeAction> {
        if self.eat(Keyword::DELETE) {
            return Ok(MergeAction::Delete);
        }
        if self.eat(Keyword::UPDATE) {
            self.expect(Keyword::SET)?;
            return Ok(MergeAction::Update { assignments: self.comma_list(Parser::assignment)? });
        }
        self.expect(Keyword::INSERT)?;
        let columns = if self.at_mark(Mark::Open) { self.identifier_list()? } else { Vec::new() };
        if self.eat(Keyword::DEFAULT) {
            self.expect(Keyword::VALUES)?;
            return Ok(MergeAction::Insert { columns, values: Vec::new() });
        }
        self.expect(Keyword::VALUES)?;
        let values = self.parenthesized_list(Parser::expression_or_default)?;
        Ok(MergeAction::Insert { columns, values })
    }

    pub(super) fn truncate_table(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect(Keyword::TABLE)?;
        let name = self.object_name()?;
        let mut partitions = Vec::new();
        if self.at(Keyword::WITH) && self.next_is_mark(Mark::Open) {
            self.advance();
            self.advance();
            self.expect_word("PARTITIONS")?;
            partitions = self.partition_ranges()?;
            self.expect_mark(Mark::Close)?;
        }
        Ok(StatementKind::TruncateTable { name, partitions })
    }
}
