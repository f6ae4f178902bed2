//! Errors that reject a batch before its first statement runs.
//!
//! SQL Server compiles a batch as a whole. A column that an existing table does not have stops the batch before
//! anything is done, regardless of preceding statements. A missing table does not (deferred name resolution), because a
//! preceding statement may create it. Accordingly, the queries of a batch are bound once before it runs, only to check
//! their names. Other errors are raised when their statement runs. Names are resolved as before the batch, except names
//! that the batch creates or drops: according to the manual, a table cannot be altered and its new columns used in one
//! batch. `USE` also takes effect during compilation. Procedures are not checked.

use std::collections::HashSet;

use hobt_base::{Position, SqlError, number};
use hobt_tsql::ast::{
    Condition, Declaration, DeclarationKind, Expression, InsertSource, Statement, StatementKind, TargetName,
};
use hobt_types::{TypedValue, Value};

use super::failure::{Failure, Reach};
use super::frame::Frame;
use super::insert::with_tables_of;
use super::program::{Program, Step};
use super::query::into_of;
use crate::interpreter::Interpreter;
use hobt_binder::{BindOptions, Binder};

/// What is known of a batch up to the statement being checked.
struct Sketch {
    /// Its variables, without values.
    frame: Frame,
    /// The names, in lower case, that it creates or drops: their later meaning is not known yet.
    made: HashSet<String>,
}

impl Interpreter<'_> {
    /// Checks for missing columns, and for other uses that the existing tables do not allow.
    ///
    /// # Errors
    /// Those of [`stops_batch`], as errors of binding.
    pub(super) fn check_names(&mut self, program: &Program<'_>) -> Result<(), Failure> {
        if program.steps.len() < 2 || self.frame().procedure.is_some() {
            return Ok(());
        }
        let database = self.state.database.clone();
        let checked = self.check_steps(program);
        self.state.database = database;
        checked.map_err(|error| {
            let mut failure = Failure::of_binding(error);
            if self.frame().protected {
                // For the caller's CATCH it is an error of this statement only.
                failure.reach = Reach::Statement;
            }
            failure
        })
    }

    fn check_steps(&mut self, program: &Program<'_>) -> Result<(), SqlError> {
        let mut sketch = Sketch { frame: self.frame().sketch(), made: HashSet::new() };
        for placed in &program.steps {
            let (checked, position) = match placed.step {
                Step::Run(statement) => {
                    if let StatementKind::Use { database } = &statement.kind {
                        // A missing database is reported when the statement runs, and so are errors after it.
                        let Ok(found) = self.environment.instance.database(&database.value) else { return Ok(()) };
                        self.state.database = found;
                    }
                    (self.check_statement(statement, &mut sketch), statement.span.position)
                }
                Step::Unless { condition, position, .. } => {
                    (self.check_condition(condition, position, &sketch), position)
                }
                Step::Return { value: Some(value), position } => (self.check_values([value], &sketch), position),
                Step::Jump(_) | Step::Return { value: None, .. } => continue,
            };
            if let Err(error) = checked
                && stops_batch(&error)
            {
                return Err(error.at(position));
            }
        }
        Ok(())
    }

    fn check_statement(&mut self, statement: &Statement, sketch: &mut Sketch) -> Result<(), SqlError> {
        match &statement.kind {
            StatementKind::Declare { declarations } => self.check_declarations(declarations, sketch),
            StatementKind::SetVariable { value, .. } => self.check_values([value], sketch),
            StatementKind::Print { value } => self.check_values([&**value], sketch),
            StatementKind::CreateTable(create) => {
                sketch.note_made(&create.name.name.value);
                Ok(())
            }
            StatementKind::CreateExternalTable(create) => {
                sketch.note_made(&create.name.name.value);
                Ok(())
            }
            StatementKind::Drop(drop) => {
                drop.names.iter().for_each(|name| sketch.note_made(&name.name.value));
                Ok(())
            }
            StatementKind::Select(select) => {
                let checked = self.bind_only(statement, sketch);
                if let Some(into) = into_of(&select.query) {
                    sketch.note_made(&into.name.name.value);
                }
                checked
            }
            StatementKind::Insert(_)
            | StatementKind::Update(_)
            | StatementKind::Delete(_)
            | StatementKind::Merge(_) => self.bind_only(statement, sketch),
            _ => Ok(()),
        }
    }

    fn check_declarations(&mut self, declarations: &[Declaration], sketch: &mut Sketch) -> Result<(), SqlError> {
        for declaration in declarations {
            let DeclarationKind::Scalar { data_type, value } = &declaration.kind else { continue };
            let checked = self.check_values(value.as_ref(), sketch);
            // A variable that cannot be declared is reported when the statement runs.
            if let Ok(sql_type) = self.data_type(data_type) {
                let value = TypedValue { sql_type, value: Value::Null };
                let _declared = sketch.frame.declare(&declaration.name.value, value);
            }
            checked?;
        }
        Ok(())
    }

    fn check_condition(&self, condition: &Condition, position: Position, sketch: &Sketch) -> Result<(), SqlError> {
        let names = self.names_alone().looking(&sketch.frame, &sketch.made);
        let binder = Binder::new(&names, BindOptions::default());
        binder.bind_condition(condition, position).map(|_| ())
    }

    /// Checks values outside queries: only a query within them can name columns.
    fn check_values<'e>(
        &self,
        values: impl IntoIterator<Item = &'e Expression>,
        sketch: &Sketch,
    ) -> Result<(), SqlError> {
        let may_hold_query = |value: &&Expression| {
            !matches!(value, Expression::Literal { .. } | Expression::Variable { .. } | Expression::Column { .. })
        };
        let mut values = values.into_iter().filter(may_hold_query).peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let names = self.names_alone().looking(&sketch.frame, &sketch.made);
        let binder = Binder::new(&names, BindOptions::default());
        values.try_for_each(|value| binder.bind_scalar(value).map(|_| ()))
    }

    fn bind_only(&mut self, statement: &Statement, sketch: &Sketch) -> Result<(), SqlError> {
        if let StatementKind::Insert(insert) = &statement.kind {
            let is_made = matches!(&insert.target.name, TargetName::Object(name) if sketch.makes(&name.name.value));
            if !is_made {
                self.insert_target(insert).map_err(|failure| failure.error)?;
            }
            if let InsertSource::Values { rows } = &insert.source {
                return self.check_values(rows.iter().flatten(), sketch);
            }
        }
        let names = self.names_alone().looking(&sketch.frame, &sketch.made);
        let binder = Binder::new(&names, BindOptions::default());
        match &statement.kind {
            StatementKind::Select(select) if super::query::assigns(&select.query) => {
                binder.bind_assignments(&select.query).map(|_| ())
            }
            StatementKind::Select(select) => binder.bind_query(&select.query).map(|_| ()),
            StatementKind::Insert(insert) => match &insert.source {
                InsertSource::Query { query } => binder.bind_query(&with_tables_of(insert, query)).map(|_| ()),
                _ => Ok(()),
            },
            StatementKind::Update(update) => binder.bind_update(update, None).map(|_| ()),
            StatementKind::Delete(delete) => binder.bind_delete(delete, None).map(|_| ()),
            StatementKind::Merge(merge) => binder.bind_merge(merge, None).map(|_| ()),
            _ => Ok(()),
        }
    }
}

impl Sketch {
    fn note_made(&mut self, name: &str) {
        self.made.insert(name.to_lowercase());
    }

    fn makes(&self, name: &str) -> bool {
        self.made.contains(&name.to_lowercase())
    }
}

/// Whether an error of binding stops the batch before it runs: errors of column names and of grouping do.
fn stops_batch(error: &SqlError) -> bool {
    matches!(
        error.number,
        number::INVALID_COLUMN
            | number::AMBIGUOUS_COLUMN
            | number::MULTI_PART_IDENTIFIER
            | number::NOT_IN_GROUP_BY
            | number::NOT_IN_GROUP_BY_HAVING
            | number::EXPLICIT_CONVERSION
    )
}
