//! Foreign keys: enforced by queries over the keys that a statement has changed.
//!
//! ```text
//!   rows inserted or updated  is there a new key that no row of the referenced table has?          547
//!   rows updated or deleted   rows that refer to the old keys are deleted, updated or set by the rule;
//!                             then: is there an old key that is referred to but no row has?        547
//! ```
//! The keys are a table that only these queries can name. The queries run as parts of the statement. What they read of
//! the referenced table stays locked until the transaction ends, so that the result stays valid.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use hobt_base::{SqlError, errors};
use hobt_catalog::{ForeignKey, ReferentialRule, Table, TableColumn};
use hobt_functions::{array_value, carrier};
use hobt_tsql::ast::StatementKind;
use hobt_types::TypedValue;

use super::change::Change;
use super::failure::Failure;
use super::table_locks::definition_changed;
use crate::changed_keys::ChangedKeys;
use crate::changed_keys::{KEYS_MAX, quote};
use crate::interpreter::Interpreter;
use crate::query::one_stream;
use crate::stored_table::{foreign_keys_of, places_of};
use hobt_binder::{BindOptions, SourceColumn};
use hobt_operators::{HeldBatches, WriteTarget};
use hobt_table::{StatementRun, TableRead};

/// Changed rows: the old values of the columns that the plan read, and the new values of all columns. `after` is empty
/// for deleted rows.
pub(super) struct KeyRows {
    pub(super) before: Vec<Option<ArrayRef>>,
    pub(super) after: Vec<ArrayRef>,
}

/// The rows that a statement has changed, and how to take old and new values from a batch of them.
pub(super) struct ChangedKeyRows<'c> {
    pub(super) rows: &'c mut HeldBatches,
    pub(super) keys: &'c dyn Fn(&RecordBatch) -> Result<KeyRows, SqlError>,
    /// Whether they are updated, and not deleted.
    pub(super) is_update: bool,
}

/// A foreign key that refers to a table, with the table that defines it.
pub(super) type ReferringKey = (Arc<Table>, ForeignKey);

/// `alias.[a] = k.c0 AND …`
fn equal(table: &Table, places: &[usize], alias: &str) -> String {
    let column = |(at, &place): (usize, &usize)| format!("{alias}.{} = k.c{at}", quote(&table.columns[place].name));
    places.iter().enumerate().map(column).collect::<Vec<_>>().join(" AND ")
}

/// A foreign key that is followed: the name of the keys' table, the referring columns and the referenced columns.
struct Followed<'k> {
    key: &'k ForeignKey,
    child: &'k Arc<Table>,
    keys: String,
    own: Vec<usize>,
    their: Vec<usize>,
    is_update: bool,
}

impl Interpreter<'_> {
    /// The enabled foreign keys that refer to a table. The table is locked.
    pub(super) fn referring_keys(&self, target: &WriteTarget) -> Vec<ReferringKey> {
        let snapshot = target.database().snapshot();
        let mut keys = Vec::new();
        for table in snapshot.tables.values() {
            let of_target = foreign_keys_of(table).into_iter().filter(|key| key.referenced == target.table().id);
            keys.extend(of_target.map(|key| (Arc::clone(table), key.clone())));
        }
        keys.sort_by_key(|(_, key)| key.head.id);
        keys
    }

    /// Rejects rows whose foreign keys refer to nothing.
    ///
    /// # Errors
    /// 547.
    pub(super) fn check_new_keys(&mut self, run: &Arc<StatementRun>, target: &WriteTarget) -> Result<(), Failure> {
        let Some(new_keys) = target.new_keys() else { return Ok(()) };
        let table = Arc::clone(target.table());
        for (at, key) in foreign_keys_of(&table).into_iter().enumerate() {
            let values = new_keys.take(at);
            if values.row_count() == 0 {
                continue;
            }
            let keys = self.add_keys(&table, &places_of(&table, &key.columns), &[], values)?;
            let held = self.hold_added(run, target, key, &keys, "REPEATABLEREAD");
            self.changed_keys.pop();
            held?;
        }
        Ok(())
    }

    /// Rejects a table that contains foreign key values that refer to nothing, when a key is added or trusted again.
    ///
    /// # Errors
    /// 547.
    pub(super) fn hold_all_rows(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        rows: Arc<TableRead>,
        key: &ForeignKey,
    ) -> Result<(), Failure> {
        let table = Arc::clone(rows.table());
        let places = places_of(&table, &key.columns);
        let column = |(place, column): (usize, &TableColumn)| SourceColumn {
            name: match places.iter().position(|known| *known == place) {
                Some(at) => format!("c{at}"),
                None => format!("x{place}"),
            },
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        let columns = table.columns.iter().enumerate().map(column).collect();
        let name = format!("hobt_changed_keys_{}", self.changed_keys.len());
        self.changed_keys.push(ChangedKeys {
            name: name.clone(),
            source: rows,
            columns,
            values: Vec::new(),
            held: None,
        });
        let held = self.hold_added(run, target, key, &name, "TABLOCK, HOLDLOCK");
        self.changed_keys.pop();
        held
    }

    /// Rejects keys that refer to nothing. `hint` is the table hint for the referenced table.
    fn hold_added(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        key: &ForeignKey,
        keys: &str,
        hint: &str,
    ) -> Result<(), Failure> {
        let table = Arc::clone(target.table());
        let snapshot = target.database().snapshot();
        let other = match key.referenced == table.id {
            true => table,
            false => Arc::clone(snapshot.tables.get(&key.referenced).ok_or_else(definition_changed)?),
        };
        let their = places_of(&other, &key.referenced_columns);
        let given: Vec<String> = (0..their.len()).map(|at| format!("k.c{at} IS NOT NULL")).collect();
        let text = format!(
            "SELECT TOP (1) 1 AS missing FROM {keys} AS k WHERE {} AND NOT EXISTS (SELECT 1 FROM {} AS t WITH ({hint}) \
             WHERE {}{})",
            given.join(" AND "),
            full_name(target, &other)?,
            equal(&other, &their, "t"),
            self.one_of_keys(&other, &their, "t")
        );
        match self.has_rows(run, &text)? {
            false => Ok(()),
            true => Err(conflict(target, key, ("FOREIGN KEY", "FOREIGN KEY SAME TABLE"), &other, &their).into()),
        }
    }

    /// Handles rows that refer to changed or deleted rows.
    ///
    /// # Errors
    /// 547; those of the changes.
    pub(super) fn follow_keys(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        referring: &[ReferringKey],
        changed: &mut ChangedKeyRows<'_>,
    ) -> Result<(), Failure> {
        if changed.rows.row_count() == 0 {
            return Ok(());
        }
        // The cascading actions come first. The check for rows left behind comes when all changes are done.
        for acts in [true, false] {
            for (child, key) in referring {
                let rule = if changed.is_update { key.on_update } else { key.on_delete };
                if acts && rule == ReferentialRule::NoAction {
                    continue;
                }
                let rule = if acts { rule } else { ReferentialRule::NoAction };
                self.follow_key(run, target, (child, key), changed, rule)?;
            }
        }
        Ok(())
    }

    fn follow_key(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        (child, key): (&Arc<Table>, &ForeignKey),
        changed: &mut ChangedKeyRows<'_>,
        rule: ReferentialRule,
    ) -> Result<(), Failure> {
        let table = Arc::clone(target.table());
        let their = places_of(&table, &key.referenced_columns);
        let mut values = HeldBatches::new(run);
        for rows in changed.rows.batches()? {
            let rows = (changed.keys)(&rows?)?;
            let before = their.iter().map(|&place| {
                let known = rows.before.get(place).and_then(Option::as_ref);
                known.cloned().ok_or_else(definition_changed)
            });
            let mut columns = before.collect::<Result<Vec<ArrayRef>, SqlError>>()?;
            let after: Vec<ArrayRef> = their.iter().filter_map(|&place| rows.after.get(place)).cloned().collect();
            let is_same = |(after, before): (&ArrayRef, &ArrayRef)| after.to_data() == before.to_data();
            if !after.is_empty() && after.iter().zip(&columns).all(is_same) {
                continue;
            }
            columns.extend(after);
            let named = columns.into_iter().enumerate().map(|(at, array)| (format!("v{at}"), array, true));
            let batch = RecordBatch::try_from_iter_with_nullable(named);
            values.keep(batch.map_err(|error| SqlError::internal(error.to_string()))?)?;
        }
        if values.row_count() == 0 {
            return Ok(());
        }
        let is_update = changed.is_update;
        let keys = self.add_keys(&table, &their, if is_update { &their } else { &[] }, values)?;
        let own = places_of(child, &key.columns);
        let followed = Followed { key, child, keys, own, their, is_update };
        let done = self.follow_added(run, target, &followed, rule);
        self.changed_keys.pop();
        done
    }

    fn follow_added(
        &mut self,
        run: &Arc<StatementRun>,
        target: &WriteTarget,
        followed: &Followed<'_>,
        rule: ReferentialRule,
    ) -> Result<(), Failure> {
        let Followed { key, child, keys, own, their, is_update } = followed;
        let child_name = full_name(target, child)?;
        let joined = format!("FROM {child_name} AS c JOIN {keys} AS k ON {}", equal(child, own, "c"));
        let set = |value: &dyn Fn(usize) -> String| {
            let column =
                |(at, &place): (usize, &usize)| format!("{} = {}", quote(&child.columns[place].name), value(at));
            let columns: Vec<String> = own.iter().enumerate().map(column).collect();
            format!("UPDATE c SET {} {joined}", columns.join(", "))
        };
        let text = match rule {
            ReferentialRule::Cascade if *is_update => set(&|at| format!("k.n{at}")),
            ReferentialRule::Cascade => format!("DELETE c {joined}"),
            ReferentialRule::SetNull => set(&|_| "NULL".to_owned()),
            ReferentialRule::SetDefault => set(&|_| "DEFAULT".to_owned()),
            ReferentialRule::NoAction => {
                let text = format!(
                    "SELECT TOP (1) 1 AS left_behind FROM {keys} AS k WHERE EXISTS (SELECT 1 FROM {child_name} AS c WITH \
                     (READCOMMITTEDLOCK) WHERE {}{}) AND NOT EXISTS (SELECT 1 FROM {} AS t WITH (READCOMMITTEDLOCK) WHERE {}{})",
                    equal(child, own, "c"),
                    self.one_of_keys(child, own, "c"),
                    full_name(target, target.table())?,
                    equal(target.table(), their, "t"),
                    self.one_of_keys(target.table(), their, "t")
                );
                return match self.has_rows(run, &text)? {
                    false => Ok(()),
                    true => Err(conflict(target, key, ("REFERENCE", "SAME TABLE REFERENCE"), child, own).into()),
                };
            }
        };
        let batch = hobt_tsql::parse_batch(&text)?;
        let options = BindOptions::default();
        // While the statement waited for its rows, other transactions may have added rows that refer to them. A
        // transaction under a snapshot does not change those. They are found when all changes are done.
        run.context.look_again();
        match batch.statements.first().map(|statement| &statement.kind) {
            Some(StatementKind::Update(update)) => self.change_within_run(run, options, Change::Update(update))?,
            Some(StatementKind::Delete(delete)) => self.change_within_run(run, options, Change::Delete(delete))?,
            _ => return Err(SqlError::internal("what follows a key is no change").into()),
        };
        Ok(())
    }

    /// Adds keys as a table, and returns the name of that table. The caller must remove it again.
    fn add_keys(
        &mut self,
        table: &Table,
        old: &[usize],
        new: &[usize],
        mut held: HeldBatches,
    ) -> Result<String, SqlError> {
        let mut columns = Vec::with_capacity(old.len() + new.len());
        for (letter, places) in [("c", old), ("n", new)] {
            for (at, &place) in places.iter().enumerate() {
                let column = &table.columns[place];
                columns.push(SourceColumn {
                    name: format!("{letter}{at}"),
                    sql_type: column.sql_type,
                    nullable: true,
                    collation: column.collation,
                });
            }
        }
        let field = |column: &SourceColumn| Field::new(&column.name, carrier(column.sql_type), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let values = match held.row_count() <= KEYS_MAX as u64 {
            true => {
                let batches = held.batches()?.collect::<Result<Vec<RecordBatch>, SqlError>>()?;
                (0..old.len()).map(|at| values_of(&columns[at], at, &batches)).collect::<Result<_, _>>()?
            }
            false => Vec::new(),
        };
        let source = held.source(schema)?;
        let name = format!("hobt_changed_keys_{}", self.changed_keys.len());
        self.changed_keys.push(ChangedKeys { name: name.clone(), source, columns, values, held: Some(held) });
        Ok(name)
    }

    /// See [`ChangedKeys::one_of`]; applies to the keys added last.
    fn one_of_keys(&self, table: &Table, columns: &[usize], alias: &str) -> String {
        self.changed_keys.last().map_or_else(String::new, |keys| keys.one_of(table, columns, alias))
    }

    /// Whether a query, run as a part of the statement, returns rows. It reads what is committed now: rows that other
    /// transactions committed while the statement waited, or since the transaction's snapshot, must not be left behind.
    fn has_rows(&mut self, run: &Arc<StatementRun>, text: &str) -> Result<bool, Failure> {
        let earlier = run.context.look_at_present(self.state.viewer());
        let found = self.has_rows_now(run, text);
        run.context.look_back(earlier);
        found
    }

    fn has_rows_now(&mut self, run: &Arc<StatementRun>, text: &str) -> Result<bool, Failure> {
        let batch = hobt_tsql::parse_batch(text)?;
        let Some(StatementKind::Select(select)) = batch.statements.first().map(|first| &first.kind) else {
            return Err(SqlError::internal("the query over changed keys is none").into());
        };
        let mut found = false;
        let prepared =
            self.prepare(run, BindOptions::default(), &|binder| binder.bind_query(&select.query), &one_stream)?;
        self.run_prepared(run, prepared, &mut |batch| {
            found |= batch.num_rows() > 0;
            Ok(())
        })?;
        Ok(found)
    }
}

/// The distinct values of a column, without NULL. Not all duplicates are removed.
fn values_of(column: &SourceColumn, at: usize, batches: &[RecordBatch]) -> Result<Vec<TypedValue>, SqlError> {
    let mut values: Vec<TypedValue> = Vec::new();
    for batch in batches {
        for row in (0..batch.num_rows()).filter(|&row| batch.column(at).is_valid(row)) {
            let value = array_value(batch.column(at), row, column.sql_type)?;
            values.push(TypedValue { sql_type: column.sql_type, value });
        }
    }
    // Rows with equal keys are mostly adjacent, and a remaining duplicate is harmless.
    values.dedup();
    Ok(values)
}

/// The schema of a table.
fn schema_of(target: &WriteTarget, table: &Table) -> String {
    let snapshot = target.database().snapshot();
    snapshot.schema_by_id(table.schema).map_or_else(|| "dbo".to_owned(), |schema| schema.name.clone())
}

fn full_name(target: &WriteTarget, table: &Table) -> Result<String, SqlError> {
    let database = quote(target.database().name());
    Ok(format!("{database}.{}.{}", quote(&schema_of(target, table)), quote(&table.name)))
}

/// 547.
fn conflict(
    target: &WriteTarget,
    key: &ForeignKey,
    (kind, of_same): (&str, &str),
    other: &Table,
    columns: &[usize],
) -> SqlError {
    let kind = if other.id == target.table().id { of_same } else { kind };
    let column = match columns {
        [column] => format!(", column '{}'", other.columns[*column].name),
        _ => String::new(),
    };
    errors::CONSTRAINT_VIOLATION.with([
        &target.statement(),
        &kind,
        &key.head.name,
        &target.database().name(),
        &schema_of(target, other),
        &other.name,
        &column,
    ])
}
