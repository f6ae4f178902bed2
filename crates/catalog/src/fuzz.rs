//! Fuzz targets: rows of system tables, and the bytes of a statistics object. The driver is `hobt_testing::FuzzTarget`;
//! the corpora are in `__fuzz__` beside this file.
//!
//! ```text
//! rows:       ( table u8 │ bytes of the change u16 │ change AppendRow )*
//! statistics: a STATS_STREAM, whose checksums are made right before it is read
//! ```

use std::sync::Arc;

use hobt_base::{Stamp, crc32c};
use hobt_page::{EncodingDamage, EncodingReader, PageChange, RowImage};
use hobt_testing::{check_corpus, fuzz_target};
use hobt_types::statistics::{Gatherer, Summary};
use hobt_types::{Collation, KeyColumn, MaxLength, PhysicalType, SqlType, Value};

use crate::identity::IdentityPosition;
use crate::long_value::LongValues;
use crate::sequence::load_sequence;
use crate::statistics::rows::{assemble_parts, of_row};
use crate::system::*;
use crate::type_columns::TypeColumns;
use crate::{StatisticsStream, check_value_bytes, row_image, value_from_bytes};

/// A few values of a row for each of its bytes. A sketch's list of registers unfolds to 22 times its size, and is
/// merged.
const LIMIT: (usize, usize) = (512 << 10, 512);

fuzz_target!(rows, LIMIT, |bytes| {
    let _read_or_damage = read_any_rows(bytes);
});

fuzz_target!(statistics, LIMIT, read_any_statistics);

/// What a load builds of several rows.
#[derive(Default)]
struct Rows {
    values: Vec<ValueRow>,
    statistics: Vec<StatisticsRow>,
    parts: Vec<StatisticsPartRow>,
    objects: Vec<ObjectRow>,
    sequences: Vec<SequenceRow>,
}

fn read_any_rows(bytes: &[u8]) -> Result<(), EncodingDamage> {
    let mut reader = EncodingReader::new(bytes);
    let mut rows = Rows::default();
    while !reader.is_empty() {
        let table = reader.u8()?;
        let length = usize::from(reader.u16()?);
        let PageChange::AppendRow { row, .. } = PageChange::decode(reader.bytes(length)?)? else { continue };
        rows.take(table, &row);
    }
    rows.build();
    Ok(())
}

impl Rows {
    fn take(&mut self, table: u8, image: &RowImage) {
        match i32::from(table) {
            id if id == SystemTable::Values as i32 => {
                let row = read::<ValueRow>(image);
                let bytes = row.as_ref().and_then(|row| row.value.as_deref());
                let _position = bytes.and_then(IdentityPosition::from_bytes);
                self.values.extend(row);
            }
            id if id == SystemTable::Columns as i32 => {
                let Some(row) = read::<ColumnRow>(image) else { return };
                let types = TypeColumns {
                    type_id: row.type_id,
                    length: row.length,
                    precision: row.precision,
                    scale: row.scale,
                };
                let Some(sql_type) = types.sql_type() else { return };
                assert_eq!(TypeColumns::of(sql_type).sql_type(), Some(sql_type));
                let _legal = check_value_bytes(sql_type, row.name.as_bytes());
            }
            id if id == SystemTable::Statistics as i32 => self.statistics.extend(read(image)),
            id if id == SystemTable::StatisticsParts as i32 => self.parts.extend(read(image)),
            id if id == SystemTable::Objects as i32 => self.objects.extend(read(image)),
            id if id == SystemTable::Sequences as i32 => self.sequences.extend(read(image)),
            id => read_other(id, image),
        }
    }

    fn build(self) {
        let mut parts = assemble_parts(self.parts);
        let Ok(mut long) = LongValues::assemble(self.values) else { return };
        for row in self.statistics {
            let parts = parts.remove(&(row.table, row.statistics)).unwrap_or_default();
            let _built_or_damage = of_row(row, parts, &mut long);
        }
        for (object, sequence) in self.objects.into_iter().zip(&self.sequences) {
            if let Ok(sequence) = load_sequence(object, sequence) {
                let _kept_or_broken = sequence.check();
            }
        }
    }
}

/// Reads a row of a table of which a load keeps no more than what the row says.
fn read_other(id: i32, image: &RowImage) {
    match id {
        id if id == SystemTable::Rowsets as i32 => drop(read::<RowsetRow>(image)),
        id if id == SystemTable::Files as i32 => drop(read::<FileRow>(image)),
        id if id == SystemTable::Filegroups as i32 => drop(read::<FilegroupRow>(image)),
        id if id == SystemTable::Databases as i32 => drop(read::<DatabaseRow>(image)),
        id if id == SystemTable::DatabaseFiles as i32 => drop(read::<DatabaseFileRow>(image)),
        id if id == SystemTable::Schemas as i32 => drop(read::<SchemaRow>(image)),
        id if id == SystemTable::Indexes as i32 => drop(read::<IndexRow>(image)),
        id if id == SystemTable::IndexColumns as i32 => drop(read::<IndexColumnRow>(image)),
        id if id == SystemTable::Defaults as i32 => drop(read::<DefaultRow>(image)),
        id if id == SystemTable::Functions as i32 => drop(read::<FunctionRow>(image)),
        id if id == SystemTable::Schemes as i32 => drop(read::<SchemeRow>(image)),
        id if id == SystemTable::Destinations as i32 => drop(read::<DestinationRow>(image)),
        id if id == SystemTable::Constraints as i32 => drop(read::<ConstraintRow>(image)),
        id if id == SystemTable::ForeignKeyColumns as i32 => drop(read::<ForeignKeyColumnRow>(image)),
        _ => {}
    }
}

/// The row of an image, read as a heap's page is. Asserts that it is written as it was read.
fn read<R: SystemRow>(image: &RowImage) -> Option<R> {
    if image.column_count() != R::FIELDS.len() {
        return None;
    }
    let values: Vec<Value> = R::FIELDS
        .iter()
        .enumerate()
        .map(|(column, field)| {
            let bytes = (!image.is_pointer(column)).then(|| image.value(column)).flatten();
            value_from_bytes(field.sql_type, bytes).ok()
        })
        .collect::<Option<_>>()?;
    let row = R::from_values(values.clone())?;
    assert_eq!(row.to_values(), values);
    let again = row_image(R::FIELDS.iter().map(|field| field.sql_type), &values).expect("values of the columns");
    let is_written = |column: usize| image.is_pointer(column) || again.value(column) == image.value(column);
    assert!((0..values.len()).all(is_written), "{values:?}");
    Some(row)
}

fn read_any_statistics(bytes: &[u8]) {
    let _damaged = StatisticsStream::decode(bytes);
    let sealed = sealed(bytes);
    let Ok(stream) = StatisticsStream::decode(&sealed) else { return };
    let again = stream.encode();
    assert_eq!(StatisticsStream::decode(&again).as_ref(), Ok(&stream));
    let summary = &stream.summary;
    let merged = Summary::merged(&[summary, &summary.scaled_to(1e7)]);
    for step in merged.histogram.steps() {
        let bound = Some((step.key.as_slice(), true));
        assert!(summary.histogram.rows_between(bound, None) >= 0.0);
        assert!(summary.histogram.distinct_between(None, bound) >= 0.0);
    }
    assert!(summary.without(&merged).rows >= 0.0);
}

/// The bytes with the checksum of the summary and that of the stream made right, where there is room for them.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let columns = bytes.get(8..12).map_or(0, |count| u32::from_le_bytes(count.try_into().expect("four bytes")));
    let summary = 12 + 5 * columns.min(100) as usize + 16;
    if let Some(end) = bytes.len().checked_sub(8).filter(|end| *end > summary) {
        let sum = crc32c(&bytes[summary..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c(&bytes[..end + 4]);
        bytes[end + 4..].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Values of a row's columns, which follow from a number.
fn sample<R: SystemRow>(number: i64) -> Vec<u8> {
    let value = |field: &FieldDefinition| match field.sql_type {
        _ if field.nullable && number == 0 => Value::Null,
        SqlType::Decimal { .. } => Value::Decimal(i128::from(number) << 60),
        SqlType::UniqueIdentifier => Value::Guid([number as u8; 16]),
        sql_type if sql_type.is_text() => Value::Text("name ".repeat(number as usize)),
        sql_type if sql_type.is_binary() => Value::Binary([number as u8, 0, 0, 0].repeat(4)),
        SqlType::Bit => Value::Int(number % 2),
        sql_type if sql_type.physical() == PhysicalType::Fixed1 => Value::Int([56, 106, 231][number as usize]),
        _ => Value::Int(number),
    };
    let values: Vec<Value> = R::FIELDS.iter().map(value).collect();
    let row = row_image(R::FIELDS.iter().map(|field| field.sql_type), &values).expect("values of the columns");
    let mut change = Vec::new();
    PageChange::AppendRow { row, writer: Stamp(1) }.encode(&mut change);
    [&[R::TABLE as i32 as u8][..], &(change.len() as u16).to_le_bytes(), &change].concat()
}

/// A stream of statistics over as many rows and this text.
fn stream(rows: i32, text: &str) -> Vec<u8> {
    let types = vec![SqlType::VarChar(MaxLength::Limited(8000)), SqlType::Int];
    let column = |sql_type: &SqlType| KeyColumn::new(*sql_type, Collation::Latin1GeneralCiAs, true, false);
    let columns: Arc<[KeyColumn]> = types.iter().map(|each| column(each).expect("a key's type")).collect();
    let mut gatherer = Gatherer::new(columns);
    for row in 0..rows {
        let text = format!("{text}{}", row % 13);
        gatherer.add(&[(row % 7 > 0).then_some(text.as_bytes()), Some(&row.to_le_bytes())]).expect("a row");
    }
    StatisticsStream { types, unfiltered_rows: i64::from(rows), updated: 5, summary: gatherer.finish() }.encode()
}

#[test]
fn the_corpora_are_what_is_made_here() {
    let mut entries = Vec::new();
    for number in 0..3 {
        let samples = [
            [sample::<ObjectRow>(number), sample::<ColumnRow>(number), sample::<SchemaRow>(number)].concat(),
            [sample::<IndexRow>(number), sample::<IndexColumnRow>(number), sample::<RowsetRow>(number)].concat(),
            [sample::<ValueRow>(number), sample::<DefaultRow>(number), sample::<ConstraintRow>(number)].concat(),
            [sample::<FunctionRow>(number), sample::<SchemeRow>(number), sample::<DestinationRow>(number)].concat(),
            [sample::<FilegroupRow>(number), sample::<FileRow>(number), sample::<DatabaseRow>(number)].concat(),
            [sample::<ObjectRow>(number), sample::<SequenceRow>(number), sample::<DatabaseFileRow>(number)].concat(),
            [sample::<StatisticsRow>(number), sample::<StatisticsPartRow>(number)].concat(),
            [sample::<ForeignKeyColumnRow>(number), sample::<ValueRow>(0), sample::<ValueRow>(1)].concat(),
        ];
        entries.extend(samples);
    }
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "rows", &entries);
    let streams =
        [stream(0, ""), stream(1, "a"), stream(9, "text "), stream(40, "long ".repeat(30).as_str()), stream(700, "")];
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "statistics", &streams);
}
