//! Conditions on single columns of files, as far as the files' own figures can tell that no row fulfils them.

use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use hobt_files::{FileColumn, FileCondition, FileTest};
use hobt_functions::{array_value, carrier};
use hobt_types::SqlType;

/// The conditions among `exprs` that compare a number, date or time column with a constant of its type.
pub(super) fn file_conditions(exprs: &[Expr], columns: &[FileColumn]) -> Vec<FileCondition> {
    exprs.iter().flat_map(split_conjunction).filter_map(|expr| condition(expr, columns)).collect()
}

fn condition(expr: &Expr, columns: &[FileColumn]) -> Option<FileCondition> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    let (name, literal, test) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(literal, _)) => (&column.name, literal, test_of(*op)?),
        (Expr::Literal(literal, _), Expr::Column(column)) => (&column.name, literal, mirrored(test_of(*op)?)),
        _ => return None,
    };
    let column = columns.iter().position(|column| column.name == *name)?;
    let sql_type = columns[column].sql_type;
    // The order of texts is that of their collation.
    let is_plain = !sql_type.is_text() && !sql_type.is_binary() && sql_type != SqlType::UniqueIdentifier;
    if !is_plain || literal.is_null() || literal.data_type() != carrier(sql_type) {
        return None;
    }
    let value = array_value(literal.to_array().ok()?.as_ref(), 0, sql_type).ok()?;
    Some(FileCondition { column, test, value })
}

fn test_of(op: Operator) -> Option<FileTest> {
    Some(match op {
        Operator::Eq => FileTest::Equal,
        Operator::Lt => FileTest::Less,
        Operator::LtEq => FileTest::LessOrEqual,
        Operator::Gt => FileTest::Greater,
        Operator::GtEq => FileTest::GreaterOrEqual,
        _ => return None,
    })
}

fn mirrored(test: FileTest) -> FileTest {
    match test {
        FileTest::Equal => FileTest::Equal,
        FileTest::Less => FileTest::Greater,
        FileTest::LessOrEqual => FileTest::GreaterOrEqual,
        FileTest::Greater => FileTest::Less,
        FileTest::GreaterOrEqual => FileTest::LessOrEqual,
    }
}
