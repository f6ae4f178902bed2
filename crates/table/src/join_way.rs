//! The join method that a hint asks for.

/// How a hint wants sources joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum JoinWay {
    /// No hint.
    #[default]
    Free,
    /// `LOOP`: by lookups.
    Loop,
    /// `HASH`: without an index.
    Hash,
    /// `MERGE`: with both sides in the order of the joined columns.
    Merge,
}
