//! An expression over the numbers of a page, for all of its rows or for some.
//!
//! It is computed in 64 bits, a column of values at a time. If one does not fit, the rows are computed again one by one
//! in 128 bits.

use hobt_page::RowPage;
use hobt_types::PhysicalType;

use super::aggregate::{Arithmetic, ScanExpression};

/// The rows of a page that are read.
#[derive(Clone, Copy, Debug)]
pub enum PageRows<'s> {
    /// All. None is deleted.
    All(usize),
    /// Those in these slots.
    Slots(&'s [usize]),
}

impl PageRows<'_> {
    /// How many they are.
    pub fn count(&self) -> usize {
        match self {
            PageRows::All(count) => *count,
            PageRows::Slots(slots) => slots.len(),
        }
    }

    /// The slot of each.
    pub fn slots(&self) -> impl Iterator<Item = usize> + '_ {
        let (all, some) = match self {
            PageRows::All(count) => (0..*count, &[][..]),
            PageRows::Slots(slots) => (0..0, *slots),
        };
        all.chain(some.iter().copied())
    }
}

/// An expression of columns of up to eight bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Formula {
    expression: ScanExpression,
    columns: Vec<usize>,
}

impl Formula {
    /// The formula of an expression; `None` if it reads texts.
    pub fn new(expression: ScanExpression) -> Option<Formula> {
        let mut columns = Vec::new();
        if !add_columns(&expression, &mut columns) {
            return None;
        }
        columns.sort_unstable();
        columns.dedup();
        Some(Formula { expression, columns })
    }

    /// The columns that it reads, in order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Replaces `out` by the values of rows. The value of a row with a NULL is some number. `false` if a value is not
    /// one of 64 bits; then `out` has nothing of use.
    pub fn read(&self, page: &RowPage<'_>, rows: PageRows<'_>, out: &mut Vec<i64>) -> bool {
        out.clear();
        self.expression.read(page, rows, out)
    }

    /// Replaces `valid` by whether each row has a value. `false`, and nothing, if no column has a NULL in the page.
    pub fn read_valid(&self, page: &RowPage<'_>, rows: PageRows<'_>, valid: &mut Vec<bool>) -> bool {
        let has_nulls = |column: &&usize| page.null_count(**column) > 0;
        if !self.columns.iter().any(|column| has_nulls(&column)) {
            return false;
        }
        valid.clear();
        valid.resize(rows.count(), true);
        for &column in self.columns.iter().filter(has_nulls) {
            for (valid, slot) in valid.iter_mut().zip(rows.slots()) {
                *valid &= !page.is_null(column, slot);
            }
        }
        true
    }

    /// The value of a row without a NULL; `None` if 128 bits do not hold it.
    pub fn wide(&self, page: &RowPage<'_>, slot: usize) -> Option<i128> {
        self.expression.wide(page, slot)
    }
}

fn add_columns(expression: &ScanExpression, columns: &mut Vec<usize>) -> bool {
    match expression {
        ScanExpression::Column(column) => columns.push(*column),
        ScanExpression::Literal(_) => {}
        ScanExpression::Length(_) => return false,
        ScanExpression::Arithmetic { left, right, .. } => {
            return add_columns(left, columns) && add_columns(right, columns);
        }
    }
    true
}

/// Shows the numbers of a column.
#[inline(always)]
fn extend<const N: usize>(bytes: &[u8], rows: PageRows<'_>, out: &mut Vec<i64>, number: impl Fn([u8; N]) -> i64) {
    let values = bytes.as_chunks::<N>().0;
    match rows {
        PageRows::All(count) => out.extend(values[..count].iter().map(|&value| number(value))),
        PageRows::Slots(slots) => out.extend(slots.iter().map(|&slot| number(values[slot]))),
    }
}

/// Appends the numbers of a column of up to eight bytes.
pub(super) fn read_column(page: &RowPage<'_>, column: usize, rows: PageRows<'_>, out: &mut Vec<i64>) {
    let bytes = page.fixed(column);
    match page.row_layout().columns()[column].physical {
        PhysicalType::Fixed1 => extend(bytes, rows, out, |[byte]| i64::from(byte)),
        PhysicalType::Fixed2 => extend(bytes, rows, out, |value| i64::from(i16::from_le_bytes(value))),
        PhysicalType::Fixed4 => extend(bytes, rows, out, |value| i64::from(i32::from_le_bytes(value))),
        PhysicalType::Fixed8 => extend(bytes, rows, out, i64::from_le_bytes),
        PhysicalType::Fixed16 | PhysicalType::Variable => unreachable!("a column of up to eight bytes"),
    }
}

impl ScanExpression {
    fn read(&self, page: &RowPage<'_>, rows: PageRows<'_>, out: &mut Vec<i64>) -> bool {
        match self {
            ScanExpression::Column(column) => read_column(page, *column, rows, out),
            ScanExpression::Literal(value) => out.resize(rows.count(), *value),
            ScanExpression::Length(_) => return false,
            ScanExpression::Arithmetic { operation, left, right, .. } => {
                return match (&**left, &**right) {
                    (ScanExpression::Literal(value), right) => {
                        right.read(page, rows, out) && with_one(*operation, out, |number| (*value, number))
                    }
                    (left, ScanExpression::Literal(value)) => {
                        left.read(page, rows, out) && with_one(*operation, out, |number| (number, *value))
                    }
                    (left, right) => {
                        let mut others = Vec::with_capacity(rows.count());
                        left.read(page, rows, out)
                            && right.read(page, rows, &mut others)
                            && combined(*operation, out, &others)
                    }
                };
            }
        }
        true
    }

    fn wide(&self, page: &RowPage<'_>, slot: usize) -> Option<i128> {
        match self {
            ScanExpression::Column(column) => {
                let mut number = Vec::with_capacity(1);
                read_column(page, *column, PageRows::Slots(&[slot]), &mut number);
                number.first().map(|&number| i128::from(number))
            }
            ScanExpression::Literal(value) => Some(i128::from(*value)),
            ScanExpression::Length(_) => None,
            ScanExpression::Arithmetic { operation, left, right, .. } => {
                let (left, right) = (left.wide(page, slot)?, right.wide(page, slot)?);
                match operation {
                    Arithmetic::Add => left.checked_add(right),
                    Arithmetic::Subtract => left.checked_sub(right),
                    Arithmetic::Multiply => left.checked_mul(right),
                }
            }
        }
    }
}

#[inline(always)]
fn applied(operation: Arithmetic, left: i64, right: i64) -> (i64, bool) {
    match operation {
        Arithmetic::Add => left.overflowing_add(right),
        Arithmetic::Subtract => left.overflowing_sub(right),
        Arithmetic::Multiply => left.overflowing_mul(right),
    }
}

/// Computes with a constant, whose side `operands` tells; `false` if a result does not fit.
#[inline(always)]
fn with_one(operation: Arithmetic, numbers: &mut [i64], operands: impl Fn(i64) -> (i64, i64)) -> bool {
    let each = |operation: Arithmetic, numbers: &mut [i64]| {
        numbers.iter_mut().fold(true, |fits, number| {
            let (left, right) = operands(*number);
            let (result, overflows) = applied(operation, left, right);
            *number = result;
            fits & !overflows
        })
    };
    // A loop for each operation, in which it is known.
    match operation {
        Arithmetic::Add => each(Arithmetic::Add, numbers),
        Arithmetic::Subtract => each(Arithmetic::Subtract, numbers),
        Arithmetic::Multiply => each(Arithmetic::Multiply, numbers),
    }
}

fn combined(operation: Arithmetic, numbers: &mut [i64], others: &[i64]) -> bool {
    #[inline(always)]
    fn each(operation: Arithmetic, numbers: &mut [i64], others: &[i64]) -> bool {
        numbers.iter_mut().zip(others).fold(true, |fits, (number, &other)| {
            let (result, overflows) = applied(operation, *number, other);
            *number = result;
            fits & !overflows
        })
    }
    match operation {
        Arithmetic::Add => each(Arithmetic::Add, numbers, others),
        Arithmetic::Subtract => each(Arithmetic::Subtract, numbers, others),
        Arithmetic::Multiply => each(Arithmetic::Multiply, numbers, others),
    }
}
