//! Runs on disk become fewer: neighbours are merged, without what no reader needs any more.
//!
//! A reader looks into every run that may have something for it. Runs whose writers have ended, so that only readers
//! keep them, are merged soon: the newest with each older one that is less than twice as large as they are together. So
//! there are few, and what rows have that change often is there about twice.
//!
//! Runs of a large transaction that is running mostly have ranges of their own, and nothing of them can be left out.
//! They are merged by many at once, because each is an open file and has a block in memory.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hobt_base::Stamp;
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::schedule::{Mutex, bound};

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
/// The number of runs that are merged while writers of theirs are running. Unit tests have few.
const MERGED_RUNS_OF_RUNNING: u32 = if cfg!(test) { 3 } else { 32 };
/// The entries between two looks at whether the store is still there.
const ENTRIES_AT_ONCE: u64 = 1_000;
/// The pause between two looks at whether merges have given up.
const STOPPING_PAUSE: Duration = Duration::from_millis(1);

/// One or more generations on disk.
#[derive(Debug)]
pub(super) struct Spilled {
    /// Those that are still needed.
    generations: Mutex<Vec<Arc<Generation>>>,
    pub(super) run: Run,
    newest_writer: Stamp,
    /// How often its versions were merged while writers were running.
    level: u8,
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
    pub(super) fn new(generations: Vec<Arc<Generation>>, newest_writer: Stamp, run: Run, level: u8) -> Spilled {
        let charged = generations.first().and_then(|first| first.memory()).map(|memory| {
            let bytes = run.memory_bytes() as u64;
            memory.account.overdraw(bytes);
            (Arc::clone(memory), bytes)
        });
        Spilled { generations: Mutex::new(generations), run, newest_writer, level, charged }
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

    /// How often its versions were merged while writers were running.
    pub(super) fn level(&self) -> u8 {
        self.level
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

/// The runs to be merged, the oldest first, and not more than `bytes_max` of them; none if that is not due.
fn due(runs: &[Arc<Spilled>], bytes_max: u64) -> &[Arc<Spilled>] {
    let settled = settled_and_due(runs, bytes_max);
    if settled.is_empty() { of_running_and_due(runs, bytes_max) } else { settled }
}

/// Neighbours with running writers, all merged equally often.
fn of_running_and_due(runs: &[Arc<Spilled>], bytes_max: u64) -> &[Arc<Spilled>] {
    let count = bound(MERGED_RUNS_OF_RUNNING).max(2) as usize;
    let are_due = |neighbours: &&[Arc<Spilled>]| {
        let bytes: u64 = neighbours.iter().map(|run| run.run.file_bytes).sum();
        neighbours.iter().all(|run| run.level == neighbours[0].level && !run.is_settled()) && bytes <= bytes_max
    };
    runs.windows(count).find(are_due).unwrap_or_default()
}

fn settled_and_due(runs: &[Arc<Spilled>], bytes_max: u64) -> &[Arc<Spilled>] {
    let end = runs.iter().rposition(|run| run.is_settled()).map_or(0, |last| last + 1);
    let (mut first, mut entries, mut bytes) = (end, 0, 0);
    while let Some(older) = first.checked_sub(1).map(|at| &runs[at])
        && (first == end || older.run.entries < 2 * entries)
        && older.is_settled()
        && bytes + older.run.file_bytes <= bytes_max
    {
        first -= 1;
        entries += older.run.entries;
        bytes += older.run.file_bytes;
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

/// Why a merge ended.
enum Merged {
    /// The runs are one now.
    Done,
    /// No merge is due, or the store is gone.
    NotDue,
    /// The disk has no room for another run, or was about to have none.
    NoRoom,
}

impl VersionStore {
    /// Merges runs until no merge is due, or the store is gone. `space` has the new runs. Runs that cannot be merged
    /// stay: a reader that needs them gets the error. Blocks.
    fn merge(store: &Weak<VersionStore>, memory: &VersionMemory, space: &Arc<dyn VersionSpace>) {
        loop {
            let bytes_max = memory.merged_bytes_max.load(Ordering::Relaxed);
            match VersionStore::merge_once(store, memory, bytes_max, space) {
                Ok(Merged::Done) => {
                    memory.merged_bytes_max.store(bytes_max.saturating_mul(2), Ordering::Relaxed);
                }
                Ok(Merged::NotDue | Merged::NoRoom) | Err(_) => return,
            }
        }
    }

    fn merge_once(
        store: &Weak<VersionStore>,
        memory: &VersionMemory,
        bytes_max: u64,
        space: &Arc<dyn VersionSpace>,
    ) -> Result<Merged, VersionError> {
        let (transactions, runs, are_settled, are_oldest, readers) = {
            let Some(store) = store.upgrade() else { return Ok(Merged::NotDue) };
            let Some(transactions) = store.transactions() else { return Ok(Merged::NotDue) };
            let generations = store.generations.read();
            let runs = due(&generations.runs, bytes_max).to_vec();
            let oldest = generations.runs.first();
            let are_oldest = runs.first().zip(oldest).is_some_and(|(first, oldest)| Arc::ptr_eq(first, oldest));
            drop(generations);
            let mut readers = transactions.readers();
            // What they have undone is not known here: they count as if they were running.
            readers.running.extend(store.noted_later.lock().iter());
            readers.running.sort_unstable();
            // No writer comes to them.
            let are_settled = runs.iter().all(|run| run.is_settled());
            (transactions, runs, are_settled, are_oldest, readers)
        };
        if runs.is_empty() {
            return Ok(Merged::NotDue);
        }
        let goes_on = || store.strong_count() > 0 && !memory.is_merging_stopped.load(Ordering::Relaxed);
        let merged = match merge_runs((&runs, are_oldest), readers, space, goes_on)? {
            Some(merged) => merged,
            None if store.strong_count() > 0 => {
                let bytes: u64 = runs.iter().map(|run| run.run.file_bytes).sum();
                memory.merged_bytes_max.fetch_min(bytes / 2, Ordering::Relaxed);
                return Ok(Merged::NoRoom);
            }
            None => return Ok(Merged::NotDue),
        };
        let Some(store) = store.upgrade() else { return Ok(Merged::NotDue) };
        // A running transaction is noted in its generations.
        let combine = |needed| if are_settled { transactions.combine(needed) } else { needed };
        let gone = store.generations.write().replace_runs(&runs, merged, combine);
        drop(gone);
        Ok(Merged::Done)
    }

    /// Begins to merge runs if that is due and no merge is under way, in a thread if there is to be one. Blocks
    /// otherwise.
    pub(crate) fn merge_if_due(self: &Arc<VersionStore>, memory: &Arc<VersionMemory>, space: &Arc<dyn VersionSpace>) {
        let bytes_max = memory.merged_bytes_max.load(Ordering::Relaxed);
        if due(&self.generations.read().runs, bytes_max).is_empty() || self.is_merging.swap(true, Ordering::AcqRel) {
            return;
        }
        let (store, memory, space) = (Arc::downgrade(self), Arc::clone(memory), Arc::clone(space));
        let is_behind = memory.merges_behind.load(Ordering::Relaxed);
        let merge = move || {
            let _merging = Merging(Weak::clone(&store));
            VersionStore::merge(&store, &memory, &space);
        };
        if !is_behind {
            merge();
        } else if std::thread::Builder::new().name("versions".to_owned()).spawn(merge).is_err() {
            // Without a thread there are more runs for now.
            self.is_merging.store(false, Ordering::Release);
        }
    }

    /// Makes the merges of some stores give up, for the room that their files take. Returns whether there were any.
    /// Blocks.
    pub(crate) fn stop_merges(stores: &[Arc<VersionStore>], memory: &VersionMemory) -> bool {
        let is_under_way = || stores.iter().any(|store| store.is_merging.load(Ordering::Acquire));
        if !is_under_way() {
            return false;
        }
        memory.is_merging_stopped.store(true, Ordering::Relaxed);
        while is_under_way() {
            std::thread::sleep(STOPPING_PAUSE);
        }
        memory.is_merging_stopped.store(false, Ordering::Relaxed);
        true
    }
}

/// Writes what runs have as one. Returns `None` when `goes_on` does not hold any more, or the disk has no room.
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
    let Ok(mut writer) = RunWriter::new(space) else { return Ok(None) };
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
        if is_needed && writer.add(&place, &bytes).is_err() {
            return Ok(None);
        }
    }
    Ok(writer.finish().ok())
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
