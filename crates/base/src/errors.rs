//! The table of errors: SQL Server's numbers with severity, state and text. Every error and message that hobt sends is
//! an entry, but for those of users (`RAISERROR`, `THROW`, `PRINT`).
//!
//! An entry is `NAME(number, severity, state) "text";`, without the state if that is 1. Each `{}` of the text is an
//! argument: `errors::INVALID_OBJECT.with([&name])`; without arguments it is `errors::DIVIDE_BY_ZERO.error()`. The
//! module [`number`] has the number of each entry under the entry's name, for `match`.
//!
//! A number has several entries if it has several texts, severities or states. The entries are in the order of their
//! numbers. The file is long because it is one table. The list in `docs/errors.md` is made from it. Source: Microsoft's
//! "Database Engine events and errors"; advice behind a text is hobt's.

use crate::entry::{Entry, holes, state_of};

macro_rules! errors {
    ($($name:ident($number:literal, $severity:literal $(, $state:literal)?) $text:literal;)*) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: Entry<{ holes($text) }> =
                Entry { number: $number, severity: $severity, state: state_of(&[$($state)?]), text: $text };
        )*

        /// The numbers of the entries.
        pub mod number {
            $(
                #[doc = concat!("`", $text, "`")]
                pub const $name: i32 = $number;
            )*
        }

        #[cfg(test)]
        pub(crate) const ALL: &[(&str, i32, u8, u8, &str)] =
            &[$((stringify!($name), $number, $severity, state_of(&[$($state)?]), $text)),*];
    };
}

errors! {
    FILE_MADE_ANEW(0, 10) "The file '{}' was left by a statement that a crash had cut off, and held nothing. It was \
        removed and made anew.";
    NEXT_USED_FILEGROUP(0, 10) "Partition scheme '{}' has been created successfully. '{}' is marked as the next used \
        filegroup in partition scheme '{}'.";
    SYNTAX(102, 15) "Incorrect syntax near '{}'.";
    ATTACH_WITHOUT_PRIMARY_FILE(102, 15) "CREATE DATABASE … FOR ATTACH needs the primary file: ON (FILENAME = '…').";
    COMPUTED_WITHOUT_TYPE(102, 15) "The computed column '{}' in table '{}' has no type. Convert NULL to one.";
    DEFAULT_WITHOUT_COLUMN(102, 15) "A DEFAULT of a table names its column: FOR column.";
    IDENTITY_PROPERTY(102, 15) "An identity property takes integers.";
    ONE_DEFAULT_FILEGROUP(102, 15) "A database has one default filegroup.";
    MARK_WITHOUT_NAME(102, 15) "A transaction with a mark needs a name: BEGIN TRANSACTION name WITH MARK.";
    OPTIMIZE_FOR_CONSTANTS(102, 15) "Incorrect syntax near '{}': OPTIMIZE FOR takes constants.";
    OPTION_VALUE(102, 15) "Incorrect syntax near '{}'. Its value is none that the option takes.";
    PARAMETER_LIST(102, 15) "The parameters of sp_executesql are a list of names with types.";
    TABLE_WITHOUT_COLUMNS(102, 15) "CREATE TABLE failed because table '{}' has no columns.";
    WINDOW_FRAME_NEGATIVE(102, 15) "The number of rows of a window frame must not be negative.";
    IDENTIFIER_TOO_LONG(103, 15) "The identifier that starts with '{}' is too long. Maximum length is {}.";
    ORDER_BY_OF_SET_OPERATION(104, 16) "ORDER BY items must appear in the select list if the statement contains a \
        UNION, INTERSECT or EXCEPT operator.";
    UNCLOSED_QUOTE(105, 15) "Unclosed quotation mark after the character string '{}'.";
    COLUMN_PREFIX(107, 16) "The column prefix '{}' does not match with a table name or alias name used in the query.";
    ORDER_BY_POSITION(108, 16) "The ORDER BY position number {} is out of range of the number of items in the select \
        list.";
    INSERT_MORE_COLUMNS(109, 15) "There are more columns in the INSERT statement than values specified in the VALUES \
        clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT \
        statement.";
    INSERT_FEWER_COLUMNS(110, 15) "There are fewer columns in the INSERT statement than values specified in the \
        VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the \
        INSERT statement.";
    NOT_FIRST_IN_BATCH(111, 15) "'{} {}' must be the first statement in a query batch.";
    FILTER_VARIABLE(112, 16) "Variables are not allowed in the CREATE STATISTICS statement.";
    UNCLOSED_COMMENT(113, 15) "Missing end comment mark '*/'.";
    SUBQUERY_ONE_EXPRESSION(116, 16) "Only one expression can be specified in the select list when the subquery is \
        not introduced with EXISTS.";
    PARAMETER_ORDER(119, 15) "Must pass parameter number {} and subsequent parameters as '@name = value'. After the \
        form '@name = value' has been used, all subsequent parameters must be passed in the form '@name = value'.";
    SELECT_FEWER_ITEMS(120, 15) "The select list for the INSERT statement contains fewer items than the insert list. \
        The number of SELECT values must match the number of INSERT columns.";
    SELECT_MORE_ITEMS(121, 15) "The select list for the INSERT statement contains more items than the insert list. \
        The number of SELECT values must match the number of INSERT columns.";
    NEGATIVE_ROW_COUNT(127, 15) "A TOP N or FETCH rowcount value may not be negative.";
    COLUMN_NAME_NOT_PERMITTED(128, 15) "The name \"{}\" is not permitted in this context. Valid expressions are \
        constants, constant expressions, and (in some contexts) variables. Column names are not permitted.";
    FILL_FACTOR(129, 16) "Fillfactor {} is not a valid percentage; fillfactor must be between 1 and 100.";
    AGGREGATE_OF_AGGREGATE(130, 16) "Cannot perform an aggregate function on an expression containing an aggregate or \
        a subquery.";
    TYPE_SIZE(131, 15) "The size ({}) given to the type '{}' exceeds the maximum allowed for any data type ({}).";
    LABEL_REDECLARED(132, 15) "The label '{}' has already been declared. Label names must be unique within a query \
        batch or stored procedure.";
    UNKNOWN_LABEL(133, 15) "A GOTO statement references the label '{}' but the label has not been declared.";
    VARIABLE_REDECLARED(134, 15) "The variable name '{}' has already been declared. Variable names must be unique \
        within a query batch or stored procedure.";
    BREAK_OUTSIDE_LOOP(135, 15) "Cannot use a BREAK statement outside the scope of a WHILE statement.";
    CONTINUE_OUTSIDE_LOOP(136, 15) "Cannot use a CONTINUE statement outside the scope of a WHILE statement.";
    UNDECLARED_VARIABLE(137, 15) "Must declare the scalar variable \"{}\".";
    ASSIGNMENT_WITH_RETRIEVAL(141, 15) "A SELECT statement that assigns a value to a variable must not be combined \
        with data-retrieval operations.";
    AGGREGATE_IN_GROUP_BY(144, 15) "Cannot use an aggregate or a subquery in an expression used for the group by list \
        of a GROUP BY clause.";
    ORDER_BY_OF_DISTINCT(145, 15) "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.";
    AGGREGATE_IN_WHERE(147, 15) "An aggregate may not appear in the WHERE clause unless it is in a subquery contained \
        in a HAVING clause or a select list, and the column being aggregated is an outer reference.";
    WAITFOR_TIME(148, 15) "Incorrect time syntax in time string '{}' used with WAITFOR.";
    USE_IN_MODULE(154, 15) "a USE database statement is not allowed in a procedure, function or trigger.";
    UNKNOWN_OPTION(155, 15) "'{}' is not a recognized {} option.";
    UNKNOWN_QUERY_HINT(155, 15) "'{}' is not a recognized query hint.";
    SYNTAX_KEYWORD(156, 15) "Incorrect syntax near the keyword '{}'.";
    PARTITIONS_WITHOUT_RESAMPLE(156, 15) "Incorrect syntax near the keyword 'ON'. Partitions are named behind \
        RESAMPLE alone.";
    AGGREGATE_IN_SET_LIST(157, 16) "An aggregate may not appear in the set list of an UPDATE statement.";
    AGGREGATE_IN_OUTPUT(158, 16) "An aggregate may not appear in the OUTPUT clause.";
    STATISTICS_NEED_TABLE(159, 16) "Must specify the table name and index name for the DROP STATISTICS statement: \
        '{}' has no table.";
    INDEX_NEEDS_TABLE(159, 15) "Must specify the table name and index name for the DROP INDEX statement.";
    GROUP_BY_OUTER_REFERENCE(164, 15) "Each GROUP BY expression must contain at least one column that is not an outer \
        reference.";
    DATABASE_PREFIX(166, 15) "'{}' does not allow specifying the database name as a prefix to the object name. USE \
        the database first.";
    FLOAT_LITERAL_RANGE(168, 15) "The floating point value '{}' is out of the range of computer representation (8 \
        bytes).";
    FUNCTION_ARGUMENT_COUNT(174, 15) "The {} function requires {} argument(s).";
    GROUPING_ID_ARGUMENTS(174, 15) "The grouping_id function requires 1 or more arguments.";
    PARAMETER_WITHOUT_DEFAULT(174, 15) "The parameter {} of {} has no default.";
    WINDOW_ARGUMENT_COUNT(174, 15) "The function '{}' takes exactly {} argument(s).";
    RETURN_VALUE(178, 15) "A RETURN statement with a return value cannot be used in this context.";
    SCALE_RANGE(183, 15) "The scale ({}) for column or parameter must be within the range 0 to {}.";
    FUNCTION_ARGUMENT_RANGE(189, 15) "The {} function requires {} to {} arguments.";
    FUNCTION_ARGUMENTS_MIN(189, 15) "The {} function requires {} or more arguments.";
    NESTED_TOO_DEEPLY(191, 15) "Some part of your SQL statement is nested too deeply. Rewrite the query or break it \
        up into smaller queries.";
    VIEWS_NESTED_TOO_DEEPLY(191, 15) "'{}' is nested too deeply: views, functions and common table expressions may \
        lie {} deep.";
    UNKNOWN_FUNCTION(195, 15) "'{}' is not a recognized built-in function name.";
    UNKNOWN_SET_OPTION(195, 15) "'{}' is not a recognized SET option.";
    PARAMETER_NOT_SUPPLIED(201, 16, 4) "Procedure or function '{}' expects parameter '{}', which was not supplied.";
    SYSTEM_PROCEDURE_PARAMETER(201, 16) "Procedure or function '{}' expects parameter '{}', which was not supplied.";
    SET_OPERATION_COLUMNS(205, 16) "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an \
        equal number of expressions in their target lists.";
    OPERAND_TYPE_CLASH(206, 16) "Operand type clash: {} is incompatible with {}";
    INVALID_COLUMN(207, 16) "Invalid column name '{}'.";
    INVALID_OBJECT(208, 16) "Invalid object name '{}'.";
    TABLE_DROPPED(208, 16) "The table of HOBT {} in database '{}' was dropped.";
    AMBIGUOUS_COLUMN(209, 16) "Ambiguous column name '{}'.";
    BINARY_CONVERSION(210, 16) "Conversion failed when converting {} from binary/varbinary string.";
    INSERT_COLUMN_COUNT(213, 16) "Column name or number of supplied values does not match table definition.";
    SEPARATOR_TYPE(214, 16, 11) "Procedure expects parameter 'separator' of type 'nchar(1)/nvarchar(1)'.";
    STATEMENT_TYPE(214, 16) "Procedure expects parameter '@statement' of type 'ntext/nchar/nvarchar'.";
    NOT_A_TABLE_FUNCTION(215, 16) "Parameters supplied for object '{}' which is not a function. If the parameters are \
        intended as a table hint, a WITH keyword is required.";
    PARAMETERS_NOT_SUPPLIED(216, 16) "Parameters were not supplied for the function '{}'.";
    NESTING_LEVEL(217, 16) "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).";
    OVERFLOW_SMALL(220, 16) "Arithmetic overflow error for data type {}, value = {}.";
    NOT_IN_TRANSACTION(226, 16) "{} statement not allowed within multi-statement transaction.";
    OVERFLOW_FLOAT(232, 16) "Arithmetic overflow error for type {}, value = {}.";
    INSUFFICIENT_SPACE(234, 16) "There is insufficient result space to convert a {} value to {}.";
    MONEY_SYNTAX(235, 16) "Cannot convert a char value to money. The char value has incorrect syntax.";
    RECURSIVE_TYPES(240, 16) "Types don't match between the anchor and the recursive part in column \"{}\" of \
        recursive query.";
    DATE_CONVERSION(241, 16) "Conversion failed when converting date and/or time from character string.";
    DATE_OUT_OF_RANGE(242, 16) "The conversion of a {} data type to a {} data type resulted in an out-of-range value.";
    UNKNOWN_TYPE(243, 16) "Type {} is not a defined system type.";
    SMALL_OVERFLOW_TEXT(244, 16) "The conversion of the {} value '{}' overflowed an {} column. Use a larger integer \
        column.";
    CONVERSION(245, 16) "Conversion failed when converting the {} value '{}' to data type {}.";
    INT_OVERFLOW_TEXT(248, 16) "The conversion of the {} value '{}' overflowed an int column.";
    RECURSIVE_TWICE(253, 16) "Recursive references are not allowed more than once in a recursive member.";
    IMPLICIT_CONVERSION(257, 16) "Implicit conversion from data type {} to {} is not allowed. Use the CONVERT \
        function to run this query.";
    SYSTEM_TABLE_UPDATE(259, 16) "Ad hoc updates to system catalogs are not allowed.";
    STAR_WITHOUT_TABLE(263, 16) "Must specify table to select from.";
    COLUMN_TWICE(264, 16) "The column name '{}' is specified more than once in the SET clause or column list of an \
        INSERT. A column cannot be assigned more than one value in the same clause.";
    TRANSACTION_COUNT(266, 16, 2) "Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT \
        statements. Previous count = {}, current count = {}.";
    COMPUTED_COLUMN(271, 16) "The column \"{}\" cannot be modified because it is either a computed column or is the \
        result of a UNION operator.";
    INVALID_STYLE(281, 16) "{} is not a valid style number when converting from {} to a character string.";
    CANNOT_CONSTRUCT(289, 16) "Cannot construct data type {}, some of the arguments have values which are not valid.";
    SMALLDATETIME_CONVERSION(295, 16) "Conversion failed when converting character string to smalldatetime data type.";
    NEWSEQUENTIALID(302, 16) "The newsequentialid() built-in function can only be used in a DEFAULT expression for a \
        column of type 'uniqueidentifier' in a CREATE TABLE or ALTER TABLE statement. It cannot be combined with \
        other operators to form a complex scalar expression.";
    NO_INDEX_ID(307, 16) "Index {} on table '{}' (specified in the FROM clause) does not exist.";
    NO_INDEX_NAME(308, 16) "Index {} on table '{}' (specified in the FROM clause) does not exist.";
    MAX_RECURSION_RANGE(310, 16) "The value {} specified for the MAXRECURSION option exceeds the allowed maximum of \
        32767. Use 0 for no limit.";
    TOO_FEW_ARGUMENTS(313, 16) "An insufficient number of arguments were supplied for the procedure or function {}.";
    HINTED_INDEX_DISABLED(315, 16) "Index {} on table '{}' (specified in the FROM clause) is disabled. ALTER INDEX … \
        REBUILD makes it anew.";
    SEMICOLON_BEFORE_WITH(319, 15) "Incorrect syntax near the keyword '{}'. If this statement is a common table \
        expression, an xmlnamespaces clause or a change tracking context clause, the previous statement must be \
        terminated with a semicolon.";
    UNKNOWN_TABLE_HINT(321, 15) "\"{}\" is not a recognized table hints option.";
    OUTPUT_INTO_FOREIGN_KEY(332, 16) "The target table '{}' of the OUTPUT INTO clause cannot be on either side of a \
        (primary key, foreign key) relationship. Found reference constraint '{}'.";
    NO_SEEK_COLUMN(362, 16) "The query processor could not produce a query plan because the name '{}' in the \
        FORCESEEK hint on table or view '{}' did not match the key column names of the index {}. {}";
    TOO_MANY_SEEK_COLUMNS(365, 16) "The query processor could not produce a query plan because the FORCESEEK hint on \
        table or view '{}' specified more seek columns than the number of key columns in index {}. {}";
    INCOMPATIBLE_OPERANDS(402, 16) "The data types {} and {} are incompatible in the {} operator.";
    ORDER_BY_CONSTANT(408, 16) "A constant expression was encountered in the ORDER BY list, position {}.";
    COLLATE_TYPE(447, 16) "Expression type {} is invalid for COLLATE clause.";
    INVALID_COLLATION(448, 16) "Invalid collation '{}'.";
    RECURSIVE_GROUPED(467, 16) "GROUP BY, HAVING, or aggregate functions are not allowed in the recursive part of a \
        recursive common table expression.";
    COLLATION_CONFLICT(468, 16) "Cannot resolve the collation conflict between \"{}\" and \"{}\" in the {} operation.";
    SAMPLE_PERCENT(476, 16) "Invalid value for percent: {}. A sample is 0 to 100 percent of a table.";
    TABLE_SAMPLE_PERCENT(476, 16) "Invalid PERCENT tablesample size \"{}\" for table \"{}\". The PERCENT tablesample \
        size must be between 0 and 100.";
    SAMPLE_ROWS(477, 16) "Invalid ROWS value or REPEATABLE seed in the TABLESAMPLE clause for table \"{}\". The value \
        or seed must be greater than 0.";
    SAMPLE_NO_TABLE(494, 16) "The TABLESAMPLE clause can only be used with local tables.";
    INVALID_ESCAPE(506, 16) "The invalid escape character \"{}\" was specified in a LIKE predicate.";
    ROW_TOO_LARGE(511, 16) "Cannot create a row of size {} which is greater than the allowable maximum row size of \
        8060.";
    SUBQUERY_MORE_THAN_ONE(512, 16) "Subquery returned more than 1 value. This is not permitted when the subquery \
        follows =, !=, <, <= , >, >= or when the subquery is used as an expression.";
    NULL_NOT_ALLOWED(515, 16, 2) "Cannot insert the value NULL into column '{}', table '{}'; column does not allow \
        nulls. {} fails.";
    DATE_ADD_OVERFLOW(517, 16) "Adding a value to a '{}' column caused an overflow.";
    EXPLICIT_CONVERSION(529, 16) "Explicit conversion from data type {} to {} is not allowed.";
    RECURSION_EXHAUSTED(530, 16) "The statement terminated. The maximum recursion {} has been exhausted before \
        statement completion.";
    DATEDIFF_OVERFLOW(535, 16) "The {} function resulted in an overflow. The number of dateparts separating two \
        date/time instances is too large. Try to use {} with a less precise datepart.";
    INVALID_LENGTH_OF(536, 16) "Invalid length parameter passed to the RIGHT function.";
    INVALID_LENGTH_PARAMETER(537, 16) "Invalid length parameter passed to the LEFT or SUBSTRING function.";
    IDENTITY_INSERT_OFF(544, 16) "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT \
        is set to OFF.";
    IDENTITY_VALUE_MISSING(545, 16) "Explicit value must be specified for identity column in table '{}' either when \
        IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity \
        column.";
    CONSTRAINT_VIOLATION(547, 16, 0) "The {} statement conflicted with the {} constraint \"{}\". The conflict \
        occurred in database \"{}\", table \"{}.{}\"{}.";
    CHECK_VIOLATION(547, 16, 0) "The {} statement conflicted with the CHECK constraint \"{}\". The conflict occurred \
        in database \"{}\", table \"{}\"{}.";
    NOT_IN_USER_TRANSACTION(574, 16) "{} statement cannot be used inside a user transaction.";
    SESSION_KILLED(596, 21) "Cannot continue the execution because the session is in the kill state.";
    DATA_MOVED(601, 12) "Could not continue scan with NOLOCK due to data movement. The transaction that wrote a value \
        rolled back while the value was read: run the query again, or read committed rows.";
    FILEGROUP_WITHOUT_FILES(622, 16) "The filegroup \"{}\" has no files assigned to it. Tables, indexes, and large \
        object columns cannot be populated on this filegroup until a file is added.";
    FILEGROUP_NEEDS_FILE(622, 16) "The filegroup \"{}\" has no files assigned to it. Add a file to it first.";
    SAVE_WITHOUT_TRANSACTION(628, 16) "Cannot issue SAVE TRANSACTION when there is no active transaction.";
    READPAST_NOT_ALLOWED(650, 16) "You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ \
        isolation levels.";
    OUT_OF_MEMORY(701, 17) "There is insufficient system memory to run this query: {}. Raise the memory setting.";
    DISK_MEMORY(701, 17) "{}";
    QUERY_MEMORY(701, 17) "There is insufficient system memory in resource pool 'default' to run this query. Its \
        sorts, groups or joins keep more rows than fit: select fewer or shorter columns, run it with a lower MAXDOP \
        or when fewer queries run, or give the instance more memory.{}";
    VALUE_MEMORY(701, 17) "There is insufficient system memory in resource pool 'default' to run this query. {} bytes \
        were asked for: make its texts shorter or its rows fewer, or give the instance more memory.";
    IO_ERROR(823, 24) "The operating system returned an error to a file operation: {}.";
    PAGE_NOT_READ(823, 24) "Page {} of database '{}' cannot be read: {}.";
    PAGE_DAMAGED(824, 24) "A logical consistency-based I/O error was detected: {}. It occurred during a read of page \
        {} in database '{}' at offset {} in file '{}'. This is a severe error condition that threatens database \
        integrity: restore the file from a copy, and look for the cause in the storage below it.";
    PAGE_NOT_READ_DAMAGED(824, 24) "Page {} of database '{}' cannot be read: {}.";
    VALUE_DAMAGED(824, 24) "A column's values contradict its type: {}.";
    EXTENSION_TOO_LARGE(864, 16) "Attempting to allocate {} BUF for buffer pool extension for a maximum of {} page \
        descriptors. Buffer pool extension is at most 32 times as large as the buffer pool.";
    EXTENSION_TOO_SMALL(868, 16) "Buffer pool extension size must be larger than the current memory allocation \
        threshold {} MB. Buffer pool extension is not enabled.";
    EXTENSION_DISABLED(871, 10) "Buffer pool extension is already disabled. No action is necessary.";
    EXTENSION_ENABLED(872, 16) "Buffer pool extension is already enabled. Set it OFF before it is set ON again.";
    DATABASE_DOES_NOT_EXIST(911, 16) "Database '{}' does not exist. Make sure that the name is entered correctly.";
    DATABASE_SUSPECT(926, 14) "Database '{}' cannot be opened. It has been marked SUSPECT: {}. Stop the instance and \
        start it again: that recovers the database from its log. If it is SUSPECT then, put back copies of all its files \
        that were made while the instance was stopped, or drop the database and load it again.";
    DATABASE_RESTORING(927, 14) "Database '{}' cannot be opened. It is in the middle of a restore.";
    DATABASE_OFFLINE(942, 16) "Database '{}' cannot be opened because it is offline.";
    DATABASE_INACCESSIBLE(945, 16) "Database '{}' cannot be opened due to inaccessible files or insufficient memory \
        or disk space: {}. Make its files accessible and start the instance again.";
    DATABASE_FILE_NOT_GIVEN(945, 16) "Database '{}' cannot be opened due to inaccessible files: file {} of it was not \
        given. Give all of its files.";
    DATABASE_LISTED_WRONGLY(945, 16) "master lists database '{}' in a way that cannot be; restore master from a copy.";
    DATABASE_UNUSABLE(945, 16) "Database '{}' cannot be used: {}.";
    TRANSACTION_IN_DOUBT(945, 16) "Database '{}' cannot be recovered: a transaction is in doubt, because {}.";
    DATABASE_IN_TRANSITION(952, 16) "Database '{}' is in transition. Try the statement later.";
    TYPE_LENGTH(1001, 16) "Length or precision specification for the type '{}' is invalid: use 1 to {}.";
    SCALE_INVALID(1002, 15) "Line 1: Specified scale is invalid: use 0 to 7.";
    NUMBER_RANGE(1007, 15) "The number '{}' is out of the range for numeric representation (maximum precision 38).";
    SAME_EXPOSED_NAMES(1013, 16) "The objects \"{}\" and \"{}\" in the FROM clause have the same exposed names. Use \
        correlation names to distinguish them.";
    AGGREGATE_IN_ON(1015, 15) "An aggregate cannot appear in an ON clause unless it is in a subquery contained in a \
        HAVING clause or select list, and the column being aggregated is an outer reference.";
    INVALID_OPTION_VALUE(1020, 16) "The value {} of the query hint {} is out of range: use 0 to {}.";
    GRANT_PERCENT_ORDER(1020, 16) "MIN_GRANT_PERCENT, {}, is more than MAX_GRANT_PERCENT, {}: give a smaller one.";
    RESTORED_PAGES(1020, 16) "RESTORE DATABASE … PAGE names {} pages: name 1 to {}.";
    OPTION_OUT_OF_RANGE(1020, 16) "The value of {} is out of range: use 0 to {}.";
    INVALID_PARAMETER_1(1023, 15) "Invalid parameter 1 specified for {}.";
    GOTO_INTO_TRY(1026, 15) "GOTO cannot be used to jump into a TRY or CATCH scope.";
    PERCENT_RANGE(1031, 15) "Percent values must be between 0 and 100.";
    ORDER_BY_NOT_ALLOWED(1033, 15) "The ORDER BY clause is invalid in views, inline functions, derived tables, \
        subqueries, and common table expressions, unless TOP, OFFSET or FOR XML is also specified.";
    EMPTY_NAME(1038, 15) "An object or column name is missing or empty. Give it a name.";
    EMPTY_COLUMN_NAME(1038, 15) "An object or column name is missing or empty. For SELECT INTO statements, verify \
        each column has a name. For other statements, look for empty alias names. Aliases defined as \"\" or [] are \
        not allowed. Change the alias to a valid name.";
    CONFLICTING_HINTS(1042, 15) "Conflicting {} optimizer hints specified. Leave one of them in OPTION.";
    CONFLICTING_JOIN_HINTS(1042, 15) "Conflicting JOIN optimizer hints specified. Name the way of the join in OPTION \
        as well, or in one of both places alone.";
    HINT_OUT_OF_RANGE(1042, 15) "Conflicting {} optimizer hints specified. {} is out of range: use 0 to 100.";
    SUBQUERY_NOT_ALLOWED(1046, 16) "Subqueries are not allowed in this context. Only scalar expressions are allowed.";
    CONFLICTING_LOCK_HINTS(1047, 16) "Conflicting locking hints specified.";
    CONFLICTING_OPTIONS(1052, 16) "Conflicting {} options: {} exclude each other.";
    CONFLICTING_CLONE_OPTIONS(1052, 16) "Conflicting DBCC CLONEDATABASE options \"SERVICEBROKER\" and \
        \"VERIFY_CLONEDB\".";
    STREAM_OF_ONE(1052, 16) "STATS_STREAM is of one statistics object: name it behind the table.";
    TOO_MANY_SELECT_ITEMS(1056, 15) "The number of elements in the select list exceeds the maximum allowed number of \
        {} elements.";
    ROW_COUNT_TYPE(1060, 15) "The number of rows provided for a TOP or FETCH clauses row count parameter must be an \
        integer.";
    WITH_TIES_WITHOUT_ORDER(1062, 15) "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY \
        clause.";
    NOLOCK_OF_TARGET(1065, 16) "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of \
        INSERT, UPDATE, DELETE or MERGE statements.";
    SHOWPLAN_NOT_ALONE(1067, 15) "The SET SHOWPLAN statements must be the only statements in the batch.";
    UNDECLARED_TABLE_VARIABLE(1087, 15) "Must declare the table variable \"{}\".";
    NO_SUCH_OBJECT(1088, 16) "Cannot find the object \"{}\" because it does not exist or you do not have permissions.";
    FILEGROUP_FULL(1105, 17) "Could not allocate space in database '{}' because the '{}' filegroup is full: {}. \
        Delete what is not needed, add files to the filegroup, or let its files grow.";
    DISK_FULL(1105, 17) "The operating system returned an error to a file operation: {}.";
    SPILL_FULL(1105, 17) "Could not allocate space for object 'temporary run storage' in database 'tempdb' because \
        the 'PRIMARY' filegroup is full. Make room on the disk of the instance's folder 'tempdb', where sorts, \
        groups, joins and changes put what does not fit into memory.";
    DEADLOCK(1205, 13, 51) "Transaction (Process ID {}) was deadlocked on lock resources with another process and has \
        been chosen as the deadlock victim. Rerun the transaction.";
    LOCK_TIMEOUT(1222, 16) "{}";
    DEFINITION_BUSY(1222, 16) "Lock request time out period exceeded: another statement is changing the same object.";
    STATISTICS_BUSY(1222, 16) "Somebody else is at work in the statistics.";
    DUPLICATE_KEY_BUILD(1505, 16) "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for \
        the object name '{}' and the index name '{}'. The duplicate key value is ({}).";
    ROW_TOO_LARGE_DEFINITION(1701, 16) "Creating or altering table '{}' failed because the minimum row size would be \
        {}, including {} bytes of internal overhead. This exceeds the maximum allowable table row size of {} bytes.";
    ROW_DOES_NOT_FIT_PAGE(1701, 16) "Creating or altering table '{}' failed because its rows do not fit a page.";
    TOO_MANY_COLUMNS(1702, 16) "{} failed because column '{}' in table '{}' exceeds the maximum of {} columns.";
    ONLY_COMPUTED_COLUMNS(1738, 16) "CREATE TABLE failed because table '{}' consists of computed columns that are not \
        persisted alone. Add a column.";
    CONSTRAINT_NOT_CREATED(1750, 16, 0) "Could not create constraint or index. See previous errors.";
    DEFAULT_NOT_ALLOWED(1752, 16) "Column '{}' in table '{}' is invalid for creating a default constraint.";
    DEFAULT_OF_IDENTITY(1754, 16) "Defaults cannot be created on columns with an IDENTITY attribute. Table '{}', \
        column '{}'.";
    COMPUTED_OF_COMPUTED(1759, 16) "Computed column '{}' in table '{}' is not allowed to be used in another \
        computed-column definition.";
    FOREIGN_KEY_CROSS_DATABASE(1763, 16) "Cross-database foreign key references are not supported. Foreign key '{}'.";
    FOREIGN_KEY_TABLE(1767, 16) "Foreign key '{}' references invalid table '{}.{}'.";
    FOREIGN_KEY_COLUMN(1769, 16) "Foreign key '{}' references invalid column '{}' in referencing table '{}'.";
    FOREIGN_KEY_REFERENCED_COLUMN(1770, 16) "Foreign key '{}' references invalid column '{}' in referenced table '{}'.";
    FOREIGN_KEY_NO_PRIMARY_KEY(1773, 16) "Foreign key '{}' has implicit reference to object '{}' which does not have \
        a primary key defined on it.";
    FOREIGN_KEY_NO_CANDIDATE(1776, 16) "There are no primary or candidate keys in the referenced table '{}' that \
        match the referencing column list in the foreign key '{}'.";
    FOREIGN_KEY_TYPE(1778, 16) "Column '{}.{}' is not the same data type as referencing column '{}.{}' in foreign key \
        '{}'.";
    PRIMARY_KEY_EXISTS(1779, 16) "Table '{}' already has a primary key defined on it.";
    DEFAULT_EXISTS(1781, 16) "Column already has a DEFAULT bound to it.";
    FOREIGN_KEY_CASCADE_PATHS(1785, 16) "Introducing FOREIGN KEY constraint '{}' on table '{}' may cause cycles or \
        multiple cascade paths. Specify ON DELETE NO ACTION or ON UPDATE NO ACTION, or modify other FOREIGN KEY \
        constraints.";
    DATABASE_EXISTS(1801, 16) "Database '{}' already exists. Choose a different database name.";
    DATABASE_NOT_CREATED(1802, 16, 4) "CREATE DATABASE failed. Some file names listed could not be created. Check \
        related errors.";
    CANNOT_OPEN_NEW_DATABASE(1813, 16) "Could not open new database '{}'. CREATE DATABASE is aborted. The log cannot \
        be rebuilt because there were open transactions/users when the database was shutdown, or no checkpoint \
        occurred to the database: give the files of its log.";
    NO_SNAPSHOT_OF(1822, 16) "The database must be online to have a database snapshot: '{}' is the instance's own, a \
        standby, a snapshot, or closed.";
    FILE_NAME_IN_USE(1828, 16) "The logical file name \"{}\" is already in use. Choose a different name.";
    FILEGROUP_NAME_IN_USE(1828, 16) "The filegroup name \"{}\" is already in use. Choose a different name.";
    FILE_OF_ANOTHER_DATABASE(1834, 16) "The file '{}' cannot be overwritten. It is being used by database '{}'.";
    FILES_OF_ANOTHER_DATABASE(1834, 16) "The files are those of database '{}', or a copy of them.";
    CLUSTERED_EXISTS(1902, 16) "Cannot create more than one clustered index on table '{}'. Drop the existing \
        clustered index '{}' before creating another.";
    TOO_MANY_KEY_COLUMNS(1904, 16) "The index '{}' on table '{}' has {} columns in the key list. The maximum limit \
        for index key column list is {}.";
    TOO_MANY_STATISTICS_COLUMNS(1904, 16) "The statistics '{}' on table '{}' has {} columns in the key list. The \
        maximum limit for statistics key column list is {}.";
    NOT_THE_CONSTRAINT(1907, 16) "Cannot recreate index '{}'. The new index definition does not match the constraint \
        being enforced by the existing index.";
    PARTITION_COLUMN_NOT_IN_KEY(1908, 16) "Column '{}' is partitioning column of the index '{}'. Partition columns \
        for a unique index must be a subset of the index key.";
    KEY_COLUMN_TWICE(1909, 16) "Cannot use duplicate column names in index. Column name '{}' listed more than once.";
    STATISTICS_COLUMN_TWICE(1909, 16) "Cannot use duplicate column names in statistics. Column name '{}' listed more \
        than once.";
    NO_SUCH_KEY_COLUMN(1911, 16) "Column name '{}' does not exist in the target table or view.";
    INDEX_EXISTS(1913, 16) "The operation failed because an index or statistics with name '{}' already exists on \
        table '{}'.";
    IGNORED_NOT_UNIQUE(1916, 16) "CREATE INDEX options nonunique and ignore_dup_key are mutually exclusive.";
    KEY_COLUMN_TYPE(1919, 16) "Column '{}' in table '{}' is of a type that is invalid for use as a key column in an \
        index.";
    INVALID_DATA_SPACE(1921, 16) "Invalid filegroup '{}' specified.";
    INVALID_PARTITION_SCHEME(1921, 16) "Invalid partition scheme '{}' specified.";
    NO_SPECIFIED_FILEGROUP(1921, 16) "Invalid filegroup '{}' specified. It is a partition scheme: name the column it \
        takes.";
    CLUSTERED_TO_NONCLUSTERED(1925, 16) "Cannot convert a clustered index to a nonclustered index by using the \
        DROP_EXISTING option. To change the index type from clustered to nonclustered, delete the clustered index, \
        and then create a nonclustered index by using two separate statements.";
    STATISTICS_EXIST(1927, 16) "There are already statistics on table '{}' named '{}'.";
    KEY_TOO_LONG_DEFINITION(1944, 16) "Index '{}' was not created. This index has a key length of at least {} bytes. \
        The maximum permissible key length for {} index is {} bytes.";
    KEY_TOO_LONG_WARNING(1945, 10) "Warning! The maximum key length for {} index is {} bytes. The index '{}' has \
        maximum length of {} bytes. For some combination of large values, the insert/update operation will fail.";
    KEY_TOO_LONG(1946, 16, 3) "Operation failed. The index entry of length {} bytes for the index '{}' exceeds the \
        maximum length of {} bytes for {} indexes.";
    ENTRY_TOO_LONG(1946, 16) "Operation failed. The index entry of length {} bytes for the index '{}' exceeds the \
        maximum length of {} bytes that hobt's index pages take, the key of the clustered index and what text needs \
        to be sorted included. Make the values of the keys shorter.";
    INDEX_IS_DISABLED(1973, 16) "Cannot perform the specified operation on disabled index '{}' on table '{}'.";
    CHECK_NO_SUCH_TABLE(2501, 16, 45) "Cannot find a table or object with the name \"{}\". Check the system catalog.";
    CHECK_ROW_COUNT(2508, 16) "The In-row data ROWS count for object \"{}\", {}, is incorrect: {} are counted, {} are \
        in its pages. If pages are damaged, those rows are among them.";
    CHECK_KEY_ORDER(2511, 16) "Table error: {}. Keys out of order on page {}: {}";
    DBCC_COMPLETED(2528, 10) "DBCC execution completed. If DBCC printed error messages, contact your system \
        administrator.";
    CHECK_PAGE_NOT_SEEN(2533, 16) "{}: page {} was not seen. The page is invalid or has an incorrect type in its \
        header: {}";
    CHECK_OTHER_OWNER(2533, 16) "{}: page {} was not seen. The page is invalid or has an incorrect owner in its \
        header: {}";
    DBCC_RESULTS(2536, 10) "DBCC results for '{}'.";
    PAGE_LOCKS_DISABLED(2552, 16) "The index \"{}\" on table \"{}\" cannot be reorganized because page level locking \
        is disabled.";
    FILE_NOT_EMPTIED(2555, 16) "Cannot move all contents of file \"{}\" to other places to complete the emptyfile \
        operation. {}";
    NO_ROOM_TO_EMPTY_FILE(2556, 16) "There is insufficient space in the filegroup to complete the emptyfile \
        operation: it has no other file that takes anything. Add one.";
    DBCC_ARGUMENT(2560, 16, 9) "Parameter {} is incorrect for this DBCC statement.";
    CHECKTABLE_ARGUMENT(2560, 16) "DBCC CHECKTABLE takes the name of a table.";
    CLONEDATABASE_ARGUMENT(2560, 16) "DBCC CLONEDATABASE takes the names of two databases.";
    DBCC_DATABASE_ARGUMENT(2560, 16) "DBCC {} takes a database: its name, its id, or 0 for the current one.";
    DBCC_PARAMETER(2560, 16) "Parameter {} is incorrect for this DBCC statement.";
    PAGE_ARGUMENT(2560, 16) "DBCC PAGE takes a database (name or id), a file id, a page number and a style from 0 to \
        3.";
    SQLPERF_ARGUMENT(2560, 16) "DBCC SQLPERF does not know '{}'. Use a view's name with CLEAR, SPINLOCKSTATS or \
        LOGSPACE.";
    TRACE_FLAG_RANGE(2560, 16) "A trace flag is a number from 1 to 32767, or -1 for all sessions.";
    CHECK_VALUE(2570, 16) "Page {}, slot {} in {}: column \"{}\" value is out of range for data type \"{}\"; {}. \
        Update the column to a legal value.";
    DATABASE_ID_NOT_FOUND(2573, 16) "Could not find database ID {}.";
    CHECK_EXTENT_NOT_ALLOCATED(2579, 16) "{}: extent {} is in its run list and not allocated in the allocation map. {}";
    DBCC_ARGUMENT_COUNT(2583, 16) "An incorrect number of parameters was given to the DBCC statement.";
    INVALID_STATISTICS_MODE(2591, 16) "An invalid mode '{}' was given: sys.dm_db_index_physical_stats takes LIMITED, \
        SAMPLED or DETAILED.";
    CHECK_ROWS(2593, 10) "There are {} rows in {} pages for object \"{}\".";
    DUPLICATE_KEY_INDEX(2601, 16) "Cannot insert duplicate key row in object '{}' with unique index '{}'. The \
        duplicate key value is ({}).";
    DUPLICATE_KEY_CONSTRAINT(2627, 16) "Violation of {} constraint '{}'. Cannot insert duplicate key in object '{}'. \
        The duplicate key value is ({}).";
    TRUNCATION(2628, 16) "String or binary data would be truncated in table '{}', column '{}'. Truncated value: '{}'.";
    DUPLICATE_COLUMN(2705, 16) "Column names in each table must be unique. Column name '{}' in table '{}' is \
        specified more than once.";
    OBJECT_EXISTS(2714, 16) "There is already an object named '{}' in the database.";
    CANNOT_FIND_TYPE(2715, 16) "Column, parameter, or variable: Cannot find data type {}.";
    TYPE_WITHOUT_WIDTH(2716, 16) "Column, parameter, or variable: Cannot specify a column width on data type {}.";
    CANNOT_FIND_INDEX(2727, 16) "Cannot find index '{}'.";
    SET_OPTION_VALUE(2742, 16) "SET {} was given a value outside its range.";
    IDENTITY_TWICE(2744, 16) "Multiple identity columns specified for table '{}'. Only one identity column per table \
        is allowed.";
    RAISERROR_ARGUMENT_COUNT(2747, 16) "Too many substitution parameters for RAISERROR. Cannot exceed 20 substitution \
        parameters.";
    FORMAT_ARGUMENT(2748, 16) "Cannot specify {} data type (parameter 4) as a substitution parameter.";
    IDENTITY_TYPE(2749, 16) "Identity column '{}' must be of data type int, bigint, smallint, tinyint, or decimal or \
        numeric with a scale of 0, unencrypted, and constrained to be nonnullable.";
    FLOAT_PRECISION(2750, 15) "The precision of a float must be 1 to 53.";
    PRECISION_TOO_LARGE(2750, 15) "Column or parameter: Specified column precision {} is greater than the maximum \
        precision of 38.";
    IDENTITY_INCREMENT(2752, 16) "Identity column '{}' in table '{}' contains invalid INCREMENT. INCREMENT must not \
        be zero.";
    IDENTITY_INCREMENT_ZERO(2752, 16) "Identity column '{}' contains invalid INCREMENT.";
    RAISERROR_SEVERITY(2754, 16) "Error severity levels greater than 18 can only be specified by members of the \
        sysadmin role, using the WITH LOG option.";
    SCHEMA_DOES_NOT_EXIST(2760, 16) "The specified schema name \"{}\" either does not exist or you do not have \
        permission to use it.";
    NO_SUCH_STATISTICS(2767, 16) "Could not locate statistics '{}' in the system catalogs.";
    TEMPORARY_TABLE_IN_FUNCTION(2772, 16) "Cannot access temporary tables from within a function.";
    FORMAT_TYPE(2786, 16) "The data type of substitution parameter {} does not match the expected type of the format \
        specification.";
    FORMAT_SPECIFICATION(2787, 16) "Invalid format specification: '{}'.";
    DEFINITION_CHANGED(2801, 16) "The definition of '{}' changed again and again while the statement waited for it.";
    STATISTICS_CHANGED(2801, 16) "The definition of '{}' changed again and again while the statement waited.";
    TABLE_DEFINITION_CHANGED(2801, 16) "The definition of a table changed again and again while the statement was \
        compiled.";
    NOT_A_PROCEDURE(2809, 16) "The request for procedure '{}' failed because '{}' is no procedure object.";
    UNKNOWN_PROCEDURE(2812, 16) "Could not find stored procedure '{}'.";
    BACKUP_OF_SNAPSHOT(3002, 16) "Cannot BACKUP or RESTORE a database snapshot.";
    BACKUP_NOT_IN_HISTORY(3009, 16) "Could not insert a backup or restore history/detail record in the msdb database. \
        This may indicate a problem with the msdb database. The backup/restore operation was still successful. ({})";
    BACKUP_TERMINATED(3013, 16) "{} is terminating abnormally.";
    BACKUP_PROCESSED(3014, 10) "{} successfully processed {} pages in {} seconds ({} MB/sec).";
    BACKUP_IN_TRANSACTION(3021, 16) "Cannot perform a backup or restore operation within a transaction.";
    BACKUP_IN_PROGRESS(3023, 16) "Backup, file manipulation operations (such as ALTER DATABASE ADD FILE) and \
        encryption changes on a database must be serialized. Reissue the statement after the current backup or file \
        manipulation operation is completed.";
    BACKUP_OF_MASTER(3024, 16) "You can only perform a full backup of the master database. Use BACKUP DATABASE to \
        back up the entire master database.";
    BACKUP_OPTIONS_CONFLICT(3031, 16) "Option '{}' conflicts with option(s) '{}'. Remove the conflicting option and \
        reissue the statement.";
    BACKUP_OPTION(3032, 16) "One or more of the options ({}) are not supported for this statement. Review the \
        documentation for supported options.";
    NO_DIFFERENTIAL_BASE(3035, 16) "Cannot perform a differential backup for database \"{}\", because a current \
        database backup does not exist. Perform a full database backup by reissuing BACKUP DATABASE, omitting the \
        WITH DIFFERENTIAL option.";
    BACKUP_OF_STANDBY(3036, 16) "The database \"{}\" is in warm-standby state (set by executing RESTORE WITH STANDBY) \
        and cannot be backed up until the entire restore sequence is completed.";
    BACKUP_OF_DAMAGED(3043, 10) "BACKUP WITH CONTINUE_AFTER_ERROR successfully generated a backup of the damaged \
        database. DBCC CHECKDB lists what is damaged.";
    BACKUP_PAGE_DAMAGED(3043, 16) "BACKUP '{}' detected an error on page ({}) in file '{}'.";
    RESTORE_IN_USE(3101, 16) "Exclusive access could not be obtained because the database is in use.";
    RESTORE_UNTOLD(3101, 16) "Exclusive access could not be obtained because the database \"{}\" is in use{}.";
    RESTORE_OF_CURRENT(3102, 16) "RESTORE cannot process database '{}' because it is in use by this session. It is \
        recommended that the master database be used when performing this operation.";
    RESTORE_OF_MASTER(3108, 16) "RESTORE cannot replace the database '{}' of the running instance. Start a new \
        instance and attach the users' databases there.";
    CONTROL_PAGE(3111, 16) "Page ({}) is a control page which cannot be restored in isolation. To repair this page, the \
        entire file must be restored.";
    PAGES_UNDER_SIMPLE(3115, 16) "The database is using the simple recovery model. It is not possible to restore a \
        subset of the read-write data.";
    PAGES_OF_ANOTHER_PATH(3116, 16) "The supplied backup is not on the same recovery path as the database, and is \
        ineligible for a restore of single pages.";
    NO_ROLL_FORWARD(3117, 16) "The log or differential backup cannot be restored because no files are ready to \
        rollforward.";
    RESTORE_NO_DATABASE(3118, 16) "The database \"{}\" does not exist. RESTORE can only create a database when \
        restoring either a full backup or a file backup of the primary file.";
    BACKUP_STRIPES_MISSING(3132, 16) "The media set has {} media families but only {} are provided. All members must \
        be provided.";
    BACKUP_SET_KIND(3135, 16) "The backup set in file '{}' was created by {} and cannot be used for this restore \
        operation.";
    DIFFERENTIAL_BASE_DIFFERS(3136, 16) "This differential backup cannot be restored because the database has not \
        been restored to the correct earlier state.";
    CANNOT_REVERT(3137, 16) "Database cannot be reverted. Either the primary or the snapshot names are improperly \
        specified, all other snapshots have not been dropped, or there are missing files: {}.";
    BACKUP_OF_TEMPDB(3147, 16) "Backup and restore operations are not allowed on database {}.";
    ALREADY_RECOVERED(3153, 16) "The database is already fully recovered.";
    RESTORE_OTHER_DATABASE(3154, 16) "The backup set holds a backup of a database other than the existing '{}' \
        database.";
    RESTORE_FILE_PLACE(3156, 16) "File '{}' cannot be restored to '{}'. Use WITH MOVE to identify a valid location \
        for the file. ({})";
    TAIL_NOT_BACKED_UP(3159, 16) "The tail of the log for the database \"{}\" has not been backed up. Use BACKUP LOG \
        WITH NORECOVERY to backup the log if it contains work you do not want to lose. Use the WITH REPLACE or WITH \
        STOPAT clause of the RESTORE statement to just overwrite the contents of the log.";
    BACKUP_NEWER(3169, 16) "The backup on device '{}' was made by a version of hobt that is later than this one: {}.";
    PAGE_DAMAGED_IN_BACKUP(3183, 16) "RESTORE detected an error on page ({}) in database \"{}\" as read from the backup \
        set.";
    NO_BACKUP_CHECKSUMS(3187, 16) "RESTORE WITH CHECKSUM cannot be specified because the backup set does not contain \
        checksum information.";
    BACKUP_SET_DAMAGED(3189, 16) "Damage to the backup set was detected. ({})";
    PAGE_BEHIND_END(3194, 16) "Page ({}) is beyond the end of the file. Only pages that are in the current range of the \
        file can be restored.";
    PAGE_NOT_IN_BACKUP(3195, 16) "Page ({}) cannot be restored from this backup set, which does not have it. Use a later \
        full or differential backup.";
    PAGE_NOT_IN_LOG(3195, 16) "Page ({}) cannot be restored: a load has filled its extent past the log since the last \
        backup that has it. Restore it from a later backup, or the whole database.";
    BACKUP_DEVICE(3201, 16) "Cannot open backup device '{}'. Operating system error {}.";
    BACKUP_WRITE(3202, 16) "Write on \"{}\" failed: {}";
    BACKUP_LISTS_TOO_MUCH(3202, 16) "Write on \"{}\" failed: the database has more files than a backup set can list.";
    BACKUP_READ(3203, 16) "Read on \"{}\" failed: {}";
    TOO_MANY_BACKUP_DEVICES(3205, 16) "Too many backup devices specified for backup or restore; only 64 are allowed.";
    NO_BACKUP_DEVICE(3206, 16) "Backup device '{}' does not exist. Name a file: DISK = 'path'.";
    BACKUP_PERCENT(3211, 10) "{} percent processed.";
    MOVE_UNKNOWN_FILE(3234, 16) "Logical file '{}' is not part of database '{}'. Use RESTORE FILELISTONLY to list the \
        logical file names.";
    NOT_A_BACKUP(3241, 16) "The media family on device '{}' is incorrectly formed. It cannot be processed: {}.";
    BACKUP_SET_CUT_SHORT(3256, 16) "The backup set on device '{}' was terminated while it was being created and is \
        incomplete. RESTORE sequence is terminated abnormally.";
    BACKUP_OTHER_MEDIA(3258, 16) "The volume on the device \"{}\" is not part of the media set that is currently \
        being processed. Ensure that the backup devices are loaded with the correct media.";
    BACKUP_SET_VALID(3262, 10) "The backup set on file {} is valid.";
    DUPLICATE_KEY_IGNORED(3604, 10) "Duplicate key was ignored.";
    EXECUTION_TIMES(3612, 10) "\n SQL Server Execution Times:\n   CPU time = {} ms,  elapsed time = {} ms.";
    COMPILE_TIMES(3613, 10) "SQL Server parse and compile time: \n   CPU time = {} ms, elapsed time = {} ms.";
    STATISTICS_TIMES(3613, 10) "hobt statistics made first, {} of columns, {} pages looked at, {} read from disk: \n   CPU time = {} ms, elapsed time = {} ms.";
    TABLE_READS(3615, 10) "Table '{}'. Scan count {}, logical reads {}, physical reads {}, page server reads 0, \
        read-ahead reads {}, page server read-ahead reads 0, lob logical reads {}, lob physical reads {}, lob page \
        server reads 0, lob read-ahead reads 0, lob page server read-ahead reads 0.";
    CANCELED(3617, 16) "Query was canceled by user.";
    STATEMENT_TERMINATED(3621, 0) "The statement has been terminated.";
    INVALID_FLOAT_OPERATION(3623, 16) "An invalid floating point operation occurred.";
    DROP_DOES_NOT_EXIST(3701, 11) "Cannot drop the {} '{}', because it does not exist or you do not have permission.";
    DROP_NO_SUCH_INDEX(3701, 11) "Cannot drop the index '{}.{}', because it does not exist or you do not have \
        permission.";
    DROP_NO_SUCH_STATISTICS(3701, 11) "Cannot drop the statistics '{}.{}', because it does not exist or you do not \
        have permission.";
    DATABASE_IN_USE(3702, 16) "Cannot drop database \"{}\" because it is currently in use{}.";
    DROP_DATABASE_IN_USE(3702, 16) "Cannot drop database \"{}\" because it is currently in use.";
    INSTANCE_IN_USE(3702, 16) "The instance cannot be closed: {} statements are running. End or cancel them.";
    CANNOT_DETACH_IN_USE(3703, 16) "Cannot detach the database '{}' because it is currently in use.";
    WRONG_OBJECT_KIND(3705, 16) "Cannot use DROP {} with '{}' because '{}' is a {}. Use DROP {}.";
    CANNOT_DETACH_SUSPECT(3707, 16) "Cannot detach a suspect or recovery pending database. It must be repaired or \
        dropped. {}";
    SYSTEM_DATABASE(3708, 16) "Cannot drop the database '{}' because it is a system database.";
    CLONE_OF_SYSTEM_DATABASE(3708, 16) "Cannot clone the database '{}' because it is a system database.";
    DATABASE_HAS_SNAPSHOTS(3709, 16) "Cannot drop the database while the database snapshot \"{}\" refers to it. Drop \
        that database first.";
    INDEX_OF_CONSTRAINT(3723, 16) "An explicit DROP INDEX is not allowed on index '{}.{}'. It is being used for {} \
        constraint enforcement.";
    REFERENCED_KEY(3725, 16) "The constraint '{}' is being referenced by table '{}', foreign key constraint '{}'.";
    REFERENCED_TABLE(3726, 16) "Could not drop object '{}' because it is referenced by a FOREIGN KEY constraint.";
    CONSTRAINT_NOT_DROPPED(3727, 16, 0) "Could not drop constraint. See previous errors.";
    NO_SUCH_CONSTRAINT(3728, 16) "'{}' is not a constraint.";
    SCHEMA_IN_USE(3729, 16) "Cannot drop schema '{}' because it is being referenced by object '{}'.";
    SEQUENCE_IN_USE(3729, 16) "Cannot DROP SEQUENCE '{}' because it is being referenced by object '{}'.";
    NOT_STATISTICS(3739, 16) "Cannot DROP the index '{}' because it is not a statistics collection.";
    TRUNCATE_NOT_ALIGNED(3756, 16) "TRUNCATE TABLE statement failed. Index '{}' is not partitioned as table '{}' is. \
        Index and table must use an equivalent partition function.";
    COMMIT_WITHOUT_BEGIN(3902, 16) "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.";
    ROLLBACK_WITHOUT_BEGIN(3903, 16) "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.";
    DATABASE_READ_ONLY(3906, 16) "Failed to update database \"{}\" because the database is read-only.";
    ROLLBACK_IN_INSERT_EXEC(3915, 16) "Cannot use the ROLLBACK statement within an INSERT-EXEC statement.";
    COMMIT_IN_INSERT_EXEC(3916, 16) "Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN \
        TRANSACTION is used first.";
    TRANSACTION_DOOMED(3930, 16) "The current transaction cannot be committed and cannot support operations that \
        write to the log file. Roll back the transaction.";
    DOOMED_TO_SAVEPOINT(3931, 16) "The current transaction cannot be committed and cannot be rolled back to a \
        savepoint. Roll back the entire transaction.";
    SNAPSHOT_BEGUN_OTHERWISE(3951, 16) "Transaction failed in database '{}' because the statement was run under \
        snapshot isolation but the transaction did not start in snapshot isolation. You cannot change the isolation \
        level of the transaction to snapshot after the transaction has started unless the transaction was originally \
        started under snapshot isolation level.";
    SNAPSHOT_NOT_ALLOWED(3952, 16) "Snapshot isolation transaction failed accessing database '{}' because snapshot \
        isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.";
    SNAPSHOT_OF_CLOSED(3957, 16) "Snapshot isolation transaction failed in database '{}' because the database did not \
        allow snapshot isolation when the current transaction started: it was closed then, or has been opened again \
        since. It may help to retry the transaction.";
    VERSION_GIVEN_UP(3958, 16) "Transaction aborted when accessing versioned row in database '{}'. Requested versioned \
        row was not found: the disk had no room for more row versions, and those of the oldest readers were given up. \
        Make room for tempdb, and run the transaction again.";
    VERSION_STORE_FULL(3959, 17) "Version store is full. New version(s) could not be added: {}. Make room for tempdb, \
        or change fewer rows in a transaction.";
    SNAPSHOT_CONFLICT(3960, 16, 2) "Snapshot isolation transaction aborted due to update conflict. You cannot use \
        snapshot isolation to access table '{}' directly or indirectly in database '{}' to update, delete, or insert \
        the row that has been modified or deleted by another transaction. Retry the transaction or change the \
        isolation level for the update/delete statement.";
    SNAPSHOT_DEFINITION_CHANGED(3961, 16) "Snapshot isolation transaction failed in database '{}' because the object \
        accessed by the statement has been modified by a DDL statement in another concurrent transaction since the \
        start of this transaction. It is disallowed because the metadata is not versioned. A concurrent update to \
        metadata can lead to inconsistency if mixed with snapshot isolation.";
    SNAPSHOT_DEFINITION(3964, 16) "Transaction failed because this DDL statement is not allowed inside a snapshot \
        isolation transaction. Since metadata is not versioned, a metadata change can lead to inconsistency if mixed \
        within snapshot isolation.";
    DOOMED_AT_END_OF_BATCH(3998, 16) "Uncommittable transaction is detected at the end of the batch. The transaction \
        is rolled back.";
    BACKUP_FILE_PROCESSED(4035, 10) "Processed {} pages for database '{}', file '{}' on file {}.";
    NO_SUCH_BACKUP_SET(4038, 16) "Cannot find file ID {} on device '{}'.";
    MULTI_PART_IDENTIFIER(4104, 16) "The multi-part identifier \"{}\" could not be bound.";
    TARGET_COLUMN_IDENTIFIER(4104, 16) "The multi-part identifier \"{}.{}\" could not be bound.";
    WINDOW_NOT_ALLOWED(4108, 15) "Windowed functions can only appear in the SELECT or ORDER BY clauses.";
    WINDOW_WITHOUT_ORDER(4112, 15) "The function '{}' must have an OVER clause with ORDER BY.";
    NOT_A_WINDOW_FUNCTION(4113, 15) "The function '{}' is not a valid windowing function, and cannot be used with the \
        OVER clause.";
    NTILE_ARGUMENT(4116, 16) "The function 'ntile' takes only a positive int or bigint expression as its input.";
    NO_COLUMN_OR_FUNCTION(4121, 16) "Cannot find either column \"{}\" or the user-defined function or aggregate \
        \"{}.{}\", or the name is ambiguous.";
    WINDOW_ELEMENT_TWICE(4123, 15) "Window element in OVER clause can not also be specified in WINDOW clause.";
    COALESCE_OF_NULLS(4127, 16) "At least one of the arguments to COALESCE must be an expression that is not the NULL \
        constant.";
    NOT_A_CONDITION(4145, 15) "An expression of non-boolean type specified in a context where a condition is \
        expected, near '{}'.";
    NULLIF_OF_NULL(4151, 16) "The type of the first argument to NULLIF cannot be the NULL constant because the type \
        of the first argument has to be known.";
    INVALID_WINDOW_FRAME(4193, 16) "'{}' is not a valid window frame and cannot be used with the OVER clause.";
    WINDOW_RANGE_BOUNDS(4194, 16) "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.";
    INVALID_ARGUMENT_VALUE(4199, 16) "Argument value {} is invalid for argument 3 of {} function.";
    LOG_BACKUP_UNDER_SIMPLE(4208, 16) "The statement {} is not allowed while the recovery model is SIMPLE. Use BACKUP \
        DATABASE or change the recovery model using ALTER DATABASE.";
    LOG_BACKUP_WITHOUT_BASE(4214, 16) "BACKUP LOG cannot be performed because there is no current database backup.";
    TAIL_WITH_BULK(4216, 16) "Minimally logged operations cannot be backed up when the database is unavailable.";
    LOG_TOO_RECENT(4305, 16) "The log in this backup set begins at LSN {}, which is too recent to apply to the \
        database. An earlier log backup that includes LSN {} can be restored.";
    LOG_TOO_EARLY(4326, 16) "The log in this backup set terminates at LSN {}, which is too early to apply to the \
        database. A more recent log backup that includes LSN {} can be restored.";
    STOP_NOT_REACHED(4329, 10) "This log file contains records logged before the designated mark. The database is \
        being left in the Restoring state so you can apply another log file.";
    LOG_OF_ANOTHER_FORK(4330, 16) "This backup set cannot be applied because it is on a recovery path that is \
        inconsistent with the database. The recovery path is the sequence of data and log backups that have brought \
        the database to a particular recovery point. Find a compatible backup to restore.";
    LOG_NOT_RESTORED(4333, 16) "The database cannot be recovered because the log was not restored.";
    STOP_TOO_EARLY(4335, 16) "The specified STOPAT time is too early. All or part of the database is already rolled \
        forward beyond that point.";
    STOP_WITHIN_BULK(4341, 16) "This log backup contains bulk-logged changes. It cannot be used to stop at an \
        arbitrary point in time.";
    CHANGE_OF_GROUPED(4403, 16) "Cannot update the view or function '{}' because it contains aggregates, or a \
        DISTINCT or GROUP BY clause, or PIVOT or UNPIVOT operator.";
    CHANGE_OF_JOINED(4405, 16) "View or function '{}' is not updatable because the modification affects multiple base \
        tables.";
    CHANGE_OF_DERIVED(4406, 16) "Update or insert of view or function '{}' failed because it contains a derived or \
        constant field.";
    TOO_MANY_VIEW_COLUMNS(4502, 16) "View or function '{}' has more column names specified than columns defined.";
    VIEW_COLUMN_TWICE(4506, 16) "Column names in each view or function must be unique. Column name '{}' in view or \
        function '{}' is specified more than once.";
    VIEW_ON_TEMPORARY_TABLE(4508, 16) "Views or functions are not allowed on temporary tables. Table names that begin \
        with '#' denote temporary tables.";
    VIEW_COLUMN_UNNAMED(4511, 16) "Create View or Function failed because no column name was specified for column {}.";
    FUNCTION_COLUMN_UNNAMED(4514, 16) "CREATE FUNCTION failed because a column name is not specified for column {}.";
    CANNOT_TRUNCATE(4701, 16) "Cannot find the object \"{}\" because it does not exist or you do not have permissions.";
    TRUNCATE_REFERENCED(4712, 16) "Cannot truncate table '{}' because it is being referenced by a FOREIGN KEY \
        constraint.";
    SINGLE_NCLOB_NOT_UNICODE(4809, 16) "SINGLE_NCLOB requires a UNICODE (widechar) input file. The file specified is not \
        Unicode: {} does not begin with a byte order mark of UTF-16.";
    FORMAT_FILE_VERSION(4820, 16) "Cannot bulk load. Unknown version of format file \"{}\".";
    FORMAT_FILE_COUNT(4821, 16) "Cannot bulk load. Error reading the number of columns from the format file \"{}\".";
    FORMAT_FILE_COLUMNS(4822, 16) "Cannot bulk load. Invalid number of columns in the format file \"{}\".";
    FORMAT_FILE_COLUMN_NUMBER(4823, 16) "Cannot bulk load. Invalid column number in the format file \"{}\".";
    FORMAT_FILE_TYPE(4824, 16) "Cannot bulk load. Invalid data type for column number {} in the format file \"{}\".";
    FORMAT_FILE_PREFIX(4825, 16) "Cannot bulk load. Invalid prefix for column number {} in the format file \"{}\".";
    FORMAT_FILE_LENGTH(4826, 16) "Cannot bulk load. Invalid column length for column number {} in the format file \
        \"{}\".";
    FORMAT_FILE_TERMINATOR(4827, 16) "Cannot bulk load. Invalid column terminator for column number {} in the format \
        file \"{}\".";
    FORMAT_FILE_TARGET(4828, 16) "Cannot bulk load. Invalid destination table column number for source column {} in \
        the format file \"{}\".";
    FORMAT_FILE_NAME(4829, 16) "Cannot bulk load. Error reading the destination table column name for source column \
        {} in the format file \"{}\".";
    RECORD_CUT_OFF(4832, 16) "Bulk load: An unexpected end of file was encountered in the data file. It ends within \
        row {}, column {}.";
    FORMAT_FILE_COLLATION(4839, 16) "Cannot perform the bulk load. Invalid collation name for source column {} in the \
        format file \"{}\".";
    FORMAT_FILE_ELEMENT(4855, 16) "Line {} in format file \"{}\": unexpected element \"{}\".";
    FORMAT_FILE_INFO_ITEM(4856, 16) "Line {} in format file \"{}\": unexpected info item.";
    FORMAT_FILE_ATTRIBUTE(4857, 16) "Line {} in format file \"{}\": Attribute \"{}\" could not be specified for this \
        type.";
    FORMAT_FILE_VALUE(4858, 16) "Line {} in format file \"{}\": bad value {} for attribute \"{}\".";
    FORMAT_FILE_ATTRIBUTE_MISSING(4859, 16) "Line {} in format file \"{}\": required attribute \"{}\" is missing.";
    BULK_FILE_MISSING(4860, 16) "Cannot bulk load. The file \"{}\" does not exist or you don't have file access rights.";
    BULK_FILE_NOT_OPENED(4861, 16) "Cannot bulk load because the file \"{}\" could not be opened: {}.";
    BULK_OUTSIDE(4861, 16) "Cannot bulk load because the file \"{}\" could not be opened: it lies outside the allowed \
        folders. Add its folder to them when the instance starts (hobt sql --allow FOLDER).";
    BULK_FILE_CHANGED(4862, 16) "Cannot bulk load because the file \"{}\" has changed while it was read. Load it again \
        when it is complete.";
    BULK_PARQUET_DAMAGED(4862, 16) "Cannot bulk load because the file \"{}\" could not be read as Parquet: {}.";
    BULK_FILE_NOT_READ(4862, 16) "Cannot bulk load because the file \"{}\" could not be read: {}.";
    FORMAT_FILE_TOO_LARGE(4862, 16) "Cannot bulk load because the file \"{}\" could not be read. A format file may have \
        16 MiB.";
    BULK_TRUNCATION(4863, 16) "Bulk load data conversion error (truncation) for row {}, column {} ({}): '{}' is longer \
        than {} allows. Line {} of {}.";
    BULK_CONVERSION(4864, 16) "Bulk load data conversion error (type mismatch or invalid character for the specified \
        codepage) for row {}, column {} ({}): '{}' is no {}. Line {} of {}.";
    BULK_TEXT_ENCODING(4864, 16) "Bulk load data conversion error (invalid character for the specified codepage) for row \
        {}, in line {} of {}: its bytes are no text of this encoding. Name the file's encoding by CODEPAGE, such as '1252' or \
        'ACP', or by DATAFILETYPE = 'widechar' for UTF-16.";
    BULK_PARQUET_VALUE(4864, 16) "A value cannot be converted: {}.";
    BULK_PARQUET_CONVERSION(4864, 16) "Bulk load data conversion error (type mismatch) for column {} of {}: {}";
    RECORD_FIELD_LENGTH(4864, 16) "Bulk load data conversion error (type mismatch or invalid character for the \
        specified codepage) for row {}, column {}. Its length is none that the type has. Verify that the file's columns \
        and their nullability are those of the table, or of the format file.";
    BULK_ROWS_LEFT_OUT(4865, 10) "{} row(s) could not be read and were left out ({} of them without a message). MAXERRORS sets how \
        many may be, and ERRORFILE keeps them.";
    BULK_TOO_MANY_ERRORS(4865, 16) "Cannot bulk load because the maximum number of errors ({}) was exceeded. The last: {}";
    BULK_ROW_TOO_LONG(4866, 16) "The bulk load failed. The row {}, which begins in line {} of {}, has no end within {} \
        bytes. Verify that a quote is not left open there, and that the field terminator and row terminator are specified \
        correctly.";
    BULK_QUOTE_NOT_CLOSED(4866, 16) "The bulk load failed. The quote of column {} in row {}, which begins in line {} of {}, \
        is not closed until the end of the file.";
    RECORD_FIELD_TOO_LONG(4866, 16) "The bulk load failed. The column is too long in the data file for row {}, column \
        {}. Verify that the field terminator and row terminator are specified correctly.";
    BULK_OVERFLOW(4867, 16) "Bulk load data conversion error (overflow) for row {}, column {} ({}): '{}' is beyond the \
        range of {}. Line {} of {}.";
    BULK_NULL(4869, 16) "The bulk load failed. Unexpected NULL value in data file row {}, column {}. The destination column \
        ({}) is defined as NOT NULL. Line {} of {}.";
    FORMAT_FILE_DUPLICATE_ID(4872, 16) "Line {} in format file \"{}\": duplicate element id \"{}\".";
    FORMAT_FILE_NO_SUCH_ID(4873, 16) "Line {} in format file \"{}\": referencing non-existing element id \"{}\".";
    FORMAT_FILE_ID_USED_TWICE(4874, 16) "Line {} in format file \"{}\": duplicate element id reference \"{}\".";
    BULK_FEW_FIELDS(4879, 16) "Bulk load failed due to invalid column value in data file {} in row {}, column {}, line {}: the \
        row ends before column {}.";
    BULK_MANY_FIELDS(4879, 16) "Bulk load failed due to invalid column value in data file {} in row {}, column {}, line {}: the \
        row has more fields than there are columns.";
    BULK_ORDINAL(4879, 16) "The column {} has a number that is no number of a field: fields are numbered from 1 to 32767.";
    BULK_PARQUET_COLUMN(4879, 16) "Bulk load failed: the data file {} has no column {}.";
    BULK_COLUMNS(4879, 16) "Cannot bulk load: {} has more than {} columns.";
    BULK_SHAPE_UNKNOWN(4879, 16) "Bulk load failed: DATAFILETYPE = 'native' needs the columns of a table (BULK INSERT) or a format \
        file (FORMATFILE).";
    BULK_WITHOUT_COLUMNS(4879, 16) "Cannot bulk load: {} has no columns.";
    BULK_NO_OBJECT(4879, 16) "Bulk load failed due to invalid column value in data file {} in row {}, line {}: the line is no \
        JSON object: {}";
    BULK_TEXT_AFTER_QUOTE(4879, 16) "Bulk load failed due to invalid column value in data file {} in row {}, column {}, line \
        {}: text stands behind the closing quote of {}.";
    FORMAT_FILE_ENDLESS(4882, 16) "Cannot bulk load. A prefix length, field length, or terminator is required for the \
        source column {} in the format file \"{}\".";
    FORMAT_FILE_XML(4883, 16) "The XML reader returned {} for the info item starting near line {} column {} in format \
        file \"{}\".";
    RECORD_ODD_BYTES(4895, 16) "Unicode data is odd byte size for column {}. Should be even byte size. Row {}.";
    ADD_NOT_NULL_COLUMN(4901, 16) "ALTER TABLE only allows columns to be added that can contain nulls, or have a \
        DEFAULT definition specified, or the column being added is an identity or timestamp column, or alternatively \
        if none of the previous conditions are satisfied the table must be empty to allow addition of this column. \
        Column '{}' cannot be added to non-empty table '{}' because it does not satisfy these conditions.";
    SWITCH_NO_TABLE(4902, 16) "Cannot find the object \"{}\" because it does not exist or you do not have permissions.";
    SWITCH_PARTITION_NOT_EMPTY(4904, 16) "ALTER TABLE SWITCH statement failed. The specified partition {} of target \
        table '{}' must be empty.";
    SWITCH_TABLE_NOT_EMPTY(4905, 16) "ALTER TABLE SWITCH statement failed. The target table '{}' must be empty.";
    SWITCH_WITHOUT_NUMBER(4911, 16) "Cannot specify a partitioned table without partition number in ALTER TABLE \
        SWITCH statement. The table '{}' is partitioned.";
    SWITCH_CLUSTERED(4913, 16) "ALTER TABLE SWITCH statement failed. The table '{}' has clustered index '{}' while \
        the table '{}' does not have clustered index.";
    SWITCH_DISABLED(4914, 16) "ALTER TABLE SWITCH statement failed. The table \"{}\" has a disabled clustered index.";
    NO_CONSTRAINT(4917, 16) "Constraint '{}' does not exist.";
    COLUMN_ACCESSED(4922, 16, 9) "ALTER TABLE {} COLUMN {} failed because one or more objects access this column.";
    ONLY_COLUMN(4923, 16) "ALTER TABLE DROP COLUMN failed because '{}' is the only data column in table '{}'. A table \
        must have at least one data column.";
    ALTER_NO_SUCH_COLUMN(4924, 16) "ALTER TABLE {} failed because column '{}' does not exist in table '{}'.";
    CANNOT_ALTER_COLUMN(4928, 16) "Cannot alter column '{}' because it is '{}'.";
    NOT_DETERMINISTIC(4936, 16) "Computed column '{}' in table '{}' cannot be persisted because the column is \
        non-deterministic.";
    SWITCH_FILEGROUP(4938, 16) "ALTER TABLE SWITCH statement failed. Partition {} of table '{}' is in filegroup '{}' \
        and partition {} of table '{}' is in filegroup '{}'.";
    SWITCH_COLUMN_NAME(4942, 16) "ALTER TABLE SWITCH statement failed. Column '{}' at ordinal {} in table '{}' has a \
        different name than the column '{}' at the same ordinal in table '{}'.";
    SWITCH_COLUMN_COUNT(4943, 16) "ALTER TABLE SWITCH statement failed. Table '{}' has {} columns and table '{}' has \
        {} columns.";
    SWITCH_COLUMN_TYPE(4944, 16) "ALTER TABLE SWITCH statement failed. Column '{}' has data type {} in source table \
        '{}' which is different from its type {} in target table '{}'.";
    SWITCH_COLLATION(4945, 16) "ALTER TABLE SWITCH statement failed. Column '{}' does not have the same collation in \
        tables '{}' and '{}'.";
    SWITCH_PERSISTED(4946, 16) "ALTER TABLE SWITCH statement failed. Column '{}' does not have the same persistent \
        attribute in tables '{}' and '{}'.";
    SWITCH_NO_INDEX(4947, 16) "ALTER TABLE SWITCH statement failed. There is no identical index in source table '{}' \
        for the index '{}' in target table '{}'.";
    SWITCH_OTHER_DATABASE(4948, 16) "ALTER TABLE SWITCH statement failed. The source table '{}' is in database '{}' \
        while the target table '{}' is in database '{}'.";
    SWITCH_NO_PARTITION(4950, 16) "ALTER TABLE SWITCH statement failed. Partition number {} does not exist in table \
        '{}'.";
    SWITCH_PARTITION_COLUMNS(4953, 16) "ALTER TABLE SWITCH statement failed. The columns set used to partition the \
        table '{}' is different from the column set used to partition the table '{}'.";
    SWITCH_SAME_TABLE(4955, 16) "ALTER TABLE SWITCH statement failed. The source table '{}' and target table '{}' are \
        same.";
    SWITCH_ROWGUID(4958, 16) "ALTER TABLE SWITCH statement failed. Column '{}' does not have the same ROWGUIDCOL \
        property in tables '{}' and '{}'.";
    SWITCH_CHECK_NOT_TRUSTED(4960, 16) "ALTER TABLE SWITCH statement failed. Check constraint '{}' in source table \
        '{}' is NOCHECK constraint but the matching check constraint '{}' in target table '{}' is CHECK.";
    SWITCH_COMPUTED(4965, 16) "ALTER TABLE SWITCH statement failed. Column '{}' in table '{}' is computed column but \
        the same column in '{}' is not computed.";
    SWITCH_COMPUTED_BY(4966, 16) "ALTER TABLE SWITCH statement failed. Computed column '{}' defined as '{}' in table \
        '{}' is different from the same column in table '{}' defined as '{}'.";
    SWITCH_REFERENCED(4967, 16) "ALTER TABLE SWITCH statement failed. SWITCH is not allowed because source table '{}' \
        contains primary key for constraint '{}'.";
    SWITCH_FOREIGN_KEY(4968, 16) "ALTER TABLE SWITCH statement failed. Target table '{}' has foreign key for \
        constraint '{}' but source table '{}' does not have corresponding key.";
    SWITCH_FOREIGN_KEY_DISABLED(4969, 16) "ALTER TABLE SWITCH statement failed. Foreign key constraint '{}' is \
        disabled in source table '{}' and the corresponding constraint '{}' is enabled in target table '{}'. The \
        source table constraint must be enabled.";
    SWITCH_CHECK(4970, 16) "ALTER TABLE SWITCH statement failed. Target table '{}' has a table level check constraint \
        '{}' but the source table '{}' does not have a corresponding constraint.";
    SWITCH_COLUMN_CHECK(4971, 16) "ALTER TABLE SWITCH statement failed. Target table '{}' has a column level check \
        constraint '{}' but the source table '{}' does not have a corresponding constraint.";
    SWITCH_OTHER_CHECK(4972, 16) "ALTER TABLE SWITCH statement failed. Check constraints or partition function of \
        source table '{}' allows values that are not allowed by check constraints or partition function on target \
        table '{}'. Give the source the same CHECK constraint as '{}'.";
    SWITCH_NOT_SUBSET(4973, 16) "ALTER TABLE SWITCH statement failed. Range defined by partition {} in table '{}' is \
        not a subset of range defined by partition {} in table '{}'.";
    SWITCH_FOREIGN_KEY_NOT_TRUSTED(4974, 16) "ALTER TABLE SWITCH statement failed. Foreign key constraint '{}' is \
        NOCHECK in source table '{}' and the corresponding constraint '{}' is CHECK in target table '{}'. The source \
        table constraint must be in CHECK.";
    SWITCH_CHECK_REPLICATION(4975, 16) "ALTER TABLE SWITCH statement failed. Check constraint '{}' in source table \
        '{}' and check constraint '{}' in target table '{}' have different 'Not For Replication' settings.";
    SWITCH_RANGE(4982, 16) "ALTER TABLE SWITCH statement failed. Check constraints of source table '{}' allow values \
        that are not allowed by range defined by partition {} on target table '{}'.";
    SWITCH_NULLABLE(4985, 16) "ALTER TABLE SWITCH statement failed. Column '{}' does not have the same nullability \
        attribute in tables '{}' and '{}'.";
    NO_SUCH_FILE(5009, 16) "One or more files listed in the statement could not be found or could not be initialized: \
        database '{}' has no file '{}'.";
    NO_SUCH_FILE_OF(5014, 16) "The file '{}' does not exist in database '{}'.";
    PRIMARY_FILE(5020, 16) "The primary data or log file cannot be removed from a database.";
    ONLY_DEFAULT_FILE(5031, 16) "Cannot remove the file '{}' because it is the only file in the DEFAULT filegroup.";
    FILE_NOT_EMPTY(5042, 16) "The {} '{}' cannot be removed because it is not empty. {}";
    LOG_FILE_NOT_EMPTY(5042, 16) "The file '{}' cannot be removed because it is not empty: {}.";
    NO_SUCH_FILEGROUP(5043, 16) "The filegroup '{}' cannot be found in sys.filegroups.";
    FILE_REMOVED(5044, 10) "The {} '{}' has been removed.";
    OPTION_OF_DATABASE(5058, 16) "Option '{}' cannot be set in database '{}'.";
    OPTIONS_OF_INSTANCE_DATABASE(5058, 16) "Options cannot be set in database '{}': it is the instance's own.";
    DATABASE_NOT_LOCKED(5061, 16) "ALTER DATABASE failed because a lock could not be placed on database '{}'. Try \
        again later.";
    WARM_STANDBY(5063, 16) "Database '{}' is in warm standby. A warm-standby database is read-only.";
    COLUMN_NEEDED(5074, 16) "The {} '{}' is dependent on column '{}'.";
    DATABASE_IS_SNAPSHOT(5093, 16) "The operation cannot be performed on a database snapshot.";
    FILE_ACTIVATION(5105, 16) "A file activation error occurred. The physical file name '{}' may be incorrect. \
        Diagnose and correct additional errors, and retry the operation.";
    DEVICE_ACTIVATION(5120, 16) "The instance in \"{}\" cannot be opened: {}";
    PHYSICAL_FILE(5120, 16) "Unable to open the physical file \"{}\".{} {}";
    CANNOT_CREATE_FILE(5123, 16) "CREATE FILE was refused for the physical file '{}': {}. Use a path below the \
        instance's folder, or add the folder to the allowed ones when the instance starts (hobt sql --allow).";
    CREATE_FILE_ERROR(5123, 16) "{} encountered operating system error{} while attempting to {} '{}': {}.";
    SPILL_FILE(5123, 16) "A file for what does not fit into memory cannot be made in the folder 'tempdb': {}.";
    SPILL_FOLDER(5123, 16) "The folder '{}', which sorts and joins spill into, cannot be used: {}. Let the account of \
        this process write there, and move away what is in its place and no folder.";
    SNAPSHOT_FILE_MISSING(5127, 16) "All files must be specified for database snapshot creation. Missing the file \"{}\".";
    CANNOT_EXPAND_FILE(5149, 16) "{} encountered operating system error{} while attempting to {} '{}': {}.";
    FILE_SIZE(5169, 16) "The size of file '{}' is greater than its maximum size.";
    FILE_SIZE_BEYOND(5169, 16) "The size of file '{}' is beyond what a file can have.";
    FILE_SIZE_OVER_MAXSIZE(5169, 16) "The size of file '{}' must not be larger than its MAXSIZE.";
    FILE_EXISTS(5170, 16) "Cannot create file '{}' because it already exists. Change the file path or the file name, \
        and retry the operation.";
    NOT_A_PRIMARY_FILE(5171, 16) "{} is not a primary database file: {}.";
    FILES_DO_NOT_MATCH(5173, 16) "One or more files do not match the primary file of the database. If you are \
        attempting to attach a database, retry the operation with the correct files. If this is an existing database, \
        the file may be corrupted and should be restored from a backup. ({})";
    ORDER_BY_INTEGER(5308, 15) "Windowed functions, aggregates and NEXT VALUE FOR functions do not support integer \
        indices as ORDER BY clause expressions.";
    ORDER_BY_CONSTANTS(5309, 15) "Windowed functions, aggregates and NEXT VALUE FOR functions do not support \
        constants as ORDER BY clause expressions.";
    MERGE_CLAUSE_AFTER_ALL(5324, 16) "In a MERGE statement, a '{}' clause with a search condition cannot appear after \
        a '{}' clause with no search condition.";
    MERGE_NOT_OF_SOURCE(5333, 16) "The identifier '{}' cannot be bound. Only source columns and columns in the clause \
        scope are allowed in the 'WHEN NOT MATCHED' clause of a MERGE statement.";
    MERGE_NOT_OF_TARGET(5334, 16) "The identifier '{}' cannot be bound. Only target columns and columns in the clause \
        scope are allowed in the 'WHEN NOT MATCHED BY SOURCE' clause of a MERGE statement.";
    UNKNOWN_WINDOW(5362, 15) "Window '{}' is undefined.";
    CYCLIC_WINDOW(5365, 16) "Cyclic window references are not permitted.";
    GENERATE_SERIES_TYPES(5373, 16) "All the input parameters should be of the same type. Supported types are \
        tinyint, smallint, int, bigint, decimal and numeric.";
    DATABASE_CHANGED(5701, 10) "Changed database context to '{}'.";
    LANGUAGE_CHANGED(5703, 10) "Changed language setting to us_english.";
    INVALID_AFFINITY(5834, 16) "This server has the processors 0 to {}; the range {} to {} names others.";
    SHUTDOWN(6005, 16) "SHUTDOWN is in progress.";
    KILL_SELF(6104, 16) "Cannot use KILL to kill your own process.";
    NO_SUCH_SESSION(6106, 16) "Process ID {} is not an active process ID.";
    NO_ROLLBACK_TO_REPORT(6120, 16) "Status report cannot be obtained. Rollback operation for Process ID {} is not in \
        progress.";
    NO_SUCH_SAVEPOINT(6401, 16) "Cannot roll back {}. No transaction or savepoint of that name was found.";
    VALUE_TOO_LARGE(7119, 16) "Attempting to grow LOB beyond maximum allowed size of 2147483647 bytes.";
    UNKNOWN_SERVER(7202, 16) "Could not find server '{}' in sys.servers.";
    PARTITION_TYPE(7704, 16) "The type '{}' is not valid for this operation.";
    INVALID_PARTITION_FUNCTION(7705, 16) "Could not implicitly convert range values type specified at ordinal {} to \
        partition function parameter type.";
    BOUNDARY_TYPE(7705, 16) "Could not implicitly convert range values type specified at ordinal {} to partition \
        function parameter type ({} to {}).";
    PARTITION_FUNCTION_IN_USE(7706, 16) "Partition function '{}' is being used by one or more partition schemes.";
    PARTITION_SCHEME_FILEGROUPS(7707, 16) "The associated partition function '{}' generates more partitions than \
        there are file groups mentioned in the scheme '{}'.";
    PARTITION_SCHEME_NEXT_USED(7707, 16) "The associated partition function '{}' generates more partitions than there \
        are file groups mentioned in the scheme '{}'. Name one: ALTER PARTITION SCHEME … NEXT USED.";
    SCHEME_ALL_TO(7707, 16) "Partition scheme '{}' takes one filegroup behind ALL TO.";
    PARTITION_VALUES_DUPLICATE(7708, 16) "Duplicate values are not allowed in partition function boundary values \
        list. Partition boundary values at ordinal {} and {} are equal.";
    PARTITION_VALUES_SORTED(7709, 10) "Warning: Range value list for partition function '{}' is not sorted by value. \
        Mapping of partitions to filegroups during CREATE PARTITION SCHEME will use the sorted boundary values if the \
        function '{}' is referenced in CREATE PARTITION SCHEME.";
    NO_SUCH_BOUNDARY(7715, 16) "The specified partition range value could not be found.";
    PARTITION_SCHEME_IN_USE(7717, 16) "The partition scheme \"{}\" is currently being used to partition one or more \
        tables.";
    TOO_MANY_PARTITIONS(7719, 16) "CREATE/ALTER partition function failed as only a maximum of {} partitions can be \
        created.";
    BOUNDARY_EXISTS(7721, 16) "Duplicate range boundary values are not allowed in partition function boundary values \
        list. The boundary value being added is already present at ordinal {} of the boundary value list.";
    NO_SUCH_PARTITION(7722, 16) "Invalid partition number {} specified for table '{}', partition number can range \
        from 1 to {}.";
    NO_SUCH_INDEX_PARTITION(7722, 16) "Invalid partition number {} specified for index '{}' of table '{}', partition \
        number can range from 1 to {}.";
    PARTITION_COLUMN_TYPE(7726, 16) "Partition column '{}' of table '{}' has data type {} which is different from the \
        partition function '{}' parameter data type {}.";
    NOT_PARTITIONED(7729, 16) "Cannot specify partition number in the truncate table statement as the table '{}' is \
        not partitioned.";
    INDEX_NOT_PARTITIONED(7729, 16) "Cannot specify partition number in the alter index statement as the index '{}' \
        is not partitioned.";
    SWITCH_NOT_ALIGNED(7733, 16) "'ALTER TABLE SWITCH' statement failed. The table '{}' is {}partitioned while index \
        '{}' is {}partitioned, or partitioned otherwise.";
    CANNOT_DETACH_SYSTEM(7940, 16) "System databases master, model, msdb, and tempdb cannot be detached.";
    NO_IDENTITY_COLUMN(7997, 16) "'{}' does not contain an identity column.";
    IDENTITY_INFORMATION(7998, 10) "Checking identity information: current identity value '{}', current column value \
        '{}'.";
    IDENTITY_RESEEDED(7998, 10) "Checking identity information: current identity value '{}'.";
    NO_SUCH_INDEX(7999, 16) "Could not find any index named '{}' for table '{}'.";
    IDENTITY_WITHOUT_LIST(8101, 16) "An explicit value for the identity column in table '{}' can only be specified \
        when a column list is used and IDENTITY_INSERT is ON.";
    UPDATE_OF_IDENTITY(8102, 16) "Cannot update identity column '{}'.";
    NO_IDENTITY_PROPERTY(8106, 16) "Table '{}' does not have the identity property. Cannot perform SET operation.";
    IDENTITY_INSERT_TWICE(8107, 16) "IDENTITY_INSERT is already ON for table '{}'. Cannot perform SET operation for \
        table '{}'.";
    PRIMARY_KEY_TWICE(8110, 16) "Cannot add multiple PRIMARY KEY constraints to table '{}'.";
    PRIMARY_KEY_NULLABLE(8111, 16) "Cannot define PRIMARY KEY constraint on nullable column in table '{}'.";
    CLUSTERED_TWICE(8112, 16) "Cannot add more than one clustered index for constraints on table '{}'.";
    CONVERSION_TYPE(8114, 16) "Error converting data type {} to {}.";
    OVERFLOW(8115, 16) "Arithmetic overflow error converting {} to data type {}.";
    AGGREGATE_OVERFLOW(8115, 16, 2) "Arithmetic overflow error converting expression to data type {}.";
    INVALID_ARGUMENT_TYPE(8116, 16) "Argument data type {} is invalid for argument {} of {} function.";
    INVALID_OPERAND_TYPE(8117, 16) "Operand data type {} is invalid for {} operator.";
    NOT_IN_GROUP_BY(8120, 16) "Column '{}' is invalid in the select list because it is not contained in either an \
        aggregate function or the GROUP BY clause.";
    NOT_IN_GROUP_BY_HAVING(8121, 16) "Column '{}' is invalid in the HAVING clause because it is not contained in \
        either an aggregate function or the GROUP BY clause.";
    NOT_IN_GROUP_BY_ORDER(8127, 16) "Column \"{}\" is invalid in the ORDER BY clause because it is not contained in \
        either an aggregate function or the GROUP BY clause.";
    CASE_OF_NULLS(8133, 16) "At least one of the result expressions in a CASE specification must be an expression \
        other than the NULL constant.";
    DIVIDE_BY_ZERO(8134, 16) "Divide by zero error encountered.";
    FOREIGN_KEY_COLUMN_COUNT(8139, 16) "Number of referencing columns in foreign key differs from number of \
        referenced columns, table '{}'.";
    COLUMN_CHECK_REFERENCES(8141, 16) "Column CHECK constraint for column '{}' references another column, table '{}'.";
    PARAMETER_TWICE(8143, 16) "Parameter '{}' was supplied multiple times.";
    TOO_MANY_ARGUMENTS(8144, 16) "Procedure or function {} has too many arguments specified.";
    UNKNOWN_PARAMETER(8145, 16) "{} is not a parameter for procedure {}.";
    DEFAULT_TWICE(8148, 16) "More than one column DEFAULT constraint specified for column '{}', table '{}'.";
    AMBIGUOUS_TABLE(8154, 16) "The table '{}' is ambiguous.";
    NO_COLUMN_NAME(8155, 16) "No column name was specified for column {} of '{}'.";
    DUPLICATE_COLUMN_SELECT(8156, 16) "The column '{}' was specified multiple times for '{}'.";
    TOO_MANY_COLUMNS_FOR_LIST(8158, 16) "'{}' has more columns than were specified in the column list.";
    TOO_FEW_COLUMNS_FOR_LIST(8159, 16) "'{}' has fewer columns than were specified in the column list.";
    GROUPING_ARGUMENT(8161, 16) "Argument 1 of the GROUPING function does not match any of the expressions in the \
        GROUP BY clause.";
    GROUPING_WITHOUT_GROUP_BY(8162, 16) "GROUPING function can only be specified when there is a GROUP BY clause.";
    NESTED_INSERT_EXEC(8164, 16) "An INSERT EXEC statement cannot be nested.";
    GUID_CONVERSION(8169, 16) "Conversion failed when converting from a character string to uniqueidentifier.";
    GUID_SPACE(8170, 16) "Insufficient result space to convert uniqueidentifier value to char.";
    NO_PLAN_FOR_HINTS(8622, 16) "Query processor could not produce a query plan because of the hints defined in this \
        query. Resubmit the query without specifying any hints and without using SET FORCEPLAN. {}";
    PLAN_TOO_LARGE(8623, 16) "The query processor ran out of internal resources and could not produce a query plan. \
        This is a rare event and only expected for extremely complex queries or queries that reference a very large \
        number of tables or partitions. Please simplify the query.";
    STATEMENT_TOO_DEEP(8631, 17) "Internal error: Server stack limit has been reached. Please look for potentially \
        deep nesting in your query, and try to simplify it.";
    EXPRESSION_TOO_LARGE(8632, 17) "Internal error: An expression services limit has been reached. Please look for \
        potentially complex expressions in your query, and try to simplify them.";
    THREADS_REFUSED(8642, 17) "The query processor could not start the necessary thread resources for parallel query \
        execution: {}. Raise the limits of threads (ulimit -u) and of address space (ulimit -v){}.";
    CLUSTERED_DISABLED(8655, 16) "The query processor is unable to produce a plan because the index '{}' on table or \
        view '{}' is disabled.";
    MERGE_ROW_TWICE(8672, 16) "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This \
        happens when a target row matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same \
        row of the target table multiple times. Refine the ON clause to ensure a target row matches at most one \
        source row, or use the GROUP BY clause to group the source rows.";
    NEGATIVE_OFFSET(8730, 16) "Offset parameter for Lag and Lead functions cannot be a negative value.";
    ENABLE_ORDINAL_CONSTANT(8748, 16) "The enable_ordinal argument for string_split only supports constant values \
        (not variables or columns).";
    ENABLE_ORDINAL_VALUE(8748, 16) "The enable_ordinal argument for string_split must be 0 or 1.";
    CHECK_EXTENT_TWICE(8904, 16) "Extent {} in database ID {} is allocated by more than one allocation object. {}";
    CHECK_EXTENT_UNOWNED(8905, 16) "Extent {} in database ID {} is marked allocated in the allocation map, but no run \
        list has it. Nothing is lost but its space.";
    CHECK_WRONG_PAGE_ID(8909, 16) "{}: page ID {} contains an incorrect page ID in its page header. The PageId in the \
        page header = {}: {}";
    DBCC_IN_TRANSACTION(8920, 16) "Cannot perform a shrinkfile operation inside a user transaction. Terminate the \
        transaction and reissue the statement.";
    CHECK_PAGE_NOT_PROCESSED(8928, 16) "{}: Page {} could not be processed: {}";
    CHECK_LEVEL(8931, 16) "Table error: {}. B-tree level mismatch, page {} does not match the level from parent {}: {}";
    CHECK_KEY_OUTSIDE_PARENT(8934, 16) "Table error: {}. A key value on page {} is not between the key values in its \
        parent: {}";
    CHECK_CHAIN(8936, 16) "Table error: {}. B-tree chain linkage mismatch. {}->next = {}, which is not the leaf with \
        the next keys: {}";
    CHECK_TWO_PARENTS(8937, 16) "Table error: {}. B-tree page {} has two parent nodes, of which {} is one: {}";
    CHECK_PAGE_TEST(8939, 16) "Table error: {}, page {}. Test ({}) failed; {}. Its other copy serves.";
    CHECK_PAGE_STRUCTURE(8939, 16) "{}: page {}. A test failed: {}";
    CHECK_ALLOCATION_PAGE(8946, 16) "{}: its run list is wrong: {}. {}";
    CHECK_INDEX_ROW_MISSING(8951, 16) "Table error: table '{}' (ID {}). {} data rows do not have a matching index row \
        in the index '{}' (ID {}). Possible missing or invalid keys. Build the index anew: ALTER INDEX … REBUILD.";
    CHECK_INDEX_ROW_EXTRA(8952, 16) "Table error: table '{}' (ID {}). {} index rows in index '{}' (ID {}) do not \
        match any data row. Possible extra or invalid keys. Build the index anew: ALTER INDEX … REBUILD.";
    CHECK_ERRORS_OF_NO_OBJECT(8954, 10) "{} found {} allocation errors and {} consistency errors not associated with \
        any single object.";
    NO_SUCH_PAGE(8968, 16) "There is no page {} in database '{}'.";
    CHECK_VALUE_TWICE(8974, 16) "Table error: {}. The off-row data node at page {} is pointed to by page {} and by \
        another row; {}. {}";
    CHECK_PAGE_NO_PARENT(8979, 16) "Table error: {}. Page {} is missing references from parent (unknown) nodes: {}";
    CHECK_CHILD_NOT_FOUND(8980, 16) "Table error: {}. Index node page {} refers to child page {}, which is none of \
        the index: {}";
    CHECK_PARTITION(8984, 16) "Table error: {}. The row in page {}, slot {} should be on partition number {} but was \
        found in partition number {}; {}. {}";
    DBCC_NO_SUCH_FILE(8985, 16) "Could not locate file '{}' for database '{}' in sys.database_files among its data \
        files. The file either does not exist, or was dropped; files of the log are not emptied, but removed when \
        they hold nothing needed.";
    CHECK_RESULT(8989, 10) "{} found {} allocation errors and {} consistency errors in database '{}'.";
    CHECK_TABLE_RESULT(8990, 10) "{} found {} allocation errors and {} consistency errors in table '{}' (object ID \
        {}).";
    CHECK_CATALOG(8992, 16) "Check Catalog: {}. {}";
    CHECK_CATALOG_ROW(8992, 16) "Check Catalog: page {}, slot {} of system table '{}': {}; {}. It is not heeded: \
        update the statistics, or reseed the identity column.";
    CHECK_MAP(8998, 16) "The allocation map page for extent {} in database ID {} and its copy in memory differ. Close \
        the instance and open it again, then check again.";
    CHECK_FREE_COUNT(8998, 16) "File {} in database ID {} counts {} free extents, and its allocation map has {}. \
        Close the instance and open it again, then check again.";
    LOG_NOT_AVAILABLE(9001, 21) "The log for database '{}' is not available: {}. Look for the cause in the storage \
        below it, and restart: recovery brings back everything that was committed.";
    LOG_FULL(9002, 17) "The transaction log for database '{}' is full due to '{}': {}. The statement was undone; {}.";
    STATISTICS_STREAM_CORRUPT(9105, 16) "The provided statistics stream is corrupt. For '{}': {}.";
    CANNOT_BE_INCREMENTAL(9108, 16) "This type of statistics is not supported to be incremental.";
    NOT_INCREMENTAL(9111, 16) "UPDATE STATISTICS ON PARTITIONS syntax is not supported for non-incremental statistics.";
    INVALID_DATE_PART(9810, 16) "The datepart {} is not supported by date function {} for data type {}.";
    TRANSLATE_LENGTHS(9828, 16) "The second and third arguments of the TRANSLATE built-in function must contain an \
        equal number of characters.";
    STRING_AGG_TOO_LONG(9829, 16) "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to \
        avoid result truncation.";
    DATE_BUCKET_WIDTH(9834, 16) "Invalid bucket width value passed to date_bucket function. Only positive values are \
        allowed.";
    DATE_TOO_EARLY(9837, 16) "An invalid date value was encountered: The date value is less than the minimum date \
        value allowed for the data type.";
    INCLUDED_IN_CLUSTERED(10601, 16) "Cannot specify included columns for a clustered index.";
    FILTER_COMPUTED(10609, 16) "Filtered statistics '{}' cannot be created on table '{}' because the column '{}' in \
        the filter expression is a computed column. Rewrite the filter expression so that it does not include this \
        column.";
    FILTER_NULL(10620, 16) "Filtered statistics '{}' cannot be created on table '{}' because the filter expression \
        contains a comparison with a literal NULL value. Rewrite the comparison to use the IS [NOT] NULL comparison \
        operator to test for NULL values.";
    TOO_MANY_GROUPING_SETS(10703, 15) "Too many grouping sets. The maximum number is {}.";
    THROW_OUTSIDE_CATCH(10704, 15) "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert \
        the THROW statement inside a CATCH block, or add error parameters to the THROW statement.";
    SUBQUERY_IN_OUTPUT(10705, 16) "Subqueries are not allowed in the OUTPUT clause.";
    VALUES_COLUMN_COUNT(10709, 15) "The number of columns for each row in a table value constructor must be the same.";
    MERGE_INSERT_CLAUSE(10710, 16) "An action of type '{}' is not allowed in the '{}' clause of a MERGE statement.";
    MERGE_CHANGE_CLAUSE(10711, 16) "An action of type '{}' is not allowed in the '{}' clause of a MERGE statement.";
    MERGE_SEMICOLON(10713, 15) "A MERGE statement must be terminated by a semi-colon (;).";
    MERGE_ACTION_TWICE(10714, 16) "An action of type '{}' cannot appear more than once in a '{}' clause of a MERGE \
        statement.";
    NO_SUCH_HINT(10715, 15) "'{}' is not a valid hint.";
    ASSIGNMENT_IN_SET_OPERATION(10734, 16) "Variable assignment is not allowed in a statement containing a top level \
        UNION, INTERSECT or EXCEPT operator.";
    FILTER_CLAUSE(10735, 15) "Incorrect WHERE clause for filtered statistics '{}' on table '{}'.";
    TOP_AND_OFFSET(10741, 15) "A TOP can not be used in the same query or sub-query as a OFFSET.";
    OFFSET_NEGATIVE(10742, 15) "The offset specified in a OFFSET clause may not be negative.";
    FETCH_COUNT(10744, 15) "The number of rows provided for a FETCH clause must be greater then zero.";
    WINDOW_FRAME_NOT_ALLOWED(10752, 15) "The function '{}' may not have a window frame.";
    WINDOW_MISSING(10753, 15) "The function '{}' must have an OVER clause.";
    WINDOW_FRAME_WITHOUT_ORDER(10756, 15) "Window frame with ROWS or RANGE must have an ORDER BY clause.";
    WITHIN_GROUP_NOT_ALLOWED(10757, 15) "The function '{}' may not have a WITHIN GROUP clause.";
    DISTINCT_WITH_OVER(10759, 15) "Use of DISTINCT is not allowed with the OVER clause.";
    DATETIME2_SCALE(10760, 16) "Scale argument is not valid. Valid expressions for data type datetime2 scale argument \
        are integer constants and integer constant expressions.";
    TIME_SCALE(10760, 16) "Scale argument is not valid. Valid expressions for data type time scale argument are \
        integer constants and integer constant expressions.";
    SEQUENCE_INCREMENT_ZERO(11700, 16) "The increment for sequence object '{}' cannot be zero.";
    SEQUENCE_INCREMENT(11701, 16) "The absolute value of the increment for sequence object '{}' must be less than or \
        equal to the difference between the minimum and maximum value of the sequence object.";
    SEQUENCE_TYPE(11702, 16) "The sequence object '{}' must be of data type int, bigint, smallint, tinyint, or \
        decimal or numeric with a scale of 0, or any user-defined data type that is based on one of the integer data \
        types listed above.";
    SEQUENCE_START(11703, 16) "The start value for sequence object '{}' must be between the minimum and maximum value \
        of the sequence object.";
    SEQUENCE_CURRENT(11704, 16) "The current value '{}' for sequence object '{}' must be between the minimum and \
        maximum value of the sequence object.";
    SEQUENCE_BOUNDS(11705, 16) "The minimum value for sequence object '{}' must be less than its maximum value.";
    SEQUENCE_CACHE(11706, 16) "The cache size for sequence object '{}' must be greater than 0.";
    SEQUENCE_ARGUMENT(11708, 16) "An invalid value was specified for argument '{}' for the given data type.";
    CREATE_SEQUENCE_RESTART(11709, 16) "The 'RESTART WITH' argument cannot be used in a CREATE SEQUENCE statement.";
    ALTER_SEQUENCE_START(11710, 16) "Argument 'START WITH' cannot be used in an ALTER SEQUENCE statement.";
    ALTER_SEQUENCE_TYPE(11711, 16) "Argument 'AS' cannot be used in an ALTER SEQUENCE statement.";
    SEQUENCE_NAME_NULL(11714, 16) "Invalid sequence name '(null)'.";
    ALTER_SEQUENCE_NOTHING(11715, 16) "No properties specified for ALTER SEQUENCE.";
    NEXT_VALUE_PARTITIONED(11716, 16) "NEXT VALUE FOR function does not support the PARTITION BY clause.";
    NEXT_VALUE_OVER_NOT_ALLOWED(11717, 16) "NEXT VALUE FOR function does not support the OVER clause in default \
        constraints, UPDATE statements, or MERGE statements.";
    NEXT_VALUE_EMPTY_OVER(11718, 16) "NEXT VALUE FOR function does not support an empty OVER clause.";
    NEXT_VALUE_NOT_ALLOWED(11719, 16) "NEXT VALUE FOR function is not allowed in check constraints, default objects, \
        computed columns, views, user-defined functions, user-defined aggregates, user-defined table types, \
        sub-queries, common table expressions, derived tables or return statements.";
    NEXT_VALUE_IN_CLAUSE(11720, 16) "NEXT VALUE FOR function is not allowed in the TOP, OVER, OUTPUT, ON, WHERE, \
        GROUP BY, HAVING, or ORDER BY clauses.";
    NEXT_VALUE_WITH_DISTINCT(11721, 16) "NEXT VALUE FOR function cannot be used directly in a statement that uses a \
        DISTINCT, UNION, UNION ALL, EXCEPT or INTERSECT operator.";
    NEXT_VALUE_WITH_ORDER_BY(11723, 16) "NEXT VALUE FOR function cannot be used directly in a statement that contains \
        an ORDER BY clause unless the OVER clause is specified.";
    NEXT_VALUE_IN_AGGREGATE(11725, 16) "An expression that contains a NEXT VALUE FOR function cannot be passed as an \
        argument to an aggregate.";
    NOT_A_SEQUENCE(11726, 16) "Object '{}' is not a sequence object.";
    NEXT_VALUE_OVER_DIFFERS(11727, 16) "NEXT VALUE FOR functions for a given sequence object must have exactly the \
        same OVER clause definition.";
    SEQUENCE_EXHAUSTED(11728, 16) "The sequence object '{}' has reached its minimum or maximum value. Restart the \
        sequence object to allow new values to be generated.";
    SEQUENCE_RANGE(11732, 16) "The requested range for sequence object '{}' exceeds the maximum or minimum limit. \
        Retry with a smaller range.";
    NEXT_VALUE_WITH_TOP(11739, 16) "NEXT VALUE FOR function cannot be used if ROWCOUNT option has been set, or the \
        query contains TOP or OFFSET.";
    NEXT_VALUE_IN_CASE(11741, 16) "NEXT VALUE FOR function cannot be used within CASE, CHOOSE, COALESCE, IIF, ISNULL \
        and NULLIF.";
    NEXT_VALUE_IN_MERGE(11742, 16) "NEXT VALUE FOR function can only be used with MERGE if it is defined within a \
        default constraint on the target table for insert actions.";
    NO_SUCH_DATABASE(15010, 16) "The database '{}' does not exist. Supply a valid database name. To see available \
        databases, use sys.databases.";
    UNKNOWN_CONFIGURATION(15123, 16) "The configuration option '{}' does not exist, or it may be an advanced option. \
        See sys.configurations.";
    AMBIGUOUS_CONFIGURATION(15124, 16) "The configuration option is not unique. Give its whole name.";
    INVALID_CONFIGURATION(15129, 16) "The value {} is not valid for the configuration option '{}': use {} to {}.";
    CANNOT_FIND(15151, 16) "Cannot alter the sequence '{}', because it does not exist or you do not have permission.";
    RENAME_NO_SUCH_ITEM(15225, 16) "No item by the name of '{}' could be found in the current database '{}', given \
        that @itemtype was input as '{}'.";
    RENAME_NULL(15225, 16) "No item by the name of '(null)' could be found, given that @itemtype was input as \
        '(null)'.";
    RENAME_AMBIGUOUS(15248, 16) "Either the parameter @objname is ambiguous or the claimed @objtype ({}) is wrong.";
    NAME_IN_USE(15335, 16) "Error: The new name '{}' is already in use as a {} name and would cause a duplicate that \
        is not permitted.";
    RENAME_DEPENDENCIES(15336, 16) "Object '{}.{}' cannot be renamed because the object participates in enforced \
        dependencies.";
    CONFIGURATION_CHANGED(15457, 10) "Configuration option '{}' changed from {} to {}. Run the RECONFIGURE statement \
        to install.";
    RENAME_CAUTION(15477, 10) "Caution: Changing any part of an object name could break scripts and stored procedures.";
    EXTERNAL_LOCATION_NO_FOLDER(15840, 16) "External table location must be a folder. Location provided: '{}'";
    EXTERNAL_LOCATION_PATTERN(15841, 16) "External table location cannot contain wildcard characters. Location provided: \
        '{}'";
    EXTERNAL_LOCATION_EXISTS(15842, 16) "Cannot create external table. External table location already exists. Location \
        provided: '{}'";
    EXTERNAL_FILE_NOT_WRITTEN(15856, 16) "I/O operation against '{}' failed: {}.";
    EXTERNAL_LOCATION(15860, 16) "External table location path is not valid. Location provided: '{}': {}.";
    EXTERNAL_BOTH(15879, 16) "Providing both {} and {} is not supported.";
    MESSAGE_NOT_FOUND(18054, 16) "Error {}, severity {}, state {} was raised, but no message with that error number \
        was found in sys.messages. If error is larger than 50000, make sure the user-defined message is added using \
        sp_addmessage.";
    THROW_NUMBER(35100, 16) "Error number {} in the THROW statement is outside the valid range. Specify an error \
        number in the valid range of 50000 to 2147483647.";
    NOT_SUPPORTED(40517, 16) "{} is not supported by this version of hobt.";
    FILES_OF_INSTANCE_DATABASE(40517, 16) "Database '{}' is the instance's own: its files are fixed.";
    TOO_MANY_DATABASES(40517, 16) "An instance makes at most 32762 databases.";
    TOO_MANY_FILEGROUPS(40517, 16) "A database has at most 32767 filegroups.";
    TOO_MANY_FILES(40517, 16) "A database has at most 32767 files.";
    EXTERNAL_NO_SUCH(46501, 15) "External table references '{}' that does not exist.";
    EXTERNAL_FORMAT_EXISTS(46502, 15) "Type with name '{}' already exists.";
    EXTERNAL_OPTION_VALUE(46504, 15) "External option '{}' is not valid. Ensure that the length and range are \
        appropriate.";
    EXTERNAL_OPTION_MISSING(46505, 15) "Missing required external DDL option '{}'.";
    EXTERNAL_NOT_SUPPORTED(46519, 16, 16) "{} are not supported with external tables.";
    EXTERNAL_UNKNOWN_OPTION(46520, 15) "The external DDL statement contained an unrecognized option: {}.";
    EXTERNAL_TABLE_HINTS(46915, 16) "Table hints are not supported on queries that reference external tables.";
    INTERNAL(50000, 20) "{}";
    USER_ERROR(50000, 16) "{}";
}

#[cfg(test)]
mod tests;
