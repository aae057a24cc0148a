//! Rules of the planner: cutting plans into fragments, one order of floats, names of set comparisons.

mod bloom_join;
mod float_order;
mod separate;
mod set_comparison;

pub(crate) use float_order::FloatOrder;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
