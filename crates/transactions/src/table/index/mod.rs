//! Index structures over key bytes and tuple ids.

mod hash;
mod ordered;
mod page;
