//! Locations of tables, and the storages that they lead to.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_formats::FooterCache;
use thermocline_pushdown::user_error;
use thermocline_pushdown::wire::ErrorKind;
use thermocline_storage::{ClientOptions, NodeClient, NodeConfig, RemoteOptions, Scheme};

use super::schemes::{Buckets, EmbeddedNodes, Files, RemoteNodes};

/// Where a table's objects are: a prefix at one or several storages, each of which holds some.
#[derive(Debug, Clone)]
pub struct Location {
    /// The storages, at least one.
    pub nodes: Vec<NodeClient>,
    /// Path below each one's root.
    pub prefix: String,
}

/// The storages that this process knows, one client each, and the schemes of locations that lead to them.
#[derive(Debug)]
pub struct Nodes {
    /// By scheme and [`Scheme::key`].
    known: Mutex<HashMap<(String, String), NodeClient>>,
    schemes: HashMap<String, Arc<dyn Scheme>>,
    /// That of a location without one.
    files: Arc<dyn Scheme>,
    embedded: Arc<EmbeddedNodes>,
    footers: Arc<FooterCache>,
}

impl Nodes {
    /// None yet; embedded ones will be limited by `embedded`. All of them together keep decoded footers
    /// of `footers_bytes_max` bytes. `schemes` take the place of built-in ones of the same name.
    pub fn new(embedded: NodeConfig, footers_bytes_max: usize, schemes: Vec<Arc<dyn Scheme>>) -> Arc<Self> {
        let footers = FooterCache::new(footers_bytes_max, None);
        let embedded = NodeConfig { message_bytes: usize::MAX, footers: Some(Arc::clone(&footers)), ..embedded };
        let embedded = EmbeddedNodes::new(embedded);
        let files: Arc<dyn Scheme> = Arc::new(Files(Arc::clone(&embedded)));
        let own: [Arc<dyn Scheme>; 3] =
            [Arc::clone(&files), Arc::new(Buckets(Arc::clone(&embedded))), Arc::new(RemoteNodes)];
        let mut by_name = HashMap::new();
        for scheme in own.into_iter().chain(schemes) {
            for name in scheme.names() {
                by_name.insert((*name).to_owned(), Arc::clone(&scheme));
            }
        }
        Arc::new(Self { known: Mutex::default(), schemes: by_name, files, embedded, footers })
    }

    /// Decoded footers of all storages' objects.
    pub fn footers(&self) -> &Arc<FooterCache> {
        &self.footers
    }

    /// Bytes that embedded nodes account for, those of footers included.
    pub fn embedded_bytes(&self) -> usize {
        self.embedded.bytes()
    }

    /// All storages used so far, by label.
    pub fn all(&self) -> Vec<NodeClient> {
        let mut nodes: Vec<_> = self.known.lock().values().cloned().collect();
        nodes.sort_by(|a, b| a.label().cmp(b.label()));
        nodes
    }

    /// Understands a location: a path, or an address of a scheme such as `thermocline://host:port[,host:port]/prefix`
    /// and `s3://bucket/prefix`.
    ///
    /// # Errors
    /// If it is none of these, or a local path that is not there.
    pub fn resolve(&self, text: &str, options: &RemoteOptions) -> Result<Location> {
        let (name, scheme) = match text.split_once("://") {
            None => ("file", &self.files),
            Some((name, _)) => match self.schemes.get(&name.to_ascii_lowercase()) {
                Some(scheme) => (name, scheme),
                None => {
                    let mut names: Vec<_> = self.schemes.keys().map(|name| format!("{name}://")).collect();
                    names.sort_unstable();
                    return Err(user_error!(
                        InvalidTableDefinition,
                        "location '{text}': unknown scheme '{name}', expected a directory or {}",
                        names.join(", ")
                    ));
                }
            },
        };
        let place = scheme.locate(text).map_err(|error| match error.kind {
            ErrorKind::NotFound => user_error!(UndefinedFile, "location '{text}': {error}"),
            _ => error.context(format!("location '{text}'")).into(),
        })?;
        let nodes = place.roots.iter().map(|root| self.node(name, scheme, root, options));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() {
            return Err(user_error!(InvalidTableDefinition, "location '{text}' names no storage"));
        }
        Ok(Location { nodes, prefix: place.prefix })
    }

    fn node(&self, name: &str, scheme: &Arc<dyn Scheme>, root: &str, options: &RemoteOptions) -> Result<NodeClient> {
        let mut known = self.known.lock();
        let key = (name.to_ascii_lowercase(), scheme.key(root, options));
        if let Some(node) = known.get(&key) {
            return Ok(node.clone());
        }
        let footers = Some(Arc::clone(&self.footers));
        let node = NodeClient::new(scheme.open(root, options)?, ClientOptions { footers, ..ClientOptions::default() });
        known.insert(key, node.clone());
        Ok(node)
    }
}
