//! Management functions that are queries over views, so that their arguments may come from an `APPLY`.

/// The functions of schema `sys`, each with its definition.
pub(crate) static FUNCTIONS: &[(&str, &str)] = &[
    ("dm_exec_sql_text", DM_EXEC_SQL_TEXT),
    ("dm_db_missing_index_columns", DM_DB_MISSING_INDEX_COLUMNS),
    ("dm_db_stats_properties", DM_DB_STATS_PROPERTIES),
    ("dm_db_incremental_stats_properties", DM_DB_INCREMENTAL_STATS_PROPERTIES),
    ("dm_db_stats_histogram", DM_DB_STATS_HISTOGRAM),
    ("dm_exec_query_plan", DM_EXEC_QUERY_PLAN),
    ("dm_exec_text_query_plan", DM_EXEC_TEXT_QUERY_PLAN),
    ("dm_exec_query_statistics_xml", DM_EXEC_QUERY_STATISTICS_XML),
];

const DM_EXEC_SQL_TEXT: &str =
    "CREATE FUNCTION sys.dm_exec_sql_text (@sql_handle varbinary(64)) RETURNS TABLE AS RETURN
(SELECT t.dbid, t.objectid, t.number, t.encrypted, t.[text] FROM sys.hobt_sql_texts AS t WHERE t.sql_handle = @sql_handle)";

const DM_DB_STATS_PROPERTIES: &str =
    "CREATE FUNCTION sys.dm_db_stats_properties (@object_id int, @stats_id int) RETURNS TABLE AS RETURN
(SELECT * FROM sys.hobt_stats_properties AS p WHERE p.object_id = @object_id AND p.stats_id = @stats_id)";

const DM_DB_INCREMENTAL_STATS_PROPERTIES: &str =
    "CREATE FUNCTION sys.dm_db_incremental_stats_properties (@object_id int, @stats_id int) RETURNS TABLE AS RETURN
(SELECT * FROM sys.hobt_incremental_stats_properties AS p WHERE p.object_id = @object_id AND p.stats_id = @stats_id)";

const DM_DB_STATS_HISTOGRAM: &str =
    "CREATE FUNCTION sys.dm_db_stats_histogram (@object_id int, @stats_id int) RETURNS TABLE AS RETURN
(SELECT * FROM sys.hobt_stats_histogram AS h WHERE h.object_id = @object_id AND h.stats_id = @stats_id)";

const DM_EXEC_QUERY_PLAN: &str =
    "CREATE FUNCTION sys.dm_exec_query_plan (@plan_handle varbinary(64)) RETURNS TABLE AS RETURN
(SELECT p.dbid, p.objectid, p.number, p.encrypted, p.query_plan FROM sys.hobt_query_plans AS p
WHERE p.plan_handle = @plan_handle AND p.statement_end_offset = -1)";

const DM_EXEC_TEXT_QUERY_PLAN: &str =
    "CREATE FUNCTION sys.dm_exec_text_query_plan (@plan_handle varbinary(64), @statement_start_offset int = 0, @statement_end_offset int = -1)
RETURNS TABLE AS RETURN
(SELECT p.dbid, p.objectid, p.number, p.encrypted, p.query_plan FROM sys.hobt_query_plans AS p
WHERE p.plan_handle = @plan_handle AND p.statement_start_offset = @statement_start_offset AND p.statement_end_offset = @statement_end_offset)";

const DM_EXEC_QUERY_STATISTICS_XML: &str =
    "CREATE FUNCTION sys.dm_exec_query_statistics_xml (@session_id smallint) RETURNS TABLE AS RETURN
(SELECT p.session_id, p.request_id, p.sql_handle, p.plan_handle, p.query_plan FROM sys.hobt_running_plans AS p WHERE p.session_id = @session_id)";

const DM_DB_MISSING_INDEX_COLUMNS: &str =
    "CREATE FUNCTION sys.dm_db_missing_index_columns (@index_handle int) RETURNS TABLE AS RETURN
(SELECT c.column_id, c.column_name, c.column_usage FROM sys.hobt_missing_index_columns AS c WHERE c.index_handle = @index_handle)";

#[cfg(test)]
mod tests {
    use hobt_tsql::ast::StatementKind;

    use super::*;

    #[test]
    fn every_definition_parses_as_a_function_of_its_name() {
        for (name, text) in FUNCTIONS {
            let batch = hobt_tsql::parse_batch(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let [statement] = &batch.statements[..] else { panic!("{name}: one statement") };
            let StatementKind::CreateFunction(function) = &statement.kind else { panic!("{name}: a function") };
            assert_eq!(function.name.to_string(), format!("sys.{name}"));
        }
    }
}
