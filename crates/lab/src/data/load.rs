//! Generated rows into a table: through the engine's bulk loaders, one thread a part.

use std::sync::Arc;

use hobt_base::{SessionId, SqlError};
use hobt_engine::Instance;
use hobt_query::execute::{StatementRun, WriteTarget, insert_batches};

use super::Batches;
use crate::error::{LabError, Result};

/// Sessions of users begin here; the loader is nobody's session.
const LOADER: SessionId = SessionId(1);

/// Writes `parts` into the table `dbo.TABLE` of a database, each on a thread of its own. Returns the number of rows.
/// Each part is a statement: one that fails is undone, the others stay.
///
/// # Errors
/// 208 without the table, and what inserting returns.
pub fn load(instance: &Arc<Instance>, database: &str, table: &str, parts: Vec<Batches>) -> Result<u64> {
    let doing = || format!("loading {database}.dbo.{table}");
    let loaded: Vec<Result<u64, SqlError>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.into_iter().map(|part| scope.spawn(|| load_part(instance, database, table, part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("loading does not panic")).collect()
    });
    loaded.into_iter().sum::<Result<u64, SqlError>>().map_err(|error| LabError::sql(doing(), error))
}

fn load_part(instance: &Arc<Instance>, database: &str, table: &str, batches: Batches) -> Result<u64, SqlError> {
    let database = instance.database(database).map_err(|error| error.to_sql_error())?;
    let snapshot = database.snapshot();
    let schema = snapshot.schemas.iter().find(|schema| schema.name == "dbo").map(|schema| schema.id);
    let found = snapshot
        .tables
        .values()
        .find(|found| Some(found.schema) == schema && found.name.eq_ignore_ascii_case(table))
        .ok_or_else(|| SqlError::new(hobt_base::number::INVALID_OBJECT, format!("Invalid object name '{table}'.")))?;
    let target = WriteTarget::new(database.clone(), Arc::clone(found), "dbo", None)?;
    let run = StatementRun::new(instance, LOADER, Some(1), Arc::default(), false)?;
    run.uses_database(&database);
    let ended = insert_batches(&run, &target, batches.map(Ok));
    run.end(ended.is_ok())?;
    ended
}
