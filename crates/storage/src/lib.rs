//! The storage node: objects, and fragments of queries run beside them.
//!
//! One implementation serves two uses. `thermocline storage ROOT` puts a [`StorageNode`] behind
//! Arrow Flight ([`serve`]); a compute node that reads local files holds the same node in-process.
//! Both are spoken to through [`NodeClient`], in the same messages, so that what is tested embedded
//! holds over a socket.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use thermocline_storage::{NodeClient, NodeConfig, Root, StorageNode};
//!
//! let node = StorageNode::new(Root::open("/data/warehouse")?, NodeConfig::default())?;
//! let client = NodeClient::embedded(node);
//! for object in client.list("lineorder").await? {
//!     println!("{} {} bytes", object.path, object.size);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | data | where it lives | until |
//! |---|---|---|
//! | objects | ROOT, never written but for `.thermocline` | |
//! | decoded footers | memory, least recently used out ([`NodeConfig::footers_bytes_max`]) | others push them out |
//! | decoded fragments and schemas | memory, least recently used out ([`NodeConfig::contents_bytes_max`]) | others push them out |
//! | CSV split points | memory, least recently used out ([`NodeConfig::descriptions_bytes_max`]) | others push them out |
//! | requests, answers on their way | memory ([`NodeConfig::budget_bytes`]) | the answer ends |
//! | index objects | [`NodeConfig::index_directory`] | dropped; of another version, they are not used |
//! | a fragment's state | memory under [`NodeConfig::memory_limit`] | its stream ends or is dropped, or its connection answers no pings ([`NodeConfig::keepalive`]) |
//! | speeds and selectivities of fragments | memory, per shape | a minute for speeds; others push them out |
//!
//! Deliberately left out: tables, caches and which route a partition takes (`thermocline-compute`).

mod blocking;
mod client;
mod clients;
mod connections;
mod content;
mod describing;
mod egress;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod listing;
mod node;
mod recent;
mod root;
mod service;
mod source;
mod walk;

pub use client::{ClientCounters, NodeClient, RemoteOptions, wire_bytes};
pub use content::{Content, ContentKind};
pub use egress::{Egress, EgressStream};
pub use index::is_indexable;
pub use node::{Arbitration, ClientLimits, NodeConfig, NodeCounters, PushbackPolicy, Resources, StorageNode};
pub use root::{Root, open_bucket};
pub use service::{Server, serve};
