//! Runs on disk become fewer: neighbours are merged, without what no reader needs any more.
//!
//! A reader looks into every run that may have something for it. Runs are merged once their writers have ended, so that
//! only readers keep them: those of a large transaction that is running mostly have ranges of their own. The newest
//! runs are merged with each older one that is less than twice as large as they are together. So there are few, and
//! what rows have that change often is there about twice.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use hobt_base::Stamp;
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::schedule::Mutex;

use super::generation::{Generation, VersionMemory};
use super::history::History;
use super::keys::VersionsOfKey;
use super::pages::PageVersions;
use super::run::{Cursor, Run, RunWriter};
use super::space::{VersionError, VersionSpace};
use super::{VersionStore, coding};
use crate::Snapshot;
use crate::view::Readers;

/// The least number of runs that are merged.
const MERGED_RUNS: usize = 4;
/// The entries between two looks at whether the store is still there.
const ENTRIES_AT_ONCE: u64 = 10_000;

/// One or more generations on disk.
#[derive(Debug)]
pub(super) struct Spilled {
    /// Those that are still needed.
    generations: Mutex<Vec<Arc<Generation>>>,
    pub(super) run: Run,
    newest_writer: Stamp,
    /// Where its memory is charged, and how much of it.
    charged: Option<(Arc<VersionMemory>, u64)>,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        if let Some((memory, bytes)) = &self.charged {
            memory.account.shrink(*bytes);
        }
    }
}

impl Spilled {
    /// The generations of a run. Charges its memory where theirs is charged.
    pub(super) fn new(generations: Vec<Arc<Generation>>, newest_writer: Stamp, run: Run) -> Spilled {
        let charged = generations.first().and_then(|first| first.memory()).map(|memory| {
            let bytes = run.memory_bytes() as u64;
            memory.account.overdraw(bytes);
            (Arc::clone(memory), bytes)
        });
        Spilled { generations: Mutex::new(generations), run, newest_writer, charged }
    }

    /// The newest transaction that has or had a version here.
    pub(super) fn newest_writer(&self) -> Stamp {
        self.newest_writer
    }

    /// As [`Generation::may_matter`].
    pub(super) fn may_matter(&self, snapshot: &Snapshot) -> bool {
        if planted::has(Bug::VersionsOnDiskMissed) {
            return false;
        }
        let generations = self.generations.lock();
        let is_old = |generation: &Arc<Generation>| generation.is_ended_before(snapshot);
        !generations.iter().all(is_old) && (self.newest_writer >= snapshot.horizon() || snapshot.has_own(&generations))
    }

    /// As [`Generation::each_undone`].
    pub(super) fn each_undone(&self, mut show: impl FnMut(Stamp)) {
        self.generations.lock().iter().for_each(|generation| generation.each_undone(&mut show));
    }

    /// Whether all writers have ended. Then only readers keep it, and it is known which transactions were rolled back.
    fn is_settled(&self) -> bool {
        self.generations.lock().iter().all(|generation| generation.writers.load(Ordering::Acquire) == 0)
    }

    /// The generations that are still needed.
    pub(super) fn generations(&self) -> Vec<Arc<Generation>> {
        self.generations.lock().clone()
    }

    /// Notes that a generation is not needed any more. Returns `None` if it is not here, and otherwise whether none is
    /// left.
    pub(super) fn remove(&self, generation: &Arc<Generation>) -> Option<bool> {
        let mut generations = self.generations.lock();
        let at = generations.iter().position(|other| Arc::ptr_eq(other, generation))?;
        generations.swap_remove(at);
        Some(generations.is_empty())
    }
}

/// The runs to be merged, the oldest first; none if that is not due.
pub(super) fn due(runs: &[Arc<Spilled>]) -> &[Arc<Spilled>] {
    let end = runs.iter().rposition(|run| run.is_settled()).map_or(0, |last| last + 1);
    let (mut first, mut entries) = (end, 0);
    while let Some(older) = first.checked_sub(1).map(|at| &runs[at])
        && (first == end || older.run.entries < 2 * entries)
        && older.is_settled()
    {
        first -= 1;
        entries += older.run.entries;
    }
    if end - first >= MERGED_RUNS { &runs[first..end] } else { &[] }
}

/// The right to merge runs, also returned by a merge that stops at a broken invariant.
struct Merging(Weak<VersionStore>);

impl Drop for Merging {
    fn drop(&mut self) {
        if let Some(store) = self.0.upgrade() {
            store.is_merging.store(false, Ordering::Release);
        }
    }
}

impl VersionStore {
    /// Merges runs until no merge is due. `space` has the new runs. Stops when the store is gone. Blocks.
    ///
    /// # Errors
    /// A run cannot be read, or there is no room for another one. All runs stay as they are.
    pub(crate) fn merge(store: &Weak<VersionStore>, space: &Arc<dyn VersionSpace>) -> Result<(), VersionError> {
        loop {
            let (transactions, runs, are_oldest, readers) = {
                let Some(store) = store.upgrade() else { return Ok(()) };
                let Some(transactions) = store.transactions() else { return Ok(()) };
                let generations = store.generations.read();
                let runs = due(&generations.runs).to_vec();
                let oldest = generations.runs.first();
                let are_oldest = runs.first().zip(oldest).is_some_and(|(first, oldest)| Arc::ptr_eq(first, oldest));
                drop(generations);
                let mut readers = transactions.readers();
                // What they have undone is not known here: they count as if they were running.
                readers.running.extend(store.noted_later.lock().iter());
                readers.running.sort_unstable();
                (transactions, runs, are_oldest, readers)
            };
            if runs.is_empty() {
                return Ok(());
            }
            let Some(merged) = merge_runs((&runs, are_oldest), readers, space, || store.strong_count() > 0)? else {
                return Ok(());
            };
            let Some(store) = store.upgrade() else { return Ok(()) };
            let combine = |needed| transactions.combine(needed);
            let gone = store.generations.write().replace_runs(&runs, merged, combine);
            drop(gone);
        }
    }

    /// Begins to merge runs if that is due and no merge is under way. Blocks if `waits`.
    pub(crate) fn merge_if_due(self: &Arc<VersionStore>, space: &Arc<dyn VersionSpace>, waits: bool) {
        if due(&self.generations.read().runs).is_empty() || self.is_merging.swap(true, Ordering::AcqRel) {
            return;
        }
        let (store, space) = (Arc::downgrade(self), Arc::clone(space));
        let merge = move || {
            let _merging = Merging(Weak::clone(&store));
            // Runs that cannot be merged stay. A reader that needs them gets the error.
            let _stay = VersionStore::merge(&store, &space);
        };
        if waits {
            merge();
        } else if std::thread::Builder::new().name("versions".to_owned()).spawn(merge).is_err() {
            // Without a thread there are more runs for now.
            self.is_merging.store(false, Ordering::Release);
        }
    }
}

/// Writes what runs have as one. Returns `None` when `goes_on` does not hold any more.
fn merge_runs(
    (runs, are_oldest): (&[Arc<Spilled>], bool),
    mut readers: Readers,
    space: &Arc<dyn VersionSpace>,
    goes_on: impl Fn() -> bool,
) -> Result<Option<Run>, VersionError> {
    runs.iter().for_each(|run| run.each_undone(|writer| readers.undone.push(writer)));
    let mut cursors = Vec::with_capacity(runs.len());
    for spilled in runs {
        cursors.push(Cursor::new(&spilled.run)?);
    }
    let mut writer = RunWriter::new(space)?;
    let (mut place, mut bytes, mut count) = (Vec::new(), Vec::new(), 0_u64);
    while let Some(next) = cursors.iter().filter_map(Cursor::place).min() {
        place.clear();
        place.extend_from_slice(next);
        bytes.clear();
        count += 1;
        if count.is_multiple_of(ENTRIES_AT_ONCE) && !goes_on() {
            return Ok(None);
        }
        let at_place = cursors.iter_mut().filter(|cursor| cursor.place() == Some(place.as_slice()));
        let is_needed = if coding::is_page(&place) {
            merge_at::<PageVersions>(at_place, are_oldest, &readers, &mut bytes)?
        } else {
            merge_at::<VersionsOfKey>(at_place, are_oldest, &readers, &mut bytes)?
        };
        if is_needed {
            writer.add(&place, &bytes)?;
        }
    }
    Ok(Some(writer.finish()?))
}

/// Appends to `out` what runs have at the place of their cursors, which go on. Returns whether a reader needs it.
fn merge_at<'c, 'r: 'c, H: History>(
    cursors: impl Iterator<Item = &'c mut Cursor<'r>>,
    are_oldest: bool,
    readers: &Readers,
    out: &mut Vec<u8>,
) -> Result<bool, VersionError> {
    let mut all = H::default();
    for cursor in cursors {
        all.append(H::decode(cursor.versions())?);
        cursor.advance()?;
    }
    if are_oldest {
        all.is_oldest();
    }
    readers.undone.iter().for_each(|writer| all.undone_by(*writer));
    all.prune(readers);
    all.encode(out);
    Ok(all.writers().any(|writer| !readers.is_seen_by_all(writer)))
}
