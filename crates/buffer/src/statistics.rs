//! What the views show of the pool.

use hobt_base::{DatabaseId, FileId, HobtId, PageId};
use hobt_page::PageType;

use crate::frames::Optimistic;
use crate::pool::BufferPool;

/// The pool at one moment; counts since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolStatistics {
    /// Frames.
    pub frames: u64,
    /// Frames that hold no page.
    pub free: u64,
    /// Pages whose disk copy is older.
    pub dirty: u64,
    /// Memory of the state words, in bytes.
    pub state_word_bytes: u64,
    /// Guards given out for resident pages.
    pub page_hits: u64,
    /// Pages read because a guard was asked for.
    pub page_misses: u64,
    /// Pages read by loads and as read-ahead of another page.
    pub pages_loaded: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Pages that were evicted.
    pub pages_evicted: u64,
    /// By file.
    pub files: Vec<PoolFileStatistics>,
}

/// One file's part of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolFileStatistics {
    /// Its database.
    pub database: DatabaseId,
    /// Its number there.
    pub file: FileId,
    /// Pages in frames.
    pub resident: u64,
    /// Pages among them whose disk copy is older.
    pub dirty: u64,
}

/// A page in a frame, for `sys.dm_os_buffer_descriptors`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageDescriptor {
    /// Its database.
    pub database: DatabaseId,
    /// The page.
    pub page: PageId,
    /// Whether its disk copy is older.
    pub dirty: bool,
    /// What its header says it is; `None` while it is being changed, or when the header says nothing known.
    pub page_type: Option<PageType>,
    /// The rows that its header counts; 0 while it is being changed.
    pub row_count: u16,
    /// The heap or tree that its header names; `None` if it names none, and while the page is being changed.
    pub hobt: Option<HobtId>,
    /// Its level above the leaves, by its header; 0 while it is being changed.
    pub level: u8,
}

impl BufferPool {
    /// The state of the pool. Does not block. Its parts may be of slightly different moments.
    pub fn statistics(&self) -> PoolStatistics {
        let registered = self.registered_files();
        let files = registered.iter().map(|file| PoolFileStatistics {
            database: file.database,
            file: file.file(),
            resident: file.words.resident(),
            dirty: file.words.dirty(),
        });
        let files: Vec<PoolFileStatistics> = files.collect();
        PoolStatistics {
            frames: u64::from(self.memory.frames()),
            free: self.free_frames(),
            dirty: files.iter().map(|file| file.dirty).sum(),
            state_word_bytes: registered.iter().map(|file| file.words.bytes()).sum(),
            page_hits: self.counters.hits.sum(),
            page_misses: self.counters.misses.sum(),
            pages_loaded: self.counters.loaded.sum(),
            pages_written: self.counters.written.sum(),
            pages_evicted: self.counters.evicted.sum(),
            files,
        }
    }

    /// The pages in frames, in the order of the frames. Does not block other threads and takes no latch. A page that
    /// moves meanwhile may be left out.
    pub fn descriptors(&self) -> impl Iterator<Item = PageDescriptor> + '_ {
        (1..=self.memory.frames()).filter_map(|frame| self.descriptor(frame))
    }

    fn descriptor(&self, frame: u32) -> Option<PageDescriptor> {
        let mut found = None;
        self.visit_owners(std::iter::once(frame), |frame, file, cell| {
            let word = cell.load();
            if word.frame() != frame {
                return;
            }
            let mut header = [0; HEADER_WORDS];
            let header = match cell.copy_words(0, &mut header) {
                Optimistic::Ok => DescriptorHeader::of(&header),
                Optimistic::NotResident | Optimistic::Busy => DescriptorHeader::default(),
            };
            let DescriptorHeader { page_type, row_count, hobt, level } = header;
            let page = PageId::new(file.file(), cell.number());
            let (database, dirty) = (file.database, word.is_dirty());
            found = Some(PageDescriptor { database, page, dirty, page_type, row_count, hobt, level });
        });
        found
    }
}

/// The words of a page's header that a descriptor needs.
const HEADER_WORDS: usize = 7;

/// What a descriptor takes from a page's header.
#[derive(Default)]
struct DescriptorHeader {
    page_type: Option<PageType>,
    row_count: u16,
    hobt: Option<HobtId>,
    level: u8,
}

impl DescriptorHeader {
    /// Reads a header as it lies in memory; pages are little-endian.
    fn of(words: &[u64; HEADER_WORDS]) -> DescriptorHeader {
        let bytes = |word: usize| words[word].to_ne_bytes();
        let hobt = HobtId(u64::from_le_bytes(bytes(3)));
        DescriptorHeader {
            page_type: PageType::from_byte(bytes(0)[5]),
            row_count: u16::from_le_bytes([bytes(6)[0], bytes(6)[1]]),
            hobt: (hobt != HobtId(0)).then_some(hobt),
            level: bytes(6)[6],
        }
    }
}
