//! Estimated rows compared with actual rows: for all forms of conditions on one table, random conditions on random
//! data, joins, groups, and rows without a partner.

use hobt::{Event, Flow, Instance, ResultColumn, Session};

/// The estimated and actual rows of an operator.
#[derive(Debug)]
struct Operator {
    estimated: f64,
    rows: f64,
}

impl Operator {
    /// The ratio between actual and estimated rows, at least 1. Fewer than one row counts as one.
    fn error(&self) -> f64 {
        let (estimated, rows) = (self.estimated.max(1.0), self.rows.max(1.0));
        (estimated / rows).max(rows / estimated)
    }
}

struct World {
    session: Session,
    _instance: Instance,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(batches: &[&str]) -> World {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let instance = Instance::open(folder.path()).expect("an instance");
        let mut session = instance.session().expect("a session");
        for batch in ["CREATE DATABASE d", "USE d"].iter().chain(batches) {
            session.run(batch).unwrap_or_else(|error| panic!("{batch}: {error}"));
        }
        session.run("SET STATISTICS PROFILE ON").expect("an option");
        World { session, _instance: instance, _folder: folder }
    }

    /// The operators of a query that has run, the topmost first. Join filters are off, so they exclude no rows from the
    /// counts.
    fn operators(&mut self, query: &str) -> Vec<Operator> {
        let query = format!("{query} OPTION (MAXDOP 1, USE HINT('HOBT_DISABLE_JOIN_FILTER'))");
        let mut columns: Vec<ResultColumn> = Vec::new();
        let mut rows: Vec<Vec<Option<String>>> = Vec::new();
        self.session.execute(&query, &mut |event: Event| {
            match event {
                Event::ResultSet(of) => (columns, rows) = (of, Vec::new()),
                Event::Rows(batch) => {
                    let cell = |row, column| hobt::cell_text(&columns, &batch, row, column).expect("a text");
                    rows.extend((0..batch.num_rows()).map(|row| (0..columns.len()).map(|at| cell(row, at)).collect()));
                }
                Event::Error(error) => panic!("{query}: {error}"),
                _ => {}
            }
            Flow::Continue
        });
        let at = |name: &str| columns.iter().position(|column| column.name == name).expect("a column of a plan");
        let number = |row: &[Option<String>], name| row[at(name)].as_deref().and_then(|text| text.parse().ok());
        let is_operator = |row: &&Vec<Option<String>>| row[at("Type")].as_deref() == Some("PLAN_ROW");
        let operator = |row: &Vec<Option<String>>| {
            Some(Operator { estimated: number(row, "EstimateRows")?, rows: number(row, "Rows")? })
        };
        rows.iter().filter(is_operator).filter_map(operator).collect()
    }

    /// The topmost operator.
    fn top(&mut self, query: &str) -> Operator {
        let mut all = self.operators(query);
        assert!(!all.is_empty(), "{query} has a plan");
        all.swap_remove(0)
    }

    /// Checks for each query that the ratio between actual and estimated rows is at most the given factor.
    fn are_within<Q: AsRef<str>>(&mut self, queries: &[(Q, f64)]) {
        let wrong = queries.iter().filter_map(|(query, most)| {
            let top = self.top(query.as_ref());
            (top.error() > *most).then(|| format!("{}: {top:?}", query.as_ref()))
        });
        let wrong: Vec<String> = wrong.collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// 20,000 rows: numbers without gaps, numbers with gaps, days, times, texts, values with very different frequencies.
const TABLE: [&str; 3] = [
    "CREATE TABLE t (id int NOT NULL, even int NOT NULL, few int NOT NULL, n int NULL, ymd int NOT NULL,
       d date NOT NULL, at datetime2(0) NOT NULL, price decimal(9,2) NOT NULL,
       name varchar(40) NOT NULL, code nvarchar(10) NULL)",
    "INSERT INTO t SELECT value, value * 2, CASE WHEN value % 10 < 7 THEN 1 ELSE value % 10 END,
       CASE WHEN value % 4 = 0 THEN NULL ELSE value % 50 END,
       YEAR(DATEADD(day, value % 3000, '20150101')) * 10000 + MONTH(DATEADD(day, value % 3000, '20150101')) * 100
         + DAY(DATEADD(day, value % 3000, '20150101')),
       DATEADD(day, value % 3000, '20150101'), DATEADD(minute, value * 7, '20200101'),
       CAST(value % 900 AS decimal(9,2)) + 0.25,
       'name ' + CAST(value AS varchar(10)), CASE WHEN value % 5 = 0 THEN NULL ELSE N'c' + CAST(value % 300 AS nvarchar(5)) END
     FROM GENERATE_SERIES(1, 20000)",
    "UPDATE STATISTICS t WITH FULLSCAN",
];

#[test]
fn conditions_of_all_forms_are_estimated_by_histograms() {
    let mut world = World::new(&TABLE);
    let conditions = [
        // Negations.
        ("few <> 1", 1.1),
        ("few NOT IN (1, 7)", 1.1),
        ("n <> 3", 1.1),
        ("NOT (n = 3)", 1.1),
        ("n NOT IN (1, 2, 3)", 1.1),
        ("n IS NOT NULL", 1.1),
        ("n IS NULL", 1.1),
        ("n NOT BETWEEN 10 AND 19", 1.2),
        ("name NOT LIKE 'name 1%'", 1.2),
        ("name <> 'name 7'", 1.1),
        ("code <> N'c7'", 1.1),
        // Disjunctions on one or two columns.
        ("few = 7 OR n = 3", 1.3),
        ("id < 100 OR id > 19900", 1.1),
        ("id < 100 OR n IS NULL", 1.1),
        // Remainders.
        ("id % 2 = 0", 1.2),
        ("id % 10 = 3", 1.5),
        ("id % 10 <> 3", 1.1),
        ("even % 2 = 0", 1.1),
        ("n % 7 = 3", 1.2),
        // Monotonic expressions of the column.
        ("id + 1 = 5", 1.1),
        ("id - 10 < 90", 1.1),
        ("id / 100 = 7", 1.1),
        ("20000 - id < 100", 1.1),
        ("id * 2 > 39000", 1.1),
        ("ABS(id) = 77", 1.1),
        ("YEAR(d) = 2017", 1.1),
        ("YEAR(d) IN (2017, 2019)", 1.1),
        ("YEAR(d) <> 2017", 1.1),
        ("MONTH(d) = 2", 1.6),
        ("DATEPART(weekday, d) = 3", 1.6),
        ("DATEADD(day, 5, d) < '20150201'", 1.2),
        ("CAST(at AS date) = '20200115'", 1.2),
        ("CAST(at AS date) BETWEEN '20200115' AND '20200120'", 1.2),
        ("DATEDIFF(day, '20200101', at) = 3", 1.2),
        ("YEAR(at) = 2020", 1.1),
        ("ymd / 10000 = 2017", 1.3),
        ("ymd % 100 <= 28", 1.2),
        ("FLOOR(price) = 17", 1.4),
        ("price * 2 < 100", 1.1),
        ("price - FLOOR(price) = 0.25", 1.1),
        // Replacements of NULL.
        ("ISNULL(n, -1) = -1", 1.1),
        ("ISNULL(n, 0) = 3", 1.1),
        ("COALESCE(n, 5) = 5", 1.1),
        ("ISNULL(n, 0) <> 3", 1.1),
        ("CASE WHEN n > 25 THEN 1 ELSE 0 END = 1", 1.2),
        ("NULLIF(few, 1) IS NULL", 1.1),
        // Texts.
        ("UPPER(code) = N'C7'", 2.5),
        ("LEFT(name, 6) = 'name 1'", 1.3),
        ("LEN(name) = 9", 1.4),
        ("name LIKE '%5'", 2.0),
        ("SUBSTRING(name, 1, 4) = 'name'", 1.1),
        ("CAST(few AS varchar(10)) = '7'", 1.1),
    ];
    world.are_within(&conditions.map(|(condition, most)| (format!("SELECT id FROM t WHERE {condition}"), most)));
}

#[test]
fn groups_and_different_values_are_estimated_by_their_columns() {
    let mut world = World::new(&TABLE);
    world.are_within(&[
        ("SELECT name, COUNT(*) FROM t GROUP BY name", 1.1),
        ("SELECT code, COUNT(*) FROM t GROUP BY code", 1.1),
        ("SELECT UPPER(code), COUNT(*) FROM t GROUP BY UPPER(code)", 1.6),
        ("SELECT DISTINCT name FROM t", 1.1),
        ("SELECT DISTINCT code FROM t", 1.1),
        ("SELECT few, COUNT(*) FROM t GROUP BY few", 1.1),
        ("SELECT id % 10, COUNT(*) FROM t GROUP BY id % 10", 1.1),
        ("SELECT YEAR(d), COUNT(*) FROM t GROUP BY YEAR(d)", 1.2),
        (
            "SELECT CASE WHEN n > 3 THEN 'a' ELSE 'b' END, COUNT(*) FROM t GROUP BY CASE WHEN n > 3 THEN 'a' ELSE 'b' END",
            1.1,
        ),
        ("SELECT few, code, COUNT(*) FROM t GROUP BY few, code", 4.5),
        ("SELECT code FROM t GROUP BY code HAVING COUNT(*) > 60", 1.6),
        ("SELECT few FROM t GROUP BY few HAVING COUNT(*) > 3000", 1.1),
        ("SELECT id FROM t GROUP BY id HAVING COUNT(*) > 1", 1.1),
        ("SELECT DISTINCT id FROM t WHERE id BETWEEN 100 AND 199", 1.1),
        ("SELECT code FROM t WHERE id < 10001 GROUP BY code", 1.1),
    ]);
}

#[test]
fn joins_of_texts_and_rows_without_partners_are_estimated() {
    let mut world = World::new(&[
        "CREATE TABLE customer (code varchar(20) NOT NULL, wide nvarchar(40) NOT NULL, region int NOT NULL)",
        "CREATE TABLE sale (id int NOT NULL, customer varchar(20) NULL, qty int NOT NULL)",
        "CREATE TABLE parent (a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b))",
        "CREATE TABLE child (a int NOT NULL, b int NOT NULL, n int NOT NULL, FOREIGN KEY (a, b) REFERENCES parent (a, b))",
        "INSERT INTO customer SELECT 'c' + CAST(value AS varchar(10)), N'c' + CAST(value AS nvarchar(10)), value % 10
           FROM GENERATE_SERIES(1, 3000)",
        "INSERT INTO sale SELECT value, CASE WHEN value % 10 = 0 THEN NULL ELSE 'c' + CAST(value % 2000 AS varchar(10)) END,
           value % 7 FROM GENERATE_SERIES(1, 20000)",
        "INSERT INTO parent SELECT value / 100, value % 100 FROM GENERATE_SERIES(0, 9999)",
        "INSERT INTO child SELECT value % 100, value % 97, value FROM GENERATE_SERIES(1, 20000)",
    ]);
    let of_sale = "FROM sale s JOIN customer c ON c.code = s.customer";
    world.are_within(&[
        (format!("SELECT s.id {of_sale}"), 1.2),
        (format!("SELECT s.id {of_sale} WHERE c.region = 3"), 1.4),
        ("SELECT s.id FROM sale s JOIN customer c ON c.wide = s.customer".to_owned(), 1.2),
        ("SELECT s.customer, COUNT(*) FROM sale s GROUP BY s.customer".to_owned(), 1.2),
        // 2,000 of 3,000 customers have sales; sales without a customer do not count.
        ("SELECT c.code FROM customer c WHERE EXISTS (SELECT 1 FROM sale s WHERE s.customer = c.code)".to_owned(), 1.3),
        ("SELECT c.code FROM customer c WHERE NOT EXISTS (SELECT 1 FROM sale s WHERE s.customer = c.code)".to_owned(), 1.3),
        ("SELECT c.code FROM customer c LEFT JOIN sale s ON s.customer = c.code WHERE s.id IS NULL".to_owned(), 1.4),
        ("SELECT c.code, s.id FROM customer c LEFT JOIN sale s ON s.customer = c.code".to_owned(), 1.3),
        ("SELECT c.code FROM customer c WHERE c.code NOT IN (SELECT s.customer FROM sale s WHERE s.customer IS NOT NULL)".to_owned(), 1.4),
        ("SELECT s.id FROM sale s WHERE NOT EXISTS (SELECT 1 FROM customer c WHERE c.code = s.customer AND c.region < 5)".to_owned(), 1.4),
        ("SELECT s.id FROM sale s LEFT JOIN customer c ON c.code = s.customer WHERE c.code IS NULL".to_owned(), 1.4),
        // A key of two correlated columns.
        ("SELECT c.n FROM child c JOIN parent p ON p.a = c.a AND p.b = c.b".to_owned(), 1.1),
        ("SELECT c.n FROM child c JOIN parent p ON p.a = c.a AND p.b = c.b WHERE p.a < 10".to_owned(), 1.3),
        ("SELECT c.n FROM child c WHERE c.n < 500 AND EXISTS (SELECT 1 FROM parent p WHERE p.a = c.a AND p.b = c.b)".to_owned(), 1.1),
    ]);
}

#[test]
fn a_filter_that_follows_from_the_query_tells_what_goes_together() {
    // Each model belongs to one make, so the two conditions are not independent.
    let mut world = World::new(&[
        "CREATE TABLE car (id int NOT NULL, make varchar(10) NOT NULL, model varchar(10) NOT NULL, year int NOT NULL)",
        "INSERT INTO car SELECT value, 'm' + CAST(value % 10 AS varchar(5)),
           CASE WHEN value % 10 = 3 AND value % 100 < 50 THEN 'often' ELSE 'x' + CAST(value % 500 AS varchar(5)) END,
           2000 + value % 20 FROM GENERATE_SERIES(1, 20000)",
        "CREATE STATISTICS of_make ON car (model) WHERE make = 'm3'",
        "CREATE STATISTICS of_years ON car (make) WHERE year >= 2005 AND year < 2010",
    ]);
    world.are_within(&[
        ("SELECT id FROM car WHERE make = 'm3' AND model = 'often'", 1.1),
        ("SELECT id FROM car WHERE make IN ('m3') AND model <> 'often'", 1.1),
        ("SELECT id FROM car WHERE make = 'm3'", 1.1),
        ("SELECT id FROM car WHERE year BETWEEN 2005 AND 2009 AND make = 'm7'", 1.1),
        // Filtered statistics are not used if the condition does not imply their filter: they contain no rows of other
        // makes.
        ("SELECT id FROM car WHERE make IN ('m3', 'm4')", 1.1),
        ("SELECT id FROM car WHERE year >= 2005", 1.1),
    ]);
}

#[test]
fn values_that_are_alike_for_as_far_as_a_histogram_goes_are_rare_all_the_same() {
    let mut world = World::new(&[
        "CREATE TABLE long (id int NOT NULL, v varchar(900) NOT NULL)",
        "INSERT INTO long SELECT value, REPLICATE('a', 500) + CAST(value % 4000 AS varchar(5)) FROM GENERATE_SERIES(1, 12000)",
        "CREATE STATISTICS v ON long (v) WITH FULLSCAN",
    ]);
    world.are_within(&[
        ("SELECT id FROM long WHERE v = REPLICATE('a', 500) + '77'", 1.1),
        ("SELECT id FROM long WHERE v IN (REPLICATE('a', 500) + '77', REPLICATE('a', 500) + '78')", 1.1),
        ("SELECT v, COUNT(*) FROM long GROUP BY v", 1.1),
        ("SELECT a.id FROM long a JOIN long b ON a.v = b.v", 1.2),
    ]);
}

#[test]
fn pairs_in_order_are_estimated_by_how_the_values_lie() {
    let mut world = World::new(&[
        "CREATE TABLE span (id int NOT NULL, low int NOT NULL, high int NOT NULL)",
        "CREATE TABLE event (id int NOT NULL, at int NULL)",
        "INSERT INTO span SELECT value, value * 10, value * 10 + 40 FROM GENERATE_SERIES(1, 1000)",
        "INSERT INTO event SELECT value, CASE WHEN value % 5 = 0 THEN NULL ELSE value * 5 END FROM GENERATE_SERIES(1, 2000)",
        "CREATE STATISTICS a ON span (low); CREATE STATISTICS b ON span (high); CREATE STATISTICS c ON event (at)",
    ]);
    world.are_within(&[
        ("SELECT e.id FROM event e JOIN span s ON e.at >= s.low AND e.at < s.high", 1.3),
        ("SELECT e.id FROM event e JOIN span s ON e.at BETWEEN s.low AND s.high", 1.4),
        ("SELECT e.id FROM event e JOIN span s ON e.at < s.low", 1.1),
        ("SELECT e.id FROM event e JOIN span s ON e.at > s.high AND s.id % 10 = 3", 1.2),
    ]);
}

/// A join that may look up is estimated by the matches of its outer side, not by all rows of the inner table.
#[test]
fn a_join_that_looks_up_is_estimated_by_what_comes_from_the_outer_side() {
    let mut world = World::new(&[
        "CREATE TABLE small (k int NOT NULL, kind int NOT NULL)",
        "CREATE TABLE large (id int NOT NULL PRIMARY KEY, k int NOT NULL, pad char(100) NOT NULL)",
        "CREATE INDEX ik ON large (k)",
        "INSERT INTO small SELECT value, value % 100 FROM GENERATE_SERIES(1, 2000)",
        "INSERT INTO large SELECT value, value % 2000 + 1, '' FROM GENERATE_SERIES(1, 20000)",
    ]);
    let query = "SELECT l.id FROM small s JOIN large l ON l.k = s.k WHERE s.kind = 7";
    let all = world.operators(query);
    assert!(all.iter().any(|operator| operator.rows == 200.0), "{all:?}");
    world.are_within(&[(query, 1.2), ("SELECT l.pad FROM small s JOIN large l ON l.k = s.k WHERE s.kind < 3", 1.2)]);
}

/// A small generator, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A condition on one column of the random table.
    fn condition(&mut self) -> String {
        let value = self.below(1200);
        let op = self.of(&["=", "<>", "<", "<=", ">", ">="]);
        let column = self.of(&["a", "b", "c"]);
        match self.below(9) {
            0 => format!("{column} {op} {value}"),
            1 => format!("{column} BETWEEN {value} AND {}", value + self.below(300)),
            2 => format!("{column} IN ({value}, {}, {})", self.below(1000), self.below(1000)),
            3 => format!("{column} % {} = {}", 2 + self.below(12), self.below(2)),
            4 => format!("{column} / {} {op} {}", 2 + self.below(50), self.below(100)),
            5 => format!("ISNULL({column}, 0) + {value} {op} {}", value + self.below(900)),
            6 => format!("YEAR(d) {op} {}", 2010 + self.below(8)),
            7 => format!("NOT ({column} {op} {value})"),
            _ => format!("t {op} 't{value}'"),
        }
    }
}

/// Half of the random conditions on random rows are estimated within a few hundredths, and nearly all within some.
#[test]
fn random_conditions_on_random_rows_are_estimated_well() {
    let mut random = Random(0x5EED_2024);
    let mut world = World::new(&[
        "CREATE TABLE r (a int NULL, b int NOT NULL, c bigint NULL, d date NOT NULL, t varchar(20) NOT NULL)",
    ]);
    let mut rows = Vec::new();
    for _ in 0..8000 {
        let (flat, squared) = (random.below(1000), random.below(32) * random.below(32));
        let a = if random.below(10) == 0 { "NULL".to_owned() } else { flat.to_string() };
        let days = random.below(3000);
        rows.push(format!(
            "({a}, {squared}, {}, DATEADD(day, {days}, '20100101'), 't{}')",
            flat * 7,
            random.below(700)
        ));
    }
    world.session.run("SET STATISTICS PROFILE OFF").expect("an option");
    for some in rows.chunks(500) {
        world.session.run(&format!("INSERT INTO r VALUES {}", some.join(", "))).expect("rows");
    }
    world.session.run("SET STATISTICS PROFILE ON").expect("an option");
    let mut errors: Vec<(f64, String)> = (0..150)
        .map(|_| {
            let condition = random.condition();
            let top = world.top(&format!("SELECT b FROM r WHERE {condition}"));
            (top.error(), format!("{condition}: {} thought, {} there", top.estimated, top.rows))
        })
        .collect();
    errors.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (middle, most) = (&errors[errors.len() / 2], &errors[errors.len() * 19 / 20]);
    assert!(middle.0 <= 1.1, "the median: {middle:?}");
    assert!(most.0 <= 2.5, "the 95th percentile: {:#?}", &errors[errors.len() * 19 / 20..]);
}
