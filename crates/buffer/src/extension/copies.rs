//! Which place of the extension's file has a copy of which page.
//!
//! A record for each place, and an index from pages to places: open addressing with linear probing, at most half full.
//! All memory is taken at the start. It decides nothing about whether a copy is current (`extension.rs`).

use std::num::NonZero;
use std::ops::Range;

use crate::error::BufferError;

/// A page of a registered file: the file's registration, which is never reused, and the page's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageKey(NonZero<u64>);

impl PageKey {
    /// # Panics
    /// `registration` is 0.
    pub(crate) fn new(registration: u32, number: u32) -> PageKey {
        assert!(registration > 0, "registrations begin at 1");
        PageKey(NonZero::new(u64::from(registration) << 32 | u64::from(number)).expect("as asserted"))
    }

    pub(crate) fn registration(self) -> u32 {
        // The upper half.
        (self.0.get() >> 32) as u32
    }

    pub(crate) fn number(self) -> u32 {
        // The lower half.
        self.0.get() as u32
    }

    /// Where the search for it begins, in an index of two to the power of `bits` buckets. The factor is 2⁶⁴ over the
    /// golden ratio (Knuth, "The Art of Computer Programming", volume 3, 6.4).
    fn home(self, bits: u32) -> usize {
        (self.0.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - bits)) as usize
    }
}

/// What is known of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copy {
    pub(crate) key: PageKey,
    /// The version of the page's state word when the page is absent and the copy current.
    pub(crate) version: u32,
    /// The checksum in the copy's header.
    pub(crate) checksum: u32,
}

/// The copies by place and by page.
pub(crate) struct Copies {
    places: Vec<Option<Copy>>,
    /// Places plus one; 0 for an empty bucket.
    buckets: Vec<u32>,
    bits: u32,
    count: u32,
}

impl Copies {
    /// An empty map for so many places.
    ///
    /// # Errors
    /// [`BufferError::Memory`].
    ///
    /// # Panics
    /// `places` is 0 or above 2³⁰.
    pub(crate) fn new(places: u32) -> Result<Copies, BufferError> {
        let bits = Copies::bits(places);
        let mut copies = Copies { places: Vec::new(), buckets: Vec::new(), bits, count: 0 };
        let refused = |_| {
            let bytes = usize::try_from(Copies::bytes(places)).unwrap_or(usize::MAX);
            BufferError::Memory { bytes, code: libc::ENOMEM }
        };
        copies.places.try_reserve_exact(places as usize).map_err(refused)?;
        copies.buckets.try_reserve_exact(1 << bits).map_err(refused)?;
        copies.places.resize(places as usize, None);
        copies.buckets.resize(1 << bits, 0);
        Ok(copies)
    }

    fn bits(places: u32) -> u32 {
        assert!(places > 0 && places <= 1 << 30, "{places} places");
        (places * 2).next_power_of_two().trailing_zeros()
    }

    /// The memory of a map for so many places, in bytes.
    pub(crate) fn bytes(places: u32) -> u64 {
        u64::from(places) * size_of::<Option<Copy>>() as u64 + (size_of::<u32>() << Copies::bits(places)) as u64
    }

    /// The number of copies.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn places(&self) -> u32 {
        // Made from a `u32`.
        self.places.len() as u32
    }

    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// The bucket that leads to the page's copy, or the empty one where its search ends.
    fn bucket(&self, key: PageKey) -> usize {
        let mut bucket = key.home(self.bits);
        while let Some(place) = self.buckets[bucket].checked_sub(1) {
            if self.copy_at(place).key == key {
                break;
            }
            bucket = self.next(bucket);
        }
        bucket
    }

    fn copy_at(&self, place: u32) -> Copy {
        self.places[place as usize].expect("a bucket leads to a copy")
    }

    /// The place of the page's copy, and what is known of it.
    pub(crate) fn find(&self, key: PageKey) -> Option<(u32, Copy)> {
        let place = self.buckets[self.bucket(key)].checked_sub(1)?;
        Some((place, self.copy_at(place)))
    }

    /// Sets the version for which a copy is current.
    pub(crate) fn set_version(&mut self, place: u32, version: u32) {
        if let Some(copy) = &mut self.places[place as usize] {
            copy.version = version;
        }
    }

    /// Sets the checksum of a copy.
    pub(crate) fn set_checksum(&mut self, place: u32, checksum: u32) {
        if let Some(copy) = &mut self.places[place as usize] {
            copy.checksum = checksum;
        }
    }

    /// Records a copy in an empty place.
    ///
    /// # Panics
    /// The place is in use, or the page has a copy elsewhere.
    pub(crate) fn put(&mut self, place: u32, copy: Copy) {
        let bucket = self.bucket(copy.key);
        assert!(self.places[place as usize].is_none() && self.buckets[bucket] == 0, "one copy a place and a page");
        self.places[place as usize] = Some(copy);
        self.buckets[bucket] = place + 1;
        self.count += 1;
    }

    /// Forgets what is in a place. Returns whether there was something.
    pub(crate) fn clear(&mut self, place: u32) -> bool {
        let Some(copy) = self.places[place as usize] else { return false };
        let mut empty = self.bucket(copy.key);
        self.places[place as usize] = None;
        self.count -= 1;
        // Copies behind move up, if their search begins no later than at the bucket that becomes empty.
        let mask = self.buckets.len() - 1;
        let mut bucket = self.next(empty);
        while let Some(other) = self.buckets[bucket].checked_sub(1) {
            let home = self.copy_at(other).key.home(self.bits);
            if bucket.wrapping_sub(home) & mask >= bucket.wrapping_sub(empty) & mask {
                self.buckets[empty] = other + 1;
                empty = bucket;
            }
            bucket = self.next(bucket);
        }
        self.buckets[empty] = 0;
        true
    }

    /// Forgets those of the copies in these places whose file's registration `is_gone`.
    pub(crate) fn forget(&mut self, places: Range<u32>, is_gone: impl Fn(u32) -> bool) {
        for place in places {
            if self.places[place as usize].is_some_and(|copy| is_gone(copy.key.registration())) {
                self.clear(place);
            }
        }
    }

    /// The copies in these places.
    pub(crate) fn iter(&self, places: Range<u32>) -> impl Iterator<Item = Copy> + '_ {
        self.places[places.start as usize..places.end as usize].iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use hobt_base::SplitMix64;

    use super::*;

    /// Against a map of the standard library: the same copies are found after any sequence of changes, at any load.
    #[test]
    fn copies_are_found_after_any_changes() {
        const PLACES: u32 = 200;
        let mut random = SplitMix64::new(5);
        let mut copies = Copies::new(PLACES).expect("memory");
        let mut model: HashMap<NonZero<u64>, (u32, Copy)> = HashMap::new();
        for step in 0..20_000_u32 {
            let key = PageKey::new(1 + random.below(3) as u32, random.below(120) as u32);
            let place = random.below(u64::from(PLACES)) as u32;
            match random.below(20) {
                0..=11 => {
                    if let Some((old, _)) = copies.find(key) {
                        assert!(copies.clear(old));
                        model.remove(&key.0);
                    }
                    let was_used = model.iter().find(|(_, (at, _))| *at == place).map(|(key, _)| *key);
                    assert_eq!(copies.clear(place), was_used.is_some());
                    was_used.map(|key| model.remove(&key));
                    let copy = Copy { key, version: step, checksum: !step };
                    copies.put(place, copy);
                    model.insert(key.0, (place, copy));
                }
                12..=16 => {
                    if let Some((old, _)) = copies.find(key) {
                        copies.clear(old);
                    }
                    model.remove(&key.0);
                }
                17 | 18 => {
                    if let Some((at, copy)) = model.get_mut(&key.0) {
                        copies.set_version(*at, step);
                        copy.version = step;
                    }
                }
                _ if random.below(50) == 0 => {
                    copies.forget(0..PLACES, |registration| registration == key.registration());
                    model.retain(|_, (_, copy)| copy.key.registration() != key.registration());
                }
                _ => {}
            }
            assert_eq!(copies.find(key), model.get(&key.0).copied());
            assert_eq!(copies.count() as usize, model.len());
        }
        for registration in 1..=3 {
            for number in 0..120 {
                let key = PageKey::new(registration, number);
                assert_eq!(copies.find(key), model.get(&key.0).copied());
            }
        }
        assert_eq!(copies.iter(0..PLACES).count(), model.len());
    }

    #[test]
    fn memory_is_bounded_by_the_places() {
        for places in [64, 1000, 1 << 20, (1 << 20) + 1] {
            assert!(Copies::bytes(places) <= u64::from(places) * 32, "{places}");
        }
    }
}
