//! One suite over all three backends, and tests that only the simulated one allows.

mod devices;
mod faults;
mod suite;

use hobt_disk::{Disk, DiskFile, DiskKind, OpenOptions, RecordingDisk, SimulatedConfig, open_disk};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk with an empty folder that is removed at the end.
pub(crate) struct Place {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: PathBuf,
}

impl Place {
    pub(crate) fn new(kind: DiskKind) -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let disk = open_disk(kind).expect("the disk starts");
        disk.create_directory(&folder).expect("the folder is created");
        Place { disk, folder }
    }

    /// Files of the system's disk, with their changes recorded.
    fn recorded() -> Place {
        let mut place = Place::new(DiskKind::Auto);
        let trace = place.folder.with_extension("trace");
        place.disk = RecordingDisk::start(place.disk.clone(), &place.folder, &trace).expect("the trace begins");
        // It exists as long as it is open, and nothing reads it here.
        std::fs::remove_file(trace).expect("it has a name");
        place
    }

    pub(crate) fn create(&self, name: &str, direct: bool) -> Arc<dyn DiskFile> {
        let options = OpenOptions { create_new: true, read_only: false, direct };
        self.disk.open(&self.folder.join(name), options).expect("the file is created")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn simulated() -> DiskKind {
    DiskKind::Simulated(SimulatedConfig::default())
}

/// A simulated disk whose completions come later, from its timer thread.
pub(crate) fn simulated_card() -> DiskKind {
    DiskKind::Simulated(SimulatedConfig {
        device: Some(hobt_disk::DeviceModel::fast_card()),
        ..SimulatedConfig::default()
    })
}

/// Makes the suite's tests for one backend.
macro_rules! suite_for {
    ($backend:ident, $place:expr) => {
        mod $backend {
            use super::{Place, suite};
            suite_for!(@tests $place;
                names_come_and_go
                sizes_are_allocated_and_cut
                what_is_written_is_read
                durable_writes_are_there_after_opening_anew
                requests_beyond_the_rings_size_all_complete
                scattered_memory_is_one_transfer
                the_end_of_the_file_is_an_error_of_its_own
                misaligned_direct_transfers_are_refused
                a_failed_write_poisons_its_handle
                a_failed_durable_write_poisons_its_handle
                a_lock_is_held_until_the_file_is_dropped
                a_waker_is_woken_and_an_empty_queue_ends
                queue_file_and_disk_may_go_before_the_request
                submitters_may_end_before_their_requests
                many_threads_submit_at_once
                statistics_agree_to_the_byte
            );
        }
    };
    (@tests $place:expr; $($test:ident)+) => {
        $(#[test]
        fn $test() {
            suite::$test(&$place);
        })+
    };
}

suite_for!(threads, Place::new(hobt_disk::DiskKind::Threads));
suite_for!(simulated_at_once, Place::new(crate::simulated()));
suite_for!(simulated_later, Place::new(crate::simulated_card()));
suite_for!(recorded, Place::recorded());
// Uses io_uring if the kernel allows it, otherwise the fallback, which must pass too.
suite_for!(auto, Place::new(hobt_disk::DiskKind::Auto));

#[test]
fn io_uring_is_used_or_refused_with_a_reason() {
    match open_disk(DiskKind::IoUring) {
        Ok(disk) => {
            assert_eq!(disk.kind(), "io_uring");
            assert_eq!(open_disk(DiskKind::Auto).expect("starts").kind(), "io_uring");
        }
        Err(error) => {
            assert!(error.to_string().starts_with("start of \"io_uring\""), "{error}");
            assert_eq!(open_disk(DiskKind::Auto).expect("starts").kind(), "threads");
        }
    }
    assert!(DiskKind::from_name("floppy").is_none());
}

/// The pipe's other end is not open, so opening it would wait until it is.
#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused() {
    let place = Place::new(DiskKind::Threads);
    let path = place.folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("the program mkfifo");
    assert!(made.success());
    for (read_only, direct) in [(true, true), (true, false), (false, true)] {
        let options = OpenOptions { create_new: false, read_only, direct };
        let error = place.disk.open(&path, options).map(drop).expect_err("it is no file");
        assert!(error.to_string().contains("a pipe"), "{error}");
    }
}
