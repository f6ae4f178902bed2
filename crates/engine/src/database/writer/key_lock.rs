//! Locks of keys that come and go.

use std::sync::Arc;

use hobt_access::{BTree, BTreeError};
use hobt_page::RowImage;
use hobt_txn::locks::{KeyHash, LockMode, LockResource};
use hobt_txn::{Before, RowId, StatementContext};

use super::{WriteError, Written};

/// Locks a key that is about to come or go until the transaction has ended, where the statement locks rows: whoever has
/// taken it away, or put it there, may take that back. What was locked. Blocks.
pub(super) fn lock_key(ctx: &StatementContext, tree: &BTree, key: &[u8]) -> Written<Vec<LockResource>> {
    let (hobt, mut taken) = (tree.hobt(), Vec::new());
    let Some(locks) = ctx.row_locks(hobt.storage().database_tag(), hobt.id()) else { return Ok(taken) };
    let row = RowId::Key(KeyHash::of(key));
    let locked = locks.lock(hobt.id(), row, LockMode::Exclusive, &|| ctx.is_cancelled(), &mut taken);
    locked.map_err(|error| WriteError::Lock(ctx.session(), error))?;
    Ok(taken)
}

/// The key of a row that is to be inserted and locked.
#[derive(Clone, Copy)]
pub(super) struct Key<'k> {
    pub(super) bytes: &'k [u8],
    /// Whether users told that no two rows have it: then the transaction's snapshot has no two, either.
    pub(super) is_unique: bool,
}

/// Whether the snapshot by which the statement writes has a row at a key that is not there any more.
fn was_there(ctx: &StatementContext, tree: &BTree, key: &[u8]) -> Written<bool> {
    let Some(snapshot) = ctx.snapshot_to_write_by() else { return Ok(false) };
    let versions = tree.hobt().storage().versions();
    let before = versions.key_change(tree.hobt().id(), key, &snapshot);
    Ok(matches!(before, Some(Before::Row(_) | Before::Present)) && tree.find(key, |_, _| ())?.is_none())
}

/// Inserts a row into a tree, with its key locked if that is given. Waits for those who have locked the range where it
/// belongs, without the lock of the key: they may be about to put it there themselves. Blocks.
pub(super) fn insert_locked(
    ctx: &StatementContext,
    tree: &Arc<BTree>,
    key: Option<Key<'_>>,
    row: &RowImage,
) -> Written<std::result::Result<(), BTreeError>> {
    loop {
        let taken = key.map(|key| lock_key(ctx, tree, key.bytes)).transpose()?;
        // Once it is locked, so that nobody changes it any more.
        if let Some(key) = key.filter(|key| key.is_unique)
            && was_there(ctx, tree, key.bytes)?
        {
            return Err(WriteError::SnapshotConflict);
        }
        let in_the_way = match tree.insert(ctx, row) {
            Err(BTreeError::RangeLocked { key, mode }) => (key, mode),
            done => return Ok(done),
        };
        let hobt = tree.hobt();
        let locks = ctx.row_locks(hobt.storage().database_tag(), hobt.id()).expect("who locks rows asks for gaps");
        locks.release(&taken.unwrap_or_default());
        let waited = locks.wait_for_gap(hobt.id(), in_the_way, &|| ctx.is_cancelled());
        waited.map_err(|error| WriteError::Lock(ctx.session(), error))?;
    }
}
