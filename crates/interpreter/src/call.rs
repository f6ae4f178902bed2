//! `EXECUTE`: texts, user procedures and system procedures.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors, number};
use hobt_catalog::ModuleKind;
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::{
    Execute, ExecuteArgument, ExecuteTarget, Expression, ObjectName, OptionItem, Parameter, Statement, StatementKind,
    SwitchOption,
};
use hobt_types::{SqlType, TypedValue, Value};

use super::failure::{Failure, Reach};
use super::frame::Frame;
use super::names::written;
use super::procedures;
use super::system_functions::parse_name;
use crate::interpreter::{Exit, Interpreter, Outcome};
use crate::place::Place;

/// System procedures that are not T-SQL and that change something.
const ENGINE_PROCEDURES: [&str; 5] =
    ["sp_rename", "sp_sequence_get_range", "sp_configure", "sp_detach_db", "sp_flush_log"];

/// A procedure's parameters and body, parsed.
struct Procedure {
    /// `@@PROCID`; 0 for a system procedure.
    id: i32,
    /// Whether it was made `WITH RECOMPILE`.
    plans_anew: bool,
    /// The database in which its names are resolved: the one in its own name.
    database: DatabaseUse,
    name: String,
    parameters: Vec<Parameter>,
    statements: Vec<Statement>,
    text: Arc<str>,
}

/// An argument with its value, passed by name or by position.
pub(super) struct Argument<'a> {
    pub(super) given: &'a ExecuteArgument,
    /// The value; `None` for `DEFAULT`.
    pub(super) value: Option<TypedValue>,
}

impl Argument<'_> {
    /// The variable that receives the parameter's value.
    fn output_variable(&self) -> Option<&str> {
        match &self.given.value {
            Expression::Variable { name } if self.given.output => Some(&name.value),
            _ => None,
        }
    }
}

impl Interpreter<'_> {
    pub(super) fn execute(&mut self, call: &Execute, caught_here: bool) -> Result<Outcome, Failure> {
        if call.at.is_some() {
            return Err(SqlError::not_supported("EXECUTE … AT").at(call.span.position).into());
        }
        let protected = caught_here || self.frame().protected;
        let count = self.state.transaction_count();
        let status = match &call.target {
            ExecuteTarget::Text(text) => {
                let text = self.text_value(text)?.unwrap_or_default();
                self.execute_text(&text, Frame::new(None, protected))?.0
            }
            ExecuteTarget::Procedure(name) => self.call_procedure(name, call, protected)?,
            ExecuteTarget::Variable(variable) => {
                self.variable_type(variable)?;
                let text = self.text_value(&Expression::Variable { name: variable.clone() })?.unwrap_or_default();
                let name = parse_name(&text).ok_or_else(|| unknown_procedure(&text, call.span.position))?;
                self.call_procedure(&name, call, protected)?
            }
        };
        if let Some(variable) = &call.return_variable {
            let sql_type = self.variable_type(variable)?;
            let given = TypedValue { sql_type: SqlType::Int, value: Value::Int(i64::from(status)) };
            let value = self.convert(given, sql_type)?;
            self.frame_mut().set(&variable.value, value)?;
        }
        self.check_transaction_count(count, &call.target)?;
        Ok(Outcome::KEPT)
    }

    /// Checks that a call leaves as many transactions open as it found, except an implicit one.
    ///
    /// # Errors
    /// 266, which ends only its statement.
    fn check_transaction_count(&mut self, before: usize, target: &ExecuteTarget) -> Result<(), Failure> {
        let count = self.state.transaction_count();
        let begun_by_itself =
            before == 0 && count == 1 && self.state.options.switch(SwitchOption::ImplicitTransactions);
        if count == before || begun_by_itself {
            return Ok(());
        }
        let error = errors::TRANSACTION_COUNT.with([&before, &count]);
        let failure = Failure { heeds_xact_abort: false, ..error.into() };
        Err(match target {
            ExecuteTarget::Text(_) => failure,
            ExecuteTarget::Procedure(name) => failure.of_call(&name.name.value),
            ExecuteTarget::Variable(variable) => {
                let text = self.text_value(&Expression::Variable { name: variable.clone() })?.unwrap_or_default();
                failure.of_call(&parse_name(&text).map_or(text, |name| name.name.value))
            }
        })
    }

    /// Runs a text as a batch of its own. Returns its status and its variables. `USE` and `SET` inside it are undone at
    /// its end.
    pub(super) fn execute_text(&mut self, text: &str, frame: Frame) -> Result<(i32, Frame), Failure> {
        let shared: Arc<str> = Arc::from(text);
        self.in_scope(Arc::clone(&shared), frame, |this| this.batch(&shared))
    }

    /// Runs `body` with another text, in a frame of its own, and restores the caller's state afterwards.
    fn in_scope(
        &mut self,
        text: Arc<str>,
        frame: Frame,
        body: impl FnOnce(&mut Self) -> Result<Exit, Failure>,
    ) -> Result<(i32, Frame), Failure> {
        let outer_text = std::mem::replace(&mut self.text, text);
        // Keeps the outer text's hash, so that a script with many calls is hashed only once.
        let outer_hash = self.plans.take_hash();
        let database = self.state.database.clone();
        let options = self.state.options.clone();
        let result = self.in_frame(frame, body);
        self.text = outer_text;
        self.plans.put_hash(outer_hash);
        self.state.database = database;
        if self.state.options != options {
            self.environment.sessions.options_are(self.state.id, &options);
            self.state.options = options;
        }
        let (exit, frame) = result.map_err(|mut failure| {
            // For the caller, an error of binding inside the call is an error of this statement only.
            if failure.reach == Reach::Scope {
                failure.reach = Reach::Statement;
            }
            failure
        })?;
        Ok(match exit {
            Exit::Returned(status) => (status, frame),
            Exit::Failed => (-6, frame),
        })
    }

    fn call_procedure(&mut self, name: &ObjectName, call: &Execute, protected: bool) -> Result<i32, Failure> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for given in &call.arguments {
            let value = match &given.value {
                Expression::Default { .. } => None,
                value => Some(self.evaluate(value)?),
            };
            arguments.push(Argument { given, value });
        }
        let lower = name.name.value.to_lowercase();
        if self.shows_plans() && ENGINE_PROCEDURES.contains(&lower.as_str()) {
            return Ok(0);
        }
        match lower.as_str() {
            "sp_executesql" => {
                let database = self.procedure_place(name, call.span.position)?.database;
                return self.sp_executesql(&arguments, database, protected, call.span.position);
            }
            "sp_rename" => return self.definitions().sp_rename(&arguments, call.span.position),
            "sp_sequence_get_range" => return self.sp_sequence_get_range(&arguments, call.span.position),
            "sp_configure" => return self.sp_configure(&arguments, call.span.position),
            "sp_detach_db" => {
                let name = arguments.first().and_then(|argument| argument.value.clone()).map(|given| given.value);
                let Some(Value::Text(name)) = name else {
                    return Err(errors::SYSTEM_PROCEDURE_PARAMETER
                        .with([&"sp_detach_db", &"@dbname"])
                        .at(call.span.position)
                        .into());
                };
                return self.definitions().detach_database(&name);
            }
            "sp_flush_log" => {
                let database = self.procedure_place(name, call.span.position)?.database;
                database.flush_log().map_err(|error| error.to_sql_error().at(call.span.position))?;
                return Ok(0);
            }
            "sp_hobt_set_autostats" => {
                let values: Vec<Value> =
                    arguments.into_iter().map(|given| given.value.map_or(Value::Null, |value| value.value)).collect();
                self.definitions().set_automatic_statistics(&values)?;
                return Ok(0);
            }
            "sp_createstats" => {
                return Err(SqlError::not_supported(&name.name.value).at(call.span.position).into());
            }
            _ => {}
        }
        let procedure = self.find_procedure(name, call.span.position)?;
        let mut frame = Frame::new(Some(procedure.name.clone()), protected);
        frame.plans_anew = call.recompile || procedure.plans_anew;
        self.bind_parameters(&procedure.parameters, &procedure.name, &arguments, &mut frame, call.span.position)?;
        let id_of_caller = std::mem::replace(&mut self.state.procedure, procedure.id);
        let ended = self.in_scope(Arc::clone(&procedure.text), frame, |this| {
            this.state.database = procedure.database;
            this.statements(&procedure.statements)
        });
        self.state.procedure = id_of_caller;
        let (status, frame) = ended?;
        self.return_outputs(&procedure.parameters, &arguments, &frame)?;
        Ok(status)
    }

    /// Resolves a procedure's name. An unknown database makes it an unknown procedure.
    fn procedure_place(&self, name: &ObjectName, position: Position) -> Result<Place, SqlError> {
        self.place(name).map_err(|error| match error.number {
            number::DATABASE_DOES_NOT_EXIST => unknown_procedure(&written(name), position),
            _ => error,
        })
    }

    fn find_procedure(&self, name: &ObjectName, position: Position) -> Result<Procedure, Failure> {
        let unknown = || Failure::from(unknown_procedure(&written(name), position));
        let place = self.procedure_place(name, position)?;
        let snapshot = place.database.snapshot();
        let module = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.module(schema, &place.name));
        let id = module.map_or(0, |module| module.id.0);
        let text = match module {
            Some(module) if module.kind == ModuleKind::Procedure => module.definition.clone(),
            Some(_) => {
                return Err(errors::NOT_A_PROCEDURE.with([&name.name.value, &name.name.value]).at(position).into());
            }
            None => procedures::definition(&place.name).ok_or_else(unknown)?.to_owned(),
        };
        let batch = hobt_tsql::parse_batch(&text)?;
        match batch.statements.into_iter().next().map(|statement| statement.kind) {
            Some(StatementKind::CreateProcedure(create)) => Ok(Procedure {
                id,
                plans_anew: OptionItem::find(&create.options, "RECOMPILE").is_some(),
                database: place.database,
                name: create.name.name.value,
                parameters: create.parameters,
                statements: create.statements,
                text: Arc::from(text),
            }),
            _ => Err(unknown()),
        }
    }

    /// Declares the parameters with the arguments' values or their defaults.
    pub(super) fn bind_parameters(
        &mut self,
        parameters: &[Parameter],
        procedure: &str,
        arguments: &[Argument<'_>],
        frame: &mut Frame,
        position: Position,
    ) -> Result<(), Failure> {
        let places = places_of(parameters, procedure, arguments).map_err(|error| error.at(position))?;
        for (index, parameter) in parameters.iter().enumerate() {
            let sql_type = self.data_type(&parameter.data_type)?;
            let given =
                places.iter().position(|place| *place == index).and_then(|given| arguments[given].value.clone());
            let value = match (given, &parameter.default) {
                (Some(given), _) => self.parameter_value(given, sql_type)?,
                (None, Some(default)) => self.evaluate_as(default, sql_type)?,
                (None, None) => {
                    let error = errors::PARAMETER_NOT_SUPPLIED.with([&procedure, &parameter.name.value]);
                    return Err(Failure::from(error).of_call(procedure));
                }
            };
            frame.declare_parameter(&parameter.name.value, TypedValue { sql_type, value })?;
        }
        Ok(())
    }

    /// An argument, converted to its parameter's type. A text that does not convert is error 8114 for all types, and
    /// unlike a failed `CAST` it ends only the call.
    fn parameter_value(&mut self, given: TypedValue, to: SqlType) -> Result<Value, Failure> {
        let from = given.sql_type;
        self.convert(given, to).map_err(|error| {
            let mut failure = Failure::from(error);
            if from.is_text() && !to.is_text() && failure.reach == Reach::Batch {
                let to = match to {
                    SqlType::Decimal { .. } => "numeric",
                    other => other.name(),
                };
                let error = errors::CONVERSION_TYPE.with([&from.name(), &to]);
                failure = Failure { reach: Reach::Statement, dooms: false, ..error.into() };
            }
            failure
        })
    }

    /// Copies output parameters back into the caller's variables.
    pub(super) fn return_outputs(
        &mut self,
        parameters: &[Parameter],
        arguments: &[Argument<'_>],
        frame: &Frame,
    ) -> Result<(), Failure> {
        let places = places_of(parameters, "", arguments)?;
        for (argument, place) in arguments.iter().zip(places) {
            let parameter = &parameters[place];
            let (Some(variable), true) = (argument.output_variable(), parameter.output) else { continue };
            let Some(value) = frame.get(&parameter.name.value).cloned() else { continue };
            let sql_type = self.frame().type_of(variable, Position::default())?;
            let value = self.convert(value, sql_type)?;
            self.frame_mut().set(variable, value)?;
        }
        Ok(())
    }

    /// `sp_executesql @statement, @parameters, values…`; the text runs in `database`.
    fn sp_executesql(
        &mut self,
        arguments: &[Argument<'_>],
        database: DatabaseUse,
        protected: bool,
        position: Position,
    ) -> Result<i32, Failure> {
        let text = |argument: Option<&Argument<'_>>| match argument.and_then(|argument| argument.value.as_ref()) {
            Some(TypedValue { value: Value::Text(text), .. }) => Ok(text.clone()),
            None | Some(TypedValue { value: Value::Null, .. }) => Ok(String::new()),
            Some(_) => Err(errors::STATEMENT_TYPE.error().at(position)),
        };
        if arguments.first().is_none_or(|first| first.value.is_none()) {
            let error = errors::SYSTEM_PROCEDURE_PARAMETER.with([&"sp_executesql", &"@statement"]);
            return Err(Failure::from(error).of_call("sp_executesql"));
        }
        let statement = text(arguments.first())?;
        let declared = text(arguments.get(1))?;
        let parameters = parse_parameters(&declared)?;
        let values = arguments.get(2..).unwrap_or_default();
        let mut frame = Frame::new(None, protected);
        self.bind_parameters(&parameters, "sp_executesql", values, &mut frame, position)?;
        let statement: Arc<str> = Arc::from(statement);
        let (status, frame) = self.in_scope(Arc::clone(&statement), frame, |this| {
            this.state.database = database;
            this.batch(&statement)
        })?;
        self.return_outputs(&parameters, values, &frame)?;
        Ok(status)
    }
}

/// Parameters declared in a text, as `sp_executesql` takes them.
pub(super) fn parse_parameters(text: &str) -> Result<Vec<Parameter>, SqlError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let batch = hobt_tsql::parse_batch(&format!("CREATE PROCEDURE p {text}\nAS RETURN"))?;
    match batch.statements.into_iter().next().map(|statement| statement.kind) {
        Some(StatementKind::CreateProcedure(create)) => Ok(create.parameters),
        _ => Err(errors::PARAMETER_LIST.error()),
    }
}

/// The parameter that each argument is for.
fn places_of(parameters: &[Parameter], procedure: &str, arguments: &[Argument<'_>]) -> Result<Vec<usize>, SqlError> {
    let mut places = Vec::with_capacity(arguments.len());
    let mut named = false;
    for (index, argument) in arguments.iter().enumerate() {
        let place = match &argument.given.name {
            Some(name) => {
                named = true;
                let found =
                    parameters.iter().position(|parameter| parameter.name.value.eq_ignore_ascii_case(&name.value));
                found.ok_or_else(|| errors::UNKNOWN_PARAMETER.with([&name.value, &procedure]))?
            }
            None if named => return Err(errors::PARAMETER_ORDER.with([&(index + 1)])),
            None if index < parameters.len() => index,
            None => return Err(errors::TOO_MANY_ARGUMENTS.with([&procedure])),
        };
        if places.contains(&place) {
            return Err(errors::PARAMETER_TWICE.with([&parameters[place].name.value]));
        }
        places.push(place);
    }
    Ok(places)
}

fn unknown_procedure(name: &str, position: Position) -> SqlError {
    errors::UNKNOWN_PROCEDURE.with([&name]).at(position)
}
