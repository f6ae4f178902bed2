//! The index options `STATISTICS_INCREMENTAL` and `STATISTICS_NORECOMPUTE`.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_catalog::{DataSpace, Statistics, Table};
use hobt_engine::IndexSelector;
use hobt_tsql::ast::{OptionItem, OptionValue};

use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::place::Place;
use hobt_table::StatementRun;

/// The options of an index that concern its statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ddl) struct IndexStatistics {
    incremental: Option<bool>,
    no_recompute: Option<bool>,
}

impl IndexStatistics {
    /// Reads a list of options. `None` if none concerns statistics.
    pub(in crate::ddl) fn of(options: &[OptionItem]) -> Option<IndexStatistics> {
        let is_on = |name: &str| OptionItem::find(options, name).map(|item| !matches!(item.value, OptionValue::Off));
        let said = IndexStatistics {
            incremental: is_on("STATISTICS_INCREMENTAL"),
            no_recompute: is_on("STATISTICS_NORECOMPUTE"),
        };
        (said.incremental.is_some() || said.no_recompute.is_some()).then_some(said)
    }
}

/// Rejects incremental statistics if the table is not partitioned, or if there is a filter, as SQL Server does.
///
/// # Errors
/// 9108.
pub(super) fn check_incremental(table: &Table, is_filtered: bool, position: Position) -> Result<(), SqlError> {
    if is_partitioned(table) && !is_filtered {
        return Ok(());
    }
    Err(errors::CANNOT_BE_INCREMENTAL.error().at(position))
}

/// Whether a table's rows are stored by a partition scheme.
pub(crate) fn is_partitioned(table: &Table) -> bool {
    matches!(table.base_index().data_space, DataSpace::Scheme { .. })
}

impl Definitions<'_, '_> {
    /// Sets these options for the statistics of indexes that a statement has created or changed.
    ///
    /// # Errors
    /// 9108 if the index is not partitioned as the table is; a device's error.
    pub(in crate::ddl) fn set_index_statistics(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        which: &IndexSelector,
        said: IndexStatistics,
        position: Position,
    ) -> Result<(), Failure> {
        let snapshot = place.database.snapshot_of(&run.context);
        let schema = snapshot.schema_id(&place.schema);
        let Some(table) = schema.and_then(|schema| snapshot.table(schema, &place.name)) else { return Ok(()) };
        for statistics in snapshot.statistics_of(table) {
            let Some(index) = table.indexes.iter().find(|index| index.id.0 == statistics.id) else { continue };
            let is_wanted = match which {
                IndexSelector::All => true,
                IndexSelector::Named(name) => hobt_catalog::name_equals(&statistics.name, name),
                IndexSelector::Base => index.id == table.base_index().id,
            };
            if !is_wanted {
                continue;
            }
            let is_aligned = is_partitioned(table) && index.data_space == table.base_index().data_space;
            if said.incremental == Some(true) && !is_aligned {
                return Err(errors::CANNOT_BE_INCREMENTAL.error().at(position).into());
            }
            let changed = Statistics {
                is_incremental: said.incremental.unwrap_or(statistics.is_incremental),
                no_recompute: said.no_recompute.unwrap_or(statistics.no_recompute),
                ..Statistics::clone(&statistics)
            };
            self.set(run, place, table, changed, position)?;
        }
        Ok(())
    }
}
