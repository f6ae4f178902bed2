//! The memory of one statement's operators.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use hobt_instruments::schedule::Mutex;
use hobt_txn::MemoryAccount;
#[cfg(test)]
use hobt_txn::MemoryBudget;

use super::operator_memory::OperatorMemory;
use hobt_table::MemoryFigures;
use hobt_udf::REFUSED;

/// The memory pool of one statement's operators: its grant, and memory lent beyond it.
///
/// Operators that can spill share a third evenly. A sort that spills first merges what it holds, and for that needs up
/// to twice as much again, which cannot be spilled: if the spillable operators held all memory, no spill could begin. A
/// merge of spilled runs reads as many files at once as it gets memory for, so the merges share another half. The rest
/// is for the consumers of the sorted rows.
pub(super) struct StatementPool {
    memory: Arc<OperatorMemory>,
    account: MemoryAccount,
    figures: Arc<MemoryFigures>,
    /// The most that it may hold at all, in bytes.
    most: u64,
    state: Mutex<State>,
}

/// All sizes are in bytes.
#[derive(Debug, Default)]
struct State {
    granted: u64,
    held: u64,
    /// The numbers of operators that can spill, of the groupings among them, and of merges.
    spillers: u64,
    groups: u64,
    merges: u64,
    /// The memory that exchanges report to hold.
    exchanges: u64,
    /// The memory that joins have released after reading build sides, for the hash tables built from them.
    build_sides: u64,
    /// The memory of build sides, of sides that are read to be kept, and of hash tables.
    sides: u64,
    /// The memory of filters.
    filters: u64,
}

impl State {
    /// What a grouping may hold in any case if the statement may hold `limit`. While it reads what it has spilled it
    /// has two blocks of 2 MiB for each column of texts.
    fn groups_least(&self, limit: u64) -> u64 {
        const OF_TWO_TEXTS: u64 = 10 << 20;
        (limit / 4).min(limit / 3 * 2 / self.groups.max(1)).min(OF_TWO_TEXTS)
    }

    /// A consumer holds `more`.
    fn note(&mut self, kind: Kind, more: u64) {
        match kind {
            Kind::Filter => self.filters += more,
            kind if kind.is_side() => self.sides += more,
            _ => {}
        }
    }

    /// What the sides of joins leave to the sorts and groupings that feed them, which end the statement if they find
    /// nothing to read their spilled rows with. A join spills instead.
    fn kept_from_sides(&self, limit: u64) -> u64 {
        let third = if self.spillers + self.merges > 0 { limit / 3 } else { 0 };
        third.max(self.groups * self.groups_least(limit)).saturating_sub(self.held - self.sides)
    }
}

/// The kind of a consumer, derived from the name that DataFusion gives it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Passes rows from one worker to another.
    ///
    /// It is never refused: what it cannot reserve it would spill, and two workers that spill for one reader wait for
    /// each other forever (apache/datafusion issue 24883, fixed after 55.2). It holds a few batches per worker. A batch
    /// of texts counts with all the buffers that it shares with other batches, so the sum exceeds the real memory.
    /// Therefore it counts only up to a part of the operators' memory, or the operators that can spill would get
    /// nothing.
    Exchange,
    /// Merges the parts of a sort.
    Merge,
    /// Reads a build side, to check whether it fits (`spill_join`).
    BuildSide,
    /// Reads a side that is written to files if it does not fit (`range_join`).
    Side,
    /// Builds a hash table from rows that were found to fit.
    HashTable,
    /// Can do without: collects the keys of a join's side for the scans of the other (`join_filter`), numbers groups
    /// while they are few (`few_groups`, `group_scan`), keeps the best of each group (`rank_limit`).
    Filter,
    /// Makes groups from their parts. What it has spilled it reads under the same name, and then a refusal ends the
    /// statement. So it may have [`State::groups_least`], however many others share the memory.
    Groups,
    /// Any other consumer that can spill.
    Spiller,
    /// Any other consumer that cannot spill.
    Keeper,
}

/// The filters of a statement may hold this part (1/n) of its memory.
const FILTERS: u64 = 8;
/// Exchanges count up to this part (1/n) of the operators' memory.
const EXCHANGES: u64 = 16;

impl Kind {
    /// Whether it holds a side of a join.
    fn is_side(self) -> bool {
        matches!(self, Kind::BuildSide | Kind::Side | Kind::HashTable)
    }

    fn of(consumer: &MemoryConsumer) -> Kind {
        let begins = |name: &str| consumer.name().starts_with(name);
        match consumer.can_spill() {
            _ if begins("RepartitionExec") => Kind::Exchange,
            _ if begins("ExternalSorterMerge") => Kind::Merge,
            _ if begins("HashJoinBuild") => Kind::BuildSide,
            _ if begins("RangeJoinBuild") => Kind::Side,
            _ if begins("HashJoinInput") => Kind::HashTable,
            _ if begins("JoinFilter") || begins("FewGroups") => Kind::Filter,
            _ if begins("GroupScan") || begins("RankLimit") => Kind::Filter,
            true if begins("FinalHash") || begins("SingleHash") || begins("GroupedHash") => Kind::Groups,
            true if begins("OrderedFinal") => Kind::Groups,
            true => Kind::Spiller,
            false => Kind::Keeper,
        }
    }
}

impl StatementPool {
    /// The pool of a statement with a grant of `granted` from `memory`, which may hold at most `most`, in bytes.
    pub(super) fn new(
        memory: &Arc<OperatorMemory>,
        granted: u64,
        most: u64,
        figures: Arc<MemoryFigures>,
    ) -> StatementPool {
        let account = MemoryAccount::new(&memory.budget, super::CLERK);
        let state = Mutex::new(State { granted, ..State::default() });
        StatementPool { memory: Arc::clone(memory), account, figures, most, state }
    }

    /// Returns the grant. Memory still held is returned when its holders release it.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        self.memory.unclaim(state.granted.saturating_sub(state.held));
        state.granted = 0;
        self.figures.gives_back();
    }

    /// The most that the statement may hold now.
    fn limit(&self, state: &State) -> u64 {
        (state.granted.max(state.held) + self.memory.free()).min(self.most)
    }

    /// Reserves `bytes`. Beyond the grant this requires that the sum of all claims does not exceed `most`.
    fn take(&self, state: &mut State, bytes: u64, most: u64) -> PlanResult<()> {
        let after = state.held.saturating_add(bytes);
        let beyond = after.saturating_sub(state.granted.max(state.held));
        if after > self.most || beyond > 0 && !self.memory.claim(beyond, most) {
            let limit = self.limit(state);
            return Err(refused(format!("{bytes} bytes were asked for beyond {} of {limit}.", state.held)));
        }
        if let Err(error) = self.account.grow(bytes) {
            self.memory.unclaim(beyond);
            return Err(refused(format!("{error}.")));
        }
        state.held += bytes;
        self.figures.holds(state.held);
        Ok(())
    }

    /// Reserves memory that is already in use, or was found to be available.
    fn take_anyway(&self, state: &mut State, bytes: u64) {
        let beyond = (state.held + bytes).saturating_sub(state.granted.max(state.held));
        self.memory.claim_anyway(beyond);
        self.account.overdraw(bytes);
        state.held += bytes;
        self.figures.holds(state.held);
    }

    fn give_back(&self, state: &mut State, bytes: u64) {
        self.account.shrink(bytes);
        let before = state.granted.max(state.held);
        state.held -= bytes;
        self.memory.unclaim(before - state.granted.max(state.held));
        self.figures.holds(state.held);
    }

    /// Sets the exchanges' memory to `exchanges`. It counts only up to a part of the operators' memory.
    fn exchange(&self, state: &mut State, exchanges: u64) {
        let counted = |bytes: u64| bytes.min(self.memory.total() / EXCHANGES);
        let (before, after) = (counted(state.exchanges), counted(exchanges));
        state.exchanges = exchanges;
        if after > before {
            self.take_anyway(state, after - before);
        } else {
            self.give_back(state, before - after);
        }
    }
}

fn refused(text: String) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("{REFUSED}{text}"))
}

/// The pool of a statement that may use all of `bytes`.
#[cfg(test)]
pub(crate) fn pool_of(bytes: u64) -> Arc<dyn MemoryPool> {
    OperatorMemory::new(&MemoryBudget::new(bytes)).pool_of_all()
}

impl fmt::Debug for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementPool").field("state", &self.state).finish_non_exhaustive()
    }
}

impl fmt::Display for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        write!(f, "a statement's memory ({} bytes held, {} granted)", state.held, state.granted)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        match Kind::of(consumer) {
            Kind::Merge => state.merges += 1,
            Kind::Groups => {
                state.groups += 1;
                state.spillers += 1;
            }
            Kind::Spiller => state.spillers += 1,
            _ => {}
        }
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut state = self.state.lock();
        match Kind::of(consumer) {
            Kind::Merge => state.merges -= 1,
            Kind::Groups => {
                state.groups -= 1;
                state.spillers -= 1;
            }
            Kind::Spiller => state.spillers -= 1,
            _ => {}
        }
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let (mut state, more) = (self.state.lock(), additional as u64);
        match Kind::of(reservation.consumer()) {
            Kind::Exchange => {
                let exchanges = state.exchanges + more;
                self.exchange(&mut state, exchanges);
            }
            kind => {
                state.note(kind, more);
                self.take_anyway(&mut state, more);
            }
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let (mut state, less) = (self.state.lock(), shrink as u64);
        let kind = Kind::of(reservation.consumer());
        match kind {
            Kind::Filter => state.filters -= less,
            kind if kind.is_side() => state.sides -= less,
            _ => {}
        }
        match kind {
            Kind::Exchange => {
                let exchanges = state.exchanges - less;
                return self.exchange(&mut state, exchanges);
            }
            Kind::BuildSide => state.build_sides += less,
            _ => {}
        }
        self.give_back(&mut state, less);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        let (mut state, more) = (self.state.lock(), additional as u64);
        let after = reservation.size() as u64 + more;
        let mut most = self.memory.total();
        let kind = Kind::of(reservation.consumer());
        match kind {
            Kind::Exchange => {
                let exchanges = state.exchanges + more;
                self.exchange(&mut state, exchanges);
                return Ok(());
            }
            Kind::HashTable if state.build_sides >= more => {
                state.build_sides -= more;
                state.sides += more;
                self.take_anyway(&mut state, more);
                return Ok(());
            }
            Kind::Merge => {
                let share = self.limit(&state) / 2 / state.merges.max(1);
                if after > share {
                    return Err(refused(format!("a merge of {share} bytes would get {more} more.")));
                }
            }
            Kind::Groups | Kind::Spiller => {
                let limit = self.limit(&state);
                let least = if kind == Kind::Groups { state.groups_least(limit) } else { 0 };
                let share = (limit / 3 / state.spillers.max(1)).max(least);
                if after > share {
                    return Err(refused(format!("an operator of {share} bytes would get {more} more.")));
                }
                if kind == Kind::Spiller {
                    most = self.memory.lent_max();
                }
            }
            Kind::BuildSide | Kind::Side => {
                let limit = self.limit(&state);
                if state.held + more + state.kept_from_sides(limit) > limit {
                    return Err(refused(format!("{more} bytes were asked for beyond {} of {limit}.", state.held)));
                }
                most = self.memory.lent_max();
            }
            Kind::Filter => {
                let share = self.limit(&state) / FILTERS;
                if state.filters + more > share {
                    return Err(refused(format!("filters of {share} bytes would get {more} more.")));
                }
                most = self.memory.lent_max();
            }
            Kind::HashTable | Kind::Keeper => {}
        }
        self.take(&mut state, more, most)?;
        state.note(kind, more);
        Ok(())
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.state.lock().held).unwrap_or(usize::MAX)
    }

    /// The memory shared by operators that can spill.
    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.limit(&self.state.lock()) / 3).unwrap_or(usize::MAX))
    }
}

impl Drop for StatementPool {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.memory.unclaim(state.granted.max(state.held));
    }
}

#[cfg(test)]
mod tests {
    use hobt_base::number;

    use super::*;
    use hobt_udf::sql_error_of;

    fn consumer(name: &str, spills: bool) -> MemoryConsumer {
        MemoryConsumer::new(name).with_can_spill(spills)
    }

    /// The budget, its operators' memory of 801 bytes, and the pool of a statement with a grant of `granted`.
    fn pool(granted: u64) -> (Arc<MemoryBudget>, Arc<OperatorMemory>, Arc<dyn MemoryPool>) {
        let budget = MemoryBudget::new(854);
        let memory = OperatorMemory::new(&budget);
        assert!(memory.claim(granted, memory.total()));
        let pool = Arc::new(StatementPool::new(&memory, granted, u64::MAX, Arc::default()));
        (budget, memory, pool)
    }

    #[test]
    fn operators_get_no_more_than_the_budget_and_give_it_back() {
        let (budget, memory, pool) = pool(0);
        let loader = MemoryAccount::new(&budget, "loader");
        loader.grow(739).expect("free");
        let join = consumer("join", false).register(&pool);
        join.try_grow(115).expect("what the loader leaves");
        let error = join.try_grow(1).expect_err("nothing is left");
        assert_eq!(sql_error_of(error).number, number::OUT_OF_MEMORY);
        join.grow(50);
        assert_eq!(budget.used(), 904, "what cannot be refused is counted");
        drop((join, loader, pool));
        assert_eq!((budget.used(), memory.free()), (0, memory.lent_max()));
    }

    #[test]
    fn a_grant_is_certain_and_more_is_lent_while_nobody_was_promised_it() {
        let (_budget, memory, first) = pool(300);
        assert!(memory.claim(200, memory.total()));
        let second: Arc<dyn MemoryPool> = Arc::new(StatementPool::new(&memory, 200, u64::MAX, Arc::default()));
        let lent = consumer("join", false).register(&first);
        lent.try_grow(300).expect("granted");
        lent.try_grow(301).expect("lent: the other's 200 are left");
        assert!(lent.try_grow(1).is_err(), "they are the other's");
        let sort = consumer("sort", true).register(&second);
        assert!(sort.try_grow(67).is_err(), "a third of the grant");
        sort.try_grow(66).expect("a third of the grant");
        consumer("join", false).register(&second).try_grow(134).expect("the rest of the grant");
    }

    #[test]
    fn an_exchange_of_rows_is_never_refused_and_counts_up_to_a_part() {
        let (budget, memory, pool) = pool(0);
        let exchange = consumer("RepartitionExec[1]", true).register(&pool);
        exchange.try_grow(40).expect("never refused");
        assert_eq!(budget.used(), 40);
        exchange.try_grow(1200).expect("never refused");
        assert_eq!(budget.used(), memory.total() / EXCHANGES, "beyond that it is not counted");
        let sort = consumer("sort", true).register(&pool);
        sort.try_grow(230).expect("a third, which it shares with nobody");
        exchange.try_shrink(1200).expect("it has that");
        assert_eq!(budget.used(), 270);
        drop((exchange, sort));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_refusal_of_the_fair_share_leaves_the_budget_as_it_was() {
        let (budget, _memory, pool) = pool(0);
        let (one, other) = (consumer("one", true).register(&pool), consumer("other", true).register(&pool));
        assert!(one.try_grow(150).is_err(), "half of the third belongs to the other");
        assert_eq!(budget.used(), 0);
        one.try_grow(110).expect("its part");
        other.try_grow(110).expect("its part");
        let keeper = consumer("keeper", false).register(&pool);
        keeper.try_grow(580).expect("what is left for those that cannot spill");
        drop(keeper);
        let merges = [0, 1].map(|part| consumer(&format!("ExternalSorterMerge[{part}]"), false).register(&pool));
        assert!(merges[0].try_grow(176).is_err(), "half of the merges' half belongs to the other");
        merges[0].try_grow(170).expect("its part");
    }

    #[test]
    fn a_build_side_that_was_found_to_fit_is_not_refused_its_table() {
        let (budget, _memory, pool) = pool(0);
        let side = consumer("HashJoinBuild", false).register(&pool);
        side.try_grow(600).expect("room");
        side.shrink(400);
        let other = consumer("other", false).register(&pool);
        other.try_grow(600).expect("somebody was quicker");
        let table = consumer("HashJoinInput[0]", false).register(&pool);
        table.try_grow(400).expect("it was there");
        assert!(table.try_grow(1).is_err(), "no more than was");
        drop((side, other, table));
        assert_eq!(budget.used(), 0);
    }
}
