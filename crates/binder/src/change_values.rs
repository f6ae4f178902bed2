//! `SET` of an `UPDATE`: the new values of columns and variables.
//!
//! All values are computed from the row as it was. A value that reads a variable which the statement itself assigns
//! depends on the rows before it. As with `SELECT @v = …` (see `assignment`), such values are computed row by row when
//! the rows arrive, the others by the plan. `@v = c = x` assigns the same value to the variable and the column.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use hobt_base::{Position, SqlError, errors};
use hobt_functions::{array_value, carrier, value_to_array};
use hobt_tsql::ast::{Assignment, ColumnName, Expression, VariableName};
use hobt_types::{SqlType, TypedValue};

use super::arithmetic::{binary, operator_of};
use super::assignment::{Assigned, AssignedVariable, column_of, physical};
use super::bound::BoundExpr;
use super::change::{Parts, Target, derived_field};
use super::convert::implicit;
use super::scope::{Names, invalid_column, same_name};
use super::{Binder, Clause, Site};
use crate::item::Item;
use crate::sequence_scope::InDefault;
use hobt_udf::sql_error_of;

/// The source of a value.
#[derive(Clone, Debug)]
enum Source<T> {
    /// A column of the plan.
    Plan(usize),
    /// An expression over the plan's columns and the variables.
    Row(T),
}

/// One assignment.
struct Step {
    /// The table's column.
    column: Option<usize>,
    /// The variable.
    variable: Option<usize>,
    /// The value, in the column's type, or in the variable's type if there is no column.
    source: Source<Expr>,
    sql_type: SqlType,
    position: Position,
}

/// The assignments of an `UPDATE`, before its plan is built.
pub(super) struct NewValues {
    steps: Vec<Step>,
    variables: Vec<AssignedVariable>,
}

impl NewValues {
    /// Whether a column of the table gets a new value.
    pub(super) fn sets(&self, column: usize) -> bool {
        self.steps.iter().any(|step| step.column == Some(column))
    }

    /// Compiles the assignments for the rows of a plan.
    pub(super) fn over(self, plan: &LogicalPlan) -> Result<BoundValues, SqlError> {
        let NewValues { steps, variables } = self;
        let mut fields: Vec<Field> =
            plan.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let of_variable = |variable: &AssignedVariable| {
            Field::new(column_of(&variable.name.value), carrier(variable.sql_type()), true)
        };
        fields.extend(variables.iter().map(of_variable));
        let schema = Arc::new(Schema::new(fields));
        let named = DFSchema::try_from(Arc::clone(&schema)).map_err(sql_error_of)?;
        let mut ready = Vec::with_capacity(steps.len());
        for step in steps {
            let into = match step.variable {
                Some(variable) => Some(IntoVariable::new(variable, step.sql_type, variables[variable].sql_type())?),
                None => None,
            };
            let Step { column, source, position, .. } = step;
            let source = match source {
                Source::Plan(place) => Source::Plan(place),
                Source::Row(expr) => Source::Row(physical(expr, &named)?),
            };
            ready.push(ReadyStep { column, source, into, position });
        }
        Ok(BoundValues { steps: ready, variables, schema, current: Vec::new() })
    }
}

/// Converts a value for a variable of another type.
#[derive(Clone, Debug)]
struct IntoVariable {
    variable: usize,
    schema: SchemaRef,
    convert: Arc<dyn PhysicalExpr>,
}

impl IntoVariable {
    fn new(variable: usize, from: SqlType, to: SqlType) -> Result<IntoVariable, SqlError> {
        const VALUE: &str = "value";
        let schema = Arc::new(Schema::new(vec![Field::new(VALUE, carrier(from), true)]));
        let named = DFSchema::try_from(Arc::clone(&schema)).map_err(sql_error_of)?;
        let value = Expr::Column(Column::new_unqualified(VALUE));
        let converted = implicit(BoundExpr::new(value, from, true, Position::default()), to)?;
        Ok(IntoVariable { variable, schema, convert: physical(converted.expr, &named)? })
    }

    /// The variable's value, from an array of length one.
    fn convert(&self, value: ArrayRef) -> Result<ArrayRef, SqlError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![value])
            .map_err(|error| SqlError::internal(error.to_string()))?;
        let converted = self.convert.evaluate(&batch).and_then(|value| value.into_array(1));
        converted.map_err(sql_error_of)
    }
}

/// One assignment, ready to be computed.
#[derive(Clone, Debug)]
struct ReadyStep {
    column: Option<usize>,
    source: Source<Arc<dyn PhysicalExpr>>,
    into: Option<IntoVariable>,
    position: Position,
}

/// Computes the new values of the rows of an `UPDATE`.
#[derive(Clone, Debug)]
pub struct BoundValues {
    steps: Vec<ReadyStep>,
    variables: Vec<AssignedVariable>,
    /// The columns of the query, then the variables.
    schema: SchemaRef,
    /// The values of the variables, an array of length one each; empty before the first row.
    current: Vec<ArrayRef>,
}

impl BoundValues {
    /// The columns that the statement sets, by their indexes in the table.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| step.column)
    }

    /// Computes the new values of a batch of rows: each changed column of the table, with an array of the batch's
    /// length.
    ///
    /// # Errors
    /// Those of the values that are computed row by row.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<Vec<(usize, ArrayRef)>, SqlError> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(Vec::new());
        }
        if self.current.is_empty() {
            let before =
                self.variables.iter().map(|variable| value_to_array(&variable.before.value, variable.sql_type()));
            self.current = before.collect::<Result<_, _>>()?;
        }
        if self.steps.iter().any(|step| matches!(step.source, Source::Row(_))) {
            return self.take_in_turn(batch);
        }
        let mut values = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let Source::Plan(place) = step.source else { continue };
            if let Some(into) = &step.into {
                // The last row decides.
                let last = batch.column(place).slice(rows - 1, 1);
                self.current[into.variable] = into.convert(last).map_err(|error| error.at(step.position))?;
            }
            values.extend(step.column.map(|column| (column, Arc::clone(batch.column(place)))));
        }
        Ok(values)
    }

    /// As [`BoundValues::take`], row by row.
    fn take_in_turn(&mut self, batch: &RecordBatch) -> Result<Vec<(usize, ArrayRef)>, SqlError> {
        let mut pieces: Vec<Vec<ArrayRef>> = self.steps.iter().map(|_| Vec::new()).collect();
        for row in 0..batch.num_rows() {
            let row = batch.slice(row, 1);
            for (step, pieces) in self.steps.iter().zip(&mut pieces) {
                let value = match &step.source {
                    Source::Plan(place) => Arc::clone(row.column(*place)),
                    Source::Row(expr) => {
                        let columns = row.columns().iter().chain(&self.current).cloned().collect();
                        let options = RecordBatchOptions::new().with_row_count(Some(1));
                        let seen = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
                            .map_err(|error| SqlError::internal(error.to_string()))?;
                        let value = expr.evaluate(&seen).and_then(|value| value.into_array(1));
                        value.map_err(|error| sql_error_of(error).at(step.position))?
                    }
                };
                if let Some(into) = &step.into {
                    let converted = into.convert(Arc::clone(&value));
                    self.current[into.variable] = converted.map_err(|error| error.at(step.position))?;
                }
                if step.column.is_some() {
                    pieces.push(value);
                }
            }
        }
        let mut values = Vec::with_capacity(pieces.len());
        for (step, pieces) in self.steps.iter().zip(pieces) {
            let Some(column) = step.column else { continue };
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            values.push((column, concat(&pieces).map_err(|error| SqlError::internal(error.to_string()))?));
        }
        Ok(values)
    }

    /// The variables and their values, if there was a row.
    ///
    /// # Errors
    /// An internal error if a value is not of its variable's type.
    pub fn variables(&self) -> Result<Vec<(VariableName, TypedValue)>, SqlError> {
        let values = self.variables.iter().zip(&self.current).map(|(variable, array)| {
            let sql_type = variable.sql_type();
            let value = TypedValue { sql_type, value: array_value(array.as_ref(), 0, sql_type)? };
            Ok((variable.name.clone(), value))
        });
        values.collect()
    }
}

impl Binder<'_> {
    /// Binds the assignments of an `UPDATE`, and adds to `parts` the columns that they need from the plan.
    ///
    /// # Errors
    /// 137, 157, 207, 264, 4104, 4406, 8102 and those of the values.
    pub(super) fn new_values(
        &self,
        assignments: &[Assignment],
        target: &Target<'_>,
        parts: &mut Parts,
    ) -> Result<NewValues, SqlError> {
        let variables =
            self.variables_named(assignments.iter().filter_map(|assignment| assignment.variable.as_ref()))?;
        let assigned = Assigned { variables: &variables, in_subquery: false };
        let names = Names { assigned: (!variables.is_empty()).then_some(assigned), ..target.names.clone() };
        let site = Site { names: &names, ..target.site(Clause::Set) };
        let mut steps: Vec<Step> = Vec::with_capacity(assignments.len());
        let mut items = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            let column = match &assignment.column {
                Some(name) => Some(self.assigned_column(name, target)?),
                None => None,
            };
            if let Some((_, column)) = column
                && steps.iter().any(|step| step.column == Some(column))
            {
                let name = assignment.column.as_ref().map_or("", |name| name.name.value.as_str());
                return Err(set_twice(name).at(assignment.value.position()));
            }
            let variable =
                assignment.variable.as_ref().and_then(|name| variables.iter().position(|known| known.is(name)));
            let value =
                self.assigned_value(assignment, column, variable.map(|place| &variables[place]), target, site)?;
            let (sql_type, position) = (value.sql_type, value.position);
            let column = column.map(|(_, column)| column);
            steps.push(Step { column, variable, source: Source::Plan(0), sql_type, position });
            items.push(Item { name: None, value });
        }
        let row_values = self.take_row_values(&mut items)?;
        for (expr, name) in row_values.parts {
            parts.add_named(expr, name);
        }
        let mut computed = row_values.values.into_iter();
        for (step, item) in steps.iter_mut().zip(items) {
            step.source = match computed.next().flatten() {
                Some(expr) => Source::Row(expr),
                None => Source::Plan(parts.add(self, item.value)),
            };
        }
        Ok(NewValues { steps, variables })
    }

    /// The column that an assignment names: its indexes among the target's columns and among the table's.
    pub(super) fn assigned_column(&self, name: &ColumnName, target: &Target<'_>) -> Result<(usize, usize), SqlError> {
        let source = &target.scope.tables[target.place];
        let at = |error: SqlError| error.at(name.position());
        if let Some(qualifier) = name.qualifier.as_ref().filter(|qualifier| !source.answers_to(qualifier)) {
            return Err(at(errors::TARGET_COLUMN_IDENTIFIER.with([&qualifier.name.value, &name.name.value])));
        }
        let is_named =
            |known: &Option<String>| known.as_deref().is_some_and(|known| same_name(known, &name.name.value));
        let shown = source.columns.iter().position(|known| is_named(&known.name));
        let shown = shown.ok_or_else(|| at(invalid_column(&name.name.value)))?;
        let table = target.stored.table.table();
        if target.stored.shown.get(shown).is_some_and(|place| match place {
            Some(place) => table.columns[*place].computed.is_some(),
            None => table.virtual_column_named(&name.name.value).is_some(),
        }) {
            return Err(at(cannot_be_modified(&name.name.value)));
        }
        let called = source.name.as_deref().unwrap_or_default();
        let column = target.stored.shown.get(shown).copied().flatten().ok_or_else(|| at(derived_field(called)))?;
        if target.stored.table.table().columns[column].identity.is_some() {
            return Err(at(errors::UPDATE_OF_IDENTITY.with([&name.name.value])));
        }
        Ok((shown, column))
    }

    /// The value of an assignment, in the type of the column, or of the variable if there is no column.
    pub(super) fn assigned_value(
        &self,
        assignment: &Assignment,
        column: Option<(usize, usize)>,
        variable: Option<&AssignedVariable>,
        target: &Target<'_>,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let position = assignment.value.position();
        let mut value = match (&assignment.value, column) {
            (Expression::Default { .. }, Some((_, column))) => self.default_value(target, column, position)?,
            (value, _) => self.expression(value, site)?,
        };
        if let Some(operator) = assignment.operator.arithmetic() {
            let current = match (column, variable) {
                (Some((shown, _)), _) => target.scope.tables[target.place].columns[shown].bound(position),
                (None, Some(variable)) => variable.placeholder(position),
                (None, None) => return Err(SqlError::internal("an assignment to nothing")),
            };
            value = binary(current, operator_of(operator), value, position)?;
        }
        match (column, variable) {
            (Some((_, column)), _) => self.assign(value, target.stored.columns[column].sql_type),
            (None, Some(variable)) => implicit(value, variable.sql_type()),
            (None, None) => Err(SqlError::internal("an assignment to nothing")),
        }
    }

    /// A column's `DEFAULT`; NULL if it has none.
    pub(super) fn default_value(
        &self,
        target: &Target<'_>,
        column: usize,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        match &target.stored.table.table().columns[column].default {
            Some(default) => {
                let default = hobt_tsql::parse_expression(&default.definition)?;
                self.within_default(InDefault::Bound, || self.bind_scalar(&default))
            }
            None => BoundExpr::null(position),
        }
    }
}

/// Error 271.
pub fn cannot_be_modified(column: &str) -> SqlError {
    errors::COMPUTED_COLUMN.with([&column])
}

/// Error 264.
pub(super) fn set_twice(name: &str) -> SqlError {
    errors::COLUMN_TWICE.with([&name])
}
