//! Rules of the planner: the one that cuts plans into fragments, and those that keep its input exact.

mod bloom_join;
mod float_order;
mod separate;
mod set_comparison;

pub(crate) use float_order::FloatOrder;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
