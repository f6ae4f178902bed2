//! Ids and units as newtypes, SQL Server's error numbers, clock and random source.
