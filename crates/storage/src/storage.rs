//! The trait of storages.

use std::fmt;

use arrow_flight::FlightData;
use async_trait::async_trait;
use futures::stream::BoxStream;
use thermocline_formats::Footers;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::{
    BitmapRequest, DescribeRequest, DescribeResponse, DropIndexRequest, DropIndexResponse, ErrorKind, FragmentRequest,
    IndexRequest, IndexStatusRequest, IndexStatusResponse, ListResponse, NodeStatus, RangesRequest,
};

use crate::{Capabilities, ContentKind};

/// Messages of an answer, as they come; empty ones say that the storage is at work. Dropping them ends the work.
pub type Messages = BoxStream<'static, Result<FlightData, NodeError>>;

/// Descriptions of objects in the order of the request, several in a message.
pub type Descriptions = BoxStream<'static, Result<DescribeResponse, NodeError>>;

/// A place that holds objects: it lists and describes them and sends their bytes, and it does what else its
/// [`Capabilities`] say.
///
/// ```text
///   NodeClient: asks again, counts, remembers what was sent --> dyn Storage --+-- RemoteNode: behind Arrow Flight
///                                                                             +-- EmbeddedNode: in this process
///                                                                             +-- Bucket: an object store, no fragments
///                                                                             +-- yours, by a Scheme of your own
/// ```
///
/// A method is one attempt: [`NodeClient`](crate::NodeClient) repeats what may be repeated
/// ([`NodeError::is_transient`]) unless the storage [does so itself](Capabilities::retries). Errors name the object, and
/// the storage where that is not this process. What a storage lacks the capability for is never asked of it; the default
/// is an error of [`ErrorKind::Unsupported`].
///
/// Requests name objects in the version that was listed. A storage that finds another one says so
/// ([`ErrorKind::VersionChanged`], [`ErrorKind::NotFound`]), because columns are cached by it.
#[async_trait]
pub trait Storage: fmt::Debug + Send + Sync {
    /// Its name for people, and in keys of what is cached of its objects: storages of one name have the same objects.
    fn label(&self) -> &str;

    /// What it does. The same for as long as it is there.
    fn capabilities(&self) -> &Capabilities;

    /// Where it keeps decoded footers of its objects, if readers here are to share them; `None` if they keep their own.
    fn footers(&self) -> Option<&Footers> {
        None
    }

    /// Objects below `prefix`, or the object that it names, by path, and what is there and is no object.
    ///
    /// # Errors
    /// If it cannot be reached or `prefix` is not allowed. That there is nothing at `prefix` is an answer
    /// ([`ListResponse::missing`]).
    async fn list(&self, prefix: &str) -> Result<ListResponse, NodeError>;

    /// The same, of which objects more than `levels` folders below `prefix` may be left out: 1 for those that are in it
    /// itself. Whoever asks leaves out what comes nevertheless.
    ///
    /// # Errors
    /// As [`Storage::list`].
    async fn list_levels(&self, prefix: &str, _levels: usize) -> Result<ListResponse, NodeError> {
        self.list(prefix).await
    }

    /// How objects are cut into partitions: the footers of Parquet, record-aligned ranges of text.
    ///
    /// # Errors
    /// If it cannot be reached. In the stream, [`ErrorKind::BadData`] for an object that is not of the format.
    async fn describe(&self, request: DescribeRequest) -> Result<Descriptions, NodeError>;

    /// The bytes of ranges of one object, in order, in bodies of messages; a message may end within a range.
    ///
    /// # Errors
    /// If a range is not in the object, or it cannot be read; in the stream as well.
    async fn ranges(&self, request: &RangesRequest) -> Result<Messages, NodeError>;

    /// The rows that a fragment yields over partitions of one object, as [`answer_messages`](crate::answer_messages)
    /// encodes them, and a report. Asked of what has [`Capabilities::operators`].
    ///
    /// # Errors
    /// If the fragment may not run, or its object cannot be read; in the stream as well. With
    /// [`NodeError::wants_pullup`], before any rows, the caller reads the object instead.
    async fn execute(&self, _request: &FragmentRequest) -> Result<Messages, NodeError> {
        Err(unsupported(self.label(), "runs no fragments"))
    }

    /// The same over the rows that a bitmap selects, after the bitmap of the rows that a filter selects if that is asked
    /// for, in a body. Asked of what has [`Capabilities::bitmaps`].
    ///
    /// # Errors
    /// As [`Storage::execute`].
    async fn select(&self, _request: &BitmapRequest) -> Result<Messages, NodeError> {
        Err(unsupported(self.label(), "uses no bitmaps"))
    }

    /// Takes an encoded fragment or schema that later requests name by its digest. If one is named that it does not
    /// have any more, it says [`ErrorKind::UnknownContent`]. Asked of what has [`Capabilities::contents`].
    ///
    /// # Errors
    /// If it may not run there.
    async fn put(&self, _kind: ContentKind, _bytes: &[u8]) -> Result<(), NodeError> {
        Err(unsupported(self.label(), "remembers no fragments"))
    }

    /// Makes the index object of a column of one object, unless there is a current one; the last message has an
    /// [`IndexReport`](thermocline_pushdown::wire::IndexReport) in its metadata. Asked of what has
    /// [`Capabilities::indexes`].
    ///
    /// # Errors
    /// If there is no place for it, or the object cannot be read; in the stream as well.
    async fn create_index(&self, _request: &IndexRequest) -> Result<Messages, NodeError> {
        Err(unsupported(self.label(), "keeps no indexes"))
    }

    /// States of the index objects of a column, in the order of the request. Asked of what has
    /// [`Capabilities::indexes`].
    ///
    /// # Errors
    /// If it cannot be reached.
    async fn index_status(&self, _request: &IndexStatusRequest) -> Result<IndexStatusResponse, NodeError> {
        Err(unsupported(self.label(), "keeps no indexes"))
    }

    /// Removes the index objects of a column. Asked of what has [`Capabilities::indexes`].
    ///
    /// # Errors
    /// If it cannot be reached.
    async fn drop_index(&self, _request: &DropIndexRequest) -> Result<DropIndexResponse, NodeError> {
        Err(unsupported(self.label(), "keeps no indexes"))
    }

    /// Its load and counters; `None` if it has none.
    ///
    /// # Errors
    /// If it cannot be reached.
    async fn status(&self) -> Result<Option<NodeStatus>, NodeError> {
        Ok(None)
    }
}

fn unsupported(label: &str, lacks: &str) -> NodeError {
    NodeError::new(ErrorKind::Unsupported, format!("{label} {lacks}"))
}
