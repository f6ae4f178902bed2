//! What is written reads back as the same values: by T-SQL's own conversions, by a JSON parser, by Parquet's reader.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::basic::LogicalType;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Int64Type, Schema, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::record_batch::RecordBatch;
use hobt_functions::carrier::{carrier, guid_to_sort_order};
use hobt_functions::{array_value, batch_of_values, convert_value};
use hobt_types::{MaxLength, SqlType, Value};

use super::*;
use crate::{FileKind, FileName};

const TEXT: SqlType = SqlType::NVarChar(MaxLength::Max);
/// 100 ns in a day.
const DAY: i64 = 864_000_000_000;
/// 0001-01-01 and 9999-12-31 in days.
const FIRST: i64 = -719_162;
const LAST: i64 = 2_932_896;

fn texts() -> Vec<Value> {
    let long = "long, and more than sixteen bytes";
    let mut texts = vec![
        "",
        " ",
        "a",
        ",",
        "\"",
        "\"\"",
        "a\"b",
        "\n",
        "\r\n",
        "twelve bytes",
        "thirteen byte",
        "fifteen bytes !",
        "sixteen bytes !!",
        "sixteen bytes !,",
        "\0",
        "a\0b",
        "\u{1}\u{1f}\t",
        "Łódź, 東京 🚆",
        "\\",
        "back\\slash",
        "NULL",
    ];
    texts.push(long);
    let mut texts: Vec<Value> = texts.into_iter().map(|text| Value::Text(text.to_owned())).collect();
    // A special character at each place of texts of each length.
    for length in 1..40 {
        for place in 0..length {
            for special in [",", "\"", "\n", "\\", "\0"] {
                let text = format!("{}{special}{}", "x".repeat(place), "y".repeat(length - place - 1));
                texts.push(Value::Text(text));
            }
        }
    }
    texts
}

/// Columns of every type, with the limits of each.
fn cases() -> Vec<(SqlType, Vec<Value>)> {
    let ints = |values: &[i64]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
    let decimals = |digits: u32| {
        let limit = 10_i128.pow(digits) - 1;
        [0, 1, -1, 7, limit, -limit, limit / 3].map(Value::Decimal).to_vec()
    };
    let decimal = |precision, scale| (SqlType::Decimal { precision, scale }, decimals(precision.into()));
    let (first, last) = (FIRST * DAY, (LAST + 1) * DAY - 1);
    let moment = |scale: u8| {
        let unit = 10_i64.pow(7 - u32::from(scale));
        let down = |ticks: i64| ticks.div_euclid(unit) * unit;
        let moments = [first, down(last), 0, down(-1), down(15_000_000_123_456_789)].to_vec();
        (SqlType::DateTime2 { scale }, ints(&moments))
    };
    let time = |scale: u8| {
        let unit = 10_i64.pow(7 - u32::from(scale));
        (SqlType::Time { scale }, ints(&[0, (DAY - 1) / unit * unit, 450_123_456_789 / unit * unit]))
    };
    let floats = [0.0, 1.0, -2.5, 0.1, 1e-300, f64::MAX, f64::MIN_POSITIVE, 1.0 / 3.0].map(Value::Float).to_vec();
    let reals = [0.0, 0.1, f32::MAX, -f32::MIN_POSITIVE, 16_777_216.0].map(|real| Value::Float(real.into())).to_vec();
    vec![
        (SqlType::Bit, ints(&[0, 1])),
        (SqlType::TinyInt, ints(&[0, 9, 10, 255])),
        (SqlType::SmallInt, ints(&[i16::MIN.into(), 0, i16::MAX.into()])),
        (SqlType::Int, ints(&[i32::MIN.into(), -1, 0, 99_999_999, 100_000_000, i32::MAX.into()])),
        (SqlType::BigInt, ints(&[i64::MIN, 0, 9_999_999_999_999_999, i64::MAX])),
        decimal(1, 0),
        decimal(9, 9),
        decimal(15, 2),
        decimal(18, 18),
        decimal(38, 0),
        decimal(38, 10),
        decimal(38, 38),
        (SqlType::Money, ints(&[i64::MIN, -1, 0, 10_000, i64::MAX])),
        (SqlType::SmallMoney, ints(&[i32::MIN.into(), 0, i32::MAX.into()])),
        (SqlType::Float, floats),
        (SqlType::Real, reals),
        (SqlType::Date, ints(&[FIRST, -1, 0, 59, LAST])),
        time(0),
        time(3),
        time(7),
        (SqlType::SmallDateTime, ints(&[-25_567 * DAY, 0, 600_000_000])),
        (SqlType::DateTime, ints(&[-79_257 * DAY, 0, 30_000, 9_970_000])),
        moment(0),
        moment(6),
        (SqlType::DateTime2 { scale: 7 }, ints(&[-DAY, 0, 15_000_000_123_456_789, i64::MAX / 100, i64::MIN / 100])),
        (SqlType::Char(3), vec![Value::Text("a  ".to_owned()), Value::Text("abc".to_owned())]),
        (TEXT, texts()),
        (SqlType::VarBinary(MaxLength::Max), [vec![], vec![0, 255], vec![7; 300]].map(Value::Binary).to_vec()),
        (SqlType::UniqueIdentifier, vec![Value::Guid(std::array::from_fn(|place| place as u8 * 16 + 7))]),
    ]
}

fn columns_of(cases: &[(SqlType, Vec<Value>)]) -> Vec<Column> {
    let column = |(index, (sql_type, _)): (usize, &(SqlType, _))| Column {
        name: format!("column \"{index}\""),
        sql_type: *sql_type,
        nullable: true,
    };
    cases.iter().enumerate().map(column).collect()
}

/// Rows with all values of all columns, and NULL where a column has no more.
fn rows_of(cases: &[(SqlType, Vec<Value>)]) -> Vec<Vec<Value>> {
    let count = cases.iter().map(|(_, values)| values.len()).max().unwrap_or(0) + 1;
    let cell = |values: &Vec<Value>, row: usize| values.get(row).cloned().unwrap_or(Value::Null);
    (0..count).map(|row| cases.iter().map(|(_, values)| cell(values, row)).collect()).collect()
}

fn batch(columns: &[Column], rows: &[Vec<Value>]) -> RecordBatch {
    let field = |column: &Column| Field::new(&column.name, carrier(column.sql_type), true);
    let types: Vec<SqlType> = columns.iter().map(|column| column.sql_type).collect();
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    batch_of_values(Arc::new(schema), &types, rows).expect("values of their types")
}

fn write(path: &Path, columns: &[Column], batches: Vec<RecordBatch>, options: &WriteOptions) -> Result<Written> {
    let mut writer = FileWriter::create(path, columns.to_vec(), options)?;
    batches.into_iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?.publish()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn names_in(folder: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name().into_string().expect("UTF-8");
    fs::read_dir(folder).expect("a folder").map(name).collect()
}

/// CSV as RFC 4180 has it, with the values of a delimiter and a row end of one character; `None` is an empty value
/// without quotes.
fn read_csv(text: &str, delimiter: char, row_end: char) -> Vec<Vec<Option<String>>> {
    let (mut rows, mut row, mut characters) = (Vec::new(), Vec::new(), text.chars().peekable());
    while characters.peek().is_some() {
        let mut cell = None;
        if characters.next_if_eq(&'"').is_some() {
            let mut text = String::new();
            while let Some(character) = characters.next() {
                if character == '"' && characters.next_if_eq(&'"').is_none() {
                    break;
                }
                text.push(character);
            }
            cell = Some(text);
        }
        loop {
            match characters.next().expect("a row ends") {
                end if end == row_end => {
                    row.push(cell);
                    rows.push(std::mem::take(&mut row));
                    break;
                }
                end if end == delimiter => {
                    row.push(cell);
                    break;
                }
                character => cell.get_or_insert_default().push(character),
            }
        }
    }
    rows
}

/// The value of a text by T-SQL's conversion.
fn value_of(text: Option<&str>, sql_type: SqlType) -> Value {
    let Some(text) = text else { return Value::Null };
    if sql_type.is_binary() {
        let digits = text.strip_prefix("0x").expect("a binary value").as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("digits");
        return Value::Binary(digits.chunks(2).map(byte).collect());
    }
    convert_value(&Value::Text(text.to_owned()), TEXT, sql_type).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn assert_csv(text: &str, columns: &[Column], rows: &[Vec<Value>], separators: (char, char)) {
    let mut read = read_csv(text, separators.0, separators.1).into_iter();
    let names: Vec<Option<String>> = columns.iter().map(|column| Some(column.name.clone())).collect();
    assert_eq!(read.next().expect("a header"), names);
    let typed = |row: Vec<Option<String>>| -> Vec<Value> {
        row.iter().zip(columns).map(|(cell, column)| value_of(cell.as_deref(), column.sql_type)).collect()
    };
    let read: Vec<Vec<Value>> = read.map(typed).collect();
    assert_eq!(read.len(), rows.len());
    for (read, row) in read.iter().zip(rows) {
        assert_eq!(read, row);
    }
}

#[test]
fn csv_reads_back_whatever_the_separators() {
    let (folder, cases) = (folder(), cases());
    let (columns, rows) = (columns_of(&cases), rows_of(&cases));
    for (delimiter, row_end) in [(',', '\n'), ('\t', '\n'), ('|', '\n'), (';', '~'), ('\u{1}', '\0')] {
        let csv = CsvOptions { delimiter: delimiter.into(), row_end: row_end.into(), ..CsvOptions::default() };
        let path = folder.path().join(format!("{}.csv", delimiter as u32));
        let options = WriteOptions::new(Format::Csv(csv));
        let written = write(&path, &columns, vec![batch(&columns, &rows)], &options).expect("a file");
        let text = fs::read_to_string(&path).expect("UTF-8");
        assert_eq!(written, Written { rows: rows.len() as u64, bytes: text.len() as u64 });
        assert_csv(&text, &columns, &rows, (delimiter, row_end));
    }
}

#[test]
fn csv_has_the_forms_of_iso_8601_and_rfc_4180() {
    let column = |name: &str, sql_type| Column { name: name.to_owned(), sql_type, nullable: true };
    let columns = [
        column("a", SqlType::DateTime2 { scale: 7 }),
        column("b,c", SqlType::Decimal { precision: 5, scale: 2 }),
        column("", SqlType::VarChar(MaxLength::Max)),
        column("guid", SqlType::UniqueIdentifier),
    ];
    // The guid of Microsoft's page, as it is stored.
    let stored = [0xFF, 0x19, 0x96, 0x6F, 0x86, 0x8B, 0x11, 0xD0, 0xB4, 0x2D, 0, 0xC0, 0x4F, 0xC9, 0x64, 0xFF];
    let guid = Value::Guid(guid_to_sort_order(stored));
    let rows = [
        vec![Value::Int(1), Value::Decimal(-5), Value::Text("say \"x\"".to_owned()), guid],
        vec![Value::Null, Value::Null, Value::Text(String::new()), Value::Null],
    ];
    let mut text = RowText::new(columns.to_vec(), &Format::Csv(CsvOptions::default())).expect("options");
    assert_eq!(text.begin(), b"a,\"b,c\",,guid\n");
    let wanted = "1970-01-01 00:00:00.0000001,-0.05,\"say \"\"x\"\"\",6F9619FF-8B86-D011-B42D-00C04FC964FF\n,,\"\",\n";
    assert_eq!(String::from_utf8_lossy(text.rows(&batch(&columns, &rows)).expect("rows")), wanted);
    assert_eq!(text.end(), b"");
}

#[test]
fn json_lines_and_arrays_read_back() {
    let (folder, cases) = (folder(), cases());
    let (columns, rows) = (columns_of(&cases), rows_of(&cases));
    for (shape, name) in [(JsonShape::Lines, "a.jsonl"), (JsonShape::Array, "a.json")] {
        let path = folder.path().join(name);
        let options = WriteOptions::new(Format::Json(shape));
        // More than one batch, so that what stands between rows is not only that of one.
        let halves = rows.split_at(rows.len() / 2);
        let batches = vec![batch(&columns, halves.0), batch(&columns, halves.1)];
        write(&path, &columns, batches, &options).expect("a file");
        let text = fs::read_to_string(&path).expect("UTF-8");
        let objects: Vec<serde_json::Value> = match shape {
            JsonShape::Lines => text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(),
            JsonShape::Array => serde_json::from_str(&text).expect("JSON"),
        };
        assert_eq!(objects.len(), rows.len());
        for (object, row) in objects.iter().zip(&rows) {
            assert_eq!(object.as_object().expect("an object").len(), columns.len());
            for (column, value) in columns.iter().zip(row) {
                let read = match &object[&column.name] {
                    serde_json::Value::Null => Value::Null,
                    serde_json::Value::Bool(bit) => Value::Int((*bit).into()),
                    serde_json::Value::String(text) => value_of(Some(text), column.sql_type),
                    // The parser rounds to 64 bits. The digits are compared below.
                    serde_json::Value::Number(_) if column.sql_type.is_numeric() => value.clone(),
                    other => panic!("{other} for {}", column.sql_type),
                };
                assert_eq!(&read, value);
            }
        }
        for digits in ["99999999999999999999999999999999999999", "-9223372036854775808", "-922337203685477.5808"] {
            assert!(text.contains(&format!(":{digits},")), "{digits} in {name}");
        }
    }
}

/// A column of a file as its carrier.
fn as_carrier(array: &ArrayRef, sql_type: SqlType) -> ArrayRef {
    match array.data_type() {
        DataType::Boolean | DataType::Utf8 | DataType::Binary => cast(array, &carrier(sql_type)).expect("a cast"),
        DataType::Time64(TimeUnit::Microsecond) => {
            Arc::new(array.as_primitive::<Time64MicrosecondType>().unary::<_, Int64Type>(|value| value * 10))
        }
        DataType::Time64(_) => {
            Arc::new(array.as_primitive::<Time64NanosecondType>().unary::<_, Int64Type>(|value| value / 100))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Arc::new(array.as_primitive::<TimestampMicrosecondType>().unary::<_, Int64Type>(|value| value * 10))
        }
        DataType::Timestamp(..) => {
            Arc::new(array.as_primitive::<TimestampNanosecondType>().unary::<_, Int64Type>(|value| value / 100))
        }
        DataType::FixedSizeBinary(16) => {
            let mut guids = FixedSizeBinaryBuilder::new(16);
            for guid in array.as_fixed_size_binary().iter() {
                match guid {
                    None => guids.append_null(),
                    Some(bytes) => {
                        let mut stored: [u8; 16] = bytes.try_into().expect("16 bytes");
                        stored[..4].reverse();
                        stored[4..6].reverse();
                        stored[6..8].reverse();
                        guids.append_value(guid_to_sort_order(stored)).expect("16 bytes");
                    }
                }
            }
            Arc::new(guids.finish())
        }
        _ => Arc::clone(array),
    }
}

#[test]
fn parquet_reads_back_with_its_types() {
    let (folder, cases) = (folder(), cases());
    let (columns, rows) = (columns_of(&cases), rows_of(&cases));
    let path = folder.path().join("a.parquet");
    let options = WriteOptions::new(Format::Parquet(Timestamps::Exact));
    write(&path, &columns, vec![batch(&columns, &rows)], &options).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).expect("a file")).expect("Parquet");
    let guid = columns.iter().position(|column| column.sql_type == SqlType::UniqueIdentifier).expect("a guid");
    assert_eq!(reader.parquet_schema().column(guid).logical_type_ref(), Some(&LogicalType::Uuid));
    for (column, field) in columns.iter().zip(reader.schema().fields()) {
        assert_eq!(field.name(), &column.name);
        assert_eq!(field.metadata().get(SQL_TYPE_KEY), Some(&column.sql_type.to_string()));
    }
    let mut read = Vec::new();
    for batch in reader.build().expect("a reader") {
        let batch = batch.expect("rows");
        let pairs = columns.iter().zip(batch.columns());
        let arrays: Vec<ArrayRef> = pairs.map(|(column, array)| as_carrier(array, column.sql_type)).collect();
        for row in 0..batch.num_rows() {
            let pairs = columns.iter().zip(&arrays);
            let values = pairs.map(|(column, array)| array_value(array, row, column.sql_type).expect("a value"));
            read.push(values.collect::<Vec<_>>());
        }
    }
    assert_eq!(read, rows);
}

#[test]
fn nanoseconds_out_of_reach_are_an_error_and_microseconds_reach_them() {
    let folder = folder();
    let columns = [Column { name: "until".to_owned(), sql_type: SqlType::DateTime2 { scale: 7 }, nullable: false }];
    let rows = batch(&columns, &[vec![Value::Int((LAST + 1) * DAY - 1)]]);
    let path = folder.path().join("a.parquet");
    let options = |timestamps| WriteOptions::new(Format::Parquet(timestamps));
    let error = write(&path, &columns, vec![rows.clone()], &options(Timestamps::Exact)).expect_err("out of reach");
    assert!(error.to_string().contains("until has 9999-12-31 23:59:59.9999999"), "{error}");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
    write(&path, &columns, vec![rows], &options(Timestamps::Microseconds)).expect("a file");
    assert_eq!(names_in(folder.path()), ["a.parquet"]);
}

/// Numbers 0.. in batches of different lengths, some of them empty.
fn numbered() -> (Vec<Column>, Vec<RecordBatch>, Vec<Vec<Value>>) {
    let column = |name: &str, sql_type| Column { name: name.to_owned(), sql_type, nullable: false };
    let columns = vec![column("n", SqlType::Int), column("text", TEXT)];
    let row = |number: i64| vec![Value::Int(number), Value::Text("z".repeat(number as usize % 700))];
    let rows: Vec<Vec<Value>> = (0..30_000).map(row).collect();
    let (mut batches, mut rest, mut length) = (Vec::new(), rows.as_slice(), 0);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(length.min(rest.len()));
        batches.push(batch(&columns, now));
        (rest, length) = (later, (length + 1777) % 9000);
    }
    (columns, batches, rows)
}

#[test]
fn rows_keep_their_order_and_compressed_parts_are_one_file() {
    let folder = folder();
    let (columns, batches, rows) = numbered();
    for (name, compression) in
        [("a.csv", Compression::None), ("a.csv.gz", Compression::Gzip), ("a.csv.zst", Compression::Zstd)]
    {
        let path = folder.path().join(name);
        assert_eq!(FileName::of(&path), FileName { kind: Some(FileKind::Csv), compression, has_ending: true });
        let options = WriteOptions { compression, threads: 4, ..WriteOptions::new(Format::Csv(CsvOptions::default())) };
        let written = write(&path, &columns, batches.clone(), &options).expect("a file");
        assert_eq!(written.bytes, fs::metadata(&path).expect("a file").len());
        let (mut text, file) = (String::new(), File::open(&path).expect("a file"));
        let mut reader: Box<dyn Read> = match compression {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
            Compression::Zstd => Box::new(zstd::Decoder::new(file).expect("zstd")),
        };
        reader.read_to_string(&mut text).expect("UTF-8");
        assert_csv(&text, &columns, &rows, (',', '\n'));
    }
}

#[test]
fn files_without_rows_are_whole() {
    let folder = folder();
    let (columns, ..) = numbered();
    for (name, format, wanted) in [
        ("a.csv", Format::Csv(CsvOptions::default()), Some("n,text\n")),
        ("a.jsonl", Format::Json(JsonShape::Lines), Some("")),
        ("a.json", Format::Json(JsonShape::Array), Some("[\n]\n")),
        ("a.parquet", Format::Parquet(Timestamps::Exact), None),
    ] {
        let path = folder.path().join(name);
        let written = write(&path, &columns, Vec::new(), &WriteOptions::new(format)).expect("a file");
        assert_eq!(written.rows, 0);
        match wanted {
            Some(text) => assert_eq!(fs::read_to_string(&path).expect("text"), text),
            None => {
                let file = File::open(&path).expect("a file");
                let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
                assert_eq!(reader.schema().fields().len(), columns.len());
            }
        }
    }
}

#[test]
fn a_writer_that_fails_or_is_dropped_leaves_nothing_and_what_was_there() {
    let folder = folder();
    let path = folder.path().join("a.csv");
    fs::write(&path, "mine").expect("a file");
    let (columns, batches, _) = numbered();
    let mut options = WriteOptions::new(Format::Csv(CsvOptions::default()));
    let error = write(&path, &columns, batches.clone(), &options).expect_err("it is there");
    assert!(matches!(error, WriteError::Exists(_)), "{error}");
    options.replaces = true;
    let mut writer = FileWriter::create(&path, columns.clone(), &options).expect("a writer");
    writer.write(batches[1].clone()).expect("room");
    drop(writer);
    let mut writer = FileWriter::create(&path, columns.clone(), &options).expect("a writer");
    writer.write(batches[1].clone()).expect("room");
    drop(writer.finish().expect("a file"));
    let others = [Column { name: "n".to_owned(), ..columns[1].clone() }, columns[0].clone()];
    let error = write(&path, &others, batches.clone(), &options).expect_err("other types");
    assert!(matches!(error, WriteError::Internal(_)), "{error}");
    assert_eq!(
        (names_in(folder.path()), fs::read_to_string(&path).expect("text")),
        (vec!["a.csv".to_owned()], "mine".to_owned())
    );
    write(&path, &columns, batches, &options).expect("it is replaced");
    assert!(fs::read_to_string(&path).expect("text").starts_with("n,text\n0,"));
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let folder = folder();
    let (columns, ..) = numbered();
    let refused = |path: &Path, columns: &[Column], format: Format| -> String {
        FileWriter::create(path, columns.to_vec(), &WriteOptions::new(format)).expect_err("refused").to_string()
    };
    let csv = |change: fn(&mut CsvOptions)| {
        let mut options = CsvOptions::default();
        change(&mut options);
        Format::Csv(options)
    };
    let path = folder.path().join("a.csv");
    for format in [
        csv(|csv| csv.delimiter = String::new()),
        csv(|csv| csv.delimiter = "5".to_owned()),
        csv(|csv| csv.delimiter = "\"".to_owned()),
        csv(|csv| csv.delimiter = "\n".to_owned()),
        csv(|csv| csv.delimiter = "-".repeat(17)),
        csv(|csv| csv.quote = b'0'),
        csv(|csv| csv.row_end = ",\n".to_owned()),
    ] {
        let shown = format!("{format:?}");
        assert!(!refused(&path, &columns, format).is_empty(), "{shown}");
    }
    assert!(refused(folder.path(), &columns, csv(|_| ())).contains("is a folder"));
    assert!(refused(&folder.path().join("no/a.csv"), &columns, csv(|_| ())).contains("there is no folder"));
    let named = |name: &str| Column { name: name.to_owned(), ..columns[0].clone() };
    for format in [Format::Parquet(Timestamps::Exact), Format::Json(JsonShape::Lines)] {
        assert!(refused(&path, &[named("a"), named("")], format.clone()).contains("column 2 has no name"));
        assert!(refused(&path, &[named("a"), named("a")], format).contains("column 2 has the name a"));
    }
    let compression = Compression::Gzip;
    let twice = WriteOptions { compression, ..WriteOptions::new(Format::Parquet(Timestamps::Exact)) };
    assert!(check(&path, &twice).expect_err("refused").to_string().contains("inside"));
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
    let kind = |name: &str| FileName::of(Path::new(name)).known_kind(Path::new(name));
    assert_eq!(kind("X.TSV.Zst").expect("a kind"), FileKind::Tsv);
    assert_eq!(kind("lineitem.tbl").expect("a kind"), FileKind::Psv);
    assert!(kind("a.xls").expect_err("refused").to_string().contains(".parquet"));
}
