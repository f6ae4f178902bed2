//! Bugs on purpose, for the simulator, which has to find them. Not in any build but its tests' (feature
//! `planted-bugs`).

use std::cell::Cell;

/// A bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The first change of a page after a checkpoint is logged without the page's image.
    NoImages,
    /// Recovery leaves the rows of transactions that did not commit.
    NoRowUndo,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// A bug that is there until this is dropped.
#[derive(Debug)]
pub struct Planted(());

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// Plants a bug into what the calling thread does.
pub fn plant(bug: Bug) -> Planted {
    PLANTED.set(Some(bug));
    Planted(())
}

pub(crate) fn has(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}
