//! What a text function costs for each row of a batch of ASCII texts.
//!
//! `cargo run --release -p hobt-functions --example text_cost -- [ROUNDS [NAME]]`: evaluates each function on batches
//! of 8,192 rows and prints nanoseconds a row, the least of all rounds; with a NAME, of those whose names contain it.
//! `word` is up to twelve bytes long, so that its view holds it; `note` is longer, and NULL in one row of sixteen.
//! Results are not checked here; the crate's tests do.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int32Array, StringViewArray};
use hobt_base::SqlError;
use hobt_functions::aggregate::{Aggregate, AggregateKind};
use hobt_functions::{
    ArgType, Argument, BinaryOperator, Call, Column, FunctionContext, arithmetic, ascii_views, cast_array, like,
    lookup, type_rules, value_to_array,
};
use hobt_types::{Collation, MaxLength, SqlType, Value};

const ROWS: usize = 8192;
const WORD: SqlType = SqlType::VarChar(MaxLength::Limited(30));
const NOTE: SqlType = SqlType::VarChar(MaxLength::Limited(60));
const AMOUNT: SqlType = SqlType::Decimal { precision: 12, scale: 2 };

/// The columns of one batch.
struct Batch {
    word: Argument,
    note: Argument,
    number: ArrayRef,
    amount: ArrayRef,
    digits: ArrayRef,
}

impl Batch {
    fn new(begin: usize) -> Batch {
        let rows = begin..begin + ROWS;
        let mixed = |row: usize| row * 7919 % 1_000_003;
        let note = |row: usize| match row % 16 {
            0 => None,
            odd if odd % 2 == 1 => Some(format!("a note with a needle in it {}", row % 100)),
            _ => Some(format!("a note without it, number {}", row % 1000)),
        };
        let argument = |array: StringViewArray, sql_type| Argument { column: Column::Array(Arc::new(array)), sql_type };
        let cents = rows.clone().map(|row| mixed(row) as i128 * 100 + row as i128 % 100 - 5_000_000);
        let amount: Decimal128Array = cents.map(Some).collect();
        let digits: StringViewArray = rows.clone().map(|row| Some(mixed(row).to_string())).collect();
        Batch {
            word: argument(rows.clone().map(|row| Some(format!("w{}x", mixed(row)))).collect(), WORD),
            note: argument(rows.clone().map(note).collect(), NOTE),
            number: Arc::new(rows.map(|row| mixed(row) as i32 - 500_000).collect::<Int32Array>()),
            amount: Arc::new(amount.with_precision_and_scale(12, 2).expect("it fits")),
            digits: Arc::new(digits),
        }
    }
}

fn text(value: &str) -> Argument {
    let length = u16::try_from(value.len()).unwrap_or(8000).max(1);
    let sql_type = SqlType::VarChar(MaxLength::Limited(length));
    let array = value_to_array(&Value::Text(value.to_string()), sql_type).expect("a text");
    Argument { column: Column::Scalar(array), sql_type }
}

fn int(value: i64) -> Argument {
    let array = value_to_array(&Value::Int(value), SqlType::Int).expect("an int");
    Argument { column: Column::Scalar(array), sql_type: SqlType::Int }
}

fn call(name: &str, args: &[Argument]) -> Result<ArrayRef, SqlError> {
    let function = lookup(name).expect("a function");
    let types: Vec<ArgType> = args.iter().map(|arg| ArgType::new(arg.sql_type)).collect();
    let context = FunctionContext { now_local: 0, now_utc: 0, random_seed: 1 };
    let call = Call {
        args,
        rows: ROWS,
        result_type: (function.result_type)(&types)?,
        collation: Collation::default(),
        date_part: None,
        context: &context,
    };
    (function.evaluate)(&call)
}

/// Runs `work` on each batch, `rounds` times, and prints the least time of a row.
fn measure(name: &str, batches: &[Batch], rounds: usize, mut work: impl FnMut(&Batch) -> Result<(), SqlError>) {
    if std::env::args().nth(2).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    let mut least = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for batch in batches {
            work(black_box(batch)).expect("it evaluates");
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / (batches.len() * ROWS) as f64);
    }
    println!("{name:<44} {least:8.2} ns/row");
}

fn functions(batches: &[Batch], rounds: usize) {
    let one = |name: &str, function: &str, args: &dyn Fn(&Batch) -> Vec<Argument>| {
        measure(name, batches, rounds, |batch| call(function, &args(batch)).map(|array| drop(black_box(array))));
    };
    let (word, note) = (|batch: &Batch| batch.word.clone(), |batch: &Batch| batch.note.clone());
    one("UPPER(word)", "UPPER", &|batch| vec![word(batch)]);
    one("UPPER(note)", "UPPER", &|batch| vec![note(batch)]);
    one("LOWER(note)", "LOWER", &|batch| vec![note(batch)]);
    one("LEN(word)", "LEN", &|batch| vec![word(batch)]);
    one("LEN(note)", "LEN", &|batch| vec![note(batch)]);
    one("DATALENGTH(note)", "DATALENGTH", &|batch| vec![note(batch)]);
    one("SUBSTRING(word, 1, 3)", "SUBSTRING", &|batch| vec![word(batch), int(1), int(3)]);
    one("SUBSTRING(note, 3, 4)", "SUBSTRING", &|batch| vec![note(batch), int(3), int(4)]);
    one("LEFT(note, 20)", "LEFT", &|batch| vec![note(batch), int(20)]);
    one("RIGHT(word, 2)", "RIGHT", &|batch| vec![word(batch), int(2)]);
    one("LTRIM(note)", "LTRIM", &|batch| vec![note(batch)]);
    one("RTRIM(word)", "RTRIM", &|batch| vec![word(batch)]);
    one("TRIM(note)", "TRIM", &|batch| vec![note(batch)]);
    one("REPLACE(note, 'it', 'them')", "REPLACE", &|batch| vec![note(batch), text("it"), text("them")]);
    one("REPLACE(word, 'x', '')", "REPLACE", &|batch| vec![word(batch), text("x"), text("")]);
    one("CONCAT(word, '-')", "CONCAT", &|batch| vec![word(batch), text("-")]);
    one("CONCAT(word, '-', note)", "CONCAT", &|batch| vec![word(batch), text("-"), note(batch)]);
    one("CHARINDEX('needle', note)", "CHARINDEX", &|batch| vec![text("needle"), note(batch)]);
    one("CHARINDEX('x', word)", "CHARINDEX", &|batch| vec![text("x"), word(batch)]);
}

fn operators(batches: &[Batch], rounds: usize) {
    for (name, pattern) in [
        ("note LIKE '%needle%'", "%needle%"),
        ("note LIKE 'a note with %'", "a note with %"),
        ("note LIKE '%in it 7'", "%in it 7"),
        ("note LIKE '%n_edle%'", "%n_edle%"),
    ] {
        let pattern = text(pattern).column;
        measure(name, batches, rounds, |batch| {
            like::like(&batch.note.column, &pattern, None, Collation::default(), ROWS)
                .map(|array| drop(black_box(array)))
        });
    }
    let dash = text("-");
    let sum = type_rules::binary_result(BinaryOperator::Add, WORD, dash.sql_type).expect("a type");
    measure("word + '-'", batches, rounds, |batch| {
        let (left, right) = ((&batch.word.column, WORD), (&dash.column, dash.sql_type));
        arithmetic::binary(BinaryOperator::Add, left, right, sum, ROWS).map(|array| drop(black_box(array)))
    });
    let sum = type_rules::binary_result(BinaryOperator::Add, WORD, NOTE).expect("a type");
    measure("word + note", batches, rounds, |batch| {
        let (left, right) = ((&batch.word.column, WORD), (&batch.note.column, NOTE));
        arithmetic::binary(BinaryOperator::Add, left, right, sum, ROWS).map(|array| drop(black_box(array)))
    });
}

fn casts(batches: &[Batch], rounds: usize) {
    let one = |name: &str, of: fn(&Batch) -> &ArrayRef, from: SqlType, to: SqlType| {
        measure(name, batches, rounds, |batch| {
            cast_array(of(batch), from, to, None, false).map(|array| drop(black_box(array)))
        });
    };
    let varchar = |length| SqlType::VarChar(MaxLength::Limited(length));
    one("CAST(int AS varchar(12))", |batch| &batch.number, SqlType::Int, varchar(12));
    one("CAST(decimal(12,2) AS varchar(20))", |batch| &batch.amount, AMOUNT, varchar(20));
    one("CAST(digits AS int)", |batch| &batch.digits, varchar(12), SqlType::Int);
    one("CAST(digits AS bigint)", |batch| &batch.digits, varchar(12), SqlType::BigInt);
    one("CAST(note AS varchar(20))", |batch| batch.note.column.array(), NOTE, varchar(20));
}

fn extremes(batches: &[Batch], rounds: usize) {
    let by_row: Vec<usize> = (0..ROWS).map(|row| row % 1000).collect();
    for (name, of, sql_type, kind) in [
        ("MAX(word)", (|batch| &batch.word) as fn(&Batch) -> &Argument, WORD, AggregateKind::Max),
        ("MIN(note)", |batch| &batch.note, NOTE, AggregateKind::Min),
    ] {
        let aggregate = Aggregate::new(kind, sql_type, Collation::default()).expect("an aggregate");
        let mut whole = aggregate.accumulator().expect("an accumulator");
        measure(name, batches, rounds, |batch| whole.update_all(std::slice::from_ref(of(batch).column.array())));
        let mut grouped = aggregate.accumulator().expect("an accumulator");
        measure(&format!("{name} by 1,000 groups"), batches, rounds, |batch| {
            grouped.update_batch(std::slice::from_ref(of(batch).column.array()), &by_row, None, 1000)
        });
    }
    let aggregate = Aggregate::new(AggregateKind::Min, WORD, Collation::default()).expect("an aggregate");
    let mut grouped = aggregate.accumulator().expect("an accumulator");
    let same: ArrayRef = Arc::new((0..ROWS).map(|row| Some(format!("w{}", row % 1000))).collect::<StringViewArray>());
    measure("MIN(word) of one value in each group", batches, rounds, |_| {
        grouped.update_batch(std::slice::from_ref(&same), &by_row, None, 1000)
    });
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(20, |rounds| rounds.parse().expect("a number of rounds"));
    let batches: Vec<Batch> = (0..16).map(|batch| Batch::new(batch * ROWS)).collect();
    functions(&batches, rounds);
    operators(&batches, rounds);
    casts(&batches, rounds);
    extremes(&batches, rounds);
    measure("ascii_views of note's parts", &batches, rounds, |batch| {
        let array: &StringViewArray = batch.note.column.array().as_string_view();
        let buffers = array.data_buffers().to_vec();
        ascii_views(array.views().clone(), buffers, array.nulls().cloned()).map(|array| drop(black_box(array)))
    });
    measure("try_new of note's parts", &batches, rounds, |batch| {
        let array: &StringViewArray = batch.note.column.array().as_string_view();
        let buffers = array.data_buffers().to_vec();
        let array = StringViewArray::try_new(array.views().clone(), buffers, array.nulls().cloned());
        array.map(|array| drop(black_box(array))).map_err(|error| SqlError::internal(error.to_string()))
    });
}
