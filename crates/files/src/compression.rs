//! How a file is compressed.

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Compression {
    /// It is not.
    #[default]
    None,
    /// gzip, of one or several members.
    Gzip,
    /// zstd, of one or several frames.
    Zstd,
}

impl Compression {
    /// The compression that a file's first bytes show.
    pub(crate) fn of(first: &[u8]) -> Compression {
        match first {
            [0x1F, 0x8B, ..] => Compression::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}
