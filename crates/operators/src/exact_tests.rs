//! Which conditions a scan can test exactly: comparisons of a column that is stored as a number, and of texts.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use hobt_access::scan::{KeySet, TextFilter, TextTest};
use hobt_catalog::Table;
use hobt_functions::carrier;
use hobt_functions::like::{Pattern, PlainPattern};
use hobt_table::{JoinedColumn, KeyForm, for_each_key, is_number};
use hobt_types::{Collation, PhysicalType};
use hobt_udf::{Kernel, Operation};

use crate::row_tests::RowTest;
use crate::scan_exec::ScanExec;
use crate::trace::joined_column;

type Expr = Arc<dyn PhysicalExpr>;

/// The tests that a condition over a scan's columns is; `None` if it is more than that.
pub fn exact_tests(condition: &Expr, scan: &ScanExec) -> Option<Vec<RowTest>> {
    let mut tests = Vec::new();
    for part in split_conjunction(condition) {
        add(part, scan, &mut tests)?;
    }
    Some(tests)
}

fn add(condition: &Expr, scan: &ScanExec, tests: &mut Vec<RowTest>) -> Option<()> {
    let call = condition.downcast_ref::<ScalarFunctionExpr>();
    let operation = call.and_then(|call| Some(call.fun().inner().downcast_ref::<Kernel>()?.operation()));
    match (call, operation) {
        (Some(call), Some(Operation::Junction { all: true })) => {
            return call.args().iter().try_for_each(|part| add(part, scan, tests));
        }
        (Some(call), Some(Operation::Junction { all: false })) => tests.push(one_of(call.args(), scan)?),
        (Some(call), Some(Operation::Like(collation))) => tests.push(like(call, *collation, scan)?),
        (Some(_), _) => return None,
        (None, _) if is_or(condition) => {
            let mut parts = Vec::new();
            flatten(condition, &mut parts);
            tests.push(one_of(&parts, scan)?);
        }
        (None, _) => {
            let (column, test) = comparison(condition, scan)?;
            // The two ends of a range are one test.
            if let Test::Between(low, high) = test
                && let Some(RowTest::Number { keys, .. }) =
                    tests.iter_mut().find(|known| known.column() == column.column)
            {
                let mut narrow = KeySet::clone(keys);
                if narrow.narrow(&KeySet::between(low, high)) {
                    *keys = Arc::new(narrow);
                    return Some(());
                }
            }
            tests.push(test.of(&column)?);
        }
    }
    Some(())
}

fn is_or(condition: &Expr) -> bool {
    condition.downcast_ref::<BinaryExpr>().is_some_and(|binary| *binary.op() == Operator::Or)
}

/// The conditions that OR joins.
fn flatten(condition: &Expr, parts: &mut Vec<Expr>) {
    match condition.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == Operator::Or => {
            flatten(binary.left(), parts);
            flatten(binary.right(), parts);
        }
        _ => parts.push(Arc::clone(condition)),
    }
}

/// What a column is compared with.
enum Test {
    /// The least and the greatest number.
    Between(i64, i64),
    Numbers(Vec<i64>),
    /// The sort keys of texts.
    Keys(Vec<Vec<u8>>),
}

impl Test {
    fn of(self, column: &JoinedColumn) -> Option<RowTest> {
        let of_numbers =
            |keys: KeySet| keys.is_exact().then(|| RowTest::Number { column: column.column, keys: Arc::new(keys) });
        match self {
            Test::Between(low, high) => of_numbers(KeySet::between(low, high)),
            Test::Numbers(numbers) => of_numbers(KeySet::of(&numbers)),
            Test::Keys(keys) => equal_texts(column, keys),
        }
    }
}

fn equal_texts(column: &JoinedColumn, keys: Vec<Vec<u8>>) -> Option<RowTest> {
    let collation = column.collation?;
    let texts: Vec<Vec<u8>> = keys.iter().filter_map(|key| collation.ascii_of_key(key)).collect();
    let filter = TextFilter::new(column.column, TextTest::Equal(&texts), collation)?;
    let check = move |text: &str| {
        let mut key = Vec::new();
        collation.sort_key(text, &mut key);
        Ok(keys.contains(&key))
    };
    Some(RowTest::Text { filter, check: Arc::new(check) })
}

/// A comparison of a column with constants.
fn comparison(condition: &Expr, scan: &ScanExec) -> Option<(JoinedColumn, Test)> {
    let table = scan.table().table();
    let column_of =
        |expr: &Expr| joined_column(expr, table, scan.projection()).filter(|column| is_known(table, column));
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let column = column_of(list.expr()).filter(|_| !list.negated())?;
        let values = list.list().iter().map(|item| equal(item, &column)).collect::<Option<Vec<_>>>()?;
        return Some((column, together(values)?));
    }
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, op, value) = match column_of(binary.left()) {
        Some(column) => (column, *binary.op(), binary.right()),
        None => (column_of(binary.right())?, binary.op().swap()?, binary.left()),
    };
    let test = match op {
        Operator::Eq => equal(value, &column)?,
        Operator::LtEq => Test::Between(i64::MIN, number(value, &column)?),
        Operator::GtEq => Test::Between(number(value, &column)?, i64::MAX),
        Operator::Lt => Test::Between(i64::MIN, number(value, &column)?.checked_sub(1)?),
        Operator::Gt => Test::Between(number(value, &column)?.checked_add(1)?, i64::MAX),
        _ => return None,
    };
    Some((column, test))
}

/// Conditions joined by OR that compare one column with constants.
fn one_of(parts: &[Expr], scan: &ScanExec) -> Option<RowTest> {
    let mut column = None;
    let mut tests = Vec::with_capacity(parts.len());
    for part in parts {
        let (of, test) = comparison(part, scan)?;
        if *column.get_or_insert(of) != of {
            return None;
        }
        tests.push(test);
    }
    together(tests)?.of(&column?)
}

/// Lists of constants as one.
fn together(tests: Vec<Test>) -> Option<Test> {
    let (mut numbers, mut keys) = (Vec::new(), Vec::new());
    for test in tests {
        match test {
            Test::Numbers(more) => numbers.extend(more),
            Test::Keys(more) => keys.extend(more),
            Test::Between(..) => return None,
        }
    }
    match (numbers.is_empty(), keys.is_empty()) {
        (false, true) => Some(Test::Numbers(numbers)),
        (true, false) => Some(Test::Keys(keys)),
        _ => None,
    }
}

/// Whether numbers or keys tell the values of a column apart, and numbers have their order.
fn is_known(table: &Table, column: &JoinedColumn) -> bool {
    let sql_type = table.columns[column.column].sql_type;
    match column.form {
        KeyForm::Value | KeyForm::Widened => {
            // Only the lower half of a value of sixteen bytes is compared.
            is_number(&carrier(sql_type)) && sql_type.physical() != PhysicalType::Fixed16
        }
        KeyForm::Compared => sql_type.is_text(),
        KeyForm::Scaled(_) => false,
    }
}

fn constant(expr: &Expr) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value).filter(|value| !value.is_null())
}

fn equal(value: &Expr, column: &JoinedColumn) -> Option<Test> {
    if column.form != KeyForm::Compared {
        return Some(Test::Numbers(vec![number(value, column)?]));
    }
    match constant(value)? {
        ScalarValue::BinaryView(Some(key)) | ScalarValue::Binary(Some(key)) => Some(Test::Keys(vec![key.clone()])),
        _ => None,
    }
}

/// The number of a constant that a column's numbers are compared with.
fn number(value: &Expr, column: &JoinedColumn) -> Option<i64> {
    if column.form == KeyForm::Compared {
        return None;
    }
    let array: ArrayRef = constant(value)?.to_array().ok()?;
    let mut number = None;
    for_each_key(&array, |_, key| number = key.and_then(|(key, is_whole)| is_whole.then_some(key)));
    number.filter(|_| is_number(array.data_type()))
}

fn like(call: &ScalarFunctionExpr, collation: Collation, scan: &ScanExec) -> Option<RowTest> {
    let [text, pattern] = call.args() else { return None };
    let table = scan.table().table();
    let column = joined_column(text, table, scan.projection())?;
    let is_text = column.form == KeyForm::Value && table.columns[column.column].sql_type.is_text();
    let (ScalarValue::Utf8View(Some(pattern)) | ScalarValue::Utf8(Some(pattern))) = constant(pattern)? else {
        return None;
    };
    let pattern = Pattern::new(pattern, None, collation);
    let test = match pattern.plain().filter(|_| is_text)? {
        PlainPattern::Prefix(text) => TextTest::Prefix(text),
        PlainPattern::Contains(text) => TextTest::Contains(text),
    };
    let filter = TextFilter::new(column.column, test, collation)?;
    let check = move |text: &str| pattern.is_match(text).map_err(Into::into);
    Some(RowTest::Text { filter, check: Arc::new(check) })
}
