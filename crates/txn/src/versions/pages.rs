//! The versions of the rows of one page of a heap.

use std::collections::{HashMap, HashSet};

use hobt_base::{PageId, SlotId, Stamp};
use hobt_page::{EncodingDamage, EncodingReader, put_number};

use super::coding::{put_before, put_page_id, read_before};
use super::facts::Before;
use super::history::History;
use crate::view::{Readers, View};

/// Versions of neighbouring rows that say the same: a page that one transaction fills, or empties, has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Version {
    /// The first row.
    pub(super) slot: SlotId,
    /// The number of rows, at least 1.
    pub(super) rows: u16,
    pub(super) writer: Stamp,
    pub(super) before: Before,
    /// Its change has been undone: the row is again as before. A reader with an older copy of the page still needs the
    /// version.
    pub(super) is_undone: bool,
    /// The RID of the row's new values, if they were not put in the row's own position.
    pub(super) moved_to: Option<(PageId, SlotId)>,
}

impl Version {
    /// A version of rows that `writer` is about to change.
    pub(super) fn new(slot: SlotId, rows: u16, writer: Stamp, before: Before) -> Version {
        Version { slot, rows, writer, before, is_undone: false, moved_to: None }
    }

    fn has(&self, slot: SlotId) -> bool {
        (self.slot.0..self.end()).contains(&slot.0)
    }

    /// The slot behind the last row.
    fn end(&self) -> u16 {
        self.slot.0 + self.rows
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = SlotId> {
        (self.slot.0..self.end()).map(SlotId)
    }

    /// Whether it says the same of its rows as `other` of others.
    fn is_like(&self, other: &Version) -> bool {
        Version { slot: other.slot, rows: other.rows, ..self.clone() } == *other
    }

    /// Takes in the rows of `other`, if they are the next ones on either side and it says the same. Rows are not
    /// compared: those that were replaced have versions of their own.
    fn join(&mut self, other: &Version) -> bool {
        let is_next = self.end() == other.slot.0 || other.end() == self.slot.0;
        if !is_next || matches!(other.before, Before::Row(_)) || other.moved_to.is_some() || !self.is_like(other) {
            return false;
        }
        self.slot = self.slot.min(other.slot);
        self.rows += other.rows;
        true
    }
}

/// What became of a version that cannot be changed any more, because its generation is on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Later {
    slot: SlotId,
    writer: Stamp,
    what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    /// The last change of the row by the writer is undone.
    Undone,
    /// The row's new values are at this RID.
    Moved(PageId, SlotId),
}

/// The versions of a page in one generation, or in several that follow each other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct PageVersions {
    /// What is said of versions of older generations, the oldest first.
    later: Vec<Later>,
    /// The oldest first.
    versions: Vec<Version>,
    /// How many there were when those that no reader needs were last removed.
    pruned_to: usize,
}

/// The result for a slot so far, while its versions are walked from the newest back.
#[derive(Clone, Copy)]
enum Found<'a> {
    Nothing,
    /// Changes that are not visible, with the state before the oldest of them so far.
    Some(&'a Before),
    /// The next older change is visible: nothing older matters.
    All(Option<&'a Before>),
}

/// Makes the version at a place that has `slot` one of this row alone, and returns its new place. What it has said of
/// other rows is said by versions of these.
fn single_out(versions: &mut Vec<Version>, at: usize, slot: SlotId) -> usize {
    let whole = versions[at].clone();
    let part = |from: u16, to: u16| Version { slot: SlotId(from), rows: to - from, ..whole.clone() };
    let parts = [part(whole.slot.0, slot.0), part(slot.0, slot.0 + 1), part(slot.0 + 1, whole.end())];
    let place = at + usize::from(parts[0].rows > 0);
    versions.splice(at..=at, parts.into_iter().filter(|part| part.rows > 0));
    place
}

/// Joins the version at a place with its neighbours, if they say the same.
fn join_neighbours(versions: &mut Vec<Version>, at: usize) {
    for other in [Some(at + 1), at.checked_sub(1)].into_iter().flatten() {
        let Some(neighbour) = versions.get(other).cloned() else { continue };
        if versions[at].join(&neighbour) {
            versions.remove(other);
            if other < at {
                return;
            }
        }
    }
}

impl PageVersions {
    /// Adds a version; returns whether it takes memory of its own.
    pub(super) fn put(&mut self, version: Version) -> bool {
        if self.versions.last_mut().is_some_and(|last| last.join(&version)) {
            return false;
        }
        self.versions.push(version);
        true
    }

    /// The place of the last version of a row by `writer` that is not undone.
    fn last_of_row(&self, slot: SlotId, writer: Stamp) -> Option<usize> {
        self.versions.iter().rposition(|known| known.has(slot) && known.writer == writer && !known.is_undone)
    }

    /// Notes that `writer` has undone its last change of a row that was not undone yet. Returns `false` if that is not
    /// here.
    pub(super) fn undone(&mut self, slot: SlotId, writer: Stamp) -> bool {
        let Some(at) = self.last_of_row(slot, writer) else { return false };
        let at = single_out(&mut self.versions, at, slot);
        self.versions[at].is_undone = true;
        join_neighbours(&mut self.versions, at);
        true
    }

    /// Notes that `writer` has put a row at another RID. Returns `false` if its change of the row is not here.
    pub(super) fn moved(&mut self, slot: SlotId, writer: Stamp, to: (PageId, SlotId)) -> bool {
        let Some(at) = self.last_of_row(slot, writer) else { return false };
        let at = single_out(&mut self.versions, at, slot);
        self.versions[at].moved_to = Some(to);
        true
    }

    /// Like [`PageVersions::undone`], for a version of an older generation.
    pub(super) fn undone_later(&mut self, slot: SlotId, writer: Stamp) {
        self.later.push(Later { slot, writer, what: What::Undone });
    }

    /// Like [`PageVersions::moved`], for a version of an older generation.
    pub(super) fn moved_later(&mut self, slot: SlotId, writer: Stamp, (page, to): (PageId, SlotId)) {
        self.later.push(Later { slot, writer, what: What::Moved(page, to) });
    }

    /// The number of rows that it has versions of, each version counted.
    pub(super) fn len(&self) -> usize {
        self.versions.iter().map(|version| usize::from(version.rows)).sum()
    }

    /// Bytes of memory that the versions take.
    pub(super) fn bytes(&self) -> usize {
        let of_version = |version: &Version| size_of::<Version>() + version.before.row_bytes();
        self.versions.iter().map(of_version).sum::<usize>() + size_of_val(&*self.later)
    }

    /// The rows whose state in a snapshot differs from the current one, each once.
    pub(super) fn changes(&self, view: &View) -> Vec<(SlotId, Before)> {
        let slots = self.versions.iter().map(|version| usize::from(version.end())).max().unwrap_or(0);
        let mut found: Vec<Found<'_>> = vec![Found::Nothing; slots];
        // The newest first: each undoes one change, until one is visible.
        for version in self.versions.iter().rev() {
            let is_seen = view.sees(version.writer);
            for place in &mut found[usize::from(version.slot.0)..usize::from(version.end())] {
                *place = match *place {
                    Found::All(before) => Found::All(before),
                    Found::Some(before) if is_seen => Found::All(Some(before)),
                    Found::Nothing if is_seen => Found::All(None),
                    Found::Some(newer) => Found::Some(version.before.beneath(Some(newer))),
                    Found::Nothing => Found::Some(&version.before),
                };
            }
        }
        let changed = (0..).zip(found).filter_map(|(slot, found)| match found {
            Found::Some(before) | Found::All(Some(before)) => Some((SlotId(slot), before.clone())),
            Found::Nothing | Found::All(None) => None,
        });
        changed.collect()
    }

    /// The state of a row before the changes that a snapshot does not see; `None` if it sees the current row.
    pub(super) fn change(&self, slot: SlotId, view: &View) -> Option<Before> {
        let of_slot = self.versions.iter().rev().filter(|version| version.has(slot));
        let unseen = of_slot.take_while(|version| !view.sees(version.writer));
        unseen.fold(None, |newer, version| Some(version.before.beneath(newer))).cloned()
    }

    /// The last version of a row that is not undone, if the snapshot does not see its writer.
    fn unseen_last(&self, slot: SlotId, view: &View) -> Option<&Version> {
        let last = self.versions.iter().rev().find(|version| version.has(slot) && !version.is_undone)?;
        (!view.sees(last.writer)).then_some(last)
    }

    /// The transaction that has written the current state of a row, if `view` does not see it.
    pub(super) fn changed_by(&self, slot: SlotId, view: &View) -> Option<Stamp> {
        self.unseen_last(slot, view).map(|version| version.writer)
    }

    /// The new RID of a row, if a transaction that `view` does not see has changed and moved it.
    pub(super) fn moved_to(&self, slot: SlotId, view: &View) -> Option<(PageId, SlotId)> {
        self.unseen_last(slot, view)?.moved_to
    }

    /// The versions of changes that `view` does not see and that are not undone.
    pub(super) fn unseen(&self, view: &View) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| !version.is_undone && !view.sees(version.writer))
    }

    /// Calls [`PageVersions::prune`] if there are `many` versions, and twice as many as it has left the last time.
    pub(super) fn prune_if_long(&mut self, many: usize, readers: impl FnOnce() -> Readers) -> usize {
        if self.versions.len() < many.max(2 * self.pruned_to) {
            return 0;
        }
        let freed = self.prune(&readers());
        self.pruned_to = self.versions.len();
        freed
    }
}

impl History for PageVersions {
    fn append(&mut self, newer: PageVersions) {
        for later in newer.later {
            let is_here = match later.what {
                What::Undone => self.undone(later.slot, later.writer),
                What::Moved(page, to) => self.moved(later.slot, later.writer, (page, to)),
            };
            if !is_here {
                self.later.push(later);
            }
        }
        self.versions.extend(newer.versions);
    }

    fn is_oldest(&mut self) {
        self.later.clear();
    }

    fn undone_by(&mut self, writer: Stamp) {
        let own = self.versions.iter_mut().filter(|version| version.writer == writer);
        own.for_each(|version| version.is_undone = true);
    }

    fn prune(&mut self, readers: &Readers) -> usize {
        let before = self.bytes();
        readers.undone.iter().for_each(|writer| self.undone_by(*writer));
        let (mut newest, mut values) = (HashMap::new(), HashMap::new());
        // Rows of which a version has no values of its own, and those of several neighbours, are left alone.
        let mut kept: HashSet<SlotId> = self.later.iter().map(|later| later.slot).collect();
        for (at, version) in self.versions.iter().enumerate() {
            if version.rows > 1 || version.before == Before::Present || version.moved_to.is_some() {
                kept.extend(version.slots());
            }
            if matches!(version.before, Before::Row(_)) {
                // A version without values of an older generation refers to these.
                values.entry(version.slot).or_insert(at);
            }
            // The row's last writer, once those that are running have undone their changes.
            if !version.is_undone && !readers.is_running(version.writer) {
                newest.insert(version.slot, at);
            }
        }
        let mut older = HashMap::new();
        let mut at = 0..;
        self.versions.retain(|version| {
            let (at, slot) = (at.next().expect("without end"), version.slot);
            let older = older.insert(slot, version.writer);
            kept.contains(&slot)
                || newest.get(&slot) == Some(&at)
                || values.get(&slot) == Some(&at)
                || readers.need(older, version.writer)
        });
        before - self.bytes()
    }

    fn writers(&self) -> impl Iterator<Item = Stamp> {
        let later = self.later.iter().map(|later| later.writer);
        self.versions.iter().map(|version| version.writer).chain(later)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.later.len() as u64);
        for later in &self.later {
            put_number(out, later.slot.0.into());
            put_number(out, later.writer.0);
            match later.what {
                What::Undone => out.push(0),
                What::Moved(page, slot) => {
                    out.push(1);
                    put_page_id(out, page);
                    put_number(out, slot.0.into());
                }
            }
        }
        put_number(out, self.versions.len() as u64);
        for version in &self.versions {
            put_number(out, version.slot.0.into());
            put_number(out, version.rows.into());
            put_number(out, version.writer.0);
            out.push(u8::from(version.is_undone) | u8::from(version.moved_to.is_some()) << 1);
            if let Some((page, slot)) = version.moved_to {
                put_page_id(out, page);
                put_number(out, slot.0.into());
            }
            put_before(out, &version.before);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, EncodingDamage> {
        let mut reader = EncodingReader::new(bytes);
        let mut read = PageVersions::default();
        for _ in 0..reader.number()? {
            let (slot, writer) = (slot(&mut reader)?, Stamp(reader.number()?));
            let what = match reader.u8()? {
                0 => What::Undone,
                _ => What::Moved(reader.page_id()?, self::slot(&mut reader)?),
            };
            read.later.push(Later { slot, writer, what });
        }
        for _ in 0..reader.number()? {
            let (slot, rows, writer) = (slot(&mut reader)?, self::slot(&mut reader)?.0, Stamp(reader.number()?));
            let flags = reader.u8()?;
            let moved_to = if flags & 2 > 0 { Some((reader.page_id()?, self::slot(&mut reader)?)) } else { None };
            let before = read_before(&mut reader)?;
            read.versions.push(Version { slot, rows, writer, before, is_undone: flags & 1 > 0, moved_to });
        }
        Ok(read)
    }
}

fn slot(reader: &mut EncodingReader<'_>) -> Result<SlotId, EncodingDamage> {
    let number = reader.number()?;
    u16::try_from(number).map(SlotId).map_err(|_| EncodingDamage { rule: "a slot of a page" })
}
