//! The tables of a round: one logical table in every form with a different access path to its rows.
//!
//! `id` identifies a row permanently, `k` is a key that changes, `p` a partition, `bal` money that is only transferred,
//! `log` the list of the row's changes, `pad` changes its length.

/// Rows with these ids exist whenever no operation is running.
pub(super) const STAYING: std::ops::RangeInclusive<i32> = 1..=6;
/// Rows with these ids are inserted and deleted.
pub(super) const COMING: std::ops::RangeInclusive<i32> = 7..=9;
/// Keys of rows are below this.
pub(super) const KEYS: i32 = 60;
/// Parts of a partitioned table.
pub(super) const PARTS: i32 = 3;
/// The initial balance of each permanent row.
pub(super) const BALANCE: i64 = 100;

/// A form of the table.
pub(super) struct Form {
    pub(super) name: &'static str,
    /// The text after the columns.
    rest: &'static str,
    /// Statements that create its indexes. `{t}` is the table.
    indexes: &'static [&'static str],
    /// Indexes that a hint may name.
    pub(super) hints: &'static [&'static str],
    /// The unique index on ids. Without it, an id could occur twice.
    pub(super) of_ids: Option<&'static str>,
}

/// All forms.
pub(super) const FORMS: &[Form] = &[
    Form { name: "heap", rest: "", indexes: &[], hints: &[], of_ids: None },
    Form {
        name: "heap_indexes",
        rest: "",
        indexes: &["CREATE UNIQUE INDEX ux ON {t} (id)", "CREATE INDEX ix ON {t} (k)"],
        hints: &["ux", "ix"],
        of_ids: Some("ux"),
    },
    Form {
        name: "clustered_key",
        rest: "",
        indexes: &["CREATE UNIQUE CLUSTERED INDEX cx ON {t} (k)", "CREATE UNIQUE INDEX ux ON {t} (id)"],
        hints: &["cx", "ux"],
        of_ids: Some("ux"),
    },
    Form {
        name: "clustered_many",
        rest: "",
        indexes: &[
            "CREATE CLUSTERED INDEX cx ON {t} (k)",
            "CREATE UNIQUE INDEX ux ON {t} (id) INCLUDE (k, p, bal, log)",
            "CREATE INDEX ix ON {t} (p)",
        ],
        hints: &["cx", "ux", "ix"],
        of_ids: Some("ux"),
    },
    Form {
        name: "clustered_id",
        rest: "",
        indexes: &["CREATE UNIQUE CLUSTERED INDEX cx ON {t} (id)", "CREATE INDEX ix ON {t} (k) INCLUDE (p)"],
        hints: &["cx", "ix"],
        of_ids: Some("cx"),
    },
    Form {
        name: "parts_clustered",
        rest: " ON ps (p)",
        indexes: &[
            "CREATE CLUSTERED INDEX cx ON {t} (k, p) ON ps (p)",
            "CREATE UNIQUE INDEX ux ON {t} (id) ON [PRIMARY]",
            "CREATE INDEX ix ON {t} (k) ON ps (p)",
        ],
        hints: &["cx", "ux", "ix"],
        of_ids: Some("ux"),
    },
    Form {
        name: "parts_heap",
        rest: " ON ps (p)",
        indexes: &["CREATE UNIQUE INDEX ux ON {t} (id) ON [PRIMARY]", "CREATE INDEX ix ON {t} (k) ON ps (p)"],
        hints: &["ux", "ix"],
        of_ids: Some("ux"),
    },
];

/// A table of a round.
pub(super) struct RoundTable {
    pub(super) name: String,
    pub(super) form: &'static Form,
}

impl RoundTable {
    pub(super) fn new(round: u64, form: &'static Form) -> RoundTable {
        RoundTable { name: format!("r{round}_{}", form.name), form }
    }

    /// The batches that create it with its permanent rows.
    pub(super) fn setup(&self) -> Vec<String> {
        let (name, rest) = (&self.name, self.form.rest);
        let columns = "id int NOT NULL, k int NOT NULL, p int NOT NULL, bal bigint NOT NULL, log varchar(4000) NOT NULL, \
                       pad varchar(3000) NOT NULL";
        let row = |id: i32| format!("({id}, {}, {}, {BALANCE}, '0', '')", id * 5, id % PARTS);
        let rows: Vec<String> = STAYING.map(row).collect();
        let mut batches = vec![format!("CREATE TABLE {name} ({columns}){rest}")];
        batches.extend(self.form.indexes.iter().map(|index| index.replace("{t}", name)));
        batches.push(format!("INSERT {name} VALUES {}", rows.join(", ")));
        batches
    }
}

/// The batches that prepare a database for the tables.
pub(super) const OF_DATABASE: &[&str] = &[
    "CREATE PARTITION FUNCTION pf (int) AS RANGE RIGHT FOR VALUES (1, 2)",
    "CREATE PARTITION SCHEME ps AS PARTITION pf ALL TO ([PRIMARY])",
];
