//! Fuzz target: the files of a media set. The driver is `hobt_testing::FuzzTarget`; the corpora are in `__fuzz__`
//! beside this file. Checksums are made right before the bytes are read as well: a changed byte alone would never get
//! beyond them.

use std::path::Path;
use std::sync::Arc;

use hobt_base::crc32c;
use hobt_disk::{AlignedBuffer, Disk, DiskFile, OpenOptions, SimulatedConfig, SimulatedDisk};
use hobt_testing::{check_corpus, fuzz_target};

use crate::block::UNIT;
use crate::{
    BlockBuffer, BlockKind, Content, Guid, Media, MediaLabel, MediaWriter, Opening, Reading, SetFacts, SetReader,
};

/// A buffer for blocks with another one to decompress to, what is read ahead, and a few copies of an input.
const LIMIT: (usize, usize) = (6 << 20, 8);

fuzz_target!(media, LIMIT, read_any_media);

fn file(disk: &SimulatedDisk, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let options = OpenOptions { create_new: true, direct: true, ..OpenOptions::default() };
    let file = disk.open(Path::new("/any.bak"), options).expect("a new file");
    if !bytes.is_empty() {
        let mut whole = AlignedBuffer::new(bytes.len().next_multiple_of(UNIT)).expect("memory");
        whole[..bytes.len()].copy_from_slice(bytes);
        file.write_at(&whole, 0).expect("a disk without faults");
    }
    file
}

/// Makes the checksums of all blocks right, as far as one leads to the next.
fn mend(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(block) = bytes.get_mut(at..).filter(|block| block.len() >= UNIT) {
        let stored = u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) as usize;
        let Some(payload) = block.get(UNIT..UNIT.saturating_add(stored)) else { return };
        let mut fields = block[4..96].to_vec();
        fields.extend_from_slice(&crc32c(payload).to_le_bytes());
        let checksum = crc32c(&fields);
        block[..4].copy_from_slice(&checksum.to_le_bytes());
        at += UNIT + stored.next_multiple_of(UNIT);
    }
}

fn read_any_media(bytes: &[u8]) {
    for is_mended in [false, true] {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
        if is_mended {
            mend(&mut bytes);
        }
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let Ok(media) = Media::open(vec![file(&disk, &bytes)]) else { continue };
        for place in media.sets() {
            drop(read_all(&media, place));
        }
    }
}

/// Reads every block of a backup set.
fn read_all(media: &Media, place: &crate::SetPlace) -> Result<(), crate::BackupError> {
    let reader = SetReader::new(media, place, Reading::Whole)?;
    let mut buffer = BlockBuffer::new()?;
    while let Some(pass) = reader.next_pass()? {
        while reader.next_data(pass, &mut buffer)?.is_some() {}
    }
    let mut at = place.facts.first;
    while let Some(block) = reader.next_log(at, &mut buffer)? {
        // A block without bytes would be found for ever.
        at += (block.payload.len() as u64).max(1);
    }
    reader.check_end()
}

fn sample(compresses: bool, sets: u64) -> Vec<u8> {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
    let file = file(&disk, &[]);
    let label = MediaLabel { media: Guid([7; 16]), name: "weekly".to_owned(), ..MediaLabel::default() };
    for number in 0..sets {
        let writer = MediaWriter::open(vec![Arc::clone(&file)], Opening::Append, label.clone()).expect("open");
        let facts = SetFacts { guid: Guid([number as u8; 16]), first: 4096, last: 4196, ..SetFacts::default() };
        let set = writer.begin(&facts, compresses).expect("begun");
        let mut buffer = BlockBuffer::new().expect("memory");
        buffer.payload_mut(8192).fill(number as u8);
        let content = Content { file: 1, pass: 0, first: 8, count: 1 };
        let packed = set.pack(&mut buffer, 8192).expect("memory");
        set.put(BlockKind::Data, content, packed).expect("put");
        buffer.payload_mut(100).fill(3);
        let content = Content { file: 0, pass: 0, first: 4096, count: 100 };
        let packed = set.pack(&mut buffer, 100).expect("memory");
        set.put(BlockKind::Log, content, packed).expect("put");
        set.finish(&facts).expect("finished");
    }
    let mut bytes = AlignedBuffer::new(file.size().expect("a size") as usize).expect("memory");
    file.read_at(&mut bytes, 0).expect("readable");
    bytes.to_vec()
}

#[test]
fn the_corpora_are_what_is_made_here() {
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "media", &[sample(false, 1), sample(true, 1)]);
}

#[test]
fn what_was_written_is_read() {
    let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
    for compresses in [false, true] {
        let bytes = sample(compresses, 3);
        let _removed = disk.remove(Path::new("/any.bak"));
        let media = Media::open(vec![file(&disk, &bytes)]).expect("sound");
        assert_eq!((media.sets().len(), media.is_cut_short()), (3, false));
        media.sets().iter().for_each(|place| read_all(&media, place).expect("sound"));
    }
}
