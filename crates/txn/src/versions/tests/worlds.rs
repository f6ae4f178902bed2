//! A heap and a tree of a few rows, changed by some transactions at a time, whose versions go to disk now and then:
//! what snapshots see by the versions is what had been committed when they were taken.

use super::*;

const TREE: HobtId = HobtId(4);
const KEYS: u8 = 12;
const SLOTS: u16 = 16;

/// A row of the tree or the heap: its values, and whether it is deleted.
#[derive(Clone, PartialEq, Debug)]
struct Cell {
    value: u8,
    is_deleted: bool,
}

/// A row by key or slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Key(u8),
    Slot(u16),
}

/// What undoes a change.
#[derive(Clone, Debug)]
struct Change {
    place: Place,
    before: Option<Cell>,
}

struct Writer {
    running: Running,
    done: Vec<Change>,
    /// What it has locked until its end.
    locked: BTreeSet<Place>,
    /// What it has changed, undone or not.
    changed: BTreeSet<Place>,
}

/// A snapshot, and what it is to see.
struct Reader {
    snapshot: Arc<Snapshot>,
    rows: BTreeMap<Place, u8>,
    /// The writer whose it is, if any.
    own: Stamp,
}

struct World {
    all: Arc<Transactions>,
    store: Arc<VersionStore>,
    space: Arc<Space>,
    random: SplitMix64,
    cells: BTreeMap<Place, Cell>,
    committed: BTreeMap<Place, u8>,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    /// For each place, its writers with their changes that are not undone, the oldest first.
    standing: BTreeMap<Place, Vec<(Stamp, u32)>>,
}

fn image(value: u8) -> RowImage {
    RowImage::new([Some(&[value][..])])
}

fn page() -> HeapPage {
    heap_page(3)
}

impl World {
    fn note(&mut self, place: Place, writer: Stamp) {
        let standing = self.standing.entry(place).or_default();
        match standing.last_mut() {
            Some((last, count)) if *last == writer => *count += 1,
            _ => standing.push((writer, 1)),
        }
    }

    /// Changes a row as a heap or tree does: the cell first, then its version.
    fn change(&mut self, at: usize) {
        let value = self.random.below(4) as u8;
        let place = if self.random.below(2) == 0 {
            Place::Key(self.random.below(u64::from(KEYS)) as u8)
        } else {
            Place::Slot(self.random.below(u64::from(SLOTS)) as u16)
        };
        if self.writers.iter().enumerate().any(|(other, writer)| other != at && writer.locked.contains(&place)) {
            return;
        }
        self.writers[at].locked.insert(place);
        let stamp = self.writers[at].running.stamp();
        let before = self.cells.get(&place).cloned();
        let delete = self.random.below(3) == 0;
        let running = &self.writers[at].running;
        let mut steps = Vec::new();
        match place {
            Place::Key(key) => match &before {
                Some(cell) if cell.is_deleted => {
                    if cell.value != value {
                        self.store.put_replaced_key(running, TREE, &[key], image(cell.value), true);
                        steps.push(Cell { value, is_deleted: true });
                    }
                    self.store.put_key(running, TREE, &[key], Before::Absent);
                    steps.push(Cell { value, is_deleted: false });
                }
                Some(cell) if delete => {
                    self.store.put_key(running, TREE, &[key], Before::Present);
                    steps.push(Cell { is_deleted: true, ..cell.clone() });
                }
                Some(cell) if cell.value != value => {
                    self.store.put_replaced_key(running, TREE, &[key], image(cell.value), false);
                    steps.push(Cell { value, is_deleted: false });
                }
                Some(_) => return,
                None => {
                    self.store.put_key(running, TREE, &[key], Before::Absent);
                    steps.push(Cell { value, is_deleted: false });
                }
            },
            Place::Slot(slot) => match &before {
                Some(cell) if cell.is_deleted => return,
                Some(cell) if delete => {
                    self.store.put(running, page(), SlotId(slot), Before::Present);
                    steps.push(Cell { is_deleted: true, ..cell.clone() });
                }
                Some(cell) => {
                    let old = Before::Row(Arc::new(image(cell.value)));
                    self.store.put(running, page(), SlotId(slot), old);
                    steps.push(Cell { value, is_deleted: false });
                }
                None => {
                    self.store.put(running, page(), SlotId(slot), Before::Absent);
                    steps.push(Cell { value, is_deleted: false });
                }
            },
        }
        let mut before = before;
        self.writers[at].changed.insert(place);
        for cell in steps {
            self.note(place, stamp);
            self.writers[at].done.push(Change { place, before });
            self.cells.insert(place, cell.clone());
            before = Some(cell);
        }
    }

    /// Undoes the last changes of a writer, down to `left` of them.
    fn undo(&mut self, at: usize, left: usize) {
        let stamp = self.writers[at].running.stamp();
        while self.writers[at].done.len() > left {
            let Change { place, before } = self.writers[at].done.pop().expect("one is left");
            match (place, before) {
                (Place::Key(key), before) => {
                    // What was inserted stays as a ghost.
                    let ghost = self.cells[&place].clone();
                    let cell = before.unwrap_or(Cell { is_deleted: true, ..ghost });
                    self.cells.insert(place, cell);
                    self.store.undone_key(stamp, TREE, &[key]);
                }
                (Place::Slot(slot), before) => {
                    let ghost = self.cells[&place].clone();
                    let cell = before.unwrap_or(Cell { is_deleted: true, ..ghost });
                    self.cells.insert(place, cell);
                    self.store.undone(stamp, page(), SlotId(slot));
                }
            }
            let standing = self.standing.get_mut(&place).expect("noted");
            let own = standing.iter_mut().rfind(|(writer, count)| *writer == stamp && *count > 0);
            own.expect("not undone yet").1 -= 1;
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=5 if self.writers.len() < 3 => {
                self.writers.push(Writer {
                    running: self.all.begin(),
                    done: Vec::new(),
                    locked: BTreeSet::new(),
                    changed: BTreeSet::new(),
                });
            }
            6..=9 if self.readers.len() < 4 => {
                let of = self.random.below(2 * self.writers.len() as u64 + 1) as usize;
                let own = self.writers.get(of).map_or(Stamp(0), |writer| writer.running.stamp());
                let snapshot = self.all.snapshot(own, Stamp(0));
                self.readers.push(Reader { snapshot, rows: self.committed.clone(), own });
            }
            10..=12 if !self.readers.is_empty() => {
                let at = self.random.below(self.readers.len() as u64) as usize;
                drop(self.readers.remove(at));
            }
            13..=17 if !self.writers.is_empty() => {
                let at = self.random.below(self.writers.len() as u64) as usize;
                let stamp = self.writers[at].running.stamp();
                self.readers.retain(|reader| reader.own != stamp);
                if self.random.below(2) == 0 {
                    self.writers[at].running.undo_whole();
                    self.undo(at, 0);
                    drop(self.writers.remove(at));
                } else {
                    let writer = self.writers.remove(at);
                    for place in writer.done.iter().map(|done| done.place).collect::<BTreeSet<_>>() {
                        let cell = &self.cells[&place];
                        if cell.is_deleted {
                            self.committed.remove(&place);
                        } else {
                            self.committed.insert(place, cell.value);
                        }
                    }
                    drop(writer);
                }
            }
            18..=20 if !self.writers.is_empty() => {
                let at = self.random.below(self.writers.len() as u64) as usize;
                let left = self.random.below(self.writers[at].done.len() as u64 + 1) as usize;
                self.undo(at, left);
            }
            21..=22 => {
                let space = Arc::clone(&self.space) as Arc<dyn VersionSpace>;
                self.store.spill(&space).expect("there is room");
                if self.random.below(3) > 0 {
                    self.store.merge_if_due(&memory(), &space);
                }
            }
            23..=24 => self.remove_ghosts(),
            25 => self.prune(),
            _ if !self.writers.is_empty() => {
                let at = self.random.below(self.writers.len() as u64) as usize;
                self.change(at);
            }
            _ => {}
        }
    }

    fn remove_ghosts(&mut self) {
        for key in 0..KEYS {
            let is_ghost = self.cells.get(&Place::Key(key)).is_some_and(|cell| cell.is_deleted);
            if is_ghost && !needs(&self.store, TREE, &[key]) {
                self.cells.remove(&Place::Key(key));
            }
        }
    }

    fn prune(&self) {
        let generations = self.store.generations.read();
        let name = self.store.truncations.name(TREE);
        for recent in generations.recent.iter().filter(|recent| !recent.generation.is_fixed()) {
            let readers = recent.readers(&self.all);
            (0..KEYS).for_each(|key| {
                recent.tables.with_key(name, &[key], |versions| versions.prune(&readers));
            });
            recent.tables.with_page(page(), |versions| versions.prune(&readers));
        }
    }

    fn check(&self) {
        for Reader { snapshot, rows, own } in &self.readers {
            let own = self.writers.iter().find(|writer| writer.running.stamp() == *own);
            let keys = ok(self.store.key_changes(TREE, &[], None, snapshot));
            let slots = ok(self.store.changes(page(), snapshot));
            let unseen = ok(self.store.unseen_keys(TREE, &[], None, snapshot));
            let rows_unseen = ok(self.store.unseen_rows(HEAP, snapshot, false, &|_| true));
            let has_unseen = ok(self.store.has_unseen_keys(TREE, &[], None, snapshot));
            assert!(has_unseen || unseen.is_empty());
            assert_eq!(ok(self.store.has_unseen_rows(HEAP, snapshot, &|_| true)), !rows_unseen.is_empty());
            let places = (0..KEYS).map(Place::Key).chain((0..SLOTS).map(Place::Slot));
            for place in places {
                let is_own = own.is_some_and(|writer| writer.changed.contains(&place));
                let (change, by) = match place {
                    Place::Key(key) => {
                        let change = ok(self.store.key_change(TREE, &[key], snapshot));
                        let listed = keys.iter().find(|(listed, _)| **listed == [key]).map(|(_, before)| before);
                        assert_eq!(listed, change.as_ref(), "{place:?}");
                        let by = ok(self.store.key_changed_by(TREE, &[key], snapshot));
                        let is_listed = unseen.iter().any(|(other, _)| **other == [key]);
                        assert!(is_listed == by.is_some() || is_own, "{place:?}");
                        assert!(has_unseen || by.is_none(), "{place:?}");
                        (change, by)
                    }
                    Place::Slot(slot) => {
                        let change = ok(self.store.change(page(), SlotId(slot), snapshot));
                        let listed = slots.iter().find(|(listed, _)| listed.0 == slot).map(|(_, before)| before);
                        assert_eq!(listed, change.as_ref(), "{place:?}");
                        let by = ok(self.store.changed_by(page(), SlotId(slot), snapshot));
                        // Rows of which a change stands, and not only the last one.
                        let is_listed = rows_unseen.contains(&(page().page, SlotId(slot)));
                        assert!(is_listed || by.is_none(), "{place:?}");
                        (change, by)
                    }
                };
                let cell = self.cells.get(&place);
                let seen = match change {
                    None => cell.filter(|cell| !cell.is_deleted).map(|cell| cell.value),
                    Some(Before::Absent) => None,
                    Some(Before::Present) => Some(cell.expect("it is needed").value),
                    Some(Before::Row(row)) => row.value(0).map(|bytes| bytes[0]),
                };
                // What its own transaction has changed it sees as it is now.
                let current = cell.filter(|cell| !cell.is_deleted).map(|cell| cell.value);
                let expected = if is_own { current } else { rows.get(&place).copied() };
                assert_eq!(seen, expected, "{place:?}");
                let standing = self.standing.get(&place).map_or(&[][..], |all| all);
                let last = standing.iter().rfind(|(_, count)| *count > 0).map(|(writer, _)| *writer);
                assert_eq!(by, last.filter(|writer| !snapshot.sees(*writer)), "{place:?}");
            }
        }
    }
}

#[test]
fn snapshots_see_what_was_committed_whatever_is_on_disk() {
    for seed in 0..if cfg!(debug_assertions) { 12 } else { 2_000 } {
        let all: Arc<Transactions> = Arc::default();
        // Generations of a few hundred bytes to a few thousand.
        all.keep_versions_in(&MemoryBudget::new(1 << 30), Some(800 << (seed % 6)));
        let mut world = World {
            all,
            store: VersionStore::new(),
            space: Space::of(u64::MAX),
            random: SplitMix64::new(seed),
            cells: BTreeMap::new(),
            committed: BTreeMap::new(),
            writers: Vec::new(),
            readers: Vec::new(),
            standing: BTreeMap::new(),
        };
        for _ in 0..3_000 {
            world.step();
            if world.random.below(10) == 0 {
                world.check();
            }
        }
        world.check();
        let World { all, store, space, mut writers, readers, .. } = world;
        writers.clear();
        drop(readers);
        assert!(store.is_empty(), "seed {seed}: {:?}", store.extent());
        assert_eq!((all.version_bytes(), space.left.load(Ordering::Relaxed)), (0, u64::MAX), "seed {seed}");
    }
}
