//! The tables that sessions share, and the form of their rows.
//!
//! Every table has the same columns, so that one script fits all of them. They differ in how rows are stored and in how
//! a row is found:
//!
//! | column | what it is |
//! |---|---|
//! | `rid` | which row it is; it never changes and comes once |
//! | `k` | a key that updates change: rows move in trees and between partitions |
//! | `grp` | a quarter of the rows, mostly behind an index that is not unique |
//! | `tok` | which statement wrote the row last: no two statements write the same |
//! | `bal` | what transfers move from row to row: the sum of all is known |
//! | `pad` | some bytes that follow from `tok`, so that a row of two statements' values shows |

use std::fmt::Write;

/// The maximum number of rows of a table; `rid` runs from 0.
pub(crate) const ROWS: i64 = 12;
/// Groups of rows.
pub(crate) const GROUPS: i64 = 4;
/// The minimum `rid`. Rows below 0 are inserted only together with others that exist already, so that the statement
/// fails.
pub(crate) const RID_MIN: i64 = -2;

/// The columns of every table. Other columns may be added and dropped.
pub(crate) const COLUMNS: &str = "rid, k, grp, tok, bal, pad";

/// The group of a row.
pub(crate) fn group(rid: i64) -> i64 {
    rid.rem_euclid(GROUPS)
}
/// The initial balance of each row, and of a row that is inserted again.
pub(crate) const BALANCE: i64 = 100;

/// How a table's rows are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// A heap with a unique index over `rid`.
    Heap,
    /// A heap with two more indexes.
    HeapIndexed,
    /// Clustered by `rid`.
    Tree,
    /// Clustered by `rid`, with unique and other indexes.
    TreeIndexed,
    /// Clustered by `k`, which is not unique; `rid` is behind an index.
    Moving,
    /// Clustered by `k` and `rid`, partitioned by `k`: a new `k` may move a row to another partition.
    Partitioned,
    /// Clustered and partitioned by `rid`, its other index with it: a partition can be switched out, and back in.
    Switched,
    /// A heap whose rows have values on pages of their own.
    LongHeap,
    /// Clustered by `rid`, with values on pages of their own.
    LongTree,
}

/// The partition of [`Shape::Switched`] that is switched holds these rows.
pub(crate) const SWITCHED: std::ops::Range<i64> = 3..6;

impl Shape {
    /// All shapes.
    pub(crate) const ALL: [Shape; 9] = [
        Shape::Heap,
        Shape::HeapIndexed,
        Shape::Tree,
        Shape::TreeIndexed,
        Shape::Moving,
        Shape::Partitioned,
        Shape::Switched,
        Shape::LongHeap,
        Shape::LongTree,
    ];

    /// The T-SQL that creates a table of this shape.
    pub(crate) fn create(self, name: &str) -> String {
        let pad = if self.is_long() { "max" } else { "900" };
        let columns = format!(
            "rid int NOT NULL, k int NOT NULL, grp int NOT NULL, tok bigint NOT NULL, bal int NOT NULL, pad \
             varchar({pad}) NOT NULL"
        );
        let plain = format!("CREATE TABLE {name} ({columns})");
        match self {
            Shape::Heap | Shape::LongHeap => format!("{plain}; CREATE UNIQUE INDEX by_rid ON {name} (rid)"),
            Shape::HeapIndexed => format!(
                "{plain}; CREATE UNIQUE INDEX by_rid ON {name} (rid) INCLUDE (tok); CREATE INDEX by_grp ON {name} (grp); \
                 CREATE INDEX by_k ON {name} (k) INCLUDE (bal)"
            ),
            Shape::Tree | Shape::LongTree => format!("CREATE TABLE {name} ({columns}, PRIMARY KEY CLUSTERED (rid))"),
            Shape::TreeIndexed => format!(
                "CREATE TABLE {name} ({columns}, PRIMARY KEY CLUSTERED (rid)); CREATE INDEX by_grp ON {name} (grp) \
                 INCLUDE (tok); CREATE UNIQUE INDEX by_tok ON {name} (tok, rid)"
            ),
            Shape::Moving => {
                format!(
                    "{plain}; CREATE CLUSTERED INDEX by_k ON {name} (k); CREATE UNIQUE INDEX by_rid ON {name} (rid)"
                )
            }
            Shape::Partitioned => format!(
                "CREATE PARTITION FUNCTION pf_{name} (int) AS RANGE RIGHT FOR VALUES (100, 200, 300); CREATE PARTITION \
                 SCHEME ps_{name} AS PARTITION pf_{name} ALL TO ([PRIMARY]); CREATE TABLE {name} ({columns}) ON \
                 ps_{name}(k); CREATE UNIQUE CLUSTERED INDEX by_k ON {name} (k, rid) ON ps_{name}(k); CREATE UNIQUE \
                 INDEX by_rid ON {name} (rid) ON [PRIMARY]"
            ),
            Shape::Switched => format!(
                "CREATE PARTITION FUNCTION pf_{name} (int) AS RANGE RIGHT FOR VALUES ({first}, {end}, 9); CREATE \
                 PARTITION SCHEME ps_{name} AS PARTITION pf_{name} ALL TO ([PRIMARY]); CREATE TABLE {name} ({columns}, \
                 PRIMARY KEY CLUSTERED (rid) ON ps_{name}(rid)); CREATE INDEX by_grp ON {name} (grp) INCLUDE (tok) ON \
                 ps_{name}(rid); CREATE TABLE {name}_out ({columns}, PRIMARY KEY CLUSTERED (rid) ON ps_{name}(rid)); \
                 CREATE INDEX by_grp ON {name}_out (grp) INCLUDE (tok) ON ps_{name}(rid)",
                first = SWITCHED.start,
                end = SWITCHED.end,
            ),
        }
    }

    /// The T-SQL that creates the table of a table's children, which refer to its rows; `None` if it has no key that
    /// can be referred to.
    pub(crate) fn create_children(self, name: &str) -> Option<String> {
        matches!(self, Shape::Tree | Shape::TreeIndexed).then(|| {
            format!(
                "CREATE TABLE {name}_child (rid int NOT NULL REFERENCES {name} (rid), tok bigint NOT NULL); CREATE INDEX \
                 by_rid ON {name}_child (rid)"
            )
        })
    }

    /// Whether `pad` may be longer than a page.
    pub(crate) fn is_long(self) -> bool {
        matches!(self, Shape::LongHeap | Shape::LongTree)
    }

    /// Its indexes, for hints, except the heap or the clustered index.
    pub(crate) fn indexes(self) -> &'static [&'static str] {
        match self {
            Shape::Heap | Shape::LongHeap | Shape::Moving | Shape::Partitioned => &["by_rid"],
            Shape::HeapIndexed => &["by_rid", "by_grp", "by_k"],
            Shape::Tree | Shape::LongTree => &[],
            Shape::TreeIndexed => &["by_grp", "by_tok"],
            Shape::Switched => &["by_grp"],
        }
    }
}

/// The bytes that belong to a statement's rows.
pub(crate) fn pad(token: i64, length: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(token.rem_euclid(26)).expect("below 26"));
    let mut text = format!("{token}:");
    while text.len() < length {
        text.push(letter);
    }
    text
}

/// Whether bytes belong to a statement's rows, at any length.
pub(crate) fn is_pad_of(token: i64, text: &str) -> bool {
    *text == pad(token, text.len())
}

/// The statements that fill a table with its first rows, which token 0 has written.
pub(crate) fn fill(name: &str) -> String {
    let mut rows = String::new();
    for rid in 0..ROWS {
        let separator = if rid == 0 { "" } else { ", " };
        let grp = group(rid);
        write!(rows, "{separator}({rid}, {}, {grp}, 0, {BALANCE}, '{}')", rid * 30, pad(0, 40)).expect("a string");
    }
    format!("INSERT {name} ({COLUMNS}) VALUES {rows}")
}
