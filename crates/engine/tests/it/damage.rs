//! Damage of which no checksum tells: what a check of the database finds, and that nothing of it ends in a panic or a
//! hang.
//!
//! A database with a table of each kind (`world`) is made and closed. Then bytes of its file are changed, the page gets
//! a checksum that fits, and the instance is opened: the database is refused, or `Database::check` says what is wrong.
//! `list` has one damage for each structure and each field that means something, with the errors that may tell of it.
//! `random` changes fields at random.

mod list;
mod random;
mod world;
