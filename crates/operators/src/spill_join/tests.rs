//! A join that spills gives the rows of a join in memory, for each kind of join.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{Partitioning, collect};
use datafusion::prelude::SessionConfig;
use hobt_base::SplitMix64;

use super::*;
use crate::join_types::JOIN_TYPES;
use crate::memory::pool_of;

/// Rows `k1, k2, v`, where `k2` is a text or a number. Some keys are NULL; with `spread` 1 all others are equal.
fn rows(random: &mut SplitMix64, count: usize, spread: u64, has_text: bool) -> (SchemaRef, Vec<RecordBatch>) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("k1", DataType::Int32, true),
        Field::new("k2", if has_text { DataType::Utf8View } else { DataType::Int32 }, true),
        Field::new("v", DataType::Int64, false),
    ]));
    let mut batches = Vec::new();
    for first in (0..count).step_by(100) {
        let rows = 100.min(count - first);
        let mut key = || (random.below(40) > 0).then(|| random.below(spread) as i32);
        let keys: Vec<Option<i32>> = (0..rows).map(|_| key()).collect();
        let texts = keys.iter().map(|key| key.map(|key| format!("the key of these rows is {}", key % 7)));
        let values = (first..first + rows).map(|value| value as i64);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(keys.clone())),
            if has_text { Arc::new(texts.collect::<StringViewArray>()) } else { Arc::new(Int32Array::from(keys)) },
            Arc::new(Int64Array::from_iter_values(values)),
        ];
        batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays).expect("rows"));
    }
    (schema, batches)
}

fn column(schema: &SchemaRef, name: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new_with_schema(name, schema).expect("a column"))
}

/// `left.v < right.v`
fn filter(schema: &SchemaRef) -> JoinFilter {
    let both = Schema::new(vec![schema.field(2).as_ref().clone(), schema.field(2).as_ref().clone()]);
    let at = |at| Arc::new(Column::new("v", at)) as Arc<dyn PhysicalExpr>;
    let indices = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 2, side });
    JoinFilter::new(Arc::new(BinaryExpr::new(at(0), Operator::Lt, at(1))), indices.to_vec(), Arc::new(both))
}

/// The output of a plan with `bytes` of memory.
fn run(plan: &Arc<dyn ExecutionPlan>, bytes: u64) -> Vec<RecordBatch> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool_of(bytes)).build_arc().expect("a runtime");
    let mut config = SessionConfig::new().with_batch_size(64);
    config.options_mut().execution.sort_spill_reservation_bytes = 64 << 10;
    let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime));
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("workers");
    let rows = workers.block_on(collect(Arc::clone(plan), context));
    rows.unwrap_or_else(|error| panic!("{error} in {bytes} bytes of {plan:?}"))
}

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let cell = |batch: &RecordBatch, row, at| array_value_to_string(batch.column(at), row).expect("a text");
    let row = |batch: &RecordBatch, row: usize| {
        (0..batch.num_columns()).map(|at| cell(batch, row, at)).collect::<Vec<_>>().join("|")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>()).collect()
}

fn spilled(join: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    spilled_counting(join, &Arc::default())
}

/// Like [`spilled`], and counts in `splits` how often rows were put into files.
fn spilled_counting(join: Arc<dyn ExecutionPlan>, splits: &Arc<AtomicU64>) -> Arc<dyn ExecutionPlan> {
    let stop = Stop::when(Arc::clone(splits), || false);
    Arc::new(SpillJoinExec::new(join, stop))
}

fn hashed(plan: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> Arc<dyn ExecutionPlan> {
    Arc::new(RepartitionExec::try_new(Arc::clone(plan), Partitioning::Hash(keys.to_vec(), 3)).expect("a plan"))
}

#[test]
fn a_join_that_spills_gives_what_one_in_memory_gives() {
    const LITTLE: u64 = 1500 << 10;
    for (seed, spread) in [(1, 9000), (2, 1)] {
        // A sort of texts needs more memory than this test has.
        let (mut random, has_text) = (SplitMix64::new(seed), spread > 1);
        let (schema, left) = rows(&mut random, if has_text { 12_000 } else { 24_000 }, spread, has_text);
        let (_, right) = rows(&mut random, if spread < 100 { 5 } else { 2000 }, spread, has_text);
        let source = |batches: Vec<RecordBatch>| {
            let source = MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None);
            source.expect("a plan") as Arc<dyn ExecutionPlan>
        };
        let (left, right) = (source(left), source(right));
        for (at, join_type) in JOIN_TYPES.into_iter().enumerate() {
            for case in (0..4).filter(|case| (at + case + spread as usize).is_multiple_of(2)) {
                let keys: Vec<_> =
                    ["k1", "k2"][..1 + (at + case) % 2].iter().map(|name| column(&schema, name)).collect();
                let on = keys.iter().map(|key| (Arc::clone(key), Arc::clone(key))).collect();
                let equality = [NullEquality::NullEqualsNothing, NullEquality::NullEqualsNull][case / 2];
                let filter = (case % 2 == 1).then(|| filter(&schema));
                let projection = (case == 3).then(|| vec![2, 0]);
                let (mode, left, right) = match (at + case) % 3 {
                    0 => (PartitionMode::Partitioned, hashed(&left, &keys), hashed(&right, &keys)),
                    1 => (PartitionMode::CollectLeft, Arc::clone(&left), hashed(&right, &keys)),
                    _ => (PartitionMode::CollectLeft, Arc::clone(&left), Arc::clone(&right)),
                };
                let join =
                    HashJoinExec::try_new(left, right, on, filter, &join_type, projection, mode, equality, false);
                let join: Arc<dyn ExecutionPlan> = Arc::new(join.expect("a join"));
                let mut expected = texts(&run(&join, u64::MAX));
                for bytes in [LITTLE, u64::MAX] {
                    let splits = Arc::default();
                    let join = reset_plan_states(Arc::clone(&join)).expect("a join");
                    let join = spilled_counting(join, &splits);
                    let mut given = texts(&run(&join, bytes));
                    let has_spilled = splits.load(Ordering::Relaxed) > 0;
                    assert_eq!(has_spilled, bytes == LITTLE, "{join_type} {mode:?} spread {spread}");
                    let counted = join.metrics().expect("it counts");
                    assert_eq!(counted.output_rows(), Some(given.len()), "{join_type} {mode:?} case {case}");
                    assert_eq!(counted.spill_count().is_some_and(|spills| spills > 0), has_spilled);
                    expected.sort_unstable();
                    given.sort_unstable();
                    assert!(
                        given == expected,
                        "{join_type} {mode:?} case {case} spread {spread}: {} rows of {}",
                        given.len(),
                        expected.len()
                    );
                }
            }
        }
    }
}

#[test]
fn rows_come_in_the_order_that_the_plan_promises_and_no_more_than_are_wanted() {
    let mut random = SplitMix64::new(9);
    let (schema, left) = rows(&mut random, 20_000, 40_000, false);
    let (_, right) = rows(&mut random, 20_000, 40_000, false);
    let source = |batches: Vec<RecordBatch>| {
        MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).expect("a plan")
            as Arc<dyn ExecutionPlan>
    };
    let order = LexOrdering::new([PhysicalSortExpr { expr: column(&schema, "k1"), options: Default::default() }]);
    let right: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order.expect("an order"), source(right)));
    let on = vec![(column(&schema, "k1"), column(&schema, "k1"))];
    let (none, mode) = (NullEquality::NullEqualsNothing, PartitionMode::CollectLeft);
    let join = HashJoinExec::try_new(source(left), right, on, None, &JoinType::Inner, None, mode, none, false);
    let join = join.expect("a join");
    let all =
        texts(&run(&(Arc::new(join.builder().build().expect("a join")) as Arc<dyn ExecutionPlan>), u64::MAX)).len();
    for (fetch, count) in [(None, all), (Some(100), 100)] {
        let join = join.builder().with_fetch(fetch).build_exec().expect("a join");
        assert!(join.output_ordering().is_some() && can_spill(join.downcast_ref().expect("a join")));
        let given = run(&spilled(join), 1500 << 10);
        let keys =
            given.iter().flat_map(|batch| batch.column(3).as_primitive::<Int32Type>().iter().collect::<Vec<_>>());
        let keys: Vec<Option<i32>> = keys.collect();
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(keys.len(), count);
        let values = given.iter().map(|batch| batch.column(2).as_primitive::<Int64Type>().len()).sum::<usize>();
        assert_eq!(values, count);
    }
}
