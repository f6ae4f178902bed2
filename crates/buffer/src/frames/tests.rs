//! Latches at the level of the word: which thread waits, which one wakes, which waits are recorded.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hobt_instruments::{WaitCounters, waits};

use super::*;

fn words_with_page(number: u32) -> (Arc<StateWords>, Vec<OwnedFrame>) {
    let (memory, mut free) = reserve(16).expect("memory");
    let words = Arc::new(StateWords::new(Arc::new(memory), Arc::default(), FileWaits::default(), FileId(1)));
    let claim = words.get_or_allocate(number).try_claim(&words).expect("absent");
    claim.publish(free.pop().expect("a free frame"));
    (words, free)
}

fn guard<G>(latched: Latched<G>) -> G {
    match latched {
        Latched::Guard(guard) => guard,
        Latched::Absent => panic!("the page is absent"),
        Latched::Busy => panic!("the page is busy"),
    }
}

#[test]
fn a_waiter_is_woken_by_the_last_holder_and_books_a_page_latch_wait() {
    let (words, _free) = words_with_page(3);
    let cell = words.get(3).expect("a word");
    let counters = Arc::new(WaitCounters::new());
    let changed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (first, second) = (guard(cell.share()), guard(cell.share()));
        scope.spawn(|| {
            let _counters = waits::set_statement_counters(Some(counters.clone()));
            let mut page = guard(cell.exclude(None));
            page[0] = 1;
            changed.store(true, Relaxed);
        });
        while !cell.load().has(WAITERS) {
            std::thread::yield_now();
        }
        drop(first);
        assert!(!changed.load(Relaxed), "a reader is left");
        drop(second);
    });
    assert_eq!(guard(cell.share())[0], 1);
    assert!(cell.load().is_dirty() && !cell.load().has(WAITERS));
    assert_eq!(words.dirty(), 1);
    let rows = counters.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].wait_type, rows[0].waiting_tasks_count), (WaitType::PageLatchEx, 1));
}

#[test]
fn who_waits_for_a_load_that_is_given_up_finds_the_page_absent() {
    let (words, _free) = words_with_page(0);
    let cell = words.get(9).expect("the same segment");
    let claim = cell.try_claim(&words).expect("absent");
    assert!(cell.try_claim(&words).is_none(), "one claim a page");
    let counters = Arc::new(WaitCounters::new());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let _counters = waits::set_statement_counters(Some(counters.clone()));
            matches!(cell.share(), Latched::Absent)
        });
        while !cell.load().has(WAITERS) {
            std::thread::yield_now();
        }
        drop(claim);
        assert!(waiter.join().expect("the waiter ends"));
    });
    assert_eq!(counters.rows()[0].wait_type, WaitType::PageIoLatchSh);
    assert!(cell.load() == StateWord(0));
}

#[test]
fn a_frame_leaves_its_page_only_when_clean_unheld_and_unused() {
    let (words, _free) = words_with_page(1);
    let cell = words.get(1).expect("a word");
    let frame = cell.load().frame();
    let shared = guard(cell.share());
    assert!(matches!(cell.try_evict(frame, false), Evicted::No), "held");
    drop(shared);
    assert!(matches!(cell.try_evict(frame, true), Evicted::Spared), "used: a second chance");
    assert!(matches!(cell.try_evict(frame + 1, true), Evicted::No), "another's frame");
    guard(cell.try_exclude())[0] = 1;
    assert!(matches!(cell.try_evict(frame, false), Evicted::Dirty));
    let shared = guard(cell.try_share_quietly());
    shared.mark_clean();
    drop(shared);
    let before = cell.load().version();
    assert!(matches!(cell.try_evict(frame, false), Evicted::Frame(taken, _) if taken.number() == frame));
    assert!(cell.load().is_absent() && cell.load().version() != before);
    assert_eq!((words.resident(), words.dirty()), (0, 0));
}

#[test]
fn a_copy_that_straddles_a_change_is_refused() {
    let (words, _free) = words_with_page(1);
    let cell = words.get(1).expect("a word");
    let mut out = [0; 4];
    let mut page = guard(cell.try_exclude());
    page[..8].copy_from_slice(&7_u64.to_ne_bytes());
    assert_eq!(cell.copy_words(0, &mut out), Optimistic::Busy);
    let page = page.downgrade();
    assert_eq!(cell.copy_words(0, &mut out), Optimistic::Ok);
    assert_eq!(out[0], 7);
    drop(page);
    assert_eq!(words.get(2).expect("a word").copy_words(0, &mut out), Optimistic::NotResident);
}

#[test]
fn many_who_wait_for_one_page_all_get_it_and_none_is_left_asleep() {
    const ROUNDS: u32 = 2_000;
    let (words, _free) = words_with_page(5);
    let cell = words.get(5).expect("a word");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut page = guard(cell.exclude(None));
                    let count = u32::from_le_bytes(page[..4].try_into().expect("four bytes"));
                    // Long enough that the other threads fall asleep.
                    std::thread::yield_now();
                    page[..4].copy_from_slice(&(count + 1).to_le_bytes());
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let page = guard(cell.share());
                    let before = page[0];
                    std::thread::yield_now();
                    assert_eq!(page[0], before, "nobody changes a page that is read");
                }
            });
        }
        // A thread whose deadline passes hands its wake to the next waiter.
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let soon = Instant::now() + Duration::from_micros(20);
                drop(cell.exclude(Some(soon)));
            }
        });
    });
    let page = guard(cell.share());
    assert_eq!(u32::from_le_bytes(page[..4].try_into().expect("four bytes")), 6 * ROUNDS);
    assert!(!cell.load().has(WAITERS), "nobody is left");
}
