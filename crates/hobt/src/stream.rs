//! The results of a batch, as a blocking iterator.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow::record_batch::RecordBatch;
use hobt_base::SqlError;
use hobt_interpreter::output_batch;
use hobt_session::{CancelHandle, Event, Flow, Message, ResultColumn, STACK_BYTES, StatementStatistics};

use crate::instance::Session;

/// The number of items that may wait to be taken.
const ITEMS_AHEAD: usize = 4;

/// A result of a batch.
#[derive(Clone, Debug)]
pub enum Item {
    /// A result set begins; its batches follow.
    Columns(Vec<ResultColumn>),
    /// Rows of the result set, in Arrow's types (see [`output_batch`]).
    Batch(RecordBatch),
    /// A statement has ended. Contains the number of rows that it sent or changed, if it counts them.
    Done(Option<u64>),
    /// `PRINT`, `SET STATISTICS` and similar messages.
    Message(Message),
    /// The cost of a statement.
    Statistics(Box<StatementStatistics>),
    /// An error. The batch may continue after it.
    Error(SqlError),
}

/// A running batch. Iterate over its results; drop it to cancel it.
#[derive(Debug)]
pub struct Query<'s> {
    owner: &'s mut Session,
    cancel: CancelHandle,
    receiver: Option<Receiver<Item>>,
    runner: Option<JoinHandle<hobt_session::Session>>,
}

impl<'s> Query<'s> {
    pub(crate) fn new(owner: &'s mut Session, batch: &str) -> Query<'s> {
        let cancel = owner.cancel_handle();
        let mut session = owner.inner.take().expect("a query gives the session back when it is dropped");
        // Done here and not on the runner thread, which may begin long after the caller has cancelled.
        session.expect_batch();
        let (sender, receiver) = sync_channel(ITEMS_AHEAD);
        let batch = batch.to_owned();
        let runner = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let mut columns = Vec::new();
            session.execute_expected(&batch, &mut |event: Event| pass_on(event, &mut columns, &sender));
            session
        });
        let runner = runner.expect("the system starts a thread");
        Query { owner, cancel, receiver: Some(receiver), runner: Some(runner) }
    }

    /// A handle to cancel the batch from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }
}

/// Sends an event's item. If there is no receiver any more, no more items are wanted.
fn pass_on(event: Event, columns: &mut Vec<ResultColumn>, sender: &SyncSender<Item>) -> Flow {
    let item = match event {
        Event::ResultSet(begun) => {
            columns.clone_from(&begun);
            Item::Columns(begun)
        }
        Event::Rows(batch) => match output_batch(columns, &batch) {
            Ok(batch) => Item::Batch(batch),
            Err(error) => Item::Error(error),
        },
        Event::ResultSetDone { .. } => return Flow::Continue,
        Event::Message(message) => Item::Message(message),
        Event::Error(error) => Item::Error(error),
        Event::Statistics(cost) => Item::Statistics(cost),
        Event::Done { row_count, .. } => Item::Done(row_count),
    };
    match sender.send(item) {
        Ok(()) => Flow::Continue,
        Err(_) => Flow::Stop,
    }
}

impl Iterator for Query<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.receiver.as_ref()?.recv().ok()
    }
}

impl Drop for Query<'_> {
    fn drop(&mut self) {
        let ended = self.runner.as_ref().is_some_and(JoinHandle::is_finished);
        // Without a receiver, the batch stops when it next sends something.
        self.receiver = None;
        if !ended {
            self.cancel.cancel();
        }
        if let Some(runner) = self.runner.take() {
            match runner.join() {
                Ok(session) => self.owner.inner = Some(session),
                // A panic in the batch is passed on to the program that runs it.
                Err(panic) if !std::thread::panicking() => std::panic::resume_unwind(panic),
                Err(_) => {}
            }
        }
    }
}
