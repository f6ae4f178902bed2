//! A disk in memory. It is deterministic, can be faulty and slow on request, and can lose what was not synced.
//!
//! - [`Fault`]s make the n-th operation of a kind fail, once or for ever (`faults.rs`).
//! - A [`DeviceModel`] gives each transfer a service time in real time (`device.rs`). Without one a transfer is
//!   complete when `submit` returns.
//! - [`SimulatedDisk::crash`] leaves what a power failure could leave. Writes since the last sync of their file are
//!   kept, lost, reordered or torn. A file created or removed since the last sync of its folder exists or does not
//!   (`content.rs`). [`SimulatedDisk::crash_at`] does so in the middle of a later operation.
//! - [`SimulatedDisk::trace`] shows whether two runs did the same operations.
//!
//! Paths are plain names: no links, no `..`. A folder exists once it is created; the root always exists.

pub(crate) mod content;
mod device;
mod faults;
mod file;
mod power;

use crate::device_statistics::DeviceStatistics;
use crate::disk::{Disk, DiskFile, OpenOptions, SIMULATED};
use crate::error::{DiskError, Operation, Result};
use crate::throughput::Throughput;
use content::Content;
use device::Device;
pub use device::{DeviceCache, DeviceModel};
use faults::Faults;
pub use faults::{Fault, FaultKind};
use file::SimulatedFile;
use hobt_base::SplitMix64;
use hobt_instruments::schedule::{self, Place};
use parking_lot::Mutex;
use power::Power;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The initial settings of a simulated disk.
#[derive(Clone, Debug)]
pub struct SimulatedConfig {
    /// The most bytes of all files together.
    pub capacity_bytes: u64,
    /// Whether unsynced states are remembered, so that [`SimulatedDisk::crash`] can lose changes. Costs memory for each
    /// sector overwritten between two syncs.
    pub track_unsynced: bool,
    /// How long transfers take; `None` for no time.
    pub device: Option<DeviceModel>,
    /// Folders on devices of their own: what lies in or below them takes the time of that model.
    pub devices: Vec<(PathBuf, DeviceModel)>,
    /// Operations that fail.
    pub faults: Vec<Fault>,
}

impl Default for SimulatedConfig {
    fn default() -> SimulatedConfig {
        SimulatedConfig {
            capacity_bytes: u64::MAX,
            track_unsynced: true,
            device: None,
            devices: Vec::new(),
            faults: Vec::new(),
        }
    }
}

/// The lock of a file is one handle's own.
const LOCKED: u32 = 1 << 31;

/// A file's contents, shared by all its handles.
#[derive(Debug)]
struct Inode {
    content: Mutex<Content>,
    /// [`LOCKED`] of one handle, or how many handles share the lock.
    locks: AtomicU32,
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<Inode>>,
    directories: BTreeSet<PathBuf>,
    /// The file that a name stood for at the last sync of its folder, if it differs.
    unsynced: BTreeMap<PathBuf, Option<Arc<Inode>>>,
}

#[derive(Debug)]
struct World {
    names: Mutex<Names>,
    faults: Mutex<Faults>,
    power: Mutex<Power>,
    /// The first is that of all folders that have none of their own.
    devices: Vec<FolderDevice>,
    throughput: Throughput,
    capacity_bytes: AtomicU64,
    used_bytes: AtomicU64,
    track_unsynced: bool,
    /// Incremented by each crash. Handles of an earlier generation are invalid.
    generation: AtomicU64,
}

/// The device of a folder and of what lies below.
#[derive(Debug)]
struct FolderDevice {
    folder: PathBuf,
    /// `None` for transfers that take no time.
    device: Option<Device>,
    statistics: Arc<DeviceStatistics>,
}

/// A disk in memory. Clones of the `Arc` share the disk.
#[derive(Debug)]
pub struct SimulatedDisk {
    world: Arc<World>,
}

impl SimulatedDisk {
    /// An empty disk.
    ///
    /// # Errors
    /// `Io` when the device's timer thread cannot be started.
    pub fn start(config: SimulatedConfig) -> Result<Arc<SimulatedDisk>> {
        let models = std::iter::once((PathBuf::new(), config.device))
            .chain(config.devices.into_iter().map(|(folder, model)| (folder, Some(model))));
        let start = |(number, (folder, model)): (u64, (PathBuf, Option<DeviceModel>))| {
            let device = model.map(Device::start).transpose();
            let device = device.map_err(|error| DiskError::new(Operation::Start, Path::new(SIMULATED), None, error))?;
            let statistics = match device {
                Some(_) => DeviceStatistics::of_model(number),
                None => DeviceStatistics::new(number),
            };
            Ok(FolderDevice { folder, device, statistics: Arc::new(statistics) })
        };
        let devices = (0..).zip(models).map(start).collect::<Result<Vec<FolderDevice>>>()?;
        Ok(Arc::new(SimulatedDisk {
            world: Arc::new(World {
                names: Mutex::default(),
                faults: Mutex::new(Faults::new(config.faults)),
                power: Mutex::new(Power::new()),
                devices,
                throughput: Throughput::new(),
                capacity_bytes: AtomicU64::new(config.capacity_bytes),
                used_bytes: AtomicU64::new(0),
                track_unsynced: config.track_unsynced,
                generation: AtomicU64::new(0),
            }),
        }))
    }

    /// Limits the disk to its current size plus this many bytes; `None` for no limit.
    pub fn leave_free(&self, bytes: Option<u64>) {
        let used = self.world.used_bytes.load(Ordering::SeqCst);
        let capacity = bytes.map_or(u64::MAX, |bytes| used.saturating_add(bytes));
        self.world.capacity_bytes.store(capacity, Ordering::SeqCst);
    }

    /// Adds a fault, which counts operations from now on.
    pub fn inject(&self, fault: Fault) {
        self.world.faults.lock().add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.world.faults.lock().clear();
    }

    /// A power failure. What was not synced is lost, kept or torn, as `seed` decides. All handles are invalid (their
    /// operations fail), and all locks are released. Open the files again to see what is left. Faults stay.
    pub fn crash(&self, seed: u64) {
        self.world.crash(seed);
    }

    /// A lasting power failure: like [`SimulatedDisk::crash`], and all operations fail until
    /// [`SimulatedDisk::power_on`].
    pub fn lose_power(&self, seed: u64) {
        self.world.power.lock().off();
        self.world.crash(seed);
    }

    /// Makes the power fail at the `change`-th operation that changes something, counted from the disk's start as by
    /// [`SimulatedDisk::changes`]. That operation is done, not done, or done in part, as in [`SimulatedDisk::crash`].
    /// It and all later ones fail until [`SimulatedDisk::power_on`].
    pub fn crash_at(&self, change: u64, seed: u64) {
        self.world.power.lock().cut_at(change, seed);
    }

    /// The number of operations so far that change something: files opened, written, synced, resized and removed,
    /// folders synced.
    pub fn changes(&self) -> u64 {
        self.world.power.lock().changes()
    }

    /// The number of operations of a kind so far, counted as by [`Fault`]s, without those that failed by a fault.
    pub fn operations(&self, operation: Operation) -> u64 {
        self.world.power.lock().count(operation)
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.world.power.lock().is_off()
    }

    /// Ends a power failure, and cancels one that has not happened yet.
    pub fn power_on(&self) {
        self.world.power.lock().on();
    }

    /// A checksum over all operations so far: the operation, its file, position and length, and their order. It does
    /// not include the bytes written.
    pub fn trace(&self) -> u64 {
        self.world.power.lock().trace()
    }
}

impl World {
    fn crash(&self, seed: u64) {
        let mut random = SplitMix64::new(seed);
        let mut names = self.names.lock();
        self.generation.fetch_add(1, Ordering::SeqCst);
        for (path, before) in std::mem::take(&mut names.unsynced) {
            if random.below(2) == 0 {
                continue;
            }
            match before {
                Some(inode) => names.files.insert(path, inode),
                None => names.files.remove(&path),
            };
        }
        let mut used = 0;
        for inode in names.files.values() {
            let mut content = inode.content.lock();
            content.crash(&mut random);
            used += content.size();
            inode.locks.store(0, Ordering::SeqCst);
        }
        self.used_bytes.store(used, Ordering::SeqCst);
    }

    /// Executes an operation unless the power is off. If the power fails meanwhile, the result is replaced by an error.
    fn powered<T>(
        &self,
        operation: Operation,
        path: &Path,
        place: std::ops::Range<u64>,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let last = self.power.lock().pass(operation, path, place.start, place.end - place.start)?;
        let done = act();
        match last {
            None => done,
            Some(seed) => {
                self.crash(seed);
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
        }
    }

    /// Like `powered`, for an operation that makes others durable. If the power fails meanwhile, it does nothing.
    fn powered_sync(&self, operation: Operation, path: &Path, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let last = self.power.lock().pass(operation, path, 0, 0)?;
        match last {
            None => act(),
            Some(seed) => {
                self.crash(seed);
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
        }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Reserves space for a file that grows, or frees it.
    fn account(&self, before: u64, after: u64) -> io::Result<()> {
        let change = |used: u64| {
            let used = used.saturating_sub(before).checked_add(after)?;
            (after <= before || used <= self.capacity_bytes.load(Ordering::SeqCst)).then_some(used)
        };
        match self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }

    /// Whether a path is that of this file.
    fn names_inode(&self, path: &Path, inode: &Arc<Inode>) -> bool {
        self.names.lock().files.get(path).is_some_and(|named| Arc::ptr_eq(named, inode))
    }

    fn free_bytes(&self) -> u64 {
        let used = self.used_bytes.load(Ordering::SeqCst);
        self.capacity_bytes.load(Ordering::SeqCst).saturating_sub(used)
    }

    /// The index of the device of a file: that of the innermost folder that has one.
    fn device_of(&self, path: &Path) -> usize {
        let own = self.devices.iter().enumerate().skip(1).filter(|(_, device)| path.starts_with(&device.folder));
        own.max_by_key(|(_, device)| device.folder.as_os_str().len()).map_or(0, |(index, _)| index)
    }

    fn fault(&self, operation: Operation, path: &Path) -> Option<FaultKind> {
        self.faults.lock().next(operation, path)
    }
}

impl Names {
    fn has_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || path.as_os_str().is_empty() || self.directories.contains(path)
    }

    /// Stores the file that a name stands for before it changes.
    fn remember(&mut self, path: &Path) {
        if !self.unsynced.contains_key(path) {
            self.unsynced.insert(path.to_path_buf(), self.files.get(path).cloned());
        }
    }
}

impl SimulatedDisk {
    fn open_inode(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<Inode>> {
        let mut names = self.world.names.lock();
        match (names.files.get(path), options.create_new) {
            (Some(_), true) => Err(io::ErrorKind::AlreadyExists.into()),
            (Some(inode), false) => Ok(inode.clone()),
            (None, false) => Err(io::ErrorKind::NotFound.into()),
            (None, true) => {
                if !path.parent().is_none_or(|parent| names.has_directory(parent)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                let content = Mutex::new(Content::new(self.world.track_unsynced));
                let inode = Arc::new(Inode { content, locks: AtomicU32::new(0) });
                names.remember(path);
                names.files.insert(path.to_path_buf(), inode.clone());
                Ok(inode)
            }
        }
    }

    /// Creates missing folders durably. If the power fails meanwhile, some of them exist, from the topmost on.
    fn make_directories(&self, path: &Path, mut missing: Vec<PathBuf>) -> Result<()> {
        let failed = |error| DiskError::new(Operation::Directory, path, None, error);
        if missing.is_empty() {
            return Ok(());
        }
        if let Some(FaultKind::Error(number)) = self.world.fault(Operation::Directory, path) {
            return Err(failed(io::Error::from_raw_os_error(number)));
        }
        let cut = self.world.power.lock().pass(Operation::Directory, path, 0, 0).map_err(failed)?;
        missing.reverse();
        if let Some(seed) = cut {
            let count = u64::try_from(missing.len()).expect("a few folders");
            missing.truncate(usize::try_from(SplitMix64::new(seed).below(count + 1)).expect("a few folders"));
        }
        self.world.names.lock().directories.extend(missing);
        match cut {
            None => Ok(()),
            Some(seed) => {
                self.world.crash(seed);
                Err(failed(io::Error::from_raw_os_error(libc::EIO)))
            }
        }
    }

    fn remove_name(&self, path: &Path) -> io::Result<()> {
        let mut names = self.world.names.lock();
        let Some(inode) = names.files.get(path).cloned() else { return Err(io::ErrorKind::NotFound.into()) };
        names.remember(path);
        names.files.remove(path);
        let size = inode.content.lock().size();
        self.world.account(size, 0).expect("giving space back always works");
        Ok(())
    }
}

fn failed(operation: Operation, path: &Path, kind: io::ErrorKind) -> DiskError {
    DiskError::new(operation, path, None, io::Error::from(kind))
}

impl Disk for SimulatedDisk {
    fn kind(&self) -> &'static str {
        SIMULATED
    }

    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>> {
        schedule::point(Place::Disk);
        let failed = |error| DiskError::new(Operation::Open, path, None, error);
        if let Some(FaultKind::Error(number)) = self.world.fault(Operation::Open, path) {
            return Err(failed(io::Error::from_raw_os_error(number)));
        }
        let opened = self.world.powered(Operation::Open, path, 0..0, || self.open_inode(path, options));
        let inode = opened.map_err(failed)?;
        Ok(Arc::new(SimulatedFile::new(self.world.clone(), inode, path, options)))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        schedule::point(Place::Disk);
        let missing = {
            let names = self.world.names.lock();
            if path.ancestors().any(|ancestor| names.files.contains_key(ancestor)) {
                return Err(failed(Operation::Directory, path, io::ErrorKind::AlreadyExists));
            }
            path.ancestors().take_while(|folder| !names.has_directory(folder)).map(Path::to_path_buf).collect()
        };
        self.make_directories(path, missing)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        schedule::point(Place::Disk);
        let failed = |error| DiskError::new(Operation::Remove, path, None, error);
        if let Some(FaultKind::Error(number)) = self.world.fault(Operation::Remove, path) {
            return Err(failed(io::Error::from_raw_os_error(number)));
        }
        self.world.powered(Operation::Remove, path, 0..0, || self.remove_name(path)).map_err(failed)
    }

    fn exists(&self, path: &Path) -> bool {
        let names = self.world.names.lock();
        names.files.contains_key(path) || names.has_directory(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let names = self.world.names.lock();
        if !names.has_directory(path) {
            return Err(failed(Operation::Directory, path, io::ErrorKind::NotFound));
        }
        let all = names.files.keys().chain(&names.directories);
        let mut inside: Vec<_> = all.filter(|entry| entry.parent() == Some(path)).cloned().collect();
        inside.sort_unstable();
        Ok(inside)
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        schedule::point(Place::Disk);
        let failed = |error| DiskError::new(Operation::Directory, path, None, error);
        match self.world.fault(Operation::Directory, path) {
            Some(FaultKind::Error(number)) => return Err(failed(io::Error::from_raw_os_error(number))),
            Some(FaultKind::Ignored) => return Ok(()),
            _ => {}
        }
        let sync = || {
            let mut names = self.world.names.lock();
            if !names.has_directory(path) {
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            names.unsynced.retain(|name, _| name.parent() != Some(path));
            Ok(())
        };
        self.world.powered_sync(Operation::Directory, path, sync).map_err(failed)
    }

    fn free_space(&self, _path: &Path) -> Result<u64> {
        Ok(self.world.free_bytes())
    }

    fn throughput(&self) -> &Throughput {
        &self.world.throughput
    }
}
