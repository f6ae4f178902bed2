//! How many small locks an owner has of each HOBT, and when it is time to escalate.

use hobt_base::{DatabaseId, HobtId};
use hobt_instruments::schedule::bound;

use super::statistics::Granted;
use super::{LockMode, LockResource};

/// Locks of one HOBT after which a statement first tries to escalate.
pub const FIRST_ATTEMPT: u32 = 5_000;
/// Further locks after which it tries again.
pub const NEXT_ATTEMPT: u32 = 1_250;

pub(super) type HobtKey = (DatabaseId, HobtId);

/// The small locks of an owner in one HOBT.
pub(super) struct HobtCount {
    pub(super) hobt: HobtKey,
    pub(super) held: u32,
    /// Locks on rows and keys that it was granted, whether or not it still has them.
    rows_granted: u64,
    /// As `rows_granted`, for locks on pages.
    pages_granted: u64,
    /// Locks that the running statement asked for, and that it still has.
    pub(super) in_statement: u32,
    attempt_at: u32,
    /// Whether one of them is for more than reading.
    pub(super) changes: bool,
    /// What they were exchanged for.
    pub(super) escalated: Option<(LockResource, LockMode)>,
}

/// The small locks of an owner, by HOBT. A statement uses few HOBTs.
#[derive(Default)]
pub(super) struct HobtCounts(pub(super) Vec<HobtCount>);

impl HobtCounts {
    pub(super) fn begin_statement(&mut self) {
        // All entries stay, whatever is still held: granted locks are reported at the owner's end.
        for count in &mut self.0 {
            (count.in_statement, count.attempt_at) = (0, bound(FIRST_ATTEMPT));
        }
    }

    /// Counts a lock. Returns whether it is time to escalate.
    pub(super) fn granted(&mut self, hobt: HobtKey, mode: LockMode, is_page: bool) -> bool {
        let count = self.of(hobt);
        *(if is_page { &mut count.pages_granted } else { &mut count.rows_granted }) += 1;
        count.held += 1;
        count.in_statement += 1;
        count.changes |= !mode.only_reads();
        let due = count.in_statement >= count.attempt_at;
        if due {
            count.attempt_at = count.in_statement.saturating_add(bound(NEXT_ATTEMPT));
        }
        due
    }

    /// The locks granted to the owner in each HOBT.
    pub(super) fn into_granted(self) -> Vec<Granted> {
        let granted = |count: HobtCount| {
            let HobtCount { hobt, rows_granted: rows, pages_granted: pages, .. } = count;
            (rows + pages > 0).then_some(Granted { hobt, rows, pages })
        };
        self.0.into_iter().filter_map(granted).collect()
    }

    pub(super) fn released(&mut self, hobt: HobtKey) {
        let count = self.of(hobt);
        count.held = count.held.saturating_sub(1);
        count.in_statement = count.in_statement.saturating_sub(1);
    }

    pub(super) fn changes(&mut self, hobt: HobtKey) {
        self.of(hobt).changes = true;
    }

    /// Whether a larger lock makes a lock of this mode unnecessary.
    pub(super) fn covers(&self, hobt: HobtKey, mode: LockMode) -> bool {
        let escalated = self.0.iter().find(|count| count.hobt == hobt).and_then(|count| count.escalated);
        escalated.is_some_and(|(_, held)| held == LockMode::Exclusive || mode.only_reads())
    }

    /// Notes that `resource` was released: the locks that were exchanged for it are not covered any more.
    pub(super) fn larger_lock_released(&mut self, resource: &LockResource) {
        for count in &mut self.0 {
            if count.escalated.is_some_and(|(larger, _)| larger == *resource) {
                count.escalated = None;
            }
        }
    }

    pub(super) fn of(&mut self, hobt: HobtKey) -> &mut HobtCount {
        // Mostly the entry of the previous lock.
        if let Some(index) = self.0.iter().rposition(|count| count.hobt == hobt) {
            return &mut self.0[index];
        }
        let count = HobtCount {
            hobt,
            held: 0,
            rows_granted: 0,
            pages_granted: 0,
            in_statement: 0,
            attempt_at: bound(FIRST_ATTEMPT),
            changes: false,
            escalated: None,
        };
        self.0.push(count);
        self.0.last_mut().expect("it was pushed")
    }
}
