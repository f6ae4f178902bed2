//! Columns and expressions as XML.

use super::element::Element;
use crate::{CompareOp, OrderColumn, PlanColumn, PlanExpr, PlanObject, SeekKey, bracketed};

pub(super) fn column(column: &PlanColumn) -> Element {
    let element = Element::new("ColumnReference");
    let element = match &column.table {
        Some(table) => element
            .attribute("Database", bracketed(&table.database))
            .attribute("Schema", bracketed(&table.schema))
            .attribute("Table", bracketed(&table.table)),
        None => element,
    };
    element.attribute("Column", &column.name)
}

/// A list of columns under a name.
pub(super) fn columns(name: &'static str, list: &[PlanColumn]) -> Element {
    Element::new(name).children(list.iter().map(column))
}

/// Like [`columns`]; `None` for an empty list.
pub(super) fn some_columns(name: &'static str, list: &[PlanColumn]) -> Option<Element> {
    (!list.is_empty()).then(|| columns(name, list))
}

pub(super) fn order_by(by: &[OrderColumn]) -> Element {
    let one = |by: &OrderColumn| {
        Element::new("OrderByColumn").attribute("Ascending", by.is_ascending).child(column(&by.column))
    };
    Element::new("OrderBy").children(by.iter().map(one))
}

pub(super) fn object(object: &PlanObject) -> Element {
    let kind = match (&object.index, object.is_clustered) {
        (None, _) => "Heap",
        (Some(_), true) => "Clustered",
        (Some(_), false) => "NonClustered",
    };
    Element::new("Object")
        .attribute("Database", bracketed(&object.table.database))
        .attribute("Schema", bracketed(&object.table.schema))
        .attribute("Table", bracketed(&object.table.table))
        .optional("Index", object.index.as_deref().map(bracketed))
        .attribute("IndexKind", kind)
        .attribute("Storage", "RowStore")
}

/// An expression under a name: `Predicate`.
pub(super) fn expression(name: &'static str, expr: &PlanExpr) -> Element {
    Element::new(name).child(scalar(expr))
}

/// An expression with its text. Its parts have no texts, or a deep expression would be repeated at each level.
pub(super) fn scalar(expr: &PlanExpr) -> Element {
    Element::new("ScalarOperator").attribute("ScalarString", expr).child(inner(expr))
}

fn part(expr: &PlanExpr) -> Element {
    Element::new("ScalarOperator").child(inner(expr))
}

fn inner(expr: &PlanExpr) -> Element {
    match expr {
        PlanExpr::Column(named) => Element::new("Identifier").child(column(named)),
        PlanExpr::Constant(text) | PlanExpr::Text(text) => Element::new("Const").attribute("ConstValue", text),
        PlanExpr::Compare { op, left, right } => {
            Element::new("Compare").attribute("CompareOp", op.name()).child(part(left)).child(part(right))
        }
        PlanExpr::Logical { all, operands } => {
            let word = if *all { "AND" } else { "OR" };
            Element::new("Logical").attribute("Operation", word).children(operands.iter().map(part))
        }
        PlanExpr::Not(operand) => Element::new("Logical").attribute("Operation", "NOT").child(part(operand)),
        PlanExpr::Arithmetic { sign, left, right } => {
            Element::new("Arithmetic").attribute("Operation", operation(*sign)).child(part(left)).child(part(right))
        }
        PlanExpr::Unary { sign, operand } => {
            let word = if *sign == '~' { "BIT_NOT" } else { "MINUS" };
            Element::new("Arithmetic").attribute("Operation", word).child(part(operand))
        }
        PlanExpr::Convert { data_type, style, operand } => Element::new("Convert")
            .attribute("DataType", data_type)
            .attribute("Style", style)
            .attribute("Implicit", false)
            .child(part(operand)),
        PlanExpr::Case { branches, otherwise } => conditional(branches, otherwise),
        PlanExpr::Function { name, arguments } => {
            Element::new("Intrinsic").attribute("FunctionName", name).children(arguments.iter().map(part))
        }
        PlanExpr::Aggregate { name, is_distinct, arguments } => {
            let name = match (name.as_str(), arguments.is_empty()) {
                ("COUNT" | "COUNT_BIG", true) => "countstar",
                (name, _) => name,
            };
            Element::new("Aggregate")
                .attribute("AggType", name)
                .attribute("Distinct", is_distinct)
                .children(arguments.iter().map(part))
        }
    }
}

fn operation(sign: char) -> &'static str {
    match sign {
        '-' => "SUB",
        '*' => "MULT",
        '/' => "DIV",
        '%' => "MOD",
        '&' => "BIT_AND",
        '|' => "BIT_OR",
        '^' => "BIT_XOR",
        _ => "ADD",
    }
}

fn within(name: &'static str, expr: &PlanExpr) -> Element {
    Element::new(name).child(part(expr))
}

/// The branches of a `CASE`, each in the `Else` of the one before.
fn conditional(branches: &[(PlanExpr, PlanExpr)], otherwise: &PlanExpr) -> Element {
    let Some(((when, then), rest)) = branches.split_first() else { return inner(otherwise) };
    let last = match rest {
        [] => within("Else", otherwise),
        rest => Element::new("Else").child(Element::new("ScalarOperator").child(conditional(rest, otherwise))),
    };
    Element::new("IF").child(within("Condition", when)).child(within("Then", then)).child(last)
}

/// The comparisons of a seek with its index's columns.
pub(super) fn seek_predicates(keys: &[SeekKey]) -> Option<Element> {
    seek_predicate(keys).map(|seek| Element::new("SeekPredicates").child(seek))
}

/// The comparisons of a seek without the outer element; `None` if there are none.
pub(super) fn seek_predicate(keys: &[SeekKey]) -> Option<Element> {
    if keys.is_empty() {
        return None;
    }
    let range = |name: &'static str, scan: CompareOp, keys: &[&SeekKey]| {
        let columns = Element::new("RangeColumns").children(keys.iter().map(|key| column(&key.column)));
        let values = keys.iter().flat_map(|key| key.values.iter()).map(scalar);
        let values = Element::new("RangeExpressions").children(values);
        Element::new(name).attribute("ScanType", scan.name()).child(columns).child(values)
    };
    let of = |wanted: fn(CompareOp) -> bool| keys.iter().filter(|key| wanted(key.op)).collect::<Vec<_>>();
    let prefix = of(|op| matches!(op, CompareOp::Equal | CompareOp::Is));
    let start = of(|op| matches!(op, CompareOp::Greater | CompareOp::GreaterOrEqual));
    let end = of(|op| matches!(op, CompareOp::Less | CompareOp::LessOrEqual));
    let mut seek = Element::new("SeekKeys");
    if let Some(first) = prefix.first() {
        seek = seek.child(range("Prefix", first.op, &prefix));
    }
    for (name, keys) in [("StartRange", start), ("EndRange", end)] {
        if let Some(first) = keys.first() {
            seek = seek.child(range(name, first.op, &keys));
        }
    }
    Some(Element::new("SeekPredicateNew").child(seek))
}
