//! What a replay measured.

/// Totals of one lookup.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LookupReport {
    /// Number of its query.
    pub query: u64,
    /// Modelled seconds.
    pub seconds: f64,
    /// Bytes moved by loads and by routes without the cache.
    pub bytes_moved: u64,
    /// Segments needed.
    pub segments: u64,
    /// Of them, cached before.
    pub hits: u64,
    /// Partitions read.
    pub partitions: u64,
    /// Of them, processed with nothing missing and nothing loaded.
    pub partitions_local: u64,
    /// Of them, processed here after loads.
    pub partitions_loaded: u64,
}

impl LookupReport {
    /// Part of the needed segments that was cached; 1 if none was needed.
    pub fn hit_ratio(&self) -> f64 {
        if self.segments == 0 { 1.0 } else { self.hits as f64 / self.segments as f64 }
    }
}

/// Totals of a replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Name of the algorithm.
    pub algorithm: String,
    /// By lookup.
    pub lookups: Vec<LookupReport>,
    /// Segments evicted.
    pub evictions: u64,
}

impl Report {
    /// Modelled seconds of all lookups.
    pub fn seconds(&self) -> f64 {
        self.lookups.iter().map(|lookup| lookup.seconds).sum()
    }

    /// Bytes moved by all lookups.
    pub fn bytes_moved(&self) -> u64 {
        self.lookups.iter().map(|lookup| lookup.bytes_moved).sum()
    }

    /// Part of all needed segments that was cached.
    pub fn hit_ratio(&self) -> f64 {
        let segments = self.lookups.iter().map(|lookup| lookup.segments).sum();
        let hits = self.lookups.iter().map(|lookup| lookup.hits).sum();
        LookupReport { segments, hits, ..LookupReport::default() }.hit_ratio()
    }
}
