//! Which file of a filegroup gives the next run, and how long the run is.
//!
//! Files are weighted by their free space ([`Fill::FreeSpace`]), so that they fill together, or by the throughput of
//! their devices ([`Fill::Throughput`]), so that a scan ends on all of them together (`docs/design/0049-devices.md`).
//! With more files runs grow more slowly, and only a short run takes more than a small part of its file's free space.
//! So each file has its share of every table, and not only of all tables together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{EXTENT_PAGES, FileId, FilegroupId};
use hobt_disk::{DeviceRate, DeviceStatistics, Direction};

use super::{DataFile, Storage};

/// If several files have room, a run is at most this fraction (one in so many) of its file's free space. That bounds
/// how far a file's share can be from its due.
const RUNS_IN_FREE_SPACE: u32 = 16;
/// Any run may be this long all the same, or as long as a HOBT's first run: a scan reads so much at once, and a tree
/// whose leaves are in runs of one extent each counts as fragmented.
const RUN_EXTENTS_FREE: u32 = 8;
/// Bytes of large transfers after which the rate of a device counts as measured.
const MEASURED_BYTES: u64 = 16 << 20;
/// Under [`Fill::Throughput`] the longest run, if several files have room: 1 MiB, so that the reads which a scan keeps
/// in flight are for all devices.
const RUN_EXTENTS_THROUGHPUT: u32 = 16;

/// The most that the weight of one file is over that of another.
const RATES_APART_MAX: f64 = 64.0;
/// Extents that other files give, 64 MiB, before a full file whose disk had no room is tried again: each attempt asks
/// the operating system several times, and room may come from outside.
const GROWTH_RESTS_EXTENTS: u32 = 1024;

/// What weights the files of a filegroup.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Fill {
    /// Their free space: SQL Server's proportional fill.
    #[default]
    FreeSpace,
    /// The measured throughput of their devices, shared by the files on each.
    Throughput,
}

impl Fill {
    /// Both.
    pub const ALL: [Fill; 2] = [Fill::FreeSpace, Fill::Throughput];

    /// The word of the option `HOBT_FILL`.
    pub const fn name(self) -> &'static str {
        match self {
            Fill::FreeSpace => "FREE_SPACE",
            Fill::Throughput => "THROUGHPUT",
        }
    }
}

/// A file of a filegroup in the deal at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct FileShare {
    /// The file.
    pub file: FileId,
    /// The number of its device.
    pub device: u64,
    /// What the device reads, measured lately.
    pub reads: DeviceRate,
    /// What the device writes, measured lately.
    pub writes: DeviceRate,
    /// The file's part of the next extents, from 0 to 1: 0 if it has no room.
    pub share: f64,
}

/// The next step of an allocation.
pub(super) enum Dealt {
    /// A run of this file: its first extent and its length.
    Run(Arc<DataFile>, u32, u32),
    /// It is the turn of a file that is full and may grow.
    Full(Arc<DataFile>),
    /// No file has room.
    Nothing,
}

/// Files with their free extents and weights, in the same order.
struct Weighted<'a> {
    files: &'a [Arc<DataFile>],
    free: Vec<u32>,
    weights: Vec<f64>,
}

fn device(file: &DataFile) -> &Arc<DeviceStatistics> {
    file.disk().statistics().device()
}

/// The rate of each file's device divided by the number of these files on it, for those of `files` that take part. By
/// reads if each device was read enough, or else by writes if each was written enough. If neither, all count alike. A
/// device that seems to be very slow keeps a small part, or its rate would never be measured again.
fn rates(files: &[Arc<DataFile>], takes_part: &[bool]) -> Vec<f64> {
    let numbers: Vec<Option<u64>> =
        files.iter().zip(takes_part).map(|(file, takes)| takes.then(|| device(file).number())).collect();
    let measured = |direction: Direction| {
        let rate = |(file, number): (&Arc<DataFile>, &Option<u64>)| {
            let Some(number) = number else { return Some(0.0) };
            let rate = device(file).rate(direction);
            let beside = numbers.iter().flatten().filter(|other| *other == number).count();
            (rate.bytes >= MEASURED_BYTES).then(|| rate.bytes_per_second() / beside as f64)
        };
        files.iter().zip(&numbers).map(rate).collect::<Option<Vec<f64>>>()
    };
    let alike = || takes_part.iter().map(|takes| f64::from(u8::from(*takes))).collect();
    let mut rates: Vec<f64> = measured(Direction::Read).or_else(|| measured(Direction::Write)).unwrap_or_else(alike);
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    for (rate, _) in rates.iter_mut().zip(takes_part).filter(|(_, takes)| **takes) {
        *rate = rate.max(fastest / RATES_APART_MAX);
    }
    rates
}

impl<'a> Weighted<'a> {
    /// Under [`Fill::Throughput`] full files that may grow have a weight too.
    fn new(files: &'a [Arc<DataFile>], fill: Fill) -> Weighted<'a> {
        let free_extents = |file: &Arc<DataFile>| if file.is_set_aside() { 0 } else { file.free_extents() };
        let free: Vec<u32> = files.iter().map(free_extents).collect();
        let by_rate = || {
            let may_give = |(file, free): (&Arc<DataFile>, &u32)| {
                !file.is_set_aside() && (*free > 0 || (file.may_grow() && !file.growth_rests()))
            };
            rates(files, &files.iter().zip(&free).map(may_give).collect::<Vec<bool>>())
        };
        let weights = match fill {
            Fill::FreeSpace => free.iter().copied().map(f64::from).collect(),
            Fill::Throughput => by_rate(),
        };
        Weighted { files, free, weights }
    }

    fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The file whose turn it is: that whose credit is the largest part of its weight. Of equal files the one of the
    /// largest weight, and of these the first.
    fn next(&self) -> Option<usize> {
        let part = |place: usize| *self.files[place].credit.lock() / self.weights[place];
        (0..self.files.len()).filter(|place| self.weights[*place] > 0.0).max_by(|one, other| {
            let by_weight = self.weights[*one].total_cmp(&self.weights[*other]).then(std::cmp::Ordering::Greater);
            part(*one).total_cmp(&part(*other)).then(by_weight)
        })
    }

    /// Each file gains credit for the dealt extents in proportion to its weight, and the file that gives them pays. The
    /// credits of the files sum to zero. Files whose growth rests are so much nearer to the next attempt.
    fn book(&self, giver: usize, extents: u32) {
        let total = self.total();
        for (file, weight) in self.files.iter().zip(&self.weights) {
            *file.credit.lock() += f64::from(extents) * weight / total;
            if file.growth_rests() {
                let less = |left: u32| Some(left.saturating_sub(extents));
                // It returns what was there.
                let _before = file.growth_rests_extents.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
        }
        *self.files[giver].credit.lock() -= f64::from(extents);
    }
}

impl DataFile {
    fn may_grow(&self) -> bool {
        let description = &self.description;
        let grows = description.growth_pages > 0 || description.growth_percent > 0;
        let has_limit = description.max_pages > 0;
        grows && (!has_limit || self.size_pages() / EXTENT_PAGES < description.max_pages / EXTENT_PAGES)
    }

    /// Whether it is too early to let it grow in its turn.
    fn growth_rests(&self) -> bool {
        self.growth_rests_extents.load(Ordering::Relaxed) > 0
    }

    /// Notes whether the file has grown, or could not.
    pub(super) fn note_growth(&self, has_grown: bool) {
        let rest = if has_grown { 0 } else { GROWTH_RESTS_EXTENTS };
        self.growth_rests_extents.store(rest, Ordering::Relaxed);
    }
}

impl Storage {
    /// What weights files from now on. Earlier allocations stay where they are, and earlier credits are forgotten.
    pub fn set_fill(&self, fill: Fill) {
        let mut dealing = self.dealing.lock();
        if std::mem::replace(&mut *dealing, fill) != fill {
            self.files.read().iter().for_each(|file| *file.credit.lock() = 0.0);
        }
    }

    /// Takes a run from the file whose turn it is.
    pub(super) fn deal(&self, files: &[Arc<DataFile>], wanted: u32) -> Dealt {
        let run_extents_free = self.settings().run_extents_first.max(RUN_EXTENTS_FREE);
        let dealing = self.dealing.lock();
        let fill = *dealing;
        let weighted = Weighted::new(files, fill);
        let Some(place) = weighted.next() else { return Dealt::Nothing };
        let (file, file_free) = (&files[place], weighted.free[place]);
        if file_free == 0 {
            return Dealt::Full(Arc::clone(file));
        }
        let is_shared = weighted.weights.iter().filter(|weight| **weight > 0.0).count() > 1;
        let longest = match (is_shared, fill) {
            (false, _) => u32::MAX,
            (true, Fill::FreeSpace) => (file_free / RUNS_IN_FREE_SPACE).max(run_extents_free),
            (true, Fill::Throughput) => run_extents_free.max(RUN_EXTENTS_THROUGHPUT),
        };
        let Some((first, count)) = file.free.lock().take(wanted.min(longest)) else { return Dealt::Nothing };
        weighted.book(place, count);
        Dealt::Run(Arc::clone(file), first, count)
    }

    /// The share of each data file in the next allocations of its filegroup. Does not block on a device.
    pub fn shares(&self) -> Vec<FileShare> {
        let (files, fill) = (self.files(), *self.dealing.lock());
        let mut shares = Vec::with_capacity(files.len());
        for file in &files {
            let group: Vec<_> = files.iter().filter(|other| other.filegroup() == file.filegroup()).cloned().collect();
            let weighted = Weighted::new(&group, fill);
            let own = group.iter().position(|other| Arc::ptr_eq(other, file)).expect("it is in its filegroup");
            let device = device(file);
            shares.push(FileShare {
                file: file.id(),
                device: device.number(),
                reads: device.rate(Direction::Read),
                writes: device.rate(Direction::Write),
                share: if weighted.total() > 0.0 { weighted.weights[own] / weighted.total() } else { 0.0 },
            });
        }
        shares
    }

    /// The length of a HOBT's run after one of `extents`.
    pub(crate) fn next_run(&self, filegroup: FilegroupId, extents: u32) -> u32 {
        let files = self.files.read().iter().filter(|file| file.gives_extents_of(filegroup)).count();
        self.settings().next_run(extents, u32::try_from(files).unwrap_or(u32::MAX))
    }
}
