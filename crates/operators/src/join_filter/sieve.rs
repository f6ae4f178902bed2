//! How a scan applies filters. It skips partitions and pages that cannot have a wanted row. On each other page it reads
//! the filters' columns first, and the other columns only of the rows that are left.
//!
//! Conditions on single columns are filters too, ready from the start. The result does not depend on filters: the
//! operator above tests the conditions again. A filter that leaves few rows out is not tested for a while (`trial.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use hobt_access::scan::{ColumnFilter, ColumnVector, KeySet, Scan, ScanLimits, ScanWorker, TextFilter};
use hobt_access::{AccessError, LargeValues};
use hobt_base::PageId;
use hobt_functions::carrier;
use hobt_page::RowPage;

use super::top::{TopFilter, TopTest};
use super::trial::Trial;
use super::{LeafFilter, ReadyFilter};
use crate::columns::substituted;
use crate::scan_exec::{array_of, column_vector};
use hobt_table::{
    ColumnPredicate, FilterCounts, KeyForm, OperatorProfile, TableRead, TextCondition, equal_texts, for_each_key,
    is_number, number_keys, wanted_keys, wanted_partitions,
};

/// Rows after which the filters are put in order again.
const ORDER_ROWS: usize = 1 << 16;

/// Filters from conditions on single columns: each column and its keys.
fn static_filters(table: &TableRead, predicates: &[ColumnPredicate]) -> Vec<(usize, Arc<KeySet>)> {
    let mut found: Vec<(usize, KeySet)> = Vec::new();
    for predicate in predicates {
        let Some(keys) = number_keys(table.table(), predicate) else { continue };
        // The two ends of a range are separate conditions.
        let is_of_known = found.iter_mut().any(|(column, known)| *column == predicate.column && known.narrow(&keys));
        if !is_of_known {
            found.push((predicate.column, keys));
        }
    }
    found.into_iter().map(|(column, keys)| (column, Arc::new(keys))).collect()
}

/// The filters of one worker of a scan.
pub(crate) struct Sieve {
    table: Arc<TableRead>,
    scan: Arc<Scan>,
    /// The partitions that are scanned, by their positions in the table.
    partitions: Arc<[usize]>,
    /// The columns that the scan gives, by their positions in the table.
    projection: Arc<[usize]>,
    schema: SchemaRef,
    /// Filters whose keys are not complete yet.
    waiting: Vec<(LeafFilter, Arc<FilterCounts>)>,
    tests: Vec<Test>,
    /// The filters of sorts above, and how often each had changed when its test was made.
    tops: Vec<(TopFilter, u64, Arc<FilterCounts>)>,
    limits: Option<(Arc<ScanLimits>, Arc<FilterCounts>)>,
    slots: Vec<usize>,
    /// Rows read since the filters were last put in order.
    since_order: usize,
}

/// A filter whose keys are complete.
struct Test {
    how: How,
    /// The filter of a sort that it is made of, by its place.
    top: Option<usize>,
    counts: Arc<FilterCounts>,
    trial: Trial,
    /// Rows that it was asked about and that passed, since the filters were last put in order.
    asked: u64,
    passed: u64,
    /// Rows and pages left out that are not in `counts` yet.
    rows: u64,
    pages: u64,
}

enum How {
    Column(ColumnFilter),
    Text(TextFilter),
    Key(KeyTest),
}

/// A filter on an expression over columns.
struct KeyTest {
    /// Over `columns`, which are read for it.
    key: Arc<dyn PhysicalExpr>,
    columns: Vec<(usize, ColumnVector)>,
    schema: SchemaRef,
    keys: Arc<KeySet>,
    keeps_null: bool,
}

/// The rows of a page that are wanted.
pub(crate) enum Kept<'s> {
    /// All live rows.
    All,
    /// The rows in these slots.
    Slots(&'s [usize]),
}

impl Sieve {
    /// The filters of a scan: those from conditions, and those that joins will complete. `None` if there are none.
    pub(crate) fn new(
        (table, scan): (&Arc<TableRead>, &Arc<Scan>),
        partitions: &Arc<[usize]>,
        (projection, schema): (&[usize], &SchemaRef),
        (filters, tops): (&[LeafFilter], &[TopFilter]),
        (predicates, texts): (&[ColumnPredicate], &[TextCondition]),
        profile: &OperatorProfile,
    ) -> Option<Sieve> {
        let name = |column: usize| table.table().columns[column].name.clone();
        let mut tests = Vec::new();
        for (column, keys) in static_filters(table, predicates) {
            if let Some(filter) = ColumnFilter::new(scan.row_layout(), column, Arc::clone(&keys), false) {
                let counts = profile.filter(tests.len(), &name(column), false);
                tests.push(Test::new(How::Column(filter), keys.kind(), counts));
            }
        }
        let equal = predicates.iter().filter_map(|predicate| equal_texts(table.table(), predicate));
        for filter in equal.chain(texts.iter().filter_map(TextCondition::filter)) {
            let counts = profile.filter(tests.len(), &name(filter.column()), false);
            let kind = filter.kind();
            tests.push(Test::new(How::Text(filter), kind, counts));
        }
        if tests.is_empty() && filters.is_empty() && tops.is_empty() {
            return None;
        }
        let places = tests.len()..;
        let behind = tests.len() + filters.len();
        let tops = tops.iter().enumerate().map(|(place, top)| {
            let counts = profile.filter(behind + place, &name(top.column.column), false);
            (top.clone(), 0, counts)
        });
        let tops = tops.collect();
        let counted = |(filter, place): (&LeafFilter, usize)| {
            (filter.clone(), profile.filter(place, &name(filter.column.column), true))
        };
        let waiting = filters.iter().zip(places).map(counted);
        Some(Sieve {
            table: Arc::clone(table),
            scan: Arc::clone(scan),
            partitions: Arc::clone(partitions),
            projection: projection.into(),
            schema: Arc::clone(schema),
            waiting: waiting.collect(),
            tests,
            tops,
            limits: None,
            slots: Vec::new(),
            since_order: 0,
        })
    }

    /// Adds the filters whose keys have become complete.
    pub(crate) fn refresh(&mut self, worker: &mut ScanWorker) {
        self.refresh_tops();
        if self.waiting.iter().all(|(leaf, _)| leaf.filter.ready().is_none()) {
            return;
        }
        for (leaf, counts) in std::mem::take(&mut self.waiting) {
            let Some(ready) = leaf.filter.ready() else {
                self.waiting.push((leaf, counts));
                continue;
            };
            self.limit(&leaf, ready, &counts, worker);
            if let Some(how) = self.test_of(&leaf, ready) {
                self.tests.push(Test::new(how, ready.keys.kind(), counts));
            }
        }
    }

    /// Makes the tests of filters of sorts whose conditions have changed anew.
    fn refresh_tops(&mut self) {
        for (place, (top, known, counts)) in self.tops.iter_mut().enumerate() {
            let generation = top.generation();
            if generation == *known {
                continue;
            }
            *known = generation;
            let how = match top.test(&self.scan) {
                Some(TopTest::Number(filter)) => How::Column(filter),
                Some(TopTest::Text(filter)) => How::Text(filter),
                None => continue,
            };
            match self.tests.iter_mut().find(|test| test.top == Some(place)) {
                Some(test) => test.how = how,
                // First, since it soon leaves out nearly all.
                None => {
                    let test = Test { top: Some(place), ..Test::new(how, "top", Arc::clone(counts)) };
                    self.tests.insert(0, test);
                }
            }
        }
    }

    /// How a filter is tested.
    fn test_of(&self, leaf: &LeafFilter, ready: &ReadyFilter) -> Option<How> {
        let (keys, keeps_null) = (Arc::clone(&ready.keys), ready.keeps_null);
        if compares_numbers(&self.table, leaf) {
            return ColumnFilter::new(self.scan.row_layout(), leaf.column.column, keys, keeps_null).map(How::Column);
        }
        let mut read: Vec<usize> = collect_columns(&leaf.key).iter().map(|column| column.index()).collect();
        read.sort_unstable();
        read.dedup();
        let definitions = &self.table.table().columns;
        let schema = Arc::new(Schema::new(read.iter().map(|&at| self.schema.field(at).clone()).collect::<Vec<_>>()));
        let place = |at: usize| {
            let place = read.iter().position(|&known| known == at)?;
            let column = datafusion::physical_expr::expressions::Column::new(schema.field(place).name(), place);
            Some(Arc::new(column) as Arc<dyn PhysicalExpr>)
        };
        let key = substituted(&leaf.key, &place)?;
        let vector = |&at: &usize| {
            let column = *self.projection.get(at)?;
            Some((column, column_vector(column, definitions.get(column)?.sql_type)))
        };
        let columns = read.iter().map(vector).collect::<Option<Vec<_>>>()?;
        Some(How::Key(KeyTest { key, columns, schema, keys, keeps_null }))
    }

    /// Sets the partitions and pages that need not be read because of a filter.
    fn limit(&mut self, leaf: &LeafFilter, ready: &ReadyFilter, counts: &Arc<FilterCounts>, worker: &mut ScanWorker) {
        if ready.keeps_null {
            return;
        }
        let count = self.partitions.len();
        let (mut wanted, mut keys) = (vec![true; count], None);
        match ready.keys.bounds() {
            None => wanted = vec![false; count],
            Some(_) if !ready.is_ordered || !compares_numbers(&self.table, leaf) => return,
            Some(_) => {
                if let Some(all) = wanted_partitions(&self.table, leaf.column.column, &ready.keys) {
                    wanted = self.partitions.iter().map(|&place| all[place]).collect();
                }
                keys = wanted_keys(&self.table, leaf.column.column, &ready.keys);
            }
        }
        if keys.is_none() && wanted.iter().all(|is_wanted| *is_wanted) {
            return;
        }
        if let Some((known, _)) = &self.limits {
            wanted.iter_mut().zip(&known.partitions).for_each(|(wanted, known)| *wanted &= known);
            keys = known.keys.clone().or(keys);
        }
        self.publish();
        let limits = Arc::new(ScanLimits { partitions: wanted, keys, skipped_pages: 0.into() });
        worker.limit(Arc::clone(&limits));
        self.limits = Some((limits, Arc::clone(counts)));
    }

    /// Selects the wanted rows of a page. Blocks if values have to be fetched.
    ///
    /// # Errors
    /// The page is damaged.
    pub(crate) fn select(
        &mut self,
        id: PageId,
        page: &RowPage<'_>,
        values: &dyn LargeValues,
    ) -> Result<Kept<'_>, AccessError> {
        let live = page.row_count() - page.deleted_count();
        self.since_order += live;
        if self.since_order >= ORDER_ROWS {
            self.since_order = 0;
            self.order();
        }
        let slots = &mut self.slots;
        let (mut left, mut is_first) = (live, true);
        for test in &mut self.tests {
            if left == 0 {
                break;
            }
            if !test.trial.is_asked(left as u64) {
                continue;
            }
            match &mut test.how {
                How::Column(filter) if is_first => filter.select(page, slots),
                How::Column(filter) => filter.retain(page, slots),
                How::Text(filter) if is_first => filter.select(page, slots),
                How::Text(filter) => filter.retain(page, slots),
                How::Key(key) => {
                    if is_first {
                        slots.clear();
                        slots.extend((0..page.row_count()).filter(|&slot| !page.is_deleted(slot)));
                    }
                    if !key.retain(&self.table, (id, page), values, slots)? {
                        test.trial.end();
                    }
                }
            }
            is_first = false;
            test.note(left, slots.len());
            left = slots.len();
        }
        Ok(if left == live { Kept::All } else { Kept::Slots(&self.slots) })
    }

    /// Puts the filter that leaves out most first. Those on expressions are asked last, since they cost most.
    fn order(&mut self) {
        let cost_and_share = |test: &Test| {
            let is_costly = matches!(test.how, How::Key(_));
            let share = if test.asked == 0 { 1.0 } else { test.passed as f64 / test.asked as f64 };
            (is_costly, share)
        };
        self.tests.sort_by(|one, other| {
            let (one, other) = (cost_and_share(one), cost_and_share(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        self.tests.iter_mut().for_each(|test| (test.asked, test.passed) = (0, 0));
    }

    /// The columns that are read before others.
    pub(crate) fn first_columns(&self) -> impl Iterator<Item = usize> + '_ {
        self.tests.iter().filter(|test| !test.trial.rests()).filter_map(|test| match &test.how {
            How::Column(filter) => Some(filter.column()),
            How::Text(filter) => Some(filter.column()),
            How::Key(_) => None,
        })
    }

    /// Adds what was left out since the last call to the shared counters.
    pub(crate) fn publish(&mut self) {
        self.tests.iter_mut().for_each(Test::publish);
        if let Some((limits, counts)) = &self.limits {
            let skipped = limits.skipped_pages.swap(0, Ordering::Relaxed);
            counts.skipped_pages.fetch_add(skipped, Ordering::Relaxed);
        }
    }
}

/// The filters of one worker of a seek: those on a number column that is in the leaves.
pub(crate) struct SeekSieve {
    /// Each with the column's position in the leaves.
    waiting: Vec<(usize, LeafFilter, Arc<FilterCounts>)>,
    tests: Vec<Test>,
}

impl SeekSieve {
    /// The filters of a seek in leaves where a column of the table is at `place`; `None` if none can be tested there.
    pub(crate) fn new(
        table: &TableRead,
        place: impl Fn(usize) -> Option<usize>,
        filters: &[LeafFilter],
        profile: &OperatorProfile,
    ) -> Option<SeekSieve> {
        let mut waiting = Vec::new();
        for leaf in filters.iter().filter(|leaf| compares_numbers(table, leaf)) {
            let Some(at) = place(leaf.column.column) else { continue };
            let counts = profile.filter(waiting.len(), &table.table().columns[leaf.column.column].name, true);
            waiting.push((at, leaf.clone(), counts));
        }
        (!waiting.is_empty()).then_some(SeekSieve { waiting, tests: Vec::new() })
    }

    /// Removes the slots of a leaf whose rows are not wanted.
    pub(crate) fn retain(&mut self, page: &RowPage<'_>, slots: &mut Vec<usize>) {
        if self.waiting.iter().any(|(_, leaf, _)| leaf.filter.ready().is_some()) {
            for (at, leaf, counts) in std::mem::take(&mut self.waiting) {
                let Some(ready) = leaf.filter.ready() else {
                    self.waiting.push((at, leaf, counts));
                    continue;
                };
                let filter = ColumnFilter::new(page.row_layout(), at, Arc::clone(&ready.keys), ready.keeps_null);
                let kind = ready.keys.kind();
                self.tests.extend(filter.map(|filter| Test::new(How::Column(filter), kind, counts)));
            }
        }
        for test in &mut self.tests {
            let before = slots.len();
            if !test.trial.is_asked(before as u64) {
                continue;
            }
            if let How::Column(filter) = &test.how {
                filter.retain(page, slots);
            }
            test.note(before, slots.len());
        }
    }

    /// Adds what was left out since the last call to the shared counters.
    pub(crate) fn publish(&mut self) {
        self.tests.iter_mut().for_each(Test::publish);
    }
}

/// Whether a filter compares values that a column stores as numbers.
fn compares_numbers(table: &TableRead, leaf: &LeafFilter) -> bool {
    let is_of_value = matches!(leaf.column.form, KeyForm::Value | KeyForm::Widened);
    is_of_value
        && is_number(&leaf.filter.key_type)
        && is_number(&carrier(table.table().columns[leaf.column.column].sql_type))
}

impl Test {
    fn new(how: How, kind: &'static str, counts: Arc<FilterCounts>) -> Test {
        counts.kind.get_or_init(|| kind);
        Test { how, top: None, counts, trial: Trial::default(), asked: 0, passed: 0, rows: 0, pages: 0 }
    }

    /// Adds what was left out since the last call to the shared counters.
    fn publish(&mut self) {
        self.counts.rows.fetch_add(std::mem::take(&mut self.rows), Ordering::Relaxed);
        self.counts.pages.fetch_add(std::mem::take(&mut self.pages), Ordering::Relaxed);
    }

    /// Notes how many of a page's rows are left.
    fn note(&mut self, before: usize, after: usize) {
        (self.asked, self.passed) = (self.asked + before as u64, self.passed + after as u64);
        self.rows += (before - after) as u64;
        self.pages += u64::from(after == 0 && before > 0);
        // A test must leave out enough rows to pay for its cost.
        let (part, of) = if matches!(self.how, How::Key(_)) { (3, 4) } else { (9, 10) };
        self.trial.note(before as u64, after as u64, (part, of));
    }
}

impl KeyTest {
    /// Removes the slots whose rows are not wanted. `false` if the filter cannot be tested, now or later.
    fn retain(
        &mut self,
        table: &TableRead,
        (id, page): (PageId, &RowPage<'_>),
        values: &dyn LargeValues,
        slots: &mut Vec<usize>,
    ) -> Result<bool, AccessError> {
        // Values on separate pages are not fetched for the test.
        if page.has_pointers() {
            return Ok(true);
        }
        for (_, vector) in &mut self.columns {
            vector.append_slots(id, page, slots, values)?;
        }
        let next: Vec<_> = self.columns.iter().map(|(column, vector)| (*column, vector.next())).collect();
        let columns = std::mem::replace(&mut self.columns, next);
        // An error here occurs again above, if the row gets there.
        let Some(keys) = self.keys_of(table, columns, slots.len()) else { return Ok(false) };
        let mut kept = 0;
        let is_known = for_each_key(&keys, |row, key| {
            slots[kept] = slots[row];
            kept += usize::from(key.map_or(self.keeps_null, |(key, _)| self.keys.may_have(key)));
        });
        if is_known {
            slots.truncate(kept);
        }
        Ok(is_known)
    }

    fn keys_of(&self, table: &TableRead, columns: Vec<(usize, ColumnVector)>, rows: usize) -> Option<ArrayRef> {
        let definitions = &table.table().columns;
        let arrays = columns.into_iter().map(|(column, vector)| array_of(&definitions[column].sql_type, vector));
        let arrays = arrays.collect::<Result<Vec<_>, _>>().ok()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).ok()?;
        self.key.evaluate(&batch).and_then(|keys| keys.into_array(rows)).ok()
    }
}
