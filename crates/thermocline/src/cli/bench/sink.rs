//! Where records go, and what is printed of them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err};
use serde::Serialize;
use serde_json::Value;
use thermocline_pushdown::units::format_size;
use thermocline_workloads::bench::Record;

/// A file of one JSON object a line, or nothing.
pub struct JsonLines {
    file: Option<BufWriter<File>>,
}

impl JsonLines {
    /// Writes to `path`, if there is one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(path: Option<&PathBuf>) -> Result<Self> {
        let create = |path: &PathBuf| {
            File::create(path).map(BufWriter::new).map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
        };
        Ok(Self { file: path.map(create).transpose()? })
    }

    /// Writes a record with further fields: those of the object `more`, or none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: &impl Serialize, more: Value) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_string(record).map_err(|error| exec_datafusion_err!("{error}"))?;
        if let Some(more) = more.as_object().filter(|more| !more.is_empty()).map(|_| more.to_string()) {
            // The fields of both objects between one pair of braces, in their order.
            line.truncate(line.trim_end_matches('}').len());
            line.push(',');
            line.push_str(more.trim_start_matches('{'));
        }
        writeln!(file, "{line}").map_err(|error| exec_datafusion_err!("{error}"))
    }

    /// Makes sure that all is written.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some(file) => file.flush().map_err(|error| exec_datafusion_err!("{error}")),
            None => Ok(()),
        }
    }
}

/// Where records go, and their sums by mode and run.
pub struct Sink {
    json: JsonLines,
    totals: Vec<Total>,
    /// Every record, for figures.
    records: Vec<Record>,
}

struct Total {
    mode: String,
    run: &'static str,
    queries: u64,
    seconds: f64,
    bytes: u64,
    dollars: f64,
}

impl Sink {
    /// Writes to the file `json`, if there is one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(json: Option<&PathBuf>) -> Result<Self> {
        Ok(Self { json: JsonLines::new(json)?, totals: vec![], records: vec![] })
    }

    /// Writes a record and adds it up.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: Record) -> Result<()> {
        self.json.put(&record, Value::Null)?;
        let total = match self.totals.iter_mut().find(|total| total.mode == record.mode && total.run == record.run) {
            Some(total) => total,
            None => {
                self.totals.push(Total {
                    mode: record.mode.clone(),
                    run: record.run,
                    queries: 0,
                    seconds: 0.0,
                    bytes: 0,
                    dollars: 0.0,
                });
                let Some(total) = self.totals.last_mut() else { return Ok(()) };
                total
            }
        };
        total.queries += 1;
        total.seconds += record.seconds;
        total.bytes += record.bytes_from_storage + record.bytes_to_storage;
        total.dollars += record.dollars;
        self.records.push(record);
        Ok(())
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.json.flush()
    }

    /// Prints the sums.
    ///
    /// # Errors
    /// If the last records cannot be written.
    pub fn finish(&mut self, cache_size: usize) -> Result<()> {
        self.flush()?;
        say!("cache of {}", format_size(cache_size as u64));
        say!("{:<34}{:<8}{:>8}{:>10}{:>14}{:>12}", "mode", "run", "queries", "seconds", "bytes moved", "dollars");
        for total in &self.totals {
            say!(
                "{:<34}{:<8}{:>8}{:>10.3}{:>14}{:>12.6}",
                total.mode,
                total.run,
                total.queries,
                total.seconds,
                format_size(total.bytes),
                total.dollars
            );
        }
        Ok(())
    }
}
