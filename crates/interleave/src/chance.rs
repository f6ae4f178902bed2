//! What a world's threads draw at random comes from its seed.
//!
//! Hash maps of the standard library have random keys, and are gone through in another order in each run; names and
//! identifiers are drawn, too. Both end at the system's `getrandom`, which the standard library looks up by name, so
//! that a program can put its own in its place. This one does: a thread that has a stream of its own draws from that,
//! every other one from the system.

#![expect(unsafe_code, reason = "a function that others call by its C name")]

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use hobt_base::SplitMix64;

thread_local! {
    static STREAM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Gives the calling thread a stream of its own. It has to be new: what it has drawn before stays.
pub(crate) fn draw_from(seed: u64) {
    STREAM.set(Some(seed));
}

/// The system's `getrandom`, but for threads with a stream.
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
