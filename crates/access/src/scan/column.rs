//! Columns of many rows, copied from pages: the buffers that an Arrow array is made of.
//!
//! A vector owns its memory. Nothing refers to a page after [`ColumnVector::append_page`] returns. Deleted rows are
//! left out. Values that are not in their rows are fetched. The longer ones keep the memory into which they were
//! fetched.

use hobt_base::PageId;
use hobt_page::{PageDamage, RowPage, StoredValue};
use hobt_types::PhysicalType;

use crate::{AccessError, LargeValues};

/// The type of a vector's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// The page's own width.
    Native,
    /// 128-bit integers, widened from four or eight bytes: Arrow's decimals.
    WidenedTo128,
}

/// The values of a vector.
#[derive(Clone, Debug)]
pub enum VectorData {
    /// One byte each.
    U8(Vec<u8>),
    /// Two bytes each, signed.
    I16(Vec<i16>),
    /// Four bytes each: integers, dates or the bits of `real`.
    I32(Vec<i32>),
    /// Eight bytes each: integers, times or the bits of `float`.
    I64(Vec<i64>),
    /// Sixteen bytes each: decimals.
    I128(Vec<i128>),
    /// Sixteen bytes each, in order: `uniqueidentifier`.
    Bytes16(Vec<u8>),
    /// Variable-length values.
    Views {
        /// Arrow's view words: length, then twelve bytes or prefix, buffer 0 and offset.
        views: Vec<u128>,
        /// The bytes that longer values point into.
        bytes: Vec<u8>,
        /// Buffers from 1 on: each is a value that was not in its row.
        large: Vec<Vec<u8>>,
        /// Whether every byte is ASCII.
        is_ascii: bool,
    },
}

/// One column of a batch.
#[derive(Clone, Debug)]
pub struct ColumnVector {
    /// The column's index in the table.
    pub column: usize,
    /// The values.
    pub data: VectorData,
    /// Validity bits, lowest first, 1 for a value; empty while there is no NULL.
    pub validity: Vec<u8>,
    /// How many are NULL.
    pub null_count: usize,
    rows: usize,
    /// Bytes of the values that have buffers of their own.
    large_bytes: usize,
}

/// Values up to this length are stored in their view.
const INLINE_MAX: usize = 12;
/// Fetched values from this length on keep a buffer of their own.
const OWN_BUFFER_MIN: usize = 4096;
/// The greatest offset of a view.
const OFFSET_MAX: usize = i32::MAX as usize;

impl ColumnVector {
    /// An empty vector of a column.
    ///
    /// `guid` says that sixteen-byte values are not integers.
    pub fn new(column: usize, physical: PhysicalType, kind: ColumnKind, guid: bool) -> ColumnVector {
        let data = match (physical, kind) {
            (PhysicalType::Fixed4 | PhysicalType::Fixed8, ColumnKind::WidenedTo128) => VectorData::I128(Vec::new()),
            (PhysicalType::Fixed1, _) => VectorData::U8(Vec::new()),
            (PhysicalType::Fixed2, _) => VectorData::I16(Vec::new()),
            (PhysicalType::Fixed4, _) => VectorData::I32(Vec::new()),
            (PhysicalType::Fixed8, _) => VectorData::I64(Vec::new()),
            (PhysicalType::Fixed16, _) if guid => VectorData::Bytes16(Vec::new()),
            (PhysicalType::Fixed16, _) => VectorData::I128(Vec::new()),
            (PhysicalType::Variable, _) => {
                VectorData::Views { views: Vec::new(), bytes: Vec::new(), large: Vec::new(), is_ascii: true }
            }
        };
        ColumnVector { column, data, validity: Vec::new(), null_count: 0, rows: 0, large_bytes: 0 }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of values that are not stored in their views, including fetched values.
    pub fn value_bytes(&self) -> usize {
        match &self.data {
            VectorData::Views { bytes, .. } => bytes.len() + self.large_bytes,
            _ => 0,
        }
    }

    /// An empty vector of the same column with capacity for as much as this one holds, so that the next batch need not
    /// grow.
    pub fn next(&self) -> ColumnVector {
        let rows = self.rows;
        let data = match &self.data {
            VectorData::U8(_) => VectorData::U8(Vec::with_capacity(rows)),
            VectorData::I16(_) => VectorData::I16(Vec::with_capacity(rows)),
            VectorData::I32(_) => VectorData::I32(Vec::with_capacity(rows)),
            VectorData::I64(_) => VectorData::I64(Vec::with_capacity(rows)),
            VectorData::I128(_) => VectorData::I128(Vec::with_capacity(rows)),
            VectorData::Bytes16(values) => VectorData::Bytes16(Vec::with_capacity(values.len())),
            VectorData::Views { bytes, .. } => VectorData::Views {
                views: Vec::with_capacity(rows),
                bytes: Vec::with_capacity(bytes.len()),
                large: Vec::new(),
                is_ascii: true,
            },
        };
        ColumnVector { column: self.column, data, validity: Vec::new(), null_count: 0, rows: 0, large_bytes: 0 }
    }

    /// Adds the live rows of a page. Blocks if values have to be fetched.
    ///
    /// # Errors
    /// The page's end offsets contradict each other, or a value cannot be fetched.
    pub fn append_page(&mut self, id: PageId, page: &RowPage<'_>, values: &dyn LargeValues) -> Result<(), AccessError> {
        if page.deleted_count() > 0 || (page.has_pointers() && matches!(self.data, VectorData::Views { .. })) {
            return self.append_live(id, page, values);
        }
        self.append_whole(page).map_err(|damage| values.damaged(id, damage))
    }

    /// Adds a page without deleted rows whose values are all in their rows.
    fn append_whole(&mut self, page: &RowPage<'_>) -> Result<(), PageDamage> {
        let rows = page.row_count();
        match &mut self.data {
            VectorData::Views { views, bytes, is_ascii, .. } => {
                append_views(page, self.column, views, bytes, is_ascii)?;
            }
            data => append_fixed(data, page.fixed(self.column), rows),
        }
        let nulls = page.null_count(self.column);
        if nulls > 0 {
            let bits = page.validity(self.column).ok_or(PageDamage::Structure { rule: "NULL in a NOT NULL column" })?;
            if count_zeros(bits, rows) != nulls {
                return Err(PageDamage::Structure { rule: "null count of a column" });
            }
            self.push_bits(bits, rows);
            self.null_count += nulls;
        } else if !self.validity.is_empty() {
            self.push_valid(rows);
        }
        self.rows += rows;
        Ok(())
    }

    /// The slow method, for a page with deleted rows or pointers.
    fn append_live(&mut self, id: PageId, page: &RowPage<'_>, values: &dyn LargeValues) -> Result<(), AccessError> {
        let mut live = (0..page.row_count()).filter(|&slot| !page.is_deleted(slot));
        live.try_for_each(|slot| self.append_slot(id, page, slot, values))
    }

    fn append_slot(
        &mut self,
        id: PageId,
        page: &RowPage<'_>,
        slot: usize,
        values: &dyn LargeValues,
    ) -> Result<(), AccessError> {
        let damaged = |damage| values.damaged(id, damage);
        let value = page.stored(self.column, slot).map_err(damaged)?;
        match (&mut self.data, value) {
            (VectorData::Views { views, bytes, large, is_ascii }, StoredValue::Pointer(pointer)) => {
                let fetched = values.fetch(&pointer)?;
                *is_ascii &= fetched.is_ascii();
                if fetched.len() >= OWN_BUFFER_MIN {
                    self.large_bytes += fetched.len();
                }
                push_fetched(fetched, views, bytes, large).map_err(damaged)?;
            }
            (VectorData::Views { views, bytes, is_ascii, .. }, value) => {
                let value = if let StoredValue::InRow(value) = value { value } else { &[] };
                *is_ascii &= value.is_ascii();
                push_view(value, views, bytes).map_err(damaged)?;
            }
            (data, value) => {
                let zeros = [0; 16];
                let width = page.row_layout().columns()[self.column].physical.width().expect("a fixed-length column");
                let value = if let StoredValue::InRow(value) = value { value } else { &zeros[..width] };
                append_fixed(data, value, 1);
            }
        }
        if value == StoredValue::Null {
            self.push_bits(&[0], 1);
            self.null_count += 1;
        } else if !self.validity.is_empty() {
            self.push_valid(1);
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds rows of a page by their slots, in this order. Blocks if values have to be fetched.
    ///
    /// # Errors
    /// As [`ColumnVector::append_page`].
    ///
    /// # Panics
    /// If a slot is not in use.
    pub fn append_slots(
        &mut self,
        id: PageId,
        page: &RowPage<'_>,
        slots: &[usize],
        values: &dyn LargeValues,
    ) -> Result<(), AccessError> {
        if slots.len() == page.row_count() && slots.iter().enumerate().all(|(place, &slot)| place == slot) {
            return self.append_page(id, page, values);
        }
        let has_nulls = page.null_count(self.column) > 0;
        if has_nulls || matches!(self.data, VectorData::Views { .. }) {
            return slots.iter().try_for_each(|&slot| self.append_slot(id, page, slot, values));
        }
        let (bytes, count) = (page.fixed(self.column), page.row_count());
        append_chosen(&mut self.data, bytes, bytes.len() / count.max(1), slots);
        if !self.validity.is_empty() {
            self.push_valid(slots.len());
        }
        self.rows += slots.len();
        Ok(())
    }

    /// Adds a value that is not from a column of a page.
    ///
    /// # Errors
    /// There are more than 2 GiB of values.
    ///
    /// # Panics
    /// If the vector is not one of variable length.
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<(), PageDamage> {
        let VectorData::Views { views, bytes, is_ascii, .. } = &mut self.data else {
            panic!("a vector of values of variable length");
        };
        *is_ascii &= value.is_ascii();
        push_view(value, views, bytes)?;
        if !self.validity.is_empty() {
            self.push_valid(1);
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds `count` bits. If there are no bits yet, those of earlier rows are made first.
    fn push_bits(&mut self, bits: &[u8], count: usize) {
        if self.validity.is_empty() && self.rows > 0 {
            self.validity = vec![0xFF; self.rows.div_ceil(8)];
            self.clear_tail(self.rows);
        }
        append_bits(&mut self.validity, self.rows, bits, count);
    }

    fn push_valid(&mut self, count: usize) {
        let ones = vec![0xFF; count.div_ceil(8)];
        append_bits(&mut self.validity, self.rows, &ones, count);
    }

    fn clear_tail(&mut self, rows: usize) {
        if !rows.is_multiple_of(8) {
            self.validity[rows / 8] &= (1 << (rows % 8)) - 1;
        }
    }
}

/// How many of the first `count` bits are 0.
fn count_zeros(bits: &[u8], count: usize) -> usize {
    let whole: u32 = bits[..count / 8].iter().map(|byte| byte.count_zeros()).sum();
    let rest = if count.is_multiple_of(8) { 0 } else { (!bits[count / 8] << (8 - count % 8)).count_ones() };
    (whole + rest) as usize
}

/// Appends the low `count` bits of `bits` behind `length` bits of `target`; bits behind the end are 0.
fn append_bits(target: &mut Vec<u8>, length: usize, bits: &[u8], count: usize) {
    let shift = length % 8;
    target.resize((length + count).div_ceil(8), 0);
    let start = length / 8;
    for (index, &byte) in bits.iter().enumerate().take(count.div_ceil(8)) {
        let left = count - index * 8;
        let byte = if left < 8 { byte & ((1 << left) - 1) } else { byte };
        target[start + index] |= byte << shift;
        if shift > 0 && start + index + 1 < target.len() {
            target[start + index + 1] |= byte >> (8 - shift);
        }
    }
}

fn append_fixed(data: &mut VectorData, bytes: &[u8], rows: usize) {
    match data {
        VectorData::U8(values) => values.extend_from_slice(bytes),
        VectorData::Bytes16(values) => values.extend_from_slice(bytes),
        VectorData::I16(values) => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i16::from_le_bytes(chunk))),
        VectorData::I32(values) => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i32::from_le_bytes(chunk))),
        VectorData::I64(values) => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i64::from_le_bytes(chunk))),
        VectorData::I128(values) => match bytes.len() / rows.max(1) {
            4 => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i128::from(i32::from_le_bytes(chunk)))),
            8 => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i128::from(i64::from_le_bytes(chunk)))),
            _ => values.extend(bytes.as_chunks().0.iter().map(|&chunk| i128::from_le_bytes(chunk))),
        },
        VectorData::Views { .. } => unreachable!("a variable-length column has views"),
    }
}

/// As [`append_fixed`], for the values of some slots.
///
/// # Panics
/// If a slot is behind the last value.
fn append_chosen(data: &mut VectorData, bytes: &[u8], width: usize, slots: &[usize]) {
    /// The values in slots of a column whose values are `N` bytes long.
    fn chosen<const N: usize>(bytes: &[u8], slots: &[usize]) -> impl Iterator<Item = [u8; N]> {
        let values = bytes.as_chunks::<N>().0;
        slots.iter().map(|&slot| values[slot])
    }
    match data {
        VectorData::U8(values) => values.extend(slots.iter().map(|&slot| bytes[slot])),
        VectorData::Bytes16(values) => chosen::<16>(bytes, slots).for_each(|value| values.extend_from_slice(&value)),
        VectorData::I16(values) => values.extend(chosen(bytes, slots).map(i16::from_le_bytes)),
        VectorData::I32(values) => values.extend(chosen(bytes, slots).map(i32::from_le_bytes)),
        VectorData::I64(values) => values.extend(chosen(bytes, slots).map(i64::from_le_bytes)),
        VectorData::I128(values) => match width {
            4 => values.extend(chosen(bytes, slots).map(|value| i128::from(i32::from_le_bytes(value)))),
            8 => values.extend(chosen(bytes, slots).map(|value| i128::from(i64::from_le_bytes(value)))),
            _ => values.extend(chosen(bytes, slots).map(i128::from_le_bytes)),
        },
        VectorData::Views { .. } => unreachable!("a variable-length column has views"),
    }
}

fn append_views(
    page: &RowPage<'_>,
    column: usize,
    views: &mut Vec<u128>,
    bytes: &mut Vec<u8>,
    is_ascii: &mut bool,
) -> Result<(), PageDamage> {
    let damage = PageDamage::Structure { rule: "end offsets of a variable-length column" };
    let area = &page.variable(column)[..page.variable_used(column)];
    *is_ascii &= page.is_ascii(column);
    let base = bytes.len();
    if base + area.len() > OFFSET_MAX {
        return Err(PageDamage::Structure { rule: "a batch of more than 2 GiB of text" });
    }
    // Up to the page's end, so that the bytes behind a short value can be read with it.
    let [_, (area_start, _)] = page.extents(column);
    let rest = page.bytes().get(area_start..).ok_or(damage)?;
    let (mut start, mut has_long, mut is_sound) = (0, false, true);
    let views_of = page.ends(column).iter().map(|end| {
        let end = usize::from(u16::from_le_bytes(*end));
        // Ends that fall or lie outside make an error below.
        is_sound &= start <= end && end <= area.len();
        let length = if is_sound { end - start } else { 0 };
        let view = match rest.get(start..).and_then(|rest| rest.first_chunk()) {
            Some(chunk) if length <= INLINE_MAX => short_view(*chunk, length),
            _ => {
                has_long |= length > INLINE_MAX;
                view_of(area.get(start..start + length).unwrap_or_default(), 0, base + start)
            }
        };
        start = end;
        view
    });
    views.extend(views_of);
    if !is_sound {
        return Err(damage);
    }
    if has_long {
        bytes.extend_from_slice(area);
    }
    Ok(())
}

/// Arrow's view of the first bytes of a chunk, at most as many as a view can hold.
#[inline(always)]
fn short_view(chunk: [u8; 16], length: usize) -> u128 {
    let mask = (1u128 << (8 * length)) - 1;
    (u128::from_le_bytes(chunk) & mask) << 32 | length as u128
}

fn push_view(value: &[u8], views: &mut Vec<u128>, bytes: &mut Vec<u8>) -> Result<(), PageDamage> {
    let base = bytes.len();
    if base + value.len() > OFFSET_MAX {
        return Err(PageDamage::Structure { rule: "a batch of more than 2 GiB of text" });
    }
    if value.len() > INLINE_MAX {
        bytes.extend_from_slice(value);
    }
    views.push(view_of(value, 0, base));
    Ok(())
}

/// Adds a fetched value. A long one keeps its buffer.
fn push_fetched(
    value: Vec<u8>,
    views: &mut Vec<u128>,
    bytes: &mut Vec<u8>,
    large: &mut Vec<Vec<u8>>,
) -> Result<(), PageDamage> {
    if value.len() < OWN_BUFFER_MIN {
        return push_view(&value, views, bytes);
    }
    let buffer = u32::try_from(large.len() + 1).expect("a batch has fewer rows");
    views.push(view_of(&value, buffer, 0));
    large.push(value);
    Ok(())
}

/// Arrow's view of a value at `offset` of a buffer.
fn view_of(value: &[u8], buffer: u32, offset: usize) -> u128 {
    let length = value.len() as u128;
    if value.len() <= INLINE_MAX {
        let mut inline = [0u8; 16];
        inline[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(inline) | length;
    }
    let prefix = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
    length | u128::from(prefix) << 32 | u128::from(buffer) << 64 | (offset as u128) << 96
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::*;

    #[test]
    fn bits_are_appended_at_any_place() {
        let mut random = SplitMix64::new(3);
        for _ in 0..200 {
            let mut expected = Vec::new();
            let mut target = Vec::new();
            for _ in 0..20 {
                let count = random.below(30) as usize;
                let bits: Vec<u8> = (0..count.div_ceil(8)).map(|_| random.below(256) as u8).collect();
                append_bits(&mut target, expected.len(), &bits, count);
                expected.extend((0..count).map(|bit| bits[bit / 8] >> (bit % 8) & 1 == 1));
            }
            let got: Vec<bool> = (0..expected.len()).map(|bit| target[bit / 8] >> (bit % 8) & 1 == 1).collect();
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn views_hold_short_values_and_point_to_long_ones() {
        let view = view_of(b"abc", 5, 99).to_le_bytes();
        assert_eq!(&view[..8], [3, 0, 0, 0, b'a', b'b', b'c', 0]);
        let view = view_of(b"abcdefghijklm", 3, 0x0102).to_le_bytes();
        assert_eq!(view, [13, 0, 0, 0, b'a', b'b', b'c', b'd', 3, 0, 0, 0, 2, 1, 0, 0]);
    }
}
