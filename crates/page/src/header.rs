//! The header that every page starts with.
//!
//! ```text
//!  0 checksum u32 | 4 format u8 | 5 type u8 | 6 flags u16
//!  8 database_tag u32           | 12 file u16 | 14 column_count u16
//! 16 number u32                 | 20 layout_version u32
//! 24 hobt u64
//! 32 lsn u64
//! 40 newest_writer u64
//! 48 row_count u16 | 50 capacity u16 | 52 deleted_count u16 | 54 level u8 | 55 reserved u8
//! 56 next_number u32            | 60 next_file u16 | 62 reserved u16
//! ```
//! All numbers little-endian. The first change of a page after a later format's upgrade rewrites `format`.

use std::fmt;

use hobt_base::{FileId, HobtId, Lsn, PageId, Stamp};

use crate::{PageBytes, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// The format that this build writes and the only one that it reads.
pub const FORMAT_VERSION: u8 = 1;

/// Bytes of the header.
pub(crate) const HEADER_SIZE: usize = 64;
/// Offset of the flags.
pub(crate) const FLAGS_PLACE: usize = 6;
/// Offset of the log sequence number.
const LSN_PLACE: usize = 32;
/// The index of the 64-bit word of a page that is the newest writer.
pub const NEWEST_WRITER_WORD: usize = 5;
/// Offset of the level.
pub(crate) const LEVEL_PLACE: usize = 54;

/// What a page is for. The numbers are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PageType {
    /// Never formatted: all zero.
    Unformatted = 0,
    /// Rows of a heap or leaf rows of a B+tree, column-wise.
    Row = 1,
    /// Upper levels of a B+tree.
    Index = 2,
    /// Pieces of values that do not fit a row.
    LargeValue = 3,
    /// Which extents of an interval are allocated.
    AllocationMap = 8,
    /// The runs of pages of one HOBT.
    RunList = 10,
    /// A data file's first page and its copy.
    FileHeader = 15,
    /// The database's own description, in its first file.
    Boot = 13,
    /// Which extents of an interval were written since the last full backup.
    WrittenMap = 16,
}

impl PageType {
    /// The type with the number `byte`.
    pub const fn from_byte(byte: u8) -> Option<PageType> {
        Some(match byte {
            0 => PageType::Unformatted,
            1 => PageType::Row,
            2 => PageType::Index,
            3 => PageType::LargeValue,
            8 => PageType::AllocationMap,
            10 => PageType::RunList,
            13 => PageType::Boot,
            15 => PageType::FileHeader,
            16 => PageType::WrittenMap,
            _ => return None,
        })
    }

    /// The name that `DBCC PAGE` and `dm_os_buffer_descriptors` print.
    pub const fn name(self) -> &'static str {
        match self {
            PageType::Unformatted => "UNFORMATTED",
            PageType::Row => "DATA_PAGE",
            PageType::Index => "INDEX_PAGE",
            PageType::LargeValue => "TEXT_MIX_PAGE",
            PageType::AllocationMap => "GAM_PAGE",
            PageType::RunList => "IAM_PAGE",
            PageType::Boot => "BOOT_PAGE",
            PageType::FileHeader => "FILEHEADER_PAGE",
            PageType::WrittenMap => "DIFF_MAP_PAGE",
        }
    }
}

/// Bits of a page's `flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageFlags(pub u16);

impl PageFlags {
    /// Built by a bulk load: its first later change logs the whole page.
    pub const BULK: PageFlags = PageFlags(1);
    /// Some variable-length values are pointers to other pages (the high bit of their end offset is set).
    pub const HAS_POINTERS: PageFlags = PageFlags(2);
    /// A row page that stores its rows' order: a leaf of a B+tree.
    pub const ORDERED: PageFlags = PageFlags(4);

    /// An unused page of a B+tree, which was emptied and is not referenced.
    pub const FREE: PageFlags = PageFlags(8);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: PageFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: PageFlags) -> PageFlags {
        PageFlags(self.0 | other.0)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: PageFlags) -> PageFlags {
        PageFlags(self.0 & !other.0)
    }
}

/// A page's header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHeader {
    /// What the page is for.
    pub page_type: PageType,
    /// See [`PageFlags`].
    pub flags: PageFlags,
    /// Distinguishes this database's pages from another's.
    pub database_tag: u32,
    /// The page's own address.
    pub page: PageId,
    /// The heap or B-tree that owns the page; 0 for pages of the file.
    pub hobt: HobtId,
    /// The last log record that changed the page; 0 before a log exists.
    pub lsn: Lsn,
    /// The version of the table's column layout that the page was written with.
    pub layout_version: u32,
    /// The newest statement that wrote the page.
    pub newest_writer: Stamp,
    /// Columns of a row page.
    pub column_count: u16,
    /// Slots in use, deleted ones included; in a run list or a page above a B+tree's leaves, the number of entries.
    pub row_count: u16,
    /// Slots that fit the column areas.
    pub capacity: u16,
    /// Slots whose row is deleted.
    pub deleted_count: u16,
    /// Levels below a page of a B+tree: 0 for a leaf, and for every other page.
    pub level: u8,
    /// The next page of a chain; page number 0 of file 0 ends it.
    pub next: PageId,
}

impl PageHeader {
    /// A header with no rows, no flags and no chain.
    pub fn new(page_type: PageType, page: PageId, database_tag: u32, hobt: HobtId) -> PageHeader {
        PageHeader {
            page_type,
            flags: PageFlags::default(),
            database_tag,
            page,
            hobt,
            lsn: Lsn(0),
            layout_version: 0,
            newest_writer: Stamp(0),
            column_count: 0,
            row_count: 0,
            capacity: 0,
            deleted_count: 0,
            level: 0,
            next: PageId::default(),
        }
    }

    /// Decodes the header of a page that [`crate::verify`] accepted.
    ///
    /// # Errors
    /// The format is not this build's, or the type is unknown: another version wrote the page.
    #[inline]
    pub fn read(page: &PageBytes) -> Result<PageHeader, PageDamage> {
        if page[4] != FORMAT_VERSION {
            return Err(PageDamage::Format { found: page[4] });
        }
        let page_type = PageType::from_byte(page[5]).ok_or(PageDamage::Type { found: page[5] })?;
        Ok(PageHeader {
            page_type,
            flags: PageFlags(u16_at(page, FLAGS_PLACE)),
            database_tag: u32_at(page, 8),
            page: PageId::new(FileId(u16_at(page, 12)), u32_at(page, 16)),
            hobt: HobtId(u64_at(page, 24)),
            lsn: PageHeader::lsn_of(page),
            layout_version: u32_at(page, 20),
            newest_writer: Stamp(u64_at(page, 40)),
            column_count: u16_at(page, 14),
            row_count: u16_at(page, 48),
            capacity: u16_at(page, 50),
            deleted_count: u16_at(page, 52),
            level: page[LEVEL_PLACE],
            next: PageId::new(FileId(u16_at(page, 60)), u32_at(page, 56)),
        })
    }

    /// Checks what reading ignores: flags and bytes that no page may have.
    ///
    /// # Errors
    /// An unknown flag, or reserved bytes that are not 0.
    pub fn check(&self, page: &PageBytes) -> Result<(), PageDamage> {
        let known = PageFlags::BULK.with(PageFlags::HAS_POINTERS).with(PageFlags::ORDERED).with(PageFlags::FREE);
        let of_rows = PageFlags::HAS_POINTERS.with(PageFlags::ORDERED).with(PageFlags::FREE);
        let is_of_rows = self.page_type == PageType::Row;
        if self.flags.without(known).0 != 0 || (!is_of_rows && self.flags.0 & of_rows.0 != 0) {
            return Err(PageDamage::Structure { rule: "the flags of a page" });
        }
        if (self.page_type == PageType::Index) != (self.level > 0) {
            return Err(PageDamage::Structure { rule: "the level of a page" });
        }
        if !is_of_rows && (self.column_count, self.capacity, self.deleted_count) != (0, 0, 0) {
            return Err(PageDamage::Structure { rule: "the columns and slots of a page without rows" });
        }
        if page[LEVEL_PLACE + 1] != 0 || u16_at(page, 62) != 0 {
            return Err(PageDamage::Structure { rule: "the bytes of a header that are kept for later" });
        }
        Ok(())
    }

    /// The position of the last log record that changed a page. Does not check the header.
    pub fn lsn_of(page: &PageBytes) -> Lsn {
        Lsn(u64_at(page, LSN_PLACE))
    }

    /// The newest writer of a page. Does not check the header.
    pub fn newest_writer_of(page: &PageBytes) -> Stamp {
        Stamp(u64_at(page, NEWEST_WRITER_WORD * 8))
    }

    /// Whether a page is still as a bulk load built it, so that the log does not contain it.
    pub fn is_bulk(page: &PageBytes) -> bool {
        PageFlags(u16_at(page, FLAGS_PLACE)).contains(PageFlags::BULK)
    }

    /// Clears the bulk flag: from now on the log has the page.
    pub fn clear_bulk(page: &mut PageBytes) {
        let flags = PageFlags(u16_at(page, FLAGS_PLACE)).without(PageFlags::BULK);
        put_u16(page, FLAGS_PLACE, flags.0);
    }

    /// Stores the position of the log record that has just changed a page.
    pub fn stamp_lsn(page: &mut PageBytes, lsn: Lsn) {
        put_u64(page, LSN_PLACE, lsn.0);
    }

    /// Writes the header without the checksum, which [`crate::seal`] writes.
    pub fn write(&self, page: &mut PageBytes) {
        page[4] = FORMAT_VERSION;
        page[5] = self.page_type as u8;
        put_u16(page, FLAGS_PLACE, self.flags.0);
        put_u32(page, 8, self.database_tag);
        put_u16(page, 12, self.page.file.0);
        put_u16(page, 14, self.column_count);
        put_u32(page, 16, self.page.number);
        put_u32(page, 20, self.layout_version);
        put_u64(page, 24, self.hobt.0);
        PageHeader::stamp_lsn(page, self.lsn);
        put_u64(page, 40, self.newest_writer.0);
        put_u16(page, 48, self.row_count);
        put_u16(page, 50, self.capacity);
        put_u16(page, 52, self.deleted_count);
        page[LEVEL_PLACE] = self.level;
        page[LEVEL_PLACE + 1] = 0;
        put_u32(page, 56, self.next.number);
        put_u16(page, 60, self.next.file.0);
        put_u16(page, 62, 0);
    }
}

/// Why the bytes of a page cannot be what was written there. None of these can result from a crash while a database is
/// marked open: they are damage. The page is refused and never repaired silently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageDamage {
    /// The checksum in the header does not match the bytes.
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes.
        actual: u32,
    },
    /// The page is sound but belongs elsewhere: a write or a read went to the wrong place.
    Address {
        /// The address in the header.
        found: PageId,
    },
    /// The page belongs to another database.
    Database {
        /// The tag in the header.
        found: u32,
    },
    /// Another version of hobt wrote the page.
    Format {
        /// The version in the header.
        found: u8,
    },
    /// No page type has this number.
    Type {
        /// The number in the header.
        found: u8,
    },
    /// The header's counts contradict the layout of its table.
    Structure {
        /// Which rule is broken.
        rule: &'static str,
    },
}

impl fmt::Display for PageDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageDamage::Checksum { expected, actual } => {
                write!(f, "incorrect checksum (expected: 0x{expected:08x}; actual: 0x{actual:08x})")
            }
            PageDamage::Address { found } => write!(f, "incorrect pageid (actual: {found})"),
            PageDamage::Database { found } => write!(f, "the page belongs to another database (tag 0x{found:08x})"),
            PageDamage::Format { found } => write!(f, "page format {found} is not one that this version reads"),
            PageDamage::Type { found } => write!(f, "page type {found} does not exist"),
            PageDamage::Structure { rule } => write!(f, "inconsistent page: {rule}"),
        }
    }
}

impl std::error::Error for PageDamage {}
