//! Locations of tables, and the storage nodes that they lead to.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use parking_lot::Mutex;
use thermocline_formats::FooterCache;
use thermocline_pushdown::user_error;
use thermocline_storage::{NodeClient, NodeConfig, RemoteOptions, Resources, Root, StorageNode};

/// Where a table's objects are: a prefix at one or several storage nodes, each of which holds some.
#[derive(Debug, Clone)]
pub struct Location {
    /// The nodes, at least one.
    pub nodes: Vec<NodeClient>,
    /// Path below each node's ROOT.
    pub prefix: String,
    /// Whether fragments may run there: not at a bucket, which only an embedded node fronts.
    pub pushes: bool,
}

/// The storage nodes that this process knows, one client each.
#[derive(Debug)]
pub struct Nodes {
    known: Mutex<HashMap<String, NodeClient>>,
    embedded: NodeConfig,
    footers: Arc<FooterCache>,
    /// Memory and slots of all embedded nodes together; made for the first.
    resources: OnceLock<Resources>,
}

impl Nodes {
    /// None yet; embedded ones will be limited by `embedded`. All of them together keep decoded footers
    /// of `footers_bytes_max` bytes.
    pub fn new(embedded: NodeConfig, footers_bytes_max: usize) -> Arc<Self> {
        let footers = FooterCache::new(footers_bytes_max, None);
        let embedded = NodeConfig { message_bytes: usize::MAX, footers: Some(Arc::clone(&footers)), ..embedded };
        Arc::new(Self { known: Mutex::default(), embedded, footers, resources: OnceLock::new() })
    }

    /// Decoded footers of all nodes' objects.
    pub fn footers(&self) -> &Arc<FooterCache> {
        &self.footers
    }

    /// Bytes that embedded nodes account for, those of footers included.
    pub fn embedded_bytes(&self) -> usize {
        self.resources.get().map_or(0, Resources::memory_used)
    }

    /// All nodes used so far, by label.
    pub fn all(&self) -> Vec<NodeClient> {
        let mut nodes: Vec<_> = self.known.lock().values().cloned().collect();
        nodes.sort_by(|a, b| a.label().cmp(b.label()));
        nodes
    }

    /// Understands a location: a path, `thermocline://host:port[,host:port]/prefix`, or `s3://bucket/prefix`.
    ///
    /// # Errors
    /// If it is none of these, or a local path that is not there.
    pub fn resolve(&self, text: &str, options: &RemoteOptions) -> Result<Location> {
        if let Some(rest) = text.strip_prefix("thermocline://") {
            let (addresses, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let nodes =
                addresses.split(',').map(|address| self.remote(address.trim(), options)).collect::<Result<Vec<_>>>()?;
            return Ok(Location { nodes, prefix: prefix.trim_end_matches('/').to_owned(), pushes: true });
        }
        if let Some((scheme, _)) = text.split_once("://")
            && scheme != "file"
        {
            return Ok(Location { nodes: vec![self.embedded(text)?], prefix: String::new(), pushes: false });
        }
        let path = Path::new(text.strip_prefix("file://").unwrap_or(text));
        let real = path.canonicalize().map_err(|error| user_error!(UndefinedFile, "location '{text}': {error}"))?;
        let (root, prefix) = if real.is_dir() {
            (real.as_path(), String::new())
        } else {
            let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
            (real.parent().unwrap_or(Path::new("/")), name.unwrap_or_default())
        };
        Ok(Location { nodes: vec![self.embedded(&root.to_string_lossy())?], prefix, pushes: true })
    }

    fn remote(&self, address: &str, options: &RemoteOptions) -> Result<NodeClient> {
        let mut known = self.known.lock();
        // The wait is part of the connection, so nodes with another timeout are other clients.
        let key = format!("{address} {:?}", options.request_timeout);
        if let Some(node) = known.get(&key) {
            return Ok(node.clone());
        }
        let node =
            NodeClient::remote(address, RemoteOptions { footers: Some(Arc::clone(&self.footers)), ..options.clone() })
                .map_err(DataFusionError::from)?;
        known.insert(key, node.clone());
        Ok(node)
    }

    fn embedded(&self, root: &str) -> Result<NodeClient> {
        let mut known = self.known.lock();
        if let Some(node) = known.get(root) {
            return Ok(node.clone());
        }
        let resources = match self.resources.get() {
            Some(resources) => resources,
            // Nobody else makes them: `known` is locked.
            None => {
                let made = Resources::new(&self.embedded)?;
                self.resources.get_or_init(|| made)
            }
        };
        let node = StorageNode::sharing(Root::open(root)?, self.embedded.clone(), resources)?;
        let node = NodeClient::embedded(node);
        known.insert(root.to_owned(), node.clone());
        Ok(node)
    }
}
