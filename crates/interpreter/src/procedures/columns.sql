CREATE PROCEDURE sp_columns @table_name nvarchar(384), @table_owner nvarchar(384) = NULL, @table_qualifier nvarchar(128) = NULL,
    @column_name nvarchar(384) = NULL, @ODBCVer int = 2 AS
-- ODBC's number of each type, its number in the protocol (NOT NULL, NULL), and how many bytes a client's value takes where
-- that does not follow from its precision. ODBC 2 knows no date, time and datetime2: they are nvarchar.
WITH types AS (
    SELECT name, code, code3, fixed, nullable, bytes, radix FROM (VALUES
        ('bit', -7, -7, 50, 50, 1, NULL), ('tinyint', -6, -6, 48, 38, 1, 10), ('smallint', 5, 5, 52, 38, 2, 10),
        ('int', 4, 4, 56, 38, 4, 10), ('bigint', -5, -5, 63, 108, 8, 10), ('decimal', 3, 3, 55, 106, NULL, 10),
        ('numeric', 2, 2, 63, 108, NULL, 10), ('money', 3, 3, 60, 110, 21, 10), ('smallmoney', 3, 3, 122, 110, 12, 10),
        ('real', 7, 7, 59, 109, 4, 2), ('float', 6, 6, 62, 109, 8, 2), ('datetime', 11, 93, 61, 111, 16, NULL),
        ('smalldatetime', 11, 93, 58, 111, 16, NULL), ('date', -9, 91, 0, 0, NULL, NULL), ('time', -9, -154, 0, 0, NULL, NULL),
        ('datetime2', -9, 93, 0, 0, NULL, NULL), ('char', 1, 1, 47, 39, NULL, NULL), ('varchar', 12, 12, 39, 39, NULL, NULL),
        ('nchar', -8, -8, 39, 39, NULL, NULL), ('nvarchar', -9, -9, 39, 39, NULL, NULL), ('binary', -2, -2, 45, 37, NULL, NULL),
        ('varbinary', -3, -3, 37, 37, NULL, NULL), ('uniqueidentifier', -11, -11, 37, 37, 16, NULL)
    ) AS t (name, code, code3, fixed, nullable, bytes, radix)
), sized AS (
    SELECT c.*, t.code, t.code3, t.fixed, t.nullable, t.radix,
        CASE c.DATA_TYPE WHEN 'bit' THEN 1 WHEN 'uniqueidentifier' THEN 36 WHEN 'datetime' THEN 23 WHEN 'smalldatetime' THEN 16
            WHEN 'date' THEN 10 WHEN 'time' THEN 8 + SIGN(c.DATETIME_PRECISION) + c.DATETIME_PRECISION
            WHEN 'datetime2' THEN 19 + SIGN(c.DATETIME_PRECISION) + c.DATETIME_PRECISION
            ELSE CASE WHEN c.CHARACTER_MAXIMUM_LENGTH = -1 THEN CASE LEFT(c.DATA_TYPE, 1) WHEN 'n' THEN 1073741823 ELSE 2147483647 END
                ELSE COALESCE(c.CHARACTER_MAXIMUM_LENGTH, c.NUMERIC_PRECISION) END END AS digits,
        CASE WHEN c.CHARACTER_MAXIMUM_LENGTH = -1 THEN CASE LEFT(c.DATA_TYPE, 1) WHEN 'n' THEN 2147483646 ELSE 2147483647 END
            ELSE c.CHARACTER_OCTET_LENGTH END AS octets,
        t.bytes
    FROM INFORMATION_SCHEMA.COLUMNS AS c JOIN types AS t ON t.name = c.DATA_TYPE
    WHERE c.TABLE_NAME LIKE @table_name AND (@table_owner IS NULL OR c.TABLE_SCHEMA LIKE @table_owner)
        AND (@table_qualifier IS NULL OR c.TABLE_CATALOG = @table_qualifier) AND (@column_name IS NULL OR c.COLUMN_NAME LIKE @column_name)
)
SELECT CAST(s.TABLE_CATALOG AS sysname) AS TABLE_QUALIFIER, CAST(s.TABLE_SCHEMA AS sysname) AS TABLE_OWNER,
    CAST(s.TABLE_NAME AS sysname) AS TABLE_NAME, CAST(s.COLUMN_NAME AS sysname) AS COLUMN_NAME,
    CAST(CASE @ODBCVer WHEN 3 THEN s.code3 ELSE s.code END AS smallint) AS DATA_TYPE,
    CAST(s.DATA_TYPE + CASE WHEN COLUMNPROPERTY(OBJECT_ID(QUOTENAME(s.TABLE_SCHEMA) + '.' + QUOTENAME(s.TABLE_NAME)), s.COLUMN_NAME, 'IsIdentity') = 1
        THEN ' identity' ELSE '' END AS sysname) AS TYPE_NAME,
    s.digits AS [PRECISION],
    COALESCE(s.bytes, s.octets, CASE WHEN s.DATA_TYPE IN ('decimal', 'numeric') THEN s.digits + 2
        WHEN @ODBCVer <> 3 THEN 2 * s.digits ELSE CASE s.DATA_TYPE WHEN 'date' THEN 6 WHEN 'time' THEN 12 ELSE 16 END END) AS LENGTH,
    CAST(CASE WHEN s.DATA_TYPE = 'bit' THEN NULL WHEN s.DATA_TYPE IN ('money', 'smallmoney') THEN 4
        ELSE COALESCE(s.NUMERIC_SCALE, s.DATETIME_PRECISION) END AS smallint) AS SCALE,
    CAST(s.radix AS smallint) AS RADIX, CAST(CASE s.IS_NULLABLE WHEN 'YES' THEN 1 ELSE 0 END AS smallint) AS NULLABLE,
    CAST(NULL AS varchar(254)) AS REMARKS, s.COLUMN_DEFAULT AS COLUMN_DEF,
    CAST(CASE WHEN s.DATA_TYPE IN ('datetime', 'smalldatetime') OR @ODBCVer = 3 AND s.DATA_TYPE IN ('date', 'datetime2') THEN 9
        ELSE CASE @ODBCVer WHEN 3 THEN s.code3 ELSE s.code END END AS smallint) AS SQL_DATA_TYPE,
    CAST(CASE WHEN s.DATA_TYPE IN ('datetime', 'smalldatetime') OR @ODBCVer = 3 AND s.DATA_TYPE = 'datetime2' THEN 3
        WHEN @ODBCVer = 3 AND s.DATA_TYPE = 'date' THEN 1 END AS smallint) AS SQL_DATETIME_SUB,
    s.octets AS CHAR_OCTET_LENGTH, s.ORDINAL_POSITION, CAST(s.IS_NULLABLE AS varchar(254)) AS IS_NULLABLE,
    CAST(CASE s.IS_NULLABLE WHEN 'YES' THEN s.nullable ELSE s.fixed END AS tinyint) AS SS_DATA_TYPE
FROM sized AS s ORDER BY s.TABLE_CATALOG, s.TABLE_SCHEMA, s.TABLE_NAME, s.ORDINAL_POSITION
