//! Bugs on purpose, one for each rule that the simulators check. A simulator that does not find them proves nothing.
//!
//! The code that keeps a rule asks [`has`] whether it is to break it. Without the feature `planted-bugs`, which the
//! simulators and the tests of `hobt` switch on, the answer is a constant, and none of this is in the program. Cargo
//! unites features: a program built together with the simulators (`--workspace`) has it too, though no bug is planted
//! there. A program for users is built by itself (`-p hobt-cli`, which is the workspace's default).

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
    /// A checkpoint ends although the end record of a transaction that it no longer counts is not durable. It flushes
    /// only its own beginning and the decisions that it carries on.
    EndNotDurableAtCheckpoint,
    /// A checkpoint keeps the log from the last record of the oldest open transaction, not from its first.
    OldestByLastRecord,
    /// Recovery begins where the checkpoint ended, not where it began.
    RedoFromCheckpointEnd,
    /// A checkpoint passes over pages that are held exclusively.
    CheckpointSkipsHeldPages,
    /// The first change of a page after a checkpoint is logged without the page's image.
    NoImages,
    /// Recovery does not undo changes of heap rows by transactions without a commit.
    NoRowUndo,
    /// Recovery does not undo changes of trees by such transactions.
    NoKeyUndo,
    /// Recovery undoes again what had been undone before the crash.
    UndoneTwice,
    /// Recovery applies no change again.
    NoRedo,
    /// Extents are freed at once, not when the transaction has committed.
    ExtentsFreedAtOnce,
    /// A page with changes is evicted without being written.
    DirtyPagesEvicted,
    /// Locks are released before the commit is durable.
    LocksBeforeDurability,
    /// Locks are released before the commit is visible to others.
    LocksBeforePublication,
    /// A commit is visible to others before it is durable.
    PublicationBeforeDurability,
    /// A version that only says that a row existed hides the values that a newer version has.
    PresentHidesRow,
    /// Versions are dropped when their writer ends, even if a snapshot needs them.
    VersionsForgottenEarly,
    /// Versions of a heap's rows are identified by page and slot alone, so another heap that gets the page has them
    /// too.
    VersionsOfAnyHeap,
    /// The versions of a tree are not set aside when it is truncated.
    VersionsNotSetAside,
    /// A heap does not count that pages go out of use: scans and RIDs take what is there for its rows.
    RetiredPagesUncounted,
    /// Versions on disk are not read.
    VersionsOnDiskMissed,
    /// What a transaction overwrites is not kept for versions on disk that refer to it.
    RowNotKeptForDisk,
    /// A snapshot ignores which transactions are running.
    SnapshotWithoutRunning,
    /// A transaction that has changed rows reads pages that were rebuilt before.
    OwnChangesNotRebuilt,
    /// A transaction keeps the row at a key as of before its last change, not before its first.
    KeyVersionOfLastChange,
    /// A row of a heap is deleted without a version.
    DeleteWithoutVersion,
    /// A row is inserted into a tree without a version.
    InsertWithoutVersion,
    /// The values of a deleted row are overwritten without being kept for its versions.
    RowNotKept,
    /// Ghosts are removed although a version or an undo needs their values.
    GhostsRemovedEarly,
    /// An index entry stays when its row's new values belong at another key.
    EntryLeft,
    /// Keys are inserted into ranges that are locked.
    GapsNotLocked,
    /// Entries of a unique index that were changed after the snapshot to lead to other rows are not followed.
    EntriesNotFollowed,
    /// Locks of rows that were read are released, although the isolation level keeps them.
    ReadLocksReleased,
    /// A row that another transaction has changed is not read again once it is locked.
    RowNotLookedAtAgain,
    /// A snapshot transaction changes rows that have changed since its snapshot.
    SnapshotConflictsIgnored,
    /// Cycles of waiting transactions are not searched for.
    DeadlocksNotSeen,
    /// A participant of a commit over several databases is not prepared durably.
    PrepareNotDurable,
    /// A checkpoint drops decisions that participants may still ask for.
    DecisionsForgotten,
    /// The storage's own transactions reuse numbers of an earlier life of the database.
    StructuresNumberedAnew,
    /// A checkpoint saves the size of a file while it grows.
    SizeSavedWhileGrowing,
    /// A database is dropped before the participants of its decisions have learned them.
    DropBeforeHeard,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Bug; 42] = [
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
        Bug::RetiredPagesUncounted,
        Bug::VersionsOnDiskMissed,
        Bug::RowNotKeptForDisk,
        Bug::SnapshotWithoutRunning,
        Bug::OwnChangesNotRebuilt,
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

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug of all threads that have none of their own.
#[cfg(feature = "planted-bugs")]
static EVERYWHERE: OnceLock<Bug> = OnceLock::new();

/// Keeps a bug planted until it is dropped.
#[cfg(feature = "planted-bugs")]
#[derive(Debug)]
pub struct Planted(Option<Bug>);

#[cfg(feature = "planted-bugs")]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(self.0);
    }
}

/// Plants a bug for the calling thread, and for the actors of its schedules.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn plant(bug: Option<Bug>) -> Planted {
    Planted(PLANTED.replace(bug))
}

/// Plants a bug for all threads of the process, for good: for processes that the bug ends.
///
/// # Panics
/// Another bug is planted so already.
#[cfg(feature = "planted-bugs")]
pub fn plant_everywhere(bug: Bug) {
    assert!(*EVERYWHERE.get_or_init(|| bug) == bug, "one bug is there for good");
}

/// The bug that is planted for the calling thread.
#[cfg(feature = "planted-bugs")]
pub fn planted() -> Option<Bug> {
    PLANTED.get().or(EVERYWHERE.get().copied())
}

/// Whether to break the rule of `bug`.
#[cfg(feature = "planted-bugs")]
#[inline]
pub fn has(bug: Bug) -> bool {
    PLANTED.try_with(Cell::get).ok().flatten().or(EVERYWHERE.get().copied()) == Some(bug)
}

/// Whether to break the rule of `bug`: never in this build.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn has(_bug: Bug) -> bool {
    false
}
