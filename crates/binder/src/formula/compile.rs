//! Compiles formulas from bound expressions.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use hobt_functions::carrier;
use hobt_types::{MaxLength, SqlType, Value};

use super::{Formula, Node, Outcome};
use crate::{BoundExpr, column_of_row};
use hobt_udf::{Kernel, Operation};

/// The argument type of kernels that take any text.
const TEXT: SqlType = SqlType::NVarChar(MaxLength::Max);
const BYTES: SqlType = SqlType::VarBinary(MaxLength::Max);

/// The formula of an expression that was bound with
/// [`BindOptions::keeps_variables`](crate::BindOptions::keeps_variables); `None` if a part of it can only be
/// evaluated by a query. `place_of` gives the index of a variable.
pub fn compile(bound: &BoundExpr, place_of: &dyn Fn(&str) -> Option<usize>) -> Option<Formula> {
    compile_over(bound, &[], place_of)
}

/// As [`compile`], for an expression over the row of a table. Its columns have the types `columns` and are named by
/// their indexes ([`column_of_row`](crate::column_of_row)).
pub fn compile_over(
    bound: &BoundExpr,
    columns: &[SqlType],
    place_of: &dyn Fn(&str) -> Option<usize>,
) -> Option<Formula> {
    if let Some(value) = &bound.literal {
        return Some(Formula { root: Node::Constant(value.clone()), sql_type: bound.sql_type });
    }
    let field = |(place, sql_type): (usize, &SqlType)| Field::new(column_of_row(place).name, carrier(*sql_type), true);
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let schema = DFSchema::try_from(Arc::new(Schema::new(fields))).ok()?;
    let compiler = Compiler { columns, schema, place_of };
    Some(Formula { root: compiler.node(&bound.expr)?, sql_type: bound.sql_type })
}

struct Compiler<'p> {
    columns: &'p [SqlType],
    schema: DFSchema,
    place_of: &'p dyn Fn(&str) -> Option<usize>,
}

impl Compiler<'_> {
    fn node(&self, expr: &Expr) -> Option<Node> {
        Some(match expr {
            Expr::Literal(scalar, _) => Node::Constant(constant(scalar)?),
            Expr::Column(column) => {
                let place = self.columns.iter().enumerate().position(|(place, _)| column_of_row(place) == *column)?;
                Node::Column { place, is_money: is_money(self.columns[place]) }
            }
            Expr::Alias(alias) => self.node(&alias.expr)?,
            Expr::BinaryExpr(binary) => self.binary(binary)?,
            Expr::Not(operand) => Node::Not(Box::new(self.node(operand)?)),
            Expr::IsNull(operand) => Node::IsNull(Box::new(self.node(operand)?)),
            Expr::IsNotNull(operand) => Node::Not(Box::new(Node::IsNull(Box::new(self.node(operand)?)))),
            Expr::Case(case) if case.expr.is_none() => {
                let branch = |(when, then): &(Box<Expr>, Box<Expr>)| Some((self.node(when)?, self.node(then)?));
                let branches = case.when_then_expr.iter().map(branch).collect::<Option<_>>()?;
                let otherwise = match &case.else_expr {
                    Some(otherwise) => Some(Box::new(self.node(otherwise)?)),
                    None => None,
                };
                Node::Case { branches, otherwise }
            }
            Expr::InList(list) => {
                let operand = self.node(&list.expr)?;
                let equal =
                    |item: &Expr| Some(Node::Compare(Operator::Eq, Box::new([operand.clone(), self.node(item)?])));
                let any = Node::Any(list.list.iter().map(equal).collect::<Option<_>>()?);
                if list.negated { Node::Not(Box::new(any)) } else { any }
            }
            Expr::Cast(cast) => self.widened(&cast.expr, cast.field.data_type())?,
            Expr::ScalarFunction(call) => {
                let kernel = call.func.inner().downcast_ref::<Kernel>()?;
                self.call(kernel, &call.args)?
            }
            _ => return None,
        })
    }

    fn binary(&self, binary: &BinaryExpr) -> Option<Node> {
        match binary.op {
            Operator::And | Operator::Or => {
                let mut operands = Vec::new();
                self.flatten(binary, binary.op, &mut operands)?;
                Some(if binary.op == Operator::And { Node::All(operands) } else { Node::Any(operands) })
            }
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => {
                Some(Node::Compare(binary.op, Box::new([self.node(&binary.left)?, self.node(&binary.right)?])))
            }
            _ => None,
        }
    }

    fn flatten(&self, binary: &BinaryExpr, operator: Operator, operands: &mut Vec<Node>) -> Option<()> {
        for side in [&binary.left, &binary.right] {
            match &**side {
                Expr::BinaryExpr(inner) if inner.op == operator => self.flatten(inner, operator, operands)?,
                other => operands.push(self.node(other)?),
            }
        }
        Some(())
    }

    /// A conversion that loses nothing and never fails: the binder creates no other casts (`is_native`).
    fn widened(&self, operand: &Expr, to: &DataType) -> Option<Node> {
        let node = self.node(operand)?;
        let from = operand.get_type(&self.schema).ok()?;
        let scale = match from {
            DataType::Decimal128(_, scale) => Some(scale),
            _ if from.is_integer() => Some(0),
            _ => None,
        };
        Some(match (scale, to) {
            (Some(scale), DataType::Decimal128(_, wider)) => {
                let digits = u32::try_from(i32::from(*wider) - i32::from(scale)).ok()?;
                Node::Scaled(Box::new(node), 10_i128.checked_pow(digits)?)
            }
            (Some(0), DataType::Int16 | DataType::Int32 | DataType::Int64) => node,
            (Some(0), DataType::Float64) => Node::Float(Box::new(node)),
            (None, DataType::Float64) if from == DataType::Float32 => node,
            // A condition already is 1 or 0.
            (None, DataType::UInt8) if from == DataType::Boolean => node,
            _ => return None,
        })
    }

    fn call(&self, kernel: &Kernel, arguments: &[Expr]) -> Option<Node> {
        let operation = kernel.operation();
        let (types, result) = match operation {
            Operation::Parameter { name, sql_type } => {
                if name.starts_with("@@") {
                    return Some(Node::Global(name.clone()));
                }
                return Some(Node::Variable { place: (self.place_of)(name)?, is_money: is_money(*sql_type) });
            }
            Operation::Nullable(_) => return self.node(arguments.first()?),
            Operation::Junction { all } => {
                let operands = arguments.iter().map(|argument| self.node(argument)).collect::<Option<Vec<_>>>()?;
                return Some(if *all { Node::All(operands) } else { Node::Any(operands) });
            }
            Operation::SortKey(collation) => {
                return Some(Node::SortKey(Box::new(self.node(arguments.first()?)?), *collation));
            }
            Operation::Binary { operator, left, right, result }
                if result.is_integer() && left.is_integer() && right.is_integer() =>
            {
                let [left, right] = arguments else { return None };
                let operands = Box::new([self.node(left)?, self.node(right)?]);
                let position = kernel.position();
                return Some(Node::Integers { operator: *operator, operands, result: *result, position });
            }
            Operation::Binary { left, right, result, .. } => (vec![*left, *right], Outcome::Of(*result)),
            Operation::Cast { from, to, .. } => (vec![*from], Outcome::Of(*to)),
            Operation::Negate(sql_type) | Operation::BitNot(sql_type) => (vec![*sql_type], Outcome::Of(*sql_type)),
            Operation::BinaryKey => (vec![BYTES], Outcome::Key),
            Operation::Like(_) => (vec![TEXT; arguments.len()], Outcome::Condition),
            Operation::Function { def, .. } if arguments.is_empty() && def.one.is_some() => {
                return def.one.map(Node::One);
            }
            Operation::Function { arguments, result, .. } => (arguments.clone(), Outcome::Of(*result)),
            Operation::PartitionNumber(function) => (vec![function.parameter], Outcome::Of(SqlType::Int)),
            Operation::GroupingBit { .. }
            | Operation::Split { .. }
            | Operation::NextValue(_)
            | Operation::Rows { .. } => return None,
        };
        if types.len() != arguments.len() {
            return None;
        }
        let nodes = arguments.iter().zip(types).map(|(argument, sql_type)| Some((self.node(argument)?, sql_type)));
        let arguments = nodes.collect::<Option<Vec<_>>>()?;
        let kernel = Arc::new(Kernel::of(operation.clone(), kernel.position()));
        if let (Operation::Cast { from, to, style: None, .. }, [(operand, _)]) = (operation, arguments.as_slice())
            && let (true, Some(range)) = (from.is_integer(), range_of(*to))
        {
            return Some(Node::Narrowed { operand: Box::new(operand.clone()), range, kernel, from: *from, to: *to });
        }
        Some(Node::Kernel { kernel, arguments, result })
    }
}

/// Whether the type's values are integers, but decimals in its carrier.
fn is_money(sql_type: SqlType) -> bool {
    matches!(sql_type, SqlType::Money | SqlType::SmallMoney)
}

/// The range of an integer type other than `bit`.
fn range_of(sql_type: SqlType) -> Option<(i64, i64)> {
    Some(match sql_type {
        SqlType::TinyInt => (0, i64::from(u8::MAX)),
        SqlType::SmallInt => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        SqlType::BigInt => (i64::MIN, i64::MAX),
        _ => return None,
    })
}

/// A constant of a plan, as a value of its carrier.
fn constant(scalar: &ScalarValue) -> Option<Value> {
    if scalar.is_null() {
        return Some(Value::Null);
    }
    Some(match scalar {
        ScalarValue::Boolean(Some(value)) => Value::Int(i64::from(*value)),
        ScalarValue::UInt8(Some(value)) => Value::Int(i64::from(*value)),
        ScalarValue::Int16(Some(value)) => Value::Int(i64::from(*value)),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => Value::Int(i64::from(*value)),
        ScalarValue::Int64(Some(value)) => Value::Int(*value),
        ScalarValue::Decimal128(Some(value), ..) => Value::Decimal(*value),
        ScalarValue::Float32(Some(value)) => Value::Float(f64::from(*value)),
        ScalarValue::Float64(Some(value)) => Value::Float(*value),
        ScalarValue::Utf8View(Some(text)) => Value::Text(text.clone()),
        ScalarValue::BinaryView(Some(bytes)) => Value::Binary(bytes.clone()),
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => Value::Guid(bytes.as_slice().try_into().ok()?),
        _ => return None,
    })
}
