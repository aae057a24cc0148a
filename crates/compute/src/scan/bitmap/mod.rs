//! Plans of the route `bitmap`, and whether they pay: for a partition of which some needed columns are cached and some are not
//! (Enhancing Computation Pushdown section 4.2).

mod pays;
mod plan;

pub(super) use pays::{Choice, Chooser};
pub(super) use plan::{Answer, BitmapPlan, Here, Origin};
