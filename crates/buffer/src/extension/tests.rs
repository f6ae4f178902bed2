//! What a device that loses writes does to copies, with pages in known places.

use std::path::Path;

use hobt_base::{FileId, HobtId};
use hobt_disk::{Disk, Fault, FaultKind, OpenOptions, Operation, SimulatedConfig, SimulatedDisk};
use hobt_page::PageType;

use super::*;

const TAG: u32 = 77;
const PLACES: u32 = 4 * BATCH_PAGES;

fn page(number: u32) -> PageId {
    PageId::new(FileId(1), number)
}

/// Retires pages 0 to 255, in order: page `n` gets place `n`.
fn retire_all(extension: &Extension, version: u32, content: u8) {
    for number in 0..PLACES {
        let mut bytes = [content; PAGE_SIZE];
        PageHeader::new(PageType::Row, page(number), TAG, HobtId(1)).write(&mut bytes);
        let retired = Retired { key: PageKey::new(1, number), version, is_used: true };
        if let Some((first, buffer)) = extension.retire(&retired, &bytes) {
            extension.write(first, buffer);
            extension.reap();
        }
    }
}

/// A device that does not write what it says it has written returns what was there before: an older copy of the same
/// page, with a right checksum and address.
#[test]
fn an_older_copy_in_the_same_place_is_noticed() {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk");
    let options = OpenOptions { create_new: true, ..OpenOptions::default() };
    let file = disk.open(Path::new("/x.bpe"), options).expect("a file");
    file.set_size(u64::from(PLACES) * PAGE_SIZE as u64).expect("room");
    let extension = Arc::new(Extension::new(file, PLACES).expect("memory"));
    retire_all(&extension, 5, 1);
    let mut bytes = [0; PAGE_SIZE];
    let found = extension.find(PageKey::new(1, 9), 5).expect("a current copy");
    assert_eq!(found.place, 9);
    assert!(found.read(&mut bytes, page(9), TAG) && bytes[PAGE_SIZE - 1] == 1);
    // The second write of the second round is lost.
    disk.inject(Fault::once(Operation::Write, 1, FaultKind::Ignored));
    retire_all(&extension, 8, 2);
    for (number, is_lost) in [(9, false), (BATCH_PAGES + 9, true), (2 * BATCH_PAGES, false)] {
        assert!(extension.find(PageKey::new(1, number), 5).is_none(), "the earlier version is gone");
        let found = extension.find(PageKey::new(1, number), 8).expect("a current copy");
        assert_eq!(found.place, number);
        assert_eq!(found.read(&mut bytes, page(number), TAG), !is_lost, "page {number}");
        assert_eq!(extension.find(PageKey::new(1, number), 8).is_none(), is_lost, "a damaged copy is forgotten");
    }
    assert_eq!(extension.statistics().pages_damaged, 1);
}
