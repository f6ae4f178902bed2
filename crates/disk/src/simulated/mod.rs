//! A disk in memory: deterministic, faulty on request, slow on request, and able to lose what was not synced.
//!
//! - [`Fault`]s make the n-th operation of a kind fail, once or for ever (`faults.rs`).
//! - A [`DeviceModel`] gives each transfer a service time in wall time (`device.rs`). Without one a transfer is complete
//!   when `submit` returns.
//! - [`SimulatedDisk::crash`] leaves what a power failure could leave: each sector written since the last sync of its
//!   file is kept or not, each file created or removed since the last sync of its folder is there or not (`content.rs`).
//!
//! Paths are plain names: no links, no `..`. A folder exists once created, and the root does.

mod content;
mod device;
mod faults;
mod file;

use crate::disk::{Disk, DiskFile, OpenOptions};
use crate::error::{DiskError, Operation, Result};
use crate::throughput::Throughput;
use content::Content;
use device::Device;
pub use device::{DeviceCache, DeviceModel};
use faults::Faults;
pub use faults::{Fault, FaultKind};
use file::SimulatedFile;
use hobt_base::SplitMix64;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a simulated disk is like at its start.
#[derive(Clone, Debug)]
pub struct SimulatedConfig {
    /// Bytes that all files together may have.
    pub capacity_bytes: u64,
    /// Whether what was not synced is remembered, so that [`SimulatedDisk::crash`] can lose it. Costs memory for each
    /// sector overwritten between two syncs.
    pub track_unsynced: bool,
    /// How long transfers take; `None`: no time.
    pub device: Option<DeviceModel>,
    /// Operations that fail.
    pub faults: Vec<Fault>,
}

impl Default for SimulatedConfig {
    fn default() -> SimulatedConfig {
        SimulatedConfig { capacity_bytes: u64::MAX, track_unsynced: true, device: None, faults: Vec::new() }
    }
}

/// A file's contents, whoever has it open.
#[derive(Debug)]
struct Inode {
    content: Mutex<Content>,
    locked: AtomicBool,
}

#[derive(Debug, Default)]
struct Names {
    files: BTreeMap<PathBuf, Arc<Inode>>,
    directories: BTreeSet<PathBuf>,
    /// What a name was at the last sync of its folder, where that differs.
    unsynced: BTreeMap<PathBuf, Option<Arc<Inode>>>,
}

#[derive(Debug)]
struct World {
    names: Mutex<Names>,
    faults: Mutex<Faults>,
    device: Option<Device>,
    throughput: Throughput,
    capacity_bytes: u64,
    used_bytes: AtomicU64,
    track_unsynced: bool,
    /// Grows with each crash; handles of an earlier number are dead.
    generation: AtomicU64,
}

/// A disk in memory. Clones of the `Arc` are the same disk.
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
        let device = config.device.map(Device::start).transpose();
        let device = device.map_err(|error| DiskError::new(Operation::Start, Path::new("simulated"), None, error))?;
        Ok(Arc::new(SimulatedDisk {
            world: Arc::new(World {
                names: Mutex::default(),
                faults: Mutex::new(Faults::new(config.faults)),
                device,
                throughput: Throughput::new(),
                capacity_bytes: config.capacity_bytes,
                used_bytes: AtomicU64::new(0),
                track_unsynced: config.track_unsynced,
                generation: AtomicU64::new(0),
            }),
        }))
    }

    /// Adds a fault; it counts operations from now on.
    pub fn inject(&self, fault: Fault) {
        self.world.faults.lock().add(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.world.faults.lock().clear();
    }

    /// A power failure: what was not synced is lost, kept or torn as `seed` has it; all handles are dead (their
    /// operations fail), all locks are gone. Open the files anew to see what is left. Faults stay.
    pub fn crash(&self, seed: u64) {
        let mut random = SplitMix64::new(seed);
        let mut names = self.world.names.lock();
        self.world.generation.fetch_add(1, Ordering::SeqCst);
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
            inode.locked.store(false, Ordering::SeqCst);
        }
        self.world.used_bytes.store(used, Ordering::SeqCst);
    }
}

impl World {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Takes space for a file that grows, or gives it back.
    fn account(&self, before: u64, after: u64) -> io::Result<()> {
        let change = |used: u64| {
            let used = used.saturating_sub(before).checked_add(after)?;
            (after <= before || used <= self.capacity_bytes).then_some(used)
        };
        match self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }

    fn fault(&self, operation: Operation, path: &Path) -> Option<FaultKind> {
        self.faults.lock().next(operation, path)
    }
}

impl Names {
    fn has_directory(&self, path: &Path) -> bool {
        path.parent().is_none() || path.as_os_str().is_empty() || self.directories.contains(path)
    }

    /// Remembers what a name stands for before it changes.
    fn remember(&mut self, path: &Path) {
        if !self.unsynced.contains_key(path) {
            self.unsynced.insert(path.to_path_buf(), self.files.get(path).cloned());
        }
    }
}

fn failed(operation: Operation, path: &Path, kind: io::ErrorKind) -> DiskError {
    DiskError::new(operation, path, None, io::Error::from(kind))
}

impl Disk for SimulatedDisk {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn open(&self, path: &Path, options: OpenOptions) -> Result<Arc<dyn DiskFile>> {
        if let Some(FaultKind::Error(number)) = self.world.fault(Operation::Open, path) {
            return Err(DiskError::new(Operation::Open, path, None, io::Error::from_raw_os_error(number)));
        }
        let mut names = self.world.names.lock();
        let inode = match (names.files.get(path), options.create_new) {
            (Some(_), true) => return Err(failed(Operation::Open, path, io::ErrorKind::AlreadyExists)),
            (Some(inode), false) => inode.clone(),
            (None, false) => return Err(failed(Operation::Open, path, io::ErrorKind::NotFound)),
            (None, true) => {
                if !path.parent().is_none_or(|parent| names.has_directory(parent)) {
                    return Err(failed(Operation::Open, path, io::ErrorKind::NotFound));
                }
                let content = Mutex::new(Content::new(self.world.track_unsynced));
                let inode = Arc::new(Inode { content, locked: AtomicBool::new(false) });
                names.remember(path);
                names.files.insert(path.to_path_buf(), inode.clone());
                inode
            }
        };
        Ok(Arc::new(SimulatedFile::new(self.world.clone(), inode, path, options)))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let mut names = self.world.names.lock();
        if path.ancestors().any(|ancestor| names.files.contains_key(ancestor)) {
            return Err(failed(Operation::Directory, path, io::ErrorKind::AlreadyExists));
        }
        names.directories.extend(path.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        if let Some(FaultKind::Error(number)) = self.world.fault(Operation::Remove, path) {
            return Err(DiskError::new(Operation::Remove, path, None, io::Error::from_raw_os_error(number)));
        }
        let mut names = self.world.names.lock();
        names.remember(path);
        let Some(inode) = names.files.remove(path) else {
            names.unsynced.remove(path);
            return Err(failed(Operation::Remove, path, io::ErrorKind::NotFound));
        };
        let size = inode.content.lock().size();
        self.world.account(size, 0).expect("giving space back always works");
        Ok(())
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
        let mut names = self.world.names.lock();
        if !names.has_directory(path) {
            return Err(failed(Operation::Directory, path, io::ErrorKind::NotFound));
        }
        names.unsynced.retain(|name, _| name.parent() != Some(path));
        Ok(())
    }

    fn free_space(&self, _path: &Path) -> Result<u64> {
        Ok(self.world.capacity_bytes.saturating_sub(self.world.used_bytes.load(Ordering::SeqCst)))
    }

    fn throughput(&self) -> &Throughput {
        &self.world.throughput
    }
}
