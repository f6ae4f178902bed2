//! The names of databases and of transactions over several of them.

/// An id of a database that no other database ever has.
pub type DatabaseGuid = [u8; 16];

/// The name of a transaction over several databases, unique for ever. A stamp alone is not: it may come again after a
/// crash, but not within one life of a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GlobalTransaction {
    /// The database whose log has the decision.
    pub coordinator: DatabaseGuid,
    /// The life of that log.
    pub life: u64,
    /// The transaction's number there, and everywhere.
    pub number: u64,
}
