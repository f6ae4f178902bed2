//! What a file's name says about the file.

use std::path::Path;

use super::error::{Result, WriteError};

/// How a text file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Compression {
    /// It is not.
    #[default]
    None,
    /// gzip
    Gzip,
    /// zstd
    Zstd,
}

/// A kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// `.csv`
    Csv,
    /// `.tsv`, `.tab`: CSV with tabs.
    Tsv,
    /// `.json`: one array of objects.
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
}

/// The endings of names that are known.
const ENDINGS: [(&str, FileKind); 7] = [
    ("csv", FileKind::Csv),
    ("tsv", FileKind::Tsv),
    ("tab", FileKind::Tsv),
    ("json", FileKind::Json),
    ("jsonl", FileKind::JsonLines),
    ("ndjson", FileKind::JsonLines),
    ("parquet", FileKind::Parquet),
];

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
        let known = |name: String| ENDINGS.iter().find(|(ending, _)| *ending == name).map(|(_, kind)| *kind);
        FileName { kind: inner.and_then(known), compression }
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
