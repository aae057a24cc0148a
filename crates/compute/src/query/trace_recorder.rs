//! Recording of lookups in the segment cache, into a file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use thermocline_pushdown::QueryId;
use thermocline_replay::trace::{Header, RecordedPartition, TraceWriter};

/// A trace that is being recorded.
#[derive(Debug)]
pub(crate) struct TraceRecorder {
    writer: TraceWriter<BufWriter<File>>,
    /// Numbers of the queries so far.
    queries: HashMap<QueryId, u64>,
    /// The first error of the file.
    failed: Option<io::Error>,
}

impl TraceRecorder {
    /// A trace in a new file.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let writer = TraceWriter::new(BufWriter::new(File::create(path)?), header)?;
        Ok(Self { writer, queries: HashMap::new(), failed: None })
    }

    /// Adds a lookup of a query. After an error, none is added.
    pub(crate) fn lookup(&mut self, query: &QueryId, partitions: &[RecordedPartition<String>]) {
        if self.failed.is_some() {
            return;
        }
        let next = self.queries.len() as u64;
        let number = *self.queries.entry(query.clone()).or_insert(next);
        self.failed = self.writer.lookup(number, query.as_str(), partitions).err();
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error of the file.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish()?.flush(),
        }
    }
}
