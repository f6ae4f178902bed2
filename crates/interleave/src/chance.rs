//! What the threads of a world draw at random comes from the world's seed.
//!
//! Hash maps of the standard library have random keys, so their iteration order differs from run to run. Names and
//! identifiers are random too. All of it comes from the system's `getrandom`, which the standard library looks up by
//! name, so that a program can replace it. This program does: a thread with a stream of its own draws from that, every
//! other one from the system.

#![expect(unsafe_code, reason = "a function that others call by its C name")]

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use hobt_base::SplitMix64;

thread_local! {
    static STREAM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Gives the calling thread a stream of its own. The thread has to be new: what it has drawn before is not affected.
pub(crate) fn draw_from(seed: u64) {
    STREAM.set(Some(seed));
}

/// The system's `getrandom`, except for threads with a stream.
///
/// # Safety
/// `buffer` is valid for writes of `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    let Ok(Some(seed)) = STREAM.try_with(Cell::get) else {
        // SAFETY: the caller's promise is the system call's.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) } as isize;
    };
    let mut random = SplitMix64::new(seed);
    // SAFETY: the caller's promise; bytes have no alignment.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<std::mem::MaybeUninit<u8>>(), length) };
    for chunk in bytes.chunks_mut(8) {
        for (to, byte) in chunk.iter_mut().zip(random.next_u64().to_le_bytes()) {
            to.write(byte);
        }
    }
    STREAM.set(Some(random.next_u64()));
    isize::try_from(length).unwrap_or(isize::MAX)
}
