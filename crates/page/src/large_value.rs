//! Values that do not fit a row: the pointer that the row stores, the pages that hold the pieces, and the rule that
//! decides which values leave the row.
//!
//! ```text
//! pointer: length u64 | first page: number u32, file u16 | 0 u16 | CRC-32C of the value u32 | 0 u32
//! page:    header 64, row_count = bytes of the piece, next = the page of the next piece | ordinal u32 | 0 u32 | piece
//! ```
//! Every piece but the last is as long as a page allows, so that the length gives their number. The ordinals reveal a
//! chain that returns to itself. Crate `access` decides which pages a chain may use, and reads it.

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId};

use crate::header::HEADER_SIZE;
use crate::{PageBytes, PageDamage, PageHeader, PageType, RowLayout, put_u32, u32_at};

/// Bytes of a pointer in the row.
pub const POINTER_BYTES: usize = 24;
/// The longest value that can stay in its row.
pub const IN_ROW_BYTES_MAX: usize = 8000;
/// The longest value.
pub const LARGE_VALUE_BYTES_MAX: usize = i32::MAX as usize;

const ORDINAL: usize = HEADER_SIZE;
const PIECE: usize = HEADER_SIZE + 8;

/// The longest piece of a value, which fills one page.
pub const PIECE_BYTES_MAX: usize = PAGE_SIZE - PIECE;

/// A pointer to a value that is not in its row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValuePointer {
    /// Its bytes, 1 to [`LARGE_VALUE_BYTES_MAX`].
    pub length: usize,
    /// The page of its first piece.
    pub first: PageId,
    /// CRC-32C of all its bytes.
    pub checksum: u32,
}

impl ValuePointer {
    /// The pointer's bytes in the row.
    pub fn to_bytes(self) -> [u8; POINTER_BYTES] {
        let mut bytes = [0; POINTER_BYTES];
        bytes[..8].copy_from_slice(&(self.length as u64).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.first.number.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.first.file.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// Reads the pointer in a row.
    ///
    /// # Errors
    /// The bytes are not a pointer, or claim a length that no value has.
    pub fn read(bytes: &[u8]) -> Result<ValuePointer, PageDamage> {
        let damage = PageDamage::Structure { rule: "the pointer to a value on pages of its own" };
        let bytes: &[u8; POINTER_BYTES] = bytes.try_into().map_err(|_| damage)?;
        let (words, _) = bytes.as_chunks::<4>();
        let word = |index: usize| u32::from_le_bytes(words[index]);
        let length = u64::from(word(0)) | u64::from(word(1)) << 32;
        let length = usize::try_from(length).map_err(|_| damage)?;
        if length == 0 || length > LARGE_VALUE_BYTES_MAX || word(3) >> 16 != 0 || word(5) != 0 {
            return Err(damage);
        }
        let file = FileId(u16::from_le_bytes([bytes[12], bytes[13]]));
        Ok(ValuePointer { length, first: PageId::new(file, word(2)), checksum: word(4) })
    }

    /// The number of pages that hold the value.
    pub fn piece_count(&self) -> usize {
        self.length.div_ceil(PIECE_BYTES_MAX)
    }

    /// The number of bytes of one piece; 0 after the last.
    pub fn piece_bytes(&self, ordinal: usize) -> usize {
        self.length.saturating_sub(ordinal * PIECE_BYTES_MAX).min(PIECE_BYTES_MAX)
    }
}

/// Reads and writes a page with a piece of a value.
#[derive(Debug)]
pub struct LargeValuePage;

impl LargeValuePage {
    /// The header of the page with `piece`, followed by page `next` (page 0 of file 0 ends the chain).
    ///
    /// # Panics
    /// If the piece is longer than [`PIECE_BYTES_MAX`].
    pub fn header(page: PageId, database_tag: u32, hobt: HobtId, piece: &[u8], next: PageId) -> PageHeader {
        assert!(piece.len() <= PIECE_BYTES_MAX, "a piece that fits");
        let mut header = PageHeader::new(PageType::LargeValue, page, database_tag, hobt);
        header.row_count = u16::try_from(piece.len()).expect("below the page size");
        header.next = next;
        header
    }

    /// The offset and the bytes of the body, for a [`crate::PageChange::Write`].
    pub fn body(ordinal: u32, piece: &[u8]) -> (u16, Vec<u8>) {
        let mut bytes = Vec::with_capacity(PIECE - ORDINAL + piece.len());
        bytes.extend_from_slice(&ordinal.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(piece);
        (u16::try_from(ORDINAL).expect("in the page"), bytes)
    }

    /// Builds the whole page in private memory, checksum included, for a bulk load.
    pub fn build(page: &mut PageBytes, header: &PageHeader, ordinal: u32, piece: &[u8]) {
        page.fill(0);
        header.write(page);
        put_u32(page, ORDINAL, ordinal);
        page[PIECE..PIECE + piece.len()].copy_from_slice(piece);
        crate::seal(page);
    }

    /// The ordinal, the piece and the next page, of a page that must belong to the HOBT.
    ///
    /// # Errors
    /// The page belongs to another HOBT, or holds no piece of a value.
    pub fn read(page: &PageBytes, hobt: HobtId) -> Result<(u32, &[u8], PageId), PageDamage> {
        let header = PageHeader::read(page)?;
        if header.page_type != PageType::LargeValue {
            return Err(PageDamage::Type { found: header.page_type as u8 });
        }
        if header.hobt != hobt {
            return Err(PageDamage::Structure { rule: "a page of another HOBT" });
        }
        let length = usize::from(header.row_count);
        if length == 0 || length > PIECE_BYTES_MAX {
            return Err(PageDamage::Structure { rule: "the length of a large value's piece" });
        }
        Ok((u32_at(page, ORDINAL), &page[PIECE..PIECE + length], header.next))
    }

    /// The piece at `ordinal` of the value of `pointer`, and the next page. Checks that they match.
    ///
    /// # Errors
    /// As [`LargeValuePage::read`], or the page is not at this position of this chain.
    pub fn read_piece<'a>(
        page: &'a PageBytes,
        hobt: HobtId,
        pointer: &ValuePointer,
        ordinal: usize,
    ) -> Result<(&'a [u8], PageId), PageDamage> {
        let (found, piece, next) = LargeValuePage::read(page, hobt)?;
        let is_last = ordinal + 1 == pointer.piece_count();
        if found as usize != ordinal {
            return Err(PageDamage::Structure { rule: "the order of a large value's pages" });
        }
        if piece.len() != pointer.piece_bytes(ordinal) || (next == PageId::default()) != is_last {
            return Err(PageDamage::Structure { rule: "the length of a large value's chain" });
        }
        Ok((piece, next))
    }
}

impl RowLayout {
    /// Whether a row can keep all its variable-length values, whose total length is `variable_bytes`.
    pub fn fits_in_row(&self, variable_bytes: usize) -> bool {
        variable_bytes <= IN_ROW_BYTES_MAX && self.page_bytes_bound(1, variable_bytes) <= PAGE_SIZE
    }

    /// The columns whose values leave a row. `length` returns the bytes of each variable-length value. Those that are
    /// too long for any row leave first, and then the longest until the row fits a page. `None` if it still does not
    /// fit.
    pub fn values_to_move_out(&self, length: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
        let mut columns: Vec<(usize, usize)> = (0..self.columns().len())
            .filter(|&column| self.variable_rank(column).is_some())
            .map(|column| (length(column), column))
            .collect();
        let room = PAGE_SIZE.checked_sub(self.page_bytes_bound(1, 0))?;
        let mut bytes = columns.iter().fold(0usize, |sum, (length, _)| sum.saturating_add(*length));
        if bytes <= room && bytes <= IN_ROW_BYTES_MAX {
            return Some(Vec::new());
        }
        columns.sort_by_key(|&(length, column)| (std::cmp::Reverse(length), column));
        let mut out = Vec::new();
        for (length, column) in columns {
            if length > LARGE_VALUE_BYTES_MAX {
                return None;
            }
            if length <= IN_ROW_BYTES_MAX && (bytes <= room || length <= POINTER_BYTES) {
                break;
            }
            bytes = bytes - length + POINTER_BYTES;
            out.push(column);
        }
        (bytes <= room).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use hobt_types::PhysicalType;

    use super::*;
    use crate::ColumnLayout;

    fn rows(count: usize) -> RowLayout {
        RowLayout::new(vec![ColumnLayout { physical: PhysicalType::Variable, nullable: true }; count])
    }

    #[test]
    fn the_longest_values_leave_until_the_row_fits() {
        let out = |lengths: &[usize]| rows(lengths.len()).values_to_move_out(|column| lengths[column]);
        assert_eq!(out(&[8000]), Some(vec![]));
        assert_eq!(out(&[8001]), Some(vec![0]));
        assert_eq!(out(&[10, 5000, 5000, 4999]), Some(vec![1, 2]));
        assert_eq!(out(&[4000, 3000, 9000, 100_000]), Some(vec![3, 2]));
        assert_eq!(out(&[4000, 4000]), Some(vec![]));
        assert_eq!(out(&[4000, 4001]), Some(vec![]), "the longest in-row value is a limit of one value");
        assert_eq!(out(&[LARGE_VALUE_BYTES_MAX + 1]), None);
        // Moving a value that is as short as a pointer gains nothing.
        assert_eq!(rows(400).values_to_move_out(|_| POINTER_BYTES), None);
        assert_eq!(rows(1024).values_to_move_out(|_| 0), Some(vec![]));
    }

    #[test]
    fn a_pointer_is_read_back_and_nonsense_is_refused() {
        let pointer = ValuePointer { length: 2_000_000, first: PageId::new(FileId(3), 77), checksum: 0xDEAD_BEEF };
        assert_eq!(ValuePointer::read(&pointer.to_bytes()), Ok(pointer));
        assert_eq!(pointer.piece_count(), 247);
        assert_eq!(pointer.piece_bytes(246), 2_000_000 - 246 * PIECE_BYTES_MAX);
        assert_eq!(pointer.piece_bytes(247), 0);
        for at in [4, 14, 20, 23] {
            let mut bytes = pointer.to_bytes();
            bytes[at] = 1;
            assert!(ValuePointer::read(&bytes).is_err(), "byte {at}");
        }
        assert!(ValuePointer::read(&[0; POINTER_BYTES]).is_err());
        assert!(ValuePointer::read(&[1; POINTER_BYTES - 1]).is_err());
    }

    #[test]
    fn a_piece_is_read_at_its_place_alone() {
        let (id, next, hobt) = (PageId::new(FileId(1), 9), PageId::new(FileId(1), 10), HobtId(4));
        let piece = vec![7; PIECE_BYTES_MAX];
        let mut page = Box::new([0; PAGE_SIZE]);
        LargeValuePage::build(&mut page, &LargeValuePage::header(id, 5, hobt, &piece, next), 1, &piece);
        crate::verify(&page, id, 5).expect("sealed");
        let pointer = |length| ValuePointer { length, first: id, checksum: 0 };
        let long = pointer(3 * PIECE_BYTES_MAX);
        assert_eq!(LargeValuePage::read_piece(&page, hobt, &long, 1), Ok((&piece[..], next)));
        assert!(LargeValuePage::read_piece(&page, hobt, &long, 0).is_err(), "another place");
        assert!(LargeValuePage::read_piece(&page, HobtId(5), &long, 1).is_err(), "another HOBT");
        assert!(LargeValuePage::read_piece(&page, hobt, &pointer(2 * PIECE_BYTES_MAX), 1).is_err(), "it goes on");
        assert!(LargeValuePage::read_piece(&page, hobt, &pointer(2 * PIECE_BYTES_MAX - 1), 1).is_err(), "shorter");
    }
}
