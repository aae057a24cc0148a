//! Rules of the planner: cutting plans into fragments, one order of floats, integers that do not wrap
//! around, decimals beside other numbers, integers beside decimals, lists of values that are no literals,
//! exact literals, groups and joins by equal names, names of set comparisons; and `coalesce` of bytes.

mod averages;
mod bloom_join;
mod checked_integers;
mod coalesce;
mod decimals;
mod expressions;
mod float_order;
mod group_names;
mod in_lists;
mod in_subqueries;
mod integer_bounds;
mod merged_columns;
mod narrowing_casts;
mod quotients;
mod separate;
mod set_comparison;
mod temporal_literals;

pub(crate) use checked_integers::CheckedIntegers;
pub(crate) use coalesce::Coalesce;
pub(crate) use decimals::Decimals;
pub(crate) use float_order::FloatOrder;
pub(crate) use group_names::optimizer_rules;
pub(crate) use in_lists::InLists;
pub(crate) use in_subqueries::InSubqueries;
pub(crate) use integer_bounds::IntegerBounds;
pub(crate) use merged_columns::{MergedColumns, merged_qualifier, merges_columns};
pub(crate) use narrowing_casts::NarrowingCasts;
pub use quotients::register_numbers;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
pub(crate) use temporal_literals::TemporalLiterals;
