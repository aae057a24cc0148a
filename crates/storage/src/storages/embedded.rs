//! A storage node in this process.

use std::sync::Arc;

use async_trait::async_trait;
use prost::Message;
use thermocline_formats::Footers;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{
    BitmapRequest, DescribeRequest, DropIndexRequest, DropIndexResponse, FragmentRequest, IndexRequest,
    IndexStatusRequest, IndexStatusResponse, ListResponse, NodeStatus, RangesRequest, Ticket, TicketKind,
};

use crate::{Capabilities, ContentKind, Descriptions, Messages, Storage, StorageNode};

/// A storage node in this process. Requests for data are encoded as for a remote one, so that both take one way through
/// the node and its checks.
#[derive(Debug)]
pub struct EmbeddedNode {
    node: Arc<StorageNode>,
    capabilities: Capabilities,
}

impl EmbeddedNode {
    /// `node` as a storage. One whose egress is limited is behind a link, as far as anybody can tell.
    pub fn new(node: Arc<StorageNode>) -> Self {
        let crosses_link = node.is_egress_limited();
        let capabilities = Capabilities { crosses_link, shares_cores: true, retries: true, ..Capabilities::all() };
        Self { node, capabilities }
    }

    async fn get(&self, kind: TicketKind) -> Result<Messages, NodeError> {
        self.node.get(&Ticket { kind: Some(kind) }.encode_to_vec()).await
    }
}

#[async_trait]
impl Storage for EmbeddedNode {
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
        self.get(TicketKind::Ranges(request.clone())).await
    }

    async fn execute(&self, request: &FragmentRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Fragment(request.clone())).await
    }

    async fn select(&self, request: &BitmapRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Bitmap(request.clone())).await
    }

    async fn put(&self, kind: ContentKind, bytes: &[u8]) -> Result<(), NodeError> {
        self.node.put(kind, bytes)
    }

    async fn create_index(&self, request: &IndexRequest) -> Result<Messages, NodeError> {
        self.get(TicketKind::Index(request.clone())).await
    }

    async fn index_status(&self, request: &IndexStatusRequest) -> Result<IndexStatusResponse, NodeError> {
        self.node.index_status(request.clone()).await
    }

    async fn drop_index(&self, request: &DropIndexRequest) -> Result<DropIndexResponse, NodeError> {
        self.node.drop_index(request.clone()).await
    }

    async fn status(&self) -> Result<Option<NodeStatus>, NodeError> {
        Ok(Some(self.node.status()))
    }
}
