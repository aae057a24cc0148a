//! Locations of tables, and the storages that they lead to.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use parking_lot::Mutex;
use thermocline_formats::FooterCache;
use thermocline_pushdown::wire::{ErrorKind, ListResponse};
use thermocline_pushdown::{NodeError, user_error};
use thermocline_storage::{ClientOptions, NodeClient, NodeConfig, Place, RemoteOptions, Scheme};

use super::file_path::FilePath;
use super::glob::Glob;
use super::schemes::{Buckets, EmbeddedNodes, Files, RemoteNodes};

/// Where a table's objects are: a prefix at one or several storages, each of which holds some.
#[derive(Debug, Clone)]
pub struct Location {
    /// The storages, at least one.
    pub nodes: Vec<NodeClient>,
    /// Path below each one's root.
    pub prefix: String,
    /// Pattern of the paths below the prefix; `None` for all of them.
    pub(super) glob: Option<Glob>,
}

impl Location {
    /// Whether it has the object at `path`, which is below its prefix.
    pub(super) fn has(&self, path: &str) -> bool {
        let Some(glob) = &self.glob else { return true };
        let below = path.strip_prefix(self.prefix.as_str()).unwrap_or(path);
        glob.matches(below.trim_start_matches('/'))
    }

    /// What is listed at `node`, at least all that it has there.
    pub(super) async fn listing(&self, node: &NodeClient) -> Result<ListResponse, NodeError> {
        match self.glob.as_ref().and_then(Glob::levels) {
            Some(levels) => node.listing_of_levels(&self.prefix, levels).await,
            None => node.listing(&self.prefix).await,
        }
    }
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
        let scheme = self.scheme(text)?;
        let place = scheme.1.locate(text).map_err(|error| match error.kind {
            ErrorKind::NotFound => user_error!(UndefinedFile, "location '{text}': {error}"),
            _ => error.context(format!("location '{text}'")).into(),
        })?;
        self.opened(text, scheme, place, options)
    }

    /// Where files are; `None` if there is nothing.
    ///
    /// # Errors
    /// If the path is none.
    pub(super) fn resolve_files(&self, files: &FilePath, options: &RemoteOptions) -> Result<Option<Location>> {
        let (text, glob) = (files.base(), files.glob());
        let scheme = self.scheme(text)?;
        let located = if glob.is_some() { scheme.1.locate(text) } else { scheme.1.locate_object(text) };
        match located {
            Ok(place) => Ok(Some(Location { glob, ..self.opened(text, scheme, place, options)? })),
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.context(format!("'{}'", files.text())).into()),
        }
    }

    /// The scheme of a location, and its name.
    fn scheme<'a>(&'a self, text: &'a str) -> Result<(&'a str, &'a Arc<dyn Scheme>)> {
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
        Ok((name, scheme))
    }

    fn opened(
        &self,
        text: &str,
        (name, scheme): (&str, &Arc<dyn Scheme>),
        place: Place,
        options: &RemoteOptions,
    ) -> Result<Location> {
        let nodes = place.roots.iter().map(|root| self.node(name, scheme, root, options));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        if nodes.is_empty() {
            return Err(user_error!(InvalidTableDefinition, "location '{text}' names no storage"));
        }
        Ok(Location { nodes, prefix: place.prefix, glob: None })
    }

    /// Forgets the storages that nobody else has. Their counters go with them.
    pub fn forget_unused(&self) {
        self.known.lock().retain(|_, node| node.is_shared());
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
