//! The optimizer rule that cuts plans into fragments.

mod separate;

pub use separate::Separate;
