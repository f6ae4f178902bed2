//! The locks of the text's query, in the order in which it acquires them.
//!
//! The query selects five rows. Five other sessions have each changed one of these rows, and end one after the other as
//! the query reaches their row. So the query stops five times, and the locks that it holds can be read.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hobt_base::SessionId;
use hobt_txn::locks::{LockRow, LockStatus};
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;
use crate::report::Grid;

/// The rows that the query selects: three of one partition, two of the other.
pub(super) const WANTED: [u32; 5] = [10, 20, 30, 1_010, 1_020];
/// The longest time to wait until the query reaches its next row.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A lock, and the query's row before which it was first seen.
struct Seen {
    step: usize,
    lock: LockRow,
}

/// The two queries: one reads the rows, one changes them.
pub(super) const QUERIES: [(&str, &str); 2] = [
    ("SELECT", "SELECT payload FROM dbo.{table} WHERE id IN ({ids}) OPTION (MAXDOP 1)"),
    ("UPDATE", "UPDATE dbo.{table} SET changed = changed + 1 WHERE id IN ({ids}) OPTION (MAXDOP 1)"),
];

/// Runs one of the queries, step by step, and rolls back its changes. The table has partitions, and contains all of the
/// wanted rows.
///
/// # Errors
/// If a statement failed, or the query did not continue.
pub(super) fn take(lab: &mut Laboratory, table: &str, (name, query): (&str, &str)) -> Result<(Grid, Value)> {
    let mut holders: HashMap<SessionId, Connection> = HashMap::new();
    for id in WANTED {
        let mut holder = lab.connect()?;
        let session = session_of(&mut holder)?;
        holder.run(&format!("BEGIN TRANSACTION; UPDATE dbo.{table} SET changed = changed + 1 WHERE id = {id}"))?;
        holders.insert(session, holder);
    }
    let mut asking = lab.connect()?;
    let session = session_of(&mut asking)?;
    let query = query.replace("{table}", table).replace("{ids}", &WANTED.map(|id| id.to_string()).join(", "));
    let batch = format!("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRANSACTION; {query}");
    let mut seen: Vec<Seen> = Vec::new();
    let answered = std::thread::scope(|scope| -> Result<u64> {
        let running = scope.spawn(|| asking.run(&batch).map(|answer| answer.row_count.unwrap_or(0)));
        let mut step = 1;
        while let Some(holder) = next_holder(lab, session, &holders, &running) {
            note(lab, session, step, &mut seen);
            // Its session rolls back as it ends.
            drop(holders.remove(&holder));
            step += 1;
        }
        // After any failure, nothing keeps the query waiting.
        holders.clear();
        let rows = running.join().expect("a session does not panic")?;
        note(lab, session, step.min(WANTED.len()), &mut seen);
        Ok(rows)
    })?;
    asking.run("ROLLBACK")?;
    if answered != WANTED.len() as u64 {
        return Err(LabError::Wrong(format!("{name} of {} rows found {answered}", WANTED.len())));
    }
    Ok((draw(name, &seen), as_json(&seen)))
}

fn session_of(connection: &mut Connection) -> Result<SessionId> {
    let number = connection.run("SELECT @@SPID")?.count().and_then(|number| number.try_into().ok());
    number.map(SessionId).ok_or_else(|| LabError::Wrong("@@SPID gave no number".to_owned()))
}

/// The holder that the session waits for. `None` once the query has ended.
fn next_holder<T>(
    lab: &Laboratory,
    session: SessionId,
    holders: &HashMap<SessionId, Connection>,
    running: &std::thread::ScopedJoinHandle<'_, T>,
) -> Option<SessionId> {
    let since = Instant::now();
    while !running.is_finished() && since.elapsed() < PATIENCE {
        let waits = lab.instance().locks().waits();
        let mut blockers = waits.iter().filter(|wait| wait.session == session).flat_map(|wait| &wait.blockers);
        if let Some(holder) = blockers.find(|blocker| holders.contains_key(blocker)) {
            return Some(*holder);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    None
}

/// Records the session's new locks, and the current state of the known ones.
fn note(lab: &Laboratory, session: SessionId, step: usize, seen: &mut Vec<Seen>) {
    let mut locks = lab.instance().locks().rows();
    locks.retain(|lock| lock.session == session);
    // Within a step, sorted from the database down, as they are requested from the lock manager.
    locks.sort_by_key(|lock| lock.resource);
    for lock in locks {
        match seen.iter_mut().find(|it| it.lock.resource == lock.resource) {
            Some(known) if lock.status == LockStatus::Granted => known.lock = lock,
            Some(_) => {}
            None => seen.push(Seen { step, lock }),
        }
    }
}

/// The level of a resource: the database at the top, rows at the bottom.
fn depth(kind: &str) -> usize {
    match kind {
        "DATABASE" => 0,
        "METADATA" | "OBJECT" => 1,
        "HOBT" => 2,
        "PAGE" => 3,
        _ => 4,
    }
}

fn draw(name: &str, seen: &[Seen]) -> Grid {
    let mut grid = Grid::new(
        format!("{name} of five rows in two partitions: before which row it had locked what"),
        &["before row", "resource", "of", "mode"],
    );
    grid.prose = vec![1];
    for Seen { step, lock } in seen {
        let kind = lock.resource.type_name();
        // Some outputs remove leading spaces.
        let branch = if depth(kind) == 0 { String::new() } else { format!("{}└ ", "· ".repeat(depth(kind) - 1)) };
        let entity = match lock.resource.associated_entity() {
            0 => "-".to_owned(),
            entity => entity.to_string(),
        };
        grid.rows.push(vec![
            step.to_string(),
            format!("{branch}{kind} {}", lock.description).trim_end().to_owned(),
            entity,
            lock.mode.name().to_owned(),
        ]);
    }
    grid
}

fn as_json(seen: &[Seen]) -> Value {
    let lock = |Seen { step, lock }: &Seen| {
        json!({
            "before_row": step,
            "resource_type": lock.resource.type_name(),
            "resource_description": lock.description,
            "resource_associated_entity_id": lock.resource.associated_entity(),
            "request_mode": lock.mode.name(),
            "request_status": lock.status.name(),
        })
    };
    seen.iter().map(lock).collect()
}
