//! Which rows a statement changes, and how.

/// Percentages are counted in millionths of a percent.
pub const PERCENT_PARTS: f64 = 1_000_000.0;

/// The limit of a `TOP` that the consumer of the rows applies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowLimit {
    /// This many rows.
    Rows(u64),
    /// This percentage of the rows, rounded up.
    Percent(f64),
}

impl RowLimit {
    /// The limit for `total` rows.
    pub fn of(self, total: u64) -> u64 {
        match self {
            RowLimit::Rows(rows) => rows.min(total),
            RowLimit::Percent(percent) => {
                let share = u128::from(total) * (percent * PERCENT_PARTS).round() as u128;
                u64::try_from(share.div_ceil(100 * PERCENT_PARTS as u128)).unwrap_or(total)
            }
        }
    }
}

/// The action on a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It is inserted.
    Insert,
    /// It is updated.
    Update,
    /// It is deleted.
    Delete,
}
