//! Constraints as objects, for `OBJECT_ID`, `OBJECT_NAME` and `OBJECTPROPERTY`.

use hobt_base::ObjectId;
use hobt_catalog::{ConstraintHead, DatabaseSnapshot, Table};

/// The kind of a constraint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConstraintKind {
    PrimaryKey,
    Unique,
    Check,
    ForeignKey,
    Default,
}

impl ConstraintKind {
    /// The value of `type` in `sys.objects`.
    pub(super) fn type_code(self) -> &'static str {
        match self {
            ConstraintKind::PrimaryKey => "PK",
            ConstraintKind::Unique => "UQ",
            ConstraintKind::Check => "C",
            ConstraintKind::ForeignKey => "F",
            ConstraintKind::Default => "D",
        }
    }
}

/// A constraint of a table.
pub(super) struct KnownConstraint<'a> {
    pub(super) table: &'a Table,
    pub(super) id: ObjectId,
    pub(super) name: &'a str,
    pub(super) kind: ConstraintKind,
    /// The head of a CHECK or FOREIGN KEY.
    head: Option<&'a ConstraintHead>,
}

/// All constraints of a table.
pub(super) fn of_table(table: &Table) -> impl Iterator<Item = KnownConstraint<'_>> {
    let keys = table.indexes.iter().filter_map(move |index| {
        let key = index.constraint?;
        let kind = if key.is_primary { ConstraintKind::PrimaryKey } else { ConstraintKind::Unique };
        Some(KnownConstraint { table, id: key.id, name: index.name.as_deref()?, kind, head: None })
    });
    let checks = table.constraints.checks.iter().map(|check| (&check.head, ConstraintKind::Check));
    let foreign = table.constraints.foreign_keys.iter().map(|key| (&key.head, ConstraintKind::ForeignKey));
    let others = checks.chain(foreign);
    let others = others.map(move |(head, kind)| KnownConstraint {
        table,
        id: head.id,
        name: &head.name,
        kind,
        head: Some(head),
    });
    let defaults = table.columns.iter().filter_map(move |column| {
        let (id, name) = (table.default_id(column.id), column.default.as_ref()?.name.as_str());
        Some(KnownConstraint { table, id, name, kind: ConstraintKind::Default, head: None })
    });
    keys.chain(others).chain(defaults)
}

/// All constraints of a database.
pub(super) fn of_database(snapshot: &DatabaseSnapshot) -> impl Iterator<Item = KnownConstraint<'_>> {
    snapshot.tables.values().flat_map(|table| of_table(table))
}

impl KnownConstraint<'_> {
    /// The property with this name in lower case. `None` if constraints have no such property.
    pub(super) fn property(&self, name: &str) -> Option<i64> {
        let is = |condition: bool| Some(i64::from(condition));
        let clustered = || self.table.base_index().constraint.is_some_and(|base| base.id == self.id);
        let is_key = matches!(self.kind, ConstraintKind::PrimaryKey | ConstraintKind::Unique);
        match name {
            "isconstraint" => Some(1),
            "isprimarykey" => is(self.kind == ConstraintKind::PrimaryKey),
            "isuniquecnst" => is(self.kind == ConstraintKind::Unique),
            "ischeckcnst" => is(self.kind == ConstraintKind::Check),
            "isforeignkey" => is(self.kind == ConstraintKind::ForeignKey),
            "isdefaultcnst" => is(self.kind == ConstraintKind::Default),
            "cnstisclustkey" => is(is_key && clustered()),
            "cnstisnonclustkey" => is(is_key && !clustered()),
            "cnstisdisabled" => is(self.head.is_some_and(|head| head.is_disabled)),
            "cnstisnottrusted" => is(self.head.is_some_and(|head| head.is_not_trusted)),
            "cnstisnotrepl" => is(self.head.is_some_and(|head| head.not_for_replication)),
            "istable" | "isusertable" | "issystemtable" | "isview" | "isprocedure" | "ismsshipped" => Some(0),
            "ownerid" | "schemaid" => Some(i64::from(self.table.schema)),
            _ => None,
        }
    }
}
