//! What an import does: the table's columns, and the batch that makes the table and loads the files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hobt_files::{CodePage, Header, TextLayout, files_of, infer_columns, infer_json_columns, parquet_schema};
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
    /// The columns that are filled, each with its field from 1; empty for all.
    filled: Vec<(String, usize)>,
    files: Vec<PathBuf>,
    options: Vec<String>,
    /// Bytes of the files.
    pub(super) bytes: u64,
}

/// A file's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Text,
    JsonLines,
    Parquet,
}

/// The names and types of files' columns, and whether the first row has the names.
struct Found {
    columns: Vec<(String, SqlType)>,
    has_header: bool,
}

/// What the arguments mean, with the first file looked at.
pub(super) fn planned(
    arguments: &LoadArguments,
    patterns: &[String],
    table: &str,
    session: &mut Session,
    overrides: &[TypeOverride],
) -> Result<Plan, ImportError> {
    let mut files = Vec::new();
    for pattern in patterns {
        let path = std::path::absolute(pattern).map_err(|error| ImportError::Usage(format!("{pattern}: {error}")))?;
        files.extend(files_of(&path)?);
    }
    let Some(first) = files.first().cloned() else { return Err(ImportError::Usage("there are no files".to_owned())) };
    let (form, delimiter) = form_of(arguments, &first)?;
    let code_page = match &arguments.encoding {
        None => CodePage::Utf8,
        Some(name) if name.eq_ignore_ascii_case("utf-16") || name.eq_ignore_ascii_case("utf16") => CodePage::WIDE,
        Some(name) => CodePage::named(name).ok_or_else(|| {
            ImportError::Usage(format!("the encoding {name} is not known: give a code page's number"))
        })?,
    };
    let mut layout = TextLayout::csv();
    layout.field_end = unescaped(&delimiter).into_bytes();
    if let Some(quote) = arguments.quote {
        let quote = u8::try_from(quote).ok().filter(u8::is_ascii);
        layout.quote = Some(quote.ok_or_else(|| ImportError::Usage("--quote takes one ASCII character".to_owned()))?);
    }
    let found = look(arguments, form, &first, (&layout, code_page))?;
    let known = columns_of(session, table);
    let mut options = vec!["TABLOCK".to_owned(), format!("MAXERRORS = {}", arguments.max_errors)];
    match form {
        Form::Text => {
            options.push("FILE_TYPE = 'CSV'".to_owned());
            options.push(format!("FIELDTERMINATOR = {}", string(&delimiter)));
            options.push(format!("FIELDQUOTE = {}", string(&arguments.quote.unwrap_or('"').to_string())));
            options.push(format!("FIRSTROW = {}", if found.has_header { 2 } else { 1 }));
            if let Some(encoding) = &arguments.encoding {
                let name = if code_page == CodePage::WIDE { "UTF16" } else { encoding };
                options.push(format!("ENCODING = {}", string(name)));
            }
        }
        Form::JsonLines => options.push("FILE_TYPE = 'JSON'".to_owned()),
        Form::Parquet => options.push("FILE_TYPE = 'PARQUET'".to_owned()),
    }
    let (new_columns, filled) = match known {
        None => (Some(new_columns(&found, overrides)?), Vec::new()),
        Some(known) => (None, matched(&found, &known, form, table)?),
    };
    let bytes = files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.len()).sum();
    Ok(Plan { table: table.to_owned(), new_columns, filled, files, options, bytes })
}

fn look(
    arguments: &LoadArguments,
    form: Form,
    first: &Path,
    (layout, code_page): (&TextLayout, CodePage),
) -> Result<Found, ImportError> {
    let header = match (arguments.header, arguments.no_header) {
        (true, _) => Header::Yes,
        (_, true) => Header::No,
        _ => Header::Guess,
    };
    let found = match form {
        Form::Text => {
            let inferred = infer_columns(first, layout, code_page, header)?;
            Found { columns: inferred.columns, has_header: inferred.has_header }
        }
        Form::JsonLines => Found { columns: infer_json_columns(first, code_page)?.columns, has_header: false },
        Form::Parquet => {
            let columns = parquet_schema(first)?.columns;
            Found { columns: columns.into_iter().map(|c| (c.name, c.sql_type)).collect(), has_header: false }
        }
    };
    if found.columns.is_empty() {
        return Err(ImportError::Usage(format!("{} has no columns", first.display())));
    }
    Ok(found)
}

/// The form of the files, and what stands between their values.
fn form_of(arguments: &LoadArguments, first: &Path) -> Result<(Form, String), ImportError> {
    let name = first.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let of_name = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let format = arguments.format.as_deref().unwrap_or(of_name).to_ascii_lowercase();
    let (form, between) = match format.as_str() {
        "csv" | "txt" | "" => (Form::Text, ","),
        "tsv" | "tab" => (Form::Text, "\\t"),
        "tbl" | "psv" => (Form::Text, "|"),
        "json" | "jsonl" | "ndjson" => (Form::JsonLines, ","),
        "parquet" => (Form::Parquet, ","),
        other => {
            let text = format!(
                "the format '{other}' is not known: --format csv, tsv, jsonl or parquet says what the files are"
            );
            return Err(ImportError::Usage(text));
        }
    };
    Ok((form, arguments.delimiter.clone().unwrap_or_else(|| between.to_owned())))
}

fn unescaped(text: &str) -> String {
    let hex = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    if let Some(character) = hex.and_then(char::from_u32) {
        return character.to_string();
    }
    text.replace("\\t", "\t").replace("\\0", "\0").replace("\\\\", "\\")
}

/// The names of a table's columns; `None` if there is no such table.
fn columns_of(session: &mut Session, table: &str) -> Option<Vec<String>> {
    let mut names = None;
    session.execute_expected(&format!("SELECT TOP 0 * FROM {table}"), &mut |event: Event| {
        if let Event::ResultSet(columns) = event {
            names = Some(columns.iter().map(|column| column.name.clone()).collect());
        }
        Flow::Continue
    });
    names
}

/// The columns of a new table.
fn new_columns(found: &Found, overrides: &[TypeOverride]) -> Result<Vec<(String, String)>, ImportError> {
    for wanted in overrides {
        if !found.columns.iter().any(|(name, _)| name.eq_ignore_ascii_case(&wanted.name)) {
            let names: Vec<&str> = found.columns.iter().map(|(name, _)| name.as_str()).collect();
            let text = format!("--types names the column '{}', and the files have {}", wanted.name, names.join(", "));
            return Err(ImportError::Usage(text));
        }
    }
    let typed = |(name, sql_type): &(String, SqlType)| {
        let given = overrides.iter().find(|wanted| wanted.name.eq_ignore_ascii_case(name));
        (name.clone(), given.map_or_else(|| sql_type.to_string(), |wanted| wanted.type_name.clone()))
    };
    Ok(found.columns.iter().map(typed).collect())
}

/// Which columns of a table that is there the files fill: by name if the files have names that the table has, else all.
fn matched(found: &Found, known: &[String], form: Form, table: &str) -> Result<Vec<(String, usize)>, ImportError> {
    if form == Form::Text && !found.has_header {
        return Ok(Vec::new());
    }
    let place = |name: &String| known.iter().find(|known| known.eq_ignore_ascii_case(name));
    let filled: Vec<(String, usize)> =
        found.columns.iter().enumerate().filter_map(|(at, (name, _))| Some((place(name)?.clone(), at + 1))).collect();
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

    /// The batch. A load that fails leaves no new table.
    pub(super) fn batch(&self) -> String {
        let mut batch = String::from("SET XACT_ABORT ON; BEGIN TRANSACTION;\n");
        if let Some(columns) = &self.new_columns {
            let columns: Vec<String> =
                columns.iter().map(|(name, type_name)| format!("{} {type_name} NULL", quoted(name))).collect();
            let _ = writeln!(batch, "CREATE TABLE {} ({});", self.table, columns.join(", "));
        }
        let list = match self.filled.is_empty() {
            true => String::new(),
            false => {
                let filled: Vec<String> =
                    self.filled.iter().map(|(name, field)| format!("{} {field}", quoted(name))).collect();
                format!(" ({})", filled.join(", "))
            }
        };
        let files: Vec<String> = self.files.iter().map(|file| string(&file.display().to_string())).collect();
        let _ = writeln!(
            batch,
            "COPY INTO {}{list} FROM {} WITH ({});\nCOMMIT TRANSACTION",
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
