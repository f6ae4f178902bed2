//! What changes of rows leave behind for statistics: every statement that inserts or deletes rows notes what they are
//! like, by statistics object and partition, and hands it over when it commits. So statistics are as new as the rows.
//!
//! ```text
//! base      what the last update gathered, in the catalog      ┐
//! inserted  what came since                                    ├─ of each partition; merged for who asks
//! deleted   what went since                                    ┘
//! ```
//! An update of the statistics gathers a new base, and what was left behind until it began is dropped with the old one.
//! A partition that was truncated has lost its base. What is left behind is in memory alone until the database is
//! closed, which folds it into the base; after a crash a partition's count of rows says how much is not known.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_catalog::Statistics;
use hobt_txn::StatementContext;
use hobt_types::statistics::Summary;
use parking_lot::{Mutex, RwLock};

use super::super::Database;
use super::changes::NotedTable;
use super::part::{PartChanges, Together};

/// What was left behind for the statistics of a database.
#[derive(Default, Debug)]
pub(crate) struct LiveStatistics {
    objects: RwLock<HashMap<(ObjectId, i32), Arc<Tail>>>,
    /// What `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT` said of tables.
    counts: RwLock<HashMap<ObjectId, ShownCounts>>,
    /// What statements note of tables, for the next statement.
    pub(super) noted: RwLock<HashMap<ObjectId, Arc<NotedTable>>>,
}

/// Counts that a user has set for what optimises queries, in the place of the true ones, until the database is closed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShownCounts {
    /// `ROWCOUNT`.
    pub rows: Option<u64>,
    /// `PAGECOUNT`.
    pub pages: Option<u64>,
}

/// What a statistics object says now.
#[derive(Clone, Debug)]
pub struct StatisticsState {
    /// What the rows are like, of the partitions that were asked for.
    pub summary: Arc<Summary>,
    /// Rows whose leading column was inserted, deleted or changed since the last update.
    pub modifications: u64,
    /// Rows that were deleted since, or changed: a histogram without them is less exact than one that never had them.
    pub deleted_rows: f64,
}

/// What was left behind for one statistics object.
#[derive(Default, Debug)]
pub(super) struct Tail {
    left: Mutex<Left>,
}

#[derive(Default, Debug)]
struct Left {
    parts: HashMap<HobtId, PartChanges>,
    /// What was merged last, for who asks again; gone when `parts` change.
    merged: Option<Merged>,
    /// Of what was merged the bases, which change less often.
    bases: Option<MergedBases>,
}

/// What was asked: of which state of a statistics object, and of which partitions.
#[derive(Clone, PartialEq, Debug)]
struct Question {
    updated: Option<i64>,
    part_count: usize,
    hobts: Vec<HobtId>,
    is_live: bool,
}

#[derive(Debug)]
struct Merged {
    question: Question,
    state: StatisticsState,
}

#[derive(Debug)]
struct MergedBases {
    question: Question,
    /// The partitions that had lost theirs.
    lost: Vec<HobtId>,
    summary: Summary,
}

impl Left {
    /// What was left behind by partition, to be changed.
    fn parts_mut(&mut self) -> &mut HashMap<HobtId, PartChanges> {
        self.merged = None;
        &mut self.parts
    }

    /// What is known of the partitions, merged.
    fn merged(&mut self, statistics: &Statistics, question: &Question) -> Summary {
        let whole = HobtId(0);
        let left_of = |hobt: &HobtId| self.parts.get(hobt).filter(|_| question.is_live);
        let asked = || std::iter::once(whole).chain(question.hobts.iter().copied());
        let lost: Vec<HobtId> = asked().filter(|hobt| left_of(hobt).is_some_and(|left| left.has_lost_base)).collect();
        let is_known = self.bases.as_ref().is_some_and(|known| known.question == *question && known.lost == lost);
        let columns = statistics.columns.len();
        if !is_known {
            let mut bases = Together::default();
            for hobt in asked().filter(|hobt| !lost.contains(hobt)) {
                bases.add_base(statistics.part(hobt).map(|base| &**base));
            }
            let summary = bases.summary(columns);
            self.bases = Some(MergedBases { question: question.clone(), lost, summary });
        }
        let mut together = Together::default();
        together.add_base(self.bases.as_ref().map(|bases| &bases.summary));
        question.hobts.iter().filter_map(left_of).for_each(|left| together.add_changes(left));
        together.summary(columns)
    }

    fn state(&mut self, statistics: &Statistics, question: Question) -> StatisticsState {
        if let Some(known) = self.merged.as_ref().filter(|known| known.question == question) {
            return known.state.clone();
        }
        let left = || question.hobts.iter().filter_map(|hobt| self.parts.get(hobt));
        let modifications: u64 = left().map(|left| left.modifications).sum();
        let modifications = modifications.saturating_add(statistics.modified.max(0).cast_unsigned());
        let deleted_rows = left().map(|left| left.deleted.rows()).sum();
        let summary = Arc::new(self.merged(statistics, &question));
        let state = StatisticsState { summary, modifications, deleted_rows };
        self.merged = Some(Merged { question, state: state.clone() });
        state
    }
}

impl Tail {
    /// Changes what was left behind, by partition.
    pub(super) fn change(&self, change: impl FnOnce(&mut HashMap<HobtId, PartChanges>)) {
        change(self.left.lock().parts_mut());
    }

    /// Takes what was left behind of some partitions; it is there again, with what came since, if the statement is
    /// undone.
    fn take(
        self: &Arc<Tail>,
        ctx: &StatementContext,
        hobts: impl IntoIterator<Item = HobtId>,
    ) -> Vec<(HobtId, PartChanges)> {
        let mut left = self.left.lock();
        let parts = left.parts_mut();
        let taken: Vec<_> = hobts.into_iter().filter_map(|hobt| Some((hobt, parts.remove(&hobt)?))).collect();
        drop(left);
        if !taken.is_empty() {
            let (tail, before) = (Arc::clone(self), taken.clone());
            ctx.on_undo(move || {
                tail.change(|parts| put_back(parts, before));
                Ok(())
            });
        }
        taken
    }
}

fn put_back(parts: &mut HashMap<HobtId, PartChanges>, taken: Vec<(HobtId, PartChanges)>) {
    for (hobt, mut before) in taken {
        if let Some(since) = parts.remove(&hobt) {
            before.merge(since);
        }
        parts.insert(hobt, before);
    }
}

impl LiveStatistics {
    pub(super) fn tail(&self, table: ObjectId, id: i32) -> Arc<Tail> {
        if let Some(found) = self.objects.read().get(&(table, id)) {
            return Arc::clone(found);
        }
        Arc::clone(self.objects.write().entry((table, id)).or_default())
    }

    fn find(&self, table: ObjectId, id: i32) -> Option<Arc<Tail>> {
        self.objects.read().get(&(table, id)).cloned()
    }

    /// The statistics objects for which something was left behind, in an order that does not change from run to run.
    pub(super) fn changed(&self) -> Vec<(ObjectId, i32)> {
        let objects = self.objects.read();
        let is_changed = |tail: &Tail| tail.left.lock().parts.values().any(|part| !part.is_empty());
        let mut keys: Vec<_> = objects.iter().filter(|(_, tail)| is_changed(tail)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes what was left behind for a statistics object; it is there again if the statement is undone.
    pub(super) fn take(&self, ctx: &StatementContext, table: ObjectId, id: i32) -> HashMap<HobtId, PartChanges> {
        let tail = self.tail(table, id);
        let hobts: Vec<HobtId> = tail.left.lock().parts.keys().copied().collect();
        tail.take(ctx, hobts).into_iter().collect()
    }

    /// Forgets what was left behind of a partition.
    pub(super) fn forget_part(&self, table: ObjectId, id: i32, hobt: HobtId) {
        if let Some(tail) = self.find(table, id) {
            tail.change(|parts| {
                parts.remove(&hobt);
            });
        }
    }

    /// Forgets what was left behind for a statistics object, or for all of a table.
    pub(crate) fn forget(&self, table: ObjectId, id: Option<i32>) {
        self.objects.write().retain(|(of, each), _| *of != table || id.is_some_and(|id| id != *each));
        if id.is_none() {
            self.counts.write().remove(&table);
            self.noted.write().remove(&table);
        }
    }

    /// Notes that all rows of partitions are gone.
    pub(crate) fn truncated(&self, table: ObjectId, ids: impl Iterator<Item = i32>, hobts: &[HobtId]) {
        for id in ids {
            self.tail(table, id).change(|parts| {
                for hobt in hobts {
                    let modifications = parts.get(hobt).map_or(0, |part| part.modifications);
                    parts.insert(*hobt, PartChanges::emptied(modifications));
                }
            });
        }
    }
}

impl Database {
    /// What is known of some partitions of a table, given by their HOBTs: what the last update gathered, and, unless
    /// the database's options say that statistics are not kept, what came since.
    pub fn statistics_state(&self, statistics: &Statistics, hobts: &[HobtId]) -> StatisticsState {
        let question = Question {
            updated: statistics.updated,
            part_count: statistics.parts.len(),
            hobts: hobts.to_vec(),
            is_live: self.options().statistics.is_maintained,
        };
        let tail = self.live_statistics.tail(statistics.table, statistics.id);
        tail.left.lock().state(statistics, question)
    }

    /// What is known of one partition alone; of the table as a whole (`HOBT` 0) nothing is counted in.
    pub(crate) fn part_now(&self, statistics: &Statistics, hobt: HobtId) -> Summary {
        let is_live = self.options().statistics.is_maintained;
        let tail = self.live_statistics.find(statistics.table, statistics.id);
        let left = tail.as_ref().map(|tail| tail.left.lock());
        let changes = left.as_ref().and_then(|left| left.parts.get(&hobt)).filter(|_| is_live);
        let base = statistics.part(hobt).map(|base| &**base);
        Together::of_part(base, changes).summary(statistics.columns.len())
    }

    /// What `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT` said of a table.
    pub fn shown_counts(&self, table: ObjectId) -> ShownCounts {
        self.live_statistics.counts.read().get(&table).copied().unwrap_or_default()
    }

    /// Says it: what is absent stays. Nobody else's counts change, and none is stored.
    pub fn set_shown_counts(&self, table: ObjectId, rows: Option<u64>, pages: Option<u64>) {
        let mut all = self.live_statistics.counts.write();
        let counts = all.entry(table).or_default();
        counts.rows = rows.or(counts.rows);
        counts.pages = pages.or(counts.pages);
    }

    /// To be called before rows are gathered for an update of a statistics object: what was left behind of these
    /// partitions is dropped with the old base, if the statement commits.
    pub fn begin_statistics_update(
        self: &Arc<Database>,
        ctx: &StatementContext,
        statistics: &Statistics,
        hobts: &[HobtId],
    ) {
        let tail = self.live_statistics.tail(statistics.table, statistics.id);
        tail.take(ctx, hobts.iter().copied());
    }
}
