//! Generates and reads back.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{Int32Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::generate::{Summary, Table};
use crate::ssb::{Format, GenerateOptions, generate, schema};

pub(super) type TestResult = Result<(), Box<dyn Error>>;

/// Small enough for a debug build, large enough for several objects: 15,000 orders.
pub(super) const SCALE: f64 = 0.01;
pub(super) const PARTITION_SIZE: u64 = 256 * 1024;

pub(super) fn options(out: &Path, format: Format) -> GenerateOptions {
    GenerateOptions { scale: SCALE, format, partition_size: PARTITION_SIZE, out: out.to_path_buf(), threads: 2 }
}

/// A generated benchmark; the folder goes when this goes.
pub(super) struct Generated {
    pub(super) folder: tempfile::TempDir,
    pub(super) summary: Summary,
    pub(super) format: Format,
}

impl Generated {
    pub(super) fn new(format: Format) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let summary = generate(&options(folder.path(), format), &|_| {})?;
        Ok(Self { folder, summary, format })
    }

    /// The paths of a table's objects, in order.
    pub(super) fn objects(&self, table: Table) -> Result<Vec<PathBuf>, Box<dyn Error>> {
        let entries = fs::read_dir(self.folder.path().join(table.name()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        paths.sort();
        Ok(paths)
    }

    /// All rows of a table, in object order.
    pub(super) fn read(&self, table: Table) -> Result<RecordBatch, Box<dyn Error>> {
        let mut batches = Vec::new();
        for path in self.objects(table)? {
            let file = File::open(path)?;
            match self.format {
                Format::Parquet => {
                    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
                    assert_eq!(reader.schema(), &schema(table));
                    for batch in reader.build()? {
                        batches.push(batch?);
                    }
                }
                Format::Csv => {
                    let reader = ReaderBuilder::new(schema(table)).with_header(true).build(file)?;
                    for batch in reader {
                        batches.push(batch?);
                    }
                }
            }
        }
        Ok(concat_batches(&schema(table), &batches)?)
    }
}

/// Every file below `folder`, by path, with its bytes.
pub(super) fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Box<dyn Error>> {
    let mut files = BTreeMap::new();
    for table in fs::read_dir(folder)? {
        for object in fs::read_dir(table?.path())? {
            let path = object?.path();
            files.insert(path.strip_prefix(folder)?.to_path_buf(), fs::read(&path)?);
        }
    }
    Ok(files)
}

pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, Box<dyn Error>> {
    Ok(batch.column_by_name(name).ok_or_else(|| format!("no column {name}"))?)
}

pub(super) fn ints(batch: &RecordBatch, name: &str) -> Result<Vec<i32>, Box<dyn Error>> {
    Ok(column(batch, name)?.as_primitive::<Int32Type>().values().to_vec())
}

pub(super) fn longs(batch: &RecordBatch, name: &str) -> Result<Vec<i64>, Box<dyn Error>> {
    Ok(column(batch, name)?.as_primitive::<Int64Type>().values().to_vec())
}

pub(super) fn strings(batch: &RecordBatch, name: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let strings = column(batch, name)?.as_string::<i32>().iter().flatten();
    Ok(strings.map(str::to_owned).collect())
}
