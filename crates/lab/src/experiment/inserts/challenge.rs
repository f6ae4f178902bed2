//! The cases: which key, how many connections, how often they commit, and how they differ from the plain clustered
//! primary key.

use super::key::{Key, REVERSING};

/// Rows per transaction, in the cases with transactions.
pub(super) const TRANSACTION_ROWS: u64 = 1_000;
/// The numbers of concurrent connections.
const CONNECTIONS: [usize; 3] = [2, 8, 64];
/// The keys that are also inserted by a single connection, which is slow if every row waits for the device.
const TRADITIONAL: [&str; 2] = ["newid", "identity"];
/// The numbers of data files in the filegroups with several files.
pub(super) const FILES: [u32; 2] = [8, 48];

/// The difference of a case from the plain one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variant {
    /// None: a clustered primary key with default options, in one file, with named columns.
    Plain,
    /// A heap, for which keys do not matter.
    Heap,
    /// Row locks, page locks, or both are disallowed.
    Locks { rows: bool, pages: bool },
    /// `OPTIMIZE_FOR_SEQUENTIAL_KEY`.
    Sequential,
    /// A filegroup with this many files.
    Files(u32),
    /// `DEFAULT VALUES` instead of named columns.
    Defaults,
    /// The loop as printed in the text: 999 rows in a transaction and one outside.
    Printed,
    /// Measures how long the page is held for each row.
    Hold,
}

impl Variant {
    fn prefix(self) -> String {
        match self {
            Variant::Plain => String::new(),
            Variant::Heap => "heap_".to_owned(),
            Variant::Locks { rows, pages } => match (rows, pages) {
                (false, true) => "no_row_locks_".to_owned(),
                (true, false) => "no_page_locks_".to_owned(),
                _ => "table_locks_".to_owned(),
            },
            Variant::Sequential => "sequential_key_".to_owned(),
            Variant::Files(files) => format!("files_{files}_"),
            Variant::Defaults => "defaults_".to_owned(),
            Variant::Printed => "printed_".to_owned(),
            Variant::Hold => "hold_".to_owned(),
        }
    }
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Challenge<'a> {
    pub(super) key: &'a Key,
    pub(super) connections: usize,
    pub(super) in_transactions: bool,
    pub(super) variant: Variant,
}

impl Challenge<'_> {
    pub(super) fn name(&self) -> String {
        let often = if self.in_transactions { "tx" } else { "auto" };
        format!("{}{}_{}_{often}", self.variant.prefix(), self.key.name, self.connections)
    }

    pub(super) fn table(&self) -> String {
        format!("Inserts_{}", self.key.name)
    }

    pub(super) fn create(&self) -> String {
        let table = self.table();
        let default = self.key.default.map_or_else(String::new, |default| format!(" DEFAULT {default}"));
        let place = match self.variant {
            Variant::Files(files) => format!("ON [INSERTS_{files}]"),
            _ => String::new(),
        };
        let options = match self.variant {
            Variant::Locks { rows, pages } => {
                let word = |on| if on { "ON" } else { "OFF" };
                format!("WITH (ALLOW_ROW_LOCKS = {}, ALLOW_PAGE_LOCKS = {})", word(rows), word(pages))
            }
            Variant::Sequential => "WITH (OPTIMIZE_FOR_SEQUENTIAL_KEY = ON)".to_owned(),
            _ => String::new(),
        };
        let key = match self.variant {
            Variant::Heap => String::new(),
            _ => format!(", CONSTRAINT PK_{table} PRIMARY KEY CLUSTERED (c1) {options} {place}"),
        };
        format!(
            "CREATE TABLE dbo.{table} (c1 {}{default} NOT NULL, c2 datetime NOT NULL DEFAULT GETDATE(), \
             c3 char(111) NOT NULL DEFAULT 'a', c4 int NOT NULL DEFAULT 1, c5 int NOT NULL DEFAULT 2, \
             c6 bigint NOT NULL DEFAULT 42{key})",
            self.key.column
        )
    }

    /// The loop of connection `server` with `rows` rows.
    pub(super) fn statement(&self, server: usize, rows: u64) -> String {
        let table = self.table();
        let insert = match (self.variant, &self.key.value) {
            (Variant::Defaults, _) => format!("INSERT dbo.{table} DEFAULT VALUES"),
            (_, None) => format!("INSERT dbo.{table} (c2, c3, c4, c5, c6) VALUES (GETDATE(), 'a', 1, 2, 42)"),
            (_, Some(key)) => {
                format!("INSERT dbo.{table} (c1, c2, c3, c4, c5, c6) VALUES ({key}, GETDATE(), 'a', 1, 2, 42)")
            }
        };
        let before = self.key.before;
        // The text's counter begins at 0 and is incremented after the insert.
        let body = match (self.variant, self.in_transactions) {
            (Variant::Printed, _) => format!(
                "IF (@i - 1) % {TRANSACTION_ROWS} = 0 BEGIN TRAN; {before} {insert}; \
                 IF @i % {TRANSACTION_ROWS} = {} COMMIT",
                TRANSACTION_ROWS - 1
            ),
            (_, false) => format!("{before} {insert}"),
            (_, true) => format!(
                "IF @i % {TRANSACTION_ROWS} = 1 BEGIN TRAN; {before} {insert}; \
                 IF @i % {TRANSACTION_ROWS} = 0 OR @i = {rows} COMMIT"
            ),
        };
        // The loop as printed leaves a transaction open if its rows are not a multiple of a thousand.
        let end = if self.variant == Variant::Printed { " WHILE @@TRANCOUNT > 0 COMMIT" } else { "" };
        format!(
            "SET NOCOUNT ON; DECLARE @i bigint = 0, @v bigint, @server bigint = {server}, {REVERSING}; \
             WHILE @i < {rows} BEGIN SET @i += 1; {body} END;{end}"
        )
    }

    /// The number of commits of a connection that inserts `rows` rows.
    pub(super) fn commits(&self, rows: u64) -> u64 {
        let (whole, rest) = (rows / TRANSACTION_ROWS, rows % TRANSACTION_ROWS);
        match (self.variant, self.in_transactions) {
            (Variant::Printed, _) => 2 * whole + u64::from(rest > 0),
            (_, false) => rows,
            (_, true) => whole + u64::from(rest > 0),
        }
    }
}

/// The repeated cases: every key, as a clustered primary key.
pub(super) fn plain(keys: &[Key]) -> Vec<Challenge<'_>> {
    let alone = keys.iter().filter(|key| TRADITIONAL.contains(&key.name)).map(|key| (key, 1));
    let keys = alone.chain(keys.iter().flat_map(|key| CONNECTIONS.map(|connections| (key, connections))));
    keys.flat_map(|(key, connections)| {
        [false, true].map(|in_transactions| Challenge { key, connections, in_transactions, variant: Variant::Plain })
    })
    .collect()
}

/// The cases that run once: the other changes in the text, for the keys where they matter. With `all`, for all keys and
/// numbers of connections.
pub(super) fn variants(keys: &[Key], all: bool) -> Vec<Challenge<'_>> {
    const OF_THE_TABLE: [&str; 3] = ["newid", "identity", "newsequentialid"];
    let mut cases = Vec::new();
    let mut add = |variant, names: &[&str], connections: &[usize], often: &[bool]| {
        for key in keys.iter().filter(|key| all || names.contains(&key.name)) {
            if variant == Variant::Defaults && !key.is_made_by_the_table() {
                continue;
            }
            for &connections in if all { &CONNECTIONS[..] } else { connections } {
                let case = |&in_transactions| Challenge { key, connections, in_transactions, variant };
                cases.extend(often.iter().map(case));
            }
        }
    };
    let every: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let both = [false, true];
    add(Variant::Heap, &every, &[8, 64], &both);
    for (rows, pages) in [(true, false), (false, true), (false, false)] {
        add(Variant::Locks { rows, pages }, &TRADITIONAL, &[64], &both);
    }
    add(Variant::Sequential, &["identity", "newsequentialid"], &[8, 64], &both);
    for files in FILES {
        add(Variant::Files(files), &TRADITIONAL, &[64], &both);
    }
    add(Variant::Defaults, &OF_THE_TABLE, &[64], &both);
    add(Variant::Printed, &TRADITIONAL, &[64], &[true]);
    add(Variant::Hold, &TRADITIONAL, &[1, 8], &[true]);
    cases
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::key::keys;
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let keys = keys();
        for all in [false, true] {
            let cases = plain(&keys).into_iter().chain(variants(&keys, all));
            let names: Vec<String> = cases.map(|case| case.name()).collect();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
            assert!(names.contains(&"bitreverse_64_auto".to_owned()) && names.contains(&"newid_1_auto".to_owned()));
        }
    }

    #[test]
    fn commits_are_those_of_the_loop() {
        let keys = keys();
        let case = |variant, in_transactions| Challenge { key: &keys[0], connections: 1, in_transactions, variant };
        assert_eq!(case(Variant::Plain, false).commits(2_500), 2_500);
        assert_eq!(case(Variant::Plain, true).commits(2_500), 3);
        // 999 rows and one, twice, and the rest.
        assert_eq!(case(Variant::Printed, true).commits(2_500), 5);
    }
}
