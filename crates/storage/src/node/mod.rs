//! The storage node: its limits, its memory, and one file per kind of request.

mod answer;
mod arbitrator;
mod bitmap;
mod checked;
mod config;
mod contents;
mod describe;
mod duty_cycle;
mod execute;
mod index;
mod indexed;
mod raw;
mod reader;
mod resources;
mod storage_node;
mod turns;
mod workers;

pub use arbitrator::Arbitration;
pub(crate) use checked::checked_ticket;
pub use config::{ClientLimits, NodeConfig, PushbackPolicy};
pub use resources::Resources;
pub(crate) use storage_node::HEARTBEAT;
pub use storage_node::{NodeCounters, StorageNode};
