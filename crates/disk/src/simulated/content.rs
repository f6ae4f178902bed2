//! The bytes of a simulated file, and what they were at its last sync.

use crate::buffer::SECTOR_SIZE;
use hobt_base::SplitMix64;
use std::collections::BTreeMap;

const CHUNK: usize = 256 << 10;
const SECTOR: u64 = SECTOR_SIZE as u64;

type Sector = Box<[u8; SECTOR_SIZE]>;

/// Bytes in chunks, those never written left out, and the sectors as they were at the last sync where they changed.
#[derive(Debug)]
pub(crate) struct Content {
    chunks: Vec<Option<Box<[u8]>>>,
    size: u64,
    /// `None`: nothing is tracked.
    unsynced: Option<BTreeMap<u64, Sector>>,
    synced_size: u64,
}

/// The parts of a range that lie in one chunk each: chunk, first byte in it, range of the transfer.
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

impl Content {
    pub(crate) fn new(track_unsynced: bool) -> Content {
        Content { chunks: Vec::new(), size: 0, unsynced: track_unsynced.then(BTreeMap::new), synced_size: 0 }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Copies up to the end of the file; says how much that was.
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
        self.remember(offset, offset + source.len() as u64);
        self.put(offset, source);
        self.size = self.size.max(offset + source.len() as u64);
    }

    fn put(&mut self, offset: u64, source: &[u8]) {
        for (chunk, within, range) in parts(offset, source.len()) {
            if chunk >= self.chunks.len() {
                self.chunks.resize_with(chunk + 1, || None);
            }
            let bytes = self.chunks[chunk].get_or_insert_with(|| vec![0; CHUNK].into());
            bytes[within..within + range.len()].copy_from_slice(&source[range]);
        }
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.remember(size, self.size);
            // What lies beyond the end is zero, should the file grow again.
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

    /// Keeps the sectors of a range as they are, unless an older state is kept already.
    fn remember(&mut self, from: u64, to: u64) {
        let Some(mut unsynced) = self.unsynced.take() else { return };
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            unsynced.entry(sector).or_insert_with(|| {
                let mut bytes = Box::new([0; SECTOR_SIZE]);
                self.read(sector * SECTOR, &mut bytes[..]);
                bytes
            });
        }
        self.unsynced = Some(unsynced);
    }

    pub(crate) fn sync(&mut self) {
        self.synced_size = self.size;
        if let Some(unsynced) = &mut self.unsynced {
            unsynced.clear();
        }
    }

    /// A power failure: drops everything unsynced, keeps it, or tears it sector by sector, one of the three at random.
    pub(crate) fn crash(&mut self, random: &mut SplitMix64) {
        let Some(unsynced) = self.unsynced.take() else { return };
        let keep_percent = [0, 100, 50][usize::try_from(random.below(3)).expect("below 3")];
        let mut keep = || random.below(100) < keep_percent;
        let size = if keep() { self.size } else { self.synced_size };
        for (sector, bytes) in unsynced {
            if !keep() {
                self.put(sector * SECTOR, &bytes[..]);
            }
        }
        // Sectors beyond the end that were put back are cut off; those that a kept shrink cut off stay zero.
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
