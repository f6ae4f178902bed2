//! CREATE DATABASE and DROP DATABASE.
//!
//! Creation: files, folder synced, row in `master`. Dropping is the reverse. A crash in between leaves at worst files
//! that no database lists, never a database without its files. Such files do not prevent the next attempt
//! (`left_over`).

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use hobt_base::{DatabaseId, FileId, errors};
use hobt_catalog::{CatalogError, DatabaseFileRow, DatabaseRow, SystemHeaps, Text, Timestamp};
use hobt_disk::DiskError;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;

use super::plan::{DatabasePlan, Planning};
use super::registry::{Entry, EntryState, Untold};
use super::{DatabaseUse, Instance, does_not_exist};
use crate::data_file::{DataFile, is_of_another};
use crate::database::{Database, MASTER, NewDatabase, TEMPDB};
use crate::definition::{DatabaseDefinition, check_name};
use crate::error::{EngineError, Result, cannot_create};
use crate::isolation::IsolationOptions;
use crate::log_file;
use hobt_instruments::time_of_day;

/// A database that was created.
#[derive(Debug)]
pub struct Created {
    /// The database, in use.
    pub database: DatabaseUse,
    /// Empty files left by a statement that a crash interrupted; they were removed.
    pub left_over: Vec<PathBuf>,
}

/// Sixteen bytes, unique to a database: from the system's random source, through two keyed hashes.
pub(super) fn new_guid() -> [u8; 16] {
    let (first, second) = (RandomState::new(), RandomState::new());
    let seed = time_of_day();
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&first.hash_one(seed).to_le_bytes());
    guid[8..].copy_from_slice(&second.hash_one(seed).to_le_bytes());
    guid
}

impl Database {
    /// The databases that `master` lists, and their files.
    pub(crate) fn listed_databases(
        &self,
    ) -> std::result::Result<(Vec<DatabaseRow>, Vec<DatabaseFileRow>), CatalogError> {
        let heaps = self.heaps();
        Ok((heaps.rows()?, heaps.rows()?))
    }
}

impl Instance {
    /// Creates a database, and holds it. Blocks on creating its files.
    ///
    /// # Errors
    /// 1801 the name is taken, 1828 a logical name is used twice, 1834 a file belongs to a database, 5170 a file exists
    /// that was not left by a crash, 5123 a path is not allowed or the system refuses it, 5149 the system refuses the
    /// size, 5169 a size above its maximum. Nothing is left then.
    pub fn create_database(&self, definition: &DatabaseDefinition) -> Result<Created> {
        let _alone = self.definitions.lock();
        let name = &definition.name;
        check_name(name)?;
        let master = self.master()?;
        if self.registry.named(name).is_some() {
            return Err(EngineError::Statement(errors::DATABASE_EXISTS.with([&name])));
        }
        let mut planning = Planning::of_new(name);
        let plan = self.plan_database(definition, &mut planning)?;
        let id = take_id(&self.next_database)?;
        let paths: Vec<_> = plan.files.iter().map(|file| (file.file, file.path.clone())).collect();
        let logs: Vec<_> = plan.logs.iter().map(|file| (file.file, file.path.clone())).collect();
        let database = self.make_database(id, name, plan)?;
        let listed = self.list_database(&master, &database, &paths, &logs);
        if let Err(error) = listed {
            // The first error is the one to report.
            let _ = database.abandon();
            drop(database);
            // If the list in master is uncertain, master may list the database after its recovery.
            if master.check_usable().is_ok() {
                self.remove_files(logs.iter().chain(&paths).map(|(_, path)| path.as_path()));
            }
            return Err(error);
        }
        self.registry.insert(Entry {
            id: database.id(),
            name: name.clone(),
            guid: database.guid(),
            created: database.created(),
            isolation: Arc::new(IsolationOptions::of_new_database()),
            options: Mutex::new(database.options()),
            files: Mutex::new(paths),
            logs: Mutex::new(logs),
            overlay: Mutex::default(),
            copies: None,
            removed: Mutex::default(),
            is_opening: Default::default(),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(EntryState::Open(database))),
        });
        Ok(Created { database: self.database_by_id(id)?, left_over: planning.into_removed() })
    }

    /// Creates the files and the catalog in them; if a step fails, what was created is removed.
    fn make_database(&self, id: DatabaseId, name: &str, plan: DatabasePlan) -> Result<Arc<Database>> {
        let guid = new_guid();
        let mut files = Vec::with_capacity(plan.files.len());
        for file in &plan.files {
            match DataFile::create(&*self.disk, file, guid) {
                Ok(made) => files.push(made),
                Err(error) => {
                    let made: Vec<PathBuf> = files.drain(..).map(|made: DataFile| made.path).collect();
                    self.remove_files(made.iter().map(PathBuf::as_path));
                    return Err(cannot_create(&file.path, &error));
                }
            }
        }
        let paths: Vec<&Path> = plan.files.iter().map(|file| file.path.as_path()).collect();
        // After a crash, the owner of a log without data files beside it would be unknown.
        if let Err(error) = self.sync_folders(&paths) {
            drop(files);
            self.remove_files(paths.into_iter());
            return Err(error);
        }
        let log = match log_file::create(&*self.disk, &plan.logs, &self.parts.log_owner(id, &guid)) {
            Ok(log) => log,
            Err((path, error)) => {
                drop(files);
                self.remove_files(paths.into_iter());
                return Err(cannot_create(&path, &error));
            }
        };
        let logs = plan.logs.iter().map(|file| file.path.as_path());
        let paths: Vec<&Path> = logs.chain(paths).collect();
        let (name, filegroups) = (name.to_owned(), plan.filegroups);
        let new = NewDatabase { id, name, guid, created: time_of_day(), filegroups, files, log: Some(log) };
        let made = Database::create(&self.parts, new).and_then(|database| {
            self.sync_folders(&paths).map(|()| Arc::clone(&database)).inspect_err(|_| {
                // The files are removed, so an error of the pool does not matter.
                let _ = database.abandon();
            })
        });
        if made.is_err() {
            self.remove_files(paths.into_iter());
        }
        made
    }

    pub(super) fn list_database(
        &self,
        master: &DatabaseUse,
        database: &Database,
        paths: &[(FileId, PathBuf)],
        logs: &[(FileId, PathBuf)],
    ) -> Result<()> {
        let id = database.id().0.cast_signed();
        let row = DatabaseRow {
            id,
            name: database.name().to_owned(),
            guid: database.guid(),
            created: Timestamp(database.created()),
            isolation: IsolationOptions::of_new_database().bits(),
            is_offline: false,
        };
        master.change_and_save(|heaps, ctx| {
            heaps.insert(ctx, &row)?;
            let all = paths.iter().map(|path| (path, false)).chain(logs.iter().map(|path| (path, true)));
            all.into_iter().try_for_each(|((file, path), is_log)| {
                let path = Text(self.allowed.stored(path));
                let file = file.0.cast_signed();
                heaps.insert(ctx, &DatabaseFileRow { database: id, file, is_log, is_removed: false, path })
            })
        })
    }

    /// Drops a database and its files.
    ///
    /// # Errors
    /// 3701 it does not exist, 3708 it is a system database, 3709 it has snapshots, 3702 it is in use, or it decides on
    /// a transaction for a database that cannot be told now; a device's error.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        let entry = self
            .registry
            .named(name)
            .ok_or_else(|| EngineError::Statement(errors::DROP_DOES_NOT_EXIST.with([&"database", &name])))?;
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::SYSTEM_DATABASE.with([&name])));
        }
        self.registry.refuse_source(&entry)?;
        self.refuse_last_copy(&entry)?;
        let master = self.master()?;
        let in_use = |why: &str| EngineError::Statement(errors::DATABASE_IN_USE.with([&name, &why]));
        // While it is still listed, so that databases that have to be recovered first can ask it.
        self.stop_background(Some(entry.id));
        let untold = self.registry.tell_participants(&self.parts, &entry);
        if !untold.is_empty() {
            return Err(in_use(&untold_participants(&untold)));
        }
        let Some(transition) = self.take_unused(entry.id) else { return Err(in_use("")) };
        // Again, for transactions that committed meanwhile; none does any more.
        let untold = self.registry.tell_participants(&self.parts, &entry);
        if !untold.is_empty() {
            return Err(in_use(&untold_participants(&untold)));
        }
        let id = entry.id.0.cast_signed();
        master.change_and_save(|heaps, ctx| delete_database(heaps, ctx, id))?;
        transition.remove();
        let dropped = EntryState::Unavailable {
            state: crate::DatabaseState::RecoveryPending,
            reason: "it was dropped".to_owned(),
        };
        let state = std::mem::replace(&mut *entry.state.lock(), dropped);
        let (released, unavailable) = match state {
            EntryState::Open(database) => (database.abandon(), None),
            EntryState::Closed(_) => (Ok(()), None),
            EntryState::Unavailable { state, .. } => (Ok(()), Some(state)),
        };
        if entry.is_snapshot() {
            self.forget_snapshot(&entry);
            return released;
        }
        // No database will ask for the outcome of transactions it was prepared for.
        self.parts.shared.settlements.note(entry.guid);
        let mut paths: Vec<PathBuf> = entry.logs.lock().iter().map(|(_, path)| path.clone()).collect();
        paths.extend(entry.files.lock().iter().map(|(_, path)| path.clone()));
        match unavailable {
            None => {}
            // As in SQL Server: the files of an offline database may have been put to another use.
            Some(crate::DatabaseState::Offline) => paths.clear(),
            // The reason may be that a file of another database has taken its place.
            Some(_) => paths.retain(|path| !is_of_another(&*self.disk, path, &entry.guid)),
        }
        self.remove_files(paths.iter().map(PathBuf::as_path));
        self.drop_overlay_file(&entry);
        self.forget_page_restore(&entry);
        self.delete_removed_of(&entry);
        released
    }

    /// Removes files of a database that is not listed anywhere, log files first: the data files identify the owner of a
    /// log. A file left behind is later refused as existing, unless it is empty.
    pub(super) fn remove_files<'a>(&self, paths: impl Iterator<Item = &'a Path> + Clone) {
        for path in paths.clone() {
            match self.disk.remove(path) {
                Ok(()) | Err(DiskError::NotFound { .. }) => {}
                // The file is not listed any more: it only takes room.
                Err(_) => continue,
            }
        }
        let paths: Vec<&Path> = paths.collect();
        let _ = self.sync_folders(&paths);
    }

    /// Makes the folders' entries for these files durable; 5123 if the system refuses. Also those of the folders above
    /// them, up to the instance's own: an existing folder may come from a statement that was killed before the entry
    /// was durable.
    pub(super) fn sync_folders(&self, paths: &[&Path]) -> Result<()> {
        let folders_of = |path: &Path| -> Vec<PathBuf> {
            let is_own = |folder: &&Path| folder.starts_with(&self.folder);
            let above = path.ancestors().skip(2).take_while(is_own);
            path.parent().into_iter().chain(above).map(Path::to_path_buf).collect()
        };
        let folders: BTreeMap<PathBuf, &Path> =
            paths.iter().flat_map(|path| folders_of(path).into_iter().map(|folder| (folder, *path))).collect();
        for (folder, path) in folders {
            self.disk.sync_directory(&folder).map_err(|error| cannot_create(path, &error))?;
        }
        Ok(())
    }

    /// The entry of a database that is in use.
    pub(super) fn entry_of(&self, database: &Database) -> Result<Arc<Entry>> {
        self.registry.named(database.name()).ok_or_else(|| does_not_exist(database.name()))
    }
}

/// Allocates the id of a new database. Ids are not reused, because much in memory is keyed by them.
///
/// # Errors
/// The ids are exhausted, for good: further calls never return an id of the instance's own databases.
pub(super) fn take_id(next: &AtomicU16) -> Result<DatabaseId> {
    let after = |id: u16| (id <= i16::MAX.cast_unsigned()).then(|| id + 1);
    let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).map(DatabaseId);
    taken.map_err(|_| EngineError::Statement(errors::TOO_MANY_DATABASES.error()))
}

pub(super) fn delete_database(
    heaps: &SystemHeaps,
    ctx: &hobt_txn::StatementContext,
    id: i16,
) -> std::result::Result<(), CatalogError> {
    heaps.delete(ctx, |row: &DatabaseRow| row.id == id)?;
    heaps.delete(ctx, |row: &DatabaseFileRow| row.database == id)?;
    Ok(())
}

/// Why a database cannot be dropped, or overwritten, while it decides on transactions for others.
pub(super) fn untold_participants(untold: &[Untold]) -> String {
    let told = |Untold { database, why }: &Untold| match why.as_str() {
        "" => format!("'{database}'"),
        why => format!("'{database}' ({})", why.trim_end_matches('.')),
    };
    let told: Vec<String> = untold.iter().map(told).collect();
    format!(
        ": transactions over it and {} were committed, which only it knows; make room in these, set them ONLINE, or drop \
         them, before",
        told.join(", ")
    )
}

/// Whether a database is one of the instance's own.
pub(super) fn is_system(id: DatabaseId) -> bool {
    id == MASTER || id == TEMPDB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_end_and_do_not_begin_anew() {
        let next = AtomicU16::new(i16::MAX.cast_unsigned() - 1);
        assert_eq!(take_id(&next).expect("the last but one"), DatabaseId(32766));
        assert_eq!(take_id(&next).expect("the last one"), DatabaseId(32767));
        assert!((0..=u16::MAX).all(|_| take_id(&next).is_err()));
    }
}
