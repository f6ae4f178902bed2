//! Where partitions and groups of peers begin: rows with equal keys follow each other.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::take;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;

use super::super::light::alone;

/// What the rows of a batch begin, each with a flag.
pub(super) struct Borders {
    /// The first row of a partition.
    pub(super) partitions: Vec<bool>,
    /// The first row of those with equal keys, of the partition and of the order.
    pub(super) peers: Vec<bool>,
}

/// Finds the borders of batch after batch.
pub(super) struct BorderFinder {
    partition: Keys,
    /// `None` if peers are not found.
    order: Option<Keys>,
}

impl BorderFinder {
    /// For rows in the order of `window`'s keys.
    pub(super) fn of(window: &dyn WindowExpr, finds_peers: bool) -> BorderFinder {
        let order = window.order_by().iter().map(|sort| Arc::clone(&sort.expr));
        let order = finds_peers.then(|| Keys { keys: order.collect(), last: None });
        BorderFinder { partition: Keys { keys: window.partition_by().to_vec(), last: None }, order }
    }

    /// The borders of the next rows, of which there is one at least.
    pub(super) fn next(&mut self, batch: &RecordBatch) -> Result<Borders> {
        let partitions = self.partition.next(batch)?;
        let peers = match &mut self.order {
            None => partitions.clone(),
            Some(order) => order.next(batch)?.into_iter().zip(&partitions).map(|(own, outer)| own | outer).collect(),
        };
        Ok(Borders { partitions, peers })
    }
}

/// Columns by which rows are told apart.
struct Keys {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// The values of the last row.
    last: Option<Vec<ArrayRef>>,
}

impl Keys {
    /// For each row whether it differs from the one before.
    fn next(&mut self, batch: &RecordBatch) -> Result<Vec<bool>> {
        let rows = batch.num_rows();
        let values = self.keys.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let mut is_first = self.last.is_none();
        for (value, last) in values.iter().zip(self.last.iter().flatten()) {
            is_first |= distinct(&value.slice(0, 1), last)?.value(0);
        }
        let mut others: Option<BooleanBuffer> = None;
        for value in &values {
            let differs = distinct(&value.slice(1, rows - 1), &value.slice(0, rows - 1))?.values().clone();
            others = Some(others.map_or_else(|| differs.clone(), |others| &others | &differs));
        }
        let mut differs = vec![false; rows];
        differs[0] = is_first;
        for (differs, other) in differs[1..].iter_mut().zip(others.iter().flatten()) {
            *differs = other;
        }
        let last = UInt64Array::from(vec![rows as u64 - 1]);
        let last = values.iter().map(|value| Ok(alone(take(value, &last, None)?)));
        self.last = Some(last.collect::<Result<_>>()?);
        Ok(differs)
    }
}
