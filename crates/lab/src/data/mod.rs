//! The experiments' data: customers, BigData, TPC-H, and the table with seven rows per page.
//!
//! All data are generated from seeds and are the same on every machine. Data generated here are Arrow batches in
//! carriers, loaded by [`load::load`]. Data that the texts build by a statement are built by a statement.

pub mod big_data;
mod dim_customer;
pub mod load;
mod names;
pub mod test_guid;
mod tpch;
mod tpch_queries;

use arrow::array::RecordBatch;

pub use dim_customer::{CREATE_DIM_CUSTOMER, CUSTOMERS, SEED, dim_customer};
pub use tpch::{CREATE_LINEITEM, LINEITEM_ROWS, TpchTable};
pub(crate) use tpch_queries::{queries as tpch_queries, schema_batches as tpch_schema};

/// Rows to be loaded into a table.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// A hash of the values of some batches, independent of the batch boundaries (FNV-1a over the values' text).
#[cfg(test)]
pub(crate) fn content_hash(batches: &[RecordBatch]) -> u64 {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    use std::fmt::Write as _;

    struct Fnv(u64);
    impl std::fmt::Write for Fnv {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
            Ok(())
        }
    }

    let options = FormatOptions::default().with_null("\u{0}");
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|array| ArrayFormatter::try_new(array, &options).expect("every carrier can be shown"))
            .collect();
        for row in 0..batch.num_rows() {
            for column in &columns {
                write!(hash, "{}\u{1}", column.value(row)).expect("hashing does not fail");
            }
        }
    }
    hash.0
}
