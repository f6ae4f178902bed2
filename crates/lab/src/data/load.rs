//! Loading of generated rows into a table: with the engine's bulk loaders, one thread per part.

use std::sync::Arc;

use hobt_base::{SessionId, SqlError};
use hobt_engine::Instance;
use hobt_operators::{WriteTarget, insert_batches};
use hobt_table::{RunSettings, StatementRun};

use super::Batches;
use crate::error::{LabError, Result};

/// The session id of the loader. User sessions have greater ids, so the loader belongs to none of them.
const LOADER: SessionId = SessionId(1);

/// Writes `parts` into the table `dbo.TABLE` of a database, each on its own thread. Returns the number of rows. Each
/// part is a statement: if one fails it is undone, and the others are kept.
///
/// # Errors
/// 208 if the table does not exist, and the errors of inserting.
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
        .ok_or_else(|| hobt_base::errors::INVALID_OBJECT.with([&table]))?;
    let target = WriteTarget::new(database.clone(), Arc::clone(found), "dbo", None)?;
    let run = StatementRun::new(
        instance,
        LOADER,
        None,
        Arc::default(),
        RunSettings { max_dop: Some(1), ..RunSettings::default() },
    )?;
    run.uses_database(&database);
    let ended = insert_batches(&run, &target, batches.map(Ok));
    run.end(ended.is_ok())?;
    ended
}
