//! Checks rows of system tables that a start does not read, or skips if they are wrong: statistics and the positions of
//! identity columns. For `DBCC CHECKDB`.

use hobt_base::{ObjectId, PageId, SlotId};
use hobt_types::SqlType;
use hobt_types::statistics::decode;

use crate::error::CatalogError;
use crate::heaps::SystemHeaps;
use crate::identity::IdentityPosition;
use crate::long_value::{LongValues, ValueClass};
use crate::schema::{DatabaseSnapshot, IdentityColumn};
use crate::statistics::of_row;
use crate::system::{StatisticsPartRow, StatisticsRow, SystemTable, ValueRow};

/// A row of a system table with an impossible value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRow {
    /// The system table.
    pub table: SystemTable,
    /// The row's page; for a value in several rows that of the first.
    pub page: PageId,
    /// Its slot.
    pub slot: SlotId,
    /// What was expected, and what was found.
    pub reason: String,
}

/// The values that an identity column may have.
fn bounds(sql_type: SqlType) -> (i128, i128) {
    match sql_type {
        SqlType::TinyInt => (0, i128::from(u8::MAX)),
        SqlType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
        SqlType::Int => (i32::MIN.into(), i32::MAX.into()),
        SqlType::BigInt => (i64::MIN.into(), i64::MAX.into()),
        SqlType::Decimal { precision, .. } => {
            let end = 10_i128.pow(precision.into()) - 1;
            (-end, end)
        }
        _ => (i128::MIN, i128::MAX),
    }
}

/// What is wrong with the position of an identity column. It may be one step beyond the last value of its type.
fn position_fault(bytes: Option<&[u8]>, sql_type: SqlType, identity: IdentityColumn) -> Option<String> {
    let length = bytes.map_or(0, <[u8]>::len);
    let Some(position) = bytes.and_then(IdentityPosition::from_bytes) else {
        return Some(format!("a position of 17 bytes is expected, found {length}"));
    };
    let used = bytes.and_then(<[u8]>::last).copied().unwrap_or_default();
    if used > 1 {
        return Some(format!("whether a value was used is 0 or 1, found {used}"));
    }
    let ((least, most), step) = (bounds(sql_type), i128::from(identity.increment).abs());
    let is_outside = position.next < least.saturating_sub(step) || position.next > most.saturating_add(step);
    is_outside.then(|| format!("a next value from {least} to {most} is expected, found {}", position.next))
}

impl SystemHeaps {
    /// The rows of statistics and of identity columns that contradict themselves or their tables. Rows of dropped
    /// objects may remain, and are ignored.
    ///
    /// # Errors
    /// A page cannot be read, or a row is damaged as a row.
    pub fn check_rows(&self, snapshot: &DatabaseSnapshot) -> Result<Vec<DamagedRow>, CatalogError> {
        let mut found = self.check_positions(snapshot)?;
        found.extend(self.check_statistics(snapshot)?);
        Ok(found)
    }

    fn check_positions(&self, snapshot: &DatabaseSnapshot) -> Result<Vec<DamagedRow>, CatalogError> {
        let mut found = Vec::new();
        self.visit(&mut |row: ValueRow, page, slot| {
            let table = snapshot.tables.get(&ObjectId(row.id)).filter(|_| row.class == ValueClass::Identity as u8);
            let Some(column) = table.and_then(|table| table.identity_column()) else { return };
            let identity = column.identity.expect("an identity column has a seed and a step");
            if let Some(fault) = position_fault(row.value.as_deref(), column.sql_type, identity) {
                let reason =
                    format!("where the identity column '{}' of table {} goes on: {fault}", column.name, row.id);
                found.push(DamagedRow { table: SystemTable::Values, page, slot, reason });
            }
        })?;
        Ok(found)
    }

    fn check_statistics(&self, snapshot: &DatabaseSnapshot) -> Result<Vec<DamagedRow>, CatalogError> {
        let (mut heads, mut pieces, mut found) = (Vec::new(), Vec::new(), Vec::new());
        let is_there = |table: i32| snapshot.tables.contains_key(&ObjectId(table));
        self.visit(&mut |row: StatisticsRow, page, slot| heads.push((row, page, slot)))?;
        self.visit(&mut |row: StatisticsPartRow, page, slot| pieces.push((row, page, slot)))?;
        let mut long = LongValues::read(self)?;
        heads.retain(|(row, ..)| is_there(row.table));
        for (row, page, slot) in &heads {
            let is_sound = row.unfiltered_rows >= 0 && row.modified >= 0 && (0..=1_000_000).contains(&row.sample);
            let fault = match of_row(row.clone(), Vec::new(), &mut long) {
                Err(error) => Some(error.to_string()),
                Ok(_) if !is_sound => Some(format!(
                    "statistics '{}': counts from 0 and a sample up to 1000000 are expected, found {} rows, {} changed, a \
                     sample of {}",
                    row.name, row.unfiltered_rows, row.modified, row.sample
                )),
                Ok(_) => None,
            };
            let fault =
                fault.map(|reason| DamagedRow { table: SystemTable::Statistics, page: *page, slot: *slot, reason });
            found.extend(fault);
        }
        let key = |row: &StatisticsPartRow| (row.table, row.statistics, row.hobt);
        pieces.sort_by_key(|(row, ..)| (key(row), row.piece));
        for part in pieces.chunk_by(|(left, ..), (right, ..)| key(left) == key(right)) {
            let (first, page, slot) = &part[0];
            let of = |(row, ..): &&(StatisticsRow, PageId, SlotId)| {
                (row.table, row.statistics) == (first.table, first.statistics)
            };
            let Some((head, ..)) = heads.iter().find(of) else { continue };
            if let Some(fault) = part_fault(part) {
                let hobt = first.hobt.cast_unsigned();
                let reason = format!("what was gathered of HOBT {hobt} for statistics '{}': {fault}", head.name);
                found.push(DamagedRow { table: SystemTable::StatisticsParts, page: *page, slot: *slot, reason });
            }
        }
        Ok(found)
    }
}

/// What is wrong with the pieces gathered for a partition. They may remain from dropped statistics over other columns,
/// whose number these have now. A load ignores such pieces, so their columns are not compared.
fn part_fault(pieces: &[(StatisticsPartRow, PageId, SlotId)]) -> Option<String> {
    if let Some((expected, (row, ..))) = (0..).zip(pieces).find(|(expected, (row, ..))| row.piece != *expected) {
        return Some(format!("piece {expected} is expected, found piece {}", row.piece));
    }
    let image: Vec<u8> = pieces.iter().flat_map(|(row, ..)| row.image.iter().copied()).collect();
    decode(&image).err().map(|damage| damage.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_one_of_the_columns_type_or_one_step_behind() {
        let identity = IdentityColumn { seed: 1, increment: 5 };
        let fault = |next: i128, used: u8| {
            let bytes: Vec<u8> = next.to_le_bytes().into_iter().chain([used]).collect();
            position_fault(Some(&bytes), SqlType::TinyInt, identity)
        };
        assert_eq!([fault(0, 0), fault(255, 1), fault(260, 1), fault(-5, 0)], [None, None, None, None]);
        assert!(fault(261, 1).is_some_and(|fault| fault.contains("261")));
        assert!(fault(7, 2).is_some_and(|fault| fault.contains("found 2")));
        assert!(position_fault(Some(&[1; 16]), SqlType::TinyInt, identity).is_some());
        assert!(position_fault(None, SqlType::Decimal { precision: 38, scale: 0 }, identity).is_some());
    }
}
