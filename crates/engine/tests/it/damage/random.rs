//! Fields of the file changed at random: nothing panics or hangs, and what a check finds sound can be read completely.
//!
//! `HOBT_DAMAGE` is the number of changes (300), `HOBT_SEED` the seed. A failure names its own seed, and with
//! `HOBT_DAMAGE=1` that seed repeats the change. A change that was not found is classified by the rows: they are
//! unchanged (the bytes mean nothing), or have values that a statement could have written. Most changes must be found:
//! a check that finds nothing would call everything sound.

use std::sync::mpsc;
use std::time::Duration;

use hobt_base::SplitMix64;
use hobt_catalog::row_image;
use hobt_engine::{DatabaseUse, Instance, TableWriter};
use hobt_page::{PageHeader, PageType};
use hobt_types::Value;

use super::world::{Outcome, World, world};
use crate::fixture::run;

/// The number of changes from which on the share of those found is checked. In fewer, most may by chance be
/// meaningless.
const JUDGED: u64 = 100;

/// The time limit of one start, check, reading and changing.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fields of a page's header: their offsets and lengths.
const FIELDS: [(usize, usize); 18] = [
    (4, 1),
    (5, 1),
    (6, 2),
    (8, 4),
    (12, 2),
    (14, 2),
    (16, 4),
    (20, 4),
    (24, 8),
    (32, 8),
    (40, 8),
    (48, 2),
    (50, 2),
    (52, 2),
    (54, 1),
    (55, 1),
    (56, 4),
    (60, 2),
];

/// The result of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Refused,
    Found,
    /// The rows are unchanged: the bytes mean nothing.
    Nothing,
    /// Some rows have other values, which are valid.
    OtherValue,
}

fn below(random: &mut SplitMix64, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("below a usize")
}

/// Changes one field and returns a description.
fn mutate(world: &mut World, random: &mut SplitMix64) -> String {
    if random.below(20) == 0 {
        let (copy, at) = (below(random, 2), 4 + below(random, 100));
        let value = [0, 0xFF, 1, random.below(256) as u8][below(random, 4)];
        return format!("the log's header {copy}, byte {at} to {value}, {}", world.put_in_log_header(copy, at, value));
    }
    let formatted: Vec<u32> = (0..world.page_count()).filter(|page| world.page(*page)[4] != 0).collect();
    loop {
        let page = formatted[below(random, formatted.len())];
        let (at, width) = if random.below(2) == 0 {
            FIELDS[below(random, FIELDS.len())]
        } else {
            // Mostly where a page has data.
            let width = [1, 1, 2, 4][below(random, 4)];
            let mut at = 64 + below(random, 8192 - 64 - width);
            for _ in 0..8 {
                if world.page(page)[at] != 0 {
                    break;
                }
                at = 64 + below(random, 8192 - 64 - width);
            }
            (at, width)
        };
        let before = world.page(page)[at..at + width].to_vec();
        let mut bytes = before.clone();
        match random.below(5) {
            0 => bytes[below(random, width)] ^= 1 << random.below(8),
            1 => bytes.fill(0),
            2 => bytes.fill(0xFF),
            3 => bytes[0] = bytes[0].wrapping_add(1),
            _ => bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8),
        }
        if bytes == before {
            continue;
        }
        let page_type = PageHeader::read(world.page(page)).map_or(PageType::Unformatted, |header| header.page_type);
        world.put(page, at, &bytes);
        return format!("page {page} ({}), bytes {at}: {before:?} to {bytes:?}", page_type.name());
    }
}

/// Inserts a row into each table and deletes and updates some. The results are ignored.
fn change_rows(instance: &Instance, database: &DatabaseUse) {
    let snapshot = database.snapshot();
    for table in snapshot.tables.values().filter(|table| !table.is_system) {
        let Ok(reader) = TableWriter::open_to_read(database, &snapshot, std::sync::Arc::clone(table)) else { continue };
        let mut places = Vec::new();
        for partition in 0..reader.base().len() {
            let _ = reader.for_each_row(partition, &mut |at, row| {
                places.push((at.clone(), row.clone()));
                true
            });
        }
        let own = |row: &hobt_page::RowImage| {
            hobt_page::RowImage::new((0..table.columns.len()).map(|column| row.value(column)))
        };
        let step = (places.len() / 9).max(1);
        let _ = run(instance, |ctx| {
            let writer = TableWriter::open(database, &snapshot, std::sync::Arc::clone(table))?;
            for (at, row) in places.iter().step_by(step) {
                if writer.delete(ctx, at).is_ok() {
                    let _ = writer.insert(ctx, at.partition(), &own(row));
                }
            }
            let values = vec![Value::Int(7), Value::Text("new".repeat(20)), Value::Int(8)];
            let types = table.columns.iter().map(|column| column.sql_type);
            if types.len() == values.len()
                && let Ok(image) = row_image(types, &values)
            {
                for _ in 0..60 {
                    let _ = writer.insert(ctx, 0, &image);
                }
            }
            Ok(())
        });
    }
}

/// Makes one change and classifies its result.
fn try_one(seed: u64, clean: &[String]) -> Result<(Class, String), String> {
    let mut random = SplitMix64::new(seed);
    let mut damaged = world();
    let what = mutate(&mut damaged, &mut random);
    let (outcome, instance, database) = damaged.start();
    let class = match (&outcome, &database) {
        (Outcome::Unchecked(error), _) => return Err(format!("{what}: the check ends with {error}")),
        (Outcome::Refused(_), _) | (_, None) => Class::Refused,
        (Outcome::Checked(errors), Some(_)) if !errors.is_empty() => Class::Found,
        (Outcome::Checked(_), Some(database)) => match damaged.dump(database) {
            Ok(lines) if lines == clean => Class::Nothing,
            Ok(_) => Class::OtherValue,
            Err(error) => return Err(format!("{what}: a check finds nothing, and a row cannot be read: {error}")),
        },
    };
    if let Some(database) = &database {
        change_rows(&instance, database);
    }
    Ok((class, what))
}

#[test]
fn a_field_that_was_changed_at_random_is_no_panic_and_no_hang() {
    let number = |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (count, first) = (number("HOBT_DAMAGE", 300), number("HOBT_SEED", 1));
    let clean = {
        let world = world();
        let (_, _instance, database) = world.start();
        world.dump(&database.expect("a sound database")).expect("sound rows")
    };
    let mut classes: Vec<(Class, String, u64)> = Vec::new();
    let mut wrong = Vec::new();
    for seed in first..first + count {
        let (sender, receiver) = mpsc::channel();
        let clean = clean.clone();
        let worker = std::thread::spawn(move || {
            let done = try_one(seed, &clean);
            let _ = sender.send(done);
        });
        match receiver.recv_timeout(PATIENCE) {
            Ok(Ok((class, what))) => classes.push((class, what, seed)),
            Ok(Err(text)) => wrong.push(format!("HOBT_SEED={seed}: {text}")),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("HOBT_SEED={seed} HOBT_DAMAGE=1: it hangs"),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                assert!(worker.join().is_err(), "a thread that sends nothing has panicked");
                let what = mutate(&mut world(), &mut SplitMix64::new(seed));
                wrong.push(format!("HOBT_SEED={seed}: a panic, after {what}"));
                continue;
            }
        }
        let _ = worker.join();
    }
    let of = |class| classes.iter().filter(move |(found, ..)| *found == class);
    println!(
        "{count} changes: {} refused, {} found, {} mean nothing, {} are another value",
        of(Class::Refused).count(),
        of(Class::Found).count(),
        of(Class::Nothing).count(),
        of(Class::OtherValue).count()
    );
    for class in [Class::Nothing, Class::OtherValue] {
        of(class).for_each(|(class, what, seed)| println!("{class:?} {seed}: {what}"));
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    let (refused, found) = (of(Class::Refused).count() as u64, of(Class::Found).count() as u64);
    assert!(count < JUDGED || (refused + found) * 2 > count, "{refused} refused and {found} found, of {count}");
}
