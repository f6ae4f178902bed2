//! Ways into an index without its trees: what a kept plan has of them between executions.

use std::sync::Arc;

use hobt_access::{BTree, RowStore};
use hobt_base::SqlError;
use hobt_catalog::{Index, Table};
use hobt_engine::DatabaseUse;

/// A way into an index of a table, with the trees that it reads.
pub(super) trait HasTrees: Clone {
    /// The index's position in the table's list.
    fn index(&self) -> usize;

    /// The trees, each with the index of its partition.
    fn trees(&mut self) -> &mut Vec<(usize, Arc<BTree>)>;
}

/// A way into an index whose trees are not open.
#[derive(Clone, Debug)]
pub struct Closed<W> {
    partitions: Vec<usize>,
    way: W,
}

#[expect(private_bounds, reason = "its two ways are known here")]
impl<W: HasTrees> Closed<W> {
    /// The way without its trees.
    pub fn of(way: &W) -> Closed<W> {
        let mut way = way.clone();
        let partitions = std::mem::take(way.trees()).into_iter().map(|(partition, _)| partition).collect();
        Closed { partitions, way }
    }

    /// The way with its trees.
    ///
    /// # Errors
    /// If a tree cannot be opened.
    pub fn open(&self, database: &DatabaseUse, table: &Table) -> Result<W, SqlError> {
        let mut way = self.way.clone();
        *way.trees() = trees_of(database, &table.indexes[way.index()], &self.partitions)?;
        Ok(way)
    }
}

/// The trees of some partitions (from 0) of an index, each with its partition.
///
/// # Errors
/// If a tree cannot be opened.
pub(crate) fn trees_of(
    database: &DatabaseUse,
    index: &Index,
    partitions: &[usize],
) -> Result<Vec<(usize, Arc<BTree>)>, SqlError> {
    let mut trees = Vec::with_capacity(partitions.len());
    for &place in partitions {
        let store = database.store_to_read(index.partitions[place].hobt).map_err(SqlError::from)?;
        let RowStore::Tree(tree) = store else { return Err(SqlError::internal("an index that is no tree")) };
        trees.push((place, tree));
    }
    Ok(trees)
}
