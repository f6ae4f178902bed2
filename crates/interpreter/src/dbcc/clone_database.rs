//! `DBCC CLONEDATABASE (source, target)`: its options and messages.
//!
//! The crate `engine` creates the clone.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_engine::{CloneOptions, EngineError};
use hobt_tsql::ast::OptionItem;
use hobt_types::Value;

use super::check::Scope;
use crate::dbcc::Maintenance;
use crate::event::Message;
use crate::failure::Failure;

/// The options allowed in `WITH`.
const KNOWN: [&str; 6] =
    ["NO_STATISTICS", "NO_QUERYSTORE", "VERIFY_CLONEDB", "SERVICEBROKER", "BACKUP_CLONEDB", "NO_INFOMSGS"];

impl Maintenance<'_, '_> {
    pub(super) fn clone_database(
        &mut self,
        arguments: &[Value],
        options: &[OptionItem],
        position: Position,
    ) -> Result<(), Failure> {
        let [source, target] = arguments else {
            return Err(errors::DBCC_ARGUMENT_COUNT.error().at(position).into());
        };
        if self.batch.state.transaction.is_some() {
            return Err(errors::NOT_IN_TRANSACTION.with([&"DBCC CLONEDATABASE"]).at(position).into());
        }
        let asked = clone_options(options)?;
        let (Value::Text(source), Value::Text(target)) = (source, target) else {
            return Err(errors::CLONEDATABASE_ARGUMENT.error().at(position).into());
        };
        let instance = Arc::clone(&self.batch.environment.instance);
        let from = instance.database(source).map_err(|error| error.to_sql_error().at(position))?;
        let text = format!("Database cloning for '{}' has started with target as '{target}'.", from.name());
        self.batch.send_message(Message::plain(position.line, text))?;
        let made = instance.clone_database(&from, target, asked, &mut |clone| {
            if !asked.is_verified {
                return Ok(());
            }
            let name = [Value::Text(clone.name().to_owned())];
            let checked = self.check_database(&name, Scope::Database, false, position);
            match checked.map_err(|failure| EngineError::Statement(failure.error))? {
                0 => Ok(()),
                problems => {
                    let text = format!("Clone database verification has failed: {problems} problems were found.");
                    Err(EngineError::Statement(SqlError::internal(text)))
                }
            }
        });
        made.map_err(|error| error.to_sql_error().at(position))?;
        self.say_cloned(from.name(), target, asked, position)
    }

    fn say_cloned(
        &mut self,
        source: &str,
        target: &str,
        asked: CloneOptions,
        position: Position,
    ) -> Result<(), Failure> {
        let mut texts = vec![format!("Database cloning for '{source}' has finished. Cloned database is '{target}'.")];
        match asked.is_verified {
            true => texts.push("Clone database verification has passed.".to_owned()),
            false => texts.push(format!(
                "Database '{target}' is a cloned database. This database should be used for diagnostic purposes only and \
                 is not supported for use in a production environment."
            )),
        }
        texts.into_iter().try_for_each(|text| self.batch.send_message(Message::plain(position.line, text)))
    }
}

/// Parses `WITH`.
///
/// # Errors
/// 155 for an unknown option; 1052 for two that exclude each other; "not supported" for features that do not exist
/// here.
fn clone_options(options: &[OptionItem]) -> Result<CloneOptions, SqlError> {
    if let Some(other) = options.iter().find(|option| !KNOWN.contains(&option.name.as_str())) {
        return Err(errors::UNKNOWN_OPTION.with([&other.name, &"DBCC CLONEDATABASE"]).at(other.span.position));
    }
    let find = |name: &str| OptionItem::find(options, name);
    let is_verified = find("VERIFY_CLONEDB").is_some();
    if let Some(option) = find("SERVICEBROKER") {
        if is_verified {
            return Err(errors::CONFLICTING_CLONE_OPTIONS.error().at(option.span.position));
        }
        return Err(SqlError::not_supported("DBCC CLONEDATABASE WITH SERVICEBROKER").at(option.span.position));
    }
    if let Some(option) = find("BACKUP_CLONEDB") {
        return Err(SqlError::not_supported("DBCC CLONEDATABASE WITH BACKUP_CLONEDB").at(option.span.position));
    }
    let with_statistics = !is_verified && find("NO_STATISTICS").is_none();
    Ok(CloneOptions { with_statistics, is_verified })
}
