//! The states of an aggregate's groups, and the heap memory that they hold.

use super::Emit;

/// The heap memory that a state holds beyond itself.
pub(super) trait Held {
    /// Its size in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }
}

macro_rules! hold_nothing {
    ($($state:ty),*) => {$(impl Held for $state {})*};
}

hold_nothing!(u8, i16, i32, i64, i128, f32, f64);

impl Held for String {
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl Held for Vec<u8> {
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
}

impl<S: Held> Held for Option<S> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Held::heap_bytes)
    }
}

/// The states of groups, numbered from 0.
#[derive(Debug)]
pub(super) struct Groups<S> {
    states: Vec<S>,
    /// The heap memory that all states hold.
    held: usize,
}

impl<S> Default for Groups<S> {
    fn default() -> Groups<S> {
        Groups { states: Vec::new(), held: 0 }
    }
}

impl<S: Held + Default> Groups<S> {
    /// Makes room for this number of groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, S::default);
    }

    pub(super) fn get(&self, group: usize) -> &S {
        &self.states[group]
    }

    /// Changes a group's state.
    pub(super) fn change<R>(&mut self, group: usize, change: impl FnOnce(&mut S) -> R) -> R {
        let state = &mut self.states[group];
        let before = state.heap_bytes();
        let result = change(state);
        self.held = self.held + state.heap_bytes() - before;
        result
    }

    /// Removes and returns the states of the emitted groups. The others are renumbered from 0.
    pub(super) fn take(&mut self, emit: Emit) -> Vec<S> {
        let taken = match emit {
            Emit::All => std::mem::take(&mut self.states),
            Emit::First(count) => {
                let rest = self.states.split_off(count.min(self.states.len()));
                std::mem::replace(&mut self.states, rest)
            }
        };
        self.held -= taken.iter().map(Held::heap_bytes).sum::<usize>();
        taken
    }

    /// The heap memory of the states and of what they hold, in bytes.
    pub(super) fn size(&self) -> usize {
        self.states.capacity() * size_of::<S>() + self.held
    }
}

/// States that hold nothing can be accessed as a slice.
impl<S: Copy> Groups<S> {
    pub(super) fn as_mut_slice(&mut self) -> &mut [S] {
        &mut self.states
    }
}
