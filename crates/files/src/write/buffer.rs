//! Bytes that grow at their end, written a word at a time.
//!
//! A short value is stored as a whole word of 8 or 16 bytes, of which the next value overwrites what is too much: one
//! store of a known size where a copy of a few bytes would be a loop. So the bytes behind the end are allocated and
//! have any content, and a row makes room for itself before it is written.

/// Room behind what a row claims, so that the last word of it may overlap.
const SLACK: usize = 16;

/// Bytes, and room behind them.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// The bytes, and behind `length` any others.
    bytes: Vec<u8>,
    length: usize,
    /// What [`Buffer::reserve`] leaves behind the room that it makes.
    margin: usize,
}

impl Buffer {
    /// Sets how much room stays behind each value that makes room for itself: what else a row may need.
    pub(super) fn set_margin(&mut self, bytes: usize) {
        self.margin = bytes;
    }

    /// Makes room for `count` more bytes and the margin.
    #[inline]
    pub(super) fn reserve(&mut self, count: usize) {
        let needed = self.length + count + self.margin + SLACK;
        if needed > self.bytes.len() {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        self.bytes.resize(needed.max(2 * self.bytes.len()), 0);
    }

    /// Appends a byte. There has to be room, as for all that follow.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Appends the first `count` bytes of `word`, lowest first; at most 8.
    #[inline]
    pub(super) fn word(&mut self, word: u64, count: usize) {
        self.bytes[self.length..self.length + 8].copy_from_slice(&word.to_le_bytes());
        self.length += count;
    }

    /// Appends the first `count` bytes of `word`, lowest first; at most 16.
    #[inline]
    pub(super) fn long_word(&mut self, word: u128, count: usize) {
        self.bytes[self.length..self.length + 16].copy_from_slice(&word.to_le_bytes());
        self.length += count;
    }

    /// Appends bytes.
    #[inline]
    pub(super) fn slice(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// What was appended.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Forgets what was appended, and keeps the room.
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }
}
