//! `SWITCH` with concurrent readers: it needs the whole table exclusively for a moment, and every reader of the table
//! conflicts with it.

use serde_json::json;

use crate::connection::Connection;
use crate::error::Result;
use crate::experiment::together::Counters;
use crate::laboratory::Laboratory;
use crate::report::Case;

/// Readers in addition to the session that switches.
const READERS: usize = 2;
/// Number of counts per reader.
const COUNTS: u32 = 20;
/// How often the partition is switched out and back.
const ROUNDS: u32 = 5;
/// An empty table with the same partitions.
pub(super) const STAGING: &str = "LocksStaging";

/// Switches the first partition out and back while readers count the table, whose first partition has `first` of its
/// `rows` rows. Each count must include all of the partition or nothing of it.
///
/// # Errors
/// If a statement failed, or a count was different.
pub(super) fn beside_readers(lab: &mut Laboratory, table: &str, rows: u64, first: u64, case: &mut Case) -> Result<()> {
    let read = format!(
        "SET NOCOUNT ON; DECLARE @i int = 0, @n bigint; WHILE @i < {COUNTS} BEGIN SET @i += 1; \
         SELECT @n = COUNT_BIG(*) FROM dbo.{table}; \
         IF @n NOT IN ({rows}, {}) THROW 50000, 'half of a partition was counted', 1 END",
        rows - first
    );
    let (out, back) = (
        format!("ALTER TABLE dbo.{table} SWITCH PARTITION 1 TO dbo.{STAGING} PARTITION 1"),
        format!("ALTER TABLE dbo.{STAGING} SWITCH PARTITION 1 TO dbo.{table} PARTITION 1"),
    );
    let mut readers: Vec<Connection> = (0..READERS).map(|_| lab.connect()).collect::<Result<_>>()?;
    let before = Counters::now(lab)?;
    std::thread::scope(|scope| -> Result<()> {
        let running: Vec<_> =
            readers.iter_mut().map(|reader| scope.spawn(|| reader.run(&read).map(|answer| answer.elapsed))).collect();
        for _ in 0..ROUNDS {
            for statement in [&out, &back] {
                let answer = lab.run(statement)?;
                case.push("switch_ms", answer.elapsed.as_secs_f64() * 1e3);
            }
        }
        for reader in running {
            let elapsed = reader.join().expect("a session does not panic")?;
            case.push("count_ms", elapsed.as_secs_f64() * 1e3 / f64::from(COUNTS));
        }
        Ok(())
    })?;
    let counted = before.since(lab)?;
    case.figures.insert("readers".to_owned(), json!(READERS));
    counted.put_into(case);
    Ok(())
}
