//! A value for each processor, in cache lines of its own.

use crate::slots;

#[repr(align(128))]
#[derive(Default)]
struct Shard<T>(T);

/// One value for each processor (rounded up to a power of two), so that threads that change theirs hardly ever meet. A
/// thread always uses the same one. Two threads may share one.
pub struct Sharded<T> {
    shards: Box<[Shard<T>]>,
}

impl<T: Default> Sharded<T> {
    /// Default values.
    pub fn new() -> Sharded<T> {
        let shards = crate::processor::processor_count().next_power_of_two();
        Sharded { shards: std::iter::repeat_with(Shard::default).take(shards).collect() }
    }
}

impl<T> Sharded<T> {
    /// The value that this thread changes.
    #[inline]
    pub fn own(&self) -> &T {
        // The number of shards is a power of two.
        &self.shards[slots::shard() & (self.shards.len() - 1)].0
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shards.iter().map(|shard| &shard.0)
    }
}

impl<T: Default> Default for Sharded<T> {
    fn default() -> Sharded<T> {
        Sharded::new()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Sharded<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
