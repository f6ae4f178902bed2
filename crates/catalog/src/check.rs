//! The rules that every snapshot satisfies.

use std::collections::HashSet;
use std::fmt;

use hobt_base::{FilegroupId, ObjectId};
use hobt_page::MAX_COLUMNS;
use hobt_types::{Collation, KeyColumn};

use crate::index_leaf::base_layout;
use crate::schema::{DataSpace, DatabaseSnapshot, Index, IndexKind, PartitionFunction, PartitionScheme, Table};
use crate::value_bytes::compare_values;

/// The maximum number of columns of an index's key.
pub const KEY_COLUMNS_MAX: usize = 32;

/// The maximum length of a name, in UTF-16 code units.
pub const NAME_LENGTH_MAX: usize = 128;

/// A rule that a snapshot breaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokenRule {
    /// The object that breaks it.
    pub object: String,
    /// The rule.
    pub rule: &'static str,
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the catalog contradicts itself at '{}': {}", self.object, self.rule)
    }
}

impl std::error::Error for BrokenRule {}

pub(crate) fn require(holds: bool, object: &str, rule: &'static str) -> Result<(), BrokenRule> {
    if holds { Ok(()) } else { Err(BrokenRule { object: object.to_owned(), rule }) }
}

fn check_name(name: &str) -> Result<(), BrokenRule> {
    let length = name.encode_utf16().count();
    require((1..=NAME_LENGTH_MAX).contains(&length), name, "a name has 1 to 128 characters")
}

/// Checks that names of one kind are distinct.
fn check_distinct<'a>(names: impl Iterator<Item = (i32, &'a str)>) -> Result<(), BrokenRule> {
    let mut seen = HashSet::new();
    for (schema, name) in names {
        check_name(name)?;
        require(seen.insert((schema, name.to_lowercase())), name, "names are distinct")?;
    }
    Ok(())
}

impl DatabaseSnapshot {
    /// Checks the whole snapshot: names, references, partitions, layouts.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check(&self) -> Result<(), BrokenRule> {
        check_distinct(self.schemas.iter().map(|schema| (0, schema.name.as_str())))?;
        check_distinct(self.filegroups.iter().map(|filegroup| (0, filegroup.name.as_str())))?;
        check_distinct(self.files.iter().map(|file| (0, file.name.as_str())))?;
        check_distinct(self.partition_functions.iter().map(|function| (0, function.name.as_str())))?;
        check_distinct(self.partition_schemes.iter().map(|scheme| (0, scheme.name.as_str())))?;
        let tables = self.tables.values().map(|table| (table.schema, table.name.as_str()));
        let modules = self.modules.values().map(|module| (module.schema, module.name.as_str()));
        let sequences = self.sequences.values().map(|sequence| (sequence.schema, sequence.name.as_str()));
        check_distinct(tables.chain(modules).chain(sequences))?;
        self.check_files()?;
        for function in &self.partition_functions {
            check_function(function)?;
        }
        for scheme in &self.partition_schemes {
            self.check_scheme(scheme)?;
        }
        let mut hobts = HashSet::new();
        for (id, table) in &self.tables {
            self.check_table(*id, table)?;
            for partition in table.indexes.iter().flat_map(|index| &index.partitions) {
                require(hobts.insert(partition.hobt), &table.name, "a HOBT belongs to one partition")?;
            }
        }
        for (id, module) in &self.modules {
            let known = *id == module.id && !self.tables.contains_key(id) && self.schema_by_id(module.schema).is_some();
            require(known, &module.name, "a module has an id and a schema")?;
        }
        for (id, sequence) in &self.sequences {
            let known = *id == sequence.id
                && !self.tables.contains_key(id)
                && !self.modules.contains_key(id)
                && self.schema_by_id(sequence.schema).is_some();
            require(known, &sequence.name, "a sequence has an id and a schema")?;
            sequence.check()?;
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), BrokenRule> {
        let defaults = self.filegroups.iter().filter(|filegroup| filegroup.is_default).count();
        require(defaults == 1, &self.name, "one filegroup is the default")?;
        let mut ids = HashSet::new();
        for file in &self.files {
            require(ids.insert(file.id) && file.id.0 > 0, &file.name, "file ids are distinct, from 1")?;
            require(self.filegroup_by_id(file.filegroup).is_some(), &file.name, "a file's filegroup exists")?;
        }
        let primary = self.files.iter().any(|file| file.id.0 == 1 && file.filegroup == FilegroupId(1));
        require(primary, &self.name, "file 1 is in the primary filegroup")
    }

    fn check_scheme(&self, scheme: &PartitionScheme) -> Result<(), BrokenRule> {
        let function = self.partition_function_by_id(scheme.function);
        let count = function.map(|function| function.partition_count());
        require(count == Some(scheme.filegroups.len()), &scheme.name, "a scheme has a filegroup for each partition")?;
        let mut filegroups = scheme.filegroups.iter().chain(&scheme.next_used);
        let known = filegroups.all(|id| self.filegroup_by_id(*id).is_some());
        require(known, &scheme.name, "a scheme's filegroups exist")
    }

    fn check_table(&self, id: ObjectId, table: &Table) -> Result<(), BrokenRule> {
        let name = &table.name;
        require(id == table.id, name, "a table is found under its id")?;
        require(self.schema_by_id(table.schema).is_some(), name, "a table's schema exists")?;
        require((1..=MAX_COLUMNS).contains(&table.columns.len()), name, "a table has 1 to 1024 columns")?;
        let stored = table.columns.iter().map(|column| (0, column.name.as_str()));
        check_distinct(stored.chain(table.virtual_columns.iter().map(|column| (0, column.name.as_str()))))?;
        self.check_constraints(table)?;
        let rising = table.columns.windows(2).all(|pair| pair[0].id < pair[1].id);
        require(rising && table.columns[0].id > 0, name, "column ids rise from 1")?;
        require(table.rows.page_layout(1).is_some(), name, "a row fits a page")?;
        let rules = table.columns.iter().all(|column| {
            column.collation.is_some() == column.sql_type.is_text()
                && column.identity.is_none_or(|identity| identity.increment != 0)
        });
        require(rules, name, "text has a collation, and an identity a step")?;
        let first = table.indexes.first().map(|index| (index.id.0, index.kind));
        let based = matches!(first, Some((0, IndexKind::Heap) | (1, IndexKind::Clustered)));
        require(based, name, "the first index is the heap or the clustered index")?;
        let base = base_layout(&table.columns, table.base_index());
        let same = table.rows.columns() == base.columns() && table.rows.is_ordered() == base.is_ordered();
        require(same, name, "the row layout is that of the columns and the first index")?;
        let ids = table.indexes.windows(2).all(|pair| pair[0].id < pair[1].id);
        require(ids, name, "the ids of indexes rise")?;
        check_distinct(table.indexes.iter().filter_map(|index| index.name.as_deref()).map(|index| (0, index)))?;
        table.indexes.iter().try_for_each(|index| self.check_index(table, index))
    }

    /// Checks the rules for a table's constraints and computed columns.
    fn check_constraints(&self, table: &Table) -> Result<(), BrokenRule> {
        let name = &table.name;
        let ids: HashSet<i32> = table.columns.iter().map(|column| column.id).collect();
        let virtual_ids: HashSet<i32> = table.virtual_columns.iter().map(|column| column.id).collect();
        require(ids.is_disjoint(&virtual_ids), name, "a column's id is its own")?;
        for key in &table.constraints.foreign_keys {
            let other = self.tables.get(&key.referenced);
            let found = other.is_some_and(|other| {
                key.referenced_columns.iter().all(|id| other.columns.iter().any(|column| column.id == *id))
            });
            let own = key.columns.iter().all(|id| ids.contains(id));
            let same = key.columns.len() == key.referenced_columns.len() && !key.columns.is_empty();
            require(found && own && same, name, "a foreign key's columns exist")?;
        }
        for check in &table.constraints.checks {
            let known = check.column.is_none_or(|id| ids.contains(&id) || virtual_ids.contains(&id));
            require(known, name, "a check's column exists")?;
        }
        Ok(())
    }

    fn check_index(&self, table: &Table, index: &Index) -> Result<(), BrokenRule> {
        let name = &table.name;
        check_key(table, index)?;
        if index.options.is_disabled {
            let stored = index.partitions.is_empty() || index.kind == IndexKind::Clustered;
            return require(stored, name, "a disabled index has no storage");
        }
        let numbered = index.partitions.iter().zip(1..).all(|(partition, number)| partition.number.0 == number);
        require(numbered && !index.partitions.is_empty(), name, "partitions are numbered from 1")?;
        match &index.data_space {
            DataSpace::Filegroup(filegroup) => {
                let there = self.filegroup_by_id(*filegroup).is_some();
                let one = index.partitions.len() == 1 && index.partitions[0].filegroup == *filegroup;
                require(there && one, name, "an unpartitioned index is one HOBT in its filegroup")
            }
            DataSpace::Scheme { scheme, column } => {
                let scheme = self.partition_scheme_by_id(*scheme);
                let placed = scheme.is_some_and(|scheme| {
                    scheme.filegroups.iter().eq(index.partitions.iter().map(|partition| &partition.filegroup))
                });
                require(placed, name, "partitions lie where their scheme has them")?;
                let function = scheme.and_then(|scheme| self.partition_function_by_id(scheme.function));
                let typed = table.columns.get(*column).map(|column| column.sql_type)
                    == function.map(|function| function.parameter);
                require(typed, name, "the partitioning column has the function's type")
            }
        }
    }
}

fn check_key(table: &Table, index: &Index) -> Result<(), BrokenRule> {
    let name = &table.name;
    if index.kind == IndexKind::Heap {
        let empty = index.key.is_empty() && index.included.is_empty() && index.name.is_none();
        return require(empty && index.id.0 == 0, name, "a heap has no key");
    }
    let numbered = if index.kind == IndexKind::Clustered { index.id.0 == 1 } else { index.id.0 > 1 };
    require(numbered && index.name.is_some(), name, "an index has a name and an id of its kind")?;
    let mut seen = HashSet::new();
    let columns = index.key.iter().map(|part| part.column).chain(index.included.iter().copied());
    let distinct = columns.into_iter().all(|column| column < table.columns.len() && seen.insert(column));
    require(distinct, name, "the columns of an index are the table's, each once")?;
    require((1..=KEY_COLUMNS_MAX).contains(&index.key.len()), name, "an index has 1 to 32 key columns")?;
    require(index.kind == IndexKind::Nonclustered || index.included.is_empty(), name, "leaves have the columns once")?;
    let keys = index
        .key
        .iter()
        .all(|part| KeyColumn::new(table.columns[part.column].sql_type, Collation::default(), true, false).is_some());
    require(keys, name, "key columns have types that can be keys")?;
    require(index.constraint.is_none() || index.options.is_unique, name, "a key constraint's index is unique")
}

fn check_function(function: &PartitionFunction) -> Result<(), BrokenRule> {
    let sorted =
        function.boundaries.windows(2).all(|pair| compare_values(function.collation, &pair[0], &pair[1]).is_lt());
    require(sorted, &function.name, "boundaries are sorted and distinct")
}
