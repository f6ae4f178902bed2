//! The memory that a statement's operators requested, were granted and hold, for other sessions to read while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_engine::time_of_day;

use hobt_showplan::MemoryShown;

/// The memory grant of a statement, in bytes. Can be read from any thread.
#[derive(Debug, Default)]
pub struct MemoryFigures {
    asked: OnceLock<Asked>,
    granted: OnceLock<(u64, i64)>,
    held: AtomicU64,
    held_most: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    least: u64,
    ideal: u64,
    at: i64,
}

impl MemoryFigures {
    /// Notes the request, in bytes. Only the first call counts.
    pub fn asks(&self, least: u64, ideal: u64) {
        self.asked.get_or_init(|| Asked { least, ideal, at: time_of_day() });
    }

    /// Notes the grant, in bytes.
    pub fn gets(&self, granted: u64) {
        self.granted.get_or_init(|| (granted, time_of_day()));
    }

    /// Notes that the grant was returned.
    pub fn gives_back(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether the grant was returned.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Notes the bytes held now.
    pub fn holds(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
        self.held_most.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The figures now; zeros if the statement has not requested memory.
    pub fn shown(&self) -> MemoryShown {
        let asked = self.asked.get().copied();
        let Asked { least, ideal, at } = asked.unwrap_or(Asked { least: 0, ideal: 0, at: 0 });
        let granted = self.granted.get().copied();
        MemoryShown {
            least,
            ideal,
            granted: granted.map_or(0, |(bytes, _)| bytes),
            asked_at: at,
            granted_at: granted.map(|(_, at)| at),
            held: self.held.load(Ordering::Relaxed),
            held_most: self.held_most.load(Ordering::Relaxed),
        }
    }
}
