//! `DBCC SQLPERF (LOGSPACE)` and `DBCC LOGINFO`: the sizes and contents of the logs.

use hobt_base::Position;
use hobt_engine::LogDescription;
use hobt_types::{SqlType, Value};

use super::NAME;
use crate::dbcc::Maintenance;
use crate::failure::Failure;

impl Maintenance<'_, '_> {
    pub(super) fn log_space(&mut self) -> Result<(), Failure> {
        let columns = [
            ("Database Name", NAME),
            ("Log Size (MB)", SqlType::Real),
            ("Log Space Used (%)", SqlType::Real),
            ("Status", SqlType::Int),
        ];
        let instance = &self.batch.environment.instance;
        let mut rows = Vec::new();
        for description in instance.databases() {
            // A database that cannot be opened has no readable log.
            let Ok(database) = instance.database_by_id(description.id) else { continue };
            let log = LogDescription::of(database.storage());
            let (bytes, used) = log.map_or((0, 0.0), |log| (log.file_bytes, log.used_percent()));
            let megabytes = bytes as f64 / f64::from(1 << 20);
            let real = |value: f64| Value::Float(f64::from(value as f32));
            rows.push(vec![Value::Text(description.name), real(megabytes), real(used), Value::Int(0)]);
        }
        self.batch.send_values(&columns, rows).map(|_| ())
    }

    /// `LOGINFO [(database)]`: one row per segment, which SQL Server calls a virtual log file.
    pub(super) fn log_information(&mut self, arguments: &[Value], position: Position) -> Result<(), Failure> {
        let database = self.database_to_check(arguments.first(), "LOGINFO", position)?;
        let columns = [
            ("RecoveryUnitId", SqlType::Int),
            ("FileId", SqlType::Int),
            ("FileSize", SqlType::BigInt),
            ("StartOffset", SqlType::BigInt),
            ("FSeqNo", SqlType::Int),
            ("Status", SqlType::Int),
            ("Parity", SqlType::Int),
            ("CreateLSN", SqlType::Decimal { precision: 25, scale: 0 }),
        ];
        let rows = LogDescription::of(database.storage()).map_or_else(Vec::new, |log| segment_rows(&log));
        self.batch.send_values(&columns, rows).map(|_| ())
    }
}

fn segment_rows(log: &LogDescription) -> Vec<Vec<Value>> {
    let big = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let rows = log.segments.iter().map(|segment| {
        vec![
            Value::Int(0),
            Value::Int(i64::from(log.file_of(segment).0)),
            big(segment.bytes),
            big(segment.offset),
            big(segment.sequence.unwrap_or(0)),
            // 2: in use; 0: free.
            Value::Int(if segment.sequence.is_some() { 2 } else { 0 }),
            Value::Int(0),
            Value::Decimal(0),
        ]
    });
    rows.collect()
}
