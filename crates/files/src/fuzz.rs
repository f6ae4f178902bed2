//! Fuzz targets: format files, and records with their values. The driver is `hobt_testing::FuzzTarget`; the corpora are
//! in `__fuzz__` beside this file.

use encoding_rs::UTF_8;
use hobt_testing::{check_corpus, fuzz_target};
use hobt_types::Value;

use crate::encoding::CodePage;
use crate::format_file::{FileStyle, FormatFile, TableColumn};
use crate::native::{decode, encode, tests::limits};
use crate::record::{Cut, RecordLayout};

/// Nodes and attributes of XML, and fields.
const FORMAT_LIMIT: (usize, usize) = (64 << 10, 400);
/// All layouts, and a few copies of a value.
const RECORD_LIMIT: (usize, usize) = (256 << 10, 8);

fuzz_target!(format_file, FORMAT_LIMIT, read_any_format_file);

fuzz_target!(record, RECORD_LIMIT, read_any_records);

fn read_any_format_file(bytes: &[u8]) {
    let Ok(format) = FormatFile::parse(bytes, "f") else { return };
    RecordLayout::new(&format).expect("every field has an end");
    if let Some(xml) = format.to_xml() {
        let again = FormatFile::parse(xml.as_bytes(), "f").expect("what is written is read");
        assert_eq!(again.columns.len(), format.columns.len());
    }
    let text = format.to_text();
    let again = FormatFile::parse(text.as_bytes(), "f").expect("what is written is read");
    assert_eq!(again.to_text(), text);
}

/// The layouts that the first byte of an input chooses from.
fn layouts() -> Vec<RecordLayout> {
    let columns = |nullable| -> Vec<TableColumn> {
        let column = |sql_type| TableColumn { name: "c".to_owned(), sql_type, nullable, collation: None };
        limits().into_iter().map(|(sql_type, _)| column(sql_type)).collect()
    };
    let text = FileStyle::Text { field: b",".to_vec(), row: b"\r\n".to_vec() };
    let wide = FileStyle::WideText { field: b",\0".to_vec(), row: b"\n\0".to_vec() };
    let mut layouts = Vec::new();
    for style in [FileStyle::Native, FileStyle::WideNative, text, wide] {
        for nullable in [false, true] {
            layouts.push(RecordLayout::for_table(&columns(nullable), &style).expect("a layout"));
        }
    }
    let mixed = FormatFile::parse(
        b"9.0\n4\n1 SQLCHAR 1 9 \";;\" 1 a \"\"\n2 SQLINT 1 4 \"|\" 2 b \"\"\n\
          3 SQLBINARY 8 0 \"\" 3 c \"\"\n4 SQLNCHAR 2 0 \"\\n\" 4 d \"\"",
        "f",
    );
    layouts.push(RecordLayout::new(&mixed.expect("a format file")).expect("a layout"));
    layouts
}

fn read_any_records(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let layouts = layouts();
    let layout = &layouts[usize::from(*choice) % layouts.len()];
    for at_end in [false, true] {
        let (whole, fault) = layout.whole_records(bytes, 0, at_end);
        assert!(whole.end + whole.more > bytes.len() || whole.end == bytes.len() || fault.is_some());
        let (mut at, mut spans) = (0, Vec::new());
        for _ in 0..whole.count {
            spans.clear();
            let Ok(Cut::Record { end }) = layout.split(bytes, at, at_end, &mut spans) else { panic!("a whole record") };
            assert!(end > at && spans.len() == layout.fields().len());
            for (span, field) in spans.iter().zip(layout.fields()) {
                let Some(content) = span.of(bytes) else { continue };
                let Ok(read) = decode(content, field.host(), CodePage::Utf8) else { continue };
                let mut again = Vec::new();
                encode(&read.value, read.sql_type, field.host(), UTF_8, &mut again).expect("a value of its own type");
                assert_eq!(decode(&again, field.host(), CodePage::Utf8).as_ref(), Ok(&read));
            }
            at = end;
        }
        assert_eq!(at, whole.end);
    }
}

#[test]
fn the_corpora_are_what_is_made_here() {
    let texts = [
        "14.0\n1\n1 SQLCHAR 0 7 \"\\t\" 1 a \"\"\n",
        "9.0\r\n2\r\n1 SQLNCHAR 2 0 \"\\r\\0\\n\\0\" 0 \"a b\" Latin1_General_BIN2\r\n2 SQLINT 0 4 \"\" 2 c \"\"\r\n",
        "12.0\n1\n1 SQLBINARY 8 0 \"0x0d0a\" 1 a \"\"",
    ];
    let mut formats: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let table: Vec<TableColumn> = crate::format_file::tests::tables().remove(0);
    for style in [FileStyle::Native, FileStyle::WideText { field: b"\t\0".to_vec(), row: b"\n\0".to_vec() }] {
        for part in table.chunks(5) {
            let format = FormatFile::for_table(part, &style);
            formats.push(format.to_text().into_bytes());
            formats.push(format.to_xml().expect("in XML").into_bytes());
        }
    }
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "format_file", &formats);
    let mut records =
        vec![vec![8, 2, b'a', b'b', 4, 1, 0, 0, 0, b'|', 1, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0, b'x', 0, b'\n', 0]];
    for (choice, layout) in (0..8).zip(layouts()) {
        for row in 0..3 {
            let mut bytes = vec![choice];
            for ((sql_type, values), field) in limits().into_iter().zip(layout.fields()) {
                let value = values.into_iter().nth(row).unwrap_or(Value::Null);
                let written = field.write(&value, sql_type, UTF_8, &mut bytes);
                let zero = (written.is_err()).then(|| field.host().bytes()).flatten().unwrap_or(0);
                bytes.resize(bytes.len() + zero, 0);
            }
            records.push(bytes);
        }
    }
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "record", &records);
}
