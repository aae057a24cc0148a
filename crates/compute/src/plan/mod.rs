//! Rules of the planner: cutting plans into fragments, one order of floats, names of set comparisons.

mod bloom_join;
mod decimal_literals;
mod expressions;
mod float_order;
mod separate;
mod set_comparison;
mod temporal_literals;

pub(crate) use decimal_literals::DecimalLiterals;
pub(crate) use float_order::FloatOrder;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
pub(crate) use temporal_literals::TemporalLiterals;
