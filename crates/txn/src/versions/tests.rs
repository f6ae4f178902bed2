//! Versions against plain models of them, in memory and on disk.

use std::collections::{BTreeMap, BTreeSet};

use hobt_base::{FileId, SplitMix64};
use hobt_instruments::schedule::Mutex;

use super::*;
use crate::{MemoryBudget, Transactions};

mod worlds;

const HEAP: HobtId = HobtId(7);

/// Files in memory, of a limited size.
#[derive(Debug, Default)]
struct Space {
    left: AtomicU64,
    /// Files that merges write wait, once they have something, until a file was refused room.
    merges_wait: AtomicBool,
    has_refused: AtomicBool,
}

impl Space {
    fn of(bytes: u64) -> Arc<Space> {
        Arc::new(Space { left: AtomicU64::new(bytes), ..Space::default() })
    }
}

#[derive(Debug)]
struct File {
    space: Arc<Space>,
    bytes: Mutex<Vec<u8>>,
}

impl VersionSpace for Space {
    fn create_file(self: Arc<Space>) -> std::result::Result<Box<dyn VersionFile>, SpaceError> {
        Ok(Box::new(File { space: self, bytes: Mutex::default() }))
    }
}

impl VersionFile for File {
    fn append(&self, bytes: &[u8]) -> std::result::Result<(), SpaceError> {
        let count = bytes.len() as u64;
        let take = |left: u64| left.checked_sub(count);
        if self.space.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.space.has_refused.store(true, Ordering::Relaxed);
            return Err(SpaceError { message: "no room".to_owned(), is_full: true });
        }
        self.bytes.lock().extend_from_slice(bytes);
        let is_of_merge = std::thread::current().name() == Some("versions");
        while is_of_merge
            && self.space.merges_wait.load(Ordering::Relaxed)
            && !self.space.has_refused.load(Ordering::Relaxed)
        {
            std::thread::yield_now();
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::result::Result<(), SpaceError> {
        let bytes = self.bytes.lock();
        let start = usize::try_from(offset).expect("small");
        buffer.copy_from_slice(&bytes[start..start + buffer.len()]);
        Ok(())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.space.left.fetch_add(self.bytes.get_mut().len() as u64, Ordering::Relaxed);
    }
}

/// The memory of versions that take as much of it as they want. Merges make their caller wait.
fn memory() -> Arc<VersionMemory> {
    let account = crate::MemoryAccount::new(&MemoryBudget::new(1 << 40), "Row versions");
    Arc::new(VersionMemory::new(account, u64::MAX, u64::MAX))
}

fn ok<T>(found: Result<T>) -> T {
    found.expect("versions can be read")
}

fn needs(store: &Arc<VersionStore>, hobt: HobtId, key: &[u8]) -> bool {
    ok(store.needs_key(hobt, key))
}

fn heap_page(number: u32) -> HeapPage {
    HeapPage { hobt: HEAP, page: PageId::new(FileId(1), number) }
}

#[test]
fn versions_of_a_page_are_those_of_the_heap_that_had_it() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let reader = all.snapshot(Stamp(0), Stamp(0));
    let (page, slot) = (heap_page(9), SlotId(3));
    let writer = all.begin();
    store.put(&writer, page, slot, Before::Present);
    let later = HeapPage { hobt: HobtId(8), ..page };
    assert_eq!((ok(store.changes(later, &reader)), ok(store.change(later, slot, &reader))), (vec![], None));
    assert!(!ok(store.is_changed(later, slot, &reader)) && !ok(store.has_unseen_rows(later.hobt, &reader, &|_| true)));
    store.put(&writer, later, slot, Before::Absent);
    assert_eq!(ok(store.changes(later, &reader)), vec![(slot, Before::Absent)]);
    assert_eq!(ok(store.changes(page, &reader)), vec![(slot, Before::Present)]);
}

#[test]
fn what_comes_into_a_truncated_tree_leaves_the_versions_of_what_was_there() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let hobt = HobtId(4);
    let reader = all.snapshot(Stamp(0), Stamp(0));
    let old = Before::Row(Arc::new(RowImage::new([Some(&b"old"[..])])));
    let (earlier, writer) = (all.begin(), all.begin());
    store.put_key(&earlier, hobt, b"deleted", Before::Present);
    store.put_key(&writer, hobt, b"changed", old.clone());
    let before = ok(store.key_changes(hobt, b"", None, &reader));
    for truncations in 1..=2 {
        (0..truncations).for_each(|_| {
            store.set_keys_aside(hobt);
            assert_eq!(ok(store.key_changes(hobt, b"", None, &reader)), vec![]);
            for key in [&b"deleted"[..], b"changed", b"other"] {
                store.put_key(&writer, hobt, key, Before::Absent);
                store.undone_key(writer.stamp(), hobt, key);
                store.put_replaced_key(&writer, hobt, key, RowImage::new([Some(&b"new"[..])]), true);
            }
        });
        (0..truncations).for_each(|_| store.put_keys_back(hobt));
        assert_eq!(ok(store.key_changes(hobt, b"", None, &reader)), before);
        assert!(ok(store.is_key_changed(hobt, b"changed", &reader)), "it was changed before");
    }
    store.set_keys_aside(hobt);
    store.drop_keys_aside(hobt);
    assert_eq!(ok(store.key_changes(hobt, b"", None, &reader)), vec![], "of rows that are gone for good");
    drop((earlier, writer, reader));
    assert!(store.is_empty() && !needs(&store, hobt, b"changed"));
    assert_eq!(store.truncations.count.load(Ordering::Relaxed), 0);
}

#[test]
fn what_was_undone_is_no_change_but_an_older_copy_still_finds_it() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let (page, slot) = (heap_page(9), SlotId(3));
    let reader = all.snapshot(Stamp(0), Stamp(0));
    let writer = all.begin();
    store.put(&writer, page, slot, Before::Present);
    store.put(&writer, page, slot, Before::Absent);
    assert!(ok(store.is_changed(page, slot, &reader)));
    store.undone(writer.stamp(), page, slot);
    assert!(ok(store.is_changed(page, slot, &reader)), "the first of the two stands");
    store.undone(writer.stamp(), page, slot);
    assert!(!ok(store.is_changed(page, slot, &reader)));
    assert_eq!(ok(store.changes(page, &reader)), vec![(slot, Before::Present)]);
}

#[test]
fn a_row_whose_delete_was_undone_has_the_values_that_a_newer_version_tells_of() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let (page, slot) = (heap_page(9), SlotId(3));
    let reader = all.snapshot(Stamp(0), Stamp(0));
    let old = Before::Row(Arc::new(RowImage::new([Some(&b"old"[..])])));
    let between = Before::Row(Arc::new(RowImage::new([Some(&b"between"[..])])));
    let first = all.begin();
    store.put(&first, page, slot, Before::Present);
    store.undone(first.stamp(), page, slot);
    store.put(&first, page, slot, old.clone());
    assert_eq!(ok(store.changes(page, &reader)), vec![(slot, old.clone())]);
    assert_eq!(ok(store.change(page, slot, &reader)), Some(old.clone()));
    // Another delete that is undone, and another row in its place: the oldest row of the versions counts.
    store.put(&first, page, slot, Before::Present);
    store.undone(first.stamp(), page, slot);
    let second = all.begin();
    store.put(&second, page, slot, between);
    assert_eq!(ok(store.changes(page, &reader)), vec![(slot, old.clone())]);
    assert_eq!(ok(store.change(page, slot, &reader)), Some(old));
}

#[test]
fn what_others_have_changed_and_not_undone_is_told_until_it_is_seen() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let (hobt, key) = (HobtId(4), &b"k"[..]);
    let (page, other) = (heap_page(9), heap_page(10));
    let (writer, own) = (all.begin(), all.begin());
    let reader = all.snapshot(own.stamp(), Stamp(0));
    store.put(&writer, page, SlotId(3), Before::Absent);
    store.put(&writer, page, SlotId(5), Before::Present);
    store.put(&writer, other, SlotId(1), Before::Present);
    store.put(&own, page, SlotId(7), Before::Absent);
    let of_page = |inserts_only| ok(store.unseen_rows(HEAP, &reader, inserts_only, &|id| id == page.page));
    assert_eq!(of_page(false), vec![(page.page, SlotId(3)), (page.page, SlotId(5))]);
    assert_eq!(of_page(true), vec![(page.page, SlotId(3))]);
    store.undone(writer.stamp(), page, SlotId(3));
    assert_eq!(of_page(true), vec![]);
    assert!(
        ok(store.has_unseen_rows(HEAP, &reader, &|id| id == other.page))
            && !ok(store.has_unseen_rows(HEAP, &reader, &|_| false))
    );
    store.put_key(&own, hobt, b"a", Before::Absent);
    assert!(!ok(store.has_unseen_keys(hobt, b"", None, &reader)), "its own");
    store.put_key(&writer, hobt, key, Before::Absent);
    assert!(ok(store.has_unseen_keys(hobt, b"k", Some(b"l"), &reader)));
    assert!(
        !ok(store.has_unseen_keys(hobt, b"l", None, &reader))
            && !ok(store.has_unseen_keys(hobt, b"", Some(b"k"), &reader))
    );
    store.undone_key(writer.stamp(), hobt, key);
    assert!(!ok(store.has_unseen_keys(hobt, b"", None, &reader)));
    store.put_key(&writer, hobt, key, Before::Absent);
    drop(writer);
    let later = all.snapshot(own.stamp(), Stamp(0));
    assert!(ok(store.has_unseen_keys(hobt, b"", None, &reader)), "it has committed since");
    assert!(!ok(store.has_unseen_keys(hobt, b"", None, &later)) && !ok(store.has_unseen_rows(HEAP, &later, &|_| true)));
}

#[test]
fn a_transaction_has_one_version_of_a_key_and_it_is_what_was_before_all_its_changes() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let (hobt, key) = (HobtId(4), &b"k"[..]);
    let row = |text: &[u8]| RowImage::new([Some(text)]);
    let oldest = all.snapshot(Stamp(0), Stamp(0));
    // A row is deleted, and another one replaces its ghost.
    let first = all.begin();
    store.put_key(&first, hobt, key, Before::Present);
    store.put_replaced_key(&first, hobt, key, row(b"old"), true);
    assert_eq!(store.extent().versions, 1);
    let was = Before::Row(Arc::new(row(b"old")));
    assert_eq!(ok(store.key_change(hobt, key, &oldest)), Some(was.clone()));
    assert!(ok(store.is_key_changed(hobt, key, &oldest)));
    store.undone_key(first.stamp(), hobt, key);
    assert!(ok(store.is_key_changed(hobt, key, &oldest)), "the first of the two stands");
    store.undone_key(first.stamp(), hobt, key);
    assert!(!ok(store.is_key_changed(hobt, key, &oldest)), "all is as it was");
    store.put_key(&first, hobt, key, Before::Present);
    drop(first);
    // A later change: a snapshot that sees the first transaction sees what that one left.
    let between = all.snapshot(Stamp(0), Stamp(0));
    let second = all.begin();
    store.put_key(&second, hobt, key, Before::Absent);
    store.put_key(&second, hobt, b"m", Before::Absent);
    assert_eq!(ok(store.key_changes(hobt, b"", None, &oldest)).len(), 2);
    assert_eq!(ok(store.key_changes(hobt, b"k", Some(b"m"), &between)), vec![(key.into(), Before::Absent)]);
    assert_eq!(ok(store.key_changes(hobt, b"l", Some(b"l"), &between)), vec![]);
    assert_eq!(ok(store.key_change(HobtId(5), key, &oldest)), None, "another tree");
    assert_eq!(ok(store.key_change(hobt, key, &oldest)), Some(was));
    drop((oldest, second));
    assert!(!needs(&store, HobtId(5), key) && needs(&store, hobt, b"m"));
    drop(between);
    assert!(store.is_empty() && !needs(&store, hobt, key));
}

/// Of many random changes, runs of rows say what versions of single rows say.
#[test]
fn runs_of_rows_say_what_single_rows_would() {
    let mut random = hobt_base::SplitMix64::new(3);
    for _ in 0..300 {
        let transactions = Arc::new(Transactions::default());
        let (store, page) = (VersionStore::new(), heap_page(5));
        let mut readers = vec![transactions.snapshot(transactions.next(), Stamp(0))];
        // Each version of a row with its writer, its former state, and whether it is undone: the oldest first.
        let mut model: Vec<(SlotId, Stamp, Before, bool)> = Vec::new();
        let mut ended = Vec::new();
        for _ in 0..1 + random.below(4) {
            let writer = transactions.begin();
            let first = random.below(20) as u16;
            for step in 0..random.below(30) as u16 {
                let slot = SlotId(if random.below(4) == 0 { random.below(40) as u16 } else { first + step % 15 });
                let known = |(at, by, _, is_undone): &(SlotId, Stamp, Before, bool)| {
                    *at == slot && *by == writer.stamp() && !is_undone
                };
                match random.below(4) {
                    0 => {
                        store.undone(writer.stamp(), page, slot);
                        if let Some(at) = model.iter().rposition(known) {
                            model[at].3 = true;
                        }
                    }
                    kind => {
                        let row = Arc::new(RowImage::new([Some(&[kind as u8][..])]));
                        let before = [Before::Absent, Before::Present, Before::Row(row)][kind as usize - 1].clone();
                        store.put(&writer, page, slot, before.clone());
                        model.push((slot, writer.stamp(), before, false));
                    }
                }
            }
            if random.below(2) == 0 {
                readers.push(transactions.snapshot(transactions.next(), Stamp(0)));
            }
            ended.push(writer);
            if random.below(2) == 0 {
                readers.push(transactions.snapshot(transactions.next(), Stamp(0)));
            }
        }
        assert_eq!(store.extent().versions, model.len());
        for reader in &readers {
            let mut unseen = Vec::new();
            let mut changes = Vec::new();
            for slot in (0..60).map(SlotId) {
                let of_slot: Vec<_> = model.iter().filter(|(at, ..)| *at == slot).collect();
                let last = of_slot.iter().rfind(|(.., is_undone)| !is_undone).map(|(_, by, ..)| *by);
                let by = last.filter(|by| !reader.sees(*by));
                assert_eq!(ok(store.changed_by(page, slot, reader)), by, "{slot:?} of {model:?}");
                let hidden = of_slot.iter().rev().take_while(|(_, by, ..)| !reader.sees(*by));
                let state = hidden.fold(None::<&Before>, |newer, (_, _, before, _)| Some(before.beneath(newer)));
                assert_eq!(ok(store.change(page, slot, reader)).as_ref(), state, "{slot:?} of {model:?}");
                changes.extend(state.map(|state| (slot, state.clone())));
                let stands = of_slot.iter().any(|(_, by, _, is_undone)| !is_undone && !reader.sees(*by));
                unseen.extend(stands.then_some((page.page, slot)));
            }
            assert_eq!(ok(store.changes(page, reader)), changes);
            assert_eq!(ok(store.unseen_rows(HEAP, reader, false, &|_| true)), unseen);
        }
        drop((readers, ended));
        assert!(store.is_empty());
    }
}

#[test]
fn a_page_that_is_filled_and_taken_back_has_few_versions() {
    let transactions = Arc::new(Transactions::default());
    let (store, page) = (VersionStore::new(), heap_page(5));
    let writer = transactions.begin();
    (0..200).for_each(|slot| store.put(&writer, page, SlotId(slot), Before::Absent));
    assert_eq!(store.recent_bytes(), VERSION_BYTES as u64);
    for slot in (0..200).rev() {
        store.undone(writer.stamp(), page, SlotId(slot));
        assert!(store.extent().memory_bytes <= 2 * size_of::<Version>());
    }
    assert_eq!(store.extent().versions, 200);
}

#[test]
fn readers_are_given_up_only_when_the_disk_is_full() {
    let budget = MemoryBudget::new(1 << 30);
    let all: Arc<Transactions> = Arc::default();
    let space = Space::of(40_000);
    all.keep_versions_in(&budget, Some(4_000));
    all.spill_versions_to(Arc::clone(&space) as Arc<dyn VersionSpace>, false);
    let (store, row) = (VersionStore::new(), RowImage::new([Some(&[7; 100][..])]));
    let change = |page: u32| {
        all.make_version_room()?;
        let writer = all.begin();
        store.put(&writer, heap_page(page), SlotId(0), Before::Row(Arc::new(row.clone())));
        Ok::<(), crate::VersionsFull>(())
    };
    let (first, mut page) = (all.snapshot(Stamp(0), Stamp(0)), 1);
    while space.left.load(Ordering::Relaxed) > 20_000 {
        change(page).expect("there is disk space");
        page += 1;
    }
    let second = all.snapshot(Stamp(0), Stamp(0));
    let seen = Before::Row(Arc::new(row.clone()));
    assert_eq!(ok(store.change(heap_page(1), SlotId(0), &first)), Some(seen.clone()));
    assert_eq!(ok(store.change(heap_page(1), SlotId(0), &second)), None);
    for _ in 0..1_000 {
        change(page).expect("the oldest reader is given up");
        page += 1;
        if store.change(heap_page(1), SlotId(0), &first).is_err() {
            break;
        }
    }
    assert_eq!(store.change(heap_page(1), SlotId(0), &first), Err(VersionError::GivenUp));
    assert_eq!(ok(store.change(heap_page(page - 1), SlotId(0), &second)), Some(seen), "it has room now");
    assert!(all.version_bytes() < 4_000 + 4 * 40_000, "and the memory that runs take is counted");
    drop((first, second));
    assert!(store.is_empty());
    assert_eq!((all.version_bytes(), budget.used(), space.left.load(Ordering::Relaxed)), (0, 0, 40_000));
    // Versions of a running transaction are nobody's but its own.
    let writer = all.begin();
    let mut refused = Ok(());
    for page in 1..10_000 {
        refused = all.make_version_room();
        if refused.is_err() {
            break;
        }
        store.put(&writer, heap_page(page), SlotId(0), Before::Row(Arc::new(row.clone())));
    }
    let refused = refused.expect_err("memory and disk are full");
    assert_eq!(refused.why, "no room");
    drop(writer);
    assert_eq!((all.version_bytes(), space.left.load(Ordering::Relaxed)), (0, 40_000));
}

#[test]
fn a_row_that_changes_often_keeps_what_its_readers_need() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let row = |number: u32| RowImage::new([Some(&number.to_le_bytes()[..])]);
    let (page, key, hobt) = (heap_page(4), &b"k"[..], HobtId(9));
    let mut readers = Vec::new();
    for number in 0..20_000_u32 {
        if [0, 5, 9_000].contains(&number) {
            readers.push((number, all.snapshot(Stamp(0), Stamp(0))));
        }
        let writer = all.begin();
        store.put(&writer, page, SlotId(1), Before::Row(Arc::new(row(number))));
        store.put_replaced_key(&writer, hobt, key, row(number), false);
    }
    assert!(store.extent().versions < 2_000, "{:?}", store.extent());
    for (number, reader) in &readers {
        let seen = Some(Before::Row(Arc::new(row(*number))));
        assert_eq!(ok(store.change(page, SlotId(1), reader)), seen);
        assert_eq!(ok(store.key_change(hobt, key, reader)), seen);
        assert!(ok(store.is_changed(page, SlotId(1), reader)) && ok(store.is_key_changed(hobt, key, reader)));
    }
    drop(readers);
    assert!(store.is_empty());
}

/// With all the memory that there is, what a reader keeps goes to disk, where it takes less time to look through.
#[test]
fn a_reader_that_is_open_for_long_has_few_places_to_look() {
    let budget = MemoryBudget::new(1 << 40);
    let all: Arc<Transactions> = Arc::default();
    let space = Space::of(u64::MAX);
    all.keep_versions_in(&budget, None);
    all.spill_versions_to(Arc::clone(&space) as Arc<dyn VersionSpace>, false);
    let (store, hobt) = (VersionStore::new(), HobtId(9));
    let row = |number: u32| RowImage::new([Some(&number.to_le_bytes()[..]), Some(&[7; 200])]);
    let reader = all.snapshot(Stamp(0), Stamp(0));
    for number in 0..150_000_u32 {
        all.make_version_room().expect("there is room");
        let writer = all.begin();
        let key = (number % 20_000).to_be_bytes();
        store.put_replaced_key(&writer, hobt, &key, row(number / 20_000), false);
    }
    {
        let generations = store.generations.read();
        let of_runs: usize = generations.runs.iter().map(|run| run.generations().len()).sum();
        let places = (generations.recent.len(), generations.runs.len(), of_runs);
        assert!(places.0 < 14 && (1..10).contains(&places.1) && places.2 < 10, "{places:?}");
    }
    assert_eq!(ok(store.key_changes(hobt, &[], None, &reader)).len(), 20_000);
    for number in (0..20_000_u32).step_by(777) {
        let before = ok(store.key_change(hobt, &number.to_be_bytes(), &reader));
        assert_eq!(before, Some(Before::Row(Arc::new(row(0)))));
    }
    drop(reader);
    assert!(store.is_empty());
    assert_eq!((all.version_bytes(), budget.used(), space.left.load(Ordering::Relaxed)), (0, 0, u64::MAX));
}

#[test]
fn what_a_newer_generation_undoes_is_not_taken_for_the_last_change() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let space = Space::of(u64::MAX) as Arc<dyn VersionSpace>;
    let (hobt, key) = (HobtId(4), &b"k"[..]);
    let row = |number: u8| RowImage::new([Some(&[number][..])]);
    let reader = all.snapshot(Stamp(0), Stamp(0));
    let (mut standing, mut undone) = (Stamp(0), None);
    for number in 0..3 {
        let writer = all.begin();
        store.put_replaced_key(&writer, hobt, key, row(number), false);
        if number == 1 {
            standing = writer.stamp();
        }
        undone = Some(writer);
    }
    assert!(store.spill(&space).expect("there is room"));
    for other in 0..3_u8 {
        store.put_key(&all.begin(), hobt, &[other], Before::Present);
        assert!(store.spill(&space).expect("there is room"));
    }
    let undone = undone.expect("the last writer");
    store.undone_key(undone.stamp(), hobt, key);
    drop(undone);
    store.merge_if_due(&memory(), &space);
    assert_eq!(store.generations.read().runs.len(), 1, "all writers have ended");
    assert_eq!(ok(store.key_changed_by(hobt, key, &reader)), Some(standing));
    assert_eq!(ok(store.key_change(hobt, key, &reader)), Some(Before::Row(Arc::new(row(0)))));
}

#[test]
fn a_change_beneath_an_undone_one_of_its_own_is_found() {
    let (all, store): (Arc<Transactions>, _) = (Arc::default(), VersionStore::new());
    let space = Space::of(u64::MAX) as Arc<dyn VersionSpace>;
    let (hobt, key) = (HobtId(4), &b"k"[..]);
    let own = all.begin();
    let reader = all.snapshot(own.stamp(), Stamp(0));
    store.put_key(&all.begin(), hobt, key, Before::Absent);
    store.put_key(&own, hobt, key, Before::Present);
    assert!(store.spill(&space).expect("there is room"));
    assert!(!ok(store.has_unseen_keys(hobt, &[], None, &reader)), "its own is the last");
    store.undone_key(own.stamp(), hobt, key);
    assert!(ok(store.has_unseen_keys(hobt, &[], None, &reader)));
}

/// Fills `store` with the earlier states of rows, in this many runs of one generation each.
fn spill_runs(all: &Arc<Transactions>, store: &Arc<VersionStore>, space: &Arc<Space>, runs: u32, rows: u32) {
    let space = Arc::clone(space) as Arc<dyn VersionSpace>;
    let row = RowImage::new([Some(&[7; 1000][..])]);
    for run in 0..runs {
        for number in 0..rows {
            let key = (run * rows + number).to_be_bytes();
            store.put_replaced_key(&all.begin(), HobtId(9), &key, row.clone(), false);
        }
        assert!(store.spill(&space).expect("there is room"));
    }
}

#[test]
fn a_merge_that_the_disk_has_no_room_for_is_not_tried_again_at_once() {
    let (all, store, space) = (Arc::<Transactions>::default(), VersionStore::new(), Space::of(1_300_000));
    let reader = all.snapshot(Stamp(0), Stamp(0));
    spill_runs(&all, &store, &space, 4, 200);
    let (memory, disk) = (memory(), Arc::clone(&space) as Arc<dyn VersionSpace>);
    store.merge_if_due(&memory, &disk);
    assert!(space.has_refused.swap(false, Ordering::Relaxed), "four runs are merged");
    assert_eq!(store.generations.read().runs.len(), 4, "they stay");
    store.merge_if_due(&memory, &disk);
    assert!(!space.has_refused.load(Ordering::Relaxed), "it is not tried again");
    assert_eq!(ok(store.key_changes(HobtId(9), &[], None, &reader)).len(), 800);
    // Small runs are merged in the meantime. With each merge that has room, larger ones are.
    spill_runs(&all, &store, &space, 4, 20);
    store.merge_if_due(&memory, &disk);
    assert_eq!(store.generations.read().runs.len(), 5);
    space.left.fetch_add(100_000_000, Ordering::Relaxed);
    spill_runs(&all, &store, &space, 4, 10);
    store.merge_if_due(&memory, &disk);
    spill_runs(&all, &store, &space, 4, 200);
    store.merge_if_due(&memory, &disk);
    assert!(store.generations.read().runs.len() < 4, "{}", store.generations.read().runs.len());
    assert_eq!(ok(store.key_changes(HobtId(9), &[], None, &reader)).len(), 800);
}

#[test]
fn a_merge_gives_its_room_up_before_a_reader_loses_its_snapshot() {
    let all: Arc<Transactions> = Arc::default();
    let space = Space::of(7_500_000);
    space.merges_wait.store(true, Ordering::Relaxed);
    all.keep_versions_in(&MemoryBudget::new(1 << 30), Some(1_200_000));
    all.spill_versions_to(Arc::clone(&space) as Arc<dyn VersionSpace>, true);
    let (store, row) = (VersionStore::new(), RowImage::new([Some(&[7; 1000][..])]));
    let reader = all.snapshot(Stamp(0), Stamp(0));
    // Some 7 MB on disk: with the file of a merge more than there is room for, and without it less.
    for number in 0..8_000_u32 {
        all.make_version_room().expect("there is room");
        store.put_replaced_key(&all.begin(), HobtId(9), &number.to_be_bytes(), row.clone(), false);
    }
    assert!(space.has_refused.load(Ordering::Relaxed), "a merge was under way when the disk was full");
    assert_eq!(ok(store.key_changes(HobtId(9), &[], None, &reader)).len(), 8_000);
}

#[test]
fn few_versions_of_many_databases_stay_in_memory_beside_a_reader() {
    let all: Arc<Transactions> = Arc::default();
    let space = Space::of(1 << 30);
    all.keep_versions_in(&MemoryBudget::new(1 << 30), None);
    all.spill_versions_to(Arc::clone(&space) as Arc<dyn VersionSpace>, false);
    let stores: Vec<_> = (0..100).map(|_| VersionStore::new()).collect();
    let reader = all.snapshot(Stamp(0), Stamp(0));
    for store in &stores {
        all.make_version_room().expect("there is room");
        store.put_key(&all.begin(), HobtId(9), b"k", Before::Absent);
    }
    assert_eq!(space.left.load(Ordering::Relaxed), 1 << 30, "nothing is on disk");
    assert!(stores.iter().all(|store| ok(store.is_key_changed(HobtId(9), b"k", &reader))));
}

#[test]
fn a_large_transaction_has_few_files() {
    let all: Arc<Transactions> = Arc::default();
    let space = Space::of(1 << 40);
    let budget = MemoryBudget::new(1 << 30);
    all.keep_versions_in(&budget, Some(40_000));
    all.spill_versions_to(Arc::clone(&space) as Arc<dyn VersionSpace>, false);
    let store = VersionStore::new();
    let (reader, writer) = (all.snapshot(Stamp(0), Stamp(0)), all.begin());
    for number in 0..100_000_u32 {
        all.make_version_room().expect("there is room");
        store.put_key(&writer, HobtId(9), &number.to_be_bytes(), Before::Absent);
    }
    let runs = store.generations.read().runs.len();
    assert!(runs < 20, "{runs} files");
    let changed = |low: u32| {
        let high = (low + 10).to_be_bytes();
        ok(store.key_changes(HobtId(9), &low.to_be_bytes(), Some(&high), &reader)).len()
    };
    assert!((0..100_000).step_by(7_777).all(|low| changed(low) == 10));
    drop((reader, writer));
    assert_eq!((all.version_bytes(), space.left.load(Ordering::Relaxed)), (0, 1 << 40));
}
