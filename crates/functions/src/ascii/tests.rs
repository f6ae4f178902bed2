//! The functions on ASCII batches return what the functions for any text return.
//!
//! One text that is not ASCII, behind all others, makes a batch go the general way. So each call is evaluated without
//! that row and with it, and the results of the other rows are compared.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use hobt_base::SplitMix64;
use hobt_types::{Collation, MaxLength, SqlType, Value};

use super::{AsciiTexts, BATCH_BYTES_MAX, lower_block, upper_block};
use crate::{Argument, Call, Column, FunctionContext, arithmetic, like, lookup, value_to_array};

const ROWS: usize = 100;
const COLLATIONS: [Collation; 3] =
    [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2];

fn varchar(length: u16) -> SqlType {
    SqlType::VarChar(MaxLength::Limited(length))
}

fn text(random: &mut SplitMix64) -> Option<String> {
    let length = match random.next_u64() % 16 {
        0 => return None,
        1 => 12,
        2 => 13,
        3 => 100,
        kind => random.next_u64() as usize % [0, 5, 12, 14, 40][kind as usize % 5].max(1),
    };
    let bytes = b"aAbBitITzZ@[`{09 -";
    let mut text: String = (0..length).map(|_| char::from(bytes[random.next_u64() as usize % bytes.len()])).collect();
    if random.next_u64().is_multiple_of(4) {
        text.push_str(&"   "[..random.next_u64() as usize % 4]);
    }
    Some(text)
}

/// Texts in two forms: with a last row that is not ASCII, and without.
struct Texts {
    general: ArrayRef,
    ascii: ArrayRef,
}

impl Texts {
    fn new(texts: &[Option<String>]) -> Texts {
        let mut builder = StringViewBuilder::new();
        texts.iter().for_each(|text| builder.append_option(text.as_deref()));
        let ascii = Arc::new(builder.finish());
        texts.iter().for_each(|text| builder.append_option(text.as_deref()));
        builder.append_value("é😀");
        Texts { general: Arc::new(builder.finish()), ascii }
    }

    fn random(random: &mut SplitMix64) -> Texts {
        Texts::new(&(0..ROWS).map(|_| text(random)).collect::<Vec<_>>())
    }

    /// Random texts that are a part of longer arrays, which own more bytes than the texts need.
    fn sparse(random: &mut SplitMix64) -> Texts {
        let around = |texts: &ArrayRef| {
            let long = StringViewArray::from_iter_values((0..1000).map(|row| format!("another long text {row}")));
            let all = arrow::compute::concat(&[&long, texts, &long]).expect("texts");
            all.slice(long.len(), texts.len())
        };
        let texts = Texts::random(random);
        Texts { general: around(&texts.general), ascii: around(&texts.ascii) }
    }
}

/// An operand of a call: texts for each row, or a constant.
enum Operand<'t> {
    Rows(&'t Texts, SqlType),
    Constant(Value, SqlType),
}

fn constant_text(text: &str) -> Operand<'static> {
    Operand::Constant(Value::Text(text.to_string()), varchar(8000))
}

fn constant_int(value: i64) -> Operand<'static> {
    Operand::Constant(Value::Int(value), SqlType::Int)
}

fn null(sql_type: SqlType) -> Operand<'static> {
    Operand::Constant(Value::Null, sql_type)
}

impl Operand<'_> {
    fn argument(&self, is_general: bool) -> Argument {
        match self {
            Operand::Rows(texts, sql_type) => {
                let array = if is_general { &texts.general } else { &texts.ascii };
                Argument { column: Column::Array(Arc::clone(array)), sql_type: *sql_type }
            }
            Operand::Constant(value, sql_type) => {
                let array = value_to_array(value, *sql_type).expect("a constant");
                Argument { column: Column::Scalar(array), sql_type: *sql_type }
            }
        }
    }
}

/// Compares both ways of a call, under all collations.
#[track_caller]
fn compare(name: &str, operands: &[Operand<'_>], result_type: SqlType) {
    let function = lookup(name).expect("a function");
    let context = FunctionContext { now_local: 0, now_utc: 0, random_seed: 1 };
    for collation in COLLATIONS {
        let evaluate = |is_general: bool| {
            let args: Vec<Argument> = operands.iter().map(|operand| operand.argument(is_general)).collect();
            let rows = args.iter().find(|arg| !arg.column.is_scalar()).map_or(1, |arg| arg.column.array().len());
            let call = Call { args: &args, rows, result_type, collation, date_part: None, context: &context };
            (function.evaluate)(&call).map_err(|error| error.number)
        };
        let general = evaluate(true).map(|array| array.slice(0, array.len() - 1));
        assert_eq!(evaluate(false), general, "{name} as {result_type} under {collation}");
    }
}

/// Calls `check` with texts of several forms.
fn with_texts(check: impl Fn(&Texts, &mut SplitMix64)) {
    let mut random = SplitMix64::new(7);
    for _ in 0..3 {
        let texts = Texts::random(&mut random);
        check(&texts, &mut random);
        let texts = Texts::sparse(&mut random);
        check(&texts, &mut random);
    }
    check(&Texts::new(&[]), &mut random);
    check(&Texts::new(&[None, None]), &mut random);
    check(&Texts::new(&[Some("a needle ".repeat(800)), Some("It".repeat(2000)), None]), &mut random);
}

const RESULTS: [SqlType; 7] = [
    SqlType::VarChar(MaxLength::Max),
    SqlType::NVarChar(MaxLength::Limited(4000)),
    SqlType::VarChar(MaxLength::Limited(8000)),
    SqlType::VarChar(MaxLength::Limited(13)),
    SqlType::VarChar(MaxLength::Limited(12)),
    SqlType::NVarChar(MaxLength::Limited(5)),
    SqlType::Char(14),
];

#[test]
fn lengths_and_places_are_those_of_any_text() {
    with_texts(|texts, _| {
        for (sql_type, result) in [
            (SqlType::VarChar(MaxLength::Max), SqlType::BigInt),
            (SqlType::NVarChar(MaxLength::Limited(4000)), SqlType::Int),
            (varchar(8000), SqlType::Int),
        ] {
            let rows = || Operand::Rows(texts, sql_type);
            compare("LEN", &[rows()], result);
            compare("DATALENGTH", &[rows()], result);
            for needle in
                ["", "i", "IT", "it", "a needle", "needle A needle a", " ", "aAbBitITzZ@[`{09 -", "é", "\u{212A}"]
            {
                compare("CHARINDEX", &[constant_text(needle), rows()], result);
                for start in [i64::from(i32::MIN), -1, 0, 1, 2, 11, 12, 13, 40, i64::from(i32::MAX)] {
                    compare("CHARINDEX", &[constant_text(needle), rows(), constant_int(start)], result);
                }
            }
            compare("CHARINDEX", &[constant_text("i"), rows(), null(SqlType::Int)], result);
            compare("CHARINDEX", &[null(varchar(10)), rows()], result);
        }
    });
}

#[test]
fn parts_and_case_are_those_of_any_text() {
    with_texts(|texts, _| {
        let rows = || Operand::Rows(texts, varchar(8000));
        for result in RESULTS {
            for name in ["UPPER", "LOWER", "LTRIM", "RTRIM", "TRIM"] {
                compare(name, &[rows()], result);
            }
            for set in ["", " ", "aA0", "é a", "- zZ"] {
                for name in ["LTRIM", "RTRIM", "TRIM"] {
                    compare(name, &[rows(), constant_text(set)], result);
                }
            }
            compare("TRIM", &[rows(), null(varchar(1))], result);
            // The row that is not ASCII raises an error, too; so there must be another that does.
            let least = if texts.ascii.null_count() < texts.ascii.len() { -1 } else { 0 };
            for length in [least, 0, 1, 4, 11, 12, 13, 14, 1000] {
                compare("LEFT", &[rows(), constant_int(length)], result);
                compare("RIGHT", &[rows(), constant_int(length)], result);
                for start in [i64::from(i32::MIN), -3, 0, 1, 2, 12, 13, 14, i64::from(i32::MAX)] {
                    compare("SUBSTRING", &[rows(), constant_int(start), constant_int(length)], result);
                }
            }
            compare("SUBSTRING", &[rows(), null(SqlType::Int), constant_int(2)], result);
            compare("LEFT", &[rows(), null(SqlType::Int)], result);
            compare("RIGHT", &[rows(), null(SqlType::Int)], result);
        }
    });
}

#[test]
fn what_is_built_is_what_is_built_of_any_text() {
    with_texts(|texts, random| {
        let others = Texts::new(&(0..texts.ascii.len()).map(|_| text(random)).collect::<Vec<_>>());
        let rows = || Operand::Rows(texts, varchar(8000));
        for result in RESULTS {
            for pattern in ["", "i", "IT", "it", "a needle", "A needle a needle", "aa", "é"] {
                for replacement in ["", "-", "it", "them", "a replacement that is longer than a block", "é"] {
                    compare("REPLACE", &[rows(), constant_text(pattern), constant_text(replacement)], result);
                }
            }
            compare("REPLACE", &[rows(), null(varchar(1)), constant_text("")], result);
            compare("REPLACE", &[rows(), constant_text("a"), null(varchar(1))], result);
            compare("CONCAT", &[rows(), constant_text("-")], result);
            compare("CONCAT", &[constant_text(""), rows(), Operand::Rows(&others, varchar(200))], result);
            compare("CONCAT", &[rows(), null(varchar(1)), constant_text("a constant that is long"), rows()], result);
            compare_sums(&[rows(), constant_text("-")], result);
            compare_sums(&[Operand::Rows(&others, varchar(200)), rows()], result);
        }
    });
}

#[track_caller]
fn compare_sums(operands: &[Operand<'_>; 2], result: SqlType) {
    let evaluate = |is_general| {
        let [left, right] = operands.each_ref().map(|operand| operand.argument(is_general));
        let rows = left.column.array().len().max(right.column.array().len());
        let (left, right) = ((&left.column, left.sql_type), (&right.column, right.sql_type));
        arithmetic::binary(crate::BinaryOperator::Add, left, right, result, rows).expect("a sum")
    };
    let general = evaluate(true);
    let ascii = evaluate(false);
    // Without a row, the constant's one row is the longer one.
    assert_eq!(&ascii.slice(0, general.len() - 1), &general.slice(0, general.len() - 1), "as {result}");
}

#[test]
fn patterns_match_as_on_any_text() {
    with_texts(|texts, _| {
        for pattern in [
            "",
            "%",
            "i",
            "it%",
            "%IT",
            "%it%",
            "% ",
            "%a needle%",
            "a needle a needle a%",
            "a b%",
            "A%b",
            "%[a-i]t%",
            "_%",
            "aa%",
            "%needle ",
            "It%",
            "  %",
            "a ",
            "aAbB%",
            "%\u{212A}%",
        ] {
            let pattern = constant_text(pattern).argument(false).column;
            for collation in COLLATIONS {
                let of = |texts: &ArrayRef| {
                    like::like(&Column::Array(Arc::clone(texts)), &pattern, None, collation, texts.len())
                        .expect("a match")
                };
                let (ascii, general) = (of(&texts.ascii), of(&texts.general));
                assert_eq!(ascii, general.slice(0, ascii.len()), "{pattern:?} under {collation}");
            }
        }
    });
}

#[test]
fn a_block_changes_case_as_each_byte_does() {
    for byte in 0..128 {
        let block = u128::from_le_bytes([byte; 16]);
        assert_eq!(lower_block(block), u128::from_le_bytes([byte.to_ascii_lowercase(); 16]));
        assert_eq!(upper_block(block), u128::from_le_bytes([byte.to_ascii_uppercase(); 16]));
    }
}

#[test]
fn other_batches_go_the_general_way() {
    let of =
        |texts: &[&str]| AsciiTexts::of(&Column::Array(Arc::new(StringViewArray::from_iter_values(texts)))).is_some();
    assert!(of(&["a", "a text that is longer than its view"]));
    assert!(!of(&["a", "é"]));
    assert!(!of(&["a", "a text with an é that is longer than its view"]));
    assert!(!of(&[&"a".repeat(BATCH_BYTES_MAX), "a"]));
}

#[test]
fn a_long_batch_can_be_cancelled_and_runs_out_of_memory() {
    use crate::watch::tests::Limited;
    use hobt_base::number;
    use std::sync::atomic::Ordering;

    let rows = (0..8192).map(|row| Some(format!("{row} {}", "a needle ".repeat(30)))).collect::<Vec<_>>();
    let column = Column::Array(Arc::new(rows.iter().map(Option::as_deref).collect::<StringViewArray>()));
    let text = Argument { column, sql_type: varchar(1000) };
    let constant = |value| constant_text(value).argument(false);
    let context = FunctionContext { now_local: 0, now_utc: 0, random_seed: 1 };
    let evaluate = |name: &str, args: &[Argument], result_type| {
        let collation = Collation::default();
        let call = Call { args, rows: rows.len(), result_type, collation, date_part: None, context: &context };
        (lookup(name).expect("a function").evaluate)(&call).expect_err("it must not succeed").number
    };
    let statement = Limited::new(1 << 20);
    let _guard = crate::watch::set_watch(Some(Arc::clone(&statement) as Arc<dyn crate::watch::Watch>));
    let built = [
        ("UPPER", vec![text.clone()]),
        ("TRIM", vec![text.clone()]),
        ("CONCAT", vec![text.clone(), constant("-")]),
        ("REPLACE", vec![text.clone(), constant("needle"), constant("pin")]),
    ];
    for (name, args) in &built {
        assert_eq!(evaluate(name, args, varchar(8000)), number::OUT_OF_MEMORY, "{name}");
        assert_eq!(statement.left.load(Ordering::Relaxed), 1 << 20, "{name} gives back what it took");
    }
    statement.cancelled.store(true, Ordering::Relaxed);
    for (name, args) in &built {
        assert_eq!(evaluate(name, args, varchar(8000)), number::CANCELED, "{name}");
    }
    assert_eq!(evaluate("CHARINDEX", &[constant("pin"), text.clone()], SqlType::Int), number::CANCELED);
    let pattern = constant("%pin%").column;
    let matched = like::like(&text.column, &pattern, None, Collation::default(), rows.len());
    assert_eq!(matched.expect_err("it must not succeed").number, number::CANCELED);
}
