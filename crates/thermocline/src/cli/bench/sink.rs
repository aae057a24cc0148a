//! Where records go, and what is printed of them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use datafusion::common::{Result, exec_datafusion_err};
use thermocline_pushdown::units::format_size;
use thermocline_workloads::bench::Record;

/// Where records go, and their sums by mode and run.
pub struct Sink {
    json: Option<BufWriter<File>>,
    totals: Vec<Total>,
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
        let json = json
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|error| exec_datafusion_err!("{}: {error}", path.display()))
            })
            .transpose()?;
        Ok(Self { json, totals: vec![] })
    }

    /// Writes a record and adds it up.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: Record) -> Result<()> {
        if let Some(json) = &mut self.json {
            let line = serde_json::to_string(&record).map_err(|error| exec_datafusion_err!("{error}"))?;
            writeln!(json, "{line}").map_err(|error| exec_datafusion_err!("{error}"))?;
        }
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
        Ok(())
    }

    /// Writes what is still held back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.json {
            Some(json) => json.flush().map_err(|error| exec_datafusion_err!("{error}")),
            None => Ok(()),
        }
    }

    /// Prints the sums.
    ///
    /// # Errors
    /// If the last records cannot be written.
    pub fn finish(mut self, cache_size: usize) -> Result<()> {
        self.flush()?;
        println!("cache of {}", format_size(cache_size as u64));
        println!("{:<34}{:<8}{:>8}{:>10}{:>14}{:>12}", "mode", "run", "queries", "seconds", "bytes moved", "dollars");
        for total in &self.totals {
            println!(
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
