//! ALTER DATABASE: filegroups, files and options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{Lsn, SessionId, errors};
use hobt_catalog::{DatabaseFileRow, DatabaseRow, Text};
use hobt_txn::StatementContext;

use super::backup::without_backup;
use super::create::is_system;
use super::file_removal::unlist_file;
use super::log_files::refuse_system;
use super::plan::Planning;
use super::standby::refuse_standby;
use super::{DatabaseUse, Instance, does_not_exist};
use crate::data_file::{DataFile, FilePlan};
use crate::database::Database;
use crate::definition::FileDefinition;
use crate::error::{EngineError, Result, cannot_create, of_catalog};
use crate::isolation::IsolationOption;
use crate::options::{DatabaseOptions, RecoveryModel};

impl Instance {
    /// Adds an empty filegroup.
    ///
    /// # Errors
    /// 1828 the name is taken, 103; a device's error.
    pub fn add_filegroup(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        self.alter(database, |ctx| database.add_filegroup(ctx, name))
    }

    /// Makes a filegroup the default one, for objects that name none.
    ///
    /// # Errors
    /// 1921 there is none of this name, 622 it has no files; a device's error.
    pub fn set_default_filegroup(&self, database: &DatabaseUse, name: &str) -> Result<()> {
        self.alter(database, |ctx| database.set_default_filegroup(ctx, name))
    }

    /// Changes the options of a database, durably. `change` may be called more than once.
    ///
    /// # Errors
    /// 5058: the database is one of the instance's own. 5063: it is a standby. A device's error.
    pub fn set_options(&self, database: &DatabaseUse, change: impl Fn(&mut DatabaseOptions)) -> Result<()> {
        let _alone = self.definitions.lock();
        if is_system(database.id()) {
            return Err(EngineError::Statement(errors::OPTIONS_OF_INSTANCE_DATABASE.with([&database.name()])));
        }
        refuse_standby(database)?;
        let entry = self.entry_of(database)?;
        database.set_options(change)?;
        *entry.options.lock() = database.options();
        Ok(())
    }

    /// Records that a full backup of the database was made. Under a recovery model other than `SIMPLE` its log is kept
    /// from now on until it is backed up ([`Instance::log_was_backed_up`]). Before the first full backup the log is
    /// kept no longer than recovery needs it, whatever the recovery model, because nothing could be restored with it.
    ///
    /// # Errors
    /// As [`Instance::set_options`].
    pub fn database_was_backed_up(&self, database: &DatabaseUse) -> Result<()> {
        self.set_options(database, |options| {
            options.has_log_chain = options.recovery_model != RecoveryModel::Simple;
        })
    }

    /// Records that a backup of the log has everything before `until`, which need not be kept any longer for that.
    /// Durable when it returns. Nothing is recorded if the log is not kept any more.
    ///
    /// # Errors
    /// The database is suspect or closed; a device's error.
    pub fn log_was_backed_up(&self, database: &DatabaseUse, until: Lsn) -> Result<()> {
        // The recovery model does not change meanwhile.
        let _alone = self.definitions.lock();
        database.check_usable()?;
        let Some(log) = database.storage().log().filter(|_| database.options().keeps_log()) else { return Ok(()) };
        if log.log().chain().is_none_or(|chain| until < chain.from) {
            // Another chain has begun behind it.
            return Ok(());
        }
        log.log().backed_up(until).map_err(|error| database.storage_error(error.into()))
    }

    /// Adds files to a filegroup; to the default one if none is named. All are planned before the first is created. If
    /// creating one fails, the earlier ones stay. Returns the empty files left by a crash that occupied the paths and
    /// were removed.
    ///
    /// # Errors
    /// 1921, 1828, 1834, 5170, 5123, 5149, 5169, as in [`Instance::create_database`]; a device's error.
    pub fn add_files(
        &self,
        database: &DatabaseUse,
        filegroup: Option<&str>,
        files: &[FileDefinition],
    ) -> Result<Vec<PathBuf>> {
        let _alone = self.definitions.lock();
        refuse_system(database)?;
        let _no_backup = without_backup(database)?;
        let mut planning = Planning::of(database);
        let plans = self.plan_files(database, filegroup, files, &mut planning)?;
        let master = self.master()?;
        for plan in &plans {
            self.add_file(&master, database, plan)?;
        }
        Ok(planning.into_removed())
    }

    /// Turns an option on or off, durably. It applies to statements that are bound later.
    ///
    /// # Errors
    /// 5058: the database is one of the instance's own. 5063: it is a standby. A device's error.
    pub fn set_isolation_option(&self, database: &DatabaseUse, option: IsolationOption, on: bool) -> Result<()> {
        let _alone = self.definitions.lock();
        if is_system(database.id()) {
            return Err(EngineError::Statement(errors::OPTION_OF_DATABASE.with([&option.name(), &database.name()])));
        }
        refuse_standby(database)?;
        let bits = database.isolation().bits_with(option, on);
        let id = database.id().0.cast_signed();
        let master = self.master()?;
        let (rows, _) = master.listed_databases().map_err(|error| of_catalog("master", error))?;
        let Some(row) = rows.into_iter().find(|row| row.id == id) else {
            return Err(does_not_exist(database.name()));
        };
        let row = DatabaseRow { isolation: bits, ..row };
        master.change_and_save(|heaps, ctx| {
            heaps.delete(ctx, |row: &DatabaseRow| row.id == id)?;
            heaps.insert(ctx, &row)
        })?;
        database.isolation().set_bits(bits);
        Ok(())
    }

    fn plan_files(
        &self,
        database: &DatabaseUse,
        filegroup: Option<&str>,
        files: &[FileDefinition],
        planning: &mut Planning<'_>,
    ) -> Result<Vec<FilePlan>> {
        let filegroup = match filegroup {
            Some(name) => {
                let ctx = self.own_context()?;
                database.filegroup_id(&ctx, name)?
            }
            None => database.snapshot().default_filegroup(),
        };
        let ids = database.free_file_ids(files.len(), &self.entry_of(database)?.taken_ids())?;
        files.iter().zip(ids).map(|(file, id)| self.plan_file(planning, id, filegroup, file)).collect()
    }

    /// Creates the file, syncs the folder, inserts the row in `master`, and last adds the file to the database, which
    /// uses it from then on.
    fn add_file(&self, master: &DatabaseUse, database: &Arc<Database>, plan: &FilePlan) -> Result<()> {
        let entry = self.entry_of(database)?;
        // The header of a new file says "not clean", and so must the other headers before the file is listed.
        database.check_usable()?;
        database.prepare_to_change()?;
        let failed = |error| cannot_create(&plan.path, &error);
        let mut file = DataFile::create(&*self.disk, plan, database.guid()).map_err(failed)?;
        // Once master lists it, the database is opened with it, whatever else a crash prevents.
        if let Err(error) = file.complete(database.generation()) {
            drop(file);
            self.remove_files([plan.path.as_path()].into_iter());
            return Err(failed(error));
        }
        let row = DatabaseFileRow {
            database: database.id().0.cast_signed(),
            file: plan.file.0.cast_signed(),
            is_log: false,
            is_removed: false,
            path: Text(self.allowed.stored(&plan.path)),
        };
        let file = self.list_file(master, file, &row, &plan.path)?;
        let added = self.run(database, |ctx| database.add_file(ctx, file));
        // If it is uncertain whether the commit counts, recovery of the database decides.
        let is_undone = added.is_err() && database.check_usable().is_ok();
        // The first error is the one to report.
        if is_undone && unlist_file(master, database, plan.file).is_ok() {
            self.remove_files([plan.path.as_path()].into_iter());
            return added;
        }
        // A file that master lists belongs to the database, from the next start on at the latest.
        let mut files = entry.files.lock();
        files.push((plan.file, plan.path.clone()));
        files.sort();
        added
    }

    /// Lists a file that was created at `path` in `master`, and returns it; removes the file if that fails.
    pub(super) fn list_file<F>(&self, master: &DatabaseUse, file: F, row: &DatabaseFileRow, path: &Path) -> Result<F> {
        let listed =
            self.sync_folders(&[path]).and_then(|()| master.change_and_save(|heaps, ctx| heaps.insert(ctx, row)));
        if let Err(error) = listed {
            drop(file);
            // If the list in master is uncertain, master may list the file after its recovery.
            if master.check_usable().is_ok() {
                self.remove_files([path].into_iter());
            }
            return Err(error);
        }
        Ok(file)
    }

    pub(super) fn alter(
        &self,
        database: &DatabaseUse,
        change: impl FnOnce(&StatementContext) -> Result<()>,
    ) -> Result<()> {
        let _alone = self.definitions.lock();
        self.run(database, change)
    }

    fn own_context(&self) -> Result<Arc<StatementContext>> {
        self.statement_context(SessionId(0), 1, Arc::default())
    }

    /// Runs a statement of the engine itself, and ends it.
    pub(super) fn run(&self, database: &Database, change: impl FnOnce(&StatementContext) -> Result<()>) -> Result<()> {
        let ctx = self.own_context()?;
        let done = change(&ctx);
        let ended = self.end_statement(&ctx, done.is_ok(), &[database]);
        done.and(ended)
    }
}
