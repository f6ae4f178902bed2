//! What a batch is refused for before its first statement runs.
//!
//! SQL Server compiles a batch whole: a column that an existing table does not have stops it before anything was done.
//! A missing table does not (deferred name resolution), for a statement before may make it. So here, too, the queries
//! of a batch are bound once before it runs, for the sake of their columns' names alone; every other error waits for
//! its turn. Behind a statement that may change what names mean, nothing is looked at. Procedures are left out.

use hobt_base::{SqlError, number};
use hobt_tsql::ast::{Declaration, DeclarationKind, InsertSource, Statement, StatementKind};
use hobt_types::{TypedValue, Value};

use super::failure::{Failure, Reach};
use super::frame::Frame;
use super::insert::with_tables_of;
use super::program::{Program, Step};
use super::run::Interpreter;
use crate::binder::{BindOptions, Binder};

impl Interpreter<'_> {
    /// Looks for columns that are not there.
    ///
    /// # Errors
    /// 207, 209 and 4104, as errors of binding.
    pub(super) fn check_names(&mut self, program: &Program<'_>) -> Result<(), Failure> {
        if program.steps.len() < 2 || self.frame().procedure.is_some() {
            return Ok(());
        }
        let mut sketch = self.frame().sketch();
        for placed in &program.steps {
            let Step::Run(statement) = placed.step else { continue };
            let checked = match &statement.kind {
                StatementKind::Declare { declarations } => {
                    self.sketch_variables(declarations, &mut sketch);
                    Ok(())
                }
                StatementKind::Select(_)
                | StatementKind::Insert(_)
                | StatementKind::Update(_)
                | StatementKind::Delete(_)
                | StatementKind::Merge(_) => self.bind_only(statement, &sketch),
                kind if keeps_names(kind) => Ok(()),
                _ => return Ok(()),
            };
            if let Err(error) = checked
                && matches!(
                    error.number,
                    number::INVALID_COLUMN | number::AMBIGUOUS_COLUMN | number::MULTI_PART_IDENTIFIER
                )
            {
                let mut failure = Failure::of_binding(error.at(statement.span.position));
                if self.frame().protected {
                    // For the caller's CATCH it is an error of this one statement.
                    failure.reach = Reach::Statement;
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn sketch_variables(&self, declarations: &[Declaration], sketch: &mut Frame) {
        for declaration in declarations {
            if let DeclarationKind::Scalar { data_type, .. } = &declaration.kind
                && let Ok(sql_type) = self.data_type(data_type)
            {
                // A variable that cannot be declared is found when its turn comes.
                let _declared = sketch.declare(&declaration.name.value, TypedValue { sql_type, value: Value::Null });
            }
        }
    }

    fn bind_only(&mut self, statement: &Statement, sketch: &Frame) -> Result<(), SqlError> {
        if let StatementKind::Insert(insert) = &statement.kind {
            self.insert_target(insert).map_err(|failure| failure.error)?;
        }
        let names = self.names_alone().over(sketch);
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

/// Whether names mean the same behind a statement as before it.
fn keeps_names(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::SetVariable { .. }
            | StatementKind::SetOption(_)
            | StatementKind::Print { .. }
            | StatementKind::RaisError(_)
            | StatementKind::Throw { .. }
            | StatementKind::WaitFor { .. }
            | StatementKind::TruncateTable { .. }
            | StatementKind::Checkpoint { .. }
    )
}
