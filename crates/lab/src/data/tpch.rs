//! TPC-H's tables from the crate `tpchgen`, as batches in carriers.
//!
//! Rows are generated in independent parts, so several threads can generate one table. Types are those of
//! `tests/tpch/schema.sql`: order keys are `bigint`, other keys `int`, money `decimal(15, 2)`.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewBuilder};
use tpchgen::dates::TPCHDate;
use tpchgen::generators::{
    Customer, CustomerGenerator, LineItem, LineItemGenerator, Nation, NationGenerator, Order, OrderGenerator, Part,
    PartGenerator, PartSupp, PartSuppGenerator, Region, RegionGenerator, Supplier, SupplierGenerator,
};

use super::Batches;

/// Rows per batch.
const BATCH_ROWS: usize = 8_192;

/// The approximate number of rows of LINEITEM at scale factor 1.
pub const LINEITEM_ROWS: f64 = 6_001_215.0;

/// LINEITEM's definition, with the laboratory's name for it.
pub const CREATE_LINEITEM: &str = "CREATE TABLE dbo.LINEITEM (
    l_orderkey bigint NOT NULL,
    l_partkey int NOT NULL,
    l_suppkey int NOT NULL,
    l_linenumber int NOT NULL,
    l_quantity decimal(15, 2) NOT NULL,
    l_extendedprice decimal(15, 2) NOT NULL,
    l_discount decimal(15, 2) NOT NULL,
    l_tax decimal(15, 2) NOT NULL,
    l_returnflag char(1) NOT NULL,
    l_linestatus char(1) NOT NULL,
    l_shipdate date NOT NULL,
    l_commitdate date NOT NULL,
    l_receiptdate date NOT NULL,
    l_shipinstruct char(25) NOT NULL,
    l_shipmode char(10) NOT NULL,
    l_comment varchar(44) NOT NULL
)";

/// A table of TPC-H.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TpchTable {
    /// 5 rows.
    Region,
    /// 25 rows.
    Nation,
    /// 200,000 rows × scale factor.
    Part,
    /// 10,000 rows × scale factor.
    Supplier,
    /// 800,000 rows × scale factor.
    PartSupp,
    /// 150,000 rows × scale factor.
    Customer,
    /// 1,500,000 rows × scale factor.
    Orders,
    /// About 6,000,000 rows × scale factor.
    LineItem,
}

impl TpchTable {
    /// All eight, in the order of the schema.
    pub const ALL: [TpchTable; 8] = [
        TpchTable::Region,
        TpchTable::Nation,
        TpchTable::Part,
        TpchTable::Supplier,
        TpchTable::PartSupp,
        TpchTable::Customer,
        TpchTable::Orders,
        TpchTable::LineItem,
    ];

    /// The table's name.
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Region => "region",
            TpchTable::Nation => "nation",
            TpchTable::Part => "part",
            TpchTable::Supplier => "supplier",
            TpchTable::PartSupp => "partsupp",
            TpchTable::Customer => "customer",
            TpchTable::Orders => "orders",
            TpchTable::LineItem => "lineitem",
        }
    }

    /// Part `part` (from 1) of `parts` of the table's rows. Region and nation are not split: their rows are in part 1.
    ///
    /// # Panics
    /// While generating, if keys do not fit `int` (scale factors above 10,000).
    pub fn batches(self, scale_factor: f64, part: i32, parts: i32) -> Batches {
        match self {
            TpchTable::Region if part == 1 => chunks(RegionGenerator::new(scale_factor, 1, 1).iter(), region),
            TpchTable::Nation if part == 1 => chunks(NationGenerator::new(scale_factor, 1, 1).iter(), nation),
            TpchTable::Region | TpchTable::Nation => Box::new(std::iter::empty()),
            TpchTable::Part => chunks(PartGenerator::new(scale_factor, part, parts).iter(), parts_of),
            TpchTable::Supplier => chunks(SupplierGenerator::new(scale_factor, part, parts).iter(), supplier),
            TpchTable::PartSupp => chunks(PartSuppGenerator::new(scale_factor, part, parts).iter(), part_supplier),
            TpchTable::Customer => chunks(CustomerGenerator::new(scale_factor, part, parts).iter(), customer),
            TpchTable::Orders => chunks(OrderGenerator::new(scale_factor, part, parts).iter(), order),
            TpchTable::LineItem => chunks(LineItemGenerator::new(scale_factor, part, parts).iter(), line_item),
        }
    }
}

fn chunks<R: 'static>(mut rows: impl Iterator<Item = R> + Send + 'static, batch: fn(&[R]) -> Vec<Column>) -> Batches {
    Box::new(std::iter::from_fn(move || {
        let chunk: Vec<R> = rows.by_ref().take(BATCH_ROWS).collect();
        let columns = (!chunk.is_empty()).then(|| batch(&chunk))?;
        Some(RecordBatch::try_from_iter(columns).expect("all columns have a value a row"))
    }))
}

type Column = (&'static str, ArrayRef);

fn int<R>(rows: &[R], value: impl Fn(&R) -> i64) -> ArrayRef {
    let narrow = |row| i32::try_from(value(row)).expect("keys fit int at every supported scale factor");
    Arc::new(Int32Array::from_iter_values(rows.iter().map(narrow)))
}

fn bigint<R>(rows: &[R], value: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
}

/// `value` is in hundredths.
fn decimal<R>(rows: &[R], value: impl Fn(&R) -> i64) -> ArrayRef {
    let array = Decimal128Array::from_iter_values(rows.iter().map(|row| i128::from(value(row))));
    Arc::new(array.with_precision_and_scale(15, 2).expect("decimal(15, 2) is a Decimal128"))
}

fn date<R>(rows: &[R], value: impl Fn(&R) -> TPCHDate) -> ArrayRef {
    let days = |row| value(row).into_inner() + TPCHDate::UNIX_EPOCH_OFFSET;
    Arc::new(Date32Array::from_iter_values(rows.iter().map(days)))
}

fn text<'r, R>(rows: &'r [R], value: impl Fn(&'r R) -> &'r str) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(rows.len());
    rows.iter().for_each(|row| builder.append_value(value(row)));
    Arc::new(builder.finish())
}

fn shown<'r, R, D: Display + 'r>(rows: &'r [R], value: impl Fn(&'r R) -> &'r D) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(rows.len());
    let mut buffer = String::new();
    for row in rows {
        buffer.clear();
        write!(buffer, "{}", value(row)).expect("writing into a string works");
        builder.append_value(&buffer);
    }
    Arc::new(builder.finish())
}

fn region(rows: &[Region<'static>]) -> Vec<Column> {
    vec![
        ("r_regionkey", int(rows, |row| row.r_regionkey)),
        ("r_name", text(rows, |row| row.r_name)),
        ("r_comment", text(rows, |row| row.r_comment)),
    ]
}

fn nation(rows: &[Nation<'static>]) -> Vec<Column> {
    vec![
        ("n_nationkey", int(rows, |row| row.n_nationkey)),
        ("n_name", text(rows, |row| row.n_name)),
        ("n_regionkey", int(rows, |row| row.n_regionkey)),
        ("n_comment", text(rows, |row| row.n_comment)),
    ]
}

fn parts_of(rows: &[Part<'static>]) -> Vec<Column> {
    vec![
        ("p_partkey", int(rows, |row| row.p_partkey)),
        ("p_name", shown(rows, |row| &row.p_name)),
        ("p_mfgr", shown(rows, |row| &row.p_mfgr)),
        ("p_brand", shown(rows, |row| &row.p_brand)),
        ("p_type", text(rows, |row| row.p_type)),
        ("p_size", int(rows, |row| i64::from(row.p_size))),
        ("p_container", text(rows, |row| row.p_container)),
        ("p_retailprice", decimal(rows, |row| row.p_retailprice.into_inner())),
        ("p_comment", text(rows, |row| row.p_comment)),
    ]
}

fn supplier(rows: &[Supplier]) -> Vec<Column> {
    vec![
        ("s_suppkey", int(rows, |row| row.s_suppkey)),
        ("s_name", shown(rows, |row| &row.s_name)),
        ("s_address", shown(rows, |row| &row.s_address)),
        ("s_nationkey", int(rows, |row| row.s_nationkey)),
        ("s_phone", shown(rows, |row| &row.s_phone)),
        ("s_acctbal", decimal(rows, |row| row.s_acctbal.into_inner())),
        ("s_comment", text(rows, |row| &row.s_comment)),
    ]
}

fn part_supplier(rows: &[PartSupp<'static>]) -> Vec<Column> {
    vec![
        ("ps_partkey", int(rows, |row| row.ps_partkey)),
        ("ps_suppkey", int(rows, |row| row.ps_suppkey)),
        ("ps_availqty", int(rows, |row| i64::from(row.ps_availqty))),
        ("ps_supplycost", decimal(rows, |row| row.ps_supplycost.into_inner())),
        ("ps_comment", text(rows, |row| row.ps_comment)),
    ]
}

fn customer(rows: &[Customer<'static>]) -> Vec<Column> {
    vec![
        ("c_custkey", int(rows, |row| row.c_custkey)),
        ("c_name", shown(rows, |row| &row.c_name)),
        ("c_address", shown(rows, |row| &row.c_address)),
        ("c_nationkey", int(rows, |row| row.c_nationkey)),
        ("c_phone", shown(rows, |row| &row.c_phone)),
        ("c_acctbal", decimal(rows, |row| row.c_acctbal.into_inner())),
        ("c_mktsegment", text(rows, |row| row.c_mktsegment)),
        ("c_comment", text(rows, |row| row.c_comment)),
    ]
}

fn order(rows: &[Order<'static>]) -> Vec<Column> {
    vec![
        ("o_orderkey", bigint(rows, |row| row.o_orderkey)),
        ("o_custkey", int(rows, |row| row.o_custkey)),
        ("o_orderstatus", shown(rows, |row| &row.o_orderstatus)),
        ("o_totalprice", decimal(rows, |row| row.o_totalprice.into_inner())),
        ("o_orderdate", date(rows, |row| row.o_orderdate)),
        ("o_orderpriority", text(rows, |row| row.o_orderpriority)),
        ("o_clerk", shown(rows, |row| &row.o_clerk)),
        ("o_shippriority", int(rows, |row| i64::from(row.o_shippriority))),
        ("o_comment", text(rows, |row| row.o_comment)),
    ]
}

fn line_item(rows: &[LineItem<'static>]) -> Vec<Column> {
    vec![
        ("l_orderkey", bigint(rows, |row| row.l_orderkey)),
        ("l_partkey", int(rows, |row| row.l_partkey)),
        ("l_suppkey", int(rows, |row| row.l_suppkey)),
        ("l_linenumber", int(rows, |row| i64::from(row.l_linenumber))),
        // The generator counts whole units.
        ("l_quantity", decimal(rows, |row| row.l_quantity * 100)),
        ("l_extendedprice", decimal(rows, |row| row.l_extendedprice.into_inner())),
        ("l_discount", decimal(rows, |row| row.l_discount.into_inner())),
        ("l_tax", decimal(rows, |row| row.l_tax.into_inner())),
        ("l_returnflag", text(rows, |row| row.l_returnflag)),
        ("l_linestatus", text(rows, |row| row.l_linestatus)),
        ("l_shipdate", date(rows, |row| row.l_shipdate)),
        ("l_commitdate", date(rows, |row| row.l_commitdate)),
        ("l_receiptdate", date(rows, |row| row.l_receiptdate)),
        ("l_shipinstruct", text(rows, |row| row.l_shipinstruct)),
        ("l_shipmode", text(rows, |row| row.l_shipmode)),
        ("l_comment", text(rows, |row| row.l_comment)),
    ]
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Decimal128Type, Int64Type};

    use super::*;
    use crate::data::content_hash;

    fn rows(table: TpchTable, parts: i32) -> usize {
        (1..=parts).flat_map(|part| table.batches(0.01, part, parts)).map(|batch| batch.num_rows()).sum()
    }

    #[test]
    fn parts_make_up_the_whole() {
        for table in TpchTable::ALL {
            assert_eq!(rows(table, 1), rows(table, 3), "{}", table.name());
        }
        assert_eq!(rows(TpchTable::Orders, 1), 15_000);
    }

    #[test]
    fn line_items_are_the_generators_and_the_same_every_time() {
        let batches: Vec<_> = TpchTable::LineItem.batches(0.01, 1, 1).collect();
        let again: Vec<_> = TpchTable::LineItem.batches(0.01, 1, 1).collect();
        assert_eq!(content_hash(&batches), content_hash(&again));
        let row = LineItemGenerator::new(0.01, 1, 1).iter().next().expect("there are line items");
        let first = &batches[0];
        assert_eq!(first.column(0).as_primitive::<Int64Type>().value(0), row.l_orderkey);
        assert_eq!(first.column(4).as_primitive::<Decimal128Type>().value(0), i128::from(row.l_quantity) * 100);
        assert_eq!(first.column(15).as_string_view().value(0), row.l_comment);
    }
}
