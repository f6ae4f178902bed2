//! System tables with intact pages and invalid rows: refused, never a panic.

use hobt_base::{PageId, SlotId, SplitMix64, number};
use hobt_catalog::{IndexOptions, SystemTable, row_image};
use hobt_engine::{DataSpaceDefinition, IndexDefinition, KeyKind, ModuleDefinition};
use hobt_types::{SqlType, Value};

use crate::fixture::{create, create_partitions, open, run, simulated, table_named};

/// A random value of the type, preferring limits and ids that exist.
fn value(random: &mut SplitMix64, sql_type: SqlType, nullable: bool) -> Value {
    if nullable && random.below(3) == 0 {
        return Value::Null;
    }
    let edge = random.below(4);
    let integer = |random: &mut SplitMix64, min: i64, max: i64| match edge {
        0 => min,
        1 => max,
        2 => i64::try_from(random.below(8)).expect("small").min(max),
        _ => [1, 245_575_913, 65_601].into_iter().find(|id| *id <= max && random.below(2) == 0).unwrap_or(4).min(max),
    };
    match sql_type {
        SqlType::Bit => Value::Int(integer(random, 0, 1)),
        SqlType::TinyInt => Value::Int(integer(random, 0, 255)),
        SqlType::SmallInt => Value::Int(integer(random, i16::MIN.into(), i16::MAX.into())),
        SqlType::Int => Value::Int(integer(random, i32::MIN.into(), i32::MAX.into())),
        SqlType::Decimal { .. } => Value::Decimal(match edge {
            0 => i128::MIN,
            1 => i128::MAX,
            _ => i128::from(random.below(8)) - 1,
        }),
        SqlType::UniqueIdentifier => Value::Guid([7; 16]),
        SqlType::VarBinary(_) => Value::Binary(vec![0xFF; usize::try_from(random.below(20)).expect("small")]),
        sql_type if sql_type.is_text() => {
            let texts = ["", "U", "V", "t", "PRIMARY", "Latin1_General_BIN2", "\u{1F9C0}"];
            Value::Text(texts[usize::try_from(random.below(7)).expect("small")].to_owned())
        }
        _ => Value::Int(integer(random, i64::MIN, i64::MAX)),
    }
}

fn objects_of_all_kinds(instance: &hobt_engine::Instance, database: &hobt_engine::DatabaseUse) {
    run(instance, |ctx| {
        create_partitions(database, ctx, vec![Value::Int(1), Value::Null], &["PRIMARY"; 3])?;
        let mut table = table_named("t");
        table.data_space = DataSpaceDefinition::Scheme { scheme: "ps".to_owned(), column: "id".to_owned() };
        table.columns[2].default = Some(hobt_engine::DefaultDefinition { name: None, definition: "((0))".to_owned() });
        let index = |constraint, column: &str, is_descending| IndexDefinition {
            name: None,
            is_clustered: None,
            columns: vec![(column.to_owned(), is_descending), ("id".to_owned(), false)],
            included: Vec::new(),
            data_space: DataSpaceDefinition::Default,
            constraint: Some(constraint),
            options: IndexOptions::default(),
            drops_existing: false,
        };
        table.columns[2].nullable = false;
        table.indexes = vec![index(KeyKind::Primary, "amount", false), index(KeyKind::Unique, "text", true)];
        database.create_table(ctx, &table)?;
        let view = ModuleDefinition {
            schema: "dbo".to_owned(),
            name: "v".to_owned(),
            kind: hobt_catalog::ModuleKind::View,
            definition: "CREATE VIEW v AS SELECT 1 AS one".to_owned(),
            replace: hobt_engine::Replace::No,
        };
        database.create_module(ctx, &view).map(|_| ())
    })
    .expect("made");
}

#[test]
fn a_row_of_nonsense_or_a_missing_one_is_refused_and_never_a_panic() {
    let mut refused = 0;
    for (table, number) in SystemTable::of_database(false).into_iter().zip(0..) {
        for seed in 0..8 {
            let mut random = SplitMix64::new(number * 1000 + seed);
            let disk = simulated();
            let instance = open(&disk);
            let database = create(&instance, "shop");
            objects_of_all_kinds(&instance, &database);
            let heap = database.hobt(table.hobt()).expect("a system heap");
            let mut places: Vec<(PageId, usize)> = Vec::new();
            heap.for_each_row(&mut |page, slot, _| {
                places.push((page, slot));
                Ok(())
            })
            .expect("readable");
            run(&instance, |ctx| {
                if seed % 2 == 0 || places.is_empty() {
                    let columns = table.columns();
                    let values: Vec<Value> =
                        columns.iter().map(|column| value(&mut random, column.sql_type, column.nullable)).collect();
                    let image = row_image(columns.iter().map(|column| column.sql_type), &values).expect("typed");
                    heap.insert(ctx, &image).map(|_| ()).map_err(|error| database.storage_error(error))
                } else {
                    let count = u64::try_from(places.len()).expect("few");
                    let (page, slot) = places[usize::try_from(random.below(count)).expect("few")];
                    let slot = SlotId(u16::try_from(slot).expect("few"));
                    heap.delete(ctx, page, slot).map_err(|error| database.storage_error(error))
                }
            })
            .expect("written");
            drop((heap, database));
            instance.close().expect("closed");
            if let Err(error) = open(&disk).database("shop") {
                assert_eq!(error.to_sql_error().number, number::DATABASE_SUSPECT, "{}: {error}", table.name());
                refused += 1;
            }
        }
    }
    assert!(refused > 60, "{refused} of 96 were refused");
}
