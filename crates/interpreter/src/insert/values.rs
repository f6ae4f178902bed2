//! Rows of values: `INSERT … VALUES`, and complete rows built from the values of some columns.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::TableColumn;
use hobt_tsql::ast::{Expression, Insert};
use hobt_types::{SqlType, TypedValue, Value};

use super::Write;
use crate::failure::Failure;
use crate::identity::{identity_of, integer_of_type};
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::stored_table::{nullable_schema, stored_batch};
use hobt_binder::{BindOptions, Binder, BoundExpr};
use hobt_functions::batch_of_values;
use hobt_operators::insert_rows;
use hobt_table::StatementRun;

/// Identity values that a statement gives explicitly.
#[derive(Default)]
pub(super) struct GivenIdentities {
    last: Option<i128>,
    /// The least and the greatest.
    ends: Option<(i128, i128)>,
}

impl GivenIdentities {
    /// Notes those of complete rows.
    pub(super) fn note(&mut self, target: &Target, rows: &[Vec<Value>]) {
        let Some((place, _)) = target.explicit_identity() else { return };
        for value in rows.iter().filter_map(|row| identity_of(&row[place])) {
            self.last = Some(value);
            let (least, greatest) = self.ends.unwrap_or((value, value));
            self.ends = Some((least.min(value), greatest.max(value)));
        }
    }
}

impl Interpreter<'_> {
    pub(super) fn insert_values(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        rows: &[Vec<Expression>],
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let position = rows.first().and_then(|row| row.first()).map(Expression::position).unwrap_or_default();
        if rows.iter().any(|row| row.len() != rows[0].len()) {
            return Err(Failure::of_binding(errors::VALUES_COLUMN_COUNT.error().at(position)));
        }
        if !target.is_explicit && rows[0].len() != target.listed().len() {
            return Err(Failure::of_binding(target.wrong_width(rows[0].len()).at(position)));
        }
        let mut whole = Vec::with_capacity(rows.len());
        for row in rows {
            self.sequences.borrow_mut().next_row();
            let (values, deferred) = self.listed_values(run, target, row)?;
            whole.push(self.whole_row_of(run, target, row, values, &deferred)?);
        }
        self.insert_whole(run, insert, write, whole)
    }

    /// Writes complete rows, as many as `TOP` allows, and returns them through `OUTPUT`.
    pub(super) fn insert_whole(
        &mut self,
        run: &Arc<StatementRun>,
        insert: &Insert,
        write: &Write,
        mut rows: Vec<Vec<Value>>,
    ) -> Result<u64, Failure> {
        let wanted = self.rows_wanted(run, insert, rows.len() as u64)?;
        rows.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
        let mut given = GivenIdentities::default();
        given.note(&write.target, &rows);
        self.note_given(&given);
        let count = self.write_rows(run, write, &rows)?;
        self.reseed_by(run, &write.target, &given)?;
        Ok(count)
    }

    /// How many of `rows` rows `TOP` allows.
    pub(super) fn rows_wanted(&self, run: &Arc<StatementRun>, insert: &Insert, rows: u64) -> Result<u64, Failure> {
        let Some(top) = &insert.top else { return Ok(rows) };
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        Ok(binder.bind_row_limit(top).map_err(Failure::of_binding)?.of(rows))
    }

    /// Makes the last given identity value that of `SCOPE_IDENTITY`.
    pub(super) fn note_given(&mut self, given: &GivenIdentities) {
        if let Some(last) = given.last {
            self.note_identity(last);
        }
    }

    /// Makes the identity continue behind the given values.
    pub(super) fn reseed_by(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        given: &GivenIdentities,
    ) -> Result<(), Failure> {
        self.reseed(run, target, |_, column| {
            let is_rising = column.identity.is_none_or(|identity| identity.increment > 0);
            Ok(given.ends.map(|(least, greatest)| if is_rising { greatest } else { least }))
        })
    }

    fn write_rows(&mut self, run: &Arc<StatementRun>, write: &Write, rows: &[Vec<Value>]) -> Result<u64, Failure> {
        let Some(sink) = &write.sink else { return Ok(insert_rows(run, &write.store, rows)?) };
        let table = write.store.table();
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        let batch = batch_of_values(nullable_schema(table), &types, rows)?;
        let stored = stored_batch(&write.store, &batch)?;
        let count = insert_rows(run, &write.store, rows)?;
        self.put_out_inserted(run, sink, [Ok(stored)].into_iter())?;
        Ok(count)
    }

    /// The values of a row in the listed columns' types, and the positions of those that only a query can evaluate.
    fn listed_values(
        &self,
        run: &Arc<StatementRun>,
        target: &Target,
        row: &[Expression],
    ) -> Result<(Vec<Value>, Vec<usize>), Failure> {
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let mut default = |place: usize| default_of(&binder, &target.table.columns[target.listed()[place]]);
        let bound = binder.bind_insert_row(row, target.columns(), &mut default).map_err(Failure::of_binding)?;
        let mut deferred = Vec::new();
        let mut values = Vec::with_capacity(bound.len());
        for (place, value) in bound.iter().enumerate() {
            if Binder::needs_query(value) {
                deferred.push(place);
                values.push(Value::Null);
            } else {
                values.push(binder.evaluate(value)?);
            }
        }
        Ok((values, deferred))
    }

    fn whole_row_of(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        row: &[Expression],
        mut values: Vec<Value>,
        deferred: &[usize],
    ) -> Result<Vec<Value>, Failure> {
        for &place in deferred {
            let given = self.evaluate(&row[place])?;
            values[place] = self.stored_value(run, given, target.columns().columns[place].sql_type)?;
        }
        self.whole_row(run, target, values)
    }

    /// A row of the table: the given values in the listed columns, if any, and the columns' defaults elsewhere.
    pub(crate) fn whole_row(
        &mut self,
        run: &Arc<StatementRun>,
        target: &Target,
        values: Vec<Value>,
    ) -> Result<Vec<Value>, Failure> {
        let mut given: Vec<Option<Value>> = vec![None; target.table.columns.len()];
        for (place, value) in target.listed().iter().zip(values) {
            given[*place] = Some(value);
        }
        let mut row = Vec::with_capacity(given.len());
        for (column, given) in target.table.columns.iter().zip(given) {
            row.push(match given {
                Some(value) => value,
                None if column.identity.is_some() => {
                    self.check_implicit_identity(&target.place.database, &target.table)?;
                    let value = self.next_identity(run, target, column, 1)?;
                    self.note_identity(value);
                    integer_of_type(value, column)?
                }
                None => self.default_value(run, column)?,
            });
        }
        Ok(row)
    }

    fn default_value(&self, run: &Arc<StatementRun>, column: &TableColumn) -> Result<Value, Failure> {
        if column.default.is_none() {
            return Ok(Value::Null);
        }
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let bound = default_of(&binder, column)?;
        Ok(binder.evaluate(&binder.assign(bound, column.sql_type)?)?)
    }

    /// A value in a column's type, as an insert stores it. Text that is too long is kept, and rejected later.
    pub(crate) fn stored_value(
        &self,
        run: &Arc<StatementRun>,
        given: TypedValue,
        to: SqlType,
    ) -> Result<Value, Failure> {
        if given.value.is_null() || given.sql_type == to {
            return Ok(given.value);
        }
        let names = self.names(run);
        let binder = Binder::new(&names, BindOptions::default());
        let bound = BoundExpr::literal(given.value, given.sql_type, Position::default())?;
        Ok(binder.evaluate(&binder.assign(bound, to)?)?)
    }
}

/// A column's `DEFAULT` as an expression. NULL if it has none.
pub(crate) fn default_of(binder: &Binder<'_>, column: &TableColumn) -> Result<BoundExpr, SqlError> {
    match &column.default {
        Some(default) => binder.bind_default(&hobt_tsql::parse_expression(&default.definition)?),
        None => BoundExpr::null(Position::default()),
    }
}
