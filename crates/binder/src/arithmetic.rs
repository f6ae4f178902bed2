//! Operators on values.

use hobt_base::{Position, SqlError};
use hobt_functions::BinaryOperator;
use hobt_functions::type_rules::{binary_result, bit_not_result, unary_minus_result};
use hobt_tsql::ast::{ArithmeticOperator, ArithmeticStep, Expression, UnaryOperator};
use hobt_types::{SqlType, Value};

use super::bound::{BoundExpr, Constant};
use super::convert::narrow_integer;
use super::extent::check_list;
use super::folding::{self, Operands};
use super::{Binder, Site};
use hobt_udf::{Kernel, Operation};

/// The operator of crate `functions`.
pub(super) fn operator_of(operator: ArithmeticOperator) -> BinaryOperator {
    match operator {
        ArithmeticOperator::Add => BinaryOperator::Add,
        ArithmeticOperator::Subtract => BinaryOperator::Subtract,
        ArithmeticOperator::Multiply => BinaryOperator::Multiply,
        ArithmeticOperator::Divide => BinaryOperator::Divide,
        ArithmeticOperator::Modulo => BinaryOperator::Modulo,
        ArithmeticOperator::BitAnd => BinaryOperator::BitAnd,
        ArithmeticOperator::BitOr => BinaryOperator::BitOr,
        ArithmeticOperator::BitXor => BinaryOperator::BitXor,
    }
}

impl Binder<'_> {
    /// `first op1 rest1 op2 rest2 …`
    pub(super) fn chain(
        &self,
        first: &Expression,
        rest: &[ArithmeticStep],
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        check_list(rest.len()).map_err(|error| error.at(first.position()))?;
        let mut left = self.expression(first, site)?;
        for step in rest {
            let right = self.expression(&step.operand, site)?;
            left = binary(left, operator_of(step.operator), right, step.span.position)?;
        }
        Ok(left)
    }

    /// `-x`, `+x`, `~x`
    pub(super) fn unary(
        &self,
        operator: UnaryOperator,
        operand: &Expression,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        let bound = self.expression(operand, site)?;
        match operator {
            UnaryOperator::Plus => Ok(bound),
            UnaryOperator::Minus => negate(bound, position),
            UnaryOperator::BitNot => {
                let sql_type = bit_not_result(bound.sql_type).map_err(|error| error.at(position))?;
                let operands = Operands::of([&bound]);
                let expr = Kernel::call(Operation::BitNot(sql_type), vec![bound.expr], position);
                Ok(folding::operator(BoundExpr::new(expr, sql_type, bound.nullable, position), operands))
            }
        }
    }
}

fn negate(bound: BoundExpr, position: Position) -> Result<BoundExpr, SqlError> {
    let sql_type = unary_minus_result(bound.sql_type).map_err(|error| error.at(position))?;
    let negative = match (&bound.literal, sql_type) {
        // A result beyond `int` is left to the kernel, which raises the error at run time.
        (Some(Value::Int(value)), SqlType::Int) => {
            value.checked_neg().filter(|value| i32::try_from(*value).is_ok()).map(Value::Int)
        }
        (Some(Value::Int(value)), SqlType::Money) => value.checked_neg().map(Value::Int),
        (Some(Value::Decimal(value)), _) => value.checked_neg().map(Value::Decimal),
        (Some(Value::Float(value)), _) => Some(Value::Float(-value)),
        (Some(Value::Null), _) => return Ok(bound),
        _ => None,
    };
    if let Some(value) = negative {
        let mut folded = BoundExpr::literal(value, sql_type, position)?;
        folded.constant = bound.constant;
        folded.foldable = bound.foldable;
        return Ok(folded);
    }
    let nullable = bound.nullable;
    let bound = super::convert::implicit(bound, sql_type)?;
    let operands = Operands::of([&bound]);
    let expr = Kernel::call(Operation::Negate(sql_type), vec![bound.expr], position);
    Ok(folding::operator(BoundExpr::new(expr, sql_type, nullable, position), operands))
}

/// `left operator right`.
///
/// # Errors
/// 8117, 402, 206, 257 for types that cannot be combined.
pub(super) fn binary(
    left: BoundExpr,
    operator: BinaryOperator,
    right: BoundExpr,
    position: Position,
) -> Result<BoundExpr, SqlError> {
    let (left, right) = settle(left, right)?;
    let result = binary_result(operator, left.sql_type, right.sql_type).map_err(|error| error.at(position))?;
    let collation = match (left.sql_type.is_text(), right.sql_type.is_text()) {
        (true, true) => left.collation.meet(right.collation, "add operator").map_err(|error| error.at(position))?,
        (true, false) => left.collation,
        _ => right.collation,
    };
    let start = left.position;
    let nullable = left.nullable || right.nullable;
    let operands = Operands::of([&left, &right]);
    let operation = Operation::Binary { operator, left: left.sql_type, right: right.sql_type, result };
    let expr = Kernel::call(operation, vec![left.expr, right.expr], position);
    Ok(folding::operator(BoundExpr::new(expr, result, nullable, start).with_collation(collation), operands))
}

/// Gives an untyped NULL the type of the other side, and an integer constant beside a decimal the precision of its
/// digits.
fn settle(left: BoundExpr, right: BoundExpr) -> Result<(BoundExpr, BoundExpr), SqlError> {
    let is_decimal = |bound: &BoundExpr| matches!(bound.sql_type, SqlType::Decimal { .. });
    if left.is_untyped_null() && !right.is_untyped_null() {
        let typed = super::convert::implicit(left, right.sql_type)?;
        return Ok((typed, right));
    }
    if right.is_untyped_null() && !left.is_untyped_null() {
        let typed = super::convert::implicit(right, left.sql_type)?;
        return Ok((left, typed));
    }
    if left.constant == Constant::Integer && is_decimal(&right) {
        return Ok((narrow_integer(left)?, right));
    }
    if right.constant == Constant::Integer && is_decimal(&left) {
        return Ok((left, narrow_integer(right)?));
    }
    Ok((left, right))
}
