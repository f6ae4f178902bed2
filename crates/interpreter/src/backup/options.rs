//! The options of `BACKUP` and `RESTORE`.

use std::path::PathBuf;

use hobt_base::{Lsn, SqlError, errors};
use hobt_engine::{RestoreEnd, StopPoint};
use hobt_functions::{FunctionContext, convert_value};
use hobt_tsql::ast::{Backup, BackupOption, Literal, OptionItem, OptionValue};
use hobt_types::{MaxLength, SqlType, Value};

use crate::failure::Failure;
use crate::interpreter::Interpreter;

/// The percentage step of `STATS` without a number.
const STATS_STEP: u64 = 10;

/// What the options say.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) is_differential: bool,
    pub(super) formats: bool,
    pub(super) inits: bool,
    pub(super) compresses: bool,
    pub(super) checks: bool,
    pub(super) continues_after_error: bool,
    pub(super) is_copy_only: bool,
    pub(super) keeps_log: bool,
    pub(super) replaces: bool,
    /// After how many per cent a message is sent; 0 for none.
    pub(super) stats: u64,
    pub(super) file: Option<u32>,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) media_name: String,
    pub(super) media_description: String,
    pub(super) end: Option<RestoreEnd>,
    pub(super) stop: Option<StopPoint>,
    pub(super) moves: Vec<(String, PathBuf)>,
    /// The names that were given, for what does not go together.
    given: Vec<String>,
}

/// Options that change nothing here: tapes, hints about transfers.
const WITHOUT_EFFECT: &[&str] = &[
    "BLOCKSIZE",
    "BUFFERCOUNT",
    "MAXTRANSFERSIZE",
    "SKIP",
    "NOSKIP",
    "NOFORMAT",
    "NOINIT",
    "NO_COMPRESSION",
    "NO_CHECKSUM",
    "STOP_ON_ERROR",
    "REWIND",
    "NOREWIND",
    "UNLOAD",
    "NOUNLOAD",
    "RESTART",
];

impl Options {
    /// Reads the options of a statement.
    pub(super) fn read(batch: &mut Interpreter<'_>, backup: &Backup) -> Result<Options, Failure> {
        let mut options = Options::default();
        for option in &backup.options {
            match option {
                BackupOption::Move { file, path } => {
                    let (Some(file), Some(path)) = (text_of(file), text_of(path)) else { continue };
                    options.moves.push((file, PathBuf::from(path)));
                }
                BackupOption::Mark { is_before, mark, after } => {
                    let mark = batch.text_value(mark)?.unwrap_or_default();
                    let after = match after {
                        Some(after) => Some(moment(batch.evaluate(after)?)?),
                        None => None,
                    };
                    options.set_stop(stop_at_mark(&mark, *is_before, after)?)?;
                }
                BackupOption::Variable { name, value } => {
                    let value = batch.evaluate(value)?;
                    options.set_value(name, value)?;
                    options.given.push(name.clone());
                }
                BackupOption::Item(item) => {
                    options.set(item).map_err(|error| error.at(item.span.position))?;
                    options.given.push(item.name.clone());
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, item: &OptionItem) -> Result<(), SqlError> {
        let unknown = || errors::BACKUP_OPTION.with([&item.name.to_lowercase()]);
        if let OptionValue::Literal(literal) = &item.value {
            let value = match literal {
                Literal::Integer(number) => {
                    hobt_types::TypedValue { sql_type: SqlType::BigInt, value: Value::Int(*number) }
                }
                literal => hobt_types::TypedValue {
                    sql_type: SqlType::NVarChar(MaxLength::Limited(4000)),
                    value: Value::Text(text_of(literal).ok_or_else(unknown)?),
                },
            };
            return self.set_value(&item.name, value);
        }
        if !matches!(item.value, OptionValue::Absent) {
            return Err(unknown());
        }
        match item.name.as_str() {
            "DIFFERENTIAL" => self.is_differential = true,
            "FORMAT" => (self.formats, self.inits) = (true, true),
            "INIT" => self.inits = true,
            "COMPRESSION" => self.compresses = true,
            "CHECKSUM" => self.checks = true,
            "CONTINUE_AFTER_ERROR" => self.continues_after_error = true,
            "COPY_ONLY" => self.is_copy_only = true,
            "NO_TRUNCATE" => self.keeps_log = true,
            "REPLACE" => self.replaces = true,
            "STATS" => self.stats = STATS_STEP,
            "RECOVERY" => self.end = Some(RestoreEnd::Recovery),
            "NORECOVERY" => self.end = Some(RestoreEnd::NoRecovery),
            name if WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn set_stop(&mut self, stop: StopPoint) -> Result<(), SqlError> {
        match self.stop.replace(stop) {
            Some(_) => Err(errors::BACKUP_OPTIONS_CONFLICT.with([&"stopatmark", &"stopat"])),
            None => Ok(()),
        }
    }

    /// An option with a value.
    fn set_value(&mut self, name: &str, value: hobt_types::TypedValue) -> Result<(), SqlError> {
        let text = |value: &hobt_types::TypedValue| -> Result<String, SqlError> {
            match convert_value(&value.value, value.sql_type, SqlType::NVarChar(MaxLength::Limited(4000)))? {
                Value::Text(text) => Ok(text),
                _ => Ok(String::new()),
            }
        };
        let number = |value: &hobt_types::TypedValue| match convert_value(&value.value, value.sql_type, SqlType::Int) {
            Ok(Value::Int(number)) => u32::try_from(number).map_err(|_| errors::OPTION_VALUE.with([&name])),
            Ok(_) => Err(errors::OPTION_VALUE.with([&name])),
            Err(error) => Err(error),
        };
        match name {
            "NAME" => self.name = text(&value)?,
            "DESCRIPTION" => self.description = text(&value)?,
            "MEDIANAME" => self.media_name = text(&value)?,
            "MEDIADESCRIPTION" => self.media_description = text(&value)?,
            "FILE" => self.file = Some(number(&value)?),
            "STATS" => self.stats = u64::from(number(&value)?).clamp(1, 100),
            "STANDBY" => self.end = Some(RestoreEnd::Standby(PathBuf::from(text(&value)?))),
            "STOPAT" => self.set_stop(StopPoint::Time(moment(value)?))?,
            // Without days a backup may be overwritten, as all may.
            "RETAINDAYS" if number(&value)? == 0 => {}
            name if WITHOUT_EFFECT.contains(&name) => {}
            name => return Err(errors::BACKUP_OPTION.with([&name.to_lowercase()])),
        }
        Ok(())
    }

    /// Refuses options that are not those of `BACKUP`.
    pub(super) fn check_backup(&self, is_log: bool) -> Result<(), SqlError> {
        let of_restore = ["REPLACE", "RECOVERY", "STANDBY", "STOPAT", "FILE", "RESTART"];
        let of_log = ["NO_TRUNCATE", "NORECOVERY"];
        let wrong = self.given.iter().find(|name| {
            of_restore.contains(&name.as_str())
                || (!is_log && of_log.contains(&name.as_str()))
                || (is_log && name.as_str() == "DIFFERENTIAL")
        });
        if let Some(name) = wrong {
            return Err(errors::BACKUP_OPTION.with([&name.to_lowercase()]));
        }
        if self.stop.is_some() || !self.moves.is_empty() {
            return Err(errors::BACKUP_OPTION.with([&"move, stopatmark"]));
        }
        let both = |one: &str, other: &str| {
            let has = |name: &str| self.given.iter().any(|given| given == name);
            has(one) && has(other)
        };
        for (one, other) in
            [("INIT", "NOINIT"), ("FORMAT", "NOFORMAT"), ("COPY_ONLY", "DIFFERENTIAL"), ("FORMAT", "NOINIT")]
        {
            if both(one, other) {
                return Err(errors::BACKUP_OPTIONS_CONFLICT.with([&one.to_lowercase(), &other.to_lowercase()]));
            }
        }
        Ok(())
    }

    /// Refuses options that are not those of `RESTORE`.
    pub(super) fn check_restore(&self) -> Result<(), SqlError> {
        let of_backup = ["DIFFERENTIAL", "FORMAT", "INIT", "COMPRESSION", "COPY_ONLY", "NO_TRUNCATE", "NAME"];
        if let Some(name) = self.given.iter().find(|name| of_backup.contains(&name.as_str())) {
            return Err(errors::BACKUP_OPTION.with([&name.to_lowercase()]));
        }
        let has = |name: &str| self.given.iter().any(|given| given == name);
        for (one, other) in [("RECOVERY", "NORECOVERY"), ("RECOVERY", "STANDBY"), ("NORECOVERY", "STANDBY")] {
            if has(one) && has(other) {
                return Err(errors::BACKUP_OPTIONS_CONFLICT.with([&other.to_lowercase(), &one.to_lowercase()]));
            }
        }
        Ok(())
    }
}

fn text_of(literal: &Literal) -> Option<String> {
    match literal {
        Literal::String { value, .. } => Some(value.to_string()),
        _ => None,
    }
}

/// A moment in the server's zone, as 100 ns since 1970-01-01 UTC.
fn moment(value: hobt_types::TypedValue) -> Result<i64, SqlError> {
    let converted = convert_value(&value.value, value.sql_type, SqlType::DateTime2 { scale: 7 })?;
    let Value::Int(local) = converted else { return Err(errors::OPTION_VALUE.with([&"STOPAT"])) };
    let now = FunctionContext::now();
    Ok(local - (now.now_local - now.now_utc))
}

/// `STOPATMARK = 'name' | 'lsn:position'`.
fn stop_at_mark(mark: &str, is_before: bool, after: Option<i64>) -> Result<StopPoint, SqlError> {
    match mark.split_at_checked(4) {
        Some((prefix, position)) if prefix.eq_ignore_ascii_case("lsn:") => {
            let lsn = position.trim().parse().map_err(|_| errors::OPTION_VALUE.with([&"STOPATMARK"]))?;
            Ok(StopPoint::Position { lsn: Lsn(lsn), is_before })
        }
        _ => Ok(StopPoint::Mark { name: mark.to_owned(), is_before, after }),
    }
}
