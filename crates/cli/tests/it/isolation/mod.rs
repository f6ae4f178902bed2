//! Statements of several sessions in a given order, and their results: `tests/isolation/*.spec`.
//!
//! ```text
//! database d SET READ_COMMITTED_SNAPSHOT OFF      the options for `ALTER DATABASE d SET`; a file has one database
//! setup CREATE TABLE …                            run before each scenario, in a database of its own
//! each SET TRANSACTION ISOLATION LEVEL …          run by every session when it is opened
//!
//! scenario NAME
//! 1: BEGIN TRANSACTION; …                         a batch of session 1
//! => ok                                           its result
//! 2: UPDATE …
//! => blocked                                      it waits for a lock
//! 1: COMMIT
//! => ok
//! 2=> (1, 11) (2, 20)                             the result of the batch of session 2, which is no longer blocked
//! ```
//!
//! The result of a batch is `ok`, `blocked`, the rows of its last result set in order, or `error` with the number of
//! its first error. Whether a session is blocked is read from the lock manager's list of waits, so no result depends on
//! timing. With `HOBT_REWRITE=1` the actual results are written to the files.
//!
//! A file may run each scenario for every form of a table at every level:
//!
//! ```text
//! once CREATE PARTITION FUNCTION …                run when a database is created
//! form heap CREATE TABLE test (…)                 creates the table `test`; a form has as many lines as it needs
//! level rr ON REPEATABLE READ                     a level, and the setting of READ_COMMITTED_SNAPSHOT
//!
//! 2: SELECT * FROM test
//! [rcv si] => (1, 10)                             at these levels, for all forms
//! [rr ser/heap] => blocked                        at this level for that form
//! ```

mod driver;
mod matrix;

use std::path::PathBuf;

use driver::World;

/// A scenario: its name, its line number, and its steps with the expected results.
struct Scenario {
    name: String,
    steps: Vec<Step>,
}

struct Step {
    session: u32,
    batch: String,
    /// Unparsed lines. They may name the levels and forms that they apply to.
    expected: Vec<String>,
}

/// A file of scenarios.
#[derive(Default)]
struct Spec {
    /// Unparsed lines before the first scenario.
    head: Vec<String>,
    options: Vec<String>,
    setup: String,
    each: String,
    /// Statements run once in a database that all scenarios of a file use one after the other.
    once: String,
    /// The forms of the table, by name. Empty if the file uses only one.
    forms: Vec<(String, String)>,
    levels: Vec<Level>,
    scenarios: Vec<(Vec<String>, Scenario)>,
}

/// A level at which the scenarios of a file are run.
struct Level {
    name: String,
    /// The setting of `READ_COMMITTED_SNAPSHOT`.
    versions: String,
    /// The name in `SET TRANSACTION ISOLATION LEVEL`.
    isolation: String,
}

impl Spec {
    fn read(text: &str) -> Spec {
        let mut spec = Spec::default();
        let mut comments = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("scenario ") {
                let scenario = Scenario { name: name.to_owned(), steps: Vec::new() };
                spec.scenarios.push((std::mem::take(&mut comments), scenario));
            } else if line.is_empty() || line.starts_with('#') {
                comments.push(line.to_owned());
            } else if let Some((_, scenario)) = spec.scenarios.last_mut() {
                match line.split_once(": ") {
                    Some((session, batch)) if session.parse::<u32>().is_ok() => {
                        let session = session.parse().expect("a number");
                        scenario.steps.push(Step { session, batch: batch.to_owned(), expected: Vec::new() });
                    }
                    _ => scenario.steps.last_mut().expect("a step before what it does").expected.push(line.to_owned()),
                }
            } else {
                comments.push(line.to_owned());
                match line.split_once(' ').expect("a word and what it is given") {
                    ("database", option) => spec.options.push(option.to_owned()),
                    ("setup", sql) => spec.setup.push_str(&format!("{sql}\n")),
                    ("each", sql) => spec.each.push_str(&format!("{sql}\n")),
                    ("once", sql) => spec.once.push_str(&format!("{sql}\n")),
                    ("form", text) => spec.add_form(text),
                    ("level", text) => spec.levels.push(Level::read(text)),
                    (other, _) => panic!("what is '{other}'?"),
                }
            }
            if spec.scenarios.len() == 1 && spec.head.is_empty() {
                spec.head = std::mem::take(&mut spec.scenarios[0].0);
            }
        }
        spec
    }

    fn add_form(&mut self, text: &str) {
        let (name, sql) = text.split_once(' ').expect("a form's name and what makes it");
        let known = self.forms.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            self.forms.push((name.to_owned(), String::new()));
            self.forms.len() - 1
        });
        self.forms[known].1.push_str(&format!("{sql}\n"));
    }
}

impl Level {
    fn read(text: &str) -> Level {
        let mut words = text.splitn(3, ' ').map(str::to_owned);
        let mut word = || words.next().expect("a level's name, what READ_COMMITTED_SNAPSHOT is, and the level");
        Level { name: word(), versions: word(), isolation: word() }
    }
}

#[test]
fn every_scenario_ends_as_it_says() {
    play_all("");
}

/// Statements that name one row by key are learned on their first run, and use no plan.
#[test]
fn every_scenario_ends_so_on_the_direct_path() {
    play_all("DBCC TRACEON (30002)");
}

/// Runs all scenarios, with sessions that run `begins_with` first.
fn play_all(begins_with: &'static str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/isolation");
    let rewrite = begins_with.is_empty() && std::env::var_os("HOBT_REWRITE").is_some();
    let wanted = std::env::var("HOBT_SPEC").unwrap_or_default();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "spec"))
        .filter(|path| path.to_string_lossy().contains(&wanted))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut failures = Vec::new();
    for path in files {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let spec = Spec::read(&std::fs::read_to_string(&path).expect("a file"));
        // The path of a statement by key is independent of the differences between forms and levels.
        if !spec.forms.is_empty() && !begins_with.is_empty() {
            continue;
        }
        let mut text: String = spec.head.iter().map(|line| format!("{line}\n")).collect();
        let world = World::new(begins_with);
        match spec.forms.is_empty() {
            true => play_file(&world, &name, &spec, &mut text, &mut failures),
            false => matrix::play_file(&world, &name, &spec, &mut text, &mut failures),
        }
        if rewrite {
            std::fs::write(&path, text).expect("written");
        }
    }
    assert!(failures.is_empty() || rewrite, "{}", failures.join("\n"));
}

/// Runs the scenarios of a file. Adds the results to `text`, and unexpected results to `failures`.
fn play_file(world: &World, name: &str, spec: &Spec, text: &mut String, failures: &mut Vec<String>) {
    for (place, (comments, scenario)) in spec.scenarios.iter().enumerate() {
        comments.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        text.push_str(&format!("scenario {}\n", scenario.name));
        let database = format!("d{place}");
        world.make_database(&database, &spec.options, "");
        let mut play = world.begin(&database, &spec.setup, &spec.each);
        for step in &scenario.steps {
            let found = play.step(step.session, &step.batch);
            text.push_str(&format!("{}: {}\n{}\n", step.session, step.batch, found.join("\n")));
            if found != step.expected {
                failures.push(difference(&scenario.name, step, &step.expected, &found));
            }
        }
        let left = play.end();
        if !left.is_empty() {
            failures.push(format!("{name}: {}: still blocked at its end: {left:?}", scenario.name));
        }
    }
}

fn difference(scenario: &str, step: &Step, expected: &[String], found: &[String]) -> String {
    let (expected, found) = (expected.join(" "), found.join(" "));
    format!("{scenario}, {}: {}\n  expected {expected}\n  found    {found}", step.session, step.batch)
}
