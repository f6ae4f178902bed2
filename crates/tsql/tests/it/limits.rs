//! Depth and length: nesting is refused beyond a limit, repetition is not limited, and neither overflows a stack.

use hobt_base::number;
use hobt_tsql::{DEPTH_MAX, parse_batch, parse_expression};

/// Runs `test` on a thread with Rust's default stack size.
fn on_a_common_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(test).expect("a thread").join().expect("no panic");
}

fn assert_too_deep(text: &str) {
    let error = parse_batch(text).expect_err("a limit");
    assert_eq!(error.number, number::NESTED_TOO_DEEPLY, "{}", &text[..40]);
    assert!(error.position.is_some());
}

/// Each kind of nesting: the text before, the start of a level, the innermost text, and the end of a level.
const NESTINGS: &[(&str, &str, &str, &str)] = &[
    ("SELECT ", "(", "1", ")"),
    ("SELECT 1 WHERE ", "(", "a = 1", ")"),
    ("SELECT 1 WHERE ", "(", "a", ") = 1"),
    ("SELECT ", "f(", "1", ")"),
    ("SELECT ", "CASE WHEN 1 = 1 THEN ", "1", " END"),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "~", "1", ""),
    ("SELECT 1 WHERE ", "NOT ", "1 = 1", ""),
    ("", "BEGIN ", "SELECT 1", " END"),
    ("", "BEGIN TRY ", "SELECT 1", " END TRY BEGIN CATCH END CATCH"),
    ("", "WHILE 1 = 1 ", "SELECT 1", ""),
    ("", "IF 1 = 1 ", "SELECT 1", ""),
    ("SELECT 1 WHERE ", "EXISTS (SELECT 1 WHERE ", "1 = 1", ")"),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ") d"),
    ("SELECT * FROM ", "(", "a CROSS JOIN b", ")"),
    ("SELECT * FROM ", "a LEFT JOIN ", "b", " ON 1 = 1"),
    ("SELECT 1 WHERE ", "1 IN (SELECT 1 WHERE ", "1 = 1", ")"),
    ("", "(", "SELECT 1", ")"),
    ("SELECT 1 FROM t GROUP BY ", "ROLLUP (", "a", ")"),
];

#[test]
fn nesting_is_limited_and_never_overflows_the_stack() {
    on_a_common_stack(|| {
        for (before, open, within, close) in NESTINGS {
            let nest = |depth: usize| format!("{before}{}{within}{}", open.repeat(depth), close.repeat(depth));
            assert_too_deep(&nest(100_000));
            // The deepest trees within the limit are printed, parsed again and dropped.
            let deepest = (1..=DEPTH_MAX).rev().find_map(|depth| parse_batch(&nest(depth)).ok());
            let tree = deepest.unwrap_or_else(|| panic!("no depth of {open} parses"));
            assert!(parse_batch(&tree.to_string()).as_ref() == Ok(&tree), "{tree}");
        }
    });
}

#[test]
fn thirty_levels_of_everything_are_let_through() {
    on_a_common_stack(|| {
        for (open, close) in [("(", ")"), ("REPLACE(", ", 'a', 'b')"), ("CASE WHEN 1 = 1 THEN ", " END")] {
            let text = format!("SELECT {}1{}", open.repeat(30), close.repeat(30));
            parse_batch(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    });
}

#[test]
fn ten_megabytes_of_one_sum_parse_print_and_drop() {
    on_a_common_stack(|| {
        let text = format!("1{}", "+1".repeat(5 << 20));
        let tree = parse_expression(&text).expect("a sum");
        assert_eq!(tree.to_string().len(), 1 + 4 * (5 << 20));
        assert!(tree == tree.clone());
    });
}

#[test]
fn long_chains_of_every_kind_do_not_recurse() {
    on_a_common_stack(|| {
        let n = 50_000;
        for text in [
            format!("SELECT 1 WHERE a = 1{}", " OR a = 1".repeat(n)),
            format!("SELECT 1 WHERE a = 1{}", " AND (a = 1)".repeat(n)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(n)),
            format!("SELECT 1{}", " INTERSECT SELECT 1".repeat(n)),
            format!("SELECT * FROM t{}", " JOIN t ON 1 = 1".repeat(n)),
            format!("IF 1 = 1 SELECT 1{}", " ELSE IF 1 = 1 SELECT 1".repeat(n)),
            format!("SELECT 1 WHERE a IN (1{})", ", 1".repeat(n)),
            "SELECT 1 ".repeat(n),
        ] {
            let tree = parse_batch(&text).expect("a chain");
            assert!(parse_batch(&tree.to_string()).expect("what was printed") == tree);
        }
    });
}
