//! Errors of disks and files, by what the caller does next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, DiskError>;

/// The operation during which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Starting the I/O backend.
    Start,
    /// Opening or creating a file.
    Open,
    /// Asking for a file's or a device's properties.
    Stat,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Sync,
    /// Growing or shrinking a file.
    SetSize,
    /// Locking a file against other processes.
    Lock,
    /// Creating, listing or syncing a folder.
    Directory,
    /// Removing a file.
    Remove,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::Start => "start",
            Operation::Open => "open",
            Operation::Stat => "stat",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::SetSize => "resize",
            Operation::Lock => "lock",
            Operation::Directory => "folder operation",
            Operation::Remove => "remove",
        })
    }
}

/// An error of a disk or a file.
#[derive(Debug)]
pub enum DiskError {
    /// There is no such file or folder.
    NotFound {
        /// The path that was given.
        path: PathBuf,
    },
    /// A file that had to be new exists already.
    AlreadyExists {
        /// The path that was given.
        path: PathBuf,
    },
    /// The device or the user's quota is full, or the file has its maximal size. The file's earlier contents are
    /// intact.
    NoSpace {
        /// The operation that needed space.
        operation: Operation,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process (or another handle of this one) has locked the file.
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A read reached beyond the end of the file, which is shorter than the caller assumes.
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// First byte of the transfer.
        offset: u64,
        /// Bytes asked for.
        length: u64,
        /// Bytes that were transferred.
        transferred: u64,
    },
    /// An earlier write or sync of this file failed, so its contents on disk are unknown. Open it again and recover.
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The text of that failure.
        cause: String,
    },
    /// Memory for a buffer was refused.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Any other error that the system reports.
    Io {
        /// The operation.
        operation: Operation,
        /// Its file or folder.
        path: PathBuf,
        /// The position in the file, for transfers.
        offset: Option<u64>,
        /// The system's error.
        source: io::Error,
    },
}

impl DiskError {
    /// Converts an error of the system into its kind.
    pub(crate) fn new(operation: Operation, path: &Path, offset: Option<u64>, source: io::Error) -> DiskError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => DiskError::NotFound { path },
            io::ErrorKind::AlreadyExists => DiskError::AlreadyExists { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                DiskError::NoSpace { operation, path, source }
            }
            _ => DiskError::Io { operation, path, offset, source },
        }
    }

    /// The file or folder that the error is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            DiskError::NotFound { path }
            | DiskError::AlreadyExists { path }
            | DiskError::NoSpace { path, .. }
            | DiskError::Locked { path }
            | DiskError::OutOfRange { path, .. }
            | DiskError::Poisoned { path, .. }
            | DiskError::Io { path, .. } => Some(path),
            DiskError::OutOfMemory { .. } => None,
        }
    }

    /// The operating system's error number, if it gave one.
    pub fn os_error(&self) -> Option<i32> {
        self.source_error()?.raw_os_error()
    }

    /// The operating system's error number and text, as in SQL Server's messages: "24(Too many open files)".
    pub fn os_error_text(&self) -> Option<String> {
        self.source_error().and_then(|source| Some(format!("{}({})", source.raw_os_error()?, words_of(source))))
    }

    /// What to do about the operating system's error, as a clause without a full stop. `None` if its text says enough,
    /// or if there is no known remedy.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self.os_error()? {
            libc::EMFILE => "raise the process's limit of open files (ulimit -n)",
            libc::ENFILE => "raise the system's limit of open files (fs.file-max)",
            libc::EACCES | libc::EPERM => "let the account of this process read and write there",
            libc::EROFS => "let the file system be written to",
            libc::ENOSPC => "make room on the disk, or ask for less",
            libc::EDQUOT => "raise the account's quota, or ask for less",
            libc::EFBIG => {
                "the file system, or a limit of the process (ulimit -f), allows no file of this size: ask for less"
            }
            libc::EISDIR | libc::ENOTDIR => "something else of that name is in the way: move it",
            _ => return None,
        })
    }

    fn source_error(&self) -> Option<&io::Error> {
        match self {
            DiskError::NoSpace { source, .. } | DiskError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NotFound { path } => write!(f, "\"{}\" does not exist", path.display()),
            DiskError::AlreadyExists { path } => write!(f, "\"{}\" exists already", path.display()),
            DiskError::NoSpace { operation, path, source } => {
                let what = match source.kind() {
                    io::ErrorKind::FileTooLarge => "the file would be too large",
                    _ => "the disk is full",
                };
                write!(f, "{operation} of \"{}\" failed, {what}: ", path.display())?;
                self.write_source(f, source)
            }
            DiskError::Locked { path } => write!(f, "\"{}\" is in use by another process", path.display()),
            DiskError::OutOfRange { path, offset, length, transferred } => write!(
                f,
                "read of {length} bytes at offset {offset} of \"{}\" reached the end of the file after {transferred}",
                path.display()
            ),
            DiskError::Poisoned { path, cause } => write!(
                f,
                "\"{}\" takes no more writes until it is opened anew, because one failed before: {cause}",
                path.display()
            ),
            DiskError::OutOfMemory { bytes } => write!(f, "no memory for a buffer of {bytes} bytes"),
            DiskError::Io { operation, path, offset, source } => {
                write!(f, "{operation} of \"{}\"", path.display())?;
                if let Some(offset) = offset {
                    write!(f, " at offset {offset}")?;
                }
                f.write_str(" failed: ")?;
                self.write_source(f, source)
            }
        }
    }
}

impl DiskError {
    /// Writes "operating system error 5: Input/output error", the form of SQL Server's messages, and the advice.
    fn write_source(&self, f: &mut fmt::Formatter<'_>, source: &io::Error) -> fmt::Result {
        let Some(number) = source.raw_os_error() else { return write!(f, "{source}") };
        write!(f, "operating system error {number}: {}", words_of(source))?;
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

/// The system's text without the number, which the standard library appends.
fn words_of(source: &io::Error) -> String {
    let text = source.to_string();
    let number = source.raw_os_error().map(|number| format!(" (os error {number})")).unwrap_or_default();
    text.strip_suffix(&number).unwrap_or(&text).to_owned()
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source_error().map(|source| source as _)
    }
}

/// The reason why a file accepts no more writes; empty while it does.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// Stores the first failure.
    pub(crate) fn set(&self, error: &DiskError) {
        self.0.get_or_init(|| error.to_string());
    }

    /// Whether the file at `path` may be written.
    ///
    /// # Errors
    /// `Poisoned`.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        match self.0.get() {
            Some(cause) => Err(DiskError::Poisoned { path: path.to_path_buf(), cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskError, Operation};
    use std::io;
    use std::path::Path;

    #[test]
    fn a_message_names_file_offset_number_and_text() {
        let path = Path::new("/data/a.mdf");
        let error = DiskError::new(Operation::Read, path, Some(8192), io::Error::from_raw_os_error(libc::EIO));
        let text = error.to_string();
        assert_eq!(
            text,
            format!(
                "read of \"/data/a.mdf\" at offset 8192 failed: operating system error {}: Input/output error",
                libc::EIO
            )
        );
        assert_eq!(error.os_error(), Some(libc::EIO));
    }

    #[test]
    fn what_the_user_can_mend_is_said() {
        let path = Path::new("/data/a.mdf");
        for (number, said) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::EACCES, "account"),
            (libc::ENOSPC, "the disk is full"),
            (libc::EFBIG, "the file would be too large"),
            (libc::EISDIR, "in the way"),
        ] {
            let error = DiskError::new(Operation::Open, path, None, io::Error::from_raw_os_error(number));
            let text = error.to_string();
            assert!(text.contains(said) && text.contains("/data/a.mdf"), "{text}");
            assert!(text.ends_with(error.advice().expect("there is something to do")), "{text}");
            let system = error.os_error_text().expect("the system's error");
            assert!(system.starts_with(&format!("{number}(")) && !system.contains("os error"), "{system}");
        }
    }

    #[test]
    fn a_full_disk_is_a_kind_of_its_own() {
        for number in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            let source = io::Error::from_raw_os_error(number);
            let error = DiskError::new(Operation::SetSize, Path::new("x"), None, source);
            assert!(matches!(error, DiskError::NoSpace { operation: Operation::SetSize, .. }), "{error}");
        }
    }
}
