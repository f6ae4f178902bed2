//! Shortcuts in the manner of SQLite and DuckDB: lines that begin with a dot, where a batch may begin.
//!
//! Each is a short way to something that is there: a query, a procedure, `:r`, `hobt import`, `hobt export`. No batch
//! of T-SQL begins with a dot, and within a batch such a line is T-SQL.

use clap::Args;

use crate::export::FileArguments;
use crate::import::LoadArguments;

/// What a shortcut asks for.
#[derive(Clone, Debug)]
pub(super) enum Shortcut {
    /// `.tables`, `.schema`, `.databases`, `.timer`: a batch.
    Batch(String),
    /// `.read FILE`: the file's batches run.
    Read(String),
    /// `.import FILE… TABLE`.
    Import(Box<LoadArguments>),
    /// `.export QUERY|TABLE FILE`.
    Export(Box<FileArguments>),
    /// `.help`.
    Help,
    /// `.quit`, `.exit`.
    Leave,
}

/// The shortcuts, with what each does.
const KNOWN: [(&str, &str); 9] = [
    (".databases", "the databases"),
    (".tables [PATTERN]", "the tables and views of the database; LIKE's pattern picks some"),
    (".schema [TABLE]", "the columns of a table and its indexes, or the columns of all tables"),
    (".import FILE… TABLE", "loads files, as hobt import does, with its options"),
    (".export QUERY|TABLE FILE", "writes a file, as hobt export does, with its options; a query in double quotes"),
    (".read FILE", "runs the batches of a file"),
    (".timer on|off", "CPU and elapsed time of each statement, as SET STATISTICS TIME"),
    (".help", "this list"),
    (".quit, .exit", "leave"),
];

const TABLES: &str = "SELECT TABLE_SCHEMA + N'.' + TABLE_NAME AS [name], LOWER(TABLE_TYPE) AS [type] \
                      FROM INFORMATION_SCHEMA.TABLES";
const COLUMNS: &str = "SELECT TABLE_SCHEMA + N'.' + TABLE_NAME AS [table], COLUMN_NAME AS [column], \
                       DATA_TYPE AS [type], CHARACTER_MAXIMUM_LENGTH AS [length], IS_NULLABLE AS [null] FROM INFORMATION_SCHEMA.COLUMNS \
                       ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION";

/// The list of shortcuts, a line each.
pub(super) fn help() -> String {
    let width = KNOWN.iter().map(|(form, _)| form.chars().count()).max().unwrap_or(0);
    KNOWN.iter().map(|(form, what)| format!("{form:<width$}  {what}\n")).collect()
}

/// The shortcut that a line is; `None` if it does not begin with a dot and a letter. An error says what is wrong with
/// it.
pub(super) fn parse(line: &str) -> Option<Result<Shortcut, String>> {
    let text = line.trim().strip_prefix('.').filter(|text| text.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    let text = text.trim_end_matches(';').trim_end();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Some(words(rest).and_then(|words| of_words(&word.to_ascii_lowercase(), words)))
}

fn of_words(word: &str, words: Vec<String>) -> Result<Shortcut, String> {
    let given: Vec<&str> = words.iter().map(String::as_str).collect();
    let batch = |text: String| Ok(Shortcut::Batch(text));
    match (word, given.as_slice()) {
        ("databases", []) => batch("SELECT name, state_desc AS [state] FROM sys.databases ORDER BY name".to_owned()),
        ("tables", []) => batch(format!("{TABLES} ORDER BY 1")),
        ("tables", [pattern]) => batch(format!("{TABLES} WHERE TABLE_NAME LIKE {} ORDER BY 1", string(pattern))),
        ("schema", []) => batch(COLUMNS.to_owned()),
        ("schema", [table]) => {
            let table = string(table);
            batch(format!(
                "EXEC sp_help {table}; IF EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = OBJECT_ID({table}) \
                 AND index_id > 0) EXEC sp_helpindex {table}"
            ))
        }
        ("timer", [state]) if state.eq_ignore_ascii_case("on") => batch("SET STATISTICS TIME ON".to_owned()),
        ("timer", [state]) if state.eq_ignore_ascii_case("off") => batch("SET STATISTICS TIME OFF".to_owned()),
        ("read", [file]) => Ok(Shortcut::Read((*file).to_owned())),
        ("import", _) => Ok(Shortcut::Import(Box::new(arguments(".import", &words)?))),
        ("export", _) => Ok(Shortcut::Export(Box::new(arguments(".export", &words)?))),
        ("help", []) => Ok(Shortcut::Help),
        ("quit" | "exit", []) => Ok(Shortcut::Leave),
        _ => match KNOWN.iter().find(|(form, _)| is_form_of(form, word)) {
            Some((form, what)) => Err(format!("It is {form}: {what}.")),
            None => Err(format!("The command .{word} is not known. Known are\n{}", help().trim_end())),
        },
    }
}

fn is_form_of(form: &str, word: &str) -> bool {
    form.split([' ', ',']).any(|part| part.strip_prefix('.') == Some(word))
}

/// Arguments as the program's own command of that kind reads them.
fn arguments<A: Args>(name: &'static str, words: &[String]) -> Result<A, String> {
    let command = A::augment_args(clap::Command::new(name).disable_help_flag(true).no_binary_name(true));
    let read = command.try_get_matches_from(words).and_then(|matches| A::from_arg_matches(&matches));
    read.map_err(|error| error.render().to_string().trim_end().to_owned())
}

/// The words of a line, with blanks inside of single or double quotes; a doubled quote stands for one.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        if first == '"' || first == '\'' {
            rest = &rest[1..];
            loop {
                let end = rest.find(first).ok_or_else(|| format!("The quote {first} has no end."))?;
                word.push_str(&rest[..end]);
                rest = &rest[end + 1..];
                match rest.strip_prefix(first) {
                    Some(more) => {
                        word.push(first);
                        rest = more;
                    }
                    None => break,
                }
            }
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_start();
    }
    Ok(words)
}

/// A text as T-SQL writes it.
fn string(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(line: &str) -> String {
        match parse(line) {
            Some(Ok(Shortcut::Batch(text))) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn error(line: &str) -> String {
        parse(line).expect("a shortcut").expect_err(line)
    }

    #[test]
    fn shortcuts_become_batches() {
        assert!(batch(".tables").ends_with("TABLES ORDER BY 1"));
        assert!(batch("  .TABLES ord%; ").contains("LIKE N'ord%'"));
        assert!(batch(".schema \"o'c\"").starts_with("EXEC sp_help N'o''c';"));
        assert_eq!(batch(".timer ON"), "SET STATISTICS TIME ON");
    }

    #[test]
    fn what_is_no_shortcut_is_t_sql() {
        for line in ["SELECT .5", ".5", "..t", ". tables", ""] {
            assert!(parse(line).is_none(), "{line}");
        }
    }

    #[test]
    fn an_unknown_shortcut_is_answered_with_the_list_and_a_wrong_one_with_its_form() {
        let text = error(".foo");
        assert!(KNOWN.iter().all(|(form, _)| text.contains(form)) && text.contains(".foo"), "{text}");
        assert!(error(".timer").contains(".timer on|off"));
        assert!(error(".exit now").contains(".quit, .exit"));
        assert!(error(".read \"a").contains("no end"));
        assert!(error(".import a.csv").contains("FILE"), "{}", error(".import a.csv"));
        assert!(error(".export t f.csv --bar").contains("--bar"));
    }

    #[test]
    fn words_have_blanks_in_quotes() {
        let wanted = ["SELECT \"a b\"", "it's.csv", "x"];
        assert_eq!(words(" \"SELECT \"\"a b\"\"\" 'it''s.csv'  x ").expect("words"), wanted);
    }
}
