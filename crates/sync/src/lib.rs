//! Wait accounting, latches, spinlocks and per-worker counters.
