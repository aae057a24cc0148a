//! The eight tables, with the types of the specification's section 1.4: identifiers are `Int64`,
//! integers `Int32`, decimals `Decimal128(15, 2)`, dates `Date32`, all texts `Utf8`.

use crate::generate::{Kind, Table};

/// The fact table: 1 to 7 lines an order, about 6,000,000 rows a scale unit.
pub const LINEITEM: Table = Table::new(
    "lineitem",
    &[
        ("l_orderkey", Kind::Key64),
        ("l_partkey", Kind::Key64),
        ("l_suppkey", Kind::Int64),
        ("l_linenumber", Kind::Int),
        ("l_quantity", Kind::Ratio),
        ("l_extendedprice", Kind::Money),
        ("l_discount", Kind::Ratio),
        ("l_tax", Kind::Ratio),
        ("l_returnflag", Kind::Label),
        ("l_linestatus", Kind::Label),
        ("l_shipdate", Kind::Date),
        ("l_commitdate", Kind::Date),
        ("l_receiptdate", Kind::Date),
        ("l_shipinstruct", Kind::Label),
        ("l_shipmode", Kind::Label),
        ("l_comment", Kind::Text),
    ],
);

/// 1,500,000 rows a scale unit.
pub const ORDERS: Table = Table::new(
    "orders",
    &[
        ("o_orderkey", Kind::Key64),
        ("o_custkey", Kind::Int64),
        ("o_orderstatus", Kind::Label),
        ("o_totalprice", Kind::Money),
        ("o_orderdate", Kind::Date),
        ("o_orderpriority", Kind::Label),
        ("o_clerk", Kind::Label),
        ("o_shippriority", Kind::Int),
        ("o_comment", Kind::Text),
    ],
);

/// Four suppliers a part: 800,000 rows a scale unit.
pub const PARTSUPP: Table = Table::new(
    "partsupp",
    &[
        ("ps_partkey", Kind::Key64),
        ("ps_suppkey", Kind::Int64),
        ("ps_availqty", Kind::Int),
        ("ps_supplycost", Kind::Money),
        ("ps_comment", Kind::Text),
    ],
);

/// 200,000 rows a scale unit.
pub const PART: Table = Table::new(
    "part",
    &[
        ("p_partkey", Kind::Key64),
        ("p_name", Kind::Text),
        ("p_mfgr", Kind::Label),
        ("p_brand", Kind::Label),
        ("p_type", Kind::Label),
        ("p_size", Kind::Int),
        ("p_container", Kind::Label),
        ("p_retailprice", Kind::Money),
        ("p_comment", Kind::Text),
    ],
);

/// 150,000 rows a scale unit.
pub const CUSTOMER: Table = Table::new(
    "customer",
    &[
        ("c_custkey", Kind::Key64),
        ("c_name", Kind::Text),
        ("c_address", Kind::Text),
        ("c_nationkey", Kind::Int64),
        ("c_phone", Kind::Text),
        ("c_acctbal", Kind::Money),
        ("c_mktsegment", Kind::Label),
        ("c_comment", Kind::Text),
    ],
);

/// 10,000 rows a scale unit.
pub const SUPPLIER: Table = Table::new(
    "supplier",
    &[
        ("s_suppkey", Kind::Key64),
        ("s_name", Kind::Text),
        ("s_address", Kind::Text),
        ("s_nationkey", Kind::Int64),
        ("s_phone", Kind::Text),
        ("s_acctbal", Kind::Money),
        ("s_comment", Kind::Text),
    ],
);

/// 25 rows.
pub const NATION: Table = Table::new(
    "nation",
    &[("n_nationkey", Kind::Key64), ("n_name", Kind::Text), ("n_regionkey", Kind::Int64), ("n_comment", Kind::Text)],
);

/// 5 rows.
pub const REGION: Table =
    Table::new("region", &[("r_regionkey", Kind::Key64), ("r_name", Kind::Text), ("r_comment", Kind::Text)]);

/// All tables, the fact table first.
pub const TABLES: [Table; 8] = [LINEITEM, ORDERS, PARTSUPP, PART, CUSTOMER, SUPPLIER, NATION, REGION];
