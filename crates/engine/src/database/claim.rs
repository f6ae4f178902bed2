//! Objects that a statement is about to change: their names claimed, and they themselves locked.
//!
//! What a name means is known for certain only once it is claimed, and then another statement may be at work in the
//! object: the claim is let go of while the lock is waited for, so that nobody waits for an object with a name in hand,
//! which would close circles that neither side sees.

use std::sync::Arc;

use hobt_base::{ObjectId, SqlError, number};
use hobt_catalog::{DatabaseSnapshot, Table};
use hobt_txn::StatementContext;

use super::pending::{Name, Sharing};
use super::{Change, Database};
use crate::error::{EngineError, Result};

/// Takes `Sch-M` on a table or another object for the statement. What it took before, because a name meant that then,
/// may stay locked until the statement's end. Blocks.
pub type LockTable<'a> = dyn FnMut(ObjectId) -> std::result::Result<(), SqlError> + 'a;

/// How often what a name means may be another thing by the time that it is locked.
pub(super) const CLAIM_ATTEMPTS: usize = 20;

/// 2801.
pub(super) fn changed_again(names: &str) -> EngineError {
    let text = format!("The definition of '{names}' changed again and again while the statement waited for it.");
    EngineError::statement(number::DEFINITION_CHANGED, text)
}

/// Has `claim` claim `names` and find what they mean, until that is what `lock` has locked, in the order of ids. It
/// gives the ids to be locked beside what it found.
///
/// # Errors
/// 2801 it was another thing again and again; those of `claim` and of `lock`.
pub(super) fn until_locked<T>(
    lock: &mut LockTable<'_>,
    names: &str,
    claim: &mut dyn FnMut() -> Result<(Change, T, Vec<ObjectId>)>,
) -> Result<(Change, T)> {
    let mut locked: Option<Vec<ObjectId>> = None;
    for _ in 0..CLAIM_ATTEMPTS {
        let (change, found, mut ids) = claim()?;
        ids.sort_unstable();
        if locked.as_ref() == Some(&ids) {
            return Ok((change, found));
        }
        change.release();
        ids.iter().try_for_each(|id| lock(*id))?;
        locked = Some(ids);
    }
    Err(changed_again(names))
}

impl Database {
    /// Claims a table's name and finds the table, which `lock` has locked by then.
    pub(super) fn claim_locked(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: i32,
        name: &str,
        lock: &mut LockTable<'_>,
        missing: &dyn Fn(&DatabaseSnapshot) -> EngineError,
    ) -> Result<(Change, Arc<Table>)> {
        until_locked(lock, name, &mut || {
            let change = self.begin(ctx, vec![(Name::object(schema, name), Sharing::Exclusive)])?;
            let snapshot = self.snapshot_of(ctx);
            let table = snapshot.table(schema, name).filter(|table| !table.is_system);
            let table = Arc::clone(table.ok_or_else(|| missing(&snapshot))?);
            let ids = vec![table.id];
            Ok((change, table, ids))
        })
    }
}
