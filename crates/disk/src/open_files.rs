//! The process's limit of open files.

use std::io;

/// Raises the limit of open files to the highest that the process may give itself. Systems start programs with 1,024,
/// for programs that use `select`; an instance of many databases needs more. Returns the limit.
///
/// # Errors
/// The system refuses; the limit stays as it was.
pub fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: as above.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn the_limit_is_the_highest_that_the_process_may_have() {
        let raised = super::raise_limit().expect("a process may raise its own limit");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("on Linux");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("it is listed");
        let columns: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(columns[3..5], [raised.to_string(), raised.to_string()]);
    }
}
