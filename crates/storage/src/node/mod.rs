//! The storage node: its limits, its memory, and one file per kind of request.

mod answer;
mod arbitrator;
mod bitmap;
mod budget;
mod checked;
mod config;
mod contents;
mod describe;
mod duty_cycle;
mod execute;
mod index;
mod indexed;
mod peer;
mod raw;
mod reader;
mod resources;
mod storage_node;
mod turns;

pub use arbitrator::Arbitration;
pub(crate) use budget::{Account, Budget};
pub(crate) use checked::checked_ticket;
pub use config::{ClientLimits, NodeConfig, PushbackPolicy};
pub(crate) use peer::Peer;
pub use resources::Resources;
pub(crate) use storage_node::HEARTBEAT;
pub use storage_node::{NodeCounters, StorageNode};
