//! Sessions beside each other, over many seeds; and bugs on purpose, which must be found.

mod planted;
mod seeds;
