//! `SET SHOWPLAN_TEXT | ALL | XML`: statements are shown instead of being run.
//!
//! Each statement is bound and planned in turn. Statements that later plans depend on still take effect. Variables are
//! declared, and are assigned if no table must be read for the value, because plans depend on variable values. `USE`
//! takes effect until the end of the batch. Both branches of an `IF` are shown. The body of a loop is shown once.
//!
//! Source: Microsoft's pages on the three options.

use std::time::{Duration, Instant};

use hobt_base::{SqlError, errors};
use hobt_instruments::processor;
use hobt_tsql::ast::{
    Condition, Declaration, DeclarationKind, Execute, ExecuteTarget, SetOption, Span, Statement, StatementKind,
    SwitchOption,
};

use super::planned::Planned;
use super::{result, store};
use crate::change::Change;
use crate::direct::learned::Learned;
use crate::failure::Failure;
use crate::interpreter::{Exit, Interpreter};
use crate::program::{Program, Step};
use crate::query::into_of;
use crate::statement_kind::command;
use hobt_showplan::{Body, Detail, PlanNode, ShownStatement};

/// The options that show statements.
const SHOWPLANS: [SwitchOption; 3] = [SwitchOption::ShowplanXml, SwitchOption::ShowplanAll, SwitchOption::ShowplanText];

fn is_showplan(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::SetOption(SetOption::Switches { options, .. })
        if options.iter().any(|option| SHOWPLANS.contains(option)))
}

/// Whether a program consists of one `SET SHOWPLAN_…` only.
pub(crate) fn is_showplan_alone(program: &Program<'_>) -> bool {
    matches!(program.steps.as_slice(), [one] if matches!(one.step, Step::Run(statement) if is_showplan(statement)))
}

/// Checks that `SET SHOWPLAN_…` stands alone in its batch, and not in a procedure.
///
/// # Errors
/// 1067.
pub(crate) fn check_alone(program: &Program<'_>, is_procedure: bool) -> Result<(), SqlError> {
    let found = program.steps.iter().find_map(|placed| match placed.step {
        Step::Run(statement) if is_showplan(statement) => Some(statement.span.position),
        _ => None,
    });
    match found.filter(|_| is_procedure || program.steps.len() > 1) {
        Some(position) => Err(errors::SHOWPLAN_NOT_ALONE.error().at(position)),
        None => Ok(()),
    }
}

impl Interpreter<'_> {
    /// Whether statements are shown instead of being run.
    pub(crate) fn shows_plans(&self) -> bool {
        self.plans.showing.is_some() || SHOWPLANS.iter().any(|option| self.state.options.switch(*option))
    }

    /// Shows the statements of a batch. If the batch is nested in one that is being shown, its statements are added to
    /// the outer result.
    pub(crate) fn show_batch(&mut self, statements: &[Statement]) -> Result<Exit, Failure> {
        if self.plans.showing.is_some() {
            self.show_all(statements)?;
            return Ok(Exit::Returned(0));
        }
        self.plans.showing = Some(Vec::new());
        let database = self.state.database.clone();
        let ended = self.show_all(statements);
        self.state.database = database;
        let shown = self.plans.showing.take().unwrap_or_default();
        ended?;
        let options = &self.state.options;
        if options.switch(SwitchOption::ShowplanXml) {
            self.send_result(&result::xml(&shown))?;
        } else if options.switch(SwitchOption::ShowplanAll) {
            self.send_result(&result::all(&shown))?;
        } else {
            for set in result::text(&shown) {
                self.send_result(&set)?;
            }
        }
        Ok(Exit::Returned(0))
    }

    fn show_all(&mut self, statements: &[Statement]) -> Result<(), Failure> {
        for statement in statements {
            if self.is_cancelled() {
                return Err(Failure::cancelled());
            }
            self.show_one(statement).map_err(|mut failure| {
                if !failure.reported {
                    failure.error = failure.error.at(statement.span.position);
                }
                failure
            })?;
        }
        Ok(())
    }

    /// Runs `body` and returns the statements that it shows, separate from those shown before.
    fn shown_by(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<Vec<ShownStatement>, Failure> {
        let outer = self.plans.showing.replace(Vec::new());
        let ended = body(self);
        let shown = std::mem::replace(&mut self.plans.showing, outer).unwrap_or_default();
        ended.map(|()| shown)
    }

    fn push_shown(&mut self, shown: ShownStatement) {
        self.plans.showing.get_or_insert_default().push(shown);
    }

    fn show_one(&mut self, statement: &Statement) -> Result<(), Failure> {
        let (started, cpu) = (Instant::now(), processor::thread_cpu_time());
        let text = self.text_of(statement.span).to_owned();
        let planned = match &statement.kind {
            StatementKind::Block { statements } => return self.show_all(statements),
            StatementKind::TryCatch { body, handler } => {
                self.show_all(body)?;
                return self.show_all(handler);
            }
            StatementKind::Label { .. } => return Ok(()),
            StatementKind::If { branches, otherwise } => {
                let branches: Vec<(&Condition, &Statement)> =
                    branches.iter().map(|branch| (&branch.condition, &branch.body)).collect();
                return self.show_if(statement, &branches, otherwise.as_deref());
            }
            StatementKind::While { condition, body } => return self.show_condition(statement, condition, body, &[]),
            StatementKind::Declare { declarations } => return self.show_declarations(declarations, &text),
            StatementKind::Execute(call) => return self.show_call(call, &text),
            StatementKind::Select(select) => self.planned_select(select, &text)?,
            StatementKind::Insert(insert) => self.planned_insert(insert, &text)?,
            StatementKind::Update(update) => self.planned_change(Change::Update(update), &text)?,
            StatementKind::Delete(delete) => self.planned_change(Change::Delete(delete), &text)?,
            StatementKind::Merge(merge) => self.planned_merge(merge, &text)?,
            StatementKind::SetVariable { variable, operator, value } => match self.planned_value(value, &text)? {
                Some(planned) => planned,
                None => {
                    self.set_variable(variable, *operator, value, &mut Learned::Nothing)?;
                    self.push_shown(ShownStatement::plain(text, "ASSIGN"));
                    return Ok(());
                }
            },
            StatementKind::Use { database } => {
                let found = self.environment.instance.database(&database.value);
                self.state.database = found.map_err(|error| error.to_sql_error())?;
                self.push_shown(ShownStatement::plain(text, "USE DATABASE"));
                return Ok(());
            }
            kind => {
                let name = kind_name(kind);
                self.push_shown(ShownStatement::plain(text, name));
                return Ok(());
            }
        };
        let compile = (started.elapsed(), processor::thread_cpu_time().saturating_sub(cpu));
        let shown = with_plan(text, kind_name(&statement.kind), planned, compile);
        self.push_shown(shown);
        Ok(())
    }

    fn show_declarations(&mut self, declarations: &[Declaration], text: &str) -> Result<(), Failure> {
        for declaration in declarations {
            let value = match &declaration.kind {
                DeclarationKind::Scalar { value: Some(value), .. } => value,
                _ => {
                    self.declare(std::slice::from_ref(declaration))?;
                    continue;
                }
            };
            let planned = self.planned_value(value, text)?;
            let mut declared = declaration.clone();
            if let (true, DeclarationKind::Scalar { value, .. }) = (planned.is_some(), &mut declared.kind) {
                *value = None;
            }
            self.declare(&[declared])?;
            self.push_shown(match planned {
                Some(planned) => with_plan(text.to_owned(), "ASSIGN", planned, (Duration::ZERO, Duration::ZERO)),
                None => ShownStatement::plain(text, "ASSIGN"),
            });
        }
        Ok(())
    }

    /// An `IF` with its `ELSE IF`s, each in the `ELSE` of the one before.
    fn show_if(
        &mut self,
        statement: &Statement,
        branches: &[(&Condition, &Statement)],
        otherwise: Option<&Statement>,
    ) -> Result<(), Failure> {
        let Some(((condition, body), rest)) = branches.split_first() else {
            return otherwise.map_or(Ok(()), |otherwise| self.show_one(otherwise));
        };
        let behind = self.shown_by(|this| this.show_if(statement, rest, otherwise))?;
        self.show_condition(statement, condition, body, &behind)
    }

    fn show_condition(
        &mut self,
        statement: &Statement,
        condition: &Condition,
        body: &Statement,
        otherwise: &[ShownStatement],
    ) -> Result<(), Failure> {
        // The statement's text up to its body is its condition.
        let Span { position, start, .. } = statement.span;
        let end = body.span.start.max(start);
        let text = self.text_of(Span { position, start, end }).trim_end().to_owned();
        let planned = self.planned_condition(condition, position, &text)?;
        let then = self.shown_by(|this| this.show_one(body))?;
        let kind = if planned.is_some() { "COND WITH QUERY" } else { "COND" };
        let mut shown = match planned {
            Some(planned) => with_plan(text, kind, planned, (Duration::ZERO, Duration::ZERO)),
            None => ShownStatement::plain(text, kind),
        };
        shown.body = Body::Branches { then, otherwise: otherwise.to_vec() };
        self.push_shown(shown);
        Ok(())
    }

    /// A call with the statements of its procedure or text.
    fn show_call(&mut self, call: &Execute, text: &str) -> Result<(), Failure> {
        let name = match &call.target {
            ExecuteTarget::Procedure(name) => Some(name.name.value.clone()),
            ExecuteTarget::Text(_) | ExecuteTarget::Variable(_) => None,
        };
        let statements = self.shown_by(|this| this.execute(call, false).map(|_| ()))?;
        let kind = if name.is_some() { "EXECUTE PROC" } else { "EXECUTE STRING" };
        let body = match statements.is_empty() {
            true => Body::None,
            false => Body::Procedure { name: name.unwrap_or_default(), statements },
        };
        self.push_shown(ShownStatement { body, ..ShownStatement::plain(text, kind) });
        Ok(())
    }
}

/// A statement with its plan. No plan is shown for a statement that computes one row without reading anything.
fn with_plan(text: String, kind: &str, planned: Planned, compile: (Duration, Duration)) -> ShownStatement {
    let Planned { mut root, degree, statistics } = planned;
    root.finish();
    let query_hash = store::query_hash(&text);
    let is_empty = |node: &&PlanNode| {
        !matches!(node.detail, Detail::ComputeScalar | Detail::ConstantScan { .. }) || node.estimate.rows != 1.0
    };
    if kind == "SELECT" && !root.all().iter().any(is_empty) {
        return ShownStatement::plain(text, "SELECT WITHOUT QUERY");
    }
    let plain = ShownStatement::plain(text, kind);
    ShownStatement { root: Some(root), degree, compile, query_hash, statistics, ..plain }
}

/// SQL Server's name of a statement's kind in plans.
fn kind_name(kind: &StatementKind) -> &'static str {
    match kind {
        StatementKind::Select(select) if into_of(&select.query).is_some() => "SELECT INTO",
        StatementKind::SetOption(SetOption::Switches { on: false, .. } | SetOption::Statistics { on: false, .. }) => {
            "SET OFF"
        }
        StatementKind::SetOption(SetOption::Switches { .. }) => "SET ON",
        StatementKind::SetOption(SetOption::Statistics { .. }) => "SET STATS",
        StatementKind::SetOption(_) => "SET",
        StatementKind::SetVariable { .. } => "ASSIGN",
        StatementKind::Return { value: None } => "RETURN NONE",
        kind => command(kind),
    }
}
