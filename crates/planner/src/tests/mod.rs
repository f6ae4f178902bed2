//! Queries from their text to their rows, over tables in memory.

mod errors;
mod features;
mod formulas;
mod tpch;
mod world;
