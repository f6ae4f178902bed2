//! Crashes, failing operations, and planted bugs, each over many seeds.

mod crashes;
mod faults;
mod planted;
