//! Tests of instances from outside: what survives a restart, what a failure leaves, what is refused.

mod across;
mod attach;
mod backup;
mod damage;
mod databases;
mod definitions;
mod durability;
mod failures;
mod file_removal;
mod filegroup_full;
mod first_start;
mod fixture;
mod garbage;
mod indexes;
mod log_files;
mod log_full;
mod on_disk;
mod recovery_models;
mod recovery_start;
mod restart;
mod snapshots;
mod standby;
mod system_tables;
mod undo_behind;
mod undo_memory;
