//! A trace: the operations requested of a disk, in order, in one file.
//!
//! ```text
//!   "hobttrc1"  then events:  kind u8 | a u64 | b u64 | c u64 | length u32 | bytes
//! ```
//!
//! An operation that takes time has two events: one before it begins, and [`Kind::Done`] after it, which refers to the
//! first by its number. If it failed, or was in progress when the trace ended, the second is missing. Changes of names
//! and sizes have one event, written after the change and before the caller learns of it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

const MAGIC: &[u8; 8] = b"hobttrc1";
const HEAD_BYTES: usize = 1 + 3 * 8 + 4;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The folder that the trace records.
    Root = 1,
    /// A folder that exists.
    Directory,
    /// A file that existed durably at the start: `a` its number, `b` its bytes.
    File,
    /// Its contents: `a` the file, `b` the offset.
    Content,
    /// A file that was created: `a` its number.
    Created,
    /// A name that was removed.
    Removed,
    /// A file's new size: `a` the file, `b` its bytes.
    Resized,
    /// A write that begins: `a` the file, `b` the offset, `c` 1 if it is durable when it ends.
    Write,
    /// A sync of file `a` that begins.
    Sync,
    /// A sync of a folder that begins.
    SyncDirectory,
    /// The operation of event `a` has ended and succeeded.
    Done,
    /// A note of the program that uses the disk.
    Mark,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        use Kind::*;
        let kinds = [Root, Directory, File, Content, Created, Removed, Resized, Write, Sync, SyncDirectory, Done, Mark];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
    /// The range of its bytes in the trace.
    pub(super) bytes: Range<usize>,
}

/// Writes events. Shared by all files of a disk, so that there is one order of events.
#[derive(Debug)]
pub(super) struct TraceWriter {
    state: Mutex<WriterState>,
}

#[derive(Debug)]
struct WriterState {
    file: BufWriter<File>,
    events: u64,
    /// The first error. Nothing is written after it.
    failed: Option<io::Error>,
}

impl TraceWriter {
    pub(super) fn create(path: &Path) -> io::Result<TraceWriter> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(MAGIC)?;
        Ok(TraceWriter { state: Mutex::new(WriterState { file, events: 0, failed: None }) })
    }

    /// Appends an event, whose bytes come in pieces. Returns its number.
    pub(super) fn append(&self, kind: Kind, [a, b, c]: [u64; 3], pieces: &[&[u8]]) -> u64 {
        let mut state = self.state.lock();
        let number = state.events;
        state.events += 1;
        if state.failed.is_none() {
            let length: usize = pieces.iter().map(|piece| piece.len()).sum();
            let mut head = [0; HEAD_BYTES];
            head[0] = kind as u8;
            for (place, value) in [a, b, c].into_iter().enumerate() {
                head[1 + place * 8..9 + place * 8].copy_from_slice(&value.to_le_bytes());
            }
            let written = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
            let written = written.and_then(|length| {
                head[25..].copy_from_slice(&length.to_le_bytes());
                state.file.write_all(&head)?;
                pieces.iter().try_for_each(|piece| state.file.write_all(piece))
            });
            state.failed = written.err();
        }
        number
    }

    /// Writes everything to the system.
    pub(super) fn finish(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => state.file.flush(),
        }
    }
}

/// A trace that was read.
#[derive(Debug)]
pub struct Trace {
    pub(super) bytes: Vec<u8>,
    pub(super) events: Vec<Event>,
}

impl Trace {
    /// Reads a trace up to its end, or up to where the process that wrote it was killed.
    ///
    /// # Errors
    /// The file cannot be read, or is not a trace.
    pub fn read(path: &Path) -> io::Result<Trace> {
        let bytes = std::fs::read(path)?;
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
        if !bytes.starts_with(MAGIC) {
            return Err(invalid("no trace of a disk".to_owned()));
        }
        let mut events = Vec::new();
        let mut at = MAGIC.len();
        while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
            let number = |place: usize| {
                u64::from_le_bytes(
                    head[1 + place * 8..9 + place * 8].try_into().expect("eight bytes of a slice of eight"),
                )
            };
            let length = u32::from_le_bytes(head[25..].try_into().expect("the last four bytes"));
            let start = at + HEAD_BYTES;
            let Some(end) = start.checked_add(length as usize).filter(|end| *end <= bytes.len()) else { break };
            let Some(kind) = Kind::from_byte(head[0]) else {
                return Err(invalid(format!("event {} is of kind {}", events.len(), head[0])));
            };
            events.push(Event { kind, a: number(0), b: number(1), c: number(2), bytes: start..end });
            at = end;
        }
        Ok(Trace { bytes, events })
    }

    /// The number of events. A cut lies before one of them, or after the last.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The marks before an event, in order.
    pub fn marks(&self, before: usize) -> impl Iterator<Item = &[u8]> {
        self.events[..before]
            .iter()
            .filter(|event| event.kind == Kind::Mark)
            .map(|event| &self.bytes[event.bytes.clone()])
    }

    /// The first event that does not describe the initial folder.
    pub fn first_change(&self) -> usize {
        let found = [Kind::Root, Kind::Directory, Kind::File, Kind::Content];
        self.events.iter().position(|event| !found.contains(&event.kind)).unwrap_or(self.events.len())
    }

    /// The positions directly after something has become durable, in order. There, what is not yet durable matters
    /// most.
    pub fn durable_places(&self) -> Vec<usize> {
        let makes_durable = |event: &Event| match event.kind {
            Kind::Sync | Kind::SyncDirectory => true,
            Kind::Write => event.c == 1,
            _ => false,
        };
        let done = self.events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Done);
        let of_durable = done.filter(|(_, event)| self.begun(event).is_some_and(makes_durable));
        of_durable.map(|(place, _)| place + 1).collect()
    }

    /// The positions directly after durable writes to places that were written durably before in the trace, in order.
    /// These are writes of headers, which describe all the rest.
    pub fn rewritten_places(&self) -> Vec<usize> {
        let mut written = HashSet::new();
        let ended = self.events.iter().enumerate().filter(|(_, event)| event.kind == Kind::Done);
        let mut is_again = |done: &Event| {
            let durable = self.begun(done).filter(|event| event.kind == Kind::Write && event.c == 1);
            durable.is_some_and(|write| !written.insert((write.a, write.b)))
        };
        ended.filter_map(|(place, done)| is_again(done).then_some(place + 1)).collect()
    }

    /// The positions directly after syncs of files, in order.
    pub fn synced_places(&self) -> Vec<usize> {
        let is_sync =
            |event: &Event| event.kind == Kind::Done && self.begun(event).is_some_and(|begun| begun.kind == Kind::Sync);
        let events = self.events.iter().enumerate();
        events.filter(|(_, event)| is_sync(event)).map(|(place, _)| place + 1).collect()
    }

    /// The positions directly after marks that begin with these bytes, in order.
    pub fn marked_places(&self, start: &[u8]) -> Vec<usize> {
        let is_one = |event: &Event| event.kind == Kind::Mark && self.bytes[event.bytes.clone()].starts_with(start);
        let events = self.events.iter().enumerate();
        events.filter(|(_, event)| is_one(event)).map(|(place, _)| place + 1).collect()
    }

    /// The event that a `Done` refers to.
    pub(super) fn begun(&self, done: &Event) -> Option<&Event> {
        self.events.get(usize::try_from(done.a).ok()?)
    }

    pub(super) fn path(&self, event: &Event) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        PathBuf::from(std::ffi::OsStr::from_bytes(&self.bytes[event.bytes.clone()]))
    }
}
