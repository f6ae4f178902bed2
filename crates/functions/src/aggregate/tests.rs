//! Tests of aggregates: results, overflow, and that grouped, ungrouped and merged aggregation agree.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringViewArray};
use hobt_types::Value;

use super::*;
use crate::carrier::array_value;

const CI: Collation = Collation::Latin1GeneralCiAs;

/// The result over all rows in one group, checked to be equal when grouped and when merged from halves.
fn over(kind: AggregateKind, input: SqlType, values: ArrayRef) -> Result<Value, i32> {
    let aggregate = Aggregate::new(kind, input, CI).map_err(|error| error.number)?;
    let read = |accumulator: &mut Box<dyn GroupsAccumulator>| {
        let array = accumulator.evaluate(Emit::All).map_err(|error| error.number)?;
        Ok(array_value(&array, 0, aggregate.result).unwrap())
    };
    let mut all = aggregate.accumulator().unwrap();
    all.update_all(&[Arc::clone(&values)]).map_err(|error| error.number)?;
    let expected = read(&mut all);
    let mut grouped = aggregate.accumulator().unwrap();
    grouped.update_batch(&[Arc::clone(&values)], &vec![0; values.len()], None, 1).unwrap();
    assert_eq!(read(&mut grouped), expected);
    let mut merged = aggregate.accumulator().unwrap();
    let middle = values.len() / 2;
    for part in [values.slice(0, middle), values.slice(middle, values.len() - middle)] {
        let mut partial = aggregate.accumulator().unwrap();
        partial.update_all(&[part]).unwrap();
        let state = partial.state(Emit::All).unwrap();
        let types: Vec<DataType> = state.iter().map(|array| array.data_type().clone()).collect();
        assert_eq!(types, aggregate.state_types());
        merged.merge_batch(&state, &[0], None, 1).unwrap();
    }
    assert_eq!(read(&mut merged), expected);
    expected
}

fn ints(values: Vec<Option<i32>>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

#[test]
fn sums_and_averages_have_t_sql_types() {
    use AggregateKind::{Avg, Count, Sum};
    let values = ints(vec![Some(1), None, Some(2), Some(4)]);
    assert_eq!(over(Sum, SqlType::Int, Arc::clone(&values)), Ok(Value::Int(7)));
    assert_eq!(over(Avg, SqlType::Int, Arc::clone(&values)), Ok(Value::Int(2)));
    assert_eq!(over(Count, SqlType::Int, values), Ok(Value::Int(3)));
    assert_eq!(over(Sum, SqlType::Int, ints(vec![Some(i32::MAX), Some(1)])), Err(8115));
    assert_eq!(over(Sum, SqlType::Int, ints(vec![None, None])), Ok(Value::Null));
    let big: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, -5, i64::MIN, 4]));
    assert_eq!(over(Sum, SqlType::BigInt, big), Ok(Value::Int(-2)));
    let prices: ArrayRef = Arc::new(Decimal128Array::from(vec![100, 101]).with_precision_and_scale(15, 2).unwrap());
    let price = SqlType::Decimal { precision: 15, scale: 2 };
    assert_eq!(over(Sum, price, Arc::clone(&prices)), Ok(Value::Decimal(201)));
    assert_eq!(over(Avg, price, prices), Ok(Value::Decimal(1_005_000)));
    assert_eq!(over(Avg, SqlType::VarChar(MaxLength::Max), ints(vec![])), Err(8117));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 1.5]));
    assert_eq!(over(Avg, SqlType::Float, floats), Ok(Value::Float(1.0)));
}

#[test]
fn extremes_of_text_follow_the_collation() {
    use AggregateKind::{Max, Min};
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("beta"),
        None,
        Some("Gamma"),
        Some("gammb"),
        Some("alpha"),
        Some("été"),
        Some("Alpha is a longer text"),
    ]));
    let text = SqlType::VarChar(MaxLength::Limited(30));
    assert_eq!(over(Max, text, Arc::clone(&texts)), Ok(Value::Text("gammb".into())));
    assert_eq!(over(Min, text, texts), Ok(Value::Text("alpha".into())));
    assert_eq!(over(Max, SqlType::Int, ints(vec![Some(-3), None, Some(-9)])), Ok(Value::Int(-3)));
    assert_eq!(over(Max, SqlType::Bit, ints(vec![])), Err(8117));
}

#[test]
fn extremes_of_numbers_are_the_same_with_and_without_nulls() {
    use AggregateKind::{Max, Min};
    for length in 1..70i64 {
        let values: Vec<i64> = (0..length).map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed())).collect();
        let (least, most) = (values.iter().min().copied(), values.iter().max().copied());
        let plain: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let with_null: ArrayRef = Arc::new(values.iter().copied().map(Some).chain([None]).collect::<Int64Array>());
        for array in [plain, with_null] {
            assert_eq!(over(Max, SqlType::BigInt, Arc::clone(&array)), Ok(Value::Int(most.expect("some values"))));
            assert_eq!(over(Min, SqlType::BigInt, array), Ok(Value::Int(least.expect("some values"))));
        }
    }
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![-0.5, f64::MAX, f64::MIN, 0.0]));
    assert_eq!(over(Max, SqlType::Float, Arc::clone(&floats)), Ok(Value::Float(f64::MAX)));
    assert_eq!(over(Min, SqlType::Float, floats), Ok(Value::Float(f64::MIN)));
}

#[test]
fn deviations_match_their_definition() {
    use AggregateKind::{StdevP, Var, VarP};
    let values = ints((1..=5).map(Some).collect());
    let near = |kind, expected: f64| {
        let mut accumulator = Aggregate::new(kind, SqlType::Int, CI).unwrap().accumulator().unwrap();
        accumulator.update_all(&[Arc::clone(&values)]).unwrap();
        let array = accumulator.evaluate(Emit::All).unwrap();
        let Value::Float(value) = array_value(&array, 0, SqlType::Float).unwrap() else { panic!("a float") };
        assert!((value - expected).abs() < 1e-12, "{value}");
    };
    near(Var, 2.5);
    near(VarP, 2.0);
    near(StdevP, 2f64.sqrt());
    assert_eq!(over(Var, SqlType::Int, ints(vec![Some(1), None])), Ok(Value::Null));
}

#[test]
fn groups_filters_and_partial_emission() {
    let aggregate = Aggregate::new(AggregateKind::Sum, SqlType::Int, CI).unwrap();
    let mut accumulator = aggregate.accumulator().unwrap();
    let filter = BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]);
    let values = ints(vec![Some(1), Some(10), Some(100), Some(1000)]);
    accumulator.update_batch(&[values], &[0, 0, 1, 2], Some(&filter), 3).unwrap();
    let first = accumulator.evaluate(Emit::First(2)).unwrap();
    assert_eq!(first.as_ref(), &Int32Array::from(vec![Some(1), None]) as &dyn Array);
    let rest = accumulator.evaluate(Emit::All).unwrap();
    assert_eq!(rest.as_ref(), &Int32Array::from(vec![Some(1000)]) as &dyn Array);
}

#[test]
fn texts_are_strung_together() {
    let aggregate = Aggregate::new(AggregateKind::StringAgg, SqlType::Char(2), CI).unwrap();
    let mut accumulator = aggregate.accumulator().unwrap();
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("b")]));
    let separators: ArrayRef = Arc::new(StringViewArray::from(vec![", "; 3]));
    accumulator.update_all(&[texts, separators]).unwrap();
    let array = accumulator.evaluate(Emit::All).unwrap();
    assert_eq!(array.as_ref(), &StringViewArray::from(vec!["a, b"]) as &dyn Array);
}

#[test]
fn memory_is_what_the_groups_hold_and_no_more() {
    use arrow::array::{BinaryViewArray, FixedSizeBinaryArray};
    const ROWS: u128 = 10_000;
    let binary = SqlType::VarBinary(MaxLength::Limited(100));
    let text = SqlType::VarChar(MaxLength::Limited(100));
    let bytes = |row: u128| row.to_be_bytes();
    let guids = FixedSizeBinaryArray::try_from_iter((0..ROWS).map(bytes)).unwrap();
    let binaries: BinaryViewArray = (0..ROWS).map(|row| Some(bytes(row))).collect();
    let texts: StringViewArray = (0..ROWS).map(|row| Some(format!("{row:032}"))).collect();
    let ascending: [(SqlType, ArrayRef); 3] =
        [(SqlType::UniqueIdentifier, Arc::new(guids)), (binary, Arc::new(binaries)), (text, Arc::new(texts))];
    for (input, values) in ascending {
        let aggregate = Aggregate::new(AggregateKind::Max, input, CI).unwrap();
        let mut one = aggregate.accumulator().unwrap();
        one.update_all(&[Arc::clone(&values)]).unwrap();
        assert!(one.size() < 500, "one value of {input} takes {} bytes", one.size());
        let groups: Vec<usize> = (0..values.len()).map(|row| row % 100).collect();
        let mut many = aggregate.accumulator().unwrap();
        many.update_batch(&[values], &groups, None, 100).unwrap();
        let all = many.size();
        assert!((100 * 40..100 * 200).contains(&all), "100 values of {input} take {all} bytes");
        many.evaluate(Emit::First(90)).unwrap();
        assert!(many.size() < all / 2, "10 values of {input} take {} bytes", many.size());
        many.state(Emit::All).unwrap();
        assert_eq!(many.size(), 0);
    }
    let aggregate = Aggregate::new(AggregateKind::StringAgg, SqlType::VarChar(MaxLength::Max), CI).unwrap();
    let mut joined = aggregate.accumulator().unwrap();
    let words: ArrayRef = Arc::new(StringViewArray::from(vec!["a long word or two, to fill a group"; 1000]));
    let commas: ArrayRef = Arc::new(StringViewArray::from(vec![","; 1000]));
    for _ in 0..20 {
        let groups: Vec<usize> = (0..1000).collect();
        joined.update_batch(&[Arc::clone(&words), Arc::clone(&commas)], &groups, None, 1000).unwrap();
        joined.evaluate(Emit::First(1000)).unwrap();
        assert!(joined.size() < 1000, "no group takes {} bytes", joined.size());
    }
}
