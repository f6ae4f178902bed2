//! The buffer pool: frames, guards, eviction, read-ahead.
