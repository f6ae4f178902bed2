CREATE PROCEDURE sp_hobt_hash_distribute @table nvarchar(776), @column nvarchar(128), @partitions int,
    @function nvarchar(128) = N'hobt_xxhash3', @filegroup nvarchar(128) = N'PRIMARY', @hash_column nvarchar(128) = N'hobt_hash' AS
SET NOCOUNT ON
DECLARE @id int = OBJECT_ID(@table), @database nvarchar(128) = DB_NAME()
IF NOT EXISTS (SELECT 1 FROM sys.tables WHERE object_id = @id)
BEGIN
    RAISERROR('The object ''%s'' does not exist in database ''%s'' or is invalid for this operation. Name a table.', 16, 1, @table, @database)
    RETURN 1
END
DECLARE @type nvarchar(128), @nullable bit, @column_id int
SELECT @type = t.name, @nullable = c.is_nullable, @column_id = c.column_id, @column = c.name
FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id WHERE c.object_id = @id AND c.name = @column
IF @column_id IS NULL
BEGIN
    RAISERROR('The table ''%s'' has no column ''%s''.', 16, 1, @table, @column)
    RETURN 1
END
IF @partitions IS NULL OR @partitions NOT BETWEEN 2 AND 15000
BEGIN
    RAISERROR('%d is no number of partitions to distribute over. Use 2 to 15000.', 16, 1, @partitions)
    RETURN 1
END
IF @hash_column IS NULL OR @filegroup IS NULL OR @function IS NULL
BEGIN
    RAISERROR('@function, @filegroup and @hash_column are names: leave them out where the default is meant.', 16, 1)
    RETURN 1
END
DECLARE @scheme_now nvarchar(128)
SELECT @scheme_now = s.name FROM sys.indexes AS i JOIN sys.partition_schemes AS s ON s.data_space_id = i.data_space_id
WHERE i.object_id = @id AND i.index_id < 2
IF @scheme_now IS NOT NULL
BEGIN
    RAISERROR('The table ''%s'' is partitioned already, on scheme ''%s''. Move it back to a filegroup first.', 16, 1, @table, @scheme_now)
    RETURN 1
END
IF EXISTS (SELECT 1 FROM sys.columns WHERE object_id = @id AND name = @hash_column)
BEGIN
    RAISERROR('The table ''%s'' has a column ''%s'' already. Give the hash another name: @hash_column = N''…''.', 16, 1, @table, @hash_column)
    RETURN 1
END
DECLARE @value nvarchar(300) = QUOTENAME(@column), @hash nvarchar(600)
SET @hash = CASE
    WHEN @function IN (N'hobt_crc16', N'hobt_crc32', N'hobt_crc32c', N'hobt_murmur2', N'hobt_murmur3', N'hobt_xxhash3', N'CHECKSUM', N'BINARY_CHECKSUM')
        THEN @function + N'(' + @value + N')'
    WHEN @function IN (N'MD2', N'MD4', N'MD5', N'SHA', N'SHA1', N'SHA2_256', N'SHA2_512')
        THEN N'CAST(HASHBYTES(''' + @function + N''', CAST(' + @value + N' AS varbinary(max))) AS int)'
    WHEN @function = N'modulo' AND @type IN (N'tinyint', N'smallint', N'int', N'bigint') THEN @value END
IF @hash IS NULL
BEGIN
    IF @function = N'modulo'
        RAISERROR('Modulo distributes whole numbers, and column ''%s'' is of type %s. Use a hash function, such as hobt_xxhash3.', 16, 1, @column, @type)
    ELSE
        RAISERROR('''%s'' is no function to distribute by. Use hobt_crc16, hobt_crc32, hobt_crc32c, hobt_murmur2, hobt_murmur3, hobt_xxhash3, CHECKSUM, BINARY_CHECKSUM, an algorithm of HASHBYTES or modulo.', 16, 1, @function)
    RETURN 1
END
DECLARE @index nvarchar(128), @unique bit, @constraint nvarchar(20), @keys nvarchar(max), @options nvarchar(400)
SELECT @index = i.name, @unique = i.is_unique,
    @options = CONCAT(CASE WHEN i.fill_factor > 0 THEN CONCAT(N', FILLFACTOR = ', i.fill_factor) END,
        CASE i.is_padded WHEN 1 THEN N', PAD_INDEX = ON' END, CASE i.ignore_dup_key WHEN 1 THEN N', IGNORE_DUP_KEY = ON' END,
        CASE i.allow_row_locks WHEN 0 THEN N', ALLOW_ROW_LOCKS = OFF' END, CASE i.allow_page_locks WHEN 0 THEN N', ALLOW_PAGE_LOCKS = OFF' END,
        CASE i.optimize_for_sequential_key WHEN 1 THEN N', OPTIMIZE_FOR_SEQUENTIAL_KEY = ON' END),
    @constraint = CASE WHEN i.is_primary_key = 1 THEN N'PRIMARY KEY' WHEN i.is_unique_constraint = 1 THEN N'UNIQUE' END
FROM sys.indexes AS i WHERE i.object_id = @id AND i.index_id = 1
SELECT @keys = STRING_AGG(QUOTENAME(c.name) + CASE ic.is_descending_key WHEN 1 THEN N' DESC' ELSE N'' END, N', ') WITHIN GROUP (ORDER BY ic.key_ordinal)
FROM sys.index_columns AS ic JOIN sys.columns AS c ON c.object_id = ic.object_id AND c.column_id = ic.column_id
WHERE ic.object_id = @id AND ic.index_id = 1 AND ic.key_ordinal > 0
IF @unique = 1 AND NOT EXISTS (SELECT 1 FROM sys.index_columns WHERE object_id = @id AND index_id = 1 AND key_ordinal > 0 AND column_id = @column_id)
BEGIN
    RAISERROR('The unique index ''%s'' would not be unique any more: its key has no column ''%s''. Distribute by a column of its key, or make the index nonclustered first.', 16, 1, @index, @column)
    RETURN 1
END
IF @unique = 1 AND @type NOT IN (N'bit', N'tinyint', N'smallint', N'int', N'bigint', N'decimal', N'numeric', N'money', N'smallmoney',
    N'date', N'time', N'datetime', N'datetime2', N'smalldatetime', N'uniqueidentifier')
BEGIN
    RAISERROR('The unique index ''%s'' might not be unique any more: values of type %s can be equal and have other hashes. Distribute by a number, a date or a uniqueidentifier of its key, or make the index nonclustered first.', 16, 1, @index, @type)
    RETURN 1
END
DECLARE @reference nvarchar(128)
SELECT TOP (1) @reference = name FROM sys.foreign_keys WHERE referenced_object_id = @id AND key_index_id = 1
IF @reference IS NOT NULL
BEGIN
    RAISERROR('The foreign key ''%s'' refers to the key ''%s'', which would have the hash behind its columns. Drop the foreign key first.', 16, 1, @reference, @index)
    RETURN 1
END
DECLARE @name nvarchar(128), @target nvarchar(776), @on nvarchar(600), @boundaries nvarchar(max), @sql nvarchar(max)
SET @name = LEFT(N'hash_' + CAST(@partitions AS nvarchar(5)) + N'_' + OBJECT_NAME(@id), 128)
IF EXISTS (SELECT 1 FROM sys.partition_functions WHERE name = @name) OR EXISTS (SELECT 1 FROM sys.partition_schemes WHERE name = @name)
BEGIN
    RAISERROR('There is a partition function or scheme ''%s'' already. Drop both, the scheme first.', 16, 1, @name)
    RETURN 1
END
SET @target = QUOTENAME(OBJECT_SCHEMA_NAME(@id)) + N'.' + QUOTENAME(OBJECT_NAME(@id))
SET @on = N' ON ' + QUOTENAME(@name) + N' (' + QUOTENAME(@hash_column) + N')'
SELECT @boundaries = STRING_AGG(CAST(s.value AS nvarchar(max)), N', ') FROM GENERATE_SERIES(1, @partitions - 1) AS s
DECLARE @outer int = @@TRANCOUNT
BEGIN TRY
    IF @outer = 0 BEGIN TRANSACTION ELSE SAVE TRANSACTION hobt_hash_distribute
    SET @sql = N'CREATE PARTITION FUNCTION ' + QUOTENAME(@name) + N' (smallint) AS RANGE RIGHT FOR VALUES (' + @boundaries + N')'
    EXEC (@sql)
    SET @sql = N'CREATE PARTITION SCHEME ' + QUOTENAME(@name) + N' AS PARTITION ' + QUOTENAME(@name) + N' ALL TO (' + QUOTENAME(@filegroup) + N')'
    EXEC (@sql)
    SET @sql = N'ALTER TABLE ' + @target + N' ADD ' + QUOTENAME(@hash_column) + N' AS (CAST(ABS(' + @hash + N' % ' + CAST(@partitions AS nvarchar(5))
        + N') AS smallint)) PERSISTED' + CASE @nullable WHEN 0 THEN N' NOT NULL' ELSE N'' END
    EXEC (@sql)
    SET @sql = CASE
        WHEN @index IS NULL THEN N'CREATE CLUSTERED INDEX ' + QUOTENAME(@name) + N' ON ' + @target + N' (' + QUOTENAME(@hash_column) + N')' + @on
            + N'; DROP INDEX ' + QUOTENAME(@name) + N' ON ' + @target
        WHEN @constraint IS NOT NULL THEN N'ALTER TABLE ' + @target + N' DROP CONSTRAINT ' + QUOTENAME(@index) + N'; ALTER TABLE ' + @target
            + N' ADD CONSTRAINT ' + QUOTENAME(@index) + N' ' + @constraint + N' CLUSTERED (' + @keys + N', ' + QUOTENAME(@hash_column) + N')' + CASE @options WHEN N'' THEN N'' ELSE N' WITH (' + STUFF(@options, 1, 2, N'') + N')' END + @on
        ELSE N'CREATE ' + CASE @unique WHEN 1 THEN N'UNIQUE ' ELSE N'' END + N'CLUSTERED INDEX ' + QUOTENAME(@index) + N' ON ' + @target + N' (' + @keys
            + CASE @unique WHEN 1 THEN N', ' + QUOTENAME(@hash_column) ELSE N'' END + N') WITH (DROP_EXISTING = ON' + @options + N')' + @on END
    EXEC (@sql)
    IF @outer = 0 COMMIT TRANSACTION
END TRY
BEGIN CATCH
    IF @outer = 0 AND XACT_STATE() <> 0 ROLLBACK TRANSACTION
    ELSE IF XACT_STATE() = 1 ROLLBACK TRANSACTION hobt_hash_distribute;
    THROW
END CATCH
SELECT p.partition_number, p.rows, CAST(CASE WHEN a.rows > 0 THEN 100.0 * p.rows / a.rows ELSE 0 END AS decimal(9, 4)) AS percent_of_rows,
    CAST(CASE WHEN a.rows > 0 THEN 1.0 * p.rows * @partitions / a.rows ELSE 1 END AS decimal(9, 4)) AS over_even_share
FROM sys.partitions AS p CROSS JOIN (SELECT SUM(q.rows) AS rows FROM sys.partitions AS q WHERE q.object_id = @id AND q.index_id < 2) AS a
WHERE p.object_id = @id AND p.index_id < 2 ORDER BY p.partition_number
