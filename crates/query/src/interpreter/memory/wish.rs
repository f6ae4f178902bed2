//! The memory that a plan asks for.

/// The memory that a plan's row-keeping operators would use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MemoryWish {
    /// The number of such operators.
    pub(crate) operators: usize,
    /// How many of them are sorts.
    pub(crate) sorts: usize,
    /// The most rows that one of them is estimated to take or give.
    pub(crate) rows: u64,
    /// Bytes that suffice for all rows that they keep.
    pub(crate) bytes: u64,
    /// The bytes of a row's fixed-length columns, and of its texts, at the widest point of the plan. Sort keys of texts
    /// count as columns.
    pub(crate) row_bytes: (usize, usize),
    /// Whether rows are exchanged between workers: a batch of texts then holds the buffers of all batches that its rows
    /// come from.
    pub(crate) has_exchange: bool,
}
