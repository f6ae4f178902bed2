//! A read whose parts lie in several files: one request to each, one completion when all are there.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::{Part, Source};
use crate::buffer::{IoBuffer, PinnedSlice};
use crate::disk::DiskFile;
use crate::error::Result;
use crate::queue::{Completion, CompletionQueue, Direction, Request};

/// What the parts of a read share.
struct Gathered {
    offset: u64,
    tag: u64,
    consumer: Arc<CompletionQueue>,
    submitted: Instant,
    state: Mutex<State>,
    at_end: AtEnd,
}

/// What is done with the bytes when all of them are there.
pub(crate) type AtEnd = Box<dyn Fn(&mut IoBuffer) -> Result<()> + Send + Sync>;

struct State {
    /// Taken by the last part.
    buffer: Option<IoBuffer>,
    /// Parts that are not there yet.
    left: usize,
    result: Result<()>,
}

impl Gathered {
    /// A part has come, or could not be read.
    fn arrived(&self, result: Result<()>) {
        let mut state = self.state.lock();
        state.left -= 1;
        if state.result.is_ok() {
            state.result = result;
        }
        if state.left > 0 {
            return;
        }
        let Some(mut buffer) = state.buffer.take() else { return };
        let result = std::mem::replace(&mut state.result, Ok(()));
        drop(state);
        let result = result.and_then(|()| (self.at_end)(&mut buffer));
        let (direction, offset, tag) = (Direction::Read, self.offset, self.tag);
        self.consumer.push(Completion { direction, offset, buffer, tag, latency: self.submitted.elapsed(), result });
    }
}

/// Starts the reads of all parts of a request. Does not block. `at_end` runs on the thread that delivers the last part.
pub(crate) fn gather(
    request: Request,
    parts: &[Part],
    base: &Arc<dyn DiskFile>,
    store: &Arc<dyn DiskFile>,
    at_end: AtEnd,
) {
    let Request { offset, mut buffer, tag, queue, .. } = request;
    queue.expect_one();
    let mut memory = Vec::new();
    buffer.pieces(0, &mut memory);
    let mut memory = memory.into_iter();
    let mut piece = memory.next();
    let mut requests = Vec::new();
    for part in parts {
        let mut slices = Vec::new();
        let mut left = part.bytes;
        while left > 0 {
            let Some(now) = &mut piece else { break };
            let (start, bytes) = (now.iov_base.cast::<u8>(), now.iov_len.min(left));
            if part.source == Source::Zeros {
                // SAFETY: the bytes lie in the request's buffer, which is valid for writes until its completion is
                // pushed, and no part that was started has them.
                unsafe { start.write_bytes(0, bytes) };
            } else {
                // SAFETY: the bytes lie in the request's buffer. That stays in `Gathered` until every part has
                // completed, parts do not overlap, and nothing else uses the memory before the completion is pushed.
                slices.push(unsafe { PinnedSlice::new(start, bytes) });
            }
            now.iov_base = now.iov_base.wrapping_byte_add(bytes);
            now.iov_len -= bytes;
            left -= bytes;
            if now.iov_len == 0 {
                piece = memory.next();
            }
        }
        match part.source {
            Source::Base => requests.push((base, part.offset, slices)),
            Source::Store => requests.push((store, part.offset, slices)),
            Source::Zeros => {}
        }
    }
    let state = Mutex::new(State { buffer: Some(buffer), left: requests.len() + 1, result: Ok(()) });
    let gathered = Arc::new(Gathered { offset, tag, consumer: queue, submitted: Instant::now(), state, at_end });
    let of_parts = Arc::clone(&gathered);
    let arrivals = CompletionQueue::relaying(move |completion| of_parts.arrived(completion.result));
    for (file, offset, slices) in requests {
        let (buffer, queue) = (IoBuffer::Pinned(slices), Arc::clone(&arrivals));
        file.submit(Request { direction: Direction::Read, offset, buffer, tag: 0, queue });
    }
    // The last one, for a request whose parts are all zeros.
    gathered.arrived(Ok(()));
}
