//! Leaves out rows whose rank in their partition is certainly above a limit, before they are sorted.
//!
//! ```text
//!   Filter            place <= 3
//!     Window          place = ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC)
//!       Sort          k, u DESC
//!         Repartition by k
//!           RankLimit 3 of each k by u DESC      a few rows of each partition go on
//!             Scan
//! ```
//! For each partition it keeps the best values of the first column of the order that have come, as many as the limit.
//! A row whose value is worse than all of them is left out. Values are compared as 64-bit numbers that keep their order
//! or make some of them equal, and a row with an equal value goes on: the operators above decide. So any type and any
//! order will do, and nothing is lost when the partitions become too many: then the rows go on as they are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{SortOptions, filter_record_batch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type,
};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::TryStreamExt;

use crate::inputs::{passes_on, shows_its_name};
use crate::key_codes::{Chain, Codes};

/// Values that are kept for all partitions together.
const VALUES_MAX: usize = 1 << 20;
/// The longest list of best values of a partition.
const LIMIT_MAX: usize = 1 << 10;

/// What is left out.
#[derive(Clone, Debug)]
pub struct RankLimit {
    /// The keys of the partitions.
    pub partition_by: Vec<Arc<dyn PhysicalExpr>>,
    /// The first key of the order.
    pub order: PhysicalSortExpr,
    /// Rows with a greater rank are not wanted.
    pub limit: usize,
    /// Whether equal values count once (`DENSE_RANK`).
    pub is_dense: bool,
}

/// Leaves out rows of late ranks.
#[derive(Debug)]
pub struct RankLimitExec {
    input: Arc<dyn ExecutionPlan>,
    rank: RankLimit,
    metrics: ExecutionPlanMetricsSet,
}

impl RankLimitExec {
    /// Leaves out rows of `input`; `None` if the keys' types or the limit are not for it.
    pub fn new(input: Arc<dyn ExecutionPlan>, rank: RankLimit) -> Option<RankLimitExec> {
        let schema = input.schema();
        let has_codes =
            |key: &Arc<dyn PhysicalExpr>| key.data_type(&schema).is_ok_and(|data_type| Codes::of(&data_type).is_some());
        let is_ordered = rank.order.expr.data_type(&schema).is_ok_and(|data_type| is_known(&data_type));
        let fits = rank.limit > 0 && rank.limit <= LIMIT_MAX && rank.partition_by.iter().all(has_codes);
        (fits && is_ordered).then(|| RankLimitExec { input, rank, metrics: ExecutionPlanMetricsSet::new() })
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> RankLimitExec {
        RankLimitExec { input, rank: self.rank.clone(), metrics: ExecutionPlanMetricsSet::new() }
    }
}

shows_its_name!(RankLimitExec);

impl ExecutionPlan for RankLimitExec {
    passes_on!(input);

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.rank.partition_by.iter().chain([&self.rank.order.expr]) {
            if visit(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, Arc::clone(&context))?;
        let mut best = Best::new(&self.rank, &self.input.schema(), &context)?;
        let (schema, metrics) = (self.schema(), BaselineMetrics::new(&self.metrics, partition));
        let kept = rows.and_then(move |batch| {
            let _timed = metrics.elapsed_compute().timer();
            std::future::ready(best.kept(batch))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The best values of each partition so far.
struct Best {
    rank: RankLimit,
    codes: Vec<Codes>,
    /// The codes of a batch, for each key.
    read: Vec<Vec<u32>>,
    chain: Chain,
    /// For each partition a heap of as many values as the limit, the worst first; and how many it has.
    values: Vec<i64>,
    counts: Vec<u32>,
    /// The worst of the values of each partition that has all; the greatest number for others.
    worst: Vec<i64>,
    /// Whether there are too many partitions.
    is_over: bool,
    reservation: MemoryReservation,
}

impl Best {
    fn new(rank: &RankLimit, schema: &arrow::datatypes::SchemaRef, context: &TaskContext) -> Result<Best> {
        let codes = rank.partition_by.iter().filter_map(|key| Codes::of(&key.data_type(schema).ok()?));
        let codes: Vec<Codes> = codes.collect();
        Ok(Best {
            read: vec![Vec::new(); codes.len()],
            chain: Chain::of((0..codes.len()).collect()),
            // Fewer than keys only if a type has changed since the plan was made.
            is_over: codes.len() < rank.partition_by.len(),
            codes,
            rank: rank.clone(),
            values: Vec::new(),
            counts: Vec::new(),
            worst: Vec::new(),
            reservation: MemoryConsumer::new("RankLimit").register(context.memory_pool()),
        })
    }

    /// The rows of a batch that may be wanted.
    fn kept(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        if self.is_over || rows == 0 {
            return Ok(batch);
        }
        let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        for ((key, codes), read) in self.rank.partition_by.iter().zip(&mut self.codes).zip(&mut self.read) {
            codes.read(&array(key)?, read)?;
        }
        let counts: Vec<usize> = self.codes.iter().map(Codes::count).collect();
        let mut groups = Vec::new();
        self.chain.read(&self.read, &counts, rows, &mut groups);
        let groups_count = self.chain.count();
        if groups_count.saturating_mul(self.rank.limit) > VALUES_MAX || !self.has_room(groups_count) {
            self.give_up();
            return Ok(batch);
        }
        self.values.resize(groups_count * self.rank.limit, 0);
        self.counts.resize(groups_count, 0);
        self.worst.resize(groups_count, i64::MAX);
        let numbers = ordered(&array(&self.rank.order.expr)?, self.rank.order.options);
        for (&group, &number) in groups.iter().zip(&numbers) {
            if number <= self.worst[group as usize] {
                self.offer(group as usize, number);
            }
        }
        // By what is known behind the batch: of rows that come from the worst to the best each would be kept.
        let is_kept = |(group, number): (&u32, &i64)| Some(*number <= self.worst[*group as usize]);
        let kept: BooleanArray = groups.iter().zip(&numbers).map(is_kept).collect();
        Ok(filter_record_batch(&batch, &kept)?)
    }

    /// Whether there is memory for so many partitions.
    fn has_room(&mut self, groups: usize) -> bool {
        let values = groups * (self.rank.limit * size_of::<i64>() + size_of::<i64>() + size_of::<u32>());
        let bytes = values + self.chain.bytes() + self.codes.iter().map(Codes::bytes).sum::<usize>();
        bytes <= self.reservation.size() || self.reservation.try_resize(bytes.next_power_of_two()).is_ok()
    }

    fn give_up(&mut self) {
        self.is_over = true;
        (self.values, self.counts, self.worst) = Default::default();
        (self.chain, self.codes) = (Chain::of(Vec::new()), Vec::new());
        self.reservation.free();
    }

    /// Keeps a value that is none of the worst.
    fn offer(&mut self, group: usize, number: i64) {
        let limit = self.rank.limit;
        let heap = &mut self.values[group * limit..(group + 1) * limit];
        let count = self.counts[group] as usize;
        if self.rank.is_dense && heap[..count].contains(&number) {
            return;
        }
        if count < limit {
            heap[count] = number;
            rise(heap, count);
            self.counts[group] += 1;
        } else if number < heap[0] {
            heap[0] = number;
            sink(heap);
        }
        if self.counts[group] as usize == limit {
            self.worst[group] = heap[0];
        }
    }
}

/// Puts the last value of a heap in its place.
fn rise(heap: &mut [i64], mut at: usize) {
    while at > 0 && heap[(at - 1) / 2] < heap[at] {
        heap.swap((at - 1) / 2, at);
        at = (at - 1) / 2;
    }
}

/// Puts the first value of a heap in its place.
fn sink(heap: &mut [i64]) {
    let mut at = 0;
    loop {
        let greater = (2 * at + 1..(2 * at + 3).min(heap.len())).max_by_key(|&below| heap[below]);
        match greater.filter(|&below| heap[below] > heap[at]) {
            Some(below) => {
                heap.swap(at, below);
                at = below;
            }
            None => return,
        }
    }
}

fn is_known(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(data_type, D::UInt8 | D::Int16 | D::Int32 | D::Int64 | D::Date32 | D::Float32 | D::Float64)
        || matches!(data_type, D::Decimal128(..) | D::BinaryView)
}

/// A number for each value. A row with a greater number comes behind one with a smaller.
fn ordered(array: &ArrayRef, options: SortOptions) -> Vec<i64> {
    let mut numbers: Vec<i64> = match array.data_type() {
        DataType::UInt8 => of_values::<UInt8Type>(array, i64::from),
        DataType::Int16 => of_values::<Int16Type>(array, i64::from),
        DataType::Int32 => of_values::<Int32Type>(array, i64::from),
        DataType::Date32 => of_values::<Date32Type>(array, i64::from),
        DataType::Int64 => of_values::<Int64Type>(array, |value| value),
        DataType::Float32 => of_values::<Float32Type>(array, |value| float_number(f64::from(value))),
        DataType::Float64 => of_values::<Float64Type>(array, float_number),
        // Beyond 64 bits all are equal.
        DataType::Decimal128(..) => {
            of_values::<Decimal128Type>(array, |value| value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
        }
        // By their first bytes.
        DataType::BinaryView => array.as_binary_view().iter().map(|value| value.map_or(0, bytes_number)).collect(),
        _ => vec![0; array.len()],
    };
    if options.descending {
        numbers.iter_mut().for_each(|number| *number = !*number);
    }
    let null = if options.nulls_first { i64::MIN } else { i64::MAX };
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        numbers.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(number, _)| *number = null);
    }
    numbers
}

fn of_values<T: ArrowPrimitiveType>(array: &ArrayRef, number: impl Fn(T::Native) -> i64) -> Vec<i64> {
    array.as_primitive::<T>().values().iter().map(|value| number(*value)).collect()
}

/// A number with the place of a float among floats, as `f64::total_cmp` orders them.
fn float_number(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The first eight bytes; one that is missing is less than any.
fn bytes_number(value: &[u8]) -> i64 {
    let mut first = [0; 8];
    let length = value.len().min(8);
    first[..length].copy_from_slice(&value[..length]);
    (u64::from_be_bytes(first) ^ 1 << 63).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int32Array, Int64Array};
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::Column;
    use hobt_base::SplitMix64;
    use std::collections::HashMap;

    fn batch(keys: &[i32], values: &[Option<i64>]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("k", DataType::Int32, false), Field::new("v", DataType::Int64, true)]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int32Array::from(keys.to_vec())), Arc::new(Int64Array::from(values.to_vec()))];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    fn limit(limit: usize, options: SortOptions, is_dense: bool) -> RankLimit {
        let column = |name, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let order = PhysicalSortExpr { expr: column("v", 1), options };
        RankLimit { partition_by: vec![column("k", 0)], order, limit, is_dense }
    }

    #[test]
    fn every_row_within_the_limit_goes_on_and_few_others() {
        let mut random = SplitMix64::new(6);
        for (descending, nulls_first) in [(false, true), (true, false), (true, true), (false, false)] {
            for (count, is_dense) in [(1, false), (3, false), (3, true), (40, false)] {
                let options = SortOptions { descending, nulls_first };
                let rank = limit(count, options, is_dense);
                let context = TaskContext::default();
                let mut best = Best::new(&rank, &batch(&[], &[]).schema(), &context).unwrap();
                let (mut all, mut kept) = (Vec::new(), Vec::new());
                for _ in 0..20 {
                    let keys: Vec<i32> = (0..500).map(|_| random.below(7) as i32).collect();
                    let value = |_: &i32| (random.below(9) > 0).then(|| random.below(5000).cast_signed() - 2500);
                    let values: Vec<Option<i64>> = keys.iter().map(value).collect();
                    all.extend(keys.iter().copied().zip(values.iter().copied()));
                    let given = best.kept(batch(&keys, &values)).unwrap();
                    let (k, v) =
                        (given.column(0).as_primitive::<Int32Type>(), given.column(1).as_primitive::<Int64Type>());
                    kept.extend(k.values().iter().copied().zip(v.iter()));
                }
                let place = |value: &Option<i64>| match value {
                    None if nulls_first => (0, 0),
                    None => (2, 0),
                    Some(value) => (1, if descending { -value } else { *value }),
                };
                let mut partitions: HashMap<i32, Vec<Option<i64>>> = HashMap::new();
                all.iter().for_each(|(key, value)| partitions.entry(*key).or_default().push(*value));
                for (key, mut values) in partitions {
                    values.sort_by_key(place);
                    if is_dense {
                        values.dedup();
                    }
                    let last = place(&values[count.min(values.len()) - 1]);
                    let wanted = |(of, value): &&(i32, Option<i64>)| *of == key && place(value) <= last;
                    assert_eq!(kept.iter().filter(wanted).count(), all.iter().filter(wanted).count());
                }
                assert!(kept.len() < all.len() / 2 || count > 3, "{} of {}", kept.len(), all.len());
            }
        }
    }

    #[test]
    fn too_many_partitions_pass() {
        let rank = limit(1000, SortOptions::default(), false);
        let mut best = Best::new(&rank, &batch(&[], &[]).schema(), &TaskContext::default()).unwrap();
        for round in 0..4 {
            let keys: Vec<i32> = (round * 500..(round + 1) * 500).collect();
            let rows = batch(&keys, &vec![Some(1); 500]);
            assert_eq!(best.kept(rows.clone()).unwrap(), rows);
        }
        assert!(best.is_over);
    }

    #[test]
    fn numbers_have_the_order_of_floats_and_bytes() {
        let floats = [f64::NEG_INFINITY, -1e300, -0.5, 0.0, 1e-300, 2.0, f64::INFINITY];
        let numbers = ordered(&(Arc::new(Float64Array::from(floats.to_vec())) as ArrayRef), SortOptions::default());
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let texts: [&[u8]; 6] = [b"", b"\x01", b"a", b"ab", b"abcdefgh", b"\xFF"];
        assert!(texts.map(bytes_number).is_sorted_by(|a, b| a < b));
    }
}
