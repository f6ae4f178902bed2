//! What running a step has taught of it, so that a loop does not bind the same text again and again.
//!
//! The first run of an assignment or condition compiles a [`Formula`], if it can; the others evaluate it. What holds it lives
//! as long as the batch's or procedure's steps run, in one frame, whose variables keep their places and types.

use std::cell::OnceCell;

use hobt_base::{Position, SqlError};
use hobt_functions::FunctionContext;
use hobt_tsql::ast::{ArithmeticStep, AssignmentOperator, Condition, Expression, Span, VariableName};
use hobt_types::{SqlType, TypedValue, Value};

use super::environment::Environment;
use super::failure::Failure;
use super::frame::Frame;
use super::globals;
use super::run::Interpreter;
use super::state::SessionState;
use crate::binder::{BindOptions, Binder, BoundExpr};
use crate::formula::{self, Formula, Given};

/// What is known of a step from its earlier runs.
#[derive(Default)]
pub(super) enum Learned {
    /// It has not run.
    #[default]
    Nothing,
    /// It is bound whenever it runs.
    Interpreted,
    /// The truth of a condition, or the value of an assignment with the variable's place.
    Formula(Formula),
}

/// A session's values for formulas; the time is that of the first formula that asks.
pub(super) struct GivenValues<'a> {
    environment: &'a Environment,
    state: &'a SessionState,
    frame: &'a Frame,
    now: OnceCell<FunctionContext>,
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
    /// What formulas are evaluated over.
    pub(super) fn given(&self) -> GivenValues<'_> {
        GivenValues { environment: self.environment, state: self.state, frame: self.frame(), now: OnceCell::new() }
    }

    /// The formula of what `bind` binds; `None` if it is to be bound whenever it is evaluated. An error is left to that.
    pub(super) fn formula_of(&self, bind: impl FnOnce(&Binder<'_>) -> Result<BoundExpr, SqlError>) -> Option<Formula> {
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
        let Learned::Formula(formula) = learned else { return self.condition(condition, position) };
        let value = formula.evaluate(&self.given()).map_err(|error| error.at(position))?;
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
        Ok(formula.evaluate(&self.given()).map_err(|error| error.at(position))?)
    }
}
