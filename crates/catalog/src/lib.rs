//! System tables in ordinary heaps, and the immutable snapshot that readers use.
