//! Finds the end of a log that a crash or a shutdown left, and reads the log from where recovery begins.
//!
//! What is older and kept for an undo, or for a backup, is known by the first block of each segment. Whoever reads its
//! records checks their blocks then ([`LogReader`](crate::LogReader)).

use std::sync::Arc;

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, DiskFile};
use hobt_instruments::schedule::Mutex;

use crate::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BLOCK_UNIT, BlockHeader, block_bytes, verify};
use crate::file_header::FileHeader;
use crate::log::{Filling, Writer};
use crate::marks::Marks;
use crate::record::{Record, read_record};
use crate::segments::{Contents, OpenFile, Segments};
use crate::stretches::{Bytes, Stretch, Stretches};
use crate::{Log, LogError, RecoveryStart};

/// Blocks behind one that is read among which the stretch to be read next is looked for: as many as a stretch has.
const BLOCKS_AHEAD_MAX: usize = 512;

/// A block that was found sound.
#[derive(Clone, Copy, Debug)]
struct BlockPlace {
    first: Lsn,
    end: Lsn,
    file: usize,
    offset: u64,
}

/// What an opened log contains: all that recovery reads.
pub struct Recovered {
    /// Where recovery begins.
    pub start: RecoveryStart,
    /// The position after the last record.
    pub end: Lsn,
    blocks: Vec<BlockPlace>,
    files: Vec<Arc<dyn DiskFile>>,
    stretches: Mutex<Stretches>,
}

impl std::fmt::Debug for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovered").field("start", &self.start).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Recovered {
    /// Calls `visit` for every record from `from` on, in order, except records that only fill space. `from` is at or
    /// behind where recovery reads from.
    ///
    /// # Errors
    /// A file cannot be read, a block has changed since the log was opened, or an error from `visit`.
    pub fn for_each<E: From<LogError>>(
        &self,
        from: Lsn,
        visit: &mut dyn FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.blocks.partition_point(|block| block.end <= from);
        for (place, block) in self.blocks.iter().enumerate().skip(start) {
            let bytes = self.read(place)?;
            let records = &bytes[BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + (block.end.0 - block.first.0) as usize];
            let disk = &*self.files[block.file];
            let mut records = BlockRecords { records, lsn: block.first, disk, offset: block.offset };
            while let Some(record) = records.next()? {
                if record.lsn >= from && record.kind != crate::record::NOTHING {
                    visit(record)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a block, and what comes behind it ahead.
    fn read(&self, place: usize) -> Result<Bytes, LogError> {
        let block = &self.blocks[place];
        let changed = || {
            LogError::damaged(&*self.files[block.file], block.offset, "a block has changed since the log was opened")
        };
        let bytes = block_bytes((block.end.0 - block.first.0) as usize);
        let mut stretches = self.stretches.lock();
        let read = stretches.get(block.file, block.offset, bytes)?.ok_or_else(changed)?;
        let here = Stretch::of(block.file, block.offset + bytes as u64 - 1);
        let behind = self.blocks[place + 1..].iter().map(|block| Stretch::of(block.file, block.offset));
        if let Some(next) = behind.take(BLOCKS_AHEAD_MAX).find(|next| *next != here) {
            stretches.read_ahead(next)?;
        }
        drop(stretches);
        let header = BlockHeader::read(&read).filter(|header| verify(&read, header).is_some()).ok_or_else(changed)?;
        let is_same = header.first == block.first && header.end() == block.end;
        if is_same { Ok(read) } else { Err(changed()) }
    }
}

/// The records of one block.
struct BlockRecords<'a> {
    records: &'a [u8],
    lsn: Lsn,
    disk: &'a dyn DiskFile,
    offset: u64,
}

impl BlockRecords<'_> {
    fn next(&mut self) -> Result<Option<Record>, LogError> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let broken = || LogError::damaged(self.disk, self.offset, "a sound block holds what is no record");
        let record = read_record(self.records, self.lsn).ok_or_else(broken)?;
        self.records = &self.records[(record.end.0 - record.lsn.0) as usize..];
        self.lsn = record.end;
        Ok(Some(record))
    }
}

/// The block at `offset`, read into `buffer`, with its checksum; `None` if there is no sound block of at most `room`
/// bytes.
fn read_block(
    disk: &dyn DiskFile,
    offset: u64,
    room: u64,
    buffer: &mut AlignedBuffer,
) -> Result<Option<(BlockHeader, u32)>, LogError> {
    if room < BLOCK_UNIT as u64 {
        return Ok(None);
    }
    buffer.set_len(BLOCK_UNIT);
    disk.read_at(buffer, offset)?;
    let Some(header) = BlockHeader::read(buffer) else { return Ok(None) };
    let bytes = header.block_bytes();
    if bytes as u64 > room {
        return Ok(None);
    }
    if bytes > BLOCK_UNIT {
        buffer.set_len(bytes);
        disk.read_at(&mut buffer[BLOCK_UNIT..], offset + BLOCK_UNIT as u64)?;
    }
    Ok(verify(buffer, &header).map(|checksum| (header, checksum)))
}

/// The header of the block at `offset`, with its checksum; `None` if there is no sound block of at most `room` bytes.
fn next_block(
    stretches: &mut Stretches,
    (file, offset): (usize, u64),
    room: u64,
) -> Result<Option<(BlockHeader, u32)>, LogError> {
    if room < BLOCK_UNIT as u64 {
        return Ok(None);
    }
    let unit = stretches.get(file, offset, BLOCK_UNIT)?;
    let Some(header) = unit.and_then(|unit| BlockHeader::read(&unit)) else { return Ok(None) };
    if header.block_bytes() as u64 > room {
        return Ok(None);
    }
    let block = stretches.get(file, offset, header.block_bytes())?;
    Ok(block.and_then(|block| verify(&block, &header)).map(|checksum| (header, checksum)))
}

/// Begins to read what probably comes next: the rest of the segment, or the segment that seems to be the next one.
fn read_ahead(
    segments: &Segments,
    firsts: &[(usize, BlockHeader)],
    (segment, sequence, used): (usize, u64, u64),
    stretches: &mut Stretches,
) -> Result<(), LogError> {
    let one = &segments.all[segment];
    let here = Stretch::of(one.file, one.offset + used);
    let last = Stretch::of(one.file, one.offset + one.bytes - 1);
    if here != last {
        return stretches.read_ahead(here.next());
    }
    let next = firsts.iter().filter(|(_, header)| header.segment == sequence + 1);
    let Some((next, _)) = next.max_by_key(|(_, header)| header.life) else { return Ok(()) };
    let next = &segments.all[*next];
    stretches.read_ahead(Stretch::of(next.file, next.offset))
}

impl Log {
    /// Opens an existing log: finds its end and begins a new life after it, in the next block, so that an opening takes
    /// no room. Until [`Log::recovery_ended`] all room is for recovery. The files must be locked against other
    /// processes.
    ///
    /// # Errors
    /// A file cannot be read or written, does not belong to this log, or is cut short; a block in the middle is
    /// damaged.
    ///
    /// # Panics
    /// When there is no file, or the ring is smaller than a mebibyte.
    pub fn open(files: &[Arc<dyn DiskFile>], ring_bytes: usize) -> Result<(Log, Recovered), LogError> {
        assert!(!files.is_empty(), "a log has a file");
        let mut segments = Segments::new(open_files(files)?);
        let disks: Vec<Arc<dyn DiskFile>> = segments.files.iter().map(|file| Arc::clone(&file.disk)).collect();
        let first = segments.files[0].header.clone();
        let firsts = first_blocks(&segments, first.log)?;
        let mut stretches = Stretches::new(&disks)?;
        let walked = walk(&segments, &firsts, &first, &mut stretches)?;
        if walked.end < first.redo_start {
            return Err(LogError::damaged(&*disks[0], 0, "the log ends before recovery begins"));
        }
        let retained = retained(&firsts, &walked.used, first.retain);
        let oldest = retained.iter().chain(walked.used.first()).map(|(_, contents)| contents.first).min();
        if oldest.is_some_and(|oldest| oldest > first.keep) {
            return Err(LogError::damaged(&*disks[0], 0, "a segment with records of an open transaction is not there"));
        }
        let last_sequence = walked.used.iter().map(|(_, contents)| contents.sequence).max().unwrap_or(0);
        // Clears segments that are not part of the log and could later be taken for its continuation.
        for (segment, header) in &firsts {
            let is_used = walked.used.iter().any(|(used, _)| used == segment);
            if !is_used && header.segment > last_sequence {
                let zeros = AlignedBuffer::new(BLOCK_UNIT)?;
                segments.disk(*segment).write_durable_at(&zeros, segments.all[*segment].offset)?;
            }
        }
        segments.take_over(&walked.used);
        segments.take_over(&retained);
        segments.files[0].header.life += 1;
        let mut header = segments.files[0].header.clone();
        header.write(&*disks[0])?;
        segments.files[0].header = header;
        let filling = |(segment, used): (usize, u64)| {
            let one = &segments.all[segment];
            let (disk, sequence) = (Arc::clone(segments.disk(segment)), last_sequence);
            Filling { disk, sequence, offset: one.offset, bytes: one.bytes, used }
        };
        let writer = Writer {
            log: first.log,
            life: first.life + 1,
            segment: walked.last.map(filling),
            number: walked.number,
            previous_checksum: walked.checksum,
            buffer: AlignedBuffer::new(BLOCK_BYTES_MAX)?,
        };
        let log = Log::start((segments, walked.marks), writer, first.redo_start, walked.end, ring_bytes);
        let recovered = Recovered {
            start: first.recovery_start(),
            end: walked.end,
            blocks: walked.blocks,
            files: disks,
            stretches: Mutex::new(stretches),
        };
        Ok((log, recovered))
    }
}

/// Opens the files, the first one first. A file whose addition was interrupted joins. One whose removal was interrupted
/// is removed if it is no longer given, and otherwise stays.
fn open_files(files: &[Arc<dyn DiskFile>]) -> Result<Vec<OpenFile>, LogError> {
    let mut open: Vec<OpenFile> = Vec::new();
    for disk in files {
        // What is read from now on must not be lost later; otherwise pages could be ahead of the log.
        disk.sync()?;
        let header = FileHeader::read(&**disk)?;
        let is_first = open.is_empty();
        let is_another = open.first().is_some_and(|first| first.header.log != header.log);
        let is_twice = open.iter().any(|known| known.header.id == header.id || known.header.place == header.place);
        if is_another || is_twice || is_first != (header.place == 0) {
            return Err(LogError::damaged(&**disk, 0, "it is a file of another log, or not the one that is expected"));
        }
        if disk.size()? < header.file_bytes() {
            return Err(LogError::damaged(&**disk, header.file_bytes(), "the file is cut short"));
        }
        open.push(OpenFile { disk: Arc::clone(disk), header });
    }
    let given = u32::try_from(open.len()).unwrap_or(u32::MAX);
    let (first, others) = open.split_first_mut().expect("a log has a file");
    let removing = first.header.removing;
    let is_removed = removing != 0 && others.iter().all(|file| file.header.id != removing);
    let expected = first.header.files.saturating_sub(u32::from(is_removed));
    if given < expected {
        return Err(LogError::damaged(&*first.disk, 0, "not all files of the log are given"));
    }
    if removing != 0 || given != first.header.files {
        (first.header.files, first.header.removing) = (given, 0);
        first.header.write_both(&*first.disk)?;
    }
    Ok(open)
}

/// The segments before those that recovery reads, as far as an undo or a backup may still need them.
fn retained(firsts: &[(usize, BlockHeader)], used: &[(usize, Contents)], retain: Lsn) -> Vec<(usize, Contents)> {
    let mut retained = Vec::new();
    let mut next = used.first().map(|(_, contents)| *contents);
    while let Some(behind) = next.filter(|behind| behind.first > retain) {
        let before = firsts.iter().filter(|(_, header)| header.segment.checked_add(1) == Some(behind.sequence));
        let before = before.filter(|(_, header)| header.first < behind.first).max_by_key(|(_, header)| header.life);
        next = before.map(|(segment, header)| {
            let contents = contents_of(header);
            retained.push((*segment, contents));
            contents
        });
    }
    retained
}

fn contents_of(first: &BlockHeader) -> Contents {
    Contents { sequence: first.segment, first: first.first }
}

/// The header of the first block of each segment, if it says that it is of this log. Whether the block is sound is not
/// checked: a log of many segments would be read for long.
fn first_blocks(segments: &Segments, log: u64) -> Result<Vec<(usize, BlockHeader)>, LogError> {
    let mut unit = AlignedBuffer::new(BLOCK_UNIT)?;
    let mut firsts = Vec::new();
    for (index, segment) in segments.all.iter().enumerate() {
        segments.disk(index).read_at(&mut unit, segment.offset)?;
        firsts.extend(BlockHeader::read(&unit).filter(|header| header.log == log).map(|header| (index, header)));
    }
    Ok(firsts)
}

/// The first of these whose block is sound.
fn first_sound(
    segments: &Segments,
    mut firsts: Vec<(usize, BlockHeader)>,
) -> Result<Option<(usize, BlockHeader)>, LogError> {
    firsts.sort_unstable_by_key(|(_, header)| std::cmp::Reverse((header.segment, header.life)));
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES_MAX)?;
    for (index, header) in firsts {
        let one = &segments.all[index];
        if read_block(&**segments.disk(index), one.offset, one.bytes, &mut buffer)?.is_some() {
            return Ok(Some((index, header)));
        }
    }
    Ok(None)
}

struct Walked {
    blocks: Vec<BlockPlace>,
    marks: Marks,
    used: Vec<(usize, Contents)>,
    end: Lsn,
    /// The segment in which the log ends, and how many bytes of it are used; `None` before the first block.
    last: Option<(usize, u64)>,
    /// The number of the next block.
    number: u64,
    /// The checksum of the last block.
    checksum: u32,
}

/// Follows the blocks from the one that holds `read_from` to the last one.
fn walk(
    segments: &Segments,
    firsts: &[(usize, BlockHeader)],
    header: &FileHeader,
    stretches: &mut Stretches,
) -> Result<Walked, LogError> {
    let &FileHeader { log, read_from, read_from_offset, start, .. } = header;
    let before = firsts.iter().filter(|(_, header)| header.first <= read_from).copied().collect();
    let Some((mut segment, mut first)) = first_sound(segments, before)? else {
        if read_from != start || first_sound(segments, firsts.to_vec())?.is_some() {
            return Err(LogError::damaged(&**segments.disk(0), 0, "the segment that recovery begins in is not there"));
        }
        refuse_later_blocks(segments, 0, 0, &|header| header.log == log)?;
        let (blocks, marks, used) = Default::default();
        return Ok(Walked { blocks, marks, used, end: start, last: None, number: 1, checksum: 0 });
    };
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES_MAX)?;
    // What comes before in this segment need not be read. A place that is not right is none.
    let (disk, one) = (segments.disk(segment), &segments.all[segment]);
    let at = Some(read_from_offset).filter(|at| *at < one.bytes);
    let found = at.map(|at| read_block(&**disk, one.offset + at, one.bytes - at, &mut buffer)).transpose()?.flatten();
    let is_before = |header: &BlockHeader| {
        header.log == log && header.segment == first.segment && (first.first..=read_from).contains(&header.first)
    };
    let found = found.map(|(header, _)| header).filter(is_before);
    let (begin, mut used) = found.map_or((first, 0), |header| (header, read_from_offset));
    let mut walked = Walked {
        blocks: Vec::new(),
        marks: Marks::default(),
        used: vec![(segment, contents_of(&first))],
        end: begin.first,
        last: None,
        number: begin.number,
        checksum: begin.previous_checksum,
    };
    let mut life = begin.life;
    loop {
        let one = &segments.all[segment];
        let offset = one.offset + used;
        let read = next_block(stretches, (one.file, offset), one.bytes - used)?;
        read_ahead(segments, firsts, (segment, first.segment, used), stretches)?;
        let follows = |header: &BlockHeader| {
            header.log == log
                && header.number == walked.number
                && header.first == walked.end
                && header.previous_checksum == walked.checksum
        };
        // A life may continue in the segment in which the one before it ended.
        let here = read.filter(|(header, _)| follows(header) && header.segment == first.segment && header.life >= life);
        if let Some((header, checksum)) = here {
            walked.marks.note(first.segment, header.first, used);
            walked.blocks.push(BlockPlace { first: header.first, end: header.end(), file: one.file, offset });
            walked.end = header.end();
            walked.number += 1;
            walked.checksum = checksum;
            used += header.block_bytes() as u64;
            life = header.life;
            continue;
        }
        let next = firsts.iter().filter(|(_, header)| header.segment > first.segment && follows(header));
        match first_sound(segments, next.copied().collect())? {
            Some((next_segment, next_first)) => {
                (segment, first, used, life) = (next_segment, next_first, 0, next_first.life);
                walked.used.push((segment, contents_of(&first)));
            }
            None => break,
        }
    }
    refuse_a_gap(segments, firsts, (segment, &first, used), &walked)?;
    walked.last = Some((segment, used));
    Ok(walked)
}

/// Refuses a log with sound blocks after its end. A flush begins when the one before has ended, so there are none of
/// this log and life. If there are, the blocks in between were acknowledged and are damaged.
fn refuse_a_gap(
    segments: &Segments,
    firsts: &[(usize, BlockHeader)],
    (segment, first, used): (usize, &BlockHeader, u64),
    walked: &Walked,
) -> Result<(), LogError> {
    let is_later = |header: &BlockHeader| header.log == first.log && header.number > walked.number;
    // Whatever says in any way that it is not older is looked at. It is one word that is damaged, if it is damaged.
    let is_older = |header: &BlockHeader| {
        header.segment <= first.segment && header.number < walked.number && header.first < walked.end
    };
    let newer: Vec<_> = firsts.iter().filter(|(_, header)| !is_older(header)).copied().collect();
    let mut sound = Vec::new();
    for one in newer {
        sound.extend(first_sound(segments, vec![one])?);
    }
    if sound.iter().any(|(_, header)| header.segment > first.segment && is_later(header)) {
        return Err(gap(segments, segment, used));
    }
    refuse_later_blocks(segments, segment, used, &|header| header.segment == first.segment && is_later(header))?;
    // A segment that begins with neither a sound block nor zeros may be the next one, with its first block damaged.
    let mut unit = AlignedBuffer::new(BLOCK_UNIT)?;
    for (index, one) in segments.all.iter().enumerate() {
        let is_known = firsts.iter().any(|(known, header)| *known == index && is_older(header));
        if is_known || sound.iter().any(|(known, _)| *known == index) {
            continue;
        }
        segments.disk(index).read_at(&mut unit, one.offset)?;
        if unit.iter().any(|byte| *byte != 0) {
            let is_next = |header: &BlockHeader| header.segment > first.segment && is_later(header);
            refuse_later_blocks(segments, index, 0, &is_next)?;
        }
    }
    Ok(())
}

fn gap(segments: &Segments, segment: usize, used: u64) -> LogError {
    let what = "a block is damaged, and there are sound ones behind it";
    LogError::damaged(&**segments.disk(segment), segments.all[segment].offset + used, what)
}

/// Searches the rest of a segment for sound blocks that are `later`.
fn refuse_later_blocks(
    segments: &Segments,
    segment: usize,
    used: u64,
    later: &dyn Fn(&BlockHeader) -> bool,
) -> Result<(), LogError> {
    let (disk, one) = (segments.disk(segment), &segments.all[segment]);
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES_MAX)?;
    let mut chunk = AlignedBuffer::new(BLOCK_BYTES_MAX)?;
    let mut at = used;
    while at < one.bytes {
        let bytes = usize::try_from(one.bytes - at).unwrap_or(usize::MAX).min(BLOCK_BYTES_MAX);
        chunk.set_len(bytes);
        disk.read_at(&mut chunk, one.offset + at)?;
        for (place, unit) in (at..).step_by(BLOCK_UNIT).zip(chunk.chunks_exact(BLOCK_UNIT)) {
            if BlockHeader::read(unit).is_some_and(|header| later(&header))
                && read_block(&**disk, one.offset + place, one.bytes - place, &mut buffer)?.is_some()
            {
                return Err(gap(segments, segment, used));
            }
        }
        at += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_segment_says_of_itself_may_be_anything() {
        let header = |segment, first| BlockHeader {
            log: 1,
            life: 1,
            segment,
            number: 1,
            first: Lsn(first),
            record_bytes: 0,
            previous_checksum: 0,
        };
        let firsts = [(0, header(u64::MAX, 10)), (1, header(6, 500)), (2, header(5, u64::MAX))];
        let used = [(3, Contents { sequence: 7, first: Lsn(900) })];
        let retained: Vec<usize> = retained(&firsts, &used, Lsn(1)).into_iter().map(|(segment, _)| segment).collect();
        assert_eq!(retained, [1]);
    }
}
