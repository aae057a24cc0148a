//! Definitions of external tables: the statement parsed, and written back as the catalog keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Value;
use thermocline_pushdown::{CsvFormat, FileFormat, UUID_WIDTH, external, is_jsonb, user_err, user_error};
use thermocline_types::Class;

use super::table_schema::table_type;

/// A parsed `CREATE EXTERNAL TABLE` statement.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// Unqualified name.
    pub name: String,
    /// The declared columns; `None` to infer them from the objects.
    pub columns: Option<SchemaRef>,
    /// Format of its objects.
    pub format: FileFormat,
    /// Where they are; at least one.
    pub locations: Vec<String>,
    /// The statement as the catalog keeps it.
    pub sql: String,
}

impl TableDefinition {
    /// Understands a parsed statement.
    ///
    /// # Errors
    /// A sentence that names the clause, for what this database does not have or cannot read.
    pub fn try_from_statement(statement: &CreateExternalTable) -> Result<Self> {
        let name = statement.name.table().to_owned();
        if !statement.table_partition_cols.is_empty() {
            return user_err!(
                Unsupported,
                "table {name}: PARTITIONED BY is not supported; min/max statistics prune instead"
            );
        }
        if !statement.order_exprs.is_empty() {
            return user_err!(Unsupported, "table {name}: WITH ORDER is not supported");
        }
        if statement.unbounded {
            return user_err!(Unsupported, "table {name}: UNBOUNDED tables are not supported");
        }
        if statement.locations.iter().all(|location| location.trim().is_empty()) {
            return user_err!(InvalidTableDefinition, "table {name}: LOCATION is empty");
        }
        if let Some(document) = statement.schema.fields().iter().find(|field| is_jsonb(field.data_type())) {
            let column = document.name();
            return Err(external(Class::Unsupported.error(format_args!(
                "table {name}: column \"{column}\" of type JSONB: objects have texts, so declare VARCHAR and write CAST({column} \
                 AS JSONB)"
            ))));
        }
        let columns = (!statement.schema.fields().is_empty()).then(|| views(statement.schema.as_arrow()));
        let zone =
            columns.as_ref().and_then(|columns| columns.fields().iter().find_map(|field| zone(field.data_type())));
        let mut options: BTreeMap<_, _> =
            statement.options.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let is_zone = |key: &str| option_name(key) == TIME_ZONE;
        match (options.keys().any(|key| is_zone(key)), zone) {
            // The session's zone, which another session may not have.
            (false, Some(zone)) => drop(options.insert(TIME_ZONE.into(), zone.to_string())),
            (true, None) => {
                return user_err!(
                    InvalidTableDefinition,
                    "table {name}: option '{TIME_ZONE}' is for columns declared as TIMESTAMP WITH TIME ZONE; it has none"
                );
            }
            _ => {}
        }
        let format = format_of(&name, &statement.file_type, options.iter().filter(|(key, _)| !is_zone(key)))?;
        let mut definition = Self { name, columns, format, locations: statement.locations.clone(), sql: String::new() };
        definition.sql = definition.to_sql(&options)?;
        Ok(definition)
    }

    /// The statement, readable and complete.
    fn to_sql(&self, options: &BTreeMap<String, String>) -> Result<String> {
        use std::fmt::Write;
        let mut sql = format!("CREATE EXTERNAL TABLE {}", quote_name(&self.name));
        if let Some(columns) = &self.columns {
            let columns: Vec<_> = columns
                .fields()
                .iter()
                .map(|field| {
                    let null = if field.is_nullable() { "" } else { " NOT NULL" };
                    let Some(data_type) = sql_type(field.data_type()) else {
                        return user_err!(
                            InvalidTableDefinition,
                            "table {}: column '{}': the catalog has no name for type {}",
                            self.name,
                            field.name(),
                            field.data_type()
                        );
                    };
                    Ok(format!("  {} {data_type}{null}", quote_name(field.name())))
                })
                .collect::<Result<_>>()?;
            let _infallible = write!(sql, " (\n{}\n)", columns.join(",\n"));
        }
        let locations: Vec<_> = self.locations.iter().map(|location| quote_text(location)).collect();
        let location = match locations.as_slice() {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        let _infallible = write!(sql, "\nSTORED AS {}\nLOCATION {location}", self.format.name());
        if !options.is_empty() {
            let options: Vec<_> =
                options.iter().map(|(key, value)| format!("{} {}", quote_text(key), quote_text(value))).collect();
            let _infallible = write!(sql, "\nOPTIONS ({})", options.join(", "));
        }
        sql.push(';');
        Ok(sql)
    }
}

/// Name of the option with the zone of columns that are declared as `TIMESTAMP WITH TIME ZONE`.
const TIME_ZONE: &str = "time_zone";

/// The time zone that a statement's options give its columns, over the session's.
pub fn declared_time_zone(statement: &Statement) -> Option<String> {
    let Statement::CreateExternalTable(table) = statement else { return None };
    table.options.iter().find_map(|(key, value)| match value {
        Value::SingleQuotedString(zone) if option_name(key) == TIME_ZONE => Some(zone.clone()),
        _ => None,
    })
}

/// An option's name without the prefix that DataFusion puts before it.
fn option_name(key: &str) -> String {
    key.to_ascii_lowercase().trim_start_matches("format.").to_owned()
}

/// The zone of the timestamps in a type; the parser gives all of a statement the same.
fn zone(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.as_deref(),
        DataType::List(field) | DataType::FixedSizeList(field, _) => zone(field.data_type()),
        DataType::Struct(fields) => fields.iter().find_map(|field| zone(field.data_type())),
        _ => None,
    }
}

/// The columns in the types in which a table has them.
pub(crate) fn views(schema: &Schema) -> SchemaRef {
    let of_table = |field: &Arc<Field>| Field::new(field.name(), table_type(field.data_type()), field.is_nullable());
    Arc::new(Schema::new(schema.fields().iter().map(of_table).collect::<Vec<_>>()))
}

fn format_of<'a>(
    name: &str,
    file_type: &str,
    mut options: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<FileFormat> {
    match file_type.to_ascii_uppercase().as_str() {
        "PARQUET" => match options.next() {
            Some((key, _)) => {
                user_err!(InvalidTableDefinition, "table {name}: a Parquet table has no option '{}'", option_name(key))
            }
            None => Ok(FileFormat::Parquet),
        },
        "CSV" => {
            let mut csv = CsvFormat::default();
            for (key, value) in options {
                // `format.has_header` is how DataFusion spells it, `header` how DuckDB does.
                let option = option_name(key);
                match option.as_str() {
                    "has_header" | "header" => csv.has_header = boolean(name, key, value)?,
                    "delimiter" | "delim" | "sep" => csv.delimiter = byte(name, key, value)?,
                    "quote" => csv.quote = optional_byte(name, key, value)?,
                    "escape" => csv.escape = optional_byte(name, key, value)?,
                    "null_value" | "nullstr" | "null" => csv.null_text.clone_from(value),
                    _ => {
                        return user_err!(
                            InvalidTableDefinition,
                            "table {name}: a CSV table has no option '{option}'; there are has_header, delimiter, quote, escape, null_value, {TIME_ZONE}"
                        );
                    }
                }
            }
            thermocline_formats::csv_options(&csv)
                .validate()
                .map_err(|error| user_error!(InvalidTableDefinition, "table {name}: {error}"))?;
            Ok(FileFormat::Csv(csv))
        }
        other => user_err!(Unsupported, "table {name}: STORED AS {other} is not supported; there are PARQUET and CSV"),
    }
}

fn boolean(table: &str, key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "t" | "on" | "1" => Ok(true),
        "false" | "f" | "off" | "0" => Ok(false),
        _ => user_err!(InvalidTableDefinition, "table {table}: option '{key}' is '{value}', expected true or false"),
    }
}

fn byte(table: &str, key: &str, value: &str) -> Result<u8> {
    match (value, value.as_bytes()) {
        ("\\t", _) => Ok(b'\t'),
        (_, [byte]) => Ok(*byte),
        _ => user_err!(
            InvalidTableDefinition,
            "table {table}: option '{key}' is '{value}', expected one ASCII character"
        ),
    }
}

fn optional_byte(table: &str, key: &str, value: &str) -> Result<Option<u8>> {
    if value.is_empty() { Ok(None) } else { byte(table, key, value).map(Some) }
}

/// An identifier, quoted where the parser would otherwise read something else.
pub fn quote_name(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The SQL type that the parser reads back as `data_type`; `None` for a type that it never makes.
fn sql_type(data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("DECIMAL({precision}, {scale})")
        }
        DataType::Date32 => "DATE".into(),
        DataType::Timestamp(unit, zone) => {
            let digits = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            let zone = if zone.is_some() { " WITH TIME ZONE" } else { "" };
            format!("TIMESTAMP({digits}){zone}")
        }
        DataType::Time64(TimeUnit::Nanosecond) => "TIME".into(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "INTERVAL".into(),
        DataType::Binary | DataType::BinaryView => "BYTEA".into(),
        DataType::FixedSizeBinary(UUID_WIDTH) => "UUID".into(),
        DataType::Utf8 | DataType::Utf8View => "VARCHAR".into(),
        // Square brackets would belong to the last type of a structure.
        DataType::List(field) => format!("ARRAY<{}>", sql_type(field.data_type())?),
        DataType::FixedSizeList(field, length) => format!("{}[{length}]", sql_type(field.data_type())?),
        DataType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|field| Some(format!("{} {}", quote_name(field.name()), sql_type(field.data_type())?)))
                .collect::<Option<Vec<_>>>()?;
            format!("STRUCT<{}>", fields.join(", "))
        }
        _ => return None,
    })
}
