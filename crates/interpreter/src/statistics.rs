//! The texts of `SET STATISTICS TIME` and `SET STATISTICS IO`, exactly as SQL Server prints them.

use hobt_base::errors;
use std::time::Duration;

use super::event::{Message, TableReads};
use hobt_showplan::StatisticsCost;

/// Message 3613.
pub(super) fn compile_time(cpu: Duration, elapsed: Duration) -> Message {
    let (cpu, elapsed) = (cpu.as_millis(), elapsed.as_millis());
    Message::of(1, errors::COMPILE_TIMES.with([&cpu, &elapsed]))
}

/// Message 3613, for the statistics that were made before a plan.
pub(super) fn statistics_times(made: &StatisticsCost) -> Message {
    let StatisticsCost { objects, elapsed, cpu, logical, physical, .. } = made;
    let (cpu, elapsed) = (cpu.as_millis(), elapsed.as_millis());
    Message::of(1, errors::STATISTICS_TIMES.with([objects, logical, physical, &cpu, &elapsed]))
}

/// Message 3612.
pub(super) fn execution_times(cpu: Duration, elapsed: Duration) -> Message {
    let (cpu, elapsed) = (cpu.as_millis(), elapsed.as_millis());
    Message::of(1, errors::EXECUTION_TIMES.with([&cpu, &elapsed]))
}

/// Message 3615.
pub(super) fn table_reads(line: u32, reads: &TableReads) -> Message {
    let TableReads { table, scans, logical, physical, read_ahead, lob_logical, lob_physical } = reads;
    Message::of(
        line,
        errors::TABLE_READS.with([&table, &scans, &logical, &physical, &read_ahead, &lob_logical, &lob_physical]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_those_of_the_manual() {
        let reads = TableReads { table: "X".to_owned(), scans: 1, logical: 834, ..TableReads::default() };
        assert_eq!(
            table_reads(1, &reads).text,
            "Table 'X'. Scan count 1, logical reads 834, physical reads 0, page server reads 0, read-ahead reads 0, \
             page server read-ahead reads 0, lob logical reads 0, lob physical reads 0, lob page server reads 0, \
             lob read-ahead reads 0, lob page server read-ahead reads 0."
        );
        assert!(
            execution_times(Duration::from_millis(94), Duration::from_millis(966))
                .text
                .ends_with(" SQL Server Execution Times:\n   CPU time = 94 ms,  elapsed time = 966 ms.")
        );
    }
}
