//! Simple statistics over repetitions, and formatting of figures.

pub(crate) use hobt_showplan::count as thousands;

/// The middle value, or the mean of the two middle ones; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[upper]),
        _ => Some(f64::midpoint(sorted[upper - 1], sorted[upper])),
    }
}

/// The two measurements between which the true median lies with a confidence of 95 %.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MedianInterval {
    /// The number of measurements.
    pub count: usize,
    /// The lower one.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

/// The interval of a median. It holds for any distribution of the measurements: each lies below the true median with
/// probability one half, so the number of those below is binomial. `None` for fewer than six measurements, which are
/// too few for 95 %.
pub(crate) fn median_interval(values: &[f64]) -> Option<MedianInterval> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // The probability that exactly `below` of them lie below the median, and the probability that at most `below` do.
    let mut exactly = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut at_most = exactly;
    let mut below = 0;
    while at_most <= 0.025 {
        below += 1;
        exactly *= (count - below + 1) as f64 / below as f64;
        at_most += exactly;
    }
    let low = below.checked_sub(1)?;
    Some(MedianInterval { count, low: sorted[low], high: sorted[count - 1 - low] })
}

/// The value that `percent` of the values do not exceed (nearest rank); `None` for no values.
pub(crate) fn percentile(values: &mut [u64], percent: usize) -> Option<u64> {
    values.sort_unstable();
    values.get(rank(values.len(), percent) - 1).copied()
}

/// Like [`percentile`], for floating-point values.
pub(crate) fn float_percentile(values: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(rank(sorted.len(), percent) - 1).copied()
}

/// The nearest rank, from 1.
fn rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).max(1)
}

/// A time in seconds with its significant digits: `12.3 s`, `1.234 s`, `12.3 ms`.
pub(crate) fn seconds(value: f64) -> String {
    if value >= 10.0 {
        format!("{value:.1} s")
    } else if value >= 1.0 {
        format!("{value:.3} s")
    } else {
        format!("{} ms", amount(value * 1e3))
    }
}

/// A rate or a size without insignificant digits: `1,234`, `12.3`, `0.12`.
pub(crate) fn amount(value: f64) -> String {
    if value >= 1_000.0 {
        thousands(value.round() as u64)
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        let first = |count: u32| (1..=count).rev().map(f64::from).collect::<Vec<f64>>();
        assert_eq!(median_interval(&first(5)), None);
        assert_eq!(median_interval(&[]), None);
        // Ranks from tables of the sign test.
        for (count, low, high) in [(6, 1.0, 6.0), (10, 2.0, 9.0), (20, 6.0, 15.0), (100, 40.0, 61.0)] {
            assert_eq!(median_interval(&first(count)), Some(MedianInterval { count: count as usize, low, high }));
        }
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut values: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(percentile(&mut values, 50), Some(100));
        assert_eq!(percentile(&mut values, 99), Some(198));
        assert_eq!(percentile(&mut values, 100), Some(200));
        assert_eq!(percentile(&mut [], 50), None);
        let floats: Vec<f64> = (1..=20).rev().map(|value| f64::from(value) / 2.0).collect();
        assert_eq!(float_percentile(&floats, 95), Some(9.5));
        assert_eq!(float_percentile(&[], 95), None);
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(amount(1_234.6), "1,235");
        assert_eq!(amount(0.1234), "0.12");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(1.2345), "1.234 s");
        assert_eq!(seconds(0.924), "924 ms");
        assert_eq!(seconds(0.0028), "2.80 ms");
    }
}
