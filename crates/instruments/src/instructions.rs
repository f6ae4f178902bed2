//! Instructions that a thread executes, as the processor counts them.
//!
//! Linux reports them if the machine and `perf_event_paranoid` allow it; virtual machines often do not.

use std::fs::File;

/// The counter of one thread's instructions in user mode.
#[derive(Debug)]
pub struct InstructionCounter {
    file: File,
}

impl InstructionCounter {
    /// The calling thread's counter, starting now. `None` if the system refuses it or has none.
    #[cfg(all(target_os = "linux", target_endian = "little"))]
    pub fn of_this_thread() -> Option<InstructionCounter> {
        use std::os::fd::FromRawFd;
        // The first 64 bytes of `perf_event_attr`: PERF_ATTR_SIZE_VER0 of <linux/perf_event.h>.
        const SIZE: u64 = 64;
        const HARDWARE_INSTRUCTIONS: u64 = 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
        let mut attributes = [0_u64; 8];
        // The type in the lower half (0: hardware), the size in the upper.
        attributes[0] = SIZE << 32;
        attributes[1] = HARDWARE_INSTRUCTIONS;
        attributes[5] = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        // SAFETY: the attributes are as long as they say and outlive the call, which only reads them; thread 0 is the
        // caller, processor -1 any, group -1 none.
        let descriptor =
            unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, CLOSE_ON_EXEC) };
        let descriptor = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0)?;
        // SAFETY: the descriptor is new and owned by no other value.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let counter = InstructionCounter { file };
        counter.read().is_some().then_some(counter)
    }

    /// The calling thread's counter: not supported on this system.
    #[cfg(not(all(target_os = "linux", target_endian = "little")))]
    pub fn of_this_thread() -> Option<InstructionCounter> {
        None
    }

    /// The instructions counted since the counter was made.
    pub fn read(&self) -> Option<u64> {
        let mut count = [0; 8];
        std::io::Read::read_exact(&mut &self.file, &mut count).ok()?;
        Some(u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod tests {
    use super::InstructionCounter;

    #[test]
    fn work_is_counted_where_the_system_counts() {
        let Some(counter) = InstructionCounter::of_this_thread() else { return };
        let before = counter.read().expect("it was read before");
        let sum = (0..10_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
        std::hint::black_box(sum);
        assert!(counter.read().expect("it was read before") >= before + 10_000);
    }
}
