//! Every scalar function, operator, conversion and aggregate with every type in each position: none ends in an internal
//! error or a panic, and a column, a constant and a variable give the same result.
//!
//! One *probe* is a call with arguments, one of which varies: in one statement, it is read from a column, written as a
//! constant, and held by a variable. `HOBT_FUNCTION_PROBES` sets the number of probes, drawn by `HOBT_SEED` with twenty
//! per drawn call; 0 means all of them. The results of functions are tested in `tests/slt`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hobt::{Instance, Session};
use hobt_base::SplitMix64;
use hobt_functions::Volatility;

use super::world::below;
use crate::client::{instance_with, ok, setting, used};
use crate::random_queries::outcome::{Outcome, run};

/// A type, and its column's values in rows 1 and 2: a usual one and an edge value. Row 0 holds NULL.
struct Tried {
    of: &'static str,
    values: [&'static str; 2],
}

const fn tried(of: &'static str, usual: &'static str, edge: &'static str) -> Tried {
    Tried { of, values: [usual, edge] }
}

const TYPES: [Tried; 26] = [
    tried("int", "1", "-2147483648"),
    tried("varchar(20)", "'a'", "''"),
    tried("datetime2", "'2024-02-29 12:34:56.7890123'", "'9999-12-31 23:59:59.9999999'"),
    tried("varbinary(20)", "0x616263", "0xFF00FF00FF00FF00FF"),
    tried("bit", "1", "0"),
    tried("tinyint", "2", "255"),
    tried("smallint", "2", "-32768"),
    tried("bigint", "2", "-9223372036854775808"),
    tried("decimal(9, 2)", "1.25", "-9999999.99"),
    tried("decimal(38, 10)", "1.5", "9999999999999999999999999999.9999999999"),
    tried("money", "1.25", "-922337203685477.5808"),
    tried("smallmoney", "1.25", "214748.3647"),
    tried("real", "0.5", "-3.4e38"),
    tried("float", "0.5", "1.7e308"),
    tried("date", "'2024-02-29'", "'0001-01-01'"),
    tried("time", "'12:34:56.7890123'", "'23:59:59.9999999'"),
    tried("smalldatetime", "'2024-02-29 12:34'", "'2079-06-06 23:59'"),
    tried("datetime", "'2024-02-29 12:34:56.787'", "'1753-01-01'"),
    tried("char(5)", "'1'", "'é'"),
    tried("varchar(max)", "'2024-02-29'", "REPLICATE(CAST('x' AS varchar(max)), 9000)"),
    tried("nchar(5)", "N'12'", "N'日本'"),
    tried("nvarchar(20)", "N'1.5'", "N'😀'"),
    tried("nvarchar(max)", "N'b'", "REPLICATE(CAST(N'ż' AS nvarchar(max)), 5000)"),
    tried("binary(4)", "0x01", "0xFFFFFFFF"),
    tried("varbinary(max)", "0x31", "CAST(REPLICATE(CAST('x' AS varchar(max)), 9000) AS varbinary(max))"),
    tried("uniqueidentifier", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "'00000000-0000-0000-0000-000000000000'"),
];

/// The types that are tried first for the arguments that do not vary.
const USUAL: [usize; 4] = [0, 1, 2, 3];

/// The value of an argument: one of [`TYPES`], with NULL or one of its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Argument {
    of: usize,
    value: usize,
}

impl Argument {
    fn constant(self) -> String {
        match self.value {
            0 => format!("CAST(NULL AS {})", TYPES[self.of].of),
            value => format!("CAST({} AS {})", TYPES[self.of].values[value - 1], TYPES[self.of].of),
        }
    }
}

/// A call with placeholders for its arguments.
#[derive(Clone, Debug)]
struct Template {
    text: String,
    places: usize,
    /// Whether it is an aggregate or window function. These have no constant form of an argument.
    of_rows: bool,
}

fn template(text: impl Into<String>) -> Template {
    let text = text.into();
    Template { places: text.matches("{}").count(), text, of_rows: false }
}

fn filled(text: &str, arguments: &[String]) -> String {
    arguments.iter().fold(text.to_owned(), |text, argument| text.replacen("{}", argument, 1))
}

/// All calls.
fn templates() -> Vec<Template> {
    let mut all = Vec::new();
    for def in hobt_functions::function::all().filter(|def| def.volatility == Volatility::Immutable) {
        // Two arguments more than the minimum are enough for a list.
        let least = def.min_args.max(1);
        for count in least..=def.max_args.min(least + 2) {
            let places = vec!["{}"; count].join(", ");
            let parts: &[&str] = if def.takes_date_part { &["day, ", "nanosecond, ", "quarter, "] } else { &[""] };
            all.extend(parts.iter().map(|part| template(format!("{}({part}{places})", def.name))));
        }
    }
    all.extend(FORMS.iter().map(|form| template(*form)));
    for to in &TYPES {
        all.extend(["CAST({} AS TO)", "TRY_CAST({} AS TO)"].map(|form| template(form.replace("TO", to.of))));
        all.extend([0, 1, 2, 112, 126].map(|style| template(format!("CONVERT({}, {{}}, {style})", to.of))));
    }
    let of_rows = |form: &&str| Template { of_rows: true, ..template(*form) };
    all.extend(OF_ROWS.iter().map(of_rows));
    all
}

/// Operators, and calls implemented in the binder.
const FORMS: [&str; 46] = [
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "{} / {}",
    "{} % {}",
    "{} & {}",
    "{} | {}",
    "{} ^ {}",
    "-{}",
    "~{}",
    "CASE WHEN {} = {} THEN 1 ELSE 0 END",
    "CASE WHEN {} < {} THEN 1 ELSE 0 END",
    "CASE WHEN {} <> {} THEN 1 ELSE 0 END",
    "CASE WHEN {} IN ({}, 1) THEN 1 ELSE 0 END",
    "CASE WHEN {} BETWEEN {} AND {} THEN 1 ELSE 0 END",
    "CASE WHEN {} LIKE {} THEN 1 ELSE 0 END",
    "CASE WHEN {} IS NULL THEN 1 ELSE 0 END",
    "CASE WHEN 1 = 0 THEN {} ELSE {} END",
    "CASE {} WHEN {} THEN 1 ELSE 0 END",
    "IIF(1 = 1, {}, {})",
    "(SELECT {} WHERE {} IS NULL)",
    "(SELECT MAX(x) FROM (SELECT {} AS x UNION ALL SELECT {}) AS q)",
    "(SELECT COUNT(*) FROM (SELECT {} AS x UNION SELECT {}) AS q)",
    "(SELECT COUNT(*) FROM (SELECT {} AS x INTERSECT SELECT {}) AS q)",
    "(SELECT COUNT(*) FROM (VALUES ({}), ({})) AS q (x))",
    "OBJECT_ID({})",
    "OBJECT_NAME({})",
    "DB_ID({})",
    "DB_NAME({})",
    "SCHEMA_ID({})",
    "SCHEMA_NAME({})",
    "COL_NAME({}, {})",
    "COL_LENGTH({}, {})",
    "TYPE_ID({})",
    "TYPE_NAME({})",
    "FILE_ID({})",
    "FILE_NAME({})",
    "FILEGROUP_ID({})",
    "FILEGROUP_NAME({})",
    "OBJECTPROPERTY({}, {})",
    "INDEXPROPERTY({}, {}, {})",
    "DATABASEPROPERTYEX({}, {})",
    "SERVERPROPERTY({})",
    "COLUMNPROPERTY({}, {}, {})",
    "PARSENAME({}, {})",
    "IDENT_CURRENT({})",
];

/// Aggregate and window functions.
const OF_ROWS: [&str; 29] = [
    "COUNT({})",
    "COUNT_BIG(DISTINCT {})",
    "SUM({})",
    "SUM(DISTINCT {})",
    "AVG({})",
    "AVG(DISTINCT {})",
    "MIN({})",
    "MAX({})",
    "STDEV({})",
    "STDEVP({})",
    "VAR({})",
    "VARP({})",
    "CHECKSUM_AGG({})",
    "STRING_AGG({}, ',')",
    "STRING_AGG({}, ',') WITHIN GROUP (ORDER BY {})",
    "MIN({}) OVER ()",
    "MAX({}) OVER (ORDER BY id)",
    "SUM({}) OVER (ORDER BY id)",
    "AVG({}) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "COUNT({}) OVER (PARTITION BY {} ORDER BY {})",
    "STDEV({}) OVER ()",
    "ROW_NUMBER() OVER (ORDER BY {})",
    "RANK() OVER (ORDER BY {})",
    "NTILE(2) OVER (PARTITION BY {} ORDER BY {})",
    "LAG({}) OVER (ORDER BY id)",
    "LEAD({}, 1, {}) OVER (ORDER BY {})",
    "FIRST_VALUE({}) OVER (ORDER BY id)",
    "LAST_VALUE({}) OVER (PARTITION BY {} ORDER BY {})",
    "PERCENT_RANK() OVER (ORDER BY {})",
];

/// A call whose argument at `varied` is read from a column, written as a constant, and held by a variable.
#[derive(Clone, Debug)]
struct Probe<'t> {
    template: &'t Template,
    arguments: Vec<Argument>,
    varied: usize,
}

impl Probe<'_> {
    fn call(&self, varied: &str) -> String {
        let text = |(at, argument): (usize, &Argument)| {
            if at == self.varied { varied.to_owned() } else { argument.constant() }
        };
        filled(&self.template.text, &self.arguments.iter().enumerate().map(text).collect::<Vec<_>>())
    }

    fn varying(&self) -> Argument {
        self.arguments[self.varied]
    }

    fn declaration(&self) -> String {
        format!("DECLARE @x {} = {}; ", TYPES[self.varying().of].of, self.varying().constant())
    }

    /// The three calls separately: with the column, the constant, and the variable.
    fn calls(&self) -> [String; 3] {
        let argument = self.varying();
        [self.call(&format!("c{}", argument.of)), self.call(&argument.constant()), self.call("@x")]
    }

    /// All three in one statement.
    fn together(&self) -> String {
        format!("{}SELECT {} FROM v WHERE id = {}", self.declaration(), self.calls().join(", "), self.varying().value)
    }

    fn alone(&self) -> [String; 3] {
        self.calls()
            .map(|call| format!("{}SELECT {call} FROM v WHERE id = {}", self.declaration(), self.varying().value))
    }
}

/// The table with a column of each type, as a script.
fn table() -> String {
    let columns: Vec<String> = TYPES.iter().enumerate().map(|(at, tried)| format!("c{at} {} NULL", tried.of)).collect();
    let mut script = format!("CREATE TABLE v (id int NOT NULL, {});", columns.join(", "));
    for value in 0..3 {
        let values: Vec<String> = (0..TYPES.len()).map(|of| Argument { of, value }.constant()).collect();
        script.push_str(&format!("\nINSERT v VALUES ({value}, {});", values.join(", ")));
    }
    script
}

/// Arguments that a call accepts, so that one of them can vary.
fn accepted(session: &mut Session, template: &Template) -> Option<Vec<Argument>> {
    let usual = |of: usize| Argument { of: USUAL[of], value: 1 };
    let count = USUAL.len().pow(u32::try_from(template.places).expect("few").min(4));
    let uniform = (0..USUAL.len()).map(|of| vec![usual(of); template.places]);
    let mixed = (0..count).map(|mut number| {
        let next = |_| {
            let of = number % USUAL.len();
            number /= USUAL.len();
            usual(of)
        };
        (0..template.places).map(next).collect::<Vec<_>>()
    });
    uniform.chain(mixed).find(|arguments| {
        let texts: Vec<String> = arguments.iter().map(|argument| argument.constant()).collect();
        matches!(run(session, &format!("SELECT {}", filled(&template.text, &texts))), Outcome::Rows(_))
    })
}

/// All probes of a template. With two arguments, all pairs of types are tested. With more, the other arguments are
/// accepted ones.
fn probes<'t>(session: &mut Session, template: &'t Template, all: &mut Vec<Probe<'t>>) {
    let each = || (0..TYPES.len()).flat_map(|of| (0..3).map(move |value| Argument { of, value }));
    if template.of_rows {
        let one_type = |argument| Probe { template, arguments: vec![argument; template.places], varied: 0 };
        all.extend(each().filter(|argument| argument.value == 1).map(one_type));
        return;
    }
    let base = accepted(session, template);
    if template.places <= 2 || base.is_none() {
        let other = |of| Argument { of, value: 1 };
        for first in each() {
            let seconds = if template.places == 1 { 0..1 } else { 0..TYPES.len() };
            for second in seconds {
                let mut arguments = vec![other(second); template.places];
                arguments[0] = first;
                all.push(Probe { template, arguments, varied: 0 });
            }
        }
    }
    for varied in usize::from(template.places <= 2)..template.places {
        let Some(base) = &base else { break };
        for argument in each() {
            let mut arguments = base.clone();
            arguments[varied] = argument;
            all.push(Probe { template, arguments, varied });
        }
    }
}

/// The fault of a call, if any: a short name, equal for similar faults, and the full text.
fn fault(session: &mut Session, probe: &Probe<'_>) -> Option<(String, String)> {
    let name = probe.template.text.split(['(', '{']).next().unwrap_or_default().to_owned();
    if probe.template.of_rows {
        let columns = vec![format!("c{}", probe.varying().of); probe.template.places];
        let query = format!("SELECT {} FROM v", filled(&probe.template.text, &columns));
        let Outcome::Broken(text) = run(session, &query) else { return None };
        return Some((probe.template.text.clone(), format!("{query}\n-- {text}")));
    }
    let together = probe.together();
    match run(session, &together) {
        Outcome::Broken(text) => Some((format!("{name}: broken"), format!("{together}\n-- {text}"))),
        Outcome::Rows(rows) => {
            let [row] = rows.as_slice() else { return Some((name, format!("{together}\n-- {} rows", rows.len()))) };
            let alike = row.iter().all(|cell| *cell == row[0]);
            (!alike)
                .then(|| (format!("{name}: differs"), format!("{together}\n-- column, constant, variable: {row:?}")))
        }
        Outcome::Failed(_) => {
            // Whether one of them fails must not depend on the source of its argument.
            let said = probe.alone().map(|batch| run(session, &batch).in_short());
            let alike = said.iter().all(|one| *one == said[0]);
            (!alike).then(|| (format!("{name}: fails"), format!("{together}\n-- column, constant, variable: {said:?}")))
        }
    }
}

/// Runs the probes of the templates that `next` selects: all, or `some` of each.
fn run_templates(instance: &Instance, templates: &[Template], next: &AtomicUsize, some: Option<usize>, found: &Found) {
    let session = &mut used(instance);
    while let Some(template) = templates.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut all = Vec::new();
        probes(session, template, &mut all);
        // The seed has determined the order of the templates. Here the template itself is the seed.
        let seed =
            template.text.bytes().fold(templates.len() as u64, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte));
        shuffle(&mut SplitMix64::new(seed), &mut all);
        all.truncate(some.unwrap_or(usize::MAX));
        for probe in &all {
            if let Some((kind, text)) = fault(session, probe) {
                let mut faults = found.faults.lock().expect("no thread panics with it");
                faults.entry(kind).or_insert((0, text)).0 += 1;
            }
        }
        found.probes.fetch_add(all.len(), Ordering::Relaxed);
    }
}

fn shuffle<T>(random: &mut SplitMix64, all: &mut [T]) {
    for at in 0..all.len() {
        let other = at + below(random, all.len() - at);
        all.swap(at, other);
    }
}

/// The number of probes run, and the faults by kind: their number, and the first one.
#[derive(Default)]
struct Found {
    probes: AtomicUsize,
    faults: Mutex<BTreeMap<String, (usize, String)>>,
}

#[test]
fn every_function_takes_every_type() {
    const SOME: usize = 20;
    let (_folder, instance) = instance_with("");
    ok(&mut used(&instance), &table());
    let wanted = usize::try_from(setting("HOBT_FUNCTION_PROBES", 600)).expect("a number of probes");
    let mut templates = templates();
    shuffle(&mut SplitMix64::new(setting("HOBT_SEED", 0)), &mut templates);
    let some = (wanted > 0).then_some(SOME);
    if wanted > 0 {
        templates.truncate(wanted.div_ceil(SOME));
    }
    let (next, found) = (AtomicUsize::new(0), Found::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| run_templates(&instance, &templates, &next, some, &found));
        }
    });
    let faults = found.faults.into_inner().expect("no thread panicked");
    println!("{} probes of {} templates, {} kinds of faults", found.probes.into_inner(), templates.len(), faults.len());
    let texts: Vec<String> = faults.values().map(|(count, text)| format!("-- {count} like this\n{text}")).collect();
    assert!(texts.is_empty(), "{}\nGO\n{}", table(), texts.join("\nGO\n"));
}
