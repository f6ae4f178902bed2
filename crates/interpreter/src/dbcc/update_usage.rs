//! `DBCC UPDATEUSAGE`: makes tables show their real counts again, after `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT`
//! or a clone has set others. The counts that hobt itself maintains are never wrong.

use std::sync::Arc;

use hobt_base::{IndexId, Position, SqlError, errors};
use hobt_catalog::Table;
use hobt_tsql::ast::OptionItem;
use hobt_types::Value;

use super::check::tables;
use super::no_such_table;
use crate::dbcc::Maintenance;
use crate::failure::Failure;

impl Maintenance<'_, '_> {
    /// `DBCC UPDATEUSAGE (database [, table [, index]]) [WITH COUNT_ROWS]`: resets page counts, and row counts with the
    /// option.
    ///
    /// # Errors
    /// 155, 911, 2501, 2560, 2573, 2583; those of a change of the catalog.
    pub(super) fn update_usage(
        &mut self,
        arguments: &[Value],
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        if !(1..=3).contains(&arguments.len()) {
            return Err(errors::DBCC_ARGUMENT_COUNT.error().at(position).into());
        }
        let is_known = |item: &&OptionItem| ["COUNT_ROWS", "NO_INFOMSGS"].contains(&item.name.as_str());
        if let Some(other) = options.iter().find(|item| !is_known(item)) {
            return Err(errors::UNKNOWN_OPTION.with([&other.name, &"DBCC UPDATEUSAGE"]).at(other.span.position).into());
        }
        let database = self.database_to_check(arguments.first(), "UPDATEUSAGE", position)?;
        let wanted: Vec<Arc<Table>> = match arguments.get(1) {
            None => tables(&database).into_values().collect(),
            Some(name) => {
                let (place, table) = self.table_to_check(name, position)?;
                if place.database.id() != database.id() {
                    return Err(no_such_table(&place.name).at(position).into());
                }
                vec![table]
            }
        };
        let index = arguments.get(2).map(|index| index_of(&wanted, index, position)).transpose()?;
        let counts_rows = OptionItem::find(options, "COUNT_ROWS").is_some();
        self.batch.in_context(&database, |_, context| {
            for table in &wanted {
                let ended = database.database().end_said_counts(context, table, index, counts_rows);
                ended.map_err(|error| error.to_sql_error().at(position))?;
            }
            Ok(())
        })
    }
}

/// The index with this name or number.
fn index_of(tables: &[Arc<Table>], index: &Value, position: Position) -> Result<IndexId, SqlError> {
    let found = tables.first().and_then(|table| match index {
        Value::Text(name) => table.index_named(name),
        Value::Int(id) => table.indexes.iter().find(|index| i64::from(index.id.0) == *id),
        _ => None,
    });
    let wrong = || errors::DBCC_PARAMETER.with([&3]);
    found.map(|index| index.id).ok_or_else(|| wrong().at(position))
}
