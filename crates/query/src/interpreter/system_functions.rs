//! Functions that the session answers: names and ids of objects, properties, the caught error.

mod index_functions;

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{DatabaseId, EXTENT_PAGES, ObjectId, SqlError, Stamp, number};
use hobt_catalog::{DatabaseSnapshot, ModuleKind};
use hobt_engine::{DatabaseUse, LogDescription};
use hobt_tsql::ast::{Identifier, ObjectName};
use hobt_types::{MaxLength, SqlType, Value};

use super::ddl::stored_name;
use super::environment::Environment;
use super::names::Names;
use crate::binder::SystemFunction;

/// The version that `SERVERPROPERTY('ProductVersion')` shows: clients switch features on by its first number.
pub const PRODUCT_VERSION: &str = "16.0.1000.6";
/// The same as `@@MICROSOFTVERSION` packs it.
pub(super) const MICROSOFT_VERSION: i64 = (16 << 24) + 1000;

const NAME: SqlType = SqlType::NVarChar(MaxLength::Limited(128));
const LONG: SqlType = SqlType::NVarChar(MaxLength::Max);

type Answer = Arc<dyn Fn(&[Value]) -> Result<Value, SqlError> + Send + Sync>;

/// What functions look at: all of it is shared with other threads.
#[derive(Clone)]
struct World {
    environment: Environment,
    database: DatabaseUse,
    login: String,
    host: String,
    program: String,
    /// The session's temporary tables, see [`SessionState::temporary_tables`](super::state::SessionState).
    temporary_tables: HashMap<String, String>,
    /// Whose uncommitted objects it sees.
    viewer: Option<Stamp>,
}

/// The function of this name; `None` when there is none.
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
    let caught = |value: fn(&super::run::Caught) -> Value| constant(error.map_or(Value::Null, value));
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
            return Ok(find_object_function(name, arguments, world)?.map(|(result, evaluate)| SystemFunction {
                result,
                evaluate,
                is_constant: true,
            }));
        }
    };
    check_arity(name, arity, arguments.len())?;
    Ok(Some(SystemFunction { result, evaluate: answer, is_constant: true }))
}

/// Functions of databases and their objects.
fn find_object_function(
    name: &str,
    arguments: &[SqlType],
    world: World,
) -> Result<Option<(SqlType, Answer)>, SqlError> {
    let int = |answer: Option<i64>| Ok(answer.map_or(Value::Null, Value::Int));
    let text = |answer: Option<String>| Ok(answer.map_or(Value::Null, Value::Text));
    let (arity, result, answer): ((usize, usize), SqlType, Answer) = match name {
        "DB_NAME" => ((0, 1), NAME, Arc::new(move |a| text(database_name(&world, a)))),
        "DB_ID" => ((0, 1), SqlType::SmallInt, Arc::new(move |a| int(database_id(&world, a)))),
        "HAS_DBACCESS" => ((1, 1), SqlType::Int, Arc::new(move |a| int(database_id(&world, a).map(|_| 1)))),
        "OBJECT_ID" => ((1, 2), SqlType::Int, Arc::new(move |a| int(object_id(&world, a)))),
        "OBJECT_NAME" => ((1, 2), NAME, Arc::new(move |a| text(object_name(&world, a).map(|(_, name)| name)))),
        "OBJECT_SCHEMA_NAME" => {
            ((1, 2), NAME, Arc::new(move |a| text(object_name(&world, a).map(|(schema, _)| schema))))
        }
        "OBJECT_DEFINITION" => (
            (1, 1),
            LONG,
            Arc::new(move |a| {
                let id = int_of(a, 0);
                let snapshot = world.database.snapshot();
                text(id.and_then(|id| snapshot.modules.get(&ObjectId(id))).map(|module| module.definition.clone()))
            }),
        ),
        "INDEXPROPERTY" => ((3, 3), SqlType::Int, Arc::new(move |a| int(index_functions::property(&world, a)))),
        "INDEX_COL" => ((3, 3), NAME, Arc::new(move |a| text(index_functions::column(&world, a)))),
        "INDEXKEY_PROPERTY" => ((4, 4), SqlType::Int, Arc::new(move |a| int(index_functions::key_property(&world, a)))),
        "OBJECTPROPERTY" | "OBJECTPROPERTYEX" => {
            ((2, 2), SqlType::Int, Arc::new(move |a| int(object_property(&world, a))))
        }
        "SCHEMA_NAME" => (
            (0, 1),
            NAME,
            Arc::new(move |a| {
                let Some(id) = (if a.is_empty() { Some(1) } else { int_of(a, 0) }) else { return Ok(Value::Null) };
                let snapshot = world.database.snapshot();
                text(snapshot.schemas.iter().find(|schema| schema.id == id).map(|schema| schema.name.clone()))
            }),
        ),
        "SCHEMA_ID" => (
            (0, 1),
            SqlType::Int,
            Arc::new(move |a| {
                let name = if a.is_empty() { "dbo".to_owned() } else { text_of(a, 0) };
                int(world.database.snapshot().schema_id(&name).map(i64::from))
            }),
        ),
        "COL_NAME" => (
            (2, 2),
            NAME,
            Arc::new(move |a| {
                let (Some(table), Some(column)) = (int_of(a, 0), int_of(a, 1)) else { return Ok(Value::Null) };
                let snapshot = world.database.snapshot();
                let table = snapshot.tables.get(&ObjectId(table));
                text(
                    table
                        .and_then(|table| table.columns.iter().find(|c| c.id == column))
                        .map(|column| column.name.clone()),
                )
            }),
        ),
        "COL_LENGTH" => (
            (2, 2),
            SqlType::SmallInt,
            Arc::new(move |a| {
                let Some((database, schema, name)) = split_name(&world, &text_of(a, 0)) else { return Ok(Value::Null) };
                let snapshot = database.snapshot();
                let table = snapshot.schema_id(&schema).and_then(|schema| snapshot.table(schema, &name));
                let column =
                    table.and_then(|table| table.column_named(&text_of(a, 1)).map(|column| &table.columns[column]));
                int(column.map(|column| i64::from(column.sql_type.max_length_bytes())))
            }),
        ),
        "TYPE_NAME" => (
            (1, 1),
            NAME,
            Arc::new(move |a| {
                text(
                    int_of(a, 0)
                        .and_then(|id| type_names().find(|(_, type_id)| *type_id == id))
                        .map(|(name, _)| name.to_owned()),
                )
            }),
        ),
        "TYPE_ID" => (
            (1, 1),
            SqlType::Int,
            Arc::new(move |a| {
                let name = text_of(a, 0).to_lowercase();
                int(type_names().find(|(type_name, _)| *type_name == name).map(|(_, id)| i64::from(id)))
            }),
        ),
        "FILE_NAME" => (
            (1, 1),
            NAME,
            Arc::new(move |a| {
                let id = int_of(a, 0);
                let mut files = file_names(&world.database).into_iter();
                text(files.find(|(file, _)| Some(i32::from(*file)) == id).map(|(_, name)| name))
            }),
        ),
        "FILE_ID" | "FILE_IDEX" => (
            (1, 1),
            SqlType::Int,
            Arc::new(move |a| {
                let name = text_of(a, 0);
                let mut files = file_names(&world.database).into_iter();
                int(files.find(|(_, file)| file.eq_ignore_ascii_case(&name)).map(|(id, _)| i64::from(id)))
            }),
        ),
        "FILEGROUP_NAME" => (
            (1, 1),
            NAME,
            Arc::new(move |a| {
                let snapshot = world.database.snapshot();
                let id = int_of(a, 0);
                text(
                    snapshot
                        .filegroups
                        .iter()
                        .find(|group| Some(i32::from(group.id.0)) == id)
                        .map(|group| group.name.clone()),
                )
            }),
        ),
        "FILEGROUP_ID" => (
            (1, 1),
            SqlType::Int,
            Arc::new(move |a| {
                int(world.database.snapshot().filegroup(&text_of(a, 0)).map(|group| i64::from(group.id.0)))
            }),
        ),
        "DATABASEPROPERTYEX" => ((2, 2), NAME, Arc::new(move |a| text(database_property(&world, a)))),
        "IDENT_SEED" | "IDENT_INCR" => {
            let increment = name == "IDENT_INCR";
            (
                (1, 1),
                SqlType::Decimal { precision: 38, scale: 0 },
                Arc::new(move |a| {
                    let Some((database, schema, name)) = split_name(&world, &text_of(a, 0)) else {
                        return Ok(Value::Null);
                    };
                    let snapshot = database.snapshot();
                    let table = snapshot.schema_id(&schema).and_then(|schema| snapshot.table(schema, &name));
                    let identity = table.and_then(|table| table.columns.iter().find_map(|column| column.identity));
                    let value = identity.map(|identity| if increment { identity.increment } else { identity.seed });
                    Ok(value.map_or(Value::Null, |value| Value::Decimal(i128::from(value))))
                }),
            )
        }
        "IDENT_CURRENT" => (
            (1, 1),
            SqlType::Decimal { precision: 38, scale: 0 },
            Arc::new(move |a| Ok(last_identity(&world, &text_of(a, 0)).map_or(Value::Null, Value::Decimal))),
        ),
        "COLUMNPROPERTY" => ((3, 3), SqlType::Int, Arc::new(move |a| int(column_property(&world, a)))),
        "FILEPROPERTY" => ((2, 2), SqlType::Int, Arc::new(move |a| int(file_property(&world, a)))),
        "PARSENAME" => ((2, 2), NAME, Arc::new(move |a| text(name_part(a)))),
        "STATS_DATE" => ((2, 2), SqlType::DateTime, Arc::new(|_| Ok(Value::Null))),
        _ => return Ok(None),
    };
    check_arity(name, arity, arguments.len())?;
    Ok(Some((result, answer)))
}

/// The files of a database, those of its log too: ids and logical names.
fn file_names(database: &DatabaseUse) -> Vec<(u16, String)> {
    let log = LogDescription::of(database.storage()).map_or_else(Vec::new, |log| log.files);
    let data = database.snapshot();
    let data = data.files.iter().map(|file| (file.id.0, file.name.clone()));
    data.chain(log.into_iter().map(|file| (file.id.0, file.name))).collect()
}

fn check_arity(name: &str, (least, most): (usize, usize), count: usize) -> Result<(), SqlError> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    let name = name.to_lowercase();
    Err(if least == most {
        SqlError::new(number::FUNCTION_ARGUMENT_COUNT, format!("The {name} function requires {least} argument(s)."))
    } else {
        SqlError::new(
            number::FUNCTION_ARGUMENT_RANGE,
            format!("The {name} function requires {least} to {most} arguments."),
        )
    })
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

fn database_name(world: &World, arguments: &[Value]) -> Option<String> {
    if arguments.is_empty() {
        return Some(world.database.name().to_owned());
    }
    let id = int_of(arguments, 0)?;
    let databases = world.environment.instance.databases();
    databases.into_iter().find(|database| i32::from(database.id.0) == id).map(|database| database.name)
}

fn database_id(world: &World, arguments: &[Value]) -> Option<i64> {
    if arguments.is_empty() {
        return Some(i64::from(world.database.id().0));
    }
    let name = text_of(arguments, 0);
    let databases = world.environment.instance.databases();
    databases
        .into_iter()
        .find(|database| database.name.eq_ignore_ascii_case(&name))
        .map(|database| i64::from(database.id.0))
}

/// The database, schema and name that a text like `db.dbo.[t]` names.
fn split_name(world: &World, text: &str) -> Option<(DatabaseUse, String, String)> {
    let name = parse_name(text)?;
    let database = match &name.database {
        Some(database) => world.environment.instance.database(&database.value).ok()?.seen_by(world.viewer),
        None => world.database.clone(),
    };
    let schema = name.schema.map_or_else(|| "dbo".to_owned(), |schema| schema.value);
    // Unlike FROM, these functions look for a temporary table only where tempdb is named or in use.
    let name = match name.name.value {
        name if name.starts_with('#') && database.name() == "tempdb" => stored_name(&world.temporary_tables, &name),
        name => name,
    };
    Some((database, schema, name))
}

/// A name of up to four parts out of a text, with brackets and quotes taken off.
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

fn object_id(world: &World, arguments: &[Value]) -> Option<i64> {
    let (database, schema, name) = split_name(world, &text_of(arguments, 0))?;
    let kind = text_of(arguments, 1).to_uppercase();
    let snapshot = database.snapshot();
    let wanted = |letters: &str| kind.is_empty() || kind == letters;
    let in_catalog = snapshot.schema_id(&schema).and_then(|schema| {
        let table = snapshot.table(schema, &name).filter(|table| wanted(if table.is_system { "S" } else { "U" }));
        let module = snapshot.module(schema, &name).filter(|module| wanted(module_letters(module.kind)));
        let sequence = snapshot.sequence(schema, &name).filter(|_| wanted("SO"));
        let key = index_functions::key_named(&snapshot, schema, &name)
            .filter(|constraint| wanted(if constraint.is_primary { "PK" } else { "UQ" }));
        let found = table.map(|table| table.id).or(module.map(|module| module.id));
        found.or(sequence.map(|sequence| sequence.id)).or(key.map(|key| key.id))
    });
    let id = in_catalog.or_else(|| world.environment.views.view_id(&schema, &name).filter(|_| wanted("V")))?;
    Some(i64::from(id.0))
}

/// `type` of `sys.objects`.
pub fn module_letters(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::View => "V",
        ModuleKind::InlineFunction => "IF",
        ModuleKind::ScalarFunction => "FN",
        ModuleKind::TableFunction => "TF",
        ModuleKind::Procedure => "P",
    }
}

/// The schema and name of an object.
fn object_name(world: &World, arguments: &[Value]) -> Option<(String, String)> {
    let id = ObjectId(int_of(arguments, 0)?);
    let database = match arguments.get(1) {
        Some(_) => {
            let id = u16::try_from(int_of(arguments, 1)?).ok()?;
            world.environment.instance.database_by_id(DatabaseId(id)).ok()?.seen_by(world.viewer)
        }
        None => world.database.clone(),
    };
    let snapshot = database.snapshot();
    let found = snapshot.tables.get(&id).map(|table| (table.schema, table.name.clone()));
    let found = found.or_else(|| snapshot.modules.get(&id).map(|module| (module.schema, module.name.clone())));
    let found = found.or_else(|| snapshot.sequences.get(&id).map(|known| (known.schema, known.name.clone())));
    let found = found.or_else(|| {
        let (table, index, _) = index_functions::key_of_id(&snapshot, id)?;
        Some((table.schema, index.name.clone()?))
    });
    if let Some((schema, name)) = found {
        return Some((schema_name(&snapshot, schema), name));
    }
    let (schema, name) = world.environment.views.view_name(id)?;
    Some((schema.to_owned(), name.to_owned()))
}

fn schema_name(snapshot: &DatabaseSnapshot, id: i32) -> String {
    snapshot.schemas.iter().find(|schema| schema.id == id).map(|schema| schema.name.clone()).unwrap_or_default()
}

fn object_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let id = ObjectId(int_of(arguments, 0)?);
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&id);
    let module = snapshot.modules.get(&id);
    if let Some((of, _, constraint)) = index_functions::key_of_id(&snapshot, id) {
        return index_functions::constraint_property(of, constraint, &text_of(arguments, 1));
    }
    if table.is_none() && module.is_none() {
        return None;
    }
    let is = |condition: bool| Some(i64::from(condition));
    let kind = |wanted: ModuleKind| is(module.is_some_and(|module| module.kind == wanted));
    match text_of(arguments, 1).to_lowercase().as_str() {
        "istable" => is(table.is_some()),
        "isusertable" => is(table.is_some_and(|table| !table.is_system)),
        "issystemtable" => is(table.is_some_and(|table| table.is_system)),
        "isview" => kind(ModuleKind::View),
        "isprocedure" => kind(ModuleKind::Procedure),
        "isinlinefunction" => kind(ModuleKind::InlineFunction),
        "isscalarfunction" => kind(ModuleKind::ScalarFunction),
        "istablefunction" => {
            is(module
                .is_some_and(|module| matches!(module.kind, ModuleKind::InlineFunction | ModuleKind::TableFunction)))
        }
        "ismsshipped" => is(table.is_some_and(|table| table.is_system)),
        "tablehasidentity" => {
            is(table.is_some_and(|table| table.columns.iter().any(|column| column.identity.is_some())))
        }
        "tablehasclustindex" => is(table.is_some_and(|table| table.is_clustered())),
        "tablehasnonclustindex" => is(table.is_some_and(|table| table.indexes.len() > 1)),
        "tablehasindex" => is(table.is_some_and(|table| table.is_clustered() || table.indexes.len() > 1)),
        "tablehasprimarykey" => is(table.is_some_and(|table| index_functions::has_key(table, true))),
        "tablehasuniquecnst" => is(table.is_some_and(|table| index_functions::has_key(table, false))),
        "ownerid" | "schemaid" => table.map(|table| table.schema).or(module.map(|module| module.schema)).map(i64::from),
        _ => None,
    }
}

/// The last identity value that was given out since the instance started; NULL before.
fn last_identity(world: &World, name: &str) -> Option<i128> {
    let (database, schema, name) = split_name(world, name)?;
    let snapshot = database.snapshot();
    let table = snapshot.schema_id(&schema).and_then(|schema| snapshot.table(schema, &name))?;
    let identity = table.columns.iter().find_map(|column| column.identity)?;
    let next = world.environment.executor.identities.lock().get(&(database.id(), table.id)).copied()?;
    Some(next - i128::from(identity.increment))
}

fn column_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let table = int_of(arguments, 0)?;
    let snapshot = world.database.snapshot();
    let table = snapshot.tables.get(&ObjectId(table))?;
    let column = &table.columns[table.column_named(&text_of(arguments, 1))?];
    let is = |condition: bool| Some(i64::from(condition));
    let sql_type = column.sql_type;
    match text_of(arguments, 2).to_lowercase().as_str() {
        "allowsnull" => is(column.nullable),
        "columnid" | "ordinal" => Some(i64::from(column.id)),
        "isidentity" => is(column.identity.is_some()),
        "isrowguidcol" => is(column.is_rowguid),
        "iscomputed" | "isdeterministic" | "isprecise" | "issparse" | "iscolumnset" | "ishidden"
        | "isfulltextindexed" => is(false),
        "precision" | "charmaxlen" if sql_type.is_text() || sql_type.is_binary() => {
            let bytes = i64::from(sql_type.max_length_bytes());
            Some(if sql_type.is_national() && bytes > 0 { bytes / 2 } else { bytes })
        }
        "precision" => Some(i64::from(sql_type.precision())),
        "scale" if sql_type.is_numeric() || sql_type.is_temporal() => Some(i64::from(sql_type.scale())),
        "usesansitrim" if sql_type.is_text() || sql_type.is_binary() => is(true),
        _ => None,
    }
}

fn file_property(world: &World, arguments: &[Value]) -> Option<i64> {
    let name = text_of(arguments, 0);
    let snapshot = world.database.snapshot();
    let file = snapshot.files.iter().find(|file| file.name.eq_ignore_ascii_case(&name))?;
    match text_of(arguments, 1).to_lowercase().as_str() {
        "isprimaryfile" => Some(i64::from(file.id.0 == 1)),
        "islogfile" | "isreadonly" => Some(0),
        "spaceused" => {
            let open = world.database.storage().files().into_iter().find(|open| open.id() == file.id)?;
            let extents = i64::from(open.size_pages() / EXTENT_PAGES) - i64::from(open.free_extents());
            Some(extents * i64::from(EXTENT_PAGES))
        }
        _ => None,
    }
}

/// A part of a name in a text, counted from the right: 1 is the object, 4 the server.
fn name_part(arguments: &[Value]) -> Option<String> {
    let name = parse_name(&text_of(arguments, 0))?;
    let part = match int_of(arguments, 1)? {
        1 => Some(name.name),
        2 => name.schema,
        3 => name.database,
        4 => name.server,
        _ => None,
    };
    part.map(|part| part.value)
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
            Value::Text(world.environment.instance.folder().display().to_string())
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

fn database_property(world: &World, arguments: &[Value]) -> Option<String> {
    let name = text_of(arguments, 0);
    let databases = world.environment.instance.databases();
    let database = databases.into_iter().find(|database| database.name.eq_ignore_ascii_case(&name))?;
    Some(match text_of(arguments, 1).to_lowercase().as_str() {
        "status" => database.state.name().to_owned(),
        "collation" => "SQL_Latin1_General_CP1_CI_AS".to_owned(),
        "recovery" => database.options.recovery_model.name().to_owned(),
        "updateability" => if database.options.is_read_only { "READ_ONLY" } else { "READ_WRITE" }.to_owned(),
        "useraccess" => "MULTI_USER".to_owned(),
        "version" => "957".to_owned(),
        "isautoclose" | "isautoshrink" | "isinstandby" | "isfulltextenabled" => "0".to_owned(),
        _ => return None,
    })
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
