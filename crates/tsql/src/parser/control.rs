//! Control of flow, transactions, and short administrative statements.

use hobt_base::errors;

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

/// The maximum number of values in a `RAISERROR` message.
const RAISERROR_ARGUMENTS_MAX: usize = 20;

impl Parser<'_> {
    /// `IF … ELSE IF … ELSE …`, the whole chain as one node.
    pub(super) fn if_statement(&mut self) -> Result<StatementKind> {
        let mut branches = Vec::new();
        loop {
            self.expect(Keyword::IF)?;
            let condition = self.condition()?;
            let body = self.statement()?;
            branches.push(IfBranch { condition, body });
            // One semicolon is allowed before ELSE.
            if self.at_mark(Mark::Semicolon) && self.next_is(Keyword::ELSE) {
                self.advance();
            }
            if !self.eat(Keyword::ELSE) {
                return Ok(StatementKind::If { branches, otherwise: None });
            }
            if !self.at(Keyword::IF) {
                let otherwise = Some(Box::new(self.statement()?));
                return Ok(StatementKind::If { branches, otherwise });
            }
        }
    }

    pub(super) fn while_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let condition = Box::new(self.condition()?);
        let body = Box::new(self.statement()?);
        Ok(StatementKind::While { condition, body })
    }

    /// `BEGIN`: a block, `TRY`, or a transaction.
    pub(super) fn begin(&mut self) -> Result<StatementKind> {
        self.advance();
        if self.at(Keyword::TRAN) || self.at(Keyword::TRANSACTION) {
            self.advance();
            let name = self.optional_transaction_name();
            let mut mark = None;
            if self.at(Keyword::WITH) && self.next_is_word("MARK") {
                self.advance();
                self.advance();
                let is_text = matches!(self.current.kind, TokenKind::String | TokenKind::NationalString);
                mark = Some(if is_text { self.string()? } else { String::new() });
            }
            return Ok(StatementKind::BeginTransaction { name, mark });
        }
        if self.at_word("TRY") && !self.next_is_mark(Mark::Colon) {
            return self.try_catch();
        }
        let statements = self.statements_to_end()?;
        self.expect(Keyword::END)?;
        Ok(StatementKind::Block { statements })
    }

    fn try_catch(&mut self) -> Result<StatementKind> {
        self.expect_word("TRY")?;
        let body = self.statements_to_end()?;
        self.expect(Keyword::END)?;
        self.expect_word("TRY")?;
        // The two blocks are one statement: no semicolon is allowed between them.
        self.expect(Keyword::BEGIN)?;
        self.expect_word("CATCH")?;
        self.skip_semicolons();
        let handler = if self.at(Keyword::END) { Vec::new() } else { self.statements_to_end()? };
        self.expect(Keyword::END)?;
        self.expect_word("CATCH")?;
        Ok(StatementKind::TryCatch { body, handler })
    }

    fn optional_transaction_name(&mut self) -> Option<TransactionName> {
        match self.current.kind {
            TokenKind::Word if self.next_is_mark(Mark::Colon) => None,
            TokenKind::Word | TokenKind::Quoted => Some(TransactionName::Name(self.take_identifier())),
            TokenKind::Variable => self.variable().ok().map(TransactionName::Variable),
            _ => None,
        }
    }

    /// `COMMIT` or `ROLLBACK` with its optional parts.
    pub(super) fn transaction_end(&mut self) -> Result<Option<TransactionName>> {
        self.advance();
        if self.eat(Keyword::TRAN) || self.eat(Keyword::TRANSACTION) {
            return Ok(self.optional_transaction_name());
        }
        self.eat_word("WORK");
        Ok(None)
    }

    /// `WITH (DELAYED_DURABILITY = ON | OFF)`. A `WITH` without a list begins the next statement.
    pub(super) fn optional_delayed_durability(&mut self) -> Result<Option<bool>> {
        if !(self.at(Keyword::WITH) && self.next_is_mark(Mark::Open)) {
            return Ok(None);
        }
        self.advance();
        let mut delayed = None;
        self.parenthesized_list(|p| {
            p.expect_word("DELAYED_DURABILITY")?;
            p.expect_mark(Mark::Equal)?;
            delayed = Some(p.eat(Keyword::ON));
            if delayed == Some(false) { p.expect(Keyword::OFF).map(drop) } else { Ok(()) }
        })?;
        Ok(delayed)
    }

    pub(super) fn save_transaction(&mut self) -> Result<StatementKind> {
        self.advance();
        if !self.eat(Keyword::TRAN) {
            self.expect(Keyword::TRANSACTION)?;
        }
        match self.optional_transaction_name() {
            Some(name) => Ok(StatementKind::SaveTransaction { name }),
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn return_statement(&mut self) -> Result<StatementKind> {
        self.advance();
        let value = if self.expression_begins() { Some(self.boxed_expression()?) } else { None };
        Ok(StatementKind::Return { value })
    }

    /// Whether the current token begins a value, and not the next statement.
    fn expression_begins(&self) -> bool {
        match self.current.kind {
            TokenKind::Word | TokenKind::Quoted => !self.next_is_mark(Mark::Colon) && !self.at_word("THROW"),
            TokenKind::Keyword(keyword) => matches!(
                keyword,
                Keyword::CASE
                    | Keyword::NULL
                    | Keyword::COALESCE
                    | Keyword::NULLIF
                    | Keyword::CONVERT
                    | Keyword::TRY_CONVERT
                    | Keyword::LEFT
                    | Keyword::RIGHT
                    | Keyword::CURRENT_DATE
                    | Keyword::CURRENT_TIMESTAMP
                    | Keyword::CURRENT_USER
                    | Keyword::SESSION_USER
                    | Keyword::SYSTEM_USER
                    | Keyword::USER
            ),
            TokenKind::Mark(mark) => matches!(mark, Mark::Open | Mark::Plus | Mark::Minus | Mark::Tilde),
            TokenKind::End | TokenKind::Unknown => false,
            _ => true,
        }
    }

    pub(super) fn throw(&mut self) -> Result<StatementKind> {
        self.advance();
        if !matches!(self.current.kind, TokenKind::Integer | TokenKind::Variable) {
            return Ok(StatementKind::Throw { error: None });
        }
        let number = self.constant()?;
        self.expect_mark(Mark::Comma)?;
        let message = self.constant()?;
        self.expect_mark(Mark::Comma)?;
        let state = self.constant()?;
        Ok(StatementKind::Throw { error: Some(Box::new(Throw { number, message, state })) })
    }

    pub(super) fn raiserror(&mut self) -> Result<StatementKind> {
        let position = self.current.position;
        self.advance();
        self.expect_mark(Mark::Open)?;
        let message = self.expression()?;
        self.expect_mark(Mark::Comma)?;
        let severity = self.expression()?;
        self.expect_mark(Mark::Comma)?;
        let state = self.expression()?;
        let mut arguments = Vec::new();
        while self.eat_mark(Mark::Comma) {
            arguments.push(self.expression()?);
        }
        if arguments.len() > RAISERROR_ARGUMENTS_MAX {
            return Err(errors::RAISERROR_ARGUMENT_COUNT.error().at(position));
        }
        self.expect_mark(Mark::Close)?;
        let options = self.with_options()?;
        Ok(StatementKind::RaisError(Box::new(RaisError { message, severity, state, arguments, options })))
    }

    pub(super) fn waitfor(&mut self) -> Result<StatementKind> {
        self.advance();
        let until = self.eat_word("TIME");
        if !until {
            self.expect_word("DELAY")?;
        }
        Ok(StatementKind::WaitFor { until, value: Box::new(self.constant()?) })
    }

    pub(super) fn kill(&mut self) -> Result<StatementKind> {
        self.advance();
        let session = Box::new(self.constant()?);
        let status_only = self.at(Keyword::WITH) && self.next_is_word("STATUSONLY");
        if status_only {
            self.advance();
            self.advance();
        }
        Ok(StatementKind::Kill { session, status_only })
    }

    pub(super) fn dbcc(&mut self) -> Result<StatementKind> {
        self.advance();
        let command = self.identifier()?;
        let mut arguments = Vec::new();
        if self.eat_mark(Mark::Open) {
            if !self.at_mark(Mark::Close) {
                arguments = self.comma_list(|p| {
                    if p.at_identifier() {
                        Ok(DbccArgument::Name(p.object_name()?))
                    } else {
                        Ok(DbccArgument::Value(p.constant()?))
                    }
                })?;
            }
            self.expect_mark(Mark::Close)?;
        }
        let options = if self.at(Keyword::WITH) && !self.next_is_cte() { self.with_options()? } else { Vec::new() };
        Ok(StatementKind::Dbcc(Box::new(Dbcc { command, arguments, options })))
    }

    /// Whether `WITH`, the current token, begins common table expressions and not options.
    fn next_is_cte(&self) -> bool {
        let behind_name = self.ahead().nth(1).map(|token| token.kind);
        matches!(behind_name, Some(TokenKind::Keyword(Keyword::AS)))
    }

    /// `BACKUP` and `RESTORE`.
    pub(super) fn backup(&mut self, restore: bool) -> Result<StatementKind> {
        self.advance();
        let what = match self.current.kind {
            TokenKind::Word | TokenKind::Keyword(Keyword::DATABASE) => self.take_identifier(),
            _ => return Err(self.unexpected()),
        };
        let source = if restore { Keyword::FROM } else { Keyword::TO };
        let mut database = None;
        let mut files = Vec::new();
        if !self.at(source) {
            database = self.optional_transaction_name();
            if database.is_none() {
                return Err(self.unexpected());
            }
            while !self.at(source) && matches!(self.current.kind, TokenKind::Word | TokenKind::Keyword(Keyword::FILE)) {
                files.push(self.option_item()?);
                self.eat_mark(Mark::Comma);
            }
        }
        let devices = if self.eat(source) { self.comma_list(Parser::backup_device)? } else { Vec::new() };
        let mut options = Vec::new();
        if self.eat(Keyword::WITH) {
            options = self.comma_list(Parser::backup_option)?;
        }
        Ok(StatementKind::Backup(Box::new(Backup { restore, what, database, files, devices, options })))
    }

    /// The rest of `BUFFER POOL EXTENSION`, from `POOL`.
    fn buffer_pool_extension(&mut self) -> Result<ServerConfiguration> {
        self.expect_word("POOL")?;
        self.expect_word("EXTENSION")?;
        if self.eat(Keyword::OFF) {
            return Ok(ServerConfiguration::NoBufferPoolExtension);
        }
        self.expect(Keyword::ON)?;
        self.expect_mark(Mark::Open)?;
        self.expect_word("FILENAME")?;
        self.expect_mark(Mark::Equal)?;
        let file_name = self.string()?;
        self.expect_mark(Mark::Comma)?;
        self.expect_word("SIZE")?;
        self.expect_mark(Mark::Equal)?;
        let size = self.file_size(false)?;
        self.expect_mark(Mark::Close)?;
        Ok(ServerConfiguration::BufferPoolExtension { file_name, size })
    }

    fn backup_device(&mut self) -> Result<BackupDevice> {
        if self.next_is_mark(Mark::Equal) && matches!(self.current.kind, TokenKind::Word | TokenKind::Keyword(_)) {
            let kind = self.current_text().to_ascii_uppercase();
            self.advance();
            self.advance();
            return Ok(BackupDevice::Physical { kind, place: self.constant()? });
        }
        Ok(BackupDevice::Name(self.identifier()?))
    }

    fn backup_option(&mut self) -> Result<BackupOption> {
        if self.at_word("STOPATMARK") || self.at_word("STOPBEFOREMARK") {
            let is_before = self.at_word("STOPBEFOREMARK");
            self.advance();
            self.expect_mark(Mark::Equal)?;
            let mark = self.constant()?;
            let after = if self.eat_word("AFTER") { Some(self.constant()?) } else { None };
            return Ok(BackupOption::Mark { is_before, mark, after });
        }
        if !self.eat_word("MOVE") {
            let is_variable = self.next_is_mark(Mark::Equal)
                && self.ahead().nth(1).is_some_and(|token| token.kind == TokenKind::Variable);
            if is_variable && matches!(self.current.kind, TokenKind::Word | TokenKind::Keyword(_)) {
                let name = self.current_text().to_ascii_uppercase();
                self.advance();
                self.advance();
                return Ok(BackupOption::Variable { name, value: self.constant()? });
            }
            return Ok(BackupOption::Item(self.option_item()?));
        }
        let string = |p: &mut Self| match p.literal()? {
            Some(Expression::Literal { value, .. }) => Ok(value),
            _ => Err(p.unexpected()),
        };
        let file = string(self)?;
        self.expect(Keyword::TO)?;
        let path = string(self)?;
        Ok(BackupOption::Move { file, path })
    }

    /// The rest of `ALTER`, from `SERVER`.
    pub(super) fn alter_server(&mut self) -> Result<StatementKind> {
        self.advance();
        self.expect_word("CONFIGURATION")?;
        self.expect(Keyword::SET)?;
        if self.eat_word("BUFFER") {
            return Ok(StatementKind::AlterServerConfiguration(self.buffer_pool_extension()?));
        }
        self.expect_word("PROCESS")?;
        self.expect_word("AFFINITY")?;
        let node = self.eat_word("NUMANODE");
        if !node {
            self.expect_word("CPU")?;
        }
        self.expect_mark(Mark::Equal)?;
        if !node && self.eat_word("AUTO") {
            return Ok(StatementKind::AlterServerConfiguration(ServerConfiguration::AffinityAuto));
        }
        let ranges = self.comma_list(|p| {
            let first = p.integer()?;
            let last = if p.eat(Keyword::TO) { p.integer()? } else { first };
            Ok((first, last))
        })?;
        Ok(StatementKind::AlterServerConfiguration(if node {
            ServerConfiguration::AffinityNumaNode(ranges)
        } else {
            ServerConfiguration::AffinityCpu(ranges)
        }))
    }
}
