//! Instances and databases: create, open, close, files, filegroups, DDL.
