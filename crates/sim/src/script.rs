//! The events: transactions of several sessions, each on its own tables, and the actions of an administrator.
//!
//! Not here: the effects of statements (`statement.rs`).

use std::path::PathBuf;
use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_catalog::{DatabaseFile, Growth};
use hobt_engine::{DatabaseDefinition, DatabaseUse, DelayedDurability, EngineError, FileDefinition, LogDescription};

use crate::model::Delayed;
use crate::simulation::{DATABASES, Open, Simulation, Step, Stop, small_file, small_log};

/// The maximum number of data files that are added.
const FILES_MAX: u32 = 12;
/// The maximum number of files that are added to logs.
const LOG_FILES_MAX: u32 = 4;

impl Simulation {
    /// One step of the script.
    pub(crate) fn step(&mut self) -> Step<()> {
        match self.below(100) {
            0..5 => self.checkpoint(),
            5..8 => self.write_dirty_pages(),
            8..11 => {
                self.instance().pool().drop_clean_buffers(None);
                Ok(())
            }
            11..13 => self.other_database(),
            13..14 | 19..20 => self.change_files(),
            18..19 => self.change_log_files(),
            14..16 => self.reopen(),
            16..18 => self.flush_log(),
            _ => self.session_step(),
        }
    }

    fn checkpoint(&mut self) -> Step<()> {
        self.note("CHECKPOINT".to_owned());
        let done = self.instance().checkpoint();
        done.map_err(|error| self.stop("CHECKPOINT", &error))
    }

    /// Writes pages without a checkpoint, including those of open transactions.
    fn write_dirty_pages(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        self.note(format!("dirty pages of {} are written", DATABASES[index]));
        let done = database.storage().flush().map_err(|error| database.storage_error(error));
        done.map_err(|error| self.stop("writing pages", &error))
    }

    /// Makes the delayed commits of a database durable.
    fn flush_log(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        self.note(format!("sp_flush_log in {}", DATABASES[index]));
        let database = self.database(index)?;
        database.flush_log().map_err(|error| self.stop("sp_flush_log", &error))?;
        self.delayed[index].clear();
        Ok(())
    }

    /// Creates a database or drops one.
    fn other_database(&mut self) -> Step<()> {
        let instance = self.instance();
        if let Some(name) = self.others.listed.first().cloned().filter(|_| self.others.listed.len() > 1) {
            self.note(format!("DROP DATABASE {name}"));
            self.others.doubtful = Some(name.clone());
            instance.drop_database(&name).map_err(|error| self.stop("DROP DATABASE", &error))?;
            self.others.listed.remove(&name);
        } else {
            self.others.made += 1;
            let name = format!("other{}", self.others.made);
            self.note(format!("CREATE DATABASE {name}"));
            self.others.doubtful = Some(name.clone());
            let definition = DatabaseDefinition {
                name: name.clone(),
                primary: vec![small_file(&name)],
                log: vec![small_log(&name)],
                ..DatabaseDefinition::default()
            };
            instance.create_database(&definition).map_err(|error| self.stop("CREATE DATABASE", &error))?;
            self.others.listed.insert(name);
        }
        self.others.doubtful = None;
        Ok(())
    }

    /// Adds a data file, or removes one. Files are rarely empty: some are removed at once after they were added, others
    /// accept nothing more, as if they were being emptied, until tables have been dropped.
    fn change_files(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        let snapshot = database.snapshot();
        let others = &snapshot.files[1..];
        if others.len() > 1 || (self.files_added == FILES_MAX && !others.is_empty()) {
            let storage = Arc::clone(database.storage());
            let is_empty = |file: &&DatabaseFile| storage.file(file.id).is_ok_and(|file| file.is_empty());
            let any = &others[self.below(others.len())];
            let file = others.iter().find(is_empty).unwrap_or(any).clone();
            if !is_empty(&&file) {
                self.note(format!("{} takes nothing any more", file.name));
                let done = storage.set_aside(file.id, true).map_err(|error| database.storage_error(error));
                done.map_err(|error| self.stop("SHRINKFILE", &error))?;
            }
            return self.remove_data_file(index, &file.name);
        }
        if self.files_added == FILES_MAX {
            return Ok(());
        }
        self.files_added += 1;
        let name = format!("more{}", self.files_added);
        self.note(format!("ALTER DATABASE {} ADD FILE {name}", DATABASES[index]));
        let file = FileDefinition {
            path: Some(PathBuf::from(format!("{name}.ndf"))),
            name: Some(name.clone()),
            size_pages: Some(64),
            growth: Some(Growth::Pages(64)),
            max_pages: None,
        };
        let added = self.instance().add_files(&database, None, &[file]);
        added.map_err(|error| self.stop("ADD FILE", &error))?;
        if self.chance(30) { self.remove_data_file(index, &name) } else { Ok(()) }
    }

    fn remove_data_file(&mut self, index: usize, name: &str) -> Step<()> {
        let database = self.database(index)?;
        self.note(format!("ALTER DATABASE {} REMOVE FILE {name}", DATABASES[index]));
        let file = database.storage().files().into_iter().find(|file| file.name() == name).expect("it is open");
        let was_empty = file.is_empty();
        // A reference to the file would prevent its deletion.
        drop(file);
        match self.instance().remove_file(&database, name) {
            Err(EngineError::Statement(error)) if error.number == number::FILE_NOT_EMPTY && !was_empty => Ok(()),
            Err(error) => Err(self.stop("REMOVE FILE", &error)),
            Ok(()) if !was_empty => Err(Stop::Bug(format!("{name} was removed and was not empty"))),
            Ok(()) => {
                self.report.files_removed += 1;
                Ok(())
            }
        }
    }

    /// Adds a file to a log, or removes an unused one.
    fn change_log_files(&mut self) -> Step<()> {
        let index = self.below(DATABASES.len());
        let database = self.database(index)?;
        let log = LogDescription::of(database.storage()).expect("it has a log");
        if log.files.len() > 2 {
            let at = 1 + self.below(log.files.len() - 1);
            let name = log.files[at].name.clone();
            self.note(format!("ALTER DATABASE {} REMOVE FILE {name}", DATABASES[index]));
            return match self.instance().remove_file(&database, &name) {
                Err(EngineError::Statement(error)) if error.number == number::FILE_NOT_EMPTY => Ok(()),
                removed => removed.map_err(|error| self.stop("REMOVE FILE", &error)),
            };
        }
        if self.log_files_added == LOG_FILES_MAX {
            return Ok(());
        }
        self.log_files_added += 1;
        let name = format!("log{}", self.log_files_added);
        self.note(format!("ALTER DATABASE {} ADD LOG FILE {name}", DATABASES[index]));
        let file = FileDefinition {
            path: Some(PathBuf::from(format!("{name}.ldf"))),
            name: Some(name),
            size_pages: Some(512),
            growth: Some(Growth::None),
            max_pages: None,
        };
        let added = self.instance().add_log_files(&database, &[file]);
        added.map(drop).map_err(|error| self.stop("ADD LOG FILE", &error))
    }

    /// Ends all transactions, by commit or rollback.
    pub(crate) fn end_transactions(&mut self) -> Step<()> {
        for session in 0..self.sessions.len() {
            if self.sessions[session].open.is_some() {
                let commits = self.chance(50);
                self.end_transaction(session, commits)?;
            }
        }
        Ok(())
    }

    /// Closes the instance and starts it again, or checks its contents.
    fn reopen(&mut self) -> Step<()> {
        self.end_transactions()?;
        self.note("looks around".to_owned());
        self.verify_alive()
    }

    fn session_step(&mut self) -> Step<()> {
        let session = self.below(self.sessions.len());
        if self.sessions[session].open.is_none() {
            if self.chance(45) { self.begin_transaction(session) } else { self.autocommit(session) }
        } else {
            match self.below(100) {
                0..62 => self.statement_in_transaction(session),
                62..84 => self.end_transaction(session, true),
                84..90 => self.end_transaction(session, false),
                90..95 => self.save(session),
                _ => self.roll_back_to(session),
            }
        }
    }

    fn begin_transaction(&mut self, session: usize) -> Step<()> {
        let begun = self.instance().begin_transaction(session_id(session));
        let transaction = begun.map_err(|error| self.stop("BEGIN TRANSACTION", &error))?;
        let working = self.sessions[session].truth.committed.clone();
        self.note(format!("s{session}: BEGIN TRANSACTION"));
        self.sessions[session].open = Some(Open { transaction, working, savepoints: Vec::new() });
        Ok(())
    }

    fn save(&mut self, session: usize) -> Step<()> {
        self.note(format!("s{session}: SAVE TRANSACTION"));
        let open = self.sessions[session].open.as_mut().expect("the caller has looked");
        open.savepoints.push((open.transaction.set_savepoint(), open.working.clone()));
        Ok(())
    }

    fn roll_back_to(&mut self, session: usize) -> Step<()> {
        let instance = self.instance();
        let uses = self.uses()?;
        let databases: Vec<_> = uses.iter().map(|database| &***database).collect();
        let open = self.sessions[session].open.as_mut().expect("the caller has looked");
        let Some((place, state)) = open.savepoints.last().cloned() else { return Ok(()) };
        open.working = state;
        let done = instance.roll_back_to(&open.transaction, &place, &databases);
        self.note(format!("s{session}: ROLLBACK TRANSACTION to the savepoint"));
        done.map_err(|error| self.stop("ROLLBACK to a savepoint", &error))
    }

    fn end_transaction(&mut self, session: usize, commits: bool) -> Step<()> {
        self.note(format!("s{session}: {}", if commits { "COMMIT" } else { "ROLLBACK" }));
        let instance = self.instance();
        let uses = self.uses()?;
        let databases: Vec<_> = uses.iter().map(|database| &***database).collect();
        let open = self.sessions[session].open.take().expect("the caller has looked");
        let is_across = open.working.changed_from(&self.sessions[session].truth.committed) > 1;
        let delays = commits && self.chance(40);
        if delays {
            open.transaction.delay_durability();
        }
        if commits {
            self.sessions[session].truth.doubtful = Some(open.working);
            self.report.doubtful += 1;
        }
        let ended = instance.end_transaction(&open.transaction, commits, &databases);
        ended.map_err(|error| self.stop("the end of a transaction", &error))?;
        if commits {
            self.report.commits_across += u64::from(is_across);
            self.acknowledge(session, delays);
        }
        Ok(())
    }

    /// Records that the commit of a session's transaction is acknowledged: it is durable, with all earlier commits in
    /// its databases, unless it changed only one database, which allowed the commit to be delayed.
    pub(crate) fn acknowledge(&mut self, session: usize, asks_for_delay: bool) {
        let truth = &mut self.sessions[session].truth;
        let now = truth.doubtful.take().expect("it was in doubt until now");
        let before = std::mem::replace(&mut truth.committed, now);
        let committed = &truth.committed;
        let changed: Vec<usize> = (0..DATABASES.len()).filter(|at| before.0[*at] != committed.0[*at]).collect();
        for &index in &changed {
            let delays = match self.durability[index] {
                DelayedDurability::Disabled => false,
                DelayedDurability::Allowed => asks_for_delay,
                DelayedDurability::Forced => true,
            };
            if delays && changed.len() == 1 {
                self.delayed[index].push(Delayed { session, before: before.0[index].clone() });
                self.report.commits_delayed += 1;
            } else {
                self.delayed[index].clear();
            }
        }
        self.report.commits += 1;
        self.report.doubtful -= 1;
    }

    /// Both databases, if both can be used.
    fn uses(&mut self) -> Step<Vec<DatabaseUse>> {
        (0..DATABASES.len()).map(|index| self.database(index)).collect()
    }

    fn statement_in_transaction(&mut self, session: usize) -> Step<()> {
        let instance = self.instance();
        let open = self.sessions[session].open.as_ref().expect("the caller has looked");
        let ctx = instance.statement_of(&open.transaction, session_id(session), 1, Arc::default());
        let before = open.working.clone();
        let outcome = self.statement(session, &ctx, before)?;
        if let Some(working) = outcome {
            self.sessions[session].open.as_mut().expect("it is open still").working = working;
        }
        Ok(())
    }

    fn autocommit(&mut self, session: usize) -> Step<()> {
        let begun = self.instance().statement_context(session_id(session), 1, Arc::default());
        let ctx = begun.map_err(|error| self.stop("a statement", &error))?;
        let before = self.sessions[session].truth.committed.clone();
        self.statement(session, &ctx, before)?;
        Ok(())
    }
}

fn session_id(session: usize) -> SessionId {
    SessionId(51 + i32::try_from(session).expect("a few sessions"))
}
