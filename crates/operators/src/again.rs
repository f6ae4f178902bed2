//! Makes the left side of nested loops readable a second time.
//!
//! DataFusion's nested loops buffer their left side. If memory runs out, they then keep a part of the rows at a time
//! and read the side again from its first row. A reader of a table here can be read only once: executed again, it would
//! give what is left. So the second execution runs a fresh copy of the plan's state. One case is refused instead: a
//! join type whose output shows left rows by whether they have partners, with more than one worker. There each worker
//! would judge by its own partners alone (so DataFusion's comments say, in 55.2), so such a join fails if its left side
//! does not fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::inputs::{passes_on, shows_its_name, without_expressions};
use super::join_types::shows_left_by_partners;

/// Passes rows on; each execution gives all of them. See the module.
#[derive(Debug)]
pub(crate) struct AgainExec {
    input: Arc<dyn ExecutionPlan>,
    repeats: bool,
    has_begun: AtomicBool,
}

impl AgainExec {
    /// For the left side of a join.
    pub(super) fn left_of(join: &NestedLoopJoinExec) -> AgainExec {
        let repeats =
            !shows_left_by_partners(*join.join_type()) || join.right().output_partitioning().partition_count() == 1;
        AgainExec { input: Arc::clone(join.left()), repeats, has_begun: AtomicBool::new(false) }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> AgainExec {
        AgainExec { input, repeats: self.repeats, has_begun: AtomicBool::new(false) }
    }
}

shows_its_name!(AgainExec);

impl ExecutionPlan for AgainExec {
    passes_on!(input);
    without_expressions!();

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, task);
        }
        if !self.repeats {
            let text = "nested loops whose left side does not fit and is shown by its partners";
            return Err(DataFusionError::ResourcesExhausted(text.to_owned()));
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, task)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{JoinSide, JoinType};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::expressions::{BinaryExpr, Column};
    use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::{Partitioning, collect};
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::memory::pool_of;
    use hobt_udf::sql_error_of;

    /// Rows of a number and a long text, behind a repartitioning, which can be read only once.
    fn source(rows: i64) -> Arc<dyn ExecutionPlan> {
        let fields = vec![Field::new("v", DataType::Int64, false), Field::new("t", DataType::Utf8View, false)];
        let schema = Arc::new(Schema::new(fields));
        let batch = |first: i64| {
            let numbers: Vec<i64> = (first..(first + 50).min(rows)).collect();
            let texts: StringViewArray = numbers.iter().map(|n| Some(format!("{n:0>1000}"))).collect();
            let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(numbers)), Arc::new(texts)];
            RecordBatch::try_new(Arc::clone(&schema), arrays).expect("rows")
        };
        let batches: Vec<RecordBatch> = (0..rows).step_by(50).map(batch).collect();
        let rows = MemorySourceConfig::try_new_exec(&[batches], schema, None).expect("a plan");
        Arc::new(RepartitionExec::try_new(rows, Partitioning::RoundRobinBatch(2)).expect("a plan"))
    }

    /// The number of rows of a join of 2,000 rows with 40 others.
    fn joined(join_type: JoinType, bytes: u64) -> Result<usize> {
        let both = Schema::new(["v", "v"].map(|name| Field::new(name, DataType::Int64, true)).to_vec());
        let sides = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 0, side });
        let column = |at| Arc::new(Column::new("v", at)) as Arc<dyn datafusion::physical_expr::PhysicalExpr>;
        let differs = Arc::new(BinaryExpr::new(column(0), Operator::NotEq, column(1)));
        let filter = JoinFilter::new(differs, sides.to_vec(), Arc::new(both));
        let left = Arc::new(CoalescePartitionsExec::new(source(2000)));
        let join = NestedLoopJoinExec::try_new(left, source(40), Some(filter), &join_type, Some(vec![0]))?;
        let (left, right) = (Arc::new(AgainExec::left_of(&join)), Arc::clone(join.right()));
        let join = NestedLoopJoinExec::try_new(left, right, join.filter().cloned(), &join_type, Some(vec![0]))?;
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool_of(bytes)).build_arc()?;
        let config = SessionConfig::new().with_batch_size(100);
        let context = Arc::new(TaskContext::default().with_session_config(config).with_runtime(runtime));
        let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("workers");
        let batches = workers.block_on(collect(Arc::new(join), context))?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    #[test]
    fn a_left_side_that_does_not_fit_is_read_whole_again() {
        const LITTLE: u64 = 1 << 20;
        for join_type in [JoinType::Inner, JoinType::Right] {
            assert_eq!(joined(join_type, u64::MAX).expect("rows"), 2000 * 40 - 40, "{join_type}");
            assert_eq!(joined(join_type, LITTLE).expect("rows"), 2000 * 40 - 40, "{join_type}");
        }
        let error = joined(JoinType::Left, LITTLE).expect_err("each worker would show its own");
        assert_eq!(sql_error_of(error).number, hobt_base::number::OUT_OF_MEMORY);
    }
}
