//! TPC-H's schema and queries, from the repository's `tests/tpch`.

/// The batches that create the eight tables as heaps.
pub(crate) fn schema_batches() -> impl Iterator<Item = &'static str> {
    let script = include_str!("../../../../tests/tpch/schema.sql");
    script.split("\nGO").filter(|batch| batch.contains("CREATE TABLE"))
}

const QUERIES: [&str; 22] = [
    include_str!("../../../../tests/tpch/q01.sql"),
    include_str!("../../../../tests/tpch/q02.sql"),
    include_str!("../../../../tests/tpch/q03.sql"),
    include_str!("../../../../tests/tpch/q04.sql"),
    include_str!("../../../../tests/tpch/q05.sql"),
    include_str!("../../../../tests/tpch/q06.sql"),
    include_str!("../../../../tests/tpch/q07.sql"),
    include_str!("../../../../tests/tpch/q08.sql"),
    include_str!("../../../../tests/tpch/q09.sql"),
    include_str!("../../../../tests/tpch/q10.sql"),
    include_str!("../../../../tests/tpch/q11.sql"),
    include_str!("../../../../tests/tpch/q12.sql"),
    include_str!("../../../../tests/tpch/q13.sql"),
    include_str!("../../../../tests/tpch/q14.sql"),
    include_str!("../../../../tests/tpch/q15.sql"),
    include_str!("../../../../tests/tpch/q16.sql"),
    include_str!("../../../../tests/tpch/q17.sql"),
    include_str!("../../../../tests/tpch/q18.sql"),
    include_str!("../../../../tests/tpch/q19.sql"),
    include_str!("../../../../tests/tpch/q20.sql"),
    include_str!("../../../../tests/tpch/q21.sql"),
    include_str!("../../../../tests/tpch/q22.sql"),
];

/// The scale factor that the fraction of Q11 in the files is for.
const WRITTEN_SCALE: f64 = 0.1;
/// That fraction as written in the file. It is inversely proportional to the scale factor.
const WRITTEN_FRACTION: (&str, f64) = ("* 0.0010", 0.001);

/// The names and texts of the 22 queries at a scale factor.
pub(crate) fn queries(scale_factor: f64) -> impl Iterator<Item = (String, String)> {
    let (written, value) = WRITTEN_FRACTION;
    let fraction = format!("{:.10}", value * WRITTEN_SCALE / scale_factor);
    let fraction = format!("* {}", fraction.trim_end_matches('0'));
    let of = move |(place, text): (usize, &&str)| {
        (format!("q{:02}", place + 1), text.trim_end().replace(written, &fraction))
    };
    QUERIES.iter().enumerate().map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_goes_by_the_scale_factor() {
        let text = |scale: f64| queries(scale).map(|(_, text)| text).collect::<Vec<_>>();
        let (tenth, one) = (text(0.1), text(1.0));
        let changed: Vec<usize> = (1..=22).filter(|number| tenth[number - 1] != one[number - 1]).collect();
        assert_eq!(changed, [11]);
        assert!(tenth[10].contains("* 0.001\n") && one[10].contains("* 0.0001\n"), "{}", one[10]);
        assert_eq!(schema_batches().count(), 8);
    }
}
