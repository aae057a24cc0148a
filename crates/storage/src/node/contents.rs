//! Decoded fragments and schemas by their digests.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use parking_lot::Mutex;
use thermocline_pushdown::wire::{ErrorKind, decode_schema};
use thermocline_pushdown::{ContentDigest, Fragment, Limits, NodeError};

use super::StorageNode;
use crate::ContentKind;
use crate::recent::Recent;

/// Bytes of memory that a byte of an encoded fragment or schema becomes: what is charged for one that
/// is kept. Large fragments are Bloom filters, which become one copy of their bits.
const DECODED_PER_ENCODED: usize = 4;

/// A fragment that may run here.
#[derive(Debug)]
pub(super) struct ValidFragment {
    pub(super) fragment: Fragment,
    /// Columns that it reads.
    pub(super) input: SchemaRef,
}

/// Decoded and allowed contents, within a number of bytes that count towards the node's memory. Decoding
/// is a function of the bytes and the node's limits, so clients can share the results.
#[derive(Debug)]
pub(super) struct Contents {
    known: Mutex<Recent<ContentDigest, Decoded>>,
    memory: MemoryReservation,
}

#[derive(Debug, Clone)]
enum Decoded {
    Fragment(Arc<ValidFragment>),
    Schema(SchemaRef),
}

impl Contents {
    pub(super) fn new(bytes_max: usize, context: &TaskContext) -> Self {
        let memory = MemoryConsumer::new("decoded fragments").register(context.memory_pool());
        Self { known: Mutex::new(Recent::new(bytes_max)), memory }
    }

    /// Bytes that are charged to the node's pool.
    pub(super) fn bytes_charged(&self) -> usize {
        self.memory.size()
    }

    /// The decoded form of `bytes`, or, without bytes, of the content with this `digest`.
    fn get(
        &self,
        bytes: &[u8],
        digest: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<Decoded, NodeError>,
    ) -> Result<(Decoded, ContentDigest), NodeError> {
        let named = match bytes {
            [] => ContentDigest::from_wire(digest),
            bytes => Some(ContentDigest::of(bytes)),
        };
        if let Some(named) = named
            && let Some(known) = self.known.lock().get(&named).cloned()
        {
            return Ok((known, named));
        }
        match named {
            Some(named) if bytes.is_empty() => Err(NodeError::new(
                ErrorKind::UnknownContent,
                format!("the fragment or schema {named:?} is not known here: send it whole"),
            )),
            // Empty bytes decode to something, or not, like any others.
            named => {
                let decoded = decode(bytes)?;
                if let Some(named) = named {
                    self.keep(named, decoded.clone(), bytes.len());
                }
                Ok((decoded, named.unwrap_or_else(|| ContentDigest::of(bytes))))
            }
        }
    }

    fn keep(&self, digest: ContentDigest, decoded: Decoded, encoded_bytes: usize) {
        let mut known = self.known.lock();
        known.put(digest, decoded, encoded_bytes.saturating_mul(DECODED_PER_ENCODED) + size_of::<Decoded>());
        // What runs needs memory more than what may come again.
        while self.memory.try_resize(known.bytes()).is_err() && known.forget_oldest() {}
    }
}

impl StorageNode {
    /// The fragment of a request, decoded and found to be allowed, and its digest.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if it may not run here, [`ErrorKind::UnknownContent`] if it is named by a
    /// digest that is not known.
    pub(super) fn fragment(
        &self,
        bytes: &[u8],
        digest: &[u8],
        limits: &Limits,
    ) -> Result<(Arc<ValidFragment>, ContentDigest), NodeError> {
        let decode = |bytes: &[u8]| {
            let (fragment, input) = Fragment::decode(bytes, &self.context, limits)?;
            Ok(Decoded::Fragment(Arc::new(ValidFragment { fragment, input })))
        };
        match self.contents.get(bytes, digest, decode)? {
            (Decoded::Fragment(fragment), digest) => Ok((fragment, digest)),
            (Decoded::Schema(_), _) => Err(NodeError::new(ErrorKind::Refused, "a schema was sent as a fragment")),
        }
    }

    /// The table's columns in a request.
    ///
    /// # Errors
    /// As [`StorageNode::fragment`].
    pub(super) fn table_schema(&self, bytes: &[u8], digest: &[u8]) -> Result<SchemaRef, NodeError> {
        match self.contents.get(bytes, digest, |bytes| Ok(Decoded::Schema(decode_schema(bytes)?)))? {
            (Decoded::Schema(schema), _) => Ok(schema),
            (Decoded::Fragment(_), _) => Err(NodeError::new(ErrorKind::Refused, "a fragment was sent as a schema")),
        }
    }

    /// Decodes what later requests will name by its digest.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if it may not run here.
    pub fn put(&self, kind: ContentKind, bytes: &[u8]) -> Result<(), NodeError> {
        match kind {
            ContentKind::Fragment => self.fragment(bytes, &[], &self.config.limits).map(|_| ()),
            ContentKind::Schema => self.table_schema(bytes, &[]).map(|_| ()),
        }
    }
}
