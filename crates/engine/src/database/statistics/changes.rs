//! What a statement records of the rows that it inserts, deletes and updates, until its transaction commits.
//!
//! Rows are first kept as they are: most statements change few, and the record of one row has some tens of bytes, which
//! is applied to the object's changes at commit. Larger numbers of rows are gathered as they come, and those of a load
//! from the start.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use hobt_base::{HobtId, ObjectId};
use hobt_catalog::{DatabaseSnapshot, Statistics, Table};
use hobt_instruments::schedule::Mutex;
use hobt_txn::StatementContext;
use hobt_types::statistics::GatherColumns;
use hobt_types::{KeyColumn, MaxLength, SqlType};

use super::super::Database;
use super::few_rows::{Change, FewRows};
use super::live::LiveStatistics;
use super::part::{LeftParts, PartChanges};

/// What is recorded for a table's rows.
#[derive(Debug)]
pub(super) struct NotedTable {
    id: ObjectId,
    /// The table's version that this belongs to, and its statistics stored at that time.
    table: Weak<Table>,
    stored: Vec<Weak<Statistics>>,
    is_live: bool,
    hobts: Vec<HobtId>,
    objects: Vec<NotedObject>,
    /// The columns that any of the objects uses, by their places in the table.
    places: Vec<usize>,
}

/// What is recorded for one statistics object of a [`NotedTable`].
#[derive(Debug)]
struct NotedObject {
    id: i32,
    /// The places of its columns in the table, and in [`NotedTable::places`].
    places: Vec<usize>,
    slots: Vec<usize>,
    /// `None` if rows are only counted: the object has a filter, or its columns cannot form a key.
    columns: Option<GatherColumns>,
}

impl NotedTable {
    fn new(snapshot: &DatabaseSnapshot, table: &Arc<Table>, is_live: bool) -> NotedTable {
        let of_table = snapshot.statistics_of(table);
        let with_places = of_table.iter().filter_map(|each| Some((each, each.columns_in(table)?)));
        let with_places: Vec<_> = with_places.collect();
        let mut places: Vec<usize> = with_places.iter().flat_map(|(_, places)| places.iter().copied()).collect();
        places.sort_unstable();
        places.dedup();
        let slot = |place: &usize| places.binary_search(place).expect("every place is there");
        let object = |(statistics, own): (&Arc<Statistics>, Vec<usize>)| NotedObject {
            id: statistics.id,
            slots: own.iter().map(slot).collect(),
            columns: statistics_columns(table, &own).filter(|_| statistics.filter.is_none() && is_live),
            places: own,
        };
        let stored = snapshot.statistics.get(&table.id).map(Vec::as_slice).unwrap_or_default();
        NotedTable {
            objects: with_places.into_iter().map(object).collect(),
            id: table.id,
            table: Arc::downgrade(table),
            stored: stored.iter().map(Arc::downgrade).collect(),
            is_live,
            hobts: table.base_index().partitions.iter().map(|partition| partition.hobt).collect(),
            places,
        }
    }

    /// The stored version of a statistics object, unless it has changed since.
    fn stored_statistics(&self, id: i32) -> Option<Arc<Statistics>> {
        self.stored.iter().filter_map(Weak::upgrade).find(|stored| stored.id == id)
    }

    fn is_of(&self, snapshot: &DatabaseSnapshot, table: &Arc<Table>, is_live: bool) -> bool {
        let stored = snapshot.statistics.get(&table.id).map(Vec::as_slice).unwrap_or_default();
        // The weak reference prevents that the address is reused.
        std::ptr::eq(self.table.as_ptr(), Arc::as_ptr(table))
            && self.is_live == is_live
            && self.stored.len() == stored.len()
            && self.stored.iter().zip(stored).all(|(own, stored)| std::ptr::eq(own.as_ptr(), Arc::as_ptr(stored)))
    }
}

/// Where changes are recorded, by partition (from 0).
trait Parts {
    fn part(&mut self, partition: usize) -> &mut PartChanges;
}

impl Parts for BTreeMap<usize, PartChanges> {
    fn part(&mut self, partition: usize) -> &mut PartChanges {
        self.entry(partition).or_default()
    }
}

/// The committed changes of a table whose partitions have these HOBTs.
struct LeftBehind<'a> {
    hobts: &'a [HobtId],
    parts: &'a mut LeftParts,
}

impl Parts for LeftBehind<'_> {
    fn part(&mut self, partition: usize) -> &mut PartChanges {
        let part = Arc::make_mut(self.parts.entry(self.hobts[partition]).or_default());
        part.settle_if_many();
        part
    }
}

impl NotedObject {
    /// Records one of few rows in the parts that it affects.
    fn note(&self, change: &Change<'_>, parts: &mut impl Parts) {
        let Change { from, to, old, new } = change;
        if let (Some(old), Some(new)) = (old, new)
            && from == to
            && self.slots.iter().all(|slot| old[*slot] == new[*slot])
        {
            return;
        }
        if let Some(old) = old {
            self.note_row(parts.part(*from), false, old);
        }
        if let Some(new) = new {
            self.note_row(parts.part(*to), true, new);
        }
        // One row was changed, whichever partition it is in now.
        parts.part(*to).modifications += 1;
    }

    fn note_row(&self, part: &mut PartChanges, inserts: bool, values: &[Option<&[u8]>]) {
        match *self.slots {
            [one] => part.note(inserts, self.columns.as_ref(), &[values[one]]),
            ref slots => {
                let own: Vec<_> = slots.iter().map(|slot| values[*slot]).collect();
                part.note(inserts, self.columns.as_ref(), &own);
            }
        }
    }
}

/// The row changes of one statement, or of one worker of it, in a table.
#[derive(Debug)]
pub struct RowChanges {
    table: Arc<NotedTable>,
    few: FewRows,
    /// What was gathered, by statistics object and by partition, for the partitions that changed.
    gathered: Vec<BTreeMap<usize, PartChanges>>,
    /// The approximate size of `gathered` in bytes when it was last measured.
    gathered_bytes: usize,
    /// The bytes that the transaction's account has been told of: the most that it has held.
    taken_bytes: usize,
}

impl RowChanges {
    fn new(table: Arc<NotedTable>) -> RowChanges {
        RowChanges { table, few: FewRows::default(), gathered: Vec::new(), gathered_bytes: 0, taken_bytes: 0 }
    }

    /// Records a row inserted into a partition (from 0). `value` returns its stored values.
    pub fn inserted<'v>(&mut self, partition: usize, value: impl Fn(usize) -> Option<&'v [u8]>) {
        self.few.add(&self.table.places, (partition, partition), None::<fn(usize) -> Option<&'v [u8]>>, Some(value));
        self.gather_if_many();
    }

    /// Records rows inserted into a partition. `value` returns a stored value by row and column.
    pub fn inserted_rows<'v>(
        &mut self,
        partition: usize,
        rows: usize,
        value: impl Fn(usize, usize) -> Option<&'v [u8]>,
    ) {
        let table = Arc::clone(&self.table);
        for (object, parts) in table.objects.iter().zip(self.parts()) {
            let part = parts.part(partition);
            part.modifications += rows as u64;
            let Some(columns) = &object.columns else { continue };
            if let [one] = *object.places {
                part.inserted.add_column(columns, (0..rows).map(|row| value(row, one)));
                continue;
            }
            let mut values = Vec::with_capacity(object.places.len());
            for row in 0..rows {
                values.clear();
                values.extend(object.places.iter().map(|place| value(row, *place)));
                part.note(true, Some(columns), &values);
            }
        }
    }

    /// Records a row deleted from a partition (from 0). `value` returns its stored values.
    pub fn deleted<'v>(&mut self, partition: usize, value: impl Fn(usize) -> Option<&'v [u8]>) {
        self.few.add(&self.table.places, (partition, partition), Some(value), None::<fn(usize) -> Option<&'v [u8]>>);
        self.gather_if_many();
    }

    /// Records a row that gets new values. If the row stays in its partition, statistics of columns whose values stay
    /// are not affected.
    pub fn updated<'v>(
        &mut self,
        (from, to): (usize, usize),
        old: impl Fn(usize) -> Option<&'v [u8]>,
        new: impl Fn(usize) -> Option<&'v [u8]>,
    ) {
        self.few.add(&self.table.places, (from, to), Some(old), Some(new));
        self.gather_if_many();
    }

    /// Adds the changes of another worker of the statement, or of an earlier statement, in the same table.
    pub fn merge(&mut self, mut other: RowChanges) {
        if other.gathered.is_empty() {
            self.few.append(&other.few);
            return self.gather_if_many();
        }
        other.gather();
        for (own, others) in self.parts().iter_mut().zip(other.gathered) {
            for (partition, others) in others {
                own.part(partition).merge(others);
            }
        }
        self.look_at_bytes();
    }

    fn parts(&mut self) -> &mut [BTreeMap<usize, PartChanges>] {
        self.gathered.resize_with(self.table.objects.len(), BTreeMap::new);
        &mut self.gathered
    }

    fn gather_if_many(&mut self) {
        if self.few.are_many() {
            self.gather();
        }
    }

    /// Gathers the rows that are kept as they are.
    fn gather(&mut self) {
        let few = std::mem::take(&mut self.few);
        let table = Arc::clone(&self.table);
        let gathered = self.parts();
        few.for_each(table.places.len(), |change| {
            for (object, parts) in table.objects.iter().zip(&mut *gathered) {
                object.note(change, parts);
            }
        });
        self.few = few.emptied();
        self.look_at_bytes();
    }

    fn look_at_bytes(&mut self) {
        self.gathered_bytes = self.gathered.iter().flat_map(BTreeMap::values).map(PartChanges::held_bytes).sum();
    }

    /// The approximate memory it holds in bytes.
    fn held_bytes(&self) -> usize {
        self.few.held_bytes() + self.gathered_bytes
    }

    /// Adds it to the committed changes for the table's statistics.
    fn hand_over(self, live: &LiveStatistics) {
        let RowChanges { table, few, gathered, .. } = self;
        let mut gathered = gathered.into_iter();
        for object in &table.objects {
            let later = gathered.next().unwrap_or_default();
            let base = table.stored_statistics(object.id);
            live.tail(table.id, object.id).change(|parts| {
                let mut left = LeftBehind { hobts: &table.hobts, parts };
                for (partition, later) in later {
                    left.part(partition).merge(later);
                    left.part(partition);
                }
                few.for_each(table.places.len(), |change| object.note(change, &mut left));
                // A partition that lost all its rows is reset: the subtraction is never exact.
                let base_rows = |hobt| base.as_ref().and_then(|base| base.part(hobt)).map_or(0.0, |base| base.rows);
                let whole = base.as_ref().is_some_and(|base| base.part(HobtId(0)).is_some());
                for (hobt, part) in parts.iter_mut().filter(|_| !whole) {
                    if part.has_lost_all(|| base_rows(*hobt)) {
                        *part = Arc::new(PartChanges::emptied(part.modifications));
                    }
                }
            });
        }
    }
}

/// The records of a transaction's statements. Those of undone statements disappear by themselves.
type OpenNotes = Mutex<Vec<Weak<Mutex<RowChanges>>>>;

impl LiveStatistics {
    /// The records of the transaction of `ctx` for the statistics of this database.
    fn open_notes(self: &Arc<LiveStatistics>, ctx: &StatementContext) -> Arc<OpenNotes> {
        ctx.note_in_transaction(Arc::as_ptr(self).addr() as u64, OpenNotes::default)
    }
}

impl RowChanges {
    /// Takes what was recorded for a statistics object of a table in some partitions.
    fn take(&mut self, table: ObjectId, id: i32, hobts: &[HobtId]) -> Vec<(usize, PartChanges)> {
        let noted = Arc::clone(&self.table);
        let Some(object) = noted.objects.iter().position(|object| object.id == id).filter(|_| noted.id == table) else {
            return Vec::new();
        };
        self.gather();
        let partitions = (0..noted.hobts.len()).filter(|partition| hobts.contains(&noted.hobts[*partition]));
        let own = &mut self.parts()[object];
        let taken = partitions.filter_map(|partition| Some((partition, own.remove(&partition)?))).collect();
        self.look_at_bytes();
        taken
    }

    /// Puts back what [`RowChanges::take`] took.
    fn put_back(&mut self, id: i32, taken: Vec<(usize, PartChanges)>) {
        let noted = Arc::clone(&self.table);
        let Some(object) = noted.objects.iter().position(|object| object.id == id) else { return };
        let own = &mut self.parts()[object];
        taken.into_iter().for_each(|(partition, changes)| own.part(partition).merge(changes));
        self.look_at_bytes();
    }
}

impl Database {
    /// To be called before rows are gathered for an update of a statistics object. The update sees the changes of its
    /// own transaction, so the commit must not add them once more. It does if the statement is undone.
    pub fn forget_noted(&self, ctx: &StatementContext, statistics: &Statistics, hobts: &[HobtId]) {
        let id = statistics.id;
        let open: Vec<_> = self.live_statistics.open_notes(ctx).lock().iter().filter_map(Weak::upgrade).collect();
        for changes in open {
            let taken = changes.lock().take(statistics.table, id, hobts);
            if !taken.is_empty() {
                ctx.on_undo(move || {
                    changes.lock().put_back(id, taken);
                    Ok(())
                });
            }
        }
    }
}

/// The record of a transaction that its last statement in a table was added to, and the place among the transaction's
/// commit actions at which it is handed over.
type LastRecord = Mutex<Option<(Weak<Mutex<RowChanges>>, usize)>>;

/// Tells the transaction's account what a record holds. Rows are kept as they are, then gathered, which takes less, and
/// so on: only the most of it counts.
fn take_memory(ctx: &StatementContext, changes: &mut RowChanges) {
    let more = changes.held_bytes().saturating_sub(changes.taken_bytes);
    changes.taken_bytes += more;
    ctx.take_undo_memory(more);
}

/// Where statements record their changes of a table's rows.
#[derive(Clone, Debug)]
pub struct RowChangeNotes {
    live: Arc<LiveStatistics>,
    table: Arc<NotedTable>,
}

impl RowChangeNotes {
    /// Makes the statement record changes. They are handed over when its transaction commits, and discarded if it is
    /// undone.
    pub fn note(&self, ctx: &StatementContext, note: impl FnOnce(&mut RowChanges)) {
        let mut is_first = false;
        // A table before and after a change of its partitions or statistics counts as two, because a statement that
        // changes them may write rows of both. The record keeps its table alive, so the address is not reused.
        let number = Arc::as_ptr(&self.table).addr() as u64;
        let changes = ctx.note(number, || {
            is_first = true;
            Mutex::new(RowChanges::new(Arc::clone(&self.table)))
        });
        if is_first {
            match ctx.is_in_transaction() {
                true => self.add_at_success(ctx, number, &changes),
                false => self.hand_over_at_commit(ctx, &changes),
            }
        }
        let mut changes = changes.lock();
        note(&mut changes);
        take_memory(ctx, &mut changes);
    }

    fn hand_over_at_commit(&self, ctx: &StatementContext, changes: &Arc<Mutex<RowChanges>>) {
        let (changes, live) = (Arc::clone(changes), Arc::clone(&self.live));
        ctx.on_commit(move || {
            let nothing = RowChanges::new(Arc::clone(&changes.lock().table));
            let changes = std::mem::replace(&mut *changes.lock(), nothing);
            changes.hand_over(&live);
            Ok(())
        });
    }

    /// Adds a statement's record to that of its transaction when the statement has succeeded: a transaction of any
    /// number of statements has one for each table, and one more for each savepoint, to which it may be rolled back.
    fn add_at_success(&self, ctx: &StatementContext, number: u64, changes: &Arc<Mutex<RowChanges>>) {
        let open = self.live.open_notes(ctx);
        {
            let mut open = open.lock();
            open.retain(|record| record.strong_count() > 0);
            open.push(Arc::downgrade(changes));
        }
        let (changes, notes) = (Arc::clone(changes), self.clone());
        ctx.on_success(move |ctx| {
            let of_transaction = ctx.note_in_transaction(number.wrapping_add(1), LastRecord::default);
            let mut last = of_transaction.lock();
            let nothing = RowChanges::new(Arc::clone(&changes.lock().table));
            let mut done = std::mem::replace(&mut *changes.lock(), nothing);
            ctx.return_undo_memory(std::mem::take(&mut done.taken_bytes));
            let known = last.as_ref().filter(|(_, place)| ctx.transaction().is_behind_savepoints(*place));
            // It is gone if a rollback to a savepoint has dropped it.
            if let Some(record) = known.and_then(|(record, _)| record.upgrade()) {
                let mut record = record.lock();
                record.merge(done);
                return take_memory(ctx, &mut record);
            }
            take_memory(ctx, &mut done);
            let (record, place) = (Arc::new(Mutex::new(done)), ctx.transaction().commit_actions());
            notes.hand_over_at_commit(ctx, &record);
            open.lock().push(Arc::downgrade(&record));
            *last = Some((Arc::downgrade(&record), place));
        });
    }

    /// An empty record for a worker that records separately.
    pub fn of_worker(&self) -> RowChanges {
        RowChanges::new(Arc::clone(&self.table))
    }
}

/// The type as which statistics know a column: only the first bytes of a `max` type.
pub fn statistics_type(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::VarChar(MaxLength::Max) => SqlType::VarChar(MaxLength::Limited(8000)),
        SqlType::NVarChar(MaxLength::Max) => SqlType::NVarChar(MaxLength::Limited(4000)),
        SqlType::VarBinary(MaxLength::Max) => SqlType::VarBinary(MaxLength::Limited(8000)),
        other => other,
    }
}

/// The columns by which a statistics object orders its rows, given by their places in the table; `None` if one of them
/// cannot be a key.
pub fn statistics_columns(table: &Table, places: &[usize]) -> Option<GatherColumns> {
    let column = |place: &usize| {
        let column = &table.columns[*place];
        KeyColumn::new(statistics_type(column.sql_type), column.collation.unwrap_or_default(), true, false)
    };
    places.iter().map(column).collect::<Option<Vec<KeyColumn>>>().map(GatherColumns::new)
}

impl Database {
    /// Where statements that change rows of a table record them; `None` if it has no statistics.
    pub(crate) fn row_change_notes(&self, snapshot: &DatabaseSnapshot, table: &Arc<Table>) -> Option<RowChangeNotes> {
        let is_live = self.options().statistics.is_maintained;
        let live = &self.live_statistics;
        let known = live.noted.read().get(&table.id).filter(|known| known.is_of(snapshot, table, is_live)).cloned();
        let noted = known.unwrap_or_else(|| {
            let noted = Arc::new(NotedTable::new(snapshot, table, is_live));
            live.noted.write().insert(table.id, Arc::clone(&noted));
            noted
        });
        (!noted.objects.is_empty()).then(|| RowChangeNotes { live: Arc::clone(live), table: noted })
    }
}
