//! A data file's first page and its copy, and the boot page of a database.
//!
//! ```text
//! file header body: 64 magic "HOBTFILE" | 72 database guid 16 | 88 file u16 | 90 filegroup u16 | 92 size pages u32
//!  96 growth pages u32 | 100 growth percent u32 | 104 max pages u32 (0: no limit) | 108 clean u8 | 112 name length u16
//!   114 name UTF-8 | 504 generation u64 | 512 log's end u64
//! boot body: 64 magic "HOBTBOOT" | 72 db guid 16 | 88 next object i32 | 92 next data space u32 | 96 next hobt u64
//!   104 max stamp u64 | 112 created (100 ns since 1970) i64 | 120 hobt count u16 | 122 name length u16 | 124 name
//!   508 options u32 | then hobts: id u64, first run-list page: number u32, file u16, pad u16
//! ```

use hobt_base::{FileId, FilegroupId, HobtId, Lsn, ObjectId, PAGE_SIZE, PageId, Stamp};

use crate::{PageBytes, PageDamage, PageHeader, PageType, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// The header's page.
pub const FILE_HEADER_PAGE: u32 = 0;
/// The header's second copy.
pub const FILE_HEADER_COPY_PAGE: u32 = 1;
/// The boot page, in file 1.
pub const BOOT_PAGE: u32 = 5;
/// The boot page's second copy.
pub const BOOT_COPY_PAGE: u32 = 6;

const FILE_MAGIC: &[u8; 8] = b"HOBTFILE";
const BOOT_MAGIC: &[u8; 8] = b"HOBTBOOT";
const BOOT_HOBTS: usize = 512;
/// The longest name that fits, in bytes: 128 characters of at most three bytes.
const NAME_BYTES_MAX: usize = 384;

/// Offset of a file header's generation, after the longest name.
const GENERATION: usize = 504;
/// Offset of the log's end.
const LOG_END: usize = 512;

/// Offset of a database's options, after the longest name.
const BOOT_OPTIONS: usize = 508;

const _: () = assert!(
    124 + NAME_BYTES_MAX <= BOOT_OPTIONS && BOOT_OPTIONS + 4 <= BOOT_HOBTS && 114 + NAME_BYTES_MAX <= GENERATION
);

/// The description of a data file, in its own header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// The database that the file belongs to. Never changes.
    pub database_guid: [u8; 16],
    /// The file's id.
    pub file: FileId,
    /// The filegroup that it is in.
    pub filegroup: FilegroupId,
    /// The file's size in pages.
    pub size_pages: u32,
    /// Growth in pages. If it is 0, `growth_percent` applies. If both are 0, the file does not grow.
    pub growth_pages: u32,
    /// Growth in percent of the size.
    pub growth_percent: u32,
    /// The largest size in pages; 0 for no limit.
    pub max_pages: u32,
    /// The database was closed with a checkpoint, and the file is whole.
    pub clean: bool,
    /// How often the database changed from clean to modified. Equal in all of its files, so that a file from another
    /// time is noticed.
    pub generation: u64,
    /// Where the log ended when the file was marked clean: the file has no change of a later record. If the log of a
    /// clean database ends elsewhere, the log and the files are not of the same time.
    pub log_end: Lsn,
    /// The logical name.
    pub name: String,
}

/// A system table's heap, which can be found without the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SystemHobt {
    /// The heap.
    pub hobt: HobtId,
    /// The first page of its run list.
    pub run_list: PageId,
}

/// The description of a database, in its boot page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BootPage {
    /// The database's guid. Never changes.
    pub database_guid: [u8; 16],
    /// The id that the next object gets.
    pub next_object: ObjectId,
    /// The id that the next data space or partition function gets.
    pub next_data_space: u32,
    /// The id that the next HOBT gets.
    pub next_hobt: HobtId,
    /// The latest stamp: no page of the database has a later one.
    pub max_stamp: Stamp,
    /// When the database was created, in units of 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// The database's name.
    pub name: String,
    /// The options set by `ALTER DATABASE … SET`, as the engine encodes them; 0 for none.
    pub options: u32,
    /// The system tables' heaps, in the catalog's order.
    pub hobts: Vec<SystemHobt>,
}

fn read_name(page: &PageBytes, at: usize) -> Result<String, PageDamage> {
    let length = usize::from(u16_at(page, at));
    let damage = PageDamage::Structure { rule: "name in a header page" };
    if length > NAME_BYTES_MAX {
        return Err(damage);
    }
    std::str::from_utf8(&page[at + 2..at + 2 + length]).map(str::to_owned).map_err(|_| damage)
}

fn write_name(page: &mut PageBytes, at: usize, name: &str) {
    assert!(name.len() <= NAME_BYTES_MAX, "names are limited to 128 characters before they come here");
    put_u16(page, at, u16::try_from(name.len()).expect("at most 384"));
    page[at + 2..at + 2 + name.len()].copy_from_slice(name.as_bytes());
}

fn open(page: &PageBytes, expected: PageType, magic: &[u8; 8]) -> Result<(), PageDamage> {
    let header = PageHeader::read(page)?;
    if header.page_type != expected {
        return Err(PageDamage::Type { found: header.page_type as u8 });
    }
    if &page[64..72] != magic {
        return Err(PageDamage::Structure { rule: "magic of a header page" });
    }
    Ok(())
}

/// The tag in every page header of a database: the first four bytes of its guid, never 0.
pub(crate) fn tag_of(guid: &[u8; 16]) -> u32 {
    u32::from_le_bytes([guid[0], guid[1], guid[2], guid[3]]).max(1)
}

impl FileHeader {
    /// The tag in the headers of the database's pages.
    pub fn database_tag(&self) -> u32 {
        tag_of(&self.database_guid)
    }

    /// Decodes a file's first page or its copy. The caller must check the checksum: with [`hobt_base::crc32c`] through
    /// [`crate::verify`], once the tag is known from here.
    ///
    /// # Errors
    /// The page is not a file header of this format.
    pub fn read(page: &PageBytes) -> Result<FileHeader, PageDamage> {
        open(page, PageType::FileHeader, FILE_MAGIC)?;
        Ok(FileHeader {
            database_guid: page[72..88].try_into().expect("sixteen bytes"),
            file: FileId(u16_at(page, 88)),
            filegroup: FilegroupId(u16_at(page, 90)),
            size_pages: u32_at(page, 92),
            growth_pages: u32_at(page, 96),
            growth_percent: u32_at(page, 100),
            max_pages: u32_at(page, 104),
            clean: page[108] == 1,
            generation: u64_at(page, GENERATION),
            log_end: Lsn(u64_at(page, LOG_END)),
            name: read_name(page, 112)?,
        })
    }

    /// The sealed page; `number` is 0 or 1.
    pub fn to_page(&self, number: u32) -> Box<PageBytes> {
        let mut page = Box::new([0u8; PAGE_SIZE]);
        let id = PageId::new(self.file, number);
        PageHeader::new(PageType::FileHeader, id, self.database_tag(), HobtId(0)).write(&mut page);
        page[64..72].copy_from_slice(FILE_MAGIC);
        page[72..88].copy_from_slice(&self.database_guid);
        put_u16(&mut page, 88, self.file.0);
        put_u16(&mut page, 90, self.filegroup.0);
        put_u32(&mut page, 92, self.size_pages);
        put_u32(&mut page, 96, self.growth_pages);
        put_u32(&mut page, 100, self.growth_percent);
        put_u32(&mut page, 104, self.max_pages);
        page[108] = u8::from(self.clean);
        put_u64(&mut page, GENERATION, self.generation);
        put_u64(&mut page, LOG_END, self.log_end.0);
        write_name(&mut page, 112, &self.name);
        crate::seal(&mut page);
        page
    }
}

impl BootPage {
    /// The tag in the headers of the database's pages.
    pub fn database_tag(&self) -> u32 {
        tag_of(&self.database_guid)
    }

    /// Decodes the boot page.
    ///
    /// # Errors
    /// The page is not a boot page of this format.
    pub fn read(page: &PageBytes) -> Result<BootPage, PageDamage> {
        open(page, PageType::Boot, BOOT_MAGIC)?;
        let count = usize::from(u16_at(page, 120));
        if BOOT_HOBTS + count * 16 > PAGE_SIZE {
            return Err(PageDamage::Structure { rule: "system heaps of a boot page" });
        }
        let hobts = (0..count)
            .map(|index| {
                let at = BOOT_HOBTS + index * 16;
                SystemHobt {
                    hobt: HobtId(u64_at(page, at)),
                    run_list: PageId::new(FileId(u16_at(page, at + 12)), u32_at(page, at + 8)),
                }
            })
            .collect();
        Ok(BootPage {
            database_guid: page[72..88].try_into().expect("sixteen bytes"),
            next_object: ObjectId(u32_at(page, 88).cast_signed()),
            next_data_space: u32_at(page, 92),
            next_hobt: HobtId(u64_at(page, 96)),
            max_stamp: Stamp(u64_at(page, 104)),
            created: u64_at(page, 112).cast_signed(),
            name: read_name(page, 122)?,
            options: u32_at(page, BOOT_OPTIONS),
            hobts,
        })
    }

    /// The sealed page. `number` is that of one of its two copies.
    pub fn to_page(&self, number: u32) -> Box<PageBytes> {
        let mut page = Box::new([0u8; PAGE_SIZE]);
        let id = PageId::new(FileId(1), number);
        PageHeader::new(PageType::Boot, id, self.database_tag(), HobtId(0)).write(&mut page);
        page[64..72].copy_from_slice(BOOT_MAGIC);
        page[72..88].copy_from_slice(&self.database_guid);
        put_u32(&mut page, 88, self.next_object.0.cast_unsigned());
        put_u32(&mut page, 92, self.next_data_space);
        put_u64(&mut page, 96, self.next_hobt.0);
        put_u64(&mut page, 104, self.max_stamp.0);
        put_u64(&mut page, 112, self.created.cast_unsigned());
        put_u16(&mut page, 120, u16::try_from(self.hobts.len()).expect("few system tables"));
        write_name(&mut page, 122, &self.name);
        put_u32(&mut page, BOOT_OPTIONS, self.options);
        for (index, hobt) in self.hobts.iter().enumerate() {
            let at = BOOT_HOBTS + index * 16;
            put_u64(&mut page, at, hobt.hobt.0);
            put_u32(&mut page, at + 8, hobt.run_list.number);
            put_u16(&mut page, at + 12, hobt.run_list.file.0);
        }
        crate::seal(&mut page);
        page
    }
}
