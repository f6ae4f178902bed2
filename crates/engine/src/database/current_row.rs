//! The current version of one row, for a statement that has locked it.

use std::borrow::Cow;

use hobt_access::{AccessError, RowStore};
use hobt_catalog::{Table, value_from_bytes};
use hobt_page::{PageDamage, PageHeader, RowImage, StoredValue};
use hobt_types::Value;

use super::writer::RowAt;

/// The current values of a table's row in its heap or clustered index, which is one of `stores`; `None` if the row is
/// gone. Blocks.
///
/// # Errors
/// A page is damaged or cannot be read.
pub fn current_row(table: &Table, stores: &[RowStore], at: &RowAt) -> Result<Option<Vec<Value>>, AccessError> {
    let store = &stores[at.partition()];
    let Some(row) = image(store, at)? else { return Ok(None) };
    let hobt = store.hobt();
    let malformed = PageDamage::Structure { rule: "a value of its column's type" };
    let value = |(place, column): (usize, &hobt_catalog::TableColumn)| {
        let bytes = match row.stored(place) {
            StoredValue::Null => None,
            StoredValue::InRow(bytes) => Some(Cow::Borrowed(bytes)),
            StoredValue::Pointer(pointer) => Some(Cow::Owned(hobt.large_value(&pointer, None)?)),
        };
        value_from_bytes(column.sql_type, bytes.as_deref()).map_err(|_| hobt.damaged(hobt.run_list(), malformed))
    };
    table.columns.iter().enumerate().map(value).collect::<Result<Vec<_>, _>>().map(Some)
}

fn image(store: &RowStore, at: &RowAt) -> Result<Option<RowImage>, AccessError> {
    match (at, store) {
        (RowAt::Heap { page, slot, .. }, store) => store.hobt().live_row(*page, *slot),
        (RowAt::Tree { key, .. }, RowStore::Tree(tree)) => {
            let found = tree.find(key, |page, slot| {
                let id = PageHeader::read(page.bytes()).map(|header| header.page);
                page.row_image(usize::from(slot.0)).map_err(|damage| (id.unwrap_or_default(), damage))
            })?;
            found.transpose().map_err(|(page, damage)| tree.hobt().damaged(page, damage))
        }
        (RowAt::Tree { .. }, RowStore::Heap(_)) => Ok(None),
    }
}
