//! What a file's name says about the file.

use std::path::Path;

use crate::compression::Compression;
use crate::write::{Result, WriteError};

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// `.csv`, `.txt`
    Csv,
    /// `.tsv`, `.tab`: CSV with tabs.
    Tsv,
    /// `.tbl`, `.psv`: CSV with `|`.
    Psv,
    /// `.json`: one array of objects, each in a line of its own.
    Json,
    /// `.jsonl`, `.ndjson`: one object a line.
    JsonLines,
    /// `.parquet`
    Parquet,
}

/// What a file's name says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileName {
    /// The kind of file; `None` if the ending is none that is known.
    pub kind: Option<FileKind>,
    /// How it is compressed.
    pub compression: Compression,
    /// Whether it has an ending, other than one of compression.
    pub has_ending: bool,
}

/// The endings of names that are known.
const ENDINGS: [(&str, FileKind); 10] = [
    ("csv", FileKind::Csv),
    ("txt", FileKind::Csv),
    ("tsv", FileKind::Tsv),
    ("tab", FileKind::Tsv),
    ("psv", FileKind::Psv),
    ("tbl", FileKind::Psv),
    ("json", FileKind::Json),
    ("jsonl", FileKind::JsonLines),
    ("ndjson", FileKind::JsonLines),
    ("parquet", FileKind::Parquet),
];

impl FileKind {
    /// The kind of files whose names end so, without the point and in any case.
    pub fn of_ending(ending: &str) -> Option<FileKind> {
        let known = ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
        known.map(|(_, kind)| *kind)
    }

    /// What stands between two values, if it is CSV.
    pub fn delimiter(self) -> Option<&'static str> {
        match self {
            FileKind::Csv => Some(","),
            FileKind::Tsv => Some("\t"),
            FileKind::Psv => Some("|"),
            FileKind::Json | FileKind::JsonLines | FileKind::Parquet => None,
        }
    }
}

impl FileName {
    /// What the name of `path` says.
    pub fn of(path: &Path) -> FileName {
        let ending = |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let outer = ending(path);
        let compression = match outer.as_deref() {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        };
        let inner = match compression {
            Compression::None => outer,
            _ => path.file_stem().and_then(|stem| ending(Path::new(stem))),
        };
        let has_ending = inner.is_some();
        FileName { kind: inner.and_then(|name| FileKind::of_ending(&name)), compression, has_ending }
    }

    /// The kind of file.
    ///
    /// # Errors
    /// If the ending says none.
    pub fn known_kind(self, path: &Path) -> Result<FileKind> {
        self.kind.ok_or_else(|| {
            let endings: Vec<String> = ENDINGS.iter().map(|(ending, _)| format!(".{ending}")).collect();
            let endings = endings.join(", ");
            let text = format!("{} does not say what it is: {endings} do, and .gz or .zst behind them", path.display());
            WriteError::Unfit(text)
        })
    }
}
