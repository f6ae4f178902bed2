//! Processor time as the operating system reports it: consumed by a thread, waited for, taken by the hypervisor.
//!
//! Each reading is a system call (about 0.3 µs for a clock, 1 µs for a file of `/proc`). Take them at the borders of a
//! poll or a task, not for each row.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// Number of processors that this process may use, as it began; at least 1. A simulator can set it
/// ([`crate::schedule::pretend_processors`]), so that a seed has the same effect on every machine.
pub fn processor_count() -> usize {
    #[cfg(feature = "schedule")]
    if let Some(count) = crate::schedule::pretended_processors() {
        return count;
    }
    // The system reads several files for the answer: 50 to 90 µs, which every statement would pay.
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Processor time, user and system, that the calling thread has consumed.
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time, user and system, that all threads of the process have consumed.
pub fn process_cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Has threads with the priority that the calling one has get more of a busy processor than it, about seven times as
/// much, from now on until it ends. Does nothing where a thread has no priority of its own.
pub fn lower_thread_priority() {
    #[cfg(target_os = "linux")]
    {
        /// A step of niceness is worth a quarter more or less.
        const STEPS: libc::c_int = 9;
        const NICEST: libc::c_int = 19;
        // SAFETY: takes and gives numbers alone. On Linux the niceness is a thread's, and 0 is the calling one. It is
        // raised, which needs no right.
        unsafe {
            let own = libc::getpriority(libc::PRIO_PROCESS, 0);
            let _raised = libc::setpriority(libc::PRIO_PROCESS, 0, (own + STEPS).min(NICEST));
        }
    }
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call; both clocks exist on every supported system.
    let result = unsafe { libc::clock_gettime(id, &mut time) };
    assert_eq!(result, 0, "the CPU-time clocks are there on Linux and macOS");
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

/// How long one thread was runnable but had no processor; any thread may read it.
#[derive(Debug)]
pub struct RunQueueClock {
    #[cfg(target_os = "linux")]
    file: std::fs::File,
}

impl RunQueueClock {
    /// The clock of the calling thread. `None` if the system does not report it (macOS, kernels without schedstat).
    #[cfg(target_os = "linux")]
    pub fn of_this_thread() -> Option<RunQueueClock> {
        // The link is resolved by `open`, so the file stays this thread's own, whichever thread reads it.
        std::fs::File::open("/proc/thread-self/schedstat").ok().map(|file| RunQueueClock { file })
    }

    /// The clock of the calling thread: not reported by this system.
    #[cfg(not(target_os = "linux"))]
    pub fn of_this_thread() -> Option<RunQueueClock> {
        None
    }

    /// The time since the thread started, or `None` after it has ended.
    #[cfg(target_os = "linux")]
    pub fn read(&self) -> Option<Duration> {
        let mut text = [0; 96];
        let length = std::os::unix::fs::FileExt::read_at(&self.file, &mut text, 0).ok()?;
        parse_schedstat(std::str::from_utf8(&text[..length]).ok()?)
    }

    /// The time since the thread started: not reported by this system.
    #[cfg(not(target_os = "linux"))]
    pub fn read(&self) -> Option<Duration> {
        None
    }
}

/// The second of the three numbers: nanoseconds on a run queue.
#[cfg(any(target_os = "linux", test))]
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// Time that the hypervisor gave to other machines while a processor of this machine had work, over all processors
/// since boot, in the kernel's ticks of 10 ms. `None` if the system does not report it.
#[cfg(target_os = "linux")]
pub fn steal_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    parse_steal(&text, u64::try_from(ticks_per_second).ok()?)
}

/// Time that the hypervisor gave to other machines: not reported by this system.
#[cfg(not(target_os = "linux"))]
pub fn steal_time() -> Option<Duration> {
    None
}

/// The eighth number of the line `cpu`.
#[cfg(any(target_os = "linux", test))]
fn parse_steal(text: &str, ticks_per_second: u64) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: u64 = line.split_ascii_whitespace().nth(8)?.parse().ok()?;
    let nanoseconds_per_tick = 1_000_000_000_u64.checked_div(ticks_per_second)?;
    Some(Duration::from_nanos(ticks.saturating_mul(nanoseconds_per_tick)))
}

/// A thread of this process as the system's scheduler sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadOnProcessor {
    /// The processor on which it runs, or ran last (numbered from 0).
    pub processor: usize,
    /// Whether it is running or runnable.
    pub is_runnable: bool,
}

/// The threads of this process with this name. Empty if the system does not report them.
#[cfg(target_os = "linux")]
pub fn threads_named(name: &str) -> Vec<ThreadOnProcessor> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    // A thread may end while its file is being read.
    let read = |task: io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("stat")).ok();
    tasks.filter_map(read).filter_map(|stat| parse_thread(&stat, name)).collect()
}

/// The threads of this process with this name: not reported by this system.
#[cfg(not(target_os = "linux"))]
pub fn threads_named(_name: &str) -> Vec<ThreadOnProcessor> {
    Vec::new()
}

/// Parses a line `number (name) state …`, whose 39th part is the processor. `None` for a thread of another name.
#[cfg(any(target_os = "linux", test))]
fn parse_thread(stat: &str, name: &str) -> Option<ThreadOnProcessor> {
    // A name may contain blanks and brackets.
    let (head, parts) = stat.rsplit_once(") ")?;
    let (_, own_name) = head.split_once(" (")?;
    let mut parts = parts.split_ascii_whitespace();
    let is_runnable = parts.next()? == "R";
    let processor = parts.nth(35)?.parse().ok()?;
    (own_name == name).then_some(ThreadOnProcessor { processor, is_runnable })
}

/// Lets the calling thread run on these processors only (numbered from 0).
///
/// # Errors
/// `InvalidInput` for a number the system cannot express, the system's error where none of them exists, and
/// `Unsupported` on other systems than Linux.
#[cfg(target_os = "linux")]
pub fn set_thread_affinity(processors: &[usize]) -> io::Result<()> {
    // SAFETY: a cpu_set_t is an array of integers, for which zero is a valid value (the empty set).
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors {
        if processor >= 8 * size_of::<libc::cpu_set_t>() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {processor}")));
        }
        // SAFETY: the number was checked to lie within the set.
        unsafe { libc::CPU_SET(processor, &mut set) };
    }
    // SAFETY: `set` is valid for reads of its size during the call; 0 names the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling thread run on these processors only: not possible on this system.
///
/// # Errors
/// Always `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn set_thread_affinity(_processors: &[usize]) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not pin threads to processors"))
}

#[cfg(test)]
mod tests {
    use super::{ThreadOnProcessor, parse_schedstat, parse_steal, parse_thread, process_cpu_time, thread_cpu_time};
    use std::time::Duration;

    #[test]
    fn a_thread_is_told_by_its_name_state_and_processor() {
        let stat = "71 (a) b) R 1 70 70 0 -1 4194624 5 0 0 0 9 2 0 0 20 0 7 0 81 9 5 18446744073709551615 1 1 0 0 0 0 0 0 \
                    0 0 0 0 -1 13 0 0 0 0 0 0 0 0 0 0 0 0 0";
        assert_eq!(parse_thread(stat, "a) b"), Some(ThreadOnProcessor { processor: 13, is_runnable: true }));
        assert_eq!(parse_thread(stat, "a"), None);
        assert_eq!(parse_thread("71 (a) R 1 70", "a"), None);
    }

    #[test]
    fn computing_consumes_processor_time() {
        let (thread, process) = (thread_cpu_time(), process_cpu_time());
        let mut random = hobt_base::SplitMix64::new(1);
        let mut all = 0;
        while thread_cpu_time() - thread < Duration::from_millis(5) {
            all |= random.next_u64();
        }
        assert_ne!(all, 0);
        assert!(process_cpu_time() - process >= Duration::from_millis(4));
    }

    #[test]
    fn the_kernels_files_are_read_by_column() {
        assert_eq!(parse_schedstat("123 456789 7\n"), Some(Duration::from_nanos(456_789)));
        assert_eq!(parse_schedstat("123"), None);
        let stat = "intr 5\ncpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_steal(stat, 100), Some(Duration::from_millis(2_500)));
        assert_eq!(parse_steal("cpu  1 2\n", 100), None);
        assert_eq!(parse_steal(stat, 0), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_run_queue_clock_never_goes_back_and_is_read_from_any_thread() {
        let Some(clock) = super::RunQueueClock::of_this_thread() else { return };
        let first = clock.read().expect("this thread runs");
        std::thread::yield_now();
        let later = std::thread::scope(|scope| scope.spawn(|| clock.read()).join().expect("no panic"));
        assert!(later.expect("it was there before") >= first);
    }
}
