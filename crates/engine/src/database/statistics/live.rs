//! What changes of rows leave behind for statistics: every statement that inserts or deletes rows gathers what they are
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
use hobt_catalog::{DatabaseSnapshot, Statistics, Table};
use hobt_txn::StatementContext;
use hobt_types::statistics::{Gatherer, Summary};
use hobt_types::{KeyColumn, MaxLength, SqlType};
use parking_lot::{Mutex, RwLock};

use super::super::Database;
use super::fold::Keys;

/// Rows at most from which a statement's histogram of a partition is made: it may fill many of them.
const SAMPLE_ROWS: usize = 8192;

/// What was left behind for the statistics of a database.
#[derive(Default, Debug)]
pub(crate) struct LiveStatistics {
    objects: RwLock<HashMap<(ObjectId, i32), Arc<Tail>>>,
    /// What was merged last of each, for who asks again.
    merged: Mutex<HashMap<(ObjectId, i32), Merged>>,
    /// What `UPDATE STATISTICS … WITH ROWCOUNT, PAGECOUNT` said of tables.
    counts: RwLock<HashMap<ObjectId, ShownCounts>>,
}

/// What a statistics object said of some partitions, and of which state of it that is true.
#[derive(Debug)]
struct Merged {
    updated: Option<i64>,
    part_count: usize,
    hobts: Vec<HobtId>,
    is_live: bool,
    state: StatisticsState,
}

/// Counts that a user has set for what optimises queries, in the place of the true ones, until the database is closed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ShownCounts {
    /// `ROWCOUNT`.
    pub rows: Option<u64>,
    /// `PAGECOUNT`.
    pub pages: Option<u64>,
}

/// What was left behind for one statistics object.
#[derive(Default, Debug)]
struct Tail {
    parts: Mutex<HashMap<HobtId, TailPart>>,
}

/// What was left behind of one partition.
#[derive(Clone, Default, Debug)]
pub(super) struct TailPart {
    /// Whether what the base says of the partition is of rows that are gone.
    pub(super) has_lost_base: bool,
    pub(super) inserted: Option<Summary>,
    pub(super) deleted: Option<Summary>,
    /// Rows whose leading column was inserted, deleted or changed.
    pub(super) modifications: u64,
}

impl TailPart {
    /// Whether it says anything of the rows themselves.
    pub(super) fn says_something(&self) -> bool {
        self.has_lost_base || self.inserted.is_some() || self.deleted.is_some()
    }

    fn merge(&mut self, later: TailPart) {
        if later.has_lost_base {
            *self = later;
            return;
        }
        add(&mut self.inserted, later.inserted);
        add(&mut self.deleted, later.deleted);
        self.modifications += later.modifications;
    }
}

fn add(sum: &mut Option<Summary>, more: Option<Summary>) {
    match (&mut *sum, more) {
        (_, None) => {}
        (None, more) => *sum = more,
        (Some(before), Some(more)) => *before = Summary::merged(&[before, &more]),
    }
}

impl LiveStatistics {
    fn tail(&self, table: ObjectId, id: i32) -> Arc<Tail> {
        if let Some(found) = self.objects.read().get(&(table, id)) {
            return Arc::clone(found);
        }
        Arc::clone(self.objects.write().entry((table, id)).or_default())
    }

    fn find(&self, table: ObjectId, id: i32) -> Option<Arc<Tail>> {
        self.objects.read().get(&(table, id)).cloned()
    }

    /// The statistics objects for which something was left behind, in the order of their ids.
    pub(super) fn changed(&self) -> Keys {
        let objects = self.objects.read();
        let is_changed =
            |tail: &Tail| tail.parts.lock().values().any(|part| part.modifications > 0 || part.says_something());
        let mut keys: Keys = objects.iter().filter(|(_, tail)| is_changed(tail)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes what was left behind for a statistics object; it is there again if the statement is undone.
    pub(super) fn take(&self, ctx: &StatementContext, table: ObjectId, id: i32) -> HashMap<HobtId, TailPart> {
        let tail = self.tail(table, id);
        let taken = std::mem::take(&mut *tail.parts.lock());
        let kept: Vec<(HobtId, TailPart)> = taken.iter().map(|(hobt, part)| (*hobt, part.clone())).collect();
        put_back_if_undone(ctx, tail, kept);
        taken
    }

    /// Forgets what was left behind of a partition.
    pub(super) fn forget_part(&self, table: ObjectId, id: i32, hobt: HobtId) {
        if let Some(tail) = self.find(table, id) {
            tail.parts.lock().remove(&hobt);
        }
        self.merged.lock().remove(&(table, id));
    }

    /// Forgets what was left behind for a statistics object, or for all of a table.
    pub(crate) fn forget(&self, table: ObjectId, id: Option<i32>) {
        self.objects.write().retain(|(of, each), _| *of != table || id.is_some_and(|id| id != *each));
        self.merged.lock().retain(|(of, each), _| *of != table || id.is_some_and(|id| id != *each));
        if id.is_none() {
            self.counts.write().remove(&table);
        }
    }

    /// Notes that all rows of partitions are gone.
    pub(crate) fn truncated(&self, table: ObjectId, ids: impl Iterator<Item = i32>, hobts: &[HobtId]) {
        self.merged.lock().retain(|(of, _), _| *of != table);
        for id in ids {
            let tail = self.tail(table, id);
            let mut parts = tail.parts.lock();
            for hobt in hobts {
                let modifications = parts.get(hobt).map_or(0, |part| part.modifications);
                let emptied = TailPart { has_lost_base: true, modifications, ..TailPart::default() };
                parts.insert(*hobt, emptied);
            }
        }
    }
}

/// What one statement, or one worker of it, has changed of a table's rows.
#[derive(Debug)]
pub struct RowChanges {
    table: ObjectId,
    hobts: Arc<[HobtId]>,
    objects: Vec<ObjectChanges>,
}

/// The same for one statistics object.
#[derive(Debug)]
struct ObjectChanges {
    id: i32,
    places: Arc<[usize]>,
    /// `None` where rows are counted alone: the object has a filter, or no key is made of its columns.
    columns: Option<Arc<[KeyColumn]>>,
    /// By partition.
    parts: Vec<PartChanges>,
}

#[derive(Default, Debug)]
struct PartChanges {
    inserted: Option<Gatherer>,
    deleted: Option<Gatherer>,
    modifications: u64,
}

impl PartChanges {
    fn is_empty(&self) -> bool {
        self.modifications == 0
    }
}

impl ObjectChanges {
    fn note<'v>(&mut self, partition: usize, inserts: bool, value: &impl Fn(usize) -> Option<&'v [u8]>) {
        let part = &mut self.parts[partition];
        part.modifications += 1;
        let Some(columns) = &self.columns else { return };
        let gatherer = if inserts { &mut part.inserted } else { &mut part.deleted };
        let gatherer = gatherer.get_or_insert_with(|| Gatherer::with_sample(Arc::clone(columns), SAMPLE_ROWS));
        // A value that is none of its column makes the statement fail where it is written or read.
        let _noted = match *self.places {
            [one] => gatherer.add(&[value(one)]),
            ref several => {
                let values: Vec<_> = several.iter().map(|place| value(*place)).collect();
                gatherer.add(&values)
            }
        };
    }
}

impl RowChanges {
    /// Of a table as a snapshot has it; `None` where it has no statistics.
    fn of(snapshot: &DatabaseSnapshot, table: &Table, is_live: bool) -> Option<RowChanges> {
        let of_table = snapshot.statistics_of(table);
        let objects: Vec<_> = of_table.iter().filter_map(|each| object_of(table, each, is_live)).collect();
        let hobts = table.base_index().partitions.iter().map(|partition| partition.hobt).collect();
        (!objects.is_empty()).then_some(RowChanges { table: table.id, hobts, objects })
    }

    /// Tells tables apart, and one table before and after its partitions or statistics changed: a statement that
    /// changes them may write rows of both.
    fn number(&self) -> u64 {
        let hobts = self.hobts.iter().flat_map(|hobt| hobt.0.to_le_bytes());
        let objects = self.objects.iter().flat_map(|object| object.id.to_le_bytes());
        let bytes: Vec<u8> = self.table.0.to_le_bytes().into_iter().chain(hobts).chain(objects).collect();
        hobt_types::statistics::hash_key(&bytes)
    }

    /// An empty one of the same table, for another worker or statement.
    #[must_use]
    pub fn another(&self) -> RowChanges {
        let object = |object: &ObjectChanges| ObjectChanges {
            id: object.id,
            places: Arc::clone(&object.places),
            columns: object.columns.clone(),
            parts: self.hobts.iter().map(|_| PartChanges::default()).collect(),
        };
        let objects = self.objects.iter().map(object).collect();
        RowChanges { table: self.table, hobts: Arc::clone(&self.hobts), objects }
    }

    /// The columns that are looked at, by their places in the table.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.objects.iter().flat_map(|object| object.places.iter().copied())
    }

    /// Notes a row that is inserted into a partition (from 0); `value` gives its values as pages hold them.
    pub fn inserted<'v>(&mut self, partition: usize, value: impl Fn(usize) -> Option<&'v [u8]>) {
        self.note(partition, true, value);
    }

    /// The same of many; `value` gives one by its row and column.
    pub fn inserted_rows<'v>(
        &mut self,
        partition: usize,
        rows: usize,
        value: impl Fn(usize, usize) -> Option<&'v [u8]>,
    ) {
        for object in &mut self.objects {
            if object.columns.is_none() {
                object.parts[partition].modifications += rows as u64;
                continue;
            }
            for row in 0..rows {
                object.note(partition, true, &|column| value(row, column));
            }
        }
    }

    /// The same of one that is deleted.
    pub fn deleted<'v>(&mut self, partition: usize, value: impl Fn(usize) -> Option<&'v [u8]>) {
        self.note(partition, false, value);
    }

    /// The same of one that gets other values: statistics of columns that keep theirs are not touched, if the row stays
    /// in its partition.
    pub fn updated<'v>(
        &mut self,
        (from, to): (usize, usize),
        old: impl Fn(usize) -> Option<&'v [u8]>,
        new: impl Fn(usize) -> Option<&'v [u8]>,
    ) {
        for object in &mut self.objects {
            if from == to && object.places.iter().all(|place| old(*place) == new(*place)) {
                continue;
            }
            object.note(from, false, &old);
            object.note(to, true, &new);
            // One row was changed.
            object.parts[to].modifications -= 1;
        }
    }

    fn note<'v>(&mut self, partition: usize, inserts: bool, value: impl Fn(usize) -> Option<&'v [u8]>) {
        self.objects.iter_mut().for_each(|object| object.note(partition, inserts, &value));
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.objects.iter().all(|object| object.parts.iter().all(PartChanges::is_empty))
    }

    /// Adds what another worker of the statement has changed of the same table.
    pub fn merge(&mut self, other: RowChanges) {
        for (own, others) in self.objects.iter_mut().zip(other.objects) {
            for (own, others) in own.parts.iter_mut().zip(others.parts) {
                own.modifications += others.modifications;
                merge_gathered(&mut own.inserted, others.inserted);
                merge_gathered(&mut own.deleted, others.deleted);
            }
        }
    }

    fn hand_over(self, live: &LiveStatistics) {
        for object in self.objects {
            if object.parts.iter().all(PartChanges::is_empty) {
                continue;
            }
            let tail = live.tail(self.table, object.id);
            let changed = self.hobts.iter().zip(object.parts).filter(|(_, part)| !part.is_empty());
            let changed: Vec<_> = changed
                .map(|(hobt, part)| {
                    let later = TailPart {
                        has_lost_base: false,
                        inserted: part.inserted.map(Gatherer::finish),
                        deleted: part.deleted.map(Gatherer::finish),
                        modifications: part.modifications,
                    };
                    (*hobt, later)
                })
                .collect();
            let mut parts = tail.parts.lock();
            for (hobt, later) in changed {
                parts.entry(hobt).or_default().merge(later);
            }
        }
    }
}

fn merge_gathered(own: &mut Option<Gatherer>, others: Option<Gatherer>) {
    match (&mut *own, others) {
        (_, None) => {}
        (None, others) => *own = others,
        (Some(own), Some(others)) => own.merge(others),
    }
}

/// Where statements note what they change of a table's rows.
#[derive(Clone, Debug)]
pub struct RowChangeNotes {
    live: Arc<LiveStatistics>,
    empty: Arc<RowChanges>,
    /// Under which a statement keeps what it notes.
    number: u64,
}

impl RowChangeNotes {
    /// For a table as a snapshot has it; `None` where it has no statistics. Without `is_live` rows are counted alone.
    pub(crate) fn of(
        live: &Arc<LiveStatistics>,
        snapshot: &DatabaseSnapshot,
        table: &Table,
        is_live: bool,
    ) -> Option<RowChangeNotes> {
        let empty = RowChanges::of(snapshot, table, is_live)?;
        Some(RowChangeNotes { live: Arc::clone(live), number: empty.number(), empty: Arc::new(empty) })
    }

    /// Has the statement note changes, which are handed over when its transaction commits, and are forgotten if it is
    /// undone.
    pub fn note(&self, ctx: &StatementContext, note: impl FnOnce(&mut RowChanges)) {
        let mut is_first = false;
        let changes = ctx.note(self.number, || {
            is_first = true;
            Mutex::new(self.empty.another())
        });
        if is_first {
            let (changes, live) = (Arc::clone(&changes), Arc::clone(&self.live));
            ctx.on_commit(move || {
                let nothing = RowChanges { objects: Vec::new(), ..changes.lock().another() };
                let changes = std::mem::replace(&mut *changes.lock(), nothing);
                changes.hand_over(&live);
                Ok(())
            });
        }
        note(&mut changes.lock());
    }

    /// An empty one for a worker that notes apart from others.
    pub fn of_worker(&self) -> RowChanges {
        self.empty.another()
    }
}

/// The type as which statistics know a column: a `max` type by its first bytes.
pub fn statistics_type(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::VarChar(MaxLength::Max) => SqlType::VarChar(MaxLength::Limited(8000)),
        SqlType::NVarChar(MaxLength::Max) => SqlType::NVarChar(MaxLength::Limited(4000)),
        SqlType::VarBinary(MaxLength::Max) => SqlType::VarBinary(MaxLength::Limited(8000)),
        other => other,
    }
}

/// The columns by which a statistics object orders its rows; `None` if one of them has no keys.
pub fn key_columns(table: &Table, places: &[usize]) -> Option<Arc<[KeyColumn]>> {
    let column = |place: &usize| {
        let column = &table.columns[*place];
        KeyColumn::new(statistics_type(column.sql_type), column.collation.unwrap_or_default(), true, false)
    };
    places.iter().map(column).collect()
}

fn object_of(table: &Table, statistics: &Statistics, is_live: bool) -> Option<ObjectChanges> {
    let places = statistics.columns_in(table)?;
    let columns = if statistics.filter.is_some() || !is_live { None } else { key_columns(table, &places) };
    let parts = table.base_index().partitions.iter().map(|_| PartChanges::default()).collect();
    Some(ObjectChanges { id: statistics.id, places: places.into(), columns, parts })
}

/// What a statistics object says now.
#[derive(Clone, Debug)]
pub struct StatisticsState {
    /// What the rows are like, of the partitions that were asked for.
    pub summary: Arc<Summary>,
    /// Rows whose leading column was inserted, deleted or changed since the last update.
    pub modifications: u64,
}

impl Database {
    /// Where statements that change rows of a table note them; `None` where it has no statistics.
    pub(crate) fn row_change_notes(&self, snapshot: &DatabaseSnapshot, table: &Table) -> Option<RowChangeNotes> {
        let is_live = self.options().statistics.is_maintained;
        RowChangeNotes::of(&self.live_statistics, snapshot, table, is_live)
    }

    /// What is known of some partitions of a table, given by their HOBTs: what the last update gathered, and, where
    /// `is_live`, what came since.
    pub fn statistics_state(&self, statistics: &Statistics, hobts: &[HobtId], is_live: bool) -> StatisticsState {
        let tail = self.live_statistics.find(statistics.table, statistics.id);
        let parts = tail.as_ref().map(|tail| tail.parts.lock());
        let is_lost = |hobt: HobtId| {
            let left = parts.as_ref().and_then(|parts| parts.get(&hobt)).filter(|_| is_live);
            left.is_some_and(|left| left.has_lost_base)
        };
        let whole = statistics.part(HobtId(0)).filter(|_| !is_lost(HobtId(0)));
        let (mut summaries, mut deleted) = (Vec::new(), Vec::new());
        summaries.extend(whole.map(|whole| &**whole));
        let left_of = |hobt: &HobtId| parts.as_ref().and_then(|parts| parts.get(hobt));
        let left: u64 = hobts.iter().filter_map(left_of).map(|left| left.modifications).sum();
        let modifications = left + statistics.modified.max(0).cast_unsigned();
        let key = (statistics.table, statistics.id);
        let is_same = |known: &&Merged| {
            known.updated == statistics.updated
                && known.part_count == statistics.parts.len()
                && known.is_live == is_live
                && known.state.modifications == modifications
                && known.hobts == hobts
        };
        if let Some(known) = self.live_statistics.merged.lock().get(&key).filter(is_same) {
            return known.state.clone();
        }
        for hobt in hobts {
            let left = left_of(hobt).filter(|_| is_live);
            if !is_lost(*hobt) {
                summaries.extend(statistics.part(*hobt).map(|base| &**base));
            }
            summaries.extend(left.and_then(|left| left.inserted.as_ref()));
            deleted.extend(left.and_then(|left| left.deleted.as_ref()));
        }
        let columns = statistics.columns.len();
        let mut summary = match (&*summaries, &*deleted) {
            ([], _) => Summary::empty(columns),
            ([one], []) => Summary::clone(one),
            _ => Summary::merged(&summaries),
        };
        if !deleted.is_empty() {
            summary = summary.without(&Summary::merged(&deleted));
        }
        drop(parts);
        let state = StatisticsState { summary: Arc::new(summary), modifications };
        let merged = Merged {
            updated: statistics.updated,
            part_count: statistics.parts.len(),
            hobts: hobts.to_vec(),
            is_live,
            state: state.clone(),
        };
        self.live_statistics.merged.lock().insert(key, merged);
        state
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

    /// Rows of a partition whose leading column was changed since the last update of a statistics object.
    pub fn statistics_modifications(&self, statistics: &Statistics, hobt: HobtId) -> u64 {
        let tail = self.live_statistics.find(statistics.table, statistics.id);
        tail.map_or(0, |tail| tail.parts.lock().get(&hobt).map_or(0, |part| part.modifications))
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
        let mut parts = tail.parts.lock();
        let before: Vec<_> = hobts.iter().filter_map(|hobt| Some((*hobt, parts.remove(hobt)?))).collect();
        drop(parts);
        if before.is_empty() {
            return;
        }
        put_back_if_undone(ctx, tail, before);
    }
}

/// Has what was taken of a tail there again, with what came since, if the statement is undone.
fn put_back_if_undone(ctx: &StatementContext, tail: Arc<Tail>, taken: Vec<(HobtId, TailPart)>) {
    ctx.on_undo(move || {
        let mut parts = tail.parts.lock();
        for (hobt, mut before) in taken {
            if let Some(since) = parts.remove(&hobt) {
                before.merge(since);
            }
            parts.insert(hobt, before);
        }
        Ok(())
    });
}
