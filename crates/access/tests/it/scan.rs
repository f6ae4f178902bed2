//! Scans: every page once, whatever the workers, the pool, faults and other scans do.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hobt_access::scan::{
    ColumnKind, ColumnVector, Counts, DealerKind, PageVisitor, Scan, ScanSettings, ScanWorker, ShownPage, VectorData,
};
use hobt_access::{AccessError, Hobt, RowStore};
use hobt_base::{PAGE_SIZE, PageId, SlotId, SplitMix64};
use hobt_disk::{DeviceModel, DiskKind, Fault, FaultKind, Operation, SimulatedConfig, open_disk};
use hobt_page::{PageChange, PageDamage, PageHeader, RowPage, Run, apply};
use hobt_txn::{IoCounts, StatementContext};

use crate::world::{
    Collect, FileSize, Row, World, block_on, file_of, image, loaded, random_row, rows_in, rows_of, run_worker, scan,
    sorted, table,
};

const FILES: [FileSize; 2] = [FileSize { pages: 64, growth_pages: 512, max_pages: 0 }; 2];

fn small_reads() -> ScanSettings {
    ScanSettings { read_pages: 16, queue_depth: 8, ..ScanSettings::default() }
}

fn slow_world(pool_pages: usize) -> World {
    let config = SimulatedConfig { device: Some(DeviceModel::fast_card()), ..SimulatedConfig::default() };
    World::with(config, pool_pages, &FILES)
}

/// Ends the test if `body` does not end: a deadlock fails instead of hanging.
fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _nobody_waits_any_more = done.send(());
    });
    match ended.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("a deadlock"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => thread.join().expect("no panic"),
    }
}

#[test]
fn every_row_is_seen_once_and_every_read_is_counted() {
    let world = slow_world(2048);
    let (hobt, rows) = world.cold_heap(20_000, 1);
    let expected = sorted(rows);
    for workers in 1..=4 {
        for share in [0, 75] {
            for dealer in [DealerKind::Atomic, DealerKind::Latched] {
                let settings = ScanSettings { pool_share_percent: share, dealer, ..small_reads() };
                world.make_cold();
                let before = world.bytes_read();
                let seen = scan(&world, &[Arc::clone(&hobt)], workers, settings).expect("no faults");
                let bytes = world.bytes_read() - before;
                assert_eq!(seen.scan.is_through_pool(), share > 0);
                assert!(sorted(seen.rows) == expected, "the rows that were loaded");
                assert_eq!((seen.pages, seen.scan.page_count()), (hobt.data_pages(), hobt.data_pages()));
                assert_eq!(loaded(&seen.counts.logical_reads), hobt.data_pages());
                assert_eq!(loaded(&seen.counts.read_ahead_reads), hobt.data_pages());
                assert_eq!(loaded(&seen.counts.physical_reads), 0);
                assert_eq!(bytes, hobt.data_pages() * PAGE_SIZE as u64);
                assert_eq!(seen.scan.read_bytes(), bytes);
                assert_eq!(seen.scan.context().memory().held(), 0, "buffers are given back");
                if share > 0 {
                    let warm = scan(&world, &[Arc::clone(&hobt)], workers, settings).expect("no faults");
                    assert_eq!(warm.scan.read_bytes(), 0, "a warm scan reads nothing");
                    assert!(sorted(warm.rows) == expected);
                }
            }
        }
    }
}

#[test]
fn without_read_ahead_every_page_is_waited_for() {
    let world = slow_world(2048);
    let (hobt, rows) = world.cold_heap(3000, 2);
    let before = world.bytes_read();
    let settings = ScanSettings { read_ahead: false, ..ScanSettings::default() };
    let seen = scan(&world, &[Arc::clone(&hobt)], 2, settings).expect("no faults");
    assert_eq!(sorted(seen.rows), sorted(rows));
    assert_eq!(loaded(&seen.counts.physical_reads), hobt.data_pages());
    assert_eq!(loaded(&seen.counts.read_ahead_reads), 0);
    assert_eq!(world.bytes_read() - before, hobt.data_pages() * PAGE_SIZE as u64);
}

#[test]
fn a_pool_too_small_for_the_scan_is_no_obstacle() {
    within_a_minute(|| {
        for pool_pages in [16, 40, 130] {
            let world = slow_world(pool_pages);
            let (hobt, rows) = world.cold_heap(8000, 3);
            let settings = ScanSettings { pool_share_percent: 1_000_000, ..small_reads() };
            let expected = sorted(rows);
            for workers in [1, 3] {
                let seen = scan(&world, &[Arc::clone(&hobt)], workers, settings).expect("no faults");
                assert!(seen.scan.is_through_pool());
                assert!(sorted(seen.rows) == expected);
            }
        }
    });
}

#[test]
fn scans_of_one_table_at_once_do_not_wait_for_each_other() {
    within_a_minute(|| {
        for pool_pages in [60, 4096] {
            let world = slow_world(pool_pages);
            let (hobt, rows) = world.cold_heap(10_000, 4);
            let expected = sorted(rows);
            let settings = ScanSettings { pool_share_percent: 1_000_000, ..small_reads() };
            for _ in 0..3 {
                world.make_cold();
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| {
                            let seen = scan(&world, &[Arc::clone(&hobt)], 2, settings).expect("no faults");
                            assert!(sorted(seen.rows) == expected);
                        });
                    }
                });
            }
        }
    });
}

#[test]
fn a_scan_that_nobody_polls_holds_no_other_up() {
    within_a_minute(|| {
        let world = slow_world(4096);
        let (hobt, rows) = world.cold_heap(6000, 5);
        let idle = Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 1, small_reads(), world.context(), Arc::default())
            .expect("a scan");
        let mut idle = ScanWorker::new(idle);
        // Its reads are in progress or done, and except for the first range they are not processed: the client does not
        // fetch.
        if let Poll::Ready(range) = idle.poll_range(&mut Context::from_waker(Waker::noop()), &mut Collect::default()) {
            range.expect("there are more ranges").expect("no faults");
        }
        assert!(idle.grants() > 1, "reads of later ranges are under way");
        let seen = scan(&world, &[Arc::clone(&hobt)], 1, small_reads()).expect("no faults");
        assert!(sorted(seen.rows) == sorted(rows));
        drop(idle);
        assert_eq!(scan(&world, &[hobt], 1, small_reads()).expect("no faults").pages, seen.pages);
    });
}

#[test]
fn a_scan_that_nobody_polls_gives_its_pages_to_who_waits_for_them() {
    within_a_minute(|| {
        let world = slow_world(4096);
        let (hobt, rows) = world.cold_heap(6000, 15);
        let settings = ScanSettings { queue_depth: 64, ..small_reads() };
        let idle = Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 1, settings, world.context(), Arc::default())
            .expect("a scan");
        let mut idle = ScanWorker::new(idle);
        let mut seen = Collect::default();
        if let Poll::Ready(range) = idle.poll_range(&mut Context::from_waker(Waker::noop()), &mut seen) {
            range.expect("there are more ranges").expect("no faults");
        }
        assert!(idle.grants() > 1, "reads of later ranges are under way");
        assert_eq!(rows_in(&hobt).len(), rows.len(), "guards reach every page");
        // The scan goes on with the pages that other threads have published for it.
        block_on(async {
            while let Some(range) = poll_fn(|context| idle.poll_range(context, &mut seen)).await {
                range.expect("no faults");
            }
        });
        assert!(sorted(seen.rows) == sorted(rows), "each row once");
    });
}

#[test]
fn a_scan_sees_its_pages_while_a_writer_goes_on() {
    within_a_minute(|| {
        for share in [0, 1_000_000] {
            let world = slow_world(400);
            let (hobt, rows) = world.cold_heap(8000, 6);
            let expected: BTreeSet<Row> = rows.into_iter().collect();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut random = SplitMix64::new(9);
                    let context = world.context();
                    while !stop.load(Ordering::Relaxed) {
                        hobt.insert(&context, &image(&random_row(&mut random, hobt.row_layout(), 60))).expect("room");
                    }
                    context.commit().expect("committed");
                });
                for workers in [1, 2, 3] {
                    let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
                    let seen = scan(&world, &[Arc::clone(&hobt)], workers, settings).expect("no faults");
                    let seen: BTreeSet<Row> = seen.rows.into_iter().collect();
                    assert!(expected.is_subset(&seen), "no row that was there is missed");
                }
                stop.store(true, Ordering::Relaxed);
                writer.join().expect("no panic");
            });
            world.assert_sound(&[&hobt]);
        }
    });
}

/// Inverts a byte of a page on disk.
fn damage(world: &World, hobt: &Hobt, page: usize) -> PageId {
    let run = hobt.runs()[1];
    let id = PageId::new(run.first.file, run.first.number + page as u32);
    let file = world.storage.file(id.file).expect("the file");
    let mut buffer = hobt_disk::AlignedBuffer::new(PAGE_SIZE).expect("memory");
    file.disk().read_at(&mut buffer, id.byte_offset()).expect("read");
    buffer[5000] ^= 0x10;
    file.disk().write_at(&buffer, id.byte_offset()).expect("written");
    id
}

#[test]
fn a_damaged_page_is_named() {
    for settings in [
        small_reads(),
        ScanSettings { pool_share_percent: 0, ..small_reads() },
        ScanSettings { read_ahead: false, ..small_reads() },
    ] {
        let world = World::new(2048, &FILES);
        let (hobt, _) = world.cold_heap(5000, 7);
        let bad = damage(&world, &hobt, 3);
        let error = scan(&world, &[Arc::clone(&hobt)], 2, settings).err().expect("the damage is met");
        let AccessError::Damaged { file, page, damage } = error else { panic!("{error}") };
        assert_eq!((file.as_str(), page), (world.storage.file(bad.file).expect("the file").name(), bad));
        assert!(matches!(damage, PageDamage::Checksum { .. }));
        let context = world.context();
        let scan = Scan::new(&[RowStore::Heap(hobt)], 1, settings, context, Arc::default()).expect("a scan");
        let mut worker = ScanWorker::new(scan);
        let mut counts = Counts::new(vec![1]);
        let met = loop {
            match block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
                Some(Err(AccessError::Damaged { page, .. })) => break page,
                Some(result) => result.expect("no other error"),
                None => panic!("a count that skips a damaged page"),
            }
        };
        assert_eq!(met, bad);
    }
}

#[test]
fn a_page_that_was_never_written_is_not_counted_as_empty() {
    let world = World::new(2048, &FILES);
    let (hobt, _) = world.cold_heap(3000, 8);
    let run = hobt.runs()[1];
    let file = world.storage.file(run.first.file).expect("the file");
    // In the pool as zeros, as if it was never formatted.
    drop(file.pool_file().create(run.first.number + 1).expect("a frame"));
    let scan = Scan::new(&[RowStore::Heap(hobt)], 1, small_reads(), world.context(), Arc::default()).expect("a scan");
    let mut worker = ScanWorker::new(scan);
    let mut counts = Counts::new(Vec::new());
    let mut outcome = Ok(());
    while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
        outcome = outcome.and(range);
    }
    assert!(matches!(outcome, Err(AccessError::Damaged { page, .. }) if page.number == run.first.number + 1));
}

#[test]
fn a_page_with_more_nulls_than_rows_is_damage_and_no_count() {
    let world = World::new(2048, &FILES);
    let (hobt, _) = world.cold_heap(3000, 15);
    let run = hobt.runs()[1];
    let id = PageId::new(run.first.file, run.first.number + 1);
    let file = world.storage.file(id.file).expect("the file");
    let mut page = file.pool_file().write(id.number).expect("a frame");
    let live = PageHeader::read(&page).expect("a header").row_count;
    // The counts are behind the header. This one is column 1's.
    let change = PageChange::Write { offset: 64 + 2, bytes: (live + 1).to_le_bytes().to_vec() };
    apply(&mut page, None, &change).expect("in the page");
    drop(page);
    let is_named = |error: AccessError| matches!(error, AccessError::Damaged { page, .. } if page == id);
    // Twice: the page may come from the pool, and be counted without being latched, only once all pages are there.
    for _ in 0..2 {
        let settings = ScanSettings { pool_share_percent: 100, ..small_reads() };
        let error = scan(&world, &[Arc::clone(&hobt)], 1, settings).err().expect("the damage is met");
        assert!(is_named(error));
        let counted = Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 1, settings, world.context(), Arc::default())
            .expect("a scan");
        let mut worker = ScanWorker::new(counted);
        let mut counts = Counts::new(vec![1]);
        let mut outcome = Ok(());
        while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
            outcome = outcome.and(range);
        }
        assert!(is_named(outcome.expect_err("the damage is met")));
    }
}

#[test]
fn a_read_error_stops_the_scan_and_the_next_one_works() {
    for share in [0, 75] {
        for after in 0..6 {
            let world = slow_world(2048);
            let (hobt, rows) = world.cold_heap(8000, 9);
            let simulated = world.simulated.as_ref().expect("simulated");
            simulated.inject(Fault::once(Operation::Read, after, FaultKind::Error(5)));
            let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
            let error = scan(&world, &[Arc::clone(&hobt)], 3, settings).err().expect("the fault is met");
            assert!(matches!(error, AccessError::Disk(_)), "{error}");
            let seen = scan(&world, &[hobt], 3, settings).expect("the disk is well again");
            assert!(sorted(seen.rows) == sorted(rows));
        }
    }
}

/// Collects rows, and has enough after each page or so.
struct Sipping(Collect, u64);

impl PageVisitor for Sipping {
    fn visit(&mut self, shown: ShownPage<'_, '_>) -> Result<(), AccessError> {
        self.0.visit(shown)
    }

    fn is_full(&self) -> bool {
        self.0.pages.is_multiple_of(self.1)
    }
}

#[test]
fn a_visitor_that_stops_within_a_range_is_shown_the_rest() {
    for share in [0, 75] {
        for warm in [false, true] {
            for pages_at_once in [1, 3, 100] {
                let world = slow_world(2048);
                let (hobt, rows) = world.cold_heap(9000, 21);
                if warm {
                    scan(&world, &[Arc::clone(&hobt)], 1, small_reads()).expect("no faults");
                }
                let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
                let scan =
                    Scan::new(&[RowStore::Heap(hobt)], 1, settings, world.context(), Arc::default()).expect("a scan");
                let mut worker = ScanWorker::new(Arc::clone(&scan));
                let mut sipping = Sipping(Collect::default(), pages_at_once);
                let mut times = 0;
                loop {
                    let before = sipping.0.pages;
                    let Some(range) = block_on(poll_fn(|task| worker.poll_range(task, &mut sipping))) else { break };
                    range.expect("no faults");
                    assert!(sipping.0.pages - before <= pages_at_once, "it had enough");
                    times += 1;
                }
                assert!(times >= scan.page_count() / pages_at_once.min(16));
                assert_eq!(sipping.0.pages, scan.page_count());
                assert_eq!(worker.rows(), rows.len() as u64);
                assert!(sorted(sipping.0.rows) == sorted(rows));
            }
        }
    }
}

#[test]
fn the_rest_of_a_range_whose_pages_were_evicted_is_read_again() {
    let world = slow_world(2048);
    let (hobt, rows) = world.cold_heap(9000, 22);
    let counts: Arc<IoCounts> = Arc::default();
    let scan =
        Scan::new(&[RowStore::Heap(hobt)], 1, small_reads(), world.context(), Arc::clone(&counts)).expect("a scan");
    let mut worker = ScanWorker::new(Arc::clone(&scan));
    let mut sipping = Sipping(Collect::default(), 5);
    while let Some(range) = block_on(poll_fn(|task| worker.poll_range(task, &mut sipping))) {
        range.expect("no faults");
        world.make_cold();
    }
    assert_eq!(sipping.0.pages, scan.page_count());
    assert_eq!(counts.logical_reads.load(Ordering::Relaxed), scan.page_count());
    assert_eq!(counts.physical_reads.load(Ordering::Relaxed), 0, "nobody waited for a single page");
    assert!(sorted(sipping.0.rows) == sorted(rows));
}

#[test]
fn a_scan_that_is_left_within_a_range_gives_its_memory_back() {
    for share in [0, 75] {
        let world = slow_world(2048);
        let (hobt, _) = world.cold_heap(3000, 23);
        let context = world.context();
        let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
        let scan =
            Scan::new(&[RowStore::Heap(hobt)], 1, settings, Arc::clone(&context), Arc::default()).expect("a scan");
        let mut worker = ScanWorker::new(scan);
        let mut sipping = Sipping(Collect::default(), 1);
        block_on(poll_fn(|task| worker.poll_range(task, &mut sipping))).expect("a range").expect("no faults");
        drop(worker);
        assert_eq!(context.memory().held(), 0);
        world.make_cold();
    }
}

/// Puts rows into a heap until it uses three pages of a second run. Returns the last row's position.
fn fill_three_pages(hobt: &Arc<Hobt>, context: &Arc<StatementContext>, seed: u64) -> (PageId, SlotId) {
    let mut random = SplitMix64::new(seed);
    loop {
        let row = image(&random_row(&mut random, hobt.row_layout(), 200));
        let place = hobt.insert(context, &row).expect("room");
        let runs = hobt.runs();
        if runs.len() == 2 && runs[1].used == 3 {
            return place;
        }
    }
}

/// What the disk has of pages that a rollback gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OnDisk {
    Nothing,
    /// Rows that the same heap had there before it was truncated.
    Truncated,
    /// The rows that are rolled back.
    RolledBack,
}

#[test]
fn pages_that_an_undo_gave_back_have_no_rows_and_are_no_damage() {
    for (share, on_disk) in [0, 75]
        .into_iter()
        .flat_map(|share| [OnDisk::Nothing, OnDisk::Truncated, OnDisk::RolledBack].map(|on_disk| (share, on_disk)))
    {
        let world = World::new(256, &[file_of(8 * 200)]);
        let hobt = world.create(&table());
        if on_disk == OnDisk::Truncated {
            let context = world.context();
            fill_three_pages(&hobt, &context, 10);
            context.commit().expect("committed");
            world.make_cold();
            let context = world.context();
            hobt.truncate(&context).expect("truncated");
            context.commit().expect("committed");
        }
        let context = world.context();
        let (page, slot) = fill_three_pages(&hobt, &context, 11);
        if on_disk == OnDisk::RolledBack {
            world.make_cold();
        }
        let stores = [RowStore::Heap(Arc::clone(&hobt))];
        let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
        let scan_now = || Scan::new(&stores, 1, settings, world.context(), Arc::default()).expect("room");
        let (before, counted, begun) = (scan_now(), scan_now(), scan_now());
        let run = hobt.runs()[1];
        let mut given_back = Vec::new();
        let of_run = &mut |id: PageId, page: &RowPage<'_>| {
            if run.row_pages().contains(&id.number) {
                given_back.extend(rows_of(page, &*hobt));
            }
            Ok(())
        };
        hobt.for_each_page(of_run).expect("sound");
        // It has shown a page, and read others.
        let mut begun_worker = ScanWorker::new(Arc::clone(&begun));
        let mut sipping = Sipping(Collect { scan: Some(Arc::clone(&begun)), ..Collect::default() }, 1);
        block_on(poll_fn(|task| begun_worker.poll_range(task, &mut sipping))).expect("a range").expect("no faults");
        context.roll_back().expect("undone");
        // The heap has the extent again, but uses only the first of its pages.
        let (context, mut random) = (world.context(), SplitMix64::new(12));
        while hobt.runs().len() < 2 || hobt.runs()[1].used == 0 {
            hobt.insert(&context, &image(&random_row(&mut random, hobt.row_layout(), 200))).expect("room");
        }
        assert_eq!(hobt.runs(), [hobt.runs()[0], Run { used: 1, ..run }]);
        let mut seen = Collect { scan: Some(Arc::clone(&before)), ..Collect::default() };
        run_worker(&before, &mut seen).expect("no damage");
        let expected = sorted(rows_in(&hobt));
        assert_eq!(sorted(seen.rows), expected, "{on_disk:?}, {share}");
        let mut rest = Collect { scan: Some(begun), ..Collect::default() };
        while let Some(range) = block_on(poll_fn(|task| begun_worker.poll_range(task, &mut rest))) {
            range.expect("no damage");
        }
        assert!(rest.pages > 0 && rest.rows.iter().all(|row| !given_back.contains(row)), "{on_disk:?}, {share}");
        let mut counts = Counts::new(Vec::new());
        let mut worker = ScanWorker::new(counted);
        while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
            range.expect("no damage");
        }
        assert_eq!(counts.rows(), expected.len() as u64, "{on_disk:?}, {share}");
        assert_eq!(hobt.live_row(page, slot).expect("no damage"), None);
        assert_eq!(hobt.live_slots(page).expect("no damage"), []);
        let context = world.context();
        let shown = hobt.row_visible((page, slot), (&context, true), &IoCounts::default(), |_, _, _| ());
        assert_eq!(shown.expect("no damage"), None);
    }
}

#[test]
fn a_cancelled_scan_stops() {
    let world = slow_world(2048);
    let (hobt, _) = world.cold_heap(5000, 10);
    let cancelled = Arc::new(AtomicBool::new(false));
    let context = world.cancellable(Arc::clone(&cancelled));
    let scan = Scan::new(&[RowStore::Heap(hobt)], 1, small_reads(), context, Arc::default()).expect("a scan");
    let mut worker = ScanWorker::new(Arc::clone(&scan));
    let mut collect = Collect::default();
    block_on(poll_fn(|task| worker.poll_range(task, &mut collect))).expect("a range").expect("no fault");
    cancelled.store(true, Ordering::Relaxed);
    let next = block_on(poll_fn(|task| worker.poll_range(task, &mut collect)));
    assert!(matches!(next, Some(Err(AccessError::Cancelled))));
    assert!(collect.pages < scan.page_count());
}

#[test]
fn counts_are_those_of_a_visit() {
    for share in [0, 75] {
        let world = slow_world(2048);
        let (hobt, rows) = world.cold_heap(9000, 11);
        let context = world.context();
        let mut random = SplitMix64::new(3);
        let mut gone = 0;
        let mut victims: Vec<(PageId, SlotId)> = Vec::new();
        hobt.for_each_row(&mut |id, slot, _| {
            if random.below(7) == 0 {
                victims.push((id, SlotId(slot as u16)));
            }
            Ok(())
        })
        .expect("readable");
        for (page, slot) in victims {
            hobt.delete(&context, page, slot).expect("there");
            gone += 1;
        }
        context.commit().expect("committed");
        let live = rows_in(&hobt);
        assert_eq!(live.len(), rows.len() - gone);
        for cold in [false, true] {
            if cold {
                world.make_cold();
            }
            let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
            let scan = Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 2, settings, world.context(), Arc::default())
                .expect("a scan");
            let mut total = Counts::new((0..6).collect());
            for _ in 0..2 {
                let mut worker = ScanWorker::new(Arc::clone(&scan));
                let mut counts = Counts::new((0..6).collect());
                while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
                    range.expect("no faults");
                }
                assert_eq!(worker.rows(), counts.rows());
                total.merge(&counts);
            }
            assert_eq!(total.rows(), live.len() as u64);
            let nulls: Vec<u64> =
                (0..6).map(|column| live.iter().filter(|row| row[column].is_none()).count() as u64).collect();
            assert_eq!(total.nulls(), nulls);
        }
    }
}

/// Two workers on one clock: the one that is behind runs next. A page costs one tick.
#[test]
fn workers_finish_together() {
    for rows in [400, 3000, 20_000] {
        for cold in [true, false] {
            let world = World::new(4096, &FILES);
            let (hobt, _) = world.cold_heap(rows, 12);
            if !cold {
                scan(&world, &[Arc::clone(&hobt)], 1, small_reads()).expect("no faults");
            }
            let settings = ScanSettings { queue_depth: 32, ..small_reads() };
            let scan =
                Scan::new(&[RowStore::Heap(hobt)], 2, settings, world.context(), Arc::default()).expect("a scan");
            let mut workers: Vec<_> =
                (0..2).map(|_| (ScanWorker::new(Arc::clone(&scan)), Collect::default(), false)).collect();
            while let Some((worker, collect, done)) =
                workers.iter_mut().filter(|(_, _, done)| !done).min_by_key(|(_, collect, _)| collect.pages)
            {
                match worker.poll_range(&mut Context::from_waker(Waker::noop()), collect) {
                    Poll::Ready(Some(range)) => range.expect("no faults"),
                    Poll::Ready(None) => *done = true,
                    Poll::Pending => unreachable!("this disk takes no time"),
                }
            }
            let pages: Vec<u64> = workers.iter().map(|(_, collect, _)| collect.pages).collect();
            let grants: u64 = workers.iter().map(|(worker, ..)| worker.grants()).sum();
            assert_eq!(grants as usize, scan.dispenser().grant_count());
            assert!(
                pages[0].abs_diff(pages[1]) <= 2 * 8,
                "two of the last grants apart at most: {pages:?} of {rows} rows"
            );
        }
    }
}

struct Vectors(Vec<ColumnVector>, Vec<Row>, Arc<Scan>);

impl PageVisitor for Vectors {
    fn visit(&mut self, ShownPage { partition, id, page, .. }: ShownPage<'_, '_>) -> Result<(), AccessError> {
        let values = self.2.large_values(partition);
        for vector in &mut self.0 {
            vector.append_page(id, page, &values)?;
        }
        self.1.extend(crate::world::rows_of(page, &values));
        Ok(())
    }
}

fn value_of(vector: &ColumnVector, row: usize) -> Option<Vec<u8>> {
    if !vector.validity.is_empty() && vector.validity[row / 8] >> (row % 8) & 1 == 0 {
        return None;
    }
    Some(match &vector.data {
        VectorData::U8(values) => vec![values[row]],
        VectorData::I16(values) => values[row].to_le_bytes().to_vec(),
        VectorData::I32(values) => values[row].to_le_bytes().to_vec(),
        VectorData::I64(values) => values[row].to_le_bytes().to_vec(),
        VectorData::I128(values) => values[row].to_le_bytes().to_vec(),
        VectorData::Bytes16(values) => values[16 * row..16 * (row + 1)].to_vec(),
        VectorData::Views { views, bytes, large, .. } => {
            let view = views[row];
            let length = (view as u32) as usize;
            let offset = (view >> 96) as usize;
            if length <= 12 {
                view.to_le_bytes()[4..4 + length].to_vec()
            } else {
                let buffer = (view >> 64) as u32 as usize;
                let bytes = if buffer == 0 { bytes } else { &large[buffer - 1] };
                bytes[offset..offset + length].to_vec()
            }
        }
    })
}

#[test]
fn vectors_hold_what_the_rows_hold() {
    let world = World::new(2048, &FILES);
    let (hobt, _) = world.cold_heap(4000, 13);
    for pass in 0..3 {
        let kind = if pass == 1 { ColumnKind::WidenedTo128 } else { ColumnKind::Native };
        let columns = hobt.row_layout().columns();
        let vectors = (0..columns.len())
            .map(|column| ColumnVector::new(column, columns[column].physical, kind, column == 5 && pass != 1))
            .collect();
        let scan = Scan::new(&[RowStore::Heap(Arc::clone(&hobt))], 1, small_reads(), world.context(), Arc::default())
            .expect("a scan");
        let mut visitor = Vectors(vectors, Vec::new(), Arc::clone(&scan));
        run_worker(&scan, &mut visitor).expect("no faults");
        let Vectors(vectors, rows, _) = visitor;
        for (column, vector) in vectors.iter().enumerate() {
            assert_eq!(vector.rows(), rows.len());
            assert_eq!(vector.null_count, rows.iter().filter(|row| row[column].is_none()).count());
            for (place, row) in rows.iter().enumerate() {
                let mut expected = row[column].clone();
                if pass == 1
                    && let (Some(value), Some(4 | 8)) = (&mut expected, columns[column].physical.width())
                {
                    let sign = if value.last().is_some_and(|byte| byte & 0x80 != 0) { 0xFF } else { 0 };
                    value.resize(16, sign);
                }
                assert_eq!(value_of(vector, place), expected, "column {column} row {place}");
            }
        }
        // The next pass sees pages with deleted rows.
        let context = world.context();
        let mut victims = Vec::new();
        hobt.for_each_row(&mut |id, slot, _| {
            victims.extend((slot % 5 == pass && id.number % 3 != 0).then_some((id, SlotId(slot as u16))));
            Ok(())
        })
        .expect("readable");
        victims.into_iter().try_for_each(|(page, slot)| hobt.delete(&context, page, slot)).expect("there");
        context.commit().expect("committed");
    }
}

#[test]
fn a_real_file_is_no_different() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("access-{}", std::process::id()));
    let disk = open_disk(DiskKind::Auto).expect("a disk");
    disk.create_directory(&folder).expect("a folder");
    {
        let mut world = World::on(disk, None, folder.clone(), 512, &[file_of(8 * 300)]);
        let (hobt, rows) = world.cold_heap(6000, 14);
        let expected = sorted(rows);
        let list = hobt.run_list();
        drop(hobt);
        world.reopen();
        let hobt = world.open(&table(), list);
        // The first scan is also charged with the run list, which was read when the heap was opened.
        for (share, list_pages) in [(0, 1), (75, 0)] {
            let settings = ScanSettings { pool_share_percent: share, ..small_reads() };
            let seen = scan(&world, &[Arc::clone(&hobt)], 2, settings).expect("no faults");
            assert!(sorted(seen.rows) == expected);
            let counts: &IoCounts = &seen.counts;
            let read = loaded(&counts.read_ahead_reads) + loaded(&counts.physical_reads);
            assert_eq!(read, hobt.data_pages() + list_pages);
        }
    }
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}
