//! Memory for direct I/O transfers.

use crate::error::{DiskError, Result};
use parking_lot::Mutex;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of buffers in memory. No device requires more.
pub const ALIGNMENT: usize = 4096;

/// Offsets and lengths of direct transfers are multiples of this.
pub const SECTOR_SIZE: usize = 512;

/// Buffers from this size on are backed by huge pages if the kernel has them. A buffer then consists of a few long
/// pieces for the device, which costs less to set up for each transfer.
const HUGE_PAGE: usize = 2 << 20;

/// The layout of a buffer, `None` for a size that no allocation can have.
fn layout_of(len: usize) -> Option<Layout> {
    Layout::from_size_align(len, if len >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT }).ok()
}

/// A block of memory aligned to [`ALIGNMENT`], its length a multiple of [`SECTOR_SIZE`].
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its memory, as a `Box<[u8]>` does; bytes may go to another thread and be read from several.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared reference gives only shared references to the bytes.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A zeroed buffer.
    ///
    /// # Errors
    /// [`DiskError::OutOfMemory`].
    ///
    /// # Panics
    /// When `len` is 0 or not a multiple of [`SECTOR_SIZE`].
    pub fn new(len: usize) -> Result<AlignedBuffer> {
        assert!(len > 0 && len.is_multiple_of(SECTOR_SIZE), "{len} bytes are no whole sectors");
        let layout = layout_of(len).ok_or(DiskError::OutOfMemory { bytes: len })?;
        // SAFETY: the layout's size was checked not to be zero.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).ok_or(DiskError::OutOfMemory { bytes: len })?;
        #[cfg(target_os = "linux")]
        if len >= HUGE_PAGE {
            let whole = len / HUGE_PAGE * HUGE_PAGE;
            // The allocator may return memory that was used before and still has small pages. They are dropped, so that
            // writing the zeroes below allocates huge ones.
            for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTNEED] {
                // SAFETY: the range lies in a fresh allocation, which is private memory of no file and holds nothing
                // yet. A kernel that does not take the advice backs it with small pages.
                let _advice = unsafe { libc::madvise(start.as_ptr().cast(), whole, advice) };
            }
        }
        // SAFETY: `len` bytes from `start` were just allocated.
        unsafe { start.write_bytes(0, len) };
        Ok(AlignedBuffer { start, len, capacity: len })
    }

    /// The greatest length that the buffer can have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes how many bytes are used and transferred. The bytes in memory are unchanged.
    ///
    /// # Panics
    /// When `len` is 0, above the capacity, or not a multiple of [`SECTOR_SIZE`].
    pub fn set_len(&mut self, len: usize) {
        assert!(len > 0 && len <= self.capacity && len.is_multiple_of(SECTOR_SIZE), "{len} of {}", self.capacity);
        self.len = len;
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let layout = layout_of(self.capacity).expect("the layout was valid before");
        // SAFETY: `start` came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.start.as_ptr(), layout) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len <= capacity` bytes from `start` are allocated and initialised, and borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuffer({} of {} bytes)", self.len, self.capacity)
    }
}

/// Buffers for reuse, by capacity. Saves the page faults of new memory.
#[derive(Debug)]
pub struct BufferCache {
    bytes_max: usize,
    free: Mutex<FreeBuffers>,
}

#[derive(Debug, Default)]
struct FreeBuffers {
    bytes: usize,
    by_capacity: HashMap<usize, Vec<AlignedBuffer>>,
}

impl BufferCache {
    /// An empty cache that keeps up to `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> BufferCache {
        BufferCache { bytes_max, free: Mutex::new(FreeBuffers::default()) }
    }

    /// Takes a buffer of exactly this capacity and length, with the bytes that its last user left.
    ///
    /// # Errors
    /// [`DiskError::OutOfMemory`].
    ///
    /// # Panics
    /// As [`AlignedBuffer::new`].
    pub fn take(&self, len: usize) -> Result<AlignedBuffer> {
        let mut free = self.free.lock();
        if let Some(mut buffer) = free.by_capacity.get_mut(&len).and_then(Vec::pop) {
            free.bytes -= len;
            buffer.len = len;
            return Ok(buffer);
        }
        drop(free);
        AlignedBuffer::new(len)
    }

    /// Returns a buffer to the cache. It is freed when the cache is full.
    pub fn give(&self, buffer: AlignedBuffer) {
        let mut free = self.free.lock();
        if free.bytes + buffer.capacity <= self.bytes_max {
            free.bytes += buffer.capacity;
            free.by_capacity.entry(buffer.capacity).or_default().push(buffer);
        }
    }

    /// Bytes of the cached buffers.
    pub fn bytes(&self) -> usize {
        self.free.lock().bytes
    }

    /// Frees all cached buffers.
    pub fn clear(&self) {
        *self.free.lock() = FreeBuffers::default();
    }
}

/// Memory owned by the caller that a transfer reads or writes.
#[derive(Debug)]
pub struct PinnedSlice {
    start: *mut u8,
    len: usize,
}

// SAFETY: the caller of `new` promised that the memory may be used from any thread until the completion is popped.
unsafe impl Send for PinnedSlice {}

impl PinnedSlice {
    /// Memory of `len` bytes from `start`. Both are multiples of [`SECTOR_SIZE`] at least.
    ///
    /// # Safety
    /// Until the completion of its request has been popped, or until the slice is dropped without having been
    /// submitted: the memory must stay valid for reads and writes from any thread, nothing else may write it, and
    /// nothing else may read it if the request is a read.
    pub unsafe fn new(start: *mut u8, len: usize) -> PinnedSlice {
        PinnedSlice { start, len }
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The memory of a request.
#[derive(Debug)]
pub enum IoBuffer {
    /// A buffer that the request owns until it is complete.
    Owned(AlignedBuffer),
    /// Memory of the caller, transferred in this order (scatter-gather).
    Pinned(Vec<PinnedSlice>),
}

impl IoBuffer {
    /// The number of bytes to transfer.
    pub fn len(&self) -> usize {
        match self {
            IoBuffer::Owned(buffer) => buffer.len(),
            IoBuffer::Pinned(slices) => slices.iter().map(PinnedSlice::len).sum(),
        }
    }

    /// Whether there is nothing to transfer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The owned buffer; `None` for pinned memory.
    pub fn into_owned(self) -> Option<AlignedBuffer> {
        match self {
            IoBuffer::Owned(buffer) => Some(buffer),
            IoBuffer::Pinned(_) => None,
        }
    }

    /// The pieces of memory in the system's form, without the first `skip` bytes.
    pub(crate) fn pieces(&mut self, skip: usize, pieces: &mut Vec<libc::iovec>) {
        pieces.clear();
        let mut skip = skip;
        let mut push = |start: *mut u8, len: usize| {
            let skipped = skip.min(len);
            skip -= skipped;
            if skipped < len {
                pieces.push(libc::iovec { iov_base: start.wrapping_add(skipped).cast(), iov_len: len - skipped });
            }
        };
        match self {
            IoBuffer::Owned(buffer) => push(buffer.start.as_ptr(), buffer.len),
            IoBuffer::Pinned(slices) => slices.iter().for_each(|slice| push(slice.start, slice.len)),
        }
    }

    /// Writes to its memory, from a byte of it on. What does not fit is left out.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let mut pieces = Vec::new();
        self.pieces(at, &mut pieces);
        let mut rest = bytes;
        for piece in pieces {
            let (now, behind) = rest.split_at(rest.len().min(piece.iov_len));
            // SAFETY: the piece lies in this buffer, which is borrowed exclusively, or for which the caller of
            // `PinnedSlice::new` vouched until its completion is popped, which this call comes before. `now` is other
            // memory, since it is borrowed beside it.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), piece.iov_base.cast::<u8>(), now.len()) };
            rest = behind;
        }
    }

    /// Whether every piece begins and ends at a position that direct transfers allow.
    pub(crate) fn is_aligned(&self) -> bool {
        match self {
            IoBuffer::Owned(_) => true,
            IoBuffer::Pinned(slices) => slices
                .iter()
                .all(|slice| slice.start.addr().is_multiple_of(SECTOR_SIZE) && slice.len.is_multiple_of(SECTOR_SIZE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, AlignedBuffer, BufferCache, HUGE_PAGE, IoBuffer, PinnedSlice};

    #[test]
    fn a_new_buffer_is_aligned_and_zero() {
        let buffer = AlignedBuffer::new(1536).expect("memory");
        assert!(buffer.as_ptr().addr().is_multiple_of(ALIGNMENT));
        assert!(buffer.iter().all(|&byte| byte == 0));
        assert!(AlignedBuffer::new(usize::MAX / 512 * 512).is_err(), "no machine has that much");
    }

    /// The start of the mapping that contains an address, and its kilobytes in huge pages.
    #[cfg(target_os = "linux")]
    fn mapping_at(address: usize) -> (usize, usize) {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("a process may read its own");
        let mut start = None;
        for line in maps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or("");
            if let Some((from, to)) = first.split_once('-') {
                let border = |text: &str| usize::from_str_radix(text, 16).expect("an address");
                start = (border(from)..border(to)).contains(&address).then(|| border(from));
            } else if let (Some(start), "AnonHugePages:") = (start, first) {
                return (start, words.next().and_then(|kib| kib.parse().ok()).expect("a number"));
            }
        }
        panic!("{address:x} lies in no mapping");
    }

    /// Memory that was in use before has small pages, and keeps them when huge ones are only advised.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_large_buffer_in_used_memory_has_huge_pages() {
        const LEN: usize = 2 * HUGE_PAGE;
        const COUNT: usize = 8;
        let huge_kib = |buffers: &[AlignedBuffer]| -> usize {
            let mappings: std::collections::BTreeMap<usize, usize> =
                buffers.iter().map(|buffer| mapping_at(buffer.as_ptr().addr())).collect();
            mappings.values().sum()
        };
        let fresh = AlignedBuffer::new(COUNT * LEN).expect("memory");
        if huge_kib(&[fresh]) < (COUNT * LEN) >> 10 {
            println!("SKIPPED: the kernel has not so many huge pages to give");
            return;
        }
        // glibc maps large blocks one by one until one that was larger is free.
        drop(vec![1_u8; 4 * LEN]);
        // Between blocks that stay, so that the allocator keeps the freed memory.
        let used: Vec<Vec<u8>> = (0..4 * COUNT).map(|_| vec![1; LEN + HUGE_PAGE]).collect();
        let kept: Vec<Vec<u8>> =
            used.into_iter().enumerate().filter_map(|(place, memory)| (place % 4 == 3).then_some(memory)).collect();
        let buffers: Vec<AlignedBuffer> = (0..COUNT).map(|_| AlignedBuffer::new(LEN).expect("memory")).collect();
        assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == 0)));
        let huge = huge_kib(&buffers);
        assert!(huge >= (COUNT * LEN) >> 10, "{huge} KiB of {} are in huge pages", (COUNT * LEN) >> 10);
        drop(kept);
    }

    #[test]
    fn a_cache_gives_back_what_it_was_given_up_to_its_size() {
        let cache = BufferCache::new(8192);
        let mut first = cache.take(8192).expect("memory");
        first[0] = 7;
        first.set_len(512);
        let place = first.as_ptr();
        cache.give(first);
        cache.give(AlignedBuffer::new(512).expect("memory"));
        assert_eq!(cache.bytes(), 8192, "the second did not fit");
        let again = cache.take(8192).expect("memory");
        assert_eq!((again.as_ptr(), again.len(), again[0], cache.bytes()), (place, 8192, 7, 0));
    }

    #[test]
    fn pieces_skip_what_was_transferred() {
        let mut memory = AlignedBuffer::new(2048).expect("memory");
        let start = memory.as_mut_ptr();
        // SAFETY: nothing is submitted; the slices only compute addresses.
        let slices = [0, 512, 1024].map(|offset| unsafe { PinnedSlice::new(start.wrapping_add(offset), 512) });
        let mut buffer = IoBuffer::Pinned(slices.into());
        let mut pieces = Vec::new();
        buffer.pieces(700, &mut pieces);
        let found: Vec<_> = pieces.iter().map(|p| (p.iov_base.addr() - start.addr(), p.iov_len)).collect();
        assert_eq!(found, [(700, 324), (1024, 512)]);
    }
}
