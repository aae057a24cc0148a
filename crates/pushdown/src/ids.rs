//! Identifiers that cross crates, each a type of its own.

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it is.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Where an object lies below a storage node's ROOT: `/`-separated, never starting with `/`.
    ObjectPath
}
text_id! {
    /// One immutable version of an object: its ETag, or size and modification time where the
    /// store has none. Two reads under one version see the same bytes.
    ObjectVersion
}
text_id! {
    /// One execution of one statement, unique within a process and unlikely to repeat across them.
    QueryId
}

/// The slot that a storage node keeps for the transfer that follows a pushback. Never 0, which
/// stands for none on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PushbackToken(std::num::NonZeroU64);

impl PushbackToken {
    /// The token of that number; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        std::num::NonZeroU64::new(number).map(Self)
    }

    /// The number for the wire.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}
