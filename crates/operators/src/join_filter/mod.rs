//! Join filters: the keys of a join's build side are given to the scan of its probe side, so that the scan leaves out
//! rows without a partner.
//!
//! ```text
//!   HashJoinExec  on dim.id = fact.dim
//!     KeyTapExec            notes dim.id of the rows that it passes on; at their end: a set of keys
//!       … dim, filtered
//!     … operators that leave rows out or pass them on
//!       ScanExec: fact      leaves out partitions, pages and rows whose dim is not in the set
//! ```
//! A hash join reads its whole build side before it asks the probe side for the first row, so the set is ready when the
//! scan begins. The scan does not wait for it. A scan that began earlier (its rows are read ahead for lookups) uses the
//! set from the page on at which it is ready. A build side that is not read to its end never makes a set. The join
//! still compares all rows: a set may let rows without a partner pass, but never drops a row that has one.
//!
//! - `keys.rs`: keys as numbers, and the set of them.
//! - `tap.rs`: the operator that collects the keys.
//! - `push.rs`: how far down the probe side a filter goes.
//! - `rule.rs`: which joins have one.
//! - `sieve.rs`: how a scan applies filters.
//! - `trial.rs`: whether a filter is worth testing.
//! - `top.rs`: filters from `TOP … ORDER BY`, which scans apply like those of joins.
//!
//! Why not the filters of DataFusion: `docs/design/0028-join-filters.md`.

mod keys;
mod sieve;
mod tap;
mod top;
mod trial;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use hobt_access::scan::KeySet;
use parking_lot::Mutex;

use crate::keeping::{Keeping, Making};
use hobt_table::JoinedColumn;
use keys::Collected;
pub(super) use sieve::{Kept, SeekSieve, Sieve};
pub use tap::{KeyTapExec, Tapped};
pub(crate) use top::KeptTop;
pub use top::TopFilter;

/// The keys of one side of an equation of a join.
#[derive(Debug)]
pub struct JoinFilter {
    /// What is compared, for display in the plan.
    name: String,
    /// The type of both sides.
    key_type: DataType,
    nulls_are_equal: bool,
    gathered: Mutex<Gathered>,
    ready: OnceLock<ReadyFilter>,
    /// Whether the build side has run more than once, so that it is not known which run the keys belong to.
    is_void: AtomicBool,
}

/// The keys of the build side so far.
#[derive(Debug, Default)]
struct Gathered {
    all: Collected,
    /// Partitions that have begun, and the number of those that have ended.
    begun: Vec<usize>,
    ended: usize,
    reservations: Vec<MemoryReservation>,
}

/// A filter whose keys are complete.
#[derive(Debug)]
pub(super) struct ReadyFilter {
    keys: Arc<KeySet>,
    /// Whether the numbers have the order of the values.
    is_ordered: bool,
    /// Whether a row with a NULL key has partners.
    keeps_null: bool,
    _reservation: Option<MemoryReservation>,
}

impl JoinFilter {
    /// A filter without keys yet. `name` is what it compares, for display.
    pub fn new(name: String, key_type: DataType, nulls_are_equal: bool) -> JoinFilter {
        JoinFilter {
            name,
            key_type,
            nulls_are_equal,
            gathered: Mutex::default(),
            ready: OnceLock::new(),
            is_void: AtomicBool::new(false),
        }
    }

    /// It without its keys.
    pub(crate) fn kept(self: &Arc<JoinFilter>, keeping: &mut Keeping) -> KeptFilter {
        let (name, key_type, number) = (self.name.clone(), self.key_type.clone(), keeping.share(self));
        KeptFilter { number, name, key_type, nulls_are_equal: self.nulls_are_equal }
    }

    /// The keys, once they are complete.
    fn ready(&self) -> Option<&ReadyFilter> {
        self.ready.get().filter(|_| !self.is_void.load(Ordering::Relaxed))
    }

    /// Notes that a partition of the build side begins.
    fn begin(&self, partition: usize) {
        let mut gathered = self.gathered.lock();
        if gathered.begun.contains(&partition) {
            self.is_void.store(true, Ordering::Relaxed);
        }
        gathered.begun.push(partition);
    }

    /// Notes that one of `partitions` has ended, with these keys.
    fn end(&self, partitions: usize, collected: Collected, reservation: MemoryReservation) {
        let mut gathered = self.gathered.lock();
        gathered.all.add(collected);
        gathered.reservations.push(reservation);
        gathered.ended += 1;
        if gathered.ended != partitions {
            return;
        }
        let all = std::mem::take(&mut gathered.all);
        let mut reservation = std::mem::take(&mut gathered.reservations).into_iter().next();
        let (is_ordered, has_null) = (all.is_ordered, all.has_null);
        let keys = Arc::new(all.into_set());
        if let Some(reservation) = &mut reservation {
            // The set was made from the keys and is smaller than what they reserved.
            reservation.resize(keys.bytes());
        }
        let keeps_null = self.nulls_are_equal && has_null;
        let ready = ReadyFilter { keys, is_ordered, keeps_null, _reservation: reservation };
        // If it is already set, the build side has run twice and the filter is void.
        let _is_first = self.ready.set(ready);
    }
}

/// A filter at the scan that applies it.
#[derive(Clone, Debug)]
pub struct LeafFilter {
    /// The filter.
    pub filter: Arc<JoinFilter>,
    /// The column that is compared.
    pub column: JoinedColumn,
    /// The compared expression, over the columns that the scan gives.
    pub key: Arc<dyn PhysicalExpr>,
}

/// The filters of a leaf without some.
pub(crate) fn without(all: &[LeafFilter], some: &[Arc<JoinFilter>]) -> Vec<LeafFilter> {
    let is_left = |filter: &&LeafFilter| !some.iter().any(|other| Arc::ptr_eq(other, &filter.filter));
    all.iter().filter(is_left).cloned().collect()
}

/// A [`JoinFilter`] between executions.
pub(crate) struct KeptFilter {
    number: usize,
    name: String,
    key_type: DataType,
    nulls_are_equal: bool,
}

impl KeptFilter {
    /// The one of an execution, which the join and the scans share.
    pub(crate) fn made(&self, making: &Making<'_>) -> Result<Arc<JoinFilter>> {
        let make = || Ok(JoinFilter::new(self.name.clone(), self.key_type.clone(), self.nulls_are_equal));
        making.shared(self.number, make)
    }
}

/// A [`LeafFilter`] between executions.
pub(crate) struct KeptLeafFilter {
    filter: KeptFilter,
    column: JoinedColumn,
    key: Arc<dyn PhysicalExpr>,
}

impl KeptLeafFilter {
    /// For the next execution.
    pub(crate) fn made(&self, making: &Making<'_>) -> Result<LeafFilter> {
        Ok(LeafFilter { filter: self.filter.made(making)?, column: self.column, key: Arc::clone(&self.key) })
    }
}

impl LeafFilter {
    /// It without the filter of this execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> KeptLeafFilter {
        let (filter, column) = (self.filter.kept(keeping), self.column);
        KeptLeafFilter { filter, column, key: Arc::clone(&self.key) }
    }

    /// Its name in a plan.
    pub fn name(&self) -> &str {
        &self.filter.name
    }
}
