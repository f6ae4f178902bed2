//! Tests the parser and printer with whole scripts: the corpus, the TPC-H queries, and scripts in the folder named by
//! `HOBT_SEEDS`.

mod errors;
mod fuzz;
mod golden;
mod limits;
mod meaning;

use std::path::{Path, PathBuf};

use hobt_tsql::{parse_batch, split_batches};

/// Parses every batch of `script`, prints it, and parses the printed text: the trees must be equal. Returns the number
/// of statements.
fn round_trip(name: &str, script: &str) -> usize {
    let mut statements = 0;
    for batch in split_batches(script) {
        let at = |what: &str| format!("{name}, batch at line {}: {what}", batch.first_line);
        let tree = parse_batch(&batch.text)
            .unwrap_or_else(|e| panic!("{}", at(&format!("{e} {:?}\n{}", e.position, batch.text))));
        let printed = tree.to_string();
        let again =
            parse_batch(&printed).unwrap_or_else(|e| panic!("{}", at(&format!("{e} {:?}\n{printed}", e.position))));
        assert_eq!(tree, again, "{}", at(&printed));
        assert_eq!(again.to_string(), printed, "{}", at("printing is not stable"));
        statements += tree.statements.len();
    }
    statements
}

fn scripts_in(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    paths.sort();
    paths
}

fn round_trip_folder(folder: &Path) -> usize {
    let mut statements = 0;
    for path in scripts_in(folder) {
        let script = std::fs::read_to_string(&path).expect("a script in UTF-8");
        statements += round_trip(&path.display().to_string(), &script);
    }
    statements
}

#[test]
fn every_statement_of_the_corpus_survives_printing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/corpus");
    assert!(round_trip_folder(&folder) > 150);
}

/// Every statement of the corpus, truncated at each of its words, is an error or a statement, never a panic.
#[test]
fn no_prefix_of_the_corpus_panics() {
    for path in scripts_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/corpus")) {
        let script = std::fs::read_to_string(&path).expect("a script in UTF-8");
        for batch in split_batches(&script) {
            for (at, _) in batch.text.char_indices().filter(|(_, c)| !c.is_alphanumeric()) {
                if let Err(error) = parse_batch(&batch.text[..at]) {
                    assert!(error.position.is_some(), "{error} has no place");
                }
            }
        }
    }
}

#[test]
fn the_tpch_queries_survive_printing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tpch");
    assert!(round_trip_folder(&folder) >= 22);
}

#[test]
fn the_scripts_of_hobt_seeds_survive_printing() {
    let Some(folder) = std::env::var_os("HOBT_SEEDS") else {
        println!("SKIPPED: HOBT_SEEDS is not set");
        return;
    };
    let statements = round_trip_folder(Path::new(&folder));
    println!("{statements} statements");
    assert!(statements > 0, "no statement in {}", folder.display());
}
