//! Rules of the planner that know where data is: cutting plans into fragments, joins that send filters, and casts of
//! stored columns.

mod bloom_join;
mod narrowing_casts;
mod separate;

pub(crate) use narrowing_casts::NarrowingCasts;
pub use separate::Separate;
