//! Limits how long an operator that reads computes before other tasks of its worker get a turn.
//!
//! If a worker wakes a task while it runs another, the woken task waits until that one's turn ends, and no idle worker
//! can take it: tokio keeps the task woken last out of the queue from which other workers steal. Without turns, the
//! first partition of a join that has made the shared hash table would wake the second, read the whole other side, and
//! leave the second nothing. The wake that ends a turn puts the task itself into the queue, where an idle worker finds
//! it. (A task stopped by tokio's own budget is woken only when its worker polls for events, after all tasks that are
//! ready.)

use std::task::Context;

/// Page ranges that a scan reads in one turn: a few milliseconds.
pub(super) const RANGES: usize = 64;
/// Leaves that a seek reads in one turn.
pub(super) const LEAVES: usize = 4096;

/// The turns of one partition's reader.
#[derive(Debug)]
pub(super) struct Turn {
    left: usize,
    pieces: usize,
}

impl Turn {
    /// Turns of `pieces` pieces. If there are several partitions, the first turn ends before it begins: a task that was
    /// woken shortly before then goes to another worker.
    pub(super) fn new(partitions: usize, pieces: usize) -> Turn {
        Turn { left: if partitions > 1 { 0 } else { pieces }, pieces }
    }

    /// Called before each piece: whether the turn is over. If so, the task has been woken already, and the caller
    /// returns `Poll::Pending`.
    pub(super) fn is_over(&mut self, task: &Context<'_>) -> bool {
        if self.left == 0 {
            self.left = self.pieces;
            task.waker().wake_by_ref();
            return true;
        }
        self.left -= 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Poll;

    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;

    /// The number of turns until the woken task has run; `None` if it takes too many.
    fn turns_until_the_woken_runs(workers: usize, partitions: usize) -> Option<usize> {
        let runtime = Builder::new_multi_thread().worker_threads(workers).build().expect("a runtime");
        let (wake, woken) = oneshot::channel::<()>();
        let (ready, is_ready) = oneshot::channel::<()>();
        let ran = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&ran);
        runtime.spawn(async move {
            let _nobody_waits = ready.send(());
            let _woken = woken.await;
            other.store(true, Ordering::Release);
        });
        let reader = runtime.spawn(async move {
            let _waits = is_ready.await;
            // Lets the other task begin to wait.
            tokio::task::yield_now().await;
            let _it_listens = wake.send(());
            let (mut turn, mut turns) = (Turn::new(partitions, 3), 0);
            poll_fn(move |task| {
                while !ran.load(Ordering::Acquire) {
                    if turn.is_over(task) {
                        turns += 1;
                        return if turns > 1000 { Poll::Ready(None) } else { Poll::Pending };
                    }
                }
                Poll::Ready(Some(turns))
            })
            .await
        });
        futures::executor::block_on(reader).expect("no panic")
    }

    #[test]
    fn who_was_woken_runs_before_its_waker_has_read_all() {
        for workers in [1, 2, 4] {
            for partitions in [1, 2] {
                let turns = turns_until_the_woken_runs(workers, partitions);
                assert!(turns.is_some(), "{workers} workers, {partitions} partitions");
            }
        }
    }

    #[test]
    fn one_partition_begins_at_once_and_several_let_others_go_first() {
        let mut task = Context::from_waker(std::task::Waker::noop());
        let over = |partitions, task: &mut Context<'_>| {
            let mut turn = Turn::new(partitions, 2);
            std::array::from_fn::<bool, 6, _>(|_| turn.is_over(task))
        };
        assert_eq!(over(1, &mut task), [false, false, true, false, false, true]);
        assert_eq!(over(2, &mut task), [true, false, false, true, false, false]);
    }
}
