//! The dependency graph of transactions: a cycle means that no serial order explains the history.
//!
//! ```text
//!   wr   reads a version that the other transaction wrote
//!   ww   writes the version after the other transaction's
//!   rw   reads a version after which the other transaction writes the next
//! ```
//!
//! Writers, and readers that keep their locks, commit in the order of these edges at any level. So a cycle among them
//! is an error (Adya's mixed serialization graph: ww of all, wr if only committed rows are read, rw if locks are kept).
//! A reader of one moment has an rw edge to transactions that commit after that moment, and wr and ww edges from those
//! that committed before. A path from the former to the latter is an error (G-single). The path may not use rw edges of
//! other such readers, so the rule also holds with writers of any level.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use super::check::Wrong;
use super::history::{Level, RowName};
use super::versions::Versions;

/// A version that a step of a transaction has read, as its index in the row's order of versions.
pub(super) struct Looked {
    pub(super) transaction: usize,
    pub(super) step: usize,
    pub(super) life: usize,
    pub(super) version: usize,
}

/// A life of a row that a transaction did not find while it locked the row's position until its end. The life had ended
/// before, or began after that end.
pub(super) struct Missed {
    pub(super) transaction: usize,
    pub(super) life: usize,
    pub(super) was_before: bool,
}

/// For each transaction, those that depend on it, with one reason each.
type Edges = BTreeMap<usize, BTreeMap<usize, (&'static str, RowName)>>;

/// Adds the errors in the order of transactions.
pub(super) fn check(versions: &Versions<'_>, (looked, missed): (&[Looked], &[Missed]), wrong: &mut Wrong) {
    let edges = edges(versions, looked, missed);
    if let Some(cycle) =
        (0..versions.transactions.len()).find_map(|start| path(&edges, &BTreeSet::from([start]), &[start]))
    {
        wrong.push((format!("a cycle:{}", described(versions, &edges, &cycle)), cycle));
    }
    let mut moments: BTreeMap<(usize, Option<usize>), Vec<&Looked>> = BTreeMap::new();
    for look in looked {
        let of_step = match versions.transactions[look.transaction].level {
            Level::ReadUncommitted | Level::ReadCommittedLocks => continue,
            Level::ReadCommittedVersions => Some(look.step),
            Level::RepeatableRead | Level::Serializable | Level::Snapshot => None,
        };
        moments.entry((look.transaction, of_step)).or_default().push(look);
    }
    for ((reader, _), looks) in moments {
        let before = looks.iter().filter_map(|look| versions.writer(versions.lives[look.life].order[look.version]));
        let before: BTreeSet<usize> = before.filter(|writer| *writer != reader).collect();
        let behind = looks.iter().filter_map(|look| versions.next_writer(look.life, look.version));
        let behind: Vec<usize> = behind.filter(|writer| *writer != reader).collect();
        let same = behind.iter().find(|writer| before.contains(writer)).map(|writer| vec![*writer]);
        if let Some(found) = same.or_else(|| path(&edges, &before, &behind)) {
            let text = format!(
                "not of one moment: sees the last of these and not the first{}",
                described(versions, &edges, &found)
            );
            wrong.push((text, std::iter::once(reader).chain(found).collect()));
        }
    }
}

fn edges(versions: &Versions<'_>, looked: &[Looked], missed: &[Missed]) -> Edges {
    let mut edges = Edges::new();
    let mut add = |from: Option<usize>, to: Option<usize>, kind, name| {
        let is_committed = |at: &usize| versions.transactions[*at].is_committed;
        if let (Some(from), Some(to)) = (from.filter(is_committed), to.filter(is_committed))
            && from != to
        {
            edges.entry(from).or_default().entry(to).or_insert((kind, name));
        }
    };
    let mut of_name: BTreeMap<RowName, Vec<usize>> = BTreeMap::new();
    for (at, life) in versions.lives.iter().enumerate() {
        of_name.entry(life.name).or_default().push(at);
        for version in 0..life.order.len() {
            add(versions.writer(life.order[version]), versions.next_writer(at, version), "ww", life.name);
        }
    }
    for (name, mut lives) in of_name {
        lives.sort_by_key(|life| versions.inserted_at(*life));
        for pair in lives.windows(2) {
            add(versions.lives[pair[0]].removed_by, versions.inserter(pair[1]), "ww", name);
        }
    }
    for look in looked {
        let life = &versions.lives[look.life];
        let reader = Some(look.transaction);
        add(versions.writer(life.order[look.version]), reader, "wr", life.name);
        if versions.transactions[look.transaction].level.keeps_locks() {
            add(reader, versions.next_writer(look.life, look.version), "rw", life.name);
        }
    }
    for Missed { transaction, life, was_before } in missed {
        let (reader, name) = (Some(*transaction), versions.lives[*life].name);
        match was_before {
            true => add(versions.lives[*life].removed_by, reader, "wr", name),
            false => add(reader, versions.inserter(*life), "rw", name),
        }
    }
    edges
}

/// The shortest path of at least one edge from a node in `from` to a node in `to`.
fn path(edges: &Edges, to: &BTreeSet<usize>, from: &[usize]) -> Option<Vec<usize>> {
    let mut come_from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next: VecDeque<usize> = from.iter().copied().collect();
    let starts: BTreeSet<usize> = from.iter().copied().collect();
    while let Some(at) = next.pop_front() {
        for other in edges.get(&at).into_iter().flat_map(BTreeMap::keys).copied() {
            if to.contains(&other) {
                let mut found = vec![other, at];
                let mut at = at;
                while !starts.contains(&at) {
                    at = come_from[&at];
                    found.push(at);
                }
                found.reverse();
                return Some(found);
            }
            if !starts.contains(&other) && !come_from.contains_key(&other) {
                come_from.insert(other, at);
                next.push_back(other);
            }
        }
    }
    None
}

fn described(versions: &Versions<'_>, edges: &Edges, path: &[usize]) -> String {
    let name = |at: usize| {
        let (thread, number) = versions.transactions[at].name;
        format!("T{thread}.{number}")
    };
    let mut text = format!(" {}", name(path[0]));
    for pair in path.windows(2) {
        let (kind, row) = edges[&pair[0]][&pair[1]];
        write!(text, " -{kind} {row:?}-> {}", name(pair[1])).expect("a text takes all");
    }
    text
}
