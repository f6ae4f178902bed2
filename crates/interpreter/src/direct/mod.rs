//! Direct execution of statements: what earlier runs of a step have taught, so that a loop does not bind the same text
//! again and again.
//!
//! The first run of an assignment or condition compiles a [`Formula`], if possible. Later runs evaluate it. Statements
//! of rows are interpreted in their first run and learned in their second, in a loop or in another batch, so a
//! statement that runs once has its usual cost and its usual diagnostics. The learned data lives as long as the steps
//! of the batch or procedure run, in one frame, whose variables keep their positions and types.

mod by_key;
mod insert;
pub(crate) mod learned;
mod plain_text;
mod read;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hobt_base::{DatabaseId, Position, SqlError};
use hobt_catalog::Table;
use hobt_functions::FunctionContext;
use hobt_instruments::{processor, schedule};
use hobt_tsql::ast::{
    ArithmeticStep, AssignmentOperator, Condition, Expression, Insert, SelectStatement, Span, StatisticsKind,
    VariableName,
};
use hobt_txn::locks::{LockMode, LockResource, Patience};
use hobt_txn::{RowLockSettings, RowLocks, StatementContext};
use hobt_types::{SqlType, TypedValue, Value};

use super::change::Change;
use super::environment::Environment;
use super::event::{DoneKind, StatementStatistics};
use super::failure::Failure;
use super::frame::Frame;
use super::globals;
use super::state::SessionState;
use crate::direct::learned::{Direct, Learned, Locked};
use crate::interpreter::{Interpreter, Outcome};
use crate::stored_table::has_rules;
use hobt_binder::formula;
use hobt_binder::{BindOptions, Binder, BoundExpr, Formula, Given};
use hobt_operators::{WriteTarget, lock_error};

/// Trace flag 30001: nothing is learned, and each statement is bound on every run.
const LEARN_NOTHING: i32 = 30_001;
/// Trace flag 30002: statements are learned on their first run.
const LEARN_AT_ONCE: i32 = 30_002;

/// After this many misses of its learned data, a statement is not learned again.
const MISSES: u8 = 8;

/// Costs are reported to the session after this many direct statements.
const NOTED_TOGETHER: u64 = 1000;

/// A statement that may be learned.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'s> {
    Insert(&'s Insert),
    Change(Change<'s>),
    Read(&'s SelectStatement),
}

impl Wanted<'_> {
    /// Whether the statement may be learned, as far as its text tells.
    fn is_of_one_row(self) -> bool {
        match self {
            Wanted::Insert(insert) => plain_text::has_plain_text(insert),
            Wanted::Change(Change::Update(update)) => plain_text::is_plain_update(update),
            Wanted::Change(Change::Delete(delete)) => plain_text::is_plain_delete(delete),
            Wanted::Read(select) => plain_text::plain_parts(select).is_some(),
        }
    }
}

/// A session's values for formulas. The time is fixed when the first formula asks for it.
pub(super) struct GivenValues<'a> {
    environment: &'a Environment,
    state: &'a SessionState,
    frame: &'a Frame,
    now: &'a OnceCell<FunctionContext>,
}

impl Given for GivenValues<'_> {
    fn variable(&self, place: usize) -> &Value {
        &self.frame.at(place).value
    }

    fn global(&self, name: &str) -> Option<TypedValue> {
        globals::value(self.environment, self.state, name)
    }

    fn now(&self) -> &FunctionContext {
        self.now.get_or_init(FunctionContext::now)
    }
}

impl Interpreter<'_> {
    /// The values that formulas are evaluated with. They share one time.
    pub(super) fn given_at<'a>(&'a self, now: &'a OnceCell<FunctionContext>) -> GivenValues<'a> {
        GivenValues { environment: self.environment, state: self.state, frame: self.frame(), now }
    }

    /// Runs a statement without binding it, if it has been learned.
    pub(super) fn run_learned(
        &mut self,
        wanted: Wanted<'_>,
        learned: &mut Learned,
    ) -> Result<Option<Outcome>, Failure> {
        if self.learns_nothing() {
            return Ok(None);
        }
        // In a loop, the clocks would cost more than the statement.
        let is_first = matches!(learned, Learned::Nothing);
        let place = match learned {
            Learned::Nothing if !self.learns_at_once() => {
                *learned = Learned::Ran;
                if wanted.is_of_one_row() {
                    self.note_form();
                }
                return Ok(None);
            }
            Learned::Nothing | Learned::Ran => match self.learn(wanted) {
                Some(direct) => {
                    self.statements.learned.push(Some(direct));
                    let counted = self.known_entry();
                    self.statements.counted.push(counted);
                    let place = self.statements.len() - 1;
                    *learned = Learned::Statement { place, misses: 0 };
                    place
                }
                None => {
                    *learned = Learned::Interpreted;
                    if let Some(entry) = self.known_entry() {
                        entry.note_unlearned();
                    }
                    return Ok(None);
                }
            },
            Learned::Statement { misses: MISSES.., .. } => return Ok(None),
            Learned::Statement { place, .. } => *place,
            Learned::Interpreted | Learned::Formula(_) => return Ok(None),
        };
        let known = self.statements.learned.get_mut(place).and_then(Option::take);
        let Some(direct) = known.or_else(|| self.learn(wanted)) else { return Ok(None) };
        let begun = is_first.then(|| (Instant::now(), processor::thread_cpu_time()));
        self.statements.reads = Arc::default();
        self.count_direct();
        let counted = |kind| move |rows: Option<u64>| rows.map(|rows| Outcome::counted(kind, rows));
        let done = match &direct {
            Direct::Insert(insert) => self.run_direct_insert(insert).map(counted(DoneKind::Insert)),
            Direct::Change(change, kind) => self.run_direct_change(change).map(counted(*kind)),
            Direct::Read(read) => self.run_direct_read(read),
        };
        if let Ok(None) = done {
            // The learned data is outdated: the statement is learned again, unless this happens too often.
            if let Learned::Statement { misses, .. } = learned {
                *misses += 1;
            }
            return Ok(None);
        }
        self.statements.learned[place] = Some(direct);
        if let (Ok(outcome), Some(entry)) = (&done, &self.statements.counted[place]) {
            match begun {
                None => entry.count_direct(),
                Some((started, cpu)) => {
                    let cpu = processor::thread_cpu_time().saturating_sub(cpu);
                    let rows = outcome.as_ref().and_then(|outcome| outcome.rows.or(outcome.row_count)).unwrap_or(0);
                    let pages = self.statements.reads.logical_reads.load(Ordering::Relaxed);
                    entry.record_direct(started.elapsed(), cpu, rows, pages);
                }
            }
        }
        done
    }

    fn learn(&self, wanted: Wanted<'_>) -> Option<Direct> {
        Some(match wanted {
            Wanted::Insert(insert) => Direct::Insert(Box::new(self.learn_insert(insert)?)),
            Wanted::Change(change) => {
                let kind = match change {
                    Change::Update(_) => DoneKind::Update,
                    Change::Delete(_) => DoneKind::Delete,
                };
                Direct::Change(Box::new(self.learn_change(change)?), kind)
            }
            Wanted::Read(select) => Direct::Read(Box::new(self.learn_read(select)?)),
        })
    }

    /// Whether the session is as it was when the statement was learned: in the same database, with the same lock
    /// timeout, and with no `SET STATISTICS` option on.
    fn may_run_directly(&self, current: DatabaseId, as_patient: Patience) -> bool {
        let options = &self.state.options;
        let figures = [StatisticsKind::Io, StatisticsKind::Time, StatisticsKind::Profile, StatisticsKind::Xml];
        self.state.database.id() == current
            && as_patient == options.patience()
            && !figures.iter().any(|kind| options.statistics(*kind))
    }

    /// Locks the table as the statement does, once per transaction, and returns the row locks.
    fn lock_directly(
        &self,
        context: &StatementContext,
        store: &WriteTarget,
        settings: &RowLockSettings,
        locked: &RefCell<Option<Locked>>,
    ) -> Result<(), Failure> {
        let (stamp, transaction) = (context.stamp(), context.transaction());
        let table = LockResource::Object(store.database().id(), store.table().id);
        let known = locked.borrow().as_ref().filter(|(of, _)| *of == stamp).map(|(_, rows)| Arc::clone(rows));
        let rows = match known {
            Some(rows) => rows,
            None => {
                let manager = self.environment.instance.locks();
                // The end of the transaction also releases the table's lock.
                let rows = RowLocks::new(settings.clone(), manager, transaction);
                let (owner, is_cancelled) = (transaction.lock_owner(), || context.is_cancelled());
                let granted = manager.lock(owner, table, LockMode::IntentExclusive, settings.patience, &is_cancelled);
                granted.map_err(|error| lock_error(self.state.id, error))?;
                *locked.borrow_mut() = Some((stamp, Arc::clone(&rows)));
                rows
            }
        };
        self.note_level(context);
        self.list_row_locks_of(context, transaction, table, || rows);
        Ok(())
    }

    /// Counts a statement that is about to run without binding.
    fn count_direct(&mut self) {
        let begin = || (schedule::now(), processor::thread_cpu_time(), 0);
        let since = self.statements.since.get_or_insert_with(begin);
        since.2 += 1;
        if since.2 >= NOTED_TOGETHER {
            self.note_direct_cost();
        }
    }

    /// Reports to the session the cost of the statements that ran without binding, and of the time between them.
    pub(super) fn note_direct_cost(&mut self) {
        let Some((started, cpu, _)) = self.statements.since.take() else { return };
        let cost = StatementStatistics {
            elapsed: schedule::now().saturating_duration_since(started),
            cpu: processor::thread_cpu_time().saturating_sub(cpu),
            degree_of_parallelism: 1,
            ..StatementStatistics::default()
        };
        self.environment.sessions.statement_ends(self.state.id, &cost, Vec::new());
    }

    /// Whether a statement is learned before its first run in the batch: it has run before, in another one.
    fn learns_at_once(&self) -> bool {
        self.state.trace_flags.contains(&LEARN_AT_ONCE)
            || (!self.state.collects_plans
                && !self.frame().plans_anew
                && self.known_entry().is_some_and(|entry| entry.may_be_learned()))
    }

    fn learns_nothing(&self) -> bool {
        self.state.trace_flags.contains(&LEARN_NOTHING)
    }

    /// Compiles a formula from what `bind` binds. `None` if it must be bound on every evaluation; binding then also
    /// reports the error, if there is one.
    pub(super) fn formula_of(&self, bind: impl FnOnce(&Binder<'_>) -> Result<BoundExpr, SqlError>) -> Option<Formula> {
        if self.learns_nothing() {
            return None;
        }
        let names = self.names_alone();
        let options = BindOptions { keeps_variables: true, ..BindOptions::default() };
        let binder = Binder::new(&names, options);
        let bound = bind(&binder).ok().filter(|_| binder.is_timeless())?;
        formula::compile(&bound, &|name| self.frame().place_of(name))
    }

    /// Whether a condition of a step is true.
    pub(super) fn step_condition(
        &mut self,
        condition: &Condition,
        position: Position,
        learned: &mut Learned,
    ) -> Result<bool, Failure> {
        if let Learned::Nothing = learned {
            let formula = self.formula_of(|binder| binder.bind_condition(condition, position));
            *learned = formula.map_or(Learned::Interpreted, Learned::Formula);
        }
        let Learned::Formula(formula) = &*learned else { return self.condition(condition, position) };
        let value = formula.evaluate(&self.given_at(&OnceCell::new())).map_err(|error| error.at(position))?;
        Ok(value == Value::Int(1))
    }

    /// The value of `SET variable operator value`, in the variable's type.
    pub(super) fn assigned_value(
        &mut self,
        variable: &VariableName,
        operator: AssignmentOperator,
        value: &Expression,
        to: SqlType,
        learned: &mut Learned,
    ) -> Result<Value, Failure> {
        let whole;
        let value = match operator.arithmetic() {
            None => value,
            Some(_) if matches!(learned, Learned::Formula(_)) => value,
            Some(operator) => {
                let span = Span { position: variable.position, ..Span::default() };
                let first = Box::new(Expression::Variable { name: variable.clone() });
                let rest = vec![ArithmeticStep { operator, operand: value.clone(), span }];
                whole = Expression::Arithmetic { first, rest };
                &whole
            }
        };
        if let Learned::Nothing = learned {
            let formula = self.formula_of(|binder| binder.convert(binder.bind_scalar(value)?, to));
            *learned = formula.map_or(Learned::Interpreted, Learned::Formula);
        }
        let Learned::Formula(formula) = learned else { return self.evaluate_as(value, to) };
        let position = if operator.arithmetic().is_some() { variable.position } else { value.position() };
        Ok(formula.evaluate(&self.given_at(&OnceCell::new())).map_err(|error| error.at(position))?)
    }
}

/// Whether a row can be written into a table with only its values known.
fn is_plain(table: &Table) -> bool {
    !has_rules(table) && !table.indexes.iter().any(|index| index.options.ignores_duplicates)
}
