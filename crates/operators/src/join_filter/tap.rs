//! Collects the keys of the rows that it passes on.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, RecordBatchStream,
};
use futures::{Stream, StreamExt};

use super::keys::{Collected, KEYS_MAX};
use super::{JoinFilter, KeptFilter};
use crate::alike::are_same;
use crate::inputs::passes_on;
use crate::keeping::{Keeping, Recipe, only};

/// An expression that gives a key, and the filter that the key belongs to.
#[derive(Clone, Debug)]
pub struct Tapped {
    /// The expression whose values are noted.
    pub key: Arc<dyn PhysicalExpr>,
    /// The filter that they make.
    pub filter: Arc<JoinFilter>,
}

/// Passes rows on and collects their keys; see the module's page.
#[derive(Debug)]
pub struct KeyTapExec {
    input: Arc<dyn ExecutionPlan>,
    tapped: Vec<Tapped>,
}

impl KeyTapExec {
    /// Notes the values of `tapped` in the rows of `input`.
    pub fn new(input: Arc<dyn ExecutionPlan>, tapped: Vec<Tapped>) -> KeyTapExec {
        KeyTapExec { input, tapped }
    }

    /// The filters that it makes from the keys.
    pub fn filters(&self) -> impl Iterator<Item = &Arc<JoinFilter>> {
        self.tapped.iter().map(|tapped| &tapped.filter)
    }

    /// Whether it notes the same values as `other`.
    pub(crate) fn is_alike(&self, other: &KeyTapExec) -> bool {
        let keys = |tapped: &Tapped| Arc::clone(&tapped.key);
        are_same(self.tapped.iter().map(keys), other.tapped.iter().map(keys))
    }

    /// It without the keys of some filters; its input alone if no other is left.
    pub fn without(&self, filters: &[Arc<JoinFilter>]) -> Arc<dyn ExecutionPlan> {
        let is_left = |tapped: &&Tapped| !filters.iter().any(|other| Arc::ptr_eq(other, &tapped.filter));
        let left: Vec<Tapped> = self.tapped.iter().filter(is_left).cloned().collect();
        let input = Arc::clone(&self.input);
        if left.is_empty() { input } else { Arc::new(KeyTapExec::new(input, left)) }
    }

    /// How it is made again for another execution.
    pub(crate) fn kept(&self, keeping: &mut Keeping) -> Recipe {
        let kept = |tapped: &Tapped| (Arc::clone(&tapped.key), tapped.filter.kept(keeping));
        let tapped: Vec<_> = self.tapped.iter().map(kept).collect();
        Box::new(move |making, mut inputs| {
            let again = |(key, filter): &(Arc<dyn PhysicalExpr>, KeptFilter)| {
                Ok(Tapped { key: Arc::clone(key), filter: filter.made(making)? })
            };
            let tapped = tapped.iter().map(again).collect::<Result<_>>()?;
            Ok(Arc::new(KeyTapExec::new(only(&mut inputs)?, tapped)))
        })
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> KeyTapExec {
        KeyTapExec::new(input, self.tapped.clone())
    }
}

impl DisplayAs for KeyTapExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tapped.iter().map(|tapped| tapped.filter.name.as_str()).collect();
        write!(f, "KeyTap: {}", names.join(", "))
    }
}

impl ExecutionPlan for KeyTapExec {
    passes_on!(input);

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut keys = self.tapped.iter().map(|tapped| &tapped.key);
        keys.try_fold(TreeNodeRecursion::Continue, |recursion, key| recursion.visit_sibling(|| visit(key)))
    }

    /// Filters belong to one run: the reset of a scan drops them too.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(KeyTapExec::new(Arc::clone(&self.input), Vec::new())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        let noted = |tapped: &Tapped| {
            tapped.filter.begin(partition);
            let reservation = MemoryConsumer::new("JoinFilter").register(context.memory_pool());
            Noted { tapped: tapped.clone(), collected: Collected::default(), reservation, most: KEYS_MAX / partitions }
        };
        let noted = self.tapped.iter().map(noted).collect();
        let input = self.input.execute(partition, Arc::clone(&context))?;
        Ok(Box::pin(KeyTapStream { input, noted, partitions }))
    }
}

/// The keys of one partition's rows for one filter.
struct Noted {
    tapped: Tapped,
    collected: Collected,
    reservation: MemoryReservation,
    /// The most keys that are kept.
    most: usize,
}

impl Noted {
    fn note(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.tapped.key.evaluate(batch)?.into_array(batch.num_rows())?;
        self.collected.add_array(&keys);
        let kept = self.collected.kept();
        // Memory for the keys, and for the set that is made from them.
        let is_known = kept <= self.most && self.reservation.try_resize(kept * 2 * size_of::<i64>()).is_ok();
        if !is_known {
            self.collected.forget_keys();
            self.reservation.free();
        }
        Ok(())
    }
}

struct KeyTapStream {
    input: SendableRecordBatchStream,
    noted: Vec<Noted>,
    partitions: usize,
}

impl Stream for KeyTapStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = this.input.poll_next_unpin(task);
        match &polled {
            Poll::Ready(Some(Ok(batch))) => {
                for noted in &mut this.noted {
                    if let Err(error) = noted.note(batch) {
                        this.noted.clear();
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
            Poll::Ready(Some(Err(_))) => this.noted.clear(),
            Poll::Ready(None) => {
                for Noted { tapped, collected, reservation, .. } in this.noted.drain(..) {
                    tapped.filter.end(this.partitions, collected, reservation);
                }
            }
            Poll::Pending => {}
        }
        polled
    }
}

impl RecordBatchStream for KeyTapStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
