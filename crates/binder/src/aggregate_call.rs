//! Calls of aggregates.

use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr};
use hobt_base::SqlError;
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_types::{Collation, SqlType};
use hobt_udf::SqlAggregate;

/// A wrapped aggregate of crate `functions`.
///
/// # Errors
/// Error 8117.
pub(super) fn wrapped(
    kind: AggregateKind,
    input: SqlType,
    collation: Collation,
) -> Result<(AggregateUDF, SqlType), SqlError> {
    let aggregate = Aggregate::new(kind, input, collation)?;
    let result = aggregate.result;
    Ok((AggregateUDF::new_from_impl(SqlAggregate::new(aggregate)), result))
}

/// An aggregate's call without `DISTINCT` and order.
pub(super) fn plain_call(function: AggregateUDF, arguments: Vec<Expr>) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(function.into(), arguments, false, None, vec![], None))
}
