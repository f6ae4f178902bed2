//! Counts for each heap and tree: waits for its pages, locks in it (`sys.dm_db_index_operational_stats`).
//!
//! The caller decides when to count. Each change takes a lock, so it is meant for threads that have waited anyway, or
//! that count many events at once.

use std::collections::HashMap;

use hobt_base::{DatabaseId, HobtId};
use parking_lot::{Mutex, MutexGuard};

type Table<T> = HashMap<(DatabaseId, HobtId), T>;

/// Tables of values, by HOBT, so that threads on different heaps and trees seldom meet.
const TABLES: usize = 16;
/// The most heaps and trees in one table. If one more is added, all values of the table are reset to the default. Those
/// that no longer exist are mostly removed before that ([`PerHobt::forget`]).
const HOBTS_MAX: usize = 1 << 12;

/// A value for each heap and tree, the default until it is changed.
#[derive(Debug, Default)]
pub struct PerHobt<T>([Mutex<Table<T>>; TABLES]);

impl<T: Copy + Default> PerHobt<T> {
    fn table(&self, hobt: HobtId) -> MutexGuard<'_, Table<T>> {
        // Ids of HOBTs are multiples of 65,536.
        self.0[(hobt.0 >> 16) as usize % TABLES].lock()
    }

    /// The value of a heap or tree.
    pub fn of(&self, database: DatabaseId, hobt: HobtId) -> T {
        self.table(hobt).get(&(database, hobt)).copied().unwrap_or_default()
    }

    /// Changes the value of a heap or tree.
    pub fn change(&self, database: DatabaseId, hobt: HobtId, change: impl FnOnce(&mut T)) {
        let mut table = self.table(hobt);
        if table.len() == HOBTS_MAX && !table.contains_key(&(database, hobt)) {
            table.clear();
        }
        change(table.entry((database, hobt)).or_default());
    }

    /// Drops the values of heaps and trees that no longer exist.
    pub fn forget(&self, is_gone: impl Fn(DatabaseId, HobtId) -> bool) {
        for table in &self.0 {
            table.lock().retain(|(database, hobt), _| !is_gone(*database, *hobt));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_until_it_is_forgotten_or_there_are_too_many() {
        let (all, one, other) = (PerHobt::<u64>::default(), DatabaseId(5), DatabaseId(6));
        let hobt = |number: usize| HobtId(((number * TABLES) << 16) as u64);
        for number in 0..HOBTS_MAX {
            all.change(one, hobt(number), |value| *value += 1 + number as u64);
        }
        all.change(one, HobtId(1 << 16), |value| *value = 7);
        assert_eq!((all.of(one, hobt(3)), all.of(other, hobt(3)), all.of(one, HobtId(1 << 16))), (4, 0, 7));
        all.forget(|database, gone| database == one && gone == hobt(3));
        assert_eq!((all.of(one, hobt(3)), all.of(one, hobt(4))), (0, 5));
        all.change(other, hobt(3), |value| *value = 9);
        assert_eq!((all.of(one, hobt(4)), all.of(other, hobt(3))), (5, 9), "as many as there may be");
        all.change(one, hobt(3), |value| *value = 1);
        assert_eq!((all.of(one, hobt(4)), all.of(one, hobt(3)), all.of(one, HobtId(1 << 16))), (0, 1, 7));
    }
}
