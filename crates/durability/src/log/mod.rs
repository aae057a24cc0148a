//! The command log: the commands of all transactions, in one order for the whole node.
//!
//! ```text
//!  partition 0 --batch--+
//!                       +--> Collector --group--> Writer --> segment, segment, ...
//!  partition 1 --batch--+        |                   |
//!        ^                       |     done(synced)  |
//!        +------ released -------+<------------------+
//! ```
//!
//! Data: [`Batch`] holds the records of one partition until it hands them over; [`Collector`] the records that wait for
//! the next group, and what is durable; [`Writer`] the open segment; [`Control`] the least extent of the log. The first
//! two are in memory only. Neither reads a clock or starts a thread, nor does the [`Keeper`] that takes groups from one
//! to the other; [`LogThread`] drives it, and a simulator in its place.
//!
//! Left out: what records mean (`partition`, `engine`), and how they are replayed after a crash
//! ([`crate::recovery`]).

mod appended;
mod bytes;
mod collector;
mod control;
mod handle;
mod keeper;
mod reader;
mod record;
mod segment;
mod segments;
mod thread;
mod writer;

pub use appended::Appended;
pub use bytes::{Bytes, Values, put_at, put_counted, put_value};
pub use collector::{Collector, Due, LogSettings, PendingGroup};
pub use control::{CONTROL, Control, LogExtent};
pub use handle::LogHandle;
pub use keeper::start as start_log;
pub use keeper::{Keeper, OnReleased};
pub use reader::{Next, Opened, SegmentReader, list_segments};
pub use record::PART_BYTES;
pub use record::{
    Batch, Body, Effect, Effects, HEADER_BYTES, Head, Images, LoadOutcome, Partitions, RECORD_BYTES_MAX, Record,
    TRANSACTION_BYTES_MAX,
};
pub use segment::{
    FORMAT_VERSION, GROUP_HEADER_BYTES, Group, NotAHeader, SEGMENT_HEADER_BYTES, SegmentHeader, SegmentNumber,
    end_of_segment,
};
pub use segments::{Removal, Segments};
pub use thread::LogThread;
pub use writer::{LogEnd, Writer};

#[cfg(test)]
mod tests;
