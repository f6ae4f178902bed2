//! The bytes of a simulated file, and its states at the last sync and since.
//!
//! Of the writes since the last sync, a crash keeps none, all, some whole ones, the first ones with the last of these
//! torn, some sectors, or for each sector any state that it had. A device may execute its writes in any order, or not
//! at all.

use crate::buffer::SECTOR_SIZE;
use hobt_base::SplitMix64;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const CHUNK: usize = 256 << 10;
const SECTOR: u64 = SECTOR_SIZE as u64;

/// How many states of a sector between the synced one and the newest are kept.
const STATES_MAX: usize = 3;

/// The bytes of a sector; `None` for zeros, which fill new files.
type Sector = Option<Box<[u8; SECTOR_SIZE]>>;

const ZEROS: [u8; SECTOR_SIZE] = [0; SECTOR_SIZE];

/// A sector that was written since the last sync.
#[derive(Debug)]
struct Unsynced {
    synced: Sector,
    /// States that were overwritten, each with the number of its write, in order.
    between: Vec<(u64, Sector)>,
    /// The number of the write that made the newest state.
    newest: u64,
}

/// Which writes since the last sync a crash leaves.
#[derive(Clone, Copy)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// Each sector in its newest state, or in the synced one.
    Sectors,
    /// Each sector in any state that it had.
    States,
    /// Each write whole or not at all, chosen by the number.
    Writes(u64),
    /// The writes before a given write, and some sectors of that one.
    Until(u64),
}

impl Survival {
    pub(crate) fn choose(random: &mut SplitMix64, first: u64, last: u64) -> Survival {
        match random.below(6) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::Sectors,
            3 => Survival::States,
            4 => Survival::Writes(random.next_u64()),
            _ => Survival::Until(first + random.below(last - first + 1)),
        }
    }

    /// Whether the state made by this write may be the one left. Called for the newest state first.
    pub(crate) fn keeps(self, random: &mut SplitMix64, write: u64, is_newest: bool) -> bool {
        match self {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Sectors => is_newest && random.below(2) == 0,
            Survival::States => random.below(2) == 0,
            Survival::Writes(salt) => SplitMix64::new(salt ^ write).below(2) == 0,
            Survival::Until(last) => write < last || (write == last && random.below(2) == 0),
        }
    }
}

/// Bytes in chunks (those never written are missing), and the states of sectors since the last sync.
#[derive(Debug)]
pub(crate) struct Content {
    chunks: Vec<Option<Box<[u8]>>>,
    size: u64,
    /// `None` if nothing is tracked.
    unsynced: Option<BTreeMap<u64, Unsynced>>,
    synced_size: u64,
    /// The number of the last write.
    writes: u64,
}

/// The parts of a range, each in one chunk: the chunk, the first byte in it, the range of the transfer.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let chunk = usize::try_from(position / CHUNK as u64).expect("a file in memory has addressable chunks");
        let within = usize::try_from(position % CHUNK as u64).expect("below CHUNK");
        let count = (CHUNK - within).min(length - done);
        let part = (chunk, within, done..done + count);
        done += count;
        Some(part)
    })
}

/// Whether all bytes are 0. Compares sector by sector, because that is faster than byte by byte.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(SECTOR_SIZE).all(|chunk| *chunk == ZEROS[..chunk.len()])
}

impl Content {
    pub(crate) fn new(track_unsynced: bool) -> Content {
        Content { chunks: Vec::new(), size: 0, unsynced: track_unsynced.then(BTreeMap::new), synced_size: 0, writes: 0 }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Copies up to the end of the file. Returns the number of bytes copied.
    pub(crate) fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let there = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(target.len());
        for (chunk, within, range) in parts(offset, there) {
            let target = &mut target[range];
            match self.chunks.get(chunk) {
                Some(Some(bytes)) => target.copy_from_slice(&bytes[within..within + target.len()]),
                _ => target.fill(0),
            }
        }
        there
    }

    pub(crate) fn write(&mut self, offset: u64, source: &[u8]) {
        self.remember(offset, offset + source.len() as u64, is_zero(source));
        self.put(offset, source);
        self.size = self.size.max(offset + source.len() as u64);
    }

    pub(crate) fn put(&mut self, offset: u64, source: &[u8]) {
        for (chunk, within, range) in parts(offset, source.len()) {
            if chunk >= self.chunks.len() {
                self.chunks.resize_with(chunk + 1, || None);
            }
            let source_part = &source[range.clone()];
            if self.chunks[chunk].is_none() && is_zero(source_part) {
                continue;
            }
            let bytes = self.chunks[chunk].get_or_insert_with(|| vec![0; CHUNK].into());
            bytes[within..within + range.len()].copy_from_slice(source_part);
        }
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.remember(size, self.size, true);
            // Bytes beyond the end are zeroed, in case the file grows again.
            let mut position = size;
            while position < self.size {
                let chunk_end = (position / CHUNK as u64 + 1) * CHUNK as u64;
                let end = chunk_end.min(self.size);
                let chunk = usize::try_from(position / CHUNK as u64).expect("a file in memory has addressable chunks");
                if let Some(Some(bytes)) = self.chunks.get_mut(chunk) {
                    let within = usize::try_from(position % CHUNK as u64).expect("below CHUNK");
                    let length = usize::try_from(end - position).expect("at most CHUNK");
                    bytes[within..within + length].fill(0);
                }
                position = end;
            }
        }
        self.size = size;
    }

    fn has_chunk(&self, sector: u64) -> bool {
        let chunk = usize::try_from(sector * SECTOR / CHUNK as u64).expect("a file in memory has addressable chunks");
        matches!(self.chunks.get(chunk), Some(Some(_)))
    }

    fn sector(&self, sector: u64) -> Sector {
        let mut bytes = ZEROS;
        self.read(sector * SECTOR, &mut bytes);
        (bytes != ZEROS).then(|| Box::new(bytes))
    }

    /// Keeps the states of the sectors of a range before they are written. `with_zeros` says that they are written with
    /// zeros.
    fn remember(&mut self, from: u64, to: u64, with_zeros: bool) {
        let Some(mut unsynced) = self.unsynced.take() else { return };
        self.writes += 1;
        let newest = self.writes;
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            // Zeros over a chunk that was never written: a crash finds zeros in any case.
            if with_zeros && !self.has_chunk(sector) {
                continue;
            }
            let bytes = self.sector(sector);
            match unsynced.entry(sector) {
                Entry::Vacant(entry) => {
                    entry.insert(Unsynced { synced: bytes, between: Vec::new(), newest });
                }
                Entry::Occupied(mut entry) => {
                    let known = entry.get_mut();
                    if known.between.len() == STATES_MAX {
                        known.between.remove(0);
                    }
                    known.between.push((known.newest, bytes));
                    known.newest = newest;
                }
            }
        }
        self.unsynced = Some(unsynced);
    }

    pub(crate) fn sync(&mut self) {
        self.synced_size = self.size;
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.clear();
        }
    }

    /// Makes a range and the file's size durable, but nothing else.
    pub(crate) fn sync_range(&mut self, offset: u64, length: u64) {
        self.synced_size = self.size;
        if let Some(unsynced) = &mut self.unsynced {
            for sector in offset / SECTOR..(offset + length).div_ceil(SECTOR) {
                unsynced.remove(&sector);
            }
        }
    }

    /// A power failure. Which writes since the last sync are left is drawn at random.
    pub(crate) fn crash(&mut self, random: &mut SplitMix64) {
        let Some(unsynced) = self.unsynced.take() else { return };
        let first = unsynced.values().map(|sector| sector.between.first().map_or(sector.newest, |first| first.0)).min();
        let survival = Survival::choose(random, first.unwrap_or(0), self.writes);
        let keeps_size = match survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            _ => random.below(2) == 0,
        };
        let size = if keeps_size { self.size } else { self.synced_size };
        for (sector, states) in unsynced {
            if survival.keeps(random, states.newest, true) {
                continue;
            }
            let older = states.between.iter().rev().find(|(write, _)| survival.keeps(random, *write, false));
            let bytes = older.map_or(&states.synced, |(_, bytes)| bytes);
            self.put(sector * SECTOR, bytes.as_ref().map_or(&ZEROS[..], |bytes| &bytes[..]));
        }
        // Restored sectors beyond the end are cut off. Those cut off by a shrink that was kept stay zero.
        self.size = self.size.max(self.synced_size);
        self.set_size(size);
        self.unsynced = Some(BTreeMap::new());
        self.synced_size = size;
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Content};
    use hobt_base::SplitMix64;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![9; usize::try_from(content.size()).expect("small")];
        assert_eq!(content.read(0, &mut bytes), bytes.len());
        bytes
    }

    #[test]
    fn agrees_with_a_vector_of_bytes() {
        let mut random = SplitMix64::new(5);
        let (mut content, mut model) = (Content::new(true), Vec::new());
        for round in 0..300_u64 {
            let offset = random.below(2 * CHUNK as u64);
            let place = usize::try_from(offset).expect("small");
            if round % 10 == 0 {
                content.set_size(offset);
                model.resize(place, 0);
            } else {
                let bytes = vec![u8::try_from(round % 251).expect("small"); 1 + place % 70_000];
                content.write(offset, &bytes);
                model.resize(model.len().max(place + bytes.len()), 0);
                model[place..place + bytes.len()].copy_from_slice(&bytes);
            }
            assert!(all(&content) == model, "after round {round}");
        }
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_of_the_rest_whole_sectors() {
        let mut outcomes = [false; 3];
        for seed in 0..60 {
            let mut content = Content::new(true);
            content.write(0, &[1; 8192]);
            content.sync();
            content.write(4096, &[2; 8192]);
            content.crash(&mut SplitMix64::new(seed));
            let bytes = all(&content);
            assert!(bytes.len() == 8192 || bytes.len() == 12_288, "{}", bytes.len());
            assert_eq!(bytes[..4096], [1; 4096]);
            for (i, sector) in bytes[4096..].chunks(512).enumerate() {
                let old = if i < 8 { 1 } else { 0 };
                assert!(sector == [2; 512] || sector == [old; 512], "sector {i} of seed {seed}");
            }
            let kept = bytes[4096..8192].chunks(512).filter(|sector| sector[0] == 2).count();
            outcomes[match kept {
                0 => 0,
                8 => 1,
                _ => 2,
            }] = true;
        }
        assert_eq!(outcomes, [true; 3], "dropped, kept and torn all happen");
    }

    #[test]
    fn of_several_writes_any_may_survive_without_the_others() {
        let mut outcomes = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let mut content = Content::new(true);
            content.write(0, &[0; 1024]);
            content.sync();
            content.write(0, &[1; 1024]);
            content.write(512, &[2; 512]);
            content.crash(&mut SplitMix64::new(seed));
            let bytes = all(&content);
            outcomes.insert((bytes[0], bytes[512]));
        }
        let every = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)];
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), every);
    }

    #[test]
    fn a_durable_write_makes_no_other_durable() {
        let mut lost = false;
        for seed in 0..40 {
            let mut content = Content::new(true);
            content.write(0, &[1; 1024]);
            content.sync();
            content.write(0, &[2; 512]);
            content.write(512, &[3; 512]);
            content.sync_range(512, 512);
            content.crash(&mut SplitMix64::new(seed));
            let bytes = all(&content);
            assert_eq!(bytes[512..], [3; 512]);
            lost |= bytes[0] == 1;
        }
        assert!(lost);
    }

    #[test]
    fn a_lost_shrink_brings_the_synced_bytes_back() {
        for seed in 0..30 {
            let mut content = Content::new(true);
            content.write(0, &[3; 4096]);
            content.sync();
            content.set_size(1024);
            content.crash(&mut SplitMix64::new(seed));
            let bytes = all(&content);
            assert!(bytes.len() == 1024 || bytes.len() == 4096);
            assert_eq!(bytes[..1024], [3; 1024]);
        }
    }
}
