IF UPPER(@results) NOT IN ('ALL', 'STATS')
BEGIN
    RAISERROR(14138, 16, 1, @results)
    RETURN 1
END
IF NOT EXISTS (SELECT 1 FROM sys.stats AS s WHERE s.object_id = @id AND (UPPER(@results) = 'ALL' OR s.auto_created = 1 OR s.user_created = 1))
BEGIN
    IF UPPER(@results) = 'ALL'
        RAISERROR(15575, 0, 1)
    ELSE
        RAISERROR(15574, 0, 1)
    RETURN 0
END
IF UPPER(@results) = 'ALL'
    SELECT s.name AS statistics_name, STRING_AGG(COL_NAME(c.object_id, c.column_id), N', ') WITHIN GROUP (ORDER BY c.stats_column_id) AS statistics_keys
    FROM sys.stats AS s JOIN sys.stats_columns AS c ON c.object_id = s.object_id AND c.stats_id = s.stats_id WHERE s.object_id = @id GROUP BY s.name ORDER BY s.name
ELSE
    SELECT s.name AS statistics_name, STRING_AGG(COL_NAME(c.object_id, c.column_id), N', ') WITHIN GROUP (ORDER BY c.stats_column_id) AS statistics_keys
    FROM sys.stats AS s JOIN sys.stats_columns AS c ON c.object_id = s.object_id AND c.stats_id = s.stats_id
    WHERE s.object_id = @id AND (s.auto_created = 1 OR s.user_created = 1) GROUP BY s.name ORDER BY s.name
RETURN 0
