//! The number of different values: exact while there are few, then by a sketch.
//!
//! Up to [`EXACT_MAX`] hashes are stored as they are. Beyond that, the first bits of each hash select one of 2^14
//! registers, and its *rank* is the number of zeros that follow them, plus one. A register stores the highest rank that
//! it has seen and, in two bits, whether it has seen the two ranks below (Ertl: "UltraLogLog: A practical and more
//! space-efficient alternative to HyperLogLog for approximate distinct counting", 2023):
//!
//! ```text
//! register    highest rank, 6 bits │ the rank below │ the rank below that       0: nothing seen
//! ```
//! The estimate is the count with the greatest likelihood of these registers. Its standard error is 0.6 %; with only
//! the highest ranks, as in HyperLogLog, it would be 0.8 % in the same 16 KiB. Sketches of parts merge into the sketch
//! of the whole, whatever values the parts share.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// The most hashes that are stored one by one.
pub(super) const EXACT_MAX: usize = 512;
const INDEX_BITS: u32 = 14;
pub(super) const REGISTERS: usize = 1 << INDEX_BITS;
/// The highest rank: all bits after the index are zero.
const RANK_MAX: u8 = (64 - INDEX_BITS + 1) as u8;
/// The number of bits in a register below the highest rank.
const SEEN_BITS: u32 = 2;
/// Each of Newton's steps doubles the number of right digits, so far fewer are needed.
const STEPS_MAX: usize = 64;
/// The relative precision at which they end: the estimate's own error is much larger.
const PRECISION: f64 = 1e-9;

/// The hash of a key for sketches: xxHash3 with 64 bits. It never changes, because sketches are stored.
#[inline]
pub fn hash_key(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Counts the different hashes that were added.
#[derive(Clone)]
pub struct DistinctSketch(Form);

#[derive(Clone)]
enum Form {
    Exact(HashTable),
    Registers(Box<[u8; REGISTERS]>),
}

/// A table of hashes, open addressing, never more than half full. 0 is an empty slot.
#[derive(Clone, Default)]
struct HashTable {
    slots: Vec<u64>,
    count: usize,
}

impl HashTable {
    #[inline]
    fn contains_or_insert(&mut self, hash: u64) {
        if self.slots.len() <= self.count * 2 {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != hash {
            if self.slots[at] == 0 {
                self.slots[at] = hash;
                self.count += 1;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(8);
        let old = std::mem::replace(self, HashTable { slots: vec![0; size], count: 0 });
        old.hashes().for_each(|hash| self.contains_or_insert(hash));
    }

    fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().copied().filter(|hash| *hash != 0)
    }

    fn sorted(&self) -> Vec<u64> {
        let mut hashes: Vec<u64> = self.hashes().collect();
        hashes.sort_unstable();
        hashes
    }
}

impl Default for DistinctSketch {
    fn default() -> DistinctSketch {
        DistinctSketch(Form::Exact(HashTable::default()))
    }
}

impl PartialEq for DistinctSketch {
    fn eq(&self, other: &DistinctSketch) -> bool {
        match (&self.0, &other.0) {
            (Form::Exact(left), Form::Exact(right)) => left.count == right.count && left.sorted() == right.sorted(),
            (Form::Registers(left), Form::Registers(right)) => left == right,
            _ => false,
        }
    }
}

impl fmt::Debug for DistinctSketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.exact().is_some() { "exact" } else { "registers" };
        write!(f, "DistinctSketch({:.0}, {form})", self.estimate())
    }
}

impl DistinctSketch {
    /// Adds a hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        match &mut self.0 {
            Form::Registers(registers) => note(registers, hash),
            Form::Exact(table) => {
                // No slot can hold 0, so the one hash 0 of 2^64 counts as 1.
                table.contains_or_insert(hash.max(1));
                if table.count > EXACT_MAX {
                    self.spread();
                }
            }
        }
    }

    /// Adds all hashes that `other` has seen.
    pub fn merge(&mut self, other: &DistinctSketch) {
        match &other.0 {
            Form::Exact(table) => table.hashes().for_each(|hash| self.add(hash)),
            Form::Registers(theirs) => {
                take_in(self.spread(), theirs);
            }
        }
    }

    /// The number of different hashes: exact up to 512, then within 2 % in 999 of 1,000 cases.
    pub fn estimate(&self) -> f64 {
        match &self.0 {
            Form::Exact(table) => table.count as f64,
            Form::Registers(registers) => estimate(registers),
        }
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        match &self.0 {
            Form::Exact(table) => table.slots.capacity() * size_of::<u64>(),
            Form::Registers(_) => REGISTERS,
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Exact(table) if table.count == 0)
    }

    /// The hashes in ascending order, while they are stored.
    pub(super) fn exact(&self) -> Option<Vec<u64>> {
        match &self.0 {
            Form::Exact(table) => Some(table.sorted()),
            Form::Registers(_) => None,
        }
    }

    /// The registers, if it has any.
    pub(super) fn registers(&self) -> Option<&[u8; REGISTERS]> {
        match &self.0 {
            Form::Exact(_) => None,
            Form::Registers(registers) => Some(registers),
        }
    }

    /// A sketch of these registers, each of which must be possible ([`is_register`]).
    pub(super) fn from_registers(registers: Box<[u8; REGISTERS]>) -> DistinctSketch {
        debug_assert!(registers.iter().copied().all(is_register));
        DistinctSketch(Form::Registers(registers))
    }

    fn spread(&mut self) -> &mut [u8; REGISTERS] {
        if let Form::Exact(table) = &self.0 {
            let mut registers = Box::new([0; REGISTERS]);
            table.hashes().for_each(|hash| note(&mut registers, hash));
            self.0 = Form::Registers(registers);
        }
        match &mut self.0 {
            Form::Registers(registers) => registers,
            Form::Exact(_) => unreachable!("made registers of them above"),
        }
    }
}

#[inline]
fn note(registers: &mut [u8; REGISTERS], hash: u64) {
    let register = &mut registers[(hash >> (64 - INDEX_BITS)) as usize];
    // The bit added below the hash's last one ends the run of zeros.
    let rank = ((hash << INDEX_BITS) | (1 << (INDEX_BITS - 1))).leading_zeros() as u8 + 1;
    *register = both(*register, rank << SEEN_BITS);
}

/// The register for the union of what two registers have seen. Without branches, so that compilers process many at
/// once. Rank 0, which no hash has, counts as seen by all.
#[inline(always)]
fn both(left: u8, right: u8) -> u8 {
    let (high, low) = (left.max(right), left.min(right));
    let distance = (high >> SEEN_BITS) - (low >> SEEN_BITS);
    let equal = if distance == 0 { low } else { 0 };
    let next = if distance == 1 { 0b10 | (low >> 1 & 1) } else { 0 };
    let second = if distance == 2 { 0b01 } else { 0 };
    high | equal | next | second
}

/// Merges the registers of another sketch into ours.
fn take_in(ours: &mut [u8; REGISTERS], theirs: &[u8; REGISTERS]) {
    // At the width of the machine's vectors: merging partitions consists of this loop over 16 KiB each.
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            for (our, their) in ours.iter_mut().zip(theirs) {
                *our = both(*our, *their);
            }
        },
    );
}

/// Whether a register is one that hashes can produce.
pub(super) fn is_register(register: u8) -> bool {
    let seen = register & ((1 << SEEN_BITS) - 1);
    match register >> SEEN_BITS {
        0 => seen == 0,
        1 => seen == 0b10,
        2 => seen & 0b01 == 0b01,
        rank => rank <= RANK_MAX,
    }
}

/// The share of a register's hashes that have a rank. The highest rank has the rest.
fn share_of(rank: u8) -> f64 {
    f64::powi(2.0, -i32::from(rank.min(RANK_MAX - 1)))
}

/// The count with the greatest likelihood.
///
/// With `x` hashes a register, a rank of share `q` is missing with probability exp(−x·q), independently of others. Let
/// `missing` be the sum of the shares of all missing ranks, over all registers, and `seen` the number of registers that
/// have seen a rank. The logarithm of the likelihood is −x · missing + Σ seen · ln(1 − exp(−x·q)). It has one maximum,
/// where `missing` = Σ seen · q / (exp(x·q) − 1). Newton's steps from below approach it from below, because the right
/// side is convex.
fn estimate(registers: &[u8; REGISTERS]) -> f64 {
    let (missing, seen) = evidence(registers);
    let ranks = || (1..).zip(&seen[1..]).map(|(rank, seen)| (share_of(rank), f64::from(*seen)));
    let all: f64 = ranks().map(|(_, seen)| seen).sum();
    if missing <= 0.0 {
        // No rank is missing: there were more hashes than possible.
        return u64::MAX as f64;
    }
    // 1 / (exp(y) − 1) is above 1 / y − 1 / 2, so this starts below the root.
    let mut x = all / (missing + ranks().map(|(share, seen)| 0.5 * share * seen).sum::<f64>());
    for _ in 0..STEPS_MAX {
        let (mut value, mut slope) = (missing, 0.0);
        for (share, seen) in ranks().filter(|(_, seen)| *seen > 0.0) {
            let grown = (x * share).exp_m1();
            let term = seen * share / grown;
            value -= term;
            slope += term * share * (1.0 + 1.0 / grown);
        }
        let step = -value / slope;
        if !step.is_finite() || step <= x * PRECISION {
            break;
        }
        x += step;
    }
    x * REGISTERS as f64
}

/// The sum of the missing shares, and for each rank the number of registers that have seen it.
fn evidence(registers: &[u8; REGISTERS]) -> (f64, [u32; RANK_MAX as usize + 1]) {
    // Several counters, because equal registers follow each other, and each addition to one waits for the one before.
    let mut counters = [[0_u32; 256]; 4];
    for four in registers.as_chunks::<4>().0 {
        for (counter, register) in counters.iter_mut().zip(four) {
            counter[usize::from(*register)] += 1;
        }
    }
    let (mut missing, mut seen) = (0.0, [0_u32; RANK_MAX as usize + 1]);
    for register in 0..=u8::MAX {
        let count: u32 = counters.iter().map(|counter| counter[usize::from(register)]).sum();
        if count == 0 {
            continue;
        }
        let highest = register >> SEEN_BITS;
        // The shares of all ranks above a rank add up to its own share; above rank 0, to 1.
        let above = if highest >= RANK_MAX { 0.0 } else { f64::powi(2.0, -i32::from(highest)) };
        let mut share = above;
        if highest > 0 {
            seen[usize::from(highest)] += count;
        }
        for below in 1..=u8::min(SEEN_BITS as u8, highest.saturating_sub(1)) {
            let rank = highest - below;
            if register >> (SEEN_BITS as u8 - below) & 1 == 1 {
                seen[usize::from(rank)] += count;
            } else {
                share += share_of(rank);
            }
        }
        missing += f64::from(count) * share;
    }
    (missing, seen)
}

#[cfg(test)]
mod tests;
