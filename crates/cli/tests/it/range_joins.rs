//! Joins by ranges and without equations return the same rows as a cross product followed by the condition, whether
//! they look up, sort, or compare every pair.

use hobt_base::SplitMix64;

use crate::client::{instance_with, ok, pick, setting, used};

/// Points with indexes, and intervals, some of them empty and some open.
fn tables(seed: u64) -> Vec<String> {
    let base = match seed % 4 {
        0 => "CREATE CLUSTERED INDEX c ON p (i)",
        1 => "CREATE CLUSTERED INDEX c ON p (i DESC, s) ON ps (i)",
        2 => "CREATE INDEX ii ON p (i) INCLUDE (s, n)",
        _ => "CREATE CLUSTERED INDEX c ON p (s, i)",
    };
    let points = if seed.is_multiple_of(2) { 6000 } else { 700 };
    let lines = if seed.is_multiple_of(3) { 40 } else { 300 };
    vec![
        "CREATE PARTITION FUNCTION pf (int) AS RANGE LEFT FOR VALUES (-100, 0, 300)".to_owned(),
        "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])".to_owned(),
        "CREATE TABLE p (i int NULL, s smallint NOT NULL, n decimal(9, 2) NULL, t varchar(12) NULL, d datetime2(3) NULL,
         filler char(40) NOT NULL)"
            .to_owned(),
        base.to_owned(),
        format!(
            "INSERT p SELECT CASE WHEN value % 19 <> 0 THEN CAST(value * 7919 % 2000 - 1000 AS int) END, value % 50,
             CASE WHEN value % 23 <> 0 THEN value * 131 % 2000 / 3.0 END, 'k' + CAST(value % 900 AS varchar(9)),
             DATEADD(hour, value % 500, '2020-01-01'), 'f' FROM GENERATE_SERIES(1, {points})"
        ),
        "CREATE INDEX ixn ON p (n) INCLUDE (s, i); CREATE INDEX ixt ON p (t, s); CREATE INDEX ixd ON p (d DESC)"
            .to_owned(),
        "CREATE TABLE l (lo int NULL, hi int NULL, b bigint NULL, c bigint NULL, m decimal(12, 4) NULL,
         t nvarchar(20) NULL, d datetime2(3) NOT NULL, k int NOT NULL)"
            .to_owned(),
        format!(
            "INSERT l SELECT CASE WHEN value % 17 <> 0 THEN value * 613 % 2100 - 1050 END,
             CASE WHEN value % 13 <> 0 THEN value * 613 % 2100 - 1050 + value % 40 - 2 END,
             CASE WHEN value % 29 = 0 THEN 5000000000 ELSE value * 77 % 2000 - 1000 END, value * 77 % 2000 - 990,
             value * 10.0 / 7, N'K' + CAST(value * 3 AS nvarchar(9)) + N' ', DATEADD(hour, value * 3 % 480, '2020-01-01'),
             value % 50 FROM GENERATE_SERIES(1, {lines})"
        ),
    ]
}

fn condition(random: &mut SplitMix64) -> &'static str {
    pick(
        random,
        &[
            "p.i BETWEEN l.lo AND l.hi",
            "p.i >= l.lo AND p.i < l.hi",
            "l.hi > p.i AND l.lo < p.i",
            "p.i BETWEEN l.b AND l.c",
            "p.n BETWEEN l.m AND l.m + 3",
            "p.n > l.m AND p.n <= l.m + 2 AND p.s <> l.k",
            "p.d >= l.d AND p.d < DATEADD(day, 1, l.d)",
            "p.t >= l.t AND p.t <= l.t + 'z'",
            "p.s = 7 AND p.i BETWEEN l.lo AND l.hi",
            "p.i + p.s BETWEEN l.lo AND l.hi",
            "p.i < l.lo AND l.k = 3 AND p.s = 4",
            "p.i BETWEEN l.lo AND l.lo",
            "l.lo <= p.i + 3 AND l.hi >= p.i - 3",
        ],
    )
}

/// A query of a random kind with the join condition `on` and the condition `few` on the lines.
fn asking<'f>(random: &mut SplitMix64, few: &'f str) -> impl Fn(&str) -> String + use<'f> {
    let kind = random.below(6);
    move |on| match kind {
        0 | 1 => format!("SELECT COUNT(*), SUM(p.i), SUM(l.k), MAX(p.n) FROM l JOIN p ON {on}{few}"),
        2 => format!(
            "SELECT l.k, COUNT(*), COUNT(p.s), SUM(p.i) FROM l LEFT JOIN p ON {on}{few} GROUP BY l.k ORDER BY l.k"
        ),
        3 => format!("SELECT p.s, COUNT(*), COUNT(l.k) FROM l FULL JOIN p ON {on}{few} GROUP BY p.s ORDER BY p.s"),
        4 => format!("SELECT COUNT(*), SUM(k), SUM(lo) FROM l WHERE EXISTS (SELECT 1 FROM p WHERE {on}){few}"),
        _ => format!("SELECT COUNT(*), SUM(i) FROM p WHERE NOT EXISTS (SELECT 1 FROM l WHERE {on}{few})"),
    }
}

/// Runs `HOBT_RANGE_SEEDS` seeds, beginning with `HOBT_SEED`.
#[test]
fn ranges_bring_what_a_product_brings() {
    let (first, count) = (setting("HOBT_SEED", 0), setting("HOBT_RANGE_SEEDS", 4));
    let (mut sorted, mut looked_up, mut asked) = (0, 0, 0);
    for seed in first..first + count {
        let (_folder, instance) = instance_with("");
        let session = &mut used(&instance);
        for batch in tables(seed) {
            ok(session, &batch);
        }
        let mut random = SplitMix64::new(seed);
        for _ in 0..14 {
            let on = condition(&mut random);
            let few = pick(&mut random, &["", " AND l.k < 3", " AND l.k = 7"]);
            let query = asking(&mut random, few);
            // No rule recognises a bound in it.
            let expected = ok(session, &query(&format!("CASE WHEN {on} THEN 1 ELSE 0 END > l.k * 0")));
            let hint = pick(&mut random, &["", " OPTION (LOOP JOIN)", " OPTION (MAXDOP 1)"]);
            let query = format!("{}{hint}", query(on));
            assert_eq!(ok(session, &query), expected, "seed {seed}: {query}");
            ok(session, "SET SHOWPLAN_TEXT ON");
            let plan: String = ok(session, &query).concat().concat();
            ok(session, "SET SHOWPLAN_TEXT OFF");
            asked += 1;
            sorted += usize::from(plan.contains("Index Spool"));
            let looks_up = ["OUTER REFERENCES", ".[p].[", "Index Seek"].iter().all(|part| plan.contains(part));
            looked_up += usize::from(looks_up);
        }
    }
    assert!(sorted * 4 > asked, "{sorted} of {asked} are sorted");
    assert!(looked_up * 8 > asked, "{looked_up} of {asked} look up");
}

/// The script of the hash functions counts values by 65,536 ranges of integers. Comparing all pairs takes three
/// thousand million steps; finding them takes few.
#[test]
fn values_are_counted_by_their_ranges() {
    const VALUES: u32 = 50_000;
    let (_folder, instance) = instance_with("");
    let mut session = used(&instance);
    ok(&mut session, "CREATE TABLE buckets (id int NOT NULL, low int NOT NULL, high int NOT NULL)");
    ok(
        &mut session,
        "INSERT buckets SELECT value, (value - 1 - 32768) * 65536, (value - 32768) * CAST(65536 AS bigint) - 1
         FROM GENERATE_SERIES(1, 65536)",
    );
    ok(&mut session, "CREATE TABLE hashes (id int IDENTITY(1, 1), hash int)");
    let spread = "CAST(value * CAST(2654435761 AS bigint) % 4294967296 - 2147483648 AS int)";
    ok(&mut session, &format!("INSERT hashes (hash) SELECT {spread} FROM GENERATE_SERIES(1, {VALUES})"));
    let count = "SELECT COUNT(*), SUM(observed), SUM(CASE WHEN observed = 0 THEN 1 ELSE 0 END), MAX(observed)
                 FROM (SELECT b.id, COUNT(h.hash) AS observed FROM buckets b LEFT JOIN hashes h
                       ON h.hash BETWEEN b.low AND b.high GROUP BY b.id) x";
    let by_hand = "SELECT 65536, SUM(observed), 65536 - COUNT(*), MAX(observed)
                   FROM (SELECT COUNT(*) AS observed FROM hashes
                         GROUP BY (CAST(hash AS bigint) + 2147483648) / 65536) x";
    let expected = ok(&mut session, by_hand);
    assert_eq!(expected[0][1], VALUES.to_string());
    assert_eq!(ok(&mut session, count), expected);
    ok(&mut session, "CREATE CLUSTERED INDEX cix ON hashes (hash)");
    for hint in ["", " OPTION (LOOP JOIN)", " OPTION (MAXDOP 1, LOOP JOIN)"] {
        assert_eq!(ok(&mut session, &format!("{count}{hint}")), expected, "{hint}");
    }
}
