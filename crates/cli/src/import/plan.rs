//! What an import does: the table's columns, and the batch that makes the table and loads the files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::number;
use hobt_files::{
    CodePage, FileKind, FileName, Header, TextLayout, files_of, first_row, infer_columns, infer_json_columns,
    parquet_schema, terminator,
};
use hobt_types::SqlType;

use super::{ImportError, LoadArguments};
use hobt::{Event, Flow, Session};

/// A type that the user gives a column.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct TypeOverride {
    name: String,
    type_name: String,
}

impl TypeOverride {
    /// Reads `name type, name type`; a type may have commas in parentheses.
    pub(super) fn list(text: &str) -> Result<Vec<TypeOverride>, String> {
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for character in text.chars() {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            match parts.last_mut() {
                Some(_) if character == ',' && depth == 0 => parts.push(String::new()),
                Some(part) => part.push(character),
                None => {}
            }
        }
        let read = |part: &String| {
            let part = part.trim();
            let (name, type_name) = part.split_once(|c: char| c.is_whitespace() || c == '=' || c == ':')?;
            Some(TypeOverride { name: name.to_owned(), type_name: type_name.trim().to_owned() })
        };
        let wanted = "--types takes columns with their types: --types \"id bigint, price decimal(9, 2)\"";
        parts.iter().map(|part| read(part).ok_or_else(|| wanted.to_owned())).collect()
    }
}

/// What is to be done.
pub(super) struct Plan {
    table: String,
    /// The columns of the table that is to be made, with their types; `None` if it is there.
    new_columns: Option<Vec<(String, String)>>,
    /// The columns that are filled, in the order of the fields; empty for all.
    filled: Vec<String>,
    files: Vec<PathBuf>,
    options: Vec<String>,
    /// Bytes of the files.
    pub(super) bytes: u64,
    /// The name of the savepoint within an open transaction.
    savepoint: String,
}

/// Tells savepoints apart.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(1);

/// The names and types of files' columns, and whether the first row has the names.
struct Found {
    columns: Vec<(String, SqlType)>,
    has_header: bool,
}

/// The files, as they were looked at before there was an instance.
pub(super) struct Looked {
    files: Vec<PathBuf>,
    kind: FileKind,
    found: Found,
    overrides: Vec<TypeOverride>,
    /// The options of the load.
    options: Vec<String>,
}

impl Looked {
    /// What the arguments mean, with the first file looked at.
    ///
    /// # Errors
    /// There are no such files, the first cannot be read, or an argument cannot be used or has no use for them.
    pub(super) fn at(arguments: &LoadArguments, patterns: &[String]) -> Result<Looked, ImportError> {
        let overrides = arguments.types.as_deref().map(TypeOverride::list).transpose();
        let overrides = overrides.map_err(ImportError::Usage)?.unwrap_or_default();
        let mut files = Vec::new();
        for pattern in patterns {
            if pattern == "-" {
                return usage(
                    "an import looks at its files before it loads them: write what comes through the pipe to a file",
                );
            }
            let path =
                std::path::absolute(pattern).map_err(|error| ImportError::Usage(format!("{pattern}: {error}")))?;
            files.extend(files_of(&path)?);
        }
        let Some(first) = files.first() else { return usage("there are no files") };
        let kind = kind_of(arguments, first)?;
        check_use(arguments, kind)?;
        let code_page = code_page(arguments)?;
        let delimiter = arguments.delimiter.as_deref().or(kind.delimiter()).unwrap_or(",");
        let mut layout = TextLayout::csv();
        let unusable = |problem| ImportError::Usage(format!("--delimiter {delimiter}: {problem}"));
        layout.field_end = terminator(delimiter).map_err(unusable)?;
        if let Some(quote) = arguments.quote {
            let quote = u8::try_from(quote).ok().filter(u8::is_ascii);
            layout.quote =
                Some(quote.ok_or_else(|| ImportError::Usage("--quote takes one ASCII character".to_owned()))?);
        }
        let found = look(arguments, kind, first, (&layout, code_page))?;
        check_types(&found, &overrides)?;
        check_same(arguments, kind, &files, found.has_header.then_some((&layout, code_page)))?;
        let mut options = vec!["TABLOCK".to_owned(), format!("MAXERRORS = {}", arguments.max_errors)];
        match kind {
            FileKind::Csv | FileKind::Tsv | FileKind::Psv => {
                options.push("FILE_TYPE = 'CSV'".to_owned());
                options.push(format!("FIELDTERMINATOR = {}", string(delimiter)));
                options.push(format!("FIELDQUOTE = {}", string(&arguments.quote.unwrap_or('"').to_string())));
                options.push(format!("FIRSTROW = {}", if found.has_header { 2 } else { 1 }));
            }
            FileKind::Json | FileKind::JsonLines => options.push("FILE_TYPE = 'JSON'".to_owned()),
            FileKind::Parquet => options.push("FILE_TYPE = 'PARQUET'".to_owned()),
        }
        if let Some(encoding) = &arguments.encoding {
            let name = if code_page == CodePage::WIDE { "UTF16" } else { encoding };
            options.push(format!("ENCODING = {}", string(name)));
        }
        Ok(Looked { files, kind, found, overrides, options })
    }
}

fn usage<T>(text: &str) -> Result<T, ImportError> {
    Err(ImportError::Usage(text.to_owned()))
}

fn code_page(arguments: &LoadArguments) -> Result<CodePage, ImportError> {
    match &arguments.encoding {
        None => Ok(CodePage::Utf8),
        Some(name) if name.eq_ignore_ascii_case("utf-16") || name.eq_ignore_ascii_case("utf16") => Ok(CodePage::WIDE),
        Some(name) => CodePage::named(name)
            .ok_or_else(|| ImportError::Usage(format!("the encoding {name} is not known: give a code page's number"))),
    }
}

/// Refuses arguments that would do nothing for files of this kind.
fn check_use(arguments: &LoadArguments, kind: FileKind) -> Result<(), ImportError> {
    let of_csv = [
        ("--delimiter", arguments.delimiter.is_some()),
        ("--quote", arguments.quote.is_some()),
        ("--header", arguments.header),
        ("--no-header", arguments.no_header),
    ];
    let of_csv = of_csv.iter().find(|(_, is_given)| *is_given).map(|(name, _)| (*name, "CSV"));
    let of_text = arguments.encoding.is_some().then_some(("--encoding", "text"));
    let without_use = match kind {
        FileKind::Csv | FileKind::Tsv | FileKind::Psv => None,
        FileKind::Json | FileKind::JsonLines => of_csv,
        FileKind::Parquet => of_csv.or(of_text),
    };
    match without_use {
        Some((name, what)) => Err(ImportError::Usage(format!("{name} is for files of {what} alone"))),
        None => Ok(()),
    }
}

fn look(
    arguments: &LoadArguments,
    kind: FileKind,
    first: &Path,
    (layout, code_page): (&TextLayout, CodePage),
) -> Result<Found, ImportError> {
    let header = match (arguments.header, arguments.no_header) {
        (true, _) => Header::Yes,
        (_, true) => Header::No,
        _ => Header::Guess,
    };
    let found = match kind {
        FileKind::Csv | FileKind::Tsv | FileKind::Psv => {
            let inferred = infer_columns(first, layout, code_page, header)?;
            Found { columns: inferred.columns, has_header: inferred.has_header }
        }
        FileKind::Json | FileKind::JsonLines => {
            Found { columns: infer_json_columns(first, code_page)?.columns, has_header: false }
        }
        FileKind::Parquet => {
            let columns = parquet_schema(first)?.columns;
            Found { columns: columns.into_iter().map(|c| (c.name, c.sql_type)).collect(), has_header: false }
        }
    };
    if found.columns.is_empty() {
        let why = match kind {
            FileKind::Json | FileKind::JsonLines => ": no line is a whole object, and JSON is read line by line",
            FileKind::Csv | FileKind::Tsv | FileKind::Psv | FileKind::Parquet => "",
        };
        return Err(ImportError::Usage(format!("{} has no columns{why}", first.display())));
    }
    Ok(found)
}

/// The kind of the files: as `--format` says, or the first file's name. A name without an ending is one of CSV.
fn kind_of(arguments: &LoadArguments, first: &Path) -> Result<FileKind, ImportError> {
    let name = FileName::of(first);
    let kind = match &arguments.format {
        Some(format) => FileKind::of_ending(format),
        None if name.has_ending => name.kind,
        None => Some(FileKind::Csv),
    };
    kind.ok_or_else(|| {
        let what = match &arguments.format {
            Some(format) => format!("the format '{format}' is not known"),
            None => format!("{} does not say what it is", first.display()),
        };
        ImportError::Usage(format!("{what}: --format csv, tsv, jsonl or parquet says what the files are"))
    })
}

/// Checks that all files are of one kind, and have the header of the first one, if that has one: fields are told apart
/// by their places.
fn check_same(
    arguments: &LoadArguments,
    kind: FileKind,
    files: &[PathBuf],
    header: Option<(&TextLayout, CodePage)>,
) -> Result<(), ImportError> {
    let Some((first, others)) = files.split_first() else { return Ok(()) };
    let names = |file: &Path| header.map(|(layout, code_page)| first_row(file, layout, code_page)).transpose();
    let wanted = names(first)?;
    for other in others {
        let differs = arguments.format.is_none() && FileName::of(other).kind.is_some_and(|other| other != kind);
        if differs {
            let text = format!(
                "{} and {} are of two kinds: import them one after the other",
                first.display(),
                other.display()
            );
            return Err(ImportError::Usage(text));
        }
        let (Some(wanted), Some(found)) = (&wanted, names(other)?) else { continue };
        let is_same =
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(one, two)| one.eq_ignore_ascii_case(two));
        if !found.is_empty() && !is_same {
            let text = format!(
                "{} begins with the names {}, and {} with {}: import them one after the other",
                first.display(),
                wanted.join(", "),
                other.display(),
                found.join(", ")
            );
            return Err(ImportError::Usage(text));
        }
    }
    Ok(())
}

/// Checks that the files have the columns that `--types` names, each once.
fn check_types(found: &Found, overrides: &[TypeOverride]) -> Result<(), ImportError> {
    let is_known = |at: usize| overrides[..at].iter().any(|other| other.name.eq_ignore_ascii_case(&overrides[at].name));
    if let Some(at) = (0..overrides.len()).find(|at| is_known(*at)) {
        return Err(ImportError::Usage(format!("--types names the column '{}' twice", overrides[at].name)));
    }
    let has = |wanted: &&TypeOverride| found.columns.iter().any(|(name, _)| name.eq_ignore_ascii_case(&wanted.name));
    let Some(missing) = overrides.iter().find(|wanted| !has(wanted)) else { return Ok(()) };
    let names: Vec<&str> = found.columns.iter().map(|(name, _)| name.as_str()).collect();
    let text = format!("--types names the column '{}', and the files have {}", missing.name, names.join(", "));
    Err(ImportError::Usage(text))
}

/// The names of a table's columns; `None` if there is no such table.
///
/// # Errors
/// Why the table cannot be read, other than that it is not there.
pub(super) fn columns_of(session: &mut Session, table: &str) -> Result<Option<Vec<String>>, ImportError> {
    let (mut names, mut failed) = (None, None);
    session.execute_expected(&format!("SELECT TOP 0 * FROM {table}"), &mut |event: Event| {
        match event {
            Event::ResultSet(columns) => names = Some(columns.iter().map(|column| column.name.clone()).collect()),
            Event::Error(error) => {
                failed.get_or_insert(error);
            }
            _ => {}
        }
        Flow::Continue
    });
    match failed {
        Some(error) if error.number != number::INVALID_OBJECT => Err(ImportError::Sql(error)),
        Some(_) => Ok(None),
        None => Ok(names),
    }
}

/// The columns of a new table.
fn new_columns(found: &Found, overrides: &[TypeOverride]) -> Vec<(String, String)> {
    let typed = |(name, sql_type): &(String, SqlType)| {
        let given = overrides.iter().find(|wanted| wanted.name.eq_ignore_ascii_case(name));
        (name.clone(), given.map_or_else(|| sql_type.to_string(), |wanted| wanted.type_name.clone()))
    };
    found.columns.iter().map(typed).collect()
}

/// Which columns of a table that is there the files fill: by name if the files have names that the table has, else all.
fn matched(found: &Found, known: &[String], kind: FileKind, table: &str) -> Result<Vec<String>, ImportError> {
    if kind.delimiter().is_some() && !found.has_header {
        return Ok(Vec::new());
    }
    let place = |name: &String| known.iter().find(|known| known.eq_ignore_ascii_case(name));
    let filled: Vec<String> = found.columns.iter().filter_map(|(name, _)| place(name).cloned()).collect();
    let missing: Vec<&str> =
        found.columns.iter().filter(|(name, _)| place(name).is_none()).map(|(name, _)| name.as_str()).collect();
    if filled.is_empty() && found.columns.len() == known.len() {
        return Ok(Vec::new());
    }
    if !missing.is_empty() {
        let text =
            format!("the table {table} has no column {}; its columns are {}", missing.join(", "), known.join(", "));
        return Err(ImportError::Usage(text));
    }
    Ok(filled)
}

impl Plan {
    /// What loads these files into a table, which has the columns `known`, or is to be made.
    ///
    /// # Errors
    /// The table does not have the files' columns, or is there and is not to get types.
    pub(super) fn new(looked: Looked, table: &str, known: Option<Vec<String>>) -> Result<Plan, ImportError> {
        let Looked { files, kind, found, overrides, options } = looked;
        if known.is_some() && !overrides.is_empty() {
            return Err(ImportError::Usage(format!("--types is for a new table, and {table} is there")));
        }
        let (new_columns, filled) = match known {
            None => (Some(new_columns(&found, &overrides)), Vec::new()),
            Some(known) => (None, matched(&found, &known, kind, table)?),
        };
        let bytes = files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.len()).sum();
        let savepoint = format!("hobt_import_{}", NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed));
        Ok(Plan { table: table.to_owned(), new_columns, filled, files, options, bytes, savepoint })
    }

    /// What is said before it is done.
    pub(super) fn lines(&self) -> Vec<String> {
        let files = match &self.files[..] {
            [file] => file.display().to_string(),
            files => format!("{} files, {} to {}", files.len(), files[0].display(), files[files.len() - 1].display()),
        };
        let mut lines = vec![format!("{files} -> {}", self.table)];
        if let Some(columns) = &self.new_columns {
            lines.push("The table is new:".to_owned());
            let width = columns.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            lines.extend(columns.iter().map(|(name, type_name)| format!("  {name:<width$}  {type_name}")));
        }
        lines
    }

    /// The batch, in a transaction of its own. A load that fails leaves no new table.
    pub(super) fn batch(&self) -> String {
        let text = format!("SET XACT_ABORT ON; BEGIN TRANSACTION;\n{}COMMIT TRANSACTION", self.statements());
        // What a text sets that is executed ends with it.
        format!("EXEC ({})", string(&text))
    }

    /// The batch, within a transaction that is open, and goes on if the load fails.
    pub(super) fn batch_within(&self) -> String {
        let savepoint = &self.savepoint;
        format!(
            "SAVE TRANSACTION {savepoint};\nBEGIN TRY\n{}END TRY\nBEGIN CATCH\nIF XACT_STATE() = 1 ROLLBACK TRANSACTION \
             {savepoint};\nTHROW;\nEND CATCH",
            self.statements()
        )
    }

    /// Undoes what [`Plan::batch_within`] has done.
    pub(super) fn undo(&self) -> String {
        format!("ROLLBACK TRANSACTION {}", self.savepoint)
    }

    fn statements(&self) -> String {
        let mut batch = String::new();
        if let Some(columns) = &self.new_columns {
            let columns: Vec<String> =
                columns.iter().map(|(name, type_name)| format!("{} {type_name} NULL", quoted(name))).collect();
            let _ = writeln!(batch, "CREATE TABLE {} ({});", self.table, columns.join(", "));
        }
        let list = match self.filled.is_empty() {
            true => String::new(),
            false => {
                let filled: Vec<String> = self.filled.iter().map(|name| quoted(name)).collect();
                format!(" ({})", filled.join(", "))
            }
        };
        let files: Vec<String> = self.files.iter().map(|file| string(&file.display().to_string())).collect();
        let _ = writeln!(
            batch,
            "COPY INTO {}{list} FROM {} WITH ({});",
            self.table,
            files.join(", "),
            self.options.join(", ")
        );
        batch
    }
}

fn quoted(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

fn string(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_listed_with_their_own_commas() {
        let list = TypeOverride::list("id bigint, price decimal(9, 2),name=nvarchar(20)").expect("a list");
        let texts: Vec<String> = list.iter().map(|wanted| format!("{}|{}", wanted.name, wanted.type_name)).collect();
        assert_eq!(texts, ["id|bigint", "price|decimal(9, 2)", "name|nvarchar(20)"]);
        assert!(TypeOverride::list("id").is_err());
    }
}
