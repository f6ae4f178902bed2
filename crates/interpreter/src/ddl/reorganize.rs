//! `ALTER INDEX … REORGANIZE`: an index's leaves are compacted and put in order in place.
//!
//! Only sessions that lock the whole table conflict with this. Completed work is kept even if the statement is
//! cancelled, fails, or belongs to a transaction that is rolled back, because by their keys the rows are where they
//! were. Long values are not moved, with or without `LOB_COMPACTION`.

use std::sync::Arc;

use hobt_access::RowStore;
use hobt_base::{Position, SqlError, errors};
use hobt_catalog::{Index, IndexKind, Table};
use hobt_engine::{IndexSelector, no_such_object, partitions_named};
use hobt_tsql::ast::{OptionItem, PartitionSelector};
use hobt_txn::locks::LockMode;

use crate::ddl::Definitions;
use crate::failure::Failure;
use crate::place::Place;
use crate::table_locks::{BIND_ATTEMPTS, definition_changed};
use hobt_table::StatementRun;

impl Definitions<'_, '_> {
    pub(super) fn reorganize(
        &mut self,
        place: &Place,
        which: &IndexSelector,
        partition: Option<&PartitionSelector>,
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        const OPTIONS: [&str; 2] = ["LOB_COMPACTION", "COMPRESS_ALL_ROW_GROUPS"];
        if let Some(other) = options.iter().find(|item| !OPTIONS.contains(&item.name.as_str())) {
            return Err(errors::UNKNOWN_OPTION
                .with([&other.name, &"ALTER INDEX REORGANIZE"])
                .at(other.span.position)
                .into());
        }
        let partition = self.partition_selected(partition)?;
        let run = self.batch.new_run(None)?;
        self.batch.in_run(&run, |this| {
            let table = this.definitions().lock_to_reorganize(&run, place, position)?;
            let picked = which.pick(&table).map_err(|error| error.to_sql_error().at(position))?;
            let is_named = matches!(which, IndexSelector::Named(_));
            let mut work = Vec::new();
            for index in picked.into_iter().map(|at| &table.indexes[at]) {
                if index.kind == IndexKind::Heap || index.options.is_disabled && !is_named {
                    continue;
                }
                check_index(&table, index).map_err(|error| error.at(position))?;
                let partitions = partitions_named(&table, index, partition);
                for at in partitions.map_err(|error| error.to_sql_error().at(position))? {
                    let store = place.database.store(index.partitions[at].hobt).map_err(SqlError::from)?;
                    let RowStore::Tree(tree) = store else {
                        return Err(SqlError::internal("an index that is no tree").into());
                    };
                    work.push((tree, index.options.fill_factor));
                }
            }
            let (count, progress) = (work.len() as u64, Arc::clone(&this.state.progress));
            for (nth, (tree, fill_factor)) in (0..).zip(&work) {
                let mut show = |done, all| progress.set(nth * all + done, count * all);
                let done = tree.reorganize(&run.context, *fill_factor, &mut show);
                done.map_err(|error| place.database.storage_error(error).to_sql_error().at(position))?;
            }
            Ok(())
        })
    }

    /// Locks the table so that until the statement ends no other session changes its definition or bulk-loads rows.
    fn lock_to_reorganize(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        position: Position,
    ) -> Result<Arc<Table>, Failure> {
        run.uses_database(&place.database);
        for _ in 0..BIND_ATTEMPTS {
            let find = || {
                let snapshot = place.database.snapshot();
                let schema = snapshot.schema_id(&place.schema)?;
                snapshot.table(schema, &place.name).filter(|table| !table.is_system).map(Arc::clone)
            };
            let Some(table) = find() else {
                return Err(no_such_object(&place.name).at(position).into());
            };
            let lock = self.batch.lock(&run.context, &place.database, table.id, LockMode::IntentExclusive)?;
            run.hold_locks_for_statement(vec![lock]);
            if find().is_some_and(|now| Arc::ptr_eq(&now, &table)) {
                return Ok(table);
            }
        }
        Err(definition_changed().into())
    }
}

/// 1973, 2552.
fn check_index(table: &Table, index: &Index) -> Result<(), SqlError> {
    let name = index.name.as_deref().unwrap_or("");
    if index.options.is_disabled {
        return Err(errors::INDEX_IS_DISABLED.with([&name, &table.name]));
    }
    if !index.options.allows_page_locks {
        return Err(errors::PAGE_LOCKS_DISABLED.with([&name, &table.name]));
    }
    Ok(())
}
