//! Writes a trace while a workload runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use super::line::{DefinitionLine, LookupLine, NeedLine, PartitionLine};
use super::{Header, Trace};

/// A partition of a lookup to be recorded; fields as in [`Partition`](super::Partition).
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedPartition<K> {
    /// Modelled seconds with all of its segments cached.
    pub local_seconds: f64,
    /// Modelled seconds of its best route that neither uses nor fills the cache.
    pub other_seconds: f64,
    /// Bytes that this route moves.
    pub other_bytes: u64,
    /// Modelled seconds that the load of a segment takes beside its own.
    pub load_seconds_per_segment: f64,
    /// Segments that the scan needs, each once.
    pub segments: Vec<RecordedSegment<K>>,
}

/// A segment of a lookup to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedSegment<K> {
    /// Its key as text.
    pub key: K,
    /// Bytes in memory; those of the first occurrence are written.
    pub bytes: u64,
    /// Bytes in storage; those of the first occurrence are written.
    pub stored_bytes: u64,
    /// Modelled seconds of its transfer and decoding.
    pub load_seconds: f64,
    /// Those of them that decoding takes.
    pub decode_seconds: f64,
    /// Modelled work of its miss in seconds.
    pub miss_seconds: f64,
}

/// Writer of a trace. Each line goes to `file` whole, in one call.
#[derive(Debug)]
pub struct TraceWriter<W> {
    file: W,
    ids: HashMap<String, u32>,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace with its header.
    ///
    /// # Errors
    /// Those of `file`.
    pub fn new(file: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { file, ids: HashMap::new() };
        writer.line(header)?;
        Ok(writer)
    }

    /// Adds the next lookup.
    ///
    /// # Errors
    /// Those of `file`.
    pub fn lookup<K: AsRef<str>>(
        &mut self,
        query: u64,
        name: &str,
        partitions: &[RecordedPartition<K>],
    ) -> io::Result<()> {
        let mut defines = vec![];
        let mut lines = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let mut segments = Vec::with_capacity(partition.segments.len());
            for segment in &partition.segments {
                let key = segment.key.as_ref();
                let id = self.ids.get(key).copied().unwrap_or_else(|| {
                    let id = self.ids.len() as u32;
                    self.ids.insert(key.to_owned(), id);
                    let RecordedSegment { bytes, stored_bytes, .. } = *segment;
                    defines.push(DefinitionLine { id, key: Cow::Borrowed(key), bytes, stored_bytes });
                    id
                });
                let RecordedSegment { load_seconds, decode_seconds, miss_seconds, .. } = segment;
                segments.push(NeedLine { id, load: *load_seconds, decode: *decode_seconds, miss: *miss_seconds });
            }
            lines.push(PartitionLine {
                local: partition.local_seconds,
                other: partition.other_seconds,
                other_bytes: partition.other_bytes,
                load_per_segment: partition.load_seconds_per_segment,
                segments,
            });
        }
        self.line(&LookupLine { query, name: Cow::Borrowed(name), defines, partitions: lines })
    }

    /// Hands out the file, with everything written to it.
    ///
    /// # Errors
    /// Those of `file`.
    pub fn finish(mut self) -> io::Result<W> {
        self.file.flush()?;
        Ok(self.file)
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }
}

impl Trace {
    /// Writes the whole trace.
    ///
    /// # Errors
    /// Those of `file`.
    pub fn write(&self, file: impl Write) -> io::Result<()> {
        let mut writer = TraceWriter::new(file, &self.header)?;
        for lookup in &self.lookups {
            let partitions: Vec<RecordedPartition<&str>> = lookup
                .partitions
                .iter()
                .map(|partition| RecordedPartition {
                    local_seconds: partition.local_seconds,
                    other_seconds: partition.other_seconds,
                    other_bytes: partition.other_bytes,
                    load_seconds_per_segment: partition.load_seconds_per_segment,
                    segments: partition
                        .segments
                        .iter()
                        .filter_map(|need| {
                            let segment = self.segments.get(need.id.position())?;
                            Some(RecordedSegment {
                                key: segment.key.as_str(),
                                bytes: segment.bytes,
                                stored_bytes: segment.stored_bytes,
                                load_seconds: need.load_seconds,
                                decode_seconds: need.decode_seconds,
                                miss_seconds: need.miss_seconds,
                            })
                        })
                        .collect(),
                })
                .collect();
            writer.lookup(lookup.query, &lookup.name, &partitions)?;
        }
        writer.finish().map(drop)
    }
}
