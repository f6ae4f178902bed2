//! Where versions go for which there is no memory.

use std::fmt;
use std::sync::Arc;

use hobt_page::EncodingDamage;

/// The disk space for versions, a part of `tempdb`.
pub trait VersionSpace: Send + Sync + fmt::Debug {
    /// Creates an empty file, which is removed when it is dropped. Blocks.
    ///
    /// # Errors
    /// The file cannot be created.
    fn create_file(self: Arc<Self>) -> Result<Box<dyn VersionFile>, SpaceError>;
}

/// A file of versions. It is read only by the process that wrote it.
pub trait VersionFile: Send + Sync + fmt::Debug {
    /// Appends to the file. Blocks.
    ///
    /// # Errors
    /// The disk is full, or fails. Nothing more is appended then.
    fn append(&self, bytes: &[u8]) -> Result<(), SpaceError>;

    /// Fills `buffer` from `offset` on. Blocks.
    ///
    /// # Errors
    /// The file ends before, or cannot be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), SpaceError>;
}

/// Why versions could not be written to disk, or read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceError {
    /// What the disk said.
    pub message: String,
    /// There is no room: other versions have to go first.
    pub is_full: bool,
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SpaceError {}

/// Why the earlier state of a row is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VersionError {
    /// The versions that this snapshot needs were given up, because the disk has no room for them. Its transaction has
    /// to end.
    GivenUp,
    /// They cannot be read.
    Unreadable(String),
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionError::GivenUp => f.write_str("the row versions that a reader needs were given up"),
            VersionError::Unreadable(why) => write!(f, "row versions cannot be read: {why}"),
        }
    }
}

impl std::error::Error for VersionError {}

impl From<EncodingDamage> for VersionError {
    fn from(damage: EncodingDamage) -> VersionError {
        VersionError::Unreadable(damage.rule.to_owned())
    }
}

impl From<SpaceError> for VersionError {
    fn from(error: SpaceError) -> VersionError {
        VersionError::Unreadable(error.message)
    }
}
