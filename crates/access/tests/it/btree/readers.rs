//! What readers of a tree see while others write: rows as they were committed when the reader first looked, each once.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;

use hobt_access::scan::{Counts, PageVisitor, Scan, ScanSettings, ScanWorker};
use hobt_access::{AccessError, BTree, RowStore};
use hobt_base::{PageId, SplitMix64};
use hobt_page::RowPage;
use hobt_txn::{StatementContext, Transactions};

use super::{Model, Shape, build, change, create, findings, shapes};
use crate::versions::{end, statement};
use crate::world::{Collect, FileSize, Row, World, block_on, image, sorted};

/// Takes one page at a time.
#[derive(Default)]
struct OneByOne {
    all: Collect,
    is_full: bool,
}

impl PageVisitor for OneByOne {
    fn visit(&mut self, partition: usize, id: PageId, page: &RowPage<'_>) -> Result<(), AccessError> {
        self.is_full = true;
        self.all.visit(partition, id, page)
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

/// A scan that goes on from page to page as long as it is asked to.
struct Walk {
    worker: ScanWorker,
    rows: OneByOne,
}

impl Walk {
    fn begin(tree: &Arc<BTree>, context: &Arc<StatementContext>, settings: ScanSettings) -> Walk {
        let scan = Scan::new(&[RowStore::Tree(Arc::clone(tree))], 1, settings, Arc::clone(context), Arc::default());
        Walk { worker: ScanWorker::new(scan.expect("a scan")), rows: OneByOne::default() }
    }

    /// Goes on by some pages; whether there are more.
    fn go_on(&mut self, pages: u64) -> bool {
        (0..pages).all(|_| {
            self.rows.is_full = false;
            match block_on(poll_fn(|task| self.worker.poll_range(task, &mut self.rows))) {
                Some(shown) => shown.is_ok_and(|()| true),
                None => false,
            }
        })
    }

    fn finish(mut self) -> Vec<Row> {
        while self.go_on(1) {}
        sorted(self.rows.all.rows)
    }
}

fn count(tree: &Arc<BTree>, context: &Arc<StatementContext>, settings: ScanSettings) -> u64 {
    let scan = Scan::new(&[RowStore::Tree(Arc::clone(tree))], 1, settings, Arc::clone(context), Arc::default());
    let mut worker = ScanWorker::new(scan.expect("a scan"));
    let mut counts = Counts::new(vec![0]);
    while let Some(range) = block_on(poll_fn(|task| worker.poll_counts(task, &mut counts))) {
        range.expect("readable");
    }
    counts.rows()
}

fn rows_of(model: &Model) -> Vec<Row> {
    sorted(model.values().cloned().collect())
}

fn settings(random: &mut SplitMix64) -> ScanSettings {
    let pool_share_percent = if random.below(2) == 0 { 0 } else { 1_000_000 };
    ScanSettings { read_pages: 8, pool_share_percent, read_ahead: random.below(5) > 0, ..ScanSettings::default() }
}

/// A transaction that writes: its own view, and the keys that are its own until it ends.
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

struct Reader {
    context: Arc<StatementContext>,
    expected: Model,
    walk: Option<Walk>,
}

/// Several writers, of whom each has its keys until it ends, and readers of all ages.
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

    /// Writes and takes that back; the keys stay the writer's.
    fn write_in_vain(&mut self, which: usize) {
        let place = self.writers[which].context.transaction().savepoint();
        let before = self.writers[which].model(&self.committed);
        self.write(which, 30);
        self.writers[which].context.transaction().roll_back_to(place).expect("undone");
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
            let counts = hobt_txn::IoCounts::default();
            let found = self.tree.find_visible(&key, (&*reader.context, false), &counts, |_, page, slot| {
                let columns = page.row_layout().columns().len();
                let value = |column| page.value(column, slot.0.into()).expect("sound").map(<[u8]>::to_vec);
                (0..columns).map(value).collect::<Row>()
            });
            assert_eq!(found.expect("readable").as_ref(), reader.expected.get(&key));
            assert!(crate::world::loaded(&counts.logical_reads) > 0);
        }
    }

    fn step(&mut self) {
        match self.random.below(14) {
            0 if self.writers.len() < 3 => {
                let context = statement(self.world, &self.all);
                self.writers.push(Writer { context, changed: Vec::new() });
            }
            1 if self.readers.len() < 3 => {
                let context = statement(self.world, &self.all);
                assert!(context.view().is_some());
                self.readers.push(Reader { context, expected: self.committed.clone(), walk: None });
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
            let reader = self.readers.swap_remove(0);
            drop(reader.walk);
            end(&reader.context, true);
        }
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
    let mut splits = HashSet::new();
    for (number, shape) in (0u64..).zip(shapes()) {
        for seed in 0..6 {
            let mut random = SplitMix64::new(1000 * number + seed);
            let world = small_world();
            let all: Arc<Transactions> = Arc::default();
            let tree = create(&world, &shape.description());
            let keys = [60, 1500, 40_000][(seed % 3) as usize];
            // Some begin with a load that not everybody sees.
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
                readers.push(Reader { context: beside, expected: Model::new(), walk: None });
                end(&loader, true);
                readers.push(Reader { context: old, expected: Model::new(), walk: None });
            } else {
                end(&old, true);
                drop(old);
            }
            let leaves = tree.figures().expect("sound").pages[0];
            let mut play =
                Play { world: &world, shape: &shape, all, tree, random, committed, writers: Vec::new(), readers, keys };
            for _ in 0..120 {
                play.step();
            }
            splits.insert(play.tree.figures().expect("sound").pages[0] > leaves);
            play.finish();
        }
    }
    assert!(splits.contains(&true), "leaves are split meanwhile");
}
