//! The library from outside: SQL scripts, the embedding interface, the seeds' scripts.

mod api;
mod seeds;
mod slt;
