//! The optimizer rule that cuts plans into fragments.

mod bloom_join;
mod separate;

pub use separate::Separate;
