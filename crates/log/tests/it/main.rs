//! The log from outside: its guarantees across crashes, faults and many writers.

mod backup;
mod crash;
mod files;
mod full;
mod life;
mod reader;
mod room;
mod threads;
mod world;
