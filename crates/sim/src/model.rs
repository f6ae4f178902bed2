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

    /// Takes what was found in the databases for the truth from now on; says what is wrong with it, if something is.
    pub(crate) fn settle(&mut self, found: State) -> Result<(), String> {
        let is_known = found == self.committed || self.doubtful.as_ref() == Some(&found);
        if !is_known {
            let mut text = self.committed.differences(&found);
            if let Some(doubtful) = &self.doubtful {
                text.push_str("\n and against the commit under way: ");
                text.push_str(&doubtful.differences(&found));
            }
            return Err(text);
        }
        self.committed = found;
        Ok(())
    }
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
