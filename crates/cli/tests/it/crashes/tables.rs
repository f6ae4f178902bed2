//! The tables shared by all sessions, and the transactions on them.
//!
//! Every change by a transaction adds lines to the table `ledger` of its database, in the same transaction. Operations
//! commute, so the tables' rows follow from the ledger's lines in any order: a row's `n` is the number of lines that
//! name it, and `bal` is their sum. Its other columns follow from `n`, and so do its length, its partition and its
//! position in a tree. For rows that are inserted and deleted, the sum of the lines says whether they exist.

use hobt_base::SplitMix64;

/// Rows of the tables whose rows are only updated.
pub(super) const ROWS: i64 = 120;
/// Rows of the table of long values.
pub(super) const LONG_ROWS: i64 = 8;

/// The text of a row.
pub(super) const PAD: &str = "REPLICATE(CHAR(97 + {n} % 26), (id * 31 + {n} * 197) % 1500)";
/// A long value.
pub(super) const LONG: &str = "REPLICATE(CAST(CHAR(97 + {n} % 26) AS varchar(max)), (id * 3001 + {n} * 4327) % 25000)";
/// The key of a row in the clustered table.
pub(super) const PLACE: &str = "(id * 7919 + {n} * 10473) % 100003";
/// The partition of a row in the partitioned table.
pub(super) const PART: &str = "(id * 7 + {n} * 13) % 100";

/// An expression for a row with this `n`.
pub(super) fn at(expression: &str, n: &str) -> String {
    expression.replace("{n}", n)
}

/// The batches that create a database and its tables.
pub(super) fn setup(database: &str) -> Vec<String> {
    let (pad, long, place, part) = (at(PAD, "0"), at(LONG, "0"), at(PLACE, "0"), at(PART, "0"));
    let tables = format!(
        "USE {database};
        CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (25, 50, 75);
        CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY]);
        CREATE TABLE h (id int NOT NULL, n int NOT NULL, bal bigint NOT NULL, pad varchar(1500) NOT NULL);
        CREATE UNIQUE INDEX ux ON h (id); CREATE INDEX ix ON h (bal) INCLUDE (n);
        CREATE TABLE c (id int NOT NULL, n int NOT NULL, bal bigint NOT NULL, pad varchar(1500) NOT NULL, k int NOT NULL);
        CREATE UNIQUE CLUSTERED INDEX cl ON c (k, id); CREATE UNIQUE INDEX ux ON c (id); CREATE INDEX ix ON c (n, bal);
        CREATE TABLE p (id int NOT NULL, n int NOT NULL, bal bigint NOT NULL, pad varchar(1500) NOT NULL, part int NOT NULL,
            CONSTRAINT pk_p PRIMARY KEY CLUSTERED (part, id)) ON ps (part);
        CREATE UNIQUE INDEX ux ON p (id) ON [PRIMARY]; CREATE INDEX ix ON p (bal) INCLUDE (n);
        CREATE TABLE l (id int NOT NULL PRIMARY KEY, n int NOT NULL, bal bigint NOT NULL, pad varchar(max) NOT NULL);
        CREATE TABLE g (id int NOT NULL PRIMARY KEY, n int NOT NULL, bal bigint NOT NULL, pad varchar(1500) NOT NULL);
        CREATE INDEX ix ON g (bal) INCLUDE (n);
        CREATE TABLE q (id bigint NOT NULL, v int NOT NULL, pad varchar(400) NULL);
        CREATE UNIQUE INDEX ux ON q (id); CREATE INDEX ix ON q (v DESC);
        CREATE TABLE r (id bigint NOT NULL PRIMARY KEY, v int NOT NULL, pad varchar(400) NULL); CREATE INDEX ix ON r (v, pad);
        CREATE TABLE u (id bigint NOT NULL, v int NOT NULL, pad varchar(400) NULL); CREATE INDEX ix ON u (id);
        CREATE TABLE w (tid bigint NOT NULL, v int NOT NULL, pad varchar(400) NULL);
        CREATE TABLE x (tid bigint NOT NULL, v int NOT NULL, pad varchar(400) NULL); CREATE CLUSTERED INDEX cl ON x (v, tid);
        {LEDGER}"
    );
    let rows = format!(
        "USE {database};
        INSERT h SELECT id, 0, 0, {pad} FROM (SELECT value AS id FROM GENERATE_SERIES(1, {ROWS})) AS s;
        INSERT c SELECT id, 0, 0, {pad}, {place} FROM (SELECT value AS id FROM GENERATE_SERIES(1, {ROWS})) AS s;
        INSERT p SELECT id, 0, 0, {pad}, {part} FROM (SELECT value AS id FROM GENERATE_SERIES(1, {ROWS})) AS s;
        INSERT g SELECT id, 0, 0, {pad} FROM (SELECT value AS id FROM GENERATE_SERIES(1, {ROWS})) AS s;
        INSERT l SELECT id, 0, 0, {long} FROM (SELECT value AS id FROM GENERATE_SERIES(1, {LONG_ROWS})) AS s"
    );
    vec![create(database), format!("ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON"), tables, rows]
}

/// Creates a database with small files.
pub(super) fn create(database: &str) -> String {
    format!(
        "CREATE DATABASE {database} ON (NAME = d, FILENAME = '{database}.mdf', SIZE = 3MB, FILEGROWTH = 1MB)
         LOG ON (NAME = l, FILENAME = '{database}_log.ldf', SIZE = 2MB, FILEGROWTH = 1MB)"
    )
}

/// Creates the ledger. `op` is negative in lines whose number cannot be predicted. `lines` is the number of the
/// transaction's other lines in the database.
pub(super) const LEDGER: &str = "CREATE TABLE ledger (tid bigint NOT NULL, op int NOT NULL, lines int NOT NULL, \
    tbl char(1) NOT NULL, id bigint NOT NULL, delta bigint NOT NULL, CONSTRAINT pk_ledger PRIMARY KEY (tid, op, id));";

/// The changes of a transaction while it is generated.
pub(super) struct Changes {
    tid: i64,
    text: String,
    op: i32,
    /// Lines by database.
    lines: Vec<(String, i64)>,
    /// Whether the changes generated now will be rolled back.
    is_void: bool,
}

impl Changes {
    pub(super) fn new(tid: i64) -> Changes {
        Changes { tid, text: String::new(), op: 0, lines: Vec::new(), is_void: false }
    }

    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push_str(";\n");
    }

    /// Sets whether the changes generated from now on will be rolled back.
    pub(super) fn set_void(&mut self, is_void: bool) {
        self.is_void = is_void;
    }

    /// The text, with the numbers of lines filled in.
    pub(super) fn into_text(self) -> String {
        let all = self.lines.iter();
        all.fold(self.text, |text, (database, lines)| text.replace(&format!("<{database}>"), &lines.to_string()))
    }

    /// The next operation's number. Counts its lines.
    fn operation(&mut self, database: &str, lines: i64) -> i32 {
        self.op += 1;
        if !self.lines.iter().any(|(name, _)| name == database) {
            self.lines.push((database.to_owned(), 0));
        }
        if !self.is_void {
            let known = self.lines.iter_mut().find(|(name, _)| name == database);
            known.expect("it was added").1 += lines;
        }
        self.op
    }

    /// Lines of rolled back changes name a table that does not exist.
    fn table<'a>(&self, table: &'a str) -> &'a str {
        if self.is_void { "!" } else { table }
    }

    /// A single line.
    pub(super) fn line(&mut self, database: &str, table: &str, id: &str, delta: &str) {
        let (op, table, tid) = (self.operation(database, 1), self.table(table), self.tid);
        self.add(&format!("INSERT {database}.dbo.ledger VALUES ({tid}, {op}, <{database}>, '{table}', {id}, {delta})"));
    }

    /// Updates neighbouring rows of one of the tables with permanent rows.
    pub(super) fn update(&mut self, database: &str, random: &mut SplitMix64) {
        let table = ["h", "h", "c", "c", "p", "l"][usize::try_from(random.below(6)).expect("few")];
        let rows = if table == "l" { LONG_ROWS } else { ROWS };
        let first = 1 + random.below(rows.unsigned_abs()).cast_signed();
        let last = (first + random.below(5).cast_signed()).min(rows);
        let delta = if self.is_void { 1_000_000_000 } else { random.below(2001).cast_signed() - 1000 };
        let pad = at(if table == "l" { LONG } else { PAD }, "(n + 1)");
        let more = match table {
            "c" => format!(", k = {}", at(PLACE, "(n + 1)")),
            "p" => format!(", part = {}", at(PART, "(n + 1)")),
            _ => String::new(),
        };
        self.add(&format!(
            "UPDATE {database}.dbo.{table} SET n = n + 1, bal = bal + {delta}, pad = {pad}{more} \
             WHERE id BETWEEN {first} AND {last}"
        ));
        let (op, name, tid) = (self.operation(database, last - first + 1), self.table(table), self.tid);
        self.add(&format!(
            "INSERT {database}.dbo.ledger SELECT {tid}, {op}, <{database}>, '{name}', value, {delta} \
             FROM GENERATE_SERIES({first}, {last})"
        ));
    }

    /// Inserts rows with new ids.
    pub(super) fn insert(&mut self, database: &str, random: &mut SplitMix64) {
        let table = ["q", "r", "u"][usize::try_from(random.below(3)).expect("few")];
        let count = 1 + random.below(3).cast_signed();
        let (tid, v, length) = (self.tid, random.below(100), random.below(400));
        let op = self.operation(database, count);
        let (name, first) = (self.table(table), (tid * 100 + i64::from(op)) * 4);
        self.add(&format!(
            "INSERT {database}.dbo.{table} SELECT {first} + value, {v}, REPLICATE('i', {length}) \
             FROM GENERATE_SERIES(1, {count})"
        ));
        self.add(&format!(
            "INSERT {database}.dbo.ledger SELECT {tid}, {op}, <{database}>, '{name}', {first} + value, 1 \
             FROM GENERATE_SERIES(1, {count})"
        ));
    }

    /// Deletes rows of other transactions.
    pub(super) fn delete(&mut self, database: &str, random: &mut SplitMix64) {
        let table = ["q", "r"][usize::try_from(random.below(2)).expect("two")];
        let (op, name, tid, v) = (self.operation(database, 0), self.table(table), self.tid, random.below(100));
        self.add(&format!(
            "DELETE TOP (4) {database}.dbo.{table} OUTPUT {tid}, -{op}, 0, '{name}', deleted.id, -1 \
             INTO {database}.dbo.ledger (tid, op, lines, tbl, id, delta) WHERE v BETWEEN {v} AND {v} + 5"
        ));
    }

    /// Truncates a table, and records what was in it.
    pub(super) fn truncate(&mut self, database: &str) {
        let (op, name, tid) = (self.operation(database, 0), self.table("u"), self.tid);
        self.add(&format!(
            "INSERT {database}.dbo.ledger SELECT {tid}, -{op}, 0, '{name}', id, -1 \
             FROM {database}.dbo.u WITH (TABLOCKX, HOLDLOCK)"
        ));
        self.add(&format!("TRUNCATE TABLE {database}.dbo.u"));
    }

    /// Bulk-loads rows, replacing those of an earlier load.
    pub(super) fn load(&mut self, database: &str, random: &mut SplitMix64) {
        let table = ["w", "x"][usize::try_from(random.below(2)).expect("two")];
        let (tid, rows) = (self.tid, 1 + random.below(1500));
        let op = self.operation(database, 0);
        let name = self.table(table);
        self.add(&format!(
            "DECLARE @old{op} bigint = (SELECT MIN(tid) FROM {database}.dbo.{table} WITH (TABLOCKX, HOLDLOCK));
             DELETE {database}.dbo.{table} WHERE tid = @old{op};
             INSERT {database}.dbo.ledger SELECT {tid}, -{op}, 0, '{name}', @old{op}, -@@ROWCOUNT WHERE @old{op} IS NOT NULL"
        ));
        self.add(&format!(
            "INSERT {database}.dbo.{table} WITH (TABLOCK) SELECT {tid}, value, REPLICATE('w', value % 300) \
             FROM GENERATE_SERIES(1, {rows})"
        ));
        self.line(database, table, &tid.to_string(), &rows.to_string());
    }

    /// Creates a table with rows.
    pub(super) fn select_into(&mut self, database: &str, random: &mut SplitMix64) {
        let (tid, rows) = (self.tid, 1 + random.below(800));
        self.add(&format!(
            "SELECT value AS v, REPLICATE('t', value % 250) AS pad INTO {database}.dbo.t{tid} \
             FROM GENERATE_SERIES(1, {rows})"
        ));
        self.line(database, "t", &tid.to_string(), &rows.to_string());
    }

    /// Drops a table that an earlier transaction created.
    pub(super) fn drop_table(&mut self, database: &str, made: i64) {
        self.add(&format!("DECLARE @gone bigint = (SELECT COUNT(*) FROM {database}.dbo.t{made})"));
        self.add(&format!("DROP TABLE {database}.dbo.t{made}"));
        self.line(database, "t", &made.to_string(), "-@gone");
    }

    /// Rebuilds an index.
    pub(super) fn index(&mut self, database: &str, random: &mut SplitMix64) {
        self.add(
            match random.below(4) {
                0 => "DROP INDEX ix ON {d}.dbo.h; CREATE INDEX ix ON {d}.dbo.h (bal) INCLUDE (n)",
                1 => "DROP INDEX ix ON {d}.dbo.c; CREATE INDEX ix ON {d}.dbo.c (n, bal)",
                2 => "ALTER INDEX ALL ON {d}.dbo.q REBUILD",
                _ => "ALTER INDEX ALL ON {d}.dbo.p REBUILD",
            }
            .replace("{d}", database)
            .as_str(),
        );
        self.line(database, "i", "0", "0");
    }
}

/// A batch with a loop of many short transactions, which is cheap: one row by key each time, on the direct path. Each
/// transaction prints to the journal when it begins and ends. All `databases` are changed in the same way.
/// `paused_of_eight` of eight run `pause` before they end.
pub(super) fn looped(
    tid: i64,
    count: i64,
    databases: &[&str],
    void_of_ten: u64,
    (paused_of_eight, pause): (u64, &str),
    random: &mut SplitMix64,
) -> String {
    let (has_q, has_r, has_deletes, has_void) =
        (random.below(2) == 0, random.below(2) == 0, random.below(2) == 0, random.below(3) == 0);
    let (step, first, spread) = (1 + random.below(30), random.below(100), random.below(200));
    let lines = 1 + u8::from(has_q) + u8::from(has_r);
    let pad = at(PAD, "(n + 1)");
    let update = |d: &str, delta: &str| {
        format!("UPDATE {d}.dbo.g SET n = n + 1, bal = bal + {delta}, pad = {pad} WHERE id = @k;\n")
    };
    let mut body = String::new();
    for d in databases {
        body.push_str(&update(d, "@d"));
        body.push_str(&format!("INSERT {d}.dbo.ledger VALUES (@tid, 1, {lines}, 'g', @k, @d);\n"));
        for (op, table) in [(2, "q"), (3, "r")].into_iter().filter(|(op, _)| if *op == 2 { has_q } else { has_r }) {
            body.push_str(&format!(
                "SET @r = @tid * 400 + {op}; INSERT {d}.dbo.{table} VALUES (@r, @k, REPLICATE('i', @d % 150 + 150));
                 INSERT {d}.dbo.ledger VALUES (@tid, {op}, {lines}, '{table}', @r, 1);\n"
            ));
        }
        if has_void {
            body.push_str("SAVE TRANSACTION s;\n");
            body.push_str(&update(d, "1000000000"));
            body.push_str(&format!("INSERT {d}.dbo.ledger VALUES (@tid, 5, {lines}, '!', @k, @d);\n"));
            body.push_str("ROLLBACK TRANSACTION s;\n");
        }
        if has_r && has_deletes {
            body.push_str(&format!(
                "SET @r = (@tid - 3) * 400 + 3; DELETE {d}.dbo.r WHERE id = @r;
                 IF @@ROWCOUNT = 1 INSERT {d}.dbo.ledger VALUES (@tid, -4, 0, 'r', @r, -1);\n"
            ));
        }
    }
    if !pause.is_empty() {
        body.push_str(&format!("IF @i % 8 < {paused_of_eight} {pause};\n"));
    }
    let names = databases.join(" ");
    format!(
        "SET NOCOUNT ON; SET XACT_ABORT ON; DECLARE @i bigint = 0, @tid bigint, @k bigint, @d bigint, @r bigint;
         WHILE @i < {count} BEGIN
         SET @tid = {tid} + @i; SET @k = 1 + (@i * {step} + {first}) % {ROWS}; SET @d = (@i * 31 + {spread}) % 301 - 150;
         PRINT 'begin ' + CAST(@tid AS varchar(20)) + ' {names}';
         BEGIN TRANSACTION;
         {body}IF (@i * 7) % 10 < {void_of_ten} BEGIN ROLLBACK TRANSACTION; PRINT 'undone ' + CAST(@tid AS varchar(20)) END
         ELSE BEGIN COMMIT TRANSACTION; PRINT 'done ' + CAST(@tid AS varchar(20)) END
         SET @i = @i + 1
         END"
    )
}
