//! The tables that queries are generated for: a few small ones and a larger one, each stored in four ways, with values
//! that match across types, NULLs and duplicates.

use std::collections::BTreeSet;

use hobt_base::SplitMix64;

use super::tree::{Shape, Type};
use crate::client::pick;

/// A column. Its values are written as literals.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: Type,
    pub(super) is_nullable: bool,
}

/// A table. Its first column, `id`, is unique.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// Literals, one for each column.
    pub(super) rows: Vec<Vec<String>>,
    /// The statements that create each shape from an empty table, in the order of [`Shape::ALL`]. `{t}` is the table's
    /// name.
    indexes: [Vec<String>; 4],
}

/// All tables of a group of seeds.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) tables: Vec<Table>,
    /// `COLLATE …` for text, or empty.
    collation: &'static str,
}

/// The number of seeds that share their tables, because creating these costs as much as some queries.
pub(super) const SEEDS_OF_A_WORLD: u64 = 50;

pub(super) fn chance(random: &mut SplitMix64, of_hundred: u64) -> bool {
    random.below(100) < of_hundred
}

pub(super) fn below(random: &mut SplitMix64, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).expect("below a usize")
}

/// A literal of a type, from a small set, so that values match.
pub(super) fn literal(random: &mut SplitMix64, of: Type) -> String {
    let some: &[&str] = match of {
        Type::Bit => &["0", "1"],
        Type::TinyInt => &["0", "1", "2", "3", "5", "7", "255"],
        Type::SmallInt | Type::Int | Type::BigInt => &["0", "1", "2", "3", "5", "7", "-1", "-3", "8"],
        Type::Decimal => &["0.00", "1.00", "2.00", "7.00", "1.50", "-3.25", "7.25"],
        Type::Money => &["0", "1", "2.5", "7", "-1"],
        Type::Float => &["0e0", "1e0", "2e0", "7e0", "1.5e0", "-2.5e-1", "-0e0"],
        Type::Date => &["'2020-01-01'", "'2020-01-02'", "'2020-01-07'", "'2024-02-29'", "'1999-12-31'"],
        Type::DateTime | Type::DateTime2 => {
            &["'2020-01-01'", "'2020-01-02'", "'2020-01-01T12:30:00'", "'2024-02-29T23:59:59.990'", "'1999-12-31'"]
        }
        Type::VarChar => &["'a'", "'A'", "'b'", "'b '", "'ab'", "''", "'7'", "'c'"],
        Type::NVarChar => &["N'a'", "N'A'", "N'B'", "N'b '", "N'aB'", "N''", "N'7'", "N'é'"],
        Type::VarBinary => &["0x01", "0x0100", "0x02", "0xFF", "0x0102", "0x00"],
        Type::Guid => &[
            "'00000000-0000-0000-0000-000000000000'",
            "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
            "'6F9619FF-8B86-D011-B42D-00C04FC96400'",
        ],
    };
    pick(random, some).to_owned()
}

impl Table {
    fn new(random: &mut SplitMix64, rows: usize) -> Table {
        let column = |name: String, of, is_nullable| Column { name, of, is_nullable };
        let mut columns = vec![column("id".to_owned(), Type::Int, false), column("k".to_owned(), Type::Int, true)];
        for number in 0..2 + below(random, 4) {
            let of = Type::ALL[below(random, Type::ALL.len())];
            columns.push(column(format!("v{number}"), of, chance(random, 70)));
        }
        let nulls = 5 + random.below(40);
        let row = |random: &mut SplitMix64, id: usize| {
            let value = |column: &Column| match column.name.as_str() {
                "id" => (id + 1).to_string(),
                _ if column.is_nullable && chance(random, nulls) => "NULL".to_owned(),
                _ => literal(random, column.of),
            };
            columns.iter().map(value).collect::<Vec<_>>()
        };
        let rows = (0..rows).map(|id| row(random, id)).collect();
        let indexes =
            [Vec::new(), vec![clustered(random, &columns)], secondary(random, &columns), partitioned(random, &columns)];
        Table { columns, rows, indexes }
    }

    /// The statements that create and fill a shape of the table with number `table`.
    fn script(&self, table: usize, shape: Shape, collation: &str) -> Vec<String> {
        let name = format!("t{table}{}", shape.suffix());
        let column = |column: &Column| {
            let collation = if matches!(column.of, Type::VarChar | Type::NVarChar) { collation } else { "" };
            let null = if column.is_nullable { "NULL" } else { "NOT NULL" };
            format!("{} {}{collation} {null}", column.name, column.of.sql())
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        let mut script = vec![format!("CREATE TABLE {name} ({})", columns.join(", "))];
        let known = |index: &&String| self.knows_columns_of(index);
        script.extend(self.indexes[shape as usize].iter().filter(known).map(|index| index.replace("{t}", &name)));
        for some in self.rows.chunks(200) {
            let rows: Vec<String> = some.iter().map(|row| format!("({})", row.join(", "))).collect();
            script.push(format!("INSERT {name} VALUES {}", rows.join(", ")));
        }
        script
    }

    /// Whether the columns of an index still exist, when tables are reduced.
    fn knows_columns_of(&self, index: &str) -> bool {
        let words = index.split(|letter: char| !letter.is_ascii_alphanumeric());
        let is_column = |word: &&str| word.len() == 2 && word.starts_with('v') && word.ends_with(char::is_numeric);
        words.filter(is_column).all(|word| self.columns.iter().any(|column| column.name == word))
    }

    /// The table without its column at `at`.
    pub(super) fn without_column(&self, at: usize) -> Table {
        let mut cut = self.clone();
        cut.columns.remove(at);
        for row in &mut cut.rows {
            row.remove(at);
        }
        cut
    }
}

/// Some distinct columns of a table, as a list with sort orders.
fn some_columns(random: &mut SplitMix64, columns: &[Column], most: usize) -> Vec<String> {
    let mut names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let count = 1 + below(random, most);
    for at in 0..count.min(names.len()) {
        let other = at + below(random, names.len() - at);
        names.swap(at, other);
    }
    names.truncate(count);
    names
}

fn key(random: &mut SplitMix64, columns: &[Column], most: usize) -> String {
    let names = some_columns(random, columns, most);
    let ordered: Vec<String> =
        names.into_iter().map(|name| if chance(random, 25) { name + " DESC" } else { name }).collect();
    ordered.join(", ")
}

fn clustered(random: &mut SplitMix64, columns: &[Column]) -> String {
    if chance(random, 40) {
        return "ALTER TABLE {t} ADD PRIMARY KEY (id)".to_owned();
    }
    format!("CREATE CLUSTERED INDEX c ON {{t}} ({})", key(random, columns, 2))
}

fn secondary(random: &mut SplitMix64, columns: &[Column]) -> Vec<String> {
    let mut all = Vec::new();
    if chance(random, 50) {
        all.push(clustered(random, columns));
    }
    for number in 0..1 + below(random, 3) {
        let key = key(random, columns, 2);
        let of_key = |column: &str| key.split([',', ' ']).any(|part| part == column);
        let others = some_columns(random, columns, 3).into_iter().filter(|name| !of_key(name));
        let others: Vec<String> = others.collect();
        let include = if others.is_empty() || chance(random, 50) {
            String::new()
        } else {
            format!(" INCLUDE ({})", others.join(", "))
        };
        let unique = if of_key("id") && chance(random, 60) { "UNIQUE " } else { "" };
        all.push(format!("CREATE {unique}INDEX i{number} ON {{t}} ({key}){include}"));
    }
    all
}

fn partitioned(random: &mut SplitMix64, columns: &[Column]) -> Vec<String> {
    let by = if chance(random, 60) { "k" } else { "id" };
    if chance(random, 50) {
        return vec![format!("CREATE CLUSTERED INDEX c ON {{t}} ({by}) ON ps ({by})")];
    }
    let second = pick(random, &["", " DESC"]);
    let other = &columns[below(random, columns.len())].name;
    let key = if other == by { format!("{by}{second}") } else { format!("{other}{second}, {by}") };
    let key = if chance(random, 50) { key } else { format!("{by}{second}") };
    vec![
        format!("CREATE CLUSTERED INDEX c ON {{t}} ({key}) ON ps ({by})"),
        format!("CREATE INDEX i ON {{t}} ({})", columns[columns.len() - 1].name),
    ]
}

impl World {
    /// The tables of the world that a seed belongs to.
    pub(super) fn of(seed: u64) -> World {
        let mut random = SplitMix64::new(0x7AB1E5 ^ (seed / SEEDS_OF_A_WORLD));
        let small = |random: &mut SplitMix64| match random.below(10) {
            0 => 0,
            1 => 1,
            _ => 3 + below(random, 9),
        };
        let mut sizes: Vec<usize> = (0..4).map(|_| small(&mut random)).collect();
        if chance(&mut random, 60) {
            sizes[3] = 600;
        }
        let tables = sizes.into_iter().map(|rows| Table::new(&mut random, rows)).collect();
        let collation = if chance(&mut random, 20) { " COLLATE Latin1_General_BIN2" } else { "" };
        World { tables, collation }
    }

    /// The statements before all tables: partitions of integers.
    pub(super) const BEFORE: [&'static str; 2] = [
        "CREATE PARTITION FUNCTION pf (int) AS RANGE LEFT FOR VALUES (0, 2, 5)",
        "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])",
    ];

    /// The statements that create these tables.
    pub(super) fn script(&self, wanted: &BTreeSet<(usize, Shape)>) -> Vec<String> {
        wanted.iter().flat_map(|(table, shape)| self.tables[*table].script(*table, *shape, self.collation)).collect()
    }

    /// All tables in all shapes.
    pub(super) fn all(&self) -> BTreeSet<(usize, Shape)> {
        (0..self.tables.len()).flat_map(|table| Shape::ALL.map(|shape| (table, shape))).collect()
    }

    /// Whether text columns have the collation of constants.
    pub(super) fn has_default_collation(&self) -> bool {
        self.collation.is_empty()
    }

    /// Whether a table is too large to be multiplied with others.
    pub(super) fn is_large(&self, table: usize) -> bool {
        self.tables[table].rows.len() > 100
    }
}
