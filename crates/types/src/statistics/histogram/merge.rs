//! Makes one histogram of many.

use super::builder::Range;
use super::{Histogram, HistogramBuilder, Step};

/// One histogram of the rows of all of these.
pub fn merged(histograms: &[&Histogram]) -> Histogram {
    let mut steps: Vec<&Step> = histograms.iter().flat_map(|histogram| histogram.steps()).collect();
    steps.sort_by(|left, right| left.key.cmp(&right.key));
    let mut builder = HistogramBuilder::new();
    for step in steps {
        let range = Range::even(step.range_rows, step.distinct_range_rows);
        builder.push_range(range, &step.key, step.value.as_deref(), step.equal_rows);
    }
    builder.finish()
}
