//! What administrators do while sessions run: checkpoints, pages that are written and dropped, indexes that are
//! rebuilt, tables and databases that are created and dropped, and transactions over databases that are about to be
//! dropped.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use hobt_base::{SplitMix64, SqlError};
use hobt_instruments::schedule::{self, Place};
use hobt_session::Session;

use crate::history::{Flush, History, Moment};
use crate::script::{TableName, insert_all};
use crate::session::{Answer, ask};
use crate::tables::Shape;
use crate::world::{DATABASES, FOLDER, Passing, Shared};

/// One action of an administrator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A batch for which some errors are expected.
    Batch(String),
    /// Batches, each a while after the one before it, as long as each succeeds.
    InTurn(Vec<String>),
    Checkpoint(usize),
    /// Makes the delayed commits of a database durable.
    FlushLog(usize),
    /// Writes changed pages without a checkpoint.
    WritePages(usize),
    /// Drops the clean pages from the pool.
    DropCleanPages,
    MakeDatabase(u64),
    /// A transaction over a temporary database, given by its number, and a permanent one.
    Across {
        database: u64,
        stays: usize,
        token: i64,
    },
    /// Takes a database offline and online again.
    TakeOffline(u64),
    /// Detaches a database and attaches its files.
    Reattach(u64),
    DropDatabase(u64),
    /// Fills a database's log or the disk with a transaction, holds it for a while, and rolls it back.
    FillUp(usize),
    /// Reads a heap that other sessions fill, several times in one snapshot.
    LookAgain {
        database: usize,
        /// How often to wait [`A_WHILE`] first.
        later: u64,
    },
}

/// The name of a temporary database.
pub(crate) fn passing(number: u64) -> String {
    format!("passing{number}")
}

/// The range of numbers for what a life creates: those of the second administrator, followed by those of the first.
const NUMBERS_OF_A_LIFE: u64 = 1000;
const NUMBERS_OF_THE_FIRST: u64 = 500;

/// Draws the actions of a life's administrators: the first does maintenance, the second changes definitions.
pub(crate) fn draw(random: &mut SplitMix64, tables: &[TableName], life: u64) -> [Vec<Act>; 2] {
    let numbers = life * NUMBERS_OF_A_LIFE;
    let mut author = Author { random, tables, made: Vec::new(), passing: Vec::new(), briefs: Vec::new() };
    let (housekeeping, definitions) = (author.random.below(5), author.random.below(5));
    let definitions = (numbers..numbers + definitions).flat_map(|number| author.definition(number)).collect();
    let numbers = numbers + NUMBERS_OF_THE_FIRST;
    let housekeeping = (numbers..numbers + housekeeping).map(|number| author.housekeeping(number)).collect();
    [housekeeping, definitions]
}

struct Author<'a> {
    random: &'a mut SplitMix64,
    tables: &'a [TableName],
    /// The databases that were created, and `passing`, those of them that are not dropped yet.
    made: Vec<u64>,
    passing: Vec<u64>,
    /// Databases in which tables are created and dropped.
    briefs: Vec<usize>,
}

/// A transaction over a temporary database and a permanent one, with its own number.
fn across(database: u64, stays: usize, number: u64) -> Act {
    Act::Across { database, stays, token: i64::try_from(number * 10).expect("small") + 1 }
}

impl Author<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("few")
    }

    fn housekeeping(&mut self, number: u64) -> Act {
        let database = self.below(DATABASES.len());
        match self.random.below(12) {
            // Meanwhile the other administrator creates and drops this database.
            10.. if !self.made.is_empty() => {
                let own = self.below(self.made.len());
                across(self.made[own], database, number)
            }
            // Where other tables get the pages of a table that is dropped meanwhile.
            2..5 if !self.briefs.is_empty() => {
                Act::LookAgain { database: self.briefs.remove(0), later: self.random.below(8) }
            }
            0..4 => Act::Checkpoint(database),
            4 => Act::LookAgain { database, later: 0 },
            5..7 => Act::WritePages(database),
            7 => Act::FlushLog(database),
            _ => Act::DropCleanPages,
        }
    }

    fn definition(&mut self, number: u64) -> Vec<Act> {
        let database = self.below(DATABASES.len());
        let place = DATABASES[database];
        let table = &self.tables[self.below(self.tables.len())];
        let (name, shape) = (&table.name, table.shape);
        let passes = self.passing.last().copied();
        let act = match self.random.below(24) {
            0 => Act::Batch(format!("ALTER INDEX ALL ON {name} REORGANIZE")),
            1 => Act::Batch(format!("ALTER INDEX ALL ON {name} REBUILD")),
            // It would prevent the switching of the table's partitions.
            2 if shape == Shape::Switched => Act::Batch(format!("ALTER INDEX ALL ON {name} REORGANIZE")),
            2 => Act::Batch(format!("CREATE INDEX more{number} ON {name} (bal, rid)")),
            3 => Act::Batch(format!("DROP INDEX IF EXISTS more{} ON {name}", number.saturating_sub(1))),
            4 => Act::Batch(format!("SELECT * INTO {place}.dbo.copy{number} FROM {name}")),
            5 => Act::Batch(format!("TRUNCATE TABLE {place}.dbo.side")),
            6 => Act::Batch(format!(
                "INSERT {place}.dbo.side WITH (TABLOCK) SELECT t.tok, LEFT(t.pad, 900) FROM {name} AS t CROSS JOIN \
                 GENERATE_SERIES(1, 20)"
            )),
            7 => Act::Batch(format!(
                "BEGIN TRANSACTION; DROP TABLE IF EXISTS {place}.dbo.undone; CREATE TABLE {place}.dbo.undone (a int); \
                 INSERT {place}.dbo.undone VALUES (1), (2); ROLLBACK"
            )),
            8 | 9 => {
                self.made.push(number);
                if self.below(3) == 0 {
                    return vec![
                        Act::MakeDatabase(number),
                        across(number, database, number),
                        Act::DropDatabase(number),
                    ];
                }
                self.passing.push(number);
                Act::MakeDatabase(number)
            }
            10 if !self.passing.is_empty() => Act::DropDatabase(self.passing.remove(0)),
            11 => passes.map_or(Act::Checkpoint(database), Act::TakeOffline),
            12 => passes.map_or(Act::Checkpoint(database), Act::Reattach),
            13 | 14 => Act::Batch(taken_back(table)),
            15..18 => Act::Batch(self.columns(table, number)),
            18 => Act::Batch(format!("UPDATE STATISTICS {name}")),
            19 | 20 => {
                self.briefs.push(database);
                brief(place, number)
            }
            _ => {
                let Some(own) = passes else { return vec![Act::Checkpoint(database)] };
                let mut acts = vec![across(own, database, number)];
                if self.random.below(2) == 0 {
                    // Databases that it decides for may not know the decision yet.
                    self.passing.retain(|other| *other != own);
                    acts.push(Act::DropDatabase(own));
                }
                return acts;
            }
        };
        vec![act]
    }

    /// Columns that are added and dropped, and boundaries of partitions.
    fn columns(&mut self, table: &TableName, number: u64) -> String {
        let (database, own) = table.name.split_once(".dbo.").expect("a name with a database");
        let name = &table.name;
        let earlier = number.saturating_sub(1 + self.random.below(2));
        match (table.shape, self.random.below(6)) {
            // Both of its tables would need it.
            (Shape::Switched, _) => format!("UPDATE STATISTICS {name}"),
            (Shape::Partitioned, 0..2) => format!(
                "USE {database}; ALTER PARTITION SCHEME ps_{own} NEXT USED [PRIMARY]; ALTER PARTITION FUNCTION pf_{own}() \
                 SPLIT RANGE ({})",
                [30, 150, 250][self.below(3)]
            ),
            (Shape::Partitioned, 2) => {
                format!(
                    "USE {database}; ALTER PARTITION FUNCTION pf_{own}() MERGE RANGE ({})",
                    [150, 200, 250][self.below(3)]
                )
            }
            (_, 0..3) => format!("ALTER TABLE {name} ADD more{number} int NULL"),
            (_, 3) => {
                format!("ALTER TABLE {name} ADD more{number} int NOT NULL CONSTRAINT of_more{number} DEFAULT {number}")
            }
            _ => {
                format!("ALTER TABLE {name} DROP CONSTRAINT IF EXISTS of_more{earlier}, COLUMN IF EXISTS more{earlier}")
            }
        }
    }
}

/// Creates a table, drops it while its rows have versions, and makes another heap use its pages.
fn brief(place: &str, number: u64) -> Act {
    let name = format!("{place}.dbo.brief{number}");
    // Row by row: bulk-loaded pages need no versions.
    let fill = |into: &str, token: &str| {
        format!("INSERT {into} SELECT {token}, REPLICATE('b', 800) FROM GENERATE_SERIES(1, 90)")
    };
    let (filled, side) = (fill(&name, "value"), format!("{place}.dbo.side"));
    Act::InTurn(vec![
        format!("CREATE TABLE {name} (tok bigint NOT NULL, pad varchar(900) NOT NULL); {filled}"),
        format!("UPDATE {name} SET tok = -tok; DROP TABLE {name}"),
        fill(&side, "-value"),
    ])
}

/// A change of a whole table that is rolled back.
fn taken_back(table: &TableName) -> String {
    let name = &table.name;
    match table.shape {
        Shape::Switched => format!(
            "BEGIN TRANSACTION; TRUNCATE TABLE {name} WITH (PARTITIONS (1, 3 TO 4)); ALTER TABLE {name} SWITCH PARTITION \
             2 TO {name}_out PARTITION 2; DELETE FROM {name}_out; ROLLBACK"
        ),
        // A table that is referred to cannot be truncated.
        shape if shape.create_children("").is_some() => {
            format!("BEGIN TRANSACTION; ALTER TABLE {name} ADD gone int NULL; DELETE FROM {name}_child; ROLLBACK")
        }
        _ => {
            let others = insert_all(name, NEVER_COMMITTED);
            // Without XACT_ABORT the inserts would run after a failed truncation, and stay.
            format!(
                "SET XACT_ABORT ON; BEGIN TRANSACTION; TRUNCATE TABLE {name}; {others}; ROLLBACK; SET XACT_ABORT OFF"
            )
        }
    }
}

/// The number of reads in one snapshot: enough for the time in which a table is created and dropped and its pages are
/// reused.
const LOOKS: usize = 15;

/// In simulated time: other actors pass some thousand points meanwhile.
const A_WHILE: Duration = Duration::from_millis(2);

/// A token that is never committed.
const NEVER_COMMITTED: i64 = 99_999_999;

/// An administrator.
pub(crate) struct Other<'w> {
    pub(crate) number: usize,
    pub(crate) shared: &'w Shared,
    pub(crate) session: Session,
}

/// Errors that an administrator must expect when others run: deadlocks, names claimed by others, names and boundaries
/// that exist or do not, databases that are in use or in transition.
const EXPECTED: [i32; 16] =
    [1205, 1222, 1801, 1913, 2714, 3701, 3702, 3960, 3961, 5061, 7715, 7721, 911, 942, 952, 2627];

/// Errors that all actors must expect if the log or the disk may be full: no more room in a database or its log, a file
/// that cannot be created or extended, no more room for row versions.
pub(crate) const FULL: [i32; 7] = [1105, 9002, 1802, 5149, 3271, 3958, 3959];

impl Other<'_> {
    pub(crate) fn run(&mut self, acts: &[Act]) {
        for act in acts {
            let is_wrong = self.history().wrong.is_some();
            if self.shared.disk.is_off() || is_wrong {
                return;
            }
            self.act(act);
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.shared.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.shared.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Batch(text) => {
                self.batch(text);
            }
            Act::InTurn(batches) => {
                for (at, text) in batches.iter().enumerate() {
                    if at > 0 {
                        self.wait();
                    }
                    if !self.batch(text) {
                        break;
                    }
                }
            }
            Act::Checkpoint(database) => {
                let from = self.history().tick();
                if self.batch(&format!("USE {}; CHECKPOINT; USE master", DATABASES[*database])) {
                    self.note_flush(*database, from);
                }
            }
            Act::FlushLog(database) => {
                let from = self.history().tick();
                if self.batch(&format!("EXEC {}.sys.sp_flush_log", DATABASES[*database])) {
                    self.note_flush(*database, from);
                }
            }
            Act::WritePages(database) => {
                let Ok(database) = self.shared.server.instance().database(DATABASES[*database]) else { return };
                if let Err(error) = database.storage().flush()
                    && !self.shared.disk.is_off()
                {
                    self.is_wrong(format!("pages cannot be written: {error}"));
                }
            }
            Act::FillUp(database) => self.fill_up(*database),
            Act::LookAgain { database, later } => {
                (0..*later).for_each(|_| self.wait());
                self.look_again(*database);
            }
            Act::DropCleanPages => {
                self.shared.server.instance().pool().drop_clean_buffers(None);
            }
            Act::MakeDatabase(number) => self.make_database(*number),
            Act::Across { database, stays, token } => self.commit_across(*database, *stays, *token),
            Act::TakeOffline(number) => {
                if self.is_listed(*number) {
                    let name = passing(*number);
                    self.batch(&format!("ALTER DATABASE {name} SET OFFLINE; ALTER DATABASE {name} SET ONLINE"));
                }
            }
            Act::Reattach(number) => self.reattach(*number),
            Act::DropDatabase(number) => self.drop_database(*number),
        }
    }

    /// Whether a temporary database is available to all actors.
    fn is_listed(&self, number: u64) -> bool {
        self.passing().listed.contains(&number)
    }

    fn make_database(&mut self, number: u64) {
        let name = passing(number);
        self.passing().doubtful.insert(number);
        let text =
            format!("CREATE DATABASE {name} ON (NAME = {name}, SIZE = 2MB) LOG ON (NAME = {name}_log, SIZE = 4MB)");
        if self.batch(&text) {
            // Other actors learn of it when it is usable.
            self.batch(&format!("CREATE TABLE {name}.dbo.m (tok bigint NOT NULL)"));
            if !self.shared.disk.is_off() {
                self.passing().doubtful.remove(&number);
                self.passing().listed.insert(number);
            }
        }
    }

    fn commit_across(&mut self, database: u64, stays: usize, token: i64) {
        // Its last digit tells which permanent database has it too. Without XACT_ABORT a database in transition would
        // fail one insert and let the other commit.
        let token = token * 10 + i64::try_from(stays).expect("few") + 1;
        let text = format!(
            "SET XACT_ABORT ON; BEGIN TRANSACTION; INSERT {}.dbo.m VALUES ({token}); INSERT {}.dbo.crossed VALUES ({database}, {token}); \
             COMMIT",
            passing(database),
            DATABASES[stays]
        );
        if self.is_listed(database) && self.batch(&text) {
            self.passing().tokens.entry((database, stays)).or_default().insert(token);
        }
    }

    fn reattach(&mut self, number: u64) {
        if !self.is_listed(number) {
            return;
        }
        let name = passing(number);
        self.passing().doubtful.insert(number);
        let attach = format!("CREATE DATABASE {name} ON (FILENAME = '{FOLDER}/{name}.mdf') FOR ATTACH");
        if self.batch(&format!("EXEC sp_detach_db '{name}'")) && self.batch(&attach) || !self.shared.disk.is_off() {
            self.passing().doubtful.remove(&number);
        }
    }

    fn drop_database(&mut self, number: u64) {
        if !self.is_listed(number) {
            return;
        }
        self.passing().doubtful.insert(number);
        if self.batch(&format!("DROP DATABASE {}", passing(number))) {
            self.passing().doubtful.remove(&number);
            self.passing().listed.remove(&number);
        } else if !self.shared.disk.is_off() {
            self.passing().doubtful.remove(&number);
        }
    }

    /// Takes the room that a database has, in ever smaller pieces, until none is left.
    fn fill_up(&mut self, database: usize) {
        let name = DATABASES[database];
        self.batch("BEGIN TRANSACTION");
        let mut bytes = 600_000;
        for _ in 0..20 {
            let insert = format!("INSERT {name}.dbo.big VALUES (REPLICATE(CAST('x' AS varchar(max)), {bytes}))");
            if self.shared.disk.is_off() {
                return;
            }
            let Some(error) = self.ask(&insert) else { continue };
            if !FULL.contains(&error.number) {
                self.check(&error, &insert);
                break;
            }
            self.history().full += 1;
            bytes /= 5;
            if bytes < 50 {
                break;
            }
        }
        // Other actors find no room now.
        for _ in 0..5 {
            self.batch(&format!("SELECT COUNT(*) FROM {name}.dbo.side WITH (NOLOCK)"));
        }
        self.batch("IF @@TRANCOUNT > 0 ROLLBACK");
    }

    /// Reads a heap several times in one snapshot, and compares the results.
    fn look_again(&mut self, database: usize) {
        let name = DATABASES[database];
        let look = format!("SELECT COUNT(*), SUM(tok), SUM(LEN(pad)) FROM {name}.dbo.side");
        let mut begins = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION; ";
        let mut seen = None;
        for _ in 0..LOOKS {
            let answer = self.answer(&format!("{begins}{look}"));
            begins = "";
            if let Some(error) = answer.error {
                self.check(&error, &look);
                break;
            }
            let first = seen.get_or_insert_with(|| answer.rows.clone());
            if *first != answer.rows && !self.shared.disk.is_off() {
                self.is_wrong(format!("a snapshot saw {first:?}, and then {:?}: {look}", answer.rows));
                break;
            }
            self.wait();
        }
        self.batch("IF @@TRANCOUNT > 0 ROLLBACK; SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    }

    /// Waits while other actors continue.
    fn wait(&self) {
        let until = schedule::now() + A_WHILE;
        while schedule::now() < until && !self.shared.disk.is_off() {
            schedule::wait(Place::Moment);
        }
    }

    fn note_flush(&self, database: usize, from: Moment) {
        let mut history = self.history();
        history.flushes.push(Flush { database, from });
    }

    fn is_wrong(&self, text: String) {
        self.history().is_wrong(text);
    }

    /// Runs a batch. Returns whether it certainly succeeded.
    fn batch(&mut self, text: &str) -> bool {
        let Some(error) = self.ask(text) else { return !self.shared.disk.is_off() };
        // Ends the rest of a transaction that failed half-way.
        ask(&mut self.session, "IF @@TRANCOUNT > 0 ROLLBACK");
        self.check(&error, text);
        false
    }

    /// Runs a batch and returns its error.
    fn ask(&mut self, text: &str) -> Option<SqlError> {
        self.answer(text).error
    }

    fn answer(&mut self, text: &str) -> Answer {
        let (number, shared) = (self.number, self.shared);
        let note = |text: String| {
            let mut history = shared.history.lock().unwrap_or_else(PoisonError::into_inner);
            history.statements += 1;
            history.note(|| text);
        };
        note(format!("a{number}: {text}"));
        let answer = ask(&mut self.session, text);
        match &answer.error {
            None => note(format!("a{number} --> done")),
            Some(error) => note(format!("a{number} --> error {}: {}", error.number, error.message)),
        }
        answer
    }

    /// Whether an error is a consequence of what other actors do.
    fn check(&self, error: &SqlError, batch: &str) {
        let is_full = self.shared.is_tight && FULL.contains(&error.number);
        if !EXPECTED.contains(&error.number) && !is_full && !self.shared.disk.is_off() {
            self.is_wrong(format!(
                "administrator {}: error {}: {} in {batch}",
                self.number, error.number, error.message
            ));
        }
    }
}
