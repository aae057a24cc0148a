//! The route `bitmap`: a partition of which some needed columns are cached and some are not
//! (Enhancing Computation Pushdown section 4.2).

mod pays;
mod plan;
mod run;

pub(super) use pays::Chooser;
pub(super) use plan::BitmapPlan;
pub(super) use run::exchange;
