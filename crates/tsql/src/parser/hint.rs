//! Hints: those on a table, and those of `OPTION (…)`.

use hobt_base::{SqlError, errors};

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::{self, Keyword};
use crate::lexer::{Mark, Token, TokenKind};

/// The table hints of one word.
pub(crate) const TABLE_HINTS: &[(&str, TableHint)] = &[
    ("FORCESCAN", TableHint::ForceScan),
    ("HOLDLOCK", TableHint::HoldLock),
    ("IGNORE_CONSTRAINTS", TableHint::IgnoreConstraints),
    ("IGNORE_TRIGGERS", TableHint::IgnoreTriggers),
    ("KEEPDEFAULTS", TableHint::KeepDefaults),
    ("KEEPIDENTITY", TableHint::KeepIdentity),
    ("NOEXPAND", TableHint::NoExpand),
    ("NOLOCK", TableHint::NoLock),
    ("NOWAIT", TableHint::NoWait),
    ("PAGLOCK", TableHint::PagLock),
    ("READCOMMITTED", TableHint::ReadCommitted),
    ("READCOMMITTEDLOCK", TableHint::ReadCommittedLock),
    ("READPAST", TableHint::ReadPast),
    ("READUNCOMMITTED", TableHint::ReadUncommitted),
    ("REPEATABLEREAD", TableHint::RepeatableRead),
    ("ROWLOCK", TableHint::RowLock),
    ("SERIALIZABLE", TableHint::Serializable),
    ("SNAPSHOT", TableHint::Snapshot),
    ("TABLOCK", TableHint::TabLock),
    ("TABLOCKX", TableHint::TabLockX),
    ("UPDLOCK", TableHint::UpdLock),
    ("XLOCK", TableHint::XLock),
];

fn find_table_hint(word: &str) -> Option<TableHint> {
    TABLE_HINTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, hint)| hint.clone())
}

impl Parser<'_> {
    /// Whether the parenthesis at the current token contains hints in the old style, without `WITH`.
    pub(super) fn hints_ahead(&self) -> bool {
        if !self.at_mark(Mark::Open) {
            return false;
        }
        let word = self.token_text(self.next);
        let ends = |token: Option<Token>| {
            matches!(token.map(|t| t.kind), Some(TokenKind::Mark(Mark::Comma | Mark::Close)) | None)
        };
        match self.next.kind {
            TokenKind::Keyword(Keyword::INDEX | Keyword::HOLDLOCK) => true,
            TokenKind::Word => find_table_hint(word).is_some() && ends(self.ahead().nth(1)),
            _ => false,
        }
    }

    /// `(hint, hint …)`; commas are optional.
    pub(super) fn table_hint_list(&mut self) -> Result<Vec<TableHint>> {
        self.expect_mark(Mark::Open)?;
        let mut hints = Vec::new();
        while hints.is_empty() || !self.at_mark(Mark::Close) {
            hints.push(self.table_hint()?);
            self.eat_mark(Mark::Comma);
        }
        self.expect_mark(Mark::Close)?;
        Ok(hints)
    }

    fn table_hint(&mut self) -> Result<TableHint> {
        if self.eat(Keyword::INDEX) {
            if self.eat_mark(Mark::Equal) && !self.at_mark(Mark::Open) {
                return Ok(TableHint::Index(vec![self.index_reference()?]));
            }
            return Ok(TableHint::Index(self.parenthesized_list(Parser::index_reference)?));
        }
        if self.eat(Keyword::HOLDLOCK) {
            return Ok(TableHint::HoldLock);
        }
        if self.current.kind != TokenKind::Word {
            return Err(self.unexpected());
        }
        if self.eat_word("FORCESEEK") {
            return Ok(TableHint::ForceSeek(self.force_seek()?));
        }
        if self.eat_word("SPATIAL_WINDOW_MAX_CELLS") {
            self.expect_mark(Mark::Equal)?;
            return Ok(TableHint::SpatialWindowMaxCells(self.integer()?));
        }
        let word = self.current_text();
        match find_table_hint(word) {
            Some(hint) => {
                self.advance();
                Ok(hint)
            }
            None => Err(errors::UNKNOWN_TABLE_HINT.with([&word]).at(self.current.position)),
        }
    }

    fn force_seek(&mut self) -> Result<Option<ForceSeek>> {
        if !self.eat_mark(Mark::Open) {
            return Ok(None);
        }
        let index = self.index_reference()?;
        let columns = if self.at_mark(Mark::Open) { self.identifier_list()? } else { Vec::new() };
        self.expect_mark(Mark::Close)?;
        Ok(Some(ForceSeek { index, columns }))
    }

    fn index_reference(&mut self) -> Result<IndexReference> {
        if self.current.kind == TokenKind::Integer {
            return Ok(IndexReference::Number(self.integer()?));
        }
        Ok(IndexReference::Name(self.identifier()?))
    }

    /// `OPTION (…)`; empty if absent.
    pub(super) fn query_hints(&mut self) -> Result<Vec<QueryHint>> {
        if !self.eat(Keyword::OPTION) {
            return Ok(Vec::new());
        }
        self.parenthesized_list(|p| {
            let mark = p.mark();
            let kind = p.query_hint()?;
            Ok(QueryHint { kind, span: p.span(mark) })
        })
    }

    fn query_hint(&mut self) -> Result<QueryHintKind> {
        use QueryHintKind as H;
        let token = self.current;
        let word = self.current_text().to_ascii_uppercase();
        match token.kind {
            TokenKind::Word | TokenKind::Keyword(_) => self.advance(),
            _ => return Err(self.unexpected()),
        }
        Ok(match word.as_str() {
            "MAXDOP" => H::MaxDop(self.hint_number()?),
            "MAXRECURSION" => H::MaxRecursion(self.hint_number()?),
            "FAST" => H::Fast(self.hint_number()?),
            "QUERYTRACEON" => H::QueryTraceOn(self.hint_number()?),
            "MIN_GRANT_PERCENT" => H::MinGrantPercent(self.hint_value()?),
            "MAX_GRANT_PERCENT" => H::MaxGrantPercent(self.hint_value()?),
            "RECOMPILE" => H::Recompile,
            "IGNORE_NONCLUSTERED_COLUMNSTORE_INDEX" => H::IgnoreNonclusteredColumnstoreIndex,
            "LABEL" => {
                self.expect_mark(Mark::Equal)?;
                H::Label(self.string()?)
            }
            "PARAMETERIZATION" => {
                let forced = self.eat_word("FORCED");
                if !forced {
                    self.expect_word("SIMPLE")?;
                }
                H::Parameterization { forced }
            }
            "OPTIMIZE" => return self.optimize_for(),
            "USE" if self.eat_word("HINT") => H::UseHint(self.parenthesized_list(Parser::string)?),
            "USE" => {
                self.expect(Keyword::PLAN)?;
                H::UsePlan(self.string()?)
            }
            "TABLE" => return self.table_hint_option(),
            _ => return self.two_word_hint(&word, token),
        })
    }

    /// The number after a hint's name; SQL Server allows an equals sign between them.
    fn hint_number(&mut self) -> Result<i64> {
        self.eat_mark(Mark::Equal);
        self.integer()
    }

    fn hint_value(&mut self) -> Result<Expression> {
        self.eat_mark(Mark::Equal);
        match self.literal()? {
            Some(value) => Ok(value),
            None => Err(self.unexpected()),
        }
    }

    fn two_word_hint(&mut self, first: &str, token: Token) -> Result<QueryHintKind> {
        use QueryHintKind as H;
        let second = self.current_text().to_ascii_uppercase();
        let hint = match (first, second.as_str()) {
            ("FORCE", "ORDER") => H::ForceOrder,
            ("HASH", "JOIN") => H::Join(JoinHint::Hash),
            ("LOOP", "JOIN") => H::Join(JoinHint::Loop),
            ("MERGE", "JOIN") => H::Join(JoinHint::Merge),
            ("HASH", "GROUP") => H::HashGroup,
            ("ORDER", "GROUP") => H::OrderGroup,
            ("CONCAT", "UNION") => H::ConcatUnion,
            ("HASH", "UNION") => H::HashUnion,
            ("MERGE", "UNION") => H::MergeUnion,
            ("EXPAND", "VIEWS") => H::ExpandViews,
            ("KEEP", "PLAN") => H::KeepPlan,
            ("KEEPFIXED", "PLAN") => H::KeepFixedPlan,
            ("ROBUST", "PLAN") => H::RobustPlan,
            _ => return Err(self.unknown_query_hint(token)),
        };
        self.advance();
        Ok(hint)
    }

    fn unknown_query_hint(&self, token: Token) -> SqlError {
        let text = self.token_text(token);
        if keyword::lookup(text).is_some() {
            return self.unexpected_at(token);
        }
        errors::UNKNOWN_QUERY_HINT.with([&text]).at(token.position)
    }

    fn optimize_for(&mut self) -> Result<QueryHintKind> {
        self.expect(Keyword::FOR)?;
        if self.eat_word("UNKNOWN") {
            return Ok(QueryHintKind::OptimizeForUnknown);
        }
        let values = self.parenthesized_list(|p| {
            let name = p.variable()?;
            if p.eat_word("UNKNOWN") {
                return Ok((name, None));
            }
            p.expect_mark(Mark::Equal)?;
            Ok((name, Some(p.constant()?)))
        })?;
        Ok(QueryHintKind::OptimizeFor(values))
    }

    fn table_hint_option(&mut self) -> Result<QueryHintKind> {
        self.expect_word("HINT")?;
        self.expect_mark(Mark::Open)?;
        let name = self.object_name()?;
        let mut hints = Vec::new();
        while self.eat_mark(Mark::Comma) {
            hints.push(self.table_hint()?);
        }
        self.expect_mark(Mark::Close)?;
        Ok(QueryHintKind::TableHint { name, hints })
    }

    /// A constant, with or without a sign, or a variable.
    pub(super) fn constant(&mut self) -> Result<Expression> {
        let mark = self.mark();
        for (sign, operator) in [(Mark::Minus, UnaryOperator::Minus), (Mark::Plus, UnaryOperator::Plus)] {
            if self.eat_mark(sign) {
                let span = self.span(mark);
                return match self.literal()? {
                    Some(operand) => Ok(Expression::Unary { operator, operand: Box::new(operand), span }),
                    None => Err(self.unexpected()),
                };
            }
        }
        match self.current.kind {
            TokenKind::Variable => Ok(Expression::Variable { name: self.variable()? }),
            TokenKind::Global => Ok(Expression::GlobalVariable { name: self.variable()? }),
            _ => match self.literal()? {
                Some(value) => Ok(value),
                None => Err(self.unexpected()),
            },
        }
    }

    /// [`Parser::constant`], or a bare word, which is a string.
    pub(super) fn constant_or_word(&mut self) -> Result<Expression> {
        if self.at_identifier() {
            let span = self.current_span();
            let value = self.take_identifier().value.into();
            return Ok(Expression::Literal { value: Literal::String { value, national: false }, span });
        }
        self.constant()
    }
}
