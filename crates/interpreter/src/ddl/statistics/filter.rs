//! The filters that a statistics object may have: those that an estimate can compare with a query's conditions.

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::Table;
use hobt_tsql::ast::{Condition, CreateStatistics};

use hobt_table::filter_parts;

/// Rejects a `WHERE` that is not valid for a statistics object.
///
/// # Errors
/// 102, 156 for words that it cannot contain; 207 for a column that the table does not have; 10609 for a computed
/// column; 10620 for a comparison with NULL; 10735 for anything other than comparisons of columns with constants; 112,
/// 1046.
pub(super) fn check_filter(create: &CreateStatistics, condition: &Condition, table: &Table) -> Result<(), SqlError> {
    let (name, of_table) = (&create.name.value, &create.table);
    let refused = |position: Position| errors::FILTER_CLAUSE.with([&name, &of_table]).at(position);
    let null = |position: Position| errors::FILTER_NULL.with([&name, &of_table]).at(position);
    for part in filter_parts(condition, &refused, &null)? {
        let (column, position) = (&part.column.name.value, part.column.position());
        let place = table.column_named(column);
        let is_computed = table.virtual_column_named(column).is_some()
            || place.is_some_and(|place| table.columns[place].computed.is_some());
        if is_computed {
            return Err(errors::FILTER_COMPUTED.with([&name, &of_table, &column]).at(position));
        }
        if place.is_none() {
            return Err(errors::INVALID_COLUMN.with([&column]).at(position));
        }
    }
    Ok(())
}
