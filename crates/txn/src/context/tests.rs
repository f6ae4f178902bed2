//! How statements end, and the state after that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Progress;

fn settings(stamp: Stamp) -> StatementContextSettings {
    StatementContextSettings { session: SessionId(51), stamp, degree_of_parallelism: 1, memory: MemoryBudget::new(1) }
}

fn context() -> Arc<StatementContext> {
    StatementContext::new(&settings(Stamp(1)), Arc::default())
}

#[test]
fn undo_runs_backwards_and_commit_forwards() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    for undo in [true, false] {
        let context = context();
        for step in 0..3 {
            let (one, other) = (Arc::clone(&seen), Arc::clone(&seen));
            context.on_undo(move || {
                one.lock().push(format!("undo {step}"));
                Ok(())
            });
            context.on_commit(move || {
                other.lock().push(format!("commit {step}"));
                Ok(())
            });
        }
        if undo { context.roll_back() } else { context.commit() }.expect("no action fails");
    }
    assert_eq!(*seen.lock(), ["undo 2", "undo 1", "undo 0", "commit 0", "commit 1", "commit 2"]);
}

#[test]
fn a_failed_action_does_not_stop_the_others() {
    let context = context();
    let done = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&done);
    context.on_undo(move || {
        seen.store(true, Ordering::Relaxed);
        Ok(())
    });
    context.on_undo(|| Err(UndoError("page".to_owned())));
    assert!(context.roll_back().is_err());
    assert!(done.load(Ordering::Relaxed));
}

#[test]
fn a_panic_in_an_action_is_its_error_and_does_not_stop_the_others() {
    for undo in [true, false] {
        let context = context();
        let count = Arc::new(AtomicU64::new(0));
        for step in 0..3 {
            let count = Arc::clone(&count);
            let action = move || {
                assert!(step != 1, "step {step} breaks");
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            if undo { context.on_undo(action) } else { context.on_commit(action) }
        }
        let ended = if undo { context.roll_back() } else { context.commit() };
        assert!(ended.expect_err("one panicked").0.contains("step 1 breaks"));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}

#[test]
fn a_statement_that_nobody_ended_is_undone_by_the_last_who_has_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = context();
    let note = |what: &'static str| {
        let seen = Arc::clone(&seen);
        move || {
            seen.lock().push(what);
            Ok(())
        }
    };
    kept.on_undo(note("first"));
    kept.on_undo(note("second"));
    kept.on_commit(note("committed"));
    kept.hold(OnDrop(Arc::clone(&seen), "running"));
    kept.hold(OnDrop(Arc::clone(&seen), "lock"));
    let worker = Arc::clone(&kept);
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _kept = kept;
        panic!("half-way");
    }));
    assert!(panicked.is_err());
    assert!(seen.lock().is_empty(), "a worker still has it");
    drop(worker);
    assert_eq!(*seen.lock(), ["second", "first", "lock", "running"]);
}

struct OnDrop(Arc<Mutex<Vec<&'static str>>>, &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.lock().push(self.1);
    }
}

#[test]
fn what_was_held_goes_when_the_statement_has_ended_and_not_before() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let context = context();
    context.hold(OnDrop(Arc::clone(&seen), "lock"));
    let at_commit = Arc::clone(&seen);
    context.on_commit(move || {
        at_commit.lock().push("committed");
        Ok(())
    });
    context.commit().expect("no action fails");
    context.let_go();
    assert_eq!(*seen.lock(), ["committed", "lock"]);
}

#[test]
fn a_failed_statement_of_a_transaction_is_undone_alone() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let settings = settings(Stamp(9));
    let run_one = |transaction: &Arc<Transaction>, name: &'static str, succeeds: bool| {
        let context = StatementContext::in_transaction(transaction, &settings, Arc::default());
        let (one, other) = (Arc::clone(&seen), Arc::clone(&seen));
        context.on_undo(move || {
            one.lock().push(format!("undo {name}"));
            Ok(())
        });
        context.on_commit(move || {
            other.lock().push(format!("commit {name}"));
            Ok(())
        });
        if succeeds { context.commit() } else { context.roll_back() }.expect("no action fails");
    };
    for commits in [true, false] {
        let transaction = Transaction::new(SessionId(51), Stamp(7));
        run_one(&transaction, "first", true);
        let place = transaction.savepoint();
        run_one(&transaction, "second", false);
        run_one(&transaction, "third", true);
        transaction.roll_back_to(&place).expect("no action fails");
        run_one(&transaction, "fourth", true);
        if commits { transaction.commit() } else { transaction.roll_back() }.expect("no action fails");
        drop(transaction);
        let mut expected = vec!["undo second", "undo third"];
        expected.extend(if commits { ["commit first", "commit fourth"] } else { ["undo fourth", "undo first"] });
        assert_eq!(std::mem::take(&mut *seen.lock()), expected);
    }
}

#[test]
fn a_statement_that_nobody_ended_leaves_its_transaction_as_it_was() {
    let settings = settings(Stamp(9));
    let transaction = Transaction::new(SessionId(51), Stamp(7));
    let undone = Arc::new(AtomicU64::new(0));
    for count in 1..=2 {
        let context = StatementContext::in_transaction(&transaction, &settings, Arc::default());
        assert_eq!(context.stamp(), Stamp(7));
        let seen = Arc::clone(&undone);
        context.on_undo(move || {
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        drop(context);
        assert_eq!(undone.load(Ordering::Relaxed), count);
    }
    assert_eq!(transaction.savepoint(), Savepoint::default());
}

#[test]
fn a_rollback_says_how_far_it_is() {
    let (context, progress) = (context(), Arc::<Progress>::default());
    context.transaction().report_undo_to(&progress);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..4 {
        let (progress, seen) = (Arc::clone(&progress), Arc::clone(&seen));
        context.on_undo(move || {
            seen.lock().push(progress.percent());
            Ok(())
        });
    }
    assert_eq!(progress.percent().to_bits(), 0.0_f64.to_bits());
    context.roll_back().expect("no action fails");
    assert_eq!(*seen.lock(), [25.0, 50.0, 75.0, 100.0]);
}

#[test]
fn memory_is_taken_for_the_versions_that_are_put_and_for_no_others() {
    use hobt_base::{FileId, PageId};
    let (all, store): (Arc<crate::Transactions>, _) = (Arc::default(), VersionStore::new());
    let (loader, running) = (all.next(), all.begin());
    let context = StatementContext::new(&settings(running.stamp()), Arc::default());
    context.transaction().set_running(running);
    all.keep_versions_in(&MemoryBudget::new(1 << 30), None);
    let taken = || all.version_bytes();
    let (page, hobt, key) = (PageId::new(FileId(1), 9), HobtId(4), &b"k"[..]);
    let page = HeapPage { hobt: HobtId(3), page };
    context.put_loaded_versions(&store, loader, page, 100);
    assert_eq!((taken(), store.extent().versions), (0, 0), "everybody sees the load");
    context.put_version(&store, page, SlotId(1), Before::Present);
    context.put_key_version(&store, hobt, key, Before::Present);
    let once = taken();
    assert!(once > 0);
    context.put_key_version(&store, hobt, key, Before::Absent);
    assert_eq!((taken(), store.extent().versions), (once, 2), "the first version tells of both changes");
    let unseen = all.begin();
    context.put_loaded_versions(&store, unseen.stamp(), page, 3);
    context.put_loaded_key_versions(&store, unseen.stamp(), hobt, || Ok::<_, ()>(vec![b"l".to_vec()])).expect("keys");
    assert!(taken() > once && store.extent().versions == 6, "{}", taken());
    assert_eq!(context.transaction().undo_bytes(), 0, "they are not the transaction's");
}
