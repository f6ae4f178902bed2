//! The object changes of open transactions in a database, and the names that they have claimed.
//!
//! A statement claims a name before it checks whether the name is free, and keeps it until its transaction ends.
//! Another transaction that wants the name waits, so that it then sees the outcome. Claims of one transaction never
//! conflict with each other.

use std::sync::Arc;
use std::time::Duration;

use hobt_base::{ObjectId, SqlError, Stamp, errors};
use hobt_catalog::{DatabaseSnapshot, SnapshotChange};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{self, Condvar, Mutex};
use hobt_txn::StatementContext;

use crate::error::{EngineError, Result};

/// What can be claimed. Names are folded to lower case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// A table, view, function or procedure of a schema.
    Object(i32, String),
    /// A schema, by its id: shared by all transactions that create objects in it.
    Schema(i32),
    /// The lists of filegroups and files.
    Filegroups,
    /// The filegroups that partition schemes name: shared by all transactions that create or change one.
    FilegroupsOfSchemes,
    /// The list of schemas.
    Schemas,
    /// A partition function.
    PartitionFunction(String),
    /// A partition scheme.
    PartitionScheme(String),
    /// The statistics of a table.
    Statistics(ObjectId),
}

impl Name {
    pub(crate) fn object(schema: i32, name: &str) -> Name {
        Name::Object(schema, name.to_lowercase())
    }

    pub(crate) fn partition_function(name: &str) -> Name {
        Name::PartitionFunction(name.to_lowercase())
    }

    pub(crate) fn partition_scheme(name: &str) -> Name {
        Name::PartitionScheme(name.to_lowercase())
    }
}

/// A name, and whether others may claim it at the same time.
pub(crate) type Claim = (Name, Sharing);

/// Whether a claim can be shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sharing {
    /// The object is used: it must not be dropped.
    Shared,
    /// The object is created or dropped.
    Exclusive,
}

#[derive(Debug)]
struct Entry {
    token: u64,
    owner: Stamp,
    /// Whether its transaction continues after the statement that made the claim.
    in_transaction: bool,
    claims: Vec<Claim>,
    changes: Vec<SnapshotChange>,
}

/// The open transactions' claims and changes.
#[derive(Debug)]
pub(crate) struct PendingChanges {
    entries: Ranked<Mutex<(u64, Vec<Entry>)>>,
    released: Condvar,
}

impl Default for PendingChanges {
    fn default() -> PendingChanges {
        PendingChanges { entries: Ranked::new(Rank::Pending, Mutex::default()), released: Condvar::new() }
    }
}

/// How often a waiting statement checks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);
/// Deadlocks between claims are detected by this timeout. A load or a transaction may hold names for as long as it
/// runs. But a statement waits no longer than this if it may be part of a deadlock: it is in a transaction, which may
/// hold anything; it holds a name itself; or the holder is a transaction and the statement has locked something that
/// the holder may come to wait for.
const DEADLOCK_AFTER: Duration = Duration::from_secs(10);

fn conflict(left: &[Claim], right: &[Claim]) -> bool {
    left.iter().any(|(name, sharing)| {
        right
            .iter()
            .any(|(other, shared)| name == other && (*sharing == Sharing::Exclusive || *shared == Sharing::Exclusive))
    })
}

impl PendingChanges {
    /// Claims names for `ctx`, waiting for the transactions that hold them. Returns the claim's token.
    ///
    /// # Errors
    /// The statement was cancelled, or has waited for [`DEADLOCK_AFTER`] and may be part of a deadlock (1222).
    pub(crate) fn claim(&self, ctx: &StatementContext, claims: Vec<Claim>) -> Result<u64> {
        let owner = ctx.stamp();
        let since = schedule::now();
        let mut state = self.entries.lock();
        let in_the_way = |entry: &&Entry| entry.owner != owner && conflict(&entry.claims, &claims);
        while let Some(holder) = state.1.iter().find(in_the_way) {
            if ctx.is_cancelled() {
                return Err(EngineError::Statement(SqlError::cancelled()));
            }
            let may_close_circle = ctx.is_in_transaction()
                || state.1.iter().any(|entry| entry.owner == owner)
                || (holder.in_transaction && ctx.lock_owner().held_count() > 0);
            if may_close_circle && schedule::now() - since >= DEADLOCK_AFTER {
                return Err(EngineError::Statement(errors::DEFINITION_BUSY.error()));
            }
            self.released.wait_for(state.guard(), CANCEL_CHECK);
        }
        state.0 += 1;
        let token = state.0;
        let in_transaction = ctx.is_in_transaction();
        state.1.push(Entry { token, owner, in_transaction, claims, changes: Vec::new() });
        Ok(token)
    }

    /// Whether a name is not claimed.
    pub(crate) fn is_free(&self, name: &Name) -> bool {
        let state = self.entries.lock();
        state.1.iter().all(|entry| entry.claims.iter().all(|(claimed, _)| claimed != name))
    }

    /// Records a change under a claim.
    pub(crate) fn add(&self, token: u64, change: SnapshotChange) {
        let mut state = self.entries.lock();
        let entry = state.1.iter_mut().find(|entry| entry.token == token);
        entry.expect("a claim is held until its statement ends").changes.push(change);
    }

    /// Ends a claim. `publish` gets its changes before the names can be claimed again.
    pub(crate) fn release(&self, token: u64, publish: impl FnOnce(Vec<SnapshotChange>)) {
        let mut state = self.entries.lock();
        if let Some(index) = state.1.iter().position(|entry| entry.token == token) {
            let entry = state.1.remove(index);
            publish(entry.changes);
        }
        drop(state);
        self.released.notify_all();
    }

    /// `published` with the changes of `owner`.
    pub(crate) fn view(&self, published: Arc<DatabaseSnapshot>, owner: Stamp) -> Arc<DatabaseSnapshot> {
        let state = self.entries.lock();
        let mut own = state.1.iter().filter(|entry| entry.owner == owner).flat_map(|entry| &entry.changes).peekable();
        if own.peek().is_none() {
            return published;
        }
        let mut snapshot = (*published).clone();
        own.for_each(|change| snapshot.apply(change));
        Arc::new(snapshot)
    }
}
