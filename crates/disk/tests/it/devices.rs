//! Devices of a simulated disk: which files lie on which, and what their statistics say.

use hobt_disk::{AlignedBuffer, DeviceModel, Direction, Disk, DiskFile, OpenOptions, SimulatedConfig, SimulatedDisk};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PIECE: usize = 64 << 10;

fn model(bytes_per_second: u64) -> DeviceModel {
    DeviceModel { bytes_per_second, ..DeviceModel::fast_card() }
}

fn written(disk: &Arc<SimulatedDisk>, path: &str) -> Arc<dyn DiskFile> {
    let file = disk.open(Path::new(path), OpenOptions { create_new: true, read_only: false, direct: true });
    let file = file.expect("created");
    let content = AlignedBuffer::new(PIECE).expect("memory");
    for piece in 0..4 {
        file.write_at(&content, piece * PIECE as u64).expect("written");
    }
    file
}

/// By the models a write takes 104 µs and its bytes over the rate. Nothing else enters: the test asserts no real time.
#[test]
fn files_of_a_folder_have_its_device_and_the_rate_is_that_of_the_model() {
    let config = SimulatedConfig {
        device: Some(model(1_000_000_000)),
        devices: vec![(PathBuf::from("/slow"), model(100_000_000)), (PathBuf::from("/slow/fast"), model(400_000_000))],
        ..SimulatedConfig::default()
    };
    let disk = SimulatedDisk::start(config).expect("a disk");
    for folder in ["/slow/fast", "/slowly"] {
        disk.create_directory(Path::new(folder)).expect("a folder");
    }
    let paths = ["/a", "/slow/a", "/slow/fast/a", "/slowly/a"];
    let files = paths.map(|path| written(&disk, path));
    let numbers = files.each_ref().map(|file| file.statistics().device().number());
    assert_eq!(numbers, [0, 1, 2, 0]);
    let again = written(&disk, "/slow/b");
    assert!(Arc::ptr_eq(files[1].statistics().device(), again.statistics().device()));
    for (file, bytes_per_second) in files.iter().zip([1e9, 1e8, 4e8]) {
        let expected = PIECE as f64 / (104e-6 + PIECE as f64 / bytes_per_second);
        let rate = file.statistics().device().rate(Direction::Write);
        assert!((rate.bytes_per_second() / expected - 1.0).abs() < 0.01, "{rate:?}, not {expected}");
        assert_eq!(file.statistics().device().rate(Direction::Read).bytes, 0);
    }
}
