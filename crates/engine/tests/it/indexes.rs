//! Checks that indexes have the rows of their tables: what is found if they do not.

use hobt_catalog::{IndexOptions, row_image};
use hobt_engine::{DataSpaceDefinition, IndexDefinition, IndexMismatch, TableDefinition, TableWriter};

use crate::fixture::{create, insert, open, row, run, simulated, table_named};

#[test]
fn a_row_without_an_entry_and_an_entry_without_a_row_are_found() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "d");
    let by_text = IndexDefinition {
        name: Some("by_text".to_owned()),
        is_clustered: Some(false),
        columns: vec![("text".to_owned(), false)],
        included: vec!["amount".to_owned()],
        data_space: DataSpaceDefinition::Default,
        constraint: None,
        options: IndexOptions::default(),
        drops_existing: false,
    };
    let definition = TableDefinition { indexes: vec![by_text], ..table_named("t") };
    let table = run(&instance, |ctx| database.create_table(ctx, &definition)).expect("a table");
    let write = |rows: std::ops::Range<i64>| {
        run(&instance, |ctx| {
            let writer = TableWriter::open(&database, &database.snapshot(), std::sync::Arc::clone(&table))?;
            for id in rows.clone() {
                let types = table.columns.iter().map(|column| column.sql_type);
                let image = row_image(types, &row(id)).expect("typed values");
                writer.insert(ctx, 0, &image).expect("nothing is unique");
            }
            Ok(())
        })
        .expect("rows");
    };
    let check = || {
        let writer = TableWriter::open_to_read(&database, &database.snapshot(), std::sync::Arc::clone(&table));
        writer.expect("an open table").check_indexes(&|| false).expect("whole pages")
    };
    write(0..300);
    assert_eq!(check(), []);
    // Inserted past the index.
    run(&instance, |ctx| insert(&database, ctx, &table, 0, (300..303).map(row))).expect("rows");
    assert_eq!(check(), [IndexMismatch { index: 1, missing: 3, extra: 0 }]);
    write(303..310);
    assert_eq!(check(), [IndexMismatch { index: 1, missing: 3, extra: 0 }]);
    // Past the index again: the first two rows of the heap are deleted.
    run(&instance, |ctx| {
        let heap = database.hobt(table.base_index().partitions[0].hobt)?;
        let mut places = Vec::new();
        let looked = heap.for_each_row(&mut |page, slot, _| {
            places.push((page, hobt_base::SlotId(u16::try_from(slot).expect("a slot"))));
            Ok(())
        });
        looked.expect("whole pages");
        places[..2].iter().for_each(|(page, slot)| heap.delete(ctx, *page, *slot).expect("a row"));
        Ok(())
    })
    .expect("deleted");
    assert_eq!(check(), [IndexMismatch { index: 1, missing: 3, extra: 2 }]);
    drop(database);
    instance.close().expect("closed");
}
