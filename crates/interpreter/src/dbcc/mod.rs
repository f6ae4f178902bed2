//! `DBCC`: trace flags, statistics, the cache, the log, pages, and consistency checks.

mod check;
mod check_identity;
mod clone_database;
mod log;
mod page;
mod show_statistics;
mod shrink_file;
mod update_usage;

use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, Position, SqlError, errors};
use hobt_engine::EngineError;
use hobt_tsql::ast::{Dbcc, DbccArgument, OptionItem};
use hobt_types::{MaxLength, SqlType, Value};

use super::event::{DoneKind, Event, Message, ResultColumn};
use super::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};
use hobt_functions::{batch_of_values, value_text};

const NAME: SqlType = SqlType::NVarChar(MaxLength::Limited(256));

/// The `DBCC` commands and the checkpoint of a batch.
pub(crate) struct Maintenance<'b, 's> {
    pub(super) batch: &'b mut Interpreter<'s>,
}

impl<'s> Interpreter<'s> {
    /// The `DBCC` commands of this batch.
    pub(crate) fn maintenance(&mut self) -> Maintenance<'_, 's> {
        Maintenance { batch: self }
    }
}

impl Interpreter<'_> {
    /// Sends a result set of values. Returns the number of rows.
    pub(super) fn send_values(&mut self, columns: &[(&str, SqlType)], rows: Vec<Vec<Value>>) -> Result<u64, Failure> {
        let result_columns: Vec<ResultColumn> = columns
            .iter()
            .map(|(name, sql_type)| ResultColumn { name: (*name).to_owned(), sql_type: *sql_type, nullable: true })
            .collect();
        let fields: Vec<_> = columns
            .iter()
            .map(|(name, sql_type)| arrow::datatypes::Field::new(*name, hobt_functions::carrier(*sql_type), true))
            .collect();
        let types: Vec<SqlType> = columns.iter().map(|(_, sql_type)| *sql_type).collect();
        let batch = batch_of_values(Arc::new(arrow::datatypes::Schema::new(fields)), &types, &rows)?;
        let count = rows.len() as u64;
        self.begin_result_set(result_columns)?;
        self.give_rows(batch)?;
        self.end_result_set(count)?;
        if self.capture.is_some() {
            return Ok(count);
        }
        let shown = (!self.state.options.switch(hobt_tsql::ast::SwitchOption::NoCount)).then_some(count);
        self.send(Event::Done { row_count: shown, kind: DoneKind::Select })?;
        Ok(count)
    }
}

impl Maintenance<'_, '_> {
    pub(super) fn dbcc(&mut self, dbcc: &Dbcc, position: Position) -> Result<Outcome, Failure> {
        let mut arguments = Vec::with_capacity(dbcc.arguments.len());
        for argument in &dbcc.arguments {
            arguments.push(match argument {
                DbccArgument::Name(name) => Value::Text(super::names::written(name)),
                DbccArgument::Value(value) => self.batch.evaluate(value)?.value,
            });
        }
        let says = OptionItem::find(&dbcc.options, "NO_INFOMSGS").is_none();
        match dbcc.command.value.to_uppercase().as_str() {
            "CHECKDB" => self.check_database(&arguments, check::Scope::Database, says, position).map(|_| ())?,
            "CHECKALLOC" => self.check_database(&arguments, check::Scope::Allocation, says, position).map(|_| ())?,
            "CLONEDATABASE" => self.clone_database(&arguments, &dbcc.options, position)?,
            "CHECKTABLE" => self.check_table(&arguments, says, position)?,
            "CHECKIDENT" => self.check_identity(&arguments, says, position)?,
            "LOGINFO" => self.log_information(&arguments, position)?,
            "TRACEON" => self.trace_flags(&arguments, true)?,
            "TRACEOFF" => self.trace_flags(&arguments, false)?,
            "TRACESTATUS" => self.trace_status(&arguments)?,
            "SQLPERF" => self.sqlperf(&arguments, position)?,
            "DROPCLEANBUFFERS" => {
                self.batch.environment.instance.pool().drop_clean_buffers(None);
            }
            // Plans are made for each execution. The store only keeps them for display.
            "FREEPROCCACHE" => {
                let handle = arguments
                    .first()
                    .and_then(|given| if let Value::Binary(bytes) = given { Some(bytes) } else { None });
                self.batch.environment.plans.clear(handle.map(Vec::as_slice));
            }
            "FREESYSTEMCACHE" => self.batch.environment.plans.clear(None),
            "FREESESSIONCACHE" | "FLUSHPROCINDB" => {}
            "PAGE" => self.dbcc_page(&arguments, position)?,
            "SHOW_STATISTICS" => self.show_statistics(&arguments, &dbcc.options, position)?,
            "SHRINKFILE" => self.shrink_file(&arguments, position)?,
            "SHOWFILESTATS" => self.show_file_stats()?,
            "OPENTRAN" => self.open_transaction_information(&arguments, &dbcc.options, position)?,
            "UPDATEUSAGE" => self.update_usage(&arguments, &dbcc.options, position)?,
            "USEROPTIONS" => self.user_options()?,
            other => return Err(SqlError::not_supported(format!("DBCC {other}")).at(position).into()),
        }
        if says {
            self.batch.send_message(Message::of(position.line, errors::DBCC_COMPLETED.error()))?;
        }
        Ok(Outcome::QUIET)
    }

    /// The oldest open transaction that has used a database, which is the current one if none is named.
    fn open_transaction_information(
        &mut self,
        arguments: &[Value],
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        let is_known = |item: &&OptionItem| ["TABLERESULTS", "NO_INFOMSGS"].contains(&item.name.as_str());
        if let Some(other) = options.iter().find(|item| !is_known(item)) {
            return Err(errors::UNKNOWN_OPTION.with([&other.name, &"DBCC OPENTRAN"]).at(other.span.position).into());
        }
        let database = self.database_to_check(arguments.first(), "OPENTRAN", position)?;
        let environment = &self.batch.environment;
        let mut open = environment.sessions.open_transactions();
        open.retain(|(_, transaction, _)| transaction.has_used(&database));
        let oldest = open.iter().min_by_key(|(_, transaction, _)| transaction.id());
        let oldest = oldest
            .map(|(session, transaction, begun)| (*session, transaction.name().unwrap_or("user_transaction"), *begun));
        // One that recovery has left open is older than those of this start.
        let undone = environment.instance.transactions_undone();
        let undone = undone.iter().filter(|undone| undone.database == database.id()).min_by_key(|one| one.transaction);
        let oldest = undone.map(|undone| (undone.session, "rolled back after a crash", undone.since)).or(oldest);
        let oldest = oldest.map(|(session, name, begun)| {
            let begun = value_text(&Value::Int(begun), SqlType::DateTime2 { scale: 3 })?;
            Ok::<_, SqlError>((session, name.to_owned(), begun))
        });
        let oldest = oldest.transpose()?;
        if OptionItem::find(options, "TABLERESULTS").is_some() {
            let row = |name: &str, value: String| vec![Value::Text(name.to_owned()), Value::Text(value)];
            let rows = oldest.map(|(session, name, begun)| {
                vec![
                    row("OLDACT_SPID", session.to_string()),
                    row("OLDACT_UID", "-1".to_owned()),
                    row("OLDACT_NAME", name),
                    row("OLDACT_STARTTIME", begun),
                ]
            });
            self.batch.send_values(&[("REP_NAME", NAME), ("REP_VALUE", NAME)], rows.unwrap_or_default())?;
            return Ok(());
        }
        let text = match oldest {
            None => "No active open transactions.".to_owned(),
            Some((session, name, begun)) => {
                format!(
                    "Transaction information for database '{}'.\n\nOldest active transaction:\n    \
                     SPID (server process ID): {session}\n    UID (user ID) : -1\n    Name          : {name}\n    \
                     Start time    : {begun}",
                    database.name(),
                )
            }
        };
        self.batch.send_message(Message::plain(position.line, text))
    }

    fn trace_flags(&mut self, arguments: &[Value], on: bool) -> Result<(), Failure> {
        let (flags, global) = split_flags(arguments)?;
        if global {
            self.batch.environment.instance.change_runtime(|runtime| {
                flags.iter().for_each(|flag| runtime.set_trace_flag(*flag, on));
            });
            return Ok(());
        }
        for flag in flags {
            if on {
                self.batch.state.trace_flags.insert(flag);
            } else {
                self.batch.state.trace_flags.remove(&flag);
            }
        }
        Ok(())
    }

    fn trace_status(&mut self, arguments: &[Value]) -> Result<(), Failure> {
        let (asked, _) = split_flags(arguments)?;
        let runtime = self.batch.environment.instance.runtime();
        let flags: Vec<i32> = match asked.is_empty() {
            true => runtime.trace_flags.union(&self.batch.state.trace_flags).copied().collect(),
            false => asked,
        };
        let rows = flags.into_iter().map(|flag| {
            let (global, session) = (runtime.trace_flags.contains(&flag), self.batch.state.trace_flags.contains(&flag));
            let bit = |value: bool| Value::Int(i64::from(value));
            vec![Value::Int(i64::from(flag)), bit(global || session), bit(global), bit(session)]
        });
        let rows = rows.collect();
        let columns = ["TraceFlag", "Status", "Global", "Session"].map(|name| (name, SqlType::SmallInt));
        self.batch.send_values(&columns, rows).map(|_| ())
    }

    fn sqlperf(&mut self, arguments: &[Value], position: Position) -> Result<(), Failure> {
        let text = |index: usize| match arguments.get(index) {
            Some(Value::Text(text)) => text.to_lowercase(),
            _ => String::new(),
        };
        let (what, action) = (text(0), text(1));
        let what = what.strip_prefix("sys.").unwrap_or(&what).to_owned();
        match (what.as_str(), action.as_str()) {
            ("dm_os_wait_stats" | "waitstats", "clear") => hobt_instruments::waits::clear(),
            ("dm_os_latch_stats", "clear") => hobt_instruments::latches::clear(),
            ("dm_os_spinlock_stats" | "spinlockstats", "clear") => hobt_instruments::spinlocks::clear(),
            ("spinlockstats", "") => return self.spinlock_stats(),
            ("logspace", "") => return self.log_space(),
            _ => return Err(errors::SQLPERF_ARGUMENT.with([&what]).at(position).into()),
        }
        Ok(())
    }

    fn spinlock_stats(&mut self) -> Result<(), Failure> {
        let columns = [
            ("Spinlock Name", NAME),
            ("Collisions", SqlType::BigInt),
            ("Spins", SqlType::BigInt),
            ("Spins/Collision", SqlType::Real),
            ("Sleep Time (ms)", SqlType::BigInt),
            ("Backoffs", SqlType::Int),
        ];
        let big = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        let rows = hobt_instruments::spinlocks::snapshot().into_iter().map(|row| {
            let ratio = if row.collisions == 0 { 0.0 } else { row.spins as f64 / row.collisions as f64 };
            vec![
                Value::Text(row.name.name().to_owned()),
                big(row.collisions),
                big(row.spins),
                Value::Float(f64::from(ratio as f32)),
                big(row.sleep_time_ns / 1_000_000),
                Value::Int(i64::try_from(row.backoffs).unwrap_or(i64::MAX).min(i64::from(i32::MAX))),
            ]
        });
        self.batch.send_values(&columns, rows.collect()).map(|_| ())
    }

    fn show_file_stats(&mut self) -> Result<(), Failure> {
        let columns = [
            ("Fileid", SqlType::Int),
            ("FileGroup", SqlType::Int),
            ("TotalExtents", SqlType::BigInt),
            ("UsedExtents", SqlType::BigInt),
            ("Name", NAME),
            ("FileName", NAME),
        ];
        let database = self.batch.state.database.id();
        let rows = self.batch.state.database.storage().files().into_iter().map(|file| {
            let total = i64::from(self.batch.environment.instance.shown_pages(database, &file).div_ceil(EXTENT_PAGES));
            vec![
                Value::Int(i64::from(file.id().0)),
                Value::Int(i64::from(file.filegroup().0)),
                Value::Int(total),
                Value::Int(total - i64::from(file.free_extents())),
                Value::Text(file.name().to_owned()),
                Value::Text(file.path().display().to_string()),
            ]
        });
        let rows = rows.collect();
        self.batch.send_values(&columns, rows).map(|_| ())
    }

    fn user_options(&mut self) -> Result<(), Failure> {
        use hobt_tsql::ast::SwitchOption as S;
        let options = &self.batch.state.options;
        let mut rows = vec![
            ("textsize".to_owned(), options.text_size.to_string()),
            ("language".to_owned(), options.language.clone()),
            ("dateformat".to_owned(), options.date_format.clone()),
            ("datefirst".to_owned(), options.date_first.to_string()),
            (
                "lock_timeout".to_owned(),
                options.lock_timeout.map_or("-1".to_owned(), |timeout| timeout.as_millis().to_string()),
            ),
        ];
        for (option, name) in [
            (S::QuotedIdentifier, "quoted_identifier"),
            (S::ArithAbort, "arithabort"),
            (S::AnsiNullDefaultOn, "ansi_null_dflt_on"),
            (S::AnsiWarnings, "ansi_warnings"),
            (S::AnsiPadding, "ansi_padding"),
            (S::AnsiNulls, "ansi_nulls"),
            (S::ConcatNullYieldsNull, "concat_null_yields_null"),
            (S::NoCount, "nocount"),
            (S::XactAbort, "xact_abort"),
        ] {
            if options.switch(option) {
                rows.push((name.to_owned(), "SET".to_owned()));
            }
        }
        rows.push(("isolation level".to_owned(), isolation_name(options.isolation).to_owned()));
        let rows = rows.into_iter().map(|(name, value)| vec![Value::Text(name), Value::Text(value)]).collect();
        self.batch.send_values(&[("Set Option", NAME), ("Value", NAME)], rows).map(|_| ())
    }

    pub(super) fn checkpoint(&mut self) -> Result<Outcome, Failure> {
        self.batch.state.database.checkpoint().map_err(|error: EngineError| error.to_sql_error())?;
        Ok(Outcome::QUIET)
    }
}

/// The level's name as `DBCC USEROPTIONS` prints it.
fn isolation_name(level: hobt_tsql::ast::IsolationLevel) -> &'static str {
    use hobt_tsql::ast::IsolationLevel as L;
    match level {
        L::ReadUncommitted => "read uncommitted",
        L::ReadCommitted => "read committed",
        L::RepeatableRead => "repeatable read",
        L::Snapshot => "snapshot",
        L::Serializable => "serializable",
    }
}

/// 2501.
fn no_such_table(name: &str) -> SqlError {
    errors::CHECK_NO_SUCH_TABLE.with([&name])
}

/// Trace flags, and whether `-1` (for all sessions) is among them.
fn split_flags(arguments: &[Value]) -> Result<(Vec<i32>, bool), SqlError> {
    let mut flags = Vec::new();
    let mut global = false;
    for argument in arguments {
        match argument {
            Value::Int(-1) => global = true,
            Value::Int(flag) if (1..=i64::from(i16::MAX)).contains(flag) => {
                flags.push(i32::try_from(*flag).unwrap_or(i32::MAX));
            }
            _ => return Err(errors::TRACE_FLAG_RANGE.error()),
        }
    }
    Ok((flags, global))
}
