//! The driver of a fuzz target: a function that takes any bytes and panics when its property does not hold.
//!
//! A target is a test that [`fuzz_target!`] makes. Bolero replays the files of the corpus and makes random bytes. Under
//! cargo-bolero the inputs come from an engine that watches coverage instead. Random bytes rarely pass a decoder's
//! first check. So the driver derives inputs of its own from each of them: entries of the corpus with a few bytes
//! changed, cut, or joined with other entries. An input that fails is written into the corpus, so that every later run
//! tries it. `scripts/fuzz.sh` runs the targets for a given time.

use std::collections::BTreeSet;
use std::fs;
use std::panic::RefUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{SplitMix64, crc32c};

use crate::{allocated_at_most, is_blessed};

/// Inputs derived from the corpus for each input of the engine.
const DERIVED: usize = 30;
/// The longest derived input.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// The beginning of the name of an input that failed once.
const FOUND: &str = "found-";
/// Values that lengths, counts and tags fail at.
const EDGES: [u64; 8] = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF_FFFF, 0x8000_0000, u64::MAX];

/// A test that holds a property against any bytes: `fuzz_target!(NAME, (BYTES, BYTES_FOR_EACH), property)`, with the
/// most bytes that the property may allocate at a time, and so many more for each byte of its input.
///
/// A failure is not made smaller: derived inputs depend on all bytes of the engine's.
#[macro_export]
macro_rules! fuzz_target {
    ($name:ident, $limit:expr, $property:expr) => {
        #[test]
        fn $name() {
            // The corpus is being written.
            if $crate::is_blessed() {
                return;
            }
            let name = stringify!($name);
            let target = $crate::FuzzTarget::new(env!("CARGO_MANIFEST_DIR"), file!(), name, $limit, $property);
            $crate::bolero::check!(name = name)
                .with_iterations($crate::ITERATIONS)
                .with_shrink_time(std::time::Duration::ZERO)
                .for_each(|bytes: &[u8]| target.run(bytes));
        }
    };
}

/// How many inputs of the engine a target has among the other tests; `scripts/fuzz.sh` gives it a time instead.
pub const ITERATIONS: usize = 200;

/// A fuzz target: its corpus, its property, and its limit of memory.
pub struct FuzzTarget<F> {
    name: &'static str,
    folder: PathBuf,
    entries: Vec<Vec<u8>>,
    /// The most bytes that an input may allocate at a time: so many, and so many for each of its bytes.
    limit: (usize, usize),
    property: F,
    inputs: AtomicU64,
}

impl<F: Fn(&[u8]) + RefUnwindSafe> FuzzTarget<F> {
    /// Reads the corpus of the target `name` in the file `file!()` of the package in `package`. The property may
    /// allocate `limit.0` bytes at a time, and `limit.1` for each byte of its input.
    ///
    /// # Panics
    /// When there is no corpus, or it cannot be read.
    pub fn new(package: &str, file: &str, name: &'static str, limit: (usize, usize), property: F) -> FuzzTarget<F> {
        let folder = corpus_folder(package, file, name);
        let paths = entries_of(&folder);
        assert!(!paths.is_empty(), "{} has no corpus; HOBT_BLESS=1 writes it", folder.display());
        let entries = paths.iter().map(|path| fs::read(path).expect("a readable corpus")).collect();
        FuzzTarget { name, folder, entries, limit, property, inputs: AtomicU64::new(0) }
    }

    /// Tries an input of the engine, and those derived from the corpus by it.
    pub fn run(&self, input: &[u8]) {
        self.attempt(input);
        let mut random = SplitMix64::new(u64::from(crc32c(input)) | (input.len() as u64) << 32);
        for _ in 0..DERIVED {
            let derived = derived(&self.entries, &mut random);
            self.attempt(&derived);
        }
    }

    fn attempt(&self, input: &[u8]) {
        let _kept_if_it_fails = KeptInput { folder: &self.folder, input };
        self.inputs.fetch_add(1, Ordering::Relaxed);
        let most = allocated_at_most(|| (self.property)(input));
        let limit = self.limit.0 + self.limit.1 * input.len();
        assert!(most <= limit, "{most} bytes are allocated for an input of {} bytes; {limit} are allowed", input.len());
    }
}

impl<F> Drop for FuzzTarget<F> {
    fn drop(&mut self) {
        println!("fuzz target {}: {} inputs", self.name, self.inputs.load(Ordering::Relaxed));
    }
}

/// Compares the corpus of a target with the entries that its generator makes, each once; failures that were found stand
/// beside them. With `HOBT_BLESS=1` the corpus becomes these entries, named by number.
///
/// # Panics
/// When they differ and `HOBT_BLESS` is not set, or a file cannot be read or written.
pub fn check_corpus(package: &str, file: &str, name: &str, entries: &[Vec<u8>]) {
    let folder = corpus_folder(package, file, name);
    let wanted: BTreeSet<&Vec<u8>> = entries.iter().collect();
    let paths: Vec<PathBuf> = entries_of(&folder).into_iter().filter(|path| !is_found(path)).collect();
    if is_blessed() {
        fs::create_dir_all(&folder).expect("a folder for the corpus");
        paths.iter().for_each(|path| fs::remove_file(path).expect("a removable file"));
        for (number, entry) in wanted.into_iter().enumerate() {
            fs::write(folder.join(format!("{number:02}")), entry).expect("a writable corpus");
        }
        return;
    }
    let known: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a readable corpus")).collect();
    let is_equal = known.len() == wanted.len() && known.iter().all(|entry| wanted.contains(entry));
    assert!(is_equal, "{} is not what its generator makes; HOBT_BLESS=1 writes it", folder.display());
}

/// The files of a corpus in the order of their names; none if there is no folder.
fn entries_of(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.unwrap_or_default();
    paths.sort();
    paths
}

/// Whether a file of a corpus is an input that failed once.
fn is_found(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOUND))
}

/// Where bolero looks for the corpus of a target with a name.
fn corpus_folder(package: &str, file: &str, name: &str) -> PathBuf {
    // `file!()` is relative to the workspace, two folders above its packages.
    let workspace = PathBuf::from(package).join("../..");
    let source = workspace.join(file);
    source.parent().expect("a file in a folder").join("__fuzz__").join(name).join("corpus")
}

/// Writes its input into the corpus when it is dropped by a panic.
struct KeptInput<'a> {
    folder: &'a PathBuf,
    input: &'a [u8],
}

impl Drop for KeptInput<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = self.folder.join(format!("{FOUND}{:08x}", crc32c(self.input)));
            let written = fs::create_dir_all(self.folder).and_then(|()| fs::write(&path, self.input));
            println!("the input that fails is in {}: {written:?}", path.display());
        }
    }
}

/// An entry of the corpus with one to four changes.
fn derived(entries: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let any = |random: &mut SplitMix64| &entries[random.below(entries.len() as u64) as usize];
    let mut bytes = any(random).to_vec();
    for _ in 0..=random.below(4) {
        let other = any(random);
        change(&mut bytes, other, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

/// One change: a bit, a number, a cut, a range removed or repeated, a piece of another entry.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let length = bytes.len() as u64;
    // What decides is in front: half of the changes are there.
    let bound = if random.below(2) == 0 { length } else { length.min(64) };
    let at = random.below(bound + 1) as usize;
    let end = at + random.below((bytes.len() - at).min(64) as u64 + 1) as usize;
    match random.below(8) {
        0 | 1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        3 => {
            let width = [1, 2, 4, 8][random.below(4) as usize].min(bytes.len() - at);
            let edge = EDGES[random.below(8) as usize].wrapping_add(random.below(3)).wrapping_sub(1);
            bytes[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
        }
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..end)),
        6 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let from = random.below(other.len() as u64 + 1) as usize;
            let to = from + random.below((other.len() - from).min(256) as u64 + 1) as usize;
            bytes.splice(at..end, other[from..to].iter().copied());
        }
    }
}
