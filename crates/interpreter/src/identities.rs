//! The next values of identity columns, shared by all sessions.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId, SqlError};
use hobt_catalog::IdentityPosition;
use hobt_engine::Database;
use hobt_instruments::schedule::Mutex;
use hobt_txn::StatementContext;

/// The number of values by which the catalog is ahead of a reseeded table, equal to SQL Server's cache size.
const NOTED_AHEAD: u64 = 1000;

pub(super) type IdentityKey = (DatabaseId, ObjectId);

/// The position of an identity column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdentityState {
    /// The next value.
    pub(super) next: i128,
    /// SQL Server's current identity value: the last one generated or set. `None` before the first.
    pub(super) last: Option<i128>,
    /// For a reseeded table: the position in the catalog. Values from there on must not be generated yet.
    pub(super) noted: Option<i128>,
    /// Whether the transaction that reseeded it is open. No other session uses the table meanwhile.
    pub(super) is_uncommitted: bool,
}

impl IdentityState {
    /// Whether the values before `behind` would count as used after a crash.
    pub(super) fn is_noted(&self, behind: i128, is_rising: bool) -> bool {
        self.noted.is_none_or(|noted| if is_rising { behind <= noted } else { behind >= noted })
    }
}

/// The result of a request for values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// The first of the values.
    From(i128),
    /// No values: the catalog must be moved ahead first.
    Unnoted,
}

/// The identity columns that values were requested for.
#[derive(Default)]
pub(super) struct Identities {
    pub(super) states: Mutex<HashMap<IdentityKey, IdentityState>>,
    /// Serialises updates of the catalog's positions.
    pub(super) noting: Mutex<()>,
}

impl Identities {
    pub(super) fn get(&self, key: IdentityKey) -> Option<IdentityState> {
        self.states.lock().get(&key).copied()
    }

    /// Takes values. `None` if the table's next value has not been determined yet.
    pub(super) fn take(&self, key: IdentityKey, increment: i64, count: u64) -> Option<Taken> {
        let mut states = self.states.lock();
        let state = states.get_mut(&key)?;
        let (first, increment) = (state.next, i128::from(increment));
        let behind = first + increment * i128::from(count);
        if !state.is_noted(behind, increment > 0) {
            return Some(Taken::Unnoted);
        }
        if count > 0 {
            (state.next, state.last) = (behind, Some(behind - increment));
        }
        Some(Taken::From(first))
    }

    /// Takes values of a table whose position is known. If the catalog stores the position, it is first moved ahead of
    /// them.
    pub(super) fn take_noted(
        self: &Arc<Self>,
        ctx: &StatementContext,
        database: &Arc<Database>,
        table: ObjectId,
        increment: i64,
        count: u64,
    ) -> Result<i128, SqlError> {
        let key = (database.id(), table);
        loop {
            match self.take(key, increment, count) {
                Some(Taken::From(first)) => return Ok(first),
                // Other sessions may have taken the values that the catalog was moved ahead of.
                Some(Taken::Unnoted) => self.note_ahead(ctx, database, key, increment, count)?,
                None => return Err(SqlError::internal("an identity column of which nobody knows where it is")),
            }
        }
    }

    /// Replaces or removes a state. If the statement is undone, the previous state is restored.
    pub(super) fn put(self: &Arc<Self>, ctx: &StatementContext, key: IdentityKey, state: Option<IdentityState>) {
        let mut states = self.states.lock();
        let before = match state {
            Some(state) => states.insert(key, state),
            None => states.remove(&key),
        };
        drop(states);
        let identities = Arc::clone(self);
        ctx.on_undo(move || {
            let mut states = identities.states.lock();
            states.remove(&key);
            states.extend(before.map(|before| (key, before)));
            Ok(())
        });
        let identities = Arc::clone(self);
        ctx.on_commit(move || {
            if let Some(state) = identities.states.lock().get_mut(&key) {
                state.is_uncommitted = false;
            }
            Ok(())
        });
    }

    /// Moves the catalog's position ahead of `count` values and one more block.
    pub(super) fn note_ahead(
        self: &Arc<Self>,
        ctx: &StatementContext,
        database: &Arc<Database>,
        key: IdentityKey,
        increment: i64,
        count: u64,
    ) -> Result<(), SqlError> {
        let _alone = self.noting.lock();
        let Some(state) = self.get(key) else { return Ok(()) };
        let Some(before) = state.noted else { return Ok(()) };
        let noted = state.next + i128::from(increment) * (i128::from(count) + i128::from(NOTED_AHEAD));
        let position = IdentityPosition { next: noted, used: true };
        if state.is_uncommitted {
            database.set_identity_position(ctx, key.1, Some(position))?;
            let identities = Arc::clone(self);
            ctx.on_undo(move || {
                identities.states.lock().entry(key).and_modify(|state| state.noted = Some(before));
                Ok(())
            });
        } else {
            database.note_identity_position(key.1, position)?;
        }
        self.states.lock().entry(key).and_modify(|state| state.noted = Some(noted));
        Ok(())
    }
}
