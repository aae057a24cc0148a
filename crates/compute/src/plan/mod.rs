//! Rules of the planner: SQL's operators and casts, cutting plans into fragments, one order of floats, integers that do
//! not wrap around, decimals beside other numbers, integers beside decimals, lists of values that are no literals,
//! exact literals, groups, joins and filters by equal names, sets that count their rows, names of set comparisons,
//! `coalesce` of bytes, and scalar subqueries without a row.

mod averages;
mod bloom_join;
mod casts;
mod checked_integers;
mod coalesce;
mod date_bounds;
mod decimals;
mod documents;
mod empty_subqueries;
mod expressions;
mod filter_names;
mod float_order;
mod guards;
mod in_lists;
mod in_subqueries;
mod integer_bounds;
mod interval_order;
mod merged_columns;
mod narrowing_casts;
mod nested_sorts;
mod operators;
mod optimizer_rules;
mod order_keys;
mod outer_references;
mod physical_rules;
mod projections;
mod separate;
mod set_comparison;
mod set_counts;
mod stand_ins;
mod temporal_literals;
mod type_checks;
mod unsupported;

pub use averages::Averages;
pub(crate) use casts::Casts;
pub(crate) use checked_integers::CheckedIntegers;
pub(crate) use coalesce::Coalesce;
pub(crate) use decimals::Decimals;
pub(crate) use documents::{DocumentOrder, DocumentTypes};
pub(crate) use empty_subqueries::EmptySubqueries;
pub(crate) use float_order::FloatOrder;
pub(crate) use guards::Guards;
pub(crate) use in_lists::InLists;
pub(crate) use in_subqueries::InSubqueries;
pub(crate) use integer_bounds::IntegerBounds;
pub(crate) use interval_order::IntervalOrder;
pub(crate) use merged_columns::{MergedColumns, merged_qualifier, merges_columns};
pub(crate) use narrowing_casts::NarrowingCasts;
pub(crate) use nested_sorts::NestedSorts;
pub use operators::register_operators;
pub(crate) use optimizer_rules::optimizer_rules;
pub(crate) use order_keys::OrderKeys;
pub(crate) use physical_rules::physical_rules;
pub use separate::Separate;
pub(crate) use set_comparison::SetComparisonNames;
pub(crate) use set_counts::SetCounts;
pub(crate) use stand_ins::{DISTINCT, NOT_DISTINCT, POSITION, POSITIVE, register_stand_ins};
pub(crate) use temporal_literals::TemporalLiterals;
pub(crate) use type_checks::TypeChecks;
pub(crate) use unsupported::Unsupported;
