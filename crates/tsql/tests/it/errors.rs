//! Errors: SQL Server's numbers, its texts, and the positions.

use hobt_base::{Position, SqlError};
use hobt_tsql::parse_batch;

fn error(text: &str) -> SqlError {
    match parse_batch(text) {
        Ok(tree) => panic!("{text} parses to {tree}"),
        Err(error) => error,
    }
}

fn check(text: &str, number: i32, (line, column): (u32, u32), message: &str) {
    let found = error(text);
    assert_eq!((found.number, found.severity, found.message.as_str()), (number, 15, message), "{text}");
    assert_eq!(found.position, Some(Position { line, column }), "{text}");
}

#[test]
fn syntax_errors_name_the_word_and_its_place() {
    check("SELECT 1 +* 2", 102, (1, 11), "Incorrect syntax near '*'.");
    check("SELECT *\nFROM t\nWHRE a = 1", 102, (3, 6), "Incorrect syntax near 'a'.");
    check("SELECT (1", 102, (1, 9), "Incorrect syntax near '1'.");
    check("SELECT a FROM 'x'", 102, (1, 15), "Incorrect syntax near 'x'.");
    check("SELECT ?", 102, (1, 8), "Incorrect syntax near '?'.");
    check("SELECT (a > 1)", 102, (1, 11), "Incorrect syntax near '>'.");
    check("CREATE TABLE t ()", 102, (1, 17), "Incorrect syntax near ')'.");
    check("é é é\nSELECT )", 102, (1, 5), "Incorrect syntax near 'é'.");
}

#[test]
fn reserved_words_have_an_error_of_their_own() {
    check("SELECT * FROM", 156, (1, 10), "Incorrect syntax near the keyword 'FROM'.");
    check("SELECT a, FROM t", 156, (1, 11), "Incorrect syntax near the keyword 'FROM'.");
    check("SELECT 1\n  AS select", 156, (2, 6), "Incorrect syntax near the keyword 'select'.");
    check("IF 1 = 1", 102, (1, 8), "Incorrect syntax near '1'.");
    check("CREATE TABLE table (a int)", 156, (1, 14), "Incorrect syntax near the keyword 'table'.");
}

#[test]
fn what_is_left_open_is_reported_where_it_opens() {
    check("SELECT 1,\n 'abc", 105, (2, 2), "Unclosed quotation mark after the character string 'abc'.");
    check("SELECT [abc", 105, (1, 8), "Unclosed quotation mark after the character string 'abc'.");
    check("SELECT 1 /* a /* b */", 113, (1, 10), "Missing end comment mark '*/'.");
    check("SELECT 1 /*/", 113, (1, 10), "Missing end comment mark '*/'.");
}

#[test]
fn a_common_table_expression_needs_a_semicolon_before_it() {
    let found = error("SELECT 1\nWITH a AS (SELECT 1 AS x) SELECT x FROM a");
    assert_eq!((found.number, found.position), (319, Some(Position { line: 2, column: 1 })));
    assert!(parse_batch("SELECT 1;\nWITH a AS (SELECT 1 AS x) SELECT x FROM a").is_ok());
}

#[test]
fn names_hints_and_options_are_checked() {
    let long = "a".repeat(129);
    assert_eq!(error(&format!("SELECT {long}")).number, 103);
    assert_eq!(error(&format!("SELECT [{long}]")).number, 103);
    assert!(parse_batch(&format!("SELECT [{}]]]", "a".repeat(127))).is_ok());
    check("SELECT 1 FROM t WITH (NOLOK)", 321, (1, 23), "\"NOLOK\" is not a recognized table hints option.");
    check("SET NOCOUTN ON", 195, (1, 5), "'NOCOUTN' is not a recognized SET option.");
    assert_eq!(error("SELECT 1 OPTION (MAXDOPE 1)").number, 155);
}

#[test]
fn a_value_is_no_condition() {
    let near = |word: &str| {
        format!(
            "An expression of non-boolean type specified in a context where a condition is expected, near '{word}'."
        )
    };
    check("SELECT 1 WHERE a", 4145, (1, 16), &near("a"));
    check("IF @a SELECT 1", 4145, (1, 7), &near("SELECT"));
    check("SELECT 1 WHERE (a + 1) AND b = 1", 4145, (1, 24), &near("AND"));
}

#[test]
fn a_statement_that_changes_rows_is_stricter_than_a_query() {
    check("DELETE TOP 5 FROM t", 102, (1, 12), "Incorrect syntax near '5'.");
    check("UPDATE TOP @n t SET a = 1", 102, (1, 12), "Incorrect syntax near '@n'.");
    check("INSERT TOP (5) WITH TIES INTO t SELECT 1", 156, (1, 26), "Incorrect syntax near the keyword 'INTO'.");
    let merge = "MERGE t USING s ON t.a = s.a WHEN MATCHED THEN DELETE";
    let message = "A MERGE statement must be terminated by a semi-colon (;).";
    assert_eq!((error(merge).number, error(merge).message.as_str()), (10713, message));
    assert!(parse_batch(&format!("{merge};")).is_ok());
}
