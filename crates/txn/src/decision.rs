//! Commits over several databases: what is decided, by which database, and which databases do not know it yet.
//!
//! The databases that a transaction changed are ordered by their ids. The first is the coordinator: the commit record
//! in its log, which names the others, is the decision. The participants (the others) have been prepared before,
//! durably, and get their commit records afterwards. The decision is kept until all participants have theirs on disk
//! ([`TransactionLog::carry_decisions`]), because the recovery of a prepared transaction asks for it
//! ([`TransactionLog::has_decided`]). A decision that is not known was not made.
//!
//! Left to others: how a participant finds the coordinator (crate `engine`), undo and redo (crate `access`).

use hobt_instruments::planted::{self, Bug};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use hobt_base::Lsn;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_log::{LogError, NewRecord, Reservation, RoomFor};

use crate::chain::{COMMIT_RECORD, DECISION_RECORD, LogChain, PREPARE_RECORD, TransactionLog};
use crate::commit_time::{TIME_BYTES, commit_now, decision_in_commit};
use crate::global_transaction::{DatabaseGuid, GlobalTransaction};
use crate::transaction_table::RecordEffect;

/// A commit over several databases, as recorded in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredDecision {
    /// The life of the log in which it was decided.
    pub life: u64,
    /// The transaction's number.
    pub number: u64,
    /// The databases that were prepared.
    pub participants: Vec<DatabaseGuid>,
}

/// How often each database of an instance reached a state without undecided transactions: opened and recovered, closed
/// cleanly, or dropped.
#[derive(Debug, Default)]
pub struct Settlements(Mutex<HashMap<DatabaseGuid, u64>>);

impl Settlements {
    /// Notes that everything for which the database was prepared until now is done, durably.
    pub fn note(&self, database: DatabaseGuid) {
        *self.0.lock().entry(database).or_default() += 1;
    }

    fn count(&self, database: &DatabaseGuid) -> u64 {
        self.0.lock().get(database).copied().unwrap_or(0)
    }
}

/// A database that has to learn of a decision.
#[derive(Debug)]
struct Participant {
    guid: DatabaseGuid,
    /// Its settlements when it was prepared. One more means that it knows the decision.
    settlements: u64,
    /// Its log, and the position of its commit record there.
    committed: Option<(Weak<TransactionLog>, Lsn)>,
}

#[derive(Debug)]
struct Decision {
    life: u64,
    number: u64,
    participants: Vec<Participant>,
}

/// The decisions of one database that participants may still ask for.
#[derive(Debug)]
pub(crate) struct Decisions(Ranked<Mutex<Vec<Decision>>>);

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions(Ranked::new(Rank::Decisions, Mutex::default()))
    }
}

impl TransactionLog {
    /// The id of the log's database; zeros for the log of no database.
    pub fn guid(&self) -> DatabaseGuid {
        self.guid
    }

    /// Whether this log has the decision to commit the transaction.
    pub fn has_decided(&self, life: u64, number: u64) -> bool {
        self.decisions.0.lock().iter().any(|decision| decision.life == life && decision.number == number)
    }

    /// The number of decisions that participants may still ask for.
    pub fn decision_count(&self) -> usize {
        self.decisions.0.lock().len()
    }

    /// Takes over the decisions that its log had when it was opened.
    pub fn recover_decisions(&self, recovered: Vec<RecoveredDecision>) {
        // If this database was open before in this instance, its participants' settlements so far may be older than its
        // decisions.
        let is_first = self.settlements.count(&self.guid) == 0;
        let participant = |guid| {
            let settlements = if is_first { 0 } else { self.settlements.count(&guid) };
            Participant { guid, settlements, committed: None }
        };
        let mut decisions = self.decisions.0.lock();
        for RecoveredDecision { life, number, participants } in recovered {
            if decisions.iter().all(|known| known.life != life || known.number != number) {
                let participants = participants.into_iter().map(participant).collect();
                decisions.push(Decision { life, number, participants });
            }
        }
    }

    /// Forgets the decisions that all participants know, and appends the others to the log again. Has the participants
    /// flush. Called when a checkpoint has begun, so that no older record is needed for these decisions.
    ///
    /// # Errors
    /// The log has failed.
    pub fn carry_decisions(&self) -> Result<(), LogError> {
        self.tell_participants();
        let decisions = self.decisions.0.lock();
        for decision in decisions.iter().filter(|_| !planted::has(Bug::DecisionsForgotten)) {
            let mut payload = Vec::new();
            payload.extend_from_slice(&decision.life.to_le_bytes());
            payload.extend_from_slice(&decision.number.to_le_bytes());
            decision.participants.iter().for_each(|participant| payload.extend_from_slice(&participant.guid));
            let record = NewRecord { kind: DECISION_RECORD, transaction: 0, previous: Lsn(0), payload: &payload };
            let own = Reservation::default();
            self.reserve_for_checkpoint(&own, payload.len())?;
            self.log().append_always(&record, &own)?;
        }
        Ok(())
    }

    /// Has the participants flush their commit records, and forgets the decisions that all participants know. Returns
    /// the databases that do not know theirs yet, and the error if there was one: their recovery will ask. Blocks
    /// (`WRITELOG`).
    pub fn tell_participants(&self) -> Vec<(DatabaseGuid, Option<LogError>)> {
        // A log that has failed, or is full, learns of it when it is recovered.
        let mut failed: HashMap<DatabaseGuid, LogError> = HashMap::new();
        for (log, lsn) in self.unheard() {
            if let Err(error) = log.log().flush_for(RoomFor::Checkpoint, lsn) {
                failed.insert(log.guid, error);
            }
        }
        let mut decisions = self.decisions.0.lock();
        decisions.retain_mut(|decision| {
            decision.participants.retain(|participant| !participant.has_heard(&self.settlements));
            !decision.participants.is_empty()
        });
        let mut waiting: Vec<DatabaseGuid> =
            decisions.iter().flat_map(|decision| &decision.participants).map(|participant| participant.guid).collect();
        waiting.sort_unstable();
        waiting.dedup();
        waiting.into_iter().map(|guid| (guid, failed.remove(&guid))).collect()
    }

    /// For each log with commit records that are not durable, the latest of them.
    fn unheard(&self) -> Vec<(Arc<TransactionLog>, Lsn)> {
        let mut latest: Vec<(Arc<TransactionLog>, Lsn)> = Vec::new();
        let decisions = self.decisions.0.lock();
        for participant in decisions.iter().flat_map(|decision| &decision.participants) {
            let Some((log, lsn)) = &participant.committed else { continue };
            let Some(log) = log.upgrade().filter(|log| log.log().durable() <= *lsn) else { continue };
            match latest.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &log)) {
                Some((_, known)) => *known = (*known).max(*lsn),
                None => latest.push((log, *lsn)),
            }
        }
        latest
    }

    /// Notes the position of a participant's commit record.
    fn participant_committed(&self, number: u64, participant: &Arc<TransactionLog>, lsn: Lsn) {
        let mut decisions = self.decisions.0.lock();
        let (life, guid) = (self.log().life(), participant.guid);
        let decided = decisions.iter_mut().rev().find(|decision| decision.life == life && decision.number == number);
        let known = decided.and_then(|decision| decision.participants.iter_mut().find(|known| known.guid == guid));
        if let Some(known) = known {
            known.committed = Some((Arc::downgrade(participant), lsn));
        }
    }
}

impl Participant {
    fn has_heard(&self, settlements: &Settlements) -> bool {
        let is_durable =
            |(log, lsn): &(Weak<TransactionLog>, Lsn)| log.upgrade().is_some_and(|log| log.log().durable() > *lsn);
        settlements.count(&self.guid) > self.settlements || self.committed.as_ref().is_some_and(is_durable)
    }
}

/// How a commit over several databases failed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Nothing is decided: the transaction is to be undone.
    Undecided(LogError),
    /// It may be decided: recovery will find out.
    InDoubt(LogError),
}

/// Bytes of a prepare record's payload.
pub(crate) const PREPARE_BYTES: usize = size_of::<DatabaseGuid>() + size_of::<u64>();

/// Bytes of the payload of a commit record that decides for `participants` other databases.
pub(crate) const fn decision_bytes(participants: usize) -> usize {
    TIME_BYTES + size_of::<u64>() + participants * size_of::<DatabaseGuid>()
}

/// Commits a transaction that has written into several logs, the first of which is the coordinator's. Returns when the
/// decision is durable.
pub(crate) fn commit_across(coordinator: &LogChain, participants: &[Arc<LogChain>]) -> Result<(), CommitError> {
    let decider = coordinator.log();
    coordinator.reserve_decision(participants.len()).map_err(CommitError::Undecided)?;
    let mut prepare = decider.guid.to_vec();
    prepare.extend_from_slice(&decider.log().life().to_le_bytes());
    let prepared = participants.iter().map(|chain| chain.append(PREPARE_RECORD, &prepare, &RecordEffect::default()));
    let prepared: Vec<_> = prepared.collect::<Result<_, _>>().map_err(CommitError::Undecided)?;
    for (chain, prepared) in participants.iter().zip(prepared) {
        if planted::has(Bug::PrepareNotDurable) {
            break;
        }
        let room = RoomFor::End(chain.reservation());
        chain.log().log().flush_for(room, prepared.lsn).map_err(CommitError::Undecided)?;
    }
    let decided = decide(coordinator, participants).map_err(CommitError::Undecided)?;
    if let Err(error) = decider.flush_end(coordinator.reservation(), decided) {
        for chain in participants {
            chain
                .log()
                .log()
                .end_life("whether a transaction was committed is known to another database's log, which failed");
        }
        return Err(CommitError::InDoubt(error));
    }
    for chain in participants {
        // It is decided. A log that fails now learns of it when it is recovered.
        if let Ok(appended) = chain.append(COMMIT_RECORD, &commit_now(), &RecordEffect::default()) {
            decider.participant_committed(coordinator.id(), chain.log(), appended.lsn);
        }
    }
    Ok(())
}

/// Appends the decision and remembers it, in one step as seen by a concurrent checkpoint. Returns its position.
fn decide(coordinator: &LogChain, participants: &[Arc<LogChain>]) -> Result<Lsn, LogError> {
    let log = coordinator.log();
    let life = log.log().life();
    let mut payload = commit_now().to_vec();
    payload.extend_from_slice(&life.to_le_bytes());
    participants.iter().for_each(|chain| payload.extend_from_slice(&chain.log().guid));
    let mut decisions = log.decisions.0.lock();
    let appended = coordinator.append(COMMIT_RECORD, &payload, &RecordEffect::default())?;
    let waiting = |chain: &Arc<LogChain>| {
        let guid = chain.log().guid;
        Participant { guid, settlements: log.settlements.count(&guid), committed: None }
    };
    let participants = participants.iter().map(waiting).collect();
    decisions.push(Decision { life, number: coordinator.id(), participants });
    Ok(appended.lsn)
}

/// The first word of a payload, and the rest.
fn word(payload: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = payload.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), rest))
}

fn guids(bytes: &[u8]) -> Option<Vec<DatabaseGuid>> {
    let (guids, rest) = bytes.as_chunks::<16>();
    (rest.is_empty() && !guids.is_empty()).then(|| guids.to_vec())
}

/// The content of a prepare record of the transaction `number`; `None` if the payload is malformed.
pub fn read_prepare(number: u64, payload: &[u8]) -> Option<GlobalTransaction> {
    let (coordinator, rest) = payload.split_first_chunk::<16>()?;
    let (life, rest) = word(rest)?;
    rest.is_empty().then_some(GlobalTransaction { coordinator: *coordinator, life, number })
}

/// The decision in a commit record of the transaction `number` that has one ([`decision_in_commit`]); `None` if the
/// payload is malformed.
pub fn read_commit(number: u64, payload: &[u8]) -> Option<RecoveredDecision> {
    let (life, rest) = word(decision_in_commit(payload))?;
    Some(RecoveredDecision { life, number, participants: guids(rest)? })
}

/// The decision in a record that a checkpoint wrote; `None` if the payload is malformed.
pub fn read_decision(payload: &[u8]) -> Option<RecoveredDecision> {
    let (life, rest) = word(payload)?;
    let (number, rest) = word(rest)?;
    Some(RecoveredDecision { life, number, participants: guids(rest)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_of_a_decision_is_none() {
        for length in 0..64_usize {
            let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            assert_eq!(read_prepare(1, &bytes).is_some(), length == 24, "{length}");
            assert_eq!(read_commit(1, &bytes).is_some(), length > 16 && length % 16 == 0, "{length}");
            assert_eq!(read_decision(&bytes).is_some(), length > 16 && length % 16 == 0, "{length}");
        }
    }
}
