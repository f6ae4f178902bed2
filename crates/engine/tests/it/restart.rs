//! Random definitions and rows, compared with a model, with rolled back statements and restarts in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_base::SplitMix64;
use hobt_catalog::{IdentityColumn, ModuleKind};
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, Database, DefaultDefinition, ModuleDefinition, PartitionFunctionDefinition,
    PartitionSchemeDefinition, Replace, TableDefinition,
};
use hobt_txn::StatementContext;
use hobt_types::{Collation, SqlType, Value};

use crate::fixture::{begin, check_extents, create, insert, open, row, rows, run, simulated, table_named, unlocked};

#[derive(Clone, PartialEq, Debug, Default)]
struct Model {
    /// Rows and the number of partitions.
    tables: BTreeMap<String, (Vec<Vec<Value>>, usize)>,
    modules: BTreeMap<String, String>,
    functions: BTreeMap<String, Vec<Value>>,
    schemes: BTreeMap<String, String>,
    schemas: BTreeMap<String, ()>,
}

/// The contents of the database, in the model's form.
fn observed(database: &Database) -> Model {
    let snapshot = database.snapshot();
    let mut model = Model::default();
    for table in snapshot.tables.values().filter(|table| !table.is_system) {
        let mut found = rows(database, table).expect("rows");
        found.sort_by_key(|row| format!("{row:?}"));
        model.tables.insert(table.name.clone(), (found, table.base_index().partitions.len()));
    }
    for module in snapshot.modules.values() {
        model.modules.insert(module.name.clone(), module.definition.clone());
    }
    for function in &snapshot.partition_functions {
        model.functions.insert(function.name.clone(), function.boundaries.clone());
    }
    for scheme in &snapshot.partition_schemes {
        let function = snapshot.partition_function_by_id(scheme.function).expect("its function");
        model.schemes.insert(scheme.name.clone(), function.name.clone());
    }
    model
        .schemas
        .extend(snapshot.schemas.iter().filter(|schema| schema.id > 4).map(|schema| (schema.name.clone(), ())));
    model
}

fn pick<T>(random: &mut SplitMix64, map: &BTreeMap<String, T>) -> Option<String> {
    let count = u64::try_from(map.len()).expect("few");
    (count > 0).then(|| map.keys().nth(usize::try_from(random.below(count)).expect("few")).cloned()).flatten()
}

/// One random change, in the database and in the model.
fn change(random: &mut SplitMix64, database: &Arc<Database>, ctx: &StatementContext, model: &mut Model) {
    let fresh = format!("n{:x}", random.next_u64() >> 40);
    match random.below(10) {
        0 | 1 => {
            let scheme = pick(random, &model.schemes);
            let data_space = match &scheme {
                Some(scheme) => DataSpaceDefinition::Scheme { scheme: scheme.clone(), column: "ID".to_owned() },
                None => DataSpaceDefinition::Default,
            };
            let definition = TableDefinition { data_space, ..table_named(&fresh) };
            let table = database.create_table(ctx, &definition).expect("a new table");
            let partitions = table.base_index().partitions.len();
            let functions = scheme.map_or(1, |scheme| model.functions[&model.schemes[&scheme]].len() + 1);
            assert_eq!(partitions, functions);
            model.tables.insert(fresh, (Vec::new(), partitions));
        }
        2..=4 => {
            let Some(name) = pick(random, &model.tables) else { return };
            let (expected, partitions) = model.tables.get_mut(&name).expect("picked");
            let table = Arc::clone(database.snapshot_of(ctx).table(1, &name).expect("the table"));
            let partition = usize::try_from(random.below(*partitions as u64)).expect("few");
            let start = i64::try_from(random.below(1 << 30)).expect("small");
            let new: Vec<_> = (start..start + i64::try_from(random.below(900)).expect("small")).map(row).collect();
            insert(database, ctx, &table, partition, new.iter().cloned()).expect("room");
            expected.extend(new);
            expected.sort_by_key(|row| format!("{row:?}"));
        }
        5 => {
            let Some(name) = pick(random, &model.tables) else { return };
            if random.below(2) == 0 {
                database.drop_table(ctx, "DBO", &name, &mut unlocked).expect("the table is there");
                model.tables.remove(&name);
            } else {
                database.truncate_table(ctx, "dbo", &name.to_uppercase(), &mut unlocked).expect("the table is there");
                model.tables.get_mut(&name).expect("picked").0.clear();
            }
        }
        6 => {
            // Long texts are stored in several rows; é and the euro sign fall on their boundaries.
            let name = pick(random, &model.modules).filter(|_| random.below(2) == 0).unwrap_or(fresh);
            let length = usize::try_from(random.below(9000)).expect("small");
            let definition = ModuleDefinition {
                schema: "dbo".to_owned(),
                name: name.clone(),
                kind: ModuleKind::View,
                definition: "é€".repeat(length),
                replace: Replace::IfExists,
            };
            database.create_module(ctx, &definition).expect("a module");
            model.modules.insert(name, definition.definition);
        }
        7 => {
            let Some(name) = pick(random, &model.modules) else { return };
            database.drop_module(ctx, "dbo", &name, ModuleKind::View).expect("the module is there");
            model.modules.remove(&name);
        }
        8 => {
            let mut boundaries: Vec<i64> =
                (0..random.below(6)).map(|_| i64::from((random.next_u64() >> 33) as u32)).collect();
            boundaries.sort_unstable();
            boundaries.dedup();
            let definition = PartitionFunctionDefinition {
                name: fresh.clone(),
                parameter: SqlType::Int,
                collation: None,
                range_right: random.below(2) == 0,
                boundaries: boundaries.into_iter().map(Value::Int).collect(),
            };
            database.create_partition_function(ctx, &definition).expect("a function");
            let scheme = PartitionSchemeDefinition {
                name: format!("{fresh}s"),
                function: fresh.clone(),
                filegroups: vec!["primary".to_owned()],
                all: true,
            };
            database.create_partition_scheme(ctx, &scheme).expect("a scheme");
            model.schemes.insert(scheme.name, fresh.clone());
            model.functions.insert(fresh, definition.boundaries);
        }
        _ => {
            database.create_schema(ctx, &fresh).expect("a schema");
            model.schemas.insert(fresh, ());
        }
    }
}

#[test]
fn a_restart_keeps_what_was_committed_and_nothing_else() {
    for seed in 0..6 {
        let mut random = SplitMix64::new(seed);
        let disk = simulated();
        let mut instance = open(&disk);
        drop(create(&instance, "shop"));
        let mut model = Model::default();
        for _ in 0..40 {
            let database = instance.database("SHOP").expect("the database");
            let ctx = begin(&instance);
            let mut after = model.clone();
            for _ in 0..=random.below(3) {
                change(&mut random, &database, &ctx, &mut after);
            }
            assert_eq!(observed(&database).modules, model.modules, "others do not see it");
            if random.below(3) == 0 {
                ctx.roll_back().expect("undone");
            } else {
                ctx.commit().expect("committed");
                model = after;
            }
            check_extents(&database);
            if random.below(8) == 0 {
                drop((database, ctx));
                instance.close().expect("closed");
                instance = open(&disk);
                let database = instance.database("shop").expect("the database");
                assert_eq!(observed(&database), model, "seed {seed}");
                check_extents(&database);
            }
        }
        let database = instance.database("shop").expect("the database");
        assert_eq!(observed(&database), model, "seed {seed}");
    }
}

#[test]
fn every_property_of_a_table_comes_back() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "shop");
    let mut definition = table_named("t");
    definition.columns[0].identity = Some(IdentityColumn { seed: -5, increment: 3 });
    definition.columns[1].collation = Some(Collation::Latin1GeneralBin2);
    definition.columns[1].default =
        Some(DefaultDefinition { name: None, definition: format!("('{}')", "x".repeat(20_000)) });
    definition.columns[2].default =
        Some(DefaultDefinition { name: Some("df_amount".to_owned()), definition: "((0))".to_owned() });
    definition
        .columns
        .push(ColumnDefinition { is_rowguid: true, ..ColumnDefinition::new("guid", SqlType::UniqueIdentifier, false) });
    let made = crate::fixture::run(&instance, |ctx| database.create_table(ctx, &definition)).expect("made");
    let other = crate::fixture::run(&instance, |ctx| database.create_table(ctx, &table_named("u"))).expect("made");
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("shop").expect("the database");
    let found = crate::fixture::table(&database, "t");
    assert_eq!(found.columns, made.columns);
    assert_eq!(found.indexes, made.indexes);
    assert_eq!((found.id, found.created, found.layout_version), (made.id, made.created, made.layout_version));
    let third = crate::fixture::run(&instance, |ctx| database.create_table(ctx, &table_named("v"))).expect("made");
    assert!(third.id != other.id && third.id != made.id, "ids are not used again after a restart");
    assert!(instance.next_stamp() > hobt_base::Stamp(3), "the clock starts above the database's stamps");
}

/// A writer's stamp in a page is never reused in a later life, however the life before has ended.
#[test]
fn no_stamp_is_given_out_again_after_a_crash() {
    let disk = simulated();
    let mut last = open(&disk).next_stamp();
    for seed in 0..6 {
        let instance = open(&disk);
        assert!(instance.next_stamp() > last, "the life after crash {seed}");
        let name = format!("d{seed}");
        let database = create(&instance, &name);
        for id in 0..20 {
            run(&instance, |ctx| database.create_table(ctx, &table_named(&format!("t{id}")))).expect("made");
        }
        last = instance.next_stamp();
        drop(database);
        disk.crash(seed);
        drop(instance);
    }
}
