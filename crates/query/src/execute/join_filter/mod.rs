//! The filter of a join: what the build side's keys say of the other side's rows, told to the scan of these before it
//! reads a row.
//!
//! ```text
//!   HashJoinExec  on dim.id = fact.dim
//!     KeyTapExec            notes dim.id of the rows that it passes on; at their end: a set of keys
//!       … dim, filtered
//!     … operators that leave rows out or pass them on
//!       ScanExec: fact      leaves out partitions, pages and rows whose dim is not in the set
//! ```
//! A hash join reads its build side to the end before it asks the other side for the first row, so the set is there
//! when the scan begins. Nobody waits for it: a scan that has begun before (its rows were wanted to be looked up) goes
//! by it from the page on at which it is there, and a build side that somebody stops reading never makes one. The join
//! compares all the same: a set may let rows pass, and never keeps one back that has a partner.
//!
//! - `keys.rs`: keys as numbers, and the set of them.
//! - `tap.rs`: the operator that notes them.
//! - `push.rs`: how far down the other side a filter goes.
//! - `rule.rs`: which joins have one.
//! - `sieve.rs`: what a scan does with it.
//! - `trial.rs`: whether it is worth asking.
//!
//! Why not the filters of DataFusion: `docs/design/0028-join-filters.md`.

mod keys;
mod push;
mod rule;
mod sieve;
mod tap;
mod trial;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use hobt_access::scan::KeySet;
use parking_lot::Mutex;

use crate::access_path::JoinedColumn;
use keys::Collected;
pub(crate) use keys::number_of;
pub use rule::JoinFilterRule;
pub(super) use sieve::{Kept, SeekSieve, Sieve};
pub(super) use tap::KeyTapExec;

/// The keys of one side of an equation of a join.
#[derive(Debug)]
pub(super) struct JoinFilter {
    /// What the keys are, for who looks at the plan.
    name: String,
    /// The type of both sides.
    key_type: DataType,
    nulls_are_equal: bool,
    gathered: Mutex<Gathered>,
    ready: OnceLock<ReadyFilter>,
    /// Whether the build side has run more than once, and nobody knows whose the keys are.
    is_void: AtomicBool,
}

/// What has come of the build side so far.
#[derive(Debug, Default)]
struct Gathered {
    all: Collected,
    /// Partitions that have begun, and that have ended.
    begun: Vec<usize>,
    ended: usize,
    reservations: Vec<MemoryReservation>,
}

/// A filter whose keys are all there.
#[derive(Debug)]
pub(super) struct ReadyFilter {
    keys: Arc<KeySet>,
    /// Whether numbers are in the order of the values.
    is_ordered: bool,
    /// Whether a row without a key has partners.
    keeps_null: bool,
    _reservation: Option<MemoryReservation>,
}

impl JoinFilter {
    fn new(name: String, key_type: DataType, nulls_are_equal: bool) -> JoinFilter {
        JoinFilter {
            name,
            key_type,
            nulls_are_equal,
            gathered: Mutex::default(),
            ready: OnceLock::new(),
            is_void: AtomicBool::new(false),
        }
    }

    /// The keys, once they are all there.
    fn ready(&self) -> Option<&ReadyFilter> {
        self.ready.get().filter(|_| !self.is_void.load(Ordering::Relaxed))
    }

    /// A partition of the build side begins.
    fn begin(&self, partition: usize) {
        let mut gathered = self.gathered.lock();
        if gathered.begun.contains(&partition) {
            self.is_void.store(true, Ordering::Relaxed);
        }
        gathered.begun.push(partition);
    }

    /// One of `partitions` has ended, with these keys.
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
            // A part of what the keys took that it is made of.
            reservation.resize(keys.bytes());
        }
        let keeps_null = self.nulls_are_equal && has_null;
        let ready = ReadyFilter { keys, is_ordered, keeps_null, _reservation: reservation };
        // Void if it has one already.
        let _is_first = self.ready.set(ready);
    }
}

/// A filter at a scan.
#[derive(Clone, Debug)]
pub(super) struct LeafFilter {
    pub(super) filter: Arc<JoinFilter>,
    /// The column that is compared.
    pub(super) column: JoinedColumn,
    /// What is compared, over the columns that the scan gives.
    pub(super) key: Arc<dyn PhysicalExpr>,
}

impl LeafFilter {
    /// How it is shown in a plan.
    pub(super) fn name(&self) -> &str {
        &self.filter.name
    }
}

/// What a pushed filter has kept from being read, all workers together.
#[derive(Debug, Default)]
pub(super) struct FilterCounts {
    /// What it compares.
    pub(super) name: String,
    /// Whether a join made it.
    pub(super) is_of_join: bool,
    /// How it tells.
    pub(super) kind: OnceLock<&'static str>,
    pub(super) rows: AtomicU64,
    pub(super) pages: AtomicU64,
    pub(super) skipped_pages: AtomicU64,
}
