//! The memory grant of a statement.

/// The memory grant of a statement at one moment, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryShown {
    /// The least useful amount.
    pub least: u64,
    /// The estimated bytes that its operators keep.
    pub ideal: u64,
    /// The granted amount, which is guaranteed; 0 until `granted_at`.
    pub granted: u64,
    /// The time of the request, in 100 ns since 1970-01-01 UTC.
    pub asked_at: i64,
    /// The time of the grant; `None` for a statement that waits.
    pub granted_at: Option<i64>,
    /// The bytes that the operators hold now.
    pub held: u64,
    /// The most bytes that they have held.
    pub held_most: u64,
}
