//! Translates a physical expression to a logical one over columns named by their positions, so that estimates apply to
//! it.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Case, Cast, Expr, TryCast};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr as PhysicalBinary, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::PhysicalExpr;

use hobt_operators::{CancelExpr, ChooseExpr};

/// Translates `expr`. A part without a logical form becomes a placeholder, of which nothing is known.
pub(super) fn logical(expr: &Arc<dyn PhysicalExpr>) -> Expr {
    known(expr).unwrap_or_else(|| {
        Expr::Placeholder(datafusion::logical_expr::expr::Placeholder::new_with_field(String::new(), None))
    })
}

fn boxed(expr: &Arc<dyn PhysicalExpr>) -> Box<Expr> {
    Box::new(logical(expr))
}

fn known(expr: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(Expr::Column(super::column(column.index())));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal_of(expr, literal.value()));
    }
    if let Some(checked) = expr.downcast_ref::<CancelExpr>() {
        return known(checked.inner());
    }
    if let Some(choice) = expr.downcast_ref::<ChooseExpr>() {
        return known(choice.case());
    }
    if let Some(binary) = expr.downcast_ref::<PhysicalBinary>() {
        let (left, right) = (boxed(binary.left()), boxed(binary.right()));
        return Some(Expr::BinaryExpr(BinaryExpr { left, op: *binary.op(), right }));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let arguments = call.args().iter().map(logical).collect();
        return Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(call.fun().clone()), arguments)));
    }
    if let Some(inner) = expr.downcast_ref::<NotExpr>() {
        return Some(Expr::Not(boxed(inner.arg())));
    }
    if let Some(inner) = expr.downcast_ref::<IsNullExpr>() {
        return Some(Expr::IsNull(boxed(inner.arg())));
    }
    if let Some(inner) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(Expr::IsNotNull(boxed(inner.arg())));
    }
    if let Some(inner) = expr.downcast_ref::<NegativeExpr>() {
        return Some(Expr::Negative(boxed(inner.arg())));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let items = list.list().iter().map(logical).collect();
        return Some(Expr::InList(InList { expr: boxed(list.expr()), list: items, negated: list.negated() }));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return Some(Expr::Cast(Cast::new(boxed(cast.expr()), cast.cast_type().clone())));
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        return Some(Expr::TryCast(TryCast::new(boxed(cast.expr()), cast.cast_type().clone())));
    }
    let case = expr.downcast_ref::<CaseExpr>()?;
    let branches = case.when_then_expr().iter().map(|(when, then)| (boxed(when), boxed(then))).collect();
    Some(Expr::Case(Case::new(case.expr().map(boxed), branches, case.else_expr().map(boxed))))
}

/// A constant with the value that estimates assume for it, which is in the metadata.
fn literal_of(expr: &Arc<dyn PhysicalExpr>, value: &ScalarValue) -> Expr {
    let field = expr.return_field(&arrow::datatypes::Schema::empty()).ok();
    let metadata = field.filter(|field| !field.metadata().is_empty());
    Expr::Literal(value.clone(), metadata.map(|field| FieldMetadata::from(field.metadata().clone())))
}

/// Whether an expression gives another value each time, so that the table's estimate cannot have counted it.
pub(super) fn is_volatile(expr: &Arc<dyn PhysicalExpr>) -> bool {
    logical(expr).is_volatile()
}

/// Whether an expression uses the value of a subquery, which runs above all tables.
pub(super) fn has_subquery(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|part| Ok(part.is::<ScalarSubqueryExpr>())).unwrap_or(true)
}
