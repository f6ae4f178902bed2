//! Statements of several sessions in a given order, and what becomes of each: `tests/isolation/*.spec`.
//!
//! ```text
//! database d SET READ_COMMITTED_SNAPSHOT OFF      what `ALTER DATABASE d SET` is given; a file has one database
//! setup CREATE TABLE …                            run before each scenario, in a database of its own
//! each SET TRANSACTION ISOLATION LEVEL …          run by every session when it comes in
//!
//! scenario NAME
//! 1: BEGIN TRANSACTION; …                         a batch of session 1
//! => ok                                           what became of it
//! 2: UPDATE …
//! => blocked                                      it waits for a lock
//! 1: COMMIT
//! => ok
//! 2=> (1, 11) (2, 20)                             what became of the batch of session 2, which the one above let go on
//! ```
//!
//! A batch is `ok`, `blocked`, the rows of its last result set in order, or `error` with the number of its first. That
//! somebody is blocked is seen in the lock manager's list of waits, and nothing is waited for by time.
//! With `HOBT_REWRITE=1` the files get what was found.

mod driver;

use std::path::PathBuf;

use driver::World;

/// A scenario: its name, the line that it begins in, its steps with what is expected of them.
struct Scenario {
    name: String,
    steps: Vec<Step>,
}

struct Step {
    session: u32,
    batch: String,
    expected: Vec<String>,
}

/// A file of scenarios.
#[derive(Default)]
struct Spec {
    /// The lines before the first scenario, as they stand.
    head: Vec<String>,
    options: Vec<String>,
    setup: String,
    each: String,
    scenarios: Vec<(Vec<String>, Scenario)>,
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
                    (other, _) => panic!("what is '{other}'?"),
                }
            }
            if spec.scenarios.len() == 1 && spec.head.is_empty() {
                spec.head = std::mem::take(&mut spec.scenarios[0].0);
            }
        }
        spec
    }
}

#[test]
fn every_scenario_ends_as_it_says() {
    play_all("");
}

/// Statements that name one row of a key are learned at their first run, and take no plan.
#[test]
fn every_scenario_ends_so_on_the_direct_path() {
    play_all("DBCC TRACEON (30002)");
}

/// Plays all scenarios, with sessions that run `begins_with` first.
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
        let mut text: String = spec.head.iter().map(|line| format!("{line}\n")).collect();
        let world = World::new(begins_with);
        for (place, (comments, scenario)) in spec.scenarios.iter().enumerate() {
            comments.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            text.push_str(&format!("scenario {}\n", scenario.name));
            let mut play = world.begin(place, &spec.options, &spec.setup, &spec.each);
            for step in &scenario.steps {
                let found = play.step(step.session, &step.batch);
                text.push_str(&format!("{}: {}\n{}\n", step.session, step.batch, found.join("\n")));
                if found != step.expected {
                    let (name, expected, found) = (&scenario.name, step.expected.join(" "), found.join(" "));
                    failures.push(format!(
                        "{name}, {}: {}\n  expected {expected}\n  found    {found}",
                        step.session, step.batch
                    ));
                }
            }
            let left = play.end();
            if !left.is_empty() {
                failures.push(format!("{name}: {}: still blocked at its end: {left:?}", scenario.name));
            }
        }
        if rewrite {
            std::fs::write(&path, text).expect("written");
        }
    }
    assert!(failures.is_empty() || rewrite, "{}", failures.join("\n"));
}
