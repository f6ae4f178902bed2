//! What the databases must hold: each session's tables, as they are committed and as its open transaction has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::simulation::DATABASES;

/// A row without its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) number: Option<i64>,
    pub(crate) payload: Option<Arc<[u8]>>,
}

/// The rows of a table by their key.
pub(crate) type Rows = BTreeMap<i32, Row>;

/// One session's tables in one database, by name.
pub(crate) type Tables = BTreeMap<String, Rows>;

/// One session's tables, a map for each database.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct State(pub(crate) Vec<Tables>);

impl State {
    pub(crate) fn new(databases: usize) -> State {
        State(vec![Tables::new(); databases])
    }

    /// How what was found differs, database by database.
    fn differences(&self, found: &State) -> String {
        let texts = self
            .0
            .iter()
            .zip(&found.0)
            .zip(DATABASES)
            .map(|((expected, found), name)| format!("{name}: {}", differences(expected, found)));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// How many databases have other tables or rows than in `other`.
    pub(crate) fn changed_from(&self, other: &State) -> usize {
        self.0.iter().zip(&other.0).filter(|(own, other)| own != other).count()
    }
}

/// What a session has been told, and what it has not.
#[derive(Debug)]
pub(crate) struct Truth {
    /// What every acknowledged commit left.
    pub(crate) committed: State,
    /// What a commit would leave that was asked for and not acknowledged: it is there in all databases, or in none.
    pub(crate) doubtful: Option<State>,
}

impl Truth {
    pub(crate) fn new(databases: usize) -> Truth {
        Truth { committed: State::new(databases), doubtful: None }
    }
}

/// A commit that was acknowledged before it was durable.
#[derive(Debug)]
pub(crate) struct Delayed {
    pub(crate) session: usize,
    /// What the session's tables in the database were before.
    pub(crate) before: Tables,
}

/// Takes what was found of each session's tables for the truth from now on; says what is wrong with it, if something is.
/// Commits that were acknowledged before they were durable (`delayed`, a list for each database, in order) may be gone, the last
/// first; a commit under way is there in all databases or in none, and in those it has changed all before it is there too.
pub(crate) fn settle(truths: &mut [&mut Truth], delayed: &[Vec<Delayed>], found: Vec<State>) -> Result<(), String> {
    let committed: Vec<State> = truths.iter().map(|truth| truth.committed.clone()).collect();
    let latest: Vec<State> =
        truths.iter().map(|truth| truth.doubtful.as_ref().unwrap_or(&truth.committed).clone()).collect();
    let is_kept = delayed.iter().enumerate().all(|(database, delayed)| {
        let is_changed = committed.iter().zip(&latest).any(|(one, other)| one.0[database] != other.0[database]);
        has_lost_the_last_alone(latest.clone(), if is_changed { &[] } else { delayed }, &found, database)
    });
    let is_lost = || {
        let mut databases = delayed.iter().enumerate();
        databases.all(|(database, delayed)| has_lost_the_last_alone(committed.clone(), delayed, &found, database))
    };
    if !is_kept && !is_lost() {
        return Err(differences_of(truths, &found));
    }
    truths.iter_mut().zip(found).for_each(|(truth, found)| truth.committed = found);
    Ok(())
}

/// Whether the sessions' tables in one database are what was expected, but for some of the last delayed commits.
fn has_lost_the_last_alone(mut expected: Vec<State>, delayed: &[Delayed], found: &[State], database: usize) -> bool {
    let mut lost = delayed.iter().rev();
    while expected.iter().zip(found).any(|(expected, found)| expected.0[database] != found.0[database]) {
        let Some(Delayed { session, before }) = lost.next() else { return false };
        expected[*session].0[database].clone_from(before);
    }
    true
}

fn differences_of(truths: &[&mut Truth], found: &[State]) -> String {
    let mut text = Vec::new();
    for (session, (truth, found)) in truths.iter().zip(found).enumerate() {
        if truth.committed == *found {
            continue;
        }
        text.push(format!("session {session}: {}", truth.committed.differences(found)));
        if let Some(doubtful) = &truth.doubtful {
            text.push(format!("and against the commit under way: {}", doubtful.differences(found)));
        }
    }
    text.join("\n ")
}

/// How what was found differs from what was expected, in a few words.
pub(crate) fn differences(expected: &Tables, found: &Tables) -> String {
    let mut text = Vec::new();
    for name in expected.keys().filter(|name| !found.contains_key(*name)) {
        text.push(format!("table {name} is gone"));
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        text.push(format!("table {name} should not be there"));
    }
    for (name, rows) in expected {
        let Some(others) = found.get(name) else { continue };
        let lost: Vec<i32> = rows.keys().filter(|key| !others.contains_key(key)).copied().collect();
        let surplus: Vec<i32> = others.keys().filter(|key| !rows.contains_key(key)).copied().collect();
        let changed = rows.iter().filter(|(key, row)| others.get(key).is_some_and(|other| other != *row)).count();
        if !(lost.is_empty() && surplus.is_empty() && changed == 0) {
            text.push(format!(
                "table {name}: {} rows expected, {} found; {} lost {:?}, {} too many {:?}, {changed} differ",
                rows.len(),
                others.len(),
                lost.len(),
                &lost[..lost.len().min(5)],
                surplus.len(),
                &surplus[..surplus.len().min(5)],
            ));
        }
    }
    if text.is_empty() { "nothing differs".to_owned() } else { text.join("; ") }
}
