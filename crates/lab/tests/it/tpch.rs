//! TPC-H from generated rows to the answers of another engine, with the rules of `tests/tpch/README.md`.

use std::collections::HashMap;
use std::path::PathBuf;

use hobt_engine::InstanceSettings;
use hobt_lab::connection::Connection;
use hobt_lab::data::{TpchTable, load::load};
use hobt_lab::{DATABASE, Laboratory, Progress, RunOptions};

use crate::TestFolder;

/// The scale factor of the stored answers.
const SCALE: f64 = 0.1;

fn tests_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/tpch")
}

fn read(name: &str) -> String {
    let path = tests_folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_22_queries_give_the_right_answers() {
    let folder = TestFolder::new("tpch");
    let lab = loaded(&folder);
    let rules = rules();
    let mut connection = lab.connect().expect("a session");
    let mut wrong = Vec::new();
    for number in 1..=22 {
        let query = format!("q{number:02}");
        if let Err(difference) = check(&mut connection, &query, &rules) {
            wrong.push(format!("{query}: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{} of 22 are wrong:\n{}", wrong.len(), wrong.join("\n"));
    drop(connection);
    lab.close().expect("it closes");
}

/// An instance with the eight tables.
fn loaded(folder: &TestFolder) -> Laboratory {
    let settings = InstanceSettings::default();
    let mut lab =
        Laboratory::open(folder.path(), settings, RunOptions::default(), Progress::hidden()).expect("an instance");
    for batch in read("schema.sql").split("\nGO").filter(|batch| batch.contains("CREATE")) {
        lab.run(batch).expect("the schema is sound");
    }
    let threads = i32::try_from(std::thread::available_parallelism().expect("known").get()).expect("a few");
    for table in TpchTable::ALL {
        let parts = (1..=threads).map(|part| table.batches(SCALE, part, threads)).collect();
        load(lab.instance(), DATABASE, table.name(), parts).unwrap_or_else(|error| panic!("{}: {error}", table.name()));
    }
    lab
}

/// The comparison rule for each column of each query.
fn rules() -> HashMap<(String, String), String> {
    let text = read("answers/columns.csv");
    text.lines()
        .skip(1)
        .map(|line| {
            let [query, column, rule] = &fields(line)[..] else { panic!("three fields in {line}") };
            ((query.clone(), column.clone()), rule.clone())
        })
        .collect()
}

fn check(connection: &mut Connection, query: &str, rules: &HashMap<(String, String), String>) -> Result<(), String> {
    let answer = connection.run(&read(&format!("{query}.sql"))).map_err(|error| error.to_string())?;
    let expected = read(&format!("answers/{query}.csv"));
    let mut lines = expected.lines();
    let columns = fields(lines.next().expect("a line of names"));
    let names: Vec<String> = answer.columns.iter().map(|column| column.name.to_lowercase()).collect();
    if names != columns {
        return Err(format!("the columns are {names:?}, not {columns:?}"));
    }
    let rows = answer.rows();
    let expected: Vec<Vec<String>> = lines.map(fields).collect();
    if rows.len() != expected.len() {
        return Err(format!("{} rows, not {}", rows.len(), expected.len()));
    }
    for (number, (row, wanted)) in rows.iter().zip(&expected).enumerate() {
        for ((column, found), wanted) in columns.iter().zip(row).zip(wanted) {
            let rule = &rules[&(query.to_owned(), column.clone())];
            let found = found.as_deref().unwrap_or("");
            if !is_same(rule, found, wanted) {
                return Err(format!("row {}, {column} ({rule}): {found:?}, not {wanted:?}", number + 1));
            }
        }
    }
    Ok(())
}

fn is_same(rule: &str, found: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    match rule {
        "text" => found.trim_end() == wanted.trim_end(),
        "integer" | "date" => found == wanted,
        "exact" => without_zeros(found) == without_zeros(wanted),
        "approximate" => match (number(found), number(wanted)) {
            (Some(found), Some(wanted)) => {
                let difference = (found - wanted).abs();
                difference <= 0.000_01 || difference <= 0.000_001 * wanted.abs()
            }
            _ => found == wanted,
        },
        other => panic!("there is no rule {other}"),
    }
}

/// A decimal without insignificant zeros.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The fields of a line of CSV. A field may be quoted.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields.last_mut().expect("one at least").push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().expect("one at least").push(other),
        }
    }
    fields
}

#[test]
fn the_rules_tell_right_from_wrong() {
    assert!(is_same("text", "a  ", "a") && !is_same("text", "a", "b"));
    assert!(is_same("exact", "1.50", "1.5") && is_same("exact", "10", "10") && !is_same("exact", "1.51", "1.5"));
    assert!(is_same("approximate", "0.333333", "0.3333333333") && !is_same("approximate", "0.3334", "0.33333"));
    assert_eq!(fields("a,\"b, \"\"c\"\"\",,d"), ["a", "b, \"c\"", "", "d"]);
}
