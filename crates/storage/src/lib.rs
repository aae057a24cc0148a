//! The storage node: objects, and fragments of queries run beside them.
//!
//! `thermocline storage ROOT` puts a [`StorageNode`] behind Arrow Flight ([`serve`]); a compute node that
//! reads local files holds the same node in-process, and one that reads a bucket asks it for bytes alone.
//!
//! | a [`Storage`] | is | runs fragments |
//! |---|---|---|
//! | [`RemoteNode`] | a node at an address | yes |
//! | [`EmbeddedNode`] | a node in this process | yes |
//! | [`Bucket`] | an object store | no |
//! | any other | opened by a [`Scheme`] of one's own | as its [`Capabilities`] say |
//!
//! All are spoken to through [`NodeClient`], in the same messages, so that what is tested embedded
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
//! | index objects | [`NodeConfig::index_directory`] | dropped, or replaced by the index of the object's next version; those of an older version are not used |
//! | a fragment's state | memory under [`NodeConfig::memory_limit`] | its stream ends or is dropped, or its connection answers no pings ([`NodeConfig::keepalive`]) |
//! | speeds and selectivities of fragments | memory, per shape | a minute for speeds; others push them out |
//!
//! Left out: tables (`thermocline-catalog`), caches (`thermocline-cache`), and the choice of a partition's route
//! (`thermocline-compute`).

mod blocking;
mod budget;
mod capabilities;
mod client;
mod clients;
mod content;
mod egress;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod listing;
mod machine;
mod messages;
mod node;
mod peer;
mod recent;
mod root;
mod scheme;
mod service;
mod source;
mod storage;
mod storages;
mod walk;

pub use capabilities::{Capabilities, StoredFormat};
pub use client::{ClientCounters, ClientOptions, NodeClient, wire_bytes};
pub use content::{Content, ContentKind};
pub use egress::{Egress, EgressStream};
pub use index::is_indexable;
pub use machine::Machine;
pub use messages::answer_messages;
pub use node::{Arbitration, ClientLimits, NodeConfig, NodeCounters, PushbackPolicy, Resources, StorageNode};
pub use root::{Root, open_bucket};
pub use scheme::{Place, Scheme};
pub use service::{Server, serve};
pub use storage::{Descriptions, Messages, Storage};
pub use storages::{Bucket, EmbeddedNode, RemoteNode, RemoteOptions};
