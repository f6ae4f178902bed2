//! DDL: what is refused, with which number, and when changes are visible to which statement.

use std::sync::Arc;

use hobt_base::{SessionId, number};
use hobt_catalog::ModuleKind;
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, DatabaseUse, Instance, ModuleDefinition, PartitionFunctionDefinition,
    PartitionSchemeDefinition, Replace, TableDefinition,
};
use hobt_types::{MaxLength, SqlType, Value};

use crate::fixture::{
    begin, begin_as, check_extents, create, insert, number_of, open, row, rows, run, simulated, table_named, unlocked,
};

fn shop() -> (Arc<Instance>, DatabaseUse) {
    let instance = open(&simulated());
    let database = create(&instance, "shop");
    (instance, database)
}

fn function(name: &str, parameter: SqlType, boundaries: Vec<Value>) -> PartitionFunctionDefinition {
    PartitionFunctionDefinition { name: name.to_owned(), parameter, collation: None, range_right: true, boundaries }
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let (instance, database) = shop();
    run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    let refused =
        |definition: TableDefinition| number_of(run(&instance, |ctx| database.create_table(ctx, &definition)));
    assert_eq!(refused(table_named("T")), number::OBJECT_EXISTS);
    assert_eq!(refused(table_named(&"n".repeat(129))), number::IDENTIFIER_TOO_LONG);
    assert_eq!(refused(TableDefinition { schema: "no".to_owned(), ..table_named("u") }), number::SCHEMA_DOES_NOT_EXIST);
    assert_eq!(
        refused(TableDefinition { schema: "sys".to_owned(), ..table_named("u") }),
        number::SCHEMA_DOES_NOT_EXIST
    );
    let mut twice = table_named("u");
    twice.columns.push(ColumnDefinition::new("ID", SqlType::Bit, true));
    assert_eq!(refused(twice), number::DUPLICATE_COLUMN);
    let columns = |count: usize, sql_type| TableDefinition {
        columns: (0..count).map(|place| ColumnDefinition::new(format!("c{place}"), sql_type, true)).collect(),
        ..table_named("u")
    };
    assert_eq!(refused(columns(1025, SqlType::Bit)), number::TOO_MANY_COLUMNS);
    assert_eq!(refused(columns(2, SqlType::Char(5000))), number::ROW_TOO_LARGE_DEFINITION);
    let named =
        |name: &str| TableDefinition { data_space: DataSpaceDefinition::Named(name.to_owned()), ..table_named("u") };
    assert_eq!(refused(named("nowhere")), number::INVALID_DATA_SPACE);
    instance.add_filegroup(&database, "empty").expect("a filegroup");
    assert_eq!(refused(named("empty")), number::FILEGROUP_WITHOUT_FILES);
    run(&instance, |ctx| database.create_table(ctx, &named("default"))).expect("the default filegroup");
    let wide = TableDefinition { name: "wide".to_owned(), ..columns(1024, SqlType::VarChar(MaxLength::Limited(10))) };
    run(&instance, |ctx| database.create_table(ctx, &wide)).expect("1024 columns fit");
    check_extents(&database);
}

#[test]
fn drops_of_what_is_not_there_or_another_thing_are_refused() {
    let (instance, database) = shop();
    run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    let view = ModuleDefinition {
        schema: "dbo".to_owned(),
        name: "v".to_owned(),
        kind: ModuleKind::View,
        definition: "CREATE VIEW v AS SELECT 1 AS one".to_owned(),
        replace: Replace::No,
    };
    run(&instance, |ctx| database.create_module(ctx, &view)).expect("made");
    let ctx = begin(&instance);
    assert_eq!(number_of(database.drop_table(&ctx, "dbo", "none", &mut unlocked)), number::DROP_DOES_NOT_EXIST);
    assert_eq!(number_of(database.drop_table(&ctx, "none", "t", &mut unlocked)), number::DROP_DOES_NOT_EXIST);
    assert_eq!(number_of(database.drop_table(&ctx, "sys", "sysschobjs", &mut unlocked)), number::DROP_DOES_NOT_EXIST);
    assert_eq!(number_of(database.drop_table(&ctx, "dbo", "v", &mut unlocked)), number::WRONG_OBJECT_KIND);
    assert_eq!(number_of(database.drop_module(&ctx, "dbo", "t", ModuleKind::View)), number::WRONG_OBJECT_KIND);
    assert_eq!(number_of(database.drop_module(&ctx, "dbo", "v", ModuleKind::Procedure)), number::WRONG_OBJECT_KIND);
    assert_eq!(number_of(database.truncate_table(&ctx, "dbo", "none", &mut unlocked)), number::CANNOT_TRUNCATE);
    assert_eq!(number_of(database.create_module(&ctx, &view)), number::OBJECT_EXISTS);
    let must = ModuleDefinition { name: "w".to_owned(), replace: Replace::Must, ..view.clone() };
    assert_eq!(number_of(database.create_module(&ctx, &must)), number::INVALID_OBJECT);
    let over_table = ModuleDefinition { name: "t".to_owned(), replace: Replace::IfExists, ..view };
    assert_eq!(number_of(database.create_module(&ctx, &over_table)), number::OBJECT_EXISTS);
    assert_eq!(number_of(database.drop_schema(&ctx, "dbo")), number::DROP_DOES_NOT_EXIST);
    ctx.roll_back().expect("undone");
}

#[test]
fn partition_functions_are_checked_and_sorted() {
    let (instance, database) = shop();
    let make = |definition: &PartitionFunctionDefinition| {
        run(&instance, |ctx| database.create_partition_function(ctx, definition))
    };
    let ints = |values: &[i64]| values.iter().map(|value| Value::Int(*value)).collect::<Vec<_>>();
    let (sorted, warnings) = make(&function("pf", SqlType::Int, ints(&[3, 1, 2]))).expect("sorted for the user");
    assert_eq!(sorted.boundaries, ints(&[1, 2, 3]));
    assert_eq!(warnings.iter().map(|warning| warning.number).collect::<Vec<_>>(), [number::PARTITION_VALUES_SORTED]);
    assert_eq!(number_of(make(&function("PF", SqlType::Int, Vec::new()))), number::OBJECT_EXISTS);
    let duplicates = make(&function("p", SqlType::Int, ints(&[7, 1, 7]))).expect_err("two are equal").to_sql_error();
    assert_eq!(duplicates.number, number::PARTITION_VALUES_DUPLICATE);
    assert!(duplicates.message.contains("ordinal 1 and 3"), "{duplicates}");
    let text = |values: &[&str]| values.iter().map(|value| Value::Text((*value).to_owned())).collect::<Vec<_>>();
    let varchar = SqlType::VarChar(MaxLength::Limited(10));
    let folded = make(&function("p", varchar, text(&["a", "A"])));
    assert_eq!(number_of(folded), number::PARTITION_VALUES_DUPLICATE, "the collation ignores case");
    assert_eq!(number_of(make(&function("p", SqlType::TinyInt, ints(&[256])))), number::INVALID_PARTITION_FUNCTION);
    let unbounded = SqlType::VarChar(MaxLength::Max);
    assert_eq!(number_of(make(&function("p", unbounded, Vec::new()))), number::PARTITION_TYPE);
    let many: Vec<i64> = (0..15_000).collect();
    assert_eq!(number_of(make(&function("p", SqlType::Int, ints(&many)))), number::TOO_MANY_PARTITIONS);
    assert!(database.snapshot().partition_function("p").is_none());
}

#[test]
fn partition_schemes_and_their_uses_are_checked() {
    let (instance, database) = shop();
    let boundaries = vec![Value::Int(10), Value::Int(20)];
    run(&instance, |ctx| database.create_partition_function(ctx, &function("pf", SqlType::Int, boundaries)))
        .expect("made");
    let scheme = |name: &str, function: &str, filegroups: &[&str], all| {
        let definition = PartitionSchemeDefinition {
            name: name.to_owned(),
            function: function.to_owned(),
            filegroups: filegroups.iter().map(|name| (*name).to_owned()).collect(),
            all,
        };
        run(&instance, |ctx| database.create_partition_scheme(ctx, &definition))
    };
    let primary = "PRIMARY";
    assert_eq!(number_of(scheme("ps", "none", &[primary], true)), number::INVALID_OBJECT);
    assert_eq!(number_of(scheme("ps", "pf", &["none"], true)), number::INVALID_OBJECT);
    assert_eq!(number_of(scheme("ps", "pf", &[primary; 2], false)), number::PARTITION_SCHEME_FILEGROUPS);
    let (made, messages) = scheme("ps", "pf", &[primary; 4], false).expect("one more than needed");
    assert_eq!((made.filegroups.len(), made.next_used.is_some(), messages.len()), (3, true, 1));
    assert_eq!(number_of(scheme("PS", "pf", &[primary], true)), number::OBJECT_EXISTS);
    let on = |scheme: &str, column: &str| TableDefinition {
        data_space: DataSpaceDefinition::Scheme { scheme: scheme.to_owned(), column: column.to_owned() },
        ..table_named("t")
    };
    let table = |definition: TableDefinition| run(&instance, |ctx| database.create_table(ctx, &definition));
    assert_eq!(number_of(table(on("none", "id"))), number::INVALID_DATA_SPACE);
    assert_eq!(number_of(table(on("ps", "none"))), number::NO_SUCH_KEY_COLUMN);
    assert_eq!(number_of(table(on("ps", "amount"))), number::PARTITION_COLUMN_TYPE);
    table(on("ps", "id")).expect("made");
    let refused = run(&instance, |ctx| database.drop_partition_scheme(ctx, "ps"));
    assert_eq!(number_of(refused), number::PARTITION_SCHEME_IN_USE);
    let refused = run(&instance, |ctx| database.drop_partition_function(ctx, "pf"));
    assert_eq!(number_of(refused), number::PARTITION_FUNCTION_IN_USE);
    run(&instance, |ctx| {
        database.drop_table(ctx, "dbo", "t", &mut unlocked)?;
        database.drop_partition_scheme(ctx, "ps")?;
        database.drop_partition_function(ctx, "pf")
    })
    .expect("in this order");
    check_extents(&database);
}

#[test]
fn a_change_is_its_statements_own_until_it_commits() {
    let (instance, database) = shop();
    let ctx = begin(&instance);
    let made = database.create_table(&ctx, &table_named("t")).expect("made");
    insert(&database, &ctx, &made, 0, (0..2000).map(row)).expect("the maker uses it at once");
    assert!(database.snapshot().table(1, "t").is_none());
    assert!(database.snapshot_of(&ctx).table(1, "t").is_some());
    database.drop_table(&ctx, "dbo", "t", &mut unlocked).expect("dropped again");
    database.create_table(&ctx, &table_named("t")).expect("and made again");
    let version = database.snapshot().version;
    ctx.commit().expect("committed");
    assert!(database.snapshot().version > version);
    check_extents(&database);
    assert!(rows(&database, &crate::fixture::table(&database, "t")).expect("rows").is_empty());
}

#[test]
fn a_table_that_grew_and_is_undone_gives_all_its_extents_back() {
    let (instance, database) = shop();
    let ctx = begin(&instance);
    let made = database.create_table(&ctx, &table_named("t")).expect("made");
    insert(&database, &ctx, &made, 0, (0..20_000).map(row)).expect("room");
    assert!(database.hobt(made.base_index().partitions[0].hobt).expect("a heap").runs().len() > 2);
    ctx.roll_back().expect("undone");
    check_extents(&database);
}

#[test]
fn a_name_that_another_statement_holds_is_waited_for() {
    let (instance, database) = shop();
    for commits in [false, true] {
        let first = begin(&instance);
        database.create_table(&first, &table_named("t")).expect("made");
        let second = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| run(&instance, |ctx| database.create_table(ctx, &table_named("T"))));
            let other = run(&instance, |ctx| database.create_table(ctx, &table_named("other")));
            other.expect("another name is free");
            run(&instance, |ctx| database.drop_table(ctx, "dbo", "other", &mut unlocked)).expect("dropped");
            if commits { first.commit() } else { first.roll_back() }.expect("ended");
            waiting.join().expect("no panic")
        });
        if commits {
            assert_eq!(number_of(second), number::OBJECT_EXISTS);
        } else {
            second.expect("the name is free again");
            run(&instance, |ctx| database.drop_table(ctx, "dbo", "t", &mut unlocked)).expect("dropped");
        }
        check_extents(&database);
    }
}

#[test]
fn concurrent_statements_undo_their_own_rows_alone() {
    let (instance, database) = shop();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (instance, database) = (&instance, &database);
            scope.spawn(move || {
                for round in 0..20 {
                    let ctx = begin_as(instance, SessionId(51 + thread), Arc::default());
                    database.create_table(&ctx, &table_named(&format!("t{thread}_{round}"))).expect("made");
                    if round % 2 == 0 { ctx.commit() } else { ctx.roll_back() }.expect("ended");
                }
            });
        }
    });
    let tables = database.snapshot().tables.values().filter(|table| !table.is_system).count();
    assert_eq!(tables, 40);
    check_extents(&database);
}

#[test]
fn a_cancelled_statement_does_not_wait_for_a_name() {
    let (instance, database) = shop();
    let first = begin(&instance);
    database.create_table(&first, &table_named("t")).expect("made");
    let cancelled = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let second = begin_as(&instance, SessionId(52), cancelled);
    assert_eq!(number_of(database.create_table(&second, &table_named("t"))), number::CANCELED);
    second.roll_back().expect("undone");
    first.roll_back().expect("undone");
}
