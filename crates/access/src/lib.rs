//! Allocation, heaps, the parallel scan with its page-range dispenser, bulk insert.
