//! The scripts in `HOBT_SEEDS`, as far as they need neither a B+tree nor compression.

use std::path::{Path, PathBuf};

use hobt::{Event, Flow, Instance, SqlError};

/// The scripts in which every statement runs, except those below.
const SCRIPTS: [&str; 4] =
    ["01_bigdata_select_into.sql", "02_bigdata_scan.sql", "03_hash_partitioned_heap.sql", "05_core_scaling.sql"];

/// Whether an error comes from a missing B+tree: only the creation of an index may fail.
fn needs_more_than_a_heap(error: &SqlError) -> bool {
    error.number == 40517 && (error.message.contains("CREATE INDEX") || error.message.contains("ALTER TABLE"))
}

#[test]
fn the_seeds_run_without_change() {
    let Some(folder) = std::env::var_os("HOBT_SEEDS").map(PathBuf::from) else {
        println!("SKIPPED: HOBT_SEEDS does not point at the scripts");
        return;
    };
    let data = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(data.path().join("slow")).expect("the folder of the slow file");
    let instance = Instance::open(data.path()).expect("an instance");
    let mut session = instance.session().expect("a session");
    session.run("CREATE DATABASE AdventureWorksDW2014").expect("a database");
    session.run("USE AdventureWorksDW2014").expect("its use");
    session
        .run(
            "CREATE TABLE DimCustomer (CustomerKey int NOT NULL, AddressLine1 nvarchar(120) NULL, AddressLine2 nvarchar(120) NULL, \
             FirstName nvarchar(50) NULL, MiddleName nvarchar(50) NULL, LastName nvarchar(50) NULL, \
             CustomerAlternateKey nvarchar(15) NOT NULL)",
        )
        .expect("a table");
    session
        .run("INSERT INTO DimCustomer SELECT TOP 10 colid, N'1 Road', NULL, N'A', NULL, N'B', N'AW000' FROM master.dbo.syscolumns")
        .expect("customers");
    for script in SCRIPTS {
        // The generator's own size would take gigabytes. The text says which number to change.
        let text = read(&folder, script).replace("TOP 50000", "TOP 500");
        for batch in hobt::split_batches(&text) {
            let mut errors = Vec::new();
            session.execute(&batch.text, &mut |event: Event| {
                if let Event::Error(error) = event {
                    errors.push(error);
                }
                Flow::Continue
            });
            errors.retain(|error| !needs_more_than_a_heap(error));
            assert_eq!(errors, [], "{script}, line {}", batch.first_line);
        }
    }
    drop(session);
    instance.close().expect("a clean end");
}

fn read(folder: &Path, name: &str) -> String {
    let inside = folder.join("sql").join(name);
    let path = if inside.exists() { inside } else { folder.join(name) };
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
