//! SQL Server's error numbers, each with its message or meaning. Source: Microsoft's "Database Engine events and
//! errors".

/// Incorrect syntax near '%s'.
pub const SYNTAX: i32 = 102;
/// The identifier that starts with '%s' is too long.
pub const IDENTIFIER_TOO_LONG: i32 = 103;
/// Unclosed quotation mark after the character string '%s'.
pub const UNCLOSED_QUOTE: i32 = 105;
/// The %s has more columns than allowed / ORDER BY position out of range.
pub const ORDER_BY_POSITION: i32 = 108;
/// More columns in the INSERT statement than values.
pub const INSERT_MORE_COLUMNS: i32 = 109;
/// Fewer columns in the INSERT statement than values.
pub const INSERT_FEWER_COLUMNS: i32 = 110;
/// '%s' must be the first statement in a query batch.
pub const NOT_FIRST_IN_BATCH: i32 = 111;
/// Missing end comment mark '*/'.
pub const UNCLOSED_COMMENT: i32 = 113;
/// Only one expression can be specified in the select list of a subquery without EXISTS.
pub const SUBQUERY_ONE_EXPRESSION: i32 = 116;
/// A TOP N or FETCH rowcount value may not be negative.
pub const NEGATIVE_ROW_COUNT: i32 = 127;
/// The label '%s' has already been declared.
pub const LABEL_REDECLARED: i32 = 132;
/// A GOTO statement references the label '%s' but the label has not been declared.
pub const UNKNOWN_LABEL: i32 = 133;
/// The variable name '%s' has already been declared.
pub const VARIABLE_REDECLARED: i32 = 134;
/// Cannot use a BREAK statement outside the scope of a WHILE statement.
pub const BREAK_OUTSIDE_LOOP: i32 = 135;
/// Cannot use a CONTINUE statement outside the scope of a WHILE statement.
pub const CONTINUE_OUTSIDE_LOOP: i32 = 136;
/// Must declare the scalar variable '%s'.
pub const UNDECLARED_VARIABLE: i32 = 137;
/// Aggregate in WHERE.
pub const AGGREGATE_IN_WHERE: i32 = 147;
/// Incorrect time syntax in a time string used with WAITFOR.
pub const WAITFOR_TIME: i32 = 148;
/// a USE database statement is not allowed in a procedure, function or trigger.
pub const USE_IN_MODULE: i32 = 154;
/// '%s' is not a recognized %s option.
pub const UNKNOWN_OPTION: i32 = 155;
/// Incorrect syntax near the keyword '%s'.
pub const SYNTAX_KEYWORD: i32 = 156;
/// '%s' does not allow specifying the database name as a prefix to the object name.
pub const DATABASE_PREFIX: i32 = 166;
/// The floating point value '%s' is out of the range of computer representation.
pub const FLOAT_LITERAL_RANGE: i32 = 168;
/// The function requires %d arguments.
pub const FUNCTION_ARGUMENT_COUNT: i32 = 174;
/// A RETURN statement with a return value cannot be used in this context.
pub const RETURN_VALUE: i32 = 178;
/// The function requires %d to %d arguments.
pub const FUNCTION_ARGUMENT_RANGE: i32 = 189;
/// Some part of your SQL statement is nested too deeply.
pub const NESTED_TOO_DEEPLY: i32 = 191;
/// '%s' is not a recognized function name.
pub const UNKNOWN_FUNCTION: i32 = 195;
/// '%s' is not a recognized SET option.
pub const UNKNOWN_SET_OPTION: i32 = 195;
/// All queries combined using a set operator must have an equal number of expressions.
pub const SET_OPERATION_COLUMNS: i32 = 205;
/// Operand type clash.
pub const OPERAND_TYPE_CLASH: i32 = 206;
/// Invalid column name '%s'.
pub const INVALID_COLUMN: i32 = 207;
/// Invalid object name '%s'.
pub const INVALID_OBJECT: i32 = 208;
/// Ambiguous column name '%s'.
pub const AMBIGUOUS_COLUMN: i32 = 209;
/// Column name or number of supplied values does not match table definition.
pub const INSERT_COLUMN_COUNT: i32 = 213;
/// Invalid object used where a table-valued function is expected.
pub const NOT_A_TABLE_FUNCTION: i32 = 215;
/// Parameters were not supplied for the function '%s'.
pub const PARAMETERS_NOT_SUPPLIED: i32 = 216;
/// Maximum stored procedure, function, trigger, or view nesting level exceeded.
pub const NESTING_LEVEL: i32 = 217;
/// Arithmetic overflow for a value of a small integer type.
pub const OVERFLOW_SMALL: i32 = 220;
/// %s statement not allowed within multi-statement transaction.
pub const NOT_IN_TRANSACTION: i32 = 226;
/// Arithmetic overflow error for type %s, value = %f.
pub const OVERFLOW_FLOAT: i32 = 232;
/// There is insufficient result space to convert a %s value to %s.
pub const INSUFFICIENT_SPACE: i32 = 234;
/// Cannot convert a char value to money. The char value has incorrect syntax.
pub const MONEY_SYNTAX: i32 = 235;
/// Conversion failed when converting date and/or time from character string.
pub const DATE_CONVERSION: i32 = 241;
/// Conversion of a datetime string out of range.
pub const DATE_OUT_OF_RANGE: i32 = 242;
/// Type %s is not a defined system type.
pub const UNKNOWN_TYPE: i32 = 243;
/// The conversion overflowed an INT1 or INT2 column.
pub const SMALL_OVERFLOW_TEXT: i32 = 244;
/// Conversion failed when converting the %s value '%s' to data type %s.
pub const CONVERSION: i32 = 245;
/// The conversion overflowed an int column.
pub const INT_OVERFLOW_TEXT: i32 = 248;
/// Implicit conversion from data type %s to %s is not allowed.
pub const IMPLICIT_CONVERSION: i32 = 257;
/// %d is not a valid style number when converting from %s to a character string.
pub const INVALID_STYLE: i32 = 281;
/// Cannot construct data type %s, some of the arguments have values which are not valid.
pub const CANNOT_CONSTRUCT: i32 = 289;
/// Arithmetic overflow on a money value.
pub const MONEY_OVERFLOW: i32 = 294;
/// Conversion failed when converting character string to smalldatetime data type.
pub const SMALLDATETIME_CONVERSION: i32 = 295;
/// An insufficient number of arguments were supplied for the procedure or function %s.
pub const TOO_FEW_ARGUMENTS: i32 = 313;
/// Incorrect syntax near the WITH keyword: the statement before must end with a semicolon.
pub const SEMICOLON_BEFORE_WITH: i32 = 319;
/// '%s' is not a recognized table hints option.
pub const UNKNOWN_TABLE_HINT: i32 = 321;
/// The data types %s and %s are incompatible in the %s operator.
pub const INCOMPATIBLE_OPERANDS: i32 = 402;
/// Invalid collation '%s'.
pub const INVALID_COLLATION: i32 = 448;
/// Cannot resolve the collation conflict.
pub const COLLATION_CONFLICT: i32 = 468;
/// The invalid escape character "%s" was specified in a LIKE predicate.
pub const INVALID_ESCAPE: i32 = 506;
/// Cannot create a row of size %d which is greater than the allowable maximum row size of 8060.
pub const ROW_TOO_LARGE: i32 = 511;
/// Subquery returned more than 1 value.
pub const SUBQUERY_MORE_THAN_ONE: i32 = 512;
/// Cannot insert the value NULL into column '%s', table '%s'.
pub const NULL_NOT_ALLOWED: i32 = 515;
/// Adding a value to a '%s' column caused an overflow.
pub const DATE_ADD_OVERFLOW: i32 = 517;
/// Explicit conversion from data type %s to %s is not allowed.
pub const EXPLICIT_CONVERSION: i32 = 529;
/// The %s function resulted in an overflow: the number of dateparts separating two instances is too large.
pub const DATEDIFF_OVERFLOW: i32 = 535;
/// Invalid length parameter passed to the %s function: RIGHT.
pub const INVALID_LENGTH_OF: i32 = 536;
/// Invalid length parameter passed to the %s function.
pub const INVALID_LENGTH_PARAMETER: i32 = 537;
/// %s statement cannot be used inside a user transaction.
pub const NOT_IN_USER_TRANSACTION: i32 = 574;
/// Could not continue scan with NOLOCK due to data movement.
pub const DATA_MOVED: i32 = 601;
/// The filegroup "%s" has no files assigned to it.
pub const FILEGROUP_WITHOUT_FILES: i32 = 622;
/// Cannot issue SAVE TRANSACTION when there is no active transaction.
pub const SAVE_WITHOUT_TRANSACTION: i32 = 628;
/// READPAST under an isolation level that does not allow it.
pub const READPAST_NOT_ALLOWED: i32 = 650;
/// Insufficient memory.
pub const OUT_OF_MEMORY: i32 = 701;
/// The operating system returned an error for a read or a write.
pub const IO_ERROR: i32 = 823;
/// A page that was read back is damaged.
pub const PAGE_DAMAGED: i32 = 824;
/// Database '%s' does not exist.
pub const DATABASE_DOES_NOT_EXIST: i32 = 911;
/// Database '%s' cannot be opened: it is marked SUSPECT.
pub const DATABASE_SUSPECT: i32 = 926;
/// Database '%s' cannot be opened: inaccessible files or insufficient memory or disk space.
pub const DATABASE_INACCESSIBLE: i32 = 945;
/// MAXDOP is out of range or an option's value is invalid.
pub const INVALID_OPTION_VALUE: i32 = 1020;
/// An object or column name is missing or empty.
pub const EMPTY_NAME: i32 = 1038;
/// Must declare the table variable "%s".
pub const UNDECLARED_TABLE_VARIABLE: i32 = 1087;
/// `SET SHOWPLAN_…` beside other statements of its batch.
pub const SHOWPLAN_NOT_ALONE: i32 = 1067;
/// Allocation failed: the filegroup is full.
pub const FILEGROUP_FULL: i32 = 1105;
/// A statement was chosen as the victim of a deadlock.
pub const DEADLOCK: i32 = 1205;
/// Lock request time-out period exceeded.
pub const LOCK_TIMEOUT: i32 = 1222;
/// Creating or altering a table failed: the minimum row size is over 8060.
pub const ROW_TOO_LARGE_DEFINITION: i32 = 1701;
/// Too many columns.
pub const TOO_MANY_COLUMNS: i32 = 1702;
/// Database '%s' already exists.
pub const DATABASE_EXISTS: i32 = 1801;
/// A file name is used twice, or a file belongs to another database.
pub const FILE_NAME_IN_USE: i32 = 1828;
/// The file '%s' cannot be overwritten. It is being used by database '%s'.
pub const FILE_OF_ANOTHER_DATABASE: i32 = 1834;
/// Column name '%s' does not exist in the target table.
pub const NO_SUCH_KEY_COLUMN: i32 = 1911;
/// Partition scheme not found.
pub const INVALID_DATA_SPACE: i32 = 1921;
/// String or binary data would be truncated.
pub const TRUNCATION: i32 = 2628;
/// Column names in each table must be unique.
pub const DUPLICATE_COLUMN: i32 = 2705;
/// There is already an object named '%s' in the database.
pub const OBJECT_EXISTS: i32 = 2714;
/// Column, parameter or variable: cannot find data type %s.
pub const CANNOT_FIND_TYPE: i32 = 2715;
/// A SET option was given a value outside its range.
pub const SET_OPTION_VALUE: i32 = 2742;
/// Multiple identity columns specified for table '%s'.
pub const IDENTITY_TWICE: i32 = 2744;
/// Cannot specify %s data type (parameter %d) as a substitution parameter.
pub const FORMAT_ARGUMENT: i32 = 2748;
/// An identity column must be of a whole-number type and not null.
pub const IDENTITY_TYPE: i32 = 2749;
/// An identity column has an increment of zero.
pub const IDENTITY_INCREMENT: i32 = 2752;
/// Error severity levels greater than 18 need WITH LOG.
pub const RAISERROR_SEVERITY: i32 = 2754;
/// The specified schema name does not exist.
pub const SCHEMA_DOES_NOT_EXIST: i32 = 2760;
/// The data type of a substitution parameter does not match the format specification.
pub const FORMAT_TYPE: i32 = 2786;
/// Invalid format specification.
pub const FORMAT_SPECIFICATION: i32 = 2787;
/// Could not find stored procedure '%s'.
pub const UNKNOWN_PROCEDURE: i32 = 2812;
/// Attention: the statement was cancelled by its client or on its behalf.
pub const CANCELED: i32 = 3617;
/// The statement has been terminated.
pub const STATEMENT_TERMINATED: i32 = 3621;
/// An invalid floating point operation occurred.
pub const INVALID_FLOAT_OPERATION: i32 = 3623;
/// Cannot drop the object because it does not exist.
pub const DROP_DOES_NOT_EXIST: i32 = 3701;
/// Cannot DROP the index '%s' because it is not a statistics collection.
pub const NOT_STATISTICS: i32 = 3739;
/// Cannot drop the database because it is in use.
pub const DATABASE_IN_USE: i32 = 3702;
/// Cannot use DROP %s with '%s' because '%s' is a %s.
pub const WRONG_OBJECT_KIND: i32 = 3705;
/// Cannot drop the database because it is a system database.
pub const SYSTEM_DATABASE: i32 = 3708;
/// Cannot drop schema '%s' because it is being referenced by an object.
pub const SCHEMA_IN_USE: i32 = 3729;
/// The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.
pub const COMMIT_WITHOUT_BEGIN: i32 = 3902;
/// The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.
pub const ROLLBACK_WITHOUT_BEGIN: i32 = 3903;
/// Cannot use the ROLLBACK statement within an INSERT-EXEC statement.
pub const ROLLBACK_IN_INSERT_EXEC: i32 = 3915;
/// Cannot use the COMMIT statement within an INSERT-EXEC statement unless BEGIN TRANSACTION is used first.
pub const COMMIT_IN_INSERT_EXEC: i32 = 3916;
/// The current transaction cannot be committed and cannot support operations that write to the log file.
pub const TRANSACTION_DOOMED: i32 = 3930;
/// The current transaction cannot be committed and cannot be rolled back to a savepoint.
pub const DOOMED_TO_SAVEPOINT: i32 = 3931;
/// A statement under SNAPSHOT in a transaction that began under another level.
pub const SNAPSHOT_BEGUN_OTHERWISE: i32 = 3951;
/// The database does not allow SNAPSHOT isolation.
pub const SNAPSHOT_NOT_ALLOWED: i32 = 3952;
/// The database was opened after the snapshot was taken.
pub const SNAPSHOT_OF_CLOSED: i32 = 3957;
/// Snapshot isolation transaction aborted due to update conflict.
pub const SNAPSHOT_CONFLICT: i32 = 3960;
/// The definition of a table changed after the snapshot was taken.
pub const SNAPSHOT_DEFINITION_CHANGED: i32 = 3961;
/// A change of definitions that a transaction under SNAPSHOT must not make.
pub const SNAPSHOT_DEFINITION: i32 = 3964;
/// Uncommittable transaction is detected at the end of the batch.
pub const DOOMED_AT_END_OF_BATCH: i32 = 3998;
/// The multi-part identifier could not be bound.
pub const MULTI_PART_IDENTIFIER: i32 = 4104;
/// An expression of non-boolean type in a context where a condition is expected.
pub const NOT_A_CONDITION: i32 = 4145;
/// Cannot truncate a table.
pub const CANNOT_TRUNCATE: i32 = 4701;
/// Option '%s' cannot be set in database '%s'.
pub const OPTION_OF_DATABASE: i32 = 5058;
/// A device activation error: the physical file name may be incorrect.
pub const DEVICE_ACTIVATION: i32 = 5120;
/// One or more files listed in the statement could not be found or could not be initialized.
pub const NO_SUCH_FILE: i32 = 5009;
/// The primary data or log file cannot be removed from a database.
pub const PRIMARY_FILE: i32 = 5020;
/// Cannot remove the file '%s' because it is the only file in the DEFAULT filegroup.
pub const ONLY_DEFAULT_FILE: i32 = 5031;
/// The file or filegroup '%s' cannot be removed because it is not empty.
pub const FILE_NOT_EMPTY: i32 = 5042;
/// The filegroup '%s' cannot be found.
pub const NO_SUCH_FILEGROUP: i32 = 5043;
/// The file or filegroup '%s' has been removed.
pub const FILE_REMOVED: i32 = 5044;
/// Cannot move all contents of file '%s' to other places to complete the emptyfile operation.
pub const FILE_NOT_EMPTIED: i32 = 2555;
/// There is insufficient space in the filegroup to complete the emptyfile operation.
pub const NO_ROOM_TO_EMPTY_FILE: i32 = 2556;
/// Cannot perform a %s operation inside a user transaction.
pub const DBCC_IN_TRANSACTION: i32 = 8920;
/// Could not locate file '%s' for database '%s' in sys.database_files.
pub const DBCC_NO_SUCH_FILE: i32 = 8985;
/// A file cannot be opened or created: operating system error.
pub const CANNOT_CREATE_FILE: i32 = 5123;
/// A file cannot be expanded: operating system error.
pub const CANNOT_EXPAND_FILE: i32 = 5149;
/// A file has the wrong size.
pub const FILE_SIZE: i32 = 5169;
/// Cannot create file '%s' because it already exists.
pub const FILE_EXISTS: i32 = 5170;
/// Could not find server '%s' in sys.servers.
pub const UNKNOWN_SERVER: i32 = 7202;
/// The type '%s' is not valid for this operation.
pub const PARTITION_TYPE: i32 = 7704;
/// Invalid partition function or scheme.
pub const INVALID_PARTITION_FUNCTION: i32 = 7705;
/// The partition function is being used by one or more partition schemes.
pub const PARTITION_FUNCTION_IN_USE: i32 = 7706;
/// The partition scheme does not have enough filegroups.
pub const PARTITION_SCHEME_FILEGROUPS: i32 = 7707;
/// Partition function: values are not of the parameter's type, or not unique.
pub const PARTITION_VALUES_DUPLICATE: i32 = 7708;
/// Partition function boundary values are not sorted; they are sorted for the user (a warning).
pub const PARTITION_VALUES_SORTED: i32 = 7709;
/// The partition scheme is currently being used to partition one or more tables.
pub const PARTITION_SCHEME_IN_USE: i32 = 7717;
/// CREATE PARTITION FUNCTION failed: too many partitions.
pub const TOO_MANY_PARTITIONS: i32 = 7719;
/// The partition column has a data type which is different from the partition function's parameter.
pub const PARTITION_COLUMN_TYPE: i32 = 7726;
/// Error converting data type %s to %s.
pub const CONVERSION_TYPE: i32 = 8114;
/// An explicit value for the identity column can only be specified when a column list is used and IDENTITY_INSERT is
/// ON.
pub const IDENTITY_WITHOUT_LIST: i32 = 8101;
/// Arithmetic overflow error converting %s to data type %s.
pub const OVERFLOW: i32 = 8115;
/// Argument data type %s is invalid for argument %d of %s function.
pub const INVALID_ARGUMENT_TYPE: i32 = 8116;
/// Operand data type %s is invalid for %s operator.
pub const INVALID_OPERAND_TYPE: i32 = 8117;
/// Column is invalid in the select list because it is not in an aggregate or GROUP BY.
pub const NOT_IN_GROUP_BY: i32 = 8120;
/// Column in HAVING is invalid because it is not in an aggregate or GROUP BY.
pub const NOT_IN_GROUP_BY_HAVING: i32 = 8121;
/// Column in ORDER BY is invalid because it is not in an aggregate or GROUP BY.
pub const NOT_IN_GROUP_BY_ORDER: i32 = 8127;
/// Divide by zero error encountered.
pub const DIVIDE_BY_ZERO: i32 = 8134;
/// Procedure or function %s has too many arguments specified.
pub const TOO_MANY_ARGUMENTS: i32 = 8144;
/// More than one column DEFAULT constraint specified for a column.
pub const DEFAULT_TWICE: i32 = 8148;
/// No column name was specified for column %d of '%s'.
pub const NO_COLUMN_NAME: i32 = 8155;
/// The column '%s' was specified more than once.
pub const DUPLICATE_COLUMN_SELECT: i32 = 8156;
/// Conversion failed when converting from a character string to uniqueidentifier.
pub const GUID_CONVERSION: i32 = 8169;
/// Insufficient result space to convert uniqueidentifier value to char.
pub const GUID_SPACE: i32 = 8170;
/// The query processor could not produce a query plan because of the hints.
pub const NO_PLAN_FOR_HINTS: i32 = 8622;
/// The transaction log is full.
pub const LOG_FULL: i32 = 9002;
/// The log for a database is not available.
pub const LOG_NOT_AVAILABLE: i32 = 9001;
/// The datepart %s is not supported by date function %s for data type %s.
pub const INVALID_DATE_PART: i32 = 9810;
/// STRING_AGG aggregation result exceeded the limit of 8000 bytes.
pub const STRING_AGG_TOO_LONG: i32 = 9829;
/// To rethrow an error, a THROW statement must be used inside a CATCH block.
pub const THROW_OUTSIDE_CATCH: i32 = 10704;
/// RAISERROR named a message that is not in sys.messages.
pub const MESSAGE_NOT_FOUND: i32 = 18054;
/// Error number %d in the THROW statement is outside the valid range.
pub const THROW_NUMBER: i32 = 35100;
/// Could not find a database or feature: hobt does not support it yet.
pub const NOT_SUPPORTED: i32 = 40517;
/// An internal error: a broken invariant of hobt's own.
pub const INTERNAL: i32 = 50000;
/// The number of an error that RAISERROR raises with a text given by the user.
pub const USER_ERROR: i32 = 50000;
/// The second and third arguments of the TRANSLATE built-in function must contain an equal number of characters.
pub const TRANSLATE_LENGTHS: i32 = 9828;
/// An argument of DBCC is not valid.
pub const DBCC_ARGUMENT: i32 = 2560;
/// An incorrect number of parameters was given to the DBCC statement.
pub const DBCC_ARGUMENT_COUNT: i32 = 2583;
/// '%s' does not contain an identity column.
pub const NO_IDENTITY_COLUMN: i32 = 7997;
/// Checking identity information: current identity value '%s', current column value '%s'.
pub const IDENTITY_INFORMATION: i32 = 7998;
/// Could not create constraint or index. See previous errors.
pub const CONSTRAINT_NOT_CREATED: i32 = 1750;
/// ALTER TABLE %s COLUMN %s failed because one or more objects access this column.
pub const COLUMN_ACCESSED: i32 = 4922;
/// Could not drop constraint. See previous errors.
pub const CONSTRAINT_NOT_DROPPED: i32 = 3727;
/// CREATE DATABASE failed. Some file names listed could not be created.
pub const DATABASE_NOT_CREATED: i32 = 1802;
/// A file activation error occurred. The physical file name '%s' may be incorrect.
pub const FILE_ACTIVATION: i32 = 5105;
/// The identifier '%s' cannot be bound: not of the source, in WHEN NOT MATCHED.
pub const MERGE_NOT_OF_SOURCE: i32 = 5333;
/// The identifier '%s' cannot be bound: not of the target, in WHEN NOT MATCHED BY SOURCE.
pub const MERGE_NOT_OF_TARGET: i32 = 5334;
/// DBCC results for '%s'.
pub const DBCC_RESULTS: i32 = 2536;
/// There are %d rows in %d pages for object "%s".
pub const CHECK_ROWS: i32 = 2593;
/// CHECKDB found %d allocation errors and %d consistency errors not associated with any single object.
pub const CHECK_ERRORS_OF_NO_OBJECT: i32 = 8954;
/// CHECKDB found %d allocation errors and %d consistency errors in database '%s'.
pub const CHECK_RESULT: i32 = 8989;
/// CHECKDB found %d allocation errors and %d consistency errors in table '%s'.
pub const CHECK_TABLE_RESULT: i32 = 8990;
/// Cannot find a table or object with this name.
pub const CHECK_NO_SUCH_TABLE: i32 = 2501;
/// The row count for an object is incorrect.
pub const CHECK_ROW_COUNT: i32 = 2508;
/// A page allocated to an object was not seen.
pub const CHECK_PAGE_NOT_SEEN: i32 = 2533;
/// An extent of an object is not allocated.
pub const CHECK_EXTENT_NOT_ALLOCATED: i32 = 2579;
/// An extent is allocated by more than one allocation object.
pub const CHECK_EXTENT_TWICE: i32 = 8904;
/// An extent is marked allocated, but nothing has allocated it.
pub const CHECK_EXTENT_UNOWNED: i32 = 8905;
/// A page contains an incorrect page id in its header.
pub const CHECK_WRONG_PAGE_ID: i32 = 8909;
/// A page could not be processed.
pub const CHECK_PAGE_NOT_PROCESSED: i32 = 8928;
/// An allocation page of an object is wrong.
pub const CHECK_ALLOCATION_PAGE: i32 = 8946;
/// Errors in the allocation maps.
pub const CHECK_MAP: i32 = 8998;
/// A row of a table that an index does not have.
pub const CHECK_INDEX_ROW_MISSING: i32 = 8951;
/// A row of an index that its table does not have.
pub const CHECK_INDEX_ROW_EXTRA: i32 = 8952;
/// Keys out of order on a page.
pub const CHECK_KEY_ORDER: i32 = 2511;
/// Column value is out of range for its data type.
pub const CHECK_VALUE: i32 = 2570;
/// B-tree level mismatch.
pub const CHECK_LEVEL: i32 = 8931;
/// A key value is not between those of the parent.
pub const CHECK_KEY_OUTSIDE_PARENT: i32 = 8934;
/// B-tree chain linkage mismatch.
pub const CHECK_CHAIN: i32 = 8936;
/// A B-tree page has two parent nodes.
pub const CHECK_TWO_PARENTS: i32 = 8937;
/// A test of a page failed.
pub const CHECK_PAGE_TEST: i32 = 8939;
/// An off-row data node is pointed to by two rows.
pub const CHECK_VALUE_TWICE: i32 = 8974;
/// A page is missing references from parent and previous nodes.
pub const CHECK_PAGE_NO_PARENT: i32 = 8979;
/// An index node refers to a child page that was not encountered.
pub const CHECK_CHILD_NOT_FOUND: i32 = 8980;
/// A row should be on another partition.
pub const CHECK_PARTITION: i32 = 8984;
/// Check Catalog.
pub const CHECK_CATALOG: i32 = 8992;
/// There is no such page.
pub const NO_SUCH_PAGE: i32 = 8968;
/// The request for a procedure failed because the object is not a procedure.
pub const NOT_A_PROCEDURE: i32 = 2809;
/// Procedure or function '%s' expects parameter '%s', which was not supplied.
pub const PARAMETER_NOT_SUPPLIED: i32 = 201;
/// Procedure expects parameter '%s' of type '%s'.
pub const PARAMETER_TYPE: i32 = 214;
/// %s is not a parameter for procedure %s.
pub const UNKNOWN_PARAMETER: i32 = 8145;
/// Must pass parameter number %d and subsequent parameters as '@name = value'.
pub const PARAMETER_ORDER: i32 = 119;
/// Parameter '%s' was supplied multiple times.
pub const PARAMETER_TWICE: i32 = 8143;
/// The configuration option '%s' does not exist.
pub const UNKNOWN_CONFIGURATION: i32 = 15123;
/// The configuration option '%s' is not unique.
pub const AMBIGUOUS_CONFIGURATION: i32 = 15124;
/// The value is not valid for the configuration option.
pub const INVALID_CONFIGURATION: i32 = 15129;
/// SHUTDOWN is in progress.
pub const SHUTDOWN: i32 = 6005;
/// Cannot use KILL to kill your own process.
pub const KILL_SELF: i32 = 6104;
/// Process ID %d is not an active process ID.
pub const NO_SUCH_SESSION: i32 = 6106;
/// Cannot roll back %s. No transaction or savepoint of that name was found.
pub const NO_SUCH_SAVEPOINT: i32 = 6401;
/// An affinity names processors that are not there.
pub const INVALID_AFFINITY: i32 = 5834;
/// Scale argument is not valid.
pub const SCALE_NOT_VALID: i32 = 10760;
/// The definition of an object changed since the statement was compiled.
pub const DEFINITION_CHANGED: i32 = 2801;
/// Ad hoc updates to system catalogs are not allowed.
pub const SYSTEM_TABLE_UPDATE: i32 = 259;
/// The number of columns for each row in a table value constructor must be the same.
pub const VALUES_COLUMN_COUNT: i32 = 10709;
/// '%s' is not a valid hint.
pub const NO_SUCH_HINT: i32 = 10715;
/// A column is specified more than once in the column list of an INSERT.
pub const COLUMN_TWICE: i32 = 264;
/// Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements.
pub const TRANSACTION_COUNT: i32 = 266;
/// Cannot insert explicit value for identity column when IDENTITY_INSERT is OFF.
pub const IDENTITY_INSERT_OFF: i32 = 544;
/// An INSERT EXEC statement cannot be nested.
pub const NESTED_INSERT_EXEC: i32 = 8164;
/// Index ID %d on table '%s' (specified in the FROM clause) does not exist.
pub const NO_INDEX_ID: i32 = 307;
/// Index '%s' on table '%s' (specified in the FROM clause) does not exist.
pub const NO_INDEX_NAME: i32 = 308;
/// Index '%s' on table '%s' (specified in the FROM clause) is disabled.
pub const HINTED_INDEX_DISABLED: i32 = 315;
/// The name '%s' in the FORCESEEK hint on table or view '%s' did not match the key column names of the index '%s'.
pub const NO_SEEK_COLUMN: i32 = 362;
/// The FORCESEEK hint on table or view '%s' specified more seek columns than the number of key columns in index '%s'.
pub const TOO_MANY_SEEK_COLUMNS: i32 = 365;
/// The value %d specified for the MAXRECURSION option exceeds the allowed maximum of 32767.
pub const MAX_RECURSION_RANGE: i32 = 310;
/// Conflicting %s optimizer hints specified.
pub const CONFLICTING_HINTS: i32 = 1042;
/// Conflicting locking hints specified.
pub const CONFLICTING_LOCK_HINTS: i32 = 1047;
/// The increment for sequence object '%s' cannot be zero.
pub const SEQUENCE_INCREMENT_ZERO: i32 = 11700;
/// The absolute value of the increment for sequence object '%s' is larger than its range.
pub const SEQUENCE_INCREMENT: i32 = 11701;
/// The sequence object '%s' must be of an integer data type.
pub const SEQUENCE_TYPE: i32 = 11702;
/// The start value for sequence object '%s' must be between the minimum and maximum value.
pub const SEQUENCE_START: i32 = 11703;
/// The current value '%s' for sequence object '%s' must be between the minimum and maximum value.
pub const SEQUENCE_CURRENT: i32 = 11704;
/// The minimum value for sequence object '%s' must be less than its maximum value.
pub const SEQUENCE_BOUNDS: i32 = 11705;
/// The cache size for sequence object '%s' must be greater than 0.
pub const SEQUENCE_CACHE: i32 = 11706;
/// An invalid value was specified for argument '%s' for the given data type.
pub const SEQUENCE_ARGUMENT: i32 = 11708;
/// Object '%s' is not a sequence object.
pub const NOT_A_SEQUENCE: i32 = 11726;
/// The sequence object '%s' has reached its minimum or maximum value.
pub const SEQUENCE_EXHAUSTED: i32 = 11728;
/// The requested range for sequence object '%s' exceeds the maximum or minimum limit.
pub const SEQUENCE_RANGE: i32 = 11732;
/// Cannot %s the %s '%s', because it does not exist or you do not have permission.
pub const CANNOT_FIND: i32 = 15151;
/// The operation failed because an index or statistics with this name exists on the table.
pub const INDEX_EXISTS: i32 = 1913;
/// There are already statistics on table '%s' named '%s'.
pub const STATISTICS_EXIST: i32 = 1927;
/// Conflicting %s options.
pub const CONFLICTING_OPTIONS: i32 = 1052;
/// Invalid value for percent.
pub const SAMPLE_PERCENT: i32 = 476;
/// UPDATE STATISTICS ON PARTITIONS of statistics that are not incremental.
pub const NOT_INCREMENTAL: i32 = 9111;
/// This type of statistics is not supported to be incremental.
pub const CANNOT_BE_INCREMENTAL: i32 = 9108;
/// DROP STATISTICS without a table.
pub const STATISTICS_NEED_TABLE: i32 = 159;
/// Invalid ROWS value or REPEATABLE seed in the TABLESAMPLE clause.
pub const SAMPLE_ROWS: i32 = 477;
/// The TABLESAMPLE clause can only be used with local tables.
pub const SAMPLE_NO_TABLE: i32 = 494;
/// Could not locate statistics '%s' in the system catalogs.
pub const NO_SUCH_STATISTICS: i32 = 2767;
/// The provided statistics stream is corrupt.
pub const STATISTICS_STREAM_CORRUPT: i32 = 9105;
/// Column is partitioning column of a unique index and not in its key.
pub const PARTITION_COLUMN_NOT_IN_KEY: i32 = 1908;
/// Cannot create more than one clustered index on a table.
pub const CLUSTERED_EXISTS: i32 = 1902;
/// The table already has a primary key.
pub const PRIMARY_KEY_EXISTS: i32 = 1779;
/// Cannot use duplicate column names in an index.
pub const KEY_COLUMN_TWICE: i32 = 1909;
/// An index has more than 32 key columns.
pub const TOO_MANY_KEY_COLUMNS: i32 = 1904;
/// A column is of a type that is invalid for use as a key column.
pub const KEY_COLUMN_TYPE: i32 = 1919;
/// Cannot define a PRIMARY KEY constraint on a nullable column.
pub const PRIMARY_KEY_NULLABLE: i32 = 8111;
/// Cannot specify included columns for a clustered index.
pub const INCLUDED_IN_CLUSTERED: i32 = 10601;
/// Filtered statistics '%s' cannot be created on table '%s' because the column '%s' in the filter expression is a
/// computed column.
pub const FILTER_COMPUTED: i32 = 10609;
/// Filtered statistics '%s' cannot be created on table '%s' because the filter expression contains a comparison with a
/// literal NULL value.
pub const FILTER_NULL: i32 = 10620;
/// Incorrect WHERE clause for filtered statistics '%s' on table '%s'.
pub const FILTER_CLAUSE: i32 = 10735;
/// An index was not created: its fixed-length columns alone make its key too long.
pub const KEY_TOO_LONG_DEFINITION: i32 = 1944;
/// Warning: an index may have keys that are too long.
pub const KEY_TOO_LONG_WARNING: i32 = 1945;
/// Operation failed: an index entry exceeds the maximum length.
pub const KEY_TOO_LONG: i32 = 1946;
/// Could not find any index of this name.
pub const NO_SUCH_INDEX: i32 = 7999;
/// Cannot find the object because it does not exist or you do not have permissions.
pub const NO_SUCH_OBJECT: i32 = 1088;
/// An explicit DROP INDEX is not allowed on an index that enforces a constraint.
pub const INDEX_OF_CONSTRAINT: i32 = 3723;
/// The name is not a constraint.
pub const NO_SUCH_CONSTRAINT: i32 = 3728;
/// An invalid partition number was specified.
pub const NO_SUCH_PARTITION: i32 = 7722;
/// Cannot insert a duplicate key row in an object with a unique index.
pub const DUPLICATE_KEY_INDEX: i32 = 2601;
/// Violation of a key constraint.
pub const DUPLICATE_KEY_CONSTRAINT: i32 = 2627;
/// CREATE UNIQUE INDEX terminated because a duplicate key was found.
pub const DUPLICATE_KEY_BUILD: i32 = 1505;
/// Duplicate key was ignored.
pub const DUPLICATE_KEY_IGNORED: i32 = 3604;
/// The clustered index of a table is disabled.
pub const CLUSTERED_DISABLED: i32 = 8655;
/// A table has at least one column that is not computed.
pub const ONLY_COMPUTED_COLUMNS: i32 = 1738;
/// The column '%s' cannot be modified because it is either a computed column or is the result of a UNION operator.
pub const COMPUTED_COLUMN: i32 = 271;
/// The %s statement conflicted with the %s constraint '%s'.
pub const CONSTRAINT_VIOLATION: i32 = 547;
/// Computed column '%s' in table '%s' cannot be persisted because the column is non-deterministic.
pub const NOT_DETERMINISTIC: i32 = 4936;
/// `ALTER INDEX` of an index that does not exist.
pub const CANNOT_FIND_INDEX: i32 = 2727;
/// An operation on an index that is disabled.
pub const INDEX_IS_DISABLED: i32 = 1973;
/// An index of which pages are not locked cannot be reorganised.
pub const PAGE_LOCKS_DISABLED: i32 = 2552;
/// A partition number for an index that is not partitioned.
pub const NOT_PARTITIONED: i32 = 7729;
/// `DROP_EXISTING` that would make a clustered index a nonclustered one.
pub const CLUSTERED_TO_NONCLUSTERED: i32 = 1925;
/// `DROP_EXISTING` that would break a constraint.
pub const NOT_THE_CONSTRAINT: i32 = 1907;
/// `IGNORE_DUP_KEY` of an index that is not unique.
pub const IGNORED_NOT_UNIQUE: i32 = 1916;
/// Two primary keys in a `CREATE TABLE`.
pub const PRIMARY_KEY_TWICE: i32 = 8110;
/// Two clustered keys in a `CREATE TABLE`.
pub const CLUSTERED_TWICE: i32 = 8112;
/// A mode that `sys.dm_db_index_physical_stats` does not know.
pub const INVALID_STATISTICS_MODE: i32 = 2591;
/// Could not find a database by its id.
pub const DATABASE_ID_NOT_FOUND: i32 = 2573;
/// The %s '%s' is dependent on column '%s'.
pub const COLUMN_NEEDED: i32 = 5074;
/// ALTER TABLE %s failed because column '%s' does not exist in table '%s'.
pub const ALTER_NO_SUCH_COLUMN: i32 = 4924;
/// ALTER TABLE DROP COLUMN failed because '%s' is the only data column in table '%s'.
pub const ONLY_COLUMN: i32 = 4923;
/// Cannot alter column '%s' because it is '%s'.
pub const CANNOT_ALTER_COLUMN: i32 = 4928;
/// The new name '%s' is already in use as a %s name.
pub const NAME_IN_USE: i32 = 15335;
/// A boundary value of a partition function exists already.
pub const BOUNDARY_EXISTS: i32 = 7721;
/// A partition range value could not be found.
pub const NO_SUCH_BOUNDARY: i32 = 7715;
/// `TRUNCATE TABLE` of partitions of a table with an index that is partitioned differently.
pub const TRUNCATE_NOT_ALIGNED: i32 = 3756;
/// `ALTER TABLE`: cannot find the object.
pub const SWITCH_NO_TABLE: i32 = 4902;
/// `ALTER TABLE SWITCH`: the target's partition has rows.
pub const SWITCH_PARTITION_NOT_EMPTY: i32 = 4904;
/// The target has rows.
pub const SWITCH_TABLE_NOT_EMPTY: i32 = 4905;
/// A partitioned table without a partition number.
pub const SWITCH_WITHOUT_NUMBER: i32 = 4911;
/// One table has a clustered index, the other has none.
pub const SWITCH_CLUSTERED: i32 = 4913;
/// A table has a disabled clustered index.
pub const SWITCH_DISABLED: i32 = 4914;
/// The partitions are in two filegroups.
pub const SWITCH_FILEGROUP: i32 = 4938;
/// A column has another name.
pub const SWITCH_COLUMN_NAME: i32 = 4942;
/// The tables have different numbers of columns.
pub const SWITCH_COLUMN_COUNT: i32 = 4943;
/// A column has another type.
pub const SWITCH_COLUMN_TYPE: i32 = 4944;
/// A column has another collation.
pub const SWITCH_COLLATION: i32 = 4945;
/// A column is computed differently.
pub const SWITCH_PERSISTED: i32 = 4946;
/// There is no identical index.
pub const SWITCH_NO_INDEX: i32 = 4947;
/// The source and the target are the same table.
pub const SWITCH_SAME_TABLE: i32 = 4955;
/// There is no such partition.
pub const SWITCH_NO_PARTITION: i32 = 4950;
/// A column has another ROWGUIDCOL property.
pub const SWITCH_ROWGUID: i32 = 4958;
/// A column is nullable in only one table.
pub const SWITCH_NULLABLE: i32 = 4985;
/// Two tables are partitioned by different columns.
pub const SWITCH_PARTITION_COLUMNS: i32 = 4953;
/// A check constraint of the source is not trusted, and that of the target is.
pub const SWITCH_CHECK_NOT_TRUSTED: i32 = 4960;
/// A column is computed in only one table.
pub const SWITCH_COMPUTED: i32 = 4965;
/// A column is computed by different expressions.
pub const SWITCH_COMPUTED_BY: i32 = 4966;
/// A foreign key refers to the source.
pub const SWITCH_REFERENCED: i32 = 4967;
/// The source does not have a foreign key of the target.
pub const SWITCH_FOREIGN_KEY: i32 = 4968;
/// A foreign key is disabled in the source, and not in the target.
pub const SWITCH_FOREIGN_KEY_DISABLED: i32 = 4969;
/// The source does not have a check constraint of the target's table.
pub const SWITCH_CHECK: i32 = 4970;
/// The source does not have a check constraint of a column of the target.
pub const SWITCH_COLUMN_CHECK: i32 = 4971;
/// The source has another check constraint on the column.
pub const SWITCH_OTHER_CHECK: i32 = 4972;
/// The range of the source's partition is not within that of the target's.
pub const SWITCH_NOT_SUBSET: i32 = 4973;
/// A foreign key of the source is not trusted, and that of the target is.
pub const SWITCH_FOREIGN_KEY_NOT_TRUSTED: i32 = 4974;
/// A check constraint is NOT FOR REPLICATION in only one table.
pub const SWITCH_CHECK_REPLICATION: i32 = 4975;
/// The source has rows that do not belong in the partition of the target.
pub const SWITCH_RANGE: i32 = 4982;
/// An index is partitioned differently from its table.
pub const SWITCH_NOT_ALIGNED: i32 = 7733;
/// The database '%s' does not exist. Supply a valid database name.
pub const NO_SUCH_DATABASE: i32 = 15010;
/// System databases master, model, msdb, and tempdb cannot be detached.
pub const CANNOT_DETACH_SYSTEM: i32 = 7940;
/// Cannot detach the database because it is currently in use.
pub const CANNOT_DETACH_IN_USE: i32 = 3703;
/// Cannot detach a suspect or recovery pending database.
pub const CANNOT_DETACH_SUSPECT: i32 = 3707;
/// Could not open new database '%s'. CREATE DATABASE is aborted.
pub const CANNOT_OPEN_NEW_DATABASE: i32 = 1813;
/// '%s' is not a primary database file.
pub const NOT_A_PRIMARY_FILE: i32 = 5171;
/// One or more files do not match the primary file of the database.
pub const FILES_DO_NOT_MATCH: i32 = 5173;
/// ALTER DATABASE failed because a lock could not be placed on database '%s'.
pub const DATABASE_NOT_LOCKED: i32 = 5061;
/// Database '%s' cannot be opened because it is offline.
pub const DATABASE_OFFLINE: i32 = 942;
/// Database '%s' is in transition. Try the statement later.
pub const DATABASE_IN_TRANSITION: i32 = 952;
/// Version store is full. New version(s) could not be added.
pub const VERSION_STORE_FULL: i32 = 3959;
/// Failed to update database '%s' because the database is read-only.
pub const DATABASE_READ_ONLY: i32 = 3906;
/// Could not drop object '%s' because it is referenced by a FOREIGN KEY constraint.
pub const REFERENCED_TABLE: i32 = 3726;
/// The constraint '%s' is being referenced by table '%s', foreign key constraint '%s'.
pub const REFERENCED_KEY: i32 = 3725;
/// Cannot truncate table '%s' because it is being referenced by a FOREIGN KEY constraint.
pub const TRUNCATE_REFERENCED: i32 = 4712;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    /// Each number of a text, and those between the ends of `11700 to 11708`.
    fn numbers_of(text: &str) -> HashSet<i32> {
        let mut found = HashSet::new();
        let mut previous = None;
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            let (between, from) = rest.split_at(start);
            let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
            if let Ok(number) = from[..end].parse::<i32>() {
                found.extend(previous.filter(|_| between == " to ").unwrap_or(number)..=number);
                previous = Some(number);
            }
            rest = &from[end..];
        }
        found
    }

    #[test]
    fn the_manual_lists_every_number() {
        let listed = numbers_of(include_str!("../../../docs/errors.md"));
        let mut missing: Vec<i32> = include_str!("number.rs")
            .lines()
            .filter_map(|line| {
                line.strip_prefix("pub const ")?.split_once(": i32 = ")?.1.strip_suffix(';')?.parse().ok()
            })
            .filter(|number| !listed.contains(number))
            .collect();
        missing.sort_unstable();
        assert_eq!(missing, [], "docs/errors.md does not say when these errors come");
    }
}
