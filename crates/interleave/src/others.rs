//! What administrators do beside the sessions: checkpoints, pages that are written and forgotten, indexes that are
//! rebuilt, tables and databases that come and go, and transactions over databases that are about to go.

use hobt_base::SplitMix64;

use crate::script::TableName;
use crate::tables::Shape;
use crate::world::DATABASES;

/// One thing that an administrator does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A batch; some errors are expected of it.
    Batch(String),
    Checkpoint(usize),
    /// Makes the delayed commits of a database durable.
    FlushLog(usize),
    /// Writes changed pages without a checkpoint.
    WritePages(usize),
    /// Forgets the pages that are not changed.
    DropCleanPages,
    MakeDatabase(u64),
    /// A transaction over a database of its own, by its number, and one that stays.
    Across {
        database: u64,
        stays: usize,
        token: i64,
    },
    /// Takes a database offline, and brings it back.
    TakeOffline(u64),
    /// Detaches a database, and attaches its files.
    Reattach(u64),
    DropDatabase(u64),
}

/// The name of a database that comes and goes.
pub(crate) fn passing(number: u64) -> String {
    format!("passing{number}")
}

/// Draws what one administrator does: one that keeps house, or one that changes definitions.
pub(crate) fn draw(
    random: &mut SplitMix64,
    tables: &[TableName],
    count: u64,
    keeps_house: bool,
    life: u64,
) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut databases = Vec::new();
    for step in 0..count {
        let database = usize::try_from(random.below(DATABASES.len() as u64)).expect("few");
        let table = &tables[usize::try_from(random.below(tables.len() as u64)).expect("few")];
        let act = if keeps_house {
            match random.below(10) {
                0..5 => Act::Checkpoint(database),
                5..7 => Act::WritePages(database),
                7 => Act::FlushLog(database),
                _ => Act::DropCleanPages,
            }
        } else {
            let name = &table.name;
            let number = life * 1000 + step;
            match random.below(16) {
                15 => databases.last().map_or(Act::Checkpoint(database), |own| Act::Reattach(*own)),
                13 | 14 => match table.shape {
                    Shape::Switched => Act::Batch(format!(
                        "BEGIN TRANSACTION; TRUNCATE TABLE {name} WITH (PARTITIONS (1, 3 TO 4)); ALTER TABLE {name} \
                         SWITCH PARTITION 2 TO {name}_out PARTITION 2; DELETE FROM {name}_out; ROLLBACK"
                    )),
                    // What others refer to cannot be truncated.
                    shape if shape.create_children("").is_some() => Act::Checkpoint(database),
                    _ => Act::Batch(format!("BEGIN TRANSACTION; TRUNCATE TABLE {name}; ROLLBACK")),
                },
                12 => databases.last().map_or(Act::Checkpoint(database), |own| Act::TakeOffline(*own)),
                0 => Act::Batch(format!("ALTER INDEX ALL ON {name} REORGANIZE")),
                1 => Act::Batch(format!("ALTER INDEX ALL ON {name} REBUILD")),
                // It would keep the table's partitions from being switched.
                2 if table.shape == Shape::Switched => Act::Batch(format!("ALTER INDEX ALL ON {name} REORGANIZE")),
                2 => Act::Batch(format!("CREATE INDEX more{number} ON {name} (bal, rid)")),
                3 => Act::Batch(format!("DROP INDEX IF EXISTS more{} ON {name}", number.saturating_sub(1))),
                4 => Act::Batch(format!("SELECT * INTO {}.dbo.copy{number} FROM {name}", DATABASES[database])),
                5 => Act::Batch(format!("TRUNCATE TABLE {}.dbo.side", DATABASES[database])),
                6 => Act::Batch(format!(
                    "INSERT {}.dbo.side WITH (TABLOCK) SELECT t.tok, t.pad FROM {name} AS t CROSS JOIN \
                     GENERATE_SERIES(1, 20)",
                    DATABASES[database]
                )),
                7 => Act::Batch(format!(
                    "BEGIN TRANSACTION; DROP TABLE IF EXISTS {0}.dbo.undone; CREATE TABLE {0}.dbo.undone (a int); INSERT \
                     {0}.dbo.undone VALUES (1), (2); ROLLBACK",
                    DATABASES[database]
                )),
                8 | 9 => {
                    databases.push(number);
                    Act::MakeDatabase(number)
                }
                10 if !databases.is_empty() => Act::DropDatabase(databases.remove(0)),
                _ => match databases.last() {
                    Some(&own) => {
                        let token = i64::try_from(number * 10).expect("small") + 1;
                        acts.push(Act::Across { database: own, stays: database, token });
                        if random.below(2) == 0 {
                            continue;
                        }
                        // Those that it decides for may not have heard of it.
                        databases.retain(|other| *other != own);
                        Act::DropDatabase(own)
                    }
                    None => Act::Checkpoint(database),
                },
            }
        };
        acts.push(act);
    }
    acts
}
