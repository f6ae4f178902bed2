//! The forty queries, by the names that `bench/peers/operators.py` has for them.
//!
//! Each answers with few rows, so that none is a measurement of sending rows. All read the fact table; the joins and
//! `union` read the dimension too, which is small.

/// A query over the tables of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    /// The columns of the fact table that it reads.
    pub(super) columns: &'static [&'static str],
    pub(super) statement: &'static str,
}

const fn query(name: &'static str, columns: &'static [&'static str], statement: &'static str) -> Query {
    Query { name, columns, statement }
}

/// All of them, grouped by what they do.
pub(super) const QUERIES: [Query; 40] = [
    // Aggregates and filters.
    query("count", &[], "SELECT COUNT(*) FROM OperatorFact"),
    query("sum_max_min", &["k", "u", "amount"], "SELECT SUM(CAST(k AS bigint)), MAX(u), MIN(amount) FROM OperatorFact"),
    query("range", &["u", "id"], "SELECT COUNT(*), MAX(id) FROM OperatorFact WHERE u BETWEEN 500000000 AND 700000000"),
    query(
        "date_range",
        &["d", "amount"],
        "SELECT COUNT(*), SUM(amount) FROM OperatorFact WHERE d >= '2018-01-01' AND d < '2018-04-01'",
    ),
    query("equal", &["k", "u"], "SELECT COUNT(*), MAX(u) FROM OperatorFact WHERE k = 77"),
    query(
        "in_list",
        &["k", "u"],
        "SELECT COUNT(*), MAX(u) FROM OperatorFact WHERE k IN (3, 77, 123, 200, 451, 612, 801, 999)",
    ),
    query("text_equal", &["city", "u"], "SELECT COUNT(*), MAX(u) FROM OperatorFact WHERE city = 'City of 42'"),
    query("like_prefix", &["word", "u"], "SELECT COUNT(*), MAX(u) FROM OperatorFact WHERE word LIKE 'w123%'"),
    query("like_infix", &["note", "u"], "SELECT COUNT(*), MAX(u) FROM OperatorFact WHERE note LIKE '%needle%'"),
    // Groups.
    query("group_int", &["k", "amount"], "SELECT k, COUNT(*), SUM(amount) FROM OperatorFact GROUP BY k ORDER BY k"),
    query(
        "group_int_all",
        &["u"],
        "SELECT COUNT(*), MAX(n) FROM (SELECT u, COUNT(*) AS n FROM OperatorFact GROUP BY u) AS g",
    ),
    query(
        "group_text",
        &["city", "amount"],
        "SELECT city, COUNT(*), SUM(amount) FROM OperatorFact GROUP BY city ORDER BY city",
    ),
    query(
        "group_text_many",
        &["word"],
        "SELECT COUNT(*), MAX(n) FROM (SELECT word, COUNT(*) AS n FROM OperatorFact GROUP BY word) AS g",
    ),
    query(
        "group_two",
        &["k", "city"],
        "SELECT COUNT(*), MAX(n) FROM (SELECT k, city, COUNT(*) AS n FROM OperatorFact GROUP BY k, city) AS g",
    ),
    query(
        "group_month",
        &["d", "amount"],
        "SELECT YEAR(d), MONTH(d), SUM(amount) FROM OperatorFact GROUP BY YEAR(d), MONTH(d) ORDER BY 1, 2",
    ),
    query(
        "group_substring",
        &["word"],
        "SELECT SUBSTRING(word, 1, 3), COUNT(*) FROM OperatorFact GROUP BY SUBSTRING(word, 1, 3) ORDER BY 1",
    ),
    query("distinct_int", &["u"], "SELECT COUNT(DISTINCT u) FROM OperatorFact"),
    query("distinct_text", &["word"], "SELECT COUNT(DISTINCT word) FROM OperatorFact"),
    // Orders and windows.
    query("top_int", &["u", "id"], "SELECT TOP 10 u, id FROM OperatorFact ORDER BY u DESC"),
    query("top_text", &["word", "id"], "SELECT TOP 10 word, id FROM OperatorFact ORDER BY word, id"),
    query(
        "row_number_int",
        &["u"],
        "SELECT COUNT(*), SUM(CAST(u AS bigint)) FROM \
         (SELECT u, ROW_NUMBER() OVER (ORDER BY u) AS place FROM OperatorFact) AS r WHERE place % 1000 = 1",
    ),
    query(
        "row_number_text",
        &["city", "word", "id"],
        "SELECT COUNT(*), SUM(id) FROM \
         (SELECT id, ROW_NUMBER() OVER (PARTITION BY city ORDER BY word, id) AS place FROM OperatorFact) AS r \
         WHERE place % 1000 = 1",
    ),
    query(
        "running_sum",
        &["k", "id", "amount"],
        "SELECT MAX(total), COUNT(*) FROM \
         (SELECT SUM(amount) OVER (PARTITION BY k ORDER BY id) AS total FROM OperatorFact) AS r",
    ),
    query(
        "lag",
        &["k", "id", "u"],
        "SELECT SUM(CAST(step AS bigint)) FROM \
         (SELECT u - LAG(u) OVER (PARTITION BY k ORDER BY id) AS step FROM OperatorFact) AS r",
    ),
    query(
        "top_3_of_each",
        &["k", "u"],
        "SELECT COUNT(*), SUM(CAST(u AS bigint)) FROM \
         (SELECT u, ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC) AS place FROM OperatorFact) AS r \
         WHERE place <= 3",
    ),
    // Joins.
    query(
        "join_selective",
        &["k", "amount"],
        "SELECT COUNT(*), SUM(S.amount) FROM OperatorFact AS S JOIN OperatorDimension AS D ON S.k = D.k \
         WHERE D.grp = 7",
    ),
    query(
        "join_all",
        &["k", "amount"],
        "SELECT D.grp, COUNT(*), SUM(S.amount) FROM OperatorFact AS S JOIN OperatorDimension AS D ON S.k = D.k \
         GROUP BY D.grp ORDER BY D.grp",
    ),
    query(
        "join_text",
        &["city", "amount"],
        "SELECT COUNT(*), SUM(S.amount) FROM OperatorFact AS S JOIN OperatorDimension AS D ON S.city = D.city",
    ),
    query(
        "semi",
        &["k", "u"],
        "SELECT COUNT(*), MAX(S.u) FROM OperatorFact AS S \
         WHERE EXISTS (SELECT 1 FROM OperatorDimension AS D WHERE D.k = S.k AND D.grp < 50)",
    ),
    query(
        "anti",
        &["k", "u"],
        "SELECT COUNT(*), MAX(S.u) FROM OperatorFact AS S \
         WHERE NOT EXISTS (SELECT 1 FROM OperatorDimension AS D WHERE D.k = S.k AND D.grp < 50)",
    ),
    // Expressions.
    query(
        "case_sums",
        &["k", "amount", "d"],
        "SELECT SUM(CASE WHEN k < 100 THEN amount ELSE 0 END), SUM(CASE WHEN k >= 500 THEN 1 ELSE 0 END), \
         SUM(CASE WHEN d < '2019-01-01' THEN amount ELSE -amount END) FROM OperatorFact",
    ),
    query(
        "upper_replace",
        &["word", "note"],
        "SELECT MAX(UPPER(word)), SUM(LEN(REPLACE(note, 'it', 'them'))) FROM OperatorFact",
    ),
    query(
        "to_text",
        &["u", "amount"],
        "SELECT MAX(CAST(u AS varchar(12))), MAX(LEN(CAST(amount AS varchar(20)))) FROM OperatorFact",
    ),
    query("from_text", &["digits"], "SELECT SUM(CAST(CAST(digits AS int) AS bigint)) FROM OperatorFact"),
    query(
        "decimal_float",
        &["amount", "k", "price"],
        // A sum of floats depends on which worker adds which rows. Its first digits do not.
        "SELECT SUM(amount * 2 + k), CAST(AVG(price * 1.5 / (k + 1)) AS decimal(18, 4)) FROM OperatorFact",
    ),
    query(
        "datediff",
        &["d"],
        "SELECT SUM(CAST(DATEDIFF(day, d, '2025-12-31') AS bigint)), MAX(DATEDIFF(month, d, '2025-12-31')) \
         FROM OperatorFact",
    ),
    // Sets.
    query(
        "union",
        &["k"],
        "SELECT COUNT(*) FROM (SELECT k FROM OperatorFact UNION SELECT k FROM OperatorDimension) AS b",
    ),
    query(
        "except",
        &["word", "k"],
        "SELECT COUNT(*) FROM \
         (SELECT word FROM OperatorFact WHERE k < 500 EXCEPT SELECT word FROM OperatorFact WHERE k >= 990) AS b",
    ),
    query(
        "rollup",
        &["city", "k"],
        "SELECT COUNT(*), SUM(n) FROM \
         (SELECT city, k % 10 AS rest, COUNT(*) AS n FROM OperatorFact GROUP BY ROLLUP (city, k % 10)) AS g",
    ),
    query(
        "string_agg",
        &["k", "word"],
        "SELECT MAX(LEN(all_words)) FROM \
         (SELECT k, STRING_AGG(CAST(word AS varchar(max)), ',') AS all_words FROM OperatorFact GROUP BY k) AS g",
    ),
];

#[cfg(test)]
mod tests {
    use super::super::tables::FACT_COLUMNS;
    use super::*;

    /// The columns of the fact table that a statement names, without those in quotes and of the dimension.
    fn named(statement: &str) -> Vec<&str> {
        let outside: Vec<&str> = statement.split('\'').step_by(2).collect();
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let words = outside.into_iter().flat_map(|text| text.split(move |c| !is_part(c)));
        let columns = words.map(|word| word.strip_prefix("S.").unwrap_or(word));
        let mut found: Vec<&str> =
            columns.filter(|word| FACT_COLUMNS.iter().any(|(column, _)| column == word)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn the_columns_of_a_query_are_those_that_it_names() {
        for query in &QUERIES {
            let mut columns = query.columns.to_vec();
            columns.sort_unstable();
            assert_eq!(named(query.statement), columns, "{}", query.name);
        }
    }

    /// The figures stand beside those of other engines, so the names must be theirs.
    #[test]
    fn the_comparison_with_other_engines_has_the_same_queries() {
        let peers = include_str!("../../../../../bench/peers/operators.py");
        for query in &QUERIES {
            assert_eq!(peers.matches(&format!("\"{}\"", query.name)).count(), 1, "{}", query.name);
        }
        let listed = peers.split_once("def queries():").and_then(|(_, rest)| rest.split_once("\ndef "));
        assert_eq!(listed.map(|(list, _)| list.matches("Operator(").count()), Some(QUERIES.len()));
    }
}
