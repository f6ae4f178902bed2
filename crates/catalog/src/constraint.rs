//! CHECK and FOREIGN KEY constraints. `rows` stores them.

mod rows;

use hobt_base::{IndexId, ObjectId};

pub(crate) use rows::load_constraints;

/// The constraints of a table beyond types and keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableConstraints {
    /// `CHECK`.
    pub checks: Vec<CheckConstraint>,
    /// `FOREIGN KEY`.
    pub foreign_keys: Vec<ForeignKey>,
}

/// What all constraints have in common.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConstraintHead {
    /// Its object id.
    pub id: ObjectId,
    /// Its name.
    pub name: String,
    /// When it was created: 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Whether its name was generated.
    pub is_system_named: bool,
    /// `NOCHECK CONSTRAINT`: rows are not checked.
    pub is_disabled: bool,
    /// Whether there may be rows that were not checked.
    pub is_not_trusted: bool,
    /// `NOT FOR REPLICATION`.
    pub not_for_replication: bool,
}

/// A `CHECK` constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckConstraint {
    /// What all constraints have in common.
    pub head: ConstraintHead,
    /// The id of the column that it was written at; `None` for a table constraint.
    pub column: Option<i32>,
    /// The condition's text, in parentheses.
    pub definition: String,
}

/// What happens to referring rows when the row referred to is deleted or its key changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ReferentialRule {
    /// The statement fails.
    #[default]
    NoAction = 0,
    /// They are deleted or changed too.
    Cascade = 1,
    /// Their columns become NULL.
    SetNull = 2,
    /// Their columns get their DEFAULTs.
    SetDefault = 3,
}

impl ReferentialRule {
    const ALL: [ReferentialRule; 4] =
        [ReferentialRule::NoAction, ReferentialRule::Cascade, ReferentialRule::SetNull, ReferentialRule::SetDefault];
}

/// A `FOREIGN KEY` constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignKey {
    /// What all constraints have in common.
    pub head: ConstraintHead,
    /// The ids of the referring columns.
    pub columns: Vec<i32>,
    /// The table that they refer to.
    pub referenced: ObjectId,
    /// The unique index there whose key its columns refer to.
    pub referenced_index: IndexId,
    /// The ids of the columns referred to, in the order of `columns`.
    pub referenced_columns: Vec<i32>,
    /// `ON DELETE`.
    pub on_delete: ReferentialRule,
    /// `ON UPDATE`.
    pub on_update: ReferentialRule,
}

impl TableConstraints {
    /// The heads of all constraints, of every kind.
    pub fn heads(&self) -> impl Iterator<Item = &ConstraintHead> {
        self.checks.iter().map(|check| &check.head).chain(self.foreign_keys.iter().map(|key| &key.head))
    }

    /// Like [`TableConstraints::heads`], to be changed.
    pub fn heads_mut(&mut self) -> impl Iterator<Item = &mut ConstraintHead> {
        let checks = self.checks.iter_mut().map(|check| &mut check.head);
        checks.chain(self.foreign_keys.iter_mut().map(|key| &mut key.head))
    }
}
