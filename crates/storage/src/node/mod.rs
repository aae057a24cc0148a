//! The storage node: what it holds, and one file per kind of request.

mod answer;
mod describe;
mod execute;
mod storage_node;

pub use storage_node::{NodeConfig, NodeCounters, StorageNode};
