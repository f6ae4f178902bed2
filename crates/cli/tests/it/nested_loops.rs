//! Nested loops chosen by an outdated estimate return the same rows as a hash join. The ascending-key script runs as a
//! whole, with the histogram of one table put into another.

use hobt::Session;
use hobt_base::SplitMix64;

use crate::client::{instance_with, number, ok, pick, used};

/// Facts of ten days with statistics, and of one more day that the statistics do not include. Also a table for lookups.
fn tables(seed: u64) -> Vec<String> {
    let facts = |day: &str, rows: u32| {
        format!(
            "INSERT o (d, i, s, b, t, n) SELECT {day}, CASE WHEN value % 11 <> 0 THEN value * 7919 % 9000 - 50 END,
             value % 300, value % 400 * CAST(10 AS bigint),
             CASE WHEN value % 13 <> 0 THEN N'key' + CAST(value % 5000 AS nvarchar(9)) + N' ' END, value / 32.0
             FROM GENERATE_SERIES(1, {rows})"
        )
    };
    let mut batches = vec![
        "CREATE PARTITION FUNCTION pf (int) AS RANGE LEFT FOR VALUES (3, 10, 3000)".to_owned(),
        "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])".to_owned(),
        "CREATE TABLE o (d int NOT NULL, i int NULL, s smallint NOT NULL, b bigint NOT NULL, t nvarchar(20) NULL,
         n decimal(12, 4) NULL)"
            .to_owned(),
    ];
    batches.push(match seed % 3 {
        0 => "CREATE CLUSTERED INDEX c ON o (d)".to_owned(),
        1 => "CREATE CLUSTERED INDEX c ON o (d) ON ps (d)".to_owned(),
        // A scan of a heap stays parallel.
        _ => "CREATE STATISTICS s ON o (d)".to_owned(),
    });
    batches.push(facts("1 + value % 10", 4000));
    batches.push("UPDATE STATISTICS o WITH FULLSCAN, NORECOMPUTE".to_owned());
    batches.push(
        "CREATE TABLE x (i int NOT NULL, s smallint NOT NULL, b bigint NOT NULL, t varchar(20) NULL, n decimal(9, 2) NULL,
         filler char(150) NOT NULL)"
            .to_owned(),
    );
    let on = if seed % 5 == 1 { " ON ps (i)" } else { "" };
    let base = match seed % 4 {
        0 => format!("CREATE UNIQUE CLUSTERED INDEX c ON x (i){on}"),
        1 => format!("CREATE CLUSTERED INDEX c ON x (i DESC, b){on}"),
        2 => "CREATE INDEX ii ON x (i) INCLUDE (s)".to_owned(),
        _ => "CREATE UNIQUE CLUSTERED INDEX c ON x (s, i)".to_owned(),
    };
    batches.extend([base, "CREATE INDEX ib ON x (b, i DESC)".to_owned(), "CREATE INDEX it ON x (t)".to_owned()]);
    batches.extend([
        "INSERT x SELECT value, value % 7, value % 500, 'KEY' + CAST(value AS varchar(9)), value / 50.0, 'f'
         FROM GENERATE_SERIES(1, 8000)"
            .to_owned(),
        "CREATE INDEX ixn ON x (n) INCLUDE (s, b)".to_owned(),
        "DELETE x WHERE i % 17 = 5".to_owned(),
        "ALTER DATABASE d SET HOBT_STATISTICS_MAINTENANCE = OFF, AUTO_UPDATE_STATISTICS OFF".to_owned(),
        facts("11", 1500),
    ]);
    batches
}

fn query(random: &mut SplitMix64) -> String {
    let on = match random.below(8) {
        0 => "o.i = x.i AND x.s = 3".to_owned(),
        1 => format!("o.i = x.i AND x.b > {}", random.below(400)),
        2 => "o.b = x.b".to_owned(),
        3 => format!("o.b = x.b AND x.i BETWEEN {} AND 5000", random.below(5000)),
        4 => "o.t = x.t".to_owned(),
        5 => "o.n = x.n".to_owned(),
        6 => "o.i = x.i AND x.s IN (1, 2, 5)".to_owned(),
        _ => "o.i = x.i AND o.s <> x.s".to_owned(),
    };
    let inner = match random.below(4) {
        0 => "(SELECT i, s, b, t, n, i * 2 AS z, filler FROM x WHERE s <> 4) x",
        1 => "(SELECT i, s, b, t, n, UPPER(t) AS z, filler FROM x WHERE filler LIKE 'f%') x",
        _ => "(SELECT *, b + s AS z FROM x) x",
    };
    let (one, other) = if random.below(2) == 0 { ("o", inner) } else { (inner, "o") };
    match random.below(8) {
        // Facts without a partner are returned, with a flag or once.
        0 => {
            return format!(
                "SELECT COUNT(*), COUNT(x.i), SUM(x.b), MIN(x.z), SUM(o.b) FROM o LEFT JOIN {inner} ON {on} WHERE o.d = 11"
            );
        }
        1 => {
            return format!(
                "SELECT o.i, o.b, x.i, x.z FROM o LEFT JOIN {inner} ON {on} WHERE o.d = 11 ORDER BY o.n, o.i, x.i"
            );
        }
        2 => {
            return format!(
                "SELECT COUNT(*), SUM(o.b) FROM o WHERE o.d = 11 AND EXISTS (SELECT 1 FROM {inner} WHERE {on})"
            );
        }
        3 => {
            let not = pick(random, &["NOT ", "o.s < 20 OR "]);
            return format!(
                "SELECT COUNT(*), SUM(o.b) FROM o WHERE o.d = 11 AND ({not}EXISTS (SELECT 1 FROM {inner} WHERE {on}))"
            );
        }
        _ => {}
    }
    let from = format!("FROM {one} JOIN {other} ON {on}");
    let further = match random.below(3) {
        0 => " JOIN x y ON y.i = o.s",
        _ => "",
    };
    let condition = pick(random, &["o.d = 11", "o.d = 11 AND o.s < 250", "o.d > 10"]);
    match random.below(4) {
        0 => format!("SELECT COUNT(*), SUM(x.i), MIN(x.z), MAX(o.t) {from}{further} WHERE {condition}"),
        1 => format!("SELECT x.s, COUNT(*), SUM(o.b) {from}{further} WHERE {condition} GROUP BY x.s ORDER BY x.s"),
        2 => format!(
            "SELECT TOP 20 o.i, o.b, o.t, x.i, x.z {from}{further} WHERE {condition} ORDER BY o.b DESC, o.i, o.t, o.n, x.i"
        ),
        _ => format!("SELECT o.i, o.n, x.i, x.t, x.z {from}{further} WHERE {condition} ORDER BY o.n, x.i, o.i"),
    }
}

#[test]
fn loops_bring_what_a_hash_join_brings() {
    let (mut looped, mut asked) = (0, 0);
    for seed in 0..6 {
        let (_folder, instance) = instance_with("");
        let mut session = used(&instance);
        for batch in tables(seed) {
            ok(&mut session, &batch);
        }
        let mut random = SplitMix64::new(seed);
        for _ in 0..16 {
            let query = query(&mut random);
            let by_loops = ok(&mut session, &query);
            // More rows than an adaptive join looks up, so the lookups are done by nested loops.
            looped += number(
                &mut session,
                "SELECT COUNT(DISTINCT physical_operator_name) FROM sys.dm_exec_query_profiles
                 WHERE physical_operator_name = 'Nested Loops'",
            );
            asked += 1;
            let by_hash = ok(&mut session, &format!("{query} OPTION (HASH JOIN)"));
            assert_eq!(by_loops, by_hash, "seed {seed}: {query}");
        }
    }
    assert!(looped * 2 > asked, "{looped} of {asked} queries had loops");
}

#[test]
fn loops_see_what_a_statement_sees() {
    let (_folder, instance) = instance_with("");
    let (mut reader, mut writer) = (used(&instance), used(&instance));
    for batch in tables(0) {
        ok(&mut reader, &batch);
    }
    let query = "SELECT COUNT(*), SUM(x.b), SUM(x.s) FROM o JOIN x ON x.i = o.i WHERE o.d = 11";
    let before = ok(&mut reader, query);
    ok(
        &mut writer,
        "BEGIN TRANSACTION; UPDATE x SET b = b + 1; DELETE x WHERE i < 4000; INSERT x SELECT -1, 0, 0, 't', 0, 'f'",
    );
    assert_eq!(ok(&mut reader, query), before, "nothing of it is committed");
    let changed = ok(&mut writer, query);
    assert_ne!(changed, before, "its own changes are seen");
    assert_eq!(changed, ok(&mut writer, &format!("{query} OPTION (HASH JOIN)")));
    ok(&mut writer, "COMMIT");
    assert_eq!(ok(&mut reader, query), changed);
}

/// The join operator of a query, from its showplan, and the estimated rows of the facts.
fn planned(session: &mut Session, query: &str) -> (String, f64) {
    ok(session, "SET SHOWPLAN_ALL ON");
    let operators = ok(session, query);
    ok(session, "SET SHOWPLAN_ALL OFF");
    // Of the columns, 4 is the operator, 5 its kind, 8 the rows.
    let join = operators.iter().find(|row| row[5].ends_with("Join")).expect("a join")[4].clone();
    let reads = |row: &&Vec<String>| {
        row[0].contains("OBJECT:([d].[dbo].[fact]") && (row[4].ends_with("Seek") || row[4].ends_with("Scan"))
    };
    let facts = operators.iter().find(reads).expect("it reads the facts");
    (join, facts[8].parse().expect("a number"))
}

/// The script of the ascending key, with this many rows per day.
fn script(session: &mut Session, first_bound: u32, (rows, customers): (u32, u32)) {
    let bounds: Vec<String> = (first_bound..first_bound + 14).map(|day| day.to_string()).collect();
    let bounds = bounds.join(", ");
    for batch in [
        format!("CREATE PARTITION FUNCTION daily (int) AS RANGE RIGHT FOR VALUES ({bounds})"),
        "CREATE PARTITION SCHEME daily_scheme AS PARTITION daily ALL TO ([PRIMARY])".to_owned(),
        "CREATE TABLE fact (date_sk int NOT NULL, customer_sk int NOT NULL,
         payload char(80) NOT NULL DEFAULT REPLICATE('X', 80), measure money NULL)
         EXEC sp_autostats 'fact', 'OFF'
         CREATE CLUSTERED INDEX by_day ON fact (date_sk) ON daily_scheme (date_sk)"
            .to_owned(),
        "CREATE TABLE customer (customer_sk int NOT NULL, shoe_size int NOT NULL)
         CREATE UNIQUE CLUSTERED INDEX by_customer ON customer (customer_sk)
         CREATE TABLE one_day (date_sk int NOT NULL, customer_sk int NOT NULL, measure money NULL)"
            .to_owned(),
        format!(
            "DECLARE @i int = 0
             WHILE @i < {rows} BEGIN
               INSERT one_day VALUES ('20000101', {customers} * RAND(), RAND() * 1000)
               SET @i = @i + 1
             END
             SET @i = 0
             WHILE @i < {customers} BEGIN
               INSERT customer VALUES (@i, 36 + @i % 15)
               SET @i = @i + 1
             END
             SET @i = 0
             WHILE @i < 10 BEGIN
               INSERT fact (date_sk, customer_sk, measure) SELECT 20010101 + @i, customer_sk, measure FROM one_day
               SET @i = @i + 1
             END"
        ),
        "UPDATE STATISTICS fact WITH FULLSCAN; UPDATE STATISTICS customer; DBCC FREEPROCCACHE".to_owned(),
    ] {
        ok(session, &batch);
    }
}

fn implant(session: &mut Session) -> String {
    ok(session, "CREATE TABLE implant (date_sk int NOT NULL, payload char(4000) NOT NULL DEFAULT 'X')");
    ok(session, "CREATE CLUSTERED INDEX by_day ON implant (date_sk)");
    ok(
        session,
        "DECLARE @year int = 1950, @row int
         WHILE @year < 2050 BEGIN
           SET @row = 0
           WHILE @row < 5 BEGIN
             INSERT implant (date_sk) VALUES (@year * 10000)
             INSERT implant (date_sk) VALUES (@year * 10000 + 5000)
             SET @row = @row + 1
           END
           SET @year = @year + 1
         END",
    );
    ok(session, "UPDATE STATISTICS implant WITH ROWCOUNT = 199000000");
    ok(session, "UPDATE STATISTICS implant WITH SAMPLE 99 PERCENT");
    let header = ok(session, "DBCC SHOW_STATISTICS (implant, by_day) WITH STAT_HEADER");
    assert_eq!(header[0][2], "199000000", "{header:?}");
    ok(session, "DBCC SHOW_STATISTICS (implant, by_day) WITH STATS_STREAM")[0][0].clone()
}

#[test]
fn the_script_of_the_ascending_key_runs_whole() {
    let (rows, customers) = (1200, 3000);
    let query = |day: u32| {
        format!(
            "SELECT c.shoe_size, SUM(measure) FROM fact f JOIN customer c ON f.customer_sk = c.customer_sk
             WHERE f.date_sk = {day} AND c.shoe_size = 43 GROUP BY c.shoe_size"
        )
    };
    for first_bound in [20000101, 20010101] {
        let (_folder, instance) = instance_with("");
        let mut session = used(&instance);
        ok(&mut session, "ALTER DATABASE d SET HOBT_STATISTICS_MAINTENANCE = OFF, AUTO_UPDATE_STATISTICS OFF");
        script(&mut session, first_bound, (rows, customers));
        let (fresh, estimate) = planned(&mut session, &query(20010101));
        assert_eq!(fresh, "Adaptive Join", "as many rows as a join finds out about");
        assert!((0.8..1.2).contains(&(estimate / f64::from(rows))), "{estimate}");
        let first_day = ok(&mut session, &query(20010101));
        ok(
            &mut session,
            "INSERT fact (date_sk, customer_sk, measure) SELECT 20010111, customer_sk, measure FROM one_day",
        );
        assert_eq!(planned(&mut session, &query(20010111)), ("Nested Loops".to_owned(), 1.0), "{first_bound}");
        assert_eq!(ok(&mut session, &query(20010111)), first_day);
        ok(&mut session, "DBCC TRACEON (2389)");
        let (flagged, estimate) = planned(&mut session, &query(20010111));
        assert_eq!(flagged, "Adaptive Join");
        assert!((0.8..1.2).contains(&(estimate / f64::from(rows))), "{estimate}");
        ok(&mut session, "DBCC TRACEOFF (2389)");
        assert_eq!(ok(&mut session, "DBCC SHOW_STATISTICS (fact, by_day) WITH HISTOGRAM").len(), 10);
        let stream = implant(&mut session);
        ok(&mut session, &format!("UPDATE STATISTICS fact by_day WITH STATS_STREAM = {stream}"));
        ok(&mut session, "UPDATE STATISTICS fact by_day WITH PAGECOUNT = 200000000");
        let steps = ok(&mut session, "DBCC SHOW_STATISTICS (fact, by_day) WITH HISTOGRAM");
        assert_eq!(steps.len(), 200, "{first_bound}");
        let between = |step: &[String]| step[1].parse::<f64>().is_ok_and(|rows| rows > 900_000.0);
        assert!(steps[1..].iter().all(|step| between(step)), "rows lie between the values: {:?}", &steps[..3]);
        let (transplanted, estimate) = planned(&mut session, &query(20010111));
        assert_eq!(transplanted, "Adaptive Join");
        assert!(estimate > 20.0, "{estimate}");
        assert_eq!(ok(&mut session, &query(20010111)), first_day);
    }
}
