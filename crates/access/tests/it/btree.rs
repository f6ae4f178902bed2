//! B+trees against a model: order, undo, threads, crashes, faults.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use hobt_access::{
    AccessError, AllocationCheck, BTree, BTreeError, Cursor, Direction, Finding, KeyRange, TreeBuilder,
    TreeDescription, TreeKey, TreeKeyColumn,
};
use hobt_base::{HobtId, SplitMix64};
use hobt_disk::{Fault, FaultKind, Operation};
use hobt_page::{ColumnLayout, RowLayout};
use hobt_txn::StatementContext;
use hobt_types::{Collation, KeyColumn, MaxLength, SqlType};

use crate::world::{FileSize, GROUP, OwnedColumn, Row, World, image, load_columns};

mod crash;
mod fingers;
mod readers;
mod reorganize;
mod threads;

/// The model: rows by normalised key.
type Model = BTreeMap<Vec<u8>, Row>;

/// Columns of a tree: each with its type, whether it may be NULL, and in the key also whether it is descending.
struct Shape {
    key: Vec<(SqlType, bool, bool)>,
    rest: Vec<(SqlType, bool)>,
}

impl Shape {
    /// Rows have their other columns first, so that a key column's index is not its rank in the key.
    fn description(&self) -> TreeDescription {
        let others = self.rest.iter().copied();
        let columns = others.chain(self.key.iter().map(|(sql_type, nullable, _)| (*sql_type, *nullable)));
        let layout = |(sql_type, nullable): (SqlType, bool)| ColumnLayout { physical: sql_type.physical(), nullable };
        let key = self.key.iter().enumerate().map(|(rank, &(sql_type, nullable, descending))| {
            let key = KeyColumn::new(sql_type, Collation::default(), nullable, descending).expect("a key's type");
            TreeKeyColumn { column: self.rest.len() + rank, key }
        });
        TreeDescription {
            id: HobtId(77),
            filegroup: GROUP,
            rows: Arc::new(RowLayout::new(columns.map(layout).collect()).ordered()),
            layout_version: 3,
            key: Arc::new(TreeKey::new(key.collect())),
        }
    }

    /// A row whose key is one of about `keys`.
    fn row(&self, random: &mut SplitMix64, keys: u64, text_max: u64) -> Row {
        let mut row: Row = Vec::new();
        for &(sql_type, nullable) in &self.rest {
            let length = sql_type.physical().width().map_or_else(|| random.below(text_max + 1), |width| width as u64);
            let bytes = (0..length).map(|_| random.below(128) as u8).collect();
            row.push((!nullable || random.below(4) > 0).then_some(bytes));
        }
        let mut number = random.below(keys);
        for (rank, &(sql_type, nullable, _)) in self.key.iter().enumerate() {
            let part = if rank + 1 == self.key.len() { number } else { number % 7 };
            number /= if rank + 1 == self.key.len() { 1 } else { 7 };
            row.push(if nullable && part == 3 { None } else { Some(key_value(sql_type, part, text_max)) });
        }
        row
    }
}

/// A value of a key column.
fn key_value(sql_type: SqlType, number: u64, text_max: u64) -> Vec<u8> {
    match sql_type.physical().width() {
        Some(width) => number.to_le_bytes()[..width].to_vec(),
        None => {
            // Long common beginnings, so that separators are long too.
            let length = (number * 7919 % (text_max + 1)) as usize;
            let mut text = vec![b'x'; length];
            text.extend_from_slice(format!("{number:06}").as_bytes());
            text
        }
    }
}

fn shapes() -> Vec<Shape> {
    let text = |length| SqlType::VarChar(MaxLength::Limited(length));
    vec![
        Shape { key: vec![(SqlType::Int, false, false)], rest: vec![(text(200), true)] },
        Shape { key: vec![(SqlType::BigInt, true, true)], rest: vec![(SqlType::Int, false), (text(50), false)] },
        Shape { key: vec![(text(900), false, false)], rest: vec![(SqlType::Int, true)] },
        Shape {
            key: vec![(SqlType::SmallInt, true, false), (text(300), true, true), (SqlType::Int, false, false)],
            rest: vec![(text(2000), true)],
        },
    ]
}

fn create(world: &World, description: &TreeDescription) -> Arc<BTree> {
    let context = world.context();
    let tree = BTree::create(&world.storage, description, &context).expect("room");
    context.commit().expect("nothing to do");
    tree
}

fn findings(world: &World, tree: &BTree) -> Vec<Finding> {
    let mut check = AllocationCheck::new(&world.storage).expect("readable maps");
    check.add_tree(tree).expect("readable pages");
    check.finish()
}

/// The live rows in a range, each with its key, as a cursor shows them.
fn rows_of(tree: &Arc<BTree>, range: KeyRange, direction: Direction) -> Result<Vec<(Vec<u8>, Row)>, AccessError> {
    let mut rows = Vec::new();
    let mut cursor = Cursor::new(Arc::clone(tree), range, direction);
    while cursor.next_leaf(&mut |_, page, positions| {
        let mut slots: Vec<usize> = positions.map(|position| page.slot_at(position).expect("sound")).collect();
        if direction == Direction::Backward {
            slots.reverse();
        }
        for slot in slots.into_iter().filter(|&slot| !page.is_deleted(slot)) {
            let mut key = Vec::new();
            tree.key_of_slot(page, slot, &mut key).expect("sound");
            let columns = page.row_layout().columns().len();
            let row = (0..columns).map(|column| page.value(column, slot).expect("sound").map(<[u8]>::to_vec));
            rows.push((key, row.collect()));
        }
        Ok(())
    })? {}
    Ok(rows)
}

fn assert_is_model(world: &World, tree: &Arc<BTree>, model: &Model, what: &str) {
    assert_eq!(findings(world, tree), [], "{what}");
    let forward = rows_of(tree, KeyRange::all(), Direction::Forward).expect("readable");
    let expected: Vec<(Vec<u8>, Row)> = model.clone().into_iter().collect();
    assert_eq!(forward.len(), expected.len(), "{what}");
    assert!(forward == expected, "{what}: forward");
    let mut backward = rows_of(tree, KeyRange::all(), Direction::Backward).expect("readable");
    backward.reverse();
    assert!(backward == expected, "{what}: backward");
    assert_eq!(tree.hobt().row_count(), model.len() as u64, "{what}");
}

/// One change of a row, in the tree and in the model; checks that both find the same.
fn change(
    tree: &Arc<BTree>,
    context: &StatementContext,
    random: &mut SplitMix64,
    model: &mut Model,
    row: Row,
) -> Result<(), AccessError> {
    let key = tree.key_of(&image(&row)).expect("a short key");
    match random.below(10) {
        0..=5 => match tree.insert(context, &image(&row)) {
            Ok(()) => assert!(model.insert(key, row).is_none(), "a new key"),
            Err(BTreeError::Duplicate) => assert!(model.contains_key(&key), "a key that is there"),
            Err(BTreeError::Storage(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        },
        6..=7 => {
            let found = tree.delete(context, &key)?;
            assert_eq!(found, model.remove(&key).is_some());
        }
        8 => match tree.replace(context, &image(&row)) {
            Ok(found) => {
                assert_eq!(found, model.contains_key(&key));
                model.entry(key).and_modify(|old| *old = row);
            }
            Err(BTreeError::Storage(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        },
        _ => {
            let found = tree.find(&key, |page, slot| {
                let columns = page.row_layout().columns().len();
                let value = |column| page.value(column, slot.0.into()).expect("sound").map(<[u8]>::to_vec);
                (0..columns).map(value).collect::<Row>()
            })?;
            assert_eq!(found.as_ref(), model.get(&key));
        }
    }
    Ok(())
}

fn world() -> World {
    World::new(2048, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }; 2])
}

#[test]
fn a_tree_is_its_model_through_commits_undo_and_reopening() {
    for (number, shape) in (0u64..).zip(shapes()) {
        for seed in 0..4 {
            let mut random = SplitMix64::new(100 * number + seed);
            let mut world = world();
            let description = shape.description();
            let mut tree = create(&world, &description);
            let mut model = Model::new();
            let keys = [40, 3000, 100_000][(seed % 3) as usize];
            for step in 0..12 {
                let what = format!("shape {number}, seed {seed}, step {step}");
                let context = world.context();
                let mut after = model.clone();
                if random.below(8) == 0 {
                    tree.truncate(&context).expect("readable");
                    after.clear();
                }
                for _ in 0..random.below(600) {
                    let row = shape.row(&mut random, keys, [20, 200][(seed % 2) as usize]);
                    change(&tree, &context, &mut random, &mut after, row).expect("room");
                }
                if random.below(3) == 0 {
                    context.roll_back().expect("what was done is undone");
                } else {
                    context.commit().expect("nothing fails");
                    model = after;
                }
                assert_is_model(&world, &tree, &model, &what);
                if random.below(4) == 0 {
                    let run_list = tree.hobt().run_list();
                    tree.hobt().save_counts().expect("a checkpoint");
                    drop(tree);
                    world.reopen();
                    tree = BTree::open(&world.storage, &description, run_list).expect("sound");
                }
                if random.below(4) == 0 {
                    let mut next = Some(Vec::new());
                    while let Some(key) = next {
                        next = tree.remove_ghosts(&key).expect("readable").1;
                    }
                    assert_eq!(tree.figures().expect("sound").ghosts, 0, "{what}");
                    assert_is_model(&world, &tree, &model, &what);
                }
            }
            let context = world.context();
            tree.drop_storage(&context).expect("room in the log");
            context.commit().expect("nothing fails");
            assert_eq!(AllocationCheck::new(&world.storage).expect("readable").finish(), []);
        }
    }
}

#[test]
fn a_range_has_the_rows_between_its_bounds_in_both_directions() {
    let shape = &shapes()[3];
    let world = world();
    let tree = create(&world, &shape.description());
    let mut random = SplitMix64::new(9);
    let mut model = Model::new();
    let context = world.context();
    for _ in 0..3000 {
        let row = shape.row(&mut random, 5000, 60);
        change(&tree, &context, &mut random, &mut model, row).expect("room");
    }
    context.commit().expect("nothing fails");
    assert!(tree.figures().expect("sound").depth() > 1);
    for _ in 0..300 {
        let mut bound = || {
            let row = shape.row(&mut random, 5000, 60);
            let values: Vec<Option<&[u8]>> = row[1..].iter().map(Option::as_deref).collect();
            let mut key = Vec::new();
            let count = 1 + random.below(3) as usize;
            tree.key().encode_prefix(&values[..count], &mut key).expect("values of the key");
            let kind = random.below(3);
            (kind, key)
        };
        let ((from_kind, from), (to_kind, to)) = (bound(), bound());
        let as_bound = |kind, key| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        };
        let expected: Vec<&Vec<u8>> = model
            .keys()
            .filter(|key| match from_kind {
                0 => true,
                1 => key.as_slice() >= from.as_slice(),
                _ => key.as_slice() > from.as_slice() && !key.starts_with(&from),
            })
            .filter(|key| match to_kind {
                0 => true,
                1 => key.as_slice() < to.as_slice() || key.starts_with(&to),
                _ => key.as_slice() < to.as_slice(),
            })
            .collect();
        let range = KeyRange::new(as_bound(from_kind, &from[..]), as_bound(to_kind, &to[..]));
        for direction in [Direction::Forward, Direction::Backward] {
            let mut rows = rows_of(&tree, range.clone(), direction).expect("readable");
            if direction == Direction::Backward {
                rows.reverse();
            }
            assert!(rows.iter().map(|(key, _)| key).eq(expected.iter().copied()), "{direction:?}");
        }
        let count = 1 + random.below(9) as usize;
        let parts = tree.divide(&range, count).expect("readable");
        assert!((1..=count).contains(&parts.len()), "{} parts of {count}", parts.len());
        let of_part = |part| rows_of(&tree, part, Direction::Forward).expect("readable");
        let rows: Vec<_> = parts.into_iter().flat_map(of_part).collect();
        assert!(rows.iter().map(|(key, _)| key).eq(expected.iter().copied()), "divided in {count}");
    }
    // No key is above all keys that begin with this.
    let none = KeyRange::new(Bound::Excluded(&[0xFF]), Bound::Unbounded);
    assert_eq!(rows_of(&tree, none.clone(), Direction::Forward).expect("readable"), Vec::new());
    let rows = [&none, &KeyRange::all()].map(|range| tree.estimate(range).expect("readable") * model.len() as f64);
    assert_eq!(rows.map(|rows| rows as usize), [0, model.len()]);
    let parts = tree.divide(&KeyRange::all(), 4).expect("readable");
    let of_part = |part| rows_of(&tree, part, Direction::Forward).expect("readable").len();
    let rows: Vec<usize> = parts.into_iter().map(of_part).collect();
    assert!(rows.len() == 4 && rows.iter().all(|rows| rows * 10 > model.len()), "{rows:?} of {}", model.len());
}

#[test]
fn rising_keys_fill_their_leaves_and_random_ones_half_and_more() {
    let shape = &shapes()[0];
    for (is_rising, least) in [(true, 0.9), (false, 0.6)] {
        let world = world();
        let tree = create(&world, &shape.description());
        let context = world.context();
        let mut random = SplitMix64::new(3);
        let mut row = shape.row(&mut random, 1, 20);
        row[0] = Some(vec![b'a'; 40]);
        for number in 0..20_000u32 {
            let key = if is_rising { number } else { number.wrapping_mul(2_654_435_761) >> 1 };
            row[1] = Some(key.to_le_bytes().to_vec());
            tree.insert(&context, &image(&row)).expect("room");
        }
        context.commit().expect("nothing fails");
        assert_eq!(findings(&world, &tree), []);
        let figures = tree.figures().expect("sound");
        assert!(figures.fill() > least, "{is_rising}: {figures:?}");
        assert_eq!(figures.rows, 20_000);
    }
}

/// If a leaf is split in the middle of keys that differ early, its parent's entry takes a few bytes, however long the
/// keys are.
#[test]
fn separators_are_no_longer_than_they_must_be() {
    let text = SqlType::VarBinary(MaxLength::Limited(900));
    let shape = Shape { key: vec![(text, false, true)], rest: vec![(SqlType::Int, false)] };
    let world = world();
    let tree = create(&world, &shape.description());
    let context = world.context();
    let mut random = SplitMix64::new(5);
    for _ in 0..6000 {
        let key = (0..600).map(|_| 1 + random.below(255) as u8).collect();
        tree.insert(&context, &image(&vec![Some(vec![0; 4]), Some(key)])).expect("room");
    }
    context.commit().expect("nothing fails");
    assert_eq!(findings(&world, &tree), []);
    let pages = tree.figures().expect("sound").pages;
    // With whole keys a page above the leaves would have 13 children.
    assert!(pages.len() <= 3 && pages[1] * 100 < pages[0], "{pages:?}");
}

#[test]
fn a_key_that_is_too_long_is_refused_and_changes_nothing() {
    let text = SqlType::VarChar(MaxLength::Limited(8000));
    let shape = Shape { key: vec![(text, false, false)], rest: vec![(text, true)] };
    let world = world();
    let tree = create(&world, &shape.description());
    let context = world.context();
    let row = |length: usize, rest: usize| -> Row { vec![Some(vec![b'r'; rest]), Some(vec![b'k'; length])] };
    for length in (1..1900).step_by(50) {
        // The other column is moved to pages of its own, and the key stays.
        tree.insert(&context, &image(&row(length, 7900))).expect("a key that an index can have");
    }
    let too_long = tree.insert(&context, &image(&row(2100, 1)));
    assert!(matches!(too_long, Err(BTreeError::KeyTooLong { bytes: 2101 })), "{too_long:?}");
    context.commit().expect("nothing fails");
    assert_eq!(findings(&world, &tree), []);
    assert_eq!(tree.hobt().row_count(), 38);
}

/// Statements with a fault at each of many operations of the disk: an error undoes the statement, or the database is
/// suspect.
#[test]
fn a_fault_of_the_disk_leaves_the_model_or_a_database_that_is_suspect() {
    let shape = &shapes()[3];
    let (mut failed, mut suspect) = (0, 0);
    for operation in [Operation::Read, Operation::Write] {
        for after in (0..400).step_by(37) {
            let mut random = SplitMix64::new(after);
            // A pool smaller than the tree.
            let world = World::new(48, &[FileSize { pages: 2048, growth_pages: 0, max_pages: 0 }]);
            let tree = create(&world, &shape.description());
            let mut model = Model::new();
            let simulated = world.simulated.as_ref().expect("a simulated disk");
            simulated.inject(Fault { forever: after % 2 == 1, ..Fault::once(operation, after, FaultKind::Error(5)) });
            for _ in 0..12 {
                let context = world.context();
                let mut statement = model.clone();
                let changed = (0..250).try_for_each(|_| {
                    let row = shape.row(&mut random, 100_000, 900);
                    change(&tree, &context, &mut random, &mut statement, row)
                });
                if changed.is_err() {
                    failed += 1;
                    if context.roll_back().is_err() {
                        assert!(world.storage.broken().is_some(), "what could not be undone is refused");
                    }
                    break;
                }
                context.commit().expect("nothing is put off");
                model = statement;
            }
            simulated.clear_faults();
            if world.storage.broken().is_some() {
                suspect += 1;
                continue;
            }
            // A file whose write failed refuses later ones. Then only pages in the pool can be read.
            if let Ok(found) = AllocationCheck::new(&world.storage).and_then(|mut check| {
                check.add_tree(&tree)?;
                Ok(check.finish())
            }) {
                assert_eq!(found, [], "{operation:?} {after}");
                let rows = rows_of(&tree, KeyRange::all(), Direction::Forward).expect("readable");
                assert!(rows == model.into_iter().collect::<Vec<_>>(), "{operation:?} {after}");
            }
        }
    }
    assert!(failed > 5, "{failed} statements met a fault, {suspect} databases are suspect");
}

/// Builds a tree from these rows, a batch of at most `batch` at a time.
fn build(
    tree: &Arc<BTree>,
    context: &Arc<StatementContext>,
    rows: &[Row],
    (batch, fill): (usize, u8),
) -> Result<(), BTreeError> {
    let mut builder = TreeBuilder::new(tree, context, fill)?;
    for rows in rows.chunks(batch) {
        let columns = load_columns(tree.hobt().row_layout(), rows);
        builder.append(rows.len(), &columns.iter().map(OwnedColumn::borrow).collect::<Vec<_>>())?;
    }
    builder.finish()
}

#[test]
fn a_tree_that_is_built_is_one_that_rows_were_inserted_into() {
    for (number, shape) in (0u64..).zip(shapes()) {
        for (seed, count, batch, fill) in [
            (1, 0, 10, 100),
            (2, 1, 10, 50),
            (3, 500, 1, 100),
            (4, 20_000, 700, 100),
            (5, 8000, 33, 70),
            (6, 9000, 4000, 0),
        ] {
            let what = format!("shape {number}, {count} rows");
            let mut random = SplitMix64::new(seed);
            let mut world = World::new(2048, &[FileSize { pages: 64, growth_pages: 64, max_pages: 0 }; 2]);
            let description = shape.description();
            let mut tree = create(&world, &description);
            let mut model = Model::new();
            for _ in 0..count {
                let row = shape.row(&mut random, 100_000, 80);
                model.insert(tree.key_of(&image(&row)).expect("short"), row);
            }
            let rows: Vec<Row> = model.values().cloned().collect();
            // Undone together with rows that were inserted after it.
            let context = world.context();
            build(&tree, &context, &rows, (batch, fill)).expect("room");
            let mut after = model.clone();
            for _ in 0..count.min(2000) {
                let row = shape.row(&mut random, 100_000, 80);
                change(&tree, &context, &mut random, &mut after, row).expect("room");
            }
            // Extents that a load did not use are freed when it commits. Before that the check would find them unowned.
            let found = rows_of(&tree, KeyRange::all(), Direction::Forward).expect("readable");
            assert!(found == after.into_iter().collect::<Vec<_>>(), "{what}");
            context.roll_back().expect("what was built is undone");
            assert_is_model(&world, &tree, &Model::new(), &what);
            let context = world.context();
            build(&tree, &context, &rows, (batch, fill)).expect("room");
            context.commit().expect("nothing fails");
            assert_is_model(&world, &tree, &model, &what);
            let figures = tree.figures().expect("sound");
            if count > 5000 {
                let expected = if fill == 0 { 1.0 } else { f64::from(fill) / 100.0 };
                assert!(figures.fill() < expected + 0.01 && figures.fill() > expected * 0.8, "{what}: {figures:?}");
                assert!(figures.fragmentation() < 0.3, "{what}: {figures:?}");
            }
            let run_list = tree.hobt().run_list();
            tree.hobt().save_counts().expect("a checkpoint");
            drop(tree);
            world.reopen();
            tree = BTree::open(&world.storage, &description, run_list).expect("sound");
            let context = world.context();
            for _ in 0..1000 {
                let row = shape.row(&mut random, 100_000, 80);
                change(&tree, &context, &mut random, &mut model, row).expect("room");
            }
            context.commit().expect("nothing fails");
            assert_is_model(&world, &tree, &model, &what);
        }
    }
}

#[test]
fn rows_that_are_twice_there_are_not_built_into_a_tree() {
    let shape = &shapes()[0];
    let world = world();
    let tree = create(&world, &shape.description());
    for twice in [0, 1, 700, 4999] {
        let mut random = SplitMix64::new(1);
        let mut rows: Vec<Row> = (0..5000u32)
            .map(|number| {
                let mut row = shape.row(&mut random, 1, 30);
                row[1] = Some(number.to_le_bytes().to_vec());
                row
            })
            .collect();
        rows.insert(twice, rows[twice].clone());
        let context = world.context();
        let built = build(&tree, &context, &rows, (900, 100));
        assert!(matches!(built, Err(BTreeError::Duplicate)), "{twice}: {built:?}");
        context.roll_back().expect("undone");
        assert_is_model(&world, &tree, &Model::new(), "nothing was built");
    }
}
