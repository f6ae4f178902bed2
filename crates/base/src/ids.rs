//! Ids as newtypes. Each wraps the integer used in pages and views. None converts into another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A database of an instance: 1 `master`, 2 `tempdb`, users' databases from 5 as in SQL Server.
    DatabaseId,
    u16
);
id!(
    /// A data file of a database, from 1.
    FileId,
    u16
);
id!(
    /// A filegroup (data space) of a database; 1 is `PRIMARY`.
    FilegroupId,
    u16
);
id!(
    /// A heap or B-tree: one partition of one index of one table.
    HobtId,
    u64
);
id!(
    /// A schema object. System objects have ids below 100.
    ObjectId,
    i32
);
id!(
    /// An index of a table: 0 the heap, 1 the clustered index, nonclustered from 2.
    IndexId,
    i32
);
id!(
    /// A partition of an index, from 1.
    PartitionNumber,
    u32
);
id!(
    /// A row's slot in its page, from 0.
    SlotId,
    u16
);
id!(
    /// A log sequence number; 0 before a log exists.
    Lsn,
    u64
);
id!(
    /// The instance-wide order of writing statements; a later statement has a larger stamp. 0 is before all.
    Stamp,
    u64
);
id!(
    /// A session (`@@SPID`). Users' sessions start at 51.
    SessionId,
    i32
);

/// A page's address: its file and its number in that file, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PageId {
    /// The file that holds the page.
    pub file: FileId,
    /// The page's number in the file: its byte offset is `number * PAGE_SIZE`.
    pub number: u32,
}

impl PageId {
    /// The page `number` of `file`.
    pub const fn new(file: FileId, number: u32) -> PageId {
        PageId { file, number }
    }

    /// The page's first byte in its file.
    pub const fn byte_offset(self) -> u64 {
        self.number as u64 * crate::PAGE_SIZE as u64
    }
}

/// `(1:42)`, SQL Server's way to write a page.
impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", self.file, self.number)
    }
}
