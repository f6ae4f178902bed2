//! Statements that external tables do not take. A change of rows is refused where its target is looked up.

use hobt_base::{SqlError, errors};
use hobt_catalog::ModuleKind;
use hobt_tsql::ast::{ObjectName, StatementKind};

use crate::interpreter::Interpreter;

impl Interpreter<'_> {
    /// Refuses a definition or a load whose table is an external one.
    ///
    /// # Errors
    /// 46519.
    pub(crate) fn check_not_external(&self, kind: &StatementKind) -> Result<(), SqlError> {
        let (names, what): (Vec<&ObjectName>, &str) = match kind {
            StatementKind::CreateIndex(create) => (vec![&create.table], "Indexes"),
            StatementKind::AlterIndex(alter) => (vec![&alter.table], "Indexes"),
            StatementKind::DropIndex(drop) => (drop.indexes.iter().map(|index| &index.table).collect(), "Indexes"),
            StatementKind::CreateStatistics(create) => (vec![&create.table], "Statistics"),
            StatementKind::UpdateStatistics(update) => (vec![&update.table], "Statistics"),
            StatementKind::AlterTable(alter) => (vec![&alter.name], "ALTER TABLE statements"),
            StatementKind::TruncateTable { name, .. } => (vec![name], "TRUNCATE TABLE statements"),
            StatementKind::BulkInsert(bulk) => (vec![&bulk.target], "DML Operations"),
            _ => return Ok(()),
        };
        match names.into_iter().find(|name| self.is_external(name)) {
            Some(name) => Err(errors::EXTERNAL_NOT_SUPPORTED.with([&what]).at(name.position())),
            None => Ok(()),
        }
    }

    /// Whether a name is that of an external table.
    pub(crate) fn is_external(&self, name: &ObjectName) -> bool {
        let Ok(place) = self.place(name) else { return false };
        let snapshot = place.database.snapshot();
        let found = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.module(schema, &place.name));
        found.is_some_and(|module| module.kind == ModuleKind::ExternalTable)
    }
}
