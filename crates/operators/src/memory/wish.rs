//! The memory that a plan asks for.

/// The memory that a plan's row-keeping operators would use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryWish {
    /// The number of such operators.
    pub operators: usize,
    /// How many of them are sorts.
    pub sorts: usize,
    /// The most rows that one of them is estimated to take or give.
    pub rows: u64,
    /// Bytes that suffice for all rows that they keep.
    pub bytes: u64,
    /// The bytes of a row's fixed-length columns, and of its texts, at the widest point of the plan. Sort keys of texts
    /// count as columns.
    pub row_bytes: (usize, usize),
    /// Whether rows are exchanged between workers: a batch of texts then holds the buffers of all batches that its rows
    /// come from.
    pub has_exchange: bool,
}
