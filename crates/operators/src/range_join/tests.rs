//! A range join gives the rows of a nested-loops join, for each kind of join and each condition.

use arrow::array::{ArrayRef, BinaryViewArray, Float64Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{JoinSide, JoinType};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{Partitioning, collect};
use datafusion::prelude::SessionConfig;
use hobt_base::SplitMix64;

use super::*;
use crate::join_types::JOIN_TYPES;
use crate::memory::pool_of;

/// Columns of either side: two integers, a float, a binary, and the row's number.
const FIELDS: [&str; 5] = ["a", "b", "f", "t", "n"];

fn rows(random: &mut SplitMix64, count: usize) -> (SchemaRef, Vec<RecordBatch>) {
    let types = [DataType::Int32, DataType::Int32, DataType::Float64, DataType::BinaryView, DataType::Int64];
    let fields = FIELDS.into_iter().zip(types).map(|(name, data_type)| Field::new(name, data_type, name != "n"));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut batches = Vec::new();
    for first in (0..count).step_by(70) {
        let rows = 70.min(count - first);
        let mut value = || (random.below(15) > 0).then(|| random.below(60) as i32 - 30);
        let a: Vec<Option<i32>> = (0..rows).map(|_| value()).collect();
        let b: Vec<Option<i32>> = a.iter().map(|a| Some((*a)? + value().unwrap_or(0).abs() / 6)).collect();
        let f: Float64Array = (0..rows).map(|_| value().map(|value| f64::from(value) / 8.0)).collect();
        let t: Vec<Option<Vec<u8>>> =
            (0..rows).map(|_| value().map(|value| vec![b'x'; value.unsigned_abs() as usize])).collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(a)),
            Arc::new(Int32Array::from(b)),
            Arc::new(f),
            Arc::new(BinaryViewArray::from_iter(t)),
            Arc::new(Int64Array::from_iter_values((first..first + rows).map(|number| number as i64))),
        ];
        batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays).expect("rows"));
    }
    (schema, batches)
}

/// The conjunction of `left.<one> op right.<other>` over `parts`.
fn condition(schema: &SchemaRef, parts: &[(&str, Operator, &str)]) -> JoinFilter {
    let both = schema.fields().iter().chain(schema.fields()).map(|field| field.as_ref().clone());
    let both = Schema::new(both.collect::<Vec<_>>());
    let side = |side| move |index| ColumnIndex { index, side };
    let indices = (0..FIELDS.len()).map(side(JoinSide::Left)).chain((0..FIELDS.len()).map(side(JoinSide::Right)));
    let column = |name: &str, first: usize| {
        let at = FIELDS.iter().position(|field| *field == name).expect("a field");
        Arc::new(Column::new(name, first + at)) as Arc<dyn PhysicalExpr>
    };
    let part = |(one, op, other): &(&str, Operator, &str)| {
        let (one, other) = (column(one, 0), column(other, FIELDS.len()));
        // Some parts are written with their sides swapped.
        match op.swap().filter(|_| *op == Operator::Gt) {
            Some(swapped) => Arc::new(BinaryExpr::new(other, swapped, one)) as Arc<dyn PhysicalExpr>,
            None => Arc::new(BinaryExpr::new(one, *op, other)),
        }
    };
    let all = parts.iter().map(part).reduce(|all, one| Arc::new(BinaryExpr::new(all, Operator::And, one)));
    JoinFilter::new(all.expect("a part"), indices.collect(), Arc::new(both))
}

/// The output of a plan with `bytes` of memory.
fn run(plan: &Arc<dyn ExecutionPlan>, bytes: u64) -> Result<Vec<RecordBatch>> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool_of(bytes)).build_arc().expect("a runtime");
    let config = SessionConfig::new().with_batch_size(50);
    let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime));
    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("workers");
    workers.block_on(collect(Arc::clone(plan), context))
}

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let cell = |batch: &RecordBatch, row, at| array_value_to_string(batch.column(at), row).expect("a text");
    let row = |batch: &RecordBatch, row: usize| {
        (0..batch.num_columns()).map(|at| cell(batch, row, at)).collect::<Vec<_>>().join("|")
    };
    let rows = |batch: &RecordBatch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>();
    let mut all: Vec<String> = batches.iter().flat_map(rows).collect();
    all.sort_unstable();
    all
}

fn loops(
    (left, right): (usize, usize),
    parts: &[(&str, Operator, &str)],
    (join_type, partitions): (JoinType, usize),
    seed: u64,
) -> Arc<dyn ExecutionPlan> {
    let mut random = SplitMix64::new(seed);
    let source = |(schema, batches): (SchemaRef, Vec<RecordBatch>)| {
        MemorySourceConfig::try_new_exec(&[batches], schema, None).expect("a plan") as Arc<dyn ExecutionPlan>
    };
    let (left, right) = (rows(&mut random, left), rows(&mut random, right));
    let filter = condition(&left.0, parts);
    let (left, right) = (source(left), source(right));
    let right: Arc<dyn ExecutionPlan> = match partitions {
        1 => right,
        count => Arc::new(RepartitionExec::try_new(right, Partitioning::RoundRobinBatch(count)).expect("a plan")),
    };
    let projection = (seed % 3 == 1).then(|| vec![4, 0]);
    let join = NestedLoopJoinExec::try_new(left, right, Some(filter), &join_type, projection);
    Arc::new(join.expect("a join"))
}

const CONDITIONS: [&[(&str, Operator, &str)]; 9] = [
    // between two values of the other side, in both directions
    &[("a", Operator::GtEq, "a"), ("a", Operator::LtEq, "b")],
    &[("a", Operator::LtEq, "a"), ("b", Operator::Gt, "a")],
    // intervals that overlap
    &[("a", Operator::LtEq, "b"), ("b", Operator::GtEq, "a")],
    // open at one end
    &[("a", Operator::Lt, "b")],
    &[("t", Operator::GtEq, "t")],
    // with a residual condition
    &[("f", Operator::Gt, "f"), ("f", Operator::Lt, "f"), ("a", Operator::NotEq, "b")],
    &[("a", Operator::Gt, "a"), ("t", Operator::Lt, "t"), ("n", Operator::NotEq, "n"), ("f", Operator::Lt, "f")],
    // equations, as a hint makes them
    &[("a", Operator::Eq, "b"), ("t", Operator::LtEq, "t")],
    &[("t", Operator::Eq, "t"), ("a", Operator::Eq, "a")],
];

#[test]
fn ranges_give_what_loops_give() {
    for (at, parts) in CONDITIONS.into_iter().enumerate() {
        for (sizes, partitions) in [((60, 200), 1), ((200, 60), 3), ((0, 50), 2), ((50, 0), 2)] {
            for join_type in JOIN_TYPES {
                let join = loops(sizes, parts, (join_type, partitions), at as u64);
                let expected = texts(&run(&join, u64::MAX).expect("rows"));
                let join = reset_plan_states(join).expect("a plan");
                let ranges = RangeJoinExec::of(&join).expect("types").expect("a bound");
                let ranges = Arc::new(ranges) as Arc<dyn ExecutionPlan>;
                let given = texts(&run(&ranges, u64::MAX).expect("rows"));
                assert_eq!(given, expected, "{join_type} of {sizes:?} by {parts:?}");
                assert_eq!(ranges.metrics().and_then(|known| known.output_rows()), Some(given.len()));
                let again = reset_plan_states(ranges).expect("a plan");
                assert_eq!(texts(&run(&again, u64::MAX).expect("rows")), given, "{join_type} again");
            }
        }
    }
}

#[test]
fn no_bound_is_no_range() {
    for parts in [&[("a", Operator::NotEq, "a")][..], &[("a", Operator::IsDistinctFrom, "b")]] {
        let join = loops((10, 10), parts, (JoinType::Inner, 1), 0);
        assert!(RangeJoinExec::of(&join).expect("types").is_none());
    }
}

#[test]
fn what_does_not_fit_is_joined_in_parts() {
    const LITTLE: u64 = 100 << 10;
    for (at, parts) in CONDITIONS.into_iter().enumerate() {
        for (join_type, partitions) in JOIN_TYPES.into_iter().zip([1, 2, 3].into_iter().cycle().skip(at)) {
            let join = loops((2000, 40), parts, (join_type, partitions), at as u64);
            let ranges = || {
                let join = reset_plan_states(Arc::clone(&join)).expect("a plan");
                Arc::new(RangeJoinExec::of(&join).expect("types").expect("a bound")) as Arc<dyn ExecutionPlan>
            };
            let (whole, in_parts) = (ranges(), ranges());
            let expected = texts(&run(&whole, u64::MAX).expect("rows"));
            let given = texts(&run(&in_parts, LITTLE).unwrap_or_else(|error| panic!("{join_type}: {error}")));
            assert!(given == expected, "{join_type} by {parts:?}: {} rows of {}", given.len(), expected.len());
            let spills = |plan: &Arc<dyn ExecutionPlan>| plan.metrics().and_then(|known| known.spill_count());
            assert_eq!((spills(&whole), spills(&in_parts)), (Some(0), Some(2)), "{join_type}");
        }
    }
}

#[test]
fn rows_that_wait_for_their_file_are_counted() {
    let join = loops((2000, 10), CONDITIONS[2], (JoinType::Left, 1), 0);
    let loops: &NestedLoopJoinExec = join.downcast_ref().expect("loops");
    let ranges = Ranges::of(loops).expect("types").expect("a bound");
    let pool = pool_of(100 << 10);
    let held = MemoryConsumer::new("RangeJoinBuild").register(&pool);
    let input = loops.left().execute(0, Arc::default()).expect("rows");
    let builder = Builder { ranges: &ranges, marks: true, workers: 1, stop: Stop::never() };
    let built = futures::executor::block_on(builder.build(input, held)).expect("rows");
    let Built::TooLarge(first, _rest) = built else { panic!("all rows fit") };
    let (mut rows, mut last) = (0, pool.reserved());
    let give = first.give(|batch| {
        rows += batch.num_rows();
        assert!(pool.reserved() >= batch.get_array_memory_size() && pool.reserved() <= last, "{}", pool.reserved());
        last = pool.reserved() - batch.get_array_memory_size();
        Ok(())
    });
    give.expect("nothing fails");
    assert!(rows > 100 && last == 0, "{rows} rows, {last} bytes");
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn a_batch_that_does_not_fit_is_refused() {
    let join = loops((2000, 10), CONDITIONS[2], (JoinType::Left, 2), 0);
    let ranges = Arc::new(RangeJoinExec::of(&join).expect("types").expect("a bound")) as Arc<dyn ExecutionPlan>;
    let error = run(&ranges, 4 << 10).expect_err("too little memory");
    assert_eq!(hobt_udf::sql_error_of(error).number, hobt_base::number::OUT_OF_MEMORY);
}

#[test]
fn a_statement_that_is_over_is_not_joined_on() {
    let join = loops((3000, 3000), CONDITIONS[3], (JoinType::Inner, 1), 0);
    let ranges = Ranges::of(join.downcast_ref().expect("loops")).expect("types").expect("a bound");
    let stop = Stop::when(Arc::default(), || true);
    let ranges = Arc::new(RangeJoinExec::new(join, Arc::new(ranges), stop)) as Arc<dyn ExecutionPlan>;
    let error = run(&ranges, u64::MAX).expect_err("it is over");
    assert_eq!(hobt_udf::sql_error_of(error).number, hobt_base::number::CANCELED);
}
