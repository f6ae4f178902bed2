//! Sketches against the number of hashes added.

use hobt_base::SplitMix64;

use super::*;

fn sketch(seed: u64, count: u64) -> DistinctSketch {
    let mut sketch = DistinctSketch::default();
    for number in 0..count {
        sketch.add(hash_key(&(seed << 40 | number).to_be_bytes()));
    }
    sketch
}

/// Stored sketches are extended later, so the hash must never change.
#[test]
fn the_hash_is_xxh3() {
    assert_eq!(hash_key(b""), 0x2D06_8005_38D3_94C2);
    assert_eq!(hash_key(b"a"), 0xE6C6_32B6_1E96_4E1F);
    assert_eq!(hash_key(b"abc"), 0x78AF_5F94_892F_3950);
}

#[test]
fn few_hashes_are_counted_exactly() {
    let mut random = SplitMix64::new(1);
    for count in [0, 1, 2, 63, 511, 512] {
        let mut sketch = sketch(7, count);
        for _ in 0..1000.min(count * 10) {
            sketch.add(hash_key(&(7 << 40 | random.below(count)).to_be_bytes()));
        }
        assert_eq!(sketch.estimate(), count as f64);
        assert_eq!(sketch.is_empty(), count == 0);
    }
    let mut zero = DistinctSketch::default();
    zero.add(0);
    zero.add(0);
    assert_eq!(zero.estimate(), 1.0);
}

#[test]
fn estimates_are_within_two_percent() {
    for (count, seeds) in [(513, 60), (1_000, 60), (10_000, 60), (50_000, 40), (100_000, 20), (1_000_000, 6)] {
        let errors: Vec<f64> = (0..seeds).map(|seed| sketch(seed, count).estimate() / count as f64 - 1.0).collect();
        let misses = errors.iter().filter(|error| error.abs() > 0.02).count();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let deviation = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
        println!("{count}: mean {:.3} %, deviation {:.3} %, beyond 2 %: {misses}", mean * 100.0, deviation * 100.0);
        assert_eq!(misses, 0, "{count}: of {}", errors.len());
        assert!(deviation < 0.009, "{count}: {deviation}");
        assert!(mean.abs() < 4.0 * 0.006 / (errors.len() as f64).sqrt(), "{count}: biased by {mean}");
    }
}

/// The registers by definition: of all ranks seen, the highest and the two below are kept.
#[test]
fn registers_keep_the_highest_rank_and_which_of_the_two_below_were_seen() {
    let mut random = SplitMix64::new(5);
    for _ in 0..2_000 {
        let ranks: Vec<u8> = (0..random.below(9)).map(|_| 1 + random.below(u64::from(RANK_MAX)) as u8 % 9).collect();
        let register = ranks.iter().fold(0, |register, rank| both(register, rank << SEEN_BITS));
        let highest = ranks.iter().copied().max().unwrap_or(0);
        // Rank 0 counts as seen if there is a rank above it.
        let was_seen = |below: u8| {
            u8::from(highest == below && below > 0 || highest > below && ranks.contains(&(highest - below)))
        };
        assert_eq!(register, highest << SEEN_BITS | was_seen(1) << 1 | was_seen(2), "{ranks:?}");
        assert!(is_register(register));
        let (left, right) = ranks.split_at(ranks.len() / 2);
        let [left, right] = [left, right].map(|part| part.iter().fold(0, |register, rank| both(register, rank << 2)));
        assert_eq!(both(left, right), register, "{ranks:?}");
    }
    assert!([1, 4, 5, 7, 8, 10, RANK_MAX * 4 + 4].iter().all(|register| !is_register(*register)));
}

#[test]
fn merging_is_adding_everything_to_one() {
    let mut random = SplitMix64::new(2);
    for _ in 0..40 {
        let (left_count, right_count, domain) = (random.below(3000), random.below(3000), 1 + random.below(4000));
        let mut add = |sketches: [&mut DistinctSketch; 2], count| {
            let [one, all] = sketches;
            for _ in 0..count {
                let hash = hash_key(&random.below(domain).to_be_bytes());
                one.add(hash);
                all.add(hash);
            }
        };
        let [mut left, mut right, mut all] = [(); 3].map(|()| DistinctSketch::default());
        add([&mut left, &mut all], left_count);
        add([&mut right, &mut all], right_count);
        let mut swapped = right.clone();
        swapped.merge(&left);
        left.merge(&right);
        assert_eq!(left, all);
        assert_eq!(swapped, all);
    }
}

#[test]
fn a_sketch_of_hashes_that_are_all_alike_or_extreme_is_a_number() {
    let mut registers = Box::new([RANK_MAX << SEEN_BITS | 3; REGISTERS]);
    assert!(DistinctSketch::from_registers(registers.clone()).estimate() > 1e15);
    registers.fill(0);
    assert_eq!(DistinctSketch::from_registers(registers).estimate(), 0.0);
    let mut sketch = DistinctSketch::default();
    (0..1000).for_each(|number| sketch.add(number));
    assert!(sketch.estimate() >= 1.0 && sketch.estimate().is_finite());
}
