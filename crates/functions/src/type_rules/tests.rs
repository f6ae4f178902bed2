//! Tests of the folder.
