//! Byte ranges of one object in one version, from any source.

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ObjectEntry;

/// Reads byte ranges of one object: at a storage node from the object store, at a compute node by a
/// request to the object's storage, which carries all ranges at once.
#[async_trait]
pub trait RangeSource: Debug + Send + Sync {
    /// The object, in the version that every read must find.
    fn object(&self) -> &ObjectEntry;

    /// The bytes of each range, in the order given; each is as long as its range.
    ///
    /// # Errors
    /// [`NodeError`], which names the object.
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, NodeError>;
}
