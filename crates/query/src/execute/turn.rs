//! How long an operator that reads computes before others of its worker have their turn.
//!
//! A task that a worker wakes while it runs another waits for the end of that one's turn, and no idle worker can take
//! it over: tokio keeps the one that was woken last out of the queue from which others steal. So the first partition of
//! a join that has made the hash table of all would wake the second, read the whole of the other side, and leave the
//! second nothing. The wake that ends a turn puts the task itself into the queue, where an idle worker finds it. (What
//! tokio's own budget ends is woken only when its worker looks for events, behind all that is ready.)

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
    /// Turns of so many pieces. Where there are several partitions the first turn ends before it begins: whoever was
    /// woken by what was made just now goes to another worker.
    pub(super) fn new(partitions: usize, pieces: usize) -> Turn {
        Turn { left: if partitions > 1 { 0 } else { pieces }, pieces }
    }

    /// Asked before each piece: whether others are next. Then the task is awake already, and `Poll::Pending` is to be
    /// returned.
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

    /// Turns until the task that was woken has run, if no more than some are needed.
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
            // The other has its turn to begin to wait.
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
