//! Random sequences of changes against a plain list of rows. After each step the page holds what the list holds, the
//! decoded encoding of the step changes the bytes equally, and its undo restores the list before.

use std::cmp::Ordering;

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SlotId, SplitMix64, Stamp};
use hobt_page::{
    BulkColumn, BulkPageBuilder, ColumnLayout, PageBytes, PageChange, PageDamage, PageHeader, PageType, RowImage,
    RowLayout, RowPage, StoredValue, ValuePointer, apply, check_row_page,
};
use hobt_types::PhysicalType;

#[derive(Clone, PartialEq, Debug)]
struct Row {
    slot: usize,
    image: RowImage,
    is_deleted: bool,
}

fn tables() -> Vec<RowLayout> {
    let column = |physical, nullable| ColumnLayout { physical, nullable };
    let mixed = || {
        RowLayout::new(vec![
            column(PhysicalType::Fixed8, false),
            column(PhysicalType::Variable, true),
            column(PhysicalType::Fixed4, true),
            column(PhysicalType::Variable, false),
            column(PhysicalType::Fixed1, true),
            column(PhysicalType::Fixed2, false),
        ])
    };
    let narrow = || RowLayout::new(vec![column(PhysicalType::Fixed2, true)]);
    let text = || RowLayout::new(vec![column(PhysicalType::Variable, true); 3]);
    vec![mixed(), mixed().ordered(), narrow().ordered(), text().ordered(), text()]
}

fn random_row(random: &mut SplitMix64, rows: &RowLayout, longest: u64) -> RowImage {
    let pointer = ValuePointer { length: 9000, first: PageId::new(FileId(1), 16), checksum: 7 };
    let has_pointer = random.below(12) == 0;
    let highest = if random.below(4) == 0 { 256 } else { 128 };
    let values: Vec<Option<Vec<u8>>> = rows
        .columns()
        .iter()
        .map(|column| {
            let length = column.physical.width().unwrap_or(random.below(longest) as usize);
            let is_there = !column.nullable || random.below(3) > 0;
            is_there.then(|| (0..length).map(|_| random.below(highest) as u8).collect())
        })
        .collect();
    RowImage::of_stored(values.iter().zip(rows.columns()).map(|(value, column)| match value {
        None => StoredValue::Null,
        Some(_) if column.physical.width().is_none() && has_pointer => StoredValue::Pointer(pointer),
        Some(bytes) => StoredValue::InRow(bytes),
    }))
}

fn fresh(rows: &RowLayout, capacity: u16) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 9), 5, HobtId(1));
    header.capacity = capacity;
    apply(&mut page, Some(rows), &PageChange::Format { header }).expect("sound").expect("always");
    page
}

fn contents(page: &PageBytes, rows: &RowLayout) -> Vec<Row> {
    check_row_page(page, rows).expect("a sound page");
    let view = RowPage::open(page, rows).expect("a sound page");
    let row = |slot: Result<usize, PageDamage>| {
        let slot = slot.expect("a sound order");
        Row { slot, image: view.row_image(slot).expect("sound"), is_deleted: view.is_deleted(slot) }
    };
    let contents: Vec<Row> = view.order().map(row).collect();
    for column in (0..rows.columns().len()).filter(|&column| rows.columns()[column].physical.width().is_none()) {
        let is_plain = |row: &Row| !row.image.is_pointer(column) && row.image.value(column).unwrap_or(&[]).is_ascii();
        assert!(!view.is_ascii(column) || contents.iter().all(is_plain), "column {column} is not ASCII");
    }
    contents
}

/// A change that may fit the page, and the list after it.
fn step(random: &mut SplitMix64, rows: &RowLayout, model: &[Row], writer: Stamp) -> (PageChange, Vec<Row>) {
    let mut after = model.to_vec();
    let place = random.below(model.len().max(1) as u64) as usize;
    let longest = if random.below(9) == 0 { 300 } else { 30 };
    let position = |place: usize| u16::try_from(place).expect("few rows");
    match random.below(if rows.is_ordered() { 1000 } else { 995 }) {
        0..550 => {
            let image = random_row(random, rows, longest);
            let place = if rows.is_ordered() { random.below(model.len() as u64 + 1) as usize } else { model.len() };
            after.insert(place, Row { slot: model.len(), image: image.clone(), is_deleted: false });
            let change = if rows.is_ordered() {
                PageChange::InsertRow { position: position(place), row: image, writer }
            } else {
                PageChange::AppendRow { row: image, writer }
            };
            (change, after)
        }
        550..800 if !model.is_empty() => {
            let mut image = random_row(random, rows, longest);
            if random.below(2) == 0 {
                // Only one column.
                let chosen = random.below(rows.columns().len() as u64) as usize;
                let stored = |image: &RowImage, column| image.value(column).map(<[u8]>::to_vec);
                let values: Vec<_> = (0..rows.columns().len())
                    .map(|column| stored(if column == chosen { &image } else { &model[place].image }, column))
                    .collect();
                image = RowImage::new(values.iter().map(|value| value.as_deref()));
            }
            after[place].image = image.clone();
            (PageChange::ReplaceRow { slot: SlotId(position(model[place].slot)), row: image, writer }, after)
        }
        800..930 if !model.is_empty() => {
            after[place].is_deleted ^= true;
            let slot = SlotId(position(model[place].slot));
            (PageChange::SetDeleted { slot, deleted: after[place].is_deleted, writer }, after)
        }
        995.. => {
            let to = place + random.below((model.len() - place) as u64 + 1) as usize;
            let (from, to) = if random.below(2) == 0 { (place, to) } else { (0, model.len()) };
            let drop_deleted = random.below(3) > 0;
            after = after.drain(from..to).filter(|row| !drop_deleted || !row.is_deleted).collect();
            after.iter_mut().enumerate().for_each(|(slot, row)| row.slot = slot);
            (PageChange::KeepRows { from: position(from), to: position(to), drop_deleted, writer }, after)
        }
        _ => {
            let last = model.iter().position(|row| row.slot + 1 == model.len() && !row.is_deleted);
            let Some(last) = last else { return step(random, rows, model, writer) };
            after.remove(last);
            let change = if rows.is_ordered() {
                PageChange::RemoveRow { position: position(last), writer }
            } else {
                PageChange::RemoveLastRow { writer }
            };
            (change, after)
        }
    }
}

#[test]
fn pages_hold_what_a_list_holds() {
    let mut kinds = std::collections::BTreeMap::new();
    for (seed, rows) in tables().iter().enumerate() {
        let mut random = SplitMix64::new(seed as u64);
        for _ in 0..3 {
            let capacity = 1 + random.below(u64::from(rows.capacity_for(40))) as u16;
            let mut page = fresh(rows, capacity);
            let mut model = Vec::new();
            let mut most = 0;
            for number in 0..600 {
                let writer = Stamp(number + 1);
                let (change, after) = step(&mut random, rows, &model, writer);
                let before = page.clone();
                let mut encoded = Vec::new();
                change.encode(&mut encoded);
                let decoded = PageChange::decode(&encoded).expect("what was encoded");
                decoded.check(&page, Some(rows)).expect("a change of this page");
                let undo = apply(&mut page, Some(rows), &change).expect("sound");
                let mut again = before.clone();
                assert_eq!(apply(&mut again, Some(rows), &decoded).expect("sound"), undo);
                assert!(again == page, "redo makes the same bytes of {change:?}");
                let name = format!("{change:?}").split(' ').next().expect("a name").to_owned();
                let Some(undo) = undo else {
                    assert!(page == before, "what has no room leaves the page as it was");
                    *kinds.entry(name + " without room").or_insert(0) += 1;
                    continue;
                };
                let is_anew = matches!(undo, PageChange::Image { .. });
                *kinds.entry(if is_anew { name + " anew" } else { name }).or_insert(0) += 1;
                assert_eq!(contents(&page, rows), after, "after {change:?}");
                assert_eq!(PageHeader::read(&page).expect("sound").newest_writer, writer);
                let old = std::mem::replace(&mut model, after);
                most = most.max(model.len());
                if number % 3 != 0 && !is_anew {
                    continue;
                }
                let redo = apply(&mut again, Some(rows), &undo).expect("sound").expect("an undo has room");
                assert_eq!(contents(&again, rows), old, "after the undo of {change:?}");
                let old_writer = PageHeader::read(&before).expect("sound").newest_writer;
                assert_eq!(PageHeader::read(&again).expect("sound").newest_writer, old_writer);
                apply(&mut again, Some(rows), &redo).expect("sound").expect("what was there has room");
                assert_eq!(contents(&again, rows), model, "after the undo of the undo of {change:?}");
            }
            assert!(most > 40, "a page of short rows holds many: {most}");
        }
    }
    println!("{kinds:#?}");
    for name in ["AppendRow", "ReplaceRow"] {
        for how in ["", " anew", " without room"] {
            assert!(kinds.contains_key(&format!("{name}{how}")), "{name}{how} did not occur");
        }
    }
    for name in ["InsertRow", "InsertRow without room", "RemoveRow", "RemoveLastRow", "SetDeleted", "KeepRows anew"] {
        assert!(kinds.contains_key(name), "{name} did not occur");
    }
}

#[test]
fn rows_that_are_searched_for_stand_in_order() {
    let rows = RowLayout::new(vec![
        ColumnLayout { physical: PhysicalType::Fixed4, nullable: false },
        ColumnLayout { physical: PhysicalType::Variable, nullable: true },
    ])
    .ordered();
    let key_of = |view: &RowPage<'_>, slot: usize| {
        let bytes = view.value(0, slot)?.expect("NOT NULL");
        Ok::<_, PageDamage>(u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    };
    let mut random = SplitMix64::new(5);
    let mut page = fresh(&rows, rows.capacity_for(3));
    let mut keys: Vec<u32> = Vec::new();
    loop {
        let key = random.below(200) as u32;
        let view = RowPage::open(&page, &rows).expect("sound");
        let found = view.find(|slot| Ok::<_, PageDamage>(key_of(&view, slot)?.cmp(&key))).expect("sound");
        let first = keys.partition_point(|other| *other < key);
        assert_eq!(found, if keys.get(first) == Some(&key) { Ok(first) } else { Err(first) });
        let row = RowImage::new([Some(&key.to_le_bytes()[..]), Some(b"abc")]);
        let change = PageChange::InsertRow { position: first as u16, row, writer: Stamp(1) };
        if apply(&mut page, Some(&rows), &change).expect("sound").is_none() {
            break;
        }
        keys.insert(first, key);
        if keys.len().is_multiple_of(3) {
            let slot = SlotId(random.below(keys.len() as u64) as u16);
            let deleted = !RowPage::open(&page, &rows).expect("sound").is_deleted(usize::from(slot.0));
            apply(&mut page, Some(&rows), &PageChange::SetDeleted { slot, deleted, writer: Stamp(1) }).expect("sound");
        }
        let view = RowPage::open(&page, &rows).expect("sound");
        let found: Vec<u32> = view.order().map(|slot| key_of(&view, slot.expect("sound")).expect("sound")).collect();
        assert_eq!(found, keys);
    }
    assert!(keys.len() > 256, "the order has two bytes a row: {}", keys.len());
    let view = RowPage::open(&page, &rows).expect("sound");
    assert_eq!(view.find(|_| Ok::<_, PageDamage>(Ordering::Less)), Ok(Err(keys.len())));
    assert_eq!(view.find(|_| Ok::<_, PageDamage>(Ordering::Greater)), Ok(Err(0)));
}

/// Fills a leaf with rows at random positions, or each after the last. Splits it for the first row that does not fit,
/// and puts that row into its half. Returns the rows of both.
fn split(random: &mut SplitMix64, rows: &RowLayout, longest: u64, rising: bool) -> [Vec<RowImage>; 2] {
    let mut page = fresh(rows, 3);
    let images = |page: &PageBytes| contents(page, rows).into_iter().map(|row| row.image).collect::<Vec<_>>();
    loop {
        let before = images(&page);
        let position = if rising { before.len() } else { random.below(before.len() as u64 + 1) as usize };
        let row = random_row(random, rows, longest);
        let insert = |position: usize| {
            let position = u16::try_from(position).expect("few rows");
            PageChange::InsertRow { position, row: row.clone(), writer: Stamp(1) }
        };
        if apply(&mut page, Some(rows), &insert(position)).expect("sound").is_some() {
            continue;
        }
        let split = RowPage::open(&page, rows).expect("sound").split(position, &row).expect("sound");
        let (kept, count) = (split.kept as u16, before.len() as u16);
        let keep = |from, to| PageChange::KeepRows { from, to, drop_deleted: false, writer: Stamp(2) };
        let mut right = page.clone();
        apply(&mut right, Some(rows), &keep(kept, count)).expect("sound");
        apply(&mut page, Some(rows), &keep(0, kept)).expect("sound");
        let (half, place) = if split.is_right { (&mut right, position - split.kept) } else { (&mut page, position) };
        apply(half, Some(rows), &insert(place)).expect("sound").expect("the new row has room in its half");
        let mut after = before;
        after.insert(position, row);
        let halves = [images(&page), images(&right)];
        assert_eq!(halves.concat(), after, "every row once, in order");
        return halves;
    }
}

#[test]
fn a_split_divides_a_leaf_in_halves_or_leaves_it_full() {
    let mut random = SplitMix64::new(6);
    for round in 0..40 {
        let rows = &tables()[[1, 3][round % 2]];
        let longest = [20, 60, 600][round % 3];
        let bytes =
            |half: &Vec<RowImage>| half.iter().map(|row| rows.fixed_row_bytes() + row.variable_bytes(rows)).sum();
        let [left, right]: [usize; 2] = split(&mut random, rows, longest, false).map(|half| bytes(&half));
        let largest = 20 + 3 * longest as usize;
        assert!(left.abs_diff(right) <= 2 * largest || right <= largest, "{left} and {right} bytes");
        let [left, right] = split(&mut random, rows, longest, true);
        assert!(left.len() > 1 && right.len() == 1, "rows that rise leave the left page full");
    }
}

#[test]
fn no_half_of_a_split_leaf_is_empty() {
    let rows = RowLayout::new(vec![ColumnLayout { physical: PhysicalType::Variable, nullable: false }]).ordered();
    let row = |length: usize| RowImage::new([Some(&[7; 8000][..length])]);
    for lengths in [&[5000][..], &[3900, 3800], &[100, 7700], &[7700, 100]] {
        let mut page = fresh(&rows, 1);
        for (position, length) in (0..).zip(lengths) {
            let change = PageChange::InsertRow { position, row: row(*length), writer: Stamp(1) };
            apply(&mut page, Some(&rows), &change).expect("sound").expect("room");
        }
        let view = RowPage::open(&page, &rows).expect("sound");
        for position in 0..=lengths.len() {
            let split = view.split(position, &row(8000)).expect("sound");
            assert!(split.kept + usize::from(!split.is_right) > 0);
            assert!(lengths.len() - split.kept + usize::from(split.is_right) > 0);
            assert!(if split.is_right { position >= split.kept } else { position <= split.kept });
        }
    }
}

#[test]
fn a_leaf_that_is_built_whole_is_in_order() {
    let column = |physical| ColumnLayout { physical, nullable: false };
    let rows = RowLayout::new(vec![column(PhysicalType::Fixed2), column(PhysicalType::Variable)]).ordered();
    let builder = BulkPageBuilder::new(&rows);
    for length in [3, 90] {
        let count = builder.rows_that_fit(&[length; 3000]);
        assert_eq!(count > 256, length == 3, "both widths of the order");
        let mut bytes = fresh(&rows, 1);
        let header = PageHeader::read(&bytes).expect("sound");
        let mut page = builder.start(&mut bytes, header, count);
        let keys: Vec<u8> = (0..count as u16).flat_map(u16::to_le_bytes).collect();
        page.column(0, BulkColumn::Fixed(&keys), None);
        page.column(1, BulkColumn::Variable(&vec![&[b'x'; 90][..length as usize]; count]), None);
        page.finish();
        let built = contents(&bytes, &rows);
        assert!(built.len() == count && built.iter().enumerate().all(|(place, row)| row.slot == place));
        let change = PageChange::KeepRows { from: 1, to: count as u16, drop_deleted: true, writer: Stamp(1) };
        apply(&mut bytes, Some(&rows), &change).expect("sound").expect("fewer rows have room");
        let kept = contents(&bytes, &rows);
        assert!(kept.iter().map(|row| &row.image).eq(built[1..].iter().map(|row| &row.image)));
    }
}

#[test]
fn deleted_pointers_go_with_their_rows() {
    let rows = RowLayout::new(vec![ColumnLayout { physical: PhysicalType::Variable, nullable: false }]).ordered();
    let pointer = ValuePointer { length: 9000, first: PageId::new(FileId(1), 16), checksum: 7 };
    let mut page = fresh(&rows, 10);
    for value in [StoredValue::InRow(b"text"), StoredValue::Pointer(pointer), StoredValue::InRow(b"more")] {
        let change = PageChange::InsertRow { position: 0, row: RowImage::of_stored([value]), writer: Stamp(1) };
        apply(&mut page, Some(&rows), &change).expect("sound").expect("room");
    }
    let change = PageChange::SetDeleted { slot: SlotId(1), deleted: true, writer: Stamp(1) };
    apply(&mut page, Some(&rows), &change).expect("sound");
    for (drop_deleted, remain) in [(false, true), (true, false)] {
        let mut copy = page.clone();
        let change = PageChange::KeepRows { from: 0, to: 3, drop_deleted, writer: Stamp(1) };
        apply(&mut copy, Some(&rows), &change).expect("sound");
        let view = RowPage::open(&copy, &rows).expect("sound");
        assert_eq!((view.has_pointers(), view.is_ascii(0)), (remain, !remain));
        assert_eq!(view.row_count(), if drop_deleted { 2 } else { 3 });
    }
}
