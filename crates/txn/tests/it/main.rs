//! Statements, transactions and locks, under threads.

mod locks;
