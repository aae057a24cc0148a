//! The storage node: what it holds, and one file per kind of request.

mod answer;
mod arbitrator;
mod bitmap;
mod contents;
mod describe;
mod duty_cycle;
mod execute;
mod index;
mod indexed;
mod reader_wait;
mod storage_node;

pub use arbitrator::Arbitration;
pub(crate) use storage_node::HEARTBEAT;
pub use storage_node::{NodeConfig, NodeCounters, PushbackPolicy, StorageNode};
