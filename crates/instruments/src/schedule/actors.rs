//! Actors and the order in which they run.
//!
//! Actors are threads, of which one has the turn while the others are parked. A coroutine would switch faster, but with
//! threads each actor has its own thread-local storage (counters, slots, runtimes), as in production.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use hobt_base::SplitMix64;

use super::Place;

/// No actor has the turn.
const NONE: usize = usize::MAX;
/// How far the clock advances at a point.
const POINT_TIME: Duration = Duration::from_micros(1);
/// How far the clock advances when all actors wait: the interval at which waiters check for cancellation.
const IDLE_TIME: Duration = Duration::from_millis(50);
/// The date at which a schedule begins by default: in the year 2027.
const DATE: i64 = 1_800_000_000 * 10_000_000;
/// Of the points at which something becomes durable or visible, one in this many lowers the actor's priority
/// ([`Habit::Priorities`]).
const DECISIVE_POINTS: u64 = 6;
/// The schedule is stuck when all actors in a row have found this many times that they cannot go on.
const FRUITLESS_MAX: u64 = 20_000;

thread_local! {
    static ACTOR: RefCell<Option<Actor>> = const { RefCell::new(None) };
}

/// How a schedule chooses the next actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Habit {
    /// At one of this many points, another actor goes on.
    OneOf(u64),
    /// The ready actor of the highest priority runs. At one of this many points, and more often where something becomes
    /// durable or visible, the running actor gets the lowest priority of all (Burckhardt and others, "A Randomized
    /// Scheduler with Probabilistic Guarantees of Finding Bugs", 2010).
    Priorities(u64),
}

/// How an actor ended.
#[derive(Debug)]
pub enum Ended {
    /// It returned.
    Well,
    /// It panicked, with this text.
    Panicked(String),
    /// No actor of the schedule could go on.
    Stuck,
}

/// A summary of what a schedule did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Trace {
    /// A sum over all points, actors and places: equal for equal seeds.
    pub sum: u64,
    /// Points.
    pub points: u64,
    /// Turns that went from one actor to another.
    pub switches: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ready,
    /// It cannot go on before the schedule's progress exceeds this.
    Waiting(u64),
    Ended,
}

/// When an alarm goes off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alarm {
    /// The number of points from now, of all places or of one.
    pub points: u64,
    /// The place whose points count; `None` for all.
    pub place: Option<Place>,
    /// The number of further points during which the actor that passed the last one is held there, as in a flush that
    /// takes very long. The hold ends early if no other actor can go on.
    pub hold: u64,
}

struct State {
    random: SplitMix64,
    habit: Habit,
    actors: Vec<Status>,
    /// The highest goes first.
    priorities: Vec<u64>,
    trace: Trace,
    /// Counts the points passed, the ends of actors and the idle steps. A waiting actor may go on when it has
    /// increased.
    progress: u64,
    fruitless: u64,
    alarm: Option<Alarm>,
    /// The actor that does not go on before the alarm ([`Alarm::hold`]).
    held: Option<usize>,
    clock: Duration,
    /// The date when the schedule began, in hundreds of nanoseconds since 1970.
    date: i64,
    /// After how many points the date jumps, and by how much.
    jump: Option<(u64, i64)>,
    is_stuck: bool,
    /// One bit for each actor that has reported where it waits before the schedule gives up.
    told: u64,
}

struct Shared {
    bound: u32,
    turn: AtomicUsize,
    /// The actor that has ended, until the schedule continues.
    ended: AtomicUsize,
    state: Mutex<State>,
    threads: Vec<OnceLock<Thread>>,
    main: Thread,
    begun: Instant,
    on_alarm: Box<dyn Fn() + Send + Sync>,
    on_stuck: Box<dyn Fn() + Send + Sync>,
}

#[derive(Clone)]
struct Actor {
    shared: Arc<Shared>,
    number: usize,
}

/// Actors that run in an order decided by a seed.
pub struct Schedule {
    seed: u64,
    habit: Habit,
    bound: u32,
    date: i64,
    jump: Option<(u64, i64)>,
    alarm: Option<Alarm>,
    on_alarm: Box<dyn Fn() + Send + Sync>,
    on_stuck: Box<dyn Fn() + Send + Sync>,
}

impl Schedule {
    /// A schedule with this seed.
    pub fn new(seed: u64, habit: Habit) -> Schedule {
        Schedule {
            seed,
            habit,
            bound: u32::MAX,
            date: DATE,
            jump: None,
            alarm: None,
            on_alarm: Box::new(|| {}),
            on_stuck: Box::new(|| {}),
        }
    }

    /// Makes [`bound`]s on the actors' threads smaller, so that what happens beyond thousands then happens beyond a
    /// few.
    #[must_use]
    pub fn bounded_by(self, bound: u32) -> Schedule {
        Schedule { bound, ..self }
    }

    /// Sets the date, in hundreds of nanoseconds since 1970. `jump` is a number of points and the time by which the
    /// date jumps after them.
    #[must_use]
    pub fn dated(self, date: i64, jump: Option<(u64, i64)>) -> Schedule {
        Schedule { date, jump, ..self }
    }

    /// Calls `act` once, on the thread of the actor that passes the alarm's last point. `act` must not reach a point
    /// itself.
    #[must_use]
    pub fn alarm_at(self, alarm: Alarm, act: impl Fn() + Send + Sync + 'static) -> Schedule {
        Schedule { alarm: Some(alarm), on_alarm: Box::new(act), ..self }
    }

    /// Calls `act` when no actor can go on. `act` makes those actors give up that can. If there is still none that can
    /// go on, the process ends.
    #[must_use]
    pub fn on_stuck(self, act: impl Fn() + Send + Sync + 'static) -> Schedule {
        Schedule { on_stuck: Box::new(act), ..self }
    }

    /// Runs the actors, each with a name, until they end. Blocks.
    pub fn run<'a>(self, actors: Vec<(String, Box<dyn FnOnce() + Send + 'a>)>) -> (Trace, Vec<Ended>) {
        let mut random = SplitMix64::new(self.seed ^ 0x5C4E_D01E);
        let priorities = actors.iter().map(|_| random.next_u64() >> 1).collect();
        let state = State {
            random,
            habit: self.habit,
            actors: vec![Status::Ready; actors.len()],
            priorities,
            trace: Trace::default(),
            progress: 0,
            fruitless: 0,
            alarm: self.alarm,
            held: None,
            clock: Duration::ZERO,
            date: self.date,
            jump: self.jump,
            is_stuck: false,
            told: 0,
        };
        let shared = Arc::new(Shared {
            bound: self.bound,
            turn: AtomicUsize::new(NONE),
            ended: AtomicUsize::new(NONE),
            state: Mutex::new(state),
            threads: actors.iter().map(|_| OnceLock::new()).collect(),
            main: std::thread::current(),
            begun: Instant::now(),
            on_alarm: self.on_alarm,
            on_stuck: self.on_stuck,
        });
        let ended = std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(actors.len());
            for (number, (name, act)) in actors.into_iter().enumerate() {
                let actor = Actor { shared: Arc::clone(&shared), number };
                let builder = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
                #[cfg(feature = "planted-bugs")]
                let bug = crate::planted::planted();
                let live = move || {
                    #[cfg(feature = "planted-bugs")]
                    let _planted = crate::planted::plant(bug);
                    actor.live(act)
                };
                let started = builder.spawn_scoped(scope, live).expect("the system has threads");
                shared.threads[number].set(started.thread().clone()).expect("set once");
                threads.push(started);
            }
            let mut threads: Vec<_> = threads.into_iter().map(Some).collect();
            let mut ended: Vec<Option<Ended>> = threads.iter().map(|_| None).collect();
            while shared.hand_over(None) {
                // Values in the thread's local storage are dropped before the next actor goes on, and never later.
                let number = shared.wait_for_end();
                let thread = threads[number].take().expect("an actor ends once");
                ended[number] = Some(thread.join().unwrap_or(Ended::Stuck));
            }
            ended.into_iter().map(|ended| ended.expect("all have ended")).collect()
        });
        let trace = shared.state().trace;
        (trace, ended)
    }
}

/// An actor runs whole statements, whose expressions are evaluated by recursion.
const STACK_BYTES: usize = 16 << 20;

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Gives the turn to the next actor. `from`, the actor that has the turn, then waits for its next one. `false` when
    /// all have ended.
    fn hand_over(&self, from: Option<usize>) -> bool {
        let Some(next) = self.state().next(from) else { return false };
        if Some(next) != from {
            self.turn.store(next, Ordering::Release);
            self.threads[next].get().expect("all have begun").unpark();
            if let Some(from) = from {
                self.wait_for_turn(from);
            }
        }
        true
    }

    /// Waits until an actor has ended, on the thread that runs the schedule.
    fn wait_for_end(&self) -> usize {
        loop {
            match self.ended.swap(NONE, Ordering::AcqRel) {
                NONE => std::thread::park(),
                number => return number,
            }
        }
    }

    fn wait_for_turn(&self, number: usize) {
        while self.turn.load(Ordering::Acquire) != number {
            std::thread::park();
        }
    }
}

impl State {
    /// The actor that goes on, or `None` when all have ended.
    fn next(&mut self, from: Option<usize>) -> Option<usize> {
        let progress = self.progress;
        let is_ready = |status: &Status| match status {
            Status::Ready => true,
            Status::Waiting(since) => *since < progress,
            Status::Ended => false,
        };
        let mut ready: Vec<usize> = (0..self.actors.len()).filter(|at| is_ready(&self.actors[*at])).collect();
        match self.held {
            Some(held) if ready != [held] => ready.retain(|at| *at != held),
            // The others wait for what it holds, so the alarm is due.
            Some(_) => {
                self.held = None;
                self.alarm.iter_mut().for_each(|alarm| alarm.points = 1);
            }
            None => {}
        }
        let next = if ready.is_empty() {
            // All actors wait, so time passes.
            let waiting: Vec<usize> = (0..self.actors.len()).filter(|at| self.actors[*at] != Status::Ended).collect();
            if waiting.is_empty() {
                return None;
            }
            self.clock += IDLE_TIME;
            self.progress += 1;
            self.fruitless += 1;
            waiting[self.below(waiting.len())]
        } else if let Habit::Priorities(_) = self.habit {
            ready.into_iter().max_by_key(|at| self.priorities[*at]).expect("not empty")
        } else {
            ready[self.below(ready.len())]
        };
        self.actors[next] = Status::Ready;
        if Some(next) != from {
            self.trace.switches += 1;
            self.trace.sum = self.trace.sum.rotate_left(7) ^ next as u64;
        }
        Some(next)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("below a usize")
    }

    /// An actor passes a place. Returns whether another actor is to go on.
    fn passes(&mut self, number: usize, place: Place) -> bool {
        self.trace.points += 1;
        self.trace.sum =
            (self.trace.sum.rotate_left(5) ^ (place as u64 | (number as u64) << 8)).wrapping_mul(0x9E37_79B9);
        self.progress += 1;
        self.fruitless = 0;
        self.clock += POINT_TIME;
        if let Some((_, by)) = self.jump.take_if(|(points, _)| *points <= self.trace.points) {
            self.date = self.date.saturating_add(by);
        }
        match self.habit {
            Habit::OneOf(points) => self.random.below(points) == 0,
            Habit::Priorities(points) => {
                let points = if place.is_decisive() { points.min(DECISIVE_POINTS) } else { points };
                let falls = self.random.below(points) == 0;
                if falls {
                    let least = self.priorities.iter().min().copied().unwrap_or(0);
                    self.priorities[number] = least.saturating_sub(1);
                }
                falls
            }
        }
    }
}

impl Actor {
    /// Runs the actor on its thread.
    fn live(self, act: Box<dyn FnOnce() + Send + '_>) -> Ended {
        self.shared.wait_for_turn(self.number);
        ACTOR.with(|actor| *actor.borrow_mut() = Some(self.clone()));
        let ended = catch_unwind(AssertUnwindSafe(act));
        ACTOR.with(|actor| *actor.borrow_mut() = None);
        let is_stuck = {
            let mut state = self.shared.state();
            state.actors[self.number] = Status::Ended;
            state.progress += 1;
            state.is_stuck
        };
        self.shared.turn.store(NONE, Ordering::Release);
        self.shared.ended.store(self.number, Ordering::Release);
        self.shared.main.unpark();
        match ended {
            Ok(()) if is_stuck => Ended::Stuck,
            Ok(()) => Ended::Well,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
                Ended::Panicked(text.unwrap_or_default())
            }
        }
    }

    fn point(&self, place: Place) {
        let (switches, is_due) = {
            let mut state = self.shared.state();
            let mut switches = state.passes(self.number, place);
            if let Some(alarm) = state.alarm.as_mut().filter(|alarm| alarm.place.is_none_or(|its| its == place)) {
                alarm.points = alarm.points.saturating_sub(1);
            }
            let is_due = match state.alarm.take_if(|alarm| alarm.points == 0) {
                None => false,
                Some(Alarm { hold: 0, .. }) => {
                    state.held = None;
                    true
                }
                Some(Alarm { hold, .. }) => {
                    state.alarm = Some(Alarm { points: hold, place: None, hold: 0 });
                    state.held = Some(self.number);
                    switches = true;
                    false
                }
            };
            (switches, is_due)
        };
        if is_due {
            outside(|| (self.shared.on_alarm)());
        }
        if switches {
            self.shared.hand_over(Some(self.number));
        }
    }

    fn wait(&self, place: Place) {
        let (fruitless, is_told) = {
            let mut state = self.shared.state();
            state.trace.sum = state.trace.sum.rotate_left(3) ^ place as u64;
            state.actors[self.number] = Status::Waiting(state.progress);
            let fruitless = state.fruitless;
            let bit = 1 << (self.number & 63);
            let is_told = state.told & bit != 0;
            // In the last rounds, each actor reports where it waits.
            state.told = if fruitless > FRUITLESS_MAX - 200 { state.told | bit } else { 0 };
            (fruitless, is_told)
        };
        if fruitless > FRUITLESS_MAX - 200 && !is_told {
            eprintln!(
                "{} cannot go on, and waits at {place:?}:\n{}",
                std::thread::current().name().unwrap_or_default(),
                std::backtrace::Backtrace::force_capture()
            );
        }
        if fruitless > FRUITLESS_MAX {
            let was_stuck = std::mem::replace(&mut self.shared.state().is_stuck, true);
            if was_stuck {
                eprintln!("no actor of the schedule can go on: {:?}", std::thread::current().name());
                eprintln!("{}", std::backtrace::Backtrace::force_capture());
                std::process::abort();
            }
            self.shared.state().fruitless = 0;
            outside(|| (self.shared.on_stuck)());
        }
        self.shared.hand_over(Some(self.number));
    }
}

fn with_actor<T>(act: impl FnOnce(&Actor) -> T) -> Option<T> {
    // The thread-local storage may be gone while the thread's last values are dropped.
    let actor = ACTOR.try_with(|actor| actor.borrow().clone()).ok().flatten();
    actor.as_ref().map(act)
}

/// A point at which an actor may lose the processor. Does nothing on a thread that is not an actor.
pub fn point(place: Place) {
    with_actor(|actor| actor.point(place));
}

/// Lets other actors run when this one cannot go on. `false` on a thread that is not an actor, which waits by its own
/// means. The actor checks its condition again afterwards: it may have been resumed for nothing.
pub fn wait(place: Place) -> bool {
    with_actor(|actor| actor.wait(place)).is_some()
}

/// The number that the calling thread has among its schedule's actors.
pub fn actor() -> Option<usize> {
    with_actor(|actor| actor.number)
}

/// Whether the calling thread is an actor.
pub fn is_actor() -> bool {
    ACTOR.try_with(|actor| actor.borrow().is_some()).unwrap_or(false)
}

/// The date and time of day on an actor's thread, in hundreds of nanoseconds since 1970.
pub fn date() -> Option<i64> {
    with_actor(|actor| {
        let state = actor.shared.state();
        state.date.saturating_add(i64::try_from(state.clock.as_nanos() / 100).unwrap_or(i64::MAX))
    })
}

/// The limit of something: `usual`, unless the schedule sets a lower one.
pub fn bound(usual: u32) -> u32 {
    with_actor(|actor| usual.min(actor.shared.bound)).unwrap_or(usual)
}

/// The time, for deadlines: the schedule's on an actor's thread.
pub fn now() -> Instant {
    let simulated = with_actor(|actor| actor.shared.begun + actor.shared.state().clock);
    simulated.unwrap_or_else(Instant::now)
}

/// The number of processors that the process pretends to have; 0 for the real number.
static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// Makes [`crate::processor::processor_count`] return this number from now on, on all threads.
pub fn pretend_processors(count: usize) {
    PROCESSORS.store(count, Ordering::Relaxed);
}

/// The number set by [`pretend_processors`].
pub(crate) fn pretended_processors() -> Option<usize> {
    Some(PROCESSORS.load(Ordering::Relaxed)).filter(|count| *count > 0)
}

/// Runs `act` on an actor's thread as if the thread were not an actor.
pub fn outside<T>(act: impl FnOnce() -> T) -> T {
    struct Back(Option<Actor>);
    impl Drop for Back {
        fn drop(&mut self) {
            let actor = self.0.take();
            ACTOR.with(|place| *place.borrow_mut() = actor);
        }
    }
    let _back = Back(ACTOR.with(|actor| actor.borrow_mut().take()));
    act()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64};

    use super::super::{Condvar, Mutex};
    use super::*;

    fn actors<'a>(count: usize, act: &'a (dyn Fn(usize) + Sync)) -> Vec<(String, Box<dyn FnOnce() + Send + 'a>)> {
        let actor = |number| (format!("actor {number}"), Box::new(move || act(number)) as Box<dyn FnOnce() + Send>);
        (0..count).map(actor).collect()
    }

    /// A counter that each actor reads and writes in two steps.
    fn lost_updates(seed: u64, habit: Habit) -> (Trace, u64) {
        let counter = AtomicU64::new(0);
        let (trace, ended) = Schedule::new(seed, habit).run(actors(3, &|_| {
            for _ in 0..10 {
                let value = counter.load(Ordering::Relaxed);
                point(Place::Moment);
                counter.store(value + 1, Ordering::Relaxed);
            }
        }));
        assert!(ended.iter().all(|ended| matches!(ended, Ended::Well)), "{ended:?}");
        (trace, 30 - counter.into_inner())
    }

    #[test]
    fn a_seed_does_the_same_again_and_others_do_other_things() {
        for habit in [Habit::OneOf(2), Habit::OneOf(10), Habit::Priorities(5)] {
            let all: Vec<_> = (0..20).map(|seed| lost_updates(seed, habit)).collect();
            let again: Vec<_> = (0..20).map(|seed| lost_updates(seed, habit)).collect();
            assert_eq!(all, again);
            assert!(all.iter().any(|(_, lost)| *lost > 0), "{habit:?} finds the lost update");
            assert!(all.iter().any(|(trace, _)| *trace != all[0].0));
        }
    }

    #[test]
    fn an_actor_that_holds_a_lock_can_be_preempted_and_the_others_wait() {
        let counter = Mutex::new(0);
        let add = |_| {
            for _ in 0..20 {
                let mut value = counter.lock();
                let seen = *value;
                point(Place::Moment);
                *value = seen + 1;
            }
        };
        let (trace, _) = Schedule::new(3, Habit::OneOf(2)).run(actors(4, &add));
        assert_eq!(counter.into_inner(), 80);
        assert!(trace.switches > 20, "{trace:?}");
    }

    #[test]
    fn a_wait_for_a_signal_ends_where_another_actor_is_preempted_with_the_lock() {
        let (sender, receiver) = std::sync::mpsc::channel();
        // On a thread of its own: if this is broken, the schedule's threads wait for each other without end.
        std::thread::spawn(move || {
            let (turns, changed) = (Mutex::new(0), Condvar::new());
            let act = |number: usize| {
                for turn in (0..20).filter(|turn| turn % 2 == number) {
                    let mut turns = turns.lock();
                    while *turns < turn {
                        changed.wait(&mut turns);
                    }
                    // May be preempted here, while it holds the mutex.
                    point(Place::Moment);
                    *turns += 1;
                    changed.notify_all();
                }
            };
            let (_, ended) = Schedule::new(1, Habit::OneOf(2)).run(actors(2, &act));
            sender.send(ended.iter().all(|ended| matches!(ended, Ended::Well)))
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
    }

    #[test]
    fn time_passes_where_all_wait() {
        let (_, ended) = Schedule::new(1, Habit::OneOf(2)).run(actors(2, &|_| {
            let until = now() + Duration::from_secs(5);
            while now() < until {
                wait(Place::TransactionLock);
            }
        }));
        assert!(ended.iter().all(|ended| matches!(ended, Ended::Well)));
    }

    #[test]
    fn actors_that_can_never_go_on_are_told() {
        let given_up = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&given_up);
        let schedule = Schedule::new(1, Habit::OneOf(2)).on_stuck(move || told.store(true, Ordering::Relaxed));
        let (_, ended) = schedule.run(actors(2, &|_| {
            while !given_up.load(Ordering::Relaxed) {
                wait(Place::TransactionLock);
            }
        }));
        assert!(ended.iter().any(|ended| matches!(ended, Ended::Stuck)), "{ended:?}");
    }

    #[test]
    fn a_panic_ends_its_actor_alone_and_the_alarm_goes_off_once() {
        let alarms = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&alarms);
        let count = move || {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let alarm = Alarm { points: 7, place: None, hold: 0 };
        let (_, ended) = Schedule::new(1, Habit::OneOf(2)).alarm_at(alarm, count).run(actors(3, &|number| {
            for _ in 0..10 {
                point(Place::Moment);
            }
            assert!(number != 1, "as it is told to");
        }));
        assert!(matches!(&ended[..], [Ended::Well, Ended::Panicked(_), Ended::Well]), "{ended:?}");
        assert_eq!(alarms.load(Ordering::Relaxed), 1);
    }

    /// The points that the other actors pass between the alarm's last point of its place and the alarm.
    fn passed_beside_a_held_one(hold: u64, points_of_others: u64) -> u64 {
        let (others, at_alarm) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
        let (counted, told) = (Arc::clone(&others), Arc::clone(&at_alarm));
        let alarm = Alarm { points: 3, place: Some(Place::LogFlush), hold };
        let schedule = Schedule::new(1, Habit::OneOf(2))
            .alarm_at(alarm, move || told.store(counted.load(Ordering::Relaxed), Ordering::Relaxed));
        let (_, ended) = schedule.run(actors(3, &|number| {
            if number == 0 {
                for _ in 0..3 {
                    point(Place::LogFlush);
                }
                assert!(at_alarm.load(Ordering::Relaxed) < u64::MAX || hold > points_of_others, "it goes on too early");
                point(Place::Moment);
            } else {
                for _ in 0..points_of_others / 2 {
                    others.fetch_add(1, Ordering::Relaxed);
                    point(Place::Moment);
                }
            }
        }));
        assert!(ended.iter().all(|ended| matches!(ended, Ended::Well)), "{ended:?}");
        at_alarm.load(Ordering::Relaxed)
    }

    #[test]
    fn a_held_actor_goes_on_with_the_alarm_or_when_no_other_can() {
        assert!((50..=60).contains(&passed_beside_a_held_one(50, 2_000)));
        assert_eq!(passed_beside_a_held_one(5_000, 2_000), 2_000);
    }
}
