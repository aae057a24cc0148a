//! Schemes of locations that every database has.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_storage::{
    Bucket, EmbeddedNode, NodeConfig, Place, RemoteNode, RemoteOptions, Resources, Root, Scheme, Storage, StorageNode,
};

/// Nodes in this process, which share memory and slots.
#[derive(Debug)]
pub(super) struct EmbeddedNodes {
    config: NodeConfig,
    /// Made for the first.
    resources: OnceLock<Resources>,
}

impl EmbeddedNodes {
    /// None yet; they will be limited by `config`.
    pub(super) fn new(config: NodeConfig) -> Arc<Self> {
        Arc::new(Self { config, resources: OnceLock::new() })
    }

    /// Bytes that they account for.
    pub(super) fn bytes(&self) -> usize {
        self.resources.get().map_or(0, Resources::memory_used)
    }

    fn open(&self, root: &str) -> Result<Arc<StorageNode>, NodeError> {
        let resources = match self.resources.get() {
            Some(resources) => resources,
            None => {
                // Of two that are made at once, one is dropped unused.
                let made = Resources::new(&self.config)?;
                self.resources.get_or_init(|| made)
            }
        };
        StorageNode::sharing(Root::open(root)?, self.config.clone(), resources)
    }
}

/// `file:///directory`, and paths: a node in this process.
#[derive(Debug)]
pub(super) struct Files(pub(super) Arc<EmbeddedNodes>);

impl Scheme for Files {
    fn names(&self) -> &[&str] {
        &["file"]
    }

    fn locate(&self, location: &str) -> Result<Place, NodeError> {
        let path = Path::new(location.split_once("://").map_or(location, |(_, path)| path));
        let real = path.canonicalize().map_err(|error| NodeError::new(ErrorKind::NotFound, error.to_string()))?;
        let (root, prefix) = if real.is_dir() {
            (real.as_path(), String::new())
        } else {
            let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
            (real.parent().unwrap_or(Path::new("/")), name.unwrap_or_default())
        };
        Ok(Place { roots: vec![root.to_string_lossy().into_owned()], prefix })
    }

    fn open(&self, root: &str, _: &RemoteOptions) -> Result<Arc<dyn Storage>, NodeError> {
        Ok(Arc::new(EmbeddedNode::new(self.0.open(root)?)))
    }
}

/// `s3://bucket/prefix`: an object store, which a node in this process reads.
#[derive(Debug)]
pub(super) struct Buckets(pub(super) Arc<EmbeddedNodes>);

impl Scheme for Buckets {
    fn names(&self) -> &[&str] {
        &["s3", "s3a"]
    }

    fn locate(&self, location: &str) -> Result<Place, NodeError> {
        Ok(Place { roots: vec![location.to_owned()], prefix: String::new() })
    }

    fn locate_object(&self, location: &str) -> Result<Place, NodeError> {
        let start = location.find("://").map_or(0, |end| end + "://".len());
        match location.trim_end_matches('/').rsplit_once('/') {
            Some((folder, name)) if folder.len() > start => {
                Ok(Place { roots: vec![folder.to_owned()], prefix: name.to_owned() })
            }
            _ => self.locate(location),
        }
    }

    fn open(&self, root: &str, _: &RemoteOptions) -> Result<Arc<dyn Storage>, NodeError> {
        Ok(Arc::new(Bucket::new(self.0.open(root)?)))
    }
}

/// `thermocline://host:port[,host:port]/prefix`: storage nodes.
#[derive(Debug)]
pub(super) struct RemoteNodes;

impl Scheme for RemoteNodes {
    fn names(&self) -> &[&str] {
        &["thermocline"]
    }

    fn locate(&self, location: &str) -> Result<Place, NodeError> {
        let rest = location.split_once("://").map_or(location, |(_, rest)| rest);
        let (addresses, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let roots = addresses.split(',').map(|address| address.trim().to_owned()).collect();
        Ok(Place { roots, prefix: prefix.trim_end_matches('/').to_owned() })
    }

    fn open(&self, root: &str, options: &RemoteOptions) -> Result<Arc<dyn Storage>, NodeError> {
        Ok(Arc::new(RemoteNode::new(root, options)?))
    }

    /// The wait is part of the connection, so nodes with another timeout are other clients.
    fn key(&self, root: &str, options: &RemoteOptions) -> String {
        format!("{root} {:?}", options.request_timeout)
    }
}
