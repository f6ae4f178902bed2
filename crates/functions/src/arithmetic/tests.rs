//! Tests of the operators: results, overflow, and that NULL slots never raise.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array, Int32Array, Int64Array, StringViewArray};
use hobt_types::{SqlType, Value};

use super::*;
use crate::carrier::{array_value, value_to_array};
use crate::type_rules::{BinaryOperator as Op, binary_result};

const fn dec(precision: u8, scale: u8) -> SqlType {
    SqlType::Decimal { precision, scale }
}

fn ints(values: Vec<Option<i32>>) -> Column {
    Column::Array(Arc::new(Int32Array::from(values)))
}

fn one(operator: Op, left: (Value, SqlType), right: (Value, SqlType)) -> Result<Value, i32> {
    let column = |side: &(Value, SqlType)| Column::Scalar(value_to_array(&side.0, side.1).unwrap());
    let result = binary_result(operator, left.1, right.1).map_err(|error| error.number)?;
    let array = binary(operator, (&column(&left), left.1), (&column(&right), right.1), result, 1);
    Ok(array_value(&array.map_err(|error| error.number)?, 0, result).unwrap())
}

#[test]
fn integers_divide_towards_zero_and_overflow_with_8115() {
    let int = |v| (Value::Int(v), SqlType::Int);
    assert_eq!(one(Op::Divide, int(-7), int(2)), Ok(Value::Int(-3)));
    assert_eq!(one(Op::Modulo, int(-7), int(2)), Ok(Value::Int(-1)));
    assert_eq!(one(Op::Add, int(i64::from(i32::MAX)), int(1)), Err(8115));
    assert_eq!(one(Op::Multiply, int(65_536), int(32_768)), Err(8115));
    assert_eq!(one(Op::Divide, int(i64::from(i32::MIN)), int(-1)), Err(8115));
    assert_eq!(one(Op::Divide, int(1), int(0)), Err(8134));
    let big = |v| (Value::Int(v), SqlType::BigInt);
    assert_eq!(one(Op::Add, big(i64::MAX), big(1)), Err(8115));
    assert_eq!(one(Op::Subtract, big(i64::MIN), big(1)), Err(8115));
    assert_eq!(one(Op::Multiply, big(i64::MAX), int(2)), Err(8115));
    let tiny = |v| (Value::Int(v), SqlType::TinyInt);
    assert_eq!(one(Op::Subtract, tiny(1), tiny(2)), Err(8115));
    assert_eq!(one(Op::BitXor, int(6), int(3)), Ok(Value::Int(5)));
}

#[test]
fn what_lies_under_a_null_never_raises() {
    let left = ints(vec![Some(1), None, Some(4)]);
    let hidden = Int32Array::new(vec![1, 0, 2].into(), Some(vec![true, false, true].into()));
    let right = Column::Array(Arc::new(hidden));
    let result = binary(Op::Divide, (&left, SqlType::Int), (&right, SqlType::Int), SqlType::Int, 3).unwrap();
    assert_eq!(result.as_ref(), &Int32Array::from(vec![Some(1), None, Some(2)]) as &dyn Array);
    let huge = Int32Array::new(vec![i32::MAX, 5].into(), Some(vec![false, true].into()));
    let result = binary(
        Op::Add,
        (&Column::Array(Arc::new(huge)), SqlType::Int),
        (&ints(vec![Some(1), Some(1)]), SqlType::Int),
        SqlType::Int,
        2,
    );
    assert_eq!(result.unwrap().as_ref(), &Int32Array::from(vec![None, Some(6)]) as &dyn Array);
}

#[test]
fn decimals_multiply_exactly_and_cut_quotients() {
    let d = |v, precision, scale| (Value::Decimal(v), dec(precision, scale));
    assert_eq!(one(Op::Multiply, d(1_050, 15, 2), d(95, 16, 2)), Ok(Value::Decimal(99_750)));
    assert_eq!(
        one(Op::Divide, d(20, 2, 1), (Value::Int(3), SqlType::Int)),
        Ok(Value::Decimal(66_666_666_666_666 / 100))
    );
    assert_eq!(one(Op::Add, d(150, 5, 2), d(25, 4, 1)), Ok(Value::Decimal(400)));
    assert_eq!(one(Op::Subtract, (Value::Int(1), SqlType::Int), d(5, 3, 2)), Ok(Value::Decimal(95)));
    assert_eq!(one(Op::Divide, d(1, 5, 2), d(0, 5, 2)), Err(8134));
    // "Precision, scale, and length": 0.0000009 times 1 at scale 6 is 0.000001.
    assert_eq!(one(Op::Multiply, d(9_000, 30, 10), d(10_000_000_000, 30, 10)), Ok(Value::Decimal(1)));
    let most = 10_i128.pow(38) - 1;
    assert_eq!(one(Op::Add, d(most, 38, 0), d(1, 38, 0)), Err(8115));
    assert_eq!(one(Op::Modulo, d(75, 3, 1), d(2, 1, 0)), Ok(Value::Decimal(15)));
}

#[test]
fn money_keeps_four_digits() {
    let money = |v| (Value::Int(v), SqlType::Money);
    assert_eq!(one(Op::Divide, money(20_000), money(30_000)), Ok(Value::Int(6_666)));
    assert_eq!(one(Op::Multiply, money(15_000), money(15_000)), Ok(Value::Int(22_500)));
    assert_eq!(one(Op::Add, money(i64::MAX), money(1)), Err(8115));
}

#[test]
fn datetimes_move_by_days() {
    let moment = (Value::Int(0), SqlType::DateTime);
    assert_eq!(one(Op::Add, moment.clone(), (Value::Int(2), SqlType::Int)), Ok(Value::Int(2 * 864_000_000_000)));
    assert_eq!(
        one(Op::Subtract, moment.clone(), (Value::Float(0.5), SqlType::Float)),
        Ok(Value::Int(-432_000_000_000))
    );
    assert_eq!(one(Op::Add, moment, (Value::Int(3_000_000), SqlType::Int)), Err(8115));
}

#[test]
fn a_hash_is_taken_modulo_an_int_by_its_last_bytes() {
    let bytes = (Value::Binary(vec![1, 2, 0, 0, 0, 10]), SqlType::VarBinary(hobt_types::MaxLength::Limited(8000)));
    assert_eq!(one(Op::Modulo, bytes, (Value::Int(4), SqlType::Int)), Ok(Value::Int(2)));
}

#[test]
fn minus_and_not() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    assert_eq!(
        negate(&array, SqlType::BigInt).unwrap().as_ref(),
        &Int64Array::from(vec![Some(-5), None]) as &dyn Array
    );
    let smallest: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
    assert_eq!(negate(&smallest, SqlType::BigInt).unwrap_err().number, 8115);
    assert_eq!(
        bit_not(&array, SqlType::BigInt).unwrap().as_ref(),
        &Int64Array::from(vec![Some(-6), None]) as &dyn Array
    );
    let price: ArrayRef = Arc::new(Decimal128Array::from(vec![5]).with_precision_and_scale(5, 2).unwrap());
    assert_eq!(array_value(&negate(&price, dec(5, 2)).unwrap(), 0, dec(5, 2)).unwrap(), Value::Decimal(-5));
}

#[test]
fn text_is_joined_and_cut_to_its_type() {
    let char3 = Column::Scalar(Arc::new(StringViewArray::from(vec!["ab "])));
    let rows = Column::Array(Arc::new(StringViewArray::from(vec![Some("x"), None])));
    let result = binary_result(Op::Add, SqlType::Char(3), SqlType::Char(1)).unwrap();
    let joined = binary(Op::Add, (&char3, SqlType::Char(3)), (&rows, SqlType::Char(1)), result, 2).unwrap();
    assert_eq!(joined.as_ref(), &StringViewArray::from(vec![Some("ab x"), None]) as &dyn Array);
}
