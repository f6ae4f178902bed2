//! Evaluation of expressions and conditions outside queries, and conversion as in assignments.

use hobt_base::{Position, SqlError, errors, number};
use hobt_functions::type_rules::check_implicit;
use hobt_functions::{array_value, convert_value};
use hobt_tsql::ast::{Condition, DataType, Expression};
use hobt_types::{SqlType, TypedValue, Value};

use super::failure::Failure;
use crate::interpreter::Interpreter;
use hobt_binder::{BindOptions, Binder, BoundExpr, TypePlace, sql_type};

impl Interpreter<'_> {
    /// Evaluates an expression.
    pub(super) fn evaluate(&mut self, expression: &Expression) -> Result<TypedValue, Failure> {
        if let Expression::Variable { name } = expression {
            let variable = self.frame().get(&name.value).cloned();
            return variable.ok_or_else(|| Failure::of_batch(super::frame::undeclared(&name.value).at(name.position)));
        }
        self.evaluate_bound(|binder| binder.bind_scalar(expression))
    }

    /// Evaluates an expression and converts the value to `to` as an assignment does.
    pub(super) fn evaluate_as(&mut self, expression: &Expression, to: SqlType) -> Result<Value, Failure> {
        let value = self.evaluate(expression)?;
        Ok(self.convert(value, to).map_err(|error| error.at(expression.position()))?)
    }

    /// Whether a condition is true. Unknown counts as false.
    pub(super) fn condition(&mut self, condition: &Condition, position: Position) -> Result<bool, Failure> {
        let value =
            self.evaluate_bound(|binder| binder.bind_condition(condition, position)).map_err(|mut failure| {
                failure.error = failure.error.at(position);
                failure
            })?;
        Ok(value.value == Value::Int(1))
    }

    fn evaluate_bound(
        &mut self,
        bind: impl Fn(&Binder<'_>) -> Result<BoundExpr, SqlError>,
    ) -> Result<TypedValue, Failure> {
        let names = self.names_alone();
        let binder = Binder::new(&names, BindOptions::default());
        let bound = bind(&binder).map_err(Failure::of_binding)?;
        let sql_type = bound.sql_type;
        if !Binder::needs_query(&bound) {
            let value = binder.evaluate(&bound)?;
            return Ok(TypedValue { sql_type, value });
        }
        let run = self.new_run(None)?;
        let mut value = Value::Null;
        self.run_bound(
            &run,
            |binder| bind(binder).and_then(|bound| binder.bind_scalar_query(bound)),
            |_, _| Ok(()),
            |_, batch| {
                if batch.num_rows() > 0 {
                    value = array_value(batch.column(0).as_ref(), 0, sql_type)?;
                }
                Ok(())
            },
        )?;
        Ok(TypedValue { sql_type, value })
    }

    /// Converts a value to `to` as an assignment to a variable does: text is truncated to the length.
    pub(super) fn convert(&self, given: TypedValue, to: SqlType) -> Result<Value, SqlError> {
        if given.value.is_null() {
            return Ok(Value::Null);
        }
        check_implicit(given.sql_type, to)?;
        convert_value(&given.value, given.sql_type, to)
    }

    /// The type that a declaration names.
    pub(super) fn data_type(&self, written: &DataType) -> Result<SqlType, SqlError> {
        sql_type(written, TypePlace::Declaration).map_err(|error| match error.number {
            number::UNKNOWN_TYPE => {
                let name = &written.name.name.value;
                errors::CANNOT_FIND_TYPE.with([&name]).at(written.name.position())
            }
            _ => error,
        })
    }
}
