//! Encoding of changes and layouts in the log.
//!
//! ```text
//! change: kind u8 | the fields of the kind | to the end: a row, bytes or an image
//! row:    columns n | a mark for each: 0 NULL, 1 pointer, 2 + length | their bytes, concatenated
//! image:  one bit for each 32 bytes of the page, 1 where they are not all zero (32 bytes) | those blocks
//! layout: flags u8 (1: ordered) | columns n | one byte for each: physical type, + 8 if it may be NULL
//! ```
//! Fixed numbers are little-endian; `n` and marks and stamps are numbers of seven bits a byte, lowest first, the high
//! bit set on all but the last (LEB128). Everything has exactly one encoding: bytes that decode are those that encoding
//! produces again, so nothing may follow the end. An image describes the page's holes by blocks and not as one hole in
//! its middle, because each area of a row page has its own free room.
//!
//! Decoding never panics, and allocates by the bytes that are present, never by a length that they claim.
//! [`PageChange::check`] decides whether a change belongs to a page.

use std::fmt;

use hobt_base::{FileId, HobtId, Lsn, PAGE_SIZE, PageId, SlotId, Stamp};
use hobt_types::PhysicalType;

use super::PageChange;
use crate::row_image::Form;
use crate::{
    ColumnLayout, MAX_LAYOUT_COLUMNS, POINTER_BYTES, PageBytes, PageFlags, PageHeader, PageType, RowImage, RowLayout,
    ValuePointer,
};

/// Bytes that one bit of an image's map describes.
const BLOCK: usize = 32;
/// Bytes of an image's map.
const MAP_BYTES: usize = PAGE_SIZE / BLOCK / 8;

const _: () = assert!(PAGE_SIZE.is_multiple_of(8 * BLOCK), "whole bytes of bits for whole blocks");

/// The kinds of changes. The numbers are in logs.
mod kind {
    pub(super) const FORMAT: u8 = 1;
    pub(super) const IMAGE: u8 = 2;
    pub(super) const APPEND_ROW: u8 = 3;
    pub(super) const REMOVE_LAST_ROW: u8 = 4;
    pub(super) const SET_DELETED: u8 = 5;
    pub(super) const WRITE: u8 = 6;
    pub(super) const SET_HEADER: u8 = 7;
    pub(super) const REPLACE_ROW: u8 = 8;
    pub(super) const INSERT_ROW: u8 = 9;
    pub(super) const REMOVE_ROW: u8 = 10;
    pub(super) const KEEP_ROWS: u8 = 11;
    pub(super) const INSERT_ENTRY: u8 = 12;
    pub(super) const REMOVE_ENTRY: u8 = 13;
    pub(super) const SET_LEFTMOST: u8 = 14;
    pub(super) const KEEP_ENTRIES: u8 = 15;
}

/// Why bytes are not an encoded change or layout. The log's checksum was right, so another version wrote the log, or it
/// is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodingDamage {
    /// The rule that is broken.
    pub rule: &'static str,
}

impl fmt::Display for EncodingDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the bytes are no change of a page: {}", self.rule)
    }
}

impl std::error::Error for EncodingDamage {}

/// The unread rest of an encoding: of a change in this crate, of a record around it in others. Fixed numbers are
/// little-endian.
#[derive(Debug)]
pub struct EncodingReader<'a>(&'a [u8]);

impl<'a> EncodingReader<'a> {
    /// A reader of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> EncodingReader<'a> {
        EncodingReader(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// Fewer bytes are left. The methods below have the same error.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], EncodingDamage> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(EncodingDamage { rule: "it ends too early" })?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next bytes, as many as the array's length.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], EncodingDamage> {
        self.bytes(N).map(|bytes| bytes.try_into().expect("as many as were asked for"))
    }

    /// One byte.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u8(&mut self) -> Result<u8, EncodingDamage> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, EncodingDamage> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, EncodingDamage> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, EncodingDamage> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of seven bits a byte, in its shortest form.
    ///
    /// # Errors
    /// It is no such number, or fewer bytes are left.
    pub fn number(&mut self) -> Result<u64, EncodingDamage> {
        let damage = EncodingDamage { rule: "a number" };
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(damage);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damage)
    }

    fn flag(&mut self) -> Result<bool, EncodingDamage> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(EncodingDamage { rule: "a flag" }),
        }
    }

    fn stamp(&mut self) -> Result<Stamp, EncodingDamage> {
        self.number().map(Stamp)
    }

    /// The address of a page: six bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn page_id(&mut self) -> Result<PageId, EncodingDamage> {
        Ok(PageId::new(FileId(self.u16()?), self.u32()?))
    }

    fn header(&mut self) -> Result<PageHeader, EncodingDamage> {
        Ok(PageHeader {
            page_type: PageType::from_byte(self.u8()?).ok_or(EncodingDamage { rule: "the type of a page" })?,
            flags: PageFlags(self.u16()?),
            database_tag: self.u32()?,
            page: self.page_id()?,
            hobt: HobtId(self.u64()?),
            lsn: Lsn(self.u64()?),
            layout_version: self.u32()?,
            newest_writer: Stamp(self.u64()?),
            column_count: self.u16()?,
            row_count: self.u16()?,
            capacity: self.u16()?,
            deleted_count: self.u16()?,
            level: self.u8()?,
            next: self.page_id()?,
        })
    }

    fn image(&mut self) -> Result<Box<PageBytes>, EncodingDamage> {
        let map: [u8; MAP_BYTES] = self.array()?;
        let mut page = Box::new([0; PAGE_SIZE]);
        for (index, block) in page.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            if map[index / 8] >> (index % 8) & 1 == 1 {
                *block = self.array()?;
                if is_zero(block) {
                    return Err(EncodingDamage { rule: "a block of an image that is all zero" });
                }
            }
        }
        Ok(page)
    }

    /// A row, as [`RowImage::encode`] has written it.
    ///
    /// # Errors
    /// It is no row, or fewer bytes are left.
    pub fn row(&mut self) -> Result<RowImage, EncodingDamage> {
        let count = self.column_count()?;
        let mut marks = Vec::new();
        for _ in 0..count {
            marks.push(self.number()?);
        }
        let mut row = RowImage::default();
        for mark in marks {
            match mark {
                0 => row.push(&[], Form::Null),
                1 => {
                    let bytes = self.bytes(POINTER_BYTES)?;
                    ValuePointer::read(bytes).map_err(|_| EncodingDamage { rule: "a pointer to a long value" })?;
                    row.push(bytes, Form::Pointer);
                }
                _ => {
                    let length = usize::try_from(mark - 2).map_err(|_| EncodingDamage { rule: "a value's length" })?;
                    row.push(self.bytes(length)?, Form::InRow);
                }
            }
        }
        Ok(row)
    }

    fn column_count(&mut self) -> Result<usize, EncodingDamage> {
        let count = self.number()?;
        let count = usize::try_from(count).ok().filter(|count| (1..=MAX_LAYOUT_COLUMNS).contains(count));
        count.ok_or(EncodingDamage { rule: "how many columns there are" })
    }

    /// All unread bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn end(&self) -> Result<(), EncodingDamage> {
        if self.0.is_empty() { Ok(()) } else { Err(EncodingDamage { rule: "it goes on behind its end" }) }
    }
}

/// Whether a block is a hole. The loop has no branch, so that the block is compared at once.
fn is_zero(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(0, |any, byte| any | byte) == 0
}

/// Appends a number of seven bits a byte, in its shortest form: 1 to 10 bytes.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_page_id(out: &mut Vec<u8>, page: PageId) {
    out.extend_from_slice(&page.file.0.to_le_bytes());
    out.extend_from_slice(&page.number.to_le_bytes());
}

fn put_header(out: &mut Vec<u8>, header: &PageHeader) {
    out.push(header.page_type as u8);
    out.extend_from_slice(&header.flags.0.to_le_bytes());
    out.extend_from_slice(&header.database_tag.to_le_bytes());
    put_page_id(out, header.page);
    out.extend_from_slice(&header.hobt.0.to_le_bytes());
    out.extend_from_slice(&header.lsn.0.to_le_bytes());
    out.extend_from_slice(&header.layout_version.to_le_bytes());
    out.extend_from_slice(&header.newest_writer.0.to_le_bytes());
    for count in [header.column_count, header.row_count, header.capacity, header.deleted_count] {
        out.extend_from_slice(&count.to_le_bytes());
    }
    out.push(header.level);
    put_page_id(out, header.next);
}

fn put_image(out: &mut Vec<u8>, page: &PageBytes) {
    let map_at = out.len();
    out.extend_from_slice(&[0; MAP_BYTES]);
    for (index, block) in page.as_chunks::<BLOCK>().0.iter().enumerate() {
        if !is_zero(block) {
            out[map_at + index / 8] |= 1 << (index % 8);
            out.extend_from_slice(block);
        }
    }
}

fn put_row(out: &mut Vec<u8>, row: &RowImage) {
    put_number(out, row.column_count() as u64);
    for column in 0..row.column_count() {
        let mark = match row.value(column) {
            None => 0,
            Some(_) if row.is_pointer(column) => 1,
            Some(bytes) => bytes.len() as u64 + 2,
        };
        put_number(out, mark);
    }
    // NULLs have no bytes, so all of the row's bytes are those of its values.
    out.extend_from_slice(row.bytes());
}

/// Encodes a change that puts a row at a position.
fn put_row_at(out: &mut Vec<u8>, kind: u8, place: u16, writer: Stamp, row: &RowImage) {
    out.push(kind);
    out.extend_from_slice(&place.to_le_bytes());
    put_number(out, writer.0);
    put_row(out, row);
}

impl RowImage {
    /// Appends the row's bytes to `out`: those of its values, and one or two for each value. A row without columns,
    /// which no table has, would not decode.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_row(out, self);
    }
}

impl PageChange {
    /// Appends the change's bytes to `out`: a few more than those of its row, at most 33 more than those of its page. A
    /// row without columns, which no table has, would not decode.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            PageChange::Format { header } => {
                out.push(kind::FORMAT);
                put_header(out, header);
            }
            PageChange::Image { bytes } => {
                out.push(kind::IMAGE);
                put_image(out, bytes);
            }
            PageChange::AppendRow { row, writer } => {
                out.push(kind::APPEND_ROW);
                put_number(out, writer.0);
                put_row(out, row);
            }
            PageChange::RemoveLastRow { writer } => {
                out.push(kind::REMOVE_LAST_ROW);
                put_number(out, writer.0);
            }
            PageChange::SetDeleted { slot, deleted, writer } => {
                out.push(kind::SET_DELETED);
                out.extend_from_slice(&slot.0.to_le_bytes());
                out.push(u8::from(*deleted));
                put_number(out, writer.0);
            }
            PageChange::Write { offset, bytes } => {
                out.push(kind::WRITE);
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(bytes);
            }
            PageChange::SetHeader { header } => {
                out.push(kind::SET_HEADER);
                put_header(out, header);
            }
            PageChange::ReplaceRow { slot, row, writer } => {
                put_row_at(out, kind::REPLACE_ROW, slot.0, *writer, row);
            }
            PageChange::InsertRow { position, row, writer } => {
                put_row_at(out, kind::INSERT_ROW, *position, *writer, row);
            }
            PageChange::RemoveRow { position, writer } => {
                out.push(kind::REMOVE_ROW);
                out.extend_from_slice(&position.to_le_bytes());
                put_number(out, writer.0);
            }
            PageChange::KeepRows { from, to, drop_deleted, writer } => {
                out.push(kind::KEEP_ROWS);
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
                out.push(u8::from(*drop_deleted));
                put_number(out, writer.0);
            }
            PageChange::InsertEntry { position, key, child } => {
                out.push(kind::INSERT_ENTRY);
                out.extend_from_slice(&position.to_le_bytes());
                put_page_id(out, *child);
                out.extend_from_slice(key);
            }
            PageChange::RemoveEntry { position } => {
                out.push(kind::REMOVE_ENTRY);
                out.extend_from_slice(&position.to_le_bytes());
            }
            PageChange::SetLeftmost { child } => {
                out.push(kind::SET_LEFTMOST);
                put_page_id(out, *child);
            }
            PageChange::KeepEntries { from, to } => {
                out.push(kind::KEEP_ENTRIES);
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
        }
    }

    /// Decodes a change that takes up all of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a change.
    pub fn decode(bytes: &[u8]) -> Result<PageChange, EncodingDamage> {
        let mut reader = EncodingReader(bytes);
        let change = match reader.u8()? {
            kind::FORMAT => PageChange::Format { header: reader.header()? },
            kind::IMAGE => PageChange::Image { bytes: reader.image()? },
            kind::APPEND_ROW => {
                let writer = reader.stamp()?;
                PageChange::AppendRow { row: reader.row()?, writer }
            }
            kind::REMOVE_LAST_ROW => PageChange::RemoveLastRow { writer: reader.stamp()? },
            kind::SET_DELETED => {
                let slot = SlotId(reader.u16()?);
                PageChange::SetDeleted { slot, deleted: reader.flag()?, writer: reader.stamp()? }
            }
            kind::WRITE => {
                let offset = reader.u16()?;
                PageChange::Write { offset, bytes: reader.rest().to_vec() }
            }
            kind::SET_HEADER => PageChange::SetHeader { header: reader.header()? },
            kind::REPLACE_ROW => {
                let (slot, writer) = (SlotId(reader.u16()?), reader.stamp()?);
                PageChange::ReplaceRow { slot, row: reader.row()?, writer }
            }
            kind::INSERT_ROW => {
                let (position, writer) = (reader.u16()?, reader.stamp()?);
                PageChange::InsertRow { position, row: reader.row()?, writer }
            }
            kind::REMOVE_ROW => PageChange::RemoveRow { position: reader.u16()?, writer: reader.stamp()? },
            kind::KEEP_ROWS => {
                let (from, to) = (reader.u16()?, reader.u16()?);
                PageChange::KeepRows { from, to, drop_deleted: reader.flag()?, writer: reader.stamp()? }
            }
            kind::INSERT_ENTRY => {
                let (position, child) = (reader.u16()?, reader.page_id()?);
                PageChange::InsertEntry { position, key: reader.rest().to_vec(), child }
            }
            kind::REMOVE_ENTRY => PageChange::RemoveEntry { position: reader.u16()? },
            kind::SET_LEFTMOST => PageChange::SetLeftmost { child: reader.page_id()? },
            kind::KEEP_ENTRIES => PageChange::KeepEntries { from: reader.u16()?, to: reader.u16()? },
            _ => return Err(EncodingDamage { rule: "its kind" }),
        };
        reader.end()?;
        Ok(change)
    }
}

/// The number of a physical type. It is in logs.
const fn physical_number(physical: PhysicalType) -> u8 {
    match physical {
        PhysicalType::Fixed1 => 0,
        PhysicalType::Fixed2 => 1,
        PhysicalType::Fixed4 => 2,
        PhysicalType::Fixed8 => 3,
        PhysicalType::Fixed16 => 4,
        PhysicalType::Variable => 5,
    }
}

/// The bit of a column that may be NULL.
const NULLABLE: u8 = 8;

impl RowLayout {
    /// Appends the layout's bytes to `out`: one for each column and at most three more.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_ordered()));
        put_number(out, self.columns().len() as u64);
        out.extend(
            self.columns()
                .iter()
                .map(|column| physical_number(column.physical) | if column.nullable { NULLABLE } else { 0 }),
        );
    }

    /// Decodes a layout that takes up all of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a layout.
    pub fn decode(bytes: &[u8]) -> Result<RowLayout, EncodingDamage> {
        let mut reader = EncodingReader(bytes);
        let is_ordered = reader.flag()?;
        let count = reader.column_count()?;
        let column = |byte: &u8| {
            let physical = match byte & !NULLABLE {
                0 => PhysicalType::Fixed1,
                1 => PhysicalType::Fixed2,
                2 => PhysicalType::Fixed4,
                3 => PhysicalType::Fixed8,
                4 => PhysicalType::Fixed16,
                5 => PhysicalType::Variable,
                _ => return Err(EncodingDamage { rule: "the physical type of a column" }),
            };
            Ok(ColumnLayout { physical, nullable: byte & NULLABLE != 0 })
        };
        let columns = reader.bytes(count)?.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        reader.end()?;
        let layout = RowLayout::new(columns);
        Ok(if is_ordered { layout.ordered() } else { layout })
    }
}
