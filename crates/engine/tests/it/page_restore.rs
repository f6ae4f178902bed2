//! Restores of single pages: what comes back, what is refused, and what a crash in the middle leaves.

use std::path::{Path, PathBuf};

use hobt_base::{FileId, PAGE_SIZE, PageId, SplitMix64, number};
use hobt_disk::{AlignedBuffer, Disk, OpenOptions, SimulatedDisk};
use hobt_engine::{
    BackupRequest, BackupWhat, EngineError, Instance, RecoveryModel, RestoreDone, RestoreEnd, RestoreRequest,
    StopPoint, TailRequest,
};
use hobt_page::{INTERVAL_PAGES, PageHeader, PageType, RESERVED_PAGES};

use crate::backup::{Restoring, add, assert_sound, back_up, ids, request, shop};
use crate::fixture::{FOLDER, number_of, open, run, simulated, unlocked};
use crate::recovery_models::load;

/// The pages of `shop.mdf` that hold anything but descriptions of the file, as they are on disk.
fn used_pages(disk: &SimulatedDisk) -> Vec<(PageId, PageType)> {
    let path = Path::new(FOLDER).join("shop.mdf");
    let file = disk.open(&path, OpenOptions { read_only: true, ..OpenOptions::default() }).expect("it");
    let mut bytes = AlignedBuffer::new(file.size().expect("a size") as usize).expect("memory");
    file.read_at(&mut bytes, 0).expect("readable");
    let pages = bytes.as_chunks::<PAGE_SIZE>().0.iter().zip(0..);
    let used = pages.filter_map(|(page, number)| {
        let header = PageHeader::read(page).ok()?;
        let is_used = number % INTERVAL_PAGES >= RESERVED_PAGES && page.iter().any(|byte| *byte != 0);
        is_used.then_some((PageId::new(FileId(1), number), header.page_type))
    });
    used.collect()
}

/// Changes bytes of pages of `shop.mdf`, so that their checksums are wrong.
fn spoil(disk: &SimulatedDisk, pages: &[PageId], random: &mut SplitMix64) {
    let file = disk.open(&Path::new(FOLDER).join("shop.mdf"), OpenOptions::default()).expect("it");
    for id in pages {
        let mut page = AlignedBuffer::new(PAGE_SIZE).expect("memory");
        file.read_at(&mut page, id.byte_offset()).expect("readable");
        let at = random.below(PAGE_SIZE as u64 - 64) as usize;
        page[at..at + 64].iter_mut().for_each(|byte| *byte ^= 0x5A);
        file.write_at(&page, id.byte_offset()).expect("written");
    }
    file.sync().expect("durable");
}

/// `RESTORE DATABASE shop PAGE = … FROM path`.
fn page_restore(
    instance: &Instance,
    name: &str,
    path: &str,
    pages: &[PageId],
    end: RestoreEnd,
) -> Result<RestoreDone, EngineError> {
    let paths = [PathBuf::from(path)];
    instance.restore_pages(&of_pages(name, &paths, end), pages)
}

fn of_pages<'a>(name: &'a str, paths: &'a [PathBuf], end: RestoreEnd) -> RestoreRequest<'a> {
    RestoreRequest {
        name,
        is_log: false,
        paths,
        set: None,
        moves: &[],
        replaces: false,
        end,
        stop: None,
        checks: false,
        continues_after_error: false,
        user: "tester".to_owned(),
        observe: &|_, _| Ok(()),
    }
}

fn some_of(pages: &[(PageId, PageType)], count: u64, random: &mut SplitMix64) -> Vec<PageId> {
    (0..count).map(|_| pages[random.below(pages.len() as u64) as usize].0).collect()
}

/// Pages of every kind, of heaps and of the catalog, are damaged and restored by each way to the log's end.
#[test]
fn damaged_pages_come_back_with_every_change_since() {
    for seed in 0..24 {
        let mut random = SplitMix64::new(seed);
        let model = [RecoveryModel::Full, RecoveryModel::BulkLogged][seed as usize % 2];
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, model);
        add(&instance, &database, 0..2000);
        load(&instance, &database, 3000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let in_backup = used_pages(&disk);
        add(&instance, &database, 2000..4000);
        let has_differential = random.below(2) == 0;
        if has_differential {
            database.checkpoint().expect("saved");
            add(&instance, &database, 4000..4500);
            back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
        }
        load(&instance, &database, 1000);
        add(&instance, &database, 4500..6000);
        let has_log = random.below(3) > 0;
        if has_log {
            back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
            add(&instance, &database, 6000..8000);
        }
        let wanted = ids(&database);
        drop(database);
        instance.close().expect("closed");
        drop(instance);
        let pages = some_of(&in_backup, 1 + random.below(12), &mut random);
        spoil(&disk, &pages, &mut random);
        let instance = open(&disk);
        // The tail cannot be backed up with loads in it.
        let is_tail = (has_log || model == RecoveryModel::Full) && random.below(2) == 0;
        if is_tail {
            let paths = [PathBuf::from("tail.bak")];
            let tail = BackupRequest { leaves_restoring: true, ..request(BackupWhat::Log, &paths) };
            instance.back_up_tail(&TailRequest { name: "shop", request: &tail }).expect("backed up");
        }
        page_restore(&instance, "shop", "full.bak", &pages, RestoreEnd::NoRecovery).expect("begun");
        assert_eq!(number_of(instance.database("shop")), number::DATABASE_RESTORING);
        assert!(instance.is_restoring_pages("shop").expect("read"));
        if has_differential && random.below(2) == 0 {
            Restoring::of("shop", "diff.bak").run(&instance).expect("restored");
        }
        if has_log {
            Restoring::of("shop", "log.bak").log().run(&instance).expect("restored");
        }
        match is_tail && random.below(2) == 0 {
            true => drop(Restoring::of("shop", "tail.bak").log().recovery().run(&instance).expect("restored")),
            false => instance.recover_restored("shop").expect("recovered"),
        }
        assert!(!instance.is_restoring_pages("shop").expect("read"));
        let database = instance.database("shop").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(ids(&database), wanted, "seed {seed}, {pages:?}");
        assert_sound(&database);
        add(&instance, &database, 9000..9100);
        if !is_tail {
            // The chain of backups goes on, and a differential backup has the pages.
            back_up(&instance, &database, BackupWhat::Log, "next.bak").expect("backed up");
        }
    }
}

/// Each page of the database for itself, in one statement: the live log reaches back to the backup.
#[test]
fn any_page_comes_back_by_the_live_log_alone() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..800);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let in_backup = used_pages(&disk);
    add(&instance, &database, 800..1600);
    let wanted = ids(&database);
    drop(database);
    instance.close().expect("closed");
    drop(instance);
    let mut kinds = std::collections::HashSet::new();
    let mut random = SplitMix64::new(7);
    for (id, kind) in in_backup {
        kinds.insert(kind);
        spoil(&disk, &[id], &mut random);
        let instance = open(&disk);
        let done = page_restore(&instance, "shop", "full.bak", &[id], RestoreEnd::Recovery).expect("restored");
        assert!(done.is_recovered && done.facts.pages == 1);
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), wanted, "{id}");
        assert_sound(&database);
        drop(database);
        instance.close().expect("closed");
    }
    assert!(kinds.contains(&PageType::Row) && kinds.contains(&PageType::RunList), "{kinds:?}");
}

/// A crash, and a page that its recovery needs and cannot read: the database is SUSPECT until the page is restored.
#[test]
fn a_suspect_database_is_recovered_with_its_pages() {
    let mut suspect = 0;
    for seed in 0..8 {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let in_backup = used_pages(&disk);
        add(&instance, &database, 1000..1500);
        database.checkpoint().expect("saved");
        let table = crate::fixture::table(&database, "t");
        let ctx = crate::fixture::begin(&instance);
        let rows = (5000..5300).map(crate::fixture::row);
        crate::fixture::insert(&database, &ctx, &table, 0, rows).expect("inserted");
        database.flush_log().expect("durable");
        drop(ctx);
        let mut random = SplitMix64::new(seed);
        disk.crash(seed);
        drop((database, instance));
        spoil(&disk, &in_backup.iter().map(|(id, _)| *id).collect::<Vec<_>>(), &mut random);
        let instance = open(&disk);
        suspect += u32::from(instance.database("shop").is_err());
        let pages: Vec<PageId> = in_backup.iter().map(|(id, _)| *id).collect();
        page_restore(&instance, "shop", "full.bak", &pages, RestoreEnd::Recovery).expect("restored");
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), (0..1500).collect::<Vec<_>>(), "seed {seed}");
        assert_sound(&database);
    }
    assert!(suspect > 4, "{suspect}");
}

/// A power failure anywhere in the middle leaves the database as it was, or restoring: what is repeated then ends it.
#[test]
fn a_power_failure_in_the_middle_leaves_it_to_be_repeated() {
    let (mut restoring, mut failed) = (0, 0);
    for after in 1..45 {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1500);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let in_backup = used_pages(&disk);
        add(&instance, &database, 1500..2500);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
        add(&instance, &database, 2500..2600);
        drop(database);
        instance.close().expect("closed");
        drop(instance);
        let mut random = SplitMix64::new(after);
        let pages = some_of(&in_backup, 4, &mut random);
        spoil(&disk, &pages, &mut random);
        let instance = open(&disk);
        let all = |instance: &Instance, begins: bool| {
            if begins {
                page_restore(instance, "shop", "full.bak", &pages, RestoreEnd::NoRecovery)?;
            }
            Restoring::of("shop", "log.bak").log().run(instance)?;
            instance.recover_restored("shop")
        };
        disk.crash_at(disk.changes() + after, after);
        let done = all(&instance, true);
        drop(instance);
        disk.crash(after);
        disk.power_on();
        let instance = open(&disk);
        let is_restoring = instance.is_restoring_pages("shop").expect("read");
        restoring += u32::from(is_restoring);
        failed += u32::from(done.is_err());
        if is_restoring || done.is_err() {
            all(&instance, !is_restoring).unwrap_or_else(|error| panic!("{after}: {error}"));
        }
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), (0..2600).collect::<Vec<_>>(), "{after}");
        assert_sound(&database);
        let files = disk.list(Path::new(FOLDER)).expect("the folder");
        assert!(files.iter().all(|path| !path.display().to_string().contains(".pages")), "{files:?}");
    }
    assert!(restoring > 3 && failed > 10, "{restoring} of {failed}");
}

#[test]
fn pages_that_cannot_be_restored_are_refused_and_nothing_has_changed() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..1000);
    back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
    let first = used_pages(&disk)[0].0;
    let page = |number: u32| PageId::new(FileId(1), number);
    let pages = |pages: &[PageId]| page_restore(&instance, "shop", "full.bak", pages, RestoreEnd::NoRecovery);
    assert_eq!(number_of(pages(&[first])), number::RESTORE_IN_USE);
    add(&instance, &database, 1000..9000);
    back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
    add(&instance, &database, 9000..9100);
    database.checkpoint().expect("saved");
    let last = used_pages(&disk).last().expect("pages").0;
    drop(database);
    for control in 0..RESERVED_PAGES {
        assert_eq!(number_of(pages(&[first, page(control)])), number::CONTROL_PAGE);
    }
    assert_eq!(number_of(pages(&[])), number::RESTORED_PAGES);
    let many: Vec<PageId> = (8..1009).map(page).collect();
    assert_eq!(number_of(pages(&many)), number::RESTORED_PAGES);
    assert_eq!(number_of(pages(&[page(4_000_000)])), number::PAGE_BEHIND_END);
    assert_eq!(number_of(pages(&[PageId::new(FileId(9), 8)])), number::PAGE_BEHIND_END);
    assert_eq!(number_of(pages(&[last])), number::PAGE_NOT_IN_BACKUP);
    let of_log = page_restore(&instance, "shop", "log.bak", &[first], RestoreEnd::NoRecovery);
    assert_eq!(number_of(of_log), number::BACKUP_SET_KIND);
    let missing = page_restore(&instance, "none", "full.bak", &[first], RestoreEnd::NoRecovery);
    assert_eq!(number_of(missing), number::RESTORE_NO_DATABASE);
    let paths = [PathBuf::from("full.bak")];
    let stop = Some(StopPoint::Time(0));
    let stopped = RestoreRequest { stop, ..of_pages("shop", &paths, RestoreEnd::NoRecovery) };
    assert_eq!(number_of(instance.restore_pages(&stopped, &[first])), number::BACKUP_OPTIONS_CONFLICT);
    assert_eq!(ids(&instance.database("shop").expect("as it was")).len(), 9100);
    // A copy went another way since.
    Restoring::of("copy", "full.bak").moved().recovery().run(&instance).expect("restored");
    let of_copy = page_restore(&instance, "copy", "full.bak", &[first], RestoreEnd::NoRecovery);
    assert_eq!(number_of(of_copy), number::PAGES_OF_ANOTHER_PATH);
    assert_eq!(ids(&instance.database("copy").expect("as it was")).len(), 1000);
    // The log in between is missing.
    pages(&[first]).expect("begun");
    assert_eq!(number_of(instance.recover_restored("shop")), number::LOG_NOT_RESTORED);
    let stop = Some(StopPoint::Time(0));
    let stopped = Restoring::of("shop", "log.bak").log().stop(stop).run(&instance);
    assert_eq!(number_of(stopped), number::BACKUP_OPTIONS_CONFLICT);
    Restoring::of("shop", "log.bak").log().recovery().run(&instance).expect("restored");
    assert_eq!(ids(&instance.database("shop").expect("online")).len(), 9100);
}

#[test]
fn under_simple_and_with_a_damaged_backup_no_page_is_restored() {
    let disk = simulated();
    let instance = open(&disk);
    let database = shop(&instance, RecoveryModel::Full);
    add(&instance, &database, 0..1000);
    database.checkpoint().expect("saved");
    let pages = used_pages(&disk);
    drop(database);
    instance.close().expect("closed");
    drop(instance);
    let row = pages.iter().rfind(|(_, kind)| *kind == PageType::Row).expect("rows").0;
    spoil(&disk, &[row], &mut SplitMix64::new(3));
    let instance = open(&disk);
    let database = instance.database("shop").expect("opens");
    let paths = [PathBuf::from("full.bak")];
    let all = BackupRequest { continues_after_error: true, ..request(BackupWhat::Database, &paths) };
    assert!(instance.back_up(&database, &all).expect("backed up").facts.is_damaged);
    drop(database);
    let restored = page_restore(&instance, "shop", "full.bak", &[row], RestoreEnd::NoRecovery);
    assert_eq!(number_of(restored), number::PAGE_DAMAGED_IN_BACKUP);
    let database = instance.database("shop").expect("as it was");
    instance.set_options(&database, |options| options.recovery_model = RecoveryModel::Simple).expect("set");
    drop(database);
    let restored = page_restore(&instance, "shop", "full.bak", &[row], RestoreEnd::NoRecovery);
    assert_eq!(number_of(restored), number::PAGES_UNDER_SIMPLE);
    instance.database("shop").expect("as it was");
}

/// The extents of a page get another use, and a load fills them past the log: a backup of the log brings them, and
/// without one the page is refused.
#[test]
fn what_a_load_has_written_past_the_log_comes_from_a_backup_of_the_log() {
    for is_backed_up in [true, false] {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::BulkLogged);
        load(&instance, &database, 20_000);
        back_up(&instance, &database, BackupWhat::Database, "full.bak").expect("backed up");
        let before = used_pages(&disk);
        run(&instance, |ctx| database.truncate_table(ctx, "dbo", "t", &mut unlocked)).expect("emptied");
        load(&instance, &database, 15_000);
        if is_backed_up {
            back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
        }
        let wanted = ids(&database);
        let table = crate::fixture::table(&database, "t");
        let runs = database.hobt(table.base_index().partitions[0].hobt).expect("a heap").runs();
        let of_load = |id: &PageId| {
            let is_in = |run: &hobt_page::Run| (run.first.number..run.used_end()).contains(&id.number);
            runs.iter().any(|run| run.page_count > 8 && is_in(run))
        };
        let page = before.iter().map(|(id, _)| *id).rfind(of_load).expect("the same extents");
        drop(database);
        instance.close().expect("closed");
        drop(instance);
        spoil(&disk, &[page], &mut SplitMix64::new(1));
        let instance = open(&disk);
        page_restore(&instance, "shop", "full.bak", &[page], RestoreEnd::NoRecovery).expect("begun");
        if !is_backed_up {
            assert_eq!(number_of(instance.recover_restored("shop")), number::PAGE_NOT_IN_LOG);
            continue;
        }
        Restoring::of("shop", "log.bak").log().recovery().run(&instance).expect("restored");
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), wanted);
        assert_sound(&database);
    }
}

/// More pages join a restore that has begun, from another backup: the log is read again from where they need it.
#[test]
fn more_pages_join_a_restore_that_has_begun() {
    for is_later_first in [true, false] {
        let disk = simulated();
        let instance = open(&disk);
        let database = shop(&instance, RecoveryModel::Full);
        add(&instance, &database, 0..1000);
        back_up(&instance, &database, BackupWhat::Database, "one.bak").expect("backed up");
        let pages = used_pages(&disk);
        add(&instance, &database, 1000..2000);
        back_up(&instance, &database, BackupWhat::Log, "log.bak").expect("backed up");
        add(&instance, &database, 2000..3000);
        back_up(&instance, &database, BackupWhat::Database, "two.bak").expect("backed up");
        add(&instance, &database, 3000..4000);
        drop(database);
        instance.close().expect("closed");
        drop(instance);
        let all: Vec<PageId> = pages.iter().map(|(id, _)| *id).collect();
        spoil(&disk, &all, &mut SplitMix64::new(1));
        let instance = open(&disk);
        let (some, others) = all.split_at(all.len() / 2);
        let order = if is_later_first { ["two.bak", "one.bak"] } else { ["one.bak", "two.bak"] };
        for (path, pages) in order.iter().zip([some, others]) {
            page_restore(&instance, "shop", path, pages, RestoreEnd::NoRecovery).expect("begun");
        }
        assert_eq!(number_of(instance.recover_restored("shop")), number::LOG_NOT_RESTORED);
        Restoring::of("shop", "log.bak").log().run(&instance).expect("restored");
        // A backup of the log of a database whose pages are being restored is its tail.
        let paths = [PathBuf::from("log2.bak")];
        let tail = request(BackupWhat::Log, &paths);
        instance.back_up_tail(&TailRequest { name: "shop", request: &tail }).expect("backed up");
        Restoring::of("shop", "log2.bak").log().recovery().run(&instance).expect("restored");
        let database = instance.database("shop").expect("online");
        assert_eq!(ids(&database), (0..4000).collect::<Vec<_>>());
        assert_sound(&database);
        // A differential backup has what was restored, on top of the full one.
        back_up(&instance, &database, BackupWhat::Differential, "diff.bak").expect("backed up");
        Restoring::of("copy", "two.bak").moved().run(&instance).expect("restored");
        Restoring::of("copy", "diff.bak").recovery().run(&instance).expect("restored");
        assert_eq!(ids(&instance.database("copy").expect("online")).len(), 4000);
    }
}
