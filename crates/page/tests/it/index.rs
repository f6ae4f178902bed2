//! Pages above a B+tree's leaves against a plain list of entries, and as arbitrary bytes.

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SplitMix64};
use hobt_page::{
    INDEX_KEY_BYTES_MAX, IndexPage, PageBytes, PageChange, PageDamage, PageHeader, PageType, apply, check_index_page,
};

fn page_id(random: &mut SplitMix64) -> PageId {
    PageId::new(FileId(random.below(9) as u16), random.next_u64() as u32)
}

fn fresh() -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut header = PageHeader::new(PageType::Index, PageId::new(FileId(1), 9), 5, HobtId(77));
    header.level = 2;
    apply(&mut page, None, &PageChange::Format { header }).expect("sound").expect("always");
    page
}

fn random_key(random: &mut SplitMix64, longest: u64) -> Vec<u8> {
    (0..1 + random.below(longest)).map(|_| random.below(4) as u8).collect()
}

/// The contents of a page.
#[derive(Clone, PartialEq, Debug, Default)]
struct Model {
    leftmost: PageId,
    entries: Vec<(Vec<u8>, PageId)>,
}

impl Model {
    fn of(page: &PageBytes) -> Model {
        check_index_page(page).expect("a sound page");
        let view = IndexPage::open(page).expect("a sound page");
        let entries: Vec<_> = (0..view.len())
            .map(|index| view.entry(index).map(|(key, child)| (key.to_vec(), child)).expect("sound"))
            .collect();
        let bytes: usize = entries.iter().map(|(key, _)| IndexPage::entry_size(key.len())).sum();
        assert_eq!((view.level(), view.hobt(), view.free_bytes()), (2, HobtId(77), PAGE_SIZE - 72 - bytes));
        Model { leftmost: view.leftmost(), entries }
    }

    fn child_for(&self, key: &[u8]) -> PageId {
        let last = self.entries.iter().rev().find(|(separator, _)| separator.as_slice() <= key);
        last.map_or(self.leftmost, |(_, child)| *child)
    }
}

fn step(random: &mut SplitMix64, model: &Model, longest: u64) -> (PageChange, Model) {
    let mut after = model.clone();
    let child = page_id(random);
    let count = model.entries.len();
    match random.below(400) {
        0..300 => {
            let key = random_key(random, longest);
            let Err(position) = model.entries.binary_search_by(|(other, _)| other.cmp(&key)) else {
                return step(random, model, longest);
            };
            after.entries.insert(position, (key.clone(), child));
            (PageChange::InsertEntry { position: position as u16, key, child }, after)
        }
        300..390 if count > 0 => {
            let position = random.below(count as u64) as usize;
            after.entries.remove(position);
            (PageChange::RemoveEntry { position: position as u16 }, after)
        }
        399 if count > 0 => {
            let from = random.below(count as u64) as usize;
            let to = from + random.below((count - from) as u64 + 1) as usize;
            after.entries = model.entries[from..to].to_vec();
            after.leftmost = if from == 0 { model.leftmost } else { model.entries[from - 1].1 };
            (PageChange::KeepEntries { from: from as u16, to: to as u16 }, after)
        }
        _ => {
            after.leftmost = child;
            (PageChange::SetLeftmost { child }, after)
        }
    }
}

#[test]
fn pages_hold_what_a_list_holds() {
    let mut random = SplitMix64::new(1);
    for longest in [3, 12, 60, 400, INDEX_KEY_BYTES_MAX as u64] {
        let mut page = fresh();
        let mut model = Model::default();
        let (mut full, mut kept) = (0, 0);
        for _ in 0..2500 {
            let (change, after) = step(&mut random, &model, longest);
            let before = page.clone();
            let mut encoded = Vec::new();
            change.encode(&mut encoded);
            let decoded = PageChange::decode(&encoded).expect("what was encoded");
            assert_eq!(decoded, change);
            decoded.check(&page, None).expect("a change of this page");
            let undo = apply(&mut page, None, &decoded).expect("sound");
            let Some(undo) = undo else {
                let PageChange::InsertEntry { key, .. } = &change else { panic!("no room for {change:?}") };
                let free = IndexPage::open(&page).expect("sound").free_bytes();
                assert!(page == before && free < IndexPage::entry_size(key.len()));
                full += 1;
                continue;
            };
            kept += usize::from(matches!(change, PageChange::KeepEntries { .. }));
            assert_eq!(Model::of(&page), after, "after {change:?}");
            let mut again = page.clone();
            let redo = apply(&mut again, None, &undo).expect("sound").expect("an undo has room");
            assert_eq!(Model::of(&again), model, "after the undo of {change:?}");
            apply(&mut again, None, &redo).expect("sound").expect("what was there has room");
            assert_eq!(Model::of(&again), after);
            model = after;
            let key = random_key(&mut random, longest);
            let view = IndexPage::open(&page).expect("sound");
            assert_eq!(view.child_for(&key), Ok(model.child_for(&key)));
            assert_eq!(view.child(view.child_index(&key).expect("sound")), Ok(model.child_for(&key)));
        }
        assert!(kept > 0 && (full > 0 || longest < 60), "keys of {longest} bytes: {full} times full, {kept} times cut");
    }
}

/// Fills a page with keys of random or ascending order, splits it, and puts the entry into its half.
fn split(random: &mut SplitMix64, longest: u64, rising: bool) -> (usize, usize) {
    let mut page = fresh();
    let mut model = Model { leftmost: page_id(random), entries: Vec::new() };
    apply(&mut page, None, &PageChange::SetLeftmost { child: model.leftmost }).expect("sound");
    for number in 0u32.. {
        let mut key = random_key(random, longest);
        if rising {
            key = [&number.to_be_bytes()[..], &key].concat();
            key.truncate(INDEX_KEY_BYTES_MAX);
        }
        let Err(position) = model.entries.binary_search_by(|(other, _)| other.cmp(&key)) else { continue };
        let child = page_id(random);
        model.entries.insert(position, (key.clone(), child));
        let change = PageChange::InsertEntry { position: position as u16, key: key.clone(), child };
        if apply(&mut page, None, &change).expect("sound").is_some() {
            continue;
        }
        let view = IndexPage::open(&page).expect("sound");
        assert!(view.len() >= 4, "four entries fit");
        let split = view.split(position, key.len()).expect("sound");
        let (kept, count) = (split.kept as u16, view.len() as u16);
        let mut right = page.clone();
        apply(&mut right, None, &PageChange::KeepEntries { from: kept + 1, to: count }).expect("sound");
        apply(&mut page, None, &PageChange::KeepEntries { from: 0, to: kept }).expect("sound");
        let (is_right, position) = split.place(position);
        let half = if is_right { &mut right } else { &mut page };
        let change = PageChange::InsertEntry { position: position as u16, key, child };
        apply(half, None, &change).expect("sound").expect("the new entry has room in its half");
        let (left, right) = (Model::of(&page), Model::of(&right));
        let up = [(split.separator.clone(), right.leftmost)];
        assert_eq!(left.leftmost, model.leftmost);
        assert_eq!([&left.entries[..], &up, &right.entries].concat(), model.entries, "every entry once, in order");
        let bytes = |model: &Model| model.entries.iter().map(|(key, _)| IndexPage::entry_size(key.len())).sum();
        return (bytes(&left), bytes(&right));
    }
    unreachable!("a page is full at some time")
}

#[test]
fn a_split_divides_a_page_in_halves_or_leaves_it_full() {
    let mut random = SplitMix64::new(2);
    for round in 0..300 {
        let longest = [9, 40, 300, INDEX_KEY_BYTES_MAX as u64][round % 4].max(9);
        let (left, right) = split(&mut random, longest, false);
        let largest = IndexPage::entry_size(longest as usize);
        assert!(left.abs_diff(right) <= 2 * largest || right < left, "{left} and {right} bytes");
        let (left, right) = split(&mut random, longest, true);
        assert!(left + 2 * largest + 8 > PAGE_SIZE - 72 && right <= largest + 4, "{left} and {right} bytes");
    }
}

/// Uses a page in all the ways of its owner.
fn use_page(random: &mut SplitMix64, page: &PageBytes) {
    let is_sound = check_index_page(page).is_ok();
    let Ok(view) = IndexPage::open(page) else { return };
    for index in 0..view.len() {
        assert!(view.entry(index).is_ok() || !is_sound);
    }
    let key = random_key(random, 30);
    let found: Result<PageId, PageDamage> = view.child_for(&key);
    assert!(found.is_ok() || !is_sound);
    let count = view.len() as u64;
    let position = random.below(count + 1) as u16;
    let _place_or_damage = view.split(usize::from(position), 9);
    let mut changes = vec![
        PageChange::InsertEntry { position, key, child: page_id(random) },
        PageChange::SetLeftmost { child: page_id(random) },
        PageChange::KeepEntries { from: position, to: count as u16 },
    ];
    if count > 0 {
        changes.push(PageChange::RemoveEntry { position: random.below(count) as u16 });
    }
    for change in changes {
        change.check(page, None).expect("made from this page");
        let mut copy = Box::new(*page);
        match apply(&mut copy, None, &change) {
            Ok(Some(undo)) => drop(apply(&mut copy, None, &undo)),
            _ => assert!(copy[..] == page[..], "a change that does not come about leaves the page as it was"),
        }
    }
}

#[test]
fn damaged_pages_are_refused_or_read_within_bounds() {
    let mut random = SplitMix64::new(3);
    for _ in 0..150 {
        let mut page = fresh();
        let mut model = Model::default();
        for _ in 0..random.below(120) {
            let (change, after) = step(&mut random, &model, 40);
            if apply(&mut page, None, &change).expect("sound").is_some() {
                model = after;
            }
        }
        use_page(&mut random, &page);
        for _ in 0..30 {
            let mut broken = page.clone();
            for _ in 0..1 + random.below(5) {
                let bound = if random.below(4) == 0 { PAGE_SIZE as u64 } else { 500 };
                let at = 40 + random.below(bound - 40) as usize;
                broken[at] = if random.below(3) == 0 { 0xFF } else { random.next_u64() as u8 };
            }
            use_page(&mut random, &broken);
        }
    }
    for _ in 0..2000 {
        let mut page = Box::new([0; PAGE_SIZE]);
        page.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| *chunk = random.next_u64().to_le_bytes());
        (page[4], page[5], page[54]) = (hobt_page::FORMAT_VERSION, PageType::Index as u8, 1);
        page[48..50].copy_from_slice(&(random.below(900) as u16).to_le_bytes());
        page[70..72].copy_from_slice(&(random.below(8000) as u16).to_le_bytes());
        use_page(&mut random, &page);
    }
}
