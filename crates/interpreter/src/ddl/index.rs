//! `CREATE`, `ALTER` and `DROP INDEX`, and the parts of `ALTER TABLE` that create, build or drop indexes.
//!
//! The engine creates the new definition and empty storage. This module sorts the rows into it. Then the engine
//! replaces the old definition. All of this is one statement.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors, number};
use hobt_catalog::{Index, IndexKind, IndexOptions, PartitionFunction, Table};
use hobt_engine::{DatabaseUse, EngineError, IndexDefinition, IndexSelector, KeyKind, LockTable, TableChange};
use hobt_tsql::ast::{
    AlterIndex, AlterIndexAction, Constraint, ConstraintKind, CreateIndex, DropIndex, IndexColumn, Literal, OptionItem,
    OptionValue, PartitionSelector, Storage, TableIndex,
};
use hobt_txn::{ProgressUnit, StatementContext};
use hobt_types::{SqlType, Value};

use super::statistics::of_index::IndexStatistics;
use super::table::data_space;
use crate::ddl::Definitions;
use crate::event::Message;
use crate::failure::Failure;
use crate::interpreter::Outcome;
use crate::place::Place;
use crate::query::one_stream;
use crate::stored_table::{store_of, target_of};
use hobt_binder::{BindOptions, QueryHints, all_rows, rows_by_key};
use hobt_operators::{IndexBuild, WriteTarget};
use hobt_table::{StatementRun, TableRead};

/// The engine call that begins a change of a table's definition.
pub(super) type Begin<'b> =
    dyn Fn(&StatementContext, (&str, &str), &mut LockTable<'_>) -> Result<TableChange, EngineError> + 'b;

impl Definitions<'_, '_> {
    pub(crate) fn create_index(&mut self, create: &CreateIndex) -> Result<Outcome, Failure> {
        let position = create.name.position;
        check_kind(create.columnstore, create.condition.is_some(), position)?;
        let (options, drops_existing) = self.index_options(&create.options, IndexOptions::default())?;
        let definition = IndexDefinition {
            name: Some(create.name.value.clone()),
            is_clustered: Some(create.clustered == Some(true)),
            columns: key_of(&create.columns),
            included: create.include.iter().map(|column| column.value.clone()).collect(),
            data_space: data_space(create.storage.as_ref()),
            constraint: None,
            options: IndexOptions { is_unique: create.unique, ..options },
            drops_existing,
        };
        let place = self.batch.place(&create.table)?;
        let database = Arc::clone(place.database.database());
        let which = IndexSelector::Named(create.name.value.clone());
        self.change_index(&place, position, &create.options, &which, &|context, table, lock| {
            database.begin_create_index(context, table, &definition, lock)
        })?;
        Ok(Outcome::QUIET)
    }

    /// Changes a table's definition: fills the storage that `begin` creates, and puts the new definition in force.
    pub(super) fn change_definition(
        &mut self,
        place: &Place,
        position: Position,
        max_dop: Option<u32>,
        begin: &Begin<'_>,
    ) -> Result<(), Failure> {
        self.change_then(place, position, max_dop, begin, |_, _| Ok(()))
    }

    /// Like [`Definitions::change_definition`], for an index: also applies the options for its statistics.
    fn change_index(
        &mut self,
        place: &Place,
        position: Position,
        options: &[OptionItem],
        which: &IndexSelector,
        begin: &Begin<'_>,
    ) -> Result<(), Failure> {
        let said = IndexStatistics::of(options);
        self.change_then(place, position, create_dop(options), begin, |this, run| match said {
            Some(said) => this.set_index_statistics(run, place, which, said, position),
            None => Ok(()),
        })
    }

    /// Changes a table's definition and runs `then` in the same statement.
    fn change_then(
        &mut self,
        place: &Place,
        position: Position,
        max_dop: Option<u32>,
        begin: &Begin<'_>,
        then: impl FnOnce(&mut Definitions<'_, '_>, &Arc<StatementRun>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let hints = QueryHints { maxdop: max_dop.filter(|dop| *dop > 0), ..QueryHints::default() };
        let run = self.batch.new_run(Some(&hints))?;
        let fill = |this: &mut Definitions<'_, '_>, changed: &TableChange| this.build(&run, &place.database, changed);
        let warnings = self.batch.in_run(&run, |this| {
            let mut definitions = this.definitions();
            let warnings = definitions.change_within(&run, place, position, begin, fill)?;
            then(&mut definitions, &run)?;
            Ok(warnings)
        })?;
        self.warn(warnings)?;
        Ok(())
    }

    /// Like [`Definitions::change_definition`], as a part of the run `run`. `fill` fills the new storage and makes sure
    /// that the rows conform to the definition. Returns the warnings.
    pub(super) fn change_within(
        &mut self,
        run: &Arc<StatementRun>,
        place: &Place,
        position: Position,
        begin: &Begin<'_>,
        fill: impl FnOnce(&mut Definitions<'_, '_>, &TableChange) -> Result<(), Failure>,
    ) -> Result<Vec<SqlError>, Failure> {
        run.uses_database(&place.database);
        let changed = self.locking_definition(&run.context, &place.database, |lock| {
            begin(&run.context, (&place.schema, &place.name), lock)
        });
        let changed = changed.map_err(|error| error.to_sql_error().at(position))?;
        fill(self, &changed)?;
        let warnings = changed.warnings().to_vec();
        place.database.database().finish_table_change(&run.context, changed).map_err(SqlError::from)?;
        Ok(warnings)
    }

    /// Builds the new storage of a table.
    pub(super) fn build(
        &mut self,
        run: &Arc<StatementRun>,
        database: &DatabaseUse,
        changed: &TableChange,
    ) -> Result<(), Failure> {
        let (old, new) = (changed.old(), changed.new_table());
        let target = target_of(database.clone(), Arc::clone(old))?;
        run.set_internal(true);
        // Each row is read, and sorted if the target is a tree.
        let rows = TableRead::new(database.clone(), Arc::clone(old), Arc::clone(run), false, false).row_count();
        let is_tree = |at: &usize| new.indexes[*at].kind != IndexKind::Heap;
        let steps = changed.to_build().iter().map(|(at, _)| if is_tree(at) { 2 * rows } else { rows }).sum();
        self.batch.state.progress.set(0, steps);
        self.batch.state.progress.count_in(ProgressUnit::Rows);
        run.count_scanned(&self.batch.state.progress);
        for (at, partitions) in changed.to_build() {
            // Other indexes are built from the new heap or clustered index, which their entries refer to.
            let source = if at == 0 { old } else { new };
            if new.indexes[at].kind == IndexKind::Heap {
                self.build_heap(run, database, &with_partitions(source, new, &partitions), new)?;
            } else {
                self.build_index(run, database, source, changed, &target, (at, &partitions))?;
            }
        }
        run.set_internal(false);
        Ok(())
    }

    /// Loads all rows of `source` into the heap of `table`.
    fn build_heap(
        &mut self,
        run: &Arc<StatementRun>,
        database: &DatabaseUse,
        source: &Arc<Table>,
        table: &Arc<Table>,
    ) -> Result<(), Failure> {
        let heap = Table::clone(table).with_indexes(vec![table.base_index().clone()]);
        let target = store_of(database.clone(), Arc::new(heap))?.moving();
        let rows = TableRead::new(database.clone(), Arc::clone(source), Arc::clone(run), false, false);
        let query = all_rows(&rows)?;
        self.batch.insert_query(run, BindOptions::default(), &|_| Ok(query.clone()), &target, true)?;
        Ok(())
    }

    /// Builds the indexes of a table whose rows an `INSERT` has just put into its empty heap or clustered index. The
    /// table is locked, and has `rows` rows.
    pub(crate) fn build_behind_insert(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        rows: u64,
    ) -> Result<(), Failure> {
        let (database, table) = (target.database(), target.table());
        run.set_internal(true);
        let mut built = Ok(());
        let is_built = |(_, index): &(usize, &Index)| !index.options.is_disabled;
        let behind: Vec<_> = table.indexes.iter().enumerate().skip(1).filter(is_built).collect();
        let (progress, parts) = (Arc::clone(&self.batch.state.progress), (1 + behind.len()) as f64);
        // A load in batches is as far as it has read its files.
        let counts = self.batch.file_batches.is_none();
        if counts {
            run.count_scanned(&progress);
            progress.count_in(ProgressUnit::Rows);
        }
        for (nth, (at, index)) in (2..).zip(behind) {
            if counts {
                progress.begin_part(f64::from(nth) / parts, 2 * rows);
            }
            let partitions: Vec<usize> = (0..index.partitions.len()).collect();
            let function = partitioning_of(database, index);
            built = IndexBuild::new(run, target, database, table, at, &partitions, function)
                .map_err(Failure::from)
                .and_then(|build| self.fill_index(run, (database, table), build.behind_insert(), None));
            if built.is_err() {
                break;
            }
        }
        run.set_internal(false);
        built
    }

    /// Sorts the rows of `source` into partitions of an index of `table`.
    fn build_index(
        &mut self,
        run: &Arc<StatementRun>,
        database: &DatabaseUse,
        source: &Arc<Table>,
        changed: &TableChange,
        target: &WriteTarget,
        (at, partitions): (usize, &[usize]),
    ) -> Result<(), Failure> {
        let table = changed.new_table();
        let function = partitioning_of(database, &table.indexes[at]);
        let build = IndexBuild::new(run, target, database, table, at, partitions, function)?;
        self.fill_index(run, (database, source), build, Some(changed))
    }

    /// Fills an index with the rows of `source`, in the order of its key.
    fn fill_index(
        &mut self,
        run: &Arc<StatementRun>,
        (database, source): (&DatabaseUse, &Arc<Table>),
        mut build: IndexBuild<'_>,
        changed: Option<&TableChange>,
    ) -> Result<(), Failure> {
        let rows = TableRead::new(database.clone(), Arc::clone(source), Arc::clone(run), true, false);
        let query = rows_by_key(&rows, build.key(), build.columns())?;
        let prepared = self.batch.prepare(run, BindOptions::default(), &|_| Ok(query.clone()), &one_stream)?;
        let progress = self.batch.file_batches.is_none().then(|| Arc::clone(&self.batch.state.progress));
        self.batch.run_prepared(run, prepared, &mut |batch| {
            progress.iter().for_each(|progress| progress.add(batch.num_rows() as u64));
            build.append(&batch)
        })?;
        build.finish(changed)?;
        Ok(())
    }

    pub(crate) fn drop_indexes(&mut self, drop: &DropIndex) -> Result<Outcome, Failure> {
        for dropped in &drop.indexes {
            let place = self.batch.place(&dropped.table)?;
            let position = dropped.name.position;
            let database = Arc::clone(place.database.database());
            self.index_options(&dropped.options, IndexOptions::default())?;
            let done =
                self.change_definition(&place, position, create_dop(&dropped.options), &|context, table, lock| {
                    database.begin_drop_index(context, table, &dropped.name.value, false, lock)
                });
            let done = done.map_err(|mut failure| {
                if failure.error.number == number::NO_SUCH_OBJECT {
                    let (table, index) = (&dropped.table.name.value, &dropped.name.value);
                    failure.error = errors::DROP_NO_SUCH_INDEX.with([&table, &index]).at(position);
                }
                failure
            });
            match done {
                Err(failure) if drop.if_exists && failure.error.number == number::DROP_DOES_NOT_EXIST => {}
                other => other?,
            }
        }
        Ok(Outcome::QUIET)
    }

    pub(crate) fn alter_index(&mut self, alter: &AlterIndex) -> Result<Outcome, Failure> {
        let place = self.batch.place(&alter.table)?;
        let position = alter.name.as_ref().map_or(alter.table.position(), |name| name.position);
        let which = match &alter.name {
            Some(name) => IndexSelector::Named(name.value.clone()),
            None => IndexSelector::All,
        };
        match &alter.action {
            AlterIndexAction::Rebuild { partition, options } => {
                self.rebuild(&place, &which, partition.as_ref(), options, position)?;
            }
            AlterIndexAction::Reorganize { partition, options } => {
                self.reorganize(&place, &which, partition.as_ref(), options, position)?;
            }
            AlterIndexAction::Disable => {
                let disable = |options| IndexOptions { is_disabled: true, ..options };
                self.set_index_options(&place, &which, &[], &disable, position)?;
            }
            AlterIndexAction::Set { options } => {
                let (set, _) = self.index_options(options, IndexOptions::default())?;
                let named = |name: &str| OptionItem::find(options, name).is_some();
                let merge = |old: IndexOptions| IndexOptions {
                    ignores_duplicates: if named("IGNORE_DUP_KEY") {
                        set.ignores_duplicates
                    } else {
                        old.ignores_duplicates
                    },
                    allows_row_locks: if named("ALLOW_ROW_LOCKS") {
                        set.allows_row_locks
                    } else {
                        old.allows_row_locks
                    },
                    allows_page_locks: if named("ALLOW_PAGE_LOCKS") {
                        set.allows_page_locks
                    } else {
                        old.allows_page_locks
                    },
                    is_sequential: if named("OPTIMIZE_FOR_SEQUENTIAL_KEY") {
                        set.is_sequential
                    } else {
                        old.is_sequential
                    },
                    ..old
                };
                self.set_index_options(&place, &which, options, &merge, position)?;
            }
        }
        Ok(Outcome::QUIET)
    }

    fn set_index_options(
        &mut self,
        place: &Place,
        which: &IndexSelector,
        written: &[OptionItem],
        options: &dyn Fn(IndexOptions) -> IndexOptions,
        position: Position,
    ) -> Result<(), Failure> {
        let database = Arc::clone(place.database.database());
        self.change_index(place, position, written, which, &|context, table, lock| {
            database.begin_index_options(context, table, which, options, lock)
        })
    }

    /// Rebuilds indexes.
    pub(super) fn rebuild(
        &mut self,
        place: &Place,
        which: &IndexSelector,
        partition: Option<&PartitionSelector>,
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        let partition = self.partition_selected(partition)?;
        let (set, _) = self.index_options(options, IndexOptions::default())?;
        let fill_factor = OptionItem::find(options, "FILLFACTOR").map(|_| set.fill_factor);
        let merge = |old: IndexOptions| IndexOptions {
            fill_factor: fill_factor.unwrap_or(old.fill_factor),
            is_padded: old.is_padded || set.is_padded,
            is_sequential: old.is_sequential || set.is_sequential,
            ..old
        };
        let database = Arc::clone(place.database.database());
        self.change_index(place, position, options, which, &|context, table, lock| {
            database.begin_rebuild(context, table, which, partition, &merge, lock)
        })
    }

    /// Rebuilds the heap or clustered index of a table, one partition of it (from 0), or another index, in free space.
    /// The definition stays the same.
    pub(crate) fn move_index(
        &mut self,
        database: &DatabaseUse,
        (schema, name): (&str, &str),
        which: &IndexSelector,
        partition: Option<usize>,
        position: Position,
    ) -> Result<(), Failure> {
        let place = Place { database: database.clone(), schema: schema.to_owned(), name: name.to_owned() };
        self.change_definition(&place, position, None, &|context, table, lock| {
            place.database.begin_rebuild(context, table, which, partition, &|options| options, lock)
        })
    }

    /// The index (from 0) of the partition that a statement names. `None` for all partitions.
    pub(super) fn partition_selected(
        &mut self,
        partition: Option<&PartitionSelector>,
    ) -> Result<Option<usize>, Failure> {
        Ok(match partition {
            None | Some(PartitionSelector::All) => None,
            Some(PartitionSelector::Number(number)) => match self.batch.evaluate_as(number, SqlType::BigInt)? {
                Value::Int(number) => Some(usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX)),
                _ => Some(usize::MAX),
            },
        })
    }

    /// The options that `WITH (…)` sets, and whether `DROP_EXISTING` is among them.
    fn index_options(
        &mut self,
        items: &[OptionItem],
        mut options: IndexOptions,
    ) -> Result<(IndexOptions, bool), Failure> {
        let mut drops_existing = false;
        for item in items {
            let is_on = !matches!(item.value, OptionValue::Off);
            match item.name.as_str() {
                "FILLFACTOR" => options.fill_factor = fill_factor(item)?,
                "PAD_INDEX" => options.is_padded = is_on,
                "IGNORE_DUP_KEY" => options.ignores_duplicates = is_on,
                "ALLOW_ROW_LOCKS" => options.allows_row_locks = is_on,
                "ALLOW_PAGE_LOCKS" => options.allows_page_locks = is_on,
                "OPTIMIZE_FOR_SEQUENTIAL_KEY" => {
                    options.is_sequential = is_on;
                    if is_on {
                        let text = "OPTIMIZE_FOR_SEQUENTIAL_KEY is kept with the index and changes nothing: inserts at the \
                                    end of an index are not held back here.";
                        self.batch.send_message(Message::plain(item.span.position.line, text))?;
                    }
                }
                "DROP_EXISTING" => drops_existing = is_on,
                // Without effect on the build. `change_index` applies the options for statistics.
                "SORT_IN_TEMPDB"
                | "STATISTICS_NORECOMPUTE"
                | "STATISTICS_INCREMENTAL"
                | "MAXDOP"
                | "LOB_COMPACTION" => {}
                // Other sessions always wait while an index is built, so ON is rejected rather than ignored.
                "ONLINE" | "RESUMABLE" if !is_on => {}
                "DATA_COMPRESSION" | "XML_COMPRESSION"
                    if !is_on || matches!(&item.value, OptionValue::Word(word) if word.is("NONE")) => {}
                other @ ("ONLINE" | "RESUMABLE" | "DATA_COMPRESSION" | "XML_COMPRESSION" | "COMPRESSION_DELAY"
                | "MAX_DURATION") => {
                    let text = format!("The index option {other}");
                    return Err(SqlError::not_supported(text).at(item.span.position).into());
                }
                other => return Err(errors::UNKNOWN_OPTION.with([&other, &"index"]).at(item.span.position).into()),
            }
        }
        Ok((options, drops_existing))
    }

    /// The index of a `PRIMARY KEY` or `UNIQUE` constraint. `of_column` is the column that it is written on.
    pub(super) fn key_definition(
        &mut self,
        constraint: &Constraint,
        of_column: Option<&str>,
    ) -> Result<IndexDefinition, Failure> {
        let ConstraintKind::Key { primary, clustered, columns, options, storage } = &constraint.kind else {
            return Err(SqlError::internal("a constraint that is no key").into());
        };
        let columns = match of_column {
            Some(column) if columns.is_empty() => vec![(column.to_owned(), false)],
            _ => key_of(columns),
        };
        let (options, _) = self.index_options(options, IndexOptions::default())?;
        Ok(IndexDefinition {
            name: constraint.name.as_ref().map(|name| name.value.clone()),
            is_clustered: *clustered,
            columns,
            included: Vec::new(),
            data_space: data_space(storage.as_ref() as Option<&Storage>),
            constraint: Some(if *primary { KeyKind::Primary } else { KeyKind::Unique }),
            options,
            drops_existing: false,
        })
    }

    /// The engine's definition of an index in the definition of a table.
    pub(super) fn index_definition(
        &mut self,
        index: &TableIndex,
        of_column: Option<&str>,
    ) -> Result<IndexDefinition, Failure> {
        let position = index.name.position;
        check_kind(index.columnstore, index.condition.is_some(), position)?;
        let (options, drops_existing) = self.index_options(&index.options, IndexOptions::default())?;
        if drops_existing {
            let text = "the option DROP_EXISTING of an index whose table is being made";
            return Err(SqlError::not_supported(text).at(position).into());
        }
        let columns = match of_column {
            Some(column) if index.columns.is_empty() => vec![(column.to_owned(), false)],
            _ => key_of(&index.columns),
        };
        Ok(IndexDefinition {
            name: Some(index.name.value.clone()),
            is_clustered: Some(index.clustered == Some(true)),
            columns,
            included: index.include.iter().map(|column| column.value.clone()).collect(),
            data_space: data_space(index.storage.as_ref()),
            constraint: None,
            options: IndexOptions { is_unique: index.unique, ..options },
            drops_existing: false,
        })
    }
}

/// Rejects kinds of indexes that are not supported.
fn check_kind(columnstore: bool, is_filtered: bool, position: Position) -> Result<(), SqlError> {
    if columnstore {
        return Err(SqlError::not_supported("CREATE COLUMNSTORE INDEX").at(position));
    }
    if is_filtered {
        return Err(SqlError::not_supported("A filtered index").at(position));
    }
    Ok(())
}

/// The table with only those partitions whose rows go into `partitions` of the new heap.
fn with_partitions(source: &Arc<Table>, table: &Table, partitions: &[usize]) -> Arc<Table> {
    let (old, new) = (source.base_index(), table.base_index());
    if partitions.len() == new.partitions.len() || old.data_space != new.data_space {
        return Arc::clone(source);
    }
    let mut part = Table::clone(source);
    part.indexes[0].partitions = partitions.iter().map(|&at| old.partitions[at].clone()).collect();
    Arc::new(part)
}

fn key_of(columns: &[IndexColumn]) -> Vec<(String, bool)> {
    columns.iter().map(|column| (column.name.value.clone(), column.descending)).collect()
}

/// `MAXDOP` among the options of an index.
fn create_dop(options: &[OptionItem]) -> Option<u32> {
    match &OptionItem::find(options, "MAXDOP")?.value {
        OptionValue::Literal(Literal::Integer(dop)) => dop.to_string().parse().ok(),
        _ => None,
    }
}

/// 129.
fn fill_factor(item: &OptionItem) -> Result<u8, SqlError> {
    let given = match &item.value {
        OptionValue::Literal(Literal::Integer(percent)) => percent.to_string().parse::<i64>().unwrap_or(-1),
        _ => -1,
    };
    match u8::try_from(given) {
        Ok(percent @ 1..=100) => Ok(percent),
        _ => Err(errors::FILL_FACTOR.with([&given]).at(item.span.position)),
    }
}

/// The table column that an index is partitioned by, and the partition function.
fn partitioning_of(database: &DatabaseUse, index: &Index) -> Option<(usize, Arc<PartitionFunction>)> {
    let snapshot = database.snapshot();
    snapshot.partitioning_of(&index.data_space).map(|(column, function)| (column, Arc::clone(function)))
}
