//! Sizes of the operators' units of work, derived from the memory available when a statement is planned.

use super::MemoryWish;

/// The sizes for one statement.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// The memory shared by its operators that can spill, in bytes.
    third: u64,
    /// The number of workers, and so of parts of each operator.
    parts: u64,
}

impl Sizes {
    /// The sizes for a statement with `parts` workers and `bytes` in total.
    pub(super) fn new(bytes: u64, parts: usize) -> Sizes {
        Sizes { third: bytes / 3, parts: parts.max(1) as u64 }
    }

    /// The memory that each part of a sort keeps for merging its spilled runs, in bytes: an eighth of its share.
    pub fn merge_bytes(self) -> usize {
        const LEAST: u64 = 256 << 10;
        const MOST: u64 = 10 << 20;
        (self.third / (8 * self.parts)).clamp(LEAST, MOST) as usize
    }

    /// Rows per batch between operators; `most` if memory does not limit it. `width` is the bytes of a row. A merge
    /// keeps a batch of each input, and a batch of merged texts keeps all the inputs that its rows come from. So little
    /// memory requires short batches.
    pub fn batch_rows(self, width: usize, most: usize) -> usize {
        const BATCHES: u64 = 32;
        let rows = self.third / self.parts / BATCHES.saturating_mul(width.max(1) as u64);
        usize::try_from(rows).unwrap_or(usize::MAX).clamp(1, most.max(1))
    }

    /// The number of rows of `width` bytes that each part of a sort may keep in memory. Each row may keep its whole
    /// input batch alive, so it takes a multiple of its own bytes.
    pub fn top_rows(self, width: usize) -> usize {
        const KEPT_FOR_ROW: u64 = 20;
        let rows = self.third / self.parts / KEPT_FOR_ROW.saturating_mul(width.max(1) as u64);
        usize::try_from(rows).unwrap_or(usize::MAX)
    }

    /// The least memory that a plan's operators need, in bytes: each part of each operator holds a few batches, and
    /// each part of a sort its merge memory. `width` is the estimated width of the tables' rows. A third of the memory
    /// is for rows, and a sort counts a batch twice. A batch of texts may be three times as large as its rows, because
    /// its buffers have spare room, and after an exchange it holds the buffers of several batches. A batch has no more
    /// rows than are expected, but some extra rows are assumed, because estimates may be wrong.
    pub fn least_bytes(self, wish: &MemoryWish, batch_rows: usize, width: usize) -> u64 {
        const BATCHES: u64 = 12;
        const ROOM: u64 = 3;
        const SOURCES: u64 = 4;
        const UNEXPECTED_ROWS: u64 = 64;
        let (fixed, texts) =
            (wish.row_bytes.0 as u64, wish.row_bytes.1.max(width - width.min(wish.row_bytes.0)) as u64);
        let sources = if wish.has_exchange { self.parts.min(SOURCES) } else { 1 };
        let rows = (batch_rows as u64).min(wish.rows.saturating_mul(4).saturating_add(UNEXPECTED_ROWS));
        let batch = rows.saturating_mul(fixed.saturating_add(texts.saturating_mul(ROOM * sources)));
        // Merges share half of the statement's memory.
        let merges = 2 * wish.sorts as u64 * self.merge_bytes() as u64;
        let batches = (wish.operators as u64).saturating_mul(BATCHES.saturating_mul(batch));
        self.parts.saturating_mul(merges.saturating_add(batches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_shrink_with_the_memory_and_never_to_nothing() {
        let (large, small, none) = (Sizes::new(6 << 30, 2), Sizes::new(6 << 20, 2), Sizes::new(0, 4));
        assert_eq!((large.merge_bytes(), large.batch_rows(100, 8192)), (10 << 20, 8192));
        assert_eq!((small.merge_bytes(), small.batch_rows(100, 8192)), (256 << 10, 327));
        assert_eq!((none.merge_bytes(), none.batch_rows(100, 8192), none.batch_rows(100, 5)), (256 << 10, 1, 1));
        assert!(small.top_rows(100) < large.top_rows(100));
        let sort =
            MemoryWish { operators: 1, sorts: 1, rows: 1 << 20, bytes: 0, row_bytes: (10, 90), has_exchange: false };
        let few = MemoryWish { rows: 2, ..sort };
        assert!(small.least_bytes(&few, 8192, 100) < small.least_bytes(&sort, 8192, 100) / 2);
        assert!(small.least_bytes(&sort, 327, 100) <= 6 << 20, "it fits into what the pieces were made for");
    }
}
