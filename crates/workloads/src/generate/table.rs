//! A table of a workload: names, columns, DDL.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::encode::Format;

/// A table that a workload generates. None of its columns has NULLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    name: &'static str,
    columns: &'static [(&'static str, Kind)],
}

impl Table {
    /// A table of these columns. `name` is its SQL name, its folder and the start of its object
    /// names.
    pub(crate) const fn new(name: &'static str, columns: &'static [(&'static str, Kind)]) -> Self {
        Self { name, columns }
    }

    /// The table's SQL name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Names and kinds of the columns.
    pub(super) fn columns(self) -> &'static [(&'static str, Kind)] {
        self.columns
    }

    /// The columns as a source makes them: as [`schema`], word columns as dictionaries.
    pub(crate) fn generated_schema(self) -> SchemaRef {
        self.schema_of(Kind::generated_type)
    }

    fn schema_of(self, data_type: impl Fn(Kind) -> DataType) -> SchemaRef {
        let columns = self.columns.iter();
        let fields: Vec<Field> = columns.map(|(name, kind)| Field::new(*name, data_type(*kind), false)).collect();
        Arc::new(Schema::new(fields))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Digits of a money or quantity column: all of them, and those after the point.
pub(super) const DECIMAL: (u8, i8) = (15, 2);

/// A column's type, and whether its values repeat so often that a Parquet dictionary pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `Int64`, nearly unique.
    Key64,
    /// `Int64` of values that repeat.
    Int64,
    /// `Int32`, nearly unique: a Parquet dictionary would only overflow.
    Unique,
    /// `Int32` of few values.
    Int,
    /// `Decimal128(15, 2)`, nearly unique.
    Money,
    /// `Decimal128(15, 2)` of few values.
    Ratio,
    /// `Date32`.
    Date,
    /// `Utf8`, nearly unique.
    Text,
    /// `Utf8` of few values.
    Label,
    /// `Utf8` from a word list, made as an Arrow dictionary.
    Word,
}

impl Kind {
    /// Whether a Parquet dictionary pays.
    pub(super) fn repeats(self) -> bool {
        match self {
            Self::Key64 | Self::Unique | Self::Money | Self::Text => false,
            Self::Int64 | Self::Int | Self::Ratio | Self::Date | Self::Label | Self::Word => true,
        }
    }

    /// The type as readers see it.
    fn data_type(self) -> DataType {
        match self {
            Self::Key64 | Self::Int64 => DataType::Int64,
            Self::Unique | Self::Int => DataType::Int32,
            Self::Money | Self::Ratio => DataType::Decimal128(DECIMAL.0, DECIMAL.1),
            Self::Date => DataType::Date32,
            Self::Text | Self::Label | Self::Word => DataType::Utf8,
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
            Self::Key64 | Self::Int64 => "BIGINT",
            Self::Unique | Self::Int => "INT",
            Self::Money | Self::Ratio => "DECIMAL(15, 2)",
            Self::Date => "DATE",
            Self::Text | Self::Label | Self::Word => "VARCHAR",
        }
    }
}

/// The columns of `table` as a reader of either format should see them, none of them nullable.
pub fn schema(table: Table) -> SchemaRef {
    table.schema_of(Kind::data_type)
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

/// DuckDB's `CREATE VIEW` or `CREATE TABLE` (`kind`) over the objects of `table`: `files` is a pattern.
pub fn create_duckdb_sql(table: Table, format: Format, kind: &str, files: &str) -> String {
    let files = files.replace('\'', "''");
    let source = match format {
        Format::Parquet => format!("read_parquet('{files}')"),
        Format::Csv => {
            let columns: Vec<String> =
                table.columns().iter().map(|(name, kind)| format!("'{name}': '{}'", kind.sql_type())).collect();
            format!(
                "read_csv('{files}', auto_detect = false, header = true, delim = ',', quote = '\"', \
                 escape = '\"', columns = {{{}}})",
                columns.join(", ")
            )
        }
    };
    format!("CREATE OR REPLACE {kind} {table} AS SELECT * FROM {source}")
}
