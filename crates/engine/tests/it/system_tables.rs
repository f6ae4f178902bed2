//! The room of system tables: what deleted definitions leave is used again, and nothing is lost on the way.

use std::collections::BTreeSet;

use hobt_catalog::{ModuleKind, SystemTable};
use hobt_engine::{DatabaseUse, Instance, ModuleDefinition, Replace};
use hobt_txn::StatementContext;

use crate::fixture::{begin, check_extents, create, open, run, simulated};

/// Enough text for several pages.
fn procedure(name: &str) -> ModuleDefinition {
    ModuleDefinition {
        schema: "dbo".to_owned(),
        name: name.to_owned(),
        kind: ModuleKind::Procedure,
        definition: format!("CREATE PROCEDURE dbo.{name} AS PRINT '{}'", name.repeat(20_000)),
        replace: Replace::No,
    }
}

fn drop_procedure(database: &DatabaseUse, ctx: &StatementContext, name: &str) -> Result<(), hobt_engine::EngineError> {
    database.drop_module(ctx, "dbo", name, ModuleKind::Procedure).map(drop)
}

fn names(database: &DatabaseUse) -> BTreeSet<String> {
    database.snapshot().modules.values().map(|module| module.name.clone()).collect()
}

/// The pages of all system tables; `None` if the database cannot be used any more.
fn pages_if_usable(database: &DatabaseUse) -> Option<u64> {
    let tables = SystemTable::of_database(false);
    tables.iter().map(|table| Some(database.hobt(table.hobt()).ok()?.used_pages())).sum()
}

fn pages(database: &DatabaseUse) -> u64 {
    pages_if_usable(database).expect("heaps")
}

fn assert_whole(database: &DatabaseUse) {
    let problems = database.check().expect("readable");
    assert!(problems.is_empty(), "{problems:?}");
    check_extents(database);
}

fn make_and_drop(instance: &Instance, database: &DatabaseUse, times: usize) {
    for _ in 0..times {
        run(instance, |ctx| database.create_module(ctx, &procedure("short"))).expect("made");
        run(instance, |ctx| drop_procedure(database, ctx, "short")).expect("dropped");
    }
}

#[test]
fn what_is_dropped_leaves_its_room_to_what_is_made() {
    let disk = simulated();
    let instance = open(&disk);
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_module(ctx, &procedure("kept"))).expect("made");
    make_and_drop(&instance, &database, 10);
    let before = pages(&database);
    make_and_drop(&instance, &database, 100);
    assert!(pages(&database) < before + 40, "{before} pages, then {}", pages(&database));
    assert_whole(&database);
    let kept = BTreeSet::from(["kept".to_owned()]);
    assert_eq!(names(&database), kept);
    drop(database);
    instance.close().expect("closed");
    let instance = open(&disk);
    let database = instance.database("d").expect("it opens");
    assert_eq!(names(&database), kept);
    assert_whole(&database);
}

/// An undo of catalog rows looks for them where they were put.
#[test]
fn rows_of_an_open_transaction_stay_where_they_are() {
    let instance = open(&simulated());
    let database = create(&instance, "d");
    run(&instance, |ctx| database.create_module(ctx, &procedure("kept"))).expect("made");
    let ctx = begin(&instance);
    database.create_module(&ctx, &procedure("undone")).expect("made");
    drop_procedure(&database, &ctx, "kept").expect("dropped");
    make_and_drop(&instance, &database, 30);
    let grown = pages(&database);
    instance.end_statement(&ctx, false, &[]).expect("undone");
    assert_eq!(names(&database), BTreeSet::from(["kept".to_owned()]));
    make_and_drop(&instance, &database, 2);
    assert!(pages(&database) < grown / 2, "{grown} pages, then {}", pages(&database));
    assert_whole(&database);
}

/// The power fails at any write, those of writing a system table anew among them. What was committed is there, and
/// what was being done is there or not.
#[test]
fn a_power_failure_at_any_write_loses_no_definition() {
    let disk = simulated();
    let mut known = BTreeSet::new();
    drop(create(&open(&disk), "d"));
    let (mut cuts, mut shorter) = (0, 0);
    for cut in 1..60 {
        let instance = open(&disk);
        let database = instance.database("d").expect("it opens");
        disk.crash_at(disk.changes() + 7 * cut % 120, cut);
        let (mut in_doubt, mut before) = (None, pages_if_usable(&database).unwrap_or(0));
        for number in 0..40 {
            let name = format!("p{}", number % 6);
            let was_there = known.contains(&name);
            let ctx = begin(&instance);
            let changed = match was_there {
                true => drop_procedure(&database, &ctx, &name),
                false => database.create_module(&ctx, &procedure(&name)).map(drop),
            };
            let ended = instance.end_statement(&ctx, changed.is_ok(), &[]);
            if changed.is_err() || ended.is_err() {
                in_doubt = changed.is_ok().then_some(name);
                break;
            }
            if was_there {
                known.remove(&name)
            } else {
                known.insert(name)
            };
            let now = pages_if_usable(&database).unwrap_or(before);
            shorter += u32::from(now < before);
            before = now;
        }
        cuts += u32::from(disk.is_off());
        disk.crash(cut);
        drop((database, instance));
        disk.power_on();
        let instance = open(&disk);
        let database = instance.database("d").expect("it opens");
        let found = names(&database);
        if found != known {
            let name = in_doubt.unwrap_or_else(|| panic!("cut {cut}: {found:?} instead of {known:?}"));
            if !known.remove(&name) {
                known.insert(name);
            }
            assert_eq!(found, known, "cut {cut}");
        }
        assert_whole(&database);
    }
    assert!(cuts > 40 && shorter > 20, "{cuts} cuts, {shorter} tables written anew");
}
