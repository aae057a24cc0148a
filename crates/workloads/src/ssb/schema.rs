//! The five tables.

use crate::generate::{Kind, Table};

/// The fact table, sorted by `lo_orderdate`.
pub const LINEORDER: Table = Table::new(
    "lineorder",
    &[
        ("lo_orderkey", Kind::Key64),
        ("lo_linenumber", Kind::Int),
        ("lo_custkey", Kind::Int),
        ("lo_partkey", Kind::Int),
        ("lo_suppkey", Kind::Int),
        ("lo_orderdate", Kind::Int),
        ("lo_orderpriority", Kind::Word),
        ("lo_shippriority", Kind::Word),
        ("lo_quantity", Kind::Int),
        ("lo_extendedprice", Kind::Unique),
        ("lo_ordtotalprice", Kind::Unique),
        ("lo_discount", Kind::Int),
        ("lo_revenue", Kind::Unique),
        ("lo_supplycost", Kind::Int),
        ("lo_tax", Kind::Int),
        ("lo_commitdate", Kind::Int),
        ("lo_shipmode", Kind::Word),
    ],
);

/// 30,000 rows a scale unit.
pub const CUSTOMER: Table = Table::new(
    "customer",
    &[
        ("c_custkey", Kind::Unique),
        ("c_name", Kind::Text),
        ("c_address", Kind::Text),
        ("c_city", Kind::Word),
        ("c_nation", Kind::Word),
        ("c_region", Kind::Word),
        ("c_phone", Kind::Text),
        ("c_mktsegment", Kind::Word),
    ],
);

/// 2,000 rows a scale unit.
pub const SUPPLIER: Table = Table::new(
    "supplier",
    &[
        ("s_suppkey", Kind::Unique),
        ("s_name", Kind::Text),
        ("s_address", Kind::Text),
        ("s_city", Kind::Word),
        ("s_nation", Kind::Word),
        ("s_region", Kind::Word),
        ("s_phone", Kind::Text),
    ],
);

/// 200,000 rows at scale 1, growing with its logarithm.
pub const PART: Table = Table::new(
    "part",
    &[
        ("p_partkey", Kind::Unique),
        ("p_name", Kind::Word),
        ("p_mfgr", Kind::Word),
        ("p_category", Kind::Word),
        ("p_brand1", Kind::Word),
        ("p_color", Kind::Word),
        ("p_type", Kind::Word),
        ("p_size", Kind::Int),
        ("p_container", Kind::Word),
    ],
);

/// One row a day, 1992 to 1998.
pub const DATES: Table = Table::new(
    "dates",
    &[
        ("d_datekey", Kind::Unique),
        ("d_date", Kind::Text),
        ("d_dayofweek", Kind::Word),
        ("d_month", Kind::Word),
        ("d_year", Kind::Int),
        ("d_yearmonthnum", Kind::Int),
        ("d_yearmonth", Kind::Word),
        ("d_daynuminweek", Kind::Int),
        ("d_daynuminmonth", Kind::Int),
        ("d_daynuminyear", Kind::Int),
        ("d_monthnuminyear", Kind::Int),
        ("d_weeknuminyear", Kind::Int),
        ("d_sellingseason", Kind::Word),
        ("d_lastdayinweekfl", Kind::Int),
        ("d_lastdayinmonthfl", Kind::Int),
        ("d_holidayfl", Kind::Int),
        ("d_weekdayfl", Kind::Int),
    ],
);

/// All tables, the fact table first.
pub const TABLES: [Table; 5] = [LINEORDER, CUSTOMER, SUPPLIER, PART, DATES];
