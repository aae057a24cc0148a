//! Digests by which requests name long contents.

use std::fmt;

use sha2::{Digest, Sha256};

/// SHA-256 of an encoded fragment or schema, by which a request names what the storage node has already.
/// Each side computes it from the bytes that it has, so that nobody can pass others' off as these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// That of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest on the wire; `None` if these are not the bytes of one.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes for the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// All of it, in hexadecimal.
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
