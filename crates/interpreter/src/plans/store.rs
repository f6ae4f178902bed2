//! Store of the plans and costs of statements that ran: the source of `sys.dm_exec_query_stats` and related views.
//!
//! An execution may use a plan that is kept here from an earlier one (`reuse`). An entry is one statement in its text,
//! under the database and options that it ran in, with one shape of plan. Another shape makes another entry. Texts are
//! identified by a 64-bit hash. A statement may be entered under its parameterised text (`identity`): it is then one
//! entry, whatever its constants are.
//!
//! For a quick statement that runs once, only figures are kept. Its plan is recorded when it runs again, or when it
//! takes at least a millisecond. So a client that sends a different text for each row pays only for hashing it, and for
//! its parameterised text.
//! The store's memory comes from the instance's budget, up to a part of it. When the store is full, a new entry
//! replaces the least recently used ones. When the budget is exhausted, nothing is kept.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hobt_base::{DatabaseId, PAGE_SIZE};
use hobt_engine::time_of_day;
use hobt_instruments::schedule::Mutex;
use hobt_tsql::ast::Span;
use hobt_txn::{MemoryAccount, MemoryBudget};

use super::kept_statement::KeptStatement;
use crate::event::StatementStatistics;
use hobt_showplan::{Fnv, MemoryShown, ShownStatement};
use hobt_table::MemoryFigures;

/// The upper limit of the store in bytes, and its part of the budget.
const BYTES_MAX: u64 = 32 << 20;
const BUDGET_PART: u64 = 32;
/// Larger texts and plans are not kept.
const ENTRY_BYTES_MAX: u64 = 1 << 20;
/// The plans of one statement that are kept for other executions: for values of variables, and settings.
const KEPT_MAX: usize = 8;
/// After so many attempts, a statement is not tried to be learned any more.
const UNLEARNED_MAX: u64 = 8;
/// The size of an entry without its text and plan.
const ENTRY_BYTES: u64 = 1 << 10;

/// The plan store of an instance.
#[derive(Debug)]
pub struct PlanStore {
    entries: Mutex<Entries>,
    account: MemoryAccount,
    bytes_max: u64,
    /// A logical clock that orders uses, for eviction.
    clock: AtomicU64,
}

#[derive(Default, Debug)]
struct Entries {
    /// For each statement, its plans.
    plans: HashMap<StatementId, Vec<Arc<PlanEntry>>>,
    /// The texts of batches by handle.
    texts: HashMap<u64, Arc<str>>,
}

impl Entries {
    fn find(&self, key: &StatementKey) -> Option<&Arc<PlanEntry>> {
        self.plans.get(&key.statement())?.iter().find(|entry| entry.key == *key)
    }

    /// Whether an entry was not evicted.
    fn has(&self, entry: &PlanEntry) -> bool {
        let plans = self.plans.get(&entry.key.statement());
        plans.is_some_and(|plans| plans.iter().any(|known| std::ptr::eq(&**known, entry)))
    }

    /// Removes the texts that no plan refers to.
    fn forget_texts(&mut self) {
        let left: HashSet<u64> = self.plans.keys().map(|(text, ..)| *text).collect();
        self.texts.retain(|text, _| left.contains(text));
    }
}

/// Identifies a statement: its text, its position in it, and the database and options that it ran under.
type StatementId = (u64, u32, DatabaseId, i64);

/// Identifies a statement and its plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StatementKey {
    text: u64,
    start: u32,
    database: DatabaseId,
    /// The procedure that contains it. 0 for a batch.
    procedure: i32,
    options: i64,
    shape: u64,
}

impl StatementKey {
    pub(crate) fn new(
        text: u64,
        span: Span,
        (database, procedure, options): (DatabaseId, i32, i64),
        shape: u64,
    ) -> StatementKey {
        StatementKey { text, start: span.start, database, procedure, options, shape }
    }

    fn statement(&self) -> StatementId {
        (self.text, self.start, self.database, self.options)
    }
}

/// What identifies a statement in the store, but the shape of its plan.
pub(super) struct Identity {
    pub(super) text: Arc<str>,
    /// The hash of the text.
    pub(super) hash: u64,
    /// The statement's place in the text.
    pub(super) span: Span,
    /// The database, the procedure that contains it, and the options that it runs under.
    pub(super) under: (DatabaseId, i32, i64),
    pub(super) is_parameterized: bool,
}

impl Identity {
    pub(super) fn key(&self, shape: u64) -> StatementKey {
        StatementKey::new(self.hash, self.span, self.under, shape)
    }
}

/// The hash of a text.
pub(super) fn text_hash(text: &str) -> u64 {
    let mut hash = Fnv::default();
    hash.add(text.as_bytes());
    hash.value()
}

/// The hash of a statement without its constants.
pub(super) fn query_hash(text: &str) -> u64 {
    text_hash(&hobt_tsql::without_constants(text))
}

/// `sql_handle` of a text.
pub fn sql_handle(text: &str) -> Vec<u8> {
    handle_of(text_hash(text))
}

fn handle_of(hash: u64) -> Vec<u8> {
    [2_u64.to_be_bytes(), hash.to_be_bytes()].concat()
}

/// The cost of one execution.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Measure {
    /// Processor time, in µs.
    pub worker_time: u64,
    /// Elapsed time, in µs.
    pub elapsed_time: u64,
    /// Elapsed time of binding and planning, or of taking a plan that is kept, in µs. A part of the former.
    pub compile_time: u64,
    /// Pages accessed.
    pub logical_reads: u64,
    /// Pages read from disk.
    pub physical_reads: u64,
    /// Pages that became dirty, or were written for the first time.
    pub logical_writes: u64,
    /// Rows sent or changed.
    pub rows: u64,
    /// Workers.
    pub dop: u64,
    /// Pages that operators wrote to disk because memory was short.
    pub spills: u64,
    /// Memory that it was admitted with, in KB.
    pub grant_kb: u64,
    /// The most memory that its operators held at one time, in KB.
    pub used_grant_kb: u64,
    /// The memory that its operators were estimated to need, in KB.
    pub ideal_grant_kb: u64,
}

impl Measure {
    pub(super) fn of(cost: &StatementStatistics, rows: u64) -> Measure {
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let pages = |of: fn(&crate::event::TableReads) -> u64| cost.reads.iter().map(of).sum();
        Measure {
            worker_time: micros(cost.cpu),
            elapsed_time: micros(cost.elapsed),
            compile_time: micros(cost.compile),
            logical_reads: pages(|reads| reads.logical + reads.lob_logical),
            logical_writes: cost.pages_dirtied,
            physical_reads: pages(|reads| reads.physical + reads.read_ahead + reads.lob_physical),
            rows,
            dop: cost.degree_of_parallelism as u64,
            ..Measure::default()
        }
    }

    /// Adds the memory that its operators were granted, and what they spilled to disk.
    pub(super) fn with_memory(self, figures: &[Arc<MemoryFigures>], spilled_bytes: u64) -> Measure {
        let shown: Vec<MemoryShown> = figures.iter().map(|figures| figures.shown()).collect();
        let kilobytes = |of: fn(&MemoryShown) -> u64| shown.iter().map(|one| of(one).div_ceil(1024)).sum();
        Measure {
            spills: spilled_bytes.div_ceil(PAGE_SIZE as u64),
            grant_kb: kilobytes(|one| one.granted),
            used_grant_kb: kilobytes(|one| one.held_most),
            ideal_grant_kb: kilobytes(|one| one.ideal),
            ..self
        }
    }

    /// Combines each figure of both with `with`.
    fn joined(self, other: Measure, with: fn(u64, u64) -> u64) -> Measure {
        Measure {
            worker_time: with(self.worker_time, other.worker_time),
            elapsed_time: with(self.elapsed_time, other.elapsed_time),
            compile_time: with(self.compile_time, other.compile_time),
            logical_reads: with(self.logical_reads, other.logical_reads),
            physical_reads: with(self.physical_reads, other.physical_reads),
            logical_writes: with(self.logical_writes, other.logical_writes),
            rows: with(self.rows, other.rows),
            dop: with(self.dop, other.dop),
            spills: with(self.spills, other.spills),
            grant_kb: with(self.grant_kb, other.grant_kb),
            used_grant_kb: with(self.used_grant_kb, other.used_grant_kb),
            ideal_grant_kb: with(self.ideal_grant_kb, other.ideal_grant_kb),
        }
    }
}

/// The cost of all executions of a statement with one plan.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryStats {
    /// Executions whose cost was measured.
    pub measured: u64,
    /// Executions without a plan in a loop. They are in no other figure.
    pub direct: u64,
    /// Executions that used the plan of an earlier one.
    pub reused: u64,
    /// Measured executions that had no plan: of a batch that was sent again.
    pub apart: u64,
    /// The sum over the measured executions.
    pub total: Measure,
    /// The last execution.
    pub last: Measure,
    /// The minimum of each figure.
    pub min: Measure,
    /// The maximum of each figure.
    pub max: Measure,
    /// When the last one ended, 100 ns since 1970-01-01 UTC.
    pub last_time: i64,
}

/// A statement with one plan.
#[derive(Debug)]
pub(crate) struct PlanEntry {
    key: StatementKey,
    /// Its position in its text, in bytes.
    span: (u32, u32),
    /// Whether its text has parameters in place of constants.
    is_parameterized: bool,
    /// The statement with its plan, once that is recorded.
    statement: OnceLock<ShownStatement>,
    query_hash: u64,
    /// When its plan was first made, 100 ns since 1970-01-01 UTC.
    created: i64,
    bytes: AtomicU64,
    stats: Mutex<QueryStats>,
    direct: AtomicU64,
    last_used: AtomicU64,
    /// Its plans for other executions, the most recent last.
    kept: Mutex<Vec<Arc<KeptStatement>>>,
    /// Executions that used one of them.
    reused: AtomicU64,
    /// Measured executions that had no plan.
    apart: AtomicU64,
    /// How often the statement could not be learned.
    unlearned: AtomicU64,
}

/// An entry, as views show it.
#[derive(Clone, Debug)]
pub struct CachedPlan {
    /// `sql_handle`.
    pub sql_handle: Vec<u8>,
    /// `plan_handle`: shared by all statements of one text under the same database and options.
    pub plan_handle: Vec<u8>,
    /// `query_hash`.
    pub query_hash: u64,
    /// `query_plan_hash`. 0 if no plan is kept.
    pub plan_hash: u64,
    /// The text that contains the statement.
    pub text: Arc<str>,
    /// Its start and end in the text, in bytes of UTF-8.
    pub span: (u32, u32),
    /// Whether the text has parameters in place of constants.
    pub is_parameterized: bool,
    /// The database.
    pub database: DatabaseId,
    /// The procedure that contains it. 0 for a batch.
    pub procedure: i32,
    /// When its plan was first made, 100 ns since 1970-01-01 UTC.
    pub created: i64,
    /// Memory that it takes, in bytes.
    pub bytes: u64,
    /// Its cost.
    pub stats: QueryStats,
    /// The statement with its plan. `None` if it ran once and was quick.
    pub statement: Option<ShownStatement>,
}

impl PlanEntry {
    /// Adds an execution.
    pub(super) fn record(&self, measure: &Measure) {
        let mut stats = self.stats.lock();
        let is_first = stats.measured == 0;
        stats.measured += 1;
        stats.total = stats.total.joined(*measure, u64::saturating_add);
        stats.last = *measure;
        stats.min = if is_first { *measure } else { stats.min.joined(*measure, u64::min) };
        stats.max = stats.max.joined(*measure, u64::max);
        stats.last_time = time_of_day();
    }

    /// Adds an execution that had no plan and took this time, gave or changed `rows` rows and looked at `pages` pages.
    pub(crate) fn record_direct(&self, elapsed: Duration, cpu: Duration, rows: u64, pages: u64) {
        let cost = StatementStatistics { elapsed, cpu, degree_of_parallelism: 1, ..StatementStatistics::default() };
        self.record(&Measure { logical_reads: pages, ..Measure::of(&cost, rows) });
        self.apart.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it may be tried to learn the statement, so that it runs without a plan.
    pub(crate) fn may_be_learned(&self) -> bool {
        self.unlearned.load(Ordering::Relaxed) < UNLEARNED_MAX
    }

    /// Notes that the statement could not be learned: because of its text, or of an isolation level that may pass.
    pub(crate) fn note_unlearned(&self) {
        self.unlearned.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether its plan is recorded.
    pub(super) fn has_plan(&self) -> bool {
        self.statement.get().is_some()
    }

    /// Adds an execution that used the plan of an earlier one.
    pub(super) fn count_reuse(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds an execution that had no plan. This only increments a counter, because such a statement may run a million
    /// times a second.
    pub(crate) fn count_direct(&self) {
        self.direct.fetch_add(1, Ordering::Relaxed);
    }
}

impl PlanStore {
    /// An empty store.
    pub fn new(budget: &Arc<MemoryBudget>) -> Arc<PlanStore> {
        let bytes_max = BYTES_MAX.min(budget.limit() / BUDGET_PART);
        let account = MemoryAccount::new(budget, "Plans");
        Arc::new(PlanStore { entries: Mutex::default(), account, bytes_max, clock: AtomicU64::new(0) })
    }

    fn touch(&self, entry: &Arc<PlanEntry>) -> Arc<PlanEntry> {
        entry.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Arc::clone(entry)
    }

    /// Finds a statement with this plan.
    pub(super) fn find(&self, key: &StatementKey) -> Option<Arc<PlanEntry>> {
        self.entries.lock().find(key).map(|entry| self.touch(entry))
    }

    /// Finds a statement with its most recently used plan.
    pub(super) fn latest(&self, key: &StatementKey) -> Option<Arc<PlanEntry>> {
        let entries = self.entries.lock();
        let plans = entries.plans.get(&key.statement())?;
        plans.iter().max_by_key(|entry| entry.last_used.load(Ordering::Relaxed)).map(|entry| self.touch(entry))
    }

    /// Adds a statement, without its plan for now. If it was added in the meantime, returns that entry. `None` if there
    /// is no room.
    pub(super) fn insert(&self, known: &Identity, shape: u64) -> Option<Arc<PlanEntry>> {
        let (key, text, span) = (known.key(shape), &known.text, known.span);
        let bytes = ENTRY_BYTES + text.len() as u64;
        if bytes > ENTRY_BYTES_MAX.min(self.bytes_max) {
            return None;
        }
        let statement = text.get(span.start as usize..span.end as usize).unwrap_or_default();
        let entry = Arc::new(PlanEntry {
            key,
            span: (span.start, span.end),
            is_parameterized: known.is_parameterized,
            statement: OnceLock::new(),
            query_hash: query_hash(statement),
            created: time_of_day(),
            bytes: AtomicU64::new(bytes),
            stats: Mutex::default(),
            direct: AtomicU64::new(0),
            last_used: AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed)),
            kept: Mutex::default(),
            reused: AtomicU64::new(0),
            apart: AtomicU64::new(0),
            unlearned: AtomicU64::new(0),
        });
        let mut entries = self.entries.lock();
        if let Some(known) = entries.find(&key) {
            return Some(self.touch(known));
        }
        self.make_room(&mut entries, bytes)?;
        entries.texts.entry(key.text).or_insert_with(|| Arc::clone(text));
        entries.plans.entry(key.statement()).or_default().push(Arc::clone(&entry));
        Some(entry)
    }

    /// Records the plan of an entry, if there is room.
    pub(super) fn fill(&self, entry: &PlanEntry, statement: ShownStatement) {
        let bytes = statement.bytes();
        let mut entries = self.entries.lock();
        // An entry evicted in the meantime has already released its memory.
        if !entries.has(entry) || entry.has_plan() || self.make_room(&mut entries, bytes).is_none() {
            return;
        }
        if !entries.has(entry) || entry.statement.set(statement).is_err() {
            self.account.shrink(bytes);
            return;
        }
        entry.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The plans of a statement that are kept for other executions, the most recent first.
    pub(super) fn kept(&self, key: &StatementKey) -> Vec<(Arc<PlanEntry>, Arc<KeptStatement>)> {
        let entries = self.entries.lock();
        let of = |entry: &Arc<PlanEntry>| {
            let kept = entry.kept.lock();
            kept.iter().rev().map(|kept| (Arc::clone(entry), Arc::clone(kept))).collect::<Vec<_>>()
        };
        entries.plans.get(&key.statement()).into_iter().flatten().flat_map(of).collect()
    }

    /// Keeps a plan of a statement for other executions, if there is room.
    pub(super) fn keep(&self, entry: &PlanEntry, kept: Arc<KeptStatement>) {
        let bytes = kept.bytes();
        let mut entries = self.entries.lock();
        if bytes > ENTRY_BYTES_MAX || !entries.has(entry) || self.make_room(&mut entries, bytes).is_none() {
            return;
        }
        if !entries.has(entry) {
            self.account.shrink(bytes);
            return;
        }
        // Those that it replaces may have had another shape.
        for other in entries.plans.get(&entry.key.statement()).into_iter().flatten() {
            other.kept.lock().retain(|known| {
                let stays = !kept.replaces(known);
                if !stays {
                    self.release(other, known);
                }
                stays
            });
        }
        entry.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut all = entry.kept.lock();
        if all.len() >= KEPT_MAX {
            // Not one that is for any values, as long as there is another.
            let oldest = all.iter().position(|kept| !kept.general.is_for_some()).unwrap_or(0);
            self.release(entry, &all.remove(oldest));
        }
        all.push(kept);
    }

    /// Drops a plan that no execution can use any more.
    pub(super) fn forget(&self, entry: &PlanEntry, kept: &Arc<KeptStatement>) {
        let entries = self.entries.lock();
        let mut all = entry.kept.lock();
        if let Some(at) = all.iter().position(|known| Arc::ptr_eq(known, kept)) {
            let known = all.remove(at);
            if entries.has(entry) {
                self.release(entry, &known);
            }
        }
    }

    /// Releases the memory of a plan that an entry no longer has.
    fn release(&self, entry: &PlanEntry, kept: &KeptStatement) {
        entry.bytes.fetch_sub(kept.bytes(), Ordering::Relaxed);
        self.account.shrink(kept.bytes());
    }

    /// Reserves memory. Evicts other entries if necessary.
    fn make_room(&self, entries: &mut Entries, bytes: u64) -> Option<()> {
        if bytes > self.bytes_max {
            return None;
        }
        if self.account.held() + bytes > self.bytes_max {
            self.evict(entries, bytes);
        }
        self.account.grow(bytes).ok()
    }

    /// Evicts the least recently used entries until an eighth of the store is free in addition to `bytes`.
    fn evict(&self, entries: &mut Entries, bytes: u64) {
        let wanted = (self.bytes_max - self.bytes_max / 8).saturating_sub(bytes);
        let mut by_use: Vec<(u64, StatementKey)> = entries
            .plans
            .values()
            .flatten()
            .map(|entry| (entry.last_used.load(Ordering::Relaxed), entry.key))
            .collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        // Plans that were never used again go before any figures do: those of texts that come once.
        for (_, key) in &by_use {
            if self.account.held() <= wanted {
                return;
            }
            let Some(entry) = entries.find(key).filter(|entry| entry.reused.load(Ordering::Relaxed) == 0) else {
                continue;
            };
            entry.kept.lock().drain(..).for_each(|kept| self.release(entry, &kept));
        }
        for (_, key) in by_use {
            if self.account.held() <= wanted {
                break;
            }
            if let Some(plans) = entries.plans.get_mut(&key.statement()) {
                plans.retain(|entry| {
                    let stays = entry.key != key;
                    if !stays {
                        self.account.shrink(entry.bytes.load(Ordering::Relaxed));
                    }
                    stays
                });
            }
        }
        entries.plans.retain(|_, plans| !plans.is_empty());
        entries.forget_texts();
    }

    /// Removes all plans, or those of one text if a handle is given: `DBCC FREEPROCCACHE`.
    pub fn clear(&self, plan_handle: Option<&[u8]>) {
        let mut entries = self.entries.lock();
        let plans = &mut entries.plans;
        let goes = |entry: &PlanEntry| {
            plan_handle.is_none_or(|handle| handle == plan_handle_of(&entry.key) || handle == handle_of(entry.key.text))
        };
        for all in plans.values_mut() {
            all.retain(|entry| {
                let is_kept = !goes(entry);
                if !is_kept {
                    self.account.shrink(entry.bytes.load(Ordering::Relaxed));
                }
                is_kept
            });
        }
        plans.retain(|_, all| !all.is_empty());
        entries.forget_texts();
    }

    /// All plans, ordered by plan handle and position in the text.
    pub fn all(&self) -> Vec<CachedPlan> {
        let entries = self.entries.lock();
        let mut all: Vec<CachedPlan> = Vec::new();
        for entry in entries.plans.values().flatten() {
            let Some(text) = entries.texts.get(&entry.key.text) else { continue };
            let counts = [&entry.direct, &entry.reused, &entry.apart];
            let [direct, reused, apart] = counts.map(|count| count.load(Ordering::Relaxed));
            let stats = QueryStats { direct, reused, apart, ..*entry.stats.lock() };
            // A form of which no statement has run yet (`note_form`).
            if stats.measured == 0 && stats.direct == 0 {
                continue;
            }
            all.push(CachedPlan {
                sql_handle: handle_of(entry.key.text),
                plan_handle: plan_handle_of(&entry.key),
                query_hash: entry.query_hash,
                plan_hash: entry.statement.get().map_or(0, ShownStatement::plan_hash),
                text: Arc::clone(text),
                span: entry.span,
                is_parameterized: entry.is_parameterized,
                database: entry.key.database,
                procedure: entry.key.procedure,
                created: entry.created,
                bytes: entry.bytes.load(Ordering::Relaxed),
                stats,
                statement: entry.statement.get().cloned(),
            });
        }
        all.sort_by(|a, b| (&a.plan_handle, a.span, a.created).cmp(&(&b.plan_handle, b.span, b.created)));
        all
    }
}

/// `plan_handle`: the text, the database and the options.
fn plan_handle_of(key: &StatementKey) -> Vec<u8> {
    let mut hash = Fnv::default();
    hash.add(&key.text.to_le_bytes());
    hash.add(&key.database.0.to_le_bytes());
    hash.add(&key.options.to_le_bytes());
    let kind: u8 = if key.procedure == 0 { 6 } else { 5 };
    let head = [kind, 0];
    [&head[..], &key.database.0.to_be_bytes(), &hash.value().to_be_bytes(), &key.text.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(text: &str) -> Identity {
        let (text, hash, under) = (Arc::from(text), text_hash(text), (DatabaseId(5), 0, 0));
        Identity { text, hash, span: Span::default(), under, is_parameterized: false }
    }

    fn keep(store: &PlanStore, text: &str, shape: u64) -> Option<Arc<PlanEntry>> {
        let known = identity(text);
        let entry = store.find(&known.key(shape)).or_else(|| store.insert(&known, shape));
        entry.iter().for_each(|entry| entry.count_direct());
        entry
    }

    #[test]
    fn a_full_store_forgets_what_was_used_longest_ago() {
        let budget = MemoryBudget::new(4 << 20);
        let store = PlanStore::new(&budget);
        let texts: Vec<String> = (0..1000).map(|number| format!("SELECT {number} AS a")).collect();
        for text in &texts {
            let entry = keep(&store, text, 0).expect("there is room for one more");
            store.fill(&entry, ShownStatement::plain(text, "SELECT"));
            keep(&store, &texts[0], 0).expect("it is there, or there is room");
        }
        let kept: Vec<String> = store.all().iter().map(|plan| plan.text.to_string()).collect();
        assert!(kept.len() > 10 && kept.len() < texts.len(), "{}", kept.len());
        assert!(kept.contains(&texts[0]) && kept.contains(&texts[999]) && !kept.contains(&texts[1]));
        assert!(budget.used() <= (4 << 20) / BUDGET_PART, "{}", budget.used());
        store.clear(None);
        assert_eq!((store.all().len(), budget.used()), (0, 0));
    }

    #[test]
    fn each_shape_of_plan_has_figures_of_its_own() {
        let store = PlanStore::new(&MemoryBudget::new(1 << 30));
        let first = keep(&store, "SELECT 1", 1).expect("there is room");
        for rows in [5, 1, 3] {
            first.record(&Measure { rows, ..Measure::default() });
        }
        first.count_direct();
        keep(&store, "SELECT 1", 2).expect("there is room").record(&Measure::default());
        let all = store.all();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].plan_handle, all[1].plan_handle);
        let stats = all.iter().map(|plan| plan.stats).find(|stats| stats.measured == 3).expect("the first");
        assert_eq!((stats.total.rows, stats.last.rows, stats.min.rows, stats.max.rows, stats.direct), (9, 3, 1, 5, 2));
        store.clear(Some(&all[0].sql_handle));
        assert!(store.all().is_empty());
    }

    #[test]
    fn two_who_keep_one_statement_at_once_have_one_entry() {
        let budget = MemoryBudget::new(1 << 30);
        let store = PlanStore::new(&budget);
        let known = identity("SELECT 1");
        assert!(store.find(&known.key(1)).is_none());
        let first = store.insert(&known, 1).expect("there is room");
        let used = budget.used();
        let second = store.insert(&known, 1).expect("it is there");
        assert!(Arc::ptr_eq(&first, &second));
        assert!(store.all().is_empty(), "it has not run");
        first.count_direct();
        assert_eq!((store.all().len(), budget.used()), (1, used));
    }

    #[test]
    fn nothing_is_kept_where_the_budget_has_nothing_left() {
        let budget = MemoryBudget::new(64 << 20);
        let store = PlanStore::new(&budget);
        let account = MemoryAccount::new(&budget, "Other");
        account.grow(64 << 20).expect("all of it is free");
        assert!(keep(&store, "SELECT 1", 0).is_none());
    }

    #[test]
    fn a_plan_that_comes_when_its_statement_was_forgotten_takes_no_memory() {
        let budget = MemoryBudget::new(1 << 30);
        let store = PlanStore::new(&budget);
        let entry = keep(&store, "SELECT 1", 0).expect("there is room");
        store.clear(None);
        store.fill(&entry, ShownStatement::plain("SELECT 1", "SELECT"));
        assert_eq!(budget.used(), 0);
    }
}
