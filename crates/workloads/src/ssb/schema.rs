//! The five tables: names, columns, DDL.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::encode::Format;

/// A table of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The fact table, sorted by `lo_orderdate`.
    Lineorder,
    /// 30,000 rows a scale unit.
    Customer,
    /// 2,000 rows a scale unit.
    Supplier,
    /// 200,000 rows at scale 1, growing with its logarithm.
    Part,
    /// One row a day, 1992 to 1998.
    Dates,
}

/// All tables, the fact table first.
pub const TABLES: [Table; 5] = [Table::Lineorder, Table::Customer, Table::Supplier, Table::Part, Table::Dates];

impl Table {
    /// The table's SQL name, which is also its folder and the start of its object names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lineorder => "lineorder",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Part => "part",
            Self::Dates => "dates",
        }
    }

    pub(super) fn columns(self) -> &'static [(&'static str, Kind)] {
        match self {
            Self::Lineorder => LINEORDER,
            Self::Customer => CUSTOMER,
            Self::Supplier => SUPPLIER,
            Self::Part => PART,
            Self::Dates => DATES,
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A column's type, and whether its values repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `Int64`, nearly unique.
    Key64,
    /// `Int32`, nearly unique: a Parquet dictionary would only overflow.
    Unique,
    /// `Int32` of few values.
    Int,
    /// `Utf8`, nearly unique.
    Text,
    /// `Utf8` from a word list, made as an Arrow dictionary.
    Word,
}

impl Kind {
    /// Whether a Parquet dictionary pays.
    pub(super) fn repeats(self) -> bool {
        matches!(self, Self::Int | Self::Word)
    }

    /// The type as readers see it.
    fn data_type(self) -> DataType {
        match self {
            Self::Key64 => DataType::Int64,
            Self::Unique | Self::Int => DataType::Int32,
            Self::Text | Self::Word => DataType::Utf8,
        }
    }

    /// The type as the generator makes it.
    fn generated_type(self) -> DataType {
        match self {
            Self::Word => DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8)),
            other => other.data_type(),
        }
    }

    fn sql_type(self) -> &'static str {
        match self {
            Self::Key64 => "BIGINT",
            Self::Unique | Self::Int => "INT",
            Self::Text | Self::Word => "VARCHAR",
        }
    }
}

const LINEORDER: &[(&str, Kind)] = &[
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
];

const CUSTOMER: &[(&str, Kind)] = &[
    ("c_custkey", Kind::Unique),
    ("c_name", Kind::Text),
    ("c_address", Kind::Text),
    ("c_city", Kind::Word),
    ("c_nation", Kind::Word),
    ("c_region", Kind::Word),
    ("c_phone", Kind::Text),
    ("c_mktsegment", Kind::Word),
];

const SUPPLIER: &[(&str, Kind)] = &[
    ("s_suppkey", Kind::Unique),
    ("s_name", Kind::Text),
    ("s_address", Kind::Text),
    ("s_city", Kind::Word),
    ("s_nation", Kind::Word),
    ("s_region", Kind::Word),
    ("s_phone", Kind::Text),
];

const PART: &[(&str, Kind)] = &[
    ("p_partkey", Kind::Unique),
    ("p_name", Kind::Word),
    ("p_mfgr", Kind::Word),
    ("p_category", Kind::Word),
    ("p_brand1", Kind::Word),
    ("p_color", Kind::Word),
    ("p_type", Kind::Word),
    ("p_size", Kind::Int),
    ("p_container", Kind::Word),
];

const DATES: &[(&str, Kind)] = &[
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
];

/// The columns of `table` as a reader of either format should see them: `Int64`, `Int32` and
/// `Utf8`, none of them nullable.
pub fn schema(table: Table) -> SchemaRef {
    schema_of(table, Kind::data_type)
}

/// The columns of `table` as its source makes them: as [`schema`], word columns as dictionaries.
pub(super) fn generated_schema(table: Table) -> SchemaRef {
    schema_of(table, Kind::generated_type)
}

fn schema_of(table: Table, data_type: impl Fn(Kind) -> DataType) -> SchemaRef {
    let columns = table.columns().iter();
    let fields: Vec<Field> = columns.map(|(name, kind)| Field::new(*name, data_type(*kind), false)).collect();
    Arc::new(Schema::new(fields))
}

/// DataFusion's `CREATE EXTERNAL TABLE` over the objects of `table` at `location`, a folder or
/// URL that ends in `/`. CSV objects get an explicit column list; Parquet objects name their own.
pub fn create_table_sql(table: Table, format: Format, location: &str) -> String {
    let location = location.replace('\'', "''");
    let mut sql = format!("CREATE EXTERNAL TABLE {table} ");
    match format {
        Format::Parquet => sql.push_str(&format!("STORED AS PARQUET LOCATION '{location}'")),
        Format::Csv => {
            let columns: Vec<String> =
                table.columns().iter().map(|(name, kind)| format!("{name} {} NOT NULL", kind.sql_type())).collect();
            sql.push_str(&format!(
                "({}) STORED AS CSV LOCATION '{location}' OPTIONS ('format.has_header' 'true')",
                columns.join(", ")
            ));
        }
    }
    sql
}
