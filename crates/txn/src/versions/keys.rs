//! The versions of one key of a B+tree. A split moves rows and no versions.
//!
//! A transaction has one version of a key in a generation: the state before its first change. A reader that does not
//! see the transaction sees none of its changes. A deleted row's values are in its ghost. A writer that overwrites them
//! gives them to the versions that need them.

use std::cmp::Ordering;
use std::sync::Arc;

use hobt_base::{Stamp, compare_bytes};
use hobt_instruments::planted::{self, Bug};
use hobt_page::{EncodingDamage, EncodingReader, RowImage, put_number};
use smallvec::SmallVec;

use super::coding::{put_before, read_before};
use super::facts::Before;
use super::history::History;
use crate::view::{Readers, View};

#[derive(Clone, PartialEq, Eq, Debug)]
struct KeyVersion {
    writer: Stamp,
    before: Before,
    /// How many changes of the writer are not undone. If it is 0, the row is again as before.
    changes: u32,
}

/// What became of versions that cannot be changed any more, because their generation is on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Later {
    /// The writer has undone a change.
    Undone(Stamp),
    /// The values of the ghost, which were overwritten.
    Values(Arc<RowImage>),
}

/// The versions of a key in one generation, or in several that follow each other, the oldest first. Most keys have one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct VersionsOfKey {
    first: Option<KeyVersion>,
    more: Option<Box<More>>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct More {
    versions: Vec<KeyVersion>,
    /// What is said of versions of older generations, the oldest first.
    later: Vec<Later>,
    /// How many versions there were when those that no reader needs were last removed.
    pruned_to: usize,
}

impl VersionsOfKey {
    fn iter(&self) -> impl DoubleEndedIterator<Item = &KeyVersion> {
        self.first.iter().chain(self.more.iter().flat_map(|more| &more.versions))
    }

    fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut KeyVersion> {
        self.first.iter_mut().chain(self.more.iter_mut().flat_map(|more| &mut more.versions))
    }

    fn later(&self) -> &[Later] {
        self.more.as_ref().map_or(&[], |more| &more.later)
    }

    fn push(&mut self, version: KeyVersion) {
        if self.first.is_none() {
            self.first = Some(version);
        } else {
            self.more.get_or_insert_default().versions.push(version);
        }
    }

    /// Adds what was there before `writer` changed it, or one more change of `writer`. Returns whether it takes memory
    /// of its own.
    pub(super) fn put(&mut self, writer: Stamp, before: Before) -> bool {
        if let Some(last) = self.iter_mut().next_back()
            && last.writer == writer
        {
            last.changes += 1;
            if planted::has(Bug::KeyVersionOfLastChange) {
                last.before = before;
            }
            return false;
        }
        self.push(KeyVersion { writer, before, changes: 1 });
        true
    }

    /// Gives the values of the row to the versions that refer to the ghost; returns whether there is one.
    pub(super) fn keep_row(&mut self, row: &Arc<RowImage>) -> bool {
        let mut is_kept = false;
        for version in self.iter_mut().filter(|version| version.before == Before::Present) {
            version.before = Before::Row(Arc::clone(row));
            is_kept = true;
        }
        is_kept
    }

    /// Gives the values of the row to the versions of older generations that refer to the ghost.
    pub(super) fn keep_row_later(&mut self, row: Arc<RowImage>) {
        self.more.get_or_insert_default().later.push(Later::Values(row));
    }

    /// Whether `writer` has a version here.
    pub(super) fn has_writer(&self, writer: Stamp) -> bool {
        self.iter().next_back().is_some_and(|last| last.writer == writer)
    }

    /// Notes that `writer` has undone a change. Returns `false` if none of its changes is here.
    pub(super) fn undone(&mut self, writer: Stamp) -> bool {
        let own = self.iter_mut().rfind(|version| version.writer == writer && version.changes > 0);
        own.map(|own| own.changes -= 1).is_some()
    }

    /// Like [`VersionsOfKey::undone`], for a change of an older generation.
    pub(super) fn undone_later(&mut self, writer: Stamp) {
        self.more.get_or_insert_default().later.push(Later::Undone(writer));
    }

    /// The number of versions.
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Bytes of memory that it takes, without itself.
    pub(super) fn bytes(&self) -> usize {
        let rows: usize = self.iter().map(|version| version.before.row_bytes()).sum();
        let of_later = |later: &Later| match later {
            Later::Undone(_) => size_of::<Later>(),
            Later::Values(row) => size_of::<Later>() + row.memory_bytes(),
        };
        let of_more = |more: &More| {
            size_of::<More>()
                + more.versions.len() * size_of::<KeyVersion>()
                + more.later.iter().map(of_later).sum::<usize>()
        };
        rows + self.more.as_deref().map_or(0, of_more)
    }

    /// The state of a row before the oldest change that is not visible; `None` if the current row is visible.
    pub(super) fn before_unseen(&self, view: &View) -> Option<&Before> {
        let unseen = self.iter().rev().take_while(|version| !view.sees(version.writer));
        unseen.last().map(|version| &version.before)
    }

    /// The transaction that has written the current state of the row, if it is not visible.
    pub(super) fn unseen_writer(&self, view: &View) -> Option<Stamp> {
        let last = self.iter().rfind(|version| version.changes > 0);
        last.map(|version| version.writer).filter(|writer| !view.sees(*writer))
    }

    /// Whether a snapshot needs nothing of this: it sees the newest writer, and so those before, and none is its own.
    pub(super) fn are_seen(&self, view: &View) -> bool {
        let is_seen = |last: Stamp| view.sees(last) && !view.is_own(last);
        self.more.is_none() && self.last_writer().is_some_and(is_seen)
    }

    /// Whether a change of a transaction that is not visible stands here. One of the snapshot's own may stand above it,
    /// which a newer generation may say is undone.
    pub(super) fn has_unseen(&self, view: &View) -> bool {
        self.iter().any(|version| version.changes > 0 && !view.sees(version.writer))
    }

    /// The newest writer.
    pub(super) fn last_writer(&self) -> Option<Stamp> {
        self.iter().next_back().map(|version| version.writer)
    }

    /// Calls [`VersionsOfKey::prune`] if there are `many` versions, and twice as many as it has left the last time.
    /// Returns the bytes of memory that are free.
    pub(super) fn prune_if_long(&mut self, many: usize, readers: impl FnOnce() -> Readers) -> usize {
        let Some(more) = self.more.as_deref().filter(|more| more.versions.len() >= many.max(2 * more.pruned_to)) else {
            return 0;
        };
        debug_assert!(!more.versions.is_empty());
        let freed = self.prune(&readers());
        if let Some(more) = &mut self.more {
            more.pruned_to = more.versions.len();
        }
        freed
    }

    /// Whether it has the values of a ghost or row that was overwritten first in this generation.
    pub(super) fn has_values(&self) -> bool {
        self.later().iter().any(|later| matches!(later, Later::Values(_)))
            || self.iter().any(|version| matches!(version.before, Before::Row(_)))
    }
}

impl History for VersionsOfKey {
    fn append(&mut self, newer: VersionsOfKey) {
        let More { versions, later, .. } = newer.more.map(|more| *more).unwrap_or_default();
        for later in later {
            let is_here = match &later {
                Later::Undone(writer) => self.undone(*writer),
                Later::Values(row) => {
                    // Values that were overwritten before are those that older generations refer to.
                    let had_values = self.has_values();
                    self.keep_row(row);
                    had_values
                }
            };
            if !is_here {
                self.more.get_or_insert_default().later.push(later);
            }
        }
        for version in newer.first.into_iter().chain(versions) {
            if let Before::Row(row) = &version.before {
                // The version was put when these values were overwritten.
                self.keep_row(row);
            }
            if self.has_writer(version.writer) {
                let had_values = self.has_values();
                let last = self.iter_mut().next_back().expect("it has a writer");
                last.changes += version.changes;
                if let Before::Row(row) = version.before
                    && !had_values
                {
                    self.keep_row_later(row);
                }
            } else {
                self.push(version);
            }
        }
    }

    fn is_oldest(&mut self) {
        if let Some(more) = &mut self.more {
            more.later.clear();
        }
    }

    fn undone_by(&mut self, writer: Stamp) {
        self.iter_mut().filter(|version| version.writer == writer).for_each(|version| version.changes = 0);
    }

    fn prune(&mut self, readers: &Readers) -> usize {
        if self.len() < 2 {
            return 0;
        }
        let before = self.bytes();
        readers.undone.iter().for_each(|writer| self.undone_by(*writer));
        let versions: Vec<KeyVersion> = self.iter().cloned().collect();
        let older = std::iter::once(None).chain(versions.iter().map(|version| Some(version.writer)));
        let needed: Vec<bool> =
            versions.iter().zip(older).map(|(version, older)| readers.need(older, version.writer)).collect();
        // The row's last writer, once those that are running have undone their changes.
        let may_stay = |version: &KeyVersion| version.changes > 0 && !readers.is_running(version.writer);
        let last = versions.iter().rposition(may_stay);
        // A version without values, here or in an older generation, refers to those of the next newer one.
        let values = versions.iter().position(|version| matches!(version.before, Before::Row(_)));
        let kept = versions.into_iter().enumerate().filter(|(at, version)| {
            Some(*at) == last || Some(*at) == values || version.before == Before::Present || needed[*at]
        });
        let kept: Vec<KeyVersion> = kept.map(|(_, version)| version).collect();
        let later = self.more.take().map(|more| more.later).unwrap_or_default();
        self.first = None;
        if !later.is_empty() {
            self.more = Some(Box::new(More { later, ..More::default() }));
        }
        kept.into_iter().for_each(|version| self.push(version));
        before.saturating_sub(self.bytes())
    }

    fn writers(&self) -> impl Iterator<Item = Stamp> {
        let undone = self.later().iter().filter_map(|later| match later {
            Later::Undone(writer) => Some(*writer),
            Later::Values(_) => None,
        });
        self.iter().map(|version| version.writer).chain(undone)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.later().len() as u64);
        for later in self.later() {
            match later {
                Later::Undone(writer) => {
                    out.push(0);
                    put_number(out, writer.0);
                }
                Later::Values(row) => {
                    out.push(1);
                    row.encode(out);
                }
            }
        }
        put_number(out, self.len() as u64);
        for version in self.iter() {
            put_number(out, version.writer.0);
            put_number(out, version.changes.into());
            put_before(out, &version.before);
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, EncodingDamage> {
        let mut reader = EncodingReader::new(bytes);
        let mut read = VersionsOfKey::default();
        for _ in 0..reader.number()? {
            let later = match reader.u8()? {
                0 => Later::Undone(Stamp(reader.number()?)),
                _ => Later::Values(Arc::new(reader.row()?)),
            };
            read.more.get_or_insert_default().later.push(later);
        }
        for _ in 0..reader.number()? {
            let writer = Stamp(reader.number()?);
            let changes = reader.number()?;
            let changes = u32::try_from(changes).map_err(|_| EncodingDamage { rule: "a number of changes" })?;
            read.push(KeyVersion { writer, changes, before: read_before(&mut reader)? });
        }
        Ok(read)
    }
}

/// A key that has versions. Most keys are short and are stored inline, not behind a pointer. Their order is that of
/// their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct VersionKey(pub(super) SmallVec<[u8; 24]>);

impl VersionKey {
    pub(super) fn new(key: &[u8]) -> VersionKey {
        VersionKey(SmallVec::from_slice(key))
    }
}

impl Ord for VersionKey {
    fn cmp(&self, other: &VersionKey) -> Ordering {
        compare_bytes(&self.0, &other.0)
    }
}

impl PartialOrd for VersionKey {
    fn partial_cmp(&self, other: &VersionKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
