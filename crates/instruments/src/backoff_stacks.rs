//! Call stacks of spinlocks' back-offs, with those of the lock's holder: trace flag 3656,
//! `sys.hobt_spinlock_backoff_stacks`.
//!
//! ```text
//!   waiter                        lock                       holder
//!   backs off: takes its
//!   stack, asks          ───►     asked
//!                                 released           ◄───    takes its stack after the release, and counts the pair
//! ```
//! Nothing is captured unless [`set_wanted`] switches it on: a release then reads one flag that is never written. A
//! stack costs about a millisecond, too much for a lock that is not being examined.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::names::SpinlockName;

/// The most functions that are kept of a stack, from the innermost on.
const FRAMES_MAX: usize = 24;
/// The most different pairs of stacks that are kept.
const PAIRS_MAX: usize = 512;

static WANTED: AtomicBool = AtomicBool::new(false);

/// Back-offs with the same stacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackoffStacks {
    /// What the spinlock protects.
    pub name: SpinlockName,
    /// Requests that backed off with these stacks.
    pub count: u64,
    /// The waiter's stack where it requested the lock: one function a line, the innermost first.
    pub waiter: String,
    /// The holder's stack where it released the lock. `None` if the holder answered another waiter, or the question
    /// came too late.
    pub holder: Option<String>,
}

#[derive(Default)]
struct Kept {
    /// By number; 0 is none.
    stacks: HashMap<u64, String>,
    pairs: HashMap<(SpinlockName, u64, u64), u64>,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// Switches the capture of stacks on or off (as at start), for the whole process.
pub fn set_wanted(on: bool) {
    WANTED.store(on, Ordering::Relaxed);
}

/// Whether stacks are captured.
#[inline]
pub fn are_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// The pairs captured since the start or the last `clear`, the most frequent first.
pub fn snapshot() -> Vec<BackoffStacks> {
    let kept = KEPT.lock();
    let Some(kept) = &*kept else { return Vec::new() };
    let text = |number: &u64| kept.stacks.get(number).cloned();
    let mut rows: Vec<BackoffStacks> = kept
        .pairs
        .iter()
        .map(|((name, waiter, holder), count)| BackoffStacks {
            name: *name,
            count: *count,
            waiter: text(waiter).unwrap_or_default(),
            holder: text(holder),
        })
        .collect();
    rows.sort_by(|one, other| (other.count, one.name, &one.waiter).cmp(&(one.count, other.name, &other.waiter)));
    rows
}

/// Drops what was captured.
pub(crate) fn clear() {
    *KEPT.lock() = None;
}

/// The stack of the waiter that backed off from one spinlock and was not answered yet; 0 for none.
#[derive(Debug)]
pub(crate) struct Asked(AtomicU64);

impl Asked {
    pub(crate) const fn new() -> Asked {
        Asked(AtomicU64::new(0))
    }

    /// A request backs off, and asks the holder for its stack. Returns the key of the request's own stack.
    #[cold]
    pub(crate) fn ask(&self, name: SpinlockName) -> u64 {
        let own = keep(taken());
        let other = self.0.swap(own, Ordering::AcqRel);
        if other != 0 {
            count(name, other, 0);
        }
        own
    }

    /// A request has got the lock, perhaps without an answer.
    #[cold]
    pub(crate) fn has_lock(&self, name: SpinlockName, own: u64) {
        if self.0.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            count(name, own, 0);
        }
    }

    /// Called after the lock is released, so that other threads go on meanwhile.
    #[cold]
    pub(crate) fn answer(&self, name: SpinlockName) {
        let waiter = self.0.swap(0, Ordering::AcqRel);
        if waiter != 0 {
            count(name, waiter, keep(taken()));
        }
    }
}

fn count(name: SpinlockName, waiter: u64, holder: u64) {
    let mut kept = KEPT.lock();
    let pairs = &mut kept.get_or_insert_default().pairs;
    let pair = (name, waiter, holder);
    if pairs.len() < PAIRS_MAX || pairs.contains_key(&pair) {
        *pairs.entry(pair).or_default() += 1;
    }
}

/// Keeps a stack and returns its number.
fn keep(stack: String) -> u64 {
    let mut hasher = DefaultHasher::new();
    stack.hash(&mut hasher);
    let number = hasher.finish().max(1);
    let mut kept = KEPT.lock();
    let stacks = &mut kept.get_or_insert_default().stacks;
    if stacks.len() < 2 * PAIRS_MAX {
        stacks.entry(number).or_insert(stack);
    }
    number
}

/// This thread's stack: the names of its functions without those that capture it.
fn taken() -> String {
    let trace = Backtrace::force_capture().to_string();
    let functions = trace.lines().filter_map(|line| {
        let (number, name) = line.trim_start().split_once(": ")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
    });
    let own = [
        "std::backtrace",
        "<std::backtrace",
        "hobt_instruments::",
        "<hobt_instruments::",
        "core::ptr::drop_in_place<hobt_instruments",
    ];
    let is_own = |name: &&str| own.iter().any(|prefix| name.starts_with(prefix));
    functions.skip_while(is_own).take(FRAMES_MAX).collect::<Vec<_>>().join("\n")
}
