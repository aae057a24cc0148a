//! ROOT: the directory or bucket that a storage node serves, and nothing outside of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{GetOptions, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{ErrorKind, ListResponse, ObjectEntry};
use url::Url;

use crate::blocking::{Cancelled, blocking};
use crate::budget::Account;
use crate::listing::Listing;
use crate::walk::{self, ETAG, OWN_DIRECTORY, is_hidden};

/// An opened ROOT.
#[derive(Debug, Clone)]
pub struct Root {
    store: Arc<dyn ObjectStore>,
    /// The canonical directory, if ROOT is one: object paths are checked against it so that no
    /// symbolic link leads out.
    directory: Option<PathBuf>,
    label: String,
    /// Bytes read since it was opened.
    bytes_read: Arc<AtomicU64>,
}

impl Root {
    /// Opens a directory, or an object-store URL such as `s3://bucket/prefix` with the usual
    /// environment variables (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL`). Behind the bucket, all characters are meant as they are written.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the directory is not there, [`ErrorKind::Refused`] for a URL that
    /// is not understood.
    pub fn open(location: &str) -> Result<Self, NodeError> {
        match Url::parse(location) {
            Ok(url) if url.scheme().len() > 1 && url.scheme() != "file" => {
                let url = folder_url(location)
                    .map_err(|error| NodeError::new(ErrorKind::Refused, format!("{location}: {error}")))?;
                Self::open_url(&url)
            }
            Ok(url) if url.scheme() == "file" => {
                let path = url.to_file_path().map_err(|()| {
                    NodeError::new(ErrorKind::Refused, format!("{location} does not name a local directory"))
                })?;
                Self::open_directory(path)
            }
            _ => Self::open_directory(PathBuf::from(location)),
        }
    }

    fn open_directory(path: PathBuf) -> Result<Self, NodeError> {
        let directory = path
            .canonicalize()
            .map_err(|error| NodeError::new(ErrorKind::NotFound, format!("{}: {error}", path.display())))?;
        if !directory.is_dir() {
            return Err(NodeError::new(ErrorKind::NotFound, format!("{} is not a directory", path.display())));
        }
        let store = LocalFileSystem::new_with_prefix(&directory).map_err(NodeError::from)?;
        let label = directory.display().to_string();
        Ok(Self { store: Arc::new(store), directory: Some(directory), label, bytes_read: Arc::default() })
    }

    fn open_url(url: &Url) -> Result<Self, NodeError> {
        let bucket = open_bucket(url)?;
        let prefix = Path::from_url_path(url.path())
            .map_err(|error| NodeError::new(ErrorKind::Refused, format!("{url}: {error}")))?;
        let store: Arc<dyn ObjectStore> =
            if prefix.as_ref().is_empty() { bucket } else { Arc::new(PrefixStore::new(bucket, prefix)) };
        Ok(Self { store, directory: None, label: url.to_string(), bytes_read: Arc::default() })
    }

    /// ROOT as people name it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The directory, if ROOT is one.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        self.directory.as_deref()
    }

    /// All objects below `prefix` (or the one object that it names), by path, and what is there and is
    /// no object: hidden files (a name that starts with `.` or `_`) and empty ones, which Spark and Trino
    /// leave out as well, and in a directory what is no file.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for a path that leaves ROOT, [`ErrorKind::Unavailable`] if the store fails
    /// or the directory is gone.
    pub async fn list(&self, prefix: &str) -> Result<ListResponse, NodeError> {
        self.list_charged(prefix, None, None, ()).await
    }

    /// The same, charged to `account`. A walk that nobody waits for any more goes on for a moment, for which
    /// it has `held`. Objects more than `levels` folders below `prefix` are left out, but for buckets, which list
    /// either one folder or all.
    ///
    /// # Errors
    /// As [`Root::list`], and [`ErrorKind::Busy`] or [`ErrorKind::ResourcesExhausted`] if there is no memory
    /// for so many objects.
    pub(crate) async fn list_charged(
        &self,
        prefix: &str,
        levels: Option<usize>,
        account: Option<Account>,
        held: impl Send + 'static,
    ) -> Result<ListResponse, NodeError> {
        let path = checked_path(prefix)?;
        let Some(directory) = self.directory.clone() else {
            let _until_the_end = held;
            return self.list_store(prefix, &path, levels, account).await;
        };
        blocking(held, move |cancelled| walk::list(&directory, &path, levels, Listing::new(account, cancelled))).await
    }

    async fn list_store(
        &self,
        prefix: &str,
        path: &Path,
        levels: Option<usize>,
        account: Option<Account>,
    ) -> Result<ListResponse, NodeError> {
        let mut listing = Listing::new(account, &Cancelled::default());
        let below = (!path.as_ref().is_empty()).then_some(path);
        let mut pages = match levels {
            Some(1) => {
                let found = self.store.list_with_delimiter(below);
                let objects = found.map_ok(|found| stream::iter(found.objects).map(Ok::<_, object_store::Error>));
                objects.try_flatten_stream().boxed()
            }
            _ => self.store.list(below),
        };
        let (mut listed, mut failure): (Vec<ObjectMeta>, _) = (vec![], None);
        loop {
            match pages.try_next().await {
                Ok(Some(meta)) => {
                    let bytes = meta.location.as_ref().len() + meta.e_tag.as_ref().map_or(0, String::len);
                    listing.charge(size_of::<ObjectMeta>() + bytes)?;
                    listed.push(meta);
                }
                Ok(None) => break,
                Err(error) => {
                    listed.clear();
                    failure = Some(error);
                    break;
                }
            }
        }
        // Asked for only where there is nothing below: some S3 servers fail on a HEAD of a folder.
        if listed.is_empty() && below.is_some() {
            match self.store.head(path).await {
                // A store below a prefix gives the path with it.
                Ok(meta) => listed.push(ObjectMeta { location: path.clone(), ..meta }),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(NodeError::from(error).context(prefix)),
            }
        }
        // A listing may fail because the path names an object; otherwise a table whose objects
        // cannot be listed must not look like an empty one.
        if let (true, Some(error)) = (listed.is_empty(), failure) {
            return Err(NodeError::from(error).context(prefix));
        }
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        for meta in &listed {
            let name = meta.location.to_string();
            if name.split('/').any(|part| part == OWN_DIRECTORY) {
                continue;
            }
            if below_is_hidden(&meta.location, path) {
                listing.skip(name, meta.size, "its name begins with . or _");
            } else if meta.size > 0 {
                let object = ObjectEntry { path: name, version: version_of(meta), size: meta.size };
                listing.add(object, &self.label)?;
            } else if !is_folder(meta, path, &listed) {
                listing.skip(name, 0, "it is empty");
            }
        }
        Ok(listing.found)
    }

    /// Reads from `object`, but only in the version that the entry names.
    ///
    /// # Errors
    /// [`ErrorKind::VersionChanged`] or [`ErrorKind::NotFound`] if it is not there in that version,
    /// [`ErrorKind::Refused`] for a path that leaves ROOT.
    pub async fn get(&self, object: &ObjectEntry, range: std::ops::Range<u64>) -> Result<GetResult, NodeError> {
        let path = checked_path(&object.path)?;
        self.confine(&path).await?;
        let etag = object.version.strip_prefix(ETAG);
        let options = GetOptions::new().with_range(Some(range)).with_if_match(etag);
        let result =
            self.store.get_opts(&path, options).await.map_err(|error| NodeError::from(error).context(&object.path))?;
        // Not every server heeds If-Match, and none knows our size-and-time versions.
        if !same_version(&object.version, &result.meta) {
            return Err(NodeError::new(
                ErrorKind::VersionChanged,
                format!(
                    "{} was overwritten (version {} is now {})",
                    object.path,
                    object.version,
                    version_of(&result.meta)
                ),
            ));
        }
        self.bytes_read.fetch_add(result.range.end - result.range.start, Ordering::Relaxed);
        Ok(result)
    }

    /// Distance up to which ranges are read as one: as much as is read in the time that a request takes.
    pub(crate) fn gap_bytes(&self) -> u64 {
        match self.directory {
            Some(_) => 16 << 10,
            None => 256 << 10,
        }
    }

    /// Bytes of objects read through this and its clones since it was opened, gaps between coalesced
    /// ranges included.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Refuses a path that a symbolic link leads out of ROOT.
    async fn confine(&self, path: &Path) -> Result<(), NodeError> {
        let Some(directory) = &self.directory else {
            return Ok(());
        };
        let full = directory.join(path.as_ref());
        let real = tokio::fs::canonicalize(&full).await.map_err(|error| {
            let kind =
                if error.kind() == std::io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Refused };
            NodeError::new(kind, format!("{path}: {error}"))
        })?;
        if real.starts_with(directory) {
            Ok(())
        } else {
            Err(NodeError::new(ErrorKind::Refused, format!("{path} leads out of the storage node's ROOT")))
        }
    }
}

/// The bucket of an object-store URL, with credentials from the environment.
///
/// # Errors
/// [`ErrorKind::Refused`] for a URL that is not understood.
pub fn open_bucket(url: &Url) -> Result<Arc<dyn ObjectStore>, NodeError> {
    if url.scheme() != "s3" && url.scheme() != "s3a" {
        return Err(NodeError::new(
            ErrorKind::Refused,
            format!("{url}: unknown scheme '{}', expected a directory, file:// or s3://", url.scheme()),
        ));
    }
    let mut builder = AmazonS3Builder::from_env().with_url(url.as_str());
    let endpoint = std::env::var("AWS_ENDPOINT_URL").or_else(|_| std::env::var("AWS_ENDPOINT"));
    if endpoint.is_ok_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    Ok(Arc::new(builder.build().map_err(|error| NodeError::from(error).context(url))?))
}

/// The URL of a folder in a bucket, whose name may have characters that mean something in URLs.
fn folder_url(location: &str) -> Result<Url, url::ParseError> {
    let encoded = location.chars().map(|c| match c {
        '%' | '?' | '#' | ' ' | '\t' | '\n' | '\r' => format!("%{:02X}", u32::from(c)),
        c => c.to_string(),
    });
    Url::parse(&encoded.collect::<String>())
}

fn version_of(meta: &ObjectMeta) -> String {
    match &meta.e_tag {
        Some(etag) => format!("{ETAG}{etag}"),
        // A listing may give milliseconds where a read gives seconds.
        None => format!("size:{}-time:{}", meta.size, meta.last_modified.timestamp()),
    }
}

fn same_version(version: &str, meta: &ObjectMeta) -> bool {
    if version.starts_with(ETAG) {
        return version == version_of(meta);
    }
    version == version_of(&ObjectMeta { e_tag: None, ..meta.clone() })
}

/// A path below ROOT; refuses `..`, absolute paths and whatever else is not one.
fn checked_path(text: &str) -> Result<Path, NodeError> {
    let trimmed = text.strip_suffix('/').unwrap_or(text);
    let refused = |why: &str| NodeError::new(ErrorKind::Refused, format!("path '{text}' is refused: {why}"));
    if trimmed.starts_with('/') {
        return Err(refused("it is absolute"));
    }
    if trimmed.split('/').any(|part| part == ".." || part == ".") {
        return Err(refused("it leaves ROOT"));
    }
    Path::parse(trimmed).map_err(|error| refused(&error.to_string()))
}

/// Whether the part of `path` below `prefix` has a hidden component.
fn below_is_hidden(path: &Path, prefix: &Path) -> bool {
    let below = path.prefix_match(prefix);
    below.is_some_and(|mut parts| parts.any(|part| is_hidden(part.as_ref())))
}

/// Whether an empty object among those `listed`, by path, stands for a folder, as some tools make them.
fn is_folder(meta: &ObjectMeta, prefix: &Path, listed: &[ObjectMeta]) -> bool {
    let folder = format!("{}/", meta.location);
    let after = listed.partition_point(|other| other.location.as_ref() < folder.as_str());
    meta.location == *prefix || listed.get(after).is_some_and(|other| other.location.as_ref().starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_buckets_are_meant_as_they_are_written() {
        for (location, path) in [
            ("s3://b", ""),
            ("s3://b/", ""),
            ("s3://b/x/y/", "x/y"),
            ("s3://b/run#1", "run#1"),
            ("s3://b/a?b/c#d?e", "a?b/c#d?e"),
            ("s3://b/t=2024-01-01 00%3A00", "t=2024-01-01 00%3A00"),
            ("s3a://b/%2e%2e/%2Fx ", "%2e%2e/%2Fx "),
        ] {
            let url = folder_url(location).unwrap();
            assert_eq!(url.host_str(), Some("b"), "{location}");
            assert_eq!(Path::from_url_path(url.path()).unwrap().as_ref(), path, "{location}");
        }
        // Nor does a bucket end before them.
        for location in ["s3://b#x/y", "s3://b?x/y", "s3://b%20/y"] {
            assert_ne!(folder_url(location).unwrap().host_str(), Some("b"), "{location}");
        }
        assert!(Path::from_url_path(folder_url("s3://b/a\tb").unwrap().path()).is_err());
    }
}
