//! What of a script changes definitions: tables, indexes, columns, constraints, partitions, sequences.
//!
//! The model takes over what the catalog says behind such a statement: that this is what was asked for is tested elsewhere.
//! What becomes of it, and of the rows, in commits, rollbacks and crashes, is held against the model.

use std::sync::Arc;

use hobt_base::number;
use hobt_catalog::{IndexOptions, ReferentialRule};
use hobt_engine::{
    CheckDefinition, ColumnAlteration, ColumnDefinition, DataSpaceDefinition, DatabaseUse, EngineError,
    ForeignKeyDefinition, IndexDefinition, IndexSelector, PartitionFunctionDefinition, PartitionSchemeDefinition,
    SequenceDefinition, SwitchSide, TableChange, TableDefinition,
};
use hobt_txn::StatementContext;
use hobt_types::{MaxLength, SqlType, Value};

use crate::build::fill;
use crate::check::shape_of;
use crate::model::{IndexShape, Objects, Rows, Shape, Table};
use crate::script::{Action, Wrong, open, unlocked};
use crate::simulation::{Simulation, session_prefix};

/// Boundaries of a partition function, at most.
const BOUNDARIES_MAX: usize = 6;

/// The columns of a new table.
const COLUMNS: [(&str, SqlType); 3] = [("id", SqlType::Int), ("number", SqlType::BigInt), ("payload", PAYLOAD)];
const PAYLOAD: SqlType = SqlType::VarBinary(MaxLength::Max);

/// An index that a table may have.
struct IndexChoice {
    name: &'static str,
    is_clustered: bool,
    is_unique: bool,
    key: &'static [&'static str],
    included: &'static [&'static str],
}

impl IndexChoice {
    const fn new(name: &'static str, kind: (bool, bool), key: &'static [&'static str]) -> IndexChoice {
        IndexChoice { name, is_clustered: kind.0, is_unique: kind.1, key, included: &[] }
    }
}

/// With whether each is clustered, and whether it is unique.
const INDEXES: [IndexChoice; 6] = [
    IndexChoice::new("by_id", (true, true), &["id"]),
    IndexChoice::new("by_number", (true, false), &["number"]),
    IndexChoice::new("id", (false, true), &["id"]),
    IndexChoice::new("number", (false, false), &["number"]),
    IndexChoice { included: &["payload"], ..IndexChoice::new("payload", (false, false), &["number", "id"]) },
    IndexChoice { included: &["number"], ..IndexChoice::new("extra", (false, false), &["extra"]) },
];

fn function_name(table: &str) -> String {
    format!("pf_{table}")
}

fn scheme_name(table: &str) -> String {
    format!("ps_{table}")
}

fn column_definition((name, sql_type): &(String, SqlType)) -> ColumnDefinition {
    ColumnDefinition::new(name, *sql_type, name != "id")
}

fn index_definition(name: &str, shape: &IndexShape) -> IndexDefinition {
    IndexDefinition {
        name: Some(name.to_owned()),
        is_clustered: Some(shape.is_clustered),
        columns: shape.key.iter().map(|column| (column.clone(), false)).collect(),
        included: shape.included.clone(),
        data_space: DataSpaceDefinition::Default,
        constraint: None,
        options: IndexOptions { is_unique: shape.is_unique, ..IndexOptions::default() },
        drops_existing: false,
    }
}

/// What the catalog says of a table now.
fn shape(database: &DatabaseUse, ctx: &StatementContext, name: &str) -> Result<Shape, Wrong> {
    let snapshot = database.snapshot_of(ctx);
    let table = snapshot.table(1, name);
    let table = table.ok_or_else(|| Wrong::Model(format!("table {name} is not in the catalog")))?;
    Ok(shape_of(&snapshot, table))
}

/// Fills what is new of a table, and ends the change.
fn finish(
    database: &DatabaseUse,
    ctx: &Arc<StatementContext>,
    changed: TableChange,
    rows: &Rows,
) -> Result<(), EngineError> {
    fill(database, ctx, &changed, rows)?;
    database.finish_table_change(ctx, changed).map(drop)
}

/// Drops a table with its partition function.
pub(crate) fn drop_table(
    database: &DatabaseUse,
    ctx: &StatementContext,
    objects: &mut Objects,
    name: &str,
) -> Result<(), Wrong> {
    database.drop_table(ctx, "dbo", name, &mut unlocked)?;
    let dropped = objects.tables.remove(name);
    if dropped.is_some_and(|table| table.shape.boundaries.is_some()) {
        database.drop_partition_scheme(ctx, &scheme_name(name))?;
        database.drop_partition_function(ctx, &function_name(name))?;
    }
    Ok(())
}

/// What a foreign key refers to does not go.
pub(crate) fn is_refused(
    database: &DatabaseUse,
    ctx: &StatementContext,
    name: &str,
    action: Action,
) -> Result<(), Wrong> {
    let (done, expected) = match action {
        Action::Drop => (database.drop_table(ctx, "dbo", name, &mut unlocked), number::REFERENCED_TABLE),
        Action::Truncate => (database.truncate_table(ctx, "dbo", name, &mut unlocked), number::TRUNCATE_REFERENCED),
        _ if shape(database, ctx, name)?.boundaries.is_none() => return Ok(()),
        _ => {
            let done = database.truncate_partitions(ctx, ("dbo", name), &[(1, 1)], &mut unlocked);
            (done, number::TRUNCATE_REFERENCED)
        }
    };
    match done {
        Err(EngineError::Statement(error)) if error.number == expected => Ok(()),
        Err(other) => Err(other.into()),
        Ok(_) => Err(Wrong::Model(format!("{action:?} of {name}, to which a foreign key refers, was not refused"))),
    }
}

impl Simulation {
    pub(crate) fn create_table(
        &mut self,
        session: usize,
        database: &DatabaseUse,
        ctx: &StatementContext,
        objects: &mut Objects,
        name: &str,
    ) -> Result<(), Wrong> {
        let is_partitioned = self.chance(40);
        self.note(format!("s{session}: CREATE TABLE {}.{name}, partitioned: {is_partitioned}", database.name()));
        let mut data_space = DataSpaceDefinition::Default;
        if is_partitioned {
            let count = self.below(4);
            let reach = usize::try_from(self.next_key).expect("keys are positive") + 200;
            let boundaries: std::collections::BTreeSet<i64> =
                (0..count).map(|_| i64::try_from(self.below(reach)).expect("a key")).collect();
            let function = PartitionFunctionDefinition {
                name: function_name(name),
                parameter: SqlType::Int,
                collation: None,
                range_right: true,
                boundaries: boundaries.into_iter().map(Value::Int).collect(),
            };
            database.create_partition_function(ctx, &function)?;
            let scheme = PartitionSchemeDefinition {
                name: scheme_name(name),
                function: function_name(name),
                filegroups: vec!["PRIMARY".to_owned()],
                all: true,
            };
            database.create_partition_scheme(ctx, &scheme)?;
            data_space = DataSpaceDefinition::Scheme { scheme: scheme_name(name), column: "id".to_owned() };
        }
        let columns = COLUMNS.map(|(name, sql_type)| column_definition(&(name.to_owned(), sql_type)));
        let definition = TableDefinition {
            schema: "dbo".to_owned(),
            name: name.to_owned(),
            columns: columns.into(),
            data_space,
            indexes: Vec::new(),
        };
        database.create_table(ctx, &definition)?;
        objects.tables.insert(name.to_owned(), Table { shape: shape(database, ctx, name)?, rows: Rows::new() });
        Ok(())
    }

    pub(crate) fn add_index(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        let has_clustered = model.shape.indexes.values().any(|index| index.is_clustered);
        let IndexChoice { name: index, is_clustered, is_unique, key, included } = INDEXES[self.below(INDEXES.len())];
        let names = |columns: &[&str]| columns.iter().map(|&column| column.to_owned()).collect::<Vec<_>>();
        let wanted = IndexShape { is_clustered, is_unique, key: names(key), included: names(included) };
        let lacks_column = wanted.key.iter().chain(&wanted.included).any(|column| !model.shape.has_column(column));
        if model.shape.indexes.contains_key(index) || (is_clustered && has_clustered) || lacks_column {
            return Ok(());
        }
        let definition = index_definition(index, &wanted);
        let changed = database.begin_create_index(ctx, ("dbo", name), &definition, &mut unlocked)?;
        finish(database, ctx, changed, &model.rows)?;
        model.shape = shape(database, ctx, name)?;
        Ok(())
    }

    pub(crate) fn drop_index(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        name: &str,
        model: &mut Table,
        is_referenced: bool,
    ) -> Result<(), Wrong> {
        let is_referenced = is_referenced || model.shape.refers_to(name);
        let droppable = model.shape.indexes.iter().filter(|(_, index)| !(is_referenced && index.is_unique));
        let droppable: Vec<String> = droppable.map(|(name, _)| name.clone()).collect();
        if droppable.is_empty() {
            return Ok(());
        }
        let index = &droppable[self.below(droppable.len())];
        let changed = database.begin_drop_index(ctx, ("dbo", name), index, false, &mut unlocked)?;
        finish(database, ctx, changed, &model.rows)?;
        model.shape = shape(database, ctx, name)?;
        Ok(())
    }

    pub(crate) fn rebuild(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        name: &str,
        model: &Table,
    ) -> Result<(), Wrong> {
        let which = if self.chance(50) { IndexSelector::Base } else { IndexSelector::All };
        let partitions = model.shape.boundaries.as_ref().map(|boundaries| boundaries.len() + 1);
        let partition = partitions.filter(|_| which == IndexSelector::Base).map(|count| self.below(count));
        let changed =
            database.begin_rebuild(ctx, ("dbo", name), &which, partition, &|options| options, &mut unlocked)?;
        finish(database, ctx, changed, &model.rows)?;
        Ok(())
    }

    /// Adds a column, drops one, or gives one another type.
    pub(crate) fn alter_columns(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        let table = ("dbo", name);
        let column = ["number", "payload", "extra"][self.below(3)];
        let changed = if !model.shape.has_column(column) {
            let sql_type = match column {
                "number" => SqlType::BigInt,
                "extra" => SqlType::Int,
                _ => PAYLOAD,
            };
            let added = [column_definition(&(column.to_owned(), sql_type))];
            let changed = database.begin_add_columns(ctx, table, &added, &mut unlocked)?;
            if column == "extra" {
                // As with a default `WITH VALUES`.
                model.rows.iter_mut().for_each(|(key, row)| row.extra = Some(key ^ 0x55));
            }
            changed
        } else if model.shape.is_indexed(column) || (column == "extra" && model.shape.has_foreign_key()) {
            return Ok(());
        } else if column == "number" && self.chance(70) {
            let is_int = model.shape.columns.contains(&(column.to_owned(), SqlType::Int));
            let sql_type = if is_int { SqlType::BigInt } else { SqlType::Int };
            let alteration = ColumnAlteration { sql_type, nullable: true, collation: None };
            database.begin_alter_column(ctx, table, column, alteration, &mut unlocked)?
        } else {
            let changed = database.begin_drop_column(ctx, table, column, &mut unlocked)?;
            for row in model.rows.values_mut() {
                match column {
                    "number" => row.number = None,
                    "extra" => row.extra = None,
                    _ => row.payload = None,
                }
            }
            changed
        };
        finish(database, ctx, changed, &model.rows)?;
        model.shape = shape(database, ctx, name)?;
        Ok(())
    }

    /// Adds a check or a foreign key, or drops one.
    pub(crate) fn constraint(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        objects: &mut Objects,
        name: &str,
    ) -> Result<(), Wrong> {
        let table = ("dbo", name);
        let model = &objects.tables[name];
        let (check, key) = (format!("ck_{name}"), format!("fk_{name}"));
        let is_candidate = |other: &&String| {
            let indexes = objects.tables[*other].shape.indexes.values();
            indexes.filter(|index| index.is_unique).any(|index| index.key == ["id"])
        };
        let candidates: Vec<&String> = objects.tables.keys().filter(is_candidate).collect();
        let known: Vec<String> = model.shape.constraints.keys().cloned().collect();
        let changed = if !known.is_empty() && self.chance(40) {
            let dropped = &known[self.below(known.len())];
            database.begin_drop_constraint(ctx, table, dropped, &mut unlocked)?
        } else if !candidates.is_empty() && model.shape.has_column("extra") && !known.contains(&key) {
            let referenced = candidates[self.below(candidates.len())].clone();
            let definition = ForeignKeyDefinition {
                name: Some(key),
                columns: vec!["extra".to_owned()],
                referenced: ("dbo".to_owned(), referenced),
                referenced_columns: vec!["id".to_owned()],
                on_delete: ReferentialRule::NoAction,
                on_update: ReferentialRule::NoAction,
                not_for_replication: false,
                is_not_trusted: true,
            };
            database.begin_add_foreign_key(ctx, table, &definition, &mut unlocked)?
        } else if !known.contains(&check) {
            let definition = CheckDefinition {
                name: Some(check),
                column: None,
                definition: "([id]>(0))".to_owned(),
                not_for_replication: false,
                is_not_trusted: false,
            };
            database.begin_add_checks(ctx, table, &[definition], &mut unlocked)?
        } else {
            return Ok(());
        };
        finish(database, ctx, changed, &model.rows)?;
        objects.tables.get_mut(name).expect("the caller has looked").shape = shape(database, ctx, name)?;
        Ok(())
    }

    pub(crate) fn split(
        &mut self,
        database: &DatabaseUse,
        ctx: &StatementContext,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        let reach = usize::try_from(self.next_key).expect("keys are positive") + 100;
        let value = i64::try_from(self.below(reach)).expect("a key");
        let Some(boundaries) = &mut model.shape.boundaries else { return Ok(()) };
        if boundaries.len() >= BOUNDARIES_MAX || boundaries.contains(&value) {
            return Ok(());
        }
        database.alter_partition_scheme(ctx, &scheme_name(name), Some("PRIMARY"))?;
        let function = function_name(name);
        database.alter_partition_function(ctx, &function, &Value::Int(value), true, &mut unlocked)?;
        boundaries.push(value);
        boundaries.sort_unstable();
        Ok(())
    }

    pub(crate) fn merge(
        &mut self,
        database: &DatabaseUse,
        ctx: &StatementContext,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        let Some(boundaries) = model.shape.boundaries.as_mut().filter(|known| !known.is_empty()) else {
            return Ok(());
        };
        let value = boundaries.remove(self.below(boundaries.len()));
        let function = function_name(name);
        Ok(database.alter_partition_function(ctx, &function, &Value::Int(value), false, &mut unlocked)?)
    }

    pub(crate) fn truncate_partition(
        &mut self,
        database: &DatabaseUse,
        ctx: &StatementContext,
        name: &str,
        model: &mut Table,
    ) -> Result<(), Wrong> {
        let Some(boundaries) = &model.shape.boundaries else { return Ok(()) };
        let partition = self.below(boundaries.len() + 1);
        let number = i64::try_from(partition + 1).expect("a few partitions");
        let open = open(database, ctx, name)?;
        database.truncate_partitions(ctx, ("dbo", name), &[(number, number)], &mut unlocked)?;
        model.rows.retain(|key, _| open.partition_of(*key) != partition);
        Ok(())
    }

    /// Switches a partition to another one, or to a table that is made for it.
    pub(crate) fn switch(
        &mut self,
        database: &DatabaseUse,
        ctx: &Arc<StatementContext>,
        objects: &mut Objects,
        free: Option<String>,
    ) -> Result<(), Wrong> {
        let mut sides = Vec::new();
        for (name, table) in &objects.tables {
            let open = open(database, ctx, name)?;
            let is_bound = objects.is_referenced(name) || table.shape.has_foreign_key();
            for partition in (0..open.writer().base().len()).filter(|_| !is_bound) {
                let keys: Vec<i32> =
                    table.rows.keys().filter(|key| open.partition_of(**key) == partition).copied().collect();
                sides.push((name.clone(), partition, keys));
            }
        }
        let mut pairs = Vec::new();
        for (from, side) in sides.iter().enumerate() {
            for (to, other) in sides.iter().enumerate() {
                let (source, target) = (&objects.tables[&side.0].shape, &objects.tables[&other.0].shape);
                let open = open(database, ctx, &other.0)?;
                let fits = side.2.iter().all(|key| open.partition_of(*key) == other.1);
                let is_alike = source.columns == target.columns && source.indexes.values().eq(target.indexes.values());
                let is_checked = target.constraints.is_empty() || !source.constraints.is_empty();
                if side.0 != other.0 && other.2.is_empty() && fits && is_alike && is_checked {
                    pairs.push((from, to));
                }
            }
        }
        if pairs.is_empty() || self.chance(10) {
            let Some(name) = free else { return Ok(()) };
            if sides.is_empty() {
                return Ok(());
            }
            let like = &objects.tables[&sides[self.below(sides.len())].0].shape;
            self.note(format!("CREATE TABLE {name} to switch to"));
            let definition = TableDefinition {
                schema: "dbo".to_owned(),
                name: name.clone(),
                columns: like.columns.iter().map(column_definition).collect(),
                data_space: DataSpaceDefinition::Default,
                indexes: like.indexes.iter().map(|(name, index)| index_definition(name, index)).collect(),
            };
            database.create_table(ctx, &definition)?;
            objects.tables.insert(name.clone(), Table { shape: shape(database, ctx, &name)?, rows: Rows::new() });
            return Ok(());
        }
        let (from, to) = pairs[self.below(pairs.len())];
        let side = |(name, partition, _): &(String, usize, Vec<i32>)| SwitchSide {
            schema: "dbo".to_owned(),
            name: name.clone(),
            partition: objects.tables[name].shape.boundaries.is_some().then(|| *partition as i64 + 1),
        };
        let (source, target) = (side(&sides[from]), side(&sides[to]));
        self.note(format!("SWITCH {source:?} TO {target:?}: {} rows", sides[from].2.len()));
        database.switch_partition(ctx, &source, &target, &mut unlocked)?;
        for key in &sides[from].2 {
            let row = objects.tables.get_mut(&source.name).and_then(|table| table.rows.remove(key));
            let target = objects.tables.get_mut(&target.name).expect("a side is a table");
            target.rows.insert(*key, row.expect("its key was listed"));
        }
        Ok(())
    }

    /// Makes a sequence, drops one, or takes values of one.
    pub(crate) fn sequence(
        &mut self,
        session: usize,
        database: &DatabaseUse,
        ctx: &StatementContext,
        objects: &mut Objects,
    ) -> Result<(), Wrong> {
        if objects.sequences.is_empty() || (objects.sequences.len() < 3 && self.chance(20)) {
            self.sequences_made += 1;
            let name = format!("{}q{}", session_prefix(session), self.sequences_made);
            self.note(format!("CREATE SEQUENCE {}.{name}", database.name()));
            let definition = SequenceDefinition {
                schema: "dbo".to_owned(),
                name: name.clone(),
                sql_type: SqlType::BigInt,
                start: Some(1),
                increment: 1,
                minimum: None,
                maximum: None,
                cycles: false,
                cache: [None, Some(0), Some(3)][self.below(3)],
            };
            database.create_sequence(ctx, &definition)?;
            objects.sequences.insert(name);
            return Ok(());
        }
        let name = objects.sequences.iter().nth(self.below(objects.sequences.len())).expect("below").clone();
        if self.chance(10) {
            self.note(format!("DROP SEQUENCE {}.{name}", database.name()));
            database.drop_sequence(ctx, "dbo", &name, &mut unlocked)?;
            objects.sequences.remove(&name);
            return Ok(());
        }
        let snapshot = database.snapshot_of(ctx);
        let sequence = snapshot.sequence(1, &name);
        let sequence = sequence.ok_or_else(|| Wrong::Model(format!("sequence {name} is not in the catalog")))?;
        let count = 1 + self.below(7) as u64;
        let (mut first, mut last) = (None, 0);
        database.take_sequence_values(ctx, sequence, count, &mut |value, count| {
            first.get_or_insert(value);
            last = value + i128::from(count) - 1;
        })?;
        self.note(format!("NEXT VALUE FOR {}.{name}: {first:?} to {last}", database.name()));
        // Who has made it and not committed may take his values back with it.
        if database.snapshot().sequence(1, &name).is_some() {
            let before = self.sequence_values.insert(name.clone(), last).unwrap_or(0);
            if first.is_none_or(|first| first <= before) {
                return Err(Wrong::Model(format!("sequence {name} gave {first:?} behind {before}")));
            }
        }
        Ok(())
    }
}
