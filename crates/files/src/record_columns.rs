//! Columns of values from the fields of records.
//!
//! A text is read as that of a text file. Whole numbers, dates and decimals become their column's type directly, any
//! other host's bytes by a value between.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, PrimitiveBuilder};
use arrow::datatypes::{Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, UInt8Type};
use hobt_base::SqlError;
use hobt_functions::{carrier, values_to_array};
use hobt_types::{SqlType, Value};

use crate::encoding::CodePage;
use crate::format_file::HostType;
use crate::native::{ValueError, array, date, decimal_as, decode_as, text_of};
use crate::record::FieldSpan;
use crate::record_form::RecordForm;
use crate::rejected::FaultKind;
use crate::schema::FileColumn;
use crate::text::batch::BlockFaults;
use crate::text::columns::{ColumnOfTexts, FieldText, Texts};

/// Bytes of a value that cannot be read, of which a message may show a part.
const SHOWN_BYTES: usize = 120;

/// Fields of some records of a stretch.
pub(crate) struct RecordBlock<'s> {
    /// The stretch.
    pub(crate) bytes: &'s [u8],
    /// Those of each record, one after the other.
    pub(crate) spans: &'s [FieldSpan],
    pub(crate) form: &'s RecordForm,
}

impl RecordBlock<'_> {
    /// The values of a column in the carrier of its type; `place` is its place among the request's columns. Rows with a
    /// fault have any value.
    pub(crate) fn array(
        &self,
        column: &FileColumn,
        place: usize,
        faults: &mut BlockFaults,
    ) -> Result<ArrayRef, SqlError> {
        let (host, to) = (self.form.layout.fields()[column.field].host(), column.sql_type);
        let texts = RecordField { block: self, field: column.field, host };
        let field = RecordColumn { field: texts, column, place };
        Ok(match (host, to) {
            _ if host.is_text() => return ColumnOfTexts { texts: field.field, column, place }.array(faults),
            // Where the bytes are nearly the carrier's, no value is made between them.
            (HostType::TinyInt, SqlType::TinyInt) => {
                field.numbers::<UInt8Type>(faults, |bytes| array(bytes).map(u8::from_le_bytes))
            }
            (HostType::SmallInt, SqlType::SmallInt) => {
                field.numbers::<Int16Type>(faults, |bytes| array(bytes).map(i16::from_le_bytes))
            }
            (HostType::Int, SqlType::Int) => {
                field.numbers::<Int32Type>(faults, |bytes| array(bytes).map(i32::from_le_bytes))
            }
            (HostType::BigInt, SqlType::BigInt) => {
                field.numbers::<Int64Type>(faults, |bytes| array(bytes).map(i64::from_le_bytes))
            }
            (HostType::Date, SqlType::Date) => field.numbers::<Date32Type>(faults, date),
            (HostType::Decimal | HostType::Numeric, SqlType::Decimal { .. }) => {
                field.numbers::<Decimal128Type>(faults, |bytes| decimal_as(bytes, to))
            }
            _ => {
                let mut values = Vec::with_capacity(field.field.rows());
                let read = |bytes: &[u8]| decode_as(bytes, host, to);
                field.each(faults, read, |value| values.push(value.unwrap_or(Value::Null)));
                return values_to_array(values.iter(), to);
            }
        })
    }
}

/// A column whose fields are not text.
struct RecordColumn<'b, 'c> {
    field: RecordField<'b>,
    column: &'c FileColumn,
    /// Its place among the request's columns.
    place: usize,
}

impl RecordColumn<'_, '_> {
    /// Gives what `read` makes of each record's bytes to `append`; `None` for NULL and for a record with a fault.
    fn each<V>(
        &self,
        faults: &mut BlockFaults,
        read: impl Fn(&[u8]) -> Result<V, ValueError>,
        mut append: impl FnMut(Option<V>),
    ) {
        for (row, bytes) in self.field.bytes().enumerate() {
            let found = match bytes {
                Some(bytes) => read(bytes).map(Some),
                None if self.column.nullable => Ok(None),
                None => Err(ValueError::Null),
            };
            append(found.unwrap_or_else(|error| {
                faults.add(row, self.place, kind_of(error), &shown_bytes(bytes.unwrap_or_default()));
                None
            }));
        }
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        faults: &mut BlockFaults,
        read: impl Fn(&[u8]) -> Result<T::Native, ValueError>,
    ) -> ArrayRef {
        let empty = PrimitiveBuilder::<T>::with_capacity(self.field.rows());
        let mut numbers = empty.with_data_type(carrier(self.column.sql_type));
        self.each(faults, read, |number| numbers.append_option(number));
        Arc::new(numbers.finish())
    }
}

/// One field of the records of a block.
struct RecordField<'b> {
    block: &'b RecordBlock<'b>,
    field: usize,
    host: HostType,
}

impl<'b> RecordField<'b> {
    /// The field's bytes of each record; `None` for NULL.
    fn bytes(&self) -> impl Iterator<Item = Option<&'b [u8]>> {
        let RecordBlock { bytes, spans, form } = *self.block;
        let field = self.field;
        spans.chunks_exact(form.layout.fields().len()).map(move |spans| spans[field].of(bytes))
    }

    fn code_page(&self) -> CodePage {
        self.block.form.code_pages[self.field]
    }
}

impl Texts for RecordField<'_> {
    fn rows(&self) -> usize {
        self.block.spans.len() / self.block.form.layout.fields().len()
    }

    fn is_ascii(&self) -> bool {
        false
    }

    fn each(&self, mut take: impl FnMut(usize, FieldText<'_>)) {
        let code_page = self.code_page();
        for (row, bytes) in self.bytes().enumerate() {
            match bytes {
                None => take(row, FieldText::Missing),
                Some(bytes) => match text_of(bytes, self.host, code_page) {
                    Some(text) => take(row, FieldText::Text(&text)),
                    None => take(row, FieldText::Wrong(&shown_bytes(bytes))),
                },
            }
        }
    }
}

/// The beginning of bytes that are no value.
fn shown_bytes(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned()
}

fn kind_of(error: ValueError) -> FaultKind {
    match error {
        ValueError::Mismatch => FaultKind::Invalid,
        ValueError::Truncation => FaultKind::TooLong,
        ValueError::Overflow => FaultKind::Overflow,
        ValueError::Null => FaultKind::Null,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use hobt_functions::array_value;
    use hobt_types::MaxLength;

    use super::*;
    use crate::format_file::FormatFile;
    use crate::record::{Cut, RecordLayout};

    fn column(sql_type: SqlType, field: usize) -> FileColumn {
        FileColumn { name: "c".to_owned(), sql_type, nullable: true, field, path: None }
    }

    /// The columns of records, and the faults of each as `column: kind`.
    fn read(bytes: &[u8], fields: &[&str], columns: &[SqlType]) -> (Vec<ArrayRef>, Vec<String>) {
        let lines = fields.iter().zip(1..).map(|(line, place)| format!("{place} {line} {place} c \"\"\n"));
        let text = format!("14.0\n{}\n{}", fields.len(), lines.collect::<String>());
        let layout = RecordLayout::new(&FormatFile::parse(text.as_bytes(), "f").expect("a format file"));
        let form = RecordForm { layout: layout.expect("a layout"), code_pages: vec![CodePage::Utf8; fields.len()] };
        let (mut at, mut spans) = (0, Vec::new());
        while at < bytes.len() {
            let Ok(Cut::Record { end }) = form.layout.split(bytes, at, true, &mut spans) else { panic!("a record") };
            at = end;
        }
        let block = RecordBlock { bytes, spans: &spans, form: &form };
        let mut faults = BlockFaults::default();
        let arrays = columns.iter().enumerate();
        let arrays = arrays.map(|(field, sql_type)| block.array(&column(*sql_type, field), field, &mut faults));
        let arrays = arrays.map(|array| array.expect("carriers")).collect();
        (arrays, faults.described())
    }

    #[test]
    fn a_length_is_that_of_characters_and_a_fixed_one_is_filled() {
        let (limited, fixed) = (SqlType::NVarChar(MaxLength::Limited(2)), SqlType::Char(3));
        let fields = ["SQLCHAR 0 0 \",\"", "SQLCHAR 0 0 \"\\n\""];
        let text = "ü€,a\nabc,b\na😀,\nab,abcd\n,\0\n";
        let (arrays, faults) = read(text.as_bytes(), &fields, &[limited, fixed]);
        assert_eq!(faults, ["1: 0 TooLong abc", "2: 0 TooLong a😀", "3: 1 TooLong abcd"]);
        let texts: Vec<_> = arrays[0].as_string_view().iter().collect();
        assert_eq!(texts, [Some("ü€"), None, None, Some("ab"), None]);
        let texts: Vec<_> = arrays[1].as_string_view().iter().collect();
        assert_eq!(texts, [Some("a  "), Some("b  "), None, None, Some("   ")]);
    }

    #[test]
    fn text_of_both_widths_is_read_as_a_text_file_is() {
        let fields = ["SQLCHAR 0 4 \"\"", "SQLNCHAR 0 4 \"\"", "SQLCHAR 0 4 \"\""];
        let mut bytes = Vec::new();
        for (first, second, third) in [(" 12 ", "34", "0xAB"), ("12.5", "x ", "1   "), ("1   ", "  ", "FF00")] {
            bytes.extend_from_slice(first.as_bytes());
            bytes.extend(second.encode_utf16().flat_map(u16::to_le_bytes));
            bytes.extend_from_slice(third.as_bytes());
        }
        let binary = SqlType::VarBinary(MaxLength::Max);
        let (arrays, faults) = read(&bytes, &fields, &[SqlType::Int, SqlType::Int, binary]);
        assert_eq!(faults, ["1: 0 Invalid 12.5", "2: 1 Invalid   "]);
        let numbers = |array: &ArrayRef| array.as_primitive::<Int32Type>().iter().collect::<Vec<_>>();
        assert_eq!(numbers(&arrays[0]), [Some(12), None, Some(1)]);
        assert_eq!(numbers(&arrays[1]), [Some(34), None, None]);
        assert_eq!(arrays[2].as_binary_view().value(0), [0xAB]);
        assert_eq!(arrays[2].as_binary_view().value(2), [0xFF, 0]);
    }

    #[test]
    fn bytes_that_are_no_text_are_a_fault_and_numbers_become_text() {
        let fields = ["SQLCHAR 0 0 \",\"", "SQLINT 0 4 \"\""];
        let (arrays, faults) =
            read(b"\xFFa,\x05\0\0\0", &fields, &[SqlType::VarChar(MaxLength::Max), SqlType::Char(3)]);
        assert_eq!(faults, ["0: 0 Invalid \u{FFFD}a"]);
        assert!(arrays[0].is_null(0));
        assert_eq!(arrays[1].as_string_view().value(0), "5  ");
    }

    #[test]
    fn every_type_of_a_native_file_comes_back_and_null_where_it_may_be() {
        use crate::format_file::{FileStyle, TableColumn};

        for nullable in [false, true] {
            let limits = crate::native::tests::limits();
            let columns = limits.iter().map(|(sql_type, _)| (*sql_type, nullable));
            let columns: Vec<TableColumn> = columns
                .map(|(sql_type, nullable)| TableColumn { name: "c".to_owned(), sql_type, nullable, collation: None })
                .collect();
            let layout = RecordLayout::for_table(&columns, &FileStyle::Native).expect("a layout");
            let form = RecordForm { code_pages: vec![CodePage::Utf8; columns.len()], layout };
            let (mut bytes, mut rows, mut spans) = (Vec::new(), Vec::new(), Vec::new());
            for row in 0..7 {
                let start = bytes.len();
                let values = limits.iter().map(|(_, values)| match values.get(row) {
                    None if nullable => Value::Null,
                    value => value.unwrap_or(&values[0]).clone(),
                });
                let values: Vec<Value> = values.collect();
                for (value, (field, column)) in values.iter().zip(form.layout.fields().iter().zip(&columns)) {
                    field.write(value, column.sql_type, encoding_rs::UTF_8, &mut bytes).expect("a value of the column");
                }
                let cut = form.layout.split(&bytes, start, true, &mut spans);
                assert_eq!(cut, Ok(Cut::Record { end: bytes.len() }));
                rows.push(values);
            }
            let block = RecordBlock { bytes: &bytes, spans: &spans, form: &form };
            for (field, (sql_type, _)) in limits.iter().enumerate() {
                let mut faults = BlockFaults::default();
                let array = block.array(&column(*sql_type, field), field, &mut faults).expect("carriers");
                assert!(faults.described().is_empty());
                for (row, values) in rows.iter().enumerate() {
                    let mut wanted = values[field].clone();
                    if let (SqlType::Char(length), Value::Text(text)) = (sql_type, &mut wanted) {
                        let length = usize::from(*length);
                        *text = format!("{text:length$}");
                    }
                    assert_eq!(array_value(&array, row, *sql_type).expect("a value"), wanted, "{sql_type}");
                }
            }
        }
    }
}
