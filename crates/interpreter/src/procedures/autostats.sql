IF @flagc IS NOT NULL AND UPPER(@flagc) NOT IN ('ON', 'OFF')
BEGIN
    RAISERROR(17000, 16, 1)
    RETURN 1
END
IF @indname IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sys.stats WHERE object_id = @id AND name = @indname)
BEGIN
    RAISERROR(15323, 16, 1, @tblname)
    RETURN 1
END
IF @flagc IS NOT NULL
BEGIN
    EXEC sys.sp_hobt_set_autostats @id, @flagc, @indname
    PRINT N'Automatic statistics maintenance turned ' + UPPER(@flagc) + N' for ' + CAST((SELECT COUNT(*) FROM sys.stats WHERE object_id = @id AND (@indname IS NULL OR name = @indname)) AS nvarchar(12)) + N' indices.'
    RETURN 0
END
PRINT N'Global statistics settings for [' + DB_NAME() + N']:'
SELECT CASE n.value WHEN 1 THEN N'  Automatic update statistics: ' + CASE d.is_auto_update_stats_on WHEN 1 THEN N'ON' ELSE N'OFF' END
        ELSE N'  Automatic create statistics: ' + CASE d.is_auto_create_stats_on WHEN 1 THEN N'ON' ELSE N'OFF' END END AS setting
    FROM sys.databases AS d CROSS JOIN GENERATE_SERIES(1, 2) AS n WHERE d.database_id = DB_ID() ORDER BY n.value
SELECT QUOTENAME(s.name) AS [Index Name], CASE s.no_recompute WHEN 1 THEN 'OFF' ELSE 'ON' END AS AUTOSTATS, STATS_DATE(s.object_id, s.stats_id) AS [Last Updated]
FROM sys.stats AS s WHERE s.object_id = @id AND (@indname IS NULL OR s.name = @indname) ORDER BY s.stats_id
RETURN 0
