//! Extracts from a condition the predicates on single columns of a table that an index or a partition function can use.
//!
//! The conditions themselves stay in the plan. A predicate may accept rows that its condition rejects, but never
//! rejects a row that the condition accepts.

use arrow::datatypes::SchemaRef;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use hobt_catalog::{Table, value_to_bytes};
use hobt_functions::array_value;
use hobt_types::{Collation, KeyColumn, SqlType, Value};

use crate::cardinality::{Mark, mark_of};
use hobt_udf::{Kernel, Operation};

/// The other side of a comparison with a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Comparand {
    /// A value of the column's type.
    Value(Value),
    /// The bytes by which the value compares: a text's sort key, or a binary without trailing zeros.
    Compared(Vec<u8>),
    /// A value that estimates do not know.
    Unknown,
}

impl Comparand {
    /// Appends its normalised key; `None` if it has none.
    pub(crate) fn encode(&self, sql_type: SqlType, key: &KeyColumn, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Comparand::Unknown => None,
            Comparand::Compared(bytes) => {
                key.encode_compared(bytes, out);
                Some(())
            }
            Comparand::Value(value) => {
                let bytes = value_to_bytes(sql_type, value).ok()?;
                key.encode(bytes.as_deref(), out).ok()
            }
        }
    }
}

/// A bound, and whether it is inclusive.
pub type Limit = (Comparand, bool);

/// The test of a predicate.
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// The column has one of these values; there is at least one.
    Equal(Vec<Comparand>),
    /// The column is between these bounds; there is at least one.
    Range {
        /// The lower bound, if any.
        low: Option<Limit>,
        /// The upper bound, if any.
        high: Option<Limit>,
    },
    /// The column is NULL.
    Null,
    /// No row satisfies it.
    Never,
}

/// A condition on one column.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnPredicate {
    /// The column's index in the table.
    pub column: usize,
    /// What it demands of the column.
    pub test: Test,
    /// The collation under which text compares.
    pub collation: Option<Collation>,
}

/// A column, in a form whose comparisons are those of the column.
#[derive(Clone, Copy)]
struct Operand {
    column: usize,
    collation: Option<Collation>,
    /// The wider integer type that it was converted to.
    widened: Option<SqlType>,
    is_compared: bool,
}

/// The predicates on a table's columns in a condition.
pub(crate) fn predicates(table: &Table, schema: &SchemaRef, condition: &Expr) -> Vec<ColumnPredicate> {
    Reader { table, schema, is_estimate: false }.all_of(condition)
}

/// As [`predicates`], with the constants that estimates assume.
pub(crate) fn assumed_predicates(table: &Table, schema: &SchemaRef, condition: &Expr) -> Vec<ColumnPredicate> {
    Reader { table, schema, is_estimate: true }.all_of(condition)
}

/// The column whose text an expression is, in its own type or a wider one.
pub(crate) fn text_column(table: &Table, schema: &SchemaRef, expr: &Expr) -> Option<usize> {
    let operand = Reader { table, schema, is_estimate: true }.operand(expr)?;
    let is_text = !operand.is_compared && table.columns[operand.column].sql_type.is_text();
    is_text.then_some(operand.column)
}

/// As [`text_column`], of an expression that is exactly the column's text.
pub(super) fn text_operand(table: &Table, schema: &SchemaRef, expr: &Expr) -> Option<usize> {
    let operand = Reader { table, schema, is_estimate: false }.operand(expr)?;
    let is_text = !operand.is_compared && table.columns[operand.column].sql_type.is_text();
    is_text.then_some(operand.column)
}

/// The operands of a junction operation by AND; `None` for any other expression.
pub(super) fn all_of(condition: &Expr) -> Option<&[Expr]> {
    let Expr::ScalarFunction(call) = condition else { return None };
    let operation = call.func.inner().downcast_ref::<Kernel>()?.operation();
    matches!(operation, Operation::Junction { all: true }).then_some(call.args.as_slice())
}

struct Reader<'t> {
    table: &'t Table,
    schema: &'t SchemaRef,
    /// Whether constants have the values that estimates assume.
    is_estimate: bool,
}

impl Reader<'_> {
    fn all_of(&self, condition: &Expr) -> Vec<ColumnPredicate> {
        let mut found = Vec::new();
        self.read(condition, &mut found);
        found
    }

    fn read(&self, condition: &Expr, found: &mut Vec<ColumnPredicate>) {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                self.read(left, found);
                self.read(right, found);
            }
            Expr::ScalarFunction(call) => match call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation) {
                Some(Operation::Junction { all: true }) => call.args.iter().for_each(|part| self.read(part, found)),
                Some(Operation::Junction { all: false }) => found.extend(self.alternatives(condition)),
                _ => {}
            },
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => found.extend(self.alternatives(condition)),
            Expr::Between(Between { expr, negated: false, low, high }) => {
                found.extend(self.comparison(expr, Operator::GtEq, low));
                found.extend(self.comparison(expr, Operator::LtEq, high));
            }
            Expr::IsNull(operand) => {
                if let Some(Operand { column, collation, .. }) = self.operand(operand) {
                    found.push(ColumnPredicate { column, test: Test::Null, collation });
                }
            }
            other => found.extend(self.single(other)),
        }
    }

    /// A comparison, or a list of values.
    fn single(&self, condition: &Expr) -> Option<ColumnPredicate> {
        match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                self.comparison(left, *op, right).or_else(|| self.comparison(right, op.swap()?, left))
            }
            Expr::InList(InList { expr, list, negated: false }) => {
                let operand = self.operand(expr)?;
                let mut values = Vec::with_capacity(list.len());
                for item in list {
                    match self.equal(operand, item)? {
                        Test::Equal(found) => values.extend(found),
                        Test::Never => {}
                        Test::Range { .. } | Test::Null => return None,
                    }
                }
                let test = if values.is_empty() { Test::Never } else { Test::Equal(values) };
                Some(ColumnPredicate { column: operand.column, test, collation: operand.collation })
            }
            _ => None,
        }
    }

    /// A predicate from conditions joined by OR that all list values of one column.
    fn alternatives(&self, condition: &Expr) -> Option<ColumnPredicate> {
        let mut parts = Vec::new();
        flatten(condition, &mut parts);
        let mut all: Option<ColumnPredicate> = None;
        for part in parts {
            let ColumnPredicate { column, test, collation } = self.single(part)?;
            let values = match test {
                Test::Equal(values) => values,
                Test::Never => Vec::new(),
                Test::Range { .. } | Test::Null => return None,
            };
            match &mut all {
                None => all = Some(ColumnPredicate { column, test: Test::Equal(values), collation }),
                Some(ColumnPredicate { column: known, test: Test::Equal(found), collation: by })
                    if *known == column && *by == collation =>
                {
                    found.extend(values);
                }
                Some(_) => return None,
            }
        }
        all.filter(|all| all.test != Test::Equal(Vec::new()))
    }

    fn comparison(&self, operand: &Expr, operator: Operator, other: &Expr) -> Option<ColumnPredicate> {
        let operand = self.operand(operand)?;
        let test = match operator {
            Operator::Eq => self.equal(operand, other)?,
            Operator::Gt | Operator::GtEq | Operator::Lt | Operator::LtEq => self.range(operand, operator, other)?,
            _ => return None,
        };
        Some(ColumnPredicate { column: operand.column, test, collation: operand.collation })
    }

    fn equal(&self, operand: Operand, value: &Expr) -> Option<Test> {
        Some(match self.constant(operand, value)? {
            Compared::Value(value) => Test::Equal(vec![value]),
            Compared::Below | Compared::Above | Compared::Unknown => Test::Never,
        })
    }

    fn range(&self, operand: Operand, operator: Operator, value: &Expr) -> Option<Test> {
        let rises = matches!(operator, Operator::Gt | Operator::GtEq);
        let value = match self.constant(operand, value)? {
            Compared::Value(value) => value,
            Compared::Unknown => return Some(Test::Never),
            Compared::Below => return (!rises).then_some(Test::Never),
            Compared::Above => return rises.then_some(Test::Never),
        };
        let limit = Some((value, matches!(operator, Operator::GtEq | Operator::LtEq)));
        Some(if rises { Test::Range { low: limit, high: None } } else { Test::Range { low: None, high: limit } })
    }

    /// The column in an expression whose comparisons are those of the column.
    fn operand(&self, expr: &Expr) -> Option<Operand> {
        match expr {
            Expr::Column(Column { name, .. }) => {
                let column = self.schema.index_of(name).ok().filter(|place| *place < self.table.columns.len())?;
                Some(Operand { column, collation: None, widened: None, is_compared: false })
            }
            Expr::ScalarFunction(call) => {
                let [argument] = call.args.as_slice() else { return None };
                let inner = self.operand(argument)?;
                match call.func.inner().downcast_ref::<Kernel>()?.operation() {
                    Operation::SortKey(collation) if !inner.is_compared => {
                        Some(Operand { collation: Some(*collation), is_compared: true, ..inner })
                    }
                    Operation::BinaryKey if !inner.is_compared => Some(Operand { is_compared: true, ..inner }),
                    Operation::Nullable(_) => Some(inner),
                    Operation::Cast { from, to, style: None, attempt: false } => self.converted(inner, *from, *to),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A column after a conversion that keeps every value.
    fn converted(&self, inner: Operand, from: SqlType, to: SqlType) -> Option<Operand> {
        if inner.is_compared || inner.widened.is_some() || self.table.columns[inner.column].sql_type != from {
            return None;
        }
        if from.is_text() && to.is_text() {
            return is_wider_text(from, to).then_some(inner);
        }
        let width = |sql_type: SqlType| match sql_type {
            SqlType::TinyInt => Some(1),
            SqlType::SmallInt => Some(2),
            SqlType::Int => Some(4),
            SqlType::BigInt => Some(8),
            _ => None,
        };
        (width(from)? < width(to)?).then_some(Operand { widened: Some(to), ..inner })
    }

    /// A constant relative to a column; `None` for an expression that is not constant.
    fn constant(&self, operand: Operand, expr: &Expr) -> Option<Compared> {
        let Expr::Literal(value, _) = expr else { return None };
        match mark_of(expr).filter(|_| self.is_estimate) {
            Some(Mark::Unknown) => Some(Compared::Value(Comparand::Unknown)),
            Some(Mark::Value(assumed)) => self.comparand(operand, &assumed),
            None => self.comparand(operand, value),
        }
    }

    fn comparand(&self, operand: Operand, value: &ScalarValue) -> Option<Compared> {
        if value.is_null() {
            return Some(Compared::Unknown);
        }
        if operand.is_compared {
            return match value {
                ScalarValue::BinaryView(Some(bytes)) | ScalarValue::Binary(Some(bytes)) => {
                    Some(Compared::Value(Comparand::Compared(bytes.clone())))
                }
                _ => None,
            };
        }
        let sql_type = self.table.columns[operand.column].sql_type;
        let array = value.to_array().ok()?;
        if let Some(widened) = operand.widened {
            let Value::Int(number) = array_value(array.as_ref(), 0, widened).ok()? else { return None };
            let (least, greatest) = match sql_type {
                SqlType::TinyInt => (0, i64::from(u8::MAX)),
                SqlType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
                _ => (i64::from(i32::MIN), i64::from(i32::MAX)),
            };
            return Some(match number {
                number if number < least => Compared::Below,
                number if number > greatest => Compared::Above,
                number => Compared::Value(Comparand::Value(Value::Int(number))),
            });
        }
        if array.data_type() != &hobt_functions::carrier(sql_type) {
            return None;
        }
        Some(Compared::Value(Comparand::Value(array_value(array.as_ref(), 0, sql_type).ok()?)))
    }
}

/// Whether a text type holds every text of another.
pub(crate) fn is_wider_text(from: SqlType, to: SqlType) -> bool {
    let characters = |sql_type: SqlType| match sql_type.max_length_bytes() {
        -1 => i32::MAX,
        bytes if sql_type.is_national() => i32::from(bytes) / 2,
        bytes => i32::from(bytes),
    };
    from.is_text() && to.is_text() && characters(to) >= characters(from)
}

/// A literal relative to a column.
enum Compared {
    Value(Comparand),
    /// Below every value of the column's type.
    Below,
    /// Above every value of it.
    Above,
    /// NULL.
    Unknown,
}

fn flatten<'e>(condition: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            flatten(left, parts);
            flatten(right, parts);
        }
        Expr::ScalarFunction(call)
            if matches!(
                call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation),
                Some(Operation::Junction { all: false })
            ) =>
        {
            call.args.iter().for_each(|part| flatten(part, parts));
        }
        other => parts.push(other),
    }
}
