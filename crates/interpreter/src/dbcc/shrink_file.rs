//! `DBCC SHRINKFILE (file, EMPTYFILE)`: moves the contents of a data file to the other files of its filegroup.
//!
//! Versions, locks and indexes identify rows by their pages, so pages are not moved individually. Instead, no more
//! extents are allocated in the file, and each heap or index with extents in it is rebuilt in a statement of its own,
//! like `ALTER INDEX … REBUILD`. Other sessions wait for a table only while it is rebuilt. No extents are allocated in
//! the file until the next start of the instance, so it is still empty when it is removed.

use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, FileId, Position, SqlError, errors};
use hobt_catalog::{DataSpace, DatabaseFile, Index, Table, name_equals};
use hobt_engine::{DatabaseUse, EngineError, IndexSelector};
use hobt_types::{SqlType, Value};

use crate::dbcc::Maintenance;
use crate::failure::Failure;

/// A partition of an index, by its position. `None` for an index without partitions.
type Part = Option<usize>;

impl Maintenance<'_, '_> {
    pub(super) fn shrink_file(&mut self, arguments: &[Value], position: Position) -> Result<(), Failure> {
        let empties = matches!(arguments.get(1), Some(Value::Text(text)) if text.eq_ignore_ascii_case("EMPTYFILE"));
        if !empties || arguments.len() != 2 {
            let text = "DBCC SHRINKFILE but with EMPTYFILE: files are not made smaller";
            return Err(SqlError::not_supported(text).at(position).into());
        }
        if self.batch.state.transaction.is_some() {
            return Err(errors::DBCC_IN_TRANSACTION.error().at(position).into());
        }
        let database = self.batch.state.database.clone();
        let file = data_file(&database, &arguments[0]).map_err(|error| error.at(position))?;
        if file.id == FileId(1) {
            return Err(not_emptied(&file, "It is the primary file.").at(position).into());
        }
        let storage_error = |error| Failure::from(SqlError::from(database.storage_error(error)).at(position));
        database.begin_change().map_err(|error: EngineError| error.to_sql_error().at(position))?;
        // Checked before the file is set aside too, so that allocations in a filegroup without another file do not fail
        // needlessly.
        expect_other_file(&database, &file).map_err(|error| error.at(position))?;
        let was_aside = database.storage().set_aside(file.id, true).map_err(storage_error)?;
        let emptied = self.empty_file(&database, &file, position);
        if emptied.is_err() && !was_aside {
            database.storage().set_aside(file.id, false).map_err(storage_error)?;
        }
        emptied?;
        let open = database.storage().file(file.id).map_err(storage_error)?;
        let used = (open.size_pages() / EXTENT_PAGES - open.free_extents()) * EXTENT_PAGES;
        let (id, size) = (i64::from(database.id().0), i64::from(open.size_pages()));
        let values = [id, i64::from(file.id.0), size, size, i64::from(used), i64::from(used)];
        let columns = [
            ("DbId", SqlType::SmallInt),
            ("FileId", SqlType::SmallInt),
            ("CurrentSize", SqlType::Int),
            ("MinimumSize", SqlType::Int),
            ("UsedPages", SqlType::Int),
            ("EstimatedPages", SqlType::Int),
        ];
        self.batch.send_values(&columns, vec![values.map(Value::Int).to_vec()]).map(|_| ())
    }

    /// Rebuilds everything that has extents in a file that is set aside.
    fn empty_file(&mut self, database: &DatabaseUse, file: &DatabaseFile, position: Position) -> Result<(), Failure> {
        let storage = Arc::clone(database.storage());
        let is_empty = || storage.file(file.id).is_ok_and(|file| file.is_empty());
        if is_empty() {
            return Ok(());
        }
        expect_other_file(database, file).map_err(|error| error.at(position))?;
        let snapshot = database.snapshot();
        let mut tables: Vec<Arc<Table>> = snapshot.tables.values().filter(|table| !table.is_system).cloned().collect();
        tables.sort_unstable_by_key(|table| table.id);
        for table in tables {
            let schema = snapshot.schema_by_id(table.schema).map_or("dbo", |schema| schema.name.as_str());
            if self.batch.is_cancelled() {
                return Err(Failure::cancelled());
            }
            self.move_out_of(database, (schema, &table), file.id, position)?;
        }
        if is_empty() {
            return Ok(());
        }
        let why = "System tables, disabled indexes or open transactions have extents in it.";
        Err(not_emptied(file, why).at(position).into())
    }

    /// Rebuilds the indexes of a table that have extents in a file.
    fn move_out_of(
        &mut self,
        database: &DatabaseUse,
        (schema, table): (&str, &Arc<Table>),
        file: FileId,
        position: Position,
    ) -> Result<(), Failure> {
        for (place, index) in table.indexes.iter().enumerate() {
            if index.options.is_disabled {
                continue;
            }
            let which = match &index.name {
                Some(name) if place > 0 => IndexSelector::Named(name.clone()),
                _ => IndexSelector::Base,
            };
            // A rebuilt heap also rebuilds its indexes, so the definition is read again.
            let now = database.snapshot();
            let Some(now) = now.tables.get(&table.id) else { return Ok(()) };
            let Some(now) = now.indexes.iter().find(|now| now.id == index.id) else { continue };
            for part in parts_in(database, now, file).map_err(|error| error.at(position))? {
                self.batch.definitions().move_index(database, (schema, &table.name), &which, part, position)?;
            }
        }
        Ok(())
    }
}

/// The partitions of an index that have extents in a file.
fn parts_in(database: &DatabaseUse, index: &Index, file: FileId) -> Result<Vec<Part>, SqlError> {
    let mut parts = Vec::new();
    for (at, partition) in index.partitions.iter().enumerate() {
        let hobt = database.hobt_to_read(partition.hobt)?;
        if hobt.runs().iter().any(|run| run.first.file == file) {
            parts.push(matches!(index.data_space, DataSpace::Scheme { .. }).then_some(at));
        }
    }
    Ok(parts)
}

/// The data file with this name or id.
fn data_file(database: &DatabaseUse, argument: &Value) -> Result<DatabaseFile, SqlError> {
    let snapshot = database.snapshot();
    let found = snapshot.files.iter().find(|file| match argument {
        Value::Text(name) => name_equals(&file.name, name),
        Value::Int(id) => i64::from(file.id.0) == *id,
        _ => false,
    });
    if let Some(found) = found {
        return Ok(found.clone());
    }
    let named = match argument {
        Value::Text(name) => name.clone(),
        Value::Int(id) => id.to_string(),
        _ => String::new(),
    };
    Err(errors::DBCC_NO_SUCH_FILE.with([&named, &database.name()]))
}

/// 2555.
fn not_emptied(file: &DatabaseFile, why: &str) -> SqlError {
    errors::FILE_NOT_EMPTIED.with([&file.name, &why])
}

/// Fails if a file that is not empty is the only file of its filegroup in which extents are allocated.
fn expect_other_file(database: &DatabaseUse, file: &DatabaseFile) -> Result<(), SqlError> {
    let files = database.storage().files();
    let takes_all = |other: &Arc<hobt_access::DataFile>| other.filegroup() == file.filegroup && !other.is_set_aside();
    if files.iter().any(|own| own.id() == file.id && own.is_empty())
        || files.iter().any(|other| other.id() != file.id && takes_all(other))
    {
        return Ok(());
    }
    Err(errors::NO_ROOM_TO_EMPTY_FILE.error())
}
