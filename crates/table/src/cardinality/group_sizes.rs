//! The number of rows in groups, for conditions on their counts: `GROUP BY c HAVING COUNT(*) > n`.
//!
//! The groups of one column are its values. A step of its histogram is a group whose number of rows is known. Between
//! two steps lie groups of which the average is known. Their sizes are assumed to follow Poisson's distribution without
//! the empty groups, and so are the sizes of groups of which only the average is known.

use datafusion::logical_expr::Operator;
use hobt_types::statistics::Histogram;

/// Groups with more rows than this on average are all assumed to have the average size.
const CHANCE_MAX: f64 = 200.0;

/// The distribution of group sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupSizes {
    /// Rows of a group, how many such groups there are, and whether each has exactly that many rows.
    sizes: Vec<(f64, f64, bool)>,
}

impl GroupSizes {
    /// For groups of which only the average size is known.
    pub(crate) fn of_average(rows: f64) -> GroupSizes {
        GroupSizes { sizes: vec![(rows.max(1.0), 1.0, false)] }
    }

    /// For the values of a column, if only the fraction `part` of its rows is present.
    pub(super) fn of_values(histogram: &Histogram, part: f64) -> Option<GroupSizes> {
        let is_exact = part >= 1.0;
        let mut sizes = Vec::new();
        for step in histogram.steps() {
            sizes.push((step.equal_rows * part, 1.0, is_exact));
            if step.distinct_range_rows > 0.0 {
                sizes.push((step.range_rows / step.distinct_range_rows * part, step.distinct_range_rows, false));
            }
        }
        sizes.retain(|(rows, ..)| *rows > 0.0);
        (!sizes.is_empty()).then_some(GroupSizes { sizes })
    }

    /// The share of groups for which `count op number` holds.
    pub(super) fn share(&self, op: Operator, number: f64) -> Option<f64> {
        let at_most = |number: f64| {
            let groups: f64 = self.sizes.iter().map(|(_, groups, _)| groups).sum();
            let share = |(rows, groups, is_exact): &(f64, f64, bool)| groups * at_most(*rows, number, *is_exact);
            self.sizes.iter().map(share).sum::<f64>() / groups.max(f64::MIN_POSITIVE)
        };
        // Counts are whole numbers.
        let (below, up_to) = (number.ceil() - 1.0, number.floor());
        Some(match op {
            Operator::Eq => at_most(up_to) - at_most(below),
            Operator::NotEq => 1.0 - (at_most(up_to) - at_most(below)),
            Operator::Lt => at_most(below),
            Operator::LtEq => at_most(up_to),
            Operator::Gt => 1.0 - at_most(up_to),
            Operator::GtEq => 1.0 - at_most(below),
            _ => return None,
        })
    }
}

/// The share of groups with at most `number` rows, where groups have `rows` rows on average and at least one.
fn at_most(rows: f64, number: f64, is_exact: bool) -> f64 {
    if number < 1.0 {
        return 0.0;
    }
    if is_exact || rows <= 1.0 || rows > CHANCE_MAX {
        return f64::from(u8::from(rows.max(1.0) <= number + 0.5));
    }
    // The rate at which groups of at least one row have this average.
    let mut rate = rows;
    for _ in 0..64 {
        rate = rows * (1.0 - (-rate).exp());
    }
    let (mut term, mut sum) = ((-rate).exp(), 0.0);
    let none = term;
    for count in 1..=(number.min(4.0 * CHANCE_MAX) as u32) {
        term *= rate / f64::from(count);
        sum += term;
    }
    (sum / (1.0 - none).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_one_row_have_one() {
        let ones = GroupSizes::of_average(1.0);
        assert_eq!(ones.share(Operator::Gt, 1.0), Some(0.0));
        assert_eq!(ones.share(Operator::Eq, 1.0), Some(1.0));
        assert_eq!(ones.share(Operator::GtEq, 0.5), Some(1.0));
    }

    #[test]
    fn counts_lie_around_the_average() {
        let about_five = GroupSizes::of_average(5.0);
        let share = |op, number| about_five.share(op, number).expect("a comparison");
        assert!((0.3..0.7).contains(&share(Operator::Gt, 5.0)), "{}", share(Operator::Gt, 5.0));
        assert!(share(Operator::Gt, 20.0) < 0.001);
        let all = share(Operator::Lt, 4.0) + share(Operator::Eq, 4.0) + share(Operator::Gt, 4.0);
        assert!((all - 1.0).abs() < 1e-9);
        let mean: f64 = (1..60).map(|number| f64::from(number) * share(Operator::Eq, f64::from(number))).sum();
        assert!((mean - 5.0).abs() < 0.01, "{mean}");
        assert_eq!(about_five.share(Operator::Plus, 1.0), None);
    }
}
