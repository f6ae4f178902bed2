//! The state of a session between batches: its database, `SET` options, `@@` values and open transaction.
//!
//! Variables are not included, because they live for one batch. The options are interpreted where they are used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hobt_base::{DatabaseId, ObjectId, SessionId};
use hobt_engine::DatabaseUse;
use hobt_instruments::WaitCounters;
use hobt_tsql::ast::{IsolationLevel, StatisticsKind, SwitchOption};
use hobt_txn::Progress;
use hobt_txn::locks::Patience;
use hobt_types::Value;

use crate::open_transaction::OpenTransaction;

/// The options set by `SET`.
#[derive(Clone, PartialEq, Debug)]
pub struct SetOptions {
    switches: u32,
    statistics: u8,
    /// `SET TRANSACTION ISOLATION LEVEL`.
    pub isolation: IsolationLevel,
    /// `SET ROWCOUNT`; 0 means no limit.
    pub row_count: u64,
    /// `SET TEXTSIZE`, in bytes; -1 means no limit.
    pub text_size: i64,
    /// `SET LOCK_TIMEOUT`; `None` waits for ever.
    pub lock_timeout: Option<Duration>,
    /// `SET DATEFIRST`: the first day of the week; 1 is Monday.
    pub date_first: u8,
    /// `SET DATEFORMAT`, in lower case.
    pub date_format: String,
    /// `SET LANGUAGE`.
    pub language: String,
    /// `SET DEADLOCK_PRIORITY`, -10 to 10.
    pub deadlock_priority: i8,
    /// `SET QUERY_GOVERNOR_COST_LIMIT`; 0 means no limit.
    pub query_governor_cost_limit: i64,
    /// `SET CONTEXT_INFO`, at most 128 bytes.
    pub context_info: Vec<u8>,
}

impl Default for SetOptions {
    /// The options that every current client sets when it connects.
    fn default() -> SetOptions {
        let mut options = SetOptions {
            switches: 0,
            statistics: 0,
            isolation: IsolationLevel::ReadCommitted,
            row_count: 0,
            text_size: -1,
            lock_timeout: None,
            date_first: 7,
            date_format: "mdy".to_owned(),
            language: "us_english".to_owned(),
            deadlock_priority: 0,
            query_governor_cost_limit: 0,
            context_info: Vec::new(),
        };
        for option in [
            SwitchOption::AnsiNullDefaultOn,
            SwitchOption::AnsiNulls,
            SwitchOption::AnsiPadding,
            SwitchOption::AnsiWarnings,
            SwitchOption::ArithAbort,
            SwitchOption::ConcatNullYieldsNull,
            SwitchOption::QuotedIdentifier,
        ] {
            options.set_switch(option, true);
        }
        options
    }
}

const fn switch_bit(option: SwitchOption) -> u32 {
    1 << option as u32
}

const fn statistics_bit(kind: StatisticsKind) -> u8 {
    1 << kind as u8
}

impl SetOptions {
    /// The session's lock timeout and its priority as a deadlock victim.
    pub(super) fn patience(&self) -> Patience {
        Patience { timeout: self.lock_timeout, deadlock_priority: self.deadlock_priority }
    }

    /// The options that plans depend on; the others are as in a new session.
    pub(super) fn of_plans(&self) -> SetOptions {
        SetOptions {
            statistics: 0,
            lock_timeout: None,
            deadlock_priority: 0,
            query_governor_cost_limit: 0,
            context_info: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether a switch is on.
    pub fn switch(&self, option: SwitchOption) -> bool {
        self.switches & switch_bit(option) != 0
    }

    /// Turns a switch on or off. `ANSI_DEFAULTS` sets all the switches that it includes.
    pub fn set_switch(&mut self, option: SwitchOption, on: bool) {
        if option == SwitchOption::AnsiDefaults {
            for part in [
                SwitchOption::AnsiNulls,
                SwitchOption::AnsiNullDefaultOn,
                SwitchOption::AnsiPadding,
                SwitchOption::AnsiWarnings,
                SwitchOption::CursorCloseOnCommit,
                SwitchOption::ImplicitTransactions,
                SwitchOption::QuotedIdentifier,
            ] {
                self.set_switch(part, on);
            }
        }
        match on {
            true => self.switches |= switch_bit(option),
            false => self.switches &= !switch_bit(option),
        }
    }

    /// Whether `SET STATISTICS` of this kind is on.
    pub fn statistics(&self, kind: StatisticsKind) -> bool {
        self.statistics & statistics_bit(kind) != 0
    }

    /// Turns `SET STATISTICS` of this kind on or off.
    pub fn set_statistics(&mut self, kind: StatisticsKind, on: bool) {
        match on {
            true => self.statistics |= statistics_bit(kind),
            false => self.statistics &= !statistics_bit(kind),
        }
    }

    /// `@@OPTIONS`: the switches as bits, numbered as on Microsoft's page on "user options".
    pub fn bits(&self) -> i64 {
        [
            (SwitchOption::DisableDeferredConstraintCheck, 1),
            (SwitchOption::ImplicitTransactions, 2),
            (SwitchOption::CursorCloseOnCommit, 4),
            (SwitchOption::AnsiWarnings, 8),
            (SwitchOption::AnsiPadding, 16),
            (SwitchOption::AnsiNulls, 32),
            (SwitchOption::ArithAbort, 64),
            (SwitchOption::ArithIgnore, 128),
            (SwitchOption::QuotedIdentifier, 256),
            (SwitchOption::NoCount, 512),
            (SwitchOption::AnsiNullDefaultOn, 1024),
            (SwitchOption::AnsiNullDefaultOff, 2048),
            (SwitchOption::ConcatNullYieldsNull, 4096),
            (SwitchOption::NumericRoundAbort, 8192),
            (SwitchOption::XactAbort, 16384),
        ]
        .iter()
        .filter(|(option, _)| self.switch(*option))
        .map(|(_, bit)| bit)
        .sum()
    }
}

/// Trace flags that are on for one session. Those of the whole instance are kept elsewhere.
pub type TraceFlags = std::collections::BTreeSet<i32>;

/// The state of a session between batches.
#[derive(Debug)]
pub struct SessionState {
    /// `@@SPID`.
    pub id: SessionId,
    /// The current database. It cannot be dropped while it is held here.
    pub database: DatabaseUse,
    /// The login's name.
    pub login: String,
    /// The client's computer.
    pub host: String,
    /// The client's program.
    pub program: String,
    /// The `SET` options.
    pub options: SetOptions,
    /// `DBCC TRACEON` without `-1`.
    pub trace_flags: TraceFlags,
    /// `@@ROWCOUNT`.
    pub row_count: u64,
    /// `@@ERROR`.
    pub error: i32,
    /// `@@IDENTITY`; NULL before the first insert into a table with an identity column.
    pub identity: Value,
    /// The table of `SET IDENTITY_INSERT … ON`.
    pub identity_insert: Option<(DatabaseId, ObjectId)>,
    /// `@@NESTLEVEL`.
    pub nest_level: usize,
    /// `@@PROCID`.
    pub procedure: i32,
    /// The session's waits since it began.
    pub waits: Arc<WaitCounters>,
    /// The progress of its running statement.
    pub progress: Arc<Progress>,
    /// Temporary tables: maps the name as written, in lower case, to the name in `tempdb`.
    pub temporary_tables: HashMap<String, String>,
    /// Whether each statement's cost includes its plan.
    pub collects_plans: bool,
    /// The open transaction of `BEGIN TRANSACTION`.
    pub(super) transaction: Option<OpenTransaction>,
}

impl SessionState {
    /// The state of a new session in `database`.
    pub fn new(id: SessionId, database: DatabaseUse) -> SessionState {
        SessionState {
            id,
            database,
            login: "sa".to_owned(),
            host: String::new(),
            program: "hobt".to_owned(),
            options: SetOptions::default(),
            trace_flags: TraceFlags::new(),
            row_count: 0,
            error: 0,
            identity: Value::Null,
            identity_insert: None,
            nest_level: 0,
            procedure: 0,
            waits: Arc::default(),
            progress: Arc::default(),
            temporary_tables: HashMap::new(),
            collects_plans: false,
            transaction: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_a_client_with_odbc() {
        // SQL Server shows 5496 for an ODBC connection with ARITHABORT on.
        assert_eq!(SetOptions::default().bits(), 8 + 16 + 32 + 64 + 256 + 1024 + 4096);
    }

    #[test]
    fn ansi_defaults_turn_what_they_stand_for() {
        let mut options = SetOptions::default();
        options.set_switch(SwitchOption::AnsiDefaults, false);
        assert!(!options.switch(SwitchOption::QuotedIdentifier));
        assert!(options.switch(SwitchOption::ConcatNullYieldsNull));
    }

    #[test]
    fn statistics_are_switched_apart() {
        let mut options = SetOptions::default();
        options.set_statistics(StatisticsKind::Io, true);
        assert!(options.statistics(StatisticsKind::Io));
        assert!(!options.statistics(StatisticsKind::Time));
    }
}
