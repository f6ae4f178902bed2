//! Fuzz target: any text is a batch or an error with a position, and a batch survives printing. The driver is
//! `hobt_testing::FuzzTarget`; the corpus is in `__fuzz__` beside this file.

use std::collections::BTreeMap;
use std::path::Path;

use hobt_testing::{check_corpus, fuzz_target};
use hobt_tsql::{parse_batch, parse_expression, split_batches, text_constants, without_constants};

/// Syntax trees of a few bytes of text, held two at a time with what was printed.
const LIMIT: (usize, usize) = (64 << 10, 4096);

fuzz_target!(parser, LIMIT, |bytes| {
    parse_any_text(&String::from_utf8_lossy(bytes));
});

fn parse_any_text(text: &str) {
    for batch in split_batches(text) {
        match parse_batch(&batch.text) {
            Ok(tree) => {
                let printed = tree.to_string();
                let again =
                    parse_batch(&printed).unwrap_or_else(|error| panic!("{error} {:?}\n{printed}", error.position));
                assert_eq!(tree, again, "{printed}");
                assert_eq!(again.to_string(), printed);
            }
            Err(error) => assert!(error.position.is_some(), "{error} has no place"),
        }
        let _constants = (text_constants(&batch.text), without_constants(&batch.text));
    }
    if let Ok(expression) = parse_expression(text) {
        assert_eq!(parse_expression(&expression.to_string()), Ok(expression));
    }
}

/// Of the scripts that `crate::scripts_in` finds the shortest statement that begins with each two words, and of these
/// the three longest of each first word.
#[test]
fn the_corpora_are_what_is_made_here() {
    let mut shortest: BTreeMap<String, String> = BTreeMap::new();
    for path in crate::scripts_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/corpus")) {
        for batch in split_batches(&std::fs::read_to_string(&path).expect("a script in UTF-8")) {
            for statement in parse_batch(&batch.text).expect("a script that parses").statements {
                let text = statement.span.text(&batch.text).to_owned();
                let begin = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
                let known = shortest.entry(begin).or_insert_with(|| text.clone());
                if text.len() < known.len() {
                    *known = text;
                }
            }
        }
    }
    let mut entries = Vec::new();
    let statements: Vec<String> = shortest.into_values().collect();
    let first_word = |text: &String| text.split_whitespace().next().map(str::to_owned);
    for group in statements.chunk_by(|left, right| first_word(left) == first_word(right)) {
        let mut group: Vec<&String> = group.iter().collect();
        group.sort_by_key(|text| std::cmp::Reverse(text.len()));
        entries.extend(group.iter().take(3).map(|text| text.as_bytes().to_vec()));
    }
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "parser", &entries);
}
