//! The functions that are computed here.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;
use hobt_base::SqlError;
use hobt_functions::aggregate::{Frames, RunningAggregate};
use hobt_udf::{SqlAggregate, external};

use super::borders::Borders;
use super::shift::Shift;

/// A function with its state.
pub(super) struct Function {
    window: Arc<dyn WindowExpr>,
    kind: Kind,
}

enum Kind {
    /// The rows of the partition that have come.
    RowNumber(u64),
    Rank(Ranks),
    DenseRank(Ranks),
    Shift(Shift),
    Aggregate {
        running: Box<dyn RunningAggregate>,
        /// Whether the frame ends with the row's last peer, not with the row.
        takes_peers: bool,
    },
}

/// Rows to compute values for.
#[derive(Clone, Copy)]
pub(super) struct Rows<'r> {
    pub(super) batch: &'r RecordBatch,
    pub(super) borders: &'r Borders,
    /// For each row whether it is the last of its peers.
    pub(super) ends_of_peers: &'r [bool],
    /// The rows behind them: as many as a function looks at, unless there are no more.
    pub(super) behind: &'r VecDeque<(RecordBatch, Borders)>,
}

/// Rows and groups of peers of the partition that have come, and the row that begins the last group.
#[derive(Default)]
struct Ranks {
    rows: u64,
    groups: u64,
    first: u64,
}

impl Function {
    /// The function, at the start of the rows; `None` if it is another one.
    pub(super) fn of(window: &Arc<dyn WindowExpr>) -> Result<Option<Function>> {
        let any = window.as_any();
        let kind = match (any.downcast_ref(), any.downcast_ref()) {
            (Some(function), _) => of_window_function(function)?,
            (_, Some(aggregate)) => of_aggregate(aggregate),
            _ => None,
        };
        Ok(kind.map(|kind| Function { window: Arc::clone(window), kind }))
    }

    /// Whether a row has its value only when its last peer has come.
    pub(super) fn takes_peers(&self) -> bool {
        matches!(self.kind, Kind::Aggregate { takes_peers: true, .. })
    }

    /// How many rows behind a row it looks at.
    pub(super) fn rows_behind(&self) -> usize {
        match &self.kind {
            Kind::Shift(shift) => shift.rows_behind(),
            _ => 0,
        }
    }

    /// Whether it must be told where groups of peers begin.
    pub(super) fn asks_for_peers(&self) -> bool {
        self.takes_peers() || matches!(self.kind, Kind::Rank(_) | Kind::DenseRank(_))
    }

    /// The bytes of the values that it keeps.
    pub(super) fn size(&self) -> usize {
        match &self.kind {
            Kind::Shift(shift) => shift.size(),
            Kind::Aggregate { running, .. } => running.size(),
            Kind::RowNumber(_) | Kind::Rank(_) | Kind::DenseRank(_) => 0,
        }
    }

    /// The values of the next rows. If it takes peers, only up to the last row that ends a group.
    pub(super) fn run(&mut self, rows: Rows<'_>) -> Result<ArrayRef> {
        let (batch, borders) = (rows.batch, rows.borders);
        let restarts = borders.partitions.as_slice();
        match &mut self.kind {
            Kind::RowNumber(rows) => {
                let number = |restart: &bool| {
                    *rows = if *restart { 1 } else { *rows + 1 };
                    *rows
                };
                Ok(Arc::new(UInt64Array::from_iter_values(restarts.iter().map(number))))
            }
            Kind::Rank(ranks) => Ok(ranks.run(borders, |ranks| ranks.first)),
            Kind::DenseRank(ranks) => Ok(ranks.run(borders, |ranks| ranks.groups)),
            Kind::Shift(shift) if shift.rows_behind() == 0 => {
                shift.run(&argument(self.window.as_ref(), batch)?, restarts, batch.num_rows())
            }
            Kind::Shift(shift) => {
                let (values, restarts) = with_rows_behind(self.window.as_ref(), rows, shift.rows_behind())?;
                shift.run(&values, &restarts, batch.num_rows())
            }
            Kind::Aggregate { running, takes_peers } => {
                let arguments = self.window.evaluate_args(batch)?;
                let every_row;
                let ends = match takes_peers {
                    true => rows.ends_of_peers,
                    false => {
                        every_row = vec![true; batch.num_rows()];
                        &every_row
                    }
                };
                running.run(&arguments, Frames { restarts, ends }).map_err(external)
            }
        }
    }
}

/// The only argument of a function.
fn argument(window: &dyn WindowExpr, batch: &RecordBatch) -> Result<ArrayRef> {
    let mut arguments = window.evaluate_args(batch)?;
    match (arguments.pop(), arguments.pop()) {
        (Some(argument), None) => Ok(argument),
        _ => Err(external(SqlError::internal("LAG or LEAD of other than one column"))),
    }
}

/// The values of a function's argument in the rows and in up to `count` rows behind them, and whether these are the
/// first of a partition.
fn with_rows_behind(window: &dyn WindowExpr, rows: Rows<'_>, count: usize) -> Result<(ArrayRef, Vec<bool>)> {
    let (mut pieces, mut restarts) = (vec![argument(window, rows.batch)?], rows.borders.partitions.clone());
    let mut left = count;
    for (batch, borders) in rows.behind {
        let taken = left.min(batch.num_rows());
        if taken == 0 {
            break;
        }
        pieces.push(argument(window, &batch.slice(0, taken))?);
        restarts.extend_from_slice(&borders.partitions[..taken]);
        left -= taken;
    }
    let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
    Ok((concat(&pieces)?, restarts))
}

impl Ranks {
    fn run(&mut self, borders: &Borders, rank: impl Fn(&Ranks) -> u64) -> ArrayRef {
        let ranks = borders.partitions.iter().zip(&borders.peers).map(|(is_partition, is_group)| {
            if *is_partition {
                *self = Ranks::default();
            }
            self.rows += 1;
            if *is_group {
                self.groups += 1;
                self.first = self.rows;
            }
            rank(self)
        });
        Arc::new(UInt64Array::from_iter_values(ranks))
    }
}

fn of_window_function(window: &StandardWindowExpr) -> Result<Option<Kind>> {
    let expr = window.get_standard_func_expr();
    let Some(function) = expr.as_any().downcast_ref::<WindowUDFExpr>().map(WindowUDFExpr::fun) else {
        return Ok(None);
    };
    Ok(match function {
        function if *function == row_number_udwf() => Some(Kind::RowNumber(0)),
        function if *function == rank_udwf() => Some(Kind::Rank(Ranks::default())),
        function if *function == dense_rank_udwf() => Some(Kind::DenseRank(Ranks::default())),
        function if *function == lag_udwf() || *function == lead_udwf() => {
            Shift::of(|| expr.create_evaluator(), expr.field()?.data_type())?.map(Kind::Shift)
        }
        _ => None,
    })
}

fn of_aggregate(window: &PlainAggregateWindowExpr) -> Option<Kind> {
    let frame = window.get_window_frame();
    let begins_with_partition = matches!(&frame.start_bound, WindowFrameBound::Preceding(rows) if rows.is_null());
    let takes_peers = match (&frame.end_bound, frame.units) {
        (WindowFrameBound::CurrentRow, WindowFrameUnits::Rows) => false,
        // Without an order all rows of a partition are peers, and DataFusion takes another way.
        (WindowFrameBound::CurrentRow, WindowFrameUnits::Range) if !window.order_by().is_empty() => true,
        _ => return None,
    };
    // T-SQL has no FILTER.
    let aggregate = window.get_aggregate_expr();
    let is_plain = !aggregate.is_distinct() && !aggregate.ignore_nulls() && aggregate.order_bys().is_empty();
    if !begins_with_partition || !is_plain {
        return None;
    }
    let aggregate = aggregate.fun().inner().downcast_ref::<SqlAggregate>()?.aggregate();
    aggregate.running().map(|running| Kind::Aggregate { running, takes_peers })
}

/// Whether rows can be told apart by a key of this type.
pub(super) fn can_be_key(data_type: &DataType) -> bool {
    !data_type.is_null() && !data_type.is_nested()
}
