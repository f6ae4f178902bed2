//! What statements and transactions share, under threads.

mod locks;
