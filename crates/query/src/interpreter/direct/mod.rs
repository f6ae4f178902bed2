//! What running a step has taught of it, so that a loop does not bind the same text again and again.
//!
//! The first run of an assignment or condition compiles a [`Formula`], if it can; the others evaluate it. Statements
//! that change rows are interpreted at their first run and learned at their second: one that runs once costs what it
//! did, and says as much of itself. What holds it lives as long as the batch's or procedure's steps run, in one frame,
//! whose variables keep their places and types.

mod by_key;
mod insert;
mod read;

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_base::{DatabaseId, Position, SqlError};
use hobt_catalog::Table;
use hobt_functions::FunctionContext;
use hobt_sync::{processor, schedule};
use hobt_tsql::ast::{
    ArithmeticStep, AssignmentOperator, Condition, Expression, Insert, SelectStatement, Span, StatisticsKind,
    VariableName,
};
use hobt_txn::locks::{LockMode, LockResource, Patience};
use hobt_txn::{RowLockSettings, RowLocks, StatementContext};
use hobt_types::{SqlType, TypedValue, Value};

use super::change::Change;
use super::changed_table::has_rules;
use super::environment::Environment;
use super::event::{DoneKind, StatementStatistics};
use super::failure::Failure;
use super::frame::Frame;
use super::globals;
use super::plans::PlanEntry;
use super::run::{Interpreter, Outcome};
use super::state::SessionState;
use crate::binder::{BindOptions, Binder, BoundExpr};
use crate::execute::{WriteTarget, lock_error};
use crate::formula::{self, Formula, Given};

use by_key::DirectChange;
use insert::{DirectInsert, Locked};
use read::DirectRead;

/// Trace flag 30001: nothing is learned, and each statement is bound whenever it runs.
const LEARN_NOTHING: i32 = 30_001;
/// Trace flag 30002: statements are learned when they run for the first time.
const LEARN_AT_ONCE: i32 = 30_002;

/// A statement of which so often something else was found than was known is learned no more.
const MISSES: u8 = 8;

/// So many statements are noted with the session at once.
const NOTED_TOGETHER: u64 = 1000;

/// What is known of a step from its earlier runs.
#[derive(Default)]
pub(super) enum Learned {
    /// It has not run.
    #[default]
    Nothing,
    /// It is bound whenever it runs.
    Interpreted,
    /// It has run once, and may be worth a closer look.
    Ran,
    /// The truth of a condition, or the value of an assignment.
    Formula(Formula),
    /// A statement that runs without being bound.
    Statement {
        /// Its place in [`Statements`].
        place: usize,
        /// How often what was known of it did not hold.
        misses: u8,
    },
}

/// The statements of a batch that run without being bound. They name databases and tables, so they are forgotten before
/// a statement that might have to wait for whoever uses one.
#[derive(Default)]
pub(super) struct Statements {
    learned: Vec<Option<Direct>>,
    /// Where their executions are counted, if that is anywhere.
    counted: Vec<Option<Arc<PlanEntry>>>,
    /// Since when they run one after the other: the time, this thread's processor time, and how many.
    since: Option<(Instant, Duration, u64)>,
}

/// A statement that is known.
enum Direct {
    Insert(Box<DirectInsert>),
    Change(Box<DirectChange>, DoneKind),
    Read(Box<DirectRead>),
}

/// A statement that may be learned.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'s> {
    Insert(&'s Insert),
    Change(Change<'s>),
    Read(&'s SelectStatement),
}

impl Statements {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.learned.len()
    }

    /// Forgets those behind the first `len`, whose steps run no more.
    pub(super) fn truncate(&mut self, len: usize) {
        self.learned.truncate(len);
        self.counted.truncate(len);
    }

    /// Forgets what is known of all.
    pub(super) fn forget(&mut self) {
        self.learned.iter_mut().for_each(|learned| *learned = None);
    }
}

/// A session's values for formulas; the time is that of the first formula that asks.
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
    /// What formulas are evaluated over; they have one time.
    pub(super) fn given_at<'a>(&'a self, now: &'a OnceCell<FunctionContext>) -> GivenValues<'a> {
        GivenValues { environment: self.environment, state: self.state, frame: self.frame(), now }
    }

    /// Runs a statement without binding it, if it is known well enough.
    pub(super) fn run_learned(
        &mut self,
        wanted: Wanted<'_>,
        learned: &mut Learned,
    ) -> Result<Option<Outcome>, Failure> {
        if self.learns_nothing() {
            return Ok(None);
        }
        let place = match learned {
            Learned::Nothing if !self.state.trace_flags.contains(&LEARN_AT_ONCE) => {
                *learned = Learned::Ran;
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
                    return Ok(None);
                }
            },
            Learned::Statement { misses: MISSES.., .. } => return Ok(None),
            Learned::Statement { place, .. } => *place,
            Learned::Interpreted | Learned::Formula(_) => return Ok(None),
        };
        let known = self.statements.learned.get_mut(place).and_then(Option::take);
        let Some(direct) = known.or_else(|| self.learn(wanted)) else { return Ok(None) };
        self.count_direct();
        let counted = |kind| move |rows: Option<u64>| rows.map(|rows| Outcome::counted(kind, rows));
        let done = match &direct {
            Direct::Insert(insert) => self.run_direct_insert(insert).map(counted(DoneKind::Insert)),
            Direct::Change(change, kind) => self.run_direct_change(change).map(counted(*kind)),
            Direct::Read(read) => self.run_direct_read(read),
        };
        if let Ok(None) = done {
            // What it knew has changed: it is learned anew, if that does not happen all the time.
            if let Learned::Statement { misses, .. } = learned {
                *misses += 1;
            }
            return Ok(None);
        }
        self.statements.learned[place] = Some(direct);
        if let (Ok(_), Some(entry)) = (&done, &self.statements.counted[place]) {
            entry.count_direct();
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

    /// Whether the session is as it was when a statement was learned: in the same database, waiting as long for locks,
    /// and wanting no more to be told than then.
    fn may_run_directly(&self, current: DatabaseId, as_patient: Patience) -> bool {
        let options = &self.state.options;
        let figures = [StatisticsKind::Io, StatisticsKind::Time, StatisticsKind::Profile, StatisticsKind::Xml];
        self.state.database.id() == current
            && as_patient == options.patience()
            && !figures.iter().any(|kind| options.statistics(*kind))
    }

    /// Locks the table as the statement does, once for a transaction, and says how its rows are locked.
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
                // Its end lets go of the table's lock, too.
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

    /// Counts a statement that is about to run without being bound.
    fn count_direct(&mut self) {
        let begin = || (schedule::now(), processor::thread_cpu_time(), 0);
        let since = self.statements.since.get_or_insert_with(begin);
        since.2 += 1;
        if since.2 >= NOTED_TOGETHER {
            self.note_direct_cost();
        }
    }

    /// Notes with the session what the statements cost that ran without being bound, and what lay between them.
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

    fn learns_nothing(&self) -> bool {
        self.state.trace_flags.contains(&LEARN_NOTHING)
    }

    /// The formula of what `bind` binds; `None` if it is to be bound whenever it is evaluated. An error is left to
    /// that.
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

/// Whether a row can be written into a table knowing nothing but its values.
fn is_plain(table: &Table) -> bool {
    !has_rules(table) && !table.indexes.iter().any(|index| index.options.ignores_duplicates)
}
