//! Bytes of versions on disk. They are read by the process that wrote them.

use std::sync::Arc;

use hobt_base::{HobtId, PageId};
use hobt_page::{EncodingDamage, EncodingReader};

use super::facts::{Before, HeapPage, TreeName};

/// The first byte of a place: pages of heaps come before trees.
const PAGE: u8 = 0;
const TREE: u8 = 1;
/// Bytes of a place before the key of a tree.
pub(super) const TREE_PREFIX_BYTES: usize = 17;

/// Appends the bytes of a page's address.
pub(super) fn put_page_id(out: &mut Vec<u8>, page: PageId) {
    out.extend_from_slice(&page.file.0.to_le_bytes());
    out.extend_from_slice(&page.number.to_le_bytes());
}

pub(super) fn put_before(out: &mut Vec<u8>, before: &Before) {
    match before {
        Before::Absent => out.push(0),
        Before::Present => out.push(1),
        Before::Row(row) => {
            out.push(2);
            row.encode(out);
        }
    }
}

pub(super) fn read_before(reader: &mut EncodingReader<'_>) -> Result<Before, EncodingDamage> {
    match reader.u8()? {
        0 => Ok(Before::Absent),
        1 => Ok(Before::Present),
        2 => Ok(Before::Row(Arc::new(reader.row()?))),
        _ => Err(EncodingDamage { rule: "the state before a change" }),
    }
}

/// Appends the place of a page: places sort by heap and page.
pub(super) fn put_page(out: &mut Vec<u8>, HeapPage { hobt, page }: HeapPage) {
    put_heap(out, hobt);
    out.extend_from_slice(&page.file.0.to_be_bytes());
    out.extend_from_slice(&page.number.to_be_bytes());
}

/// Appends what the places of a heap's pages begin with.
pub(super) fn put_heap(out: &mut Vec<u8>, hobt: HobtId) {
    out.push(PAGE);
    out.extend_from_slice(&hobt.0.to_be_bytes());
}

/// Whether a place is that of a page.
pub(super) fn is_page(place: &[u8]) -> bool {
    place.first() == Some(&PAGE)
}

/// The page of a place of the heap's, as [`put_page`] has written it.
pub(super) fn page_of(place: &[u8]) -> Option<PageId> {
    let bytes: &[u8; 6] = place.get(9..)?.try_into().ok()?;
    let [one, two, rest @ ..] = *bytes;
    Some(PageId::new(hobt_base::FileId(u16::from_be_bytes([one, two])), u32::from_be_bytes(rest)))
}

/// Appends the place of a tree's key: places sort by tree and key.
pub(super) fn put_key(out: &mut Vec<u8>, TreeName { hobt, truncations }: TreeName, key: &[u8]) {
    out.push(TREE);
    out.extend_from_slice(&hobt.0.to_be_bytes());
    out.extend_from_slice(&truncations.to_be_bytes());
    out.extend_from_slice(key);
}

/// What follows the places of all keys of a tree: the next string of its prefix's length.
pub(super) fn behind_tree(name: TreeName) -> Vec<u8> {
    let mut place = Vec::with_capacity(TREE_PREFIX_BYTES);
    put_key(&mut place, name, &[]);
    for byte in place.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    place
}
