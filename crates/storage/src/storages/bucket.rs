//! A plain bucket.

use std::sync::Arc;

use async_trait::async_trait;
use prost::Message;
use thermocline_formats::Footers;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{DescribeRequest, ListResponse, NodeStatus, RangesRequest, Ticket, TicketKind};

use crate::{Capabilities, Descriptions, Messages, Storage, StorageNode};

/// An object store that nothing runs beside: it gives bytes, and this process does the rest.
///
/// What reads it is a [`StorageNode`] over its URL, for its limits on memory and on requests in flight, its versions and
/// its descriptions of objects. A fragment would run here all the same, a copy away from the plan above it, so none is
/// asked for.
#[derive(Debug)]
pub struct Bucket {
    node: Arc<StorageNode>,
    capabilities: Capabilities,
}

impl Bucket {
    /// The bucket that `node` reads.
    pub fn new(node: Arc<StorageNode>) -> Self {
        // The object store's client repeats requests.
        let capabilities = Capabilities { crosses_link: true, retries: true, ..Capabilities::none() };
        Self { node, capabilities }
    }
}

#[async_trait]
impl Storage for Bucket {
    fn label(&self) -> &str {
        self.node.label()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn footers(&self) -> Option<&Footers> {
        Some(self.node.footers())
    }

    async fn list(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        self.node.list(prefix).await
    }

    async fn list_levels(&self, prefix: &str, levels: usize) -> Result<ListResponse, NodeError> {
        self.node.list_levels(prefix, levels).await
    }

    async fn describe(&self, request: DescribeRequest) -> Result<Descriptions, NodeError> {
        self.node.describe(request)
    }

    async fn ranges(&self, request: &RangesRequest) -> Result<Messages, NodeError> {
        self.node.get(&Ticket { kind: Some(TicketKind::Ranges(request.clone())) }.encode_to_vec()).await
    }

    async fn status(&self) -> Result<Option<NodeStatus>, NodeError> {
        Ok(Some(self.node.status()))
    }
}
