//! What a statement's operators asked for, were granted and hold, as others see it while it runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_engine::time_of_day;

/// Bytes that a statement was let in with, and what came of it. May be read from any thread.
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

/// The same at one moment, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryShown {
    /// Less would have been of no use.
    pub least: u64,
    /// What its operators would keep, by the estimates.
    pub ideal: u64,
    /// What is certain to be there; 0 until `granted_at`.
    pub granted: u64,
    /// When it was asked for, in 100 ns since 1970-01-01 UTC.
    pub asked_at: i64,
    /// When it was granted; `None` for a statement that waits.
    pub granted_at: Option<i64>,
    /// What they hold now.
    pub held: u64,
    /// The most that they held.
    pub held_most: u64,
}

impl MemoryFigures {
    /// Notes what is asked for, in bytes. The first time counts.
    pub(crate) fn asks(&self, least: u64, ideal: u64) {
        self.asked.get_or_init(|| Asked { least, ideal, at: time_of_day() });
    }

    /// Notes what is granted, in bytes.
    pub(crate) fn gets(&self, granted: u64) {
        self.granted.get_or_init(|| (granted, time_of_day()));
    }

    /// Notes that the grant was given back.
    pub(crate) fn gives_back(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether the grant was given back.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Notes what is held now, in bytes.
    pub(crate) fn holds(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
        self.held_most.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What there is to show of a statement that has asked. Zeros of one that has not.
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
