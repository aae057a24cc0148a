//! Storages of this crate: a node at the other end of a network, one in this process, and a bucket.

mod bucket;
mod connections;
mod cores;
mod embedded;
mod remote;

pub use bucket::Bucket;
pub use embedded::EmbeddedNode;
pub use remote::{RemoteNode, RemoteOptions};
