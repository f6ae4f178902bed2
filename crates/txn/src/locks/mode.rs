//! The lock modes: which are compatible, and what two modes of one owner combine to.
//!
//! Source of both tables: Microsoft's "Transaction locking and row versioning guide", its lock compatibility matrix and
//! its table of conversions of key-range locks.

use std::fmt;

use hobt_instruments::WaitType;

/// How a resource is locked. The numbers are those of `sys.syslockinfo`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum LockMode {
    /// `Sch-S`: the definition does not change.
    SchemaStability = 1,
    /// `Sch-M`: the definition changes.
    SchemaModification,
    /// `S`: read.
    Shared,
    /// `U`: read, and possibly change.
    Update,
    /// `X`: change.
    Exclusive,
    /// `IS`: `S` further down.
    IntentShared,
    /// `IU`: `U` further down.
    IntentUpdate,
    /// `IX`: `X` further down.
    IntentExclusive,
    /// `SIU`: `S` here, `U` further down.
    SharedIntentUpdate,
    /// `SIX`: `S` here, `X` further down.
    SharedIntentExclusive,
    /// `UIX`: `U` here, `X` further down.
    UpdateIntentExclusive,
    /// `BU`: load in bulk, beside other loads.
    BulkUpdate,
    /// `RangeS-S`: read the key and what lies between it and the key before.
    RangeSharedShared,
    /// `RangeS-U`: as `RangeS-S`, and possibly change the key.
    RangeSharedUpdate,
    /// `RangeI-N`: insert between the key and the key before.
    RangeInsertNull,
    /// `RangeI-S`: `RangeI-N` and `S`.
    RangeInsertShared,
    /// `RangeI-U`: `RangeI-N` and `U`.
    RangeInsertUpdate,
    /// `RangeI-X`: `RangeI-N` and `X`.
    RangeInsertExclusive,
    /// `RangeX-S`: `RangeI-N` and `RangeS-S`.
    RangeExclusiveShared,
    /// `RangeX-U`: `RangeI-N` and `RangeS-U`.
    RangeExclusiveUpdate,
    /// `RangeX-X`: change the key and what lies before it.
    RangeExclusiveExclusive,
}

use LockMode::{
    BulkUpdate as BU, Exclusive as X, IntentExclusive as IX, IntentShared as IS, IntentUpdate as IU,
    RangeExclusiveExclusive as XX, RangeExclusiveShared as XS, RangeExclusiveUpdate as XU, RangeInsertExclusive as NX,
    RangeInsertNull as NN, RangeInsertShared as NS, RangeInsertUpdate as NU, RangeSharedShared as RS,
    RangeSharedUpdate as RU, SchemaModification as SM, SchemaStability as SS, Shared as S, SharedIntentExclusive as SX,
    SharedIntentUpdate as SU, Update as U, UpdateIntentExclusive as UX,
};

const COUNT: usize = 21;

/// `+`: compatible. `-`: they exclude each other. `.`: they never meet on one resource (and count as excluding each
/// other). Rows and columns are in the order of the numbers.
#[rustfmt::skip] // A matrix is read by its columns.
const TOGETHER: [&[u8; COUNT]; COUNT] = [
    b"+-++++++++++.........", // Sch-S
    b"------------.........", // Sch-M
    b"+-++-++-+---+++++-++-", // S
    b"+-+--+------+-++--+--", // U
    b"+-------------+------", // X
    b"+-++-++++++-.........", // IS
    b"+-+--+++++--.........", // IU
    b"+----+++----.........", // IX
    b"+-+--++-+---.........", // SIU
    b"+----++-----.........", // SIX
    b"+----+------.........", // UIX
    b"+----------+.........", // BU
    b"..++-.......++-------", // RangeS-S
    b"..+--.......+--------", // RangeS-U
    b"..+++.......--++++---", // RangeI-N
    b"..++-.......--+++----", // RangeI-S
    b"..+--.......--++-----", // RangeI-U
    b"..---.......--+------", // RangeI-X
    b"..++-.......---------", // RangeX-S
    b"..+--.......---------", // RangeX-U
    b"..---.......---------", // RangeX-X
];

/// What a lock in the row's mode becomes when its owner asks for the column's mode. Modes that never meet on one
/// resource become `Sch-M`, which excludes everything.
#[rustfmt::skip] // A matrix is read by its columns.
const COMBINED: [[LockMode; COUNT]; COUNT] = [
    [SS, SM, S,  U,  X,  IS, IU, IX, SU, SX, UX, BU, SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [S,  SM, S,  U,  X,  S,  SU, SX, SU, SX, UX, X,  RS, RU, NS, NS, NU, NX, XS, XU, XX],
    [U,  SM, U,  U,  X,  U,  U,  UX, U,  UX, UX, X,  RU, RU, NU, NU, NU, NX, XU, XU, XX],
    [X,  SM, X,  X,  X,  X,  X,  X,  X,  X,  X,  X,  XX, XX, NX, NX, NX, NX, XX, XX, XX],
    [IS, SM, S,  U,  X,  IS, IU, IX, SU, SX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [IU, SM, SU, U,  X,  IU, IU, IX, SU, SX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [IX, SM, SX, UX, X,  IX, IX, IX, SX, SX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [SU, SM, SU, U,  X,  SU, SU, SX, SU, SX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [SX, SM, SX, UX, X,  SX, SX, SX, SX, SX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [UX, SM, UX, UX, X,  UX, UX, UX, UX, UX, UX, X,  SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [BU, SM, X,  X,  X,  X,  X,  X,  X,  X,  X,  BU, SM, SM, SM, SM, SM, SM, SM, SM, SM],
    [SM, SM, RS, RU, XX, SM, SM, SM, SM, SM, SM, SM, RS, RU, XS, XS, XU, XX, XS, XU, XX],
    [SM, SM, RU, RU, XX, SM, SM, SM, SM, SM, SM, SM, RU, RU, XU, XU, XU, XX, XU, XU, XX],
    [SM, SM, NS, NU, NX, SM, SM, SM, SM, SM, SM, SM, XS, XU, NN, NS, NU, NX, XS, XU, XX],
    [SM, SM, NS, NU, NX, SM, SM, SM, SM, SM, SM, SM, XS, XU, NS, NS, NU, NX, XS, XU, XX],
    [SM, SM, NU, NU, NX, SM, SM, SM, SM, SM, SM, SM, XU, XU, NU, NU, NU, NX, XU, XU, XX],
    [SM, SM, NX, NX, NX, SM, SM, SM, SM, SM, SM, SM, XX, XX, NX, NX, NX, NX, XX, XX, XX],
    [SM, SM, XS, XU, XX, SM, SM, SM, SM, SM, SM, SM, XS, XU, XS, XS, XU, XX, XS, XU, XX],
    [SM, SM, XU, XU, XX, SM, SM, SM, SM, SM, SM, SM, XU, XU, XU, XU, XU, XX, XU, XU, XX],
    [SM, SM, XX, XX, XX, SM, SM, SM, SM, SM, SM, SM, XX, XX, XX, XX, XX, XX, XX, XX, XX],
];

/// In row `r`, bit `i` is set if the modes of index `r` and `i` exclude each other.
const EXCLUDES: [u32; COUNT] = {
    let mut rows = [0; COUNT];
    let mut row = 0;
    while row < COUNT {
        let mut column = 0;
        while column < COUNT {
            if TOGETHER[row][column] != b'+' {
                rows[row] |= 1 << column;
            }
            column += 1;
        }
        row += 1;
    }
    rows
};

impl LockMode {
    /// Every mode, in the order of the numbers.
    pub const ALL: [LockMode; COUNT] =
        [SS, SM, S, U, X, IS, IU, IX, SU, SX, UX, BU, RS, RU, NN, NS, NU, NX, XS, XU, XX];

    /// SQL Server's abbreviation.
    pub const fn name(self) -> &'static str {
        match self {
            SS => "Sch-S",
            SM => "Sch-M",
            S => "S",
            U => "U",
            X => "X",
            IS => "IS",
            IU => "IU",
            IX => "IX",
            SU => "SIU",
            SX => "SIX",
            UX => "UIX",
            BU => "BU",
            RS => "RangeS-S",
            RU => "RangeS-U",
            NN => "RangeI-N",
            NS => "RangeI-S",
            NU => "RangeI-U",
            NX => "RangeI-X",
            XS => "RangeX-S",
            XU => "RangeX-U",
            XX => "RangeX-X",
        }
    }

    /// The wait type of a wait for this mode.
    pub const fn wait_type(self) -> WaitType {
        match self {
            SS => WaitType::LockSchS,
            SM => WaitType::LockSchM,
            S => WaitType::LockS,
            U => WaitType::LockU,
            X => WaitType::LockX,
            IS => WaitType::LockIs,
            IU => WaitType::LockIu,
            IX => WaitType::LockIx,
            SU => WaitType::LockSiu,
            SX => WaitType::LockSix,
            UX => WaitType::LockUix,
            BU => WaitType::LockBu,
            RS => WaitType::LockRangeSS,
            RU => WaitType::LockRangeSU,
            NN => WaitType::LockRangeIN,
            NS => WaitType::LockRangeIS,
            NU => WaitType::LockRangeIU,
            NX => WaitType::LockRangeIX,
            XS => WaitType::LockRangeXS,
            XU => WaitType::LockRangeXU,
            XX => WaitType::LockRangeXX,
        }
    }

    /// Whether two owners can hold these modes of one resource at the same time. Symmetric.
    pub const fn is_compatible(self, other: LockMode) -> bool {
        EXCLUDES[self.index()] & 1 << other.index() == 0
    }

    /// What an owner holds that has this mode and is granted `other` too: the weakest mode that excludes all that
    /// either excludes, by SQL Server's name for it.
    pub const fn combined(self, other: LockMode) -> LockMode {
        COMBINED[self.index()][other.index()]
    }

    /// The intent mode that a lock of this mode needs on the containers of its resource (a row's page, HOBT and table).
    pub const fn intent(self) -> LockMode {
        match self {
            SS | SM => SS,
            S | IS | RS => IS,
            U | IU | SU | RU => IU,
            X | IX | SX | UX | BU | NN | NS | NU | NX | XS | XU | XX => IX,
        }
    }

    /// Whether a key can be locked in this mode.
    pub const fn is_for_keys(self) -> bool {
        matches!(self, S | U | X) || self.is_range()
    }

    /// Whether the mode covers the gap before a key: only a key can be locked in it.
    pub const fn is_range(self) -> bool {
        matches!(self, RS | RU | NN | NS | NU | NX | XS | XU | XX)
    }

    /// Whether an owner that holds this mode only reads.
    pub(super) const fn only_reads(self) -> bool {
        matches!(self, SS | S | IS | RS)
    }

    const fn index(self) -> usize {
        self as usize - 1
    }
}

/// SQL Server's abbreviation.
impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(mode: LockMode) -> u32 {
        EXCLUDES[mode.index()]
    }

    fn pairs() -> impl Iterator<Item = (LockMode, LockMode)> {
        LockMode::ALL.into_iter().flat_map(|one| LockMode::ALL.into_iter().map(move |other| (one, other)))
    }

    fn meet(one: LockMode, other: LockMode) -> bool {
        TOGETHER[one.index()][other.index()] != b'.'
    }

    #[test]
    fn the_numbers_are_the_order() {
        for (index, mode) in LockMode::ALL.into_iter().enumerate() {
            assert_eq!(mode.index(), index);
        }
    }

    #[test]
    fn who_excludes_another_is_excluded_by_it() {
        for (one, other) in pairs() {
            assert_eq!(one.is_compatible(other), other.is_compatible(one), "{one} and {other}");
            assert_eq!(meet(one, other), meet(other, one), "{one} and {other}");
        }
    }

    #[test]
    fn what_two_modes_become_excludes_what_either_excluded_and_as_little_more_as_a_mode_can() {
        for (one, other) in pairs() {
            let combined = one.combined(other);
            if meet(one, other) {
                // The modes possible on such a resource: it never has both range and intent locks.
                let here = || LockMode::ALL.into_iter().filter(|mode| meet(one, *mode) && meet(other, *mode));
                let among = here().fold(0, |set, mode| set | 1 << mode.index());
                let both = (excludes(one) | excludes(other)) & among;
                let result = excludes(combined) & among;
                assert_eq!(result & both, both, "{one} and {other} become {combined}");
                let enough = here().map(|mode| excludes(mode) & among).filter(|set| set & both == both);
                let least = enough.map(u32::count_ones).min().expect("one of them excludes all of them");
                assert_eq!(result.count_ones(), least, "{one} and {other} become {combined}");
            } else {
                assert_eq!(combined, LockMode::SchemaModification, "{one} and {other}");
            }
        }
    }

    #[test]
    fn combining_is_reflexive_symmetric_and_idempotent() {
        for (one, other) in pairs() {
            let combined = one.combined(other);
            assert_eq!(one.combined(one), one);
            assert_eq!(combined, other.combined(one), "{one} and {other}");
            assert_eq!(combined.combined(other), combined, "{one} and {other}");
            assert_eq!(combined.combined(one), combined, "{one} and {other}");
        }
    }

    #[test]
    fn combining_does_not_depend_on_the_order() {
        for (one, other) in pairs() {
            let meets_both = |mode: &LockMode| meet(one, *mode) && meet(other, *mode);
            for third in LockMode::ALL.into_iter().filter(meets_both).filter(|_| meet(one, other)) {
                let (left, right) = (one.combined(other).combined(third), one.combined(other.combined(third)));
                assert_eq!(left, right, "{one}, {other}, {third}");
            }
        }
    }

    /// The conversions that SQL Server's manual lists by name.
    #[test]
    fn documented_conversions() {
        let documented = [
            (S, NN, "RangeI-S"),
            (U, NN, "RangeI-U"),
            (X, NN, "RangeI-X"),
            (NN, RS, "RangeX-S"),
            (NN, RU, "RangeX-U"),
            (S, IX, "SIX"),
            (S, IU, "SIU"),
            (U, IX, "UIX"),
        ];
        for (one, other, becomes) in documented {
            assert_eq!(one.combined(other).name(), becomes);
        }
    }

    #[test]
    fn modes_that_never_meet_are_a_range_and_what_no_key_is_locked_in() {
        for (one, other) in pairs() {
            let apart = one.is_range() && !other.is_for_keys() || other.is_range() && !one.is_for_keys();
            assert_eq!(meet(one, other), !apart, "{one} and {other}");
        }
    }

    #[test]
    fn an_intent_excludes_no_more_than_what_it_announces() {
        for mode in LockMode::ALL {
            assert!(
                mode.intent().is_compatible(mode.intent()),
                "rows of one table are locked beside each other: {mode}"
            );
            assert_eq!(mode.intent().intent(), mode.intent());
        }
    }

    #[test]
    fn every_mode_has_a_wait_of_its_own() {
        let waits: std::collections::HashSet<_> = LockMode::ALL.into_iter().map(LockMode::wait_type).collect();
        assert_eq!(waits.len(), LockMode::ALL.len());
        assert_eq!(NX.wait_type().name(), "LCK_M_RIn_X");
    }
}
