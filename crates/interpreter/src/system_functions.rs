//! Functions evaluated by the session: names and ids of objects, properties, the caught error.

mod constraints;
mod databases;
mod index_functions;
mod objects;

use std::collections::HashMap;
use std::path::MAIN_SEPARATOR;
use std::sync::Arc;

use hobt_base::{SqlError, Stamp, errors};
use hobt_engine::DatabaseUse;
use hobt_tsql::ast::{Identifier, ObjectName};
use hobt_types::{MaxLength, SqlType, Value};

use super::environment::Environment;
use super::names::Names;
use crate::place::stored_name;
use hobt_binder::SystemFunction;

/// The version in `SERVERPROPERTY('ProductVersion')`. Clients enable features by its first number.
pub const PRODUCT_VERSION: &str = "16.0.1000.6";
/// [`PRODUCT_VERSION`], packed as in `@@MICROSOFTVERSION`.
pub(super) const MICROSOFT_VERSION: i64 = (16 << 24) + 1000;

const NAME: SqlType = SqlType::NVarChar(MaxLength::Limited(128));
const LONG: SqlType = SqlType::NVarChar(MaxLength::Max);

type Answer = Arc<dyn Fn(&[Value]) -> Result<Value, SqlError> + Send + Sync>;

/// A function about databases or objects: its minimum and maximum argument counts, its type, and its implementation.
type Function = ((usize, usize), SqlType, fn(&World, &[Value]) -> Value);

/// The data that functions read. All of it is shared with other threads.
#[derive(Clone)]
struct World {
    environment: Environment,
    database: DatabaseUse,
    login: String,
    host: String,
    program: String,
    /// The session's temporary tables, see [`SessionState::temporary_tables`](super::state::SessionState).
    temporary_tables: HashMap<String, String>,
    /// The transaction whose uncommitted objects are visible.
    viewer: Option<Stamp>,
}

/// The function of this name. `None` if there is none.
pub(super) fn find(names: &Names<'_>, name: &str, arguments: &[SqlType]) -> Result<Option<SystemFunction>, SqlError> {
    let name = name.to_uppercase();
    let name = name.as_str();
    let state = names.state;
    let world = World {
        environment: names.environment.clone(),
        database: names.database.clone(),
        login: state.login.clone(),
        host: state.host.clone(),
        program: state.program.clone(),
        temporary_tables: state.temporary_tables.clone(),
        viewer: state.viewer(),
    };
    let error = names.caught;
    let constant = |value: Value| -> Answer { Arc::new(move |_| Ok(value.clone())) };
    let caught = |value: fn(&super::interpreter::Caught) -> Value| constant(error.map_or(Value::Null, value));
    let (arity, result, answer): ((usize, usize), SqlType, Answer) = match name {
        "ERROR_NUMBER" => ((0, 0), SqlType::Int, caught(|caught| Value::Int(i64::from(caught.error.number)))),
        "ERROR_SEVERITY" => ((0, 0), SqlType::Int, caught(|caught| Value::Int(i64::from(caught.error.severity)))),
        "ERROR_STATE" => ((0, 0), SqlType::Int, caught(|caught| Value::Int(i64::from(caught.error.state)))),
        "ERROR_LINE" => (
            (0, 0),
            SqlType::Int,
            caught(|caught| Value::Int(i64::from(caught.error.position.unwrap_or_default().line))),
        ),
        "ERROR_MESSAGE" => (
            (0, 0),
            SqlType::NVarChar(MaxLength::Limited(4000)),
            caught(|caught| Value::Text(caught.error.message.clone())),
        ),
        "ERROR_PROCEDURE" => ((0, 0), NAME, caught(|caught| caught.procedure.clone().map_or(Value::Null, Value::Text))),
        "XACT_STATE" => ((0, 0), SqlType::SmallInt, constant(Value::Int(state.transaction_state()))),
        "SCOPE_IDENTITY" => {
            ((0, 0), SqlType::Decimal { precision: 38, scale: 0 }, constant(names.frame.scope_identity.clone()))
        }
        "ROWCOUNT_BIG" => {
            let count = i64::try_from(state.row_count).unwrap_or(i64::MAX);
            ((0, 0), SqlType::BigInt, constant(Value::Int(count)))
        }
        "CONTEXT_INFO" => {
            let info = &state.options.context_info;
            let value = if info.is_empty() { Value::Null } else { Value::Binary(info.clone()) };
            ((0, 0), SqlType::VarBinary(MaxLength::Limited(128)), constant(value))
        }
        "CURRENT_REQUEST_ID" => ((0, 0), SqlType::SmallInt, constant(Value::Int(0))),
        "SUSER_SNAME" | "SUSER_NAME" => ((0, 1), NAME, constant(Value::Text(world.login))),
        "ORIGINAL_LOGIN" | "SYSTEM_USER" => ((0, 0), NAME, constant(Value::Text(world.login))),
        "USER_NAME" => ((0, 1), NAME, constant(Value::Text("dbo".to_owned()))),
        "CURRENT_USER" | "SESSION_USER" | "USER" => ((0, 0), NAME, constant(Value::Text("dbo".to_owned()))),
        "USER_ID" | "DATABASE_PRINCIPAL_ID" | "SUSER_ID" => ((0, 1), SqlType::Int, constant(Value::Int(1))),
        "HOST_NAME" => ((0, 0), NAME, constant(Value::Text(world.host))),
        "APP_NAME" | "PROGRAM_NAME" => ((0, 0), NAME, constant(Value::Text(world.program))),
        "HOST_ID" => ((0, 0), SqlType::Char(10), constant(Value::Text(format!("{:<10}", std::process::id())))),
        "IS_SRVROLEMEMBER" | "IS_MEMBER" | "IS_ROLEMEMBER" => ((1, 2), SqlType::Int, constant(Value::Int(1))),
        "HAS_PERMS_BY_NAME" => ((3, 5), SqlType::Int, constant(Value::Int(1))),
        "SERVERPROPERTY" => {
            ((1, 1), NAME, Arc::new(move |arguments| Ok(server_property(&world, &text_of(arguments, 0)))))
        }
        _ => {
            let found = databases::find(name).or_else(|| objects::find(name));
            let Some((arity, result, function)) = found else { return Ok(None) };
            (arity, result, Arc::new(move |arguments| Ok(function(&world, arguments))))
        }
    };
    check_arity(name, arity, arguments.len())?;
    Ok(Some(SystemFunction { result, evaluate: answer, is_constant: true }))
}

fn check_arity(name: &str, (least, most): (usize, usize), count: usize) -> Result<(), SqlError> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let name = name.to_lowercase();
    Err(if least == most {
        errors::FUNCTION_ARGUMENT_COUNT.with([&name, &least])
    } else {
        errors::FUNCTION_ARGUMENT_RANGE.with([&name, &least, &most])
    })
}

fn int(answer: Option<i64>) -> Value {
    answer.map_or(Value::Null, Value::Int)
}

fn text(answer: Option<String>) -> Value {
    answer.map_or(Value::Null, Value::Text)
}

fn text_of(arguments: &[Value], index: usize) -> String {
    match arguments.get(index) {
        Some(Value::Text(text)) => text.trim_end().to_owned(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn int_of(arguments: &[Value], index: usize) -> Option<i32> {
    match arguments.get(index)? {
        Value::Int(number) => i32::try_from(*number).ok(),
        Value::Decimal(number) => i32::try_from(*number).ok(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The database, schema and name in a text like `db.dbo.[t]`.
fn split_name(world: &World, text: &str) -> Option<(DatabaseUse, String, String)> {
    let name = parse_name(text)?;
    let database = match &name.database {
        Some(database) => world.environment.instance.database(&database.value).ok()?.seen_by(world.viewer),
        None => world.database.clone(),
    };
    let schema = name.schema.map_or_else(|| "dbo".to_owned(), |schema| schema.value);
    // Unlike FROM, these functions find a temporary table only if tempdb is named or is the current database.
    let name = match name.name.value {
        name if name.starts_with('#') && database.name() == "tempdb" => stored_name(&world.temporary_tables, &name),
        name => name,
    };
    Some((database, schema, name))
}

/// Parses a name of up to four parts. Removes brackets and quotes.
pub(super) fn parse_name(text: &str) -> Option<ObjectName> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut characters = text.trim().chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '.' => parts.push(String::new()),
            '[' | '"' => {
                let close = if character == '[' { ']' } else { '"' };
                loop {
                    match characters.next()? {
                        c if c == close && characters.peek() == Some(&close) => {
                            characters.next();
                            parts.last_mut()?.push(close);
                        }
                        c if c == close => break,
                        c => parts.last_mut()?.push(c),
                    }
                }
            }
            other => parts.last_mut()?.push(other),
        }
    }
    let part = |text: Option<String>| {
        text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).map(Identifier::new)
    };
    let name = part(parts.pop())?;
    let (schema, database, server) = (part(parts.pop()), part(parts.pop()), part(parts.pop()));
    parts.is_empty().then_some(ObjectName { server, database, schema, name })
}

fn server_property(world: &World, property: &str) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    match property.to_lowercase().as_str() {
        "productversion" => text(PRODUCT_VERSION),
        "productmajorversion" => text("16"),
        "productminorversion" => text("0"),
        "productbuild" => text("1000"),
        "productlevel" => text("RTM"),
        "edition" => text("Developer Edition (64-bit)"),
        "editionid" => text("-2117995310"),
        "engineedition" => text("3"),
        "servername" | "machinename" | "computernamephysicalnetbios" => text(&world.environment.server_name),
        "collation" => text("SQL_Latin1_General_CP1_CI_AS"),
        "collationid" => text("872468488"),
        "sqlcharset" => text("1"),
        "sqlcharsetname" => text("iso_1"),
        "sqlsortorder" => text("52"),
        "sqlsortordername" => text("nocase_iso"),
        "lcid" => text("1033"),
        "comparisonstyle" => text("196609"),
        "resourceversion" => text(PRODUCT_VERSION),
        "buildclrversion" => text("v4.0.30319"),
        "processid" => Value::Text(std::process::id().to_string()),
        "instancedefaultdatapath" | "instancedefaultlogpath" => {
            // The caller appends a file name to this folder.
            let folder = world.environment.instance.folder().display().to_string();
            Value::Text(format!("{}{MAIN_SEPARATOR}", folder.trim_end_matches(MAIN_SEPARATOR)))
        }
        "isclustered"
        | "isfulltextinstalled"
        | "ishadrenabled"
        | "isintegratedsecurityonly"
        | "islocaldb"
        | "issingleuser"
        | "isxtpsupported"
        | "ispolybaseinstalled"
        | "isadvancedanalyticsinstalled"
        | "filestreamconfiguredlevel"
        | "filestreameffectivelevel" => text("0"),
        _ => Value::Null,
    }
}

/// The types' names with their `user_type_id`.
pub fn type_names() -> impl Iterator<Item = (&'static str, i32)> {
    [
        ("uniqueidentifier", 36),
        ("date", 40),
        ("time", 41),
        ("datetime2", 42),
        ("tinyint", 48),
        ("smallint", 52),
        ("int", 56),
        ("smalldatetime", 58),
        ("real", 59),
        ("money", 60),
        ("datetime", 61),
        ("float", 62),
        ("bit", 104),
        ("decimal", 106),
        ("numeric", 108),
        ("smallmoney", 122),
        ("bigint", 127),
        ("varbinary", 165),
        ("varchar", 167),
        ("binary", 173),
        ("char", 175),
        ("nvarchar", 231),
        ("nchar", 239),
        ("sysname", 256),
    ]
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_texts_lose_their_brackets() {
        let name = parse_name("[my db]..\"a\"\"b\"").unwrap();
        assert_eq!(name.database.unwrap().value, "my db");
        assert_eq!(name.schema, None);
        assert_eq!(name.name.value, "a\"b");
        assert_eq!(parse_name("[x]]y]").unwrap().name.value, "x]y");
        assert_eq!(parse_name("[open"), None);
        assert_eq!(parse_name(""), None);
        assert_eq!(parse_name("a.b.c.d.e"), None);
    }
}
