//! The names of temporary tables in `tempdb`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the names of temporary tables unique in `tempdb`.
static NEXT_TEMPORARY: AtomicU64 = AtomicU64::new(1);

/// The length to which the name given by the user is padded.
const PADDED_NAME_CHARS: usize = 116;

/// A name in `tempdb` for a temporary table: padded and numbered as in SQL Server.
pub fn temporary_name(name: &str) -> String {
    let number = NEXT_TEMPORARY.fetch_add(1, Ordering::Relaxed);
    let kept: String = name.chars().take(100).collect();
    format!("{kept:_<PADDED_NAME_CHARS$}{number:012X}")
}

/// A table's name as the user wrote it: without the suffix that makes a temporary table's name unique.
pub fn written_table_name(name: &str) -> &str {
    let is_local = name.starts_with('#') && !name.starts_with("##");
    match name.char_indices().nth(PADDED_NAME_CHARS) {
        Some((end, _)) if is_local => name[..end].trim_end_matches('_'),
        _ => name,
    }
}
