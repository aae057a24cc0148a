//! Snapshots: all rows as they were at one place in the log, copied while transactions go on.
//!
//! ```text
//!  barrier: every partition stands at sequence S
//!     |
//!     v      step, step, ...                chunks
//!  Copier --------------------> row images --------> SnapshotWriter --> one file per partition
//!     ^                              ^                      |
//!     | changed(before)              |                      v   all rows copied, log durable up to S
//!  transactions after S -------------+                 manifest: now the snapshot exists
//! ```
//!
//! Rows that are in blocks are not copied: the snapshot refers to the files of blocks, which stay for as long as it does.
//!
//! Files of the snapshot at S: `snapshot-S.sql`, `snapshot-S-P.rows` for each partition P, and, written last,
//! `snapshot-S.manifest` with the checksums of the others. Files without a manifest are remains of an unfinished
//! snapshot.
//!
//! [`Taking`] drives them, in the engine's threads and in the simulator alike.
//!
//! Left out: when to take one (`thermocline_transactions::database`), and recovery from it ([`crate::recovery`]).

mod copier;
mod manifest;
mod redistribution;
mod rows;
mod taking;
mod writer;

pub use copier::{Copier, Step};
pub use manifest::{Manifest, PartitionRows, SnapshotFile, list_snapshots, read_definitions};
pub use redistribution::write_redistributed;
pub use rows::{CHUNK_BYTES, Chunk, Kind, RowFileReader, RowsHeader};
pub use taking::{Barrier, Taking};
pub use writer::{SnapshotWriter, remove_snapshots, remove_unfinished};

#[cfg(test)]
pub(crate) mod tests;
