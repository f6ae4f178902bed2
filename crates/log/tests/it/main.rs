//! The log from outside: its guarantees across crashes, faults and many writers.

mod crash;
mod files;
mod full;
mod life;
mod room;
mod threads;
mod world;
