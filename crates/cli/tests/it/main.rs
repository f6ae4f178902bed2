//! Tests of the program and of the library from outside: SQL scripts, the embedding interface, concurrent sessions,
//! users' mistakes, the seeds' scripts.

mod aborted;
mod api;
mod bad_input;
mod changes;
mod client;
mod clone;
mod command_line;
mod consistency;
mod crashes;
mod definitions;
mod disks;
mod estimates;
mod files;
mod hints;
mod histories;
mod instruments;
mod isolation;
mod join_filters;
mod kills;
mod limits;
mod memory;
mod nested_loops;
mod plans;
mod power_cuts;
mod random_queries;
mod range_joins;
mod savepoints;
mod seeds;
mod seeks;
mod sequences;
mod sessions;
mod slt;
mod statistics;
mod statistics_beside;
mod transactions;
