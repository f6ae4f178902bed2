//! Hides what is known of rows, where it is not so of what becomes of them, or must not be used.
//!
//! - A sort by a constant, or of rows that are already sorted, passes rows on as they come. An `INSERT` that reads the
//!   table that it fills would then meet its own rows and never end. Over hidden rows the sort takes all of them before
//!   it gives one.
//! - DataFusion's operators hand on what grouping sets and joins make untrue (`hobt-planner`, `untrue`).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr, PlanProperties};

use crate::inputs::{shows_its_name, with_inputs, without_expressions};

/// What is hidden of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hides {
    /// Their order, which of their columns are equal or constant, and by what they are spread.
    All,
    /// Their order, and which of their columns are equal or constant.
    Values,
    /// Their order.
    Order,
    /// Of their order what comes after the first column of another side: the rows are those of a join, whose left side
    /// has so many columns.
    MixedOrder(usize),
}

/// Passes on the rows of its input, by the same workers.
#[derive(Debug)]
pub struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    hides: Hides,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    /// Hides something of the rows of `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>, hides: Hides) -> UnorderedExec {
        let all = input.equivalence_properties();
        let mut known = EquivalenceProperties::new(input.schema());
        if matches!(hides, Hides::Order | Hides::MixedOrder(_)) {
            // It fails for columns that are not in the schema.
            let _all_are_there = known.add_equivalence_group(all.eq_group().clone());
        }
        if let Hides::MixedOrder(left) = hides {
            known.add_orderings(all.oeq_class().iter().map(|order| of_one_side(order, left)));
        }
        let partitioning = match hides {
            Hides::All => Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            _ => input.output_partitioning().clone(),
        };
        let properties = PlanProperties::new(known, partitioning, input.pipeline_behavior(), input.boundedness());
        UnorderedExec { input, hides, properties: Arc::new(properties) }
    }

    /// What it hides.
    pub fn hides(&self) -> Hides {
        self.hides
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> UnorderedExec {
        UnorderedExec::new(input, self.hides)
    }
}

/// The beginning of an order that is of columns of the side of its first column.
fn of_one_side(order: &[PhysicalSortExpr], left: usize) -> Vec<PhysicalSortExpr> {
    let first = order.first().and_then(|first| is_of_left(&first.expr, left));
    order.iter().take_while(|part| first.is_some() && is_of_left(&part.expr, left) == first).cloned().collect()
}

/// Whether an expression over a join's columns is of the left side; `None` if it is of both or of none.
fn is_of_left(expr: &Arc<dyn PhysicalExpr>, left: usize) -> Option<bool> {
    let columns = collect_columns(expr);
    let mut sides = columns.iter().map(|column: &Column| column.index() < left);
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}

shows_its_name!(UnorderedExec);

impl ExecutionPlan for UnorderedExec {
    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    with_inputs!(input);
    without_expressions!();

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.hides == Hides::All]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
