//! What the two tables of a switch must agree in: columns and constraints.
//!
//! Columns agree in everything that determines how rows are stored and what they mean. Each constraint of the target
//! must also be one of the source, in the same words: nothing is concluded from other conditions. Numbers and texts are
//! those of SQL Server's list of errors, 4900 to 4999.

use hobt_base::errors;
use hobt_catalog::{CheckConstraint, DatabaseSnapshot, ForeignKey, Table, TableColumn, VirtualColumn, name_equals};

use crate::database::foreign_key::first_reference_of_any;
use crate::error::{EngineError, Result};

/// A column of a table, stored or not.
#[derive(Clone, Copy)]
enum AnyColumn<'t> {
    Stored(&'t TableColumn),
    Virtual(&'t VirtualColumn),
}

impl<'t> AnyColumn<'t> {
    /// All columns of a table, in order.
    fn all(table: &'t Table) -> Vec<AnyColumn<'t>> {
        let stored = table.columns.iter().map(AnyColumn::Stored);
        let mut all: Vec<_> = stored.chain(table.virtual_columns.iter().map(AnyColumn::Virtual)).collect();
        all.sort_by_key(|column| match column {
            AnyColumn::Stored(column) => column.id,
            AnyColumn::Virtual(column) => column.id,
        });
        all
    }

    fn name(self) -> &'t str {
        match self {
            AnyColumn::Stored(column) => &column.name,
            AnyColumn::Virtual(column) => &column.name,
        }
    }

    /// The expression that computes it, if any.
    fn computed(self) -> Option<&'t str> {
        match self {
            AnyColumn::Stored(column) => column.computed.as_deref(),
            AnyColumn::Virtual(column) => Some(&column.definition),
        }
    }
}

/// 4942 to 4946, 4958, 4965, 4966, 4985.
pub(super) fn check_columns(from: &Table, to: &Table) -> Result<()> {
    let (source, target) = (&from.name, &to.name);
    let (own, others) = (AnyColumn::all(from), AnyColumn::all(to));
    // The number of changes of their definitions does not matter: heaps are rebuilt when a layout changes.
    if own.len() != others.len() {
        let (own, others) = (own.len(), others.len());
        return Err(EngineError::Statement(errors::SWITCH_COLUMN_COUNT.with([&source, &own, &target, &others])));
    }
    for (ordinal, (one, other)) in (1..).zip(own.into_iter().zip(others)) {
        let name = one.name();
        if !name_equals(name, other.name()) {
            return Err(EngineError::Statement(errors::SWITCH_COLUMN_NAME.with([
                &name,
                &ordinal,
                &source,
                &other.name(),
                &target,
            ])));
        }
        check_computed((one, source), (other, target))?;
        if let (AnyColumn::Stored(one), AnyColumn::Stored(other)) = (one, other) {
            check_stored((one, source), (other, target))?;
        }
    }
    Ok(())
}

/// 4946, 4965, 4966.
fn check_computed((one, source): (AnyColumn<'_>, &String), (other, target): (AnyColumn<'_>, &String)) -> Result<()> {
    let name = one.name();
    let error = match (one.computed(), other.computed()) {
        (None, None) => return Ok(()),
        (Some(own), Some(others)) if own != others => {
            errors::SWITCH_COMPUTED_BY.with([&name, &own, source, target, &others])
        }
        (Some(_), Some(_)) if matches!(one, AnyColumn::Stored(_)) != matches!(other, AnyColumn::Stored(_)) => {
            errors::SWITCH_PERSISTED.with([&name, source, target])
        }
        (Some(_), Some(_)) => return Ok(()),
        (Some(_), _) => errors::SWITCH_COMPUTED.with([&name, source, target]),
        (None, _) => errors::SWITCH_COMPUTED.with([&name, target, source]),
    };
    Err(EngineError::Statement(error))
}

/// 4944, 4945, 4958, 4985.
fn check_stored((one, source): (&TableColumn, &String), (other, target): (&TableColumn, &String)) -> Result<()> {
    let name = &one.name;
    let error = if one.sql_type != other.sql_type {
        errors::SWITCH_COLUMN_TYPE.with([name, &one.sql_type, source, &other.sql_type, target])
    } else if one.collation != other.collation {
        errors::SWITCH_COLLATION.with([name, source, target])
    } else if one.is_rowguid != other.is_rowguid {
        errors::SWITCH_ROWGUID.with([name, source, target])
    } else if one.nullable != other.nullable {
        errors::SWITCH_NULLABLE.with([name, source, target])
    } else {
        return Ok(());
    };
    Err(EngineError::Statement(error))
}

/// Checks that the source enforces every constraint that the target enforces, and that no foreign key refers to the
/// source.
///
/// # Errors
/// 4960, 4967 to 4972, 4974, 4975.
pub(super) fn check_constraints(snapshot: &DatabaseSnapshot, from: &Table, to: &Table) -> Result<()> {
    if let Some(key) = first_reference_of_any(snapshot, from) {
        return Err(EngineError::Statement(errors::SWITCH_REFERENCED.with([&from.name, &key.head.name])));
    }
    let enabled = to.constraints.checks.iter().filter(|check| !check.head.is_disabled);
    enabled.into_iter().try_for_each(|check| check_is_kept(check, from, to))?;
    to.constraints.foreign_keys.iter().try_for_each(|key| foreign_key_is_kept(key, from, to))
}

/// The name of a column, stored or not, by its id.
fn column_name(table: &Table, id: i32) -> Option<&str> {
    AnyColumn::all(table).into_iter().find_map(|column| match column {
        AnyColumn::Stored(stored) if stored.id == id => Some(stored.name.as_str()),
        AnyColumn::Virtual(of) if of.id == id => Some(of.name.as_str()),
        _ => None,
    })
}

/// 4960, 4970, 4971, 4972, 4975.
fn check_is_kept(check: &CheckConstraint, from: &Table, to: &Table) -> Result<()> {
    let (source, target, name) = (&from.name, &to.name, &check.head.name);
    let alike = || from.constraints.checks.iter().filter(|own| own.definition == check.definition);
    let vouches =
        |own: &&CheckConstraint| !own.head.is_disabled && (!own.head.is_not_trusted || check.head.is_not_trusted);
    if let Some(own) = alike().find(vouches) {
        if own.head.not_for_replication == check.head.not_for_replication {
            return Ok(());
        }
        return Err(EngineError::Statement(errors::SWITCH_CHECK_REPLICATION.with([
            &own.head.name,
            &source,
            &name,
            &target,
        ])));
    }
    if let Some(own) = alike().next() {
        return Err(EngineError::Statement(errors::SWITCH_CHECK_NOT_TRUSTED.with([
            &own.head.name,
            &source,
            &name,
            &target,
        ])));
    }
    let column = check.column.and_then(|id| column_name(to, id));
    let of_column = |own: &CheckConstraint| own.column.and_then(|id| column_name(from, id)) == column;
    Err(match column {
        Some(_) if from.constraints.checks.iter().any(of_column) => {
            EngineError::Statement(errors::SWITCH_OTHER_CHECK.with([&source, &target, &name]))
        }
        Some(_) => EngineError::Statement(errors::SWITCH_COLUMN_CHECK.with([target, name, source])),
        None => EngineError::Statement(errors::SWITCH_CHECK.with([target, name, source])),
    })
}

/// 4968, 4969, 4974.
fn foreign_key_is_kept(key: &ForeignKey, from: &Table, to: &Table) -> Result<()> {
    let (source, target, name) = (&from.name, &to.name, &key.head.name);
    let pairs = |table: &Table, key: &ForeignKey| {
        let name = |id: &i32| column_name(table, *id).map(str::to_lowercase);
        let mut pairs: Vec<_> = key.columns.iter().map(name).zip(key.referenced_columns.iter().copied()).collect();
        pairs.sort();
        pairs
    };
    let wanted = pairs(to, key);
    let corresponds = |own: &&ForeignKey| own.referenced == key.referenced && pairs(from, own) == wanted;
    let own = from.constraints.foreign_keys.iter().filter(corresponds);
    // The strongest one.
    let Some(own) = own.min_by_key(|own| (own.head.is_disabled, own.head.is_not_trusted)) else {
        return Err(EngineError::Statement(errors::SWITCH_FOREIGN_KEY.with([&target, &name, &source])));
    };
    let own_name = &own.head.name;
    if own.head.is_disabled && !key.head.is_disabled {
        return Err(EngineError::Statement(
            errors::SWITCH_FOREIGN_KEY_DISABLED.with([&own_name, &source, &name, &target]),
        ));
    }
    if own.head.is_not_trusted && !key.head.is_not_trusted {
        return Err(EngineError::Statement(
            errors::SWITCH_FOREIGN_KEY_NOT_TRUSTED.with([&own_name, &source, &name, &target]),
        ));
    }
    Ok(())
}
