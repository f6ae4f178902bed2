//! Parts of a file, encoded by several threads and appended in their order.
//!
//! ```text
//!   push ──► jobs ──► worker ─┐                       ┌──► file
//!                ├──► worker ─┼─► pieces, by number ──┤ the worker whose piece is the next appends it
//!                └──► worker ─┘                       └──► and all that follow it and are ready
//! ```
//!
//! No thread only writes: the worker that has made the next piece appends it, and meanwhile the others encode. The
//! parts between `push` and the file are limited, so that memory is, too; `push` blocks when there are as many.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use arrow::record_batch::RecordBatch;

use super::error::{Result, WriteError};
use super::new_file::NewFile;

/// A run of rows of the file.
#[derive(Debug)]
pub(super) struct Part {
    /// Its place, from 0.
    pub(super) number: usize,
    /// Its rows, which may be none.
    pub(super) batches: Vec<RecordBatch>,
    /// Whether no other follows.
    pub(super) is_last: bool,
}

/// Makes pieces of a file from parts, on several threads.
pub(super) trait Encoder: Send + Sync + 'static {
    /// A part as it is appended.
    type Piece: Send;
    /// Encodes a part. A piece that was appended may be used again.
    fn encode(&self, part: &Part, spare: Option<Self::Piece>) -> Result<Self::Piece>;
}

/// What pieces are appended to, one after the other.
pub(super) trait Target: Send + 'static {
    /// A part as it is appended.
    type Piece;
    /// Appends the next piece. Returns it if it may be used again. Blocks on the disk.
    fn append(&mut self, piece: Self::Piece) -> Result<Option<Self::Piece>>;
    /// Writes what stands behind all pieces.
    fn complete(self) -> Result<NewFile>;
}

/// What threads share.
struct State<T: Target> {
    jobs: VecDeque<Part>,
    /// Pieces that wait for those before them.
    ready: BTreeMap<usize, T::Piece>,
    /// The number of the piece that is appended next.
    next: usize,
    /// `None` while a worker appends to it.
    target: Option<T>,
    spares: Vec<T::Piece>,
    /// The first error; no part is encoded after it.
    error: Option<WriteError>,
    /// Whether there was an error, or no parts are wanted any more.
    is_over: bool,
}

struct Shared<T: Target> {
    state: Mutex<State<T>>,
    /// There are jobs, or it is over.
    work: Condvar,
    /// Pieces were appended, or it is over.
    progress: Condvar,
}

impl<T: Target> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // What is locked is whole between any two statements on it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, mut state: MutexGuard<'_, State<T>>, error: WriteError) {
        state.error.get_or_insert(error);
        state.is_over = true;
        drop(state);
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Encodes parts until there are no more.
    fn work<E: Encoder<Piece = T::Piece>>(&self, encoder: &E) {
        loop {
            let mut state = self.lock();
            let part = loop {
                if state.is_over {
                    return;
                }
                match state.jobs.pop_front() {
                    Some(part) => break part,
                    None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            let spare = state.spares.pop();
            drop(state);
            match encoder.encode(&part, spare) {
                Ok(piece) => {
                    // Its batches are freed before the next are taken.
                    let number = part.number;
                    drop(part);
                    self.append(number, piece);
                }
                Err(error) => return self.fail(self.lock(), error),
            }
        }
    }

    /// Puts a piece where it belongs, and appends it and its successors if it is the next one.
    fn append(&self, number: usize, piece: T::Piece) {
        let mut state = self.lock();
        state.ready.insert(number, piece);
        let Some(mut target) = state.target.take() else { return };
        let mut next = state.next;
        while !state.is_over
            && let Some(piece) = state.ready.remove(&next)
        {
            drop(state);
            let appended = target.append(piece);
            state = self.lock();
            match appended {
                Ok(spare) => state.spares.extend(spare),
                Err(error) => return self.fail(state, error),
            }
            next += 1;
            state.next = next;
            self.progress.notify_all();
        }
        state.target = Some(target);
    }
}

/// Ends the pipeline when its worker panics, so that no thread waits for that worker.
struct Alarm<'a, T: Target>(&'a Shared<T>);

impl<T: Target> Drop for Alarm<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(self.0.lock(), WriteError::internal("a thread that writes a file has panicked"));
        }
    }
}

/// Threads that encode, and what they append to. Dropping it ends them, and drops the target.
pub(super) struct Pipeline<T: Target> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
    /// Parts pushed.
    pushed: usize,
    /// Parts between `push` and the file, at most.
    parts_max: usize,
}

impl<T: Target> fmt::Debug for Pipeline<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("workers", &self.workers.len()).field("pushed", &self.pushed).finish()
    }
}

impl<T: Target<Piece: Send>> Pipeline<T> {
    /// Starts `threads` workers. At most `parts_max` parts are between `push` and the file.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn start<E: Encoder<Piece = T::Piece>>(
        encoder: E,
        target: T,
        threads: usize,
        parts_max: usize,
    ) -> Result<Pipeline<T>> {
        let state = State {
            jobs: VecDeque::new(),
            ready: BTreeMap::new(),
            next: 0,
            target: Some(target),
            spares: Vec::new(),
            error: None,
            is_over: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), progress: Condvar::new() });
        let encoder = Arc::new(encoder);
        let mut pipeline = Pipeline { shared, workers: Vec::new(), pushed: 0, parts_max };
        for _ in 0..threads {
            let (shared, encoder) = (Arc::clone(&pipeline.shared), Arc::clone(&encoder));
            let work = move || {
                let _alarm = Alarm(&shared);
                shared.work(&*encoder);
            };
            let worker = std::thread::Builder::new().name("file writer".to_owned()).spawn(work);
            let worker = worker.map_err(|error| WriteError::internal(format!("no thread can be started: {error}")))?;
            pipeline.workers.push(worker);
        }
        Ok(pipeline)
    }

    /// Hands a part over. Blocks while there are as many as there may be.
    ///
    /// # Errors
    /// The first error of an earlier part; afterwards an internal one.
    pub(super) fn push(&mut self, batches: Vec<RecordBatch>, is_last: bool) -> Result<()> {
        let mut state = self.wait(self.parts_max - 1)?;
        state.jobs.push_back(Part { number: self.pushed, batches, is_last });
        drop(state);
        self.pushed += 1;
        self.shared.work.notify_one();
        Ok(())
    }

    /// Waits until at most `left` parts are not appended.
    fn wait(&self, left: usize) -> Result<MutexGuard<'_, State<T>>> {
        let mut state = self.shared.lock();
        while !state.is_over && self.pushed - state.next > left {
            state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.error.take() {
            Some(error) => Err(error),
            None if state.is_over => Err(WriteError::internal("the file has failed already")),
            None => Ok(state),
        }
    }

    /// Waits until all parts are appended, and completes the file.
    pub(super) fn finish(mut self) -> Result<NewFile> {
        drop(self.wait(0)?);
        self.end();
        let target = self.shared.lock().target.take();
        target.ok_or_else(|| WriteError::internal("the file has failed already"))?.complete()
    }
}

impl<T: Target> Pipeline<T> {
    fn end(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A panic of a worker has been noted, and fails the next call.
            let _ended = worker.join();
        }
    }
}

impl<T: Target> Drop for Pipeline<T> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::mpsc::{Sender, channel};

    /// Encodes a part as its number, and not the last.
    struct Numbers;

    impl Encoder for Numbers {
        type Piece = usize;

        fn encode(&self, part: &Part, _: Option<usize>) -> Result<usize> {
            match part.is_last {
                true => Err(WriteError::Unfit("the last".to_owned())),
                false => Ok(part.number),
            }
        }
    }

    struct Listed {
        seen: Sender<usize>,
        fails_at: usize,
    }

    impl Target for Listed {
        type Piece = usize;

        fn append(&mut self, piece: usize) -> Result<Option<usize>> {
            if piece == self.fails_at {
                return Err(WriteError::io(Path::new("full"))(std::io::ErrorKind::StorageFull.into()));
            }
            self.seen.send(piece).expect("the test listens");
            Ok(None)
        }

        fn complete(self) -> Result<NewFile> {
            Err(WriteError::Unfit("complete".to_owned()))
        }
    }

    fn run(parts: usize, fails_at: usize, last_fails: bool) -> (Vec<usize>, WriteError) {
        let (seen, list) = channel();
        let mut pipeline = Pipeline::start(Numbers, Listed { seen, fails_at }, 4, 6).expect("threads");
        let pushed = (0..parts).try_for_each(|part| pipeline.push(Vec::new(), last_fails && part == parts - 1));
        let error = pushed.and_then(|()| pipeline.finish()).expect_err("no pipeline of the test makes a file");
        (list.into_iter().collect(), error)
    }

    #[test]
    fn pieces_are_appended_in_order() {
        let (seen, error) = run(1000, usize::MAX, false);
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        assert_eq!(error.to_string(), "complete");
    }

    #[test]
    fn the_first_error_of_the_target_ends_it() {
        let (seen, error) = run(1000, 100, false);
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(matches!(error, WriteError::Io { .. }), "{error}");
    }

    #[test]
    fn the_first_error_of_the_encoder_ends_it() {
        assert_eq!(run(50, usize::MAX, true).1.to_string(), "the last");
    }
}
