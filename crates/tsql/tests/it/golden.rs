//! Golden test: statements that are refused, with number, severity, state, position and text.

use std::path::Path;

use hobt_testing::check_golden;
use hobt_tsql::parse_batch;

#[test]
fn what_is_no_statement_says_so() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/errors.txt");
    check_golden(&path, |sql| match parse_batch(sql) {
        Ok(batch) => format!("parses: {batch}"),
        Err(error) => {
            let at = error.position.expect("a position");
            let (number, severity, state) = (error.number, error.severity, error.state);
            let place = format!("line {}, column {}", at.line, at.column);
            format!("Msg {number}, Level {severity}, State {state}, {place}: {}", error.message)
        }
    });
}
