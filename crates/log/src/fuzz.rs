//! Fuzz targets: a block with its records, and the header of a log file. The driver is `hobt_testing::FuzzTarget`; the
//! corpora are in `__fuzz__` beside this file. Checksums are made right before the bytes are read: a changed byte alone
//! would never get beyond them.

use hobt_base::{Lsn, crc32c};
use hobt_testing::{check_corpus, fuzz_target};

use crate::block::{BLOCK_HEADER_BYTES, BLOCK_UNIT, BlockHeader, block_bytes, seal, verify};
use crate::file_header::{Division, FileHeader};
use crate::record::{NOTHING, RECORD_HEADER_BYTES, first_word, read_record};
use crate::{LSN_FIRST, SEGMENT_BYTES_MIN};

/// A few copies of an input, padded to whole units.
const LIMIT: (usize, usize) = (8 * BLOCK_UNIT, 8);

fuzz_target!(block, LIMIT, read_any_block);

fuzz_target!(file_header, LIMIT, read_any_header);

fn read_any_block(bytes: &[u8]) {
    let _record = read_record(bytes, Lsn(8));
    let Some(header) = BlockHeader::read(bytes) else { return };
    let _damaged = verify(bytes, &header);
    let mut block = bytes.to_vec();
    block.resize(header.block_bytes().min(bytes.len().next_multiple_of(BLOCK_UNIT)), 0);
    if block.len() < header.block_bytes() {
        assert_eq!(verify(&block, &header), None, "a block without its end");
        return;
    }
    let checksum = seal(&mut block, &header);
    assert_eq!((BlockHeader::read(&block), verify(&block, &header)), (Some(header), Some(checksum)));
    // The records as recovery walks over them.
    let mut records = &block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + header.record_bytes as usize];
    let mut at = header.first;
    while let Some(record) = read_record(records, at) {
        let length = (record.end.0 - at.0) as usize;
        let again = record_bytes_of(record.kind, record.transaction, record.previous, &record.payload);
        assert_eq!(again.len(), length);
        assert_eq!(read_record(&again, at), Some(record.clone()));
        records = &records[length..];
        at = record.end;
        assert!(at <= header.end());
    }
}

fn read_any_header(bytes: &[u8]) {
    let mut page = bytes.to_vec();
    page.resize(BLOCK_UNIT, 0);
    let _damaged = FileHeader::parse(&page);
    let checksum = crc32c(&page[4..]);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
    let Some(header) = FileHeader::parse(&page) else { return };
    let _bytes = (header.file_bytes(), header.segment_bytes_for(64 * SEGMENT_BYTES_MIN));
    let mut again = vec![0; BLOCK_UNIT];
    header.encode(&mut again);
    assert_eq!(FileHeader::parse(&again), Some(header));
}

fn record_bytes_of(kind: u8, transaction: u64, previous: Lsn, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [first_word(kind, payload.len()), transaction, previous.0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[test]
fn the_corpora_are_what_is_made_here() {
    let lengths: [&[usize]; 7] = [&[], &[0], &[1, 7, 8, 9], &[100], &[0; 20], &[3000], &[5000, 16]];
    let blocks: Vec<Vec<u8>> =
        lengths.iter().enumerate().map(|(number, lengths)| block_of(number as u64, lengths)).collect();
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "block", &blocks);
    let headers: Vec<Vec<u8>> = (0..6).map(header_of).collect();
    check_corpus(env!("CARGO_MANIFEST_DIR"), file!(), "file_header", &headers);
}

/// A sealed block of records with payloads of these lengths, without the zeros at its end.
fn block_of(number: u64, lengths: &[usize]) -> Vec<u8> {
    let records: Vec<u8> = lengths
        .iter()
        .zip(number..)
        .flat_map(|(length, transaction)| {
            let kind = if *length == 16 { NOTHING } else { 1 };
            record_bytes_of(kind, transaction, LSN_FIRST, &vec![number as u8; *length])
        })
        .collect();
    assert!(records.len() >= lengths.len() * RECORD_HEADER_BYTES);
    let mut block = vec![0; block_bytes(records.len())];
    block[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + records.len()].copy_from_slice(&records);
    let header = BlockHeader {
        log: 77,
        life: 2,
        segment: 3,
        number,
        first: LSN_FIRST,
        record_bytes: records.len() as u32,
        previous_checksum: 5,
    };
    seal(&mut block, &header);
    block.truncate(BLOCK_HEADER_BYTES + records.len());
    block
}

/// The header of a log's first file or of a later one, with divisions, without the zeros at its end.
fn header_of(number: u32) -> Vec<u8> {
    let divisions = (1..=u64::from(number) % 3 + 1)
        .map(|size| Division { segment_bytes: size * SEGMENT_BYTES_MIN, segments: 4 + size })
        .collect();
    let header = FileHeader {
        log: 77,
        version: 4,
        place: number / 3,
        id: number as u16 + 1,
        files: 2,
        removing: u16::from(number == 4),
        life: 3,
        redo_start: Lsn(8192),
        read_from: Lsn(4104),
        read_from_offset: 5 * BLOCK_UNIT as u64,
        keep: Lsn(4096),
        retain: LSN_FIRST,
        start: LSN_FIRST,
        chain: crate::ChainState { from: Lsn(9000), floor: Lsn(8), fork: [3; 16], time: -7, base: 9 },
        growth_bytes: 64 << 20,
        bytes_max: 1 << 40,
        name: "tests_log".repeat(number as usize),
        divisions,
    };
    let mut page = vec![0; BLOCK_UNIT];
    header.encode(&mut page);
    let used = page.iter().rposition(|byte| *byte != 0).expect("a header") + 1;
    page.truncate(used);
    page
}
