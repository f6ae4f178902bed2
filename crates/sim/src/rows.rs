//! Rows between the model and the tables of an instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_access::{Hobt, LoadColumn, LoadValues, Loader};
use hobt_base::{PageId, SlotId};
use hobt_catalog::Table;
use hobt_engine::{ColumnDefinition, DataSpaceDefinition, Database, EngineError, TableDefinition};
use hobt_page::{RowImage, StoredValue, ValidityBits};
use hobt_txn::StatementContext;
use hobt_types::{MaxLength, SqlType};

use crate::model::{Row, Rows};

/// Where the rows of a table lie.
pub(crate) type Places = BTreeMap<i32, (PageId, SlotId)>;

/// `CREATE TABLE dbo.<name> (id int NOT NULL, number bigint, payload varbinary(max))`.
pub(crate) fn definition(name: &str) -> TableDefinition {
    TableDefinition {
        schema: "dbo".to_owned(),
        name: name.to_owned(),
        columns: vec![
            ColumnDefinition::new("id", SqlType::Int, false),
            ColumnDefinition::new("number", SqlType::BigInt, true),
            ColumnDefinition::new("payload", SqlType::VarBinary(MaxLength::Max), true),
        ],
        data_space: DataSpaceDefinition::Default,
        indexes: Vec::new(),
    }
}

/// Bytes that say whose they are.
pub(crate) fn payload(key: i32, length: usize) -> Arc<[u8]> {
    let mut state = u64::from(key.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

pub(crate) fn insert(
    database: &Database,
    hobt: &Arc<Hobt>,
    ctx: &StatementContext,
    key: i32,
    row: &Row,
) -> Result<(), EngineError> {
    hobt.insert(ctx, &image(key, row)).map(drop).map_err(|error| database.storage_error(error))
}

/// Puts a row in the place of another one.
pub(crate) fn replace(
    database: &Database,
    hobt: &Arc<Hobt>,
    ctx: &StatementContext,
    (page, slot): (PageId, SlotId),
    key: i32,
    row: &Row,
) -> Result<(), EngineError> {
    hobt.replace(ctx, page, slot, &image(key, row)).map(drop).map_err(|error| database.storage_error(error))
}

fn image(key: i32, row: &Row) -> RowImage {
    let (key, number) = (key.to_le_bytes(), row.number.map(i64::to_le_bytes));
    let number = number.as_ref().map(|bytes| &bytes[..]);
    RowImage::new([Some(&key[..]), number, row.payload.as_deref()])
}

/// Loads rows in bulk, a few batches of them, and publishes them as `SELECT INTO` does.
pub(crate) fn load(
    database: &Database,
    hobt: &Arc<Hobt>,
    ctx: &Arc<StatementContext>,
    rows: &[(i32, Row)],
    batch_rows: usize,
) -> Result<(), EngineError> {
    let storage_error = |error| database.storage_error(error);
    let mut loader = Loader::new(Arc::clone(hobt), Arc::clone(ctx));
    for batch in rows.chunks(batch_rows) {
        let keys: Vec<u8> = batch.iter().flat_map(|(key, _)| key.to_le_bytes()).collect();
        let numbers: Vec<u8> = batch.iter().flat_map(|(_, row)| row.number.unwrap_or(0).to_le_bytes()).collect();
        let payloads: Vec<&[u8]> = batch.iter().map(|(_, row)| row.payload.as_deref().unwrap_or(&[])).collect();
        let number_bits = bits(batch, |row| row.number.is_some());
        let payload_bits = bits(batch, |row| row.payload.is_some());
        let validity = |bytes| Some(ValidityBits { bytes, offset: 0 });
        let columns = [
            LoadColumn { values: LoadValues::Fixed(&keys), validity: None },
            LoadColumn { values: LoadValues::Fixed(&numbers), validity: validity(&number_bits) },
            LoadColumn { values: LoadValues::Variable(payloads), validity: validity(&payload_bits) },
        ];
        loader.append(batch.len(), &columns).map_err(storage_error)?;
    }
    let loaded = loader.finish().map_err(storage_error)?;
    for file in database.storage().files() {
        file.disk().sync().map_err(|error| storage_error(error.into()))?;
    }
    hobt.publish(ctx, vec![loaded]).map_err(storage_error)
}

fn bits(rows: &[(i32, Row)], is_valid: impl Fn(&Row) -> bool) -> Vec<u8> {
    let mut bits = vec![0; rows.len().div_ceil(8)];
    for (at, (_, row)) in rows.iter().enumerate() {
        bits[at / 8] |= u8::from(is_valid(row)) << (at % 8);
    }
    bits
}

pub(crate) fn hobt_of(database: &Database, table: &Table) -> Result<Arc<Hobt>, EngineError> {
    database.hobt(table.base_index().partitions[0].hobt)
}

/// All rows of a table, with their places.
pub(crate) fn read(database: &Database, hobt: &Hobt) -> Result<(Rows, Places), EngineError> {
    let mut rows = Rows::new();
    let mut places = Places::new();
    let mut wrong = None;
    let fixed = |value: Option<Vec<u8>>| value.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let read = hobt.for_each_row(&mut |page, slot, view| {
        let value = |column| match view.stored(column, slot) {
            Ok(StoredValue::Null) => Ok(None),
            Ok(StoredValue::InRow(bytes)) => Ok(Some(bytes.to_vec())),
            Ok(StoredValue::Pointer(pointer)) => hobt.large_value(&pointer, None).map(Some),
            Err(damage) => Err(hobt_access::AccessError::Damaged { file: String::new(), page, damage }),
        };
        let key = fixed(value(0)?).map(i32::from_le_bytes);
        let number = value(1)?.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()).map(i64::from_le_bytes);
        let row = Row { number, payload: value(2)?.map(Into::into) };
        match (key, u16::try_from(slot)) {
            (Some(key), Ok(slot)) => {
                places.insert(key, (page, SlotId(slot)));
                if rows.insert(key, row).is_some() {
                    wrong = Some(format!("row {key} is there twice"));
                }
            }
            _ => wrong = Some(format!("a row without a key on page {page}")),
        }
        Ok(())
    });
    read.map_err(|error| database.storage_error(error))?;
    match wrong {
        None => Ok((rows, places)),
        Some(text) => Err(EngineError::from(hobt_base::SqlError::new(hobt_base::number::IO_ERROR, text))),
    }
}
