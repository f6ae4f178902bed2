//! SQL Server's built-in table-valued functions: `STRING_SPLIT`, `GENERATE_SERIES`.
//!
//! `STRING_SPLIT` computes a list that is unnested into rows, so its text may come from the left side of an `APPLY`.
//! `GENERATE_SERIES` is a table that generates its rows as they are read.

use std::sync::Arc;

use datafusion::common::{Column, NullHandling, UnnestOptions};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Projection};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::carrier;
use hobt_tsql::ast::ObjectName;
use hobt_types::{MaxLength, SqlType, Value};

use super::bound::BoundExpr;
use super::convert::implicit;
use super::from::is_constant;
use super::query::empty_row;
use super::{Binder, shared};
use crate::SourceColumn;
use crate::body::{Body, BodyColumn};
use hobt_table::Series;
use hobt_udf::{Kernel, Operation, sql_error_of};

impl Binder<'_> {
    /// The rows of a built-in function; `None` for any other function. `None` as an argument is `DEFAULT`.
    pub(super) fn built_in_rows(
        &self,
        name: &ObjectName,
        arguments: &[Option<BoundExpr>],
        position: Position,
    ) -> Result<Option<Body>, SqlError> {
        let Some(name) = name.as_simple().filter(|name| !name.quoted) else { return Ok(None) };
        let arguments: Option<Vec<BoundExpr>> = arguments.iter().cloned().collect();
        let body = match name.value.to_uppercase().as_str() {
            "STRING_SPLIT" => self.string_split(arguments.unwrap_or_default(), position),
            "GENERATE_SERIES" => self.series(arguments.unwrap_or_default(), position),
            _ => return Ok(None),
        };
        body.map(Some).map_err(|error| error.at(position))
    }

    fn string_split(&self, mut arguments: Vec<BoundExpr>, position: Position) -> Result<Body, SqlError> {
        check_count("string_split", arguments.len())?;
        let with_ordinal = match arguments.get(2) {
            None => false,
            Some(ordinal) => self.enable_ordinal(ordinal)?,
        };
        arguments.truncate(2);
        let as_text = |bound: BoundExpr| match bound.sql_type.is_text() {
            true => Ok(bound),
            false => implicit(bound, SqlType::VarChar(MaxLength::Limited(8000))),
        };
        let texts = arguments.into_iter().map(as_text).collect::<Result<Vec<_>, _>>()?;
        let (sql_type, collation) = (varying(texts[0].sql_type), texts[0].collation);
        let call = |ordinals| {
            let arguments = texts.iter().map(|text| text.expr.clone()).collect();
            Kernel::call(Operation::Split { ordinals }, arguments, position)
        };
        let column = |name: &str, sql_type| BodyColumn {
            name: Some(name.to_owned()),
            column: Column::new_unqualified(self.fresh(name)),
            sql_type,
            nullable: true,
            collation: Default::default(),
            untyped_null: false,
            literal: None,
        };
        let mut columns = vec![BodyColumn { collation, ..column("value", sql_type) }];
        let mut lists = vec![call(false)];
        if with_ordinal {
            columns.push(column("ordinal", SqlType::BigInt));
            lists.push(call(true));
        }
        let lists = lists.into_iter().zip(&columns).map(|(list, column)| list.alias(&column.column.name));
        let plan = Projection::try_new(lists.collect(), shared(empty_row())).map_err(sql_error_of)?;
        let spread = columns.iter().map(|column| column.column.clone()).collect();
        let plan = unnest(LogicalPlan::Projection(plan), spread, false)?;
        Ok(Body::of(plan, columns))
    }

    /// The third argument of `STRING_SPLIT`: a constant, 1 for a column with the parts' numbers.
    fn enable_ordinal(&self, argument: &BoundExpr) -> Result<bool, SqlError> {
        let Some(value) = &argument.literal else {
            return Err(errors::ENABLE_ORDINAL_CONSTANT.error());
        };
        match value {
            Value::Null | Value::Int(0) => Ok(false),
            Value::Int(1) => Ok(true),
            Value::Int(value) => Err(invalid_argument(*value, "string_split")),
            _ => Err(errors::ENABLE_ORDINAL_VALUE.error()),
        }
    }

    fn series(&self, arguments: Vec<BoundExpr>, position: Position) -> Result<Body, SqlError> {
        check_count("generate_series", arguments.len())?;
        let sql_type = arguments[0].sql_type;
        if arguments.iter().any(|argument| argument.sql_type != sql_type && !argument.is_untyped_null()) {
            return Err(errors::GENERATE_SERIES_TYPES.error());
        }
        if !sql_type.is_integer() || sql_type == SqlType::Bit {
            return Err(SqlError::not_supported(format!("GENERATE_SERIES of {}", sql_type.name())));
        }
        let mut numbers = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            if argument.literal.is_none() && !is_constant(&argument.expr) {
                return Err(
                    SqlError::not_supported("GENERATE_SERIES with arguments that are not constant").at(position)
                );
            }
            numbers.push(match self.evaluate(argument)? {
                Value::Int(number) => Some(number),
                _ => None,
            });
        }
        let (start, stop) = (numbers[0], numbers[1]);
        let step = numbers.get(2).copied().unwrap_or(Some(if start <= stop { 1 } else { -1 }));
        if step == Some(0) {
            return Err(invalid_argument(0, "generate_series"));
        }
        // If one of its numbers is NULL, a series is empty.
        let (start, stop, step) = match (start, stop, step) {
            (Some(start), Some(stop), Some(step)) => (start, stop, step),
            _ => (1, 0, 1),
        };
        let source = provider_as_source(Arc::new(Series::new(start, stop, step, carrier(sql_type))));
        let column = SourceColumn { name: "value".to_owned(), sql_type, nullable: false, collation: None };
        let (plan, scope) = self.scan(source, &[column], "generate_series", None)?;
        let columns = scope.columns().map(|known| BodyColumn {
            name: known.name.clone(),
            column: known.column.clone(),
            sql_type: known.sql_type,
            nullable: known.nullable,
            collation: known.collation,
            untyped_null: false,
            literal: None,
        });
        Ok(Body::of(plan, columns.collect()))
    }
}

/// Unnests lists into rows. With `keep_rows`, a row whose lists are NULL is kept, otherwise it is dropped.
pub(super) fn unnest(plan: LogicalPlan, lists: Vec<Column>, keep_rows: bool) -> Result<LogicalPlan, SqlError> {
    let handling = if keep_rows { NullHandling::Preserve } else { NullHandling::Drop };
    let options = UnnestOptions::new().with_null_handling(handling);
    LogicalPlanBuilder::from(plan)
        .unnest_columns_with_options(lists, options)
        .and_then(LogicalPlanBuilder::build)
        .map_err(sql_error_of)
}

fn varying(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Char(n) => SqlType::VarChar(MaxLength::Limited(n)),
        SqlType::NChar(n) => SqlType::NVarChar(MaxLength::Limited(n)),
        other => other,
    }
}

fn check_count(function: &str, count: usize) -> Result<(), SqlError> {
    match count {
        2 | 3 => Ok(()),
        _ => Err(errors::FUNCTION_ARGUMENT_RANGE.with([&function, &2, &3])),
    }
}

fn invalid_argument(value: i64, function: &str) -> SqlError {
    errors::INVALID_ARGUMENT_VALUE.with([&value, &function])
}
