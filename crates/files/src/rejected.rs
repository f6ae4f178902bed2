//! Rows that cannot be read: what is wrong with each, how many may be, and where they are put.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use hobt_base::{SqlError, errors};
use parking_lot::Mutex;

/// Characters of a value that a message shows.
const SHOWN_CHARS: usize = 60;
/// Rows whose errors are kept to be shown.
const KEPT_FAULTS: usize = 1000;

/// What is wrong with a value, or with a row at a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The text is no value of the type.
    Invalid,
    /// The value is beyond the type's range.
    Overflow,
    /// The text is longer than the column.
    TooLong,
    /// The field is empty, and the column takes no NULL.
    Null,
    /// The row has fewer fields than there are columns; this is the first that is missing.
    Few,
    /// The row has more fields than there are columns.
    Many,
    /// Text stands behind the field's closing quote.
    AfterQuote,
    /// The line is no JSON object.
    NoObject,
}

/// A row that cannot be read.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The row, from 1.
    pub row: u64,
    /// The line on which the row begins, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: usize,
    /// The column's name.
    pub name: String,
    /// The type of its values.
    pub type_name: String,
    /// What is wrong.
    pub kind: FaultKind,
    /// The value as the file has it, its beginning.
    pub value: String,
}

impl Fault {
    /// The error that says so: 4863, 4864, 4867, 4869 or 4879.
    pub fn error(&self) -> SqlError {
        let Fault { row, line, column, name, value, type_name, .. } = self;
        let file = self.file.display();
        match self.kind {
            FaultKind::Invalid => errors::BULK_CONVERSION.with([row, column, name, value, type_name, line, &file]),
            FaultKind::Overflow => errors::BULK_OVERFLOW.with([row, column, name, value, type_name, line, &file]),
            FaultKind::TooLong => errors::BULK_TRUNCATION.with([row, column, name, value, type_name, line, &file]),
            FaultKind::Null => errors::BULK_NULL.with([row, column, name, line, &file]),
            FaultKind::Few => errors::BULK_FEW_FIELDS.with([&file, row, column, line, name]),
            FaultKind::Many => errors::BULK_MANY_FIELDS.with([&file, row, column, line]),
            FaultKind::AfterQuote => errors::BULK_TEXT_AFTER_QUOTE.with([&file, row, column, line, name]),
            FaultKind::NoObject => errors::BULK_NO_OBJECT.with([&file, row, line, value]),
        }
    }
}

/// The beginning of a value, for a message.
pub(crate) fn shown(value: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    let value: String = value.chars().map(visible).take(SHOWN_CHARS + 1).collect();
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    }
}

/// The rows that a reading has rejected. All workers add to it.
#[derive(Debug)]
pub struct Rejections {
    /// Rows that may be rejected: `MAXERRORS`.
    max: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// Rows that were taken to be shown.
    shown: u64,
    faults: Vec<Fault>,
    /// Where the rows themselves are put, and the messages.
    files: Option<(PathBuf, File, File)>,
}

impl Rejections {
    /// None yet; up to `max` may come.
    pub fn new(max: u64) -> Rejections {
        Rejections { max, state: Mutex::default() }
    }

    /// Puts rejected rows into the new file `path`, and what is wrong with them into `path.Error.Txt`.
    ///
    /// # Errors
    /// 4861: one of the files exists, or cannot be made.
    pub fn put_into(&self, path: &Path) -> Result<(), SqlError> {
        let made = |path: &Path| {
            File::create_new(path).map_err(|error| errors::BULK_FILE_NOT_OPENED.with([&path.display(), &error]))
        };
        let rows = made(path)?;
        let messages = made(&message_file(path)).inspect_err(|_| {
            // The empty file that was just made.
            let _stays = std::fs::remove_file(path);
        })?;
        self.state.lock().files = Some((path.to_path_buf(), rows, messages));
        Ok(())
    }

    /// Adds a row with its bytes.
    ///
    /// # Errors
    /// 4865 if there are too many; the error of the row itself if none is allowed; 4861 if the file of rejected rows
    /// cannot be written.
    pub(crate) fn add(&self, fault: Fault, row: &[u8]) -> Result<(), SqlError> {
        let mut state = self.state.lock();
        if let Some((path, rows, messages)) = &mut state.files {
            let text = fault.error().message;
            let written = rows.write_all(row).and_then(|()| writeln!(messages, "{text}"));
            written.map_err(|error| errors::BULK_FILE_NOT_OPENED.with([&path.display(), &error]))?;
        }
        state.count += 1;
        if state.count > self.max {
            let error = fault.error();
            return Err(match self.max {
                0 => error,
                max => errors::BULK_TOO_MANY_ERRORS.with([&max, &error.message]),
            });
        }
        if state.faults.len() < KEPT_FAULTS {
            state.faults.push(fault);
        }
        Ok(())
    }

    /// How many rows were rejected since the last call, and what is wrong with the first of them, in the order of their
    /// rows.
    pub fn taken(&self) -> (u64, Vec<Fault>) {
        let mut state = self.state.lock();
        let mut faults = std::mem::take(&mut state.faults);
        faults.sort_by(|a, b| (&a.file, a.row).cmp(&(&b.file, b.row)));
        let count = state.count - state.shown;
        state.shown = state.count;
        (count, faults)
    }
}

/// The file with the messages of a file of rejected rows, named as SQL Server does.
fn message_file(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".Error.Txt");
    PathBuf::from(name)
}
