//! Faults that are known and not mended yet, each a constant that is deleted with the fault, and with what names it.

use super::rewrite::{self, Rewriter};
use super::tree::{Cond, Expr, From, Join, Select};

/// W1: a constant that is compared from the left with a column, in ON of an outer join or in an `OUTER APPLY`.
const W1: bool = true;

/// I1: `STRING_AGG` of what is no text, in an order.
const I1: &str = "STRING_AGG lost an argument";

/// I2: functions of text of binary values.
const I2: &str = "returned value of type 'Utf8View' while the following type was promised at planning time and expected: \
                  'BinaryView'";

/// I3: `APPLY` with a condition that can never be true.
const I3: &str = "Physical plan does not support undecorrelated Subquery";

/// I4: `TOP` with `ORDER BY` of a column that a condition equates with an expression.
const I4: &str = "does not satisfy order requirements";

/// Whether the text of an internal error is that of a known fault.
pub(super) fn is_known(text: &str) -> bool {
    [I1, I2, I3, I4].iter().any(|known| text.contains(known))
}

/// The query, without what is known to give wrong rows.
pub(super) fn avoided(query: &Select) -> Select {
    if W1 { rewrite::select(&mut OuterJoins, query) } else { query.clone() }
}

/// Exchanges the operands of equations with a constant on the left.
struct ConstantsToTheRight;

impl Rewriter for ConstantsToTheRight {
    fn cond(&mut self, cond: Cond) -> Cond {
        match cond {
            Cond::Compare("=", left @ (Expr::Constant { .. } | Expr::Null(_)), right) => {
                Cond::Compare("=", right, left)
            }
            other => other,
        }
    }
}

struct OuterJoins;

impl Rewriter for OuterJoins {
    fn from(&mut self, from: From) -> From {
        let cond = |cond: &Cond| rewrite::cond(&mut ConstantsToTheRight, cond);
        match from {
            From::Join { kind: kind @ (Join::Left | Join::Right | Join::Full), left, right, on } => {
                From::Join { kind, left, right, on: on.as_ref().map(cond) }
            }
            From::Apply { outer: true, left, query, alias } => {
                let query = Box::new(rewrite::select(&mut ConstantsToTheRight, &query));
                From::Apply { outer: true, left, query, alias }
            }
            other => other,
        }
    }
}
