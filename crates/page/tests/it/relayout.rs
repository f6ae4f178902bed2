//! How often a page is laid out again while rows are added one by one.

use hobt_base::{FileId, HobtId, PAGE_SIZE, PageId, SplitMix64, Stamp};
use hobt_page::{ColumnLayout, PageChange, PageHeader, PageType, RowImage, RowLayout, apply};
use hobt_types::PhysicalType;

/// Fills a page. Returns the rows that it took and how often it was laid out again.
fn fill(rows: &RowLayout, random: &mut SplitMix64, length: &dyn Fn(usize, &mut SplitMix64) -> usize) -> (usize, usize) {
    let mut page = Box::new([0; PAGE_SIZE]);
    let (mut count, mut layouts) = (0, 0);
    loop {
        let values: Vec<Vec<u8>> = rows
            .columns()
            .iter()
            .enumerate()
            .map(|(place, column)| vec![7; column.physical.width().unwrap_or_else(|| length(place, random))])
            .collect();
        let row = RowImage::new(values.iter().map(|value| Some(value.as_slice())));
        if count == 0 {
            let variable = values.iter().zip(rows.columns()).filter(|(_, column)| column.physical.width().is_none());
            let mut header = PageHeader::new(PageType::Row, PageId::new(FileId(1), 8), 1, HobtId(1));
            header.capacity = rows.capacity_for(variable.map(|(value, _)| value.len()).sum());
            apply(&mut page, Some(rows), &PageChange::Format { header }).expect("sound");
        }
        match apply(&mut page, Some(rows), &PageChange::AppendRow { row, writer: Stamp(1) }).expect("sound") {
            None => return (count, layouts),
            Some(undo) => layouts += usize::from(matches!(undo, PageChange::Image { .. })),
        }
        count += 1;
    }
}

#[test]
fn a_page_is_laid_out_anew_a_few_times_at_most() {
    let column = |physical| ColumnLayout { physical, nullable: true };
    let rows = RowLayout::new(vec![
        column(PhysicalType::Fixed8),
        column(PhysicalType::Variable),
        column(PhysicalType::Variable),
        column(PhysicalType::Variable),
    ]);
    type Length<'a> = &'a dyn Fn(usize, &mut SplitMix64) -> usize;
    let lengths: [(&str, Length<'_>); 5] = [
        ("equal", &|_, _| 12),
        ("random", &|_, random| random.below(60) as usize),
        ("one long column", &|place, random| if place == 1 { random.below(200) as usize } else { 3 }),
        ("short", &|_, random| random.below(4) as usize),
        ("now and then long", &|_, random| if random.below(20) == 0 { 500 } else { 10 }),
    ];
    for (name, length) in lengths {
        let (mut pages, mut total, mut layouts, mut most) = (0, 0, 0, 0);
        for seed in 0..40 {
            let (count, times) = fill(&rows, &mut SplitMix64::new(seed), length);
            pages += 1;
            total += count;
            layouts += times;
            most = most.max(times);
        }
        println!("{name}: {} rows a page, laid out anew {} times, {most} at most", total / pages, layouts / pages);
        assert!(most <= 12 && layouts <= 8 * pages, "{name}: {layouts} times in {pages} pages, {most} in one");
    }
}
