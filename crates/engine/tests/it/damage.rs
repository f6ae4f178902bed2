//! Damage that checksums do not show: a check of the database finds it, and it never causes a panic or a hang.
//!
//! A database with a table of each kind (`world`) is created and closed. Then bytes of its file are changed, the page
//! gets a matching checksum, and the instance is opened: either the database is refused, or `Database::check` reports
//! the damage. `list` has one damage for each structure and each meaningful field, with the errors that may report it.
//! `random` changes fields at random.

mod list;
mod random;
mod world;
