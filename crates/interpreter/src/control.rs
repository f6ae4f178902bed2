//! `DECLARE`, `SET @v`, `PRINT`, `RAISERROR`, `THROW`, `WAITFOR`.

use std::time::{Duration, Instant};

use hobt_base::{Position, SqlError, errors, number};
use hobt_instruments::{Wait, WaitType};
use hobt_tsql::ast::{
    AssignmentOperator, Declaration, DeclarationKind, Expression, OptionItem, RaisError, Throw, VariableName,
};
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

use super::event::Message;
use super::failure::{Failure, RaisedIn, Reach};
use super::format::{FormatArgument, FormatError, format_message};
use super::frame::undeclared;
use super::program::{Program, redeclared};
use super::system_messages::system_message;
use crate::direct::learned::Learned;
use crate::interpreter::{Interpreter, Outcome};

/// The longest text that `PRINT` sends, in characters.
const MAX_PRINT: usize = 8000;
/// How often a waiting statement checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

const LONG_TEXT: SqlType = SqlType::NVarChar(MaxLength::Max);

impl Interpreter<'_> {
    pub(super) fn declare(&mut self, declarations: &[Declaration]) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::KEPT;
        for declaration in declarations {
            let name = &declaration.name;
            match &declaration.kind {
                DeclarationKind::Scalar { data_type, value } => {
                    let sql_type = self.data_type(data_type).map_err(Failure::of_batch)?;
                    // A DECLARE inside a loop runs again: it keeps the value unless it assigns one.
                    let known = self.frame().get(&name.value).map(|variable| variable.sql_type == sql_type);
                    match (known, value) {
                        (Some(true), None) => {}
                        (Some(false), _) => return Err(Failure::of_batch(redeclared(name))),
                        (_, value) => {
                            let value = match value {
                                Some(value) => {
                                    outcome = Outcome::ASSIGNED;
                                    self.evaluate_as(value, sql_type)?
                                }
                                None => Value::Null,
                            };
                            self.frame_mut().declare(&name.value, TypedValue { sql_type, value })?;
                        }
                    }
                }
                DeclarationKind::Table(definition) => {
                    let lower = name.value.to_lowercase();
                    if !self.frame().tables.contains_key(&lower) {
                        if self.frame().declares(&name.value) {
                            return Err(Failure::of_batch(redeclared(name)));
                        }
                        let table = self.definitions().create_table_variable(definition)?;
                        self.frame_mut().tables.insert(lower, table);
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Declares the variables of a text with the value NULL. They exist from its beginning, even if their `DECLARE`
    /// does not run.
    ///
    /// # Errors
    /// None in practice, as for [`Frame::declare`](super::frame::Frame::declare) with NULL.
    pub(super) fn declare_ahead(&mut self, program: &Program<'_>) -> Result<(), Failure> {
        for declaration in program.declarations() {
            let DeclarationKind::Scalar { data_type, .. } = &declaration.kind else { continue };
            // An unknown type is reported when the DECLARE runs.
            let Ok(sql_type) = self.data_type(data_type) else { continue };
            if !self.frame().declares(&declaration.name.value) {
                self.frame_mut().declare(&declaration.name.value, TypedValue { sql_type, value: Value::Null })?;
            }
        }
        Ok(())
    }

    pub(super) fn set_variable(
        &mut self,
        variable: &VariableName,
        operator: AssignmentOperator,
        value: &Expression,
        learned: &mut Learned,
    ) -> Result<Outcome, Failure> {
        let place = self.frame().place_of(&variable.value);
        let place = place.ok_or_else(|| Failure::of_batch(undeclared(&variable.value).at(variable.position)))?;
        let sql_type = self.frame().at(place).sql_type;
        let value = self.assigned_value(variable, operator, value, sql_type, learned)?;
        self.frame_mut().set_at(place, value)?;
        Ok(Outcome::ASSIGNED)
    }

    pub(super) fn print(&mut self, value: &Expression, position: Position) -> Result<Outcome, Failure> {
        let text = match self.evaluate_as(value, LONG_TEXT)? {
            Value::Text(text) => text.chars().take(MAX_PRINT).collect(),
            _ => String::from(" "),
        };
        self.send_message(Message::plain(position.line, text))?;
        Ok(Outcome::QUIET)
    }

    pub(super) fn throw(&mut self, throw: Option<&Throw>, position: Position) -> Result<Outcome, Failure> {
        let Some(throw) = throw else {
            let depth = self.frame().caught_below;
            let caught = self.caught.last().filter(|_| self.caught.len() > depth).cloned();
            return Err(match caught {
                Some(caught) => {
                    Failure { raised_in: Some(RaisedIn(caught.procedure)), ..Failure::of_batch(caught.error) }
                }
                None => Failure::of_batch(errors::THROW_OUTSIDE_CATCH.error().at(position)),
            });
        };
        let number = self.integer(&throw.number)?;
        let Some(error_number) = i32::try_from(number).ok().filter(|number| *number >= 50_000) else {
            return Err(Failure::of_batch(errors::THROW_NUMBER.with([&number]).at(position)));
        };
        let message = match self.evaluate_as(&throw.message, SqlType::NVarChar(MaxLength::Limited(2048)))? {
            Value::Text(text) => text,
            _ => String::new(),
        };
        let state = u8::try_from(self.integer(&throw.state)?.clamp(0, 255)).unwrap_or(u8::MAX);
        let error = SqlError::raised(error_number, 16, state, message).at(position);
        Err(Failure::of_batch(error))
    }

    pub(super) fn raiserror(&mut self, raise: &RaisError, position: Position) -> Result<Outcome, Failure> {
        let message = self.evaluate(&raise.message)?;
        let severity = self.integer(&raise.severity)?.clamp(0, 25);
        let state = u8::try_from(self.integer(&raise.state)?.clamp(0, 255)).unwrap_or(u8::MAX);
        let severity = u8::try_from(severity).unwrap_or(25);
        let with = |name: &str| OptionItem::find(&raise.options, name).is_some();
        if severity > 18 && !with("LOG") {
            return Err(errors::RAISERROR_SEVERITY.error().into());
        }
        let (number, format) = match message.value {
            Value::Text(format) => (number::USER_ERROR, format),
            Value::Int(user) => {
                let Some(text) = system_message(user) else {
                    return Err(no_such_message(user, severity, state).into());
                };
                (i32::try_from(user).unwrap_or(number::USER_ERROR), text.to_owned())
            }
            _ => (number::USER_ERROR, String::new()),
        };
        let mut arguments = Vec::with_capacity(raise.arguments.len());
        for argument in &raise.arguments {
            arguments.push(self.format_argument(argument)?);
        }
        let text = format_message(&format, &arguments).map_err(format_failure)?;
        if severity <= 10 {
            let number = if with("SETERROR") || number != number::USER_ERROR { number } else { 0 };
            self.send_message(Message { number, severity, state, line: position.line, text })?;
            return Ok(Outcome::QUIET);
        }
        let error = SqlError::raised(number, severity, state, text).at(position);
        let reach = if severity >= 20 { Reach::Batch } else { Reach::Statement };
        Err(Failure { reach, dooms: severity >= 20, heeds_xact_abort: false, ..error.into() })
    }

    pub(super) fn format_argument(&mut self, argument: &Expression) -> Result<FormatArgument, Failure> {
        let value = self.evaluate(argument)?;
        Ok(match value.value {
            Value::Null => FormatArgument::Null,
            Value::Int(value_) if value.sql_type.is_integer() => FormatArgument::Int(value_),
            Value::Text(text) => FormatArgument::Text(text),
            _ => return Err(errors::FORMAT_ARGUMENT.with([&value.sql_type.name()]).into()),
        })
    }

    pub(super) fn wait_for(&mut self, until: bool, value: &Expression, position: Position) -> Result<Outcome, Failure> {
        let given = self.evaluate(value)?;
        let text = match &given.value {
            Value::Text(text) => text.trim().to_owned(),
            _ => match self.convert(given, SqlType::VarChar(MaxLength::Limited(30)))? {
                Value::Text(text) => text,
                _ => String::new(),
            },
        };
        let Some(time) = parse_time(&text) else {
            return Err(Failure::of_batch(errors::WAITFOR_TIME.with([&text]).at(position)));
        };
        let delay = match until {
            false => time,
            true => {
                let day = Duration::from_secs(24 * 60 * 60);
                let now = time_of_day();
                if time >= now { time - now } else { time + day - now }
            }
        };
        self.wait_interruptibly(delay)?;
        Ok(Outcome::QUIET)
    }

    /// Waits for `delay` (`WAITFOR`), or until the statement is cancelled.
    pub(super) fn wait_interruptibly(&self, delay: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + delay;
        let _waiting = Wait::begin(WaitType::WaitFor);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_cancelled() {
                return Err(Failure::cancelled());
            }
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(CANCEL_CHECK));
        }
    }

    /// A value as an integer; NULL is 0.
    pub(super) fn integer(&mut self, value: &Expression) -> Result<i64, Failure> {
        Ok(match self.evaluate_as(value, SqlType::BigInt)? {
            Value::Int(value) => value,
            _ => 0,
        })
    }

    /// A value as text; NULL is `None`.
    pub(super) fn text_value(&mut self, value: &Expression) -> Result<Option<String>, Failure> {
        Ok(match self.evaluate_as(value, LONG_TEXT)? {
            Value::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The type of a variable, which must be declared.
    pub(super) fn variable_type(&self, name: &VariableName) -> Result<SqlType, Failure> {
        let variable = self.frame().get(&name.value);
        variable
            .map(|variable| variable.sql_type)
            .ok_or_else(|| Failure::of_batch(undeclared(&name.value).at(name.position)))
    }
}

fn format_failure(error: FormatError) -> Failure {
    Failure::from(match error {
        FormatError::WrongType(place) => errors::FORMAT_TYPE.with([&place]),
        FormatError::Specification(tail) => errors::FORMAT_SPECIFICATION.with([&tail]),
    })
}

/// Parses `hh:mm[:ss[.fff]]` below 24 hours.
fn parse_time(text: &str) -> Option<Duration> {
    let text = text.rsplit(' ').next()?;
    let mut parts = text.split(':');
    let hours: u64 = parts.next()?.parse().ok().filter(|hours| *hours < 24)?;
    let minutes: u64 = parts.next()?.parse().ok().filter(|minutes| *minutes < 60)?;
    let seconds = match parts.next() {
        Some(seconds) => seconds.parse::<f64>().ok().filter(|seconds| (0.0..60.0).contains(seconds))?,
        None => 0.0,
    };
    if parts.next().is_some() {
        return None;
    }
    Some(Duration::from_secs(hours * 3600 + minutes * 60) + Duration::from_secs_f64(seconds))
}

/// The time since local midnight.
fn time_of_day() -> Duration {
    let now = hobt_functions::FunctionContext::now().now_local;
    let ticks = now.rem_euclid(24 * 60 * 60 * 10_000_000);
    Duration::from_nanos(u64::try_from(ticks).unwrap_or(0).saturating_mul(100))
}

/// 18054.
fn no_such_message(user: i64, severity: u8, state: u8) -> SqlError {
    errors::MESSAGE_NOT_FOUND.with([&user, &severity, &state])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_as_times() {
        assert_eq!(parse_time("00:00:01.5"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_time("01:02"), Some(Duration::from_secs(3720)));
        assert_eq!(parse_time("24:00"), None);
        assert_eq!(parse_time("5"), None);
        assert_eq!(parse_time("00:00:61"), None);
        assert_eq!(parse_time("00:00:00:00"), None);
    }
}
