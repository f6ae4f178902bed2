//! `BACKUP` and `RESTORE`: their options, their messages, and what they show.
//!
//! The crate `engine` makes backups and restores them.

mod options;
mod show;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hobt_base::{FileId, PAGE_SIZE, PageId, Position, SqlError, errors};
use hobt_catalog::name_equals;
use hobt_engine::{
    BackupRequest, BackupWhat, EngineError, Instance, Opening, RestoreEnd, RestoreRequest, SetFacts, SetKind,
    TailRequest,
};
use hobt_tsql::ast::{Backup, BackupDevice, Expression, Literal, OptionItem, OptionValue, TransactionName};

use crate::dbcc::Maintenance;
use crate::event::Message;
use crate::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};
use options::Options;

impl Maintenance<'_, '_> {
    /// Runs the statement.
    pub(crate) fn back_up_or_restore(&mut self, backup: &Backup, position: Position) -> Result<Outcome, Failure> {
        if let Some(snapshot) = snapshot_of(backup) {
            return self.revert(backup, snapshot, position);
        }
        let paths = self.devices(backup)?;
        let options = Options::read(self.batch, backup)?;
        let what = backup.what.value.to_uppercase();
        match (backup.restore, what.as_str()) {
            (false, "DATABASE" | "LOG") => self.back_up(backup, &options, paths, position)?,
            (true, "DATABASE" | "LOG") => self.restore(backup, &options, paths, position)?,
            (true, "HEADERONLY") => self.show_headers(&options, &paths)?,
            (true, "FILELISTONLY") => self.show_files(&options, &paths)?,
            (true, "LABELONLY") => self.show_label(&paths)?,
            (true, "VERIFYONLY") => self.verify(&options, &paths, position)?,
            _ => {
                let verb = if backup.restore { "RESTORE" } else { "BACKUP" };
                return Err(SqlError::not_supported(format!("{verb} {what}")).at(position).into());
            }
        }
        Ok(Outcome::QUIET)
    }

    /// The files that the statement names.
    fn devices(&mut self, backup: &Backup) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = Vec::new();
        for device in &backup.devices {
            match device {
                BackupDevice::Name(name) => {
                    return Err(errors::NO_BACKUP_DEVICE.with([&name.value]).at(name.position).into());
                }
                BackupDevice::Physical { kind, place } if kind == "DISK" => {
                    let text = self.batch.text_value(place)?;
                    paths.push(PathBuf::from(text.unwrap_or_default()));
                }
                BackupDevice::Physical { kind, .. } => {
                    return Err(SqlError::not_supported(format!("{} = …", kind.to_uppercase())).into());
                }
            }
        }
        Ok(paths)
    }

    /// The name of the database that the statement names.
    fn backup_name(&mut self, backup: &Backup, position: Position) -> Result<String, Failure> {
        let name = match &backup.database {
            Some(TransactionName::Name(name)) => Some(name.value.clone()),
            Some(TransactionName::Variable(name)) => {
                self.batch.text_value(&Expression::Variable { name: name.clone() })?
            }
            None => None,
        };
        name.ok_or_else(|| errors::SYNTAX.with([&backup.what.value]).at(position).into())
    }

    /// The name of the database that is backed up or restored, and whether only its log is.
    ///
    /// # Errors
    /// 40517 for single files and filegroups.
    fn whole_of_database(&mut self, backup: &Backup, position: Position) -> Result<(String, bool), Failure> {
        let name = self.backup_name(backup, position)?;
        if let Some(file) = backup.files.first() {
            let verb = if backup.restore { "RESTORE" } else { "BACKUP" };
            let what = format!("{verb} … {} = …", file.name);
            return Err(SqlError::not_supported(what).at(file.span.position).into());
        }
        Ok((name, name_equals(&backup.what.value, "LOG")))
    }

    fn back_up(
        &mut self,
        backup: &Backup,
        options: &Options,
        paths: Vec<PathBuf>,
        position: Position,
    ) -> Result<(), Failure> {
        let (name, is_log) = self.whole_of_database(backup, position)?;
        options.check_backup(is_log)?;
        if paths.is_empty() {
            return Err(errors::SYNTAX.with([&backup.what.value]).at(position).into());
        }
        let what = match (is_log, options.is_differential) {
            (true, _) => BackupWhat::Log,
            (false, true) => BackupWhat::Differential,
            (false, false) => BackupWhat::Database,
        };
        let instance = Arc::clone(&self.batch.environment.instance);
        let user = self.batch.state.login.clone();
        let server = self.batch.environment.server_name.to_string();
        let done = {
            let told = Told::new(self.batch, options.stats, position);
            let observe = |done, all| told.observe(done, all);
            let request = BackupRequest {
                what,
                paths: &paths,
                opening: match (options.formats, options.inits) {
                    (true, _) => Opening::Format,
                    (false, true) => Opening::Init,
                    (false, false) => Opening::Append,
                },
                compresses: options.compresses,
                checks: options.checks,
                continues_after_error: options.continues_after_error,
                is_copy_only: options.is_copy_only,
                keeps_log: options.keeps_log,
                leaves_restoring: options.end == Some(RestoreEnd::NoRecovery),
                name: options.name.clone(),
                description: options.description.clone(),
                media_name: options.media_name.clone(),
                media_description: options.media_description.clone(),
                user,
                server,
                observe: &observe,
            };
            let tail = TailRequest { name: &name, request: &request };
            let made = if request.leaves_restoring {
                instance.back_up_tail(&tail)
            } else {
                match instance.database(&name) {
                    Ok(database) => instance.back_up(&database, &request),
                    // Its files may be gone. Its log may not.
                    Err(_) if is_log && (options.keeps_log || instance.is_restoring_pages(&name).unwrap_or(false)) => {
                        instance.back_up_tail(&tail)
                    }
                    Err(error) => Err(error),
                }
            };
            let done = made.map_err(|error| error.to_sql_error().at(position))?;
            told.end()?;
            done
        };
        self.say_unnoted(done.unnoted.as_ref(), position)?;
        if done.facts.is_damaged {
            self.batch.send_message(Message::of(position.line, errors::BACKUP_OF_DAMAGED.error()))?;
        }
        let verb = if is_log { "BACKUP LOG" } else { "BACKUP DATABASE" };
        self.say_processed(verb, &done.facts, done.position, &name, done.elapsed, position)
    }

    fn restore(
        &mut self,
        backup: &Backup,
        options: &Options,
        paths: Vec<PathBuf>,
        position: Position,
    ) -> Result<(), Failure> {
        let pages = pages_of(backup)?;
        let is_of_pages = !pages.is_empty();
        let (name, is_log) = match is_of_pages {
            true => (self.backup_name(backup, position)?, false),
            false => self.whole_of_database(backup, position)?,
        };
        options.check_restore()?;
        let instance = Arc::clone(&self.batch.environment.instance);
        if name_equals("master", &name) {
            return Err(errors::RESTORE_OF_MASTER.with([&name]).at(position).into());
        }
        if name_equals(self.batch.state.database.name(), &name) {
            return Err(errors::RESTORE_OF_CURRENT.with([&name]).at(position).into());
        }
        if self.batch.environment.sessions.uses_database(&name, self.batch.state.id) {
            return Err(errors::RESTORE_IN_USE.error().at(position).into());
        }
        let end = options.end.clone().unwrap_or(RestoreEnd::Recovery);
        if paths.is_empty() && is_of_pages {
            return Err(errors::SYNTAX.with([&"PAGE"]).at(position).into());
        }
        if paths.is_empty() {
            return self.recover_alone(&instance, &name, &end, position);
        }
        let user = self.batch.state.login.clone();
        let done = {
            let told = Told::new(self.batch, options.stats, position);
            let observe = |done, all| told.observe(done, all);
            let request = RestoreRequest {
                name: &name,
                is_log,
                paths: &paths,
                set: options.file,
                moves: &options.moves,
                replaces: options.replaces,
                end,
                stop: options.stop.clone(),
                checks: options.checks,
                continues_after_error: options.continues_after_error,
                user,
                observe: &observe,
            };
            let done = if is_of_pages { instance.restore_pages(&request, &pages) } else { instance.restore(&request) };
            let done = done.map_err(|error| error.to_sql_error().at(position))?;
            told.end()?;
            done
        };
        self.say_unnoted(done.unnoted.as_ref(), position)?;
        if done.ends_before_stop && matches!(options.end, None | Some(RestoreEnd::Recovery)) {
            self.batch.send_message(Message::of(position.line, errors::STOP_NOT_REACHED.error()))?;
        }
        let verb = if is_log { "RESTORE LOG" } else { "RESTORE DATABASE" };
        self.say_processed(verb, &done.facts, done.position, &name, done.elapsed, position)
    }

    /// Says that the history lacks what was done.
    fn say_unnoted(&mut self, why: Option<&EngineError>, position: Position) -> Result<(), Failure> {
        let Some(why) = why else { return Ok(()) };
        let said = errors::BACKUP_NOT_IN_HISTORY.with([&why.to_sql_error().message]);
        self.batch.send_message(Message::of(position.line, said))
    }

    /// `RESTORE DATABASE … WITH RECOVERY | STANDBY`, without a backup.
    fn recover_alone(
        &mut self,
        instance: &Instance,
        name: &str,
        end: &RestoreEnd,
        position: Position,
    ) -> Result<(), Failure> {
        if *end != RestoreEnd::NoRecovery {
            let since = std::time::Instant::now();
            let done = match end {
                RestoreEnd::Standby(path) => instance.stand_by(name, path),
                RestoreEnd::Recovery | RestoreEnd::NoRecovery => instance.recover_restored(name),
            };
            done.map_err(|error| error.to_sql_error().at(position))?;
            let done = errors::BACKUP_PROCESSED.with([
                &"RESTORE DATABASE",
                &0,
                &format_args!("{:.3}", since.elapsed().as_secs_f64()),
                &"0.000",
            ]);
            return self.batch.send_message(Message::of(position.line, done));
        }
        Err(errors::SYNTAX.with([&"NORECOVERY"]).at(position).into())
    }

    /// `RESTORE DATABASE … FROM DATABASE_SNAPSHOT = name`.
    fn revert(&mut self, backup: &Backup, snapshot: &Expression, position: Position) -> Result<Outcome, Failure> {
        let (name, is_log) = self.whole_of_database(backup, position)?;
        if is_log || !backup.options.is_empty() {
            return Err(errors::SYNTAX.with([&"DATABASE_SNAPSHOT"]).at(position).into());
        }
        let snapshot = self.batch.text_value(snapshot)?.unwrap_or_default();
        let instance = Arc::clone(&self.batch.environment.instance);
        for used in [&name, &snapshot] {
            if name_equals(self.batch.state.database.name(), used) {
                return Err(errors::RESTORE_OF_CURRENT.with([used]).at(position).into());
            }
            if self.batch.environment.sessions.uses_database(used, self.batch.state.id) {
                return Err(errors::RESTORE_IN_USE.error().at(position).into());
            }
        }
        instance.revert(&name, &snapshot).map_err(|error| error.to_sql_error().at(position))?;
        Ok(Outcome::QUIET)
    }

    fn verify(&mut self, options: &Options, paths: &[PathBuf], position: Position) -> Result<(), Failure> {
        let instance = Arc::clone(&self.batch.environment.instance);
        let place = {
            let told = Told::new(self.batch, options.stats, position);
            let observe = |done, all| told.observe(done, all);
            let verified = instance.verify_backup(paths, options.file, options.continues_after_error, &observe);
            let place = verified.map_err(|error| error.to_sql_error().at(position))?;
            told.end()?;
            place
        };
        let valid = errors::BACKUP_SET_VALID.with([&place.number]);
        self.batch.send_message(Message::of(position.line, valid))
    }

    /// The messages at the end: pages by file, and all of them.
    fn say_processed(
        &mut self,
        verb: &str,
        facts: &SetFacts,
        position_of_set: u32,
        database: &str,
        elapsed: Duration,
        position: Position,
    ) -> Result<(), Failure> {
        let line = position.line;
        let mut pages: u64 = 0;
        let page_bytes = PAGE_SIZE as u64;
        for file in facts.files.iter().filter(|file| facts.kind != SetKind::Log || file.pages_saved > 0) {
            pages = pages.saturating_add(file.pages_saved);
            let said = errors::BACKUP_FILE_PROCESSED.with([&file.pages_saved, &database, &file.name, &position_of_set]);
            self.batch.send_message(Message::of(line, said))?;
        }
        let of_log = (facts.last - facts.first.min(facts.last)).div_ceil(page_bytes);
        pages += of_log;
        if let Some(log) = facts.logs.first() {
            let said = errors::BACKUP_FILE_PROCESSED.with([&of_log, &database, &log.name, &position_of_set]);
            self.batch.send_message(Message::of(line, said))?;
        }
        let seconds = elapsed.as_secs_f64();
        let rate = if seconds > 0.0 { (pages * page_bytes) as f64 / seconds / (1 << 20) as f64 } else { 0.0 };
        let said =
            errors::BACKUP_PROCESSED.with([&verb, &pages, &format_args!("{seconds:.3}"), &format_args!("{rate:.3}")]);
        self.batch.send_message(Message::of(line, said))
    }
}

/// The pages that `RESTORE DATABASE … PAGE = 'file:page, …'` names; none if it names no page.
fn pages_of(backup: &Backup) -> Result<Vec<PageId>, Failure> {
    let is_page = |item: &&OptionItem| backup.restore && name_equals(&item.name, "PAGE");
    if !name_equals(&backup.what.value, "DATABASE") || !backup.files.iter().any(|item| is_page(&item)) {
        return Ok(Vec::new());
    }
    let mut pages = Vec::new();
    for item in &backup.files {
        let wrong = || errors::OPTION_VALUE.with([&item.name]).at(item.span.position);
        let OptionValue::Literal(Literal::String { value, .. }) = &item.value else { return Err(wrong().into()) };
        for page in value.split(',') {
            let page = page.trim().trim_start_matches('(').trim_end_matches(')');
            let id = page.split_once(':').and_then(|(file, number)| {
                let (file, number) = (file.trim().parse().ok()?, number.trim().parse().ok()?);
                Some(PageId::new(FileId(file), number))
            });
            pages.push(id.filter(|_| is_page(&item)).ok_or_else(wrong)?);
        }
    }
    Ok(pages)
}

/// The snapshot that a database is to be restored from.
fn snapshot_of(backup: &Backup) -> Option<&Expression> {
    match &backup.devices[..] {
        [BackupDevice::Physical { kind, place }] if backup.restore && kind == "DATABASE_SNAPSHOT" => Some(place),
        _ => None,
    }
}

/// Tells the client how far a backup or a restore is, and asks whether it is to stop.
struct Told<'a, 's> {
    batch: RefCell<&'a mut Interpreter<'s>>,
    /// `STATS`: after how many per cent a message is sent; 0 for none.
    step: u64,
    /// The per cent of the last message.
    said: Cell<u64>,
    position: Position,
}

impl<'a, 's> Told<'a, 's> {
    fn new(batch: &'a mut Interpreter<'s>, step: u64, position: Position) -> Told<'a, 's> {
        Told { batch: RefCell::new(batch), step, said: Cell::new(0), position }
    }

    fn observe(&self, done: u64, all: u64) -> Result<(), SqlError> {
        let mut batch = self.batch.borrow_mut();
        batch.state.progress.set(done, all);
        if batch.cancelled.load(Ordering::Relaxed) {
            return Err(SqlError::cancelled());
        }
        let percent = done.saturating_mul(100).checked_div(all).unwrap_or(0);
        // The whole is said at the end.
        while self.step > 0 && percent >= self.said.get() + self.step && self.said.get() + self.step < 100 {
            self.said.set(self.said.get() + self.step);
            let message = Message::of(self.position.line, errors::BACKUP_PERCENT.with([&self.said.get()]));
            batch.send_message(message).map_err(|failure| failure.error)?;
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Failure> {
        if self.step == 0 {
            return Ok(());
        }
        let message = Message::of(self.position.line, errors::BACKUP_PERCENT.with([&100]));
        self.batch.borrow_mut().send_message(message)
    }
}
