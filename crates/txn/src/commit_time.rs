//! When a transaction committed, and the mark that it left, as the log has them for a restore that stops there.
//!
//! ```text
//! commit  [time u64 | [life u64 | guid 16 …]]      the second part is a decision over several databases
//! mark    time u64 | name length u16 | name | description, to the end
//! ```
//! Times are in units of 100 ns since 1970-01-01 UTC, numbers little-endian, texts UTF-8. A commit record without a
//! time is of the storage itself, or of a transaction that recovery found prepared. A mark lies before the commit
//! record of its transaction.

use hobt_instruments::time_of_day;

/// Bytes of the time in a commit record.
pub(crate) const TIME_BYTES: usize = size_of::<i64>();

/// The payload of a commit record of a single database, now.
pub(crate) fn commit_now() -> [u8; TIME_BYTES] {
    time_of_day().to_le_bytes()
}

/// The time in the payload of a commit record; `None` if it has none.
pub fn commit_time(payload: &[u8]) -> Option<i64> {
    payload.first_chunk::<TIME_BYTES>().map(|time| i64::from_le_bytes(*time))
}

/// The part of a commit record's payload that is a decision; empty if there is none.
pub fn decision_in_commit(payload: &[u8]) -> &[u8] {
    payload.get(TIME_BYTES..).unwrap_or_default()
}

/// A mark in the log: `BEGIN TRANSACTION … WITH MARK`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogMark {
    /// When the transaction committed.
    pub time: i64,
    /// The name of the transaction.
    pub name: String,
    /// The description; empty for none.
    pub description: String,
}

/// The longest text of a mark, in bytes: 255 characters.
const TEXT_BYTES_MAX: usize = 1020;

impl LogMark {
    /// The payload of its record. Texts that are too long are cut.
    pub fn encode(&self) -> Vec<u8> {
        let cut = |text: &str| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let (name, description) = (cut(&self.name), cut(&self.description));
        let mut out = self.time.to_le_bytes().to_vec();
        out.extend_from_slice(&u16::try_from(name.len()).expect("at most TEXT_BYTES_MAX").to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(description.as_bytes());
        out
    }

    /// The mark in a record's payload; `None` if that is malformed.
    pub fn decode(payload: &[u8]) -> Option<LogMark> {
        let (time, rest) = payload.split_first_chunk::<TIME_BYTES>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (name, description) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some(LogMark { time: i64::from_le_bytes(*time), name: text(name)?, description: text(description)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_no_cut_of_it_is_read_beyond_its_end() {
        let mark = LogMark { time: -5, name: "month end".to_owned(), description: "before the load".to_owned() };
        let bytes = mark.encode();
        assert_eq!(LogMark::decode(&bytes), Some(mark));
        for cut in 0..19 {
            assert_eq!(LogMark::decode(&bytes[..cut]), None, "{cut}");
        }
        let long = LogMark { time: 0, name: "ä".repeat(3000), description: "ö".repeat(3000) };
        let read = LogMark::decode(&long.encode()).expect("cut texts are texts");
        assert_eq!((read.name.len(), read.description.len()), (TEXT_BYTES_MAX, TEXT_BYTES_MAX));
    }

    #[test]
    fn the_time_of_a_commit_is_apart_from_its_decision() {
        let time = 77i64.to_le_bytes();
        assert_eq!((commit_time(&time), decision_in_commit(&time)), (Some(77), &[][..]));
        assert_eq!((commit_time(&[]), decision_in_commit(&[])), (None, &[][..]));
        let both = [&time[..], &[9; 24]].concat();
        assert_eq!((commit_time(&both), decision_in_commit(&both)), (Some(77), &[9; 24][..]));
    }
}
