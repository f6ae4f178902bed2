//! Objects that a statement is about to change: their names are claimed, and the objects locked.
//!
//! The object that a name refers to is certain only once the name is claimed, and then another statement may be working
//! in the object. The claim is released while the lock is waited for. So no statement waits for an object while it
//! holds a name, which would create deadlocks that neither the claims nor the locks can detect.

use std::sync::Arc;

use hobt_base::{ObjectId, SqlError, errors};
use hobt_catalog::{DatabaseSnapshot, Table};
use hobt_txn::StatementContext;

use super::pending::{Name, Sharing};
use super::{Change, Database};
use crate::error::{EngineError, Result};

/// Takes `Sch-M` on a table or another object for the statement. Objects locked in earlier attempts, because the name
/// referred to them then, may stay locked until the statement ends. Blocks.
pub type LockTable<'a> = dyn FnMut(ObjectId) -> std::result::Result<(), SqlError> + 'a;

/// How many times a name may refer to another object once the lock is granted.
pub(super) const CLAIM_ATTEMPTS: usize = 20;

/// 2801.
pub(super) fn changed_again(names: &str) -> EngineError {
    EngineError::Statement(errors::DEFINITION_CHANGED.with([&names]))
}

/// Calls `claim`, which claims `names` and finds their objects, until these are the objects that `lock` has locked, in
/// the order of ids. `claim` returns the ids to lock beside what it found.
///
/// # Errors
/// 2801 the objects changed again and again; those of `claim` and of `lock`.
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
    /// Claims a table's name and finds the table, which is locked by `lock`.
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
