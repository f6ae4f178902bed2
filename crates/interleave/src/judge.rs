//! Checks that what sessions saw is allowed, and what is there at the end.
//!
//! A transaction's changes become visible to others at one moment between the request of its commit and the answer.
//! Rows change under exclusive locks that are held until the end. So the versions of a row have one order, that of the
//! statements that wrote them, and each statement reports what it found in the row. From this follows, for each read,
//! which version of each row was seen, and so between which moments the read was made:
//!
//! ```text
//!   row 1   version a ──────────┤ b ────────────────────────
//!   row 2   version c ──┤ d ──────────────────┤ e ──────────
//!   a read of b and c: there is no moment at which both were seen
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Done, History, Key, Moment, Outcome, Read, Value, View};

/// Later than everything.
const NEVER: Moment = Moment::MAX;

/// The rows of all tables.
pub(crate) type Rows = BTreeMap<Key, Value>;

/// A version of a row.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// The transaction that wrote it; `None` for what was there at the start.
    writer: Option<usize>,
    value: Option<Value>,
    /// It became visible between these moments.
    seen_from: Moment,
    seen_by: Moment,
    /// The latest moment at which it was written.
    at: Moment,
}

/// The version before anything was written.
fn start(value: Option<Value>) -> Version {
    Version { writer: None, value, seen_from: 0, seen_by: 0, at: 0 }
}

/// A change: its moment, its transaction, and its number in that transaction.
type Placed = (Moment, usize, usize);

/// The versions that were committed, or may have been, by row and in order.
struct Versions(BTreeMap<Key, Vec<Version>>);

fn version_of(number: usize, done: &Done, value: Option<Value>, at: Moment) -> Version {
    let seen_from = done.ending.unwrap_or(NEVER);
    let seen_by = if done.outcome == Outcome::Committed { done.ended.unwrap_or(NEVER) } else { NEVER };
    Version { writer: Some(number), value, seen_from, seen_by, at }
}

impl Versions {
    /// Goes through all changes in their order, and checks that each found what the one before had left.
    fn of(history: &History, before: &Rows) -> Result<Versions, String> {
        let mut writes: Vec<Placed> = Vec::new();
        for (number, done) in history.transactions.iter().enumerate() {
            writes.extend(done.writes.iter().enumerate().map(|(at, write)| (write.at, number, at)));
        }
        writes.sort_unstable();
        let mut versions: BTreeMap<Key, Vec<Version>> =
            before.iter().map(|(key, value)| (*key, vec![start(Some(*value))])).collect();
        // The transaction that has changed a row last, committed or not.
        let mut owners: BTreeMap<Key, usize> = BTreeMap::new();
        let mut place = 0;
        while place < writes.len() {
            let (moment, number, at) = writes[place];
            let done = &history.transactions[number];
            let write = &done.writes[at];
            let known = versions.entry(write.key).or_default();
            let committed = known.last().and_then(|version| version.value);
            let earlier =
                Done { writes: done.writes[..at].to_vec(), ..Done::new(done.session, done.level, done.begun) };
            let expected = earlier.own(write.key, moment).unwrap_or(committed);
            if write.before != expected {
                // A single statement is recorded after its locks were released: it may have been before others.
                let fits = |&(_, other, at): &Placed| {
                    let other = &history.transactions[other];
                    let late = &other.writes[at];
                    other.is_alone && other.begun < moment && late.key == write.key && late.before == expected
                };
                if let Some(late) = writes[place + 1..].iter().position(fits) {
                    let late = writes.remove(place + 1 + late);
                    writes.insert(place, late);
                    continue;
                }
                return Err(format!(
                    "{} has changed {:?} from {:?}, where {:?} was the last that was committed, to {:?}",
                    name(history, number),
                    write.key,
                    write.before,
                    expected,
                    write.after
                ));
            }
            if let Some(&owner) = owners.get(&write.key).filter(|owner| **owner != number) {
                let ending = history.transactions[owner].ending.unwrap_or(NEVER);
                if ending > moment {
                    let (one, other) = (name(history, owner), name(history, number));
                    return Err(format!("{one} and {other} have changed {:?} at once", write.key));
                }
            }
            place += 1;
            owners.insert(write.key, number);
            let counts = write.undone.is_none() && matches!(done.outcome, Outcome::Committed | Outcome::InDoubt);
            if !counts {
                continue;
            }
            let version = version_of(number, done, write.after, write.at);
            match known.last_mut() {
                Some(last) if last.writer == Some(number) => *last = version,
                _ => known.push(version),
            }
        }
        Ok(Versions(versions))
    }

    fn of_key(&self, key: Key) -> Vec<Version> {
        let mut all = self.0.get(&key).cloned().unwrap_or_default();
        if all.first().is_none_or(|first| first.writer.is_some()) {
            all.insert(0, start(None));
        }
        all
    }

    /// The moments between which a row could be seen with this value by a transaction that has not changed it.
    fn spans(&self, key: Key, value: Option<Value>, reader: usize) -> Vec<(Moment, Moment)> {
        let all = self.of_key(key);
        let others: Vec<&Version> = all.iter().filter(|version| version.writer != Some(reader)).collect();
        let mut spans = Vec::new();
        for (at, version) in others.iter().enumerate() {
            if version.value == value {
                spans.push((version.seen_from, others.get(at + 1).map_or(NEVER, |next| next.seen_by)));
            }
        }
        spans
    }
}

fn name(history: &History, number: usize) -> String {
    let done = &history.transactions[number];
    format!("the transaction of session {} from moment {} ({})", done.session, done.begun, done.level.name())
}

/// Checks everything that was read and changed.
///
/// # Errors
/// The first violation.
pub(crate) fn judge(history: &History, before: &Rows) -> Result<(), String> {
    let versions = Versions::of(history, before)?;
    for (number, done) in history.transactions.iter().enumerate() {
        let snapshot = (done.begun, done.looked.unwrap_or(NEVER));
        let mut of_snapshot = Vec::new();
        for read in &done.reads {
            let wrong = |text: String| {
                Err(format!(
                    "{}, at moments {} to {}: {}: {text}",
                    name(history, number),
                    read.from,
                    read.to,
                    read.text
                ))
            };
            let mut spans = Vec::new();
            for rid in read.rows.all() {
                let key = (read.table, rid);
                let found = read.found.get(&rid).copied();
                if let Some(own) = own_of(done, read, key) {
                    if own != found {
                        return wrong(format!("row {rid} is its own {own:?}, and it found {found:?}"));
                    }
                    continue;
                }
                let of_key = versions.spans(key, found, number);
                if of_key.is_empty() {
                    return wrong(format!("row {rid} was never committed as {found:?}"));
                }
                spans.push((rid, of_key));
            }
            if let Some(text) = look(history, (number, done), read, &spans, &versions) {
                return wrong(text);
            }
            if read.view == View::Snapshot {
                of_snapshot.extend(spans);
                if let Err(rid) = one_moment(&of_snapshot, snapshot) {
                    return wrong(format!(
                        "row {rid} is not of the snapshot of moments {} to {}",
                        snapshot.0, snapshot.1
                    ));
                }
            }
        }
    }
    Ok(())
}

/// What the reader itself had made of a row before it read the row.
fn own_of(done: &Done, read: &Read, key: Key) -> Option<Option<Value>> {
    // What the statement itself has written was recorded at its end.
    done.own(key, read.from)
}

/// What is wrong with one read, if anything.
fn look(
    history: &History,
    (number, done): (usize, &Done),
    read: &Read,
    spans: &[(i64, Vec<(Moment, Moment)>)],
    versions: &Versions,
) -> Option<String> {
    let window = (read.from, read.to);
    match read.view {
        View::Snapshot => return None,
        View::OneMoment => {
            let rid = one_moment(spans, window).err()?;
            return Some(format!("there is no moment at which row {rid} and those before it were so"));
        }
        View::EachItsMoment | View::Repeatable | View::Serializable => {}
    }
    for (rid, of_row) in spans {
        if !of_row.iter().any(|(from, to)| *from <= window.1 && *to >= window.0) {
            return Some(format!("row {rid} was not so at any of these moments"));
        }
    }
    if read.view == View::EachItsMoment {
        return None;
    }
    let until = done.ending.or(done.ended).unwrap_or(NEVER);
    let changed = |rid: i64, writer: usize, at: Moment| {
        format!("{} has changed row {rid} at moment {at}, before it ended at {until}", name(history, writer))
    };
    for rid in read.rows.all() {
        let (key, found) = ((read.table, rid), read.found.get(&rid).copied());
        if (found.is_none() && read.view == View::Repeatable) || done.own(key, read.from).is_some() {
            continue;
        }
        let all = versions.of_key(key);
        let others: Vec<&Version> = all.iter().filter(|version| version.writer != Some(number)).collect();
        // The latest version that it may have been.
        let seen = others.iter().rposition(|version| version.value == found && version.seen_from <= read.to);
        let next = seen.and_then(|seen| others.get(seen + 1));
        if let Some((next, writer)) = next.and_then(|next| Some((next, next.writer?)))
            && next.at < until
            && next.at > read.to
        {
            return Some(changed(rid, writer, next.at));
        }
        let undone =
            history.transactions.iter().enumerate().filter(|(other, theirs)| {
                *other != number && !theirs.is_alone && theirs.outcome == Outcome::RolledBack
            });
        for (other, theirs) in undone {
            let meets = |at: Moment| at > read.to && at < until;
            if let Some(write) = theirs.writes.iter().find(|write| write.key == key && meets(write.at)) {
                return Some(changed(rid, other, write.at));
            }
        }
    }
    None
}

/// A moment of a window at which all rows were as they were seen; otherwise the first row for which there is none.
fn one_moment(spans: &[(i64, Vec<(Moment, Moment)>)], window: (Moment, Moment)) -> Result<Moment, i64> {
    let mut moments: BTreeSet<Moment> = BTreeSet::from([window.0]);
    moments.extend(spans.iter().flat_map(|(_, of_row)| of_row.iter().map(|(from, _)| (*from).max(window.0))));
    moments.retain(|moment| *moment <= window.1);
    let is_so =
        |moment: Moment, of_row: &[(Moment, Moment)]| of_row.iter().any(|(from, to)| *from <= moment && moment <= *to);
    let mut furthest = 0;
    for moment in moments {
        match spans.iter().position(|(_, of_row)| !is_so(moment, of_row)) {
            None => return Ok(moment),
            Some(at) => furthest = furthest.max(at),
        }
    }
    Err(spans.get(furthest).map_or(0, |(rid, _)| *rid))
}

/// Checks that the rows at the end are those of the acknowledged commits, and of some complete ones among those that
/// `may_be_lost` or were never answered. Returns which of these are there.
///
/// # Errors
/// The first violation.
pub(crate) fn settle(
    history: &History,
    before: &Rows,
    found: &Rows,
    may_be_lost: &BTreeSet<usize>,
) -> Result<BTreeMap<usize, bool>, String> {
    let versions = Versions::of(history, before)?;
    let is_open =
        |number: usize| history.transactions[number].outcome == Outcome::InDoubt || may_be_lost.contains(&number);
    let keys: BTreeSet<Key> = versions.0.keys().chain(found.keys()).copied().collect();
    let mut is_there: BTreeMap<usize, bool> = BTreeMap::new();
    let mut later: Vec<(Key, Vec<usize>, Vec<Version>)> = Vec::new();
    for key in keys {
        let all = versions.of_key(key);
        let value = found.get(&key).copied();
        let last_sure = all.iter().rposition(|version| version.writer.is_none_or(|writer| !is_open(writer)));
        let last_sure = last_sure.expect("what was there at the start is sure");
        let places: Vec<usize> = (last_sure..all.len()).filter(|at| all[*at].value == value).collect();
        match places.as_slice() {
            [] => {
                return Err(format!(
                    "row {key:?} is {value:?} at the end, and {:?} were committed, the last ones perhaps (from {:?} on)",
                    all.iter().map(|version| version.value).collect::<Vec<_>>(),
                    all[last_sure].value
                ));
            }
            [one] => note_places(history, &all, *one, &mut is_there, key)?,
            _ => later.push((key, places, all)),
        }
    }
    // Rows that were deleted more than once: any of the deletions will do.
    for (key, places, all) in later {
        let fits = |at: &&usize| note_places(history, &all, **at, &mut is_there.clone(), key).is_ok();
        let Some(place) = places.iter().rev().find(fits) else {
            return Err(format!("row {key:?} is gone at the end, which fits none of the commits that were under way"));
        };
        note_places(history, &all, *place, &mut is_there, key)?;
    }
    Ok(is_there)
}

/// Records what the version of one row implies about the transactions around it.
fn note_places(
    history: &History,
    all: &[Version],
    place: usize,
    is_there: &mut BTreeMap<usize, bool>,
    key: Key,
) -> Result<(), String> {
    for (at, version) in all.iter().enumerate() {
        let Some(writer) = version.writer else { continue };
        let known = is_there.entry(writer).or_insert(at <= place);
        if *known != (at <= place) {
            return Err(format!("{} is there in part: row {key:?} says so", name(history, writer)));
        }
    }
    Ok(())
}

/// The transactions whose commit was acknowledged before it was durable, and was not made durable since.
pub(crate) fn may_be_lost(
    history: &History,
    databases_of: &dyn Fn(&Done) -> BTreeSet<usize>,
    delays: &dyn Fn(usize, &Done) -> bool,
) -> BTreeSet<usize> {
    let is_delayed = |done: &Done| {
        let databases = databases_of(done);
        databases.len() == 1 && databases.iter().all(|database| delays(*database, done))
    };
    let committed = |(_, done): &(usize, &Done)| done.outcome == Outcome::Committed && !done.writes.is_empty();
    let all: Vec<(usize, &Done)> = history.transactions.iter().enumerate().filter(committed).collect();
    let is_durable = |done: &Done| {
        let ended = done.ended.unwrap_or(NEVER);
        let databases = databases_of(done);
        let by_commit = all.iter().any(|(_, other)| {
            !is_delayed(other) && other.ending.unwrap_or(0) > ended && databases_of(other).is_superset(&databases)
        });
        let by_flush = |flush: &crate::history::Flush| databases.contains(&flush.database) && flush.from > ended;
        by_commit || history.flushes.iter().any(by_flush)
    };
    all.iter().filter(|(_, done)| is_delayed(done) && !is_durable(done)).map(|(number, _)| *number).collect()
}
