//! Queries: common table expressions, set operators, and `SELECT` with its clauses, except the sources in `FROM`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, Token, TokenKind};

impl Parser<'_> {
    /// A query, with or without `WITH` before it.
    pub(super) fn query_with_ctes(&mut self) -> Result<Query> {
        let mark = self.mark();
        let with = self.common_table_expressions()?;
        let mut query = self.query()?;
        query.with = with;
        query.span = self.span(mark);
        Ok(query)
    }

    /// `WITH name (columns) AS (query), …`; empty if there is no `WITH`.
    pub(super) fn common_table_expressions(&mut self) -> Result<Vec<CommonTableExpression>> {
        if !self.eat(Keyword::WITH) {
            return Ok(Vec::new());
        }
        self.comma_list(|p| {
            let name = p.identifier()?;
            let columns = if p.at_mark(Mark::Open) { p.identifier_list()? } else { Vec::new() };
            p.expect(Keyword::AS)?;
            let query = p.nested(Parser::parenthesized_query)?;
            Ok(CommonTableExpression { name, columns, query: *query })
        })
    }

    /// `(query)`. It counts as a level of its own, in addition to that of its context, because it takes twice the
    /// stack.
    pub(super) fn parenthesized_query(&mut self) -> Result<Box<Query>> {
        self.expect_mark(Mark::Open)?;
        let query = self.nested(Parser::query)?;
        self.expect_mark(Mark::Close)?;
        Ok(Box::new(query))
    }

    /// A parenthesized query in an expression, a condition or `FROM`.
    pub(super) fn subquery(&mut self) -> Result<Box<Query>> {
        self.subqueries += 1;
        let query = self.parenthesized_query();
        self.subqueries -= 1;
        query
    }

    /// A query without `WITH`.
    pub(super) fn query(&mut self) -> Result<Query> {
        let mark = self.mark();
        let body = self.query_body()?;
        let order_by = if self.at(Keyword::ORDER) { self.order_by()? } else { Vec::new() };
        let offset = if !order_by.is_empty() && self.eat_word("OFFSET") { Some(self.offset()?) } else { None };
        Ok(Query { with: Vec::new(), body, order_by, offset, span: self.span(mark) })
    }

    fn query_body(&mut self) -> Result<QueryBody> {
        let first = self.intersection()?;
        let mut rest = Vec::new();
        loop {
            let mut operator = match self.current.kind {
                TokenKind::Keyword(Keyword::UNION) => SetOperator::Union,
                TokenKind::Keyword(Keyword::EXCEPT) => SetOperator::Except,
                _ => return Ok(combined(first, rest)),
            };
            let span = self.current_span();
            self.advance();
            if operator == SetOperator::Union && self.eat(Keyword::ALL) {
                operator = SetOperator::UnionAll;
            }
            rest.push(SetOperationStep { operator, operand: self.intersection()?, span });
        }
    }

    fn intersection(&mut self) -> Result<QueryBody> {
        let first = self.query_primary()?;
        let mut rest = Vec::new();
        while self.at(Keyword::INTERSECT) {
            let span = self.current_span();
            self.advance();
            rest.push(SetOperationStep { operator: SetOperator::Intersect, operand: self.query_primary()?, span });
        }
        Ok(combined(first, rest))
    }

    fn query_primary(&mut self) -> Result<QueryBody> {
        if self.eat_mark(Mark::Open) {
            let body = self.nested(Parser::query_body)?;
            self.expect_mark(Mark::Close)?;
            return Ok(body);
        }
        Ok(QueryBody::Select(Box::new(self.select()?)))
    }

    /// Whether the parenthesis at the current token contains a query, and not a value or a join that begins with one.
    ///
    /// `((SELECT 1))` is a query if `wrapped` is set; otherwise it is a value in parentheses.
    pub(super) fn query_ahead(&self, wrapped: bool) -> bool {
        let mut tokens = self.ahead();
        let mut open = 1usize;
        loop {
            match tokens.next().map(|token| token.kind) {
                Some(TokenKind::Keyword(Keyword::SELECT)) => break,
                Some(TokenKind::Mark(Mark::Open)) if open <= super::DEPTH_MAX => open += 1,
                _ => return false,
            }
        }
        if open == 1 {
            return true;
        }
        // Each parenthesis except the outermost must be followed by something that continues a query.
        let mut least_open = open;
        let mut just_closed = false;
        for token in tokens {
            if just_closed {
                let goes_on = match token.kind {
                    TokenKind::Keyword(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => true,
                    TokenKind::Mark(Mark::Close) => least_open > 1 || wrapped,
                    _ => false,
                };
                if !goes_on || least_open == 1 {
                    return goes_on;
                }
                just_closed = false;
            }
            match token.kind {
                TokenKind::Mark(Mark::Open) => open += 1,
                TokenKind::Mark(Mark::Close) => open -= 1,
                _ => {}
            }
            if open < least_open {
                least_open = open;
                just_closed = true;
            }
        }
        false
    }

    /// The token after the parenthesis that opens at the current token.
    pub(super) fn behind_parenthesis(&self) -> Option<TokenKind> {
        let mut open = 1usize;
        for token in self.ahead() {
            match token.kind {
                _ if open == 0 => return Some(token.kind),
                TokenKind::Mark(Mark::Open) => open += 1,
                TokenKind::Mark(Mark::Close) => open -= 1,
                _ => {}
            }
        }
        None
    }

    fn select(&mut self) -> Result<Select> {
        let mark = self.mark();
        self.expect(Keyword::SELECT)?;
        let distinct = self.eat(Keyword::DISTINCT);
        if !distinct {
            self.eat(Keyword::ALL);
        }
        let top = if self.at(Keyword::TOP) { Some(self.top()?) } else { None };
        let items = self.comma_list(Parser::select_item)?;
        let into = if self.eat(Keyword::INTO) {
            let name = self.object_name()?;
            let filegroup = if self.eat(Keyword::ON) { Some(self.identifier()?) } else { None };
            Some(SelectInto { name, filegroup })
        } else {
            None
        };
        let from = if self.eat(Keyword::FROM) { self.table_sources()? } else { Vec::new() };
        let condition = self.optional_condition(Keyword::WHERE)?;
        let group_by = if self.at(Keyword::GROUP) { Some(self.group_by()?) } else { None };
        let having = self.optional_condition(Keyword::HAVING)?;
        let windows = if self.at_window_clause() {
            self.advance();
            self.comma_list(Parser::named_window)?
        } else {
            Vec::new()
        };
        let span = self.span(mark);
        Ok(Select { distinct, top, items, into, from, condition, group_by, having, windows, span })
    }

    /// Whether the current tokens are `WINDOW name`: the word is not reserved.
    pub(super) fn at_window_clause(&self) -> bool {
        self.at_word("WINDOW") && matches!(self.next.kind, TokenKind::Word | TokenKind::Quoted)
    }

    fn named_window(&mut self) -> Result<NamedWindow> {
        let name = self.identifier()?;
        self.expect(Keyword::AS)?;
        Ok(NamedWindow { name, window: self.window()? })
    }

    /// `TOP (n) [PERCENT] [WITH TIES]`; without parentheses `n` is a number or a variable.
    pub(super) fn top(&mut self) -> Result<Top> {
        self.expect(Keyword::TOP)?;
        let count = if self.at_mark(Mark::Open) {
            self.advance();
            let count = self.nested(Parser::expression)?;
            self.expect_mark(Mark::Close)?;
            count
        } else if self.current.kind == TokenKind::Variable {
            Expression::Variable { name: self.variable()? }
        } else {
            match self.literal()? {
                Some(count) => count,
                None => return Err(self.unexpected()),
            }
        };
        let percent = self.eat(Keyword::PERCENT);
        let with_ties = self.at(Keyword::WITH) && self.next_is_word("TIES");
        if with_ties {
            self.advance();
            self.advance();
        }
        Ok(Top { count, percent, with_ties })
    }

    /// One entry of a select list.
    pub(super) fn select_item(&mut self) -> Result<SelectItem> {
        let mark = self.mark();
        if self.eat_mark(Mark::Star) {
            return Ok(SelectItem::Wildcard { qualifier: None, span: self.span(mark) });
        }
        match self.current.kind {
            TokenKind::Variable if self.subqueries == 0 => {
                if let Some(operator) = self.assignment_operator_of(self.next) {
                    let variable = self.variable()?;
                    self.advance();
                    return Ok(SelectItem::Assign { variable, operator, value: self.expression()? });
                }
            }
            TokenKind::Word | TokenKind::Quoted | TokenKind::String | TokenKind::NationalString
                if self.next_is_mark(Mark::Equal) =>
            {
                let alias = Some(self.take_identifier());
                self.advance();
                return Ok(SelectItem::Value { value: self.expression()?, alias });
            }
            TokenKind::Word | TokenKind::Quoted if self.next_is_mark(Mark::Dot) && self.wildcard_ahead() => {
                let parts = self.name_parts()?;
                let qualifier = Some(self.object_name_of(parts)?);
                self.advance();
                self.expect_mark(Mark::Star)?;
                return Ok(SelectItem::Wildcard { qualifier, span: self.span(mark) });
            }
            _ => {}
        }
        let value = self.expression()?;
        let alias = self.item_alias()?;
        Ok(SelectItem::Value { value, alias })
    }

    fn item_alias(&mut self) -> Result<Option<Identifier>> {
        if self.eat(Keyword::AS) {
            return Ok(Some(self.identifier_or_string()?));
        }
        let named = self.at_alias() || matches!(self.current.kind, TokenKind::String | TokenKind::NationalString);
        Ok(named.then(|| self.take_identifier()))
    }

    /// Whether the dotted name at the current token ends with `.*`.
    fn wildcard_ahead(&self) -> bool {
        let mut behind_dot = false;
        for token in self.ahead() {
            behind_dot = match token.kind {
                TokenKind::Mark(Mark::Star) => return behind_dot,
                TokenKind::Mark(Mark::Dot) => true,
                TokenKind::Word | TokenKind::Quoted if behind_dot => false,
                _ => return false,
            };
        }
        false
    }

    /// The assignment operator that `token` is, if it is one.
    pub(super) fn assignment_operator_of(&self, token: Token) -> Option<AssignmentOperator> {
        let TokenKind::Mark(mark) = token.kind else { return None };
        Some(match mark {
            Mark::Equal => AssignmentOperator::Assign,
            Mark::PlusEqual => AssignmentOperator::Add,
            Mark::MinusEqual => AssignmentOperator::Subtract,
            Mark::StarEqual => AssignmentOperator::Multiply,
            Mark::SlashEqual => AssignmentOperator::Divide,
            Mark::PercentEqual => AssignmentOperator::Modulo,
            Mark::AmpersandEqual => AssignmentOperator::BitAnd,
            Mark::BarEqual => AssignmentOperator::BitOr,
            Mark::CaretEqual => AssignmentOperator::BitXor,
            _ => return None,
        })
    }

    fn group_by(&mut self) -> Result<GroupBy> {
        let mark = self.mark();
        self.expect(Keyword::GROUP)?;
        self.expect(Keyword::BY)?;
        let items = self.comma_list(|p| p.grouping_item(false))?;
        let modifier = match (self.at(Keyword::WITH), self.next_is_word("ROLLUP"), self.next_is_word("CUBE")) {
            (true, true, _) => Some(GroupByModifier::Rollup),
            (true, _, true) => Some(GroupByModifier::Cube),
            _ => None,
        };
        if modifier.is_some() {
            self.advance();
            self.advance();
        }
        Ok(GroupBy { items, modifier, span: self.span(mark) })
    }

    /// One entry of a `GROUP BY`, or of a list within one (`inner`), in which `(a, b)` is one entry.
    fn grouping_item(&mut self, inner: bool) -> Result<GroupingItem> {
        if self.at_mark(Mark::Open) && self.next_is_mark(Mark::Close) {
            self.advance();
            self.advance();
            return Ok(GroupingItem::Composite(Vec::new()));
        }
        let list = |p: &mut Self| p.nested(|p| p.parenthesized_list(|p| p.grouping_item(true)));
        if self.next_is_mark(Mark::Open) && self.at_word("ROLLUP") {
            self.advance();
            return Ok(GroupingItem::Rollup(list(self)?));
        }
        if self.next_is_mark(Mark::Open) && self.at_word("CUBE") {
            self.advance();
            return Ok(GroupingItem::Cube(list(self)?));
        }
        if self.at_word("GROUPING") && self.next_is_word("SETS") {
            self.advance();
            self.advance();
            return Ok(GroupingItem::Sets(list(self)?));
        }
        if inner && self.at_mark(Mark::Open) {
            // `(a, b)` and `(a + b) * c` begin alike; the token after the parenthesis decides.
            if let Some(TokenKind::Mark(Mark::Comma | Mark::Close)) = self.behind_parenthesis() {
                return Ok(GroupingItem::Composite(self.nested(|p| p.parenthesized_list(Parser::expression))?));
            }
        }
        Ok(GroupingItem::Value(self.expression()?))
    }

    /// `ORDER BY …`.
    pub(super) fn order_by(&mut self) -> Result<Vec<OrderItem>> {
        self.expect(Keyword::ORDER)?;
        self.expect(Keyword::BY)?;
        self.comma_list(|p| {
            let value = p.expression()?;
            let descending = p.eat(Keyword::DESC);
            if !descending {
                p.eat(Keyword::ASC);
            }
            Ok(OrderItem { value, descending })
        })
    }

    /// The rest after the word `OFFSET`.
    fn offset(&mut self) -> Result<Offset> {
        let skip = self.expression()?;
        self.row_or_rows()?;
        let fetch = if self.eat(Keyword::FETCH) {
            if !self.eat_word("NEXT") {
                self.expect_word("FIRST")?;
            }
            let count = self.expression()?;
            self.row_or_rows()?;
            self.expect_word("ONLY")?;
            Some(count)
        } else {
            None
        };
        Ok(Offset { skip, fetch })
    }

    fn row_or_rows(&mut self) -> Result<()> {
        if self.eat_word("ROW") { Ok(()) } else { self.expect_word("ROWS") }
    }
}

fn combined(first: QueryBody, rest: Vec<SetOperationStep>) -> QueryBody {
    if rest.is_empty() { first } else { QueryBody::SetOperation { first: Box::new(first), rest } }
}
