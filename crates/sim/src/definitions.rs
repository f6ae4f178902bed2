//! The statements of a script that change definitions: tables, indexes, columns, constraints.
//!
//! After such a statement the model takes over the definition in the catalog: other tests check that it is what was
//! requested. What becomes of the definition, and of the rows, in commits, rollbacks and crashes is checked against the
//! model.

use hobt_base::number;
use hobt_catalog::{IndexOptions, ReferentialRule};
use hobt_engine::{
    CheckDefinition, ColumnAlteration, ColumnDefinition, DataSpaceDefinition, EngineError, ForeignKeyDefinition,
    IndexDefinition, IndexSelector, TableDefinition,
};
use hobt_types::{MaxLength, SqlType};

use crate::model::{IndexShape, Objects, Rows, Table};
use crate::partitions::{function_name, scheme_name};
use crate::simulation::Simulation;
use crate::statement::{Action, Target, Wrong, unlocked};

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

/// Each with whether it is clustered, and whether it is unique.
const INDEXES: [IndexChoice; 6] = [
    IndexChoice::new("by_id", (true, true), &["id"]),
    IndexChoice::new("by_number", (true, false), &["number"]),
    IndexChoice::new("id", (false, true), &["id"]),
    IndexChoice::new("number", (false, false), &["number"]),
    IndexChoice { included: &["payload"], ..IndexChoice::new("payload", (false, false), &["number", "id"]) },
    IndexChoice { included: &["number"], ..IndexChoice::new("extra", (false, false), &["extra"]) },
];

pub(crate) fn column_definition((name, sql_type): &(String, SqlType)) -> ColumnDefinition {
    ColumnDefinition::new(name, *sql_type, name != "id")
}

pub(crate) fn index_definition(name: &str, shape: &IndexShape) -> IndexDefinition {
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

/// Creates an empty table.
pub(crate) fn make_table(
    target: Target<'_>,
    objects: &mut Objects,
    columns: Vec<ColumnDefinition>,
    data_space: DataSpaceDefinition,
    indexes: Vec<IndexDefinition>,
) -> Result<(), Wrong> {
    let name = target.name.to_owned();
    let definition = TableDefinition { schema: "dbo".to_owned(), name: name.clone(), columns, data_space, indexes };
    target.database.create_table(target.ctx, &definition)?;
    objects.tables.insert(name, Table { shape: target.shape()?, rows: Rows::new() });
    Ok(())
}

/// Drops a table with its partition function.
pub(crate) fn drop_table(target: Target<'_>, objects: &mut Objects) -> Result<(), Wrong> {
    let Target { database, ctx, name } = target;
    database.drop_table(ctx, "dbo", name, &mut unlocked)?;
    let dropped = objects.tables.remove(name);
    if dropped.is_some_and(|table| table.shape.boundaries.is_some()) {
        database.drop_partition_scheme(ctx, &scheme_name(name))?;
        database.drop_partition_function(ctx, &function_name(name))?;
    }
    Ok(())
}

/// Checks that a table that a foreign key refers to cannot be dropped or truncated.
pub(crate) fn is_refused(target: Target<'_>, action: Action) -> Result<(), Wrong> {
    let Target { database, ctx, name } = target;
    let (done, expected) = match action {
        Action::Drop => (database.drop_table(ctx, "dbo", name, &mut unlocked), number::REFERENCED_TABLE),
        Action::Truncate => (database.truncate_table(ctx, "dbo", name, &mut unlocked), number::TRUNCATE_REFERENCED),
        _ if target.shape()?.boundaries.is_none() => return Ok(()),
        _ => {
            let done = database.truncate_partitions(ctx, target.path(), &[(1, 1)], &mut unlocked);
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
        target: Target<'_>,
        objects: &mut Objects,
    ) -> Result<(), Wrong> {
        let Target { database, name, .. } = target;
        let is_partitioned = self.chance(40);
        self.note(format!("s{session}: CREATE TABLE {}.{name}, partitioned: {is_partitioned}", database.name()));
        let mut data_space = DataSpaceDefinition::Default;
        if is_partitioned {
            self.create_partitions(target)?;
            data_space = DataSpaceDefinition::Scheme { scheme: scheme_name(name), column: "id".to_owned() };
        }
        let columns = COLUMNS.map(|(name, sql_type)| column_definition(&(name.to_owned(), sql_type)));
        make_table(target, objects, columns.into(), data_space, Vec::new())
    }

    pub(crate) fn add_index(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        let Target { database, ctx, .. } = target;
        let has_clustered = model.shape.indexes.values().any(|index| index.is_clustered);
        let IndexChoice { name: index, is_clustered, is_unique, key, included } = INDEXES[self.below(INDEXES.len())];
        let names = |columns: &[&str]| columns.iter().map(|&column| column.to_owned()).collect::<Vec<_>>();
        let wanted = IndexShape { is_clustered, is_unique, key: names(key), included: names(included) };
        let lacks_column = wanted.key.iter().chain(&wanted.included).any(|column| !model.shape.has_column(column));
        if model.shape.indexes.contains_key(index) || (is_clustered && has_clustered) || lacks_column {
            return Ok(());
        }
        let definition = index_definition(index, &wanted);
        let changed = database.begin_create_index(ctx, target.path(), &definition, &mut unlocked)?;
        target.finish_as_listed(changed, model)
    }

    pub(crate) fn drop_index(
        &mut self,
        target: Target<'_>,
        model: &mut Table,
        is_referenced: bool,
    ) -> Result<(), Wrong> {
        let Target { database, ctx, name } = target;
        let is_referenced = is_referenced || model.shape.refers_to(name);
        let droppable = model.shape.indexes.iter().filter(|(_, index)| !(is_referenced && index.is_unique));
        let droppable: Vec<String> = droppable.map(|(name, _)| name.clone()).collect();
        if droppable.is_empty() {
            return Ok(());
        }
        let index = &droppable[self.below(droppable.len())];
        let changed = database.begin_drop_index(ctx, target.path(), index, false, &mut unlocked)?;
        target.finish_as_listed(changed, model)
    }

    pub(crate) fn rebuild(&mut self, target: Target<'_>, model: &Table) -> Result<(), Wrong> {
        let Target { database, ctx, .. } = target;
        let which = if self.chance(50) { IndexSelector::Base } else { IndexSelector::All };
        let partitions = model.shape.boundaries.as_ref().map(|boundaries| boundaries.len() + 1);
        let partition = partitions.filter(|_| which == IndexSelector::Base).map(|count| self.below(count));
        let changed =
            database.begin_rebuild(ctx, target.path(), &which, partition, &|options| options, &mut unlocked)?;
        target.finish(changed, &model.rows)
    }

    /// Adds a column, drops one, or changes the type of one.
    pub(crate) fn alter_columns(&mut self, target: Target<'_>, model: &mut Table) -> Result<(), Wrong> {
        let (Target { database, ctx, .. }, table) = (target, target.path());
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
        target.finish_as_listed(changed, model)
    }

    /// Adds a check or a foreign key, or drops one.
    pub(crate) fn constraint(&mut self, target: Target<'_>, objects: &mut Objects) -> Result<(), Wrong> {
        let (Target { database, ctx, name }, table) = (target, target.path());
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
        target.finish_as_listed(changed, objects.tables.get_mut(name).expect("the caller has looked"))
    }
}
