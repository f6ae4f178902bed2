//! The names under which waits are shown: SQL Server's where it has one, `HOBT_…` for what only this program has.
//!
//! Sources: Microsoft's pages on `sys.dm_os_wait_stats`, `sys.dm_os_latch_stats` and `sys.dm_os_spinlock_stats`.

/// Defines a fieldless enum whose variants have names as SQL Server shows them.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident { $($variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $enum {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl $enum {
            /// Every value, in the order of declaration: `ALL[v as usize] == v`.
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)+];
            /// How many values there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name as views show it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }

            /// The value of this name (exact letters), or `None`.
            pub fn from_name(name: &str) -> Option<$enum> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }

            pub(crate) const fn index(self) -> usize {
                self as usize
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// What a worker waits for.
    WaitType {
        PageIoLatchSh = "PAGEIOLATCH_SH",
        PageIoLatchEx = "PAGEIOLATCH_EX",
        PageIoLatchUp = "PAGEIOLATCH_UP",
        PageLatchSh = "PAGELATCH_SH",
        PageLatchEx = "PAGELATCH_EX",
        PageLatchUp = "PAGELATCH_UP",
        LatchSh = "LATCH_SH",
        LatchEx = "LATCH_EX",
        LockS = "LCK_M_S",
        LockX = "LCK_M_X",
        LockU = "LCK_M_U",
        LockIs = "LCK_M_IS",
        LockIx = "LCK_M_IX",
        LockIu = "LCK_M_IU",
        LockSiu = "LCK_M_SIU",
        LockSix = "LCK_M_SIX",
        LockUix = "LCK_M_UIX",
        LockBu = "LCK_M_BU",
        LockSchS = "LCK_M_SCH_S",
        LockSchM = "LCK_M_SCH_M",
        LockRangeSS = "LCK_M_RS_S",
        LockRangeSU = "LCK_M_RS_U",
        LockRangeIN = "LCK_M_RIn_NL",
        LockRangeIS = "LCK_M_RIn_S",
        LockRangeIU = "LCK_M_RIn_U",
        LockRangeIX = "LCK_M_RIn_X",
        LockRangeXS = "LCK_M_RX_S",
        LockRangeXU = "LCK_M_RX_U",
        LockRangeXX = "LCK_M_RX_X",
        CxPacket = "CXPACKET",
        CxConsumer = "CXCONSUMER",
        CxSyncPort = "CXSYNC_PORT",
        CxSyncConsumer = "CXSYNC_CONSUMER",
        SosSchedulerYield = "SOS_SCHEDULER_YIELD",
        ResourceSemaphore = "RESOURCE_SEMAPHORE",
        ResourceSemaphoreQueryCompile = "RESOURCE_SEMAPHORE_QUERY_COMPILE",
        AsyncNetworkIo = "ASYNC_NETWORK_IO",
        IoCompletion = "IO_COMPLETION",
        AsyncIoCompletion = "ASYNC_IO_COMPLETION",
        ImpProvIoWait = "IMPPROV_IOWAIT",
        WriteLog = "WRITELOG",
        LogBuffer = "LOGBUFFER",
        LogMgrReserveAppend = "LOGMGR_RESERVE_APPEND",
        WriteCompletion = "WRITE_COMPLETION",
        BackupIo = "BACKUPIO",
        BackupThread = "BACKUPTHREAD",
        PreemptiveCreateFile = "PREEMPTIVE_OS_CREATEFILE",
        PreemptiveDeleteFile = "PREEMPTIVE_OS_DELETEFILE",
        PreemptiveFileOps = "PREEMPTIVE_OS_FILEOPS",
        PreemptiveFlushFileBuffers = "PREEMPTIVE_OS_FLUSHFILEBUFFERS",
        PreemptiveWriteFile = "PREEMPTIVE_OS_WRITEFILE",
        PreemptiveGetDiskFreeSpace = "PREEMPTIVE_OS_GETDISKFREESPACE",
        ThreadPool = "THREADPOOL",
        SleepTask = "SLEEP_TASK",
        SleepBpoolFlush = "SLEEP_BPOOL_FLUSH",
        CheckpointQueue = "CHECKPOINT_QUEUE",
        CMemThread = "CMEMTHREAD",
        ExecSync = "EXECSYNC",
        WaitFor = "WAITFOR",
        Unexplained = "HOBT_UNEXPLAINED",
    }
}

named! {
    /// What a latch protects.
    LatchClass {
        Buffer = "BUFFER",
        BufferPoolGrow = "BUFFER_POOL_GROW",
        DatasetParent = "ACCESS_METHODS_DATASET_PARENT",
        HobtVirtualRoot = "ACCESS_METHODS_HOBT_VIRTUAL_ROOT",
        HobtCount = "ACCESS_METHODS_HOBT_COUNT",
        HobtFactory = "ACCESS_METHODS_HOBT_FACTORY",
        Hobt = "ACCESS_METHODS_HOBT",
        BulkAlloc = "ACCESS_METHODS_BULK_ALLOC",
        ScanRangeGenerator = "ACCESS_METHODS_SCAN_RANGE_GENERATOR",
        KeyRangeGenerator = "ACCESS_METHODS_KEY_RANGE_GENERATOR",
        AllocCreateRingBuffer = "ALLOC_CREATE_RINGBUF",
        AllocCreateFreeSpaceCache = "ALLOC_CREATE_FREESPACE_CACHE",
        AllocCacheManager = "ALLOC_CACHE_MANAGER",
        AllocFreeSpaceCache = "ALLOC_FREESPACE_CACHE",
        AllocExtentCache = "ALLOC_EXTENT_CACHE",
        FileControlBlock = "FCB",
        FilegroupAlloc = "FGCB_ALLOC",
        FilegroupAddRemove = "FGCB_ADD_REMOVE",
        FilegroupManager = "FILEGROUP_MANAGER",
        FileManager = "FILE_MANAGER",
        DatabaseCheckpoint = "DATABASE_CHECKPOINT",
        LogManager = "LOG_MANAGER",
        NestingTransactionReadOnly = "NESTING_TRANSACTION_READONLY",
        NestingTransactionFull = "NESTING_TRANSACTION_FULL",
        VersioningTransaction = "VERSIONING_TRANSACTION",
        TraceController = "TRACE_CONTROLLER",
    }
}

named! {
    /// What a spinlock protects.
    SpinlockName {
        LockHash = "LOCK_HASH",
        LockResourceId = "LOCK_RESOURCE_ID",
        SosObjectStore = "SOS_OBJECT_STORE",
        SosScheduler = "SOS_SCHEDULER",
        SosCacheStore = "SOS_CACHESTORE",
        SosSuspendQueue = "SOS_SUSPEND_QUEUE",
        LogCacheAccess = "LOGCACHE_ACCESS",
        LogFlushQueue = "LOGFLUSHQ",
        LogPoolHashBucket = "LOGPOOL_HASHBUCKET",
        BufFreeList = "BUF_FREE_LIST",
        BufHash = "BUF_HASH",
        OptIdxStats = "OPT_IDX_STATS",
        XdesMgr = "XDESMGR",
        Xdes = "XDES",
        Mutex = "MUTEX",
    }
}

#[cfg(test)]
mod tests {
    use super::{LatchClass, SpinlockName, WaitType};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_lead_back_to_their_value() {
        let mut seen = HashSet::new();
        for (i, &wait) in WaitType::ALL.iter().enumerate() {
            assert_eq!(wait.index(), i);
            assert_eq!(WaitType::from_name(wait.name()), Some(wait));
            assert!(seen.insert(wait.name()), "{wait} is there twice");
        }
        let classes: HashSet<_> = LatchClass::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(classes.len(), LatchClass::COUNT);
        let spinlocks: HashSet<_> = SpinlockName::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(spinlocks.len(), SpinlockName::COUNT);
    }
}
