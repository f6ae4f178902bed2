//! The groups of one worker so far.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::batches::{KeyValues, cut};
use super::shape::{Set, Shape};
use crate::key_codes::{Chain, Codes};

/// With more groups than this, they must be fewer than rows.
const GROUPS_FEW: usize = 1 << 17;
/// As many rows of ten must find a group that is there.
const FOUND_OF_TEN: usize = 2;
/// Values of one column, and groups of one set, at most.
const CODES_MAX: usize = 1 << 22;

/// Whether more rows can be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    Room,
    /// The groups are too many, or memory is short.
    Full,
}

pub(super) struct Gathering {
    shape: Arc<Shape>,
    codes: Vec<Codes>,
    /// The codes of a batch, for each key.
    read: Vec<Vec<u32>>,
    sets: Vec<GroupsOfSet>,
    rows: usize,
    reservation: MemoryReservation,
    batch_rows: usize,
}

/// The groups of one grouping set.
struct GroupsOfSet {
    chain: Chain,
    /// For each aggregate; `None` if it gives the text of a key of the set.
    accumulators: Vec<Option<Box<dyn GroupsAccumulator>>>,
}

impl Gathering {
    pub(super) fn new(shape: &Arc<Shape>, context: &TaskContext) -> Result<Gathering> {
        let sets = shape.sets.iter().map(|set| {
            let accumulators = shape.calls.iter().map(|call| match call.text_of {
                Some(key) if set.keys.contains(&key) => Ok(None),
                _ => call.function.create_groups_accumulator().map(Some),
            });
            Ok(GroupsOfSet { chain: Chain::of(set.keys.clone()), accumulators: accumulators.collect::<Result<_>>()? })
        });
        Ok(Gathering {
            sets: sets.collect::<Result<_>>()?,
            codes: shape.keys.iter().map(|key| key.codes()).collect::<Result<_>>()?,
            read: vec![Vec::new(); shape.keys.len()],
            shape: Arc::clone(shape),
            rows: 0,
            reservation: MemoryConsumer::new("FewGroups").register(context.memory_pool()),
            batch_rows: context.session_config().batch_size(),
        })
    }

    /// Adds the rows of a batch of the source.
    ///
    /// # Errors
    /// Those of keys, arguments and aggregates.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<Added> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(Added::Room);
        }
        let batch = self.shape.projected(batch)?;
        for ((key, codes), read) in self.shape.keys.iter().zip(&mut self.codes).zip(&mut self.read) {
            codes.read(&key.values(&batch)?, read)?;
        }
        let counts: Vec<usize> = self.codes.iter().map(Codes::count).collect();
        let arguments = self.shape.calls.iter().map(|call| call.read(&batch)).collect::<Result<Vec<_>>>()?;
        let (mut numbers, mut groups) = (Vec::new(), Vec::new());
        for set in &mut self.sets {
            set.chain.read(&self.read, &counts, rows, &mut numbers);
            groups.clear();
            groups.extend(numbers.iter().map(|number| *number as usize));
            let total = set.chain.count();
            for (accumulator, (values, filter)) in set.accumulators.iter_mut().zip(&arguments) {
                if let Some(accumulator) = accumulator {
                    accumulator.update_batch(values, &groups, filter.as_ref(), total)?;
                }
            }
        }
        self.rows += rows;
        self.room()
    }

    /// Makes the group of all rows where a set is one, so that it has the states of no rows.
    fn add_no_rows(&mut self) -> Result<()> {
        if !self.shape.sets.iter().any(Set::is_of_all_rows) {
            return Ok(());
        }
        let batch = self.shape.projected(&RecordBatch::new_empty(self.shape.source().schema()))?;
        for (set, groups) in self.shape.sets.iter().zip(&mut self.sets) {
            for (accumulator, call) in groups.accumulators.iter_mut().zip(&self.shape.calls) {
                if let Some(accumulator) = accumulator.as_mut().filter(|_| set.is_of_all_rows()) {
                    accumulator.update_batch(&call.read(&batch)?.0, &[], None, 1)?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is room for another batch.
    fn room(&mut self) -> Result<Added> {
        let groups = self.sets.iter().map(|set| set.chain.count());
        let (most, all) = (groups.clone().max().unwrap_or(0), groups.sum::<usize>());
        let values = self.codes.iter().map(Codes::count).max().unwrap_or(0);
        let are_new = all > GROUPS_FEW && all * 10 > self.rows * self.sets.len() * (10 - FOUND_OF_TEN);
        if are_new || most.max(values) > CODES_MAX {
            return Ok(Added::Full);
        }
        match self.reservation.try_resize(self.bytes()) {
            Ok(()) => Ok(Added::Room),
            Err(DataFusionError::ResourcesExhausted(_)) => Ok(Added::Full),
            Err(error) => Err(error),
        }
    }

    fn bytes(&self) -> usize {
        let of_set = |set: &GroupsOfSet| {
            let states = set.accumulators.iter().flatten().map(|accumulator| accumulator.size());
            set.chain.bytes() + states.sum::<usize>()
        };
        self.codes.iter().map(Codes::bytes).sum::<usize>() + self.sets.iter().map(of_set).sum::<usize>()
    }

    /// The states of all groups. If no row was added, of the group of all rows alone, in the sets that are one.
    ///
    /// # Errors
    /// Those of aggregates.
    pub(super) fn into_batches(mut self) -> Result<Vec<Result<RecordBatch>>> {
        if self.rows == 0 {
            self.add_no_rows()?;
        }
        let mut made = Vec::new();
        let values = KeyValues::of(&self.shape, &self.codes)?;
        for (set, groups) in self.shape.sets.iter().zip(self.sets) {
            if self.rows == 0 && !set.is_of_all_rows() {
                continue;
            }
            made.extend(cut(&groups.into_batch(&self.shape, set, &values)?, self.batch_rows).map(Ok));
        }
        Ok(made)
    }
}

impl GroupsOfSet {
    fn into_batch(self, shape: &Shape, set: &Set, values: &KeyValues) -> Result<RecordBatch> {
        let (mut columns, codes) = values.columns(shape, set, &self.chain)?;
        for (call, accumulator) in shape.calls.iter().zip(self.accumulators) {
            match (accumulator, call.text_of) {
                (Some(mut accumulator), _) => columns.extend(accumulator.state(EmitTo::All)?),
                (None, Some(key)) => columns.push(values.texts(key, &codes)?),
                (None, None) => return Err(internal_datafusion_err!("an aggregate without a state")),
            }
        }
        Ok(RecordBatch::try_new(Arc::clone(shape.schema()), columns)?)
    }
}
