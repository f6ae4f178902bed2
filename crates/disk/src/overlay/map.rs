//! Which blocks of a file were written, and the slot of each.

/// Blocks of a piece: 512 KiB of a file.
const PIECE: usize = 64;

/// The slots of blocks. Slot 0 is none.
#[derive(Debug, Default)]
pub(crate) struct BlockMap {
    pieces: Vec<Option<Box<[u32; PIECE]>>>,
}

/// The piece of a block, and its place there.
fn place(block: u64) -> (usize, usize) {
    (usize::try_from(block / PIECE as u64).unwrap_or(usize::MAX), (block % PIECE as u64) as usize)
}

impl BlockMap {
    /// The slot of a block, if it was written.
    pub(crate) fn get(&self, block: u64) -> Option<u32> {
        let (piece, place) = place(block);
        let slot = self.pieces.get(piece)?.as_ref()?[place];
        (slot != 0).then_some(slot)
    }

    /// Gives a block its slot, which is not 0.
    pub(crate) fn set(&mut self, block: u64, slot: u32) {
        let (piece, place) = place(block);
        if self.pieces.len() <= piece {
            self.pieces.resize_with(piece + 1, || None);
        }
        self.pieces[piece].get_or_insert_with(|| Box::new([0; PIECE]))[place] = slot;
    }

    /// Forgets the blocks from one on.
    pub(crate) fn cut(&mut self, from: u64) {
        let (piece, place) = place(from);
        if let Some(Some(slots)) = self.pieces.get_mut(piece) {
            slots[place..].fill(0);
        }
        self.pieces.truncate(piece.saturating_add(1));
    }
}
