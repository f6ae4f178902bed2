//! Cardinality estimation: the expected number of rows.
//!
//! - `table`: the rows of a table that satisfy its conditions. `share` covers conditions of any form, `sampled`
//!   expressions over one column, and `filtered` statistics with a filter.
//! - `relation`: the rows of plans made of such tables. It uses the foreign keys between them (`references`) and how
//!   the values of two columns meet (`meeting`).
//! - `join_order`: the order of joins that follows from these estimates.
//!
//! The row counts of physical operators come from the same estimates (crate `planner`, `expected`).
//!
//! Estimates are based on the tables' statistics (crate `engine`), which inserts and deletes maintain. For a column
//! without statistics, SQL Server's guesses are used (Microsoft: "Cardinality estimation"): the more conditions are
//! joined by AND, the less each further one counts.

mod assumed;
mod assumptions;
mod filter_text;
mod filtered;
mod group_sizes;
mod literal;
mod marks;
mod meeting;
mod parameters;
mod references;
mod relation;
mod remembered;
mod same_values;
mod sampled;
mod share;
mod table;
mod wanted;
mod width;

pub(crate) use assumed::{Mark, mark_of};
pub use assumed::{evaluated, fold_assumed, is_marked, marked};
pub use assumptions::{Assumed, Assumptions, Correlation};
pub use filter_text::FilterPart;
pub use filter_text::filter_parts;
pub use group_sizes::GroupSizes;
pub use literal::literal_value;
pub use meeting::Meeting;
pub use parameters::{
    NameCounts, ParameterValues, Parameters, is_inner, parameter, parameters_in, parameters_of, with_parameters,
    with_values, with_values_of,
};
pub use references::{Reference, ends_of, references_between, sources_of};
pub use relation::{ColumnRows, Equated, Joining, Relation, distinct_left, relation_of};
pub(crate) use remembered::Remembered;
pub use same_values::same_value;
pub use share::Knowledge;
pub use table::TableKnowledge;
pub use wanted::{WantedColumn, wanted_columns};
pub use width::{RowWidth, TEXT_BYTES};

/// Expected rows of a source that gives no information on itself, such as a table function: SQL Server's guess for
/// multi-statement functions since SQL Server 2014.
pub const UNKNOWN_ROWS: f64 = 100.0;

/// What is expected of the rows of a table that satisfy its conditions.
#[derive(Clone, Default, Debug)]
pub struct LeafEstimate {
    /// The number of rows.
    pub rows: f64,
    /// What is known of each column that is read, for estimates of plans that evaluate the conditions again. Empty if
    /// nothing is known.
    pub columns: Vec<ColumnRows>,
}

/// The combined selectivity of several conditions. The strictest counts in full, each further one with half the
/// exponent of the one before, and those after the fourth not at all, since conditions on one table are seldom
/// independent.
pub(crate) fn together(mut selectivities: Vec<f64>) -> f64 {
    selectivities.sort_by(f64::total_cmp);
    let exponents = [1.0, 0.5, 0.25, 0.125];
    selectivities
        .iter()
        .zip(exponents)
        .map(|(selectivity, exponent)| selectivity.clamp(0.0, 1.0).powf(exponent))
        .product()
}

/// As [`together`], with the correlation that a hint asks for.
pub(crate) fn together_by(correlation: Correlation, selectivities: Vec<f64>) -> f64 {
    let each = selectivities.iter().map(|selectivity| selectivity.clamp(0.0, 1.0));
    match correlation {
        Correlation::Partial => together(selectivities),
        Correlation::None => each.product(),
        Correlation::Full => each.fold(1.0, f64::min),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_conditions_count_ever_less() {
        assert_eq!(together(Vec::new()), 1.0);
        assert_eq!(together(vec![0.01]), 0.01);
        assert!((together(vec![0.25, 0.01]) - 0.005).abs() < 1e-12);
        assert_eq!(together(vec![0.5, 0.5, 0.5, 0.5]), together(vec![0.5; 9]));
    }
}
