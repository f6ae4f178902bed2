//! The expected contents of the databases: each session's tables, as committed and as its open transaction has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hobt_types::SqlType;

use crate::simulation::DATABASES;

/// A row without its key. Values of columns that its table does not have are `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) number: Option<i64>,
    pub(crate) payload: Option<Arc<[u8]>>,
    pub(crate) extra: Option<i32>,
}

/// The rows of a table by their key.
pub(crate) type Rows = BTreeMap<i32, Row>;

/// An index of a table: `(is clustered, is unique)`, its key columns and its included columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexShape {
    pub(crate) is_clustered: bool,
    pub(crate) is_unique: bool,
    pub(crate) key: Vec<String>,
    pub(crate) included: Vec<String>,
}

/// The definition of a table, as the catalog has it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Shape {
    /// Its columns, in order.
    pub(crate) columns: Vec<(String, SqlType)>,
    /// Its indexes, by their names.
    pub(crate) indexes: BTreeMap<String, IndexShape>,
    /// The boundaries of its partition function, if it has one.
    pub(crate) boundaries: Option<Vec<i64>>,
    /// Its constraints by their names, with the table that a foreign key refers to, and `None` for a check.
    pub(crate) constraints: BTreeMap<String, Option<String>>,
}

impl Shape {
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|(known, _)| known == name)
    }

    /// Whether an index contains a column.
    pub(crate) fn is_indexed(&self, column: &str) -> bool {
        self.indexes.values().any(|index| index.key.iter().chain(&index.included).any(|name| name == column))
    }

    /// Whether one of its foreign keys refers to a table.
    pub(crate) fn refers_to(&self, name: &str) -> bool {
        self.constraints.values().any(|referenced| referenced.as_deref() == Some(name))
    }

    pub(crate) fn has_foreign_key(&self) -> bool {
        self.constraints.values().any(Option::is_some)
    }
}

/// A table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Table {
    pub(crate) shape: Shape,
    pub(crate) rows: Rows,
}

/// What one session has in one database, by name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Objects {
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) sequences: BTreeSet<String>,
}

impl Objects {
    /// Whether a foreign key of another table refers to the table.
    pub(crate) fn is_referenced(&self, name: &str) -> bool {
        let others = self.tables.iter().filter(|(other, _)| *other != name);
        others.into_iter().any(|(_, table)| table.shape.refers_to(name))
    }
}

/// What one session has, database by database.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct State(pub(crate) Vec<Objects>);

impl State {
    pub(crate) fn new(databases: usize) -> State {
        State(vec![Objects::default(); databases])
    }

    /// The differences between this state and what was found, database by database.
    fn differences(&self, found: &State) -> String {
        let texts = self
            .0
            .iter()
            .zip(&found.0)
            .zip(DATABASES)
            .map(|((expected, found), name)| format!("{name}: {}", differences(expected, found)));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// The number of databases with other tables or rows than in `other`.
    pub(crate) fn changed_from(&self, other: &State) -> usize {
        self.0.iter().zip(&other.0).filter(|(own, other)| own != other).count()
    }
}

/// What a session knows to be committed, and what may be.
#[derive(Debug)]
pub(crate) struct Truth {
    /// The state after all acknowledged commits.
    pub(crate) committed: State,
    /// The state after a commit that was requested and not acknowledged: it is there in all databases, or in none.
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
    /// What the session had in the database before.
    pub(crate) before: Objects,
}

/// Compares what was found of each session's tables with the expected states, and makes it the committed state from now
/// on. Returns an error if it is not allowed. Commits acknowledged before they were durable (`delayed`, a list for each
/// database, in order) may be gone, the last ones first. A commit in progress is there in all databases or in none. In
/// the databases that it has changed, all commits before it are there too.
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

/// Whether the sessions' tables in one database are as expected, except that some of the last delayed commits may be
/// gone.
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

/// The differences between what was found and what was expected, in a few words.
pub(crate) fn differences(expected: &Objects, found: &Objects) -> String {
    let mut text = Vec::new();
    if expected.sequences != found.sequences {
        text.push(format!("sequences {:?} expected, {:?} found", expected.sequences, found.sequences));
    }
    let (expected, found) = (&expected.tables, &found.tables);
    for name in expected.keys().filter(|name| !found.contains_key(*name)) {
        text.push(format!("table {name} is gone"));
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        text.push(format!("table {name} should not be there"));
    }
    for (name, table) in expected {
        let Some(other) = found.get(name) else { continue };
        if table.shape != other.shape {
            text.push(format!("table {name}: {:?} expected, {:?} found", table.shape, other.shape));
        }
        text.extend(differences_of_rows(&table.rows, &other.rows).map(|rows| format!("table {name}: {rows}")));
    }
    if text.is_empty() { "nothing differs".to_owned() } else { text.join("; ") }
}

/// The differences between the rows of one table; `None` if there are none.
pub(crate) fn differences_of_rows(rows: &Rows, others: &Rows) -> Option<String> {
    let lost: Vec<i32> = rows.keys().filter(|key| !others.contains_key(key)).copied().collect();
    let surplus: Vec<i32> = others.keys().filter(|key| !rows.contains_key(key)).copied().collect();
    let changed = rows.iter().filter(|(key, row)| others.get(key).is_some_and(|other| other != *row)).count();
    let differs = !(lost.is_empty() && surplus.is_empty() && changed == 0);
    differs.then(|| {
        format!(
            "{} rows expected, {} found; {} lost {:?}, {} too many {:?}, {changed} differ",
            rows.len(),
            others.len(),
            lost.len(),
            &lost[..lost.len().min(5)],
            surplus.len(),
            &surplus[..surplus.len().min(5)],
        )
    })
}
