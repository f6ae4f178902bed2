//! The memory of the operators of all statements, and the admission of statements to it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::execution::memory_pool::MemoryPool;
use hobt_instruments::schedule::{self, Condvar, Mutex};
use hobt_instruments::{Wait, WaitType};
use hobt_txn::MemoryBudget;

use super::pool::StatementPool;
use super::sizes::Sizes;
use hobt_table::{MemoryFigures, PendingReasons};

/// How often a waiting statement checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(50);
/// How long a statement waits at the head of the line before it is admitted with the least that it needs, even beyond
/// the limit: the holders of the memory may be waiting for a lock of the waiting statement's transaction.
const FORCED_AFTER: Duration = Duration::from_secs(30);
/// The part (1/n) of an instance's memory that is left for unreserved use.
const UNCOUNTED: u64 = 16;
/// A statement that needs at most this part (1/n) of the operators' memory does not wait in line. There is nearly
/// always room for it in the memory that is not lent, while the head of the line may need more than will be free for a
/// long time.
const SMALL: u64 = 16;
/// The part (1/n) of the operators' memory that is not lent to operators that can spill or for build sides, so that the
/// next statement finds some.
const KEPT_BACK: u64 = 8;

/// The memory of all operators of an instance.
pub struct OperatorMemory {
    pub(super) budget: Arc<MemoryBudget>,
    total: u64,
    /// The sum over all statements of the grant, or of the memory held if that is more.
    pub(super) claimed: AtomicU64,
    line: Mutex<Line>,
    came_back: Condvar,
    forced_after: Duration,
}

#[derive(Debug, Default)]
struct Line {
    inside: usize,
    /// The sum of the grants of the admitted statements, in bytes.
    granted: u64,
    /// How many statements were admitted with their least, although that exceeded the limit.
    forced: u64,
    last_ticket: u64,
    waiting: VecDeque<u64>,
}

/// The memory that a statement requests for admission, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRequest {
    /// The least that it can use.
    pub least: u64,
    /// The most that it is estimated to use.
    pub ideal: u64,
    /// The most that it may hold, including lent memory.
    pub most: u64,
}

/// A statement's grant. Dropping it makes the memory available to other statements.
#[derive(Debug)]
pub struct MemoryGrant {
    memory: Arc<OperatorMemory>,
    pool: Arc<StatementPool>,
    granted: u64,
}

/// The error if the statement was cancelled while it waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cancelled;

impl fmt::Debug for OperatorMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claimed = self.claimed.load(Ordering::Relaxed);
        f.debug_struct("OperatorMemory").field("total", &self.total).field("claimed", &claimed).finish_non_exhaustive()
    }
}

impl OperatorMemory {
    /// Takes what the budget has left now, except for a part, as the operators' memory.
    pub fn new(budget: &Arc<MemoryBudget>) -> Arc<OperatorMemory> {
        let left = budget.limit().saturating_sub(budget.used());
        let total = left - left / UNCOUNTED;
        let (claimed, line, came_back) = (AtomicU64::new(0), Mutex::default(), Condvar::new());
        let forced_after = FORCED_AFTER;
        Arc::new(OperatorMemory { budget: Arc::clone(budget), total, claimed, line, came_back, forced_after })
    }

    /// The total, in bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The limit of all claims when memory beyond a grant is lent to an operator that can spill or for a build side.
    pub(super) fn lent_max(&self) -> u64 {
        self.total - self.total / KEPT_BACK
    }

    /// The memory that can be lent now.
    pub(super) fn free(&self) -> u64 {
        self.lent_max().saturating_sub(self.claimed.load(Ordering::Relaxed))
    }

    /// The sizes for a statement with this many workers that is planned now.
    pub fn sizes(&self, parts: usize) -> Sizes {
        Sizes::new(self.free().max(self.total / KEPT_BACK), parts)
    }

    /// Claims `bytes`, if the sum of all claims then does not exceed `most`.
    pub(super) fn claim(&self, bytes: u64, most: u64) -> bool {
        let claimed = self.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |claimed| {
            claimed.checked_add(bytes).filter(|&after| after <= most)
        });
        claimed.is_ok()
    }

    /// Claims memory that is already in use.
    pub(super) fn claim_anyway(&self, bytes: u64) {
        self.claimed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Releases a claim. Waiting statements notice it within [`CANCEL_CHECK`].
    pub(super) fn unclaim(&self, bytes: u64) {
        self.claimed.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A pool for statements whose operators keep little memory: they receive no grant.
    pub(crate) fn pool_of_all(self: &Arc<OperatorMemory>) -> Arc<dyn MemoryPool> {
        Arc::new(StatementPool::new(self, 0, u64::MAX, Arc::default()))
    }

    /// Admits a statement, in order of arrival. Its grant is limited so that as much is left for the next statement.
    /// Blocks, and shows that in `pending`.
    ///
    /// # Errors
    /// If `is_cancelled` became true.
    pub fn enter(
        self: &Arc<OperatorMemory>,
        wanted: MemoryRequest,
        figures: &Arc<MemoryFigures>,
        pending: &PendingReasons,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<MemoryGrant, Cancelled> {
        let least = wanted.least.min(self.total);
        let is_small = least <= self.total / SMALL;
        let ideal = wanted.ideal.max(least);
        let mut line = self.line.lock();
        line.last_ticket += 1;
        let ticket = line.last_ticket;
        line.waiting.push_back(ticket);
        let (mut waits, mut first_since) = (None, None);
        loop {
            let is_first = line.waiting.front() == Some(&ticket);
            if is_first && first_since.is_none() {
                first_since = Some(schedule::now());
            }
            let is_forced = line.inside == 0
                || first_since.is_some_and(|since: Instant| schedule::now().duration_since(since) >= self.forced_after);
            let granted = match (is_first, is_small) {
                (true, _) => self.granted(least, ideal, is_forced),
                // Only its least, so that the statements in line lose little.
                (false, true) => self.granted(least, least, false),
                (false, false) => None,
            };
            if let Some((granted, beyond)) = granted {
                line.waiting.retain(|waiting| *waiting != ticket);
                line.inside += 1;
                line.granted += granted;
                line.forced += u64::from(beyond);
                // There may be room for the next statement too.
                self.came_back.notify_all();
                figures.gets(granted);
                let pool = Arc::new(StatementPool::new(self, granted, wanted.most.max(granted), Arc::clone(figures)));
                return Ok(MemoryGrant { memory: Arc::clone(self), pool, granted });
            }
            if is_cancelled() {
                line.waiting.retain(|waiting| *waiting != ticket);
                self.came_back.notify_all();
                return Err(Cancelled);
            }
            waits.get_or_insert_with(|| (Wait::begin(WaitType::ResourceSemaphore), Waiting::new(pending)));
            self.came_back.wait_for(&mut line, CANCEL_CHECK);
        }
    }

    /// The number of admitted statements, of waiting statements, the sum of the grants, and the number of statements
    /// admitted beyond the limit.
    pub(super) fn counts(&self) -> (u64, u64, u64, u64) {
        let line = self.line.lock();
        (line.inside as u64, line.waiting.len() as u64, line.granted, line.forced)
    }

    /// Claims between `least` and `ideal`, and no more than half of what is free unless `least` is more. `None` if that
    /// is not available, except that `is_forced` claims `least` anyway. The flag says whether the limit was exceeded.
    fn granted(&self, least: u64, ideal: u64, is_forced: bool) -> Option<(u64, bool)> {
        let left = self.total.saturating_sub(self.claimed.load(Ordering::Relaxed));
        let granted = ideal.clamp(least, least.max(left / 2));
        if self.claim(granted, self.total) {
            return Some((granted, false));
        }
        if is_forced {
            self.claim_anyway(least);
            return Some((least, true));
        }
        None
    }
}

/// Marks a statement as waiting for memory, visible to other sessions.
struct Waiting<'p>(&'p PendingReasons);

impl<'p> Waiting<'p> {
    fn new(pending: &'p PendingReasons) -> Waiting<'p> {
        pending.memory(true);
        Waiting(pending)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.memory(false);
    }
}

impl MemoryGrant {
    /// The pool of the statement's operators.
    pub fn pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.pool) as Arc<dyn MemoryPool>
    }
}

impl Drop for MemoryGrant {
    fn drop(&mut self) {
        self.pool.give_up();
        let mut line = self.memory.line.lock();
        line.inside -= 1;
        line.granted -= self.granted;
        drop(line);
        self.memory.came_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    fn enter(
        memory: &Arc<OperatorMemory>,
        wanted: MemoryRequest,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(MemoryGrant, Arc<MemoryFigures>), Cancelled> {
        let figures = Arc::new(MemoryFigures::default());
        let grant = memory.enter(wanted, &figures, &PendingReasons::default(), is_cancelled)?;
        Ok((grant, figures))
    }

    /// A memory of 801 bytes for operators.
    fn memory() -> Arc<OperatorMemory> {
        OperatorMemory::new(&MemoryBudget::new(854))
    }

    #[test]
    fn grants_follow_what_is_wanted_and_leave_as_much() {
        let memory = memory();
        assert_eq!(memory.total(), 801);
        let wants =
            |least, ideal| enter(&memory, MemoryRequest { least, ideal, most: u64::MAX }, &|| false).expect("room");
        let (small, figures) = wants(10, 50);
        assert_eq!((figures.shown().granted, memory.free()), (50, 701 - 50));
        let (large, figures) = wants(10, 5000);
        assert_eq!(figures.shown().granted, (801 - 50) / 2);
        drop(small);
        let (_other, figures) = wants(300, 300);
        assert_eq!(figures.shown().granted, 300);
        drop(large);
        assert_eq!(memory.claimed.load(Ordering::Relaxed), 300);
    }

    #[test]
    fn no_more_is_promised_than_there_is_and_all_get_in() {
        let memory = memory();
        let (promised, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (memory, promised, most) = (&memory, &promised, &most);
                scope.spawn(move || {
                    for round in 0..50 {
                        let wanted =
                            MemoryRequest { least: 100 + thread * 30, ideal: 200 + round * 10, most: u64::MAX };
                        let (grant, figures) = enter(memory, wanted, &|| false).expect("its turn");
                        let granted = figures.shown().granted as usize;
                        most.fetch_max(promised.fetch_add(granted, Ordering::SeqCst) + granted, Ordering::SeqCst);
                        std::thread::yield_now();
                        promised.fetch_sub(granted, Ordering::SeqCst);
                        drop(grant);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 801);
        assert_eq!((memory.line.lock().inside, memory.claimed.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn who_wants_more_than_there_is_gets_in_alone() {
        let memory = memory();
        let all = MemoryRequest { least: 100_000, ideal: 1_000_000, most: u64::MAX };
        let (_first, _) = enter(&memory, all, &|| false).expect("nobody else is there");
        let asked = AtomicUsize::new(0);
        let second = enter(&memory, all, &|| asked.fetch_add(1, Ordering::Relaxed) > 2);
        assert_eq!(second.map(drop), Err(Cancelled));
    }

    #[test]
    fn who_wants_little_does_not_stand_in_the_line() {
        let memory = memory();
        let most = MemoryRequest { least: 500, ideal: 800, most: u64::MAX };
        let (held, _) = enter(&memory, most, &|| false).expect("room");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| enter(&memory, most, &|| false).map(drop));
            while memory.line.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            let little = MemoryRequest { least: 40, ideal: 200, most: u64::MAX };
            let (_small, figures) = enter(&memory, little, &|| false).expect("room beside the first");
            assert_eq!((figures.shown().granted, memory.line.lock().waiting.len()), (40, 1));
            drop((held, _small));
            assert_eq!(waits.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn who_has_waited_for_long_gets_in_with_the_least() {
        let mut memory = Arc::into_inner(memory()).expect("nobody else has it");
        memory.forced_after = Duration::from_millis(1);
        let memory = Arc::new(memory);
        let most = MemoryRequest { least: 400, ideal: 800, most: u64::MAX };
        let _held = [(); 2].map(|()| enter(&memory, most, &|| false).expect("room"));
        let (_third, figures) = enter(&memory, most, &|| false).expect("it does not wait for ever");
        assert_eq!(figures.shown().granted, 400);
        assert_eq!(memory.counts(), (3, 0, 1200, 1));
    }

    #[test]
    fn who_is_cancelled_in_the_line_does_not_stand_in_the_way() {
        let memory = memory();
        let half = MemoryRequest { least: 300, ideal: 400, most: u64::MAX };
        let first = enter(&memory, half, &|| false).expect("room");
        let other = enter(&memory, half, &|| false).expect("room");
        let cancelled = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| enter(&memory, half, &|| cancelled.load(Ordering::SeqCst)).map(drop));
            while memory.line.lock().waiting.is_empty() {
                std::thread::yield_now();
            }
            let third = scope.spawn(|| enter(&memory, half, &|| false).map(drop));
            cancelled.store(true, Ordering::SeqCst);
            assert_eq!(second.join().expect("no panic"), Err(Cancelled));
            drop((first, other));
            assert_eq!(third.join().expect("no panic"), Ok(()));
        });
    }
}
