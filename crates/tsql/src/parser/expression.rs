//! Expressions, by precedence: postfix `COLLATE` and `~`, then `* / %`, then `+ - & | ^` with unary `+` and `-`.

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{self, Mark, TokenKind};

impl Parser<'_> {
    /// One value.
    pub(super) fn expression(&mut self) -> Result<Expression> {
        let first = self.multiplicative()?;
        self.additive_rest(first)
    }

    /// One value, or `DEFAULT`.
    pub(super) fn expression_or_default(&mut self) -> Result<Expression> {
        if self.at(Keyword::DEFAULT) {
            let span = self.current_span();
            self.advance();
            return Ok(Expression::Default { span });
        }
        self.expression()
    }

    /// A boxed value.
    pub(super) fn boxed_expression(&mut self) -> Result<Box<Expression>> {
        Ok(Box::new(self.expression()?))
    }

    /// The additive operators after `first`.
    pub(super) fn additive_rest(&mut self, first: Expression) -> Result<Expression> {
        let mut rest = Vec::new();
        while let Some(operator) = self.additive_operator() {
            let span = self.current_span();
            self.advance();
            rest.push(ArithmeticStep { operator, operand: self.multiplicative()?, span });
        }
        Ok(chain(first, rest))
    }

    fn additive_operator(&self) -> Option<ArithmeticOperator> {
        let TokenKind::Mark(mark) = self.current.kind else { return None };
        match mark {
            Mark::Plus => Some(ArithmeticOperator::Add),
            Mark::Minus => Some(ArithmeticOperator::Subtract),
            Mark::Ampersand => Some(ArithmeticOperator::BitAnd),
            Mark::Bar => Some(ArithmeticOperator::BitOr),
            Mark::Caret => Some(ArithmeticOperator::BitXor),
            _ => None,
        }
    }

    fn multiplicative(&mut self) -> Result<Expression> {
        let first = self.unary()?;
        self.multiplicative_rest(first)
    }

    /// The multiplicative operators after `first`.
    pub(super) fn multiplicative_rest(&mut self, first: Expression) -> Result<Expression> {
        let mut rest = Vec::new();
        loop {
            let operator = match self.current.kind {
                TokenKind::Mark(Mark::Star) => ArithmeticOperator::Multiply,
                TokenKind::Mark(Mark::Slash) => ArithmeticOperator::Divide,
                TokenKind::Mark(Mark::Percent) => ArithmeticOperator::Modulo,
                _ => return Ok(chain(first, rest)),
            };
            let span = self.current_span();
            self.advance();
            rest.push(ArithmeticStep { operator, operand: self.unary()?, span });
        }
    }

    fn unary(&mut self) -> Result<Expression> {
        let operator = match self.current.kind {
            TokenKind::Mark(Mark::Plus) => UnaryOperator::Plus,
            TokenKind::Mark(Mark::Minus) => UnaryOperator::Minus,
            TokenKind::Mark(Mark::Tilde) => UnaryOperator::BitNot,
            _ => return self.postfix(),
        };
        let span = self.current_span();
        self.advance();
        // A sign has the precedence of `+`: its operand may be a whole product.
        let operand = self.nested(|p| match operator {
            UnaryOperator::BitNot => p.unary(),
            UnaryOperator::Plus | UnaryOperator::Minus => p.multiplicative(),
        })?;
        Ok(Expression::Unary { operator, operand: Box::new(operand), span })
    }

    fn postfix(&mut self) -> Result<Expression> {
        let operand = self.primary()?;
        self.collate_rest(operand)
    }

    /// `COLLATE` after `operand`. A second one in a row is an error, as in SQL Server.
    pub(super) fn collate_rest(&mut self, operand: Expression) -> Result<Expression> {
        if !self.eat(Keyword::COLLATE) {
            return Ok(operand);
        }
        let collation = self.identifier()?;
        Ok(Expression::Collate { operand: Box::new(operand), collation })
    }

    fn primary(&mut self) -> Result<Expression> {
        if let Some(value) = self.literal()? {
            return Ok(value);
        }
        match self.current.kind {
            TokenKind::Variable => Ok(Expression::Variable { name: self.variable()? }),
            TokenKind::Global => Ok(Expression::GlobalVariable { name: self.variable()? }),
            TokenKind::Mark(Mark::Open) => self.nested(Parser::parenthesized),
            TokenKind::Keyword(keyword) => self.nested(|p| p.keyword_expression(keyword)),
            TokenKind::Word | TokenKind::Quoted | TokenKind::Dollar => self.name_expression(),
            _ => Err(self.unexpected()),
        }
    }

    /// The constant at the current token, if it is one.
    pub(super) fn literal(&mut self) -> Result<Option<Expression>> {
        let text = self.current_text();
        let value = match self.current.kind {
            TokenKind::Integer => match text.parse::<i64>() {
                Ok(value) => Literal::Integer(value),
                Err(_) => Literal::Decimal(text.into()),
            },
            TokenKind::Decimal => Literal::Decimal(text.into()),
            TokenKind::Float if text.ends_with(|c: char| c.is_ascii_digit()) => Literal::Float(text.into()),
            TokenKind::Float => Literal::Float(format!("{text}0").into()),
            TokenKind::Money => {
                Literal::Money(text.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').into())
            }
            TokenKind::String => Literal::String { value: lexer::string_value(text).into(), national: false },
            TokenKind::NationalString => {
                Literal::String { value: lexer::string_value(&text[1..]).into(), national: true }
            }
            TokenKind::Binary => Literal::Binary(lexer::binary_value(text)),
            TokenKind::Keyword(Keyword::NULL) => Literal::Null,
            _ => return Ok(None),
        };
        let span = self.current_span();
        self.advance();
        Ok(Some(Expression::Literal { value, span }))
    }

    fn parenthesized(&mut self) -> Result<Expression> {
        if self.query_ahead(false) {
            let mark = self.mark();
            let query = self.subquery()?;
            return Ok(Expression::Subquery { query, span: self.span(mark) });
        }
        self.advance();
        let inner = self.expression()?;
        self.expect_mark(Mark::Close)?;
        Ok(inner)
    }

    fn keyword_expression(&mut self, keyword: Keyword) -> Result<Expression> {
        let niladic = match keyword {
            Keyword::CURRENT_DATE => NiladicFunction::CurrentDate,
            Keyword::CURRENT_TIMESTAMP => NiladicFunction::CurrentTimestamp,
            Keyword::CURRENT_USER => NiladicFunction::CurrentUser,
            Keyword::SESSION_USER => NiladicFunction::SessionUser,
            Keyword::SYSTEM_USER => NiladicFunction::SystemUser,
            Keyword::USER => NiladicFunction::User,
            Keyword::CASE => return self.case(),
            Keyword::COALESCE => return self.coalesce(),
            Keyword::NULLIF => return self.null_if(),
            Keyword::CONVERT | Keyword::TRY_CONVERT => return self.convert(keyword == Keyword::TRY_CONVERT),
            // These words are functions only with parentheses; elsewhere they begin a join or a column's property.
            Keyword::LEFT | Keyword::RIGHT | Keyword::IDENTITY if self.next_is_mark(Mark::Open) => {
                let mark = self.mark();
                let name = self.take_identifier();
                return self.call(ObjectName::simple(name), mark);
            }
            _ => return Err(self.unexpected()),
        };
        let span = self.current_span();
        self.advance();
        Ok(Expression::Niladic { function: niladic, span })
    }

    fn case(&mut self) -> Result<Expression> {
        let mark = self.mark();
        self.expect(Keyword::CASE)?;
        if self.at(Keyword::WHEN) {
            let mut branches = Vec::new();
            while self.eat(Keyword::WHEN) {
                let when = self.condition()?;
                self.expect(Keyword::THEN)?;
                branches.push(SearchedWhen { when, then: self.expression()? });
            }
            let otherwise = self.case_end()?;
            return Ok(Expression::SearchedCase { branches, otherwise, span: self.span(mark) });
        }
        let operand = self.boxed_expression()?;
        let mut branches = Vec::new();
        while branches.is_empty() || self.at(Keyword::WHEN) {
            self.expect(Keyword::WHEN)?;
            let when = self.expression()?;
            self.expect(Keyword::THEN)?;
            branches.push(SimpleWhen { when, then: self.expression()? });
        }
        let otherwise = self.case_end()?;
        Ok(Expression::SimpleCase { operand, branches, otherwise, span: self.span(mark) })
    }

    fn case_end(&mut self) -> Result<Option<Box<Expression>>> {
        let otherwise = if self.eat(Keyword::ELSE) { Some(self.boxed_expression()?) } else { None };
        self.expect(Keyword::END)?;
        Ok(otherwise)
    }

    fn coalesce(&mut self) -> Result<Expression> {
        let mark = self.mark();
        self.advance();
        let arguments = self.parenthesized_list(Parser::expression)?;
        Ok(Expression::Coalesce { arguments, span: self.span(mark) })
    }

    fn null_if(&mut self) -> Result<Expression> {
        let mark = self.mark();
        self.advance();
        self.expect_mark(Mark::Open)?;
        let left = self.boxed_expression()?;
        self.expect_mark(Mark::Comma)?;
        let right = self.boxed_expression()?;
        self.expect_mark(Mark::Close)?;
        Ok(Expression::NullIf { left, right, span: self.span(mark) })
    }

    fn convert(&mut self, attempt: bool) -> Result<Expression> {
        let mark = self.mark();
        self.advance();
        self.expect_mark(Mark::Open)?;
        let data_type = Box::new(self.data_type()?);
        self.expect_mark(Mark::Comma)?;
        let operand = self.boxed_expression()?;
        let style = if self.eat_mark(Mark::Comma) { Some(self.boxed_expression()?) } else { None };
        self.expect_mark(Mark::Close)?;
        Ok(Expression::Convert { data_type, operand, style, attempt, span: self.span(mark) })
    }

    fn cast(&mut self, attempt: bool) -> Result<Expression> {
        let mark = self.mark();
        self.advance();
        self.expect_mark(Mark::Open)?;
        let operand = self.boxed_expression()?;
        self.expect(Keyword::AS)?;
        let data_type = Box::new(self.data_type()?);
        self.expect_mark(Mark::Close)?;
        Ok(Expression::Cast { operand, data_type, attempt, span: self.span(mark) })
    }

    fn iif(&mut self) -> Result<Expression> {
        let mark = self.mark();
        self.advance();
        self.expect_mark(Mark::Open)?;
        let condition = Box::new(self.condition()?);
        self.expect_mark(Mark::Comma)?;
        let then = self.boxed_expression()?;
        self.expect_mark(Mark::Comma)?;
        let otherwise = self.boxed_expression()?;
        self.expect_mark(Mark::Close)?;
        Ok(Expression::Iif { condition, then, otherwise, span: self.span(mark) })
    }

    /// A column, a call, `$PARTITION.f(…)`, or `NEXT VALUE FOR`.
    fn name_expression(&mut self) -> Result<Expression> {
        let mark = self.mark();
        if self.current.kind == TokenKind::Word && self.next_is_mark(Mark::Open) {
            let text = self.current_text();
            if text.eq_ignore_ascii_case("CAST") || text.eq_ignore_ascii_case("TRY_CAST") {
                let attempt = text.len() > 4;
                return self.nested(|p| p.cast(attempt));
            }
            if text.eq_ignore_ascii_case("IIF") {
                return self.nested(Parser::iif);
            }
        }
        if self.at_word("NEXT") && self.next_is_word("VALUE") {
            self.advance();
            self.advance();
            self.expect(Keyword::FOR)?;
            let sequence = Box::new(self.object_name()?);
            let over = match self.eat(Keyword::OVER) {
                true => Some(Box::new(self.nested(Parser::window)?)),
                false => None,
            };
            return Ok(Expression::NextValue { sequence, over, span: self.span(mark) });
        }
        let mut parts = if self.current.kind == TokenKind::Dollar { Vec::new() } else { self.name_parts()? };
        if self.current.kind == TokenKind::Dollar || (self.at_mark(Mark::Dot) && self.next.kind == TokenKind::Dollar) {
            self.eat_mark(Mark::Dot);
            if self.current_text().eq_ignore_ascii_case("$PARTITION") {
                return self.nested(|p| p.partition_number(parts, mark));
            }
            parts.push(Some(self.take_identifier()));
        } else if self.at_mark(Mark::Open) {
            let name = self.object_name_of(parts)?;
            return self.nested(|p| p.call(name, mark));
        }
        let Some(name) = parts.pop().flatten() else { return Err(self.unexpected()) };
        let qualifier = if parts.is_empty() { None } else { Some(self.object_name_of(parts)?) };
        Ok(Expression::Column { name: Box::new(ColumnName { qualifier, name }) })
    }

    fn partition_number(&mut self, mut parts: Vec<Option<Identifier>>, mark: super::Start) -> Result<Expression> {
        if parts.len() > 1 {
            return Err(self.unexpected());
        }
        self.advance();
        self.expect_mark(Mark::Dot)?;
        let function = self.identifier()?;
        let arguments = self.parenthesized_list(Parser::expression)?;
        let call = PartitionNumberCall { database: parts.pop().flatten(), function, arguments, span: self.span(mark) };
        Ok(Expression::PartitionNumber { call: Box::new(call) })
    }

    /// `[LEADING | TRAILING | BOTH] [characters FROM] text` of `TRIM`. Returns the function that it means, and its
    /// arguments.
    fn trim_arguments(&mut self, mut name: ObjectName) -> Result<(ObjectName, FunctionArguments)> {
        let sides = [("LEADING", "LTRIM"), ("TRAILING", "RTRIM"), ("BOTH", "TRIM")];
        let begins = matches!(
            self.next.kind,
            TokenKind::String | TokenKind::NationalString | TokenKind::Variable | TokenKind::Word | TokenKind::Quoted
        );
        if let Some((_, function)) = sides.into_iter().find(|(side, _)| begins && self.at_word(side)) {
            self.advance();
            function.clone_into(&mut name.name.value);
        }
        let mut values = self.comma_list(Parser::expression)?;
        if values.len() == 1 && self.eat(Keyword::FROM) {
            values.insert(0, self.expression()?);
        }
        Ok((name, FunctionArguments::List { distinct: false, values }))
    }

    /// The rest of a call, from its parenthesis.
    fn call(&mut self, mut name: ObjectName, mark: super::Start) -> Result<Expression> {
        self.expect_mark(Mark::Open)?;
        let is_trim = name.as_simple().is_some_and(|name| name.is("TRIM")) && !self.at_mark(Mark::Close);
        let arguments = if is_trim {
            let (meant, arguments) = self.trim_arguments(name)?;
            name = meant;
            arguments
        } else if self.at_mark(Mark::Star) && self.next_is_mark(Mark::Close) {
            self.advance();
            FunctionArguments::Star
        } else {
            let distinct = self.eat(Keyword::DISTINCT);
            if !distinct {
                self.eat(Keyword::ALL);
            }
            let values =
                if self.at_mark(Mark::Close) { Vec::new() } else { self.comma_list(Parser::expression_or_default)? };
            FunctionArguments::List { distinct, values }
        };
        self.expect_mark(Mark::Close)?;
        let ignore_nulls = match (self.at_word("IGNORE"), self.at_word("RESPECT")) {
            (false, false) => None,
            _ if !self.next_is_word("NULLS") => None,
            (ignore, _) => {
                self.advance();
                self.advance();
                Some(ignore)
            }
        };
        let mut within_group = Vec::new();
        if self.at_word("WITHIN") && self.next_is(Keyword::GROUP) {
            self.advance();
            self.advance();
            self.expect_mark(Mark::Open)?;
            within_group = self.order_by()?;
            self.expect_mark(Mark::Close)?;
        }
        let over = match self.eat(Keyword::OVER) {
            true if self.at_identifier() => Some(Window { base: Some(self.identifier()?), ..Window::default() }),
            true => Some(self.window()?),
            false => None,
        };
        let call = FunctionCall { name, arguments, ignore_nulls, within_group, over, span: self.span(mark) };
        Ok(Expression::Function { call: Box::new(call) })
    }

    pub(super) fn window(&mut self) -> Result<Window> {
        self.expect_mark(Mark::Open)?;
        let is_clause = (self.at_word("PARTITION") && self.next_is(Keyword::BY))
            || ((self.at_word("ROWS") || self.at_word("RANGE")) && !self.next_is_mark(Mark::Close));
        let base = if self.at_identifier() && !is_clause { Some(self.take_identifier()) } else { None };
        let mut partition_by = Vec::new();
        if self.at_word("PARTITION") && self.next_is(Keyword::BY) {
            self.advance();
            self.advance();
            partition_by = self.comma_list(Parser::expression)?;
        }
        let order_by = if self.at(Keyword::ORDER) { self.order_by()? } else { Vec::new() };
        let frame = match (self.at_word("ROWS"), self.at_word("RANGE")) {
            (true, _) => Some(self.frame(FrameUnit::Rows)?),
            (_, true) => Some(self.frame(FrameUnit::Range)?),
            _ => None,
        };
        self.expect_mark(Mark::Close)?;
        Ok(Window { base, partition_by, order_by, frame })
    }

    fn frame(&mut self, unit: FrameUnit) -> Result<WindowFrame> {
        let mark = self.mark();
        self.advance();
        let (start, end) = if self.eat(Keyword::BETWEEN) {
            let start = self.frame_bound()?;
            self.expect(Keyword::AND)?;
            (start, Some(self.frame_bound()?))
        } else {
            (self.frame_bound()?, None)
        };
        Ok(WindowFrame { unit, start, end, span: self.span(mark) })
    }

    fn frame_bound(&mut self) -> Result<FrameBound> {
        if self.eat(Keyword::CURRENT) {
            self.expect_word("ROW")?;
            return Ok(FrameBound::CurrentRow);
        }
        let unbounded = self.eat_word("UNBOUNDED");
        let count = if unbounded { None } else { Some(self.expression()?) };
        let preceding = self.eat_word("PRECEDING");
        if !preceding {
            self.expect_word("FOLLOWING")?;
        }
        Ok(match (count, preceding) {
            (None, true) => FrameBound::UnboundedPreceding,
            (None, false) => FrameBound::UnboundedFollowing,
            (Some(count), true) => FrameBound::Preceding(count),
            (Some(count), false) => FrameBound::Following(count),
        })
    }

    /// A data type.
    pub(super) fn data_type(&mut self) -> Result<DataType> {
        let mut name = match self.current.kind {
            TokenKind::Keyword(Keyword::NATIONAL) => {
                let mut name = self.take_identifier();
                let text = self.identifier()?;
                name.value = if text.is("TEXT") { "ntext".into() } else { "nchar".into() };
                if self.eat(Keyword::VARYING) {
                    name.value = "nvarchar".into();
                }
                ObjectName::simple(name)
            }
            TokenKind::Keyword(Keyword::DOUBLE) => {
                let mut name = self.take_identifier();
                self.expect_word("PRECISION")?;
                name.value = "float".into();
                ObjectName::simple(name)
            }
            _ => self.object_name()?,
        };
        if self.at(Keyword::VARYING) {
            let one_word = match name.as_simple() {
                Some(name) if name.is("char") || name.is("character") => "varchar",
                Some(name) if name.is("nchar") => "nvarchar",
                Some(name) if name.is("binary") => "varbinary",
                _ => return Err(self.unexpected()),
            };
            self.advance();
            name.name.value = one_word.into();
        }
        let mut arguments = Vec::new();
        if self.at_mark(Mark::Open) {
            arguments = self.parenthesized_list(|p| {
                if p.eat_word("MAX") { Ok(TypeArgument::Max) } else { Ok(TypeArgument::Number(p.integer()?)) }
            })?;
            if arguments.len() > 2 {
                return Err(self.unexpected_at(self.previous));
            }
        }
        Ok(DataType { name, arguments })
    }
}

fn chain(first: Expression, rest: Vec<ArithmeticStep>) -> Expression {
    if rest.is_empty() { first } else { Expression::Arithmetic { first: Box::new(first), rest } }
}
