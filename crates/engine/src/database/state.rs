//! The states of a database, as `sys.databases` shows them.

/// The state of a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DatabaseState {
    /// It can be used.
    Online,
    /// It is being opened, which takes as long as its recovery. A statement that uses it waits.
    Recovering,
    /// It is being restored: error 927.
    Restoring,
    /// Its files are not as a checkpoint left them, or are inconsistent: error 926.
    Suspect,
    /// A file does not exist, or another process uses it: error 945.
    RecoveryPending,
    /// It was set offline: error 942.
    Offline,
}

impl DatabaseState {
    /// `state_desc` of `sys.databases`.
    pub const fn name(self) -> &'static str {
        match self {
            DatabaseState::Online => "ONLINE",
            DatabaseState::Restoring => "RESTORING",
            DatabaseState::Recovering => "RECOVERING",
            DatabaseState::Suspect => "SUSPECT",
            DatabaseState::RecoveryPending => "RECOVERY_PENDING",
            DatabaseState::Offline => "OFFLINE",
        }
    }

    /// `state` of `sys.databases`.
    pub const fn number(self) -> u8 {
        match self {
            DatabaseState::Online => 0,
            DatabaseState::Restoring => 1,
            DatabaseState::Recovering => 2,
            DatabaseState::RecoveryPending => 3,
            DatabaseState::Suspect => 4,
            DatabaseState::Offline => 6,
        }
    }
}
