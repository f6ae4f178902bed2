//! The statements of a script that change partitions: their functions and schemes, and their contents.

use std::collections::BTreeSet;

use hobt_engine::{DataSpaceDefinition, PartitionFunctionDefinition, PartitionSchemeDefinition, SwitchSide};
use hobt_types::{SqlType, Value};

use crate::definitions::{column_definition, index_definition, make_table};
use crate::model::{Objects, Table};
use crate::simulation::Simulation;
use crate::statement::{Target, Wrong, unlocked};

/// The maximum number of boundaries of a partition function.
const BOUNDARIES_MAX: usize = 6;

/// The name of a table's partition function.
pub(crate) fn function_name(table: &str) -> String {
    format!("pf_{table}")
}

/// The name of a table's partition scheme.
pub(crate) fn scheme_name(table: &str) -> String {
    format!("ps_{table}")
}

impl Simulation {
    /// Creates the function and the scheme for a table that is to be partitioned.
    pub(crate) fn create_partitions(&mut self, target: Target<'_>) -> Result<(), Wrong> {
        let Target { database, ctx, name } = target;
        let count = self.below(4);
        let reach = usize::try_from(self.next_key).expect("keys are positive") + 200;
        let boundaries: BTreeSet<i64> = (0..count).map(|_| i64::try_from(self.below(reach)).expect("a key")).collect();
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
        Ok(database.create_partition_scheme(ctx, &scheme).map(drop)?)
    }

    pub(crate) fn split(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        let Target { database, ctx, name } = target;
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

    pub(crate) fn merge(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        let Target { database, ctx, name } = target;
        let Some(boundaries) = model.shape.boundaries.as_mut().filter(|known| !known.is_empty()) else {
            return Ok(());
        };
        let value = boundaries.remove(self.below(boundaries.len()));
        let function = function_name(name);
        Ok(database.alter_partition_function(ctx, &function, &Value::Int(value), false, &mut unlocked)?)
    }

    pub(crate) fn truncate_partition(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        let Some(boundaries) = &model.shape.boundaries else { return Ok(()) };
        let partition = self.below(boundaries.len() + 1);
        let number = i64::try_from(partition + 1).expect("a few partitions");
        let open = target.open()?;
        target.database.truncate_partitions(target.ctx, target.path(), &[(number, number)], &mut unlocked)?;
        model.rows.retain(|key, _| open.partition_of(*key) != partition);
        Ok(())
    }

    /// Switches a partition to another one, or creates a table to which one can be switched. `any` is a target in the
    /// statement.
    pub(crate) fn switch(&mut self, any: Target<'_>, objects: &mut Objects, free: Option<String>) -> Result<(), Wrong> {
        let sides = sides_of(any, objects)?;
        let pairs = pairs_of(any, objects, &sides)?;
        if pairs.is_empty() || self.chance(10) {
            let Some(name) = free.filter(|_| !sides.is_empty()) else { return Ok(()) };
            let like = &objects.tables[&sides[self.below(sides.len())].table].shape;
            self.note(format!("CREATE TABLE {name} to switch to"));
            let columns = like.columns.iter().map(column_definition).collect();
            let indexes = like.indexes.iter().map(|(name, index)| index_definition(name, index)).collect();
            return make_table(any.of(&name), objects, columns, DataSpaceDefinition::Default, indexes);
        }
        let (from, to) = pairs[self.below(pairs.len())];
        let named = |side: &Side| SwitchSide {
            schema: "dbo".to_owned(),
            name: side.table.clone(),
            partition: objects.tables[&side.table].shape.boundaries.is_some().then(|| side.partition as i64 + 1),
        };
        let (source, target) = (named(&sides[from]), named(&sides[to]));
        self.note(format!("SWITCH {source:?} TO {target:?}: {} rows", sides[from].keys.len()));
        any.database.switch_partition(any.ctx, &source, &target, &mut unlocked)?;
        for key in &sides[from].keys {
            let row = objects.tables.get_mut(&source.name).and_then(|table| table.rows.remove(key));
            let target = objects.tables.get_mut(&target.name).expect("a side is a table");
            target.rows.insert(*key, row.expect("its key was listed"));
        }
        Ok(())
    }
}

/// A partition that may be switched.
struct Side {
    table: String,
    partition: usize,
    /// The keys of its rows.
    keys: Vec<i32>,
}

/// The partitions of tables that have no foreign key and are not referred to by one.
fn sides_of(any: Target<'_>, objects: &Objects) -> Result<Vec<Side>, Wrong> {
    let mut sides = Vec::new();
    for (name, table) in &objects.tables {
        let open = any.of(name).open()?;
        let is_bound = objects.is_referenced(name) || table.shape.has_foreign_key();
        for partition in (0..open.writer().base().len()).filter(|_| !is_bound) {
            let keys = table.rows.keys().filter(|key| open.partition_of(**key) == partition).copied().collect();
            sides.push(Side { table: name.clone(), partition, keys });
        }
    }
    Ok(sides)
}

/// The pairs of partitions in which the first can be switched to the second.
fn pairs_of(any: Target<'_>, objects: &Objects, sides: &[Side]) -> Result<Vec<(usize, usize)>, Wrong> {
    let opened = sides.iter().map(|side| any.of(&side.table).open()).collect::<Result<Vec<_>, _>>()?;
    let mut pairs = Vec::new();
    for (from, side) in sides.iter().enumerate() {
        for ((to, other), open) in sides.iter().enumerate().zip(&opened) {
            let (source, target) = (&objects.tables[&side.table].shape, &objects.tables[&other.table].shape);
            let fits = side.keys.iter().all(|key| open.partition_of(*key) == other.partition);
            let is_alike = source.columns == target.columns && source.indexes.values().eq(target.indexes.values());
            let is_checked = target.constraints.is_empty() || !source.constraints.is_empty();
            if side.table != other.table && other.keys.is_empty() && fits && is_alike && is_checked {
                pairs.push((from, to));
            }
        }
    }
    Ok(pairs)
}
