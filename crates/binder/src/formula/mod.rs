//! Scalar expressions that are bound once and evaluated often, on single values.
//!
//! Examples are a loop's condition, the value of a `SET`, and the row of an `INSERT … VALUES`. Binding such an
//! expression takes microseconds, and so does running a plan over a batch of one row. A [`Formula`] is compiled from
//! the bound expression, with variables left open, and computes on values. It evaluates integers, comparisons and logic
//! itself. Everything else is evaluated by the kernels that plans call, so that each function has a single
//! implementation.
//!
//! Not supported: queries in expressions, sequences, and values that the binder knows only at the moment ([`compile`]
//! returns `None` for them, and the statement is interpreted).

mod compile;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use hobt_base::{Position, SqlError};
use hobt_functions::arithmetic::integer_values;
use hobt_functions::function::EvaluateOne;
use hobt_functions::{BinaryOperator, Column, FunctionContext, Volatility, array_value, value_to_array};
use hobt_types::{Collation, SqlType, TypedValue, Value};

use hobt_udf::{Kernel, Operation};

pub use compile::{compile, compile_over};

/// The variables and the row that a formula is evaluated on.
pub trait Given {
    /// The value of a variable, by the index that it was compiled with.
    fn variable(&self, place: usize) -> &Value;

    /// The value of a column of the current row, by its index in the table.
    ///
    /// # Errors
    /// An internal error if the row is damaged or there is none.
    fn column(&self, place: usize) -> Result<Value, SqlError> {
        Err(SqlError::internal(format!("column {place} of no row")))
    }

    /// The value of a global variable (`@@ROWCOUNT`).
    fn global(&self, name: &str) -> Option<TypedValue>;

    /// The time and the random seed, shared by all formulas of a statement.
    fn now(&self) -> &FunctionContext;
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Formula {
    root: Node,
    sql_type: SqlType,
}

/// A node of a formula. Values are those of carriers: `money` is a decimal, a condition is 1, 0 or NULL.
#[derive(Clone, Debug)]
enum Node {
    Constant(Value),
    Variable {
        place: usize,
        is_money: bool,
    },
    Column {
        place: usize,
        is_money: bool,
    },
    Global(String),
    /// Arithmetic on two integers.
    Integers {
        operator: BinaryOperator,
        operands: Box<[Node; 2]>,
        result: SqlType,
        position: Position,
    },
    /// One of the six comparisons, or whether the two are distinct, or not distinct.
    Compare(Operator, Box<[Node; 2]>),
    /// Whether all are true, in three-valued logic.
    All(Vec<Node>),
    /// Whether any is true, in three-valued logic.
    Any(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    /// The value of the first branch whose condition is true.
    Case {
        branches: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    /// An integer as a decimal: multiplied by a power of ten.
    Scaled(Box<Node>, i128),
    /// An integer as a float.
    Float(Box<Node>),
    /// An integer as a narrower one, if it is in the range; otherwise the kernel raises the error.
    Narrowed {
        operand: Box<Node>,
        range: (i64, i64),
        kernel: Arc<Kernel>,
        from: SqlType,
        to: SqlType,
    },
    SortKey(Box<Node>, Collation),
    /// A function without arguments.
    One(EvaluateOne),
    Kernel {
        kernel: Arc<Kernel>,
        arguments: Vec<(Node, SqlType)>,
        result: Outcome,
    },
}

/// The kind of a kernel's result.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Of(SqlType),
    Condition,
    Key,
}

impl Formula {
    /// The type of its value.
    pub fn sql_type(&self) -> SqlType {
        self.sql_type
    }

    /// Whether it reads the variable with this index.
    pub fn reads(&self, variable: usize) -> bool {
        self.root.reads(variable)
    }

    /// Its value, if it is always the same.
    pub fn constant(&self) -> Option<Value> {
        let Node::Constant(value) = &self.root else { return None };
        settled(value.clone(), self.sql_type).ok()
    }

    /// Its value.
    ///
    /// # Errors
    /// Those of its functions, with their places in the text.
    pub fn evaluate(&self, given: &dyn Given) -> Result<Value, SqlError> {
        settled(self.root.evaluate(given)?, self.sql_type)
    }
}

/// Converts a value of a carrier to one of its type.
fn settled(value: Value, sql_type: SqlType) -> Result<Value, SqlError> {
    Ok(match (value, sql_type) {
        (Value::Decimal(unscaled), SqlType::Money | SqlType::SmallMoney) => {
            Value::Int(i64::try_from(unscaled).map_err(|_| SqlError::internal("a money value beyond 64 bits"))?)
        }
        (value, _) => value,
    })
}

impl Node {
    fn reads(&self, variable: usize) -> bool {
        let any = |nodes: &[Node]| nodes.iter().any(|node| node.reads(variable));
        match self {
            Node::Variable { place, .. } => *place == variable,
            Node::Constant(_) | Node::Column { .. } | Node::Global(_) | Node::One(_) => false,
            Node::Integers { operands, .. } | Node::Compare(_, operands) => any(&operands[..]),
            Node::All(operands) | Node::Any(operands) => any(operands),
            Node::Not(operand)
            | Node::IsNull(operand)
            | Node::Scaled(operand, _)
            | Node::Float(operand)
            | Node::Narrowed { operand, .. }
            | Node::SortKey(operand, _) => operand.reads(variable),
            Node::Case { branches, otherwise } => {
                branches.iter().any(|(when, then)| when.reads(variable) || then.reads(variable))
                    || otherwise.as_ref().is_some_and(|otherwise| otherwise.reads(variable))
            }
            Node::Kernel { arguments, .. } => arguments.iter().any(|(argument, _)| argument.reads(variable)),
        }
    }

    fn evaluate(&self, given: &dyn Given) -> Result<Value, SqlError> {
        Ok(match self {
            Node::Constant(value) => value.clone(),
            Node::Variable { place, is_money } => match given.variable(*place) {
                Value::Int(value) if *is_money => Value::Decimal(i128::from(*value)),
                value => value.clone(),
            },
            Node::Column { place, is_money } => match given.column(*place)? {
                Value::Int(value) if *is_money => Value::Decimal(i128::from(value)),
                value => value,
            },
            Node::Global(name) => given.global(name).map_or(Value::Null, |typed| typed.value),
            Node::Integers { operator, operands, result, position } => {
                let [left, right] = &**operands;
                let (Value::Int(left), Value::Int(right)) = (left.evaluate(given)?, right.evaluate(given)?) else {
                    return Ok(Value::Null);
                };
                Value::Int(integer_values(*operator, left, right, *result).map_err(|error| error.at(*position))?)
            }
            Node::Compare(operator, operands) => {
                let [left, right] = &**operands;
                compared(*operator, &left.evaluate(given)?, &right.evaluate(given)?)?
            }
            Node::All(operands) => joined(operands, false, given)?,
            Node::Any(operands) => joined(operands, true, given)?,
            Node::Not(operand) => match operand.evaluate(given)? {
                Value::Null => Value::Null,
                value => truth(value != TRUE),
            },
            Node::IsNull(operand) => truth(operand.evaluate(given)?.is_null()),
            Node::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    if condition.evaluate(given)? == TRUE {
                        return value.evaluate(given);
                    }
                }
                return otherwise.as_ref().map_or(Ok(Value::Null), |otherwise| otherwise.evaluate(given));
            }
            Node::Scaled(operand, factor) => match operand.evaluate(given)? {
                Value::Int(value) => Value::Decimal(i128::from(value) * factor),
                Value::Decimal(value) => Value::Decimal(value * factor),
                value => value,
            },
            Node::Float(operand) => match operand.evaluate(given)? {
                Value::Int(value) => Value::Float(value as f64),
                value => value,
            },
            Node::Narrowed { operand, range: (least, greatest), kernel, from, to } => match operand.evaluate(given)? {
                Value::Int(value) if (*least..=*greatest).contains(&value) => Value::Int(value),
                Value::Null => Value::Null,
                value => {
                    let column = Column::Scalar(value_to_array(&value, *from)?);
                    return called(kernel, vec![column], Outcome::Of(*to), given);
                }
            },
            Node::SortKey(operand, collation) => match operand.evaluate(given)? {
                Value::Text(text) => {
                    let mut key = Vec::new();
                    collation.sort_key(&text, &mut key);
                    Value::Binary(key)
                }
                value => value,
            },
            Node::One(evaluate) => evaluate(given.now()),
            Node::Kernel { kernel, arguments, result } => {
                let column = |(argument, sql_type): &(Node, SqlType)| {
                    Ok(Column::Scalar(value_to_array(&argument.evaluate(given)?, *sql_type)?))
                };
                let columns = arguments.iter().map(column).collect::<Result<Vec<_>, SqlError>>()?;
                return called(kernel, columns, *result, given);
            }
        })
    }
}

const TRUE: Value = Value::Int(1);

fn truth(is_true: bool) -> Value {
    Value::Int(i64::from(is_true))
}

/// A conjunction, or with `any` a disjunction. Evaluation stops at the first operand that decides it.
fn joined(operands: &[Node], any: bool, given: &dyn Given) -> Result<Value, SqlError> {
    let mut result = truth(!any);
    for operand in operands {
        match operand.evaluate(given)? {
            Value::Null => result = Value::Null,
            value if (value == TRUE) == any => return Ok(truth(any)),
            _ => {}
        }
    }
    Ok(result)
}

fn compared(operator: Operator, left: &Value, right: &Value) -> Result<Value, SqlError> {
    let nulls = (left.is_null(), right.is_null());
    match (operator, nulls) {
        (_, (false, false)) => {}
        (Operator::IsDistinctFrom, _) => return Ok(truth(nulls.0 != nulls.1)),
        (Operator::IsNotDistinctFrom, _) => return Ok(truth(nulls.0 == nulls.1)),
        _ => return Ok(Value::Null),
    }
    let order = match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Decimal(left), Value::Decimal(right)) => left.cmp(right),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right).unwrap_or(Ordering::Equal),
        (Value::Binary(left), Value::Binary(right)) => left.cmp(right),
        (Value::Guid(left), Value::Guid(right)) => left.cmp(right),
        _ => return Err(SqlError::internal("a formula compares values of different types")),
    };
    Ok(truth(match operator {
        Operator::Eq | Operator::IsNotDistinctFrom => order.is_eq(),
        Operator::NotEq | Operator::IsDistinctFrom => order.is_ne(),
        Operator::Lt => order.is_lt(),
        Operator::LtEq => order.is_le(),
        Operator::Gt => order.is_gt(),
        Operator::GtEq => order.is_ge(),
        _ => return Err(SqlError::internal(format!("a formula compares by {operator}"))),
    }))
}

fn called(kernel: &Kernel, columns: Vec<Column>, result: Outcome, given: &dyn Given) -> Result<Value, SqlError> {
    let array = match kernel.operation() {
        Operation::Function { def, .. } if def.volatility == Volatility::OncePerReference => {
            // Its position does not distinguish it: the DEFAULTs of two columns start at the same position.
            kernel.evaluate(columns, 1, Some(&given.now().reseeded()))
        }
        _ => kernel.evaluate(columns, 1, Some(given.now())),
    };
    let array = array.map_err(|error| error.at(kernel.position()))?;
    match result {
        Outcome::Of(sql_type) => carried(&array, sql_type),
        _ if array.is_null(0) => Ok(Value::Null),
        Outcome::Condition => {
            let conditions = array.as_boolean_opt().ok_or_else(|| SqlError::internal("a condition is not one"))?;
            Ok(truth(conditions.value(0)))
        }
        Outcome::Key => {
            let keys = array.as_binary_view_opt().ok_or_else(|| SqlError::internal("a key is not one"))?;
            Ok(Value::Binary(keys.value(0).to_vec()))
        }
    }
}

/// The only value of an array, as a value of its carrier.
fn carried(array: &dyn Array, sql_type: SqlType) -> Result<Value, SqlError> {
    let value = array_value(array, 0, sql_type)?;
    Ok(match (value, array.data_type()) {
        (Value::Int(value), DataType::Decimal128(..)) => Value::Decimal(i128::from(value)),
        (value, _) => value,
    })
}
