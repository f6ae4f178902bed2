//! The system tables of SQL Server 2000, as views: `sysobjects`, `syscolumns`, `sysindexes`, `sysdatabases`,
//! `sysfiles`.
//!
//! `syscolumns` lists the columns of all system views too, so that the square of its rows exceeds 50,000 in an empty
//! database, as scripts that count with it expect.

use hobt_catalog::IndexKind;
use hobt_interpreter::ViewContext;
use hobt_types::{SqlType, Value};

use crate::catalog::{sorted_tables, system_schema_id};
use crate::value::{NULL, datetime, int, row};
use crate::{Definition, Rows, Sources};

const OBJECTS: &str = "name sysname!, id int!, xtype char(2)!, uid smallint, info smallint, status int, base_schema_ver int, \
    replinfo int, parent_obj int!, crdate datetime!, ftcatid smallint, schema_ver int, stats_schema_ver int, type char(2), \
    userstat smallint, sysstat smallint, indexdel smallint, refdate datetime!, version int, deltrig int, instrig int, \
    updtrig int, seltrig int, category int, cache smallint";

const COLUMNS: &str = "name sysname, id int!, xtype tinyint!, typestat tinyint, xusertype smallint, length smallint!, \
    xprec tinyint!, xscale tinyint!, colid smallint, xoffset smallint, bitpos tinyint, reserved tinyint, colstat smallint, \
    cdefault int!, domain int!, number smallint, colorder smallint, autoval varbinary(8000), offset smallint, \
    collationid int, language int, status tinyint, type tinyint!, usertype smallint, printfmt varchar(255), prec smallint, \
    scale int, iscomputed int, isoutparam int, isnullable int, collation sysname";

const INDEXES: &str = "id int!, status int, first varbinary(6), indid smallint, root varbinary(6), minlen smallint, \
    keycnt smallint, groupid smallint, dpages int, reserved int, used int, rowcnt bigint, rowmodctr int, xmaxlen smallint, \
    maxirow smallint, OrigFillFactor tinyint, StatVersion tinyint, FirstIAM varbinary(6), impid smallint, \
    lockflags smallint, pgmodctr int, keys varbinary(1088), name sysname, statblob varbinary(8000), maxlen int, rows int";

const DATABASES: &str = "name sysname!, dbid smallint, sid varbinary(85), mode smallint, status int, status2 int, \
    crdate datetime!, reserved datetime, category int, cmptlevel tinyint!, filename nvarchar(260), version smallint";

const FILES: &str = "fileid smallint, groupid smallint, size int!, maxsize int!, growth int!, status int, perf int, \
    name sysname!, filename nvarchar(260)";

pub(super) static VIEWS: &[Definition] = &[
    Definition::of("dbo", "sysobjects", OBJECTS, objects),
    Definition::sys("sysobjects", OBJECTS, objects),
    Definition::of("dbo", "syscolumns", COLUMNS, columns),
    Definition::sys("syscolumns", COLUMNS, columns),
    Definition::of("dbo", "sysindexes", INDEXES, indexes),
    Definition::sys("sysindexes", INDEXES, indexes),
    Definition::of("dbo", "sysdatabases", DATABASES, databases),
    Definition::sys("sysdatabases", DATABASES, databases),
    Definition::of("dbo", "sysfiles", FILES, files),
    Definition::sys("sysfiles", FILES, files),
];

fn object(name: &str, id: i32, letters: &str, schema: i32, created: i64) -> Vec<Value> {
    let (kind, date) = (format!("{letters:<2}"), datetime(created));
    row![name, id, kind.clone(), schema, 0, 0, 0, 0, 0, date.clone(), 0, 0, 0, kind, 1, 3, 0, date, 0, 0, 0, 0, 0, 0, 0]
}

fn objects(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows: Vec<Vec<Value>> = sorted_tables(&snapshot)
        .into_iter()
        .map(|table| {
            let letters = if table.is_system { "S" } else { "U" };
            object(&table.name, table.id.0, letters, table.schema, table.created)
        })
        .collect();
    let mut modules: Vec<_> = snapshot.modules.values().filter(|module| module.kind.is_object()).collect();
    modules.sort_by_key(|module| module.id);
    rows.extend(
        modules
            .into_iter()
            .map(|module| object(&module.name, module.id.0, module.kind.type_code(), module.schema, module.created)),
    );
    rows.extend(sources.of_databases().map(|view| object(view.name, view.id, "V", system_schema_id(view.schema), 0)));
    Ok(rows)
}

fn column(name: &str, object: i32, id: i32, sql_type: SqlType, nullable: bool) -> Vec<Value> {
    let kind = sql_type.system_type_id();
    let collation = sql_type.is_text().then(|| hobt_types::Collation::default().name());
    let precision = match sql_type.precision() {
        0 => i32::from(sql_type.max_length_bytes()),
        precision => i32::from(precision),
    };
    row![
        name,
        object,
        kind,
        0,
        i32::from(kind),
        sql_type.max_length_bytes(),
        sql_type.precision(),
        sql_type.scale(),
        id,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        id,
        NULL,
        0,
        NULL,
        0,
        if nullable { 8 } else { 0 },
        kind,
        i32::from(kind),
        NULL,
        precision,
        i32::from(sql_type.scale()),
        0,
        0,
        nullable,
        collation
    ]
}

fn columns(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for definition in &table.columns {
            rows.push(column(&definition.name, table.id.0, definition.id, definition.sql_type, definition.nullable));
        }
    }
    for view in sources.of_databases() {
        for (definition, id) in view.columns.iter().zip(1..) {
            rows.push(column(definition.name, view.id, id, definition.sql_type, definition.nullable));
        }
    }
    Ok(rows)
}

fn indexes(_: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    let snapshot = context.database.snapshot();
    let mut rows = Vec::new();
    for table in sorted_tables(&snapshot) {
        for index in &table.indexes {
            let sizes = super::storage::index_sizes(&context.database, index)?;
            let pages = |pages: u64| int(pages);
            let name = match index.kind {
                IndexKind::Heap => None,
                _ => index.name.clone(),
            };
            let bytes = || Value::Binary(vec![0; 6]);
            rows.push(row![
                table.id.0,
                0,
                bytes(),
                index.id.0,
                bytes(),
                0,
                0,
                super::storage::data_space_id(&index.data_space) as i16,
                pages(sizes.data_pages),
                pages(sizes.reserved_pages),
                pages(sizes.used_pages),
                sizes.rows,
                0,
                8060,
                0,
                0,
                0,
                bytes(),
                0,
                0,
                0,
                NULL,
                name,
                NULL,
                8000,
                int(sizes.rows)
            ]);
        }
    }
    Ok(rows)
}

fn databases(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let rows = sources.instance.databases().into_iter().map(|database| {
        let file = database.files.first().map(|path| path.display().to_string());
        row![
            database.name,
            database.id.0,
            vec_sid(),
            0,
            65536,
            0,
            datetime(database.created),
            datetime(0),
            0,
            160,
            file,
            957
        ]
    });
    Ok(rows.collect())
}

/// The columns of `sys.database_files` under their old names.
fn files(sources: &Sources, context: &ViewContext, _: &[Value]) -> Rows {
    /// `status` of a file on disk.
    const ON_DISK: i64 = 0x2;
    /// An additional bit of a log file.
    const OF_LOG: i64 = 0x40;
    let rows = super::databases::files(&sources.instance, &context.database).into_iter().map(|(_, file)| {
        let status = if file[2] == Value::Int(1) { ON_DISK | OF_LOG } else { ON_DISK };
        let [id, group, name, path] = [0, 4, 5, 6].map(|column: usize| file[column].clone());
        let [size, most, growth] = [9, 10, 11].map(|column: usize| file[column].clone());
        row![id, group, size, most, growth, status, 0, name, path]
    });
    Ok(rows.collect())
}

/// The owner `sa`.
fn vec_sid() -> Value {
    Value::Binary(vec![1])
}
