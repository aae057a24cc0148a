//! Settings that this engine contributes to a database's.
//!
//! ```text
//! EngineSettings   what all queries share: caches, memory        scope database
//! QuerySettings    what each session sets for its own queries    scope session
//! ```

mod engine;
mod query;

pub use engine::{CachePolicy, ENGINE_SETTINGS, EngineSettings, cache_policy_names};
pub use query::{CachedRepresentations, PushdownOperators, QUERY_SETTINGS, QuerySettings, WireCompression};
