//! The transaction table: what recovery has to know of each transaction that has not ended.
//! `docs/design/0045-time-to-open.md`.
//!
//! A running transaction keeps its [`TransactionState`] with its chain, recovery builds it from the records that it
//! reads, and both by the same function ([`TransactionState::apply`]). A checkpoint writes down the states of the
//! transactions that are older than it, so that recovery need not read their earlier records:
//!
//! ```text
//! entry    transaction u64 | begin u64 | last u64 | undo bytes u64 | flags u8 | [coordinator 16 bytes | life u64]
//!          | HOBTs u16 | for each: id u64 | description u64
//!          | records of structure u16 | for each: position u64, plus 1 if it is undone
//!          | pending u16 | for each: position u64 | file u16 | page u32 | extents u32
//! ```
//! An entry is appended under the lock under which the transaction appends its own records. So it says what all
//! earlier records of the transaction say, and nothing of later ones: recovery replaces what it knows by it. A state of
//! more than [`ITEMS_MAX`] items is not written down; recovery then reads that transaction's records.
//!
//! Left to others: the records themselves (crate `access`).

use std::collections::{BTreeMap, BTreeSet};

use hobt_base::{FileId, HobtId, Lsn, PageId};

use crate::global_transaction::GlobalTransaction;

/// The most items that a state which is written down has: HOBTs, records of structure, and extents to be freed.
pub const ITEMS_MAX: usize = 4096;
const ITEM_BYTES_MAX: usize = 18;
const HEAD_BYTES_MAX: usize = 4 * 8 + 1 + 24 + 3 * 2;
const _: () = assert!(HEAD_BYTES_MAX + ITEMS_MAX * ITEM_BYTES_MAX <= hobt_log::PAYLOAD_BYTES_MAX);

/// HOBTs that were changed last, which need not be looked up.
const RECENT: usize = 8;

/// What a record of a transaction says to recovery.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RecordEffect {
    /// The HOBT that its undo changes; 0 if it has none.
    pub hobt: HobtId,
    /// It has an undo that is of no row.
    pub is_structure: bool,
    /// It undoes the record at this position.
    pub compensates: Option<Lsn>,
    /// Extents that are to be freed once the transaction has committed.
    pub defers: Option<(PageId, u32)>,
    /// Extents of these that it frees.
    pub frees: Option<(PageId, u32)>,
    /// It commits its transaction.
    pub commits: bool,
}

/// What the records of a transaction say so far, apart from the changes of rows: those are found by its last record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TransactionState {
    /// It has committed: what it has deferred is still to be done.
    pub committed: bool,
    /// Set if another database decides, or has decided.
    pub prepared: Option<GlobalTransaction>,
    /// Extents to free, by the position of the record that says so.
    pub pending: BTreeMap<Lsn, (PageId, u32)>,
    /// The records of changes of no row that have an undo, and whether they are undone. Changes of rows are undone in
    /// reverse order, so that one position says which are left; the order of these few is not known.
    pub structure: BTreeMap<Lsn, bool>,
    /// The HOBTs that its undo changes.
    pub hobts: BTreeSet<HobtId>,
}

impl TransactionState {
    /// Adds what the record at `lsn` says.
    pub fn apply(&mut self, lsn: Lsn, effect: &RecordEffect) {
        if let Some(undone) = effect.compensates {
            self.structure.entry(undone).and_modify(|is_undone| *is_undone = true);
            self.pending.remove(&undone);
        }
        if effect.is_structure {
            self.structure.insert(lsn, false);
        }
        if effect.hobt != HobtId(0) {
            self.hobts.insert(effect.hobt);
        }
        if let Some(extents) = effect.defers {
            self.pending.insert(lsn, extents);
        }
        // After its commit a transaction changes such a page only to free what it has deferred.
        if let Some(freed) = effect.frees.filter(|_| self.committed) {
            self.pending.retain(|_, pending| *pending != freed);
        }
        self.committed |= effect.commits;
    }

    /// Whether it has committed and deferred nothing that is not done.
    pub fn is_done(&self) -> bool {
        self.committed && self.pending.is_empty()
    }

    fn items(&self) -> usize {
        self.hobts.len() + self.structure.len() + self.pending.len()
    }
}

/// The state of a running transaction, kept beside its last record.
#[derive(Debug, Default)]
pub(crate) struct KeptState {
    state: TransactionState,
    recent: [HobtId; RECENT],
    /// It has too many items to be written down, and is not kept any more.
    is_too_large: bool,
}

impl KeptState {
    pub(crate) fn new(state: TransactionState) -> KeptState {
        let mut kept = KeptState { state, ..KeptState::default() };
        kept.limit();
        kept
    }

    /// As [`TransactionState::apply`]. Costs next to nothing for a change of a row.
    pub(crate) fn apply(&mut self, lsn: Lsn, effect: &RecordEffect) {
        let recent = &mut self.recent[(effect.hobt.0 >> 16) as usize % RECENT];
        if *recent == effect.hobt && *effect == (RecordEffect { hobt: effect.hobt, ..RecordEffect::default() }) {
            return;
        }
        *recent = effect.hobt;
        if !self.is_too_large {
            self.state.apply(lsn, effect);
            self.limit();
        }
    }

    pub(crate) fn prepare(&mut self, by: Option<GlobalTransaction>) {
        self.state.prepared = by;
    }

    /// `None` if it is too large to be written down.
    pub(crate) fn get(&self) -> Option<&TransactionState> {
        (!self.is_too_large).then_some(&self.state)
    }

    fn limit(&mut self) {
        if self.state.items() > ITEMS_MAX {
            (self.is_too_large, self.state) = (true, TransactionState::default());
        }
    }
}

/// An entry of the transaction table, as a checkpoint writes it down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionEntry {
    /// The transaction's number.
    pub transaction: u64,
    /// All that its undo needs is at or behind this position.
    pub begin: Lsn,
    /// Its last record.
    pub last: Lsn,
    /// About how many bytes of log its undo will append, at most.
    pub undo_bytes: u64,
    /// What its records say.
    pub state: TransactionState,
    /// For each of its HOBTs the last record that describes it; 0 if there is none.
    pub described: Vec<Lsn>,
}

/// More than any log has: sums of such numbers do not overflow.
const UNDO_BYTES_MAX: u64 = 1 << 56;

mod flag {
    pub(super) const COMMITTED: u8 = 1;
    pub(super) const PREPARED: u8 = 2;
    pub(super) const ALL: u8 = 3;
}

impl TransactionEntry {
    /// The payload of its record. Its state has at most [`ITEMS_MAX`] items.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES_MAX + self.state.items() * ITEM_BYTES_MAX);
        for word in [self.transaction, self.begin.0, self.last.0, self.undo_bytes] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let state = &self.state;
        let committed = if state.committed { flag::COMMITTED } else { 0 };
        out.push(committed | if state.prepared.is_some() { flag::PREPARED } else { 0 });
        if let Some(by) = &state.prepared {
            out.extend_from_slice(&by.coordinator);
            out.extend_from_slice(&by.life.to_le_bytes());
        }
        put_count(&mut out, state.hobts.len());
        for (hobt, described) in state.hobts.iter().zip(&self.described) {
            out.extend_from_slice(&hobt.0.to_le_bytes());
            out.extend_from_slice(&described.0.to_le_bytes());
        }
        put_count(&mut out, state.structure.len());
        for (lsn, is_undone) in &state.structure {
            out.extend_from_slice(&(lsn.0 | u64::from(*is_undone)).to_le_bytes());
        }
        put_count(&mut out, state.pending.len());
        for (lsn, (first, extents)) in &state.pending {
            out.extend_from_slice(&lsn.0.to_le_bytes());
            out.extend_from_slice(&first.file.0.to_le_bytes());
            out.extend_from_slice(&first.number.to_le_bytes());
            out.extend_from_slice(&extents.to_le_bytes());
        }
        out
    }

    /// The entry in a payload, which may be anything; `None` if it is malformed.
    pub fn decode(payload: &[u8]) -> Option<TransactionEntry> {
        let mut from = Bytes(payload);
        let (transaction, begin, last, undo_bytes) = (from.word()?, Lsn(from.word()?), Lsn(from.word()?), from.word()?);
        let [flags] = from.take()?;
        if transaction == 0 || begin > last || flags & !flag::ALL != 0 || undo_bytes > UNDO_BYTES_MAX {
            return None;
        }
        let prepared = match flags & flag::PREPARED {
            0 => None,
            _ => Some(GlobalTransaction { coordinator: from.take()?, life: from.word()?, number: transaction }),
        };
        let (mut state, mut described) = (TransactionState::default(), Vec::new());
        (state.committed, state.prepared) = (flags & flag::COMMITTED != 0, prepared);
        for _ in 0..from.count()? {
            let is_next = state.hobts.insert(HobtId(from.word()?));
            described.push(Lsn(from.word()?));
            is_next.then_some(())?;
        }
        for _ in 0..from.count()? {
            let word = from.word()?;
            state.structure.insert(Lsn(word & !1), word & 1 != 0);
        }
        for _ in 0..from.count()? {
            let lsn = Lsn(from.word()?);
            let file = FileId(u16::from_le_bytes(from.take()?));
            let number = u32::from_le_bytes(from.take()?);
            state.pending.insert(lsn, (PageId::new(file, number), u32::from_le_bytes(from.take()?)));
        }
        let entry = TransactionEntry { transaction, begin, last, undo_bytes, state, described };
        // Items that are out of order, or there twice, would come back as others.
        (from.0.is_empty() && entry.state.items() <= ITEMS_MAX && entry.encode() == payload).then_some(entry)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).expect("at most ITEMS_MAX").to_le_bytes());
}

/// The rest of a payload.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::*;

    /// An entry with up to `items` items of each kind.
    fn entry(random: &mut SplitMix64, items: u64) -> TransactionEntry {
        let lsn = |random: &mut SplitMix64| Lsn(random.below(1 << 40) * 8);
        let begin = lsn(random);
        let mut state = TransactionState { committed: random.below(2) == 0, ..TransactionState::default() };
        let (transaction, life) = (random.below(1 << 60) + 1, random.next_u64());
        if random.below(3) == 0 {
            state.prepared = Some(GlobalTransaction { coordinator: [7; 16], life, number: transaction });
        }
        for _ in 0..random.below(items + 1) {
            state.hobts.insert(HobtId(random.next_u64()));
            state.structure.insert(lsn(random), random.below(2) == 0);
            let first = PageId::new(FileId(random.next_u64() as u16), random.next_u64() as u32);
            state.pending.insert(lsn(random), (first, random.next_u64() as u32));
        }
        let described = state.hobts.iter().map(|_| lsn(random)).collect();
        let last = Lsn(begin.0 + 8 * random.below(1000));
        TransactionEntry { transaction, begin, last, undo_bytes: random.below(UNDO_BYTES_MAX), state, described }
    }

    #[test]
    fn an_undo_of_more_bytes_than_a_log_has_is_refused() {
        let mut all = entry(&mut SplitMix64::new(1), 5);
        for (bytes, is_taken) in [(UNDO_BYTES_MAX, true), (UNDO_BYTES_MAX + 1, false), (u64::MAX, false)] {
            all.undo_bytes = bytes;
            assert_eq!(TransactionEntry::decode(&all.encode()).is_some(), is_taken, "{bytes}");
        }
    }

    /// An entry comes back from its bytes. Bytes that were cut or changed are another entry or none.
    #[test]
    fn an_entry_comes_back_from_its_bytes_and_from_no_others() {
        let mut random = SplitMix64::new(45);
        for round in 0..300 {
            let entry = entry(&mut random, round % 12);
            let bytes = entry.encode();
            assert_eq!(TransactionEntry::decode(&bytes), Some(entry.clone()));
            for cut in 0..bytes.len() {
                assert_eq!(TransactionEntry::decode(&bytes[..cut]), None, "{cut} of {}", bytes.len());
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(TransactionEntry::decode(&longer), None);
            let mut changed = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            changed[at] ^= 1 << random.below(8);
            let decoded = TransactionEntry::decode(&changed);
            assert!(decoded.is_none_or(|other| other != entry && other.encode() == changed));
        }
    }

    /// A count that the bytes do not have room for ends the decoding, and nothing is allocated by it.
    #[test]
    fn a_count_that_claims_too_much_is_none() {
        let mut bytes = entry(&mut SplitMix64::new(1), 0).encode();
        let counts = bytes.len() - 6;
        for at in [counts, counts + 2, counts + 4] {
            bytes[at..at + 2].fill(255);
            assert_eq!(TransactionEntry::decode(&bytes), None);
            bytes[at..at + 2].fill(0);
        }
        assert!(TransactionEntry::decode(&bytes).is_some());
    }

    /// What is kept beside a running transaction is what its records say, until that is too much.
    #[test]
    fn what_is_kept_is_what_the_records_say() {
        let mut random = SplitMix64::new(46);
        let (mut kept, mut state) = (KeptState::default(), TransactionState::default());
        for at in 1..20_000_u64 {
            let some = |random: &mut SplitMix64| (random.below(300) == 0).then_some(());
            let extents = (PageId::new(FileId(1), random.below(5) as u32), 1);
            let effect = RecordEffect {
                hobt: HobtId(random.below(20) << 16),
                is_structure: some(&mut random).is_some(),
                compensates: some(&mut random).map(|()| Lsn(8 * random.below(at))),
                defers: some(&mut random).map(|()| extents),
                frees: some(&mut random).map(|()| extents),
                commits: at == 19_000,
            };
            kept.apply(Lsn(8 * at), &effect);
            state.apply(Lsn(8 * at), &effect);
            assert_eq!(kept.get(), Some(&state));
        }
        for at in 20_000..20_000 + ITEMS_MAX as u64 {
            kept.apply(Lsn(8 * at), &RecordEffect { is_structure: true, ..RecordEffect::default() });
        }
        assert_eq!(kept.get(), None);
    }
}
