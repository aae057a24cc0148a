//! Rules of the planner: cutting plans into fragments, one order of floats, integers that do not wrap
//! around, decimals beside other numbers, exact literals, names of set comparisons; and `coalesce` of bytes.

mod bloom_join;
mod checked_integers;
mod coalesce;
mod decimals;
mod expressions;
mod float_order;
mod in_lists;
mod in_subqueries;
mod narrowing_casts;
mod separate;
mod set_comparison;
mod temporal_literals;

pub(crate) use checked_integers::CheckedIntegers;
pub(crate) use coalesce::Coalesce;
pub use decimals::register_numbers;
pub(crate) use decimals::{Decimals, IntegerBounds};
pub(crate) use float_order::FloatOrder;
pub(crate) use in_lists::InLists;
pub(crate) use in_subqueries::InSubqueries;
pub(crate) use narrowing_casts::NarrowingCasts;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
pub(crate) use temporal_literals::TemporalLiterals;
