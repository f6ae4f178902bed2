//! System procedures written in T-SQL, and `sp_configure`.

use hobt_base::{Position, errors};
use hobt_types::{MaxLength, SqlType, Value};

use super::call::Argument;
use super::configuration::{self, ServerOption};
use super::event::Message;
use super::failure::Failure;
use crate::interpreter::Interpreter;

/// The text of a system procedure. `None` if there is none with this name.
pub(super) fn definition(name: &str) -> Option<&'static str> {
    PROCEDURES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| *text)
}

/// Sets `@id` to the object that a parameter names. The procedure ends if there is none.
macro_rules! find_object {
    ($parameter:literal) => {
        concat!(
            "DECLARE @id int
SET @id = OBJECT_ID(",
            $parameter,
            ")
IF @id IS NULL
BEGIN
    DECLARE @database nvarchar(128)
    SET @database = DB_NAME()
    RAISERROR(15009, 16, 1, ",
            $parameter,
            ", @database)
    RETURN 1
END
"
        )
    };
}

static PROCEDURES: &[(&str, &str)] = &[
    ("sp_help", SP_HELP),
    ("sp_helpdb", SP_HELPDB),
    ("sp_helpfile", SP_HELPFILE),
    ("sp_helpindex", SP_HELPINDEX),
    ("sp_helptext", SP_HELPTEXT),
    ("sp_who", SP_WHO),
    ("sp_who2", SP_WHO2),
    ("sp_spaceused", SP_SPACEUSED),
    ("sp_databases", SP_DATABASES),
    ("sp_tables", SP_TABLES),
    ("sp_columns", SP_COLUMNS),
    ("sp_updatestats", SP_UPDATESTATS),
    ("sp_autostats", SP_AUTOSTATS),
    ("sp_helpstats", SP_HELPSTATS),
    ("sp_hobt_hash_distribute", SP_HOBT_HASH_DISTRIBUTE),
];

const SP_HELP: &str = concat!(
    "CREATE PROCEDURE sp_help @objname nvarchar(776) = NULL AS
IF @objname IS NULL
BEGIN
    SELECT o.name AS Name, N'dbo' AS Owner, o.type_desc AS Object_type FROM sys.objects AS o ORDER BY o.type_desc, o.name
    RETURN 0
END
",
    find_object!("@objname"),
    "SELECT o.name AS Name, N'dbo' AS Owner, o.type_desc AS Type, o.create_date AS Created_datetime FROM sys.objects AS o WHERE o.object_id = @id
SELECT c.name AS Column_name, t.name AS Type, CAST(CASE WHEN c.is_computed = 1 THEN 'yes' ELSE 'no' END AS varchar(3)) AS Computed, CAST(c.max_length AS int) AS Length,
    CAST(c.[precision] AS int) AS Prec, CAST(c.scale AS int) AS Scale, CASE c.is_nullable WHEN 1 THEN 'yes' ELSE 'no' END AS Nullable,
    c.collation_name AS Collation
FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id WHERE c.object_id = @id ORDER BY c.column_id"
);

const SP_HELPDB: &str = "CREATE PROCEDURE sp_helpdb @dbname nvarchar(128) = NULL AS
SELECT d.name, CAST(CAST(SUM(CAST(f.size AS bigint)) / 128.0 AS decimal(15, 2)) AS nvarchar(20)) + N' MB' AS db_size, N'sa' AS owner,
    d.database_id AS dbid, d.create_date AS created, d.state_desc AS status, d.compatibility_level
FROM sys.databases AS d LEFT JOIN sys.master_files AS f ON f.database_id = d.database_id
WHERE @dbname IS NULL OR d.name = @dbname
GROUP BY d.name, d.database_id, d.create_date, d.state_desc, d.compatibility_level ORDER BY d.name";

const SP_HELPFILE: &str = "CREATE PROCEDURE sp_helpfile AS
SELECT f.name, f.file_id AS fileid, f.physical_name AS filename, g.name AS filegroup, CAST(CAST(f.size AS bigint) * 8 AS nvarchar(20)) + N' KB' AS size,
    CASE f.max_size WHEN -1 THEN N'Unlimited' ELSE CAST(CAST(f.max_size AS bigint) * 8 AS nvarchar(20)) + N' KB' END AS maxsize,
    CASE f.is_percent_growth WHEN 1 THEN CAST(f.growth AS nvarchar(20)) + N'%' ELSE CAST(CAST(f.growth AS bigint) * 8 AS nvarchar(20)) + N' KB' END AS growth,
    CASE f.type WHEN 1 THEN 'log only' ELSE 'data only' END AS usage
FROM sys.database_files AS f LEFT JOIN sys.filegroups AS g ON g.data_space_id = f.data_space_id ORDER BY f.file_id";

const SP_HELPINDEX: &str = concat!(
    "CREATE PROCEDURE sp_helpindex @objname nvarchar(776) AS
",
    find_object!("@objname"),
    "IF NOT EXISTS (SELECT 1 FROM sys.indexes WHERE object_id = @id AND index_id > 0)
BEGIN
    RAISERROR(15472, 0, 1, @objname)
    RETURN 0
END
SELECT i.name AS index_name,
    CAST(CASE i.type WHEN 1 THEN 'clustered' ELSE 'nonclustered' END + CASE i.ignore_dup_key WHEN 1 THEN ', ignore duplicate keys' ELSE '' END
        + CASE i.is_unique WHEN 1 THEN ', unique' ELSE '' END + CASE i.is_primary_key WHEN 1 THEN ', primary key' ELSE '' END
        + CASE i.is_unique_constraint WHEN 1 THEN ', unique key' ELSE '' END + ' located on ' + d.name AS varchar(210)) AS index_description,
    k.index_keys
FROM sys.indexes AS i JOIN sys.data_spaces AS d ON d.data_space_id = i.data_space_id
JOIN (SELECT ic.object_id, ic.index_id, STRING_AGG(c.name + CASE ic.is_descending_key WHEN 1 THEN N'(-)' ELSE N'' END, N', ') WITHIN GROUP (ORDER BY ic.key_ordinal) AS index_keys
    FROM sys.index_columns AS ic JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
    WHERE ic.key_ordinal > 0 GROUP BY ic.object_id, ic.index_id) AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE i.object_id = @id AND i.index_id > 0 ORDER BY i.name"
);

const SP_HELPTEXT: &str = "CREATE PROCEDURE sp_helptext @objname nvarchar(776) AS
DECLARE @text nvarchar(max)
SET @text = OBJECT_DEFINITION(OBJECT_ID(@objname))
IF @text IS NULL
BEGIN
    RAISERROR(15197, 16, 1, @objname)
    RETURN 1
END
SELECT @text AS [Text]";

/// Shows all sessions, a login's, one session, or the `active` ones.
const SP_WHO: &str = "CREATE PROCEDURE sp_who @loginame nvarchar(128) = NULL AS
SELECT COALESCE(s.session_id, r.session_id) AS spid, CAST(0 AS smallint) AS ecid, CAST(COALESCE(r.status, s.status) AS nchar(30)) AS status,
    s.login_name AS loginame, s.host_name AS hostname, CAST(COALESCE(r.blocking_session_id, 0) AS char(5)) AS blk,
    DB_NAME(COALESCE(s.database_id, r.database_id)) AS dbname, COALESCE(r.command, 'AWAITING COMMAND') AS cmd,
    COALESCE(r.request_id, 0) AS request_id
FROM sys.dm_exec_sessions AS s FULL JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE @loginame IS NULL OR s.login_name = @loginame OR COALESCE(s.session_id, r.session_id) = TRY_CAST(@loginame AS int)
    OR (@loginame = 'active' AND r.session_id IS NOT NULL)
ORDER BY COALESCE(s.session_id, r.session_id)";

/// As [`SP_WHO`], with what the sessions have used.
const SP_WHO2: &str = "CREATE PROCEDURE sp_who2 @loginame nvarchar(128) = NULL AS
SELECT CAST(COALESCE(s.session_id, r.session_id) AS char(5)) AS SPID, CAST(COALESCE(r.status, s.status) AS nchar(30)) AS Status, s.login_name AS Login,
    s.host_name AS HostName, CAST(CASE WHEN r.blocking_session_id > 0 THEN CAST(r.blocking_session_id AS varchar(5)) ELSE '  .' END AS char(5)) AS BlkBy,
    DB_NAME(COALESCE(s.database_id, r.database_id)) AS DBName, COALESCE(r.command, 'AWAITING COMMAND') AS Command, COALESCE(s.cpu_time, 0) + COALESCE(r.cpu_time, 0) AS CPUTime,
    COALESCE(s.reads + s.writes, 0) + COALESCE(r.reads + r.writes, 0) AS DiskIO,
    CONVERT(char(5), COALESCE(s.last_request_start_time, r.start_time), 101) + ' ' + CONVERT(char(8), COALESCE(s.last_request_start_time, r.start_time), 108) AS LastBatch,
    s.program_name AS ProgramName, CAST(COALESCE(s.session_id, r.session_id) AS char(5)) AS SPID, CAST(COALESCE(r.request_id, 0) AS char(5)) AS REQUESTID
FROM sys.dm_exec_sessions AS s FULL JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE @loginame IS NULL OR s.login_name = @loginame OR COALESCE(s.session_id, r.session_id) = TRY_CAST(@loginame AS int)
    OR (@loginame = 'active' AND r.session_id IS NOT NULL)
ORDER BY COALESCE(s.session_id, r.session_id)";

const SP_SPACEUSED: &str = "CREATE PROCEDURE sp_spaceused @objname nvarchar(776) = NULL AS
IF @objname IS NULL
BEGIN
    SELECT DB_NAME() AS database_name, CAST(CAST(SUM(CAST(f.size AS bigint)) / 128.0 AS decimal(15, 2)) AS varchar(20)) + ' MB' AS database_size FROM sys.database_files AS f
    RETURN 0
END
SELECT OBJECT_NAME(p.object_id) AS name, CAST(SUM(CASE WHEN p.index_id < 2 THEN p.row_count ELSE 0 END) AS char(20)) AS rows,
    CAST(SUM(p.reserved_page_count) * 8 AS varchar(18)) + ' KB' AS reserved,
    CAST(SUM(CASE WHEN p.index_id < 2 THEN p.in_row_data_page_count + p.lob_used_page_count ELSE 0 END) * 8 AS varchar(18)) + ' KB' AS data,
    CAST(SUM(p.used_page_count - CASE WHEN p.index_id < 2 THEN p.in_row_data_page_count + p.lob_used_page_count ELSE 0 END) * 8 AS varchar(18)) + ' KB' AS index_size,
    CAST(SUM(p.reserved_page_count - p.used_page_count) * 8 AS varchar(18)) + ' KB' AS unused
FROM sys.dm_db_partition_stats AS p WHERE p.object_id = OBJECT_ID(@objname) GROUP BY p.object_id";

const SP_DATABASES: &str = "CREATE PROCEDURE sp_databases AS
SELECT d.name AS DATABASE_NAME, CAST(SUM(CAST(f.size AS bigint)) * 8 AS int) AS DATABASE_SIZE, CAST(NULL AS varchar(254)) AS REMARKS
FROM sys.databases AS d JOIN sys.master_files AS f ON f.database_id = d.database_id GROUP BY d.name ORDER BY d.name";

const SP_TABLES: &str = "CREATE PROCEDURE sp_tables @table_name nvarchar(384) = NULL, @table_owner nvarchar(384) = NULL, @table_qualifier nvarchar(128) = NULL, @table_type varchar(100) = NULL AS
SELECT t.TABLE_CATALOG AS TABLE_QUALIFIER, t.TABLE_SCHEMA AS TABLE_OWNER, t.TABLE_NAME, CASE t.TABLE_TYPE WHEN 'BASE TABLE' THEN 'TABLE' ELSE t.TABLE_TYPE END AS TABLE_TYPE, CAST(NULL AS varchar(254)) AS REMARKS
FROM INFORMATION_SCHEMA.TABLES AS t
WHERE (@table_name IS NULL OR t.TABLE_NAME LIKE @table_name) AND (@table_owner IS NULL OR t.TABLE_SCHEMA LIKE @table_owner)
ORDER BY 4, 1, 2, 3";

/// Source of the columns: Microsoft's page on `sp_columns`.
const SP_COLUMNS: &str = include_str!("procedures/columns.sql");

/// Partitions a table by a hash of one of its columns.
const SP_HOBT_HASH_DISTRIBUTE: &str = include_str!("procedures/hash_distribute.sql");

impl Interpreter<'_> {
    /// `sp_configure [name [, value]]`.
    pub(super) fn sp_configure(&mut self, arguments: &[Argument<'_>], position: Position) -> Result<i32, Failure> {
        let given = |index: usize| arguments.get(index).and_then(|argument| argument.value.clone());
        let name = match given(0).map(|given| given.value) {
            Some(Value::Text(name)) => Some(name),
            _ => None,
        };
        let matching: Vec<&'static ServerOption> = match &name {
            None => configuration::OPTIONS.iter().collect(),
            Some(name) => configuration::find(name),
        };
        if matching.is_empty() {
            return Err(errors::UNKNOWN_CONFIGURATION.with([&name.unwrap_or_default()]).at(position).into());
        }
        if let Some(value) = given(1) {
            let [option] = matching.as_slice() else {
                return Err(errors::AMBIGUOUS_CONFIGURATION.error().at(position).into());
            };
            return self.configure(option, value, position).map(|()| 0);
        }
        let runtime = self.environment.instance.runtime();
        let columns = [
            ("name", SqlType::NVarChar(MaxLength::Limited(35))),
            ("minimum", SqlType::Int),
            ("maximum", SqlType::Int),
            ("config_value", SqlType::Int),
            ("run_value", SqlType::Int),
        ];
        let rows = matching.iter().map(|option| {
            let value = (option.get)(&runtime);
            [option.minimum, option.maximum, value, value].iter().fold(
                vec![Value::Text(option.name.to_owned())],
                |mut row, value| {
                    row.push(Value::Int(*value));
                    row
                },
            )
        });
        self.send_values(&columns, rows.collect())?;
        Ok(0)
    }

    fn configure(
        &mut self,
        option: &'static ServerOption,
        value: hobt_types::TypedValue,
        position: Position,
    ) -> Result<(), Failure> {
        let Value::Int(value) = self.convert(value, SqlType::Int)? else { return Ok(()) };
        if !(option.minimum..=option.maximum).contains(&value) || !(option.accepts)(value) {
            return Err(errors::INVALID_CONFIGURATION
                .with([&value, &option.name, &option.minimum, &option.maximum])
                .at(position)
                .into());
        }
        let instance = &self.environment.instance;
        let old = (option.get)(&instance.runtime());
        instance.change_runtime(|runtime| (option.set)(runtime, value));
        self.send_message(Message::of(position.line, errors::CONFIGURATION_CHANGED.with([&option.name, &old, &value])))
    }
}

const SP_UPDATESTATS: &str = include_str!("procedures/updatestats.sql");

const SP_AUTOSTATS: &str = concat!(
    "CREATE PROCEDURE sp_autostats @tblname nvarchar(776), @flagc varchar(10) = NULL, @indname nvarchar(128) = NULL AS
SET NOCOUNT ON
",
    find_object!("@tblname"),
    include_str!("procedures/autostats.sql")
);

const SP_HELPSTATS: &str = concat!(
    "CREATE PROCEDURE sp_helpstats @objname nvarchar(776), @results varchar(5) = 'STATS' AS
",
    find_object!("@objname"),
    include_str!("procedures/helpstats.sql")
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_procedure_parses_as_one() {
        for (name, text) in PROCEDURES {
            let batch =
                hobt_tsql::parse_batch(text).unwrap_or_else(|error| panic!("{name}: {error} {:?}", error.position));
            assert_eq!(batch.statements.len(), 1, "{name}");
            assert!(matches!(batch.statements[0].kind, hobt_tsql::ast::StatementKind::CreateProcedure(_)), "{name}");
        }
    }
}
