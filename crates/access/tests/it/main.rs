//! Storage, heaps, loads and scans over simulated disks and, once, over a real file.

mod btree;
mod heap;
mod large_values;
mod load;
mod scan;
mod storage;
mod versions;
mod world;
