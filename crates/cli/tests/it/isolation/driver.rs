//! Sessions on threads of their own, which run one batch after the other. The driver waits until each is done or
//! blocked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hobt::{Event, Flow, Instance, Session};
use hobt_base::SessionId;

/// The interval of checks of a session's state. Their number does not matter.
const LOOK: Duration = Duration::from_millis(1);

/// An instance for the scenarios of a file.
pub(super) struct World {
    instance: Instance,
    /// The batch that each session runs first.
    begins_with: &'static str,
    _folder: tempfile::TempDir,
}

impl World {
    pub(super) fn new(begins_with: &'static str) -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let instance = Instance::open(folder.path()).expect("an instance");
        World { instance, begins_with, _folder: folder }
    }

    /// Creates a database with these options, and runs `once` in it.
    pub(super) fn make_database(&self, database: &str, options: &[String], once: &str) {
        let mut session = self.instance.session().expect("a session");
        session.run(&format!("CREATE DATABASE {database}")).expect("a database");
        for option in options {
            session.run(&format!("ALTER DATABASE {database} SET {option}")).expect("an option");
        }
        session.run(&format!("USE {database}")).expect("the database");
        once.lines().for_each(|batch| session.run(batch).expect("what a database begins with"));
    }

    /// Runs batches in a database, one per line.
    pub(super) fn run(&self, database: &str, batches: &str) {
        let mut session = self.instance.session().expect("a session");
        session.run(&format!("USE {database}")).expect("the database");
        batches.lines().for_each(|batch| session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}")));
    }

    /// Begins a scenario in a database. A session is opened when it is first named.
    pub(super) fn begin(&self, database: &str, setup: &str, each: &str) -> Play<'_> {
        self.run(database, setup);
        let (database, each) = (database.to_owned(), format!("{}; {each}", self.begins_with));
        Play { instance: &self.instance, database, each, actors: BTreeMap::new() }
    }
}

/// A session on a thread of its own.
struct Actor {
    id: SessionId,
    batches: Option<Sender<String>>,
    done: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    is_running: bool,
}

impl Actor {
    fn begin(mut session: Session) -> Actor {
        let id = outcome(&mut session, "SELECT @@SPID");
        let id = SessionId(id.trim_matches(['(', ')']).parse().expect("a number"));
        let (batches, to_run) = channel::<String>();
        let (says, done) = channel();
        let thread = std::thread::spawn(move || {
            while let Ok(batch) = to_run.recv() {
                // There is no receiver any more if a test has failed.
                let _gone = says.send(outcome(&mut session, &batch));
            }
        });
        Actor { id, batches: Some(batches), done, thread: Some(thread), is_running: false }
    }
}

/// The result of a batch: its first error, the rows of its last result set, or `ok`.
fn outcome(session: &mut Session, batch: &str) -> String {
    let (mut rows, mut columns, mut failed) = (None::<Vec<String>>, Vec::new(), None);
    session.execute(batch, &mut |event: Event| {
        match event {
            Event::ResultSet(begun) => (columns, rows) = (begun, Some(Vec::new())),
            Event::Rows(rows_of) => {
                for row in 0..rows_of.num_rows() {
                    let value = |column: usize| {
                        let text = hobt::cell_text(&columns, &rows_of, row, column).expect("a text");
                        text.unwrap_or_else(|| "NULL".to_owned())
                    };
                    let values: Vec<String> = (0..columns.len()).map(value).collect();
                    rows.get_or_insert_default().push(format!("({})", values.join(", ")));
                }
            }
            Event::Error(error) => {
                // Shown if the test fails.
                println!("{batch}: {error}");
                failed.get_or_insert(error.number);
            }
            _ => {}
        }
        Flow::Continue
    });
    match (failed, rows) {
        (Some(number), _) => format!("error {number}"),
        (None, Some(rows)) if rows.is_empty() => "no rows".to_owned(),
        (None, Some(mut rows)) => {
            rows.sort();
            rows.join(" ")
        }
        (None, None) => "ok".to_owned(),
    }
}

/// A running scenario.
pub(super) struct Play<'w> {
    instance: &'w Instance,
    database: String,
    each: String,
    actors: BTreeMap<u32, Actor>,
}

impl Play<'_> {
    /// Runs a batch of a session. Returns its result, and the results of batches that were blocked until then.
    pub(super) fn step(&mut self, number: u32, batch: &str) -> Vec<String> {
        if !self.actors.contains_key(&number) {
            let mut session = self.instance.session().expect("a session");
            session.run(&format!("USE {}", self.database)).expect("the database");
            session.run(&self.each).expect("what each session runs");
            self.actors.insert(number, Actor::begin(session));
        }
        let actor = self.actors.get_mut(&number).expect("it has come in");
        if actor.is_running {
            return vec!["=> is blocked already".to_owned()];
        }
        actor.is_running = true;
        actor.batches.as_ref().expect("until its end").send(batch.to_owned()).expect("its thread lives");
        let mut ended = self.settle();
        let mut found = vec![format!("=> {}", ended.remove(&number).unwrap_or_else(|| "blocked".to_owned()))];
        found.extend(ended.into_iter().map(|(number, outcome)| format!("{number}=> {outcome}")));
        found
    }

    /// Waits until every session is done or blocked. Returns the results of those that are done.
    fn settle(&mut self) -> BTreeMap<u32, String> {
        let mut ended = BTreeMap::new();
        loop {
            let blocked: BTreeSet<SessionId> =
                self.instance.server().instance().locks().waits().iter().map(|wait| wait.session).collect();
            let mut is_settled = true;
            for (number, actor) in self.actors.iter_mut().filter(|(_, actor)| actor.is_running) {
                match actor.done.recv_timeout(LOOK) {
                    Ok(outcome) => {
                        actor.is_running = false;
                        ended.insert(*number, outcome);
                        // Sessions released by this one may still be counted as blocked.
                        is_settled = false;
                    }
                    Err(RecvTimeoutError::Timeout) => is_settled &= blocked.contains(&actor.id),
                    Err(RecvTimeoutError::Disconnected) => panic!("the thread of session {number} has panicked"),
                }
            }
            if is_settled {
                return ended;
            }
        }
    }

    /// Ends the sessions, which rolls back their open transactions. Returns those that were blocked.
    pub(super) fn end(mut self) -> Vec<u32> {
        let blocked: Vec<u32> =
            self.actors.iter().filter(|(_, actor)| actor.is_running).map(|(number, _)| *number).collect();
        let threads: Vec<_> = self
            .actors
            .values_mut()
            .filter_map(|actor| {
                actor.batches = None;
                actor.thread.take()
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
        blocked
    }
}
