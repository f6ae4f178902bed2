//! Pages above a B+tree's leaves: separators, and the children that they divide.
//!
//! ```text
//! header 64, level ≥ 1, row_count = entries | leftmost child: number u32, file u16 | entry bytes u16
//! a slot for each entry, in key order: offset u16, key length u16 | … free …
//! … | entries, from the page's end down, without gaps: child number u32, child file u16, key
//! ```
//! A child holds the keys from its separator up to the next one; the leftmost child holds those before the first
//! separator. Children are counted from 0, the leftmost, so that the child of entry `i` is child `i + 1`. Keys are
//! normalised: their order is that of their bytes. This crate treats them as bytes; other crates make them.
//!
//! [`IndexPage::open`] is cheap, because each descent opens one page a level: it checks the counts, and each entry is
//! checked when it is read. So a page that was copied while it changed is also read within its bounds. The result is
//! nonsense or damage, until the reader finds that it must copy the page again. [`check_index_page`] checks a whole
//! page.
//!
//! [`IndexPage::split`] says where to split a page. The right page is a copy that keeps the entries after the one that
//! moves up ([`crate::PageChange::KeepEntries`], which makes that entry's child the leftmost). The left page keeps the
//! entries before it.

use std::cmp::Ordering;

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, compare_bytes};

use crate::header::HEADER_SIZE;
use crate::{PageBytes, PageDamage, PageHeader, PageType, put_u16, put_u32, u16_at, u32_at, u64_at};

const LEFTMOST: usize = HEADER_SIZE;
const ENTRY_BYTES: usize = HEADER_SIZE + 6;
const SLOTS: usize = HEADER_SIZE + 8;
/// Bytes of a slot.
const SLOT: usize = 4;
/// Bytes of an entry before its key.
const CHILD: usize = 6;

/// The longest key. Four entries fit every page.
pub const INDEX_KEY_BYTES_MAX: usize = (PAGE_SIZE - SLOTS) / 4 - SLOT - CHILD;

const _: () = assert!(INDEX_KEY_BYTES_MAX >= 1700, "keys as long as SQL Server's nonclustered indexes have them");

/// A page above the leaves, opened for reading.
#[derive(Clone, Copy, Debug)]
pub struct IndexPage<'a> {
    bytes: &'a PageBytes,
    level: u8,
    count: usize,
    entry_bytes: usize,
}

/// Where a page is split: see [`IndexPage::split`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSplit {
    /// Entries that stay in the left page. The next one moves up, and its child is the right page's leftmost.
    pub kept: usize,
    /// The key that moves up, with the right page as its child.
    pub separator: Vec<u8>,
}

impl IndexSplit {
    /// For an entry that belongs at `position` of the page: whether it belongs in the right page afterwards, and at
    /// which position of its page.
    pub fn place(&self, position: usize) -> (bool, usize) {
        if position <= self.kept { (false, position) } else { (true, position - self.kept - 1) }
    }
}

const BOUNDS: PageDamage = PageDamage::Structure { rule: "the entries of an index page" };

impl<'a> IndexPage<'a> {
    /// Opens a page that passed [`crate::verify`], or a copy.
    ///
    /// # Errors
    /// It is not a page above the leaves, or its counts exceed it.
    pub fn open(bytes: &'a PageBytes) -> Result<IndexPage<'a>, PageDamage> {
        if bytes[5] != PageType::Index as u8 {
            return Err(PageDamage::Type { found: bytes[5] });
        }
        let level = bytes[crate::header::LEVEL_PLACE];
        if level == 0 {
            return Err(PageDamage::Structure { rule: "the level of an index page" });
        }
        let (count, entry_bytes) = (usize::from(u16_at(bytes, 48)), usize::from(u16_at(bytes, ENTRY_BYTES)));
        if SLOTS + SLOT * count + entry_bytes > PAGE_SIZE {
            return Err(BOUNDS);
        }
        Ok(IndexPage { bytes, level, count, entry_bytes })
    }

    /// The B+tree that owns the page.
    pub fn hobt(&self) -> HobtId {
        HobtId(u64_at(self.bytes, 24))
    }

    /// How many levels lie below the page: 1 if its children are leaves.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The number of entries: one less than children.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the leftmost child is the only one.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes free for entries; see [`IndexPage::entry_size`].
    pub fn free_bytes(&self) -> usize {
        PAGE_SIZE - SLOTS - SLOT * self.count - self.entry_bytes
    }

    /// Bytes that an entry with a key of `key_bytes` takes.
    pub const fn entry_size(key_bytes: usize) -> usize {
        SLOT + CHILD + key_bytes
    }

    /// The child of the keys before the first separator.
    pub fn leftmost(&self) -> PageId {
        page_id_at(self.bytes, LEFTMOST)
    }

    /// Where an entry lies: its first byte and the length of its key.
    fn place(&self, index: usize) -> Result<(usize, usize), PageDamage> {
        assert!(index < self.count, "an entry of the page");
        let slot = SLOTS + SLOT * index;
        let (offset, length) = (usize::from(u16_at(self.bytes, slot)), usize::from(u16_at(self.bytes, slot + 2)));
        let is_inside = offset >= PAGE_SIZE - self.entry_bytes && offset + CHILD + length <= PAGE_SIZE;
        if !is_inside || !(1..=INDEX_KEY_BYTES_MAX).contains(&length) {
            return Err(BOUNDS);
        }
        Ok((offset, length))
    }

    /// The key of an entry.
    ///
    /// # Errors
    /// The entry lies outside the area of entries.
    ///
    /// # Panics
    /// If the page has at most `index` entries.
    pub fn key(&self, index: usize) -> Result<&'a [u8], PageDamage> {
        let (offset, length) = self.place(index)?;
        Ok(&self.bytes[offset + CHILD..offset + CHILD + length])
    }

    /// An entry: its key, and the child that holds the keys from there on.
    ///
    /// # Errors
    /// As [`IndexPage::key`].
    ///
    /// # Panics
    /// If the page has at most `index` entries.
    pub fn entry(&self, index: usize) -> Result<(&'a [u8], PageId), PageDamage> {
        let (offset, length) = self.place(index)?;
        Ok((&self.bytes[offset + CHILD..offset + CHILD + length], page_id_at(self.bytes, offset)))
    }

    /// A child, counted from the leftmost, 0.
    ///
    /// # Errors
    /// As [`IndexPage::key`].
    ///
    /// # Panics
    /// If the page has no such child.
    pub fn child(&self, index: usize) -> Result<PageId, PageDamage> {
        if index == 0 { Ok(self.leftmost()) } else { self.entry(index - 1).map(|(_, child)| child) }
    }

    /// The index of the child that holds a key, counted from the leftmost: the number of separators that are not above
    /// it. It is also the position at which an entry with this key belongs.
    ///
    /// # Errors
    /// As [`IndexPage::key`].
    pub fn child_index(&self, key: &[u8]) -> Result<usize, PageDamage> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if compare_bytes(self.key(middle)?, key) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// The child that holds a key.
    ///
    /// # Errors
    /// As [`IndexPage::key`].
    pub fn child_for(&self, key: &[u8]) -> Result<PageId, PageDamage> {
        self.child(self.child_index(key)?)
    }

    /// Where to split the page to insert an entry whose key has `key_bytes` at `position`: in halves of bytes,
    /// including the new entry. For an entry after all others the left page stays nearly full, so that ascending keys
    /// leave full pages behind. The new entry fits into the half where it belongs ([`IndexSplit::place`]).
    ///
    /// # Errors
    /// As [`IndexPage::key`], or the page has fewer entries than a full one.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn split(&self, position: usize, key_bytes: usize) -> Result<IndexSplit, PageDamage> {
        assert!(position <= self.count, "a position of the page");
        if self.count < 2 {
            return Err(PageDamage::Structure { rule: "an index page that is full has entries to divide" });
        }
        let sizes = (0..self.count).map(|index| self.place(index).map(|(_, length)| Self::entry_size(length)));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        let added = Self::entry_size(key_bytes);
        let (mut left, mut right) = (0, sizes.iter().sum::<usize>());
        let (mut kept, mut smallest) = (0, usize::MAX);
        for (index, size) in sizes.iter().enumerate() {
            right -= size;
            let (left_now, right_now) = if position <= index { (left + added, right) } else { (left, right + added) };
            if left_now.max(right_now) < smallest {
                (kept, smallest) = (index, left_now.max(right_now));
            }
            left += size;
        }
        if position == self.count {
            kept = self.count - 1;
        }
        Ok(IndexSplit { kept, separator: self.key(kept)?.to_vec() })
    }
}

/// Checks a whole index page: its entries fill their area without gaps, and its keys ascend.
///
/// # Errors
/// The first rule that the page breaks.
pub fn check_index_page(bytes: &PageBytes) -> Result<(), PageDamage> {
    PageHeader::read(bytes)?;
    let page = IndexPage::open(bytes)?;
    let mut places = (0..page.len()).map(|index| page.place(index)).collect::<Result<Vec<_>, _>>()?;
    places.sort_unstable();
    let mut at = PAGE_SIZE - page.entry_bytes;
    for (offset, length) in places {
        if offset != at {
            return Err(BOUNDS);
        }
        at = offset + CHILD + length;
    }
    if at != PAGE_SIZE {
        return Err(BOUNDS);
    }
    for index in 1..page.len() {
        if page.key(index - 1)? >= page.key(index)? {
            return Err(PageDamage::Structure { rule: "the order of keys" });
        }
    }
    Ok(())
}

fn page_id_at(page: &PageBytes, at: usize) -> PageId {
    PageId::new(FileId(u16_at(page, at + 4)), u32_at(page, at))
}

fn put_page_id(page: &mut PageBytes, at: usize, id: PageId) {
    put_u32(page, at, id.number);
    put_u16(page, at + 4, id.file.0);
}

/// Adds an entry. Returns whether it had room.
pub(crate) fn insert_entry(page: &mut PageBytes, position: u16, key: &[u8], child: PageId) -> Result<bool, PageDamage> {
    let view = IndexPage::open(page)?;
    let (position, count, used) = (usize::from(position), view.count, view.entry_bytes);
    assert!(position <= count, "a position of the page");
    assert!((1..=INDEX_KEY_BYTES_MAX).contains(&key.len()), "a key of an index");
    if IndexPage::entry_size(key.len()) > view.free_bytes() {
        return Ok(false);
    }
    let offset = PAGE_SIZE - used - CHILD - key.len();
    put_page_id(page, offset, child);
    page[offset + CHILD..offset + CHILD + key.len()].copy_from_slice(key);
    let slot = SLOTS + SLOT * position;
    page.copy_within(slot..SLOTS + SLOT * count, slot + SLOT);
    put_u16(page, slot, narrow(offset));
    put_u16(page, slot + 2, narrow(key.len()));
    put_u16(page, ENTRY_BYTES, narrow(used + CHILD + key.len()));
    put_u16(page, 48, narrow(count + 1));
    Ok(true)
}

/// Removes an entry and closes its gap. Returns the entry.
pub(crate) fn remove_entry(page: &mut PageBytes, position: u16) -> Result<(Vec<u8>, PageId), PageDamage> {
    let view = IndexPage::open(page)?;
    let (position, count, used) = (usize::from(position), view.count, view.entry_bytes);
    assert!(position < count, "a position of the page");
    let (key, child) = view.entry(position)?;
    let key = key.to_vec();
    let (offset, _) = view.place(position)?;
    let size = CHILD + key.len();
    let start = PAGE_SIZE - used;
    page.copy_within(start..offset, start + size);
    page[start..start + size].fill(0);
    for index in 0..count {
        let slot = SLOTS + SLOT * index;
        let other = usize::from(u16_at(page, slot));
        if other < offset {
            put_u16(page, slot, narrow(other + size));
        }
    }
    let slot = SLOTS + SLOT * position;
    page.copy_within(slot + SLOT..SLOTS + SLOT * count, slot);
    page[SLOTS + SLOT * (count - 1)..SLOTS + SLOT * count].fill(0);
    put_u16(page, ENTRY_BYTES, narrow(used - size));
    put_u16(page, 48, narrow(count - 1));
    Ok((key, child))
}

/// Sets the leftmost child. Returns the one before.
pub(crate) fn set_leftmost(page: &mut PageBytes, child: PageId) -> Result<PageId, PageDamage> {
    let before = IndexPage::open(page)?.leftmost();
    put_page_id(page, LEFTMOST, child);
    Ok(before)
}

/// Keeps the entries `from..to`; the child before them becomes the leftmost. Returns the page as it was.
pub(crate) fn keep_entries(page: &mut PageBytes, from: u16, to: u16) -> Result<Box<PageBytes>, PageDamage> {
    // Check first: damage must not be copied into a page that looks sound.
    check_index_page(page)?;
    let before = Box::new(*page);
    let view = IndexPage::open(&before)?;
    let kept = usize::from(from)..usize::from(to);
    assert!(kept.start <= kept.end && kept.end <= view.len(), "positions of the page");
    page[HEADER_SIZE..].fill(0);
    put_u16(page, 48, 0);
    put_page_id(page, LEFTMOST, view.child(kept.start)?);
    for (position, index) in (0..).zip(kept) {
        let (key, child) = view.entry(index)?;
        let has_room = insert_entry(page, position, key, child)?;
        assert!(has_room, "fewer entries than there were");
    }
    Ok(before)
}

fn narrow(value: usize) -> u16 {
    u16::try_from(value).expect("below the page size")
}
