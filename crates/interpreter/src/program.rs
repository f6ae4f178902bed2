//! A batch as a flat list of steps. Conditions and loops become jumps, so `GOTO` is an ordinary jump and running a
//! batch needs no recursion.
//!
//! ```text
//!   IF c a ELSE b        unless c → 1;  a;  → 2;  1: b;  2:
//!   WHILE c a            1: unless c → 2;  a;  → 1;  2:
//!   TRY a CATCH b        a (handler 1);  → 2;  1: b (caught + 1);  2:
//! ```
//!
//! The handler of an error and the number of caught errors in scope depend only on a step's position, so they are
//! stored with each step. A jump out of a block needs no bookkeeping.

use std::collections::{HashMap, HashSet};

use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{Condition, Declaration, Expression, Identifier, Statement, StatementKind, VariableName};

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'b> {
    /// Runs a statement that is neither a block nor a jump.
    Run(&'b Statement),
    /// Goes to `target` unless the condition is true.
    Unless { condition: &'b Condition, target: usize, position: Position },
    /// Goes to a step.
    Jump(usize),
    /// Ends the batch, procedure or function.
    Return { value: Option<&'b Expression>, position: Position },
}

/// A step with the properties of its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedStep<'b> {
    pub(super) step: Step<'b>,
    /// The first step of the `CATCH` that handles this step's errors.
    pub(super) handler: Option<usize>,
    /// The number of `CATCH` blocks that enclose the step.
    pub(super) caught: usize,
}

/// The steps of a batch or of a procedure's body.
#[derive(Debug)]
pub(super) struct Program<'b> {
    pub(super) steps: Vec<PlacedStep<'b>>,
}

/// The steps to jump to from inside a loop.
#[derive(Clone, Copy)]
struct Loop {
    /// The condition.
    start: usize,
    /// The index of its list of `BREAK`s.
    breaks: usize,
}

#[derive(Default)]
struct Compiler<'b> {
    steps: Vec<PlacedStep<'b>>,
    labels: HashMap<String, Label>,
    gotos: Vec<(usize, &'b Identifier, usize)>,
    /// For each `TRY` and each `CATCH`, the enclosing one. 0 is the text as a whole, which encloses itself.
    scopes: Vec<usize>,
    breaks: Vec<Vec<usize>>,
}

/// The target of a label.
struct Label {
    step: usize,
    /// The `TRY` or `CATCH` that contains it.
    scope: usize,
}

/// The position of a statement.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The innermost `TRY` or `CATCH`, as an index of the compiler's list.
    scope: usize,
    enclosing: Option<Loop>,
    handler: Option<usize>,
    caught: usize,
}

/// Placeholder for a target that is not known yet.
const OPEN: usize = usize::MAX;

impl<'b> Program<'b> {
    /// Compiles `statements`.
    ///
    /// # Errors
    /// 132 for a duplicate label, 133 for a missing one, 1026 for one in a `TRY` or `CATCH` that does not contain the
    /// jump, 135 and 136 for `BREAK` and `CONTINUE` without a loop.
    pub(super) fn compile(statements: &'b [Statement]) -> Result<Program<'b>, SqlError> {
        let mut compiler = Compiler { scopes: vec![0], ..Compiler::default() };
        compiler.block(statements, Place::default())?;
        for (step, label, scope) in std::mem::take(&mut compiler.gotos) {
            let target = compiler
                .labels
                .get(&label.value.to_lowercase())
                .ok_or_else(|| errors::UNKNOWN_LABEL.with([&label.value]).at(label.position))?;
            if !compiler.is_within(scope, target.scope) {
                return Err(errors::GOTO_INTO_TRY.error().at(label.position));
            }
            compiler.steps[step].step = Step::Jump(target.step);
        }
        check_declarations(&compiler.steps)?;
        Ok(Program { steps: compiler.steps })
    }

    /// The declarations of the text, in order.
    pub(super) fn declarations(&self) -> impl Iterator<Item = &'b Declaration> {
        declarations(&self.steps)
    }
}

fn declarations<'b>(steps: &[PlacedStep<'b>]) -> impl Iterator<Item = &'b Declaration> {
    steps.iter().flat_map(|placed| match placed.step {
        Step::Run(Statement { kind: StatementKind::Declare { declarations }, .. }) => declarations.as_slice(),
        _ => &[],
    })
}

/// Checks for duplicate declarations. A variable is declared for the whole batch, wherever its `DECLARE` stands. So a
/// second declaration is an error before anything runs, but repeating one in a loop is not.
fn check_declarations(steps: &[PlacedStep<'_>]) -> Result<(), SqlError> {
    let mut known = HashSet::new();
    for Declaration { name, .. } in declarations(steps) {
        if !known.insert(name.value.to_lowercase()) {
            return Err(redeclared(name));
        }
    }
    Ok(())
}

/// 134.
pub(super) fn redeclared(name: &VariableName) -> SqlError {
    errors::VARIABLE_REDECLARED.with([&name.value]).at(name.position)
}

impl<'b> Compiler<'b> {
    fn push(&mut self, step: Step<'b>, place: Place) -> usize {
        self.steps.push(PlacedStep { step, handler: place.handler, caught: place.caught });
        self.steps.len() - 1
    }

    /// Adds a `TRY` or `CATCH` within `outer`.
    fn scope_in(&mut self, outer: usize) -> usize {
        self.scopes.push(outer);
        self.scopes.len() - 1
    }

    /// Whether `scope` is `outer` or inside it.
    fn is_within(&self, scope: usize, outer: usize) -> bool {
        let mut at = scope;
        while at != outer && at != 0 {
            at = self.scopes[at];
        }
        at == outer
    }

    /// Sets the target of the jump at `step` to the next step to be added.
    fn land(&mut self, step: usize) {
        let here = self.steps.len();
        match &mut self.steps[step].step {
            Step::Unless { target, .. } | Step::Jump(target) => *target = here,
            _ => unreachable!("only jumps land"),
        }
    }

    fn block(&mut self, statements: &'b [Statement], place: Place) -> Result<(), SqlError> {
        statements.iter().try_for_each(|statement| self.statement(statement, place))
    }

    fn statement(&mut self, statement: &'b Statement, place: Place) -> Result<(), SqlError> {
        let position = statement.span.position;
        match &statement.kind {
            StatementKind::Block { statements } => self.block(statements, place)?,
            StatementKind::If { branches, otherwise } => {
                let mut ends = Vec::new();
                for (index, branch) in branches.iter().enumerate() {
                    let test = self.push(Step::Unless { condition: &branch.condition, target: OPEN, position }, place);
                    self.statement(&branch.body, place)?;
                    if index + 1 < branches.len() || otherwise.is_some() {
                        ends.push(self.push(Step::Jump(OPEN), place));
                    }
                    self.land(test);
                }
                if let Some(otherwise) = otherwise {
                    self.statement(otherwise, place)?;
                }
                ends.into_iter().for_each(|end| self.land(end));
            }
            StatementKind::While { condition, body } => {
                let start = self.push(Step::Unless { condition, target: OPEN, position }, place);
                self.breaks.push(Vec::new());
                let enclosing = Some(Loop { start, breaks: self.breaks.len() - 1 });
                self.statement(body, Place { enclosing, ..place })?;
                self.push(Step::Jump(start), place);
                self.land(start);
                let breaks = self.breaks.pop().expect("the loop's own list");
                breaks.into_iter().for_each(|step| self.land(step));
            }
            StatementKind::TryCatch { body, handler } => self.try_catch(body, handler, place)?,
            StatementKind::Break => {
                let enclosing = place.enclosing.ok_or_else(|| errors::BREAK_OUTSIDE_LOOP.error().at(position))?;
                let step = self.push(Step::Jump(OPEN), place);
                self.breaks[enclosing.breaks].push(step);
            }
            StatementKind::Continue => {
                let enclosing = place.enclosing.ok_or_else(|| errors::CONTINUE_OUTSIDE_LOOP.error().at(position))?;
                self.push(Step::Jump(enclosing.start), place);
            }
            StatementKind::Label { name } => {
                let label = Label { step: self.steps.len(), scope: place.scope };
                if self.labels.insert(name.value.to_lowercase(), label).is_some() {
                    return Err(errors::LABEL_REDECLARED.with([&name.value]).at(name.position));
                }
            }
            StatementKind::Goto { label } => {
                let step = self.push(Step::Jump(OPEN), place);
                self.gotos.push((step, label, place.scope));
            }
            StatementKind::Return { value } => {
                self.push(Step::Return { value: value.as_deref(), position }, place);
            }
            _ => {
                self.push(Step::Run(statement), place);
            }
        }
        Ok(())
    }

    fn try_catch(&mut self, body: &'b [Statement], handler: &'b [Statement], place: Place) -> Result<(), SqlError> {
        let first = self.steps.len();
        let scope = self.scope_in(place.scope);
        self.block(body, Place { handler: Some(OPEN), scope, ..place })?;
        let last = self.steps.len();
        let end = self.push(Step::Jump(OPEN), place);
        let start = self.steps.len();
        for step in &mut self.steps[first..last] {
            if step.handler == Some(OPEN) {
                step.handler = Some(start);
            }
        }
        // An empty handler is still a target: the step that follows it.
        let scope = self.scope_in(place.scope);
        self.block(handler, Place { caught: place.caught + 1, scope, ..place })?;
        self.land(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_base::number;

    /// The targets of a batch's jumps. `r` stands for a statement that runs, `x` for a return.
    fn shape(batch: &str) -> Result<String, SqlError> {
        let batch = hobt_tsql::parse_batch(batch)?;
        let program = Program::compile(&batch.statements)?;
        let step = |step: &PlacedStep<'_>| {
            let handler = step.handler.map_or(String::new(), |handler| format!("!{handler}"));
            match step.step {
                Step::Run(_) => format!("r{handler}"),
                Step::Unless { target, .. } => format!("?{target}{handler}"),
                Step::Jump(target) => format!(">{target}{handler}"),
                Step::Return { .. } => format!("x{handler}"),
            }
        };
        Ok(program.steps.iter().map(step).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn blocks_become_jumps() {
        assert_eq!(shape("IF 1=1 PRINT 'a' ELSE PRINT 'b' PRINT 'c'").unwrap(), "?3 r >4 r r");
        assert_eq!(shape("WHILE 1=1 BEGIN BREAK; CONTINUE END PRINT 'a'").unwrap(), "?4 >4 >0 >0 r");
        assert_eq!(shape("BEGIN TRY PRINT 'a' END TRY BEGIN CATCH PRINT 'b' END CATCH RETURN").unwrap(), "r!2 >3 r x");
        assert_eq!(shape("GOTO done PRINT 'a' done: PRINT 'b'").unwrap(), ">2 r r");
    }

    #[test]
    fn an_inner_handler_takes_the_error_first() {
        let batch = "BEGIN TRY BEGIN TRY PRINT 'a' END TRY BEGIN CATCH PRINT 'b' END CATCH END TRY BEGIN CATCH PRINT 'c' END CATCH";
        assert_eq!(shape(batch).unwrap(), "r!2 >3!4 r!4 >5 r");
    }

    #[test]
    fn a_variable_is_declared_once() {
        assert_eq!(shape("DECLARE @a int; DECLARE @A int").unwrap_err().number, number::VARIABLE_REDECLARED);
        assert!(shape("WHILE 1=1 DECLARE @a int").is_ok());
    }

    #[test]
    fn jumps_without_a_target_are_refused() {
        assert_eq!(shape("GOTO nowhere").unwrap_err().number, number::UNKNOWN_LABEL);
        assert_eq!(shape("BREAK").unwrap_err().number, number::BREAK_OUTSIDE_LOOP);
        assert_eq!(shape("CONTINUE").unwrap_err().number, number::CONTINUE_OUTSIDE_LOOP);
        assert_eq!(shape("a: PRINT 'x' a: PRINT 'y'").unwrap_err().number, number::LABEL_REDECLARED);
    }

    #[test]
    fn no_jump_leads_into_a_try_or_a_catch() {
        let into_try = "GOTO a; BEGIN TRY a: PRINT 'x' END TRY BEGIN CATCH PRINT 'y' END CATCH";
        assert_eq!(shape(into_try).unwrap_err().number, 1026);
        let to_catch = "BEGIN TRY GOTO a END TRY BEGIN CATCH a: PRINT 'y' END CATCH";
        assert_eq!(shape(to_catch).unwrap_err().number, 1026);
        assert!(
            shape(
                "BEGIN TRY a: BEGIN TRY GOTO a END TRY BEGIN CATCH GOTO b END CATCH END TRY BEGIN CATCH END CATCH b:"
            )
            .is_ok()
        );
    }
}
