//! The build side of a join, as much as fits into memory.

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};

/// Bytes of a row in the join's hash table, beside itself: a hash, a position and a link, in a table that is half full.
const TABLE_BYTES: usize = 40;

/// Rows that are held in memory.
pub(super) struct Held {
    batches: Vec<(RecordBatch, usize)>,
    reservation: MemoryReservation,
}

/// The result of reading a build side.
pub(super) enum Build {
    /// All rows, with memory for a hash table.
    All(Held),
    /// The rows that were read, and the stream of the rest.
    More(Held, SendableRecordBatchStream),
}

impl Held {
    /// Reads `build` to its end, or until there is no memory for more, or it would take more than `bytes_max`.
    ///
    /// # Errors
    /// The errors of the build side.
    pub(super) async fn read(
        mut build: SendableRecordBatchStream,
        reservation: MemoryReservation,
        bytes_max: usize,
    ) -> Result<Build> {
        let mut held = Held { batches: Vec::new(), reservation };
        while let Some(batch) = build.try_next().await? {
            let bytes = batch.get_array_memory_size();
            let more = bytes + batch.num_rows() * TABLE_BYTES;
            let has_room = held.reservation.size() + more <= bytes_max && held.reservation.try_grow(more).is_ok();
            held.batches.push((batch, if has_room { bytes } else { 0 }));
            if !has_room {
                return Ok(Build::More(held, build));
            }
        }
        Ok(Build::All(held))
    }

    /// Releases all memory. The held rows go next to a consumer that needs memory to take them: a sort or a file.
    pub(super) fn let_go(&mut self) {
        self.reservation.free();
        self.batches.iter_mut().for_each(|(_, bytes)| *bytes = 0);
    }

    /// Gives the rows to a consumer with a memory account of its own. The memory of each batch is released as it goes,
    /// that of the hash table at the end.
    pub(super) fn into_stream(self, schema: arrow::datatypes::SchemaRef) -> SendableRecordBatchStream {
        let Held { batches, reservation } = self;
        let given = futures::stream::iter(batches).map(move |(batch, bytes)| {
            reservation.shrink(bytes.min(reservation.size()));
            Ok(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, given))
    }
}
