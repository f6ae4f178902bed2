//! What undoes changes of rows in a database without a log, in the order of the changes.
//!
//! ```text
//!   push ──► tail, in memory ── a mebibyte of it ──► a piece of a file      rollback: the last entry first
//!            entry: HOBT, what undoes it, its length
//! ```
//! It is to such rows what a transaction's chain is to rows in a log: a savepoint and a closure have a position in it,
//! and a rollback undoes what is behind that position. The length at the end of an entry is for reading backwards.
//!
//! A file only grows. What a rollback to a savepoint has undone stays in it until the transaction ends. If the disk
//! takes nothing, entries stay in memory, until there is none for the next change (error 701).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hobt_base::Stamp;

use crate::undo_error::{UndoError, caught};
use crate::versions::{VersionFile, VersionSpace};

/// The bytes of entries that go to disk together.
const PIECE_BYTES: usize = 1 << 20;
/// The bytes of an entry beside what undoes its change: the place of its HOBT, and its length.
const ENTRY_BYTES: usize = 8;

/// Undoes changes of rows of one heap or tree.
pub trait UndoRow: Send + Sync {
    /// Undoes a change that `writer` has made. `undo` is what was noted for it. Blocks.
    ///
    /// # Errors
    /// The row cannot be undone: the database is then refused for good.
    fn undo_row(&self, undo: &[u8], writer: Stamp) -> Result<(), UndoError>;

    /// Refuses the database for good, because what was noted cannot be read.
    fn refuse(&self, why: &str) -> UndoError;
}

/// The entries of a transaction.
#[derive(Default)]
pub(crate) struct RowUndo {
    /// The heaps and trees of its rows, and their places by the address of each, which they keep.
    stores: Vec<Arc<dyn UndoRow>>,
    places: HashMap<usize, u32>,
    /// The last entries.
    tail: Vec<u8>,
    /// The entries before them: where in the file, and how many bytes.
    pieces: Vec<(u64, usize)>,
    file: Option<Box<dyn VersionFile>>,
    file_bytes: u64,
    /// The disk took nothing.
    is_refused: bool,
    /// The bytes of all entries.
    position: u64,
}

impl fmt::Debug for RowUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowUndo").field("position", &self.position).field("pieces", &self.pieces.len()).finish()
    }
}

impl RowUndo {
    /// The position behind the last entry.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The bytes of the entries in memory. The transaction's memory is charged for them.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.tail.len()
    }

    /// Adds an entry of the store at `address`, which stays there as long as what `store` returns. Returns its bytes.
    pub(crate) fn push(
        &mut self,
        address: usize,
        store: impl FnOnce() -> Arc<dyn UndoRow>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let stores = &mut self.stores;
        let place = *self.places.entry(address).or_insert_with(|| {
            stores.push(store());
            u32::try_from(stores.len() - 1).expect("fewer HOBTs than that")
        });
        let before = self.tail.len();
        encode(&mut self.tail);
        let length = u32::try_from(self.tail.len() - before).expect("a row is shorter");
        self.tail.extend(place.to_le_bytes());
        self.tail.extend(length.to_le_bytes());
        let bytes = self.tail.len() - before;
        self.position += bytes as u64;
        bytes
    }

    /// Whether entries should go to disk.
    pub(crate) fn is_due(&self) -> bool {
        self.tail.len() >= PIECE_BYTES && !self.is_refused
    }

    /// Writes the entries in memory to disk. Returns their bytes; 0 if the disk does not take them. Blocks.
    pub(crate) fn spill(&mut self, space: &Arc<dyn VersionSpace>) -> usize {
        if self.file.is_none() {
            self.file = Arc::clone(space).create_file().ok();
        }
        let written = self.file.as_ref().is_some_and(|file| file.append(&self.tail).is_ok());
        if !written {
            // A file to which an append has failed takes nothing more.
            self.is_refused = true;
            return 0;
        }
        let bytes = self.tail.len();
        self.pieces.push((self.file_bytes, bytes));
        self.file_bytes += bytes as u64;
        self.tail = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 16);
        bytes
    }

    /// Undoes the entries behind `until`, the last first, and tells `note` the bytes of each. An entry that cannot be
    /// undone does not keep others from being undone, unless they cannot be read. Returns the first error. Blocks.
    pub(crate) fn undo_down_to(
        &mut self,
        until: u64,
        writer: Stamp,
        note: &mut dyn FnMut(u64),
    ) -> Result<(), UndoError> {
        let mut result = Ok(());
        while self.position > until {
            if self.tail.is_empty()
                && let Err(why) = self.read_piece()
            {
                self.position = until;
                return result.and(Err(self.refuse(&why)));
            }
            let Some((place, undo)) = last_entry(&self.tail) else {
                self.position = until;
                return result.and(Err(self.refuse("an entry is longer than all of them")));
            };
            let bytes = undo.len() + ENTRY_BYTES;
            let done = match self.stores.get(place as usize) {
                Some(store) => caught(|| store.undo_row(undo, writer)),
                None => Err(UndoError("an entry of no heap or tree".to_owned())),
            };
            result = result.and(done);
            self.tail.truncate(self.tail.len() - bytes);
            self.position -= bytes as u64;
            note(bytes as u64);
        }
        result
    }

    fn read_piece(&mut self) -> Result<(), String> {
        let (Some((offset, bytes)), Some(file)) = (self.pieces.pop(), &self.file) else {
            return Err("fewer entries than were noted".to_owned());
        };
        self.tail.resize(bytes, 0);
        file.read_at(&mut self.tail, offset).map_err(|error| error.message)
    }

    /// Refuses the databases of its rows.
    fn refuse(&self, why: &str) -> UndoError {
        let mut refused = UndoError(why.to_owned());
        for store in &self.stores {
            refused = store.refuse(why);
        }
        refused
    }
}

/// The place of the store of the last entry, and what undoes its change.
fn last_entry(entries: &[u8]) -> Option<(u32, &[u8])> {
    let (entries, length) = entries.split_last_chunk::<4>()?;
    let (entries, place) = entries.split_last_chunk::<4>()?;
    let from = entries.len().checked_sub(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((u32::from_le_bytes(*place), &entries[from..]))
}

#[cfg(test)]
mod tests {
    use hobt_instruments::schedule::Mutex;

    use super::*;
    use crate::versions::SpaceError;
    use crate::{MemoryBudget, StatementContext, StatementContextSettings, Transactions};

    /// A disk that takes so many bytes.
    #[derive(Debug)]
    struct Space(usize);

    #[derive(Debug)]
    struct File(Mutex<Vec<u8>>, usize);

    impl VersionSpace for Space {
        fn create_file(self: Arc<Space>) -> Result<Box<dyn VersionFile>, SpaceError> {
            Ok(Box::new(File(Mutex::default(), self.0)))
        }
    }

    impl VersionFile for File {
        fn append(&self, bytes: &[u8]) -> Result<(), SpaceError> {
            let mut held = self.0.lock();
            if held.len() + bytes.len() > self.1 {
                return Err(SpaceError { message: "full".to_owned(), is_full: true });
            }
            held.extend(bytes);
            Ok(())
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), SpaceError> {
            let from = usize::try_from(offset).expect("small");
            buffer.copy_from_slice(&self.0.lock()[from..from + buffer.len()]);
            Ok(())
        }
    }

    /// Notes what is undone.
    #[derive(Default)]
    struct Store(Mutex<Vec<u32>>);

    impl UndoRow for Store {
        fn undo_row(&self, undo: &[u8], _: Stamp) -> Result<(), UndoError> {
            let number = undo.first_chunk().map(|number| u32::from_le_bytes(*number));
            self.0.lock().push(number.expect("a number"));
            Ok(())
        }

        fn refuse(&self, why: &str) -> UndoError {
            UndoError(why.to_owned())
        }
    }

    /// What undoes a change, 92 bytes with its number.
    fn encode(number: u32, out: &mut Vec<u8>) {
        out.extend(number.to_le_bytes());
        out.resize(out.len() + 88, 0);
    }

    /// Entries with these numbers, each of 100 bytes.
    fn push(undo: &mut RowUndo, space: &Arc<dyn VersionSpace>, store: &Arc<Store>, numbers: std::ops::Range<u32>) {
        for number in numbers {
            if undo.is_due() {
                undo.spill(space);
            }
            let address = Arc::as_ptr(store) as usize;
            undo.push(address, || Arc::clone(store) as Arc<dyn UndoRow>, |out| encode(number, out));
        }
    }

    #[test]
    fn what_a_rollback_to_a_savepoint_reads_back_is_charged_once() {
        const OTHERS: usize = 1000;
        let (all, budget): (Arc<Transactions>, _) = (Arc::default(), MemoryBudget::new(1 << 30));
        all.keep_versions_in(&budget, None);
        all.spill_versions_to(Arc::new(Space(usize::MAX)), false);
        let (running, store) = (all.begin(), Arc::new(Store::default()));
        let settings = StatementContextSettings {
            session: hobt_base::SessionId(51),
            stamp: running.stamp(),
            degree_of_parallelism: 1,
            memory: budget,
        };
        let context = StatementContext::new(&settings, Arc::default());
        let transaction = context.transaction();
        transaction.set_running(running);
        context.take_undo_memory(OTHERS);
        let change = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                context.reserve_undo_memory().expect("room");
                let (address, store) = (Arc::as_ptr(&store) as usize, Arc::clone(&store));
                context.note_row_undo(address, || store as Arc<dyn UndoRow>, |out| encode(number, out));
            }
        };
        let charged_is_held = || {
            let held = OTHERS + transaction.row_undo.lock().bytes_in_memory();
            assert_eq!(transaction.undo_bytes(), held as u64);
            held
        };
        change(0..9_000);
        for _ in 0..5 {
            let savepoint = transaction.savepoint();
            change(9_000..11_000);
            assert!(charged_is_held() < OTHERS + 9_000 * 100, "the first are on disk");
            transaction.roll_back_to(&savepoint).expect("undone");
            assert_eq!(charged_is_held(), OTHERS + 9_000 * 100, "they were read back");
        }
    }

    #[test]
    fn the_last_change_is_undone_first_wherever_it_is_and_others_stay() {
        for disk_bytes in [usize::MAX, 5 << 20, 0] {
            let space: Arc<dyn VersionSpace> = Arc::new(Space(disk_bytes));
            let (store, mut undo) = (Arc::new(Store::default()), RowUndo::default());
            push(&mut undo, &space, &store, 0..30_000);
            let savepoint = undo.position();
            push(&mut undo, &space, &store, 30_000..80_000);
            assert_eq!(undo.pieces.is_empty(), disk_bytes == 0);
            let mut told = 0;
            undo.undo_down_to(savepoint, Stamp(1), &mut |bytes| told += bytes).expect("undone");
            assert_eq!((undo.position(), told), (savepoint, 50_000 * 100));
            // The transaction goes on.
            push(&mut undo, &space, &store, 80_000..100_000);
            undo.undo_down_to(0, Stamp(1), &mut |_| ()).expect("undone");
            let expected = (30_000..80_000).rev().chain((80_000..100_000).rev()).chain((0..30_000).rev());
            assert!(store.0.lock().iter().copied().eq(expected), "with {disk_bytes} bytes of disk");
        }
    }
}
