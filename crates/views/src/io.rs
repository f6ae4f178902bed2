//! Reads and writes: by file, by size and latency, over time.

use hobt_disk::{FileSnapshot, TransferSnapshot};
use hobt_engine::{DatabaseUse, FileShare, LogDescription, time_of_day};
use hobt_interpreter::ViewContext;
use hobt_types::{SqlType, Value};

use crate::value::{NULL, milliseconds, milliseconds_of, row};
use crate::{Definition, Rows, Sources};

pub(super) static VIEWS: &[Definition] = &[
    Definition::function(
        "dm_io_virtual_file_stats",
        &[SqlType::SmallInt, SqlType::SmallInt],
        "database_id smallint!, file_id smallint!, sample_ms bigint!, num_of_reads bigint!, num_of_bytes_read bigint!, \
         io_stall_read_ms bigint!, num_of_writes bigint!, num_of_bytes_written bigint!, io_stall_write_ms bigint!, \
         io_stall bigint!, size_on_disk_bytes bigint!, file_handle varbinary(8)!, io_stall_queued_read_ms bigint!, \
         io_stall_queued_write_ms bigint!",
        virtual_file_stats,
    ),
    Definition::sys(
        "hobt_io_histogram",
        "database_id int!, file_id int!, operation nvarchar(10)!, measure nvarchar(10)!, class_from bigint!, \
         class_below bigint!, transfers bigint!, bytes bigint",
        histogram,
    ),
    Definition::sys(
        "hobt_file_shares",
        "database_id int!, file_id int!, device_number bigint!, bytes_read bigint!, read_busy_ms bigint!, \
         bytes_written bigint!, write_busy_ms bigint!, share float!",
        file_shares,
    ),
    Definition::sys(
        "hobt_io_throughput",
        "start_ms bigint!, bytes_read bigint!, bytes_written bigint!",
        |sources, _, _| {
            let rows = sources
                .instance
                .disk()
                .throughput()
                .samples()
                .into_iter()
                .map(|sample| row![milliseconds(sample.start), sample.bytes_read, sample.bytes_written]);
            Ok(rows.collect())
        },
    ),
];

/// Every open file of every database with its counters. Spilled data counts as a part of tempdb's first file.
fn files(sources: &Sources) -> Vec<(DatabaseUse, u16, u64, FileSnapshot)> {
    let mut files = Vec::new();
    for description in sources.instance.databases() {
        let Ok(database) = sources.instance.database_by_id(description.id) else { continue };
        for file in database.storage().files() {
            let mut bytes = u64::from(file.size_pages()) * hobt_base::PAGE_SIZE as u64;
            let mut transfers = file.disk().statistics().snapshot();
            if let Some(spills) = sources.instance.spills_in(database.id(), file.id()) {
                bytes += spills.size_bytes();
                transfers.add(&spills.transfers());
            }
            files.push((database.clone(), file.id().0, bytes, transfers));
        }
        for file in LogDescription::of(database.storage()).map_or_else(Vec::new, |log| log.files) {
            files.push((database.clone(), file.id.0, file.bytes, file.transfers));
        }
    }
    files
}

fn virtual_file_stats(sources: &Sources, _: &ViewContext, arguments: &[Value]) -> Rows {
    let wanted = |argument: Option<&Value>, id: u16| match argument {
        Some(Value::Int(asked)) => *asked == i64::from(id),
        _ => true,
    };
    let sample = u64::try_from((time_of_day() - sources.started) / 10_000).unwrap_or(0);
    let rows = files(sources)
        .into_iter()
        .filter(|(database, file, ..)| wanted(arguments.first(), database.id().0) && wanted(arguments.get(1), *file))
        .map(|(database, file, bytes, counts)| {
            let (reads, writes) = (&counts.reads, &counts.writes);
            let (read_ms, write_ms) = (milliseconds_of(reads.stall_ns), milliseconds_of(writes.stall_ns));
            row![
                database.id().0,
                file,
                sample,
                reads.count,
                reads.bytes,
                read_ms,
                writes.count,
                writes.bytes,
                write_ms,
                read_ms + write_ms,
                bytes,
                Value::Binary(vec![0; 8]),
                milliseconds_of(reads.queued_ns),
                milliseconds_of(writes.queued_ns)
            ]
        });
    Ok(rows.collect())
}

fn histogram(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for (database, file, _, counts) in files(sources) {
        for (operation, transfers) in [("read", &counts.reads), ("write", &counts.writes)] {
            histogram_rows(&database, file, operation, transfers, &mut rows);
        }
    }
    Ok(rows)
}

/// Each data file with the large transfers of its device, and its part of the next extents of its filegroup.
fn file_shares(sources: &Sources, _: &ViewContext, _: &[Value]) -> Rows {
    let mut rows = Vec::new();
    for description in sources.instance.databases() {
        let Ok(database) = sources.instance.database_by_id(description.id) else { continue };
        rows.extend(database.storage().shares().into_iter().map(|share| {
            let FileShare { file, device, reads, writes, share } = share;
            row![
                database.id().0,
                file.0,
                device.cast_signed(),
                reads.bytes,
                milliseconds(reads.busy),
                writes.bytes,
                milliseconds(writes.busy),
                share
            ]
        }));
    }
    Ok(rows)
}

/// Sizes in bytes with the bytes transferred, then latencies in microseconds.
fn histogram_rows(
    database: &DatabaseUse,
    file: u16,
    operation: &str,
    transfers: &TransferSnapshot,
    rows: &mut Vec<Vec<Value>>,
) {
    for size in &transfers.sizes {
        let below = size.bytes_min.saturating_mul(2).max(1);
        rows.push(row![database.id().0, file, operation, "bytes", size.bytes_min, below, size.count, size.bytes]);
    }
    for (bucket, count) in transfers.latency_us.iter().enumerate().filter(|(_, count)| **count > 0) {
        let from = if bucket == 0 { 0 } else { 1_i64 << (bucket - 1) };
        rows.push(row![database.id().0, file, operation, "latency_us", from, 1_i64 << bucket, *count, NULL]);
    }
}
