//! How many rows there will be: of a table behind its conditions (`table`), of plans made of such tables (`relation`);
//! and the order of joins that follows from it (`join_order`).
//!
//! Estimates come from the tables' statistics (crate `engine`), which inserts and deletes keep. Where a column has none,
//! SQL Server's guesses are taken (Microsoft: "Cardinality estimation"): the more conditions are joined by AND, the less
//! each further one counts.

mod join_order;
mod relation;
mod table;
mod wanted;

pub(crate) use join_order::JoinOrderRule;
pub(crate) use table::TableKnowledge;
pub(crate) use wanted::wanted_columns;

/// What a condition leaves of which nothing is known.
pub(crate) const UNKNOWN_CONDITION: f64 = 0.3;

/// What several conditions leave together: the strictest counts whole, each further one by half as much in the exponent,
/// and those behind the fourth not at all, since conditions on one table are seldom independent.
pub(crate) fn together(mut selectivities: Vec<f64>) -> f64 {
    selectivities.sort_by(f64::total_cmp);
    let exponents = [1.0, 0.5, 0.25, 0.125];
    selectivities
        .iter()
        .zip(exponents)
        .map(|(selectivity, exponent)| selectivity.clamp(0.0, 1.0).powf(exponent))
        .product()
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
