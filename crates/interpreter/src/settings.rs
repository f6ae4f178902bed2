//! `SET` options and `USE`.

use std::time::Duration;

use hobt_base::{Position, SqlError, errors};
use hobt_engine::EngineError;
use hobt_tsql::ast::{Expression, Identifier, Literal, SetOption, SwitchOption, ValueOption};
use hobt_types::{SqlType, Value};

use super::event::Message;
use super::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};

impl Interpreter<'_> {
    pub(super) fn set_option(&mut self, option: &SetOption, position: Position) -> Result<Outcome, Failure> {
        match option {
            SetOption::Switches { options, on } => {
                for option in options {
                    if let Some(name) = refused(*option, *on) {
                        let value = if *on { "ON" } else { "OFF" };
                        return Err(SqlError::not_supported(format!("SET {name} {value}")).at(position).into());
                    }
                    self.state.options.set_switch(*option, *on);
                }
            }
            SetOption::Statistics { kinds, on } => {
                for kind in kinds {
                    self.state.options.set_statistics(*kind, *on);
                }
            }
            SetOption::IdentityInsert { table, on } => self.set_identity_insert(table, *on)?,
            SetOption::IsolationLevel(level) => {
                self.state.options.isolation = *level;
            }
            SetOption::Value { option, value } => self.set_value(*option, value, position)?,
        }
        self.environment.sessions.options_are(self.state.id, &self.state.options);
        Ok(Outcome::QUIET)
    }

    fn set_value(&mut self, option: ValueOption, value: &Expression, position: Position) -> Result<(), Failure> {
        match option {
            ValueOption::RowCount => {
                let count = self.integer(value)?;
                self.state.options.row_count = u64::try_from(count).map_err(|_| invalid("ROWCOUNT", position))?;
            }
            ValueOption::TextSize => {
                let size = self.integer(value)?;
                self.state.options.text_size = if size <= 0 || size >= i64::from(i32::MAX) { -1 } else { size };
            }
            ValueOption::LockTimeout => {
                // Negative waits forever, zero does not wait.
                let timeout = self.integer(value)?;
                self.state.options.lock_timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
            }
            ValueOption::DateFirst => {
                let first = self.integer(value)?;
                let first = u8::try_from(first).ok().filter(|first| (1..=7).contains(first));
                let first = first.ok_or_else(|| invalid("DATEFIRST", position))?;
                if first != SUNDAY {
                    let what = format!("SET DATEFIRST {first} (weeks begin on Sunday, 7)");
                    return Err(SqlError::not_supported(what).at(position).into());
                }
                self.state.options.date_first = first;
            }
            ValueOption::DateFormat => {
                let format = self.text_value(value)?.unwrap_or_default().to_lowercase();
                if !["mdy", "dmy", "ymd", "ydm", "myd", "dym"].contains(&format.as_str()) {
                    return Err(invalid("DATEFORMAT", position).into());
                }
                if format != "mdy" {
                    let what = format!("SET DATEFORMAT {format} (texts are read as mdy; write dates as yyyymmdd)");
                    return Err(SqlError::not_supported(what).at(position).into());
                }
                self.state.options.date_format = format;
            }
            ValueOption::Language => {
                let language = self.text_value(value)?.unwrap_or_default();
                if !language.eq_ignore_ascii_case("us_english") && !language.eq_ignore_ascii_case("english") {
                    return Err(SqlError::not_supported(format!("SET LANGUAGE {language}")).into());
                }
                self.send_message(Message::of(position.line, errors::LANGUAGE_CHANGED.error()))?;
            }
            ValueOption::DeadlockPriority => {
                let priority = match value {
                    Expression::Literal { value: Literal::String { value, .. }, .. } => match &*value.to_lowercase() {
                        "low" => -5,
                        "normal" => 0,
                        "high" => 5,
                        _ => return Err(invalid("DEADLOCK_PRIORITY", position).into()),
                    },
                    value => self.integer(value)?,
                };
                let priority = i8::try_from(priority).ok().filter(|priority| (-10..=10).contains(priority));
                self.state.options.deadlock_priority =
                    priority.ok_or_else(|| invalid("DEADLOCK_PRIORITY", position))?;
            }
            ValueOption::QueryGovernorCostLimit => {
                let limit = self.integer(value)?;
                if limit != 0 {
                    return Err(SqlError::not_supported("SET QUERY_GOVERNOR_COST_LIMIT above 0").at(position).into());
                }
                self.state.options.query_governor_cost_limit = limit;
            }
            ValueOption::ContextInfo => {
                let sql_type = SqlType::VarBinary(hobt_types::MaxLength::Limited(128));
                self.state.options.context_info = match self.evaluate_as(value, sql_type)? {
                    Value::Binary(bytes) => bytes,
                    _ => Vec::new(),
                };
            }
        }
        Ok(())
    }

    pub(super) fn use_database(&mut self, database: &Identifier, position: Position) -> Result<Outcome, Failure> {
        let found = self.environment.instance.database(&database.value);
        self.state.database = found.map_err(|error: EngineError| error.to_sql_error().at(position))?;
        self.send_message(Message::of(position.line, errors::DATABASE_CHANGED.with([&self.state.database.name()])))?;
        Ok(Outcome::QUIET)
    }
}

/// The first day of the week in `us_english`.
const SUNDAY: u8 = 7;

/// The name of an option whose value requests an effect that is not supported.
fn refused(option: SwitchOption, on: bool) -> Option<&'static str> {
    match (option, on) {
        (SwitchOption::NumericRoundAbort, true) => Some("NUMERIC_ROUNDABORT"),
        (SwitchOption::FormatOnly, true) => Some("FMTONLY"),
        (SwitchOption::AnsiDefaults, _) => Some("ANSI_DEFAULTS"),
        (SwitchOption::AnsiNulls, false) => Some("ANSI_NULLS"),
        (SwitchOption::AnsiPadding, false) => Some("ANSI_PADDING"),
        (SwitchOption::AnsiWarnings, false) => Some("ANSI_WARNINGS"),
        (SwitchOption::ConcatNullYieldsNull, false) => Some("CONCAT_NULL_YIELDS_NULL"),
        (SwitchOption::QuotedIdentifier, false) => Some("QUOTED_IDENTIFIER"),
        _ => None,
    }
}

fn invalid(option: &str, position: Position) -> SqlError {
    errors::SET_OPTION_VALUE.with([&option]).at(position)
}
