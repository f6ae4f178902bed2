//! Conditions: predicates, `NOT`, `AND`, `OR`.
//!
//! A parenthesis may contain a value or a condition, and only its contents tell which. So the functions here parse
//! either of the two, and require a condition where one is needed.

use hobt_base::errors;

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

/// The contents of a parenthesis.
enum Either {
    Value(Expression),
    Condition(Condition),
}

impl Parser<'_> {
    /// One condition.
    pub(super) fn condition(&mut self) -> Result<Condition> {
        let parsed = self.disjunction()?;
        self.require_condition(parsed)
    }

    /// `keyword condition`, if the current token is `keyword`.
    pub(super) fn optional_condition(&mut self, keyword: Keyword) -> Result<Option<Condition>> {
        if self.eat(keyword) { Ok(Some(self.condition()?)) } else { Ok(None) }
    }

    fn require_condition(&mut self, parsed: Either) -> Result<Condition> {
        match parsed {
            Either::Condition(condition) => Ok(condition),
            Either::Value(_) => {
                let at_end = self.current.kind == TokenKind::End;
                if at_end && self.lexer_error.is_some() {
                    return Err(self.unexpected());
                }
                let token = if at_end { self.previous } else { self.current };
                let near: String = self.token_text(token).chars().take(128).collect();
                Err(errors::NOT_A_CONDITION.with([&near]).at(token.position))
            }
        }
    }

    fn disjunction(&mut self) -> Result<Either> {
        let first = self.conjunction()?;
        if !self.at(Keyword::OR) {
            return Ok(first);
        }
        let mut operands = vec![self.require_condition(first)?];
        while self.eat(Keyword::OR) {
            let operand = self.conjunction()?;
            operands.push(self.require_condition(operand)?);
        }
        Ok(Either::Condition(Condition::Or { operands }))
    }

    fn conjunction(&mut self) -> Result<Either> {
        let first = self.negation()?;
        if !self.at(Keyword::AND) {
            return Ok(first);
        }
        let mut operands = vec![self.require_condition(first)?];
        while self.eat(Keyword::AND) {
            let operand = self.negation()?;
            operands.push(self.require_condition(operand)?);
        }
        Ok(Either::Condition(Condition::And { operands }))
    }

    fn negation(&mut self) -> Result<Either> {
        if !self.at(Keyword::NOT) {
            return self.predicate();
        }
        let span = self.current_span();
        self.advance();
        let operand = self.nested(Parser::negation)?;
        let operand = Box::new(self.require_condition(operand)?);
        Ok(Either::Condition(Condition::Not { operand, span }))
    }

    fn predicate(&mut self) -> Result<Either> {
        if self.at(Keyword::EXISTS) {
            let span = self.current_span();
            self.advance();
            let query = self.nested(Parser::subquery)?;
            return Ok(Either::Condition(Condition::Exists { query, span }));
        }
        if !self.at_mark(Mark::Open) || self.query_ahead(false) {
            let left = self.expression()?;
            return self.comparison(left);
        }
        self.advance();
        let inner = self.nested(Parser::disjunction)?;
        self.expect_mark(Mark::Close)?;
        match inner {
            Either::Condition(condition) => Ok(Either::Condition(condition)),
            Either::Value(value) => {
                let value = self.collate_rest(value)?;
                let value = self.multiplicative_rest(value)?;
                let value = self.additive_rest(value)?;
                self.comparison(value)
            }
        }
    }

    /// The comparison that follows `left`, if there is one.
    fn comparison(&mut self, left: Expression) -> Result<Either> {
        let span = self.current_span();
        if let Some(operator) = self.comparison_operator() {
            return Ok(Either::Condition(self.comparison_right(left, operator, span)?));
        }
        if self.at(Keyword::IS) {
            return Ok(Either::Condition(self.is_predicate(left, span)?));
        }
        let negated = self.at(Keyword::NOT)
            && [Keyword::IN, Keyword::LIKE, Keyword::BETWEEN].into_iter().any(|keyword| self.next_is(keyword));
        if negated {
            self.advance();
        }
        let operand = Box::new(left);
        if self.eat(Keyword::BETWEEN) {
            let low = self.boxed_expression()?;
            self.expect(Keyword::AND)?;
            let high = self.boxed_expression()?;
            return Ok(Either::Condition(Condition::Between { operand, low, high, negated, span }));
        }
        if self.eat(Keyword::LIKE) {
            let pattern = self.boxed_expression()?;
            let escape = if self.eat(Keyword::ESCAPE) { Some(self.boxed_expression()?) } else { None };
            return Ok(Either::Condition(Condition::Like { operand, pattern, escape, negated, span }));
        }
        if self.eat(Keyword::IN) {
            return Ok(Either::Condition(self.nested(|p| p.in_predicate(operand, negated, span))?));
        }
        Ok(Either::Value(*operand))
    }

    fn comparison_right(&mut self, left: Expression, operator: ComparisonOperator, span: Span) -> Result<Condition> {
        let left = Box::new(left);
        let quantifier = match self.current.kind {
            TokenKind::Keyword(Keyword::ANY | Keyword::SOME) => Quantifier::Any,
            TokenKind::Keyword(Keyword::ALL) => Quantifier::All,
            _ => {
                let right = self.boxed_expression()?;
                return Ok(Condition::Comparison { left, operator, right, span });
            }
        };
        self.advance();
        let query = self.nested(Parser::subquery)?;
        Ok(Condition::Quantified { left, operator, quantifier, query, span })
    }

    fn is_predicate(&mut self, operand: Expression, span: Span) -> Result<Condition> {
        self.advance();
        let negated = self.eat(Keyword::NOT);
        if self.eat(Keyword::DISTINCT) {
            self.expect(Keyword::FROM)?;
            let right = self.boxed_expression()?;
            return Ok(Condition::IsDistinct { left: Box::new(operand), right, negated, span });
        }
        self.expect(Keyword::NULL)?;
        Ok(Condition::IsNull { operand: Box::new(operand), negated, span })
    }

    fn in_predicate(&mut self, operand: Box<Expression>, negated: bool, span: Span) -> Result<Condition> {
        if self.at_mark(Mark::Open) && self.query_ahead(false) {
            let query = self.subquery()?;
            return Ok(Condition::InQuery { operand, query, negated, span });
        }
        let mut items = self.parenthesized_list(Parser::expression)?;
        match items.pop() {
            // `IN ((SELECT …))`: the inner parentheses have no meaning.
            Some(Expression::Subquery { query, .. }) if items.is_empty() => {
                Ok(Condition::InQuery { operand, query, negated, span })
            }
            last => {
                items.extend(last);
                Ok(Condition::InList { operand, items, negated, span })
            }
        }
    }

    /// Takes the comparison operator at the current token, if there is one. Its characters may be separated by blanks.
    fn comparison_operator(&mut self) -> Option<ComparisonOperator> {
        let TokenKind::Mark(mark) = self.current.kind else { return None };
        let next = match self.next.kind {
            TokenKind::Mark(next) => Some(next),
            _ => None,
        };
        let (operator, tokens) = match (mark, next) {
            (Mark::Less, Some(Mark::Equal)) | (Mark::Exclamation, Some(Mark::Greater)) => {
                (ComparisonOperator::LessOrEqual, 2)
            }
            (Mark::Greater, Some(Mark::Equal)) | (Mark::Exclamation, Some(Mark::Less)) => {
                (ComparisonOperator::GreaterOrEqual, 2)
            }
            (Mark::Less, Some(Mark::Greater)) | (Mark::Exclamation, Some(Mark::Equal)) => {
                (ComparisonOperator::NotEqual, 2)
            }
            (Mark::Equal, _) => (ComparisonOperator::Equal, 1),
            (Mark::NotEqual, _) => (ComparisonOperator::NotEqual, 1),
            (Mark::Less, _) => (ComparisonOperator::Less, 1),
            (Mark::LessOrEqual, _) => (ComparisonOperator::LessOrEqual, 1),
            (Mark::Greater, _) => (ComparisonOperator::Greater, 1),
            (Mark::GreaterOrEqual, _) => (ComparisonOperator::GreaterOrEqual, 1),
            _ => return None,
        };
        for _ in 0..tokens {
            self.advance();
        }
        Some(operator)
    }
}
