//! Records are cut where they end, whatever is cut off, and what is no record is refused.

use encoding_rs::UTF_8;
use hobt_base::SplitMix64;
use hobt_types::{MaxLength, SqlType, Value};

use super::{Cut, CutError, CutFault, FieldSpan, RecordLayout};
use crate::encoding::CodePage;
use crate::format_file::{FileStyle, FormatFile, TableColumn};
use crate::native::{ValueError, decode, decode_as};

fn layout(lines: &[&str]) -> RecordLayout {
    let fields = lines.iter().zip(1..).map(|(line, place)| format!("{place} {line} {place} c \"\"\n"));
    let text = format!("14.0\n{}\n{}", lines.len(), fields.collect::<String>());
    RecordLayout::new(&FormatFile::parse(text.as_bytes(), "f").expect("a format file")).expect("a layout")
}

type Fields<'b> = Vec<Option<&'b [u8]>>;

/// The fields of the first record, and where it ends.
fn split<'b>(layout: &RecordLayout, bytes: &'b [u8], at_end: bool) -> Result<(Fields<'b>, usize), CutError> {
    let mut spans = Vec::new();
    match layout.split(bytes, 0, at_end, &mut spans).map_err(|fault| fault.error)? {
        Cut::Record { end } => Ok((spans.iter().map(|span: &FieldSpan| span.of(bytes)).collect(), end)),
        Cut::More { bytes: more } => {
            assert!(more > bytes.len() && !at_end);
            Ok((Vec::new(), 0))
        }
    }
}

/// Values of every type, with the columns that hold them.
fn columns(nullable: bool) -> (Vec<TableColumn>, Vec<Vec<Value>>) {
    let column = |sql_type| TableColumn { name: "c".to_owned(), sql_type, nullable, collation: None };
    crate::native::tests::limits().into_iter().map(|(sql_type, values)| (column(sql_type), values)).unzip()
}

#[test]
fn records_of_every_style_come_back_and_are_seen_to_be_cut_off_anywhere() {
    let styles = [
        FileStyle::Native,
        FileStyle::WideNative,
        FileStyle::Text { field: b"|+|".to_vec(), row: b"\r\n".to_vec() },
        FileStyle::WideText { field: b"\x01\x02\x03\x04".to_vec(), row: b"\r\0\n\0".to_vec() },
    ];
    let mut random = SplitMix64::new(7);
    for (style, nullable) in styles.iter().flat_map(|style| [(style, false), (style, true)]) {
        let (columns, values) = columns(nullable);
        let layout = RecordLayout::for_table(&columns, style).expect("a layout");
        let (mut file, mut ends, mut rows) = (Vec::new(), vec![0], Vec::new());
        for _ in 0..20 {
            let mut row = Vec::new();
            for (values, (field, column)) in values.iter().zip(layout.fields().iter().zip(&columns)) {
                let place = random.below(values.len() as u64 + u64::from(nullable)) as usize;
                let value = values.get(place).cloned().unwrap_or(Value::Null);
                field.write(&value, column.sql_type, UTF_8, &mut file).expect("a value of the column");
                row.push(value);
            }
            rows.push(row);
            ends.push(file.len());
        }
        let (whole, fault) = layout.whole_records(&file, 0, false);
        assert_eq!((whole.count, whole.end, whole.more, fault), (20, file.len(), 0, None));
        let mut spans = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let (start, end) = (ends[number], ends[number + 1]);
            spans.clear();
            assert_eq!(layout.split(&file, start, false, &mut spans), Ok(Cut::Record { end }));
            for ((span, wanted), (field, column)) in spans.iter().zip(row).zip(layout.fields().iter().zip(&columns)) {
                let read = match span.of(&file) {
                    None => Ok(Value::Null),
                    // What text says is a number of another type is for the columns of text to read.
                    Some(_) if field.host().is_text() && !column.sql_type.is_text() => continue,
                    Some(bytes) if field.host().is_text() => {
                        decode(bytes, field.host(), CodePage::Utf8).map(|read| read.value)
                    }
                    Some(bytes) => decode_as(bytes, field.host(), column.sql_type),
                };
                assert_eq!(read.as_ref(), Ok(wanted), "{style:?}");
            }
        }
        let record = &file[..ends[1]];
        for length in 0..record.len() {
            let cut = &record[..length];
            let Ok(Cut::More { bytes }) = layout.end_of(cut, 0, false) else { panic!("{style:?} {length}") };
            assert!(bytes > length && bytes <= record.len(), "{style:?}: {length} of {bytes}");
            // At the end of a file the last field needs no terminator.
            match layout.end_of(cut, 0, true) {
                Ok(Cut::Record { end }) => assert!(end == length, "{style:?} {length}"),
                Ok(Cut::More { .. }) => panic!("nothing follows"),
                Err(CutFault { error, .. }) => assert!(matches!(error, CutError::FileEnd | CutError::OddBytes)),
            }
        }
    }
}

#[test]
fn records_of_one_length_are_counted() {
    let layout = layout(&["SQLINT 0 4 \"\"", "SQLCHAR 0 3 \"\""]);
    let (whole, fault) = layout.whole_records(&[0; 23], 1, false);
    assert_eq!((whole.count, whole.end, whole.more, fault), (3, 22, 7, None));
    let (whole, fault) = layout.whole_records(&[0; 24], 0, true);
    assert_eq!((whole.count, whole.end), (3, 21));
    assert_eq!(fault.map(|fault| fault.error(4).number), Some(4832));
}

#[test]
fn prefixes_say_null_and_lengths_and_never_more_than_there_may_be() {
    for (width, digits) in [(1_usize, 0xFE_u64), (2, 0xFFFE), (4, i32::MAX as u64), (8, i32::MAX as u64)] {
        let layout = layout(&[&format!("SQLBINARY {width} 0 \"\"")]);
        assert_eq!(split(&layout, &[0xFF; 8][..width], true), Ok((vec![None], width)));
        assert_eq!(split(&layout, &[0; 8][..width], true), Ok((vec![Some(&b""[..])], width)));
        let most = &digits.to_le_bytes()[..width];
        let wanted = Cut::More { bytes: width + digits as usize };
        assert_eq!(layout.end_of(most, 0, false), Ok(wanted));
        assert_eq!(split(&layout, most, true), Err(CutError::FileEnd));
        assert_eq!(split(&layout.with_field_bytes_max(digits as usize - 1), most, false), Err(CutError::TooLong));
    }
    for width in [4, 8] {
        let mut negative = vec![0xFF; width];
        negative[0] = 0xFE;
        assert_eq!(split(&layout(&[&format!("SQLCHAR {width} 0 \"\"")]), &negative, false), Err(CutError::TooLong));
    }
    let int = layout(&["SQLINT 1 4 \"\""]);
    assert_eq!(split(&int, &[0], false), Ok((vec![None], 1)));
    assert_eq!(split(&int, &[3, 1, 2, 3], false), Err(CutError::BadLength));
    assert_eq!(split(&int, &[5], false), Err(CutError::TooLong));
    assert_eq!(
        split(&layout(&["SQLDECIMAL 1 19 \"\""]), &[4, 9, 0, 1, 7], false),
        Ok((vec![Some(&[9, 0, 1, 7][..])], 5))
    );
    assert_eq!(split(&layout(&["SQLNCHAR 2 9 \"\""]), &[3, 0, 1, 1, 1], false), Err(CutError::OddBytes));
}

#[test]
fn terminators_end_fields_at_whole_characters() {
    let lines = layout(&["SQLCHAR 0 2 \",\"", "SQLCHAR 0 0 \"\\r\\n\""]);
    assert_eq!(split(&lines, b"abc,d\re\r\nx", false), Ok((vec![Some(&b"abc"[..]), Some(b"d\re")], 9)));
    assert_eq!(split(&lines, b",\r\n", false), Ok((vec![None, None], 3)));
    assert_eq!(split(&lines, b"\0,\0", true), Ok((vec![Some(&b""[..]), Some(b"")], 3)));
    assert_eq!(split(&lines, b"a,", true), Ok((vec![Some(&b"a"[..]), None], 2)));
    assert_eq!(split(&lines, b"a", true), Err(CutError::FileEnd));
    assert_eq!(split(&lines.with_field_bytes_max(2), b"abcd", false), Err(CutError::TooLong));
    // The terminator's bytes 0A 00 lie across two characters first.
    let wide = layout(&["SQLNCHAR 0 0 \"\\n\""]);
    assert_eq!(
        split(&wide, &[0x41, 0x0A, 0x00, 0x42, 0x0A, 0x00], false),
        Ok((vec![Some(&[0x41, 0x0A, 0, 0x42][..])], 6))
    );
    assert_eq!(split(&wide, &[0, 0, 0x0A, 0], false), Ok((vec![Some(&[][..])], 4)));
    assert_eq!(split(&wide, &[0x41], true), Err(CutError::OddBytes));
}

#[test]
fn what_comes_first_ends_text_and_bytes_need_their_terminator() {
    let both = layout(&["SQLCHAR 1 9 \";;\"", "SQLINT 0 4 \"|\""]);
    let int = [b';', 1, 2, 3, b'|'];
    let with_int = |text: &[u8]| [text, &int].concat();
    for (text, wanted) in [(&b"\x05a;;"[..], &b"a"[..]), (b"\x02ab;;", b"ab"), (b"\x02ab", b"ab"), (b"\x00;;", b"")] {
        let bytes = with_int(text);
        let (fields, end) = split(&both, &bytes, false).expect("a record");
        assert_eq!((fields, end), (vec![Some(wanted), Some(&int[..4])], bytes.len()), "{text:?}");
        assert_eq!(split(&both, &bytes[..bytes.len() - 1], true).map(|(_, end)| end), Ok(bytes.len() - 1));
    }
    assert_eq!(split(&both, &with_int(b"\xFF;;"), false).map(|(fields, _)| fields[0]), Ok(None));
    assert_eq!(split(&both, b"\xFF;x", false), Err(CutError::TooLong));
    assert_eq!(split(&both, b"\x01a;;\x01\x02\x03\x04\x05", false), Err(CutError::TooLong));
}

#[test]
fn a_field_that_cannot_be_ends_the_records_in_front_of_it() {
    let layout = layout(&["SQLINT 1 4 \"\"", "SQLCHAR 1 9 \"\""]);
    let bytes = [4, 1, 0, 0, 0, 1, b'a', 0xFF, 0xFF, 7];
    let (whole, fault) = layout.whole_records(&bytes, 0, false);
    assert_eq!((whole.count, whole.end), (2, 9));
    let fault = fault.expect("a fault");
    assert_eq!((fault.field, fault.error, fault.error(3).number), (0, CutError::TooLong, 4866));
    assert_eq!(
        fault.error(3).message.split(". Verify").next(),
        Some("The bulk load failed. The column is too long in the data file for row 3, column 1")
    );
}

#[test]
fn what_a_field_cannot_say_is_not_written() {
    let text = SqlType::VarChar(MaxLength::Max);
    let layout = layout(&["SQLINT 0 4 \"\"", "SQLCHAR 1 9 \"\"", "SQLNCHAR 0 6 \"\"", "SQLCHAR 0 0 \";\""]);
    let mut out = b"kept".to_vec();
    let mut write =
        |field: usize, value: Value, sql_type| layout.fields()[field].write(&value, sql_type, UTF_8, &mut out);
    assert_eq!(write(0, Value::Null, SqlType::Int), Err(ValueError::Null));
    assert_eq!(write(1, Value::Text("x".repeat(255)), text), Err(ValueError::Truncation));
    assert_eq!(write(2, Value::Text("abcd".to_owned()), text), Err(ValueError::Truncation));
    assert_eq!(write(2, Value::Text("a".to_owned()), text), Ok(()));
    assert_eq!(write(3, Value::Text(String::new()), text), Ok(()));
    assert_eq!(write(3, Value::Int(1), SqlType::Bit), Ok(()));
    assert_eq!(write(3, Value::Null, text), Ok(()));
    assert_eq!(out, b"kepta\0 \0 \0\0;1;;");
}

#[test]
fn a_byte_order_mark_is_no_field() {
    let wide = layout(&["SQLNCHAR 0 0 \"\\n\""]);
    assert_eq!((wide.signature_bytes(&[0xFF, 0xFE, 0x41]), wide.signature_bytes(b"ab")), (2, 0));
    assert_eq!(layout(&["SQLNCHAR 2 0 \"\""]).signature_bytes(&[0xFF, 0xFE, 0x41]), 0);
    assert_eq!(layout(&["SQLCHAR 0 0 \"\\n\""]).signature_bytes(b"\xEF\xBB\xBFa"), 3);
}
