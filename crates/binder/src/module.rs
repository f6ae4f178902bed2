//! Views and inline functions: their text is bound where they are used.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use hobt_base::{SqlError, errors, number};
use hobt_tsql::ast::{CreateFunction, CreateView, FunctionBody, Parameter, StatementKind};
use hobt_tsql::parse_batch;
use hobt_types::{SqlType, Value};

use super::Binder;
use super::bound::BoundExpr;
use super::convert::implicit;
use super::data_type::{TypePlace, sql_type};
use super::scope::Names;
use crate::body::{Body, QueryUse};

/// The one statement of a definition.
fn statement(definition: &str) -> Result<StatementKind, SqlError> {
    let mut batch = parse_batch(definition)?;
    match batch.statements.len() {
        1 => Ok(batch.statements.remove(0).kind),
        _ => Err(SqlError::internal("a definition is not one statement")),
    }
}

/// Removes the position of an error inside a definition, since it is no position in the text that uses it.
fn without_place(error: SqlError) -> SqlError {
    SqlError { position: None, ..error }
}

/// Checks that the columns of a view or function have names, and that these are unique. `unnamed` gives the error for a
/// column without a name; its argument is the column's number from 1.
///
/// # Errors
/// 4506, and that of `unnamed`.
fn check_columns(name: &str, columns: &[Option<&str>], unnamed: impl Fn(usize) -> SqlError) -> Result<(), SqlError> {
    let mut known = HashSet::with_capacity(columns.len());
    for (place, column) in columns.iter().enumerate() {
        let column = column.ok_or_else(|| unnamed(place + 1))?;
        if !known.insert(column.to_lowercase()) {
            return Err(errors::VIEW_COLUMN_TWICE.with([&column, &name]));
        }
    }
    Ok(())
}

/// A sample value of a parameter's type: 1 if it converts to the type, because some clauses take no NULL; otherwise
/// NULL.
fn some_value(parameter: &Parameter) -> Result<BoundExpr, SqlError> {
    let declared = sql_type(&parameter.data_type, TypePlace::Declaration)?;
    let position = parameter.name.position;
    let one = implicit(BoundExpr::literal(Value::Int(1), SqlType::Int, position)?, declared);
    match one.ok().filter(|one| one.literal.is_some()) {
        Some(one) => Ok(one),
        None => BoundExpr::literal(Value::Null, declared, position),
    }
}

/// Whether an error depends on a value: on the number of a `TOP`, `OFFSET` or `FETCH`, or on an expression over
/// constants that is computed while a query is bound.
fn is_of_value(error: &SqlError) -> bool {
    const OF_COUNTS: [i32; 5] = [number::NEGATIVE_ROW_COUNT, 1031, 1060, 10742, 10744];
    const OF_EXPRESSIONS: [i32; 13] = [8134, 8115, 8114, 8152, 220, 232, 241, 242, 244, 245, 248, 517, 3623];
    const OF_SERIES: i32 = 4199;
    OF_COUNTS.contains(&error.number) || OF_EXPRESSIONS.contains(&error.number) || error.number == OF_SERIES
}

impl Binder<'_> {
    /// Binds a view that is to be created.
    ///
    /// # Errors
    /// As [`Binder::bind_query`]; also 1033 for an order without `TOP`; 4502, 8158, 4506 and 4511 for the names of its
    /// columns.
    pub fn bind_view(&self, view: &CreateView) -> Result<(), SqlError> {
        let name = &view.name.name.value;
        let body = self.query(&view.query, &Names::default(), QueryUse::Nested)?;
        if let Some(place) = body.assigns {
            return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(place));
        }
        let given: Vec<Option<&str>> = match view.columns.as_slice() {
            [] => body.columns.iter().map(|column| column.name.as_deref().filter(|name| !name.is_empty())).collect(),
            listed => listed.iter().map(|column| Some(column.value.as_str())).collect(),
        };
        if given.len() > body.columns.len() {
            return Err(errors::TOO_MANY_VIEW_COLUMNS.with([&name]));
        }
        if given.len() < body.columns.len() {
            return Err(errors::TOO_MANY_COLUMNS_FOR_LIST.with([&name]));
        }
        let named = |place: usize| errors::VIEW_COLUMN_UNNAMED.with([&place]);
        check_columns(name, &given, named)
    }

    /// Binds an inline function that is to be created. Sample values stand for its parameters.
    ///
    /// # Errors
    /// As [`Binder::bind_query`]; also 1033 for an order without `TOP`; 4506 and 4514 for the names of its columns.
    pub fn bind_inline_function(&self, function: &CreateFunction) -> Result<(), SqlError> {
        let FunctionBody::Inline { query } = &function.body else { return Ok(()) };
        let mut parameters = HashMap::with_capacity(function.parameters.len());
        for parameter in &function.parameters {
            parameters.insert(parameter.name.value.to_lowercase(), some_value(parameter)?);
        }
        let names = Names { parameters: Some(Rc::new(parameters)), ..Names::default() };
        let body = match self.query(query, &names, QueryUse::Nested) {
            Ok(body) => body,
            // Whether the value of a parameter is valid depends on the call.
            Err(error) if is_of_value(&error) && !function.parameters.is_empty() => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(place) = body.assigns {
            return Err(errors::ASSIGNMENT_WITH_RETRIEVAL.error().at(place));
        }
        let given: Vec<Option<&str>> =
            body.columns.iter().map(|column| column.name.as_deref().filter(|name| !name.is_empty())).collect();
        let named = |place: usize| errors::FUNCTION_COLUMN_UNNAMED.with([&place]);
        check_columns(&function.name.name.value, &given, named)
    }

    /// The rows of a view; `places` as in [`Names::places`].
    pub(super) fn view(&self, definition: &str, name: &str, places: bool) -> Result<Body, SqlError> {
        let StatementKind::CreateView(view) = statement(definition)? else {
            return Err(SqlError::internal(format!("the definition of {name} is not a view")));
        };
        self.enter(name, || {
            let names = Names { places, ..Names::default() };
            let mut body = self.query(&view.query, &names, QueryUse::Nested).map_err(without_place)?;
            if !view.columns.is_empty() {
                if view.columns.len() != body.columns.len() {
                    return Err(errors::TOO_MANY_VIEW_COLUMNS.with([&name]));
                }
                for (column, name) in body.columns.iter_mut().zip(&view.columns) {
                    column.name = Some(name.value.clone());
                }
            }
            Ok(body)
        })
    }

    /// The rows of an inline function for its arguments; `None` as an argument is `DEFAULT`.
    pub(super) fn inline_function(
        &self,
        definition: &str,
        name: &str,
        arguments: Vec<Option<BoundExpr>>,
    ) -> Result<Body, SqlError> {
        let StatementKind::CreateFunction(function) = statement(definition)? else {
            return Err(SqlError::internal(format!("the definition of {name} is not a function")));
        };
        let FunctionBody::Inline { query } = &function.body else {
            return Err(SqlError::not_supported(format!("The function {name}, which is not inline,")));
        };
        if arguments.len() > function.parameters.len() {
            return Err(errors::TOO_MANY_ARGUMENTS.with([&name]));
        }
        if arguments.len() < function.parameters.len() {
            return Err(errors::TOO_FEW_ARGUMENTS.with([&name]));
        }
        let mut parameters = HashMap::with_capacity(arguments.len());
        for (parameter, argument) in function.parameters.iter().zip(arguments) {
            let value = match argument {
                Some(argument) => argument,
                None => self.default_of(parameter, name)?,
            };
            let declared = sql_type(&parameter.data_type, TypePlace::Declaration).map_err(without_place)?;
            parameters.insert(parameter.name.value.to_lowercase(), implicit(value, declared)?);
        }
        let names = Names { parameters: Some(Rc::new(parameters)), ..Names::default() };
        self.enter(name, || self.query(query, &names, QueryUse::Nested).map_err(without_place))
    }

    fn default_of(&self, parameter: &Parameter, name: &str) -> Result<BoundExpr, SqlError> {
        match &parameter.default {
            Some(default) => self.bind_scalar(default).map_err(without_place),
            None => Err(errors::PARAMETER_WITHOUT_DEFAULT.with([&parameter.name.value, &name])),
        }
    }
}
