//! Tests through the public API; each generates a small scale into a temporary folder.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tpchgen::generators::{LineItemGenerator, OrderGenerator, PartSuppGenerator, SupplierGenerator};

use super::{LINEITEM, ORDERS, PARTSUPP, REGION, SUPPLIER, TABLES, generate};
use crate::generate::{Format, GenerateError, GenerateOptions, Table, create_table_sql, schema};

type TestResult = Result<(), Box<dyn Error>>;

/// 1500 orders, in several objects.
const SCALE: f64 = 0.001;
const PARTITION_SIZE: u64 = 64 * 1024;

fn options(out: &Path, format: Format) -> GenerateOptions {
    GenerateOptions { scale: SCALE, format, partition_size: PARTITION_SIZE, out: out.to_path_buf(), threads: 2 }
}

/// The paths of a table's objects, in order.
fn objects(out: &Path, table: Table) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir(out.join(table.name()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    paths.sort();
    Ok(paths)
}

/// All rows of a table, in object order.
fn read(out: &Path, table: Table, format: Format) -> Result<RecordBatch, Box<dyn Error>> {
    let mut batches = Vec::new();
    for path in objects(out, table)? {
        let file = File::open(path)?;
        match format {
            Format::Parquet => {
                let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
                assert_eq!(reader.schema(), &schema(table));
                batches.extend(reader.build()?.collect::<Result<Vec<_>, _>>()?);
            }
            Format::Csv => {
                let reader = ReaderBuilder::new(schema(table)).with_header(true).build(file)?;
                batches.extend(reader.collect::<Result<Vec<_>, _>>()?);
            }
        }
    }
    Ok(concat_batches(&schema(table), &batches)?)
}

/// Row `row` as `dbgen` prints it.
fn line(batch: &RecordBatch, row: usize) -> String {
    let mut line = String::new();
    for column in batch.columns() {
        use arrow::datatypes::DataType;
        line += &match column.data_type() {
            DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value_as_string(row),
            DataType::Date32 => {
                column.as_primitive::<Date32Type>().value_as_date(row).map_or_else(String::new, |date| date.to_string())
            }
            _ => column.as_string::<i32>().value(row).to_owned(),
        };
        line.push('|');
    }
    line
}

#[test]
fn rows_are_those_of_dbgen_in_order() -> TestResult {
    let out = tempfile::tempdir()?;
    generate(&options(out.path(), Format::Csv), &|_| {})?;
    let check = |table: Table, expected: Vec<String>| -> TestResult {
        assert!(table == SUPPLIER || objects(out.path(), table)?.len() > 1, "{table} is cut");
        let batch = read(out.path(), table, Format::Csv)?;
        assert_eq!(batch.num_rows(), expected.len(), "{table}");
        for (row, expected) in expected.into_iter().enumerate() {
            assert_eq!(line(&batch, row), expected, "{table} row {row}");
        }
        Ok(())
    };
    check(ORDERS, OrderGenerator::new(SCALE, 1, 1).iter().map(|row| row.to_string()).collect())?;
    check(PARTSUPP, PartSuppGenerator::new(SCALE, 1, 1).iter().map(|row| row.to_string()).collect())?;
    check(SUPPLIER, SupplierGenerator::new(SCALE, 1, 1).iter().map(|row| row.to_string()).collect())?;
    // Quantities are decimals in the specification, and pieces in what `dbgen` prints.
    let with_decimal = |line: String| {
        let mut fields: Vec<String> = line.split('|').map(str::to_owned).collect();
        if let Some(quantity) = fields.get_mut(4) {
            quantity.push_str(".00");
        }
        fields.join("|")
    };
    check(LINEITEM, LineItemGenerator::new(SCALE, 1, 1).iter().map(|row| with_decimal(row.to_string())).collect())
}

#[test]
fn parquet_and_csv_hold_the_same_rows_whoever_writes_them() -> TestResult {
    let (parquet, csv, again) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let summary = generate(&options(parquet.path(), Format::Parquet), &|_| {})?;
    generate(&options(csv.path(), Format::Csv), &|_| {})?;
    generate(&GenerateOptions { threads: 1, ..options(again.path(), Format::Csv) }, &|_| {})?;
    let rows: BTreeMap<&str, u64> = summary.tables.iter().map(|table| (table.table.name(), table.rows)).collect();
    for table in TABLES {
        let stored = read(parquet.path(), table, Format::Parquet)?;
        assert!(stored == read(csv.path(), table, Format::Csv)?, "{table} differs");
        assert_eq!(rows.get(table.name()), Some(&(stored.num_rows() as u64)));
        for (one, two) in objects(csv.path(), table)?.iter().zip(objects(again.path(), table)?) {
            assert!(fs::read(one)? == fs::read(two)?, "{} depends on threads", one.display());
        }
    }
    let counts: Vec<u64> = summary.tables.iter().map(|table| table.rows).collect();
    assert_eq!(counts, [6005, 1500, 800, 200, 150, 10, 25, 5]);
    Ok(())
}

#[test]
fn scales_without_enough_suppliers_are_refused() -> TestResult {
    let out = tempfile::tempdir()?;
    for scale in [0.0, 0.0009, -1.0, f64::NAN, f64::INFINITY, 1000.5] {
        let options = GenerateOptions { scale, ..options(out.path(), Format::Csv) };
        assert!(matches!(generate(&options, &|_| {}), Err(GenerateError::Scale { .. })), "{scale}");
    }
    assert!(fs::read_dir(out.path())?.next().is_none(), "nothing was created");
    Ok(())
}

#[test]
fn ddl_has_the_types_of_the_specification() {
    assert_eq!(
        create_table_sql(REGION, Format::Csv, "/r/"),
        "CREATE EXTERNAL TABLE region (r_regionkey BIGINT NOT NULL, r_name VARCHAR NOT NULL, \
         r_comment VARCHAR NOT NULL) STORED AS CSV LOCATION '/r/' OPTIONS ('format.has_header' 'true')"
    );
    let orders = create_table_sql(ORDERS, Format::Csv, "/o/");
    for column in ["o_totalprice DECIMAL(15, 2) NOT NULL", "o_orderdate DATE NOT NULL", "o_shippriority INT NOT NULL"] {
        assert!(orders.contains(column), "{orders}");
    }
}
