//! Adds the rows of pages to their groups.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use hobt_access::AccessError;
use hobt_access::scan::{PageRows, PageVisitor, Scan, ShownPage};
use hobt_base::errors;
use hobt_table::OperatorProfile;

use super::shape::GroupScanShape;
use super::states::{RowCounts, Scratch, State};
use crate::few_groups::{KeyValues, Set, cut};
use crate::key_codes::{Chain, Codes};
use crate::row_tests::PageFilter;

/// Groups and values of a column, at most.
const CODES_MAX: usize = 1 << 18;
/// Pages between two looks at the memory that is held.
const COUNTED_PAGES: u32 = 1 << 6;

/// The groups of one worker.
pub(super) struct GroupPages {
    shape: Arc<GroupScanShape>,
    scan: Arc<Scan>,
    filter: Option<PageFilter>,
    /// The columns that are read, but for those of the filter.
    columns: Vec<usize>,
    codes: Vec<Codes>,
    /// The codes of a page, for each key.
    read: Vec<Vec<u32>>,
    sets: Vec<GroupsOfSet>,
    groups: Vec<u32>,
    live: Vec<usize>,
    scratch: Scratch,
    reservation: MemoryReservation,
    pages: u32,
    is_too_much: bool,
    batch_rows: usize,
    has_rows: bool,
}

/// The groups of one grouping set.
struct GroupsOfSet {
    chain: Chain,
    rows: RowCounts,
    states: Vec<State>,
}

impl GroupPages {
    pub(super) fn new(
        shape: &Arc<GroupScanShape>,
        scan: &Arc<Scan>,
        profile: &OperatorProfile,
        context: &TaskContext,
    ) -> Result<GroupPages> {
        let columns = shape.columns();
        let filter = (!shape.tests.is_empty())
            .then(|| PageFilter::new(&shape.tests, columns.iter().copied(), (scan, shape.scan()), profile));
        let mut made = GroupPages {
            shape: Arc::clone(shape),
            scan: Arc::clone(scan),
            filter,
            columns,
            codes: Vec::new(),
            read: vec![Vec::new(); shape.keys.len()],
            sets: Vec::new(),
            groups: Vec::new(),
            live: Vec::new(),
            scratch: Scratch::default(),
            reservation: MemoryConsumer::new("GroupScan").register(context.memory_pool()),
            pages: 0,
            is_too_much: false,
            batch_rows: context.session_config().batch_size().max(1),
            has_rows: false,
        };
        made.begin()?;
        Ok(made)
    }

    /// Begins without groups.
    fn begin(&mut self) -> Result<()> {
        let shape = &self.shape;
        self.codes = shape.shape.keys.iter().map(|key| key.codes()).collect::<Result<_>>()?;
        let set = |set: &Set| GroupsOfSet {
            chain: Chain::of(set.keys.clone()),
            rows: RowCounts::default(),
            states: shape.values.iter().map(State::of).collect(),
        };
        self.sets = shape.shape.sets.iter().map(set).collect();
        (self.pages, self.is_too_much, self.has_rows) = (0, false, false);
        self.reservation.free();
        Ok(())
    }

    /// Whether the groups are too many to go on with them.
    pub(super) fn is_too_much(&self) -> bool {
        self.is_too_much
    }

    /// Adds what the conditions left out to the shared counters; gives the rows that have passed, if there are any
    /// conditions.
    pub(super) fn publish(&mut self) -> Option<u64> {
        self.filter.as_mut().map(PageFilter::publish)
    }

    /// Takes the states of all groups and, unless it `is_last`, begins anew.
    ///
    /// # Errors
    /// Arrow refuses a column.
    pub(super) fn take(&mut self, is_last: bool) -> Result<Vec<RecordBatch>> {
        let mut made = Vec::new();
        let values = KeyValues::of(&self.shape.shape, &self.codes)?;
        for (set, groups) in self.shape.shape.sets.iter().zip(&mut self.sets) {
            if self.has_rows || set.is_of_all_rows() {
                made.extend(cut(&groups.as_batch(&self.shape, set, &values)?, self.batch_rows));
            }
        }
        if is_last {
            (self.codes, self.sets) = (Vec::new(), Vec::new());
            self.reservation.free();
        } else {
            self.begin()?;
        }
        Ok(made)
    }

    fn add(&mut self, shown: ShownPage<'_, '_>, rows: PageRows<'_>) -> Result<(), AccessError> {
        let ShownPage { partition, id, page, .. } = shown;
        if rows.count() == 0 {
            return Ok(());
        }
        self.has_rows = true;
        let values = self.scan.large_values(partition);
        for ((&column, codes), read) in self.shape.keys.iter().zip(&mut self.codes).zip(&mut self.read) {
            codes.read_page((id, page, column), rows, &values, read)?;
        }
        let counts: Vec<usize> = self.codes.iter().map(Codes::count).collect();
        for set in &mut self.sets {
            set.chain.read(&self.read, &counts, rows.count(), &mut self.groups);
            let total = set.chain.count();
            set.rows.resize(total);
            set.rows.add(&self.groups);
            for state in &mut set.states {
                state.resize(total);
                if !state.add((page, rows), &self.groups, &mut self.scratch) {
                    let overflow = errors::AGGREGATE_OVERFLOW.with([&"numeric"]);
                    return Err(AccessError::Visitor(Box::new(overflow)));
                }
            }
            self.is_too_much |= total > CODES_MAX;
        }
        self.is_too_much |= counts.into_iter().any(|count| count > CODES_MAX);
        self.pages += 1;
        if self.pages.is_multiple_of(COUNTED_PAGES) {
            self.count_memory();
        }
        Ok(())
    }

    fn count_memory(&mut self) {
        let of_set = |set: &GroupsOfSet| {
            set.chain.bytes() + set.rows.bytes() + set.states.iter().map(State::bytes).sum::<usize>()
        };
        let bytes = self.codes.iter().map(Codes::bytes).sum::<usize>() + self.sets.iter().map(of_set).sum::<usize>();
        // After an error what is held is given, and is less afterwards.
        self.is_too_much |= self.reservation.try_resize(bytes).is_err();
    }
}

impl PageVisitor for GroupPages {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError> {
        let ShownPage { partition, page, next, .. } = shown;
        if let Some(mut filter) = self.filter.take() {
            let values = self.scan.large_values(partition);
            let added = filter.select(shown, &values).and_then(|slots| self.add(shown, PageRows::Slots(slots)));
            self.filter = Some(filter);
            return added;
        }
        if let Some(next) = next {
            self.columns.iter().for_each(|&column| next.fetch(page, column));
        }
        if page.deleted_count() == 0 {
            return self.add(shown, PageRows::All(page.row_count()));
        }
        let mut live = std::mem::take(&mut self.live);
        live.clear();
        live.extend((0..page.row_count()).filter(|&slot| !page.is_deleted(slot)));
        let added = self.add(shown, PageRows::Slots(&live));
        self.live = live;
        added
    }

    fn is_full(&self) -> bool {
        self.is_too_much
    }
}

impl GroupsOfSet {
    fn as_batch(&mut self, shape: &GroupScanShape, set: &Set, values: &KeyValues) -> Result<RecordBatch> {
        let groups = self.chain.count();
        // Without a key there is a group without a row.
        self.states.iter_mut().for_each(|state| state.resize(groups));
        self.rows.resize(groups);
        let rows = self.rows.counts();
        let (mut columns, codes) = values.columns(&shape.shape, set, &self.chain)?;
        for (call, (definition, place)) in shape.shape.calls.iter().zip(&shape.calls) {
            match call.text_of {
                Some(key) => columns.push(values.texts(key, &codes)?),
                None => columns.extend(self.states[*place].arrays(definition, &rows)?),
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(shape.shape.schema()), columns)?)
    }
}
