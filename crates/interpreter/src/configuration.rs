//! The options of `sp_configure` and `sys.configurations`: names, bounds, and storage.

use hobt_access::scan::DealerKind;
use hobt_engine::{InDoubtResolution, RuntimeSettings};

/// One option.
#[derive(Debug)]
pub struct ServerOption {
    /// `configuration_id`: SQL Server's id if it has the option, otherwise from 20001 on.
    pub id: i32,
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The minimum.
    pub minimum: i64,
    /// The maximum.
    pub maximum: i64,
    /// Whether a value between the bounds is valid.
    pub accepts: fn(i64) -> bool,
    /// The value in force.
    pub get: fn(&RuntimeSettings) -> i64,
    /// Sets the value in force.
    pub set: fn(&mut RuntimeSettings, i64),
}

/// All options, ordered by name.
pub static OPTIONS: &[ServerOption] = &[
    ServerOption {
        id: 1535,
        name: "affinity mask",
        description: "Processors that workers run on, a bit each; 0 for all",
        minimum: i32::MIN as i64,
        maximum: i32::MAX as i64,
        accepts: |_| true,
        get: |runtime| i64::from(runtime.affinity_mask as u32 as i32),
        set: |runtime, value| runtime.affinity_mask = u64::from(value as i32 as u32),
    },
    ServerOption {
        id: 20003,
        name: "dealer",
        description: "What deals page ranges to the workers of a scan: 0 an atomic counter, 1 a latch",
        minimum: 0,
        maximum: 1,
        accepts: |_| true,
        get: |runtime| i64::from(matches!(runtime.dealer, DealerKind::Latched)),
        set: |runtime, value| {
            runtime.dealer = if value == 0 { DealerKind::Atomic } else { DealerKind::Latched };
        },
    },
    ServerOption {
        id: 1570,
        name: "in-doubt xact resolution",
        description: "A transaction over several databases that no database can tell of: 0 recovery waits, 1 it is \
                      presumed committed, 2 not committed",
        minimum: 0,
        maximum: 2,
        accepts: |_| true,
        get: |runtime| i64::from(runtime.in_doubt_resolution as u8),
        set: |runtime, value| {
            let place = usize::try_from(value).unwrap_or(0);
            runtime.in_doubt_resolution = InDoubtResolution::ALL.get(place).copied().unwrap_or_default();
        },
    },
    ServerOption {
        id: 1539,
        name: "max degree of parallelism",
        description: "Maximum degree of parallelism; 0 for as many as there are processors",
        minimum: 0,
        maximum: 32767,
        accepts: |_| true,
        get: |runtime| i64::from(runtime.max_degree_of_parallelism),
        set: |runtime, value| runtime.max_degree_of_parallelism = u32::try_from(value).unwrap_or(0),
    },
    ServerOption {
        id: 20002,
        name: "queue depth",
        description: "Reads in flight of one scan, over all its workers",
        minimum: 1,
        maximum: 256,
        accepts: |_| true,
        get: |runtime| i64::from(runtime.queue_depth),
        set: |runtime, value| runtime.queue_depth = u32::try_from(value).unwrap_or(1),
    },
    ServerOption {
        id: 20004,
        name: "read ahead",
        description: "Whether scans read ahead of their use",
        minimum: 0,
        maximum: 1,
        accepts: |_| true,
        get: |runtime| i64::from(runtime.read_ahead),
        set: |runtime, value| runtime.read_ahead = value != 0,
    },
    ServerOption {
        id: 20001,
        name: "read size (KB)",
        description: "Kilobytes of one read of a scan; a multiple of 64",
        minimum: 64,
        maximum: 512,
        accepts: |value| value % 64 == 0,
        get: |runtime| i64::from(runtime.read_bytes >> 10),
        set: |runtime, value| runtime.read_bytes = u32::try_from(value).unwrap_or(64) << 10,
    },
];

/// The options whose names begin with this text, ignoring case. An exact match returns only that option.
pub(super) fn find(name: &str) -> Vec<&'static ServerOption> {
    let name = name.to_lowercase();
    match OPTIONS.iter().find(|option| option.name.to_lowercase() == name) {
        Some(option) => vec![option],
        None => OPTIONS.iter().filter(|option| option.name.to_lowercase().starts_with(&name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unique_beginning_is_enough() {
        assert_eq!(find("MAX DEGREE").len(), 1);
        assert_eq!(find("read").len(), 2);
        assert!(find("nosuch").is_empty());
    }
}
