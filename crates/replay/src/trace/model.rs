//! A trace in memory.

use serde::{Deserialize, Serialize};

use super::TraceError;

/// Version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// First line of a trace: what was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Name of the workload.
    pub workload: String,
    /// Its scale factor.
    pub scale: f64,
    /// Format of the objects, `parquet` or `csv`.
    pub format: String,
    /// Limit of the storage node's egress; `None` without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bytes_per_s: Option<u64>,
}

impl Header {
    /// That of a workload of a scale, over objects of a format.
    pub fn new(workload: &str, scale: f64, format: &str, egress_bytes_per_s: Option<u64>) -> Self {
        let (workload, format) = (workload.to_owned(), format.to_owned());
        Self { version: VERSION, workload, scale, format, egress_bytes_per_s }
    }
}

/// Number of a segment in a trace: its position in [`Trace::segments`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(pub(crate) u32);

impl SegmentId {
    pub(crate) fn position(self) -> usize {
        self.0 as usize
    }
}

/// A segment of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its key as text.
    pub key: String,
    /// Bytes in memory.
    pub bytes: u64,
    /// Bytes in storage, which a load moves.
    pub stored_bytes: u64,
}

/// One scan's lookup of all segments that it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Number of its query in the workload.
    pub query: u64,
    /// Name of its query.
    pub name: String,
    /// Partitions that the scan reads.
    pub partitions: Vec<Partition>,
}

/// One partition in one lookup.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Modelled seconds with all of its segments cached.
    pub local_seconds: f64,
    /// Modelled seconds of its best route that neither uses nor fills the cache.
    pub other_seconds: f64,
    /// Bytes that this route moves.
    pub other_bytes: u64,
    /// Modelled seconds that the load of a segment takes beside [`Need::load_seconds`].
    pub load_seconds_per_segment: f64,
    /// Segments that the scan needs, each once.
    pub segments: Vec<Need>,
}

impl Partition {
    /// Modelled seconds saved if all segments are cached; negative if the cache is the slower route.
    pub fn gain(&self) -> f64 {
        self.other_seconds - self.local_seconds
    }

    /// Modelled seconds of a load of one of its segments.
    pub fn load_seconds(&self, need: &Need) -> f64 {
        self.load_seconds_per_segment + need.load_seconds
    }
}

/// A segment that a partition needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// The segment.
    pub id: SegmentId,
    /// Modelled seconds of its transfer and decoding.
    pub load_seconds: f64,
    /// Those of them that decoding takes.
    pub decode_seconds: f64,
    /// Modelled work of its miss in seconds.
    pub miss_seconds: f64,
}

impl Need {
    /// Share of a load that its stored bytes save: the transfer.
    pub fn stored_share(&self) -> f64 {
        if self.load_seconds > 0.0 { (1.0 - self.decode_seconds / self.load_seconds).max(0.0) } else { 0.0 }
    }
}

/// All lookups of a workload, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What was recorded.
    pub header: Header,
    /// By [`SegmentId`].
    pub segments: Vec<Segment>,
    /// By time: the clock of a trace counts lookups, from 0.
    pub lookups: Vec<Lookup>,
}

impl Trace {
    /// Bytes in memory of all segments: the cache size that never evicts.
    pub fn working_set_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Checks that the trace is one of this workload.
    ///
    /// # Errors
    /// [`TraceError::Differs`] if it was recorded with another workload, scale or format.
    pub fn check(&self, workload: &str, scale: f64, format: &str) -> Result<(), TraceError> {
        let Header { workload: found_workload, scale: found_scale, format: found_format, .. } = &self.header;
        for (what, found, asked) in [
            ("workload", found_workload.clone(), workload.to_owned()),
            ("scale", found_scale.to_string(), scale.to_string()),
            ("format", found_format.clone(), format.to_owned()),
        ] {
            if found != asked {
                return Err(TraceError::Differs { what, found, asked });
            }
        }
        Ok(())
    }
}
