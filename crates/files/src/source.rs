//! Opening files to read them: compression, encoding, and whether they change meanwhile.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_instruments::{Wait, WaitType};
use hobt_txn::{Progress, ProgressUnit};

use crate::compression::Compression;
use crate::encoding::{CodePage, Utf8Reader};

/// A file that is being read.
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    reader: Box<dyn Read + Send>,
    /// The file itself, to see whether it changes; `None` for what is no regular file.
    watched: Option<(File, Metadata)>,
}

/// 4860: there is no such file.
fn missing(path: &Path) -> SqlError {
    errors::BULK_FILE_MISSING.with([&path.display()])
}

/// The error for a file that cannot be opened.
pub(crate) fn cannot_open(path: &Path, error: &io::Error) -> SqlError {
    match error.kind() {
        io::ErrorKind::NotFound => missing(path),
        _ => errors::BULK_FILE_NOT_OPENED.with([&path.display(), &error]),
    }
}

/// The error for a file that cannot be read.
pub(crate) fn cannot_read(path: &Path, error: &io::Error) -> SqlError {
    errors::BULK_FILE_NOT_READ.with([&path.display(), &error])
}

impl SourceFile {
    /// Opens a file. Text is decompressed and, where its encoding asks for it, becomes UTF-8.
    ///
    /// # Errors
    /// 4860, 4861, 4862.
    pub(crate) fn open(
        path: &Path,
        code_page: CodePage,
        is_text: bool,
        progress: &Arc<Progress>,
    ) -> Result<SourceFile, SqlError> {
        let (file, watched) = opened(path)?;
        let counted = Counted { file, progress: Arc::clone(progress) };
        let (first, rest) = peeked(counted).map_err(|error| cannot_read(path, &error))?;
        // Any bytes may begin a file that is no text.
        let compression = if is_text { Compression::of(&first) } else { Compression::None };
        let raw = io::Cursor::new(first).chain(rest);
        let plain: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(raw),
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(raw)),
            Compression::Zstd => {
                Box::new(zstd::stream::read::Decoder::new(raw).map_err(|error| cannot_read(path, &error))?)
            }
        };
        let reader = match code_page {
            _ if !is_text => plain,
            CodePage::Other(encoding) if !code_page.is_cut_undecoded() => Box::new(Utf8Reader::new(plain, encoding)),
            CodePage::Utf8 => by_mark(plain).map_err(|error| cannot_read(path, &error))?,
            _ => plain,
        };
        Ok(SourceFile { path: path.to_path_buf(), reader, watched })
    }

    /// Appends up to `count` bytes; fewer only at the end.
    ///
    /// # Errors
    /// 4862; the file has changed since it was opened.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>, count: usize) -> Result<usize, SqlError> {
        let read = self.reader.by_ref().take(count as u64).read_to_end(out);
        let read = read.map_err(|error| cannot_read(&self.path, &error))?;
        if read < count {
            self.check_unchanged()?;
        }
        Ok(read)
    }

    fn check_unchanged(&self) -> Result<(), SqlError> {
        let Some((file, then)) = &self.watched else { return Ok(()) };
        let now = file.metadata().map_err(|error| cannot_read(&self.path, &error))?;
        if now.len() != then.len() || now.modified().ok() != then.modified().ok() {
            return Err(errors::BULK_FILE_CHANGED.with([&self.path.display()]));
        }
        Ok(())
    }
}

/// Opens a path, and what watches it if it is a regular file.
fn opened(path: &Path) -> Result<(File, Option<(File, Metadata)>), SqlError> {
    let file = File::open(path).map_err(|error| cannot_open(path, &error))?;
    let metadata = file.metadata().map_err(|error| cannot_open(path, &error))?;
    if metadata.is_dir() {
        return Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &"it is a folder"]));
    }
    let watched = match metadata.is_file() {
        true => Some((file.try_clone().map_err(|error| cannot_open(path, &error))?, metadata)),
        false => None,
    };
    Ok((file, watched))
}

/// A file whose read bytes are counted.
struct Counted {
    file: File,
    progress: Arc<Progress>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let _reads = Wait::begin(WaitType::ImpProvIoWait);
        let read = self.file.read(out)?;
        self.progress.add(read as u64);
        Ok(read)
    }
}

/// A reader's first four bytes, and the rest.
fn peeked<R: Read>(mut reader: R) -> io::Result<(Vec<u8>, R)> {
    let mut first = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut first)?;
    Ok((first, reader))
}

/// A reader of UTF-8 without a byte order mark. A mark of UTF-16 says that the file is that.
fn by_mark(mut reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut first = Vec::with_capacity(3);
    reader.by_ref().take(3).read_to_end(&mut first)?;
    let encoding = match first[..] {
        [0xFF, 0xFE, ..] => Some(encoding_rs::UTF_16LE),
        [0xFE, 0xFF, ..] => Some(encoding_rs::UTF_16BE),
        _ => None,
    };
    if first == b"\xEF\xBB\xBF" {
        first.clear();
    }
    let whole = io::Cursor::new(first).chain(reader);
    Ok(match encoding {
        Some(encoding) => Box::new(Utf8Reader::new(whole, encoding)),
        None => Box::new(whole),
    })
}

/// Adds the sizes of the files that are to be read to the whole of a statement's work.
pub(crate) fn note_sizes(files: &[PathBuf], progress: &Progress) {
    let size = |path: &PathBuf| std::fs::metadata(path).ok().filter(Metadata::is_file).map(|found| found.len());
    // Without one of the sizes, the end is not known.
    progress.count_in(ProgressUnit::Bytes);
    progress.expect(files.iter().map(size).sum::<Option<u64>>().unwrap_or(0));
}
