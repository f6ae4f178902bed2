CREATE PROCEDURE sp_updatestats @resample varchar(8) = 'NO' AS
SET NOCOUNT ON
IF UPPER(@resample) NOT IN ('NO', 'RESAMPLE')
BEGIN
    RAISERROR(14138, 16, 1, @resample)
    RETURN 1
END
DECLARE @tables TABLE (id int IDENTITY, name nvarchar(300))
DECLARE @stats TABLE (id int IDENTITY, name nvarchar(128))
INSERT INTO @tables (name) SELECT QUOTENAME(SCHEMA_NAME(t.schema_id)) + N'.' + QUOTENAME(t.name) FROM sys.tables AS t ORDER BY t.name
DECLARE @i int, @n int, @table nvarchar(300), @j int, @last int, @stat nvarchar(128), @sql nvarchar(max), @updated int, @kept int
SET @i = 1
SELECT @n = COUNT(*) FROM @tables
WHILE @i <= @n
BEGIN
    SELECT @table = name FROM @tables WHERE id = @i
    PRINT N'Updating ' + @table
    SET @updated = 0
    SET @kept = 0
    DELETE FROM @stats
    INSERT INTO @stats (name) SELECT s.name FROM sys.stats AS s JOIN sys.hobt_stats_properties AS p ON p.object_id = s.object_id AND p.stats_id = s.stats_id
        WHERE s.object_id = OBJECT_ID(@table) AND (p.modification_counter > 0 OR p.last_updated IS NULL) ORDER BY s.stats_id
    SELECT @j = MIN(id), @last = MAX(id) FROM @stats
    WHILE @j <= @last
    BEGIN
        SELECT @stat = name FROM @stats WHERE id = @j
        SET @sql = N'UPDATE STATISTICS ' + @table + N' ' + QUOTENAME(@stat) + CASE UPPER(@resample) WHEN 'RESAMPLE' THEN N' WITH RESAMPLE' ELSE N'' END
        EXEC (@sql)
        PRINT N'    ' + QUOTENAME(@stat) + N' has been updated...'
        SET @updated = @updated + 1
        SET @j = @j + 1
    END
    SELECT @kept = COUNT(*) - @updated FROM sys.stats WHERE object_id = OBJECT_ID(@table)
    PRINT N'    ' + CAST(@updated AS nvarchar(12)) + N' index(es)/statistic(s) have been updated, ' + CAST(@kept AS nvarchar(12)) + N' did not require update.'
    SET @i = @i + 1
END
PRINT N'Statistics for all tables have been updated.'
RETURN 0
