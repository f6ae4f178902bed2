//! Runs a logical plan: plans it, runs it on workers, and hands batches to the statement's thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, TryRecvError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use hobt_base::SqlError;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::one_thread;
use super::own_thread::{for_client, for_workers};
use super::role::{Passing, Role, role};
use super::workers::WorkerPool;
use hobt_table::StatementRun;
use hobt_udf::sql_error_of;

/// The most batches that may wait for the client.
const BATCHES_AHEAD: usize = 4;
/// How often a statement that waits for its workers checks whether it was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(20);

/// Makes the physical plan of an optimised logical plan. (`SessionState::create_physical_plan` would optimise it
/// again.)
///
/// # Errors
/// The planner's errors, as the user sees them.
pub fn physical_plan(state: &SessionState, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    wait_for(state.query_planner().create_physical_plan(plan, state)).map_err(sql_error_of)
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread on a future, whatever executor the thread belongs to. The blocking calls of runtimes refuse to
/// work inside another runtime, and a program that embeds sessions may call from there.
fn wait_for<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake between the poll and this makes it return at once.
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The consumer of a query's rows, which its workers wait for if they are faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// The client that sent the statement: `ASYNC_NETWORK_IO`.
    Client,
    /// The statement itself, which processes them: `CXPACKET`.
    Statement,
}

/// Runs a query and hands its batches to `on_batch`, which may stop it by an error. Blocks until the last worker has
/// released the plan. Returns the number of rows.
///
/// # Errors
/// The first error of the plan or of `on_batch`; the cancellation of the statement.
pub fn run_query(
    reader: Reader,
    (run, pool): (&Arc<StatementRun>, &WorkerPool),
    (plan, task): (Arc<dyn ExecutionPlan>, Arc<TaskContext>),
    on_batch: &mut dyn FnMut(RecordBatch) -> Result<(), SqlError>,
) -> Result<u64, SqlError> {
    let plan = gathered(plan);
    let partitions = plan.output_partitioning().partition_count();
    let (result, report) = pool.run(run.degree(), &run.affinity, &run.waits, &run.pending, |handle| {
        let (sender, receiver) = channel();
        let permits = Arc::new(Semaphore::new(BATCHES_AHEAD));
        let pump = Pump { run: Arc::clone(run), reader, permits: Arc::clone(&permits), sender };
        let job = handle.spawn(pump.pump(plan, partitions, task));
        let mut rows = 0;
        let taken = drain(run, &receiver, &mut |batch| {
            rows += batch.num_rows() as u64;
            match reader {
                Reader::Client => for_client(|| on_batch(batch)),
                Reader::Statement => on_batch(batch),
            }?;
            permits.add_permits(1);
            Ok(())
        });
        finish(vec![job], taken).map(|()| rows)
    });
    run.add_workers(report.workers(), report.cpu_total(), report.time_total());
    result
}

/// The plan with its rows in one stream, or in several that are read one after the other.
pub fn gathered(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let is_one = plan.output_partitioning().partition_count() == 1 || is_concatenation(&plan);
    if is_one { plan } else { Arc::new(CoalescePartitionsExec::new(plan)) }
}

/// Whether the plan is a chain of operators with one stream between them: a second worker would have nothing to do.
pub fn is_one_stream(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = plan.children();
    plan.output_partitioning().partition_count() == 1 && inputs.len() <= 1 && inputs.into_iter().all(is_one_stream)
}

/// Whether the plan's partitions are the branches of a `UNION ALL`, none of which has several workers. They are run one
/// after the other, as in SQL Server, and their rows come in the order in which they are written.
fn is_concatenation(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let inputs = || plan.children().into_iter();
    match role(plan.as_ref()) {
        Role::Union => inputs().all(|input| input.output_partitioning().partition_count() == 1),
        // Each row stays in its partition, and none is held back.
        Role::Passes(Passing::Cancels | Passing::Yields) | Role::Project(_) | Role::Filter(_) => {
            inputs().all(is_concatenation)
        }
        _ => false,
    }
}

/// Runs the plan's partitions, one after the other, and sends their batches.
struct Pump {
    run: Arc<StatementRun>,
    reader: Reader,
    permits: Arc<Semaphore>,
    sender: Sender<Result<RecordBatch, SqlError>>,
}

impl Pump {
    async fn pump(self, plan: Arc<dyn ExecutionPlan>, partitions: usize, task: Arc<TaskContext>) {
        for partition in 0..partitions {
            let stream = match plan.execute(partition, Arc::clone(&task)) {
                Ok(stream) => stream,
                Err(error) => {
                    let _receiver_is_gone = self.sender.send(Err(sql_error_of(error)));
                    return;
                }
            };
            if !self.send_all(stream).await {
                return;
            }
        }
    }

    /// Sends a stream's batches; `false` if it failed or the receiver is gone.
    async fn send_all(&self, mut stream: SendableRecordBatchStream) -> bool {
        while let Some(batch) = stream.next().await {
            let failed = batch.is_err();
            if self.permits.available_permits() == 0 {
                let _waiting = (self.reader == Reader::Client).then(|| ClientWait::new(&self.run));
                if let Ok(permit) = self.permits.acquire().await {
                    permit.forget();
                }
            } else if let Ok(permit) = self.permits.try_acquire() {
                permit.forget();
            }
            if self.sender.send(batch.map_err(sql_error_of)).is_err() || failed {
                return false;
            }
        }
        true
    }
}

/// Ends the wait for the client when dropped, also if the task is dropped meanwhile.
struct ClientWait<'a>(&'a StatementRun);

impl<'a> ClientWait<'a> {
    fn new(run: &'a StatementRun) -> ClientWait<'a> {
        run.pending.client(true);
        ClientWait(run)
    }
}

impl Drop for ClientWait<'_> {
    fn drop(&mut self) {
        self.0.pending.client(false);
    }
}

/// Takes the workers' items until they are done, fail or the statement is cancelled.
pub(super) fn drain<T>(
    run: &StatementRun,
    receiver: &std::sync::mpsc::Receiver<Result<T, SqlError>>,
    take: &mut dyn FnMut(T) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    loop {
        // An item that is already there needs no clocks.
        let next = match receiver.try_recv() {
            Ok(sent) => Ok(sent),
            Err(_) if one_thread::turn() => receiver.try_recv().map_err(|error| match error {
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                TryRecvError::Empty => {
                    one_thread::wait();
                    RecvTimeoutError::Timeout
                }
            }),
            Err(_) => for_workers(|| receiver.recv_timeout(CANCEL_CHECK)),
        };
        match next {
            Ok(Ok(item)) => take(item)?,
            Ok(Err(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if run.is_cancelled() {
            return Err(SqlError::cancelled());
        }
    }
}

/// Ends the tasks: waits for them after success, aborts them after a failure. A panic in a worker becomes an error of
/// the statement.
pub(super) fn finish(jobs: Vec<JoinHandle<()>>, outcome: Result<(), SqlError>) -> Result<(), SqlError> {
    let mut result = outcome;
    if result.is_err() {
        jobs.iter().for_each(JoinHandle::abort);
    }
    for job in jobs {
        match one_thread::join(job).unwrap_or_else(|job| for_workers(|| wait_for(job))) {
            Err(error) if error.is_panic() && result.is_ok() => {
                result = Err(SqlError::internal("A worker of the statement stopped at a broken invariant."));
            }
            _ => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a task of another runtime, as a statement does.
    fn wait_for_a_worker() -> i32 {
        let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let task = workers.spawn(async {
            tokio::task::yield_now().await;
            7
        });
        let value = wait_for(task).expect("no panic");
        workers.shutdown_background();
        value
    }

    #[test]
    fn a_thread_waits_inside_whatever_executor() {
        assert_eq!(wait_for_a_worker(), 7);
        assert_eq!(futures::executor::block_on(async { wait_for_a_worker() }), 7);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        assert_eq!(runtime.block_on(async { wait_for_a_worker() }), 7);
    }
}
