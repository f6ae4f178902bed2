//! The frame of a statement: the transaction that it belongs to, its begin and end, and its cost.
//!
//! ```text
//!   in_run               a statement with operators: workers, waits and a cost of its own
//!   in_direct_context    a statement without a plan, of one row
//!        └─ as_statement begin ─► body ─► keep it, or undo it whole
//! ```
//!
//! Definitions use contexts without wait accounting (`ddl`). Transactions of several statements are in `transaction`,
//! table locks in `table_locks`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hobt_base::SqlError;
use hobt_instruments::{WaitCounters, waits};
use hobt_txn::StatementContext;

use super::event::{StatementStatistics, TableReads, ThreadTime};
use super::failure::Failure;
use crate::interpreter::Interpreter;
use crate::open_transaction::OpenTransaction;
use hobt_binder::QueryHints;
use hobt_operators::{OwnThread, OwnTime};
use hobt_table::{Assumptions, OperatorProfile, RunSettings, StatementRun};

/// Trace flag 652: no read-ahead.
const NO_READ_AHEAD: i32 = 652;
/// Trace flag 4136: estimates ignore the values of parameters.
const NO_SNIFFING: i32 = 4136;
/// Trace flag 30003: joins do not pass filters on their keys to scans.
const NO_JOIN_FILTERS: i32 = 30_003;

impl Interpreter<'_> {
    /// The open transaction that the running statement belongs to. `None` if the statement changes a table variable.
    fn transaction_of_statement(&self) -> Option<&OpenTransaction> {
        self.state.transaction.as_ref().filter(|_| !self.scope.changes_variable)
    }

    /// A statement of this session that is about to run. It belongs to the open transaction, unless it changes a table
    /// variable.
    ///
    /// # Errors
    /// 6005 if the instance is being closed.
    pub(super) fn new_run(&self, hints: Option<&QueryHints>) -> Result<Arc<StatementRun>, SqlError> {
        self.new_run_in(self.transaction_of_statement(), hints)
    }

    /// As [`Interpreter::new_run`], in this transaction.
    ///
    /// # Errors
    /// As [`Interpreter::new_run`].
    pub(super) fn new_run_in(
        &self,
        open: Option<&OpenTransaction>,
        hints: Option<&QueryHints>,
    ) -> Result<Arc<StatementRun>, SqlError> {
        let of_hints = hints.map(|hints| hints.trace_flags.as_slice()).unwrap_or_default();
        let of_hints = of_hints.iter().filter_map(|flag| i32::try_from(*flag).ok());
        let mut trace_flags: BTreeSet<i32> = self.environment.instance.runtime().trace_flags.clone();
        trace_flags.extend(self.state.trace_flags.iter().copied().chain(of_hints));
        let settings = RunSettings {
            max_dop: hints.and_then(|hints| hints.maxdop).map(|dop| dop as usize),
            // The instance's own flag is a setting of its scans.
            no_read_ahead: self.state.trace_flags.contains(&NO_READ_AHEAD)
                || hints.is_some_and(|hints| hints.trace_flags.contains(&i64::from(NO_READ_AHEAD))),
            no_join_filters: hints.is_some_and(|hints| hints.no_join_filters) || trace_flags.contains(&NO_JOIN_FILTERS),
            grant_percent: hints.map(|hints| hints.grant_percent).unwrap_or_default(),
            assumptions: self.assumptions(hints, trace_flags.contains(&NO_SNIFFING))?,
            trace_flags,
        };
        let (open, cancelled) = (open.map(OpenTransaction::transaction), Arc::clone(&self.cancelled));
        StatementRun::new(&self.environment.instance, self.state.id, open, cancelled, settings)
    }

    /// The assumptions for estimates.
    ///
    /// # Errors
    /// 137 if a hint names a variable that is not declared.
    fn assumptions(&self, hints: Option<&QueryHints>, no_sniffing: bool) -> Result<Assumptions, SqlError> {
        let Some(hints) = hints else { return Ok(Assumptions { no_sniffing, ..Assumptions::default() }) };
        let mut given = HashMap::with_capacity(hints.optimize_for.len());
        for (name, value) in &hints.optimize_for {
            self.frame().type_of(&name.value, name.position)?;
            given.insert(name.value.to_lowercase(), value.clone());
        }
        Ok(Assumptions {
            knows_all: hints.recompile,
            knows_none: hints.optimize_for_unknown,
            no_sniffing: no_sniffing || hints.no_sniffing,
            given,
            correlation: hints.correlation,
        })
    }

    /// Runs `body` as the statement `run`: counts its waits, keeps or undoes its changes, and records its cost.
    pub(super) fn in_run<R>(
        &mut self,
        run: &Arc<StatementRun>,
        body: impl FnOnce(&mut Self) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.note_direct_cost();
        let started = OwnThread::begin();
        let session = self.state.id;
        self.environment.sessions.statement_runs(session, Arc::downgrade(run));
        self.run_begins(run);
        self.runs.push(Arc::clone(run));
        let result = self.as_statement(&run.context, &run.waits, body, |this, result| {
            if let (Some(open), true) = (&this.state.transaction, run.context.is_in_transaction()) {
                run.databases().iter().for_each(|database| open.uses_database(database));
            }
            run.end(result.is_ok())
        });
        self.runs.pop();
        let time = {
            let _booked_here = waits::set_statement_counters(Some(Arc::clone(&run.waits)));
            started.end()
        };
        let (compile, compile_cpu) = run.compile();
        self.run_ends(run, result.is_ok(), (time.elapsed, time.cpu.saturating_sub(compile_cpu)));
        let cost = StatementStatistics { compile, compile_cpu, ..cost_of(run, time) };
        match self.runs.last() {
            // The outer statement's cost already includes the time that the session has used.
            Some(outer) => {
                outer.add_inner(run);
                let noted = StatementStatistics { elapsed: Duration::ZERO, cpu: Duration::ZERO, ..cost.clone() };
                self.environment.sessions.statement_ends(session, &noted, run.profiles());
            }
            None => {
                self.state.waits.absorb(&run.waits);
                self.environment.sessions.statement_ends(session, &cost, run.profiles());
            }
        }
        self.scope.cost = Some(Box::new(cost));
        let reported = self.report_rejections(run, result.is_ok());
        result.and_then(|result| reported.map(|()| result))
    }

    /// Runs `body` as a statement on this thread only, with its waits counted for the session. `None` from `body` means
    /// that nothing was done.
    pub(super) fn in_direct_context<R>(
        &mut self,
        body: impl FnOnce(&mut Self, &StatementContext) -> Result<Option<R>, Failure>,
    ) -> Result<Option<R>, Failure> {
        let database = self.database();
        let open = self.transaction_of_statement();
        let instance = &self.environment.instance;
        let cancelled = Arc::clone(&self.cancelled);
        let context = match open.map(OpenTransaction::transaction) {
            Some(transaction) => instance.statement_of(transaction, self.state.id, 1, cancelled),
            None => instance.statement_context(self.state.id, 1, cancelled).map_err(SqlError::from)?,
        };
        if let Some(open) = open {
            open.uses_database(&database);
            // This is not under SNAPSHOT, and from now on no statement of the transaction may use SNAPSHOT.
            open.began_in_snapshot(false);
        }
        let waits = Arc::clone(&self.state.waits);
        self.as_statement(
            &context,
            &waits,
            |this| body(this, &context),
            |this, result| {
                let succeeded = matches!(result, Ok(Some(_)));
                let ended = this.environment.instance.end_statement(&context, succeeded, &[&**database.database()]);
                ended.map_err(SqlError::from)
            },
        )
    }

    /// Runs `body` as the statement of `context`, with its waits counted in `waits`. `end` keeps or undoes its changes.
    fn as_statement<R>(
        &mut self,
        context: &StatementContext,
        waits: &Arc<WaitCounters>,
        body: impl FnOnce(&mut Self) -> Result<R, Failure>,
        end: impl FnOnce(&Self, &Result<R, Failure>) -> Result<(), SqlError>,
    ) -> Result<R, Failure> {
        context.lock_owner().begin_statement(Some(Arc::clone(&self.text)));
        let counters = waits::set_statement_counters(Some(Arc::clone(waits)));
        let result = body(self);
        let ended = end(self, &result);
        drop(counters);
        // A failure to end the statement is more important than the statement's own failure.
        ended?;
        result
    }
}

/// The cost of a finished statement. `time` is that of the session's own thread.
fn cost_of(run: &StatementRun, time: OwnTime) -> StatementStatistics {
    let waits = run
        .waits
        .rows()
        .into_iter()
        .map(|row| (row.wait_type.name(), row.waiting_tasks_count, Duration::from_nanos(row.wait_time_ns)));
    let rows =
        |profile: &OperatorProfile| profile.workers().iter().map(|worker| worker.rows_read).collect::<Vec<u64>>();
    let widest =
        run.profiles().iter().map(|profile| rows(profile.as_ref())).max_by_key(|rows| rows.iter().sum::<u64>());
    let filters = run.profiles().into_iter().flat_map(|profile| {
        let of_table = |filter| (profile.table.clone(), filter);
        profile.filters().into_iter().map(of_table).collect::<Vec<_>>()
    });
    StatementStatistics {
        elapsed: time.elapsed,
        cpu: time.cpu + run.worker_cpu(),
        statistics_cost: run.statistics_cost(),
        degree_of_parallelism: run.degree(),
        threads: ThreadTime { own: time.own, workers: run.workers(), working: run.worker_time() },
        reads: TableReads::of(run),
        waits: waits.collect(),
        pages_dirtied: run.waits.pages_dirtied(),
        rows_per_worker: widest.unwrap_or_default(),
        filters: filters.collect(),
        join_splits: run.join_splits().load(Ordering::Relaxed),
        ..StatementStatistics::default()
    }
}
