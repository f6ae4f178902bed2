//! The rules that must hold for an instance after a crash, whatever it was doing, and a check that finds the broken
//! one.
//!
//! 1. It starts, and every database in the journal exists, is ONLINE, and there is no other database.
//! 2. Every acknowledged transaction is present. One in doubt is present completely or not at all, in all of its
//!    databases. There are no other transactions.
//! 3. Rows follow from the ledger (`tables`).
//! 4. Every index contains the rows of its table, and `DBCC CHECKDB` finds nothing.
//! 5. It closes, and starts again with the same transactions.

use std::collections::BTreeMap;
use std::path::Path;

use hobt::{Instance, Session};

use super::journal::{Known, Presence};
use super::life::settings;
use super::tables::{LONG_ROWS, ROWS};
use crate::client;

/// The results of a check: the ledgers of the databases.
#[derive(Debug, Default)]
struct Found {
    ledgers: BTreeMap<String, Ledger>,
}

/// A ledger, summed up.
#[derive(Debug, Default)]
struct Ledger {
    /// For each transaction: the required and the actual number of its lines.
    transactions: BTreeMap<i64, (i64, i64)>,
    /// Sum and count of the lines, by table and row.
    sums: BTreeMap<(String, i64), (i64, i64)>,
}

type Broken = String;
type Rows = Vec<Vec<String>>;

/// A session in which an error breaks a rule.
struct Client {
    session: Session,
}

impl Client {
    fn rows(&mut self, text: &str) -> Result<Rows, Broken> {
        client::rows(&mut self.session, text).map_err(|error| format!("{} {} of: {text}", error.number, error.message))
    }

    fn numbers<const N: usize>(&mut self, text: &str) -> Result<Vec<[i64; N]>, Broken> {
        let number = |cell: &String| cell.parse().map_err(|_| format!("a number is expected, not {cell}: {text}"));
        let row = |row: &Vec<String>| {
            let numbers: Vec<i64> = row.iter().map(number).collect::<Result<_, Broken>>()?;
            numbers.try_into().map_err(|_| format!("{N} columns: {text}"))
        };
        self.rows(text)?.iter().map(row).collect()
    }
}

/// Starts the instance in a folder twice, and checks it. `choice` selects the index that is read separately. Returns
/// the journal's lines on the transactions that were in doubt.
pub(super) fn check(folder: &Path, known: &Known, choice: u64) -> Result<Vec<String>, Broken> {
    if let Some(wrong) = known.wrong.first() {
        return Err(format!("{} answers were wrong while it lived; the first: {wrong}", known.wrong.len()));
    }
    let (counts, lines) = life(folder, |client| all(client, known, choice))?;
    let again = life(folder, |client| {
        databases(client)?;
        counts.keys().map(|name| Ok((name.clone(), count(client, name)?))).collect::<Result<_, Broken>>()
    })?;
    if counts != again {
        return Err(format!("rule 5: behind a clean end the ledgers have {again:?} lines, not {counts:?}"));
    }
    Ok(lines)
}

/// Starts the instance, runs `look`, and closes it.
fn life<T>(folder: &Path, look: impl FnOnce(&mut Client) -> Result<T, Broken>) -> Result<T, Broken> {
    let said = |error: hobt::SqlError| format!("rule 1: {} {}", error.number, error.message);
    let instance = Instance::open_with(folder, settings()).map_err(said)?;
    let mut client = Client { session: instance.session().map_err(said)? };
    let found = look(&mut client)?;
    drop(client);
    instance.close().map_err(|error| format!("rule 5: {} {}", error.number, error.message))?;
    Ok(found)
}

/// The number of lines in the ledgers, by database.
type Counts = BTreeMap<String, i64>;

fn count(client: &mut Client, name: &str) -> Result<i64, Broken> {
    Ok(client.numbers::<1>(&format!("SELECT COUNT(*) FROM {name}.dbo.ledger"))?[0][0])
}

fn all(client: &mut Client, known: &Known, choice: u64) -> Result<(Counts, Vec<String>), Broken> {
    let names = databases(client)?;
    for name in &names {
        client
            .rows(&format!("DBCC CHECKDB ({name}) WITH NO_INFOMSGS"))
            .map_err(|broken| format!("rule 4: {broken}"))?;
    }
    let mut found = Found::default();
    for name in names.iter().filter(|name| known.is_set_up && *name != "master") {
        // An incompletely created database may not have it.
        let is_there = client.rows(&format!("SELECT OBJECT_ID('{name}.dbo.ledger')"))? != [["NULL"]];
        if is_there {
            found.ledgers.insert(name.clone(), ledger(client, name)?);
        } else if known.databases.get(name) == Some(&Presence::There) {
            return Err(format!("rule 2: database {name} has no ledger"));
        }
    }
    let mut lines = database_list(&names, &found, known)?;
    lines.extend(transaction_list(&found, known)?);
    for name in ["a", "b"] {
        let Some(ledger) = found.ledgers.get(name) else { continue };
        rows_follow(client, name, ledger)?;
        index_agrees(client, name, choice)?;
    }
    let counts = found.ledgers.iter().map(|(name, ledger)| {
        let lines = ledger.sums.values().map(|(_, lines)| lines).sum();
        (name.clone(), lines)
    });
    Ok((counts.collect(), lines))
}

/// The databases. Each is used once, and so recovered: error 945 or 926 shows that one is not ONLINE.
fn databases(client: &mut Client) -> Result<Vec<String>, Broken> {
    let list = "SELECT name FROM sys.databases WHERE name <> 'tempdb'";
    let names: Vec<String> = client.rows(list)?.into_iter().map(|mut row| row.remove(0)).collect();
    for name in &names {
        client.rows(&format!("USE {name}")).map_err(|broken| format!("rule 1: {broken}"))?;
    }
    client.rows("USE master")?;
    Ok(names)
}

fn database_list(names: &[String], found: &Found, known: &Known) -> Result<Vec<String>, Broken> {
    let mut lines = Vec::new();
    for (name, presence) in &known.databases {
        let is_there = names.contains(name);
        match presence {
            Presence::There | Presence::Bare if !is_there => return Err(format!("rule 1: database {name} is lost")),
            Presence::Gone if is_there => return Err(format!("rule 1: database {name} was dropped and is there")),
            Presence::InDoubt => {
                let verb = match (is_there, found.ledgers.contains_key(name)) {
                    (false, _) => "dropped",
                    (true, false) => "bare",
                    (true, true) => "created",
                };
                lines.push(format!("{verb} {name}"));
            }
            _ => {}
        }
    }
    let is_known = |name: &String| known.databases.contains_key(name) || name == "master";
    match names.iter().find(|name| known.is_set_up && !is_known(name)) {
        Some(name) => Err(format!("rule 1: database {name} was never made")),
        None => Ok(lines),
    }
}

/// Reads a ledger, and checks that all its transactions are complete.
fn ledger(client: &mut Client, name: &str) -> Result<Ledger, Broken> {
    let text = format!("SELECT tid, op, lines, tbl, id, delta FROM {name}.dbo.ledger");
    let mut ledger = Ledger::default();
    for row in client.rows(&text)? {
        let number = |place: usize| row[place].parse::<i64>().map_err(|_| format!("rule 2: {row:?} of {text}"));
        let (tid, op, lines, delta) = (number(0)?, number(1)?, number(2)?, number(5)?);
        let known = ledger.transactions.entry(tid).or_default();
        if op >= 0 {
            *known = (lines, known.1 + 1);
        }
        let sum = ledger.sums.entry((row[3].clone(), number(4)?)).or_default();
        *sum = (sum.0 + delta, sum.1 + 1);
        if row[3] == "!" {
            return Err(format!("rule 2: transaction {tid} took line {row:?} back, and it is in {name}"));
        }
    }
    match ledger.transactions.iter().find(|(_, (expected, lines))| expected != lines) {
        Some((tid, (expected, lines))) => {
            Err(format!("rule 2: transaction {tid} has {lines} of {expected} lines in {name}"))
        }
        None => Ok(ledger),
    }
}

/// Compares the existing transactions with those that may and must exist. Returns the outcome of those in doubt.
fn transaction_list(found: &Found, known: &Known) -> Result<Vec<String>, Broken> {
    let mut lines = Vec::new();
    for (tid, databases) in &known.databases_of {
        let may_miss =
            |name: &&String| !found.ledgers.contains_key(*name) && known.databases.get(*name) != Some(&Presence::There);
        let asked: Vec<&String> = databases.iter().filter(|name| !may_miss(name)).collect();
        let is_in =
            |name: &&&String| found.ledgers.get(**name).is_some_and(|ledger| ledger.transactions.contains_key(tid));
        let there = asked.iter().filter(is_in).count();
        let broken = |what| {
            Err(format!(
                "rule 2: transaction {tid} of {databases:?} {what}, and is in {there} of {} that are there",
                asked.len()
            ))
        };
        match (known.committed.contains(tid), known.in_doubt.contains(tid)) {
            (true, _) if there < asked.len() => return broken("was acknowledged"),
            (false, true) if there != 0 && there != asked.len() => return broken("was in doubt"),
            (false, true) => lines.push(format!("{} {tid}", if there > 0 { "done" } else { "undone" })),
            (false, false) if there > 0 => return broken("was rolled back"),
            _ => {}
        }
    }
    for (name, ledger) in &found.ledgers {
        if let Some(tid) = ledger.transactions.keys().find(|tid| !known.databases_of.contains_key(tid)) {
            return Err(format!("rule 2: transaction {tid} is in {name} and was never begun"));
        }
    }
    Ok(lines)
}

/// The text of a row, by the tables' expressions.
fn text_of(id: i64, n: i64, factors: (i64, i64), most: i64) -> String {
    let letter = char::from(b'a' + u8::try_from(n % 26).expect("below 26"));
    let length = usize::try_from((id * factors.0 + n * factors.1) % most).expect("a remainder");
    std::iter::repeat_n(letter, length).collect()
}

/// The tables whose rows are only updated: name, a further column, its value for `id` and `n`, and whether values are
/// long.
type Place = fn(i64, i64) -> i64;
const UPDATED: [(&str, &str, Place, bool); 5] = [
    ("h", "0", |_, _| 0, false),
    ("g", "0", |_, _| 0, false),
    ("c", "k", |id, n| (id * 7919 + n * 10473) % 100_003, false),
    ("p", "part", |id, n| (id * 7 + n * 13) % 100, false),
    ("l", "0", |_, _| 0, true),
];

fn rows_follow(client: &mut Client, name: &str, ledger: &Ledger) -> Result<(), Broken> {
    for (table, column, place, is_long) in UPDATED {
        let there = client.rows(&format!("SELECT id, n, bal, {column}, pad FROM {name}.dbo.{table}"))?;
        let there: BTreeMap<String, Vec<String>> = there.into_iter().map(|row| (row[0].clone(), row)).collect();
        let rows = if is_long { LONG_ROWS } else { ROWS };
        for id in 1..=rows {
            let (bal, n) = ledger.sums.get(&(table.to_owned(), id)).copied().unwrap_or_default();
            let text = if is_long { text_of(id, n, (3001, 4327), 25_000) } else { text_of(id, n, (31, 197), 1500) };
            let expected = [id.to_string(), n.to_string(), bal.to_string(), place(id, n).to_string(), text];
            if there.get(&expected[0]).map(Vec::as_slice) != Some(&expected[..]) {
                let short =
                    |row: &[String]| row.iter().map(|cell| cell.chars().take(20).collect()).collect::<Vec<String>>();
                let found = there.get(&expected[0]).map(|row| short(row));
                return Err(format!(
                    "rule 3: {name}.{table} has {found:?}, and the ledger says {:?}",
                    short(&expected)
                ));
            }
        }
        if there.len() as u64 != rows.unsigned_abs() {
            return Err(format!("rule 3: {name}.{table} has {} rows, not {rows}", there.len()));
        }
    }
    for table in ["q", "r", "u"] {
        let there = client.numbers(&format!("SELECT id FROM {name}.dbo.{table}"))?;
        same_rows(name, table, &ledger.sums, there.into_iter().map(|[id]| (id, 1)).collect())?;
    }
    for table in ["w", "x"] {
        let mut there = BTreeMap::new();
        for [tid] in client.numbers(&format!("SELECT tid FROM {name}.dbo.{table}"))? {
            *there.entry(tid).or_default() += 1;
        }
        same_rows(name, table, &ledger.sums, there)?;
    }
    let tables = client.rows(&format!("SELECT name FROM {name}.sys.tables WHERE name LIKE 't[0-9]%'"))?;
    let mut there = BTreeMap::new();
    for row in tables {
        let rows = client.numbers::<1>(&format!("SELECT COUNT(*) FROM {name}.dbo.{}", row[0]))?;
        there.insert(row[0][1..].parse().map_err(|_| format!("rule 3: table {}", row[0]))?, rows[0][0]);
    }
    same_rows(name, "t", &ledger.sums, there)
}

/// Checks that rows, or counts of rows, are as in the ledger.
fn same_rows(
    name: &str,
    table: &str,
    sums: &BTreeMap<(String, i64), (i64, i64)>,
    there: BTreeMap<i64, i64>,
) -> Result<(), Broken> {
    let of_table = sums.iter().filter(|((of, _), (sum, _))| of == table && *sum != 0);
    let expected: BTreeMap<i64, i64> = of_table.map(|((_, id), (sum, _))| (*id, *sum)).collect();
    if expected == there {
        return Ok(());
    }
    let lost: Vec<_> = expected.iter().filter(|(id, sum)| there.get(id) != Some(sum)).take(5).collect();
    let surplus: Vec<_> = there.iter().filter(|(id, sum)| expected.get(id) != Some(sum)).take(5).collect();
    Err(format!("rule 3: {name}.{table} should have {lost:?} and has {surplus:?} (key, rows)"))
}

/// Indexes, each with an expression over columns of its table. `DBCC CHECKDB` looks every row up in them. Here they are
/// read.
const INDEXES: [(&str, &str, &str); 14] = [
    ("h", "ux", "id * 3 + n * 5 + bal * 7"),
    ("h", "ix", "n * 5 + bal * 7"),
    ("c", "cl", "id * 3 + n * 5 + bal * 7"),
    ("c", "ux", "id * 3"),
    ("c", "ix", "n * 5 + bal * 7"),
    ("p", "pk_p", "id * 3 + n * 5 + bal * 7"),
    ("p", "ux", "id * 3"),
    ("p", "ix", "n * 5 + bal * 7"),
    ("g", "ix", "id * 3 + n * 5 + bal * 7"),
    ("q", "ux", "id * 3 + v * 5"),
    ("q", "ix", "v * 5"),
    ("r", "ix", "id * 3 + v * 5"),
    ("u", "ix", "id * 3"),
    ("x", "cl", "tid * 3 + v * 5"),
];

fn index_agrees(client: &mut Client, name: &str, choice: u64) -> Result<(), Broken> {
    let (table, index, sum) = INDEXES[usize::try_from(choice % INDEXES.len() as u64).expect("few")];
    let mut of = |hint: &str| {
        let sum = format!("COUNT(*), COALESCE(SUM(CAST({sum} AS bigint) % 1000003), 0)");
        client.numbers::<2>(&format!("SELECT {sum} FROM {name}.dbo.{table} WITH (INDEX({hint}))"))
    };
    let (whole, seen) = (of("0")?, of(index)?);
    if seen != whole {
        return Err(format!("rule 4: {name}.{table}.{index} shows {seen:?}, the table {whole:?} (rows, sum)"));
    }
    Ok(())
}
