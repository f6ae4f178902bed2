//! Database files that do not belong together.

use std::fs;

use hobt::Instance;

#[test]
fn a_file_of_another_time_makes_the_database_suspect() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |batches: &[&str]| {
        let instance = Instance::open(folder.path()).expect("an instance");
        let mut session = instance.session().expect("a session");
        let done = batches.iter().try_for_each(|batch| session.run(batch));
        drop(session);
        instance.close().expect("closed");
        done
    };
    run(&[
        "CREATE DATABASE d ON (NAME = d1, FILENAME = 'd1.mdf'), FILEGROUP more (NAME = d2, FILENAME = 'd2.ndf')",
        "USE d; CREATE TABLE a (i int) ON more; INSERT a VALUES (1)",
    ])
    .expect("a database");
    let file = |name: &str| folder.path().join(name);
    for name in ["d1.mdf", "d2.ndf", "d1_log.ldf"] {
        assert!(file(name).exists(), "{name}");
        fs::copy(file(name), file(&format!("{name}.old"))).expect("a copy");
    }
    run(&["USE d; INSERT a VALUES (2)"]).expect("a row");
    for name in ["d1.mdf", "d2.ndf", "d1_log.ldf"] {
        let new = file(&format!("{name}.new"));
        fs::copy(file(name), &new).expect("a copy");
        fs::copy(file(&format!("{name}.old")), file(name)).expect("the old file");
        assert_eq!(run(&["USE d"]).expect_err("suspect").number, 926, "{name}");
        fs::copy(new, file(name)).expect("the new file");
    }
    run(&["USE d; IF (SELECT COUNT(*) FROM a) <> 2 THROW 50001, 'rows are missing', 1"]).expect("files of one time");
    // All files of the same earlier time belong together.
    for name in ["d1.mdf", "d2.ndf", "d1_log.ldf"] {
        fs::copy(file(&format!("{name}.old")), file(name)).expect("the old file");
    }
    run(&["USE d; IF (SELECT COUNT(*) FROM a) <> 1 THROW 50001, 'not the earlier rows', 1"])
        .expect("files of one time");
}

#[test]
fn an_instance_without_its_list_of_databases_is_not_made_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = || Instance::open(folder.path());
    let close = |instance: Instance| instance.close().expect("closed");
    close(open().expect("an instance"));
    let (master, aside) = (folder.path().join("master.mdf"), folder.path().join("aside"));
    fs::rename(&master, &aside).expect("moved");
    let refused = open().expect_err("refused").to_string();
    assert!(refused.contains("master.mdf") && refused.contains("missing"), "{refused}");
    fs::rename(&aside, &master).expect("moved back");
    close(open().expect("the instance"));
}
