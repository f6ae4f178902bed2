//! Ungrouped aggregates computed directly on pages, without an intermediate batch.
//!
//! An expression is evaluated for all rows of a page at once into a vector of 64-bit integers. The arrays of a PAX page
//! are already vectors, so nothing is gathered. Overflow is detected by vector operations and checked once a page.
//! Which row overflowed matters only if NULL or deleted rows are present: overflows in these do not count. On a page
//! with pointers text is read value by value, and fetched if it is not in its row.

use hobt_page::{PageDamage, RowPage, StoredValue};
use hobt_types::{Collation, PhysicalType};

use super::NextPage;
use super::formula::{PageRows, read_column};
use super::kernels::Kernels;
use super::text_extreme::TextExtreme;
use crate::{AccessError, LargeValues};

/// The range of a result: that of an integer type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IntegerWidth {
    /// `tinyint`: 0 to 255.
    Unsigned8,
    /// `smallint`
    Signed16,
    /// `int`
    Signed32,
    /// `bigint`
    Signed64,
}

/// The expression that is computed for each row: an integer, or the digits of a decimal, a day, a time as it is stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScanExpression {
    /// A column of up to eight bytes whose values have the order of their integers.
    Column(usize),
    /// A constant.
    Literal(i64),
    /// `left + right`, `left - right` or `left * right`.
    Arithmetic {
        /// The operation.
        operation: Arithmetic,
        /// The left operand.
        left: Box<ScanExpression>,
        /// The right operand.
        right: Box<ScanExpression>,
        /// The type of the result.
        width: IntegerWidth,
    },
    /// `LEN` of a text column: UTF-16 units without trailing spaces.
    Length(usize),
}

impl ScanExpression {
    fn add_columns(&self, columns: &mut Vec<usize>) {
        match self {
            ScanExpression::Column(column) | ScanExpression::Length(column) => columns.push(*column),
            ScanExpression::Literal(_) => {}
            ScanExpression::Arithmetic { left, right, .. } => {
                left.add_columns(columns);
                right.add_columns(columns);
            }
        }
    }
}

/// An operation that [`ScanExpression`] knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// An aggregate over all rows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ScanAggregate {
    /// `COUNT(*)`
    CountRows,
    /// `COUNT(column)`
    CountColumn(usize),
    /// `MIN` of an integer.
    Min(ScanExpression),
    /// `MAX` of an integer.
    Max(ScanExpression),
    /// `SUM` of an integer.
    Sum(ScanExpression),
    /// `MIN` of a text column.
    MinText(usize, Collation),
    /// `MAX` of a text column.
    MaxText(usize, Collation),
}

impl ScanAggregate {
    /// Whether it can be computed of some rows of a page.
    pub fn takes_slots(&self) -> bool {
        match self {
            ScanAggregate::CountRows | ScanAggregate::CountColumn(_) => true,
            ScanAggregate::MinText(..) | ScanAggregate::MaxText(..) => true,
            ScanAggregate::Min(expression) | ScanAggregate::Max(expression) | ScanAggregate::Sum(expression) => {
                matches!(expression, ScanExpression::Column(_))
            }
        }
    }

    /// The column that it reads, if it is one.
    pub fn column(&self) -> Option<usize> {
        match self {
            ScanAggregate::CountColumn(column)
            | ScanAggregate::MinText(column, _)
            | ScanAggregate::MaxText(column, _)
            | ScanAggregate::Min(ScanExpression::Column(column))
            | ScanAggregate::Max(ScanExpression::Column(column))
            | ScanAggregate::Sum(ScanExpression::Column(column)) => Some(*column),
            _ => None,
        }
    }
}

/// The result of an aggregate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AggregateValue {
    /// Rows counted.
    Count(u64),
    /// The least or greatest, `None` without rows.
    Extreme(Option<i64>),
    /// The sum and how many values are in it.
    Sum(i128, u64),
    /// The least or greatest text, `None` without rows.
    Text(Option<String>),
}

/// Why a page could not be aggregated.
#[derive(Debug)]
pub enum AggregateError {
    /// The page contradicts its layout.
    Damaged(PageDamage),
    /// A result does not fit its type: error 8115.
    Overflow(IntegerWidth),
    /// A value that is not in its row could not be fetched.
    Fetch(AccessError),
}

impl From<PageDamage> for AggregateError {
    fn from(damage: PageDamage) -> AggregateError {
        AggregateError::Damaged(damage)
    }
}

/// The aggregates of one worker.
#[derive(Debug)]
pub struct Aggregator {
    aggregates: Vec<ScanAggregate>,
    /// The columns that each aggregate is the first to read.
    columns: Vec<Vec<usize>>,
    values: Vec<AggregateValue>,
    text: Vec<Option<TextExtreme>>,
    scratch: Vec<Vec<i64>>,
    live: Vec<u8>,
    kernels: Kernels,
}

impl Aggregator {
    /// Aggregates that have seen no row.
    pub fn new(aggregates: Vec<ScanAggregate>) -> Aggregator {
        let start = |aggregate: &ScanAggregate| match aggregate {
            ScanAggregate::CountRows | ScanAggregate::CountColumn(_) => AggregateValue::Count(0),
            ScanAggregate::Min(_) | ScanAggregate::Max(_) => AggregateValue::Extreme(None),
            ScanAggregate::Sum(_) => AggregateValue::Sum(0, 0),
            ScanAggregate::MinText(..) | ScanAggregate::MaxText(..) => AggregateValue::Text(None),
        };
        let text = |aggregate: &ScanAggregate| match aggregate {
            ScanAggregate::MinText(_, collation) => Some(TextExtreme::new(*collation, false)),
            ScanAggregate::MaxText(_, collation) => Some(TextExtreme::new(*collation, true)),
            _ => None,
        };
        Aggregator {
            columns: first_columns(&aggregates),
            values: aggregates.iter().map(start).collect(),
            text: aggregates.iter().map(text).collect(),
            aggregates,
            scratch: Vec::new(),
            live: Vec::new(),
            kernels: Kernels::new(),
        }
    }

    /// The results of the aggregates, in order.
    pub fn into_values(mut self) -> Vec<AggregateValue> {
        for (value, text) in self.values.iter_mut().zip(self.text) {
            if let (AggregateValue::Text(result), Some(text)) = (value, text) {
                *result = text.into_best();
            }
        }
        self.values
    }

    /// Adds a page's live rows, and prefetches each aggregate's columns of the next page meanwhile. Blocks if text that
    /// is not in its row has to be fetched.
    ///
    /// # Errors
    /// The page is damaged, a result overflows, or a value cannot be fetched.
    pub fn add_page(
        &mut self,
        page: &RowPage<'_>,
        next: Option<&NextPage<'_>>,
        values: &dyn LargeValues,
    ) -> Result<(), AggregateError> {
        for index in 0..self.aggregates.len() {
            if let Some(next) = next {
                let ends_are_enough = matches!(&self.aggregates[index], ScanAggregate::Max(ScanExpression::Length(_)));
                for &column in &self.columns[index] {
                    if ends_are_enough { next.fetch_ends(page, column) } else { next.fetch(page, column) }
                }
            }
            self.add(index, page, values)?;
        }
        Ok(())
    }

    /// Adds the rows in `slots` of a page. Blocks if text that is not in its row has to be fetched.
    ///
    /// # Errors
    /// As [`Aggregator::add_page`].
    ///
    /// # Panics
    /// If an aggregate is not one [`ScanAggregate::takes_slots`] is true of.
    pub fn add_slots(
        &mut self,
        page: &RowPage<'_>,
        slots: &[usize],
        values: &dyn LargeValues,
    ) -> Result<(), AggregateError> {
        if self.scratch.is_empty() {
            self.scratch.push(Vec::new());
        }
        let numbers = &mut self.scratch[0];
        for ((aggregate, value), text) in self.aggregates.iter().zip(&mut self.values).zip(&mut self.text) {
            match (aggregate, value) {
                (ScanAggregate::CountRows, AggregateValue::Count(count)) => *count += slots.len() as u64,
                (ScanAggregate::CountColumn(column), AggregateValue::Count(count)) => {
                    let nulls = match page.null_count(*column) {
                        0 => 0,
                        _ => slots.iter().filter(|&&slot| page.is_null(*column, slot)).count(),
                    };
                    *count += (slots.len() - nulls) as u64;
                }
                (ScanAggregate::Min(ScanExpression::Column(column)), AggregateValue::Extreme(best)) => {
                    *best = lesser(*best, numbers_in(page, *column, slots, numbers).min());
                }
                (ScanAggregate::Max(ScanExpression::Column(column)), AggregateValue::Extreme(best)) => {
                    *best = (*best).max(numbers_in(page, *column, slots, numbers).max());
                }
                (ScanAggregate::Sum(ScanExpression::Column(column)), AggregateValue::Sum(sum, count)) => {
                    for number in numbers_in(page, *column, slots, numbers) {
                        *sum += i128::from(number);
                        *count += 1;
                    }
                }
                (ScanAggregate::MinText(column, _) | ScanAggregate::MaxText(column, _), AggregateValue::Text(_)) => {
                    let text = text.as_mut().expect("made with its aggregate");
                    text.add_slots((page, values), *column, slots)?;
                }
                _ => panic!("an aggregate that takes whole pages"),
            }
        }
        Ok(())
    }

    fn add(&mut self, index: usize, page: &RowPage<'_>, values: &dyn LargeValues) -> Result<(), AggregateError> {
        let aggregate = &self.aggregates[index];
        match (aggregate, &mut self.values[index]) {
            (ScanAggregate::CountRows, AggregateValue::Count(count)) => {
                *count += (page.row_count() - page.deleted_count()) as u64;
            }
            (ScanAggregate::CountColumn(column), AggregateValue::Count(count)) => {
                *count += (page.row_count() - page.deleted_count() - page.null_count(*column)) as u64;
            }
            (ScanAggregate::Max(ScanExpression::Length(column)), AggregateValue::Extreme(Some(best)))
                if longest_value(self.kernels, page, *column).is_some_and(|bytes| bytes <= *best) => {}
            (ScanAggregate::Max(ScanExpression::Column(column)), AggregateValue::Extreme(best))
                if is_plain(page, *column) =>
            {
                *best = (*best).max(self.kernels.max(words(page, *column)));
            }
            (ScanAggregate::Max(ScanExpression::Column(column)), AggregateValue::Extreme(best))
                if is_plain_narrow(page, *column) =>
            {
                *best = (*best).max(self.kernels.max_narrow(page.fixed(*column).as_chunks().0));
            }
            (ScanAggregate::Min(ScanExpression::Column(column)), AggregateValue::Extreme(best))
                if is_plain(page, *column) =>
            {
                *best = lesser(*best, self.kernels.min(words(page, *column)));
            }
            (ScanAggregate::Min(ScanExpression::Column(column)), AggregateValue::Extreme(best))
                if is_plain_narrow(page, *column) =>
            {
                *best = lesser(*best, self.kernels.min_narrow(page.fixed(*column).as_chunks().0));
            }
            (ScanAggregate::Sum(ScanExpression::Column(column)), AggregateValue::Sum(sum, count))
                if is_plain_narrow(page, *column) =>
            {
                *sum += i128::from(self.kernels.sum_narrow(page.fixed(*column).as_chunks().0));
                *count += page.row_count() as u64;
            }
            (ScanAggregate::Max(expression), AggregateValue::Extreme(best))
                if plain_sum(expression, page).is_some() =>
            {
                let (left, right) = plain_sum(expression, page).expect("asked above");
                let (found, overflowed) = self.kernels.max_of_sums(words(page, left), words(page, right));
                if overflowed {
                    return Err(AggregateError::Overflow(IntegerWidth::Signed64));
                }
                *best = (*best).max(found);
            }
            (ScanAggregate::Sum(ScanExpression::Column(column)), AggregateValue::Sum(sum, count))
                if is_plain(page, *column) =>
            {
                *sum += self.kernels.sum(words(page, *column));
                *count += page.row_count() as u64;
            }
            (ScanAggregate::Min(expression), AggregateValue::Extreme(best)) => {
                let rows = evaluate(expression, (page, values), &mut self.scratch, &mut self.live)?;
                fold(&self.scratch[0], rows, &self.live, best, i64::min);
            }
            (ScanAggregate::Max(expression), AggregateValue::Extreme(best)) => {
                let rows = evaluate(expression, (page, values), &mut self.scratch, &mut self.live)?;
                fold(&self.scratch[0], rows, &self.live, best, i64::max);
            }
            (ScanAggregate::Sum(expression), AggregateValue::Sum(sum, count)) => {
                let rows = evaluate(expression, (page, values), &mut self.scratch, &mut self.live)?;
                add_sum(&self.scratch[0], rows, &self.live, sum, count);
            }
            (ScanAggregate::MinText(column, _) | ScanAggregate::MaxText(column, _), AggregateValue::Text(_)) => {
                let text = self.text[index].as_mut().expect("made with its aggregate");
                text.add_page((page, values), *column, self.kernels)?;
            }
            _ => unreachable!("values are made from their aggregates"),
        }
        Ok(())
    }
}

/// The numbers of a column in `slots`, without NULLs; `numbers` is overwritten.
fn numbers_in<'s>(
    page: &'s RowPage<'_>,
    column: usize,
    slots: &'s [usize],
    numbers: &'s mut Vec<i64>,
) -> impl Iterator<Item = i64> + 's {
    numbers.clear();
    read_column(page, column, PageRows::Slots(slots), numbers);
    let has_nulls = page.null_count(column) > 0;
    let numbers = numbers.iter().zip(slots).filter(move |&(_, &slot)| !has_nulls || !page.is_null(column, slot));
    numbers.map(|(&number, _)| number)
}

/// For each aggregate the columns that no earlier one reads.
fn first_columns(aggregates: &[ScanAggregate]) -> Vec<Vec<usize>> {
    let mut seen = Vec::new();
    let mut first = Vec::new();
    for aggregate in aggregates {
        let mut columns = Vec::new();
        match aggregate {
            ScanAggregate::CountRows | ScanAggregate::CountColumn(_) => {}
            ScanAggregate::Min(expression) | ScanAggregate::Max(expression) | ScanAggregate::Sum(expression) => {
                expression.add_columns(&mut columns);
            }
            ScanAggregate::MinText(column, _) | ScanAggregate::MaxText(column, _) => columns.push(*column),
        }
        columns.sort_unstable();
        columns.dedup();
        columns.retain(|column| !seen.contains(column));
        seen.extend(&columns);
        first.push(columns);
    }
    first
}

/// Whether a column is an array of 64-bit integers all of which count.
fn is_plain(page: &RowPage<'_>, column: usize) -> bool {
    page.row_layout().columns()[column].physical == PhysicalType::Fixed8
        && page.null_count(column) == 0
        && page.deleted_count() == 0
}

/// As [`is_plain`], of 32-bit integers.
fn is_plain_narrow(page: &RowPage<'_>, column: usize) -> bool {
    page.row_layout().columns()[column].physical == PhysicalType::Fixed4
        && page.null_count(column) == 0
        && page.deleted_count() == 0
}

/// The lesser of two numbers, or the one that there is.
fn lesser(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// The values of a column of 64-bit integers, straight from the page.
fn words<'a>(page: &RowPage<'a>, column: usize) -> &'a [[u8; 8]] {
    page.fixed(column).as_chunks().0
}

/// The columns of an expression that is the sum of two plain ones.
fn plain_sum(expression: &ScanExpression, page: &RowPage<'_>) -> Option<(usize, usize)> {
    let ScanExpression::Arithmetic { operation: Arithmetic::Add, left, right, width: IntegerWidth::Signed64 } =
        expression
    else {
        return None;
    };
    match (&**left, &**right) {
        (ScanExpression::Column(left), ScanExpression::Column(right)) => {
            (is_plain(page, *left) && is_plain(page, *right)).then_some((*left, *right))
        }
        _ => None,
    }
}

/// A page, and access to the values that are not in its rows.
pub(super) type PageAndValues<'a, 'b> = (&'a RowPage<'b>, &'a dyn LargeValues);

/// An upper bound of `LEN` over a page's values of a text column: bytes, including trailing spaces. `None` if the page
/// has to be read value by value.
fn longest_value(kernels: Kernels, page: &RowPage<'_>, column: usize) -> Option<i64> {
    if page.has_pointers() {
        return longest_stored(page, column);
    }
    let (longest, ordered) = kernels.longest(page.ends(column));
    ordered.then(|| i64::from(longest))
}

/// As [`longest_value`], for a page with pointers, which have the lengths of their values.
fn longest_stored(page: &RowPage<'_>, column: usize) -> Option<i64> {
    (0..page.row_count()).try_fold(0, |longest: i64, row| {
        let length = match page.stored(column, row).ok()? {
            StoredValue::Null => 0,
            StoredValue::InRow(bytes) => bytes.len(),
            StoredValue::Pointer(pointer) => pointer.length,
        };
        Some(longest.max(i64::try_from(length).ok()?))
    })
}

/// Shows the text of each row of a page with pointers that is neither deleted nor NULL.
pub(super) fn for_each_text(
    (page, values): PageAndValues<'_, '_>,
    column: usize,
    mut visit: impl FnMut(usize, &[u8]) -> Result<(), AggregateError>,
) -> Result<(), AggregateError> {
    for row in (0..page.row_count()).filter(|&row| !page.is_deleted(row)) {
        match page.stored(column, row)? {
            StoredValue::Null => {}
            StoredValue::InRow(bytes) => visit(row, bytes)?,
            StoredValue::Pointer(pointer) => visit(row, &values.fetch(&pointer).map_err(AggregateError::Fetch)?)?,
        }
    }
    Ok(())
}

/// Which rows of an evaluated vector count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    /// Those whose bit is set in the vector of live rows.
    Live,
}

/// Evaluates `expression` for the page's rows into `scratch[0]`; fills `live` when some rows do not count.
fn evaluate(
    expression: &ScanExpression,
    page: PageAndValues<'_, '_>,
    scratch: &mut Vec<Vec<i64>>,
    live: &mut Vec<u8>,
) -> Result<Rows, AggregateError> {
    let rows = live_rows(expression, page.0, live);
    evaluate_into(expression, page, scratch, (rows, live), 0)?;
    Ok(rows)
}

/// The rows that are not deleted and have no NULL in a column of the expression.
fn live_rows(expression: &ScanExpression, page: &RowPage<'_>, live: &mut Vec<u8>) -> Rows {
    let mut columns = Vec::new();
    nullable_columns(expression, page, &mut columns);
    if columns.is_empty() && page.deleted_count() == 0 {
        return Rows::All;
    }
    live.clear();
    live.extend(page.deleted().iter().map(|byte| !byte));
    if !page.row_count().is_multiple_of(8) {
        let last = live.len() - 1;
        live[last] &= (1 << (page.row_count() % 8)) - 1;
    }
    for column in columns {
        if let Some(bits) = page.validity(column) {
            live.iter_mut().zip(bits).for_each(|(live, valid)| *live &= valid);
        }
    }
    Rows::Live
}

fn nullable_columns(expression: &ScanExpression, page: &RowPage<'_>, columns: &mut Vec<usize>) {
    match expression {
        ScanExpression::Column(column) | ScanExpression::Length(column) => {
            if page.null_count(*column) > 0 || (page.deleted_count() > 0 && page.validity(*column).is_some()) {
                columns.push(*column);
            }
        }
        ScanExpression::Literal(_) => {}
        ScanExpression::Arithmetic { left, right, .. } => {
            nullable_columns(left, page, columns);
            nullable_columns(right, page, columns);
        }
    }
}

fn evaluate_into(
    expression: &ScanExpression,
    (page, values): PageAndValues<'_, '_>,
    scratch: &mut Vec<Vec<i64>>,
    live: (Rows, &[u8]),
    depth: usize,
) -> Result<(), AggregateError> {
    if scratch.len() <= depth {
        scratch.resize_with(depth + 1, Vec::new);
    }
    match expression {
        ScanExpression::Column(column) => {
            scratch[depth].clear();
            read_column(page, *column, PageRows::All(page.row_count()), &mut scratch[depth]);
        }
        ScanExpression::Literal(value) => {
            scratch[depth].clear();
            scratch[depth].resize(page.row_count(), *value);
        }
        ScanExpression::Length(column) => {
            scratch[depth].clear();
            lengths((page, values), *column, &mut scratch[depth])?;
        }
        ScanExpression::Arithmetic { operation, left, right, width } => {
            evaluate_into(left, (page, values), scratch, live, depth)?;
            evaluate_into(right, (page, values), scratch, live, depth + 1)?;
            let (low, high) = scratch.split_at_mut(depth + 1);
            if !combine(*operation, *width, &mut low[depth], &high[0]) {
                check_rows(*operation, *width, live, (page, values), scratch, (left, right), depth)?;
            }
        }
    }
    Ok(())
}

/// `left = left operation right`, wrapped; returns whether every result is in the range of its type.
fn combine(operation: Arithmetic, width: IntegerWidth, left: &mut [i64], right: &[i64]) -> bool {
    let mut outside = 0i64;
    match operation {
        Arithmetic::Add => {
            for (a, &b) in left.iter_mut().zip(right) {
                let sum = a.wrapping_add(b);
                outside |= (*a ^ sum) & (b ^ sum);
                *a = sum;
            }
        }
        Arithmetic::Subtract => {
            for (a, &b) in left.iter_mut().zip(right) {
                let difference = a.wrapping_sub(b);
                outside |= (*a ^ b) & (*a ^ difference);
                *a = difference;
            }
        }
        Arithmetic::Multiply => {
            for (a, &b) in left.iter_mut().zip(right) {
                let (product, overflow) = a.overflowing_mul(b);
                outside |= -i64::from(overflow);
                *a = product;
            }
        }
    }
    outside >= 0
        && (width == IntegerWidth::Signed64 || left.iter().fold(true, |inside, &value| inside & width.holds(value)))
}

impl IntegerWidth {
    /// Whether a value is in the type's range.
    pub fn holds(self, value: i64) -> bool {
        match self {
            IntegerWidth::Unsigned8 => u8::try_from(value).is_ok(),
            IntegerWidth::Signed16 => i16::try_from(value).is_ok(),
            IntegerWidth::Signed32 => i32::try_from(value).is_ok(),
            IntegerWidth::Signed64 => true,
        }
    }
}

/// Called when a result is out of range: an error if its row counts.
fn check_rows(
    operation: Arithmetic,
    width: IntegerWidth,
    (rows, live): (Rows, &[u8]),
    page: PageAndValues<'_, '_>,
    scratch: &mut Vec<Vec<i64>>,
    (left, right): (&ScanExpression, &ScanExpression),
    depth: usize,
) -> Result<(), AggregateError> {
    if rows == Rows::All {
        return Err(AggregateError::Overflow(width));
    }
    // The operands again: the first attempt has overwritten the left one.
    evaluate_into(left, page, scratch, (rows, live), depth)?;
    evaluate_into(right, page, scratch, (rows, live), depth + 1)?;
    let (low, high) = scratch.split_at_mut(depth + 1);
    for (row, (a, &b)) in low[depth].iter_mut().zip(&high[0]).enumerate() {
        let result = match operation {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Subtract => a.checked_sub(b),
            Arithmetic::Multiply => a.checked_mul(b),
        };
        match result.filter(|&value| width.holds(value)) {
            Some(value) => *a = value,
            None if live[row / 8] >> (row % 8) & 1 == 0 => *a = 0,
            None => return Err(AggregateError::Overflow(width)),
        }
    }
    Ok(())
}

/// `LEN` of every value of a text column.
fn lengths((page, values): PageAndValues<'_, '_>, column: usize, out: &mut Vec<i64>) -> Result<(), AggregateError> {
    if page.has_pointers() {
        out.resize(page.row_count(), 0);
        return for_each_text((page, values), column, |row, bytes| {
            out[row] = utf16_units(trim(bytes));
            Ok(())
        });
    }
    let area = text_area(page, column)?;
    let ascii = page.is_ascii(column);
    let mut start = 0;
    out.extend(page.ends(column).iter().map(|end| {
        let end = usize::from(u16::from_le_bytes(*end));
        let value = trim(&area[start..end]);
        start = end;
        if ascii { value.len() as i64 } else { utf16_units(value) }
    }));
    Ok(())
}

/// The bytes of a text column of a page without pointers, with valid end offsets.
fn text_area<'a>(page: &RowPage<'a>, column: usize) -> Result<&'a [u8], PageDamage> {
    if !page.ends_are_ordered(column) {
        return Err(PageDamage::Structure { rule: "end offsets of a variable-length column" });
    }
    Ok(&page.variable(column)[..page.variable_used(column)])
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b' '] = value {
        value = rest;
    }
    value
}

/// UTF-16 units of UTF-8 text: one a character, two for those beyond the basic plane.
fn utf16_units(value: &[u8]) -> i64 {
    value.iter().map(|&byte| i64::from(byte & 0xC0 != 0x80) + i64::from(byte >= 0xF0)).sum()
}

fn fold(values: &[i64], rows: Rows, live: &[u8], best: &mut Option<i64>, better: fn(i64, i64) -> i64) {
    let found = match rows {
        Rows::All => fold_all(values, better),
        Rows::Live => {
            let live = values.iter().enumerate().filter(|(row, _)| live[row / 8] >> (row % 8) & 1 == 1);
            live.map(|(_, &value)| value).reduce(better)
        }
    };
    if let Some(found) = found {
        *best = Some(best.map_or(found, |best| better(best, found)));
    }
}

fn fold_all(values: &[i64], better: fn(i64, i64) -> i64) -> Option<i64> {
    // Two loops in which the compiler sees the comparison: a call through the pointer would not become a vector loop.
    if better(0, 1) == 1 { values.iter().copied().max() } else { values.iter().copied().min() }
}

fn add_sum(values: &[i64], rows: Rows, live: &[u8], sum: &mut i128, count: &mut u64) {
    match rows {
        Rows::All => {
            *sum += sum_of(values.iter().copied());
            *count += values.len() as u64;
        }
        Rows::Live => {
            for (row, &value) in values.iter().enumerate() {
                if live[row / 8] >> (row % 8) & 1 == 1 {
                    *sum += i128::from(value);
                    *count += 1;
                }
            }
        }
    }
}

/// The exact sum of a page's values: in two halves, neither of which can overflow in a page.
fn sum_of(values: impl Iterator<Item = i64>) -> i128 {
    let (high, low) = values
        .fold((0i64, 0u64), |(high, low), value| (high + (value >> 32), low + (value.cast_unsigned() & 0xFFFF_FFFF)));
    (i128::from(high) << 32) + i128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_sees_every_overflow() {
        let mut left = vec![1, i64::MAX, 3];
        assert!(combine(Arithmetic::Add, IntegerWidth::Signed64, &mut left.clone(), &[1, 0, 1]));
        assert!(!combine(Arithmetic::Add, IntegerWidth::Signed64, &mut left.clone(), &[1, 1, 1]));
        assert!(!combine(Arithmetic::Subtract, IntegerWidth::Signed64, &mut left.clone(), &[0, -1, 0]));
        assert!(!combine(Arithmetic::Multiply, IntegerWidth::Signed64, &mut left, &[1, 2, 1]));
        assert!(!combine(Arithmetic::Add, IntegerWidth::Signed32, &mut [i64::from(i32::MAX)], &[1]));
        assert!(!combine(Arithmetic::Subtract, IntegerWidth::Unsigned8, &mut [0], &[1]));
    }

    #[test]
    fn sums_of_extremes_are_exact() {
        let values = vec![i64::MIN; 300];
        let (mut sum, mut count) = (0, 0);
        add_sum(&values, Rows::All, &[], &mut sum, &mut count);
        assert_eq!((sum, count), (i128::from(i64::MIN) * 300, 300));
        let (mut sum, mut count) = (0, 0);
        add_sum(&[i64::MAX; 300], Rows::All, &[], &mut sum, &mut count);
        assert_eq!((sum, count), (i128::from(i64::MAX) * 300, 300));
    }

    #[test]
    fn length_counts_utf16_units_without_trailing_spaces() {
        assert_eq!(utf16_units(trim("añ😀  ".as_bytes())), 4);
        assert_eq!(utf16_units(trim(b"   ")), 0);
    }
}
