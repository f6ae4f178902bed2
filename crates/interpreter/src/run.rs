//! Execution of a batch's steps, and handling of its errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hobt_base::{ObjectId, Position, SqlError, errors};
use hobt_functions::watch::set_watch;
use hobt_instruments::processor;
use hobt_table::StatementRun;
use hobt_tsql::ast::{Expression, Statement, StatisticsKind, SwitchOption};
use hobt_tsql::check_variables;
use hobt_txn::locks::{LockMode, LockResource, Patience};
use hobt_types::{SqlType, Value};

use super::environment::Environment;
use super::event::{DoneKind, Event, EventSink, Flow, Message};
use super::failure::{Failure, RaisedIn, Reach};
use super::frame::Frame;
use super::plans::{check_alone, is_showplan_alone};
use super::program::{PlacedStep, Program, Step};
use super::state::SessionState;
use super::statement_kind::changes_variable;
use super::watch::BatchWatch;
use super::{statement_kind, statistics};
use crate::direct::learned::{Learned, Statements};
use crate::interpreter::{Caught, Exit, Interpreter, StatementScope};
use crate::plans::Plans;
use crate::used_sequences::SharedSequences;

/// The maximum nesting depth of procedures and `EXEC (…)`.
const MAX_NESTING: usize = 32;

/// Runs one batch. Errors and messages are sent to the sink. Their effect on the session's state is as in SQL Server.
///
/// Returns whether the batch ran to its end. An error that ended only a statement does not count. Blocks until the
/// batch is done. `cancelled` may be set by another thread at any time.
pub fn run_batch(
    environment: &Environment,
    state: &mut SessionState,
    text: &str,
    cancelled: &Arc<AtomicBool>,
    sink: &mut dyn EventSink,
) -> bool {
    let watch = BatchWatch::new(cancelled, environment.instance.memory());
    let _watched = set_watch(Some(watch));
    let mut interpreter = Interpreter {
        environment,
        state,
        cancelled: Arc::clone(cancelled),
        frames: vec![Frame::new(None, false)],
        caught: Vec::new(),
        sink,
        text: Arc::from(text),
        capture: None,
        loads_beside_others: false,
        file_batches: None,
        is_gathering: false,
        sequences: SharedSequences::default(),
        changed_keys: Vec::new(),
        scope: StatementScope::default(),
        runs: Vec::new(),
        noted: None,
        statements: Statements::default(),
        plans: Plans::default(),
    };
    interpreter.collect_plans(interpreter.state.collects_plans);
    let ended = interpreter.batch(text);
    interpreter.note_direct_cost();
    interpreter.transactions().end_doomed_transaction();
    let result = interpreter.definitions().drop_tables_of_frame();
    if let Err(error) = result {
        interpreter.report(error);
    }
    matches!(ended, Ok(Exit::Returned(_)))
}

/// Drops the temporary tables of a session that ends. A table that cannot be dropped stays until `tempdb` is recreated.
pub(super) fn drop_temporary_tables(environment: &Environment, state: &mut SessionState) {
    let names: Vec<String> = state.temporary_tables.drain().map(|(_, name)| name).collect();
    if names.is_empty() {
        return;
    }
    let Ok(tempdb) = environment.instance.tempdb() else { return };
    for name in names {
        let Ok(context) = environment.instance.statement_context(state.id, 1, Arc::default()) else { return };
        // Does not wait if another session is reading the table.
        let mut lock = |table: ObjectId| {
            let patience = Patience { timeout: Some(Duration::ZERO), ..Patience::default() };
            let mode = LockMode::SchemaModification;
            let resource = LockResource::Object(tempdb.id(), table);
            let taken = environment.instance.locks().hold(context.lock_owner(), resource, mode, patience, &|| false);
            context.hold(taken.map_err(|error| errors::LOCK_TIMEOUT.with([&error]))?);
            Ok(())
        };
        let dropped = tempdb.database().drop_table(&context, "dbo", &name, &mut lock);
        // A failure makes tempdb SUSPECT. The next use of it reports that.
        let _ended = environment.instance.end_statement(&context, dropped.is_ok(), &[&**tempdb.database()]);
    }
}

impl Interpreter<'_> {
    /// Parses and runs a text in the topmost frame. A failure that no `CATCH` handles has been reported when this
    /// returns.
    pub(super) fn batch(&mut self, text: &str) -> Result<Exit, Failure> {
        let (started, cpu) = (Instant::now(), processor::thread_cpu_time());
        let parsed = hobt_tsql::parse_batch(text);
        if self.state.options.statistics(StatisticsKind::Time) {
            let cpu = processor::thread_cpu_time().saturating_sub(cpu);
            self.send_message(statistics::compile_time(cpu, started.elapsed()))?;
        }
        let batch = match parsed {
            Ok(batch) => batch,
            Err(error) => return self.uncaught(Failure::of_batch(error)).map(|()| Exit::Failed),
        };
        if self.state.options.switch(SwitchOption::ParseOnly) && !turns_parse_only_off(&batch.statements) {
            return Ok(Exit::Returned(0));
        }
        if !makes_module(&batch.statements)
            && let Err(error) = check_variables(text, &batch.statements, |name| self.frame().declares(name))
        {
            return self.uncaught(Failure::of_batch(error)).map(|()| Exit::Failed);
        }
        self.statements(&batch.statements)
    }

    /// Runs statements in the topmost frame.
    pub(super) fn statements(&mut self, statements: &[Statement]) -> Result<Exit, Failure> {
        let program = match Program::compile(statements) {
            Ok(program) => program,
            Err(error) => return self.uncaught(Failure::of_batch(error)).map(|()| Exit::Failed),
        };
        if let Err(error) = check_alone(&program, self.frame().procedure.is_some()) {
            return self.uncaught(Failure::of_batch(error)).map(|()| Exit::Failed);
        }
        if let Err(failure) = self.check_names(&program) {
            self.state.error = failure.error.number;
            if self.frame().protected {
                return Err(failure);
            }
            self.report_failure(&failure);
            return Ok(Exit::Failed);
        }
        if self.shows_plans() && !is_showplan_alone(&program) {
            return match self.show_batch(statements) {
                Ok(exit) => Ok(exit),
                Err(failure) => self.uncaught(failure).map(|()| Exit::Failed),
            };
        }
        self.declare_ahead(&program)?;
        let known = self.statements.len();
        let ended = self.steps(&program);
        self.statements.truncate(known);
        ended
    }

    fn steps(&mut self, program: &Program<'_>) -> Result<Exit, Failure> {
        let mut learned: Vec<Learned> = program.steps.iter().map(|_| Learned::Nothing).collect();
        let mut at = 0;
        while let Some(placed) = program.steps.get(at) {
            if self.cancelled.load(Ordering::Relaxed) {
                return self.uncaught(Failure::cancelled()).map(|()| Exit::Failed);
            }
            let frame = self.frame();
            let depth = frame.caught_below + placed.caught;
            self.caught.truncate(depth);
            match self.step(placed, at, &mut learned[at]) {
                Ok(Next::Step(next)) => at = next,
                Ok(Next::Return(value)) => return Ok(Exit::Returned(value)),
                Err(failure) => match self.failed(failure, placed, at)? {
                    Next::Step(next) => at = next,
                    Next::Return(_) => return Ok(Exit::Failed),
                },
            }
        }
        Ok(Exit::Returned(0))
    }

    fn step(&mut self, placed: &PlacedStep<'_>, at: usize, learned: &mut Learned) -> Result<Next, Failure> {
        match placed.step {
            Step::Run(statement) => {
                let caught_here = placed.handler.is_some();
                self.run_statement(statement, caught_here, learned)?;
                Ok(Next::Step(at + 1))
            }
            Step::Unless { condition, target, position } => {
                let holds = self.in_statement_scope(StatementScope::default(), |this| {
                    let holds = this.step_condition(condition, position, learned)?;
                    this.send_cost(position).map(|()| holds)
                })?;
                self.state.error = 0;
                self.state.row_count = 0;
                Ok(Next::Step(if holds { at + 1 } else { target }))
            }
            Step::Jump(target) => Ok(Next::Step(target)),
            Step::Return { value, position } => self.in_statement_scope(StatementScope::default(), |this| {
                let value = this.return_value(value, position)?;
                this.send_cost(position).map(|()| Next::Return(value))
            }),
        }
    }

    fn return_value(&mut self, value: Option<&Expression>, position: Position) -> Result<i32, Failure> {
        let Some(value) = value else { return Ok(0) };
        if self.frame().procedure.is_none() {
            return Err(Failure::of_batch(errors::RETURN_VALUE.error().at(position)));
        }
        let value = self.evaluate_as(value, SqlType::Int)?;
        Ok(match value {
            Value::Int(value) => i32::try_from(value).unwrap_or(i32::MAX),
            _ => 0,
        })
    }

    fn run_statement(
        &mut self,
        statement: &Statement,
        caught_here: bool,
        learned: &mut Learned,
    ) -> Result<(), Failure> {
        if self.state.options.switch(SwitchOption::NoExec) && !statement_kind::runs_under_noexec(statement) {
            return Ok(());
        }
        let scope = StatementScope { changes_variable: changes_variable(&statement.kind), ..StatementScope::default() };
        self.in_statement_scope(scope, |this| this.run_in_scope(statement, caught_here, learned))
    }

    /// Runs `body` as a statement, condition or value of its own.
    fn in_statement_scope<R>(
        &mut self,
        scope: StatementScope,
        body: impl FnOnce(&mut Self) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let outer = std::mem::replace(&mut self.scope, scope);
        let ended = body(self);
        self.scope = outer;
        ended
    }

    /// Sends the cost of what ran in the scope, if it has one.
    fn send_cost(&mut self, position: Position) -> Result<(), Failure> {
        let Some(cost) = self.scope.cost.take() else { return Ok(()) };
        if self.state.options.statistics(StatisticsKind::Io) {
            for reads in &cost.reads {
                self.send_message(statistics::table_reads(position.line, reads))?;
            }
        }
        self.send(Event::Statistics(cost))
    }

    fn run_in_scope(&mut self, statement: &Statement, caught_here: bool, learned: &mut Learned) -> Result<(), Failure> {
        let is_timed = self.state.options.statistics(StatisticsKind::Time) && statement_kind::is_timed(statement);
        let clocks = is_timed.then(|| (Instant::now(), processor::process_cpu_time()));
        self.sequences.borrow_mut().next_statement();
        let position = statement.span.position;
        let outer = self.begin_plan(statement);
        let outcome = match self.statement(statement, caught_here, learned) {
            Ok(outcome) => outcome,
            Err(mut failure) => {
                self.leave_plan(outer);
                if !failure.reported {
                    failure.error = failure.error.at(position);
                }
                return Err(failure);
            }
        };
        if statement_kind::sets_error(statement) {
            self.state.error = 0;
        }
        if let Some(count) = outcome.row_count {
            self.state.row_count = count;
        }
        let row_count = outcome.rows.filter(|_| !self.state.options.switch(SwitchOption::NoCount));
        self.send(Event::Done { row_count, kind: outcome.kind })?;
        let mut cost = self.scope.cost.take();
        let rows = outcome.rows.or(outcome.row_count).unwrap_or(0);
        self.end_plan(outer, cost.as_deref_mut(), rows)?;
        self.scope.cost = cost;
        self.send_cost(position)?;
        let (compile, compile_cpu) = self.scope.compile_shown;
        if let (Some((started, cpu)), true) = (clocks, self.state.options.statistics(StatisticsKind::Time)) {
            let cpu = processor::process_cpu_time().saturating_sub(cpu + compile_cpu);
            self.send_message(statistics::execution_times(cpu, started.elapsed().saturating_sub(compile)))?;
        }
        Ok(())
    }

    /// Decides where a failed step's error goes: to the handler of its step, to a caller's handler, or to the client.
    fn failed(&mut self, mut failure: Failure, placed: &PlacedStep<'_>, at: usize) -> Result<Next, Failure> {
        self.state.error = failure.error.number;
        self.state.row_count = 0;
        if failure.raised_in.is_none() {
            let procedure: Option<Box<str>> = self.frame().procedure.as_deref().map(Box::from);
            if let Some(cause) = &mut failure.cause {
                cause.procedure.clone_from(&procedure);
            }
            failure.error.procedure = procedure;
        }
        failure.dooms |= failure.heeds_xact_abort && self.state.options.switch(SwitchOption::XactAbort);
        if failure.reported || failure.reach == Reach::Cancelled {
            return self.uncaught(failure).map(|()| Next::Return(0));
        }
        let catchable = failure.reach != Reach::Scope && failure.error.severity < 20;
        if let (Some(handler), true) = (placed.handler, catchable) {
            if failure.dooms {
                self.transactions().doom_transaction();
            }
            let procedure = match failure.raised_in {
                Some(RaisedIn(procedure)) => procedure,
                None => self.frame().procedure.clone(),
            };
            self.caught.push(Caught { error: failure.error, procedure });
            return Ok(Next::Step(handler));
        }
        failure.raised_in.get_or_insert_with(|| RaisedIn(self.frame().procedure.clone()));
        if self.frame().protected {
            // The caller's CATCH handles it, where an error of binding is like any other.
            if failure.reach == Reach::Scope {
                failure.reach = Reach::Statement;
            }
            return Err(failure);
        }
        if failure.dooms {
            failure.reach = Reach::Batch;
        }
        match failure.reach {
            Reach::Statement => {
                let terminated = statement_kind::terminated(placed.step, failure.root());
                self.report_failure(&failure);
                if let Some(message) = terminated {
                    self.send_message(message)?;
                }
                self.send(Event::Done { row_count: None, kind: DoneKind::Other })?;
                Ok(Next::Step(match placed.step {
                    Step::Unless { target, .. } => target,
                    _ => at + 1,
                }))
            }
            Reach::Scope => {
                self.report_failure(&failure);
                Ok(Next::Return(0))
            }
            Reach::Batch | Reach::Cancelled => self.uncaught(failure).map(|()| Next::Return(0)),
        }
    }

    /// Passes a failure that ends the batch to the callers. Before that, reports it to the client and rolls the
    /// transaction back if it cannot continue, unless a caller's `CATCH` may handle the failure.
    fn uncaught(&mut self, mut failure: Failure) -> Result<(), Failure> {
        self.state.error = failure.error.number;
        if failure.reach == Reach::Cancelled {
            failure.dooms |= self.state.options.switch(SwitchOption::XactAbort);
        }
        let for_caller = self.frame().protected && failure.reach != Reach::Cancelled;
        if !failure.reported && !for_caller {
            self.report_failure(&failure);
            failure.reported = true;
        }
        if failure.dooms
            && !for_caller
            && let Err(error) = self.transactions().roll_back_open()
        {
            self.report(error);
        }
        Err(failure)
    }

    /// The variables in scope.
    pub(super) fn frame(&self) -> &Frame {
        self.frames.last().expect("a batch has a frame")
    }

    /// The variables in scope.
    pub(super) fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a batch has a frame")
    }

    /// Runs `body` in a new frame.
    pub(super) fn in_frame<R>(
        &mut self,
        mut frame: Frame,
        body: impl FnOnce(&mut Self) -> Result<R, Failure>,
    ) -> Result<(R, Frame), Failure> {
        if self.frames.len() > MAX_NESTING {
            return Err(Failure::of_batch(errors::NESTING_LEVEL.error()));
        }
        let depth = self.caught.len();
        frame.caught_below = depth;
        frame.temporary_of_caller = Some(self.state.temporary_tables.clone());
        self.frames.push(frame);
        self.state.nest_level = self.frames.len() - 1;
        let result = body(self);
        let dropped = self.definitions().drop_tables_of_frame();
        self.caught.truncate(depth);
        let frame = self.frames.pop().expect("the frame pushed above");
        self.state.nest_level = self.frames.len() - 1;
        let value = result?;
        dropped?;
        Ok((value, frame))
    }

    /// Sends an event. If the client accepts no more, the batch is cancelled.
    pub(super) fn send(&mut self, event: Event) -> Result<(), Failure> {
        match self.sink.event(event) {
            Flow::Continue => Ok(()),
            Flow::Stop => {
                self.cancelled.store(true, Ordering::Relaxed);
                Err(Failure { reported: true, ..Failure::cancelled() })
            }
        }
    }

    /// Sends a message.
    pub(super) fn send_message(&mut self, message: Message) -> Result<(), Failure> {
        self.send(Event::Message(message))
    }

    /// Sends what is wrong with rows of files that a statement has left out.
    pub(super) fn report_rejections(&mut self, run: &StatementRun, succeeded: bool) -> Result<(), Failure> {
        for (line, rejections) in run.take_rejections() {
            let (count, faults) = rejections.taken();
            for fault in &faults {
                self.send_message(Message::of(line, fault.error()))?;
            }
            if count > 0 && succeeded {
                let unsaid = count - faults.len() as u64;
                self.send_message(Message::of(line, errors::BULK_ROWS_LEFT_OUT.with([&count, &unsaid])))?;
            }
        }
        Ok(())
    }

    /// Sends an error. If the client accepts no more, this is noticed at the next step.
    pub(super) fn report(&mut self, error: SqlError) {
        if self.sink.event(Event::Error(error)) == Flow::Stop {
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }

    /// Sends the errors of a failure.
    fn report_failure(&mut self, failure: &Failure) {
        if let Some(cause) = &failure.cause {
            self.report(SqlError::clone(cause));
        }
        self.report(failure.error.clone());
    }

    /// Whether the running statement was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// What follows a step.
enum Next {
    Step(usize),
    Return(i32),
}

/// Whether a batch is the text of a view, function or procedure, which has its own variables.
fn makes_module(statements: &[Statement]) -> bool {
    use hobt_tsql::ast::StatementKind as K;
    let first = statements.first().map(|statement| &statement.kind);
    matches!(first, Some(K::CreateView(_) | K::CreateFunction(_) | K::CreateProcedure(_)))
}

/// Whether a batch under `SET PARSEONLY ON` turns it off.
fn turns_parse_only_off(statements: &[Statement]) -> bool {
    use hobt_tsql::ast::{SetOption, StatementKind};
    statements.iter().any(|statement| {
        matches!(&statement.kind, StatementKind::SetOption(SetOption::Switches { options, on: false })
            if options.contains(&SwitchOption::ParseOnly))
    })
}
