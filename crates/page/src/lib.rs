//! Byte layouts of pages and the one function that changes them.
