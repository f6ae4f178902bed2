//! What readers of a tree see while others write: rows as they were committed at the reader's first read, each once.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use hobt_access::scan::{Scan, ScanSettings, ScanWorker};
use hobt_access::{BTree, Direction, KeyRange, RowStore, TreeSeek};
use hobt_base::SplitMix64;
use hobt_txn::{IoCounts, StatementContext, Transactions};
use hobt_types::{MaxLength, SqlType};

use super::{Model, Shape, build, change, create, findings, shapes};
use crate::versions::{end, statement};
use crate::world::{FileSize, Row, World, image, loaded, sorted};
use show::{OneByOne, count, rows_of, seen_by};

pub(super) use show::{Walk, settings};

mod show;
mod threads;

/// Keys of the shape, in order.
fn key_prefixes(tree: &BTree, shape: &Shape, random: &mut SplitMix64, keys: u64, count: usize) -> Vec<Vec<u8>> {
    let mut prefixes: Vec<Vec<u8>> = (0..count)
        .map(|_| {
            let row = shape.row(random, keys, 150);
            let values: Vec<Option<&[u8]>> = row[shape.rest.len()..].iter().map(Option::as_deref).collect();
            let mut key = Vec::new();
            let count = 1 + random.below(values.len() as u64) as usize;
            tree.key().encode_prefix(&values[..count], &mut key).expect("values of the key");
            key
        })
        .collect();
    prefixes.sort_unstable();
    prefixes
}

/// A transaction that writes: its own view, and the keys that no other transaction writes until it ends.
struct Writer {
    context: Arc<StatementContext>,
    changed: Vec<(Vec<u8>, Option<Row>)>,
}

impl Writer {
    fn model(&self, committed: &Model) -> Model {
        let mut model = committed.clone();
        for (key, row) in &self.changed {
            match row {
                Some(row) => drop(model.insert(key.clone(), row.clone())),
                None => drop(model.remove(key)),
            }
        }
        model
    }
}

struct PausedSeek {
    seek: TreeSeek,
    direction: Direction,
    seen: Vec<(Vec<u8>, Row)>,
}

struct Reader {
    context: Arc<StatementContext>,
    expected: Model,
    walk: Option<Walk>,
    /// A seek over all keys, and what it has shown so far.
    seek: Option<PausedSeek>,
}

impl Reader {
    fn new(context: Arc<StatementContext>, expected: Model) -> Reader {
        Reader { context, expected, walk: None, seek: None }
    }

    /// The expected rows in these ranges, in this order.
    fn expected_in(&self, ranges: &[(Vec<u8>, Vec<u8>)], direction: Direction) -> Vec<(Vec<u8>, Row)> {
        let mut all = Vec::new();
        for (from, to) in ranges {
            let is_in = |key: &[u8]| key >= from.as_slice() && (key < to.as_slice() || key.starts_with(to));
            let rows = self.expected.iter().filter(|(key, _)| is_in(key)).map(|(key, row)| (key.clone(), row.clone()));
            match direction {
                Direction::Forward => all.extend(rows),
                Direction::Backward => all.extend(rows.rev()),
            }
        }
        all
    }
}

/// Several writers, each with its own keys until it ends, and readers of all ages.
struct Play<'w> {
    world: &'w World,
    shape: &'w Shape,
    all: Arc<Transactions>,
    tree: Arc<BTree>,
    random: SplitMix64,
    committed: Model,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    keys: u64,
    ghosts_removed: usize,
}

impl Play<'_> {
    fn pick(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn write(&mut self, which: usize, times: u64) {
        let mut model = self.writers[which].model(&self.committed);
        for _ in 0..times {
            let row = self.shape.row(&mut self.random, self.keys, 150);
            let key = self.tree.key_of(&image(&row)).expect("short");
            let is_locked = |(other, writer): (usize, &Writer)| {
                other != which && writer.changed.iter().any(|(locked, _)| *locked == key)
            };
            if self.writers.iter().enumerate().any(is_locked) {
                continue;
            }
            let context = Arc::clone(&self.writers[which].context);
            change(&self.tree, &context, &mut self.random, &mut model, row).expect("room");
            let now = model.get(&key).cloned();
            self.writers[which].changed.push((key, now));
        }
    }

    /// Writes and undoes it. The keys stay the writer's.
    fn write_in_vain(&mut self, which: usize) {
        let place = self.writers[which].context.transaction().savepoint();
        let before = self.writers[which].model(&self.committed);
        self.write(which, 30);
        self.writers[which].context.transaction().roll_back_to(&place).expect("undone");
        for (key, row) in &mut self.writers[which].changed {
            *row = before.get(key).cloned();
        }
    }

    fn end_writer(&mut self, which: usize) {
        let writer = self.writers.swap_remove(which);
        let commits = self.random.below(3) > 0;
        end(&writer.context, commits);
        if commits {
            self.committed = writer.model(&self.committed);
        }
    }

    fn look(&mut self, which: usize) {
        let settings = settings(&mut self.random);
        let pages = self.random.below(6);
        let reader = &mut self.readers[which];
        match &mut reader.walk {
            None => reader.walk = Some(Walk::begin(&self.tree, &reader.context, settings)),
            Some(walk) => {
                if !walk.go_on(pages) {
                    let walk = reader.walk.take().expect("just looked at");
                    assert!(sorted(walk.rows.all.rows) == rows_of(&reader.expected), "a scan with pauses");
                }
            }
        }
        let seen = Walk::begin(&self.tree, &reader.context, settings).finish();
        assert!(seen == rows_of(&reader.expected), "a scan at once: {} of {}", seen.len(), reader.expected.len());
        assert_eq!(count(&self.tree, &reader.context, settings), reader.expected.len() as u64);
        for _ in 0..10 {
            let row = self.shape.row(&mut self.random, self.keys, 150);
            let key = self.tree.key_of(&image(&row)).expect("short");
            let counts = IoCounts::default();
            let found = self.tree.find_visible(&key, (&*reader.context, false), &counts, |_, page, slot| {
                let columns = page.row_layout().columns().len();
                let value = |column| page.value(column, slot.0.into()).expect("sound").map(<[u8]>::to_vec);
                (0..columns).map(value).collect::<Row>()
            });
            assert_eq!(found.expect("readable").as_ref(), reader.expected.get(&key));
            assert!(loaded(&counts.logical_reads) > 0);
        }
    }

    fn seek(&mut self, which: usize) {
        let settings = settings(&mut self.random);
        let direction = if self.random.below(2) == 0 { Direction::Forward } else { Direction::Backward };
        let leaves = self.random.below(5);
        let prefixes = key_prefixes(&self.tree, self.shape, &mut self.random, self.keys, 6);
        let reader = &mut self.readers[which];
        let begin = |ranges: Vec<KeyRange>| {
            let (tree, context) = (Arc::clone(&self.tree), Arc::clone(&reader.context));
            TreeSeek::new(tree, ranges, direction, settings, context, Arc::default())
        };
        match &mut reader.seek {
            None => {
                let seek = begin(vec![KeyRange::all()]);
                reader.seek = Some(PausedSeek { seek, direction, seen: Vec::new() });
            }
            Some(PausedSeek { seek, direction, seen }) => {
                let (rows, is_all) = seen_by(seek, leaves);
                seen.extend(rows);
                if is_all {
                    let whole: Vec<_> = reader.expected.clone().into_iter().collect();
                    if *direction == Direction::Backward {
                        seen.reverse();
                    }
                    assert!(*seen == whole, "a seek with pauses");
                    reader.seek = None;
                }
            }
        }
        let ranges: Vec<(Vec<u8>, Vec<u8>)> =
            prefixes.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        let bound = |(from, to): &(Vec<u8>, Vec<u8>)| KeyRange::new(Bound::Included(from), Bound::Included(to));
        let mut seek = begin(ranges.iter().map(bound).collect());
        assert!(seen_by(&mut seek, u64::MAX).0 == reader.expected_in(&ranges, direction), "ranges {direction:?}");
    }

    fn step(&mut self) {
        match self.random.below(17) {
            0 if self.writers.len() < 3 => {
                let context = statement(self.world, &self.all);
                self.writers.push(Writer { context, changed: Vec::new() });
            }
            1 if self.readers.len() < 3 => {
                let context = statement(self.world, &self.all);
                assert!(context.view().is_some());
                self.readers.push(Reader::new(context, self.committed.clone()));
            }
            2 if !self.writers.is_empty() => {
                let which = self.pick(self.writers.len());
                self.end_writer(which);
            }
            3 if !self.readers.is_empty() => {
                let which = self.pick(self.readers.len());
                let reader = self.readers.swap_remove(which);
                if let Some(walk) = reader.walk {
                    assert!(walk.finish() == rows_of(&reader.expected), "the rest of a scan");
                }
                end(&reader.context, true);
            }
            4..=6 if !self.readers.is_empty() => {
                let which = self.pick(self.readers.len());
                self.look(which);
            }
            7 if !self.writers.is_empty() => {
                let which = self.pick(self.writers.len());
                self.write_in_vain(which);
            }
            8 => self.world.make_cold(),
            9 | 10 if !self.readers.is_empty() => {
                let which = self.pick(self.readers.len());
                self.seek(which);
            }
            11 => {
                let context = statement(self.world, &self.all);
                self.ghosts_removed += self.tree.remove_all_ghosts(&context).expect("readable");
                end(&context, true);
            }
            12 => {
                let context = statement(self.world, &self.all);
                self.tree.reorganize(&context, 95, &mut |_, _| {}).expect("readable");
                end(&context, true);
            }
            _ if !self.writers.is_empty() => {
                let (which, times) = (self.pick(self.writers.len()), self.random.below(80));
                self.write(which, times);
            }
            _ => {}
        }
    }

    fn finish(mut self) {
        while !self.writers.is_empty() {
            self.end_writer(0);
        }
        while !self.readers.is_empty() {
            self.look(0);
            self.seek(0);
            let reader = self.readers.swap_remove(0);
            let context = Arc::clone(&reader.context);
            drop(reader);
            end(&context, true);
        }
        let context = statement(self.world, &self.all);
        self.tree.remove_all_ghosts(&context).expect("readable");
        end(&context, true);
        drop(context);
        assert_eq!(self.tree.figures().expect("sound").ghosts, 0, "nobody needs ghosts any more");
        assert!(self.world.storage.versions().is_empty(), "nobody needs versions any more");
        assert_eq!(findings(self.world, &self.tree), []);
        let own = Walk::begin(&self.tree, &self.world.context(), ScanSettings::default()).finish();
        assert!(own == rows_of(&self.committed));
        assert_eq!(self.world.budget.used(), 0, "memory is given back");
    }
}

fn small_world() -> World {
    World::new(2048, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }; 2])
}

#[test]
fn readers_see_a_tree_as_it_was_when_they_first_looked() {
    let (mut splits, mut all_ghosts_removed) = (HashSet::new(), 0);
    for (number, shape) in (0u64..).zip(shapes()) {
        for seed in 0..6 {
            let mut random = SplitMix64::new(1000 * number + seed);
            let world = small_world();
            let all: Arc<Transactions> = Arc::default();
            let tree = create(&world, &shape.description());
            let keys = [60, 1500, 40_000][(seed % 3) as usize];
            // Some begin with a load that some readers do not see.
            let mut committed = Model::new();
            let old = statement(&world, &all);
            assert!(old.view().is_some());
            let mut readers = Vec::new();
            if seed % 2 == 0 {
                for _ in 0..2000 {
                    let row = shape.row(&mut random, keys, 100);
                    committed.insert(tree.key_of(&image(&row)).expect("short"), row);
                }
                let loader = statement(&world, &all);
                let rows: Vec<Row> = committed.values().cloned().collect();
                build(&tree, &loader, &rows, (300, 100)).expect("room");
                let beside = statement(&world, &all);
                assert!(beside.view().is_some());
                readers.push(Reader::new(beside, Model::new()));
                end(&loader, true);
                readers.push(Reader::new(old, Model::new()));
            } else {
                end(&old, true);
                drop(old);
            }
            let leaves = tree.figures().expect("sound").pages[0];
            let (writers, ghosts_removed, world, shape) = (Vec::new(), 0, &world, &shape);
            let mut play = Play { world, shape, all, tree, random, committed, writers, readers, keys, ghosts_removed };
            for _ in 0..120 {
                play.step();
            }
            all_ghosts_removed += play.ghosts_removed;
            splits.insert(play.tree.figures().expect("sound").pages[0] > leaves);
            play.finish();
        }
    }
    assert!(splits.contains(&true), "leaves are split meanwhile");
    assert!(all_ghosts_removed > 0, "ghosts go meanwhile");
}

/// Rows inserted and deleted at ascending keys leave no more pages than the remaining rows need.
#[test]
fn ghosts_make_room_before_a_leaf_is_split() {
    let shape = &shapes()[0];
    let world = small_world();
    let all: Arc<Transactions> = Arc::default();
    let tree = create(&world, &shape.description());
    let row = |key: u32| -> Row { vec![Some(vec![b'r'; 20]), Some(key.to_le_bytes().to_vec())] };
    let mut leaves = Vec::new();
    for has_reader in [false, true] {
        let reader = has_reader.then(|| statement(&world, &all));
        assert!(reader.as_ref().is_none_or(|reader| reader.view().is_some()));
        for round in 0..60 {
            let context = statement(&world, &all);
            // A hundred rows, each between two rows that stay.
            for key in 0..100 {
                tree.insert(&context, &image(&row(1000 * key + 1 + round))).expect("a new key");
            }
            end(&context, true);
            let context = statement(&world, &all);
            for key in 0..100 {
                let key = tree.key_of(&image(&row(1000 * key + 1 + round))).expect("short");
                assert!(tree.delete(&context, &key).expect("readable"));
            }
            end(&context, true);
        }
        leaves.push(tree.figures().expect("sound").pages[0]);
        reader.iter().for_each(|reader| end(reader, true));
        let context = statement(&world, &all);
        tree.truncate(&context).expect("readable");
        end(&context, true);
    }
    assert!(leaves[0] <= 3 && leaves[1] > 10, "{leaves:?}");
    assert_eq!(findings(&world, &tree), []);
}

#[test]
fn rows_with_the_same_key_get_numbers() {
    let shape = Shape {
        key: vec![(SqlType::SmallInt, true, true), (SqlType::Int, false, false)],
        rest: vec![(SqlType::VarChar(MaxLength::Limited(300)), true)],
    };
    let world = small_world();
    let all: Arc<Transactions> = Arc::default();
    let tree = create(&world, &shape.description());
    let mut random = SplitMix64::new(4);
    // For each key the numbers in use.
    let mut model: Vec<BTreeSet<i32>> = vec![BTreeSet::new(); 20];
    for _ in 0..60 {
        let context = statement(&world, &all);
        let mut after = model.clone();
        for _ in 0..100 {
            let key = random.below(20);
            let numbers = &mut after[key as usize];
            let value = (key > 0).then(|| (key as i16).to_le_bytes().to_vec());
            let mut row: Row = vec![Some(vec![b'x'; random.below(300) as usize]), value, Some(vec![9; 4])];
            if random.below(3) > 0 {
                let number = tree.next_uniqueifier(&image(&row)).expect("a number");
                row[2] = Some(number.to_le_bytes().to_vec());
                tree.insert(&context, &image(&row)).expect("room");
                assert!(numbers.insert(number), "a number of its own");
                assert!(number == 0 || number > numbers.range(..number).next_back().copied().unwrap_or(0));
            } else if let Some(number) = numbers.pop_first() {
                row[2] = Some(number.to_le_bytes().to_vec());
                let key = tree.key_of(&image(&row)).expect("short");
                assert!(tree.delete(&context, &key).expect("readable"));
            }
        }
        let commits = random.below(3) > 0;
        end(&context, commits);
        if commits {
            model = after;
        }
    }
    assert_eq!(tree.hobt().row_count(), model.iter().map(BTreeSet::len).sum::<usize>() as u64);
    assert_eq!(findings(&world, &tree), []);
}

/// The leaves of a range are read ahead, in both directions, and a scan reads neighbours together.
#[test]
fn leaves_come_before_they_are_asked_for() {
    let shape = &shapes()[0];
    let world = small_world();
    let tree = create(&world, &shape.description());
    let row = |key: u32| -> Row { vec![Some(vec![b'r'; 150]), Some(key.to_le_bytes().to_vec())] };
    let rows: Vec<Row> = (0..40_000).map(row).collect();
    let context = world.context();
    build(&tree, &context, &rows, (1000, 100)).expect("room");
    context.commit().expect("nothing fails");
    let figures = tree.figures().expect("sound");
    let leaves = figures.pages[0];
    assert!(leaves > 500 && figures.pages.len() == 3);
    assert_eq!(tree.leaf_pages().expect("readable"), leaves);
    for reads_ahead in [true, false] {
        let settings = ScanSettings { read_ahead: reads_ahead, ..ScanSettings::default() };
        for direction in [Direction::Forward, Direction::Backward] {
            world.make_cold();
            let counts: Arc<IoCounts> = Arc::default();
            let (tree, ranges, own) = (Arc::clone(&tree), [KeyRange::all()], world.context());
            let mut seek = TreeSeek::new(tree, ranges, direction, settings, own, Arc::clone(&counts));
            assert_eq!(seen_by(&mut seek, u64::MAX).0.len(), rows.len());
            let (waited, ahead) = (loaded(&counts.physical_reads), loaded(&counts.read_ahead_reads));
            assert_eq!(ahead > 0, reads_ahead);
            assert!(if reads_ahead { waited < 10 } else { waited > leaves }, "{direction:?}: {waited} of {leaves}");
            assert_eq!(loaded(&counts.logical_reads), leaves + 2, "the pages above count once");
        }
        world.make_cold();
        let counts: Arc<IoCounts> = Arc::default();
        let scan = Scan::new(&[RowStore::Tree(Arc::clone(&tree))], 1, settings, world.context(), Arc::clone(&counts));
        let scan = scan.expect("a scan");
        assert_eq!(scan.page_count(), leaves);
        let walk = Walk { worker: ScanWorker::new(Arc::clone(&scan)), rows: OneByOne::default() };
        assert_eq!(walk.finish().len(), rows.len());
        let (waited, ahead) = (loaded(&counts.physical_reads), loaded(&counts.read_ahead_reads));
        assert!(if reads_ahead { waited <= 2 && ahead >= leaves } else { waited > leaves && ahead == 0 });
        assert!(!reads_ahead || scan.dispenser().grant_count() < 40, "long ranges");
    }
    assert_eq!(world.budget.used(), 0, "memory is given back");
}
