//! `SET` of an option, `USE`.

use std::time::Duration;

use hobt_base::{Position, SqlError, number};
use hobt_engine::EngineError;
use hobt_tsql::ast::{Expression, Identifier, Literal};
use hobt_tsql::ast::{IsolationLevel, SetOption, StatisticsKind, SwitchOption, ValueOption};
use hobt_types::{SqlType, Value};

use super::event::Message;
use super::failure::Failure;
use super::run::{Interpreter, Outcome};

impl Interpreter<'_> {
    pub(super) fn set_option(&mut self, option: &SetOption, position: Position) -> Result<Outcome, Failure> {
        match option {
            SetOption::Switches { options, on } => {
                for option in options {
                    if let (true, Some(name)) = (*on, unsupported_switch(*option)) {
                        return Err(SqlError::not_supported(format!("SET {name} ON")).into());
                    }
                    self.state.options.set_switch(*option, *on);
                }
            }
            SetOption::Statistics { kinds, on } => {
                for kind in kinds {
                    if let (true, StatisticsKind::Profile | StatisticsKind::Xml) = (*on, kind) {
                        return Err(SqlError::not_supported("SET STATISTICS PROFILE or XML").into());
                    }
                    self.state.options.set_statistics(*kind, *on);
                }
            }
            SetOption::IdentityInsert { .. } => return Err(SqlError::not_supported("SET IDENTITY_INSERT").into()),
            SetOption::IsolationLevel(level) => {
                if matches!(level, IsolationLevel::Snapshot) {
                    return Err(SqlError::not_supported("SET TRANSACTION ISOLATION LEVEL SNAPSHOT").into());
                }
                self.state.options.isolation = *level;
            }
            SetOption::Value { option, value } => self.set_value(*option, value, position)?,
        }
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
                // Negative is for ever, zero does not wait.
                let timeout = self.integer(value)?;
                self.state.options.lock_timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
            }
            ValueOption::DateFirst => {
                let first = self.integer(value)?;
                let first = u8::try_from(first).ok().filter(|first| (1..=7).contains(first));
                self.state.options.date_first = first.ok_or_else(|| invalid("DATEFIRST", position))?;
            }
            ValueOption::DateFormat => {
                let format = self.text_value(value)?.unwrap_or_default().to_lowercase();
                if !["mdy", "dmy", "ymd", "ydm", "myd", "dym"].contains(&format.as_str()) {
                    return Err(invalid("DATEFORMAT", position).into());
                }
                self.state.options.date_format = format;
            }
            ValueOption::Language => {
                let language = self.text_value(value)?.unwrap_or_default();
                if !language.eq_ignore_ascii_case("us_english") && !language.eq_ignore_ascii_case("english") {
                    return Err(SqlError::not_supported(format!("SET LANGUAGE {language}")).into());
                }
                self.send_message(Message::numbered(5703, position.line, "Changed language setting to us_english."))?;
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
                self.state.options.query_governor_cost_limit = self.integer(value)?;
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
        let text = format!("Changed database context to '{}'.", self.state.database.name());
        self.send_message(Message { state: 1, ..Message::numbered(5701, position.line, text) })?;
        Ok(Outcome::QUIET)
    }
}

/// Options whose effect is not there yet; off they are harmless.
fn unsupported_switch(option: SwitchOption) -> Option<&'static str> {
    match option {
        SwitchOption::ImplicitTransactions => Some("IMPLICIT_TRANSACTIONS"),
        SwitchOption::NumericRoundAbort => Some("NUMERIC_ROUNDABORT"),
        SwitchOption::ShowplanAll => Some("SHOWPLAN_ALL"),
        SwitchOption::ShowplanText => Some("SHOWPLAN_TEXT"),
        SwitchOption::ShowplanXml => Some("SHOWPLAN_XML"),
        SwitchOption::FormatOnly => Some("FMTONLY"),
        _ => None,
    }
}

fn invalid(option: &str, position: Position) -> SqlError {
    SqlError::new(number::SET_OPTION_VALUE, format!("SET {option} was given a value outside its range.")).at(position)
}
