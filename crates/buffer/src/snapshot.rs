//! Whether a read past the pool saw the pool's current contents.
//!
//! A scan copies the pages' state words, reads the pages into a buffer of its own, and compares. A page's copy is good
//! if the pool had nothing newer than the disk at both moments and nothing happened in between: the page was clean (or
//! absent) and its version is unchanged. A change increments the version before the page can be written, and a page
//! stays dirty until the disk has all of it. So an equal and clean word also rules out that the read met a write half
//! done.

use crate::file::PoolFile;
use crate::frames::StateWords;
use crate::state::StateWord;

/// The state of neighbouring pages at one moment.
#[derive(Clone)]
pub struct StateSnapshot {
    first: u32,
    words: Vec<StateWord>,
}

fn word(words: &StateWords, number: u32) -> StateWord {
    words.get(number).map_or(StateWord(0), |cell| cell.load())
}

/// Whether the pool may have contents newer than the disk's.
fn is_newer_than_disk(word: StateWord) -> bool {
    word.is_dirty() || (word.is_exclusive() && !word.is_loading())
}

impl StateSnapshot {
    /// The first page.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// The number of pages.
    pub fn count(&self) -> u32 {
        // Made from a `u32` count.
        self.words.len() as u32
    }

    /// How many of the pages were in frames.
    pub fn resident(&self) -> u32 {
        self.words.iter().map(|word| u32::from(word.is_resident())).sum()
    }

    /// Whether all of them were in frames, so that there is no reason to read past the pool.
    pub fn all_resident(&self) -> bool {
        self.words.iter().all(|word| word.is_resident())
    }

    /// Whether page `number` was in a frame; false for pages outside the snapshot.
    pub fn is_resident(&self, number: u32) -> bool {
        let at = number.checked_sub(self.first).and_then(|at| self.words.get(at as usize));
        at.is_some_and(|word| word.is_resident())
    }
}

impl PoolFile {
    /// The state of pages `first..first + count`. Does not block.
    pub fn state_snapshot(&self, first: u32, count: u32) -> StateSnapshot {
        let words = &*self.registered().words;
        StateSnapshot { first, words: (first..first.saturating_add(count)).map(|number| word(words, number)).collect() }
    }

    /// Appends, in order, the pages that must be taken from the pool and not from a private copy that was read between
    /// the snapshot and now. Does not block.
    pub fn changed_since(&self, snapshot: &StateSnapshot, out: &mut Vec<u32>) {
        let words = &*self.registered().words;
        out.extend((snapshot.first..).zip(&snapshot.words).filter_map(|(number, &before)| {
            let now = word(words, number);
            let changed = before.version() != now.version() || is_newer_than_disk(before) || is_newer_than_disk(now);
            changed.then_some(number)
        }));
    }
}

impl std::fmt::Debug for StateSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StateSnapshot({}, {} pages, {} resident)", self.first, self.count(), self.resident())
    }
}
