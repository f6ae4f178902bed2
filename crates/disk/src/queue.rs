//! Requests and the queue on which their completions arrive.
//!
//! A queue belongs to one consumer, which may be a task (wakes a waker) or a thread (blocks). A request holds the queue
//! and its buffer. If the consumer goes away early, both stay with the backend, which drops them when the device is
//! done.

use crate::buffer::IoBuffer;
use crate::error::{DiskError, Operation};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the file into memory.
    Read,
    /// From memory into the file.
    Write,
}

impl Direction {
    pub(crate) fn operation(self) -> Operation {
        match self {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        }
    }
}

/// A transfer to be executed.
#[derive(Debug)]
pub struct Request {
    /// The direction.
    pub direction: Direction,
    /// First byte in the file; a multiple of the sector size for direct files.
    pub offset: u64,
    /// The memory; its length is the transfer's length.
    pub buffer: IoBuffer,
    /// Any number; it is returned with the completion.
    pub tag: u64,
    /// The queue that gets the completion.
    pub queue: Arc<CompletionQueue>,
}

/// A transfer that has succeeded or failed.
#[derive(Debug)]
pub struct Completion {
    /// As in the request.
    pub direction: Direction,
    /// As in the request.
    pub offset: u64,
    /// As in the request. After a failed read its contents are not defined.
    pub buffer: IoBuffer,
    /// As in the request.
    pub tag: u64,
    /// From submission to completion.
    pub latency: Duration,
    /// Whether every byte was transferred.
    pub result: Result<(), DiskError>,
}

/// Receives completions instead of a consumer.
struct Relay(Box<dyn Fn(Completion) + Send + Sync>);

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Relay")
    }
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Completion>,
    in_flight: usize,
    waker: Option<Waker>,
}

/// Completions for one consumer, in the order of their arrival.
#[derive(Debug, Default)]
pub struct CompletionQueue {
    state: Mutex<State>,
    arrived: Condvar,
    relay: Option<Relay>,
}

impl CompletionQueue {
    /// An empty queue.
    pub fn new() -> Arc<CompletionQueue> {
        Arc::new(CompletionQueue::default())
    }

    /// A queue without a consumer: each completion is handed to `relay` on the thread that delivers it. For a disk that
    /// wraps another one and inspects its completions.
    pub(crate) fn relaying(relay: impl Fn(Completion) + Send + Sync + 'static) -> Arc<CompletionQueue> {
        Arc::new(CompletionQueue { relay: Some(Relay(Box::new(relay))), ..CompletionQueue::default() })
    }

    /// The next completion, if there is one. Does not block.
    pub fn try_pop(&self) -> Option<Completion> {
        self.state.lock().ready.pop_front()
    }

    /// The next completion; `Ready(None)` when there is none and nothing is in flight. While pending, the waker of the
    /// last call is woken by the next completion. Does not block.
    pub fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<Completion>> {
        let mut state = self.state.lock();
        if let Some(completion) = state.ready.pop_front() {
            return Poll::Ready(Some(completion));
        }
        if state.in_flight == 0 {
            return Poll::Ready(None);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// The next completion; blocks until there is one. `None` when there is none and nothing is in flight. Records no
    /// wait: the caller knows what it waits for.
    pub fn wait_pop(&self) -> Option<Completion> {
        let mut state = self.state.lock();
        loop {
            if let Some(completion) = state.ready.pop_front() {
                return Some(completion);
            }
            if state.in_flight == 0 {
                return None;
            }
            self.arrived.wait(&mut state);
        }
    }

    /// Requests that are not complete yet.
    pub fn in_flight(&self) -> usize {
        self.state.lock().in_flight
    }

    /// Blocks until nothing is in flight, and drops all completions. Afterwards pinned memory is free to use.
    pub fn drain(&self) {
        while self.wait_pop().is_some() {}
    }

    /// Announces that a completion will arrive.
    pub(crate) fn expect_one(&self) {
        self.state.lock().in_flight += 1;
    }

    /// Delivers a completion that was expected.
    pub(crate) fn push(&self, completion: Completion) {
        let mut state = self.state.lock();
        state.in_flight -= 1;
        if let Some(Relay(relay)) = &self.relay {
            drop(state);
            return relay(completion);
        }
        state.ready.push_back(completion);
        let waker = state.waker.take();
        drop(state);
        self.arrived.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
