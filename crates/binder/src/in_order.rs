//! Evaluates the operands of `AND` and `OR` from left to right: `n <> 0 AND 10 / n > 1` divides only if `n` is not 0.
//!
//! The executor may evaluate both sides of an `AND` on all rows, in any order. So an operand that can fail becomes the
//! branch of a `CASE`, which evaluates it only if the operands before it leave the result open:
//!
//! ```text
//! a AND f AND b AND g     a AND b AND CASE WHEN a THEN CASE WHEN f THEN CASE WHEN b THEN g END END END
//! a OR f                  a OR CASE WHEN a THEN true ELSE f END
//! ```
//!
//! Operands that cannot fail also stay beside the `CASE`, where the optimiser sees them. A `CASE` holds only operands
//! over one source of `FROM`, so no join is lost. Across sources the order is left to the executor, and so is the
//! distinction of unknown and false (see `condition.rs`).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::{Case, Cast};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use hobt_functions::BinaryOperator;
use hobt_types::SqlType;

use super::scope::Scope;
use crate::subquery_expr::has_subquery;
use hobt_udf::{Kernel, Operation};

/// Functions that fail for some of their arguments' values.
const PARTIAL_FUNCTIONS: [&str; 7] = ["ACOS", "ASIN", "LOG", "LOG10", "POWER", "SQRT", "DATEFROMPARTS"];
/// Functions whose last argument is a length.
const LENGTH_FUNCTIONS: [&str; 3] = ["LEFT", "RIGHT", "SUBSTRING"];

/// The longest chain: a plan is as deep as its chains are long. The executor chooses the order of longer ones.
const CHAIN_MAX: usize = 32;

/// The columns that an operand reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// No column.
    Nothing,
    /// The columns of one source.
    Source(usize),
    /// Several sources, a subquery, or columns outside this scope.
    Other,
}

/// The `operands` of `AND` (`conjunction`) or `OR`, with those that can fail guarded by the operands before them.
pub(super) fn in_order(operands: Vec<Expr>, conjunction: bool, scope: &Scope) -> Vec<Expr> {
    let fails: Vec<bool> = operands.iter().map(can_fail).collect();
    if operands.len() < 2 || !fails[1..].contains(&true) {
        return operands;
    }
    let reads: Vec<Reads> = operands.iter().map(|operand| reads_of(operand, scope)).collect();
    let mut kept: Vec<Option<Expr>> = operands.iter().cloned().map(Some).collect();
    let sources = (0..scope.tables.len()).map(Reads::Source).chain([Reads::Nothing]);
    for source in sources {
        let fits = |place: &usize| reads[*place] == source || reads[*place] == Reads::Nothing;
        let places: Vec<usize> = (0..operands.len()).filter(fits).collect();
        // Constants that fail belong only to the chain of constants.
        let guarded = |place: usize| fails[place] && reads[place] == source;
        let last = places.iter().rposition(|place| guarded(*place));
        let Some(last) = last.filter(|last| (1..=CHAIN_MAX).contains(last)) else { continue };
        let mut chain = operands[places[last]].clone();
        for place in places[..last].iter().rev() {
            // A constant that fails is in the chain of constants; here it would be a duplicate.
            if fails[*place] && !guarded(*place) {
                continue;
            }
            chain = guard(operands[*place].clone(), chain, conjunction);
        }
        for place in &places[1..last] {
            if guarded(*place) {
                kept[*place] = None;
            }
        }
        kept[places[last]] = Some(chain);
    }
    kept.into_iter().flatten().collect()
}

/// `next`, evaluated if `first` leaves the result open. The branches are numbers, because a `CASE` of conditions would
/// be split again.
fn guard(first: Expr, next: Expr, conjunction: bool) -> Expr {
    let bit = |value: u8| Expr::Literal(ScalarValue::UInt8(Some(value)), None);
    let next = Expr::Cast(Cast::new(Box::new(next), DataType::UInt8));
    let (then, otherwise) = match conjunction {
        true => (next, bit(0)),
        false => (bit(1), next),
    };
    let case = Case::new(None, vec![(Box::new(first), Box::new(then))], Some(Box::new(otherwise)));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(Expr::Case(case)), Operator::Eq, Box::new(bit(1))))
}

fn reads_of(operand: &Expr, scope: &Scope) -> Reads {
    if operand.contains_outer() || has_subquery(operand) {
        return Reads::Other;
    }
    let mut reads = Reads::Nothing;
    for column in operand.column_refs() {
        let is_of = |table: &super::scope::ScopeTable| table.columns.iter().any(|known| known.column == *column);
        let Some(source) = scope.tables.iter().position(is_of) else { return Reads::Other };
        match reads {
            Reads::Nothing => reads = Reads::Source(source),
            Reads::Source(known) if known == source => {}
            _ => return Reads::Other,
        }
    }
    reads
}

/// Whether evaluating an operand can fail for some values: division, conversions that may lose the value, functions
/// that are not defined everywhere.
fn can_fail(operand: &Expr) -> bool {
    let found = operand.exists(|node| {
        let Expr::ScalarFunction(call) = node else { return Ok(false) };
        let Some(kernel) = call.func.inner().downcast_ref::<Kernel>() else { return Ok(false) };
        let is_known = |place: usize| matches!(call.args.get(place), Some(Expr::Literal(value, _)) if !is_zero(value));
        Ok(match kernel.operation() {
            Operation::Binary { operator: BinaryOperator::Divide | BinaryOperator::Modulo, .. } => !is_known(1),
            Operation::Cast { from, to, attempt, .. } => {
                let number = from.is_numeric() && to.is_integer() && *to != SqlType::Bit;
                !attempt && ((from.is_text() && !to.is_text()) || number)
            }
            Operation::Function { def, .. } => {
                let length = call.args.len().saturating_sub(1);
                PARTIAL_FUNCTIONS.contains(&def.name) || (LENGTH_FUNCTIONS.contains(&def.name) && !is_known(length))
            }
            _ => false,
        })
    });
    found.unwrap_or(false)
}

fn is_zero(value: &ScalarValue) -> bool {
    value.is_null() || ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}
