//! The options of `ALTER DATABASE … SET`, as the boot page stores them.

use hobt_access::Fill;
use hobt_txn::DelayedDurability;

/// What the log is kept for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RecoveryModel {
    /// Everything, bulk loads included.
    Full,
    /// Everything but the pages of bulk loads.
    BulkLogged,
    /// Crash recovery only: what a checkpoint has written is not needed any more.
    #[default]
    Simple,
}

impl RecoveryModel {
    /// All models.
    pub const ALL: [RecoveryModel; 3] = [RecoveryModel::Full, RecoveryModel::BulkLogged, RecoveryModel::Simple];

    /// `recovery_model` of `sys.databases`.
    pub const fn number(self) -> u8 {
        match self {
            RecoveryModel::Full => 1,
            RecoveryModel::BulkLogged => 2,
            RecoveryModel::Simple => 3,
        }
    }

    /// `recovery_model_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            RecoveryModel::Full => "FULL",
            RecoveryModel::BulkLogged => "BULK_LOGGED",
            RecoveryModel::Simple => "SIMPLE",
        }
    }
}

/// What the engine does with a database's statistics automatically.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatisticsOptions {
    /// `AUTO_CREATE_STATISTICS`: a query that needs statistics of a column creates a statistics object for it.
    pub creates: bool,
    /// `AUTO_UPDATE_STATISTICS`: a query that finds them out of date updates them.
    pub updates: bool,
    /// `AUTO_UPDATE_STATISTICS_ASYNC`: such a query does not wait for the update.
    pub updates_async: bool,
    /// `AUTO_CREATE_STATISTICS = ON (INCREMENTAL = ON)`.
    pub is_incremental: bool,
    /// `HOBT_STATISTICS_MAINTENANCE`: inserts and deletes maintain them. Otherwise they are as old as their last
    /// update.
    pub is_maintained: bool,
}

impl Default for StatisticsOptions {
    fn default() -> StatisticsOptions {
        StatisticsOptions {
            creates: true,
            updates: true,
            updates_async: false,
            is_incremental: false,
            is_maintained: true,
        }
    }
}

impl StatisticsOptions {
    /// Five bits, each set if the option differs from its default.
    fn encode(self) -> u32 {
        let other = [!self.creates, !self.updates, self.updates_async, self.is_incremental, !self.is_maintained];
        other.iter().zip(0..).map(|(is_other, place)| u32::from(*is_other) << place).sum()
    }

    fn decode(bits: u32) -> StatisticsOptions {
        let is_other = |place: u32| bits >> place & 1 != 0;
        StatisticsOptions {
            creates: !is_other(0),
            updates: !is_other(1),
            updates_async: is_other(2),
            is_incremental: is_other(3),
            is_maintained: !is_other(4),
        }
    }
}

/// The options of a database.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DatabaseOptions {
    /// What the log is kept for.
    pub recovery_model: RecoveryModel,
    /// When commits may return before they are durable.
    pub delayed_durability: DelayedDurability,
    /// A full backup was made since the recovery model was last `SIMPLE`, so the log is kept until it is backed up.
    /// Before that backup `FULL` and `BULK_LOGGED` keep no more of the log than `SIMPLE`, because nothing could be
    /// restored with it.
    pub has_log_chain: bool,
    /// The database is read-only: changes are error 3906.
    pub is_read_only: bool,
    /// What is done with statistics automatically.
    pub statistics: StatisticsOptions,
    /// It was created by `DBCC CLONEDATABASE`.
    pub is_clone: bool,
    /// It was verified (`VERIFY_CLONEDB`) when it was created.
    pub is_verified_clone: bool,
    /// `TARGET_RECOVERY_TIME`.
    pub target_recovery_time: TargetRecoveryTime,
    /// `PARAMETERIZATION FORCED`: statements that differ in constants only are one in the plan store.
    pub is_parameterization_forced: bool,
    /// `HOBT_FILL`: what weights the files of a filegroup.
    pub fill: Fill,
}

/// How long recovery may take, its undo apart, in seconds; 0 for any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetRecoveryTime(u32);

/// The bits of the boot page that hold it.
const TARGET_BITS: u32 = 17;
const TARGET_PLACE: u32 = 13;
/// The last bit but one: whether statements are parameterised.
const FORCED_PLACE: u32 = 30;
/// The last bit: whether files are weighted by throughput.
const FILL_PLACE: u32 = 31;
const _: () = assert!(TARGET_PLACE + TARGET_BITS == FORCED_PLACE && FORCED_PLACE + 2 == u32::BITS);
/// SQL Server's default.
const TARGET_SECONDS_DEFAULT: u32 = 60;

impl TargetRecoveryTime {
    /// A time of this many seconds, at most 36 hours.
    pub const fn of(seconds: u32) -> TargetRecoveryTime {
        let longest = (1 << TARGET_BITS) - 1;
        TargetRecoveryTime(if seconds < longest { seconds } else { longest })
    }

    /// Seconds, as `target_recovery_time_in_seconds` of `sys.databases`.
    pub const fn seconds(self) -> u32 {
        self.0
    }

    /// Zero bits are the default.
    const fn encode(self) -> u32 {
        self.0 ^ TARGET_SECONDS_DEFAULT
    }

    const fn decode(bits: u32) -> TargetRecoveryTime {
        TargetRecoveryTime(bits & ((1 << TARGET_BITS) - 1) ^ TARGET_SECONDS_DEFAULT)
    }
}

impl Default for TargetRecoveryTime {
    fn default() -> TargetRecoveryTime {
        TargetRecoveryTime(TARGET_SECONDS_DEFAULT)
    }
}

impl DatabaseOptions {
    /// The bits of the boot page: model (0 is `SIMPLE`) 2 | delayed durability 2 | log chain 1 | read-only 1 |
    /// statistics 5 | clone 1 | verified clone 1 | target recovery time 17 |
    /// forced parameterisation 1 | fill 1.
    pub(crate) fn encode(self) -> u32 {
        u32::from(self.recovery_model.number() % 3)
            | u32::from(self.delayed_durability.number()) << 2
            | u32::from(self.has_log_chain) << 4
            | u32::from(self.is_read_only) << 5
            | self.statistics.encode() << 6
            | u32::from(self.is_clone) << 11
            | u32::from(self.is_verified_clone) << 12
            | self.target_recovery_time.encode() << TARGET_PLACE
            | u32::from(self.is_parameterization_forced) << FORCED_PLACE
            | u32::from(self.fill == Fill::Throughput) << FILL_PLACE
    }

    /// The options of a boot page. Unknown bits, written by another version, are ignored.
    pub(crate) fn decode(bits: u32) -> DatabaseOptions {
        let model = RecoveryModel::ALL.into_iter().find(|model| u32::from(model.number() % 3) == bits & 3);
        let delayed = DelayedDurability::ALL.into_iter().find(|delayed| u32::from(delayed.number()) == bits >> 2 & 3);
        DatabaseOptions {
            recovery_model: model.unwrap_or_default(),
            delayed_durability: delayed.unwrap_or_default(),
            has_log_chain: bits >> 4 & 1 != 0,
            is_read_only: bits >> 5 & 1 != 0,
            statistics: StatisticsOptions::decode(bits >> 6),
            is_clone: bits >> 11 & 1 != 0,
            is_verified_clone: bits >> 12 & 1 != 0,
            target_recovery_time: TargetRecoveryTime::decode(bits >> TARGET_PLACE),
            is_parameterization_forced: bits >> FORCED_PLACE & 1 != 0,
            fill: if bits >> FILL_PLACE == 0 { Fill::FreeSpace } else { Fill::Throughput },
        }
    }

    /// Whether the log is kept until it is backed up.
    pub fn keeps_log(&self) -> bool {
        self.recovery_model != RecoveryModel::Simple && self.has_log_chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_their_bits_and_any_bits_are_options() {
        for recovery_model in RecoveryModel::ALL {
            for delayed_durability in DelayedDurability::ALL {
                for (has_log_chain, is_read_only) in [(false, false), (true, false), (false, true)] {
                    let statistics = StatisticsOptions::default();
                    let (is_clone, is_verified_clone) = (is_read_only, has_log_chain);
                    let options = DatabaseOptions {
                        recovery_model,
                        delayed_durability,
                        has_log_chain,
                        is_read_only,
                        statistics,
                        is_clone,
                        is_verified_clone,
                        target_recovery_time: TargetRecoveryTime::of(if has_log_chain { 90 } else { 0 }),
                        is_parameterization_forced: is_read_only,
                        fill: if is_clone { Fill::Throughput } else { Fill::FreeSpace },
                    };
                    assert_eq!(DatabaseOptions::decode(options.encode()), options);
                }
            }
        }
        for seconds in [0, 1, 59, 60, 61, 131_071, u32::MAX] {
            let target_recovery_time = TargetRecoveryTime::of(seconds);
            let options = DatabaseOptions { target_recovery_time, ..DatabaseOptions::default() };
            assert_eq!(DatabaseOptions::decode(options.encode()), options);
            assert_eq!(target_recovery_time.seconds(), seconds.min(131_071));
        }
        for bits in (0..1 << 14).chain((0..1 << 14).map(|bits| bits << 18)) {
            let options = DatabaseOptions::decode(bits);
            assert_eq!(DatabaseOptions::decode(options.encode()), options);
        }
        assert_eq!(DatabaseOptions::decode(0), DatabaseOptions::default());
    }
}
