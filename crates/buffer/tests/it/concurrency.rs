//! Threads against each other, with far fewer frames than pages, so that every page is evicted and read again all the
//! time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hobt_base::SplitMix64;
use hobt_buffer::{Optimistic, PAGE_WORDS, PoolFile, ReadOptions, TryRead};
use hobt_disk::CompletionQueue;

use super::{BODY, counter, fill, on_disk, world};

const PAGES: u32 = 200;
const FRAMES: usize = 48;

/// One random step of a reader: every access method sees a whole version, and never one older than it saw before.
fn read_somehow(pages: &PoolFile, random: &mut SplitMix64, seen: &mut [u64]) {
    let number = u32::try_from(random.below(u64::from(PAGES))).expect("a page number");
    let found = match random.below(4) {
        0 => Some(counter(&pages.read(number).expect("a sound page"))),
        1 => {
            let options = ReadOptions { ahead: 7, once: true, counts: None };
            Some(counter(&pages.read_with(number, options).expect("a sound page")))
        }
        2 => match pages.try_read(number) {
            TryRead::Guard(guard) => Some(counter(&guard)),
            TryRead::NotResident | TryRead::Busy => None,
        },
        _ => {
            let mut words = [0; PAGE_WORDS - BODY];
            match pages.page_run(number, 1).optimistic_words(number, BODY, &mut words) {
                Optimistic::Ok => {
                    assert!(words.iter().all(|&word| word == words[0]), "a copy of two versions");
                    Some(words[0])
                }
                Optimistic::NotResident | Optimistic::Busy => None,
            }
        }
    };
    if let Some(found) = found {
        assert!(found >= seen[number as usize], "page {number} went back in time");
        seen[number as usize] = found;
    }
}

fn load_somewhere(pages: &PoolFile, random: &mut SplitMix64) {
    let queue = CompletionQueue::new();
    let first = u32::try_from(random.below(u64::from(PAGES) - 8)).expect("a page number");
    let Ok(load) = pages.start_load(first, 8, &queue, 1) else { return };
    if random.below(4) == 0 {
        return drop(load);
    }
    let completions: Vec<_> = (0..load.reads()).filter_map(|_| queue.wait_pop()).collect();
    let outcome = load.finish(completions).expect("a working disk");
    assert!(outcome.damaged.is_empty(), "a sound file");
}

#[test]
fn eight_threads_under_eviction_lose_no_change_and_see_only_whole_versions() {
    const STEPS: u64 = 1500;
    let world = world(FRAMES, PAGES);
    let changes: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (world, changes) = (&world, &changes);
            scope.spawn(move || {
                let mut random = SplitMix64::new(thread);
                let mut seen = vec![0; PAGES as usize];
                for _ in 0..STEPS {
                    match random.below(if thread < 4 { 8 } else { 16 }) {
                        0..=3 => {
                            let number = u32::try_from(random.below(u64::from(PAGES))).expect("a page number");
                            let mut page = world.pages.write(number).expect("a sound page");
                            let next = counter(&page) + 1;
                            fill(&mut page, next);
                            changes[number as usize].fetch_add(1, Relaxed);
                        }
                        4 => load_somewhere(&world.pages, &mut random),
                        5 if thread == 0 => {
                            world.pool.flush_file(&world.pages).expect("a working disk");
                        }
                        _ => read_somehow(&world.pages, &mut random, &mut seen),
                    }
                }
            });
        }
    });
    world.pool.flush_all().expect("a working disk");
    let statistics = world.pool.statistics();
    assert!(statistics.pages_evicted > 1000, "the pool was under pressure: {statistics:?}");
    let resident: u64 = statistics.files.iter().map(|file| file.resident).sum();
    assert_eq!(statistics.free + resident, statistics.frames, "a frame was lost");
    assert_eq!(statistics.dirty, 0);
    for (number, changes) in (0..).zip(&changes) {
        assert_eq!(on_disk(&world.file, number), changes.load(Relaxed), "page {number}");
    }
}

#[test]
fn as_many_threads_as_frames_all_get_on() {
    // Sixteen frames, the fewest there can be, and as many threads: each holds one page at a time.
    let world = world(16, 64);
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let world = &world;
            scope.spawn(move || {
                let mut random = SplitMix64::new(thread);
                for _ in 0..300 {
                    let number = u32::try_from(random.below(64)).expect("a page number");
                    let mut page = world.pages.write(number).expect("a frame in time");
                    let next = counter(&page) + 1;
                    fill(&mut page, next);
                }
            });
        }
    });
    world.pool.flush_all().expect("a working disk");
    let sum: u64 = (0..64).map(|number| on_disk(&world.file, number)).sum();
    assert_eq!(sum, 16 * 300);
}

#[test]
fn a_copy_of_a_page_that_changes_all_the_time_is_whole_or_refused() {
    let world = world(16, 64);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for change in 1..=2000 {
                fill(&mut world.pages.write(0).expect("a page"), change);
                if change % 100 == 0 {
                    // Evicts page 0: it moves to another frame, and other pages fill the frame that the reader may be
                    // reading.
                    (1..40).for_each(|number| fill(&mut world.pages.write(number).expect("a page"), u64::MAX - change));
                }
            }
            done.store(true, Relaxed);
        });
        let run = world.pages.page_run(0, 1);
        let mut words = [0; PAGE_WORDS - BODY];
        let mut last = 0;
        while !done.load(Relaxed) {
            if run.optimistic_words(0, BODY, &mut words) == Optimistic::Ok {
                assert!(words.iter().all(|&word| word == words[0]), "a copy of two versions");
                assert!((last..=2000).contains(&words[0]), "a copy of another page, or of an older version");
                last = words[0];
            }
        }
    });
    assert_eq!(counter(&world.pages.read(0).expect("a page")), 2000);
}
