//! `SET`: variables and options of the session.

use hobt_base::errors;

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// The options that are on or off, by name.
pub(crate) const SWITCHES: &[(&str, SwitchOption)] = &[
    ("ANSI_DEFAULTS", SwitchOption::AnsiDefaults),
    ("ANSI_NULL_DFLT_OFF", SwitchOption::AnsiNullDefaultOff),
    ("ANSI_NULL_DFLT_ON", SwitchOption::AnsiNullDefaultOn),
    ("ANSI_NULLS", SwitchOption::AnsiNulls),
    ("ANSI_PADDING", SwitchOption::AnsiPadding),
    ("ANSI_WARNINGS", SwitchOption::AnsiWarnings),
    ("ARITHABORT", SwitchOption::ArithAbort),
    ("ARITHIGNORE", SwitchOption::ArithIgnore),
    ("CONCAT_NULL_YIELDS_NULL", SwitchOption::ConcatNullYieldsNull),
    ("CURSOR_CLOSE_ON_COMMIT", SwitchOption::CursorCloseOnCommit),
    ("DISABLE_DEF_CNST_CHK", SwitchOption::DisableDeferredConstraintCheck),
    ("FMTONLY", SwitchOption::FormatOnly),
    ("FORCEPLAN", SwitchOption::ForcePlan),
    ("IMPLICIT_TRANSACTIONS", SwitchOption::ImplicitTransactions),
    ("NOCOUNT", SwitchOption::NoCount),
    ("NOEXEC", SwitchOption::NoExec),
    ("NUMERIC_ROUNDABORT", SwitchOption::NumericRoundAbort),
    ("PARSEONLY", SwitchOption::ParseOnly),
    ("QUOTED_IDENTIFIER", SwitchOption::QuotedIdentifier),
    ("REMOTE_PROC_TRANSACTIONS", SwitchOption::RemoteProcTransactions),
    ("SHOWPLAN_ALL", SwitchOption::ShowplanAll),
    ("SHOWPLAN_TEXT", SwitchOption::ShowplanText),
    ("SHOWPLAN_XML", SwitchOption::ShowplanXml),
    ("XACT_ABORT", SwitchOption::XactAbort),
];

/// The reports of `SET STATISTICS`, by name.
pub(crate) const STATISTICS: &[(&str, StatisticsKind)] = &[
    ("IO", StatisticsKind::Io),
    ("PROFILE", StatisticsKind::Profile),
    ("TIME", StatisticsKind::Time),
    ("XML", StatisticsKind::Xml),
];

/// The options with a value, by name.
pub(crate) const VALUES: &[(&str, ValueOption)] = &[
    ("CONTEXT_INFO", ValueOption::ContextInfo),
    ("DATEFIRST", ValueOption::DateFirst),
    ("DATEFORMAT", ValueOption::DateFormat),
    ("DEADLOCK_PRIORITY", ValueOption::DeadlockPriority),
    ("LANGUAGE", ValueOption::Language),
    ("LOCK_TIMEOUT", ValueOption::LockTimeout),
    ("QUERY_GOVERNOR_COST_LIMIT", ValueOption::QueryGovernorCostLimit),
    ("ROWCOUNT", ValueOption::RowCount),
    ("TEXTSIZE", ValueOption::TextSize),
];

fn find<T: Copy>(list: &[(&str, T)], word: &str) -> Option<T> {
    list.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, found)| *found)
}

impl Parser<'_> {
    pub(super) fn set(&mut self) -> Result<StatementKind> {
        self.advance();
        match self.current.kind {
            TokenKind::Variable => {
                let variable = self.variable()?;
                let Some(operator) = self.assignment_operator_of(self.current) else { return Err(self.unexpected()) };
                self.advance();
                let value = self.expression()?;
                Ok(StatementKind::SetVariable { variable, operator, value })
            }
            TokenKind::Keyword(Keyword::STATISTICS) => {
                self.advance();
                let kinds = self.comma_list(|p| p.named(STATISTICS))?;
                let on = self.on_or_off()?;
                Ok(StatementKind::SetOption(SetOption::Statistics { kinds, on }))
            }
            TokenKind::Keyword(Keyword::IDENTITY_INSERT) => {
                self.advance();
                let table = self.object_name()?;
                let on = self.on_or_off()?;
                Ok(StatementKind::SetOption(SetOption::IdentityInsert { table, on }))
            }
            TokenKind::Keyword(Keyword::TRAN | Keyword::TRANSACTION) => self.isolation_level(),
            TokenKind::Word | TokenKind::Keyword(Keyword::ROWCOUNT | Keyword::TEXTSIZE) => {
                if let Some(option) = find(VALUES, self.current_text()) {
                    self.advance();
                    let value = self.constant_or_word()?;
                    return Ok(StatementKind::SetOption(SetOption::Value { option, value }));
                }
                let options = self.comma_list(|p| p.named(SWITCHES))?;
                let on = self.on_or_off()?;
                Ok(StatementKind::SetOption(SetOption::Switches { options, on }))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// The entry of `list` with the current word as its name.
    fn named<T: Copy>(&mut self, list: &[(&str, T)]) -> Result<T> {
        if self.current.kind != TokenKind::Word {
            return Err(self.unexpected());
        }
        let word = self.current_text();
        match find(list, word) {
            Some(found) => {
                self.advance();
                Ok(found)
            }
            None => Err(errors::UNKNOWN_SET_OPTION.with([&word]).at(self.current.position)),
        }
    }

    fn isolation_level(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect_word("ISOLATION")?;
        self.expect_word("LEVEL")?;
        let level = if self.eat(Keyword::READ) {
            if self.eat_word("UNCOMMITTED") {
                IsolationLevel::ReadUncommitted
            } else {
                self.expect_word("COMMITTED")?;
                IsolationLevel::ReadCommitted
            }
        } else if self.eat_word("REPEATABLE") {
            self.expect(Keyword::READ)?;
            IsolationLevel::RepeatableRead
        } else if self.eat_word("SNAPSHOT") {
            IsolationLevel::Snapshot
        } else {
            self.expect_word("SERIALIZABLE")?;
            IsolationLevel::Serializable
        };
        Ok(StatementKind::SetOption(SetOption::IsolationLevel(level)))
    }
}
