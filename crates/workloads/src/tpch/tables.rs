//! The eight tables as `tpchgen` makes them, row by row, and their columns.

use arrow::array::ArrayRef;
use arrow::error::ArrowError;
use tpchgen::generators as tpch;

use super::schema::{CUSTOMER, LINEITEM, NATION, ORDERS, PART, PARTSUPP, REGION, SUPPLIER};
use super::source::Rows;
use crate::generate::{Table, dates, decimals, integers, longs, texts};

/// `partsupp` rows of each part.
const SUPPLIERS_PER_PART: i64 = 4;

pub(super) struct LineItem;

impl Rows for LineItem {
    const TABLE: Table = LINEITEM;
    type Row = tpch::LineItem<'static>;

    fn divisible(scale: f64) -> i64 {
        Orders::divisible(scale)
    }

    /// Draws the number of lines of each order, about 3 ns each.
    fn rows(scale: f64) -> i64 {
        let mut lines = tpch::OrderGenerator::create_line_count_random();
        let mut next = || {
            let count = i64::from(lines.next_value());
            lines.row_finished();
            count
        };
        (0..Orders::divisible(scale)).map(|_| next()).sum()
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::LineItemGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.l_orderkey)),
            longs(rows.iter().map(|row| row.l_partkey)),
            longs(rows.iter().map(|row| row.l_suppkey)),
            integers(rows.iter().map(|row| row.l_linenumber)),
            // `tpchgen` counts pieces, money in cents.
            decimals(rows.iter().map(|row| row.l_quantity * 100))?,
            decimals(rows.iter().map(|row| row.l_extendedprice.into_inner()))?,
            decimals(rows.iter().map(|row| row.l_discount.into_inner()))?,
            decimals(rows.iter().map(|row| row.l_tax.into_inner()))?,
            texts(rows.iter().map(|row| row.l_returnflag)),
            texts(rows.iter().map(|row| row.l_linestatus)),
            dates(rows.iter().map(|row| row.l_shipdate.to_unix_epoch())),
            dates(rows.iter().map(|row| row.l_commitdate.to_unix_epoch())),
            dates(rows.iter().map(|row| row.l_receiptdate.to_unix_epoch())),
            texts(rows.iter().map(|row| row.l_shipinstruct)),
            texts(rows.iter().map(|row| row.l_shipmode)),
            texts(rows.iter().map(|row| row.l_comment)),
        ])
    }
}

pub(super) struct Orders;

impl Rows for Orders {
    const TABLE: Table = ORDERS;
    type Row = tpch::Order<'static>;

    fn divisible(scale: f64) -> i64 {
        tpch::OrderGenerator::calculate_row_count(scale, 1, 1)
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::OrderGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.o_orderkey)),
            longs(rows.iter().map(|row| row.o_custkey)),
            texts(rows.iter().map(|row| row.o_orderstatus.as_str())),
            decimals(rows.iter().map(|row| row.o_totalprice.into_inner()))?,
            dates(rows.iter().map(|row| row.o_orderdate.to_unix_epoch())),
            texts(rows.iter().map(|row| row.o_orderpriority)),
            texts(rows.iter().map(|row| row.o_clerk.to_string())),
            integers(rows.iter().map(|row| row.o_shippriority)),
            texts(rows.iter().map(|row| row.o_comment)),
        ])
    }
}

pub(super) struct PartSupp;

impl Rows for PartSupp {
    const TABLE: Table = PARTSUPP;
    type Row = tpch::PartSupp<'static>;

    fn divisible(scale: f64) -> i64 {
        Part::divisible(scale)
    }

    fn rows(scale: f64) -> i64 {
        SUPPLIERS_PER_PART * Self::divisible(scale)
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::PartSuppGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.ps_partkey)),
            longs(rows.iter().map(|row| row.ps_suppkey)),
            integers(rows.iter().map(|row| row.ps_availqty)),
            decimals(rows.iter().map(|row| row.ps_supplycost.into_inner()))?,
            texts(rows.iter().map(|row| row.ps_comment)),
        ])
    }
}

pub(super) struct Part;

impl Rows for Part {
    const TABLE: Table = PART;
    type Row = tpch::Part<'static>;

    fn divisible(scale: f64) -> i64 {
        tpch::PartGenerator::calculate_row_count(scale, 1, 1)
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::PartGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.p_partkey)),
            texts(rows.iter().map(|row| row.p_name.to_string())),
            texts(rows.iter().map(|row| row.p_mfgr.to_string())),
            texts(rows.iter().map(|row| row.p_brand.to_string())),
            texts(rows.iter().map(|row| row.p_type)),
            integers(rows.iter().map(|row| row.p_size)),
            texts(rows.iter().map(|row| row.p_container)),
            decimals(rows.iter().map(|row| row.p_retailprice.into_inner()))?,
            texts(rows.iter().map(|row| row.p_comment)),
        ])
    }
}

pub(super) struct Customer;

impl Rows for Customer {
    const TABLE: Table = CUSTOMER;
    type Row = tpch::Customer<'static>;

    fn divisible(scale: f64) -> i64 {
        tpch::CustomerGenerator::calculate_row_count(scale, 1, 1)
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::CustomerGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.c_custkey)),
            texts(rows.iter().map(|row| row.c_name.to_string())),
            texts(rows.iter().map(|row| row.c_address.to_string())),
            longs(rows.iter().map(|row| row.c_nationkey)),
            texts(rows.iter().map(|row| row.c_phone.to_string())),
            decimals(rows.iter().map(|row| row.c_acctbal.into_inner()))?,
            texts(rows.iter().map(|row| row.c_mktsegment)),
            texts(rows.iter().map(|row| row.c_comment)),
        ])
    }
}

pub(super) struct Supplier;

impl Rows for Supplier {
    const TABLE: Table = SUPPLIER;
    type Row = tpch::Supplier;

    fn divisible(scale: f64) -> i64 {
        tpch::SupplierGenerator::calculate_row_count(scale, 1, 1)
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::SupplierGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.s_suppkey)),
            texts(rows.iter().map(|row| row.s_name.to_string())),
            texts(rows.iter().map(|row| row.s_address.to_string())),
            longs(rows.iter().map(|row| row.s_nationkey)),
            texts(rows.iter().map(|row| row.s_phone.to_string())),
            decimals(rows.iter().map(|row| row.s_acctbal.into_inner()))?,
            texts(rows.iter().map(|row| &row.s_comment)),
        ])
    }
}

pub(super) struct Nation;

impl Rows for Nation {
    const TABLE: Table = NATION;
    type Row = tpch::Nation<'static>;

    fn divisible(_scale: f64) -> i64 {
        1
    }

    fn rows(_scale: f64) -> i64 {
        25
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::NationGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.n_nationkey)),
            texts(rows.iter().map(|row| row.n_name)),
            longs(rows.iter().map(|row| row.n_regionkey)),
            texts(rows.iter().map(|row| row.n_comment)),
        ])
    }
}

pub(super) struct Region;

impl Rows for Region {
    const TABLE: Table = REGION;
    type Row = tpch::Region<'static>;

    fn divisible(_scale: f64) -> i64 {
        1
    }

    fn rows(_scale: f64) -> i64 {
        5
    }

    fn generate(scale: f64, part: i32, parts: i32) -> impl Iterator<Item = Self::Row> {
        tpch::RegionGenerator::new(scale, part, parts).into_iter()
    }

    fn columns(rows: &[Self::Row]) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(vec![
            longs(rows.iter().map(|row| row.r_regionkey)),
            texts(rows.iter().map(|row| row.r_name)),
            texts(rows.iter().map(|row| row.r_comment)),
        ])
    }
}
