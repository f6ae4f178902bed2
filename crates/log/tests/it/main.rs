//! The log from outside: what it promises over crashes, faults and many writers.

mod crash;
mod files;
mod full;
mod life;
mod room;
mod threads;
mod world;
