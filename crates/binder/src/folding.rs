//! Constant folding: expressions over constants become constants when they are bound.
//!
//! SQL Server evaluates at compile time what the text alone determines, except where that fails ("Query processing
//! architecture guide", constant folding and expression evaluation). A part that is folded away is not evaluated, and
//! its columns need not be grouped:
//!
//! ```text
//!   COALESCE(6, c)                        6                    c may stay out of GROUP BY
//!   NULL <= c                             unknown              so may it here
//!   c BETWEEN NULL AND c / 0              unknown AND …: false  nothing is divided
//!   CASE -CAST(NULL AS int) WHEN 1/0 …    unknown              nor is it here
//!   SELECT 1/0                            1/0                  error 8134 when it runs
//! ```
//!
//! The binder folds from the inside out: each function that builds an expression or a condition from others calls this
//! module. An expression whose value the text determines is *foldable* ([`BoundExpr::foldable`]): a constant, and
//!
//! - arithmetic, `LIKE`, comparisons and conversions of foldable operands, and of any where one of them is NULL;
//! - functions of foldable arguments alone, where their results depend on nothing else;
//! - `CASE` and what is short for it, where the branches taken are known; a branch never taken is left out, and the
//!   rest keeps the type that all branches together have.
//!
//! Conditions are folded to true and false. `AND` and `OR` are folded from their known operands, in whichever order
//! these stand.
//!
//! Not folded: variables, parameters and what depends on them, so that no statement is valid or invalid depending on a
//! value; expressions that fail, because the error is raised at run time; values of unlimited length; functions, other
//! than operators, with a NULL argument; subqueries; and expressions that the catalog stores for a table (`CHECK`,
//! computed columns), which name columns whether or not these are needed. A key of `GROUP BY` that would become a
//! constant is not folded.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Case;
use hobt_base::{Position, SqlError};
use hobt_functions::array_value;
use hobt_types::{SqlType, Value};

use super::Binder;
use super::bound::{BoundExpr, Constant, ExprCollation};
use super::comparison::key;
use hobt_table::evaluated;

/// What is known of a list of operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operands {
    /// Whether the text determines the values of all operands.
    all: bool,
    /// Whether one of them is NULL, by the text alone.
    null: bool,
}

impl Operands {
    /// What is known of `operands`.
    pub(super) fn of<'e>(operands: impl IntoIterator<Item = &'e BoundExpr>) -> Operands {
        let mut known = Operands { all: true, null: false };
        for operand in operands {
            known.all &= operand.foldable;
            known.null |= is_null(operand);
        }
        known
    }
}

/// Whether an expression is NULL, by the text alone.
pub(super) fn is_null(bound: &BoundExpr) -> bool {
    bound.foldable && bound.literal == Some(Value::Null)
}

/// Folds an operator, which is NULL if an operand is.
pub(super) fn operator(bound: BoundExpr, operands: Operands) -> BoundExpr {
    match operands.null {
        true => literal_like(Value::Null, &bound).unwrap_or(bound),
        false => function(bound, operands),
    }
}

/// Folds a function if the text determines all its arguments.
pub(super) fn function(bound: BoundExpr, operands: Operands) -> BoundExpr {
    match operands.all && !bound.expr.is_volatile() {
        true => constant_like(&bound).unwrap_or(bound),
        false => bound,
    }
}

/// The constant for an expression over constants; `None` if it fails or is of unlimited length.
fn constant_like(bound: &BoundExpr) -> Option<BoundExpr> {
    if bound.sql_type.max_length_bytes() == -1 {
        return None;
    }
    let array = evaluated(&bound.expr)?.to_array().ok()?;
    literal_like(array_value(array.as_ref(), 0, bound.sql_type).ok()?, bound)
}

fn literal_like(value: Value, bound: &BoundExpr) -> Option<BoundExpr> {
    let nullable = bound.nullable || value.is_null();
    let folded = BoundExpr::literal(value, bound.sql_type, bound.position).ok()?;
    Some(BoundExpr { nullable, foldable: true, ..folded }.with_collation(bound.collation))
}

/// Folds a comparison or `LIKE`, which is unknown if an operand is NULL.
pub(super) fn comparison(condition: Expr, operands: Operands) -> Expr {
    match operands.null {
        true => unknown(),
        false => test(condition, operands),
    }
}

/// Folds a condition that distinguishes NULL from other values.
pub(super) fn test(condition: Expr, operands: Operands) -> Expr {
    let value = if operands.all { evaluated(&condition) } else { None };
    match value {
        Some(value @ ScalarValue::Boolean(_)) => Expr::Literal(value, None),
        _ => condition,
    }
}

fn unknown() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// The constant condition that is true, or is not true.
pub(super) fn truth(value: bool) -> Expr {
    Expr::Literal(ScalarValue::Boolean(Some(value)), None)
}

/// Whether a constant condition is true; `None` if it is not constant. Unknown counts as false.
pub(super) fn known(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => Some(*value == Some(true)),
        _ => None,
    }
}

/// `NOT condition`; unknown if the condition is.
pub(super) fn negated(condition: Expr) -> Expr {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => Expr::Literal(ScalarValue::Boolean(value.map(|is| !is)), None),
        other => Expr::Not(Box::new(other)),
    }
}

/// The operands that are still open in an `AND` or `OR`. Unknown counts as false.
///
/// # Errors
/// The result of the condition, if no operand is open.
pub(super) fn junction(operands: Vec<Expr>, conjunction: bool) -> Result<Vec<Expr>, bool> {
    // False decides an AND, true an OR; the other value has no effect.
    let decides = !conjunction;
    if operands.iter().any(|operand| known(operand) == Some(decides)) {
        return Err(decides);
    }
    let open: Vec<Expr> = operands.into_iter().filter(|operand| known(operand).is_none()).collect();
    if open.is_empty() { Err(!decides) } else { Ok(open) }
}

/// The values that are still open in `operand [NOT] IN (…)`. Unknown counts as false. All values have one type.
///
/// # Errors
/// The result of the condition, if no value is open.
pub(super) fn list(operand: &BoundExpr, items: Vec<BoundExpr>, negated: bool) -> Result<Vec<BoundExpr>, bool> {
    if is_null(operand) {
        return Err(false);
    }
    let mut open = Vec::with_capacity(items.len());
    for item in items {
        let equal = key(operand).eq(key(&item));
        match known(&comparison(equal, Operands::of([operand, &item]))) {
            // Equality with NULL is unknown, and so is its negation.
            _ if is_null(&item) && negated => return Err(false),
            Some(true) => return Err(!negated),
            Some(false) => {}
            None => open.push(item),
        }
    }
    if open.is_empty() { Err(negated) } else { Ok(open) }
}

/// The type and properties of a choice between results, whichever is taken.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) sql_type: SqlType,
    pub(super) nullable: bool,
    pub(super) collation: ExprCollation,
    pub(super) position: Position,
}

impl Shape {
    fn of(self, expr: Expr) -> BoundExpr {
        BoundExpr::new(expr, self.sql_type, self.nullable, self.position).with_collation(self.collation)
    }

    /// NULL of this type.
    ///
    /// # Errors
    /// None in practice, as [`BoundExpr::literal`].
    pub(super) fn null(self) -> Result<BoundExpr, SqlError> {
        let null = BoundExpr::literal(Value::Null, self.sql_type, self.position)?;
        Ok(BoundExpr { foldable: true, ..null }.with_collation(self.collation))
    }
}

/// The first result whose condition is true. The results have one type.
///
/// # Errors
/// None in practice, as [`Shape::null`].
pub(super) fn choice(
    conditions: Vec<Expr>,
    results: Vec<BoundExpr>,
    mut otherwise: Option<BoundExpr>,
    shape: Shape,
) -> Result<BoundExpr, SqlError> {
    let mut branches = Vec::with_capacity(results.len());
    for (condition, result) in conditions.into_iter().zip(results) {
        match known(&condition) {
            Some(false) => {}
            Some(true) => {
                otherwise = Some(result);
                break;
            }
            None => branches.push((Box::new(condition), Box::new(result.expr))),
        }
    }
    if branches.is_empty() {
        match otherwise.take() {
            None => return shape.null(),
            Some(only) if only.foldable => {
                let Shape { nullable, collation, position, .. } = shape;
                return Ok(BoundExpr { nullable, collation, position, constant: Constant::No, ..only });
            }
            // Not the bare column, because a column computed by CASE cannot be updated through a view.
            Some(only) => branches.push((Box::new(truth(true)), Box::new(only.expr))),
        }
    }
    Ok(shape.of(Expr::Case(Case::new(None, branches, otherwise.map(|value| Box::new(value.expr))))))
}

impl Binder<'_> {
    /// Runs `bind` without folding anything.
    pub(super) fn unfolded<T>(&self, bind: impl FnOnce() -> T) -> T {
        let folds = self.progress.folds.replace(false);
        let bound = bind();
        self.progress.folds.set(folds);
        bound
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    fn constant(value: Value) -> BoundExpr {
        let bound = BoundExpr::literal(value, SqlType::Int, Position::default()).expect("an int");
        BoundExpr { foldable: true, ..bound }
    }

    fn column() -> BoundExpr {
        BoundExpr::new(col("c"), SqlType::Int, true, Position::default())
    }

    /// A variable with a known value, which the text does not determine.
    fn variable(value: Value) -> BoundExpr {
        BoundExpr { foldable: false, ..constant(value) }
    }

    fn shape() -> Shape {
        let (collation, position) = (ExprCollation::default(), Position::default());
        Shape { sql_type: SqlType::Int, nullable: true, collation, position }
    }

    #[test]
    fn false_decides_an_and_and_true_an_or_wherever_they_stand() {
        let open = || col("p");
        assert_eq!(junction(vec![open(), truth(false)], true), Err(false));
        assert_eq!(junction(vec![open(), unknown()], true), Err(false));
        assert_eq!(junction(vec![open(), truth(true)], true), Ok(vec![open()]));
        assert_eq!(junction(vec![truth(true), truth(true)], true), Err(true));
        assert_eq!(junction(vec![open(), truth(true)], false), Err(true));
        assert_eq!(junction(vec![unknown(), open(), truth(false)], false), Ok(vec![open()]));
        assert_eq!(junction(vec![unknown()], false), Err(false));
        assert_eq!(negated(unknown()), unknown());
        assert_eq!(negated(truth(false)), truth(true));
    }

    #[test]
    fn a_list_keeps_what_is_open() {
        let (one, two, null) = (constant(Value::Int(1)), constant(Value::Int(2)), constant(Value::Null));
        let of = |operand: &BoundExpr, items: &[&BoundExpr], negated| {
            let items = items.iter().map(|item| (*item).clone()).collect();
            list(operand, items, negated).map(|left| left.len())
        };
        for negated in [false, true] {
            assert_eq!(of(&one, &[&column(), &two, &one], negated), Err(!negated));
            assert_eq!(of(&one, &[&two], negated), Err(negated));
            assert_eq!(of(&null, &[&column()], negated), Err(false));
            assert_eq!(of(&column(), &[&one, &two], negated), Ok(2));
            assert_eq!(of(&one, &[&two, &variable(Value::Int(1))], negated), Ok(1));
        }
        assert_eq!(of(&column(), &[&one, &null], false), Ok(1));
        assert_eq!(of(&column(), &[&one, &null], true), Err(false));
    }

    #[test]
    fn a_choice_is_of_what_can_be_taken() {
        let taken = |conditions: Vec<Expr>, otherwise: Option<BoundExpr>| {
            let results = (1..=conditions.len()).map(|at| constant(Value::Int(at as i64))).collect();
            choice(conditions, results, otherwise, shape()).expect("a choice")
        };
        assert_eq!(taken(vec![truth(false), truth(true), col("p")], None).literal, Some(Value::Int(2)));
        let none = taken(vec![truth(false), unknown()], None);
        assert!(is_null(&none));
        let other = taken(vec![truth(false)], Some(column()));
        assert_eq!(other.expr.to_string(), "CASE WHEN Boolean(true) THEN c END");
        assert!(!other.foldable);
        let open = taken(vec![truth(false), col("p"), truth(true), col("q")], Some(column()));
        assert_eq!(open.expr.to_string(), "CASE WHEN p THEN Int32(2) ELSE Int32(3) END");
    }

    #[test]
    fn only_what_the_text_gives_is_folded() {
        let null = constant(Value::Null);
        let sum = || BoundExpr::new(col("c"), SqlType::Int, true, Position::default());
        assert!(is_null(&operator(sum(), Operands::of([&column(), &null]))));
        assert!(!operator(sum(), Operands::of([&column(), &variable(Value::Null)])).foldable);
        assert!(!function(sum(), Operands::of([&column(), &null])).foldable);
        let long = BoundExpr { sql_type: SqlType::VarChar(hobt_types::MaxLength::Max), ..constant(Value::Int(1)) };
        assert!(constant_like(&long).is_none());
    }
}
