//! The folder that a loss of power in the middle of a trace leaves.
//!
//! The model is that of the simulated disk ([`Survival`]), for writes that several threads have in flight. A sync makes
//! durable what had ended before it was begun, and a durable write only its own bytes. Each sector that was written
//! since then is found in any of its states. A size or a name is the old one or the new one. A folder that was created
//! exists.

use super::sector_of;
use super::trace::{Event, Kind, Trace};
use crate::buffer::SECTOR_SIZE;
use crate::simulated::content::{Content, Survival};
use hobt_base::SplitMix64;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECTOR: u64 = SECTOR_SIZE as u64;
const BLOCK: usize = 256 << 10;
const ZEROS: [u8; SECTOR_SIZE] = [0; SECTOR_SIZE];

/// The bytes of a sector's state.
#[derive(Clone, Debug)]
enum Source {
    /// Bytes beyond the end of a file that was shrunk.
    Zeros,
    /// An offset in the trace.
    Trace(usize),
    /// A write that does not begin or end at a sector boundary, joined with the bytes around it.
    Joined(Arc<[u8; SECTOR_SIZE]>),
}

/// A state that a sector has had since it was last durable.
#[derive(Clone, Debug)]
struct SectorState {
    /// The event that made it.
    event: usize,
    source: Source,
}

/// A file, independent of its names.
#[derive(Debug)]
struct ReplayedFile {
    durable: Content,
    /// By sector, oldest first.
    since: BTreeMap<u64, Vec<SectorState>>,
    size: u64,
    /// The event that made the durable size.
    durable_size_since: usize,
}

/// An operation that takes time.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// The size of its file when it began.
    size: u64,
    ended: Option<usize>,
}

/// The files that a name has stood for since its folder was last synced.
#[derive(Debug, Default)]
struct Name {
    durable: Option<u64>,
    since: Vec<(usize, Option<u64>)>,
}

/// A trace that is replayed up to an event.
#[derive(Debug)]
pub struct Replay<'t> {
    trace: &'t Trace,
    next: usize,
    root: PathBuf,
    files: HashMap<u64, ReplayedFile>,
    begun: HashMap<usize, Begun>,
    names: BTreeMap<PathBuf, Name>,
    directories: BTreeSet<PathBuf>,
}

impl<'t> Replay<'t> {
    /// A replay at the start of the trace.
    pub fn new(trace: &'t Trace) -> Replay<'t> {
        Replay {
            trace,
            next: 0,
            root: PathBuf::new(),
            files: HashMap::new(),
            begun: HashMap::new(),
            names: BTreeMap::new(),
            directories: BTreeSet::new(),
        }
    }

    /// Replays up to before event `place`. Does nothing if the replay is already beyond it.
    pub fn run_to(&mut self, place: usize) {
        let trace = self.trace;
        while self.next < place.min(trace.len()) {
            self.step(&trace.events[self.next]);
            self.next += 1;
        }
    }

    fn step(&mut self, event: &Event) {
        match event.kind {
            Kind::Root => self.root = self.trace.path(event),
            Kind::Directory => {
                self.directories.insert(self.trace.path(event));
            }
            Kind::File => {
                self.files.insert(event.a, ReplayedFile::new(event.b));
                self.names.insert(self.trace.path(event), Name { durable: Some(event.a), since: Vec::new() });
            }
            Kind::Content => {
                if let Some(file) = self.files.get_mut(&event.a) {
                    file.durable.put(event.b, &self.trace.bytes[event.bytes.clone()]);
                }
            }
            Kind::Created => {
                self.files.insert(event.a, ReplayedFile::new(0));
                self.names.entry(self.trace.path(event)).or_default().since.push((self.next, Some(event.a)));
            }
            Kind::Removed => self.names.entry(self.trace.path(event)).or_default().since.push((self.next, None)),
            Kind::Resized => {
                if let Some(file) = self.files.get_mut(&event.a) {
                    file.resize(self.next, event.b);
                }
            }
            Kind::Write | Kind::Sync | Kind::SyncDirectory => self.begin(event),
            Kind::Done => self.end(event),
            Kind::Mark => {}
        }
    }

    fn begin(&mut self, event: &Event) {
        let mut size = 0;
        if let Some(file) = self.files.get_mut(&event.a) {
            if event.kind == Kind::Write {
                file.write(self.trace, self.next, event);
            }
            size = file.size;
        }
        self.begun.insert(self.next, Begun { size, ended: None });
    }

    fn end(&mut self, done: &Event) {
        let Ok(number) = usize::try_from(done.a) else { return };
        let (Some(begun), Some(event)) = (self.begun.get_mut(&number), self.trace.begun(done)) else { return };
        begun.ended = Some(self.next);
        let begun = *begun;
        match (event.kind, self.files.get_mut(&event.a)) {
            (Kind::Write, Some(file)) if event.c == 1 => {
                let sectors = sector_of(event.b)..sector_of(event.b + event.bytes.len() as u64 + SECTOR - 1);
                file.make_durable(self.trace, sectors, |state| state.event <= number);
                file.make_size_durable(number, begun.size);
            }
            (Kind::Sync, Some(file)) => {
                let had_ended = |state: &SectorState| {
                    // A shrink is complete when it is recorded.
                    let Some(write) = self.begun.get(&state.event) else { return state.event < number };
                    write.ended.is_some_and(|ended| ended < number)
                };
                file.make_durable(self.trace, 0..u64::MAX, had_ended);
                file.make_size_durable(number, begun.size);
            }
            (Kind::SyncDirectory, _) => {
                let folder = self.trace.path(event);
                let inside = self.names.iter_mut().filter(|(path, _)| path.parent() == Some(&folder));
                inside.for_each(|(_, name)| name.make_durable(number));
            }
            _ => {}
        }
    }

    /// Creates the folder `target` and writes into it what a loss of power at this event leaves. `random` makes the
    /// choices.
    /// # Errors
    /// The folder exists already, or cannot be written.
    pub fn crash(&self, random: &mut SplitMix64, target: &Path) -> io::Result<()> {
        fs::create_dir(target)?;
        let place = |path: &Path| path.strip_prefix(&self.root).ok().map(|inside| target.join(inside));
        for path in self.directories.iter().filter_map(|path| place(path)) {
            fs::create_dir_all(path)?;
        }
        // Either all files share one outcome, as after the end of only the process, or each is treated as its own
        // device.
        let common = (random.below(3) == 0).then(|| Survival::choose(random, 0, self.next as u64));
        for (path, name) in &self.names {
            let keeps_name = match common {
                Some(Survival::Nothing) => false,
                Some(Survival::Everything) => true,
                _ => random.below(2) == 0,
            };
            let newest = name.since.last().map_or(name.durable, |(_, newest)| *newest);
            let number = if keeps_name { newest } else { name.durable };
            let (Some(file), Some(path)) = (number.and_then(|number| self.files.get(&number)), place(path)) else {
                continue;
            };
            let survival = common.unwrap_or_else(|| file.choose_survival(random));
            self.write_file(file, survival, random, &path)?;
        }
        Ok(())
    }

    fn write_file(
        &self,
        file: &ReplayedFile,
        survival: Survival,
        random: &mut SplitMix64,
        path: &Path,
    ) -> io::Result<()> {
        let keeps_size = match survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            _ => random.below(2) == 0,
        };
        let size = if keeps_size { file.size } else { file.durable.size() };
        let output = File::create(path)?;
        output.set_len(size)?;
        let (mut block, zeros) = (vec![0; BLOCK], vec![0; BLOCK]);
        for offset in (0..size).step_by(BLOCK) {
            block.fill(0);
            file.durable.read(offset, &mut block);
            for (sector, states) in file.since.range(sector_of(offset)..sector_of(offset + BLOCK as u64)) {
                if let Some(state) = self.survivor(states, survival, random) {
                    let within = usize::try_from(sector * SECTOR - offset).expect("less than a block");
                    block[within..within + SECTOR_SIZE].copy_from_slice(state.source.bytes(self.trace));
                }
            }
            let length = usize::try_from(size - offset).unwrap_or(BLOCK).min(BLOCK);
            if block[..length] != zeros[..length] {
                output.write_all_at(&block[..length], offset)?;
            }
        }
        Ok(())
    }

    /// The state in which a sector is found; `None` for the durable one.
    fn survivor<'s>(
        &self,
        states: &'s [SectorState],
        survival: Survival,
        random: &mut SplitMix64,
    ) -> Option<&'s SectorState> {
        let newest = states.last()?.event;
        let had_ended = |state: &SectorState| self.begun.get(&state.event).is_none_or(|write| write.ended.is_some());
        let mut from_newest = states.iter().rev();
        from_newest.find(|state| {
            let is_kept = survival.keeps(random, state.event as u64, state.event == newest);
            is_kept && (had_ended(state) || random.below(2) == 0)
        })
    }
}

impl Source {
    fn bytes<'s>(&'s self, trace: &'s Trace) -> &'s [u8] {
        match self {
            Source::Zeros => &ZEROS,
            Source::Trace(at) => &trace.bytes[*at..*at + SECTOR_SIZE],
            Source::Joined(bytes) => &bytes[..],
        }
    }
}

impl Name {
    /// Makes the file that the name stood for before an event durable.
    fn make_durable(&mut self, before: usize) {
        if let Some(last) = self.since.iter().rposition(|(event, _)| *event < before) {
            self.durable = self.since[last].1;
            self.since.drain(..=last);
        }
    }
}

impl ReplayedFile {
    fn new(size: u64) -> ReplayedFile {
        let mut durable = Content::new(false);
        durable.set_size(size);
        ReplayedFile { durable, since: BTreeMap::new(), size, durable_size_since: 0 }
    }

    fn resize(&mut self, event: usize, size: u64) {
        for sector in sector_of(size + SECTOR - 1)..sector_of(self.size + SECTOR - 1) {
            self.since.entry(sector).or_default().push(SectorState { event, source: Source::Zeros });
        }
        self.size = size;
    }

    fn write(&mut self, trace: &Trace, event: usize, write: &Event) {
        let (from, to) = (write.b, write.b + write.bytes.len() as u64);
        for sector in sector_of(from)..sector_of(to + SECTOR - 1) {
            let (first, end) = (sector * SECTOR, (sector + 1) * SECTOR);
            let in_trace = |position: u64| write.bytes.start + usize::try_from(position - from).expect("of the write");
            let source = if first >= from && end <= to {
                Source::Trace(in_trace(first))
            } else {
                let mut bytes = self.newest(trace, sector);
                let (start, stop) = (first.max(from), end.min(to));
                let part = &trace.bytes[in_trace(start)..in_trace(stop)];
                let within = usize::try_from(start - first).expect("less than a sector");
                bytes[within..within + part.len()].copy_from_slice(part);
                Source::Joined(Arc::new(bytes))
            };
            self.since.entry(sector).or_default().push(SectorState { event, source });
        }
        self.size = self.size.max(to);
    }

    fn newest(&self, trace: &Trace, sector: u64) -> [u8; SECTOR_SIZE] {
        let mut bytes = ZEROS;
        match self.since.get(&sector).and_then(|states| states.last()) {
            Some(state) => bytes.copy_from_slice(state.source.bytes(trace)),
            None => {
                self.durable.read(sector * SECTOR, &mut bytes);
            }
        }
        bytes
    }

    /// For each of the sectors, makes its newest state for which `is_durable` holds durable, and drops the durable
    /// states before it. States of writes that are still in flight stay, because they may still reach the disk.
    fn make_durable(
        &mut self,
        trace: &Trace,
        sectors: std::ops::Range<u64>,
        is_durable: impl Fn(&SectorState) -> bool,
    ) {
        let mut emptied = Vec::new();
        for (sector, states) in self.since.range_mut(sectors) {
            let Some(last) = states.iter().rposition(&is_durable) else { continue };
            self.durable.put(sector * SECTOR, states[last].source.bytes(trace));
            let mut place = 0;
            states.retain(|state| {
                let stays = place > last || !is_durable(state);
                place += 1;
                stays
            });
            if states.is_empty() {
                emptied.push(*sector);
            }
        }
        for sector in emptied {
            self.since.remove(&sector);
        }
    }

    /// Makes the size that the file had at an event durable. Called when the bytes of that moment are durable, so that
    /// what a shrink has cut off is zero.
    fn make_size_durable(&mut self, event: usize, size: u64) {
        if event >= self.durable_size_since {
            self.durable_size_since = event;
            self.durable.set_size(size);
        }
    }

    fn choose_survival(&self, random: &mut SplitMix64) -> Survival {
        let events = || self.since.values().flatten().map(|state| state.event as u64);
        let (first, last) = (events().min().unwrap_or(0), events().max().unwrap_or(0));
        Survival::choose(random, first, last)
    }
}
