//! Recognises statements, and parses lists of statements.

use hobt_base::{Position, errors};

use super::{Parser, Result};
use crate::ast::*;
use crate::keyword::Keyword;
use crate::lexer::{Mark, TokenKind};

impl Parser<'_> {
    /// All statements to the end of the text.
    pub(super) fn batch(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        self.skip_semicolons();
        self.first = self.current.start;
        // Only the first statement of a batch may omit EXEC.
        if self.at_identifier() && !self.next_is_mark(Mark::Colon) && !self.at_contextual_statement() {
            let mark = self.mark();
            let call = self.procedure_call(mark, None)?;
            let kind = StatementKind::Execute(Box::new(call));
            statements.push(Statement { kind, span: self.span(mark) });
            self.end_statement()?;
        }
        while self.current.kind != TokenKind::End {
            statements.push(self.statement()?);
            self.end_statement()?;
        }
        self.expect_end()?;
        Ok(statements)
    }

    pub(super) fn skip_semicolons(&mut self) {
        while self.eat_mark(Mark::Semicolon) {}
    }

    /// The semicolons after a statement. One is required before `WITH`, which could otherwise belong to the statement.
    pub(super) fn end_statement(&mut self) -> Result<()> {
        if self.at(Keyword::WITH) {
            return Err(errors::SEMICOLON_BEFORE_WITH.with([&self.current_text()]).at(self.current.position));
        }
        self.skip_semicolons();
        Ok(())
    }

    fn at_contextual_statement(&self) -> bool {
        self.at_word("THROW") || self.at_copy()
    }

    /// Statements up to `END`, which is not taken; at least one.
    pub(super) fn statements_to_end(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        self.skip_semicolons();
        while statements.is_empty() || !self.at(Keyword::END) {
            statements.push(self.statement()?);
            self.end_statement()?;
        }
        Ok(statements)
    }

    /// One statement, without the semicolon after it.
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let mark = self.mark();
        let kind = self.nested(Parser::statement_kind)?;
        let span = self.span(mark);
        if span.start != self.first {
            check_may_follow(&kind, span.position)?;
        }
        Ok(Statement { kind, span })
    }

    fn statement_kind(&mut self) -> Result<StatementKind> {
        let keyword = match self.current.kind {
            TokenKind::Keyword(keyword) => keyword,
            TokenKind::Mark(Mark::Open) => return self.select_statement(),
            TokenKind::Word | TokenKind::Quoted if self.next_is_mark(Mark::Colon) => {
                let name = self.take_identifier();
                self.advance();
                return Ok(StatementKind::Label { name });
            }
            TokenKind::Word if self.at_word("THROW") => return self.throw(),
            TokenKind::Word if self.at_copy() => return self.copy_into(),
            _ => return Err(self.unexpected()),
        };
        match keyword {
            Keyword::SELECT => self.select_statement(),
            Keyword::WITH => self.with_statement(),
            Keyword::INSERT => self.insert(Vec::new()),
            Keyword::UPDATE if self.next_is(Keyword::STATISTICS) => self.update_statistics(),
            Keyword::UPDATE => self.update(Vec::new()),
            Keyword::DELETE => self.delete(Vec::new()),
            Keyword::MERGE => self.merge(Vec::new()),
            Keyword::TRUNCATE => self.truncate_table(),
            Keyword::CREATE => self.create(),
            Keyword::ALTER => self.alter(),
            Keyword::DROP => self.drop_statement(),
            Keyword::DECLARE => self.declare(),
            Keyword::SET => self.set(),
            Keyword::IF => self.if_statement(),
            Keyword::WHILE => self.while_statement(),
            Keyword::BEGIN => self.begin(),
            Keyword::RETURN => self.return_statement(),
            Keyword::EXEC | Keyword::EXECUTE => Ok(StatementKind::Execute(Box::new(self.execute()?))),
            _ => self.lesser_statement(keyword),
        }
    }

    fn lesser_statement(&mut self, keyword: Keyword) -> Result<StatementKind> {
        match keyword {
            Keyword::BREAK => {
                self.advance();
                Ok(StatementKind::Break)
            }
            Keyword::CONTINUE => {
                self.advance();
                Ok(StatementKind::Continue)
            }
            Keyword::GOTO => {
                self.advance();
                Ok(StatementKind::Goto { label: self.identifier()? })
            }
            Keyword::USE => {
                self.advance();
                Ok(StatementKind::Use { database: self.identifier()? })
            }
            Keyword::PRINT => {
                self.advance();
                Ok(StatementKind::Print { value: self.boxed_expression()? })
            }
            Keyword::RAISERROR => self.raiserror(),
            Keyword::WAITFOR => self.waitfor(),
            Keyword::COMMIT => {
                let name = self.transaction_end()?;
                Ok(StatementKind::Commit { name, delayed_durability: self.optional_delayed_durability()? })
            }
            Keyword::ROLLBACK => {
                let name = self.transaction_end()?;
                Ok(StatementKind::Rollback { name })
            }
            Keyword::SAVE => self.save_transaction(),
            Keyword::DBCC => self.dbcc(),
            Keyword::CHECKPOINT => {
                self.advance();
                let seconds = if self.current.kind == TokenKind::Integer { Some(self.integer()?) } else { None };
                Ok(StatementKind::Checkpoint { seconds })
            }
            Keyword::KILL => self.kill(),
            Keyword::BULK => self.bulk_insert(),
            Keyword::BACKUP | Keyword::RESTORE => self.backup(keyword == Keyword::RESTORE),
            Keyword::RECONFIGURE => {
                self.advance();
                let with_override = self.at(Keyword::WITH) && self.next_is_word("OVERRIDE");
                if with_override {
                    self.advance();
                    self.advance();
                }
                Ok(StatementKind::Reconfigure { with_override })
            }
            _ => Err(self.unexpected()),
        }
    }

    /// `CREATE [OR ALTER] …`.
    fn create(&mut self) -> Result<StatementKind> {
        self.expect(Keyword::CREATE)?;
        if self.eat(Keyword::OR) {
            self.expect(Keyword::ALTER)?;
            return self.module(CreateMode::CreateOrAlter);
        }
        match self.current.kind {
            TokenKind::Keyword(Keyword::TABLE) => self.create_table(),
            TokenKind::Keyword(Keyword::UNIQUE | Keyword::CLUSTERED | Keyword::NONCLUSTERED | Keyword::INDEX) => {
                self.create_index()
            }
            TokenKind::Word if self.at_word("COLUMNSTORE") => self.create_index(),
            TokenKind::Word if self.at_word("PARTITION") => self.create_partition(),
            TokenKind::Word if self.at_word("SEQUENCE") => self.sequence(false),
            TokenKind::Keyword(Keyword::DATABASE) => self.create_database(),
            TokenKind::Keyword(Keyword::SCHEMA) => self.create_schema(),
            TokenKind::Keyword(Keyword::STATISTICS) => self.create_statistics(),
            TokenKind::Keyword(Keyword::EXTERNAL) => self.create_external(),
            _ => self.module(CreateMode::Create),
        }
    }

    fn alter(&mut self) -> Result<StatementKind> {
        self.expect(Keyword::ALTER)?;
        match self.current.kind {
            TokenKind::Keyword(Keyword::TABLE) => self.alter_table(),
            TokenKind::Keyword(Keyword::INDEX) => self.alter_index(),
            TokenKind::Keyword(Keyword::DATABASE) => self.alter_database(),
            TokenKind::Word if self.at_word("PARTITION") => self.alter_partition(),
            TokenKind::Word if self.at_word("SEQUENCE") => self.sequence(true),
            TokenKind::Word if self.at_word("SERVER") => self.alter_server(),
            _ => self.module(CreateMode::Alter),
        }
    }

    /// A view, function or procedure.
    fn module(&mut self, mode: CreateMode) -> Result<StatementKind> {
        match self.current.kind {
            TokenKind::Keyword(Keyword::VIEW) => self.create_view(mode),
            TokenKind::Keyword(Keyword::FUNCTION) => self.create_function(mode),
            TokenKind::Keyword(Keyword::PROC | Keyword::PROCEDURE) => self.create_procedure(mode),
            _ => Err(self.unexpected()),
        }
    }

    fn drop_statement(&mut self) -> Result<StatementKind> {
        self.expect(Keyword::DROP)?;
        if self.at(Keyword::EXTERNAL) {
            let kind = self.external_kind()?;
            return self.drop_of(kind);
        }
        let kind = match self.current.kind {
            TokenKind::Keyword(Keyword::INDEX) => return self.drop_index(),
            TokenKind::Keyword(Keyword::TABLE) => ObjectKind::Table,
            TokenKind::Keyword(Keyword::VIEW) => ObjectKind::View,
            TokenKind::Keyword(Keyword::FUNCTION) => ObjectKind::Function,
            TokenKind::Keyword(Keyword::PROC | Keyword::PROCEDURE) => ObjectKind::Procedure,
            TokenKind::Keyword(Keyword::DATABASE) => ObjectKind::Database,
            TokenKind::Keyword(Keyword::SCHEMA) => ObjectKind::Schema,
            TokenKind::Keyword(Keyword::STATISTICS) => ObjectKind::Statistics,
            TokenKind::Keyword(Keyword::TRIGGER) => ObjectKind::Trigger,
            TokenKind::Word if self.at_word("SEQUENCE") => ObjectKind::Sequence,
            TokenKind::Word if self.at_word("SYNONYM") => ObjectKind::Synonym,
            TokenKind::Word if self.at_word("TYPE") => ObjectKind::Type,
            TokenKind::Word if self.at_word("PARTITION") && self.next_is(Keyword::FUNCTION) => {
                self.advance();
                ObjectKind::PartitionFunction
            }
            TokenKind::Word if self.at_word("PARTITION") && self.next_is_word("SCHEME") => {
                self.advance();
                ObjectKind::PartitionScheme
            }
            _ => return Err(self.unexpected()),
        };
        self.advance();
        self.drop_of(kind)
    }

    /// `[IF EXISTS] name, …`, behind the kind.
    fn drop_of(&mut self, kind: ObjectKind) -> Result<StatementKind> {
        let if_exists = self.if_exists()?;
        let names = self.comma_list(Parser::object_name)?;
        Ok(StatementKind::Drop(Box::new(Drop { kind, if_exists, names })))
    }

    /// `IF EXISTS`.
    pub(super) fn if_exists(&mut self) -> Result<bool> {
        if !self.eat(Keyword::IF) {
            return Ok(false);
        }
        self.expect(Keyword::EXISTS)?;
        Ok(true)
    }
}

/// Refuses a statement after another one if it must be the first in its batch: one that creates a module, because the
/// batch is its text, and `CREATE SCHEMA`, as in SQL Server.
///
/// # Errors
/// 111.
fn check_may_follow(kind: &StatementKind, position: Position) -> Result<()> {
    let (mode, object) = match kind {
        StatementKind::CreateSchema { .. } => (CreateMode::Create, "SCHEMA"),
        StatementKind::CreateView(view) => (view.mode, "VIEW"),
        StatementKind::CreateFunction(function) => (function.mode, "FUNCTION"),
        StatementKind::CreateProcedure(procedure) => (procedure.mode, "PROCEDURE"),
        _ => return Ok(()),
    };
    let verb = match mode {
        CreateMode::Create => "CREATE",
        CreateMode::Alter => "ALTER",
        CreateMode::CreateOrAlter => "CREATE/ALTER",
    };
    Err(errors::NOT_FIRST_IN_BATCH.with([&verb, &object]).at(position))
}
