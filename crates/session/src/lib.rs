//! Sessions, SET state, SQL Server's views and message texts.
