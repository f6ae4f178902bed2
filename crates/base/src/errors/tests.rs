//! The table is sane, and `docs/errors.md` lists it. `HOBT_BLESS=1` writes the list anew.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::{ALL, DIVIDE_BY_ZERO, INVALID_OBJECT, holes, number};

const MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
const BEGIN: &str = "<!-- The table of errors, made by HOBT_BLESS=1 cargo test -p hobt-base errors -->\n";
const END: &str = "<!-- The end of the table of errors -->\n";

/// The manual before the list, the list, and what follows.
fn manual() -> (String, String, String) {
    let text = std::fs::read_to_string(MANUAL).expect("the manual is there");
    let (before, rest) = text.split_once(BEGIN).expect("the list begins");
    let (list, after) = rest.split_once(END).expect("the list ends");
    (before.to_owned(), list.to_owned(), after.to_owned())
}

/// The table as Markdown. A hole is shown as `…`.
fn listed() -> String {
    let mut list = "| number | severity | state | text |\n|---|---|---|---|\n".to_owned();
    for (_, number, severity, state, text) in ALL {
        let shown = text.trim_start().replace("{}", "…").replace('\n', " ").replace('|', "\\|").replace('<', "&lt;");
        writeln!(list, "| {number} | {severity} | {state} | {shown} |").expect("a String grows");
    }
    list
}

/// Each number of a text, and those between the ends of `11700 to 11708`.
fn numbers_of(text: &str) -> HashSet<i32> {
    let mut found = HashSet::new();
    let mut previous = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (between, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        if let Ok(number) = from[..end].parse::<i32>() {
            found.extend(previous.filter(|_| between == " to ").unwrap_or(number)..=number);
            previous = Some(number);
        }
        rest = &from[end..];
    }
    found
}

#[test]
fn the_manual_lists_the_table() {
    let (before, list, after) = manual();
    if std::env::var_os("HOBT_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(MANUAL, format!("{before}{BEGIN}{}{END}{after}", listed())).expect("the manual is writable");
    } else {
        assert!(list == listed(), "docs/errors.md is not the table's: HOBT_BLESS=1 cargo test -p hobt-base errors");
    }
}

#[test]
fn the_manual_says_when_each_error_comes() {
    let (before, _, after) = manual();
    let described = numbers_of(&(before + &after));
    let missing: Vec<_> = ALL.iter().filter(|entry| !described.contains(&entry.1)).map(|entry| entry.1).collect();
    assert_eq!(missing, [], "docs/errors.md does not say when these errors come");
}

#[test]
fn entries_are_in_order_and_differ() {
    assert!(ALL.is_sorted_by_key(|entry| entry.1), "by number");
    let contents: HashSet<_> =
        ALL.iter().map(|(_, number, severity, state, text)| (number, severity, state, text)).collect();
    assert_eq!(contents.len(), ALL.len(), "two names for one entry");
}

#[test]
fn severities_are_those_of_messages_and_errors() {
    for (name, number, severity, ..) in ALL {
        let is_plain_message = matches!(*number, 0 | number::STATEMENT_TERMINATED);
        assert!((10..=25).contains(severity) || (*severity == 0 && is_plain_message), "{name} has severity {severity}");
    }
}

#[test]
fn texts_have_no_braces_but_holes() {
    for (name, .., text) in ALL {
        let braces = text.matches(['{', '}']).count();
        assert_eq!(braces, 2 * holes(text), "{name}: {text}");
        assert!(!text.is_empty() && text.trim_end() == *text, "{name}: {text}");
    }
}

#[test]
fn arguments_fill_the_holes_in_order() {
    assert_eq!(INVALID_OBJECT.with([&"t{}"]).message, "Invalid object name 't{}'.");
    assert_eq!(super::MULTI_PART_IDENTIFIER.with([&1]).message, "The multi-part identifier \"1\" could not be bound.");
    let error = super::DEADLOCK.with([&51]);
    assert_eq!((error.number, error.severity, error.state), (1205, 13, 51));
    assert_eq!(DIVIDE_BY_ZERO.error().header(), "Msg 8134, Level 16, State 1, Line 1");
}

/// The cells of the manual's rows that begin with numbers.
fn rows_of_numbers(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    rows.map(|row| row.split(" | ").collect::<Vec<_>>())
        .filter(|cells| cells[0].starts_with(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_manual_names_no_other_errors() {
    let (before, _, after) = manual();
    let described = before.split_once("## Storage and memory").expect("the rows begin").1.to_owned() + &after;
    for cells in rows_of_numbers(&described) {
        let numbers = cells[0].replace(" to ", ", ");
        for number in numbers.split([',', ' ']).filter_map(|word| word.parse::<i32>().ok()) {
            let severities: Vec<_> = ALL.iter().filter(|entry| entry.1 == number).map(|entry| entry.2).collect();
            assert!(
                number == 0 || !severities.is_empty(),
                "docs/errors.md describes {number}, which hobt does not raise"
            );
            if let Ok(severity) = cells[1].parse::<u8>() {
                assert!(severities.contains(&severity), "docs/errors.md gives {number} the severity {severity}");
            }
        }
    }
}
