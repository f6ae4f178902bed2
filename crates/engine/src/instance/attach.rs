//! Databases that leave the instance with their files intact, and come back with them: `sp_detach_db`, `FOR ATTACH`;
//! and databases that are listed but not open: `SET OFFLINE`, `SET ONLINE`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_access::AccessError;
use hobt_base::{FileId, errors};
use hobt_catalog::DatabaseRow;
use hobt_disk::{DiskError, OpenOptions};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_log::LogFileLabel;

use super::create::{delete_database, is_system, take_id};
use super::plan::in_use;
use super::registry::{Entry, EntryState};
use super::start::inspect;
use super::{Created, Instance, does_not_exist};
use crate::data_file::{DataFile, FileProblem};
use crate::database::DatabaseState;
use crate::definition::check_name;
use crate::error::{EngineError, Result, of_catalog};
use crate::isolation::IsolationOptions;
use crate::log_file::{FIRST_LOG_FILE, log_path};

/// The files that `FOR ATTACH` names, by kind.
struct Attached {
    /// By their ids, the primary one first.
    files: Vec<DataFile>,
    logs: Vec<(FileId, PathBuf)>,
}

impl Instance {
    /// Removes a database from the list, closed and clean; its files are not changed. Waits until what a crash has left
    /// open in it is undone.
    ///
    /// # Errors
    /// 15010 it does not exist, 7940 it is one of the instance's own, 3703 it is in use, 3707 it cannot be opened, 5063
    /// it is a standby; a device's error.
    pub fn detach_database(&self, name: &str) -> Result<()> {
        // Its log may be left behind. An error is found, and reported, below.
        let _done = self.database(name).map(|database| database.wait_for_undo());
        let _alone = self.definitions.lock();
        let entry =
            self.registry.named(name).ok_or_else(|| EngineError::Statement(errors::NO_SUCH_DATABASE.with([&name])))?;
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::CANNOT_DETACH_SYSTEM.error()));
        }
        entry.refuse_standby()?;
        self.registry.refuse_source(&entry)?;
        let master = self.master()?;
        let transition = self
            .take_unused(entry.id)
            .ok_or_else(|| EngineError::Statement(errors::CANNOT_DETACH_IN_USE.with([&name])))?;
        let closed = entry.shut(&self.parts, &self.registry).map_err(|error| match error {
            EngineError::Unavailable { .. } => EngineError::Statement(errors::CANNOT_DETACH_SUSPECT.with([&error])),
            other => other,
        });
        let id = entry.id.0.cast_signed();
        let done = closed.and_then(|()| master.change_and_save(|heaps, ctx| delete_database(heaps, ctx, id)));
        match &done {
            Ok(()) => transition.remove(),
            Err(_) => self.look_again(&entry),
        }
        done
    }

    /// Lists a database whose files exist, and holds it. If it was not closed, it is recovered from its log. A new log
    /// is created if the database was closed and its log is one file that is missing, or if `rebuilds_log` and one of
    /// the log's files is missing.
    ///
    /// # Errors
    /// 1801 the name is taken, 5120 a file cannot be opened, 5171 the primary file is not one, 5173 the files do not
    /// belong together, 1834 a file belongs to a database, 1813 no new log can be created; 926 and 945 if it cannot
    /// be recovered. The files stay.
    pub fn attach_database(&self, name: &str, paths: &[PathBuf], rebuilds_log: bool) -> Result<Created> {
        let _alone = self.definitions.lock();
        check_name(name)?;
        let master = self.master()?;
        if self.registry.named(name).is_some() {
            return Err(EngineError::Statement(errors::DATABASE_EXISTS.with([&name])));
        }
        let Attached { files, logs } = self.open_attached(name, paths, rebuilds_log)?;
        let guid = files[0].header.database_guid;
        if let Some(other) = self.registry.all().into_iter().find(|entry| entry.guid == guid && !entry.is_snapshot()) {
            return Err(EngineError::Statement(errors::FILES_OF_ANOTHER_DATABASE.with([&other.name])));
        }
        let id = take_id(&self.next_database)?;
        let entry = Entry {
            id,
            name: name.to_owned(),
            guid,
            created: hobt_instruments::time_of_day(),
            isolation: Arc::new(IsolationOptions::of_new_database()),
            options: Mutex::default(),
            files: Mutex::new(files.iter().map(|file| (file.header.file, file.path.clone())).collect()),
            logs: Mutex::new(logs.clone()),
            overlay: Mutex::default(),
            copies: None,
            removed: Mutex::default(),
            is_opening: Default::default(),
            state: Ranked::new(Rank::DatabaseState, Mutex::new(EntryState::Closed(files))),
        };
        let given: Vec<FileId> = entry.files.lock().iter().map(|(id, _)| *id).collect();
        let database = entry.open(&self.parts, &self.registry).map_err(|error| of_missing_file(name, &given, error))?;
        *entry.options.lock() = database.options();
        let files = entry.files.lock().clone();
        let listed = self.list_database(&master, &database, &files, &logs);
        if let Err(error) = listed {
            // The first error is the one to report.
            let _ = database.close();
            return Err(error);
        }
        drop(database);
        self.registry.insert(entry);
        Ok(Created { database: self.database_by_id(id)?, left_over: Vec::new() })
    }

    /// Opens the files of a database that is to be attached, and finds its log.
    fn open_attached(&self, name: &str, paths: &[PathBuf], rebuilds_log: bool) -> Result<Attached> {
        let mut files: Vec<DataFile> = Vec::new();
        let mut labels: Vec<(LogFileLabel, PathBuf)> = Vec::new();
        for path in paths {
            let path = self.allowed.existing(path)?;
            if let Some(owner) = self.owner_of(&path) {
                return Err(in_use(&path, &owner));
            }
            match DataFile::open_any(&*self.disk, &path) {
                Ok(file) => files.push(file),
                Err(FileProblem::Inaccessible(error)) => return Err(cannot_open(&path, &error)),
                Err(FileProblem::Invalid(reason)) => match self.log_label(&path)? {
                    Some(label) => labels.push((label, path)),
                    None if files.is_empty() => return Err(not_primary(&path, &reason)),
                    None => return Err(do_not_match(&reason)),
                },
            }
        }
        files.sort_by_key(|file| file.header.file);
        let Some(first) = files.first().filter(|first| first.header.file == FileId(1)) else {
            let path = paths.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
            return Err(not_primary(path, "it is not file 1 of a database"));
        };
        let differs = |file: &&DataFile| file.header.database_guid != first.header.database_guid;
        if let Some(other) = files.iter().find(differs) {
            return Err(do_not_match(&format!("'{}' belongs to another database", other.path.display())));
        }
        if let Some(pair) = files.windows(2).find(|pair| pair[0].header.file == pair[1].header.file) {
            return Err(do_not_match(&format!("'{}' is given twice", pair[1].path.display())));
        }
        let usual = log_path(&first.path);
        if labels.is_empty() && self.disk.exists(&usual) {
            labels.extend(self.log_label(&usual)?.map(|label| (label, usual.clone())));
        }
        labels.sort_by_key(|(label, _)| label.id);
        let is_whole = labels.first().is_some_and(|(first, _)| first.is_first && first.files as usize == labels.len());
        let logs = if is_whole || !(rebuilds_log || labels.is_empty()) {
            labels.into_iter().map(|(label, path)| (FileId(label.id), path)).collect()
        } else if files.iter().all(|file| file.header.clean) {
            vec![(FIRST_LOG_FILE, self.free_log_path(&usual))]
        } else {
            return Err(EngineError::Statement(errors::CANNOT_OPEN_NEW_DATABASE.with([&name])));
        };
        Ok(Attached { files, logs })
    }

    /// The label of a log file; `None` if the file is not a log file.
    fn log_label(&self, path: &Path) -> Result<Option<LogFileLabel>> {
        let options = OpenOptions { create_new: false, read_only: true, direct: true };
        let file = self.disk.open(path, options).map_err(|error| cannot_open(path, &error))?;
        LogFileLabel::read(&*file).map_err(|error| cannot_open(path, &error))
    }

    /// A path for a new log at which no file exists.
    fn free_log_path(&self, usual: &Path) -> PathBuf {
        let numbered = |number: u32| {
            let stem = usual.file_stem().map_or_else(Default::default, |stem| stem.to_string_lossy().into_owned());
            usual.with_file_name(format!("{stem}_{number}.ldf"))
        };
        let mut candidates = std::iter::once(usual.to_path_buf()).chain((1..).map(numbered));
        candidates.find(|path| !self.disk.exists(path)).expect("one of endlessly many names is free")
    }

    /// Closes a database, clean, and lists it as offline. It is not opened until [`Instance::set_online`].
    ///
    /// # Errors
    /// 911 it does not exist, 5058 it is one of the instance's own, 5061 it is in use, 5063 it is a standby; a device's
    /// error.
    pub fn set_offline(&self, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        let entry = self.listed_entry(name)?;
        let master = self.master()?;
        if let EntryState::Unavailable { state: DatabaseState::Offline, .. } = &*entry.state.lock() {
            return Ok(());
        }
        let _transition = self.take_unused(entry.id).ok_or_else(|| cannot_lock(name))?;
        let done = entry.shut(&self.parts, &self.registry).and_then(|()| self.note_offline(&master, &entry, true));
        match &done {
            Ok(()) => *entry.state.lock() = EntryState::offline(),
            Err(_) => self.look_again(&entry),
        }
        done
    }

    /// Opens a database that is offline, or one whose files or coordinator were unusable and are usable now.
    ///
    /// # Errors
    /// 911 it does not exist, 5061 it is in use; 926 and 945 if it cannot be recovered.
    pub fn set_online(&self, name: &str) -> Result<()> {
        let _alone = self.definitions.lock();
        let entry = self.listed_entry(name)?;
        let master = self.master()?;
        let is_open = matches!(&*entry.state.lock(), EntryState::Open(database) if database.check_usable().is_ok());
        if is_open {
            return Ok(());
        }
        let transition = self.take_unused(entry.id).ok_or_else(|| cannot_lock(name))?;
        let noted = self.note_offline(&master, &entry, false);
        if noted.is_ok() {
            self.look_again(&entry);
        }
        drop(transition);
        noted.and_then(|()| self.database_by_id(entry.id)).map(drop)
    }

    /// A database that is not the instance's own.
    fn listed_entry(&self, name: &str) -> Result<Arc<Entry>> {
        let entry = self.registry.named(name).ok_or_else(|| does_not_exist(name))?;
        if is_system(entry.id) {
            return Err(EngineError::Statement(errors::OPTION_OF_DATABASE.with([&"OFFLINE", &name])));
        }
        if entry.state_unless_opening().is_some_and(|state| state.is_restoring()) {
            return Err(entry.unavailable(DatabaseState::Restoring, "it is being restored"));
        }
        entry.refuse_standby()?;
        Ok(entry)
    }

    fn note_offline(&self, master: &super::DatabaseUse, entry: &Entry, is_offline: bool) -> Result<()> {
        let id = entry.id.0.cast_signed();
        let (rows, _) = master.listed_databases().map_err(|error| of_catalog("master", error))?;
        let row = rows.into_iter().find(|row| row.id == id).ok_or_else(|| does_not_exist(&entry.name))?;
        if row.is_offline == is_offline {
            return Ok(());
        }
        let row = DatabaseRow { is_offline, ..row };
        master.change_and_save(|heaps, ctx| {
            heaps.delete(ctx, |row: &DatabaseRow| row.id == id)?;
            heaps.insert(ctx, &row)
        })
    }

    /// Inspects the files of an unused database again, as a start does. One that is being restored stays so.
    pub(super) fn look_again(&self, entry: &Entry) {
        if entry.state.lock().is_restoring() {
            return;
        }
        let closed = EntryState::Unavailable { state: DatabaseState::RecoveryPending, reason: "it was closed".into() };
        // Released during the close: views of databases need the lock. A database in transition is not opened.
        let before = std::mem::replace(&mut *entry.state.lock(), closed);
        if let EntryState::Open(database) = before {
            // A database that failed is not saved: its recovery reads what is on disk.
            let _ = database.close();
        }
        let found = inspect(&*self.disk, &entry.files.lock(), entry.guid);
        *entry.state.lock() = found;
    }
}

/// 5120.
fn cannot_open(path: &Path, error: &DiskError) -> EngineError {
    let system = error.os_error_text().map(|text| format!(" Operating system error {text}.")).unwrap_or_default();
    EngineError::Statement(errors::PHYSICAL_FILE.with([&path.display(), &system, &error]))
}

/// 5171.
fn not_primary(path: &Path, reason: &str) -> EngineError {
    EngineError::Statement(errors::NOT_A_PRIMARY_FILE.with([&path.display(), &reason]))
}

/// Converts an error about a file that the catalog or a page names and that was not given: the file is missing, and
/// nothing is damaged.
fn of_missing_file(name: &str, given: &[FileId], error: EngineError) -> EngineError {
    match error {
        EngineError::Storage { error: AccessError::Damaged { page, .. }, .. } if !given.contains(&page.file) => {
            EngineError::Statement(errors::DATABASE_FILE_NOT_GIVEN.with([&name, &page.file.0]))
        }
        other => other,
    }
}

/// 5173.
fn do_not_match(reason: &str) -> EngineError {
    EngineError::Statement(errors::FILES_DO_NOT_MATCH.with([&reason]))
}

/// 5061.
fn cannot_lock(name: &str) -> EngineError {
    EngineError::Statement(errors::DATABASE_NOT_LOCKED.with([&name]))
}
