//! The optimizer rule that cuts plans into fragments.

mod bloom_join;
mod float_order;
mod separate;

pub(crate) use float_order::FloatOrder;
pub use separate::Separate;
