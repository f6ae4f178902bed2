//! Files that were changed by hand, and processes that use the same folder.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use hobt_base::{PAGE_SIZE, number};
use hobt_engine::DatabaseState;

use crate::fixture::{Folder, create, insert, number_of, row, rows, run, table, table_named};

/// Flips a bit in the middle of a page.
fn flip(path: &Path, page: u32) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let at = u64::from(page) * PAGE_SIZE as u64 + 4000;
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).expect("inside");
    file.read_exact(&mut byte).expect("inside");
    file.seek(SeekFrom::Start(at)).expect("inside");
    file.write_all(&[byte[0] ^ 0x10]).expect("inside");
}

/// An instance with database `shop`, table `t`, 100 rows, closed. Returns the table's first page with rows.
fn prepared(name: &str) -> (Folder, u32) {
    let folder = Folder::new(name);
    let instance = folder.open();
    let database = create(&instance, "shop");
    let made = run(&instance, |ctx| database.create_table(ctx, &table_named("t"))).expect("made");
    run(&instance, |ctx| insert(&database, ctx, &made, 0, (0..100).map(row))).expect("inserted");
    let page = made.base_index().partitions[0].run_list.number + 1;
    drop(database);
    instance.close().expect("closed");
    (folder, page)
}

#[test]
fn a_second_process_is_refused() {
    let (folder, _) = prepared("second");
    let instance = folder.open();
    let error = folder.try_open().expect_err("the folder is in use").to_string();
    assert!(error.contains("another process"), "{error}");
    instance.close().expect("closed");
    folder.open();
}

#[test]
fn a_flipped_bit_in_a_row_page_is_error_824_with_file_and_page() {
    let (folder, page) = prepared("flip");
    flip(&folder.0.join("shop.mdf"), page);
    let instance = folder.open();
    let database = instance.database("shop").expect("the catalog is whole");
    let error = rows(&database, &table(&database, "t")).expect_err("damaged").to_sql_error();
    assert_eq!((error.number, error.severity), (number::PAGE_DAMAGED, 24));
    for part in [&format!("(1:{page})"), "'shop'", "checksum", &format!("{:#018x}", u64::from(page) * 8192)] {
        assert!(error.message.contains(part), "{error} names {part}");
    }
}

#[test]
fn a_flipped_bit_in_the_catalog_or_the_boot_page_is_no_panic() {
    let (folder, page) = prepared("flip-catalog");
    let path = folder.0.join("shop.mdf");
    let whole = std::fs::read(&path).expect("the file");
    let pages = u32::try_from(whole.len() / PAGE_SIZE).expect("a small file").min(page);
    let mut refused = 0;
    for damaged in 2..pages {
        std::fs::write(&path, &whole).expect("restored");
        flip(&path, damaged);
        let instance = folder.open();
        if let Err(error) = instance.database("shop") {
            let error = error.to_sql_error();
            assert!([number::PAGE_DAMAGED, number::DATABASE_SUSPECT].contains(&error.number), "{error}");
            assert_eq!(number_of(instance.database("shop")), number::DATABASE_SUSPECT, "it stays refused");
            refused += 1;
        }
    }
    assert!(refused > 12, "{refused} pages count");
}

#[test]
fn either_copy_of_the_header_serves_and_makes_the_other_anew() {
    let (folder, _) = prepared("header");
    let path = folder.0.join("shop.mdf");
    for damaged in [0, 1, 0] {
        flip(&path, damaged);
        let instance = folder.open();
        let database = instance.database("shop").expect("one copy is enough");
        let t = table(&database, "t");
        assert_eq!(rows(&database, &t).expect("rows").len(), 100);
        run(&instance, |ctx| insert(&database, ctx, &t, 0, std::iter::empty())).expect("a change, if an empty one");
        drop(database);
        instance.close().expect("closed");
    }
    flip(&path, 0);
    flip(&path, 1);
    let instance = folder.open();
    let error = instance.database("shop").expect_err("both copies are damaged").to_sql_error();
    assert_eq!(error.number, number::DATABASE_SUSPECT);
    assert!(error.message.contains("not a valid database file header"), "{error}");
}

#[test]
fn a_file_cut_short_a_missing_one_and_a_foreign_one_are_refused() {
    let (folder, _) = prepared("cut");
    let instance = folder.open();
    drop(create(&instance, "other"));
    instance.close().expect("closed");
    let path = folder.0.join("shop.mdf");
    let whole = std::fs::read(&path).expect("the file");
    let check = |state: DatabaseState, number: i32, text: &str| {
        let instance = folder.open();
        let found = instance.databases().into_iter().find(|database| database.name == "shop").expect("listed");
        assert_eq!(found.state, state);
        let error = instance.database("shop").expect_err("refused").to_sql_error();
        assert_eq!(error.number, number);
        assert!(error.message.contains(text), "{error}");
        instance.database("other").expect("the others work");
    };
    for length in [0, 5000, whole.len() - PAGE_SIZE] {
        std::fs::write(&path, &whole[..length]).expect("cut");
        check(DatabaseState::Suspect, number::DATABASE_SUSPECT, "truncated");
    }
    std::fs::remove_file(&path).expect("removed");
    check(DatabaseState::RecoveryPending, number::DATABASE_INACCESSIBLE, "does not exist");
    std::fs::copy(folder.0.join("other.mdf"), &path).expect("copied");
    check(DatabaseState::Suspect, number::DATABASE_SUSPECT, "another database");
    std::fs::write(&path, &whole).expect("restored");
    folder.open().database("shop").expect("it is whole again");
}

#[test]
fn a_folder_can_be_moved() {
    let (folder, _) = prepared("moved");
    let moved = Folder::new("moved-to");
    std::fs::rename(&folder.0, &moved.0).expect("moved");
    let instance = moved.open();
    let database = instance.database("shop").expect("found by its relative path");
    assert_eq!(rows(&database, &table(&database, "t")).expect("rows").len(), 100);
}
