//! `DBCC PAGE (database, file, page [, style])`: a page's header and, in style 3, its rows.

use hobt_base::{DatabaseId, FileId, PageId, Position, SqlError, errors};
use hobt_buffer::BufferError;
use hobt_catalog::Table;
use hobt_engine::{DatabaseUse, EngineError};
use hobt_functions::{format_value, value_to_array};
use hobt_page::{PageBytes, PageHeader, PageType, RowPage, StoredValue};
use hobt_types::{SqlType, Value};

use crate::dbcc::Maintenance;
use crate::event::Message;
use crate::failure::Failure;

/// Bytes per line of a dump.
const LINE_BYTES: usize = 20;

impl Maintenance<'_, '_> {
    pub(super) fn dbcc_page(&mut self, arguments: &[Value], position: Position) -> Result<(), Failure> {
        let wrong = || errors::PAGE_ARGUMENT.error().at(position);
        let number = |index: usize| match arguments.get(index) {
            Some(Value::Int(number)) => u32::try_from(*number).map_err(|_| wrong()),
            _ => Err(wrong()),
        };
        let instance = &self.batch.environment.instance;
        let database = match arguments.first() {
            Some(Value::Text(name)) => instance.database(name),
            Some(Value::Int(0)) => Ok(self.batch.state.database.clone()),
            Some(Value::Int(id)) => instance.database_by_id(DatabaseId(u16::try_from(*id).map_err(|_| wrong())?)),
            _ => return Err(wrong().into()),
        };
        let database = database.map_err(|error: EngineError| error.to_sql_error())?;
        let page = PageId::new(FileId(u16::try_from(number(1)?).map_err(|_| wrong())?), number(2)?);
        let style = if arguments.len() > 3 { number(3)? } else { 0 };
        let bytes = read_page(&database, page)?;
        let mut lines = vec![String::new(), format!("PAGE: {page}"), String::new(), "PAGE HEADER:".to_owned()];
        let header = PageHeader::read(&bytes);
        match &header {
            Ok(header) => lines.extend(header_lines(&database, header, &bytes)),
            Err(damage) => lines.push(format!("damaged: {damage}")),
        }
        match (style, &header) {
            (1 | 2, _) => lines.extend(dump_lines(&bytes)),
            (3, Ok(header)) if header.page_type == PageType::Row => lines.extend(row_lines(&database, header, &bytes)?),
            _ => {}
        }
        self.batch.send_message(Message::plain(position.line, lines.join("\n")))
    }
}

fn read_page(database: &DatabaseUse, page: PageId) -> Result<PageBytes, SqlError> {
    let outside = || errors::NO_SUCH_PAGE.with([&page, &database.name()]);
    let file = database.storage().file(page.file).map_err(|_| outside())?;
    if page.number >= file.size_pages() {
        return Err(outside());
    }
    let guard = file.pool_file().read(page.number);
    let guard = guard.map_err(|error| {
        let entry = match error {
            BufferError::Damaged { .. } => errors::PAGE_NOT_READ_DAMAGED,
            _ => errors::PAGE_NOT_READ,
        };
        entry.with([&page, &database.name(), &error])
    })?;
    Ok(*guard)
}

/// The table that a HOBT belongs to.
fn table_of(database: &DatabaseUse, header: &PageHeader) -> Option<std::sync::Arc<Table>> {
    let snapshot = database.snapshot();
    let owns = |table: &Table| {
        table.indexes.iter().flat_map(|index| &index.partitions).any(|partition| partition.hobt == header.hobt)
    };
    snapshot.tables.values().find(|table| owns(table)).cloned()
}

fn header_lines(database: &DatabaseUse, header: &PageHeader, bytes: &PageBytes) -> Vec<String> {
    let table = table_of(database, header);
    let object = table.map_or_else(|| "none".to_owned(), |table| format!("{} ({})", table.id, table.name));
    let checksum = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    vec![
        format!("m_pageId = {}  m_type = {} ({})", header.page, header.page_type as u8, header.page_type.name()),
        format!("m_flags = {:#06x}  m_checksum = {checksum:#010x}", header.flags.0),
        format!("hobt_id = {}  object = {object}", header.hobt),
        format!("m_lsn = {}  layout version = {}", header.lsn, header.layout_version),
        format!("newest writer = {}  database tag = {:#010x}", header.newest_writer, header.database_tag),
        format!("columns = {}  m_slotCnt = {}", header.column_count, header.row_count),
        format!("capacity = {}  deleted = {}", header.capacity, header.deleted_count),
        format!("m_nextPage = {}", header.next),
    ]
}

fn dump_lines(bytes: &PageBytes) -> Vec<String> {
    let mut lines = vec![String::new(), "DATA:".to_owned()];
    for (line, chunk) in bytes.chunks(LINE_BYTES).enumerate() {
        let hexadecimal: Vec<String> =
            chunk.chunks(4).map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        let text: String =
            chunk.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        lines.push(format!("{:04x}: {:<45} {text}", line * LINE_BYTES, hexadecimal.join(" ")));
    }
    lines
}

fn row_lines(database: &DatabaseUse, header: &PageHeader, bytes: &PageBytes) -> Result<Vec<String>, SqlError> {
    let Some(table) = table_of(database, header) else { return Ok(Vec::new()) };
    let page = match RowPage::open(bytes, &table.rows) {
        Ok(page) => page,
        Err(damage) => return Ok(vec![format!("damaged: {damage}")]),
    };
    let mut lines = Vec::new();
    for slot in 0..page.row_count() {
        lines.push(String::new());
        let deleted = if page.is_deleted(slot) { " (deleted)" } else { "" };
        lines.push(format!("Slot {slot}{deleted}"));
        for (index, column) in table.columns.iter().enumerate() {
            let text = match page.stored(index, slot) {
                Ok(StoredValue::Null) => "[NULL]".to_owned(),
                Ok(StoredValue::InRow(bytes)) => value_text(bytes, column.sql_type)?,
                Ok(StoredValue::Pointer(pointer)) => {
                    format!("[BLOB] {} bytes from page {} on", pointer.length, pointer.first)
                }
                Err(damage) => format!("damaged: {damage}"),
            };
            lines.push(format!("Column {} {} = {text}", column.id, column.name));
        }
    }
    Ok(lines)
}

/// The text of a value as it is stored in a page.
fn value_text(bytes: &[u8], sql_type: SqlType) -> Result<String, SqlError> {
    let integer = || {
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0) && bytes.len() > 1;
        let mut wide = [if negative { 0xFF } else { 0 }; 16];
        let length = bytes.len().min(16);
        wide[..length].copy_from_slice(&bytes[..length]);
        i128::from_le_bytes(wide)
    };
    let value = match sql_type {
        SqlType::Decimal { .. } => Value::Decimal(integer()),
        SqlType::Real => Value::Float(f64::from(f32::from_bits(integer() as u32))),
        SqlType::Float => Value::Float(f64::from_bits(integer() as u64)),
        SqlType::UniqueIdentifier => match bytes.try_into() {
            Ok(guid) => Value::Guid(guid),
            Err(_) => return Ok("damaged".to_owned()),
        },
        _ if sql_type.is_text() => return Ok(String::from_utf8_lossy(bytes).into_owned()),
        _ if sql_type.is_binary() => Value::Binary(bytes.to_vec()),
        _ => Value::Int(i64::try_from(integer()).unwrap_or(i64::MAX)),
    };
    let array = value_to_array(&value, sql_type)?;
    format_value(array.as_ref(), 0, sql_type)
}
