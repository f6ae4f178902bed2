//! The memory of operators: where it comes from, where they spill, and how many statements may want much of it at once.
//!
//! Sorts, hash tables and windows reserve what they keep from a [`BudgetPool`], which draws on the instance's budget;
//! what is refused there is spilled, or ends the statement with error 701. The [`MemoryGate`] lets in as many
//! statements with such operators as the budget has shares for; the others wait under `RESOURCE_SEMAPHORE`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use hobt_base::{SqlError, number};
use hobt_engine::Instance;
use hobt_sync::{Wait, WaitType, processor};
use hobt_txn::{MemoryAccount, MemoryBudget};
use parking_lot::{Condvar, Mutex};

use super::spill::SpillFactory;
use crate::execute::PendingReasons;
use crate::wrap::sql_error_of;

/// The memory that a statement with large operators should find.
const SHARE_BYTES: u64 = 64 << 20;
/// How often a waiting statement looks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// What all operators of an instance run with: its memory, and a clean folder to spill into, on the instance's disk.
///
/// # Errors
/// 5123: the folder cannot be made, or nothing can be made in it.
pub(super) fn operators_runtime(instance: &Instance) -> Result<Arc<RuntimeEnv>, SqlError> {
    let spills = instance.spills();
    spills.prepare().map_err(|error| {
        let text = format!(
            "The folder '{}', which sorts and joins spill into, cannot be used: {error}. Let the account of this process \
             write there, and move away what is in its place and no folder.",
            spills.folder().display()
        );
        SqlError::new(number::CANNOT_CREATE_FILE, text)
    })?;
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::new(SpillFactory::new(spills)));
    let pool = BudgetPool::new(instance.memory());
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_disk_manager_builder(disk);
    runtime.build_arc().map_err(sql_error_of)
}

/// Operators share fairly what the instance's budget has left when they ask.
///
/// Those that can spill share a third. A sort that spills merges what it holds first, and for that it takes up to twice
/// as much again without being able to spill: were all in the hands of those that can, none could begin to. A merge of
/// what was spilled reads as many files at once as it gets memory for, so the merges share another half: what is over
/// is for whoever reads the sorted rows.
struct BudgetPool {
    fair: FairSpillPool,
    account: MemoryAccount,
    merge_bytes_max: usize,
    merges: AtomicUsize,
    /// What exchanges say that they hold.
    exchange_bytes: AtomicUsize,
    /// Up to how much of it counts.
    exchange_bytes_max: usize,
}

/// How DataFusion names what merges the parts of a sort.
const MERGE_NAME: &str = "ExternalSorterMerge";
/// How DataFusion names what hands rows from one worker to another.
///
/// It is refused nothing: what it cannot reserve it would spill, and two workers that spill for one reader wait for
/// each other for ever (apache/datafusion issue 24883, mended behind 55.2). What it holds is a few batches for each
/// worker. A batch of texts counts with all that the buffers hold which it has in common with others, so that the sum
/// is not what is in memory: it counts up to a part of the budget, and no more, or the operators that can spill would
/// get nothing.
const EXCHANGE_NAME: &str = "RepartitionExec";

impl BudgetPool {
    /// What is free now is the most that operators get.
    fn new(budget: &Arc<MemoryBudget>) -> BudgetPool {
        let left = budget.limit().saturating_sub(budget.used());
        BudgetPool {
            fair: FairSpillPool::new(usize::try_from(left / 3).unwrap_or(usize::MAX)),
            account: MemoryAccount::new(budget, "Operators"),
            merge_bytes_max: usize::try_from(left / 2).unwrap_or(usize::MAX),
            merges: AtomicUsize::new(0),
            exchange_bytes: AtomicUsize::new(0),
            exchange_bytes_max: usize::try_from(left / 16).unwrap_or(usize::MAX),
        }
    }

    fn exchange_grows(&self, bytes: usize) {
        let before = self.exchange_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.account.overdraw(self.counted_between(before, before + bytes));
    }

    fn exchange_shrinks(&self, bytes: usize) {
        let before = self.exchange_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.account.shrink(self.counted_between(before - bytes, before));
    }

    /// How much more counts of `more` bytes than of `less`.
    fn counted_between(&self, less: usize, more: usize) -> u64 {
        let counted = |bytes: usize| bytes.min(self.exchange_bytes_max) as u64;
        counted(more) - counted(less)
    }
}

/// The pool of an instance with so many bytes left.
#[cfg(test)]
pub(crate) fn pool_of(bytes: u64) -> Arc<dyn MemoryPool> {
    Arc::new(BudgetPool::new(&MemoryBudget::new(bytes)))
}

impl fmt::Debug for BudgetPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetPool").field("account", &self.account).finish_non_exhaustive()
    }
}

impl fmt::Display for BudgetPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the instance's memory budget ({} bytes reserved by operators)", self.account.held())
    }
}

impl MemoryPool for BudgetPool {
    fn name(&self) -> &str {
        "budget"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.name().starts_with(MERGE_NAME) {
            self.merges.fetch_add(1, Ordering::Relaxed);
        }
        if !is_exchange(consumer) {
            self.fair.register(consumer);
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.name().starts_with(MERGE_NAME) {
            self.merges.fetch_sub(1, Ordering::Relaxed);
        }
        if !is_exchange(consumer) {
            self.fair.unregister(consumer);
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if is_exchange(reservation.consumer()) {
            return self.exchange_grows(additional);
        }
        self.account.overdraw(additional as u64);
        if can_spill(reservation) {
            self.fair.grow(reservation, additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if is_exchange(reservation.consumer()) {
            return self.exchange_shrinks(shrink);
        }
        if can_spill(reservation) {
            self.fair.shrink(reservation, shrink);
        }
        self.account.shrink(shrink as u64);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        if is_exchange(reservation.consumer()) {
            self.exchange_grows(additional);
            return Ok(());
        }
        if reservation.consumer().name().starts_with(MERGE_NAME) {
            let share = self.merge_bytes_max / self.merges.load(Ordering::Relaxed).max(1);
            if reservation.size() + additional > share {
                let text = format!("a merge of {share} bytes would get {additional} more.");
                return Err(DataFusionError::ResourcesExhausted(text));
            }
        }
        let refused = |error: hobt_txn::OutOfMemory| DataFusionError::ResourcesExhausted(format!("{error}."));
        self.account.grow(additional as u64).map_err(refused)?;
        if !can_spill(reservation) {
            return Ok(());
        }
        self.fair.try_grow(reservation, additional).inspect_err(|_| self.account.shrink(additional as u64))
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.account.held()).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.fair.memory_limit()
    }
}

fn can_spill(reservation: &MemoryReservation) -> bool {
    reservation.consumer().can_spill()
}

fn is_exchange(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(EXCHANGE_NAME)
}

/// What each part of a sort keeps for merging what it spilled, with so many parts of one sort: an eighth of its share.
pub(super) fn merge_bytes(runtime: &RuntimeEnv, parts: usize) -> usize {
    const LEAST: usize = 256 << 10;
    const MOST: usize = 10 << 20;
    match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => (bytes / (8 * parts.max(1))).clamp(LEAST, MOST),
        _ => MOST,
    }
}

/// Rows of a batch between operators, `most` where memory is no matter; `width` is the bytes of a row. A merge keeps a
/// batch of each of its inputs, and a batch of merged texts keeps all the inputs that they come from, so that little
/// memory wants short batches.
pub(super) fn batch_rows(runtime: &RuntimeEnv, parts: usize, width: usize, most: usize) -> usize {
    const LEAST: usize = 16;
    const BATCHES: usize = 32;
    match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => {
            (bytes / parts.max(1) / BATCHES.saturating_mul(width.max(1))).clamp(LEAST.min(most), most)
        }
        _ => most,
    }
}

/// How many rows of `width` bytes each part of a sort may keep in memory. Each may keep the batch alive that it came
/// in, so that they take a multiple of their own bytes.
pub(super) fn top_rows(runtime: &RuntimeEnv, parts: usize, width: usize) -> usize {
    const KEPT_FOR_ROW: usize = 20;
    match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / parts.max(1) / KEPT_FOR_ROW.saturating_mul(width.max(1)),
        _ => usize::MAX,
    }
}

#[derive(Debug, Default)]
struct Line {
    inside: usize,
    last_ticket: u64,
    waiting: VecDeque<u64>,
}

/// Lets in so many statements with large operators, in the order in which they came.
#[derive(Debug)]
pub(super) struct MemoryGate {
    places: usize,
    line: Mutex<Line>,
    left: Condvar,
}

/// A place behind the gate, free again when it is dropped.
#[derive(Debug)]
pub(super) struct MemoryGrant {
    gate: Arc<MemoryGate>,
}

/// The statement was cancelled while it waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CancelledAtGate;

impl MemoryGate {
    /// A place for each share of what the budget has left; as many as there are processors at least.
    pub(super) fn new(budget: &MemoryBudget) -> Arc<MemoryGate> {
        let shares = budget.limit().saturating_sub(budget.used()) / SHARE_BYTES;
        MemoryGate::with_places(usize::try_from(shares).unwrap_or(usize::MAX).max(processor::processor_count()))
    }

    fn with_places(places: usize) -> Arc<MemoryGate> {
        Arc::new(MemoryGate { places: places.max(1), line: Mutex::default(), left: Condvar::new() })
    }

    /// A place for the statement of a plan; `None` for a plan that needs none. Blocks, and says so in `pending`.
    ///
    /// # Errors
    /// `is_cancelled` became true.
    pub(super) fn enter(
        self: &Arc<MemoryGate>,
        plan: &LogicalPlan,
        pending: &PendingReasons,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<MemoryGrant>, CancelledAtGate> {
        if keeps_rows(plan) { self.wait(pending, is_cancelled).map(Some) } else { Ok(None) }
    }

    fn wait(
        self: &Arc<MemoryGate>,
        pending: &PendingReasons,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<MemoryGrant, CancelledAtGate> {
        let mut line = self.line.lock();
        line.last_ticket += 1;
        let ticket = line.last_ticket;
        line.waiting.push_back(ticket);
        let mut waits = None;
        loop {
            if line.inside < self.places && line.waiting.front() == Some(&ticket) {
                line.waiting.pop_front();
                line.inside += 1;
                // There may be a place for the next one too.
                self.left.notify_all();
                return Ok(MemoryGrant { gate: Arc::clone(self) });
            }
            if is_cancelled() {
                line.waiting.retain(|waiting| *waiting != ticket);
                self.left.notify_all();
                return Err(CancelledAtGate);
            }
            waits.get_or_insert_with(|| (Wait::begin(WaitType::ResourceSemaphore), AtGate::new(pending)));
            self.left.wait_for(&mut line, CANCEL_CHECK);
        }
    }
}

/// A statement that waits for its place, as others see it.
struct AtGate<'p>(&'p PendingReasons);

impl<'p> AtGate<'p> {
    fn new(pending: &'p PendingReasons) -> AtGate<'p> {
        pending.memory(true);
        AtGate(pending)
    }
}

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        self.0.memory(false);
    }
}

impl MemoryGrant {
    /// The memory that its statement was let in for, in KB.
    pub(super) fn kilobytes(&self) -> u64 {
        SHARE_BYTES / 1024
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        self.gate.line.lock().inside -= 1;
        self.gate.left.notify_all();
    }
}

/// Whether an operator of the plan keeps rows: a sort, a grouping, a join, a window.
fn keeps_rows(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        found = match node {
            LogicalPlan::Sort(_) | LogicalPlan::Join(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_) => true,
            LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
            _ => false,
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walked.is_err()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn consumer(name: &str, spills: bool) -> MemoryConsumer {
        MemoryConsumer::new(name).with_can_spill(spills)
    }

    #[test]
    fn operators_get_no_more_than_the_budget_and_give_it_back() {
        let budget = MemoryBudget::new(1000);
        let pool: Arc<dyn MemoryPool> = Arc::new(BudgetPool::new(&budget));
        let loader = MemoryAccount::new(&budget, "loader");
        loader.grow(700).expect("free");
        let sort = consumer("sort", true).register(&pool);
        sort.try_grow(300).expect("what the loader leaves");
        assert_eq!(budget.used(), 1000);
        let error = sort.try_grow(1).expect_err("nothing is left");
        assert_eq!(sql_error_of(error).number, number::OUT_OF_MEMORY);
        sort.grow(50);
        assert_eq!(budget.used(), 1050, "what cannot be refused is counted");
        drop(sort);
        assert_eq!(budget.used(), 700);
        let join = consumer("join", false).register(&pool);
        join.try_grow(300).expect("free again");
        assert!(join.try_grow(1).is_err());
        drop(join);
        drop(loader);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_exchange_of_rows_is_never_refused_and_counts_up_to_a_part() {
        let budget = MemoryBudget::new(1000);
        let pool: Arc<dyn MemoryPool> = Arc::new(BudgetPool::new(&budget));
        let exchange = consumer(&format!("{EXCHANGE_NAME}[1]"), true).register(&pool);
        exchange.try_grow(40).expect("never refused");
        assert_eq!(budget.used(), 40);
        exchange.try_grow(1200).expect("never refused");
        assert_eq!(budget.used(), 1000 / 16, "beyond that it is not counted");
        let sort = consumer("sort", true).register(&pool);
        sort.try_grow(333).expect("a third, which it shares with nobody");
        exchange.try_shrink(1200).expect("it has that");
        assert_eq!(budget.used(), 373);
        drop((exchange, sort));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_refusal_of_the_fair_share_leaves_the_budget_as_it_was() {
        let budget = MemoryBudget::new(1000);
        let pool: Arc<dyn MemoryPool> = Arc::new(BudgetPool::new(&budget));
        let (one, other) = (consumer("one", true).register(&pool), consumer("other", true).register(&pool));
        assert!(one.try_grow(200).is_err(), "half of the third belongs to the other");
        assert_eq!(budget.used(), 0);
        one.try_grow(150).expect("its part");
        other.try_grow(150).expect("its part");
        let merge = consumer("merge", false).register(&pool);
        merge.try_grow(700).expect("what is left for those that cannot spill");
        drop(merge);
        let merges = [0, 1].map(|part| consumer(&format!("{MERGE_NAME}[{part}]"), false).register(&pool));
        assert!(merges[0].try_grow(251).is_err(), "half of the merges' half belongs to the other");
        merges[0].try_grow(250).expect("its part");
    }

    #[test]
    fn no_more_are_inside_than_there_are_places_and_all_get_in() {
        let gate = MemoryGate::with_places(2);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let grant = gate.wait(&PendingReasons::default(), &|| false).expect("a place");
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(grant);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(gate.line.lock().inside, 0);
    }

    #[test]
    fn who_is_cancelled_in_the_line_does_not_stand_in_the_way() {
        let gate = MemoryGate::with_places(1);
        let first = gate.wait(&PendingReasons::default(), &|| false).expect("a place");
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second =
                scope.spawn(|| gate.wait(&PendingReasons::default(), &|| cancelled.load(Ordering::SeqCst)).map(drop));
            while gate.line.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            let third = scope.spawn(|| gate.wait(&PendingReasons::default(), &|| false).map(drop));
            cancelled.store(true, Ordering::SeqCst);
            assert_eq!(second.join().expect("no panic"), Err(CancelledAtGate));
            drop(first);
            assert_eq!(third.join().expect("no panic"), Ok(()));
        });
    }
}
