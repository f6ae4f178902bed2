//! Scalar kernels as functions of DataFusion.
//!
//! A [`Kernel`] knows the SQL types of its arguments, so the plan needs no coercion: it runs as the binder built it.
//! Two kernels are equal if they compute the same result, whatever their positions in the text.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, UInt8Array, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use hobt_base::{Position, SqlError};
use hobt_catalog::PartitionFunction;
use hobt_functions::{
    Argument, BinaryOperator, Call, Column, DatePart, FunctionContext, FunctionDef, Volatility, arithmetic,
    array_value, carrier, cast_array, like, sort_keys, value_to_array,
};
use hobt_types::{Collation, SqlType, Value};

use super::external;
use super::next_value::NextValues;

/// A function that is evaluated row by row, such as `OBJECT_NAME(object_id)`.
pub type RowFunction = Arc<dyn Fn(&[Value]) -> Result<Value, SqlError> + Send + Sync>;

/// What a kernel computes.
#[derive(Clone)]
pub enum Operation {
    /// `CAST`, `CONVERT`, `TRY_CAST` and implicit conversion.
    Cast {
        /// The argument's type.
        from: SqlType,
        /// The result's type.
        to: SqlType,
        /// The style of `CONVERT`.
        style: Option<i32>,
        /// Whether an error gives NULL.
        attempt: bool,
    },
    /// `left operator right`.
    Binary {
        /// The operator.
        operator: BinaryOperator,
        /// The left operand's type.
        left: SqlType,
        /// The right operand's type.
        right: SqlType,
        /// The result's type.
        result: SqlType,
    },
    /// `-x`; the operand has the result's type.
    Negate(SqlType),
    /// `~x`
    BitNot(SqlType),
    /// The key by which text compares.
    SortKey(Collation),
    /// The key by which `varbinary` compares.
    BinaryKey,
    /// The unchanged value, but declared as possibly NULL.
    Nullable(SqlType),
    /// `LIKE`; two arguments, or three with an escape character.
    Like(Collation),
    /// A function of crate `functions`.
    Function {
        /// The function.
        def: &'static FunctionDef,
        /// The types of its arguments.
        arguments: Vec<SqlType>,
        /// The result's type.
        result: SqlType,
        /// The collation by which text compares.
        collation: Collation,
        /// The part of a date function.
        date_part: Option<DatePart>,
        /// The statement's context.
        context: Arc<FunctionContext>,
    },
    /// `$PARTITION.f(x)`; the argument has the function's parameter type.
    PartitionNumber(Arc<PartitionFunction>),
    /// Whether a row of grouping sets is a super-aggregate over a column: one bit of DataFusion's grouping id.
    GroupingBit {
        /// The bit.
        shift: u32,
    },
    /// Many conditions joined by `AND` (true) or `OR`. They are evaluated side by side; a tree of them would be as deep
    /// as their number.
    Junction {
        /// Whether all must be true.
        all: bool,
    },
    /// The parts of a text between separators (`STRING_SPLIT`), or their numbers, as a list.
    Split {
        /// Whether it gives the numbers.
        ordinals: bool,
    },
    /// The next value of a sequence for each row. The argument, if there is one, is the row's number.
    NextValue(NextValues),
    /// A variable in an expression from which a `Formula` of `hobt-binder` is made; it is in no plan.
    Parameter {
        /// Its name, with `@` or `@@`.
        name: String,
        /// Its type.
        sql_type: SqlType,
    },
    /// A function that the session evaluates.
    Rows {
        /// Its name.
        name: String,
        /// The types of its arguments.
        arguments: Vec<SqlType>,
        /// The result's type.
        result: SqlType,
        /// Its evaluation.
        evaluate: RowFunction,
    },
}

impl Operation {
    /// The result's type in T-SQL; `None` for a key, a condition, a list.
    pub fn sql_type(&self) -> Option<SqlType> {
        Some(match self {
            Operation::Cast { to, .. } => *to,
            Operation::Binary { result, .. }
            | Operation::Function { result, .. }
            | Operation::Rows { result, .. }
            | Operation::Negate(result)
            | Operation::Nullable(result)
            | Operation::BitNot(result) => *result,
            Operation::PartitionNumber(_) => SqlType::Int,
            Operation::NextValue(values) => values.result,
            Operation::Parameter { sql_type, .. } => *sql_type,
            Operation::SortKey(_)
            | Operation::BinaryKey
            | Operation::Like(_)
            | Operation::Junction { .. }
            | Operation::GroupingBit { .. }
            | Operation::Split { .. } => return None,
        })
    }

    /// The T-SQL type of an argument; `None` if the operation does not fix it.
    pub fn argument_sql_type(&self, place: usize) -> Option<SqlType> {
        match self {
            Operation::Function { arguments, .. } | Operation::Rows { arguments, .. } => arguments.get(place).copied(),
            Operation::Cast { from, .. } => Some(*from),
            Operation::Binary { left, right, .. } => Some(if place == 0 { *left } else { *right }),
            Operation::Negate(sql_type) | Operation::BitNot(sql_type) | Operation::Nullable(sql_type) => {
                Some(*sql_type)
            }
            Operation::PartitionNumber(function) => Some(function.parameter),
            _ => None,
        }
    }

    /// The type of the result.
    fn data_type(&self) -> DataType {
        match self {
            Operation::SortKey(_) | Operation::BinaryKey => DataType::BinaryView,
            Operation::GroupingBit { .. } => DataType::UInt8,
            Operation::Split { ordinals } => {
                DataType::new_list(if *ordinals { DataType::Int64 } else { DataType::Utf8View }, true)
            }
            other => other.sql_type().map_or(DataType::Boolean, carrier),
        }
    }

    /// The type of an argument; `None` if the operation does not fix it.
    fn argument_type(&self, place: usize) -> Option<DataType> {
        match self {
            Operation::Function { arguments, .. } | Operation::Rows { arguments, .. } => {
                arguments.get(place).map(|sql_type| carrier(*sql_type))
            }
            Operation::Cast { from, .. } => Some(carrier(*from)),
            Operation::Nullable(sql_type) => Some(carrier(*sql_type)),
            Operation::PartitionNumber(function) => Some(carrier(function.parameter)),
            Operation::Junction { .. } => Some(DataType::Boolean),
            Operation::Split { .. } => Some(DataType::Utf8View),
            _ => None,
        }
    }

    /// Whether the result is NULL only if an argument is NULL.
    fn is_strict(&self) -> bool {
        match self {
            Operation::Cast { attempt, .. } => !attempt,
            Operation::Binary { .. }
            | Operation::Negate(_)
            | Operation::BitNot(_)
            | Operation::SortKey(_)
            | Operation::BinaryKey
            | Operation::Like(_)
            | Operation::NextValue(_)
            | Operation::GroupingBit { .. } => true,
            Operation::Function { .. }
            | Operation::Nullable(_)
            | Operation::PartitionNumber(_)
            | Operation::Junction { .. }
            | Operation::Split { .. }
            | Operation::Parameter { .. }
            | Operation::Rows { .. } => false,
        }
    }

    fn volatility(&self) -> datafusion::logical_expr::Volatility {
        use datafusion::logical_expr::Volatility as Engine;
        match self {
            Operation::Function { def, .. } => match def.volatility {
                Volatility::Immutable => Engine::Immutable,
                Volatility::Statement => Engine::Stable,
                Volatility::OncePerReference | Volatility::Volatile => Engine::Volatile,
            },
            Operation::Rows { .. } => Engine::Stable,
            // With an immutable call, a constant would be folded, and the result would no longer count as possibly
            // NULL.
            Operation::Nullable(_) | Operation::NextValue(_) | Operation::Parameter { .. } => Engine::Volatile,
            _ => Engine::Immutable,
        }
    }

    fn name(&self) -> String {
        match self {
            Operation::Cast { to, style, attempt, .. } => {
                let word = if *attempt { "try_cast" } else { "cast" };
                match style {
                    Some(style) => format!("{word}_{to}_{style}"),
                    None => format!("{word}_{to}"),
                }
            }
            Operation::Binary { operator, result, .. } => format!("[{operator}]_{result}"),
            Operation::Negate(_) => "negate".into(),
            Operation::BitNot(_) => "bit_not".into(),
            Operation::BinaryKey => "binary_key".into(),
            Operation::Nullable(_) => "nullable".into(),
            Operation::SortKey(collation) => match collation {
                Collation::Latin1GeneralCiAs => "key".into(),
                other => format!("key_{}", other.name()),
            },
            Operation::Like(_) => "like".into(),
            Operation::Function { def, date_part: Some(part), .. } => {
                format!("{}_{}", def.name.to_lowercase(), part.name())
            }
            Operation::Function { def, .. } => def.name.to_lowercase(),
            Operation::PartitionNumber(function) => format!("$partition.{}", function.name),
            Operation::GroupingBit { shift } => format!("grouping_bit_{shift}"),
            Operation::Junction { all: true } => "all".into(),
            Operation::Junction { all: false } => "any".into(),
            Operation::Split { ordinals: false } => "split".into(),
            Operation::Split { ordinals: true } => "split_ordinals".into(),
            Operation::NextValue(values) => format!("next_value_{}", values.name),
            Operation::Parameter { name, .. } => name.clone(),
            Operation::Rows { name, .. } => name.to_lowercase(),
        }
    }
}

impl PartialEq for Operation {
    fn eq(&self, other: &Operation) -> bool {
        use Operation as O;
        match (self, other) {
            (
                O::Cast { from, to, style, attempt },
                O::Cast { from: from2, to: to2, style: style2, attempt: attempt2 },
            ) => from == from2 && to == to2 && style == style2 && attempt == attempt2,
            (
                O::Binary { operator, left, right, result },
                O::Binary { operator: operator2, left: left2, right: right2, result: result2 },
            ) => operator == operator2 && left == left2 && right == right2 && result == result2,
            (O::Negate(a), O::Negate(b)) | (O::BitNot(a), O::BitNot(b)) | (O::Nullable(a), O::Nullable(b)) => a == b,
            (O::BinaryKey, O::BinaryKey) => true,
            (O::SortKey(a), O::SortKey(b)) | (O::Like(a), O::Like(b)) => a == b,
            (
                O::Function { def, arguments, result, collation, date_part, context },
                O::Function { def: d, arguments: a, result: r, collation: c, date_part: p, context: x },
            ) => {
                def.name == d.name
                    && arguments == a
                    && result == r
                    && collation == c
                    && date_part == p
                    && (def.volatility == Volatility::Immutable || Arc::ptr_eq(context, x))
            }
            (O::PartitionNumber(a), O::PartitionNumber(b)) => a == b,
            (O::NextValue(a), O::NextValue(b)) => a == b,
            (O::Parameter { name: a, .. }, O::Parameter { name: b, .. }) => a == b,
            (O::GroupingBit { shift: a }, O::GroupingBit { shift: b }) => a == b,
            (O::Junction { all: a }, O::Junction { all: b }) => a == b,
            (O::Split { ordinals: a }, O::Split { ordinals: b }) => a == b,
            (O::Rows { name: a, evaluate: f, .. }, O::Rows { name: b, evaluate: g, .. }) => a == b && Arc::ptr_eq(f, g),
            _ => false,
        }
    }
}

impl Eq for Operation {}

impl Hash for Operation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// An operation as a function of DataFusion.
#[derive(Debug)]
pub struct Kernel {
    operation: Operation,
    /// Its position in the text, for errors.
    position: Position,
    name: String,
    signature: Signature,
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        self.operation == other.operation
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Kernel {
    /// The call of `operation` on `arguments`, whose types are those of the operation.
    pub fn call(operation: Operation, arguments: Vec<Expr>, position: Position) -> Expr {
        let kernel = Kernel::of(operation, position);
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(kernel)), arguments))
    }

    /// The kernel of `operation`; `position` is its position in the text.
    pub fn of(operation: Operation, position: Position) -> Kernel {
        let signature = Signature::user_defined(operation.volatility());
        Kernel { name: operation.name(), operation, position, signature }
    }

    /// The operation that it computes.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }
}

impl ScalarUDFImpl for Kernel {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.operation.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = !self.operation.is_strict() || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(&self.name, self.operation.data_type(), nullable)))
    }

    fn is_strict(&self) -> bool {
        self.operation.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = !args.args.is_empty()
            && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
            && self.operation.volatility() != datafusion::logical_expr::Volatility::Volatile;
        let rows = if constant { 1 } else { args.number_rows };
        let mut columns = args.args.into_iter().map(column_of).collect::<Result<Vec<_>>>()?;
        // To find what a condition gives if a column is NULL, the optimizer passes a NULL without a type.
        for (place, column) in columns.iter_mut().enumerate() {
            if column.array().data_type() != &DataType::Null {
                continue;
            }
            if self.operation.is_strict() {
                return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&self.operation.data_type())?));
            }
            let data_type = self.operation.argument_type(place).ok_or_else(|| external(broken(&self.name)))?;
            *column = column.with_array(new_null_array(&data_type, column.array().len()));
        }
        let array = self.evaluate(columns, rows, None).map_err(|error| external(error.at(self.position)))?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

fn column_of(value: ColumnarValue) -> Result<Column> {
    Ok(match value {
        ColumnarValue::Array(array) => Column::Array(array),
        ColumnarValue::Scalar(scalar) => Column::Scalar(scalar.to_array()?),
    })
}

fn broken(name: &str) -> SqlError {
    SqlError::internal(format!("{name} was called with the wrong arguments"))
}

impl Kernel {
    /// Its position in the text.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Computes `rows` values. With `now`, functions take the time and random values from it instead of the context
    /// with which they were bound.
    pub fn evaluate(
        &self,
        columns: Vec<Column>,
        rows: usize,
        now: Option<&FunctionContext>,
    ) -> Result<ArrayRef, SqlError> {
        // Hashes and sorts treat `-0` and `0` as two values.
        self.computed(columns, rows, now).map(|array| normalize_float_zero(&array))
    }

    fn computed(
        &self,
        mut columns: Vec<Column>,
        rows: usize,
        now: Option<&FunctionContext>,
    ) -> Result<ArrayRef, SqlError> {
        match &self.operation {
            Operation::Binary { operator, left, right, result } => {
                let [a, b] = columns.as_slice() else { return Err(broken(&self.name)) };
                arithmetic::binary(*operator, (a, *left), (b, *right), *result, rows)
            }
            Operation::Like(collation) => {
                let (text, pattern, escape) = match columns.as_slice() {
                    [text, pattern] => (text, pattern, None),
                    [text, pattern, escape] => (text, pattern, Some(escape)),
                    _ => return Err(broken(&self.name)),
                };
                Ok(Arc::new(like::like(text, pattern, escape, *collation, rows)?))
            }
            Operation::Function { def, arguments, result, collation, date_part, context } => {
                let args: Vec<Argument> = columns
                    .into_iter()
                    .zip(arguments)
                    .map(|(column, sql_type)| Argument { column, sql_type: *sql_type })
                    .collect();
                (def.evaluate)(&Call {
                    args: &args,
                    rows,
                    result_type: *result,
                    collation: *collation,
                    date_part: *date_part,
                    context: now.unwrap_or(context),
                })
            }
            Operation::Rows { arguments, result, evaluate, .. } => {
                evaluate_rows(evaluate, &columns, arguments, *result, rows)
            }
            Operation::NextValue(values) => match columns.as_slice() {
                [] => values.of_rows(rows),
                [number] => values.of_numbers(&number.to_array(rows)?),
                _ => Err(broken(&self.name)),
            },
            Operation::Junction { all } => junction(&columns, *all, rows),
            Operation::Split { ordinals } => {
                let [texts, separators] = columns.as_slice() else { return Err(broken(&self.name)) };
                match ordinals {
                    true => hobt_functions::split_ordinals(texts, separators, rows),
                    false => hobt_functions::split(texts, separators, rows),
                }
            }
            unary => {
                let column = columns.pop().filter(|_| columns.is_empty()).ok_or_else(|| broken(&self.name))?;
                let array = evaluate_unary(unary, column.array())?;
                column.with_array(array).to_array(rows)
            }
        }
    }
}

fn evaluate_unary(operation: &Operation, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    match operation {
        Operation::Cast { from, to, style, attempt } => cast_array(array, *from, *to, *style, *attempt),
        Operation::Negate(sql_type) => arithmetic::negate(array, *sql_type),
        Operation::BitNot(sql_type) => arithmetic::bit_not(array, *sql_type),
        Operation::SortKey(collation) => {
            let texts = array.as_string_view_opt().ok_or_else(|| broken("a sort key"))?;
            Ok(Arc::new(sort_keys::sort_keys(texts, *collation)?))
        }
        Operation::BinaryKey => {
            let values = array.as_binary_view_opt().ok_or_else(|| broken("a binary key"))?;
            Ok(Arc::new(sort_keys::binary_keys(values)?))
        }
        Operation::Nullable(_) => Ok(Arc::clone(array)),
        Operation::PartitionNumber(function) => partition_numbers(function, array),
        Operation::GroupingBit { shift } => grouping_bits(array, *shift),
        _ => Err(broken("an operation")),
    }
}

/// The conditions' conjunction or disjunction, in three-valued logic.
fn junction(columns: &[Column], all: bool, rows: usize) -> Result<ArrayRef, SqlError> {
    let mut result: Option<BooleanArray> = None;
    for column in columns {
        let array = column.to_array(rows)?;
        let next = array.as_boolean_opt().ok_or_else(|| broken("a condition"))?;
        result = Some(match &result {
            None => next.clone(),
            Some(sofar) => {
                let joined = match all {
                    true => arrow::compute::and_kleene(sofar, next),
                    false => arrow::compute::or_kleene(sofar, next),
                };
                joined.map_err(|error| SqlError::internal(error.to_string()))?
            }
        });
    }
    let result = result.ok_or_else(|| broken("a condition"))?;
    Ok(Arc::new(result))
}

/// Calls `evaluate` for each row and collects the results.
fn evaluate_rows(
    evaluate: &RowFunction,
    columns: &[Column],
    arguments: &[SqlType],
    result: SqlType,
    rows: usize,
) -> Result<ArrayRef, SqlError> {
    let mut values = Vec::with_capacity(arguments.len());
    let mut answers = Vec::with_capacity(rows);
    for row in 0..rows {
        values.clear();
        for (column, sql_type) in columns.iter().zip(arguments) {
            values.push(array_value(column.array(), column.row(row), *sql_type)?);
        }
        answers.push(value_to_array(&evaluate(&values)?, result)?);
    }
    if answers.is_empty() {
        return Ok(arrow::array::new_empty_array(&carrier(result)));
    }
    let parts: Vec<&dyn Array> = answers.iter().map(|answer| answer.as_ref()).collect();
    arrow::compute::concat(&parts).map_err(|error| SqlError::internal(error.to_string()))
}

/// The number of the partition that each value belongs to, from 1; NULL belongs to the first.
fn partition_numbers(function: &PartitionFunction, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
    let numbers = (0..array.len()).map(|row| {
        let value = array_value(array.as_ref(), row, function.parameter)?;
        Ok(i32::try_from(function.partition_of(&value)).unwrap_or(i32::MAX).saturating_add(1))
    });
    let numbers = numbers.collect::<Result<Vec<i32>, SqlError>>()?;
    Ok(Arc::new(Int32Array::from(numbers)))
}

/// One bit of each grouping id.
fn grouping_bits(array: &ArrayRef, shift: u32) -> Result<ArrayRef, SqlError> {
    let wide = arrow::compute::cast(array, &DataType::UInt64).map_err(|error| SqlError::internal(error.to_string()))?;
    let wide: &UInt64Array = wide.as_primitive();
    let bits: UInt8Array =
        wide.iter().map(|id| id.map(|id| u8::from(id.checked_shr(shift).unwrap_or(0) & 1 == 1))).collect();
    Ok(Arc::new(bits))
}
