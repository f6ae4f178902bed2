//! Views and inline functions: their text, bound where they are used.

use std::collections::HashMap;
use std::rc::Rc;

use hobt_base::{SqlError, number};
use hobt_tsql::ast::{FunctionBody, Parameter, StatementKind};
use hobt_tsql::parse_batch;

use super::Binder;
use super::bound::BoundExpr;
use super::convert::implicit;
use super::data_type::{TypePlace, sql_type};
use super::query::{Body, QueryUse};
use super::scope::Names;

/// The one statement of a definition.
fn statement(definition: &str) -> Result<StatementKind, SqlError> {
    let mut batch = parse_batch(definition)?;
    match batch.statements.len() {
        1 => Ok(batch.statements.remove(0).kind),
        _ => Err(SqlError::internal("a definition is not one statement")),
    }
}

/// An error inside a definition has no place in the text that uses it.
fn without_place(error: SqlError) -> SqlError {
    SqlError { position: None, ..error }
}

impl Binder<'_> {
    /// The rows of a view.
    pub(super) fn view(&self, definition: &str, name: &str) -> Result<Body, SqlError> {
        let StatementKind::CreateView(view) = statement(definition)? else {
            return Err(SqlError::internal(format!("the definition of {name} is not a view")));
        };
        self.enter(name, || {
            let mut body = self.query(&view.query, &Names::default(), QueryUse::Nested).map_err(without_place)?;
            if !view.columns.is_empty() {
                if view.columns.len() != body.columns.len() {
                    let message =
                        format!("View or function '{name}' has more columns defined than column names given.");
                    return Err(SqlError::new(4502, message));
                }
                for (column, name) in body.columns.iter_mut().zip(&view.columns) {
                    column.name = Some(name.value.clone());
                }
            }
            Ok(body)
        })
    }

    /// The rows of an inline function for its arguments; `None` is `DEFAULT`.
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
            let message = format!("Procedure or function {name} has too many arguments specified.");
            return Err(SqlError::new(8144, message));
        }
        if arguments.len() < function.parameters.len() {
            let message =
                format!("An insufficient number of arguments were supplied for the procedure or function {name}.");
            return Err(SqlError::new(313, message));
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
            None => Err(SqlError::new(
                number::FUNCTION_ARGUMENT_COUNT,
                format!("The parameter {} of {name} has no default.", parameter.name.value),
            )),
        }
    }
}
