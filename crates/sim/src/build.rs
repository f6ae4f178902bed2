//! Bulk loads of rows, into heaps and into trees that are rebuilt, as the interpreter does them for `SELECT INTO`,
//! `CREATE INDEX` and `ALTER TABLE`.

use std::sync::Arc;

use hobt_access::{BTree, BTreeError, Hobt, LoadColumn, LoadValues, Loader, RowStore, TreeBuilder};
use hobt_catalog::IndexKind;
use hobt_engine::{Database, EngineError, TableChange, WriteError};
use hobt_page::{RowImage, RowLayout, ValidityBits};
use hobt_txn::StatementContext;

use crate::model::Rows;
use crate::rows::{OpenTable, image, refused};

/// Rows by column, as loaders take them.
struct Batch<'i> {
    rows: usize,
    columns: Vec<(Values<'i>, Option<Vec<u8>>)>,
}

enum Values<'i> {
    Fixed(Vec<u8>),
    Variable(Vec<&'i [u8]>),
}

impl<'i> Batch<'i> {
    fn new(layout: &RowLayout, images: &'i [RowImage]) -> Batch<'i> {
        let columns = layout.columns().iter().enumerate().map(|(place, column)| {
            let values = images.iter().map(|image| image.value(place));
            let mut bits = vec![0; images.len().div_ceil(8)];
            for (at, _) in values.clone().enumerate().filter(|(_, value)| value.is_some()) {
                bits[at / 8] |= 1 << (at % 8);
            }
            let all_valid = values.clone().all(|value| value.is_some());
            let values = match column.physical.width() {
                Some(width) => Values::Fixed(
                    values.flat_map(|value| value.map_or_else(|| vec![0; width], <[u8]>::to_vec)).collect(),
                ),
                None => Values::Variable(values.map(Option::unwrap_or_default).collect()),
            };
            (values, (!all_valid).then_some(bits))
        });
        Batch { rows: images.len(), columns: columns.collect() }
    }

    fn load_columns(&self) -> Vec<LoadColumn<'_>> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (values, bits) in &self.columns {
            let values = match values {
                Values::Fixed(bytes) => LoadValues::Fixed(bytes),
                Values::Variable(slices) => LoadValues::Variable(slices.clone()),
            };
            let validity = bits.as_deref().map(|bytes| ValidityBits { bytes, offset: 0 });
            columns.push(LoadColumn { values, validity });
        }
        columns
    }
}

/// Loads rows into a heap, in a few batches, and publishes them as `SELECT INTO` does.
pub(crate) fn load_heap(
    database: &Database,
    heap: &Arc<Hobt>,
    ctx: &Arc<StatementContext>,
    images: &[RowImage],
    batch_rows: usize,
) -> Result<(), EngineError> {
    let storage_error = |error| database.storage_error(error);
    let mut loader = Loader::new(Arc::clone(heap), Arc::clone(ctx));
    for images in images.chunks(batch_rows) {
        let batch = Batch::new(heap.row_layout(), images);
        loader.append(batch.rows, &batch.load_columns()).map_err(storage_error)?;
    }
    let loaded = loader.finish().map_err(storage_error)?;
    for file in database.storage().files() {
        file.disk().sync().map_err(|error| storage_error(error.into()))?;
    }
    heap.publish(ctx, vec![loaded]).map_err(storage_error)
}

/// Builds a tree of rows.
fn build_tree(
    database: &Database,
    tree: &Arc<BTree>,
    ctx: &Arc<StatementContext>,
    mut images: Vec<RowImage>,
) -> Result<(), EngineError> {
    let failed = |error: BTreeError| match error {
        BTreeError::Storage(error) => database.storage_error(error),
        BTreeError::Duplicate => refused(database, WriteError::Duplicate { index: 0, key: Vec::new() }),
        BTreeError::KeyTooLong { bytes } => refused(database, WriteError::EntryTooLong { index: 0, bytes }),
        BTreeError::RangeLocked { .. } => unreachable!("a builder inserts nothing between other rows"),
    };
    images.sort_by_cached_key(|image| tree.key_of(image).unwrap_or_default());
    let mut builder = TreeBuilder::new(tree, ctx, 0).map_err(|error| database.storage_error(error))?;
    for images in images.chunks(100) {
        let batch = Batch::new(tree.hobt().row_layout(), images);
        builder.append(batch.rows, &batch.load_columns()).map_err(failed)?;
    }
    builder.finish().map_err(failed)
}

/// Fills the new storage of a table with its rows.
pub(crate) fn fill(
    database: &Database,
    ctx: &Arc<StatementContext>,
    changed: &TableChange,
    rows: &Rows,
) -> Result<(), EngineError> {
    let snapshot = database.snapshot_of(ctx);
    let new = OpenTable::new(database, &snapshot, changed.new_table())?;
    for (place, partitions) in changed.to_build() {
        let mut images: Vec<Vec<RowImage>> = vec![Vec::new(); changed.new_table().indexes[place].partitions.len()];
        if place == 0 {
            for (key, row) in rows {
                images[new.partition_of(*key)].push(image(changed.new_table(), *key, row));
            }
        } else {
            let mut wrong = None;
            for partition in 0..new.writer().base().len() {
                let read = new.writer().for_each_row(partition, &mut |at, row| {
                    match new.writer().index_entry(place, at, row) {
                        Ok(Some((partition, entry))) => images[partition].push(entry),
                        Ok(None) => {}
                        Err(error) => wrong = Some(error),
                    }
                    wrong.is_none()
                });
                read.map_err(|error| database.storage_error(error))?;
            }
            if let Some(error) = wrong {
                return Err(database.storage_error(error));
            }
        }
        for partition in partitions {
            let images = std::mem::take(&mut images[partition]);
            let hobt = changed.new_table().indexes[place].partitions[partition].hobt;
            match database.store(hobt)? {
                RowStore::Heap(heap) => load_heap(database, &heap, ctx, &images, 50)?,
                RowStore::Tree(tree) => {
                    let is_numbered = place == 0 && !changed.new_table().base_index().options.is_unique;
                    let images = if is_numbered { numbered(database, changed, &tree, images)? } else { images };
                    build_tree(database, &tree, ctx, images)?;
                }
            }
        }
    }
    Ok(())
}

/// The rows of a clustered index that is not unique, each with its uniqueifier. If the index had the same key before,
/// the row keeps its uniqueifier, because other indexes may refer to the row by it.
fn numbered(
    database: &Database,
    changed: &TableChange,
    tree: &BTree,
    images: Vec<RowImage>,
) -> Result<Vec<RowImage>, EngineError> {
    let (old, new) = (changed.old().base_index(), changed.new_table().base_index());
    let keeps = old.kind == IndexKind::Clustered && !old.options.is_unique && old.key == new.key;
    let with = |image: &RowImage, number: i32| {
        let hidden = number.to_le_bytes();
        RowImage::new((0..image.column_count()).map(|place| image.value(place)).chain([Some(&hidden[..])]))
    };
    let id = |table: &hobt_catalog::Table, image: &RowImage| {
        let place = table.column_named("id").expect("every table has it");
        image.value(place).map(<[u8]>::to_vec)
    };
    let mut had = std::collections::HashMap::new();
    if keeps {
        let writer = hobt_engine::TableWriter::open(database, &database.snapshot(), Arc::clone(changed.old()))?;
        for partition in 0..writer.base().len() {
            let read = writer.for_each_row(partition, &mut |at, row| {
                had.insert(id(changed.old(), row), at.uniqueifier().unwrap_or(0));
                true
            });
            read.map_err(|error| database.storage_error(error))?;
        }
    }
    let mut given = std::collections::HashMap::<Vec<u8>, i32>::new();
    let number = |image: RowImage| {
        let known = had.get(&id(changed.new_table(), &image)).copied();
        let number = known.unwrap_or_else(|| {
            let mut key = tree.key_of(&with(&image, 0)).unwrap_or_default();
            key.truncate(key.len().saturating_sub(4));
            let next = given.entry(key).or_insert(0);
            *next += 1;
            *next - 1
        });
        with(&image, number)
    };
    Ok(images.into_iter().map(number).collect())
}
