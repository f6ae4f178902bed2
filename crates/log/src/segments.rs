//! The segments of a log's files: which are free, what the others hold, and how files grow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hobt_base::Lsn;
use hobt_disk::{AlignedBuffer, CompletionQueue, Direction, DiskError, DiskFile, IoBuffer, Request};

use crate::chain_state::ChainState;
use crate::file_header::{FileHeader, SEGMENTS_START};
use crate::marks::Marks;
use crate::reader::SegmentPlace;
use crate::{LogError, LogFile};

/// The fewest segments of a log file: with fewer, little would be free while one is being filled.
const SEGMENTS_MIN: u64 = 4;
/// Bytes of zeros written at once: memory of this length is backed by huge pages, so a transfer has few segments.
const ZEROS_AT_ONCE: usize = 2 << 20;
/// Writes of zeros that are under way at once.
const ZEROS_UNDER_WAY: u64 = 8;

/// A log file with its header as it was last written.
pub(crate) struct OpenFile {
    pub(crate) disk: Arc<dyn DiskFile>,
    pub(crate) header: FileHeader,
}

/// The contents of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    /// The segment's number in the order of segments.
    pub(crate) sequence: u64,
    /// The position of its first record.
    pub(crate) first: Lsn,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// `None` if the segment is free.
    pub(crate) contents: Option<Contents>,
}

/// All segments.
pub(crate) struct Segments {
    pub(crate) files: Vec<OpenFile>,
    /// In the order of files and offsets.
    pub(crate) all: Vec<Segment>,
    /// Free segments, in the order in which they will be used.
    free: VecDeque<usize>,
    /// Free segments that must not be used, because their file is being removed.
    aside: VecDeque<usize>,
    /// The number of the segment that was begun last.
    pub(crate) last_sequence: u64,
}

impl Segments {
    /// Drops the files.
    pub(crate) fn close(&mut self) {
        self.files.clear();
        self.all.clear();
        self.free.clear();
        self.aside.clear();
    }

    /// The segments of files whose headers were read or just made; all are free.
    pub(crate) fn new(files: Vec<OpenFile>) -> Segments {
        let mut all = Vec::new();
        for (file, open) in files.iter().enumerate() {
            let mut offset = SEGMENTS_START;
            for division in &open.header.divisions {
                for _ in 0..division.segments {
                    all.push(Segment { file, offset, bytes: division.segment_bytes, contents: None });
                    offset += division.segment_bytes;
                }
            }
        }
        let free = (0..all.len()).collect();
        Segments { files, all, free, aside: VecDeque::new(), last_sequence: 0 }
    }

    pub(crate) fn disk(&self, segment: usize) -> &Arc<dyn DiskFile> {
        &self.files[self.all[segment].file].disk
    }

    /// Adds a file, all of whose segments are free.
    pub(crate) fn add_file(&mut self, open: OpenFile) {
        let file = self.files.len();
        let mut offset = SEGMENTS_START;
        for division in &open.header.divisions {
            for _ in 0..division.segments {
                self.free.push_back(self.all.len());
                self.all.push(Segment { file, offset, bytes: division.segment_bytes, contents: None });
                offset += division.segment_bytes;
            }
        }
        self.files.push(open);
    }

    /// Whether a file holds records that are needed.
    pub(crate) fn is_used(&self, file: usize) -> bool {
        self.all.iter().any(|segment| segment.file == file && segment.contents.is_some())
    }

    fn is_being_removed(&self, open: &OpenFile) -> bool {
        open.header.id == self.files[0].header.removing
    }

    /// Withdraws the segments of a file without records from use.
    pub(crate) fn set_aside(&mut self, file: usize) {
        let all = &self.all;
        let free = std::mem::take(&mut self.free).into_iter();
        (self.aside, self.free) = free.partition(|segment| all[*segment].file == file);
    }

    /// Undoes [`Segments::set_aside`].
    pub(crate) fn put_back(&mut self) {
        self.free.extend(self.aside.drain(..));
    }

    /// Removes a file that was set aside.
    pub(crate) fn remove_file(&mut self, file: usize) {
        let free: Vec<Segment> =
            self.free.iter().map(|&segment| self.all[segment]).filter(|segment| segment.file != file).collect();
        self.aside.clear();
        self.files.remove(file);
        let renumbered = |mut segment: Segment| {
            segment.file -= usize::from(segment.file > file);
            segment
        };
        self.all.retain(|segment| segment.file != file);
        self.all.iter_mut().for_each(|segment| *segment = renumbered(*segment));
        let place = |segment: Segment| self.all.iter().position(|known| *known == renumbered(segment));
        self.free = free.into_iter().filter_map(place).collect();
    }

    /// Sets the contents of segments. The segments given are then not free.
    pub(crate) fn take_over(&mut self, contents: &[(usize, Contents)]) {
        for &(segment, contents) in contents {
            self.all[segment].contents = Some(contents);
            self.last_sequence = self.last_sequence.max(contents.sequence);
        }
        self.free.retain(|&segment| self.all[segment].contents.is_none());
    }

    /// Bytes of free segments, and their number.
    pub(crate) fn free(&self) -> (u64, u64) {
        (self.free.iter().map(|&segment| self.all[segment].bytes).sum(), self.free.len() as u64)
    }

    /// Where the record at `lsn` is to be looked for, if a segment has it; the blocks of up to `slack` bytes before it
    /// may come first.
    pub(crate) fn place_of(&self, marks: &Marks, lsn: Lsn, slack: u64) -> Option<SegmentPlace> {
        let (sequence, segment) = self.segment_of(lsn)?;
        let from = marks.before(sequence, lsn, slack);
        let disk = Arc::clone(&self.files[segment.file].disk);
        Some(SegmentPlace { disk, sequence, offset: segment.offset, bytes: segment.bytes, from })
    }

    /// The first byte, in its segment, of a known block at or before the one that has the record at `lsn`.
    pub(crate) fn block_before(&self, marks: &Marks, lsn: Lsn) -> u64 {
        self.segment_of(lsn).map_or(0, |(sequence, _)| marks.before(sequence, lsn, 0))
    }

    /// The segment that has the record at `lsn`, with its number in the order of segments.
    fn segment_of(&self, lsn: Lsn) -> Option<(u64, &Segment)> {
        let used = self.all.iter().filter_map(|segment| segment.contents.map(|contents| (contents, segment)));
        let before = used.filter(|(contents, _)| contents.first <= lsn);
        before.max_by_key(|(contents, _)| contents.sequence).map(|(contents, segment)| (contents.sequence, segment))
    }

    /// Takes the next free segment for records from `first` on. Returns it with its number in the order of segments.
    pub(crate) fn begin(&mut self, first: Lsn) -> Option<(Segment, u64)> {
        let segment = self.free.pop_front()?;
        self.last_sequence += 1;
        self.all[segment].contents = Some(Contents { sequence: self.last_sequence, first });
        Some((self.all[segment], self.last_sequence))
    }

    /// Frees the segments whose records are all before `keep`, except the last segment.
    pub(crate) fn free_before(&mut self, keep: Lsn, marks: &mut Marks) {
        let mut used: Vec<(u64, usize, Lsn)> = self
            .all
            .iter()
            .enumerate()
            .filter_map(|(segment, one)| one.contents.map(|contents| (contents.sequence, segment, contents.first)))
            .collect();
        used.sort_unstable();
        for pair in used.windows(2) {
            let [(sequence, segment, _), (_, _, next_first)] = pair else { continue };
            if *next_first <= keep {
                marks.forget(*sequence);
                self.all[*segment].contents = None;
                self.free.push_back(*segment);
            }
        }
    }

    /// The possible growth of each file that may grow, in the order in which to try.
    pub(crate) fn growth(&self) -> Vec<Growth> {
        let growth = |(file, open): (usize, &OpenFile)| {
            if self.is_being_removed(open) {
                return None;
            }
            let start = open.header.file_bytes();
            let bytes = open.header.growth_bytes.min(open.header.bytes_max.saturating_sub(start));
            let segment_bytes = open.header.segment_bytes_for(bytes)?;
            let segments = bytes / segment_bytes;
            Some(Growth { file, disk: Arc::clone(&open.disk), start, segment_bytes, segments })
        };
        self.files.iter().enumerate().filter_map(growth).collect()
    }

    /// Adds the segments of a file that has grown: records them durably in its header, and marks them as free.
    pub(crate) fn take_growth(&mut self, growth: &Growth) -> Result<(), LogError> {
        let open = &mut self.files[growth.file];
        let mut header = open.header.clone();
        header.divide(growth.segment_bytes, growth.segments);
        // If only one copy of the header had the segments, a loss of that copy would lose them and their records.
        header.write_both(&*open.disk)?;
        open.header = header;
        for index in 0..growth.segments {
            let offset = growth.start + index * growth.segment_bytes;
            self.free.push_back(self.all.len());
            self.all.push(Segment { file: growth.file, offset, bytes: growth.segment_bytes, contents: None });
        }
        Ok(())
    }
}

/// The room by which a file is about to grow.
pub(crate) struct Growth {
    file: usize,
    disk: Arc<dyn DiskFile>,
    start: u64,
    segment_bytes: u64,
    segments: u64,
}

impl Growth {
    /// Calls [`Growth::make`], with fewer segments if the device has no room for all of them.
    pub(crate) fn make_what_fits(&mut self) -> Result<(), LogError> {
        loop {
            match self.make() {
                Err(LogError::Disk(DiskError::NoSpace { .. })) if self.segments > 1 => self.segments /= 2,
                made => return made,
            }
        }
    }

    /// Extends the file with zeros. Blocks meanwhile. The header does not include the new segments yet.
    pub(crate) fn make(&self) -> Result<(), LogError> {
        let bytes = self.segment_bytes * self.segments;
        self.disk.set_size(self.start + bytes)?;
        fill_with_zeros(&*self.disk, self.start, bytes, &AtomicBool::new(false))
    }
}

/// Creates a file of a new log: zeros, divided into segments. The zeros are written explicitly: otherwise the file
/// system would record at each flush that a part of the file is written for the first time. That ends early once it
/// `is_over`.
pub(crate) fn create_file(
    file: &LogFile,
    (log, life): (u64, u64),
    (place, files): (u32, u32),
    start: Lsn,
    is_over: &AtomicBool,
) -> Result<OpenFile, LogError> {
    let mut header = FileHeader {
        log,
        version: 0,
        place,
        id: file.id,
        files,
        removing: 0,
        life,
        redo_start: start,
        read_from: start,
        read_from_offset: 0,
        keep: start,
        retain: start,
        start,
        chain: ChainState::default(),
        growth_bytes: file.growth_bytes,
        bytes_max: file.bytes_max,
        name: file.name.clone(),
        divisions: Vec::new(),
    };
    let bytes = file.bytes.max(SEGMENTS_MIN * crate::SEGMENT_BYTES_MIN);
    let size = header.segment_bytes_for(bytes).expect("more than the smallest segment");
    header.divide(size, bytes / size);
    file.disk.set_size(header.file_bytes())?;
    fill_with_zeros(&*file.disk, 0, header.file_bytes(), is_over)?;
    header.write_both(&*file.disk)?;
    file.disk.sync()?;
    Ok(OpenFile { disk: Arc::clone(&file.disk), header })
}

/// Writes zeros, several transfers at once, and syncs. Blocks. Once it `is_over`, the rest stays as the file system has
/// allocated it: the file is given up.
fn fill_with_zeros(disk: &dyn DiskFile, start: u64, bytes: u64, is_over: &AtomicBool) -> Result<(), LogError> {
    let mut buffers = vec![AlignedBuffer::new(ZEROS_AT_ONCE)?];
    while (buffers.len() as u64) < bytes.div_ceil(ZEROS_AT_ONCE as u64).min(ZEROS_UNDER_WAY)
        && let Ok(another) = AlignedBuffer::new(ZEROS_AT_ONCE)
    {
        buffers.push(another);
    }
    let queue = CompletionQueue::new();
    let mut done = 0;
    let mut submit = |mut zeros: AlignedBuffer| {
        let step = usize::try_from(bytes - done).unwrap_or(usize::MAX).min(ZEROS_AT_ONCE);
        if step == 0 || is_over.load(Ordering::Relaxed) {
            return;
        }
        zeros.set_len(step);
        let (buffer, queue) = (IoBuffer::Owned(zeros), Arc::clone(&queue));
        disk.submit(Request { direction: Direction::Write, offset: start + done, buffer, tag: 0, queue });
        done += step as u64;
    };
    buffers.into_iter().for_each(&mut submit);
    let mut failed = None;
    while let Some(written) = queue.wait_pop() {
        match written.result {
            Ok(()) if failed.is_none() => written.buffer.into_owned().into_iter().for_each(&mut submit),
            Ok(()) => {}
            // Further writes would fail as well.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(disk.sync()?),
    }
}
