//! Contents that many requests share, sent to a node once.

use std::sync::Arc;

use thermocline_pushdown::ContentDigest;

/// Longer contents are sent once and then named by their digest. For shorter ones the round trip
/// would cost more than their bytes.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// Kinds of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// An encoded fragment.
    Fragment,
    /// An encoded schema.
    Schema,
}

impl ContentKind {
    /// The action that sends one.
    pub(crate) fn action(self) -> &'static str {
        match self {
            Self::Fragment => "put_fragment",
            Self::Schema => "put_schema",
        }
    }
}

/// An encoded fragment or schema that requests carry, or name by its digest.
#[derive(Debug, Clone)]
pub struct Content {
    pub(crate) kind: ContentKind,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// `None` if it always travels whole.
    pub(crate) digest: Option<ContentDigest>,
}

impl Content {
    /// An encoded fragment.
    pub fn fragment(bytes: Arc<Vec<u8>>) -> Self {
        Self::new(ContentKind::Fragment, bytes)
    }

    /// An encoded schema.
    pub fn schema(bytes: Arc<Vec<u8>>) -> Self {
        Self::new(ContentKind::Schema, bytes)
    }

    fn new(kind: ContentKind, bytes: Arc<Vec<u8>>) -> Self {
        let digest = (bytes.len() > INLINE_BYTES_MAX).then(|| ContentDigest::of(&bytes));
        Self { kind, bytes, digest }
    }

    /// Number of its bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> ContentDigest {
        self.digest.unwrap_or_else(|| ContentDigest::of(&self.bytes))
    }

    /// The two fields of a request that hold it: bytes and digest, one of them empty.
    pub fn fields(&self, whole: bool) -> (Vec<u8>, Vec<u8>) {
        match self.digest.filter(|_| !whole) {
            Some(digest) => (vec![], digest.as_bytes().to_vec()),
            None => (self.bytes.to_vec(), vec![]),
        }
    }
}
