//! Sink of records, and the printed summary.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use serde::Serialize;
use serde_json::Value;
use thermocline_pushdown::units::format_size;
use thermocline_workloads::bench::{Record, median};
use thermocline_workloads::calibration::Errors;

/// A file with one JSON object per line, or nothing.
pub struct JsonLines {
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl JsonLines {
    /// Writes to `path`, if one is given.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(path: Option<&PathBuf>) -> Result<Self> {
        let create = |path: &PathBuf| {
            let file = File::create(path).map_err(|error| failed(path, &error))?;
            Ok::<_, DataFusionError>((path.clone(), BufWriter::new(file)))
        };
        Ok(Self { file: path.map(create).transpose()? })
    }

    /// Writes a record with the fields of the object `more`, if any.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: &impl Serialize, more: Value) -> Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_string(record).map_err(|error| exec_datafusion_err!("{error}"))?;
        if let Some(more) = more.as_object().filter(|more| !more.is_empty()).map(|_| more.to_string()) {
            // The fields of both objects within one pair of braces, in order.
            line.truncate(line.trim_end_matches('}').len());
            line.push(',');
            line.push_str(more.trim_start_matches('{'));
        }
        writeln!(file, "{line}").map_err(|error| failed(path, &error))
    }

    /// Flushes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.file {
            Some((path, file)) => file.flush().map_err(|error| failed(path, &error)),
            None => Ok(()),
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> DataFusionError {
    exec_datafusion_err!("{}: {error}", path.display())
}

/// Sink of records, and their summary by mode and run.
pub struct Sink {
    json: JsonLines,
    records: Vec<Record>,
}

/// Passes over the same queries in one mode.
#[derive(Debug, PartialEq)]
struct Passes {
    count: usize,
    queries: usize,
    /// Sum over the queries of each one's median over the passes.
    seconds_median: f64,
    /// Sum over the queries of each one's minimum over the passes.
    seconds_min: f64,
    /// Mean of the passes; `None` if not counted.
    bytes: Option<u64>,
    /// Mean of the passes; `None` if not counted.
    dollars: Option<f64>,
}

impl Passes {
    /// Summarises passes of `queries` records each, in the same order in all of them.
    fn of(records: &[&Record], queries: usize) -> Self {
        let queries = queries.clamp(1, records.len().max(1));
        let count = records.len().div_ceil(queries).max(1);
        let (mut seconds_median, mut seconds_min) = (0.0, 0.0);
        for query in 0..queries {
            let seconds: Vec<f64> = records.iter().skip(query).step_by(queries).map(|record| record.seconds).collect();
            seconds_median += median(&seconds).unwrap_or_default();
            seconds_min += seconds.into_iter().reduce(f64::min).unwrap_or_default();
        }
        let bytes: Option<u64> = records.iter().map(|record| record.bytes_moved()).sum();
        let dollars: Option<f64> =
            records.iter().map(|record| record.counts.as_ref().map(|counts| counts.dollars)).sum();
        Self {
            count,
            queries,
            seconds_median,
            seconds_min,
            bytes: bytes.map(|bytes| bytes / count as u64),
            dollars: dollars.map(|dollars| dollars / count as f64),
        }
    }
}

/// Text, or a dash for a value that was not counted.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

impl Sink {
    /// Writes to the file `json`, if one is given.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(json: Option<&PathBuf>) -> Result<Self> {
        Ok(Self { json: JsonLines::new(json)?, records: vec![] })
    }

    /// Writes a record, at once: whoever ends the bench before its time learns what it was at.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, record: Record) -> Result<()> {
        self.json.put(&record, Value::Null)?;
        self.records.push(record);
        self.json.flush()
    }

    /// All records so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Prints a line for each mode and run. A timed pass has `queries` queries, and the warm-up `warmup`.
    pub fn print(&self, cache_size: usize, warmup: usize, queries: usize) {
        say!(
            "cache of {}; a pass, with each query's median and minimum over the passes",
            format_size(cache_size as u64)
        );
        say!(
            "{:<34}{:<8}{:>7}{:>8}{:>10}{:>10}{:>14}{:>12}",
            "mode",
            "run",
            "passes",
            "queries",
            "median s",
            "minimum s",
            "bytes moved",
            "dollars"
        );
        let mut modes: Vec<&str> = vec![];
        for record in &self.records {
            if !modes.contains(&record.mode.as_str()) {
                modes.push(&record.mode);
            }
        }
        for (mode, run) in modes.into_iter().flat_map(|mode| ["warmup", "timed"].map(|run| (mode, run))) {
            let of_line = self.records.iter().filter(|record| record.mode == mode && record.run == run);
            let records: Vec<&Record> = of_line.collect();
            let passes = Passes::of(&records, if run == "warmup" { warmup } else { queries });
            say!(
                "{mode:<34}{run:<8}{:>7}{:>8}{:>10.3}{:>10.3}{:>14}{:>12}",
                passes.count,
                passes.queries,
                passes.seconds_median,
                passes.seconds_min,
                or_dash(passes.bytes.map(format_size)),
                or_dash(passes.dollars.map(|dollars| format!("{dollars:.6}")))
            );
        }
        self.print_model_errors();
    }

    /// Prints how well the model of mode `auto` expected the time of its scans, query by query.
    fn print_model_errors(&self) {
        for (run, what) in [("warmup", "first"), ("timed", "later")] {
            let of_run = self.records.iter().filter(|record| record.run == run);
            let scans = of_run.filter_map(|record| record.counts.as_ref()).filter(|counts| counts.expected_us > 0);
            let scans: Vec<(f64, f64)> =
                scans.map(|counts| (counts.taken_us.max(1) as f64, counts.expected_us as f64)).collect();
            let Some(Errors { mean, median, p80, p90 }) = Errors::of(&scans) else { continue };
            say!(
                "auto expects the time of scans, {what} passes, {} queries: error of {mean:.0} % on average, {median:.0} % \
                 median, {p80:.0} % at the 80th and {p90:.0} % at the 90th percentile",
                scans.len()
            );
        }
    }
}
