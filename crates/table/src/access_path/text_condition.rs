//! Conditions on texts that a scan can test on the bytes of a page: `=` and `IN` by their constants' keys, `LIKE` with
//! a pattern that is only a text and `%`.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use hobt_access::scan::{TextFilter, TextTest};
use hobt_catalog::Table;
use hobt_functions::like::{Pattern, PlainPattern, escape_character};
use hobt_types::Collation;
use hobt_udf::{Kernel, Operation};

use super::predicate::{ColumnPredicate, Comparand, Test, text_operand};
use crate::TableRead;

/// A condition `LIKE` on a column of texts.
#[derive(Clone, Debug)]
pub struct TextCondition {
    /// The column's index in the table.
    pub column: usize,
    pattern: Arc<Pattern>,
    collation: Collation,
}

/// The conditions on texts of columns of `table` in `conditions`, without those that are [`ColumnPredicate`]s.
pub fn text_conditions(table: &TableRead, conditions: &[Expr]) -> Vec<TextCondition> {
    let schema = table.schema();
    let all = conditions.iter().flat_map(super::conjuncts);
    all.filter_map(|condition| of_like(table.table(), &schema, condition)).collect()
}

fn of_like(table: &Table, schema: &SchemaRef, condition: &Expr) -> Option<TextCondition> {
    let Expr::ScalarFunction(call) = condition else { return None };
    let Operation::Like(collation) = *call.func.inner().downcast_ref::<Kernel>()?.operation() else { return None };
    let (text, pattern, escape) = match call.args.as_slice() {
        [text, pattern] => (text, constant(pattern)?, None),
        [text, pattern, escape] => (text, constant(pattern)?, Some(escape_character(constant(escape)?).ok()?)),
        _ => return None,
    };
    let column = text_operand(table, schema, text)?;
    Some(TextCondition { column, pattern: Arc::new(Pattern::new(pattern, escape, collation)), collation })
}

fn constant(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8View(text) | ScalarValue::Utf8(text), _) => text.as_deref(),
        _ => None,
    }
}

impl TextCondition {
    /// It as a filter of a scan; `None` if bytes do not decide it.
    pub fn filter(&self) -> Option<TextFilter> {
        let test = match self.pattern.plain()? {
            PlainPattern::Prefix(text) => TextTest::Prefix(text),
            PlainPattern::Contains(text) => TextTest::Contains(text),
        };
        TextFilter::new(self.column, test, self.collation)
    }
}

/// A comparison of a text column with constants as a filter of a scan; `None` if it is none that bytes decide.
pub fn equal_texts(table: &Table, predicate: &ColumnPredicate) -> Option<TextFilter> {
    let collation = predicate.collation?;
    let is_text = table.columns.get(predicate.column)?.sql_type.is_text();
    let Test::Equal(values) = &predicate.test else { return None };
    // A constant that no ASCII text equals is no constant to compare with.
    let text = |value: &Comparand| match value {
        Comparand::Compared(key) => Some(collation.ascii_of_key(key)),
        Comparand::Value(_) | Comparand::Unknown => None,
    };
    let texts: Vec<Option<Vec<u8>>> = values.iter().map(text).collect::<Option<_>>()?;
    let texts: Vec<Vec<u8>> = texts.into_iter().flatten().collect();
    is_text.then(|| TextFilter::new(predicate.column, TextTest::Equal(&texts), collation)).flatten()
}
