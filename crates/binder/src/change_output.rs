//! `OUTPUT`: expressions over the rows as they were (`deleted`) and as they are (`inserted`), and over the other
//! sources of the statement.
//!
//! The final values of a row are known only after checking and padding, so these expressions are not part of the plan:
//! they are computed on the changed rows, column by column.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Column, DFSchema};
use datafusion::physical_expr::PhysicalExpr;
use hobt_base::{Position, SqlError, errors};
use hobt_functions::carrier;
use hobt_tsql::ast::{Expression, Output, SelectItem};
use hobt_types::{MaxLength, SqlType};

use super::assignment::physical;
use super::bound::{BoundExpr, ResultColumn};
use super::change::Parts;
use super::insert::InsertTarget;
use super::scope::{Names, Scope, ScopeColumn, ScopeTable};
use super::{Binder, Clause, Site};
use crate::subquery_expr::has_subquery;
use hobt_udf::sql_error_of;

/// The pseudo-tables and columns that `OUTPUT` can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputTable {
    /// `inserted`: the rows as they are now.
    Inserted,
    /// `deleted`: the rows as they were.
    Deleted,
    /// `$action`: what a `MERGE` did with the row.
    Action,
}

/// A column that `OUTPUT` reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputInput {
    /// A column of the table, as it is now.
    Inserted(usize),
    /// A column of the table, as it was.
    Deleted(usize),
    /// A column of the plan.
    Plan(usize),
    /// `INSERT`, `UPDATE` or `DELETE`, as `nvarchar(10)`.
    Action,
}

/// The type of `$action`.
pub const ACTION_TYPE: SqlType = SqlType::NVarChar(MaxLength::Limited(10));

/// Computes the output of a statement for each row that it changed.
#[derive(Clone, Debug)]
pub struct BoundOutput {
    /// The columns.
    pub columns: Vec<ResultColumn>,
    inputs: Vec<OutputInput>,
    schema: SchemaRef,
    values: Vec<(Arc<dyn PhysicalExpr>, Position)>,
    result: SchemaRef,
}

impl BoundOutput {
    /// The table's columns whose old values are read.
    pub(super) fn deleted_columns(&self) -> Vec<usize> {
        let deleted = self.inputs.iter().filter_map(|input| match input {
            OutputInput::Deleted(column) => Some(*column),
            _ => None,
        });
        deleted.collect()
    }

    /// The output for `rows` rows, whose columns `column` gives.
    ///
    /// # Errors
    /// Those of the expressions, and those of `column`.
    pub fn evaluate(
        &self,
        rows: usize,
        column: &dyn Fn(OutputInput) -> Result<ArrayRef, SqlError>,
    ) -> Result<RecordBatch, SqlError> {
        let internal = |error: arrow::error::ArrowError| SqlError::internal(error.to_string());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let inputs = self.inputs.iter().map(|input| column(*input)).collect::<Result<_, _>>()?;
        let inputs = RecordBatch::try_new_with_options(Arc::clone(&self.schema), inputs, &options).map_err(internal)?;
        let mut arrays = Vec::with_capacity(self.values.len());
        for (value, position) in &self.values {
            let array = value.evaluate(&inputs).and_then(|value| value.into_array(rows));
            arrays.push(array.map_err(|error| sql_error_of(error).at(*position))?);
        }
        RecordBatch::try_new_with_options(Arc::clone(&self.result), arrays, &options).map_err(internal)
    }
}

/// A column of the target in `inserted` and `deleted`.
pub(super) struct OutputColumn {
    /// The column of the source.
    pub(super) column: ScopeColumn,
    /// The index of the table's column; `None` for one that a view or common table expression computes.
    pub(super) stored: Option<usize>,
}

/// A column of `inserted` or `deleted`, under an internal name.
struct Pseudo {
    column: Column,
    sql_type: SqlType,
    input: PseudoInput,
}

/// The source of a [`Pseudo`] column.
enum PseudoInput {
    Known(OutputInput),
    /// A column that the source computes from the old row.
    Computed(Box<BoundExpr>),
}

impl Binder<'_> {
    /// Binds the `OUTPUT` of an `INSERT` into `columns`. `into` has the columns that its `INTO` fills.
    ///
    /// # Errors
    /// 120, 121, 158, 10705 and those of the expressions.
    pub fn bind_insert_output(
        &self,
        output: &Output,
        columns: &[super::SourceColumn],
        into: Option<&InsertTarget>,
    ) -> Result<BoundOutput, SqlError> {
        let column = |column: &super::SourceColumn| ScopeColumn {
            name: Some(column.name.clone()),
            column: Column::new_unqualified(self.fresh(&column.name)),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: super::ExprCollation::of_column(column.collation),
            literal: None,
        };
        let columns = columns.iter().map(column).enumerate();
        let columns: Vec<OutputColumn> =
            columns.map(|(place, column)| OutputColumn { column, stored: Some(place) }).collect();
        let tables = [OutputTable::Inserted];
        self.bind_output(output, &tables, &columns, Scope::default(), &mut Parts::default(), into)
    }

    /// Binds `OUTPUT` over the rows of `tables`, with the columns `columns`, and over the sources `others`. The columns
    /// of `others` that it reads are added to `parts`.
    pub(super) fn bind_output(
        &self,
        output: &Output,
        tables: &[OutputTable],
        columns: &[OutputColumn],
        others: Scope,
        parts: &mut Parts,
        into: Option<&InsertTarget>,
    ) -> Result<BoundOutput, SqlError> {
        let mut pseudo = Vec::new();
        let mut scope = Scope::default();
        for table in tables {
            let (name, input): (&str, fn(usize) -> OutputInput) = match table {
                OutputTable::Inserted => ("inserted", OutputInput::Inserted),
                OutputTable::Deleted => ("deleted", OutputInput::Deleted),
                OutputTable::Action => {
                    let column = Column::new_unqualified(self.fresh("action"));
                    let (sql_type, input) = (ACTION_TYPE, PseudoInput::Known(OutputInput::Action));
                    pseudo.push(Pseudo { column: column.clone(), sql_type, input });
                    let shown = ScopeColumn {
                        name: Some("$action".to_owned()),
                        column,
                        sql_type,
                        nullable: false,
                        collation: super::ExprCollation::default(),
                        literal: None,
                    };
                    scope.tables.push(ScopeTable::new(None, None, vec![shown]));
                    continue;
                }
            };
            let mut shown = Vec::with_capacity(columns.len());
            for OutputColumn { column: known, stored } in columns {
                let input = match (stored, table) {
                    (Some(place), _) => PseudoInput::Known(input(*place)),
                    (None, OutputTable::Deleted) => PseudoInput::Computed(Box::new(known.bound(Position::default()))),
                    (None, _) => continue,
                };
                let column = Column::new_unqualified(self.fresh(name));
                pseudo.push(Pseudo { column: column.clone(), sql_type: known.sql_type, input });
                shown.push(ScopeColumn { column, literal: None, ..known.clone() });
            }
            let table = ScopeTable::new(Some(name.to_owned()), None, shown);
            scope.tables.push(ScopeTable { only_qualified: true, ..table });
        }
        scope.tables.extend(others.tables);
        let mut items = self.output_items(output, &scope)?;
        if let Some(into) = into {
            items = self.assigned_items(items, into, !output.columns.is_empty())?;
        }
        self.output_over(items, &pseudo, &scope, parts)
    }

    fn output_items(&self, output: &Output, scope: &Scope) -> Result<Vec<(Option<String>, BoundExpr)>, SqlError> {
        let names = Names::default();
        let site = Site { scope, names: &names, clause: Clause::Output, collector: None };
        let mut items = Vec::new();
        for item in &output.items {
            match item {
                SelectItem::Wildcard { qualifier: Some(qualifier), span } => {
                    let mut tables = scope.tables.iter().filter(|table| table.answers_to(qualifier));
                    let table = tables
                        .next()
                        .ok_or_else(|| errors::COLUMN_PREFIX.with([&qualifier.name.value]).at(span.position))?;
                    items.extend(table.columns.iter().map(|column| (column.name.clone(), column.bound(span.position))));
                }
                SelectItem::Wildcard { qualifier: None, span } => {
                    return Err(errors::SYNTAX.with([&"*"]).at(span.position));
                }
                SelectItem::Value { value, alias } => {
                    let bound = self.expression(value, site)?;
                    if has_subquery(&bound.expr) {
                        return Err(errors::SUBQUERY_IN_OUTPUT.error().at(value.position()));
                    }
                    let name = match (alias, value) {
                        (Some(alias), _) => Some(alias.value.clone()),
                        (None, Expression::Column { name }) => Some(name.name.value.clone()),
                        _ => None,
                    };
                    items.push((name, bound));
                }
                SelectItem::Assign { variable, .. } => {
                    return Err(errors::SYNTAX.with([&variable.value]).at(variable.position));
                }
            }
        }
        Ok(items)
    }

    /// The items, converted to the types of the columns that take them.
    fn assigned_items(
        &self,
        items: Vec<(Option<String>, BoundExpr)>,
        into: &InsertTarget,
        is_listed: bool,
    ) -> Result<Vec<(Option<String>, BoundExpr)>, SqlError> {
        if items.len() != into.columns.len() {
            let entry = match (is_listed, items.len() < into.columns.len()) {
                (false, _) => errors::INSERT_COLUMN_COUNT,
                (true, true) => errors::SELECT_FEWER_ITEMS,
                (true, false) => errors::SELECT_MORE_ITEMS,
            };
            let position = items.first().map(|(_, item)| item.position).unwrap_or_default();
            return Err(entry.error().at(position));
        }
        let assigned = items.into_iter().zip(&into.columns).map(|((name, value), column)| {
            let value = self.assign(value, column.sql_type)?;
            Ok((name, value))
        });
        assigned.collect()
    }

    fn output_over(
        &self,
        items: Vec<(Option<String>, BoundExpr)>,
        pseudo: &[Pseudo],
        scope: &Scope,
        parts: &mut Parts,
    ) -> Result<BoundOutput, SqlError> {
        let mut read: Vec<Column> = Vec::new();
        for (_, item) in &items {
            for column in item.expr.column_refs() {
                if !read.contains(column) {
                    read.push(column.clone());
                }
            }
        }
        let mut inputs = Vec::with_capacity(read.len());
        let mut fields = Vec::with_capacity(read.len());
        for column in &read {
            let (input, sql_type) = match pseudo.iter().find(|known| known.column == *column) {
                Some(Pseudo { input: PseudoInput::Known(input), sql_type, .. }) => (*input, *sql_type),
                Some(Pseudo { input: PseudoInput::Computed(value), sql_type, .. }) => {
                    (OutputInput::Plan(parts.add(self, BoundExpr::clone(value))), *sql_type)
                }
                None => {
                    let known = scope.columns().find(|known| known.column == *column);
                    let known = known.ok_or_else(|| SqlError::internal("OUTPUT reads a column of no source"))?;
                    (OutputInput::Plan(parts.add(self, known.bound(Position::default()))), known.sql_type)
                }
            };
            inputs.push(input);
            fields.push(Field::new(&column.name, carrier(sql_type), true));
        }
        let schema = Arc::new(Schema::new(fields));
        let named = DFSchema::try_from(Arc::clone(&schema)).map_err(sql_error_of)?;
        let mut values = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(items.len());
        let mut fields = Vec::with_capacity(items.len());
        for (place, (name, item)) in items.into_iter().enumerate() {
            fields.push(Field::new(format!("c{place}"), carrier(item.sql_type), true));
            let collation = item.sql_type.is_text().then_some(item.collation.collation);
            columns.push(ResultColumn { name, sql_type: item.sql_type, nullable: item.nullable, collation });
            values.push((physical(item.expr, &named)?, item.position));
        }
        Ok(BoundOutput { columns, inputs, schema, values, result: Arc::new(Schema::new(fields)) })
    }
}
