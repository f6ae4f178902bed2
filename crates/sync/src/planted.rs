//! Bugs on purpose, one for each rule that the simulators guard: what does not find them proves nothing.
//!
//! The places that keep a rule ask [`has`] whether they are to break it. Without the feature `planted-bugs`, which the
//! simulators and the tests of `hobt` switch on, the answer is a constant, and nothing of this is in the program. Cargo
//! unites features: what is built together with the simulators (`--workspace`) has it too, though no bug is planted
//! there. A program for users is built by itself (`-p hobt`, which is the workspace's default).

#[cfg(feature = "planted-bugs")]
use std::cell::Cell;
#[cfg(feature = "planted-bugs")]
use std::sync::OnceLock;

/// A bug: the rule that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A commit returns before its record is durable.
    CommitNotDurable,
    /// Pages are written before the log is durable up to their last changes.
    PagesBeforeLog,
    /// A checkpoint ends although the end of a transaction that it does not count any more is not durable: it flushes
    /// its own beginning, and the decisions that it carries on.
    EndNotDurableAtCheckpoint,
    /// A checkpoint keeps the log from the last record of the oldest open transaction on, not from its first.
    OldestByLastRecord,
    /// Recovery begins where the checkpoint ended, not where it began.
    RedoFromCheckpointEnd,
    /// A checkpoint passes over pages that are held exclusively.
    CheckpointSkipsHeldPages,
    /// The first change of a page after a checkpoint is logged without the page's image.
    NoImages,
    /// Recovery leaves the rows of heaps that transactions without a commit have changed.
    NoRowUndo,
    /// Recovery leaves what such transactions have changed in trees.
    NoKeyUndo,
    /// Recovery takes back again what had been taken back before the crash.
    UndoneTwice,
    /// Recovery applies no change again.
    NoRedo,
    /// Extents are given back when they are freed, not when the transaction has committed.
    ExtentsFreedAtOnce,
    /// A page with changes is evicted without being written.
    DirtyPagesEvicted,
    /// Locks go before the commit is durable.
    LocksBeforeDurability,
    /// Locks go before others see what was committed.
    LocksBeforePublication,
    /// Others see what was committed before it is durable.
    PublicationBeforeDurability,
    /// A version that tells only that a row was there hides the values that a newer one has.
    PresentHidesRow,
    /// Versions are forgotten when their writer ends, whoever needs them.
    VersionsForgottenEarly,
    /// Versions of a heap's rows are known by page and slot alone: another heap that gets the page has them, too.
    VersionsOfAnyHeap,
    /// The versions of a tree are not set aside when it is truncated.
    VersionsNotSetAside,
    /// A snapshot does not know of transactions that are running.
    SnapshotWithoutRunning,
    /// A transaction keeps what stood at a key before its last change, not before its first.
    KeyVersionOfLastChange,
    /// A row of a heap is deleted without a version.
    DeleteWithoutVersion,
    /// A row comes into a tree without a version.
    InsertWithoutVersion,
    /// The values of a deleted row are overwritten without being kept for its versions.
    RowNotKept,
    /// Ghosts are removed although a version needs their values, or an undo.
    GhostsRemovedEarly,
    /// An entry of an index stays when its row's new values belong elsewhere.
    EntryLeft,
    /// Keys come into ranges that are locked.
    GapsNotLocked,
    /// Rows to which entries of a unique index have come to lead since the snapshot are not looked for.
    EntriesNotFollowed,
    /// Locks of rows that were read are released, although the level keeps them.
    ReadLocksReleased,
    /// A row that another transaction has changed is not looked at again once it is locked.
    RowNotLookedAtAgain,
    /// A snapshot changes rows that have changed since.
    SnapshotConflictsIgnored,
    /// Circles of waiting transactions are not looked for.
    DeadlocksNotSeen,
    /// A participant of a commit over several databases is not prepared durably.
    PrepareNotDurable,
    /// A checkpoint forgets decisions that participants may still ask for.
    DecisionsForgotten,
    /// The storage's own transactions have numbers that those of an earlier life have had.
    StructuresNumberedAnew,
    /// A checkpoint saves the size of a file while it grows.
    SizeSavedWhileGrowing,
    /// A database is dropped before those that ask it for decisions have heard of them.
    DropBeforeHeard,
}

impl Bug {
    /// Every one.
    pub const ALL: [Bug; 38] = [
        Bug::CommitNotDurable,
        Bug::PagesBeforeLog,
        Bug::EndNotDurableAtCheckpoint,
        Bug::OldestByLastRecord,
        Bug::RedoFromCheckpointEnd,
        Bug::CheckpointSkipsHeldPages,
        Bug::NoImages,
        Bug::NoRowUndo,
        Bug::NoKeyUndo,
        Bug::UndoneTwice,
        Bug::NoRedo,
        Bug::ExtentsFreedAtOnce,
        Bug::DirtyPagesEvicted,
        Bug::LocksBeforeDurability,
        Bug::LocksBeforePublication,
        Bug::PublicationBeforeDurability,
        Bug::PresentHidesRow,
        Bug::VersionsForgottenEarly,
        Bug::VersionsOfAnyHeap,
        Bug::VersionsNotSetAside,
        Bug::SnapshotWithoutRunning,
        Bug::KeyVersionOfLastChange,
        Bug::DeleteWithoutVersion,
        Bug::InsertWithoutVersion,
        Bug::RowNotKept,
        Bug::GhostsRemovedEarly,
        Bug::EntryLeft,
        Bug::GapsNotLocked,
        Bug::EntriesNotFollowed,
        Bug::ReadLocksReleased,
        Bug::RowNotLookedAtAgain,
        Bug::SnapshotConflictsIgnored,
        Bug::DeadlocksNotSeen,
        Bug::PrepareNotDurable,
        Bug::DecisionsForgotten,
        Bug::StructuresNumberedAnew,
        Bug::SizeSavedWhileGrowing,
        Bug::DropBeforeHeard,
    ];

    /// The bug of a name.
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug that all threads have, but for those with one of their own.
#[cfg(feature = "planted-bugs")]
static EVERYWHERE: OnceLock<Bug> = OnceLock::new();

/// A bug that is there until this is dropped.
#[cfg(feature = "planted-bugs")]
#[derive(Debug)]
pub struct Planted(Option<Bug>);

#[cfg(feature = "planted-bugs")]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(self.0);
    }
}

/// Plants a bug into what the calling thread does, and the actors of its schedules.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn plant(bug: Option<Bug>) -> Planted {
    Planted(PLANTED.replace(bug))
}

/// Plants a bug into what all threads of the process do, for good: for processes that end of it.
///
/// # Panics
/// Another is there.
#[cfg(feature = "planted-bugs")]
pub fn plant_everywhere(bug: Bug) {
    assert!(*EVERYWHERE.get_or_init(|| bug) == bug, "one bug is there for good");
}

/// The bug that is planted into what the calling thread does.
#[cfg(feature = "planted-bugs")]
pub fn planted() -> Option<Bug> {
    PLANTED.get().or(EVERYWHERE.get().copied())
}

/// Whether a rule is to be broken.
#[cfg(feature = "planted-bugs")]
#[inline]
pub fn has(bug: Bug) -> bool {
    PLANTED.try_with(Cell::get).ok().flatten().or(EVERYWHERE.get().copied()) == Some(bug)
}

/// Whether a rule is to be broken: not in this build.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn has(_bug: Bug) -> bool {
    false
}
