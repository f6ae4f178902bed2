//! Functions about indexes.

use hobt_base::ObjectId;
use hobt_catalog::{Statistics, StatisticsOrigin, Table};
use hobt_types::{SqlType, Value};

use hobt_functions::convert_value;

use super::{World, int_of, split_name, text_of};

/// `INDEXPROPERTY (object_id, index or statistics, property)`.
pub(super) fn property(world: &World, arguments: &[Value]) -> Option<i64> {
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&ObjectId(int_of(arguments, 0)?))?;
    let (name, property) = (text_of(arguments, 1), text_of(arguments, 2).to_lowercase());
    let is = |condition: bool| Some(i64::from(condition));
    let Some(index) = table.index_named(&name) else {
        let statistics = snapshot.statistics_named(table, &name)?;
        return statistics_property(&statistics, &property);
    };
    match property.as_str() {
        "indexid" => Some(i64::from(index.id.0)),
        "indexfillfactor" => Some(i64::from(index.options.fill_factor)),
        "indexdepth" => {
            let store = world.database.store_to_read(index.partitions.first()?.hobt).ok()?;
            store.tree()?.figures().ok().map(|figures| figures.depth() as i64)
        }
        "isclustered" => is(index.id.0 == 1),
        "isunique" => is(index.options.is_unique),
        "isdisabled" => is(index.options.is_disabled),
        "ispadindex" => is(index.options.is_padded),
        "isrowlockdisallowed" => is(!index.options.allows_row_locks),
        "ispagelockdisallowed" => is(!index.options.allows_page_locks),
        "isoptimizedforsequentialkey" => is(index.options.is_sequential),
        "isautostatistics" | "isstatistics" | "ishypothetical" | "isfulltextkey" | "iscolumnstore" => is(false),
        _ => None,
    }
}

/// Index properties of statistics that do not belong to an index.
fn statistics_property(statistics: &Statistics, property: &str) -> Option<i64> {
    match property {
        "indexid" => Some(i64::from(statistics.id)),
        "isstatistics" => Some(1),
        "isautostatistics" => Some(i64::from(statistics.origin == StatisticsOrigin::Automatic)),
        "indexdepth"
        | "indexfillfactor"
        | "isclustered"
        | "iscolumnstore"
        | "isdisabled"
        | "isfulltextkey"
        | "ishypothetical"
        | "isoptimizedforsequentialkey"
        | "ispadindex"
        | "ispagelockdisallowed"
        | "isrowlockdisallowed"
        | "isunique" => Some(0),
        _ => None,
    }
}

/// The table column at an ordinal of an index key, and whether it is descending.
fn key_part(table: &Table, index: Option<i32>, ordinal: Option<i32>) -> Option<(usize, bool)> {
    let (index, ordinal) = (index?, usize::try_from(ordinal?).ok()?);
    let index = table.indexes.iter().find(|known| known.id.0 == index)?;
    let part = index.key.get(ordinal.checked_sub(1)?)?;
    Some((part.column, part.is_descending))
}

/// `INDEX_COL ('table', index_id, key_id)`.
pub(super) fn column(world: &World, arguments: &[Value]) -> Option<String> {
    let (database, schema, name) = split_name(world, &text_of(arguments, 0))?;
    let snapshot = database.snapshot();
    let table = snapshot.table(snapshot.schema_id(&schema)?, &name)?;
    let (column, _) = key_part(table, int_of(arguments, 1), int_of(arguments, 2))?;
    Some(table.columns[column].name.clone())
}

/// `INDEXKEY_PROPERTY (object_id, index_id, key_id, property)`.
pub(super) fn key_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&ObjectId(int_of(arguments, 0)?))?;
    let (column, is_descending) = key_part(table, int_of(arguments, 1), int_of(arguments, 2))?;
    match text_of(arguments, 3).to_lowercase().as_str() {
        "columnid" => Some(i64::from(table.columns[column].id)),
        "isdescending" => Some(i64::from(is_descending)),
        _ => None,
    }
}

/// `STATS_DATE (object_id, stats_id)`.
pub(super) fn statistics_date(world: &World, arguments: &[Value]) -> Value {
    let snapshot = world.database.snapshot();
    let table = int_of(arguments, 0).and_then(|id| snapshot.tables.get(&ObjectId(id)));
    let all = table.map(|table| snapshot.statistics_of(table)).unwrap_or_default();
    let found = all.iter().find(|statistics| Some(statistics.id) == int_of(arguments, 1));
    let updated = found.and_then(|statistics| statistics.updated);
    let exact = SqlType::DateTime2 { scale: 7 };
    let converted = updated.map(|time| convert_value(&Value::Int(time), exact, SqlType::DateTime));
    converted.and_then(Result::ok).unwrap_or(Value::Null)
}
