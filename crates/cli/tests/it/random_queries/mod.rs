//! Random queries, checked by relations that need no other engine: two formulations of the same query have one result.
//!
//! A seed determines a query, a relation ([`relations`]) and, with its neighbours, the tables ([`world`]), and so
//! everything that is run. `HOBT_SEED` is the first seed. Seeds are used until `HOBT_QUERIES` queries were sent (each
//! seed sends two to five). A failure prints its seed, is reduced ([`shrink`]) and printed as a script for `hobt sql`;
//! `HOBT_QUERIES=1` runs that seed alone. See docs/design/0035-random-queries.md.
//!
//! [`Verdict`] describes the errors that a query may end with. [`functions`] checks functions with each type.

mod functions;
mod generate;
mod outcome;
mod relations;
mod rewrite;
mod shrink;
mod tree;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt::{Instance, Session};

use self::outcome::{Outcome, Row, run};
use self::relations::{Case, Relation, Sides};
use self::tree::Shape;
use self::world::{SEEDS_OF_A_WORLD, World};
use crate::client::{instance_with, ok, setting, used};

/// After this many failures, the search stops.
const FAILURES: usize = 12;

/// From this many queries on, every relation must have held.
const JUDGED: u64 = 1000;

/// The greatest number of batches used to reduce a failure.
const STEPS: usize = 1500;

/// The result of a case.
enum Verdict {
    Holds,
    /// The case is not conclusive: its relation does not apply to the query, or a batch ended in an error that depends
    /// on the rows (it is unspecified whether they are evaluated) or in an unsupported feature. Contains the error's
    /// number, or 0.
    Says(i32),
    Fails(Failure),
}

/// The failure of a case: a short name, equal for similar failures, and the full text.
#[derive(Debug)]
struct Failure {
    kind: String,
    text: String,
}

/// Errors that depend on which rows are evaluated: overflows, divisions, conversions, floats that are not numbers
/// (3623). Also unsupported features (40517), and hints that no plan can satisfy (8622).
const ALLOWED: [i32; 14] = [8134, 8115, 220, 232, 241, 242, 244, 245, 248, 517, 8114, 3623, 40517, 8622];
/// Texts of two collations meet.
const COLLATION_CONFLICT: i32 = 468;

/// Whether a case in a world may end in an error. Constants have the database's collation, so texts of two collations
/// meet only if columns have a collation of their own.
fn is_allowed(number: i32, world: &World) -> bool {
    ALLOWED.contains(&number) || (number == COLLATION_CONFLICT && !world.has_default_collation())
}

/// All rows of some batches, or the reason why there are none.
fn rows_of(session: &mut Session, batches: &[String], world: &World) -> Result<Vec<Row>, Verdict> {
    let mut all = Vec::new();
    for batch in batches {
        match run(session, batch) {
            Outcome::Rows(rows) => all.extend(rows),
            Outcome::Broken(text) => {
                let kind = text.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect();
                return Err(Verdict::Fails(Failure { kind, text: format!("{text}\n{batch}") }));
            }
            Outcome::Failed(error) if is_allowed(error.number, world) => return Err(Verdict::Says(error.number)),
            Outcome::Failed(error) => {
                let kind = format!("error {}", error.number);
                return Err(Verdict::Fails(Failure { kind, text: format!("{error}\n{batch}") }));
            }
        }
    }
    Ok(all)
}

/// Runs both sides, and compares them.
fn judge(session: &mut Session, sides: &Sides, world: &World) -> Verdict {
    let found = rows_of(session, &sides.left, world);
    let found = found.and_then(|left| Ok((left, rows_of(session, &sides.right, world)?)));
    let (mut left, mut right) = match found {
        Ok(both) => both,
        Err(verdict) => return verdict,
    };
    if !sides.is_ordered {
        left.sort();
        right.sort();
    }
    if left == right {
        return Verdict::Holds;
    }
    let shown = |rows: &[Row]| format!("{} rows: {:?}", rows.len(), &rows[..rows.len().min(12)]);
    let text = format!("one side has {}\nthe other {}", shown(&left), shown(&right));
    Verdict::Fails(Failure { kind: "differs".to_owned(), text })
}

fn judge_case(session: &mut Session, case: &Case, world: &World) -> Verdict {
    case.sides(world).map_or(Verdict::Says(0), |sides| judge(session, &sides, world))
}

/// The tables that a case's query may read, with their shapes.
fn tables_of(sides: &Sides, world: &World) -> BTreeSet<(usize, Shape)> {
    let named = |(table, shape): &(usize, Shape)| {
        let name = format!(" t{table}{} AS ", shape.suffix());
        sides.left.iter().chain(&sides.right).any(|batch| batch.contains(&name))
    };
    world.all().into_iter().filter(named).collect()
}

/// A session in a new instance that contains a world's tables.
struct Bench {
    session: Session,
    _instance: Instance,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let (folder, instance) = instance_with("");
        let mut session = used(&instance);
        for statement in World::BEFORE {
            ok(&mut session, statement);
        }
        Bench { session, _instance: instance, _folder: folder }
    }

    fn of(world: &World) -> Bench {
        let mut bench = Bench::new();
        for statement in world.script(&world.all()) {
            ok(&mut bench.session, &statement);
        }
        bench
    }

    /// The failure of a case with tables created for it.
    fn fails_with(&mut self, case: &Case, world: &World) -> Option<Failure> {
        let sides = case.sides(world)?;
        let tables = tables_of(&sides, world);
        for statement in world.script(&tables) {
            if !matches!(run(&mut self.session, &statement), Outcome::Rows(_)) {
                return None;
            }
        }
        let verdict = judge(&mut self.session, &sides, world);
        for (table, shape) in tables {
            ok(&mut self.session, &format!("DROP TABLE t{table}{}", shape.suffix()));
        }
        if let Verdict::Fails(failure) = verdict { Some(failure) } else { None }
    }
}

/// Reduces a failing case and its tables while the failure stays similar.
fn shrunk(bench: &mut Bench, case: &Case, world: &World, kind: &str) -> (Case, World) {
    let (mut case, mut world) = (case.clone(), world.clone());
    let mut steps = 0;
    let mut alike = |verdict: Verdict| {
        steps += 1;
        matches!(verdict, Verdict::Fails(failure) if failure.kind == kind)
    };
    // First reduce the query, with the existing tables.
    loop {
        let smaller = shrink::cases(&case);
        match smaller.into_iter().find(|smaller| alike(judge_case(&mut bench.session, smaller, &world))) {
            Some(smaller) => case = smaller,
            None => break,
        }
    }
    // Then reduce the rows, creating tables for each attempt, and the query again.
    let mut bench = Bench::new();
    for _ in 0..STEPS {
        let Some(sides) = case.sides(&world) else { break };
        let tables: Vec<usize> = tables_of(&sides, &world).into_iter().map(|(table, _)| table).collect();
        let mut fails = |case: &Case, world: &World| bench.fails_with(case, world).is_some_and(|it| it.kind == kind);
        if let Some(smaller) = shrink::worlds(&world, &tables).into_iter().find(|smaller| fails(&case, smaller)) {
            world = smaller;
        } else if let Some(smaller) = shrink::cases(&case).into_iter().find(|smaller| fails(smaller, &world)) {
            case = smaller;
        } else {
            break;
        }
    }
    (case, world)
}

/// A script that reproduces a failure.
fn script(case: &Case, world: &World, failure: &Failure) -> String {
    let Some(sides) = case.sides(world) else { return String::new() };
    let tables = tables_of(&sides, world);
    let mut lines = vec!["CREATE DATABASE random_queries".to_owned(), "USE random_queries".to_owned()];
    let partitioned = tables.iter().any(|(_, shape)| *shape == Shape::Partitioned);
    lines.extend(World::BEFORE.iter().filter(|_| partitioned).map(|statement| (*statement).to_owned()));
    lines.extend(world.script(&tables));
    let told = format!("-- HOBT_SEED={}, {:?}: {}", case.seed, case.relation, failure.text.replace('\n', "\n-- "));
    lines.push(told + "\n" + &sides.left.join("\nGO\n"));
    lines.push(format!("-- against\n{}", sides.right.join("\nGO\n")));
    lines.join("\nGO\n") + "\nGO"
}

/// The results of all threads of a run.
#[derive(Default)]
struct Found {
    failures: Vec<String>,
    /// The numbers of cases that held and that were not conclusive, by relation.
    held: BTreeMap<Relation, (u64, u64)>,
    /// The number of cases that each error made inconclusive.
    errors: BTreeMap<i32, u64>,
}

/// Runs the seeds of one world from `first` on.
fn run_world(first: u64, sent: &AtomicU64, wanted: u64, found: &Mutex<Found>) {
    let world = World::of(first);
    let mut bench = Bench::of(&world);
    let last = (first / SEEDS_OF_A_WORLD + 1) * SEEDS_OF_A_WORLD;
    for seed in first..last {
        if sent.load(Ordering::Relaxed) >= wanted {
            return;
        }
        let case = Case::of(seed, &world);
        let Some(sides) = case.sides(&world) else { continue };
        sent.fetch_add((sides.left.len() + sides.right.len()) as u64, Ordering::Relaxed);
        let verdict = judge(&mut bench.session, &sides, &world);
        let mut told = found.lock().expect("no thread panics with it");
        let counts = told.held.entry(case.relation).or_default();
        match verdict {
            Verdict::Holds => counts.0 += 1,
            Verdict::Says(number) => {
                counts.1 += 1;
                *told.errors.entry(number).or_default() += 1;
            }
            Verdict::Fails(failure) => {
                drop(told);
                let (small, of) = shrunk(&mut bench, &case, &world, &failure.kind);
                let again = Bench::new().fails_with(&small, &of).unwrap_or(failure);
                let text = script(&small, &of, &again);
                println!("{text}\n");
                let mut told = found.lock().expect("no thread panics with it");
                told.failures.push(text);
                if told.failures.len() >= FAILURES {
                    sent.store(u64::MAX / 2, Ordering::Relaxed);
                }
            }
        }
    }
}

#[test]
fn what_is_said_in_two_ways_has_one_answer() {
    let (first, wanted) = (setting("HOBT_SEED", 0), setting("HOBT_QUERIES", 3000));
    let (sent, found) = (AtomicU64::new(0), Mutex::new(Found::default()));
    let next = AtomicU64::new(first);
    let threads = if wanted < 100 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while sent.load(Ordering::Relaxed) < wanted {
                    let after = |seed: u64| Some((seed / SEEDS_OF_A_WORLD + 1) * SEEDS_OF_A_WORLD);
                    let seed = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).expect("always some");
                    run_world(seed, &sent, wanted, &found);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panicked");
    println!("relations, cases that held and that said nothing: {:?}", found.held);
    println!("errors of those that said nothing: {:?}", found.errors);
    assert!(found.failures.is_empty(), "{} failures:\n{}", found.failures.len(), found.failures.join("\n\n"));
    let held: u64 = found.held.values().map(|(held, _)| held).sum();
    let idle: u64 = found.held.values().map(|(_, idle)| idle).sum();
    // With fewer queries, a relation may by chance have no conclusive case.
    if wanted >= JUDGED {
        assert!(held > idle * 4, "{idle} cases say nothing, and {held} hold");
        let has_held = |relation: &Relation| found.held.get(relation).is_some_and(|(held, _)| *held > 0);
        let silent: Vec<Relation> = Relation::ALL.into_iter().filter(|relation| !has_held(relation)).collect();
        assert!(silent.is_empty(), "no case of these holds: {silent:?}");
    }
}

#[test]
fn a_seed_gives_one_case() {
    for seed in 0..300 {
        let case = Case::of(seed, &World::of(seed));
        assert_eq!(case, Case::of(seed, &World::of(seed)), "seed {seed}");
    }
}
