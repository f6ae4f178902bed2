//! One memory budget for the pool, the executor and the loaders.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of account names that are told apart.
const CLERKS: usize = 16;

/// The memory limit of an instance, in bytes, and what its accounts hold of it.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    used: AtomicU64,
    clerks: [Clerk; CLERKS],
}

/// All accounts of one name.
#[derive(Debug, Default)]
struct Clerk {
    name: OnceLock<&'static str>,
    held: AtomicU64,
}

/// The budget has too little left. The statement fails with error 701.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes that were asked for.
    pub requested: u64,
    /// Bytes that were left.
    pub available: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes were asked for and {} are left of the memory budget", self.requested, self.available)
    }
}

impl std::error::Error for OutOfMemory {}

/// Neither memory nor disk has room for more row versions. The statement fails with error 3959.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionsFull {
    /// Estimated bytes of memory that they take.
    pub bytes: u64,
    /// Why none can be written to disk.
    pub why: String,
}

impl fmt::Display for VersionsFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row versions take {} bytes of memory, and none can be written to disk: {}", self.bytes, self.why)
    }
}

impl std::error::Error for VersionsFull {}

/// Why there is no memory for another change of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRoom {
    /// The budget has too little left.
    Memory(OutOfMemory),
    /// Too many versions are kept.
    Versions(VersionsFull),
}

impl From<OutOfMemory> for NoRoom {
    fn from(error: OutOfMemory) -> NoRoom {
        NoRoom::Memory(error)
    }
}

impl From<VersionsFull> for NoRoom {
    fn from(error: VersionsFull) -> NoRoom {
        NoRoom::Versions(error)
    }
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { limit, used: AtomicU64::new(0), clerks: Default::default() })
    }

    /// The whole budget in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The names of all accounts so far, and the bytes that the accounts of each name hold now. They add up to
    /// [`MemoryBudget::used`] while no account grows or shrinks.
    pub fn clerks(&self) -> Vec<(&'static str, u64)> {
        let named = self.clerks.iter().filter_map(|clerk| Some((*clerk.name.get()?, clerk)));
        named.map(|(name, clerk)| (name, clerk.held.load(Ordering::Relaxed))).collect()
    }

    /// The index of a name among the clerks. Takes no lock, because every statement calls it. Names beyond the last
    /// index share it.
    fn clerk_of(&self, name: &'static str) -> usize {
        let found = self.clerks.iter().position(|clerk| *clerk.name.get_or_init(|| name) == name);
        found.unwrap_or(CLERKS - 1)
    }

    fn take(&self, bytes: u64) -> Result<(), OutOfMemory> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&after| after <= self.limit)
        });
        taken.map(|_| ()).map_err(|used| OutOfMemory { requested: bytes, available: self.limit.saturating_sub(used) })
    }
}

/// A part of the budget that one user holds; returned when it is dropped.
#[derive(Debug)]
pub struct MemoryAccount {
    budget: Arc<MemoryBudget>,
    name: &'static str,
    held: AtomicU64,
    clerk: usize,
}

impl MemoryAccount {
    /// An account that holds nothing yet. [`MemoryBudget::clerks`] adds it up under `name`.
    pub fn new(budget: &Arc<MemoryBudget>, name: &'static str) -> MemoryAccount {
        MemoryAccount { budget: Arc::clone(budget), name, held: AtomicU64::new(0), clerk: budget.clerk_of(name) }
    }

    /// The budget of which it is a part.
    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// The account's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What all accounts of the name hold.
    fn clerk(&self) -> &AtomicU64 {
        &self.budget.clerks[self.clerk].held
    }

    /// Bytes that the account holds.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    /// The budget has less left; nothing is taken then.
    pub fn grow(&self, bytes: u64) -> Result<(), OutOfMemory> {
        self.budget.take(bytes)?;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.clerk().fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Takes `bytes` more even if the budget has less left: for memory that is in use already. No account can grow
    /// until they are returned.
    pub fn overdraw(&self, bytes: u64) {
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.clerk().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns `bytes` to the budget.
    ///
    /// # Panics
    /// If the account holds less.
    pub fn shrink(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "an account gives back what it holds");
        self.clerk().fetch_sub(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for MemoryAccount {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        self.clerk().fetch_sub(held, Ordering::Relaxed);
        self.budget.used.fetch_sub(held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_comes_back() {
        let budget = MemoryBudget::new(100);
        let first = MemoryAccount::new(&budget, "first");
        first.grow(60).expect("fits");
        let second = MemoryAccount::new(&budget, "second");
        assert_eq!(second.grow(41), Err(OutOfMemory { requested: 41, available: 40 }));
        first.shrink(10);
        second.grow(41).expect("fits now");
        drop(first);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_accounts_of_a_name_hold_adds_up_to_what_is_used() {
        let budget = MemoryBudget::new(100);
        let [first, second, other] = ["a", "a", "b"].map(|name| MemoryAccount::new(&budget, name));
        first.grow(10).expect("fits");
        second.overdraw(95);
        second.shrink(90);
        other.grow(20).expect("fits");
        assert_eq!(budget.clerks(), [("a", 15), ("b", 20)]);
        assert_eq!(budget.used(), 35);
        drop(first);
        assert_eq!(budget.clerks(), [("a", 5), ("b", 20)]);
    }

    #[test]
    fn an_overdrawn_budget_gives_nothing_until_it_is_repaid() {
        let budget = MemoryBudget::new(100);
        let account = MemoryAccount::new(&budget, "one");
        account.overdraw(150);
        assert_eq!(account.grow(1), Err(OutOfMemory { requested: 1, available: 0 }));
        account.shrink(60);
        account.grow(10).expect("fits again");
        drop(account);
        assert_eq!(budget.used(), 0);
    }
}
