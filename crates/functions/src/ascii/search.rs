//! Occurrences of a constant text in each text of a batch.
//!
//! ```text
//! rows        'a Note'  ''  'it'
//! haystack    a Note | | it |          | is a byte that no text has
//! starts      0        7 8    11
//! ```
//!
//! One search over the haystack costs much less than one for each row. A match cannot reach into the next row, because
//! the needle does not contain the byte between them.
//!
//! A needle of up to sixteen bytes is searched in blocks of sixteen places: those where its first and its last byte are
//! right are compared, which takes a few instructions. A longer one goes to `memchr`, whose time is linear for any
//! needle.

use memchr::memmem;

use super::{AsciiTexts, BLOCK, LOWEST, block_at, length_of, lower_block, repeated};

/// The byte after each row. No ASCII text contains it.
const BETWEEN: u8 = 0xFF;

/// What is searched for: ASCII.
pub(crate) struct Needle {
    /// In lower case if case is ignored.
    bytes: Vec<u8>,
    ignores_case: bool,
}

impl Needle {
    pub(crate) fn new(bytes: &[u8], ignores_case: bool) -> Needle {
        let bytes = if ignores_case { bytes.to_ascii_lowercase() } else { bytes.to_vec() };
        Needle { bytes, ignores_case }
    }

    /// Its number of bytes. A needle without any is in no text.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// A block of one byte of the needle, and the bits in which other bytes may differ from it.
    fn repeated(&self, place: usize) -> (u128, u128) {
        let byte = self.bytes[place];
        let either = if self.ignores_case && byte.is_ascii_lowercase() { 0x20 } else { 0 };
        (repeated(byte), repeated(either))
    }
}

/// The high bit of each byte that is zero.
const fn zero_bytes(block: u128) -> u128 {
    let low_bits = repeated(0x7F);
    !((block & low_bits).wrapping_add(low_bits) | block) & repeated(0x80)
}

/// All texts of a batch in one piece.
pub(crate) struct Haystack {
    /// The texts, and two blocks that end every search.
    bytes: Vec<u8>,
    /// Where each row begins, and where the row after the last one would.
    starts: Vec<u32>,
}

impl Haystack {
    /// Copies the texts, one for each row, without their first `skipped` bytes.
    pub(crate) fn new(texts: &AsciiTexts, skipped: usize) -> Haystack {
        match skipped {
            0 => Haystack::copy(texts, |view| view),
            _ => Haystack::copy(texts, |view| texts.slice(view, skipped, usize::MAX)),
        }
    }

    fn copy(texts: &AsciiTexts, part: impl Fn(u128) -> u128) -> Haystack {
        let rows = texts.views().len();
        let mut bytes = vec![0; texts.bytes() + rows + 2 * BLOCK];
        let mut starts = Vec::with_capacity(rows + 1);
        let mut at = 0;
        for view in texts.views() {
            // It is at most `BATCH_BYTES_MAX` and the number of rows.
            starts.push(at as u32);
            let part = part(*view);
            texts.write(part, &mut bytes, at);
            at += length_of(part);
            bytes[at] = BETWEEN;
            at += 1;
        }
        starts.push(at as u32);
        bytes.truncate(at + 2 * BLOCK);
        bytes[at..].fill(BETWEEN);
        Haystack { bytes, starts }
    }

    /// The texts, one after another.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the text of `row` begins and ends in [`Haystack::bytes`].
    pub(super) fn place(&self, row: usize) -> (usize, usize) {
        (self.starts[row] as usize, self.starts[row + 1] as usize - 1)
    }

    /// Calls `each` with every row that contains `needle`, and the place of the first occurrence in it.
    pub(crate) fn first_in_each_row(&self, needle: &Needle, mut each: impl FnMut(usize, usize)) {
        let mut row = 0;
        self.search(needle, |at| {
            while self.starts[row + 1] as usize <= at {
                row += 1;
            }
            each(row, at - self.starts[row] as usize);
            self.starts[row + 1] as usize
        });
    }

    /// The places of all occurrences in [`Haystack::bytes`]. They do not overlap.
    pub(super) fn all(&self, needle: &Needle) -> Vec<u32> {
        let mut places = Vec::new();
        self.search(needle, |at| {
            places.push(at as u32);
            at + needle.length()
        });
        places
    }

    /// Calls `each` with the first occurrence, and then with each next one from the place on that it returned.
    fn search(&self, needle: &Needle, mut each: impl FnMut(usize) -> usize) {
        match needle.length() {
            0 => {}
            1..=BLOCK => self.search_blocks(needle, each),
            _ => {
                let folded = needle.ignores_case.then(|| self.bytes.to_ascii_lowercase());
                let bytes = folded.as_deref().unwrap_or(&self.bytes);
                let finder = memmem::Finder::new(&needle.bytes);
                let mut from = 0;
                while let Some(found) = finder.find(&bytes[from..]) {
                    from = each(from + found);
                }
            }
        }
    }

    /// [`Haystack::search`] for a needle of up to a block.
    fn search_blocks(&self, needle: &Needle, mut each: impl FnMut(usize) -> usize) {
        let last_place = needle.length() - 1;
        let ((first, first_either), (last, last_either)) = (needle.repeated(0), needle.repeated(last_place));
        let (wanted, mask) = (block_at(&needle.bytes, 0), LOWEST[needle.length()]);
        let is_at = |place: usize| {
            let block = block_at(&self.bytes, place);
            ((if needle.ignores_case { lower_block(block) } else { block }) ^ wanted) & mask == 0
        };
        let mut from = 0;
        let (firsts, _) = self.bytes.as_chunks::<BLOCK>();
        let (lasts, _) = self.bytes[last_place..].as_chunks::<BLOCK>();
        for (number, (firsts, lasts)) in firsts.iter().zip(lasts).enumerate() {
            let first_differs = (u128::from_le_bytes(*firsts) | first_either) ^ first;
            let last_differs = (u128::from_le_bytes(*lasts) | last_either) ^ last;
            let mut candidates = zero_bytes(first_differs | last_differs);
            while candidates != 0 {
                let place = number * BLOCK + candidates.trailing_zeros() as usize / 8;
                candidates &= candidates - 1;
                if place >= from && (last_place <= 1 || is_at(place)) {
                    from = each(place);
                }
            }
        }
    }
}
