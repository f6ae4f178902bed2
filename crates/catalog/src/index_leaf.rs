//! The contents of index leaves.
//!
//! ```text
//! clustered       the table's columns, in their order | uniqueifier, where the key is not unique
//! nonclustered    key columns | the columns of the row's reference that are not among them | included columns
//! reference       of a clustered table: its key columns and uniqueifier; of a heap: file, page and slot in one bigint;
//!                 with it the base's partition, if the index is partitioned differently
//! ```
//! The key of a nonclustered index that is not unique ends in the base's partition and the reference. So all keys of a
//! tree differ, and rows with equal key columns are in the order of their references.

use std::sync::Arc;

use hobt_access::{TreeKey, TreeKeyColumn};
use hobt_page::{ColumnLayout, RowLayout};
use hobt_types::{Collation, KeyColumn, SqlType};

use crate::schema::{DataSpace, Index, IndexKind, Table, TableColumn};

/// A column of an index's leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeafColumn {
    /// A column of the table, by its place.
    Table(usize),
    /// The hidden `int` that makes the keys of a clustered index unique.
    Uniqueifier,
    /// The `bigint` with the RID of a heap's row.
    RowId,
    /// The `int` with the row's partition in the table, from 0.
    BasePartition,
}

impl LeafColumn {
    /// Its type.
    pub fn sql_type(self, table: &Table) -> SqlType {
        match self {
            LeafColumn::Table(column) => table.columns[column].sql_type,
            LeafColumn::Uniqueifier | LeafColumn::BasePartition => SqlType::Int,
            LeafColumn::RowId => SqlType::BigInt,
        }
    }

    fn layout(self, columns: &[TableColumn]) -> ColumnLayout {
        match self {
            LeafColumn::Table(column) => column_layout(&columns[column]),
            LeafColumn::Uniqueifier | LeafColumn::BasePartition => hidden_layout(SqlType::Int),
            LeafColumn::RowId => hidden_layout(SqlType::BigInt),
        }
    }
}

/// The contents of an index's leaves.
#[derive(Clone, Debug)]
pub struct IndexLeaf {
    /// Their columns.
    pub columns: Vec<LeafColumn>,
    /// The columns as pages see them.
    pub rows: Arc<RowLayout>,
    /// The key, whose columns are places in `columns`.
    pub key: Arc<TreeKey>,
    /// The positions in `columns` of the row's reference, in the order of the clustered key. Empty in a clustered
    /// index.
    pub reference: Vec<usize>,
    /// The position of the base's partition, if it differs from the index's own.
    pub base_partition: Option<usize>,
}

impl IndexLeaf {
    /// The leaf column that a column of the table is stored in.
    pub fn position_of(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|each| *each == LeafColumn::Table(column))
    }
}

fn column_layout(column: &TableColumn) -> ColumnLayout {
    ColumnLayout { physical: column.sql_type.physical(), nullable: column.nullable }
}

fn hidden_layout(sql_type: SqlType) -> ColumnLayout {
    ColumnLayout { physical: sql_type.physical(), nullable: false }
}

/// The page layout of a table with this heap or clustered index.
pub(crate) fn base_layout(columns: &[TableColumn], base: &Index) -> Arc<RowLayout> {
    let mut layouts: Vec<ColumnLayout> = columns.iter().map(column_layout).collect();
    if base.kind == IndexKind::Heap {
        return Arc::new(RowLayout::new(layouts));
    }
    if !base.options.is_unique {
        layouts.push(hidden_layout(SqlType::Int));
    }
    Arc::new(RowLayout::new(layouts).ordered())
}

impl Table {
    /// The page layout of these columns in a heap.
    pub fn row_layout(columns: &[TableColumn]) -> RowLayout {
        RowLayout::new(columns.iter().map(column_layout).collect())
    }

    /// Replaces the indexes of the table; the heap or clustered index comes first.
    #[must_use]
    pub fn with_indexes(mut self, indexes: Vec<Index>) -> Table {
        self.rows = base_layout(&self.columns, &indexes[0]);
        self.indexes = indexes;
        self
    }

    /// The leaf columns that identify rows of the heap or clustered index.
    fn reference(&self) -> Vec<LeafColumn> {
        let base = self.base_index();
        if base.kind == IndexKind::Heap {
            return vec![LeafColumn::RowId];
        }
        let mut columns: Vec<LeafColumn> = base.key.iter().map(|part| LeafColumn::Table(part.column)).collect();
        if !base.options.is_unique {
            columns.push(LeafColumn::Uniqueifier);
        }
        columns
    }

    /// Whether each partition of an index has exactly the rows of the table's partition with the same number.
    pub fn is_aligned(&self, index: &Index) -> bool {
        match (&self.base_index().data_space, &index.data_space) {
            (_, _) if self.base_index().partitions.len() == 1 => true,
            (DataSpace::Scheme { scheme, column }, DataSpace::Scheme { scheme: other, column: by }) => {
                scheme == other && column == by
            }
            _ => false,
        }
    }

    /// The contents of the leaves of an index; `None` for a heap, which has no leaves.
    pub fn index_leaf(&self, index: &Index) -> Option<IndexLeaf> {
        let mut columns = Vec::new();
        let (mut reference, mut base_partition) = (Vec::new(), None);
        match index.kind {
            IndexKind::Heap => return None,
            IndexKind::Clustered => {
                columns.extend((0..self.columns.len()).map(LeafColumn::Table));
                if !index.options.is_unique {
                    columns.push(LeafColumn::Uniqueifier);
                }
            }
            IndexKind::Nonclustered => {
                columns.extend(index.key.iter().map(|part| LeafColumn::Table(part.column)));
                for column in self.reference() {
                    reference.push(place_of(&mut columns, column));
                }
                if !self.is_aligned(index) {
                    base_partition = Some(place_of(&mut columns, LeafColumn::BasePartition));
                }
                for column in &index.included {
                    place_of(&mut columns, LeafColumn::Table(*column));
                }
            }
        }
        let layouts = columns.iter().map(|column| column.layout(&self.columns)).collect();
        let key = self.tree_key(index, &columns, base_partition.iter().chain(&reference));
        let rows = Arc::new(RowLayout::new(layouts).ordered());
        Some(IndexLeaf { columns, rows, key: Arc::new(key), reference, base_partition })
    }

    fn tree_key<'r>(
        &self,
        index: &Index,
        columns: &[LeafColumn],
        reference: impl Iterator<Item = &'r usize>,
    ) -> TreeKey {
        let place = |column| columns.iter().position(|each| *each == column).expect("key columns are in the leaves");
        let of_table = |column: usize, is_descending| {
            let definition = &self.columns[column];
            let collation = definition.collation.unwrap_or_default();
            KeyColumn::new(definition.sql_type, collation, definition.nullable, is_descending)
                .expect("an index's definition has columns that can be keys")
        };
        let hidden =
            |sql_type| KeyColumn::new(sql_type, Collation::default(), false, false).expect("an integer can be a key");
        let mut key: Vec<TreeKeyColumn> = Vec::with_capacity(index.key.len() + 2);
        for part in &index.key {
            let column = place(LeafColumn::Table(part.column));
            key.push(TreeKeyColumn { column, key: of_table(part.column, part.is_descending) });
        }
        if index.options.is_unique {
            return TreeKey::new(key);
        }
        if index.kind == IndexKind::Clustered {
            key.push(TreeKeyColumn { column: place(LeafColumn::Uniqueifier), key: hidden(SqlType::Int) });
            return TreeKey::new(key);
        }
        for column in reference {
            if key.iter().any(|part| part.column == *column) {
                continue;
            }
            // In the order of the clustered index, as the references are.
            let part = match columns[*column] {
                LeafColumn::Table(place) => {
                    let of_base = self.base_index().key.iter().find(|part| part.column == place);
                    of_table(place, of_base.is_some_and(|part| part.is_descending))
                }
                other => hidden(other.sql_type(self)),
            };
            key.push(TreeKeyColumn { column: *column, key: part });
        }
        TreeKey::new(key)
    }
}

/// The position of a column among the leaf columns; appends it if it is not there yet.
fn place_of(columns: &mut Vec<LeafColumn>, column: LeafColumn) -> usize {
    columns.iter().position(|each| *each == column).unwrap_or_else(|| {
        columns.push(column);
        columns.len() - 1
    })
}
