//! SQL types, their physical form, values, comparison and collation keys.
