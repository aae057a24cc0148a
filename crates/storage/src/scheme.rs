//! Schemes of locations, which lead to storages.

use std::fmt;
use std::sync::Arc;

use thermocline_pushdown::NodeError;

use crate::{RemoteOptions, Storage};

/// The part of a location before `://`, as an opener of storages. Whoever opens a database can add schemes of their own
/// to those that it has.
///
/// A location is understood first and opened then, because a process has one storage for each root, however many tables
/// are there.
pub trait Scheme: fmt::Debug + Send + Sync {
    /// Its names, in lower case: `s3` and `s3a` of `s3://...` and `s3a://...`.
    fn names(&self) -> &[&str];

    /// Where `location` leads, which begins with one of the names and `://`.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](thermocline_pushdown::wire::ErrorKind::Refused) if it is not one of this scheme,
    /// [`ErrorKind::NotFound`](thermocline_pushdown::wire::ErrorKind::NotFound) if there is nothing.
    fn locate(&self, location: &str) -> Result<Place, NodeError>;

    /// The same for what may be one object: a scheme whose storages have folders as roots splits it off.
    ///
    /// # Errors
    /// As [`Scheme::locate`].
    fn locate_object(&self, location: &str) -> Result<Place, NodeError> {
        self.locate(location)
    }

    /// The storage at `root`, which [`Scheme::locate`] found.
    ///
    /// # Errors
    /// If it cannot be opened. One that connects on first use fails then.
    fn open(&self, root: &str, options: &RemoteOptions) -> Result<Arc<dyn Storage>, NodeError>;

    /// A name for what [`Scheme::open`] opens with these options: equal ones are opened once. `root` itself, unless the
    /// options matter.
    fn key(&self, root: &str, _options: &RemoteOptions) -> String {
        root.to_owned()
    }
}

/// Where a location leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Storages that each hold some of the objects, at least one.
    pub roots: Vec<String>,
    /// Path of the objects below each root; empty for all of them.
    pub prefix: String,
}
