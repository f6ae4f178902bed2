//! Files of T-SQL.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Opens a file of T-SQL: UTF-8, or UTF-16 with a mark of its order, as Management Studio's "Unicode" is. An error
/// names it.
pub(super) fn open_input(path: &Path) -> Result<Box<dyn BufRead>, String> {
    let cannot = |reason: &dyn std::fmt::Display| format!("{} cannot be read: {reason}", path.display());
    let file = File::open(path).map_err(|error| cannot(&error))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(cannot(&"it is a folder"));
    }
    let mut reader = BufReader::new(file);
    let unit: fn([u8; 2]) -> u16 = match reader.fill_buf().map_err(|error| cannot(&error))? {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return Ok(Box::new(reader)),
    };
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    let (units, rest) = bytes.as_chunks::<2>();
    let text: Result<String, _> = char::decode_utf16(units.iter().map(|&bytes| unit(bytes))).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(Box::new(Cursor::new(text))),
        _ => Err(cannot(&"it begins as UTF-16, and is not; save it as UTF-8")),
    }
}
