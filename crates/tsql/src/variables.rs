//! Finds the variables that a text uses without declaring them before.
//!
//! SQL Server reports these before anything of the text runs, whether the tables used with them exist or not. The
//! tokens give the positions of variables. The tree tells which of them are declarations, and which are not variables
//! but names of a procedure's parameters (`EXEC p @name = …`). Whether a variable is used as a table matters only for
//! the error, so the parser is asked only if there is one.

use std::collections::HashSet;

use hobt_base::{Position, SqlError, errors};

use crate::ast::{Execute, InsertSource, Statement, StatementKind, VariableName};
use crate::lexer::{Lexer, TokenKind};
use crate::parser::table_variables;

/// What the tree tells about a text's variables.
#[derive(Default)]
struct Places {
    declarations: HashSet<Position>,
    names_of_parameters: HashSet<Position>,
}

/// Checks that each variable of `text`, whose tree is `statements`, is declared before it is used, or `is_known`.
///
/// # Errors
/// 137 for the first one that is not, 1087 if a table's name is expected there.
pub fn check_variables(text: &str, statements: &[Statement], is_known: impl Fn(&str) -> bool) -> Result<(), SqlError> {
    if !text.contains('@') {
        return Ok(());
    }
    let mut places = Places::default();
    places.of_statements(statements);
    let mut declared = HashSet::new();
    let mut lexer = Lexer::new(text, true);
    while let Ok(token) = lexer.next_token() {
        if token.kind == TokenKind::End {
            break;
        }
        if token.kind != TokenKind::Variable || places.names_of_parameters.contains(&token.position) {
            continue;
        }
        let name = &text[token.start as usize..token.end as usize];
        let lower = name.to_lowercase();
        if places.declarations.contains(&token.position) {
            declared.insert(lower);
        } else if !declared.contains(&lower) && !is_known(name) {
            return Err(undeclared(name, table_variables(text).contains(&token.position)).at(token.position));
        }
    }
    Ok(())
}

/// The error for an undeclared variable.
fn undeclared(name: &str, is_table: bool) -> SqlError {
    match is_table {
        true => errors::UNDECLARED_TABLE_VARIABLE.with([&name]),
        false => errors::UNDECLARED_VARIABLE.with([&name]),
    }
}

impl Places {
    fn of_statements(&mut self, statements: &[Statement]) {
        statements.iter().for_each(|statement| self.of_statement(statement));
    }

    fn of_statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Block { statements } => self.of_statements(statements),
            StatementKind::If { branches, otherwise } => {
                branches.iter().for_each(|branch| self.of_statement(&branch.body));
                otherwise.iter().for_each(|otherwise| self.of_statement(otherwise));
            }
            StatementKind::While { body, .. } => self.of_statement(body),
            StatementKind::TryCatch { body, handler } => {
                self.of_statements(body);
                self.of_statements(handler);
            }
            StatementKind::Declare { declarations } => {
                self.declarations.extend(declarations.iter().map(|declaration| declaration.name.position));
            }
            StatementKind::Execute(call) => self.of_call(call),
            StatementKind::Insert(insert) => {
                if let InsertSource::Execute { call } = &insert.source {
                    self.of_call(call);
                }
            }
            _ => {}
        }
    }

    fn of_call(&mut self, call: &Execute) {
        let names = call.arguments.iter().filter_map(|argument| argument.name.as_ref());
        self.names_of_parameters.extend(names.map(|VariableName { position, .. }| *position));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<(), (i32, String)> {
        let batch = crate::parse_batch(text).expect("a batch that parses");
        let checked = check_variables(text, &batch.statements, |name| name == "@known");
        checked.map_err(|error| (error.number, error.message))
    }

    #[test]
    fn a_variable_is_declared_before_it_is_used() {
        assert_eq!(found("DECLARE @a int = @known, @b int = @A SELECT @b, @@ROWCOUNT, '@no' -- @no"), Ok(()));
        assert_eq!(found("SELECT @a DECLARE @a int").unwrap_err().0, 137);
        assert_eq!(found("IF 1 = 0 BEGIN DECLARE @a int END ELSE WHILE @a > 0 SET @a = 1"), Ok(()));
        assert_eq!(found("EXEC p @a = 1, @b = @c").unwrap_err().1, "Must declare the scalar variable \"@c\".");
        assert_eq!(found("INSERT t EXEC p @a = @known OUTPUT"), Ok(()));
        assert_eq!(found("INSERT @t SELECT 1").unwrap_err().0, 1087);
        assert_eq!(found("DECLARE @t TABLE (a int) SELECT 1 FROM @t AS x JOIN @u AS y ON 1 = 1").unwrap_err().0, 1087);
    }

    #[test]
    fn a_variable_in_the_place_of_a_table_is_told_as_one() {
        let numbers = |texts: &[&str]| texts.iter().map(|text| found(text).unwrap_err().0).collect::<Vec<_>>();
        let tables = [
            "DELETE @no",
            "DELETE TOP (1) @no",
            "DELETE FROM @no",
            "UPDATE TOP (1) @no SET a = 1",
            "INSERT TOP (1) @no SELECT 1",
            "SELECT 1 FROM t AS o, @no AS x",
            "SELECT 1 FROM (t AS o CROSS JOIN @no AS x)",
            "SELECT (SELECT COUNT(*) FROM f(1, 2) AS o, @no AS x)",
            "MERGE @no AS t USING s ON t.a = s.a WHEN MATCHED THEN DELETE;",
            "MERGE TOP (1) INTO t USING @no AS s ON t.a = s.a WHEN MATCHED THEN DELETE;",
            "DELETE t OUTPUT deleted.a INTO @no",
        ];
        assert_eq!(numbers(&tables), [1087; 11]);
        let values = [
            "DELETE TOP (@no) t",
            "SELECT 1 FROM f(1, @no) AS x, t",
            "SELECT 1 WHERE 1 IS DISTINCT FROM @no",
            "SELECT TRIM('x' FROM @no)",
            "UPDATE t SET @no = 1",
        ];
        assert_eq!(numbers(&values), [137; 5]);
    }
}
