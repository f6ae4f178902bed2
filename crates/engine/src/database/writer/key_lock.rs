//! Locks of keys that are inserted and deleted.

use std::sync::Arc;

use hobt_access::{AccessError, BTree, BTreeError};
use hobt_page::RowImage;
use hobt_txn::locks::{KeyHash, LockMode, LockResource};
use hobt_txn::{Before, RowId, StatementContext};

use super::{WriteError, Written};

/// If the statement locks rows, locks a key that is about to be inserted or deleted until the transaction ends: another
/// transaction that deleted or inserted it may still roll back. Returns what was locked. Blocks.
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
    /// Whether the key is declared unique. Then the transaction's snapshot has at most one row with it.
    pub(super) is_unique: bool,
}

/// Whether the snapshot that the statement writes by has a row at a key that does not exist any more.
fn was_there(ctx: &StatementContext, tree: &BTree, key: &[u8]) -> Written<bool> {
    let Some(snapshot) = ctx.snapshot_to_write_by() else { return Ok(false) };
    let versions = tree.hobt().storage().versions();
    let before = versions.key_change(tree.hobt().id(), key, &snapshot).map_err(AccessError::from)?;
    Ok(matches!(before, Some(Before::Row(_) | Before::Present)) && tree.find(key, |_, _| ())?.is_none())
}

/// Inserts a row into a tree, and locks its key if one is given. If another transaction has locked the range that the
/// key belongs to, waits for it without holding the lock of the key: that transaction may be about to insert the key
/// itself. Blocks.
pub(super) fn insert_locked(
    ctx: &StatementContext,
    tree: &Arc<BTree>,
    key: Option<Key<'_>>,
    row: &RowImage,
) -> Written<std::result::Result<(), BTreeError>> {
    loop {
        let taken = key.map(|key| lock_key(ctx, tree, key.bytes)).transpose()?;
        // After the lock, so that the key is not changed any more.
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
