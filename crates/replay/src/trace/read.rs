//! Reads a trace.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::line::{DefinitionLine, LookupLine, PartitionLine, VersionLine};
use super::model::{Lookup, Need, Partition, Segment, SegmentId};
use super::{Header, Trace, TraceError, VERSION};

/// Bytes of the longest line that is read: a lookup of a million segments.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// Longest time of a partition in seconds. Sums over a trace stay finite.
const SECONDS_MAX: f64 = 1e9;

impl Trace {
    /// Reads the trace in a file.
    ///
    /// # Errors
    /// As [`Trace::read`]; if it is a pipe or a device, which may never end; and if there is no lookup.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file").into());
        }
        let trace = Self::read(BufReader::new(File::open(path)?))?;
        if trace.lookups.is_empty() {
            return Err(TraceError::Empty);
        }
        Ok(trace)
    }

    /// Reads a trace to its end.
    ///
    /// # Errors
    /// [`TraceError`] names what is wrong, and with which line.
    pub fn read(mut file: impl BufRead) -> Result<Self, TraceError> {
        let first = line(&mut file, 1)?.unwrap_or_default();
        let VersionLine { version } = parse(1, &first)?;
        if version != u64::from(VERSION) {
            return Err(TraceError::Version { found: version, expected: VERSION });
        }
        let header: Header = parse(1, &first)?;
        let mut reader = Reader::default();
        let mut lookups = vec![];
        reader.line = 2;
        while let Some(text) = line(&mut file, reader.line)? {
            lookups.push(reader.lookup(&text)?);
            reader.line += 1;
        }
        Ok(Self { header, segments: reader.segments, lookups })
    }
}

/// The next line, which has this number; `None` at the end.
fn line(file: &mut impl BufRead, number: usize) -> Result<Option<String>, TraceError> {
    let damaged = |reason: String| TraceError::Damaged { line: number, reason };
    let mut bytes = vec![];
    if io::Read::take(&mut *file, LINE_BYTES_MAX).read_until(b'\n', &mut bytes)? == 0 {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == LINE_BYTES_MAX {
        return Err(damaged(format!("it has more than {LINE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| damaged("it is not text".to_owned()))
}

fn parse<'a, T: serde::Deserialize<'a>>(line: usize, text: &'a str) -> Result<T, TraceError> {
    serde_json::from_str(text).map_err(|error| TraceError::Damaged { line, reason: error.to_string() })
}

/// Segments defined so far.
#[derive(Default)]
struct Reader {
    line: usize,
    segments: Vec<Segment>,
    ids: HashMap<u32, SegmentId>,
    keys: HashSet<String>,
}

impl Reader {
    fn damaged<T>(&self, reason: String) -> Result<T, TraceError> {
        Err(TraceError::Damaged { line: self.line, reason })
    }

    fn lookup(&mut self, text: &str) -> Result<Lookup, TraceError> {
        let line: LookupLine<'_> = parse(self.line, text)?;
        line.defines.into_iter().try_for_each(|definition| self.define(definition))?;
        let partitions = line.partitions.into_iter().map(|partition| self.partition(partition));
        Ok(Lookup {
            query: line.query,
            name: line.name.into_owned(),
            partitions: partitions.collect::<Result<_, _>>()?,
        })
    }

    fn define(&mut self, definition: DefinitionLine<'_>) -> Result<(), TraceError> {
        let DefinitionLine { id, key, bytes, stored_bytes } = definition;
        let number = SegmentId(self.segments.len() as u32);
        if self.ids.insert(id, number).is_some() {
            return self.damaged(format!("segment {id} is defined again"));
        }
        if !self.keys.insert(key.clone().into_owned()) {
            return self.damaged(format!("key {key} has two ids"));
        }
        self.segments.push(Segment { key: key.into_owned(), bytes, stored_bytes });
        Ok(())
    }

    fn partition(&self, line: PartitionLine) -> Result<Partition, TraceError> {
        let mut numbers = vec![line.local, line.other, line.load_per_segment];
        let mut segments: Vec<Need> = Vec::with_capacity(line.segments.len());
        for need in line.segments {
            let Some(id) = self.ids.get(&need.id).copied() else {
                return Err(TraceError::Undefined { line: self.line, id: need.id });
            };
            if segments.iter().any(|other| other.id == id) {
                return self.damaged(format!("a partition needs segment {} twice", need.id));
            }
            numbers.extend([need.load, need.decode, need.miss]);
            segments.push(Need { id, load_seconds: need.load, decode_seconds: need.decode, miss_seconds: need.miss });
        }
        if let Some(wrong) = numbers.into_iter().find(|seconds| !(0.0..=SECONDS_MAX).contains(seconds)) {
            return self.damaged(format!("{wrong} is no time in seconds between 0 and {SECONDS_MAX}"));
        }
        Ok(Partition {
            local_seconds: line.local,
            other_seconds: line.other,
            other_bytes: line.other_bytes,
            load_seconds_per_segment: line.load_per_segment,
            segments,
        })
    }
}
