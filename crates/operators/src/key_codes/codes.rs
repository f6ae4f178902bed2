//! Numbers for the distinct values of a column, counted from 1 as they come; 0 is NULL.
//!
//! A value that is known costs one look into a table: by the value itself where integers lie close together, by a hash
//! of it otherwise. A short text is one number, its view, and is compared as such.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray,
    FixedSizeBinaryArray, PrimitiveArray, StringViewArray, StringViewBuilder, new_null_array,
};
use arrow::compute::concat;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{DataFusionError, internal_datafusion_err};
use hobt_access::scan::PageRows;
use hobt_access::{AccessError, LargeValues};
use hobt_base::{PAGE_SIZE, PageId};
use hobt_page::{PageBytes, PageDamage, RowPage, StoredValue};
use hobt_types::{PhysicalType, SqlType};

/// The code of NULL.
pub(super) const NULL: u32 = 0;
/// Integers in a range of so many numbers are looked up without a hash.
const DENSE_MAX: usize = 1 << 16;
/// The bytes that a view holds itself.
const INLINE_MAX: usize = 12;

/// The distinct values of a column.
pub(crate) struct Codes {
    data_type: DataType,
    table: Table,
}

enum Table {
    /// Integers, days, floats as bits, booleans.
    Numbers(Numbers),
    /// Values of sixteen bytes.
    Wide(Hashed<i128>),
    Texts(Texts),
}

impl Codes {
    /// No values yet; `None` for a type whose values are not known here.
    pub(crate) fn of(data_type: &DataType) -> Option<Codes> {
        use DataType as D;
        let table = match data_type {
            D::Boolean | D::UInt8 | D::UInt16 | D::UInt32 | D::UInt64 => Table::Numbers(Numbers::default()),
            D::Int16 | D::Int32 | D::Int64 | D::Date32 | D::Float32 | D::Float64 => Table::Numbers(Numbers::default()),
            D::Decimal128(..) | D::FixedSizeBinary(16) => Table::Wide(Hashed::default()),
            D::Utf8View | D::BinaryView => Table::Texts(Texts::default()),
            _ => return None,
        };
        Some(Codes { data_type: data_type.clone(), table })
    }

    /// How many codes there are, with that of NULL.
    pub(crate) fn count(&self) -> usize {
        1 + match &self.table {
            Table::Numbers(numbers) => numbers.values.len(),
            Table::Wide(hashed) => hashed.values.len(),
            Table::Texts(texts) => texts.spans.len(),
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.table {
            Table::Numbers(numbers) => 4 * numbers.dense.len() + 8 * numbers.values.capacity() + numbers.hashed.bytes(),
            Table::Wide(hashed) => hashed.bytes(),
            Table::Texts(texts) => texts.hashed.bytes() + texts.bytes.capacity() + 8 * texts.spans.capacity(),
        }
    }

    /// Replaces `codes` by the code of each row.
    ///
    /// # Errors
    /// The array is not of the column's type.
    pub(crate) fn read(&mut self, array: &ArrayRef, codes: &mut Vec<u32>) -> Result<(), DataFusionError> {
        use DataType as D;
        if array.data_type() != &self.data_type {
            return Err(internal_datafusion_err!("{} where {} is grouped", array.data_type(), self.data_type));
        }
        codes.clear();
        codes.reserve(array.len());
        match (&mut self.table, &self.data_type) {
            (Table::Texts(texts), D::Utf8View) => texts.read(array.as_string_view(), codes),
            (Table::Texts(texts), _) => texts.read(array.as_binary_view(), codes),
            (Table::Wide(hashed), D::Decimal128(..)) => {
                let array = array.as_primitive::<Decimal128Type>();
                codes.extend(array.values().iter().map(|value| hashed.code(*value)));
            }
            (Table::Wide(hashed), _) => {
                let bytes = array.as_fixed_size_binary().value_data().as_chunks::<16>().0;
                codes.extend(bytes.iter().map(|value| hashed.code(i128::from_le_bytes(*value))));
            }
            (Table::Numbers(numbers), D::Boolean) => {
                codes.extend(array.as_boolean().values().iter().map(|value| numbers.code(i64::from(value))));
            }
            (Table::Numbers(numbers), D::UInt8) => numbers.read::<UInt8Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::UInt16) => numbers.read::<UInt16Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::UInt32) => numbers.read::<UInt32Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::UInt64) => numbers.read::<UInt64Type>(array, u64::cast_signed, codes),
            (Table::Numbers(numbers), D::Int16) => numbers.read::<Int16Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::Int32) => numbers.read::<Int32Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::Date32) => numbers.read::<Date32Type>(array, i64::from, codes),
            (Table::Numbers(numbers), D::Float32) => {
                numbers.read::<Float32Type>(array, |value| i64::from(value.to_bits()), codes);
            }
            (Table::Numbers(numbers), D::Float64) => {
                numbers.read::<Float64Type>(array, |value| value.to_bits().cast_signed(), codes);
            }
            (Table::Numbers(numbers), _) => numbers.read::<Int64Type>(array, |value| value, codes),
        }
        // The value under a NULL has a code by now, which is not a code of the column.
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            codes.iter_mut().zip(nulls.iter()).for_each(|(code, valid)| *code *= u32::from(valid));
        }
        Ok(())
    }

    /// Whether values of a column of this type can be read from its pages.
    pub(crate) fn reads_pages(sql_type: SqlType) -> bool {
        // Of floats, zeros with either sign are one value.
        !matches!(sql_type, SqlType::Real | SqlType::Float)
    }

    /// As [`Codes::read`], of rows of a page. Blocks if values have to be fetched.
    ///
    /// # Errors
    /// The page is damaged, or a value cannot be fetched.
    pub(crate) fn read_page(
        &mut self,
        (id, page, column): (PageId, &RowPage<'_>, usize),
        rows: PageRows<'_>,
        values: &dyn LargeValues,
        codes: &mut Vec<u32>,
    ) -> Result<(), AccessError> {
        codes.clear();
        match (&mut self.table, page.row_layout().columns()[column].physical) {
            (Table::Texts(texts), _) => texts.read_page((id, page, column), rows, values, codes)?,
            (Table::Wide(hashed), PhysicalType::Fixed16) => {
                each_of(page, column, rows, |value| codes.push(hashed.code(i128::from_le_bytes(value))));
            }
            (Table::Wide(hashed), _) => {
                each_number(page, column, rows, |number| codes.push(hashed.code(i128::from(number))));
            }
            (Table::Numbers(numbers), _) => each_number(page, column, rows, |number| codes.push(numbers.code(number))),
        }
        if page.null_count(column) > 0 {
            codes.iter_mut().zip(rows.slots()).for_each(|(code, slot)| *code *= u32::from(!page.is_null(column, slot)));
        }
        Ok(())
    }

    /// The values by their codes: a NULL, and then the others.
    ///
    /// # Errors
    /// Arrow refuses the values.
    pub(crate) fn values(&self) -> Result<ArrayRef, DataFusionError> {
        use DataType as D;
        let values: ArrayRef = match (&self.table, &self.data_type) {
            (Table::Texts(texts), D::Utf8View) => Arc::new(texts.as_texts()?),
            (Table::Texts(texts), _) => Arc::new(texts.as_binaries()),
            (Table::Wide(hashed), D::Decimal128(precision, scale)) => {
                let array = PrimitiveArray::<Decimal128Type>::from_iter_values(hashed.values.iter().copied());
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            (Table::Wide(hashed), _) => {
                let bytes = hashed.values.iter().map(|value| value.to_le_bytes());
                let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.map(Some), 16)?;
                Arc::new(fixed)
            }
            (Table::Numbers(numbers), D::Boolean) => {
                Arc::new(BooleanArray::from_iter(numbers.values.iter().map(|value| Some(*value != 0))))
            }
            // The numbers are of the type, so the casts keep them.
            (Table::Numbers(numbers), D::UInt8) => numbers.array::<UInt8Type>(|value| value as u8),
            (Table::Numbers(numbers), D::UInt16) => numbers.array::<UInt16Type>(|value| value as u16),
            (Table::Numbers(numbers), D::UInt32) => numbers.array::<UInt32Type>(|value| value as u32),
            (Table::Numbers(numbers), D::UInt64) => numbers.array::<UInt64Type>(|value| value as u64),
            (Table::Numbers(numbers), D::Int16) => numbers.array::<Int16Type>(|value| value as i16),
            (Table::Numbers(numbers), D::Int32) => numbers.array::<Int32Type>(|value| value as i32),
            (Table::Numbers(numbers), D::Date32) => numbers.array::<Date32Type>(|value| value as i32),
            (Table::Numbers(numbers), D::Float32) => numbers.array::<Float32Type>(|value| f32::from_bits(value as u32)),
            (Table::Numbers(numbers), D::Float64) => numbers.array::<Float64Type>(|value| f64::from_bits(value as u64)),
            (Table::Numbers(numbers), _) => numbers.array::<Int64Type>(|value| value),
        };
        Ok(concat(&[&new_null_array(&self.data_type, 1), &values])?)
    }
}

/// Shows the values of a column of fixed length.
#[inline(always)]
fn each_of<const N: usize>(page: &RowPage<'_>, column: usize, rows: PageRows<'_>, mut show: impl FnMut([u8; N])) {
    let values = page.fixed(column).as_chunks::<N>().0;
    match rows {
        PageRows::All(count) => values[..count].iter().for_each(|&value| show(value)),
        PageRows::Slots(slots) => slots.iter().for_each(|&slot| show(values[slot])),
    }
}

/// [`each_of`] a column of up to eight bytes.
#[inline(always)]
fn each_number(page: &RowPage<'_>, column: usize, rows: PageRows<'_>, mut show: impl FnMut(i64)) {
    match page.row_layout().columns()[column].physical {
        PhysicalType::Fixed1 => each_of(page, column, rows, |[byte]| show(i64::from(byte))),
        PhysicalType::Fixed2 => each_of(page, column, rows, |value| show(i64::from(i16::from_le_bytes(value)))),
        PhysicalType::Fixed4 => each_of(page, column, rows, |value| show(i64::from(i32::from_le_bytes(value)))),
        _ => each_of(page, column, rows, |value| show(i64::from_le_bytes(value))),
    }
}

/// Numbers of up to 64 bits.
#[derive(Default)]
struct Numbers {
    values: Vec<i64>,
    /// The codes of the numbers from `low` on, 0 where there is none yet. Empty once the numbers are too far apart.
    dense: Vec<u32>,
    low: i64,
    is_hashed: bool,
    hashed: Hashed<i64>,
    /// Of the values that are hashed.
    least: i64,
    greatest: i64,
}

impl Numbers {
    #[inline(always)]
    fn read<T: ArrowPrimitiveType>(
        &mut self,
        array: &ArrayRef,
        number: impl Fn(T::Native) -> i64,
        codes: &mut Vec<u32>,
    ) {
        codes.extend(array.as_primitive::<T>().values().iter().map(|value| self.code(number(*value))));
    }

    #[inline(always)]
    fn code(&mut self, value: i64) -> u32 {
        // A number below the least wraps round to a place behind the end.
        let place = value.wrapping_sub(self.low).cast_unsigned();
        match usize::try_from(place).ok().and_then(|place| self.dense.get(place)) {
            Some(&code) if code != NULL => code,
            _ => self.other_code(value),
        }
    }

    /// The code of a number that is new, or is not in the dense table.
    #[cold]
    fn new_code(&mut self, value: i64) -> u32 {
        self.values.push(value);
        // A column with so many values is given up long before.
        let code = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let (low, high) = match self.dense.len() {
            0 => (value, value),
            count => (self.low.min(value), self.low.saturating_add(count as i64 - 1).max(value)),
        };
        match usize::try_from(high.abs_diff(low)) {
            Ok(span) if span < DENSE_MAX || span / 8 < self.values.len() => {
                // Twice as far as needed on the side that grows, so that this is rare.
                let low =
                    if value < self.low && !self.dense.is_empty() { low.saturating_sub(span as i64) } else { low };
                let count = (high.abs_diff(low) as usize + 1).next_power_of_two();
                let mut dense = vec![NULL; count];
                for (code, value) in (1..).zip(&self.values) {
                    dense[value.abs_diff(low) as usize] = code;
                }
                (self.dense, self.low) = (dense, low);
            }
            _ => {
                (self.dense, self.is_hashed) = (Vec::new(), true);
                self.hashed = Hashed::default();
                self.values.iter().for_each(|value| _ = self.hashed.code(*value));
                self.least = self.values.iter().copied().min().unwrap_or(value);
                self.greatest = self.values.iter().copied().max().unwrap_or(value);
            }
        }
        code
    }

    fn other_code(&mut self, value: i64) -> u32 {
        if !self.is_hashed {
            let place = value.wrapping_sub(self.low).cast_unsigned();
            if let Some(code) = usize::try_from(place).ok().and_then(|place| self.dense.get_mut(place)) {
                self.values.push(value);
                *code = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                return *code;
            }
            return self.new_code(value);
        }
        let code = self.hashed.code(value);
        if code as usize > self.values.len() {
            self.values.push(value);
            (self.least, self.greatest) = (self.least.min(value), self.greatest.max(value));
            if self.values.len().is_power_of_two() {
                self.try_dense();
            }
        }
        code
    }

    /// Goes on without a hash if the numbers, many by now, have come to lie close together.
    fn try_dense(&mut self) {
        let span = usize::try_from(self.greatest.abs_diff(self.least)).unwrap_or(usize::MAX);
        if self.values.len() < DENSE_MAX / 8 || span / 8 > self.values.len() {
            return;
        }
        let mut dense = vec![NULL; (span + 1).next_power_of_two()];
        for (code, value) in (1..).zip(&self.values) {
            dense[value.abs_diff(self.least) as usize] = code;
        }
        (self.dense, self.low, self.is_hashed) = (dense, self.least, false);
        self.hashed = Hashed::default();
    }

    fn array<T: ArrowPrimitiveType>(&self, value: impl Fn(i64) -> T::Native) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(self.values.iter().map(|number| value(*number))))
    }
}

/// A number that a hash table has.
trait Number: Copy + PartialEq {
    fn mixed(self) -> u64;
}

impl Number for i64 {
    #[inline(always)]
    fn mixed(self) -> u64 {
        mix(self.cast_unsigned())
    }
}

impl Number for i128 {
    #[inline(always)]
    fn mixed(self) -> u64 {
        // The whole product of the halves, folded: each bit of it depends on all bits of both, so that texts that
        // differ in their last characters alone are spread, too.
        let (low, high) = (self as u64 ^ 0x9E37_79B9_7F4A_7C15, (self >> 64) as u64 ^ 0xC2B2_AE3D_27D4_EB4F);
        let product = u128::from(low) * u128::from(high);
        mix((product as u64) ^ ((product >> 64) as u64))
    }
}

/// Spreads the bits of a number over its upper half.
#[inline(always)]
pub(super) fn mix(number: u64) -> u64 {
    let product = u128::from(number ^ 0x2545_F491_4F6C_DD1D) * 0x9E37_79B9_7F4A_7C15;
    (product as u64) ^ ((product >> 64) as u64)
}

/// A hash table from numbers to codes: open addressing, at most half full. A slot is a code and half of a hash, so that
/// the table is small, and a number is looked at only where the hash is the same.
#[derive(Default)]
struct Hashed<N> {
    slots: Vec<(u32, u32)>,
    values: Vec<N>,
}

impl<N: Number> Hashed<N> {
    /// The code of a number, which it gets if it has none.
    #[inline(always)]
    fn code(&mut self, value: N) -> u32 {
        self.code_if(value, |_| true)
    }

    /// As `code`, if numbers can be equal and their values not: `is_it` tells of a code.
    #[inline(always)]
    fn code_if(&mut self, value: N, is_it: impl Fn(u32) -> bool) -> u32 {
        if 2 * self.values.len() >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mixed = value.mixed();
        let (mut at, half) = (mixed as usize & mask, (mixed >> 32) as u32);
        loop {
            let (known, code) = self.slots[at];
            if code == NULL {
                self.values.push(value);
                let code = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                self.slots[at] = (half, code);
                return code;
            }
            if known == half && self.values[code as usize - 1] == value && is_it(code) {
                return code;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let count = (4 * self.values.len()).max(64).next_power_of_two();
        let mut slots = vec![(0, NULL); count];
        for (code, value) in (1..).zip(&self.values) {
            let mixed = value.mixed();
            let mut at = mixed as usize & (count - 1);
            while slots[at].1 != NULL {
                at = (at + 1) & (count - 1);
            }
            slots[at] = ((mixed >> 32) as u32, code);
        }
        self.slots = slots;
    }

    fn bytes(&self) -> usize {
        self.slots.len() * size_of::<(u32, u32)>() + self.values.capacity() * size_of::<N>()
    }
}

/// The bits of a value of so many bytes.
const SHORT: [u128; INLINE_MAX + 1] = {
    let mut masks = [0; INLINE_MAX + 1];
    let mut length = 1;
    while length <= INLINE_MAX {
        masks[length] = masks[length - 1] << 8 | 0xFF;
        length += 1;
    }
    masks
};

/// Texts and binaries.
#[derive(Default)]
struct Texts {
    /// By the view of a short value, and the length and a hash of a long one.
    hashed: Hashed<i128>,
    bytes: Vec<u8>,
    /// Where each value begins and ends in `bytes`, by its code less 1.
    spans: Vec<(usize, usize)>,
    /// The codes of values of one byte; empty before there is one.
    ones: Vec<u32>,
}

/// An array of views.
trait Views {
    fn views(&self) -> &[u128];
    fn bytes(&self, row: usize) -> &[u8];
}

impl Views for StringViewArray {
    fn views(&self) -> &[u128] {
        StringViewArray::views(self)
    }

    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row).as_bytes()
    }
}

impl Views for BinaryViewArray {
    fn views(&self) -> &[u128] {
        BinaryViewArray::views(self)
    }

    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

impl Texts {
    fn read(&mut self, array: &impl Views, codes: &mut Vec<u32>) {
        let Texts { hashed, bytes, spans, .. } = self;
        codes.extend(array.views().iter().enumerate().map(|(row, &view)| {
            let length = view as u32 as usize;
            let code = if length <= INLINE_MAX {
                hashed.code(view.cast_signed())
            } else {
                let value = array.bytes(row);
                let known = |code: u32| {
                    let (start, end) = spans[code as usize - 1];
                    bytes[start..end] == *value
                };
                hashed.code_if(long_number(value), known)
            };
            if code as usize > spans.len() {
                let start = bytes.len();
                bytes.extend_from_slice(array.bytes(row));
                spans.push((start, bytes.len()));
            }
            code
        }));
    }

    fn read_page(
        &mut self,
        (id, page, column): (PageId, &RowPage<'_>, usize),
        rows: PageRows<'_>,
        values: &dyn LargeValues,
        codes: &mut Vec<u32>,
    ) -> Result<(), AccessError> {
        if page.has_pointers() {
            for slot in rows.slots() {
                codes.push(match page.stored(column, slot).map_err(|damage| values.damaged(id, damage))? {
                    StoredValue::Null => NULL,
                    StoredValue::InRow(value) => self.code(value),
                    StoredValue::Pointer(pointer) => self.code(&values.fetch(&pointer)?),
                });
            }
            return Ok(());
        }
        if !page.ends_are_ordered(column) {
            let damage = PageDamage::Structure { rule: "end offsets of a variable-length column" };
            return Err(values.damaged(id, damage));
        }
        let [_, (area, _)] = page.extents(column);
        let ends = page.ends(column);
        let end_of = |slot: usize| area + usize::from(u16::from_le_bytes(ends[slot]));
        match rows {
            PageRows::All(count) => {
                let mut start = area;
                codes.extend(ends[..count].iter().map(|end| {
                    let end = area + usize::from(u16::from_le_bytes(*end));
                    let code = self.code_at(page.bytes(), start, end);
                    start = end;
                    code
                }));
            }
            PageRows::Slots(slots) => codes.extend(slots.iter().map(|&slot| {
                let start = if slot == 0 { area } else { end_of(slot - 1) };
                self.code_at(page.bytes(), start, end_of(slot))
            })),
        }
        Ok(())
    }

    /// The code of the value between two places of a page.
    #[inline(always)]
    fn code_at(&mut self, page: &PageBytes, start: usize, end: usize) -> u32 {
        let length = end - start;
        if length == 1 {
            let byte = page[start];
            return match self.ones.get(usize::from(byte)) {
                Some(&code) if code != NULL => code,
                _ => self.code_of_one(byte),
            };
        }
        if length > INLINE_MAX {
            return self.code(&page[start..end]);
        }
        // All sixteen bytes that begin there, or those before them at the end of the page.
        let from = start.min(PAGE_SIZE - 16);
        let word = page[from..].first_chunk().map_or(0, |word| u128::from_le_bytes(*word));
        let bits = word.unbounded_shr(8 * (start - from) as u32) & SHORT[length];
        let code = self.hashed.code((bits << 32 | length as u128).cast_signed());
        if code as usize > self.spans.len() {
            self.add(&page[start..end]);
        }
        code
    }

    #[cold]
    fn code_of_one(&mut self, byte: u8) -> u32 {
        self.ones.resize(256, NULL);
        let code = self.code(&[byte]);
        self.ones[usize::from(byte)] = code;
        code
    }

    /// The code of a value of any length.
    fn code(&mut self, value: &[u8]) -> u32 {
        let Texts { hashed, bytes, spans, .. } = self;
        let code = if value.len() <= INLINE_MAX {
            let mut view = [0; 16];
            view[4..4 + value.len()].copy_from_slice(value);
            hashed.code((u128::from_le_bytes(view) | value.len() as u128).cast_signed())
        } else {
            let known = |code: u32| {
                let (start, end) = spans[code as usize - 1];
                bytes[start..end] == *value
            };
            hashed.code_if(long_number(value), known)
        };
        if code as usize > self.spans.len() {
            self.add(value);
        }
        code
    }

    fn add(&mut self, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.spans.push((start, self.bytes.len()));
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|&(start, end)| &self.bytes[start..end])
    }

    fn as_texts(&self) -> Result<StringViewArray, DataFusionError> {
        let mut builder = StringViewBuilder::with_capacity(self.spans.len());
        for value in self.values() {
            let text = std::str::from_utf8(value).map_err(|error| internal_datafusion_err!("a text: {error}"))?;
            builder.append_value(text);
        }
        Ok(builder.finish())
    }

    fn as_binaries(&self) -> BinaryViewArray {
        let mut builder = BinaryViewBuilder::with_capacity(self.spans.len());
        self.values().for_each(|value| builder.append_value(value));
        builder.finish()
    }
}

/// The length of a long value and a hash of its bytes. No short value has this number, since its length is another.
fn long_number(value: &[u8]) -> i128 {
    let words = value.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let hash = words.fold(0, |hash, word| mix(hash ^ word));
    i128::from(value.len() as u32) | i128::from(hash) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Date32Array, Float64Array, Int32Array, Int64Array, UInt8Array};
    use hobt_base::SplitMix64;

    /// Reads arrays of one type, and checks that rows have equal codes exactly if they have equal values.
    fn check(arrays: &[ArrayRef]) {
        let mut codes = Codes::of(arrays[0].data_type()).expect("a type of keys");
        let mut all = Vec::new();
        for array in arrays {
            let mut read = Vec::new();
            codes.read(array, &mut read).unwrap();
            all.extend(read);
        }
        let values = codes.values().unwrap();
        assert_eq!(values.len(), codes.count());
        let places = arrow::array::UInt32Array::from(all);
        let shown = arrow::compute::take(&values, &places, None).unwrap();
        let whole = concat(&arrays.iter().map(|array| array.as_ref() as &dyn Array).collect::<Vec<_>>()).unwrap();
        assert_eq!(&shown, &whole);
        let mut seen = std::collections::HashSet::new();
        assert!((1..values.len()).all(|at| seen.insert(format!("{:?}", values.slice(at, 1)))), "no value twice");
    }

    #[test]
    fn each_value_has_one_code_and_each_code_one_value() {
        let mut random = SplitMix64::new(8);
        for spread in [3, 300, 70_000, u64::MAX] {
            let mut number = || random.below(spread).cast_signed();
            let some = |number: i64| (number % 7 != 0).then_some(number);
            let longs = |count: usize, number: &mut dyn FnMut() -> i64| -> Vec<Option<i64>> {
                (0..count).map(|_| some(number())).collect()
            };
            let arrays: Vec<ArrayRef> =
                (0..4).map(|_| Arc::new(Int64Array::from(longs(500, &mut number))) as ArrayRef).collect();
            check(&arrays);
            for to in [DataType::Int32, DataType::Date32, DataType::UInt8, DataType::Float64, DataType::Utf8View] {
                let to_narrow = |array: &ArrayRef| {
                    let narrow = arrow::compute::cast(array, &DataType::Int32).unwrap();
                    arrow::compute::cast(&narrow, &to).unwrap()
                };
                let narrow: Vec<ArrayRef> = arrays.iter().map(to_narrow).collect();
                check(&narrow);
            }
        }
        let ends: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![i64::MAX, 0, i64::MIN, -1])),
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MIN + 1, 5])),
        ];
        check(&ends);
        check(&[Arc::new(Int32Array::from(vec![100, 90, 200, 1, -60_000, 5000])) as ArrayRef]);
        check(&[Arc::new(UInt8Array::from(vec![Some(255), None, Some(0)])) as ArrayRef]);
        check(&[Arc::new(Date32Array::from(vec![None, None, Some(7)])) as ArrayRef]);
        check(&[Arc::new(Float64Array::from(vec![0.5, f64::INFINITY, -0.5, f64::MAX])) as ArrayRef]);
        check(&[Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])) as ArrayRef]);
    }

    /// Numbers and texts as columns have them must not meet in the same slots.
    #[test]
    fn keys_that_are_alike_are_spread() {
        let spread = |mixed: Vec<u64>| {
            let slots: std::collections::HashSet<u64> = mixed.iter().map(|mixed| mixed & 2047).collect();
            slots.len() as f64 / mixed.len() as f64
        };
        let view = |text: String| {
            let mut view = [0; 16];
            view[4..4 + text.len()].copy_from_slice(text.as_bytes());
            (u128::from_le_bytes(view) | text.len() as u128).cast_signed()
        };
        // 600 of 2,048 slots by chance are 0.87 different ones.
        for form in ["City of ", "w", "", "x12345678"] {
            let mixed = (0..600).map(|number| view(format!("{form}{number}")).mixed()).collect();
            assert!(spread(mixed) > 0.8, "{form}");
        }
        for step in [1_i64, 100, 1 << 20, 1 << 33] {
            assert!(spread((0..600).map(|number| (number * step).mixed()).collect()) > 0.8, "{step}");
            assert!(spread((0..600).map(|number| i128::from(number * step).mixed()).collect()) > 0.8, "{step}");
        }
    }

    #[test]
    fn texts_are_told_apart_by_all_their_bytes() {
        let texts =
            ["", "a", "a ", "exactly 12 b", "exactly 12 bX", "a text longer than a view", "a text longer than a vieW"];
        let rows: Vec<Option<&str>> = texts.iter().chain(&texts).map(|text| Some(*text)).chain([None]).collect();
        check(&[Arc::new(StringViewArray::from(rows)) as ArrayRef]);
        let long: Vec<Vec<u8>> = (0..100u8).map(|end| [&[7; 8000][..], &[end]].concat()).collect();
        let binaries = BinaryArray::from_iter_values(long.iter().chain(&long));
        check(&[arrow::compute::cast(&binaries, &DataType::BinaryView).unwrap()]);
    }

    #[test]
    fn values_of_sixteen_bytes_have_codes() {
        let numbers = vec![Some(i128::MAX / 10), Some(-1), None, Some(0), Some(-1), Some(1 << 64)];
        let decimals = PrimitiveArray::<Decimal128Type>::from(numbers).with_precision_and_scale(38, 2).unwrap();
        check(&[Arc::new(decimals) as ArrayRef]);
        let guids = [[1u8; 16], [2; 16], [1; 16]].into_iter().map(Some);
        check(&[Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(guids, 16).unwrap()) as ArrayRef]);
    }
}
