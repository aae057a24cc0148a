//! The future of each segment, for Belady's policy.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};

use super::Trace;

/// Times at which a trace uses each key.
///
/// Keys are compared by a hash of their text, so that a key that can print itself is found without making its text. Two
/// of a million keys have the same hash once in 10^7 traces, and then only their order of eviction suffers.
#[derive(Debug, Default)]
pub struct NextUses {
    uses: HashMap<u64, Vec<u64>>,
}

impl NextUses {
    /// The uses in `trace`.
    pub fn of(trace: &Trace) -> Self {
        let mut uses: HashMap<u64, Vec<u64>> = HashMap::new();
        let hashes: Vec<u64> = trace.segments.iter().map(|segment| hash_of(&segment.key)).collect();
        for (time, lookup) in trace.lookups.iter().enumerate() {
            for need in lookup.partitions.iter().flat_map(|partition| &partition.segments) {
                if let Some(hash) = hashes.get(need.id.position()) {
                    uses.entry(*hash).or_default().push(time as u64);
                }
            }
        }
        Self { uses }
    }

    /// Number of the first lookup from number `from` on that uses `key`; `None` if the trace does not know it, or ends
    /// before.
    pub fn next(&self, key: &impl fmt::Display, from: u64) -> Option<u64> {
        let uses = self.uses.get(&hash_of(key))?;
        uses.get(uses.partition_point(|time| *time < from)).copied()
    }
}

/// Hash of the text that `key` prints, in whatever pieces.
fn hash_of(key: &impl fmt::Display) -> u64 {
    struct Pieces(DefaultHasher);
    impl Write for Pieces {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.0.write(piece.as_bytes());
            Ok(())
        }
    }
    let mut pieces = Pieces(DefaultHasher::new());
    // Writing to a hasher does not fail, and a key that fails to print has the hash of what it printed.
    let _ = write!(pieces, "{key}");
    pieces.0.finish()
}
