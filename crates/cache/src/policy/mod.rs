//! Replacement policies: the benefit of keeping a segment in the cache.
//!
//! A cache with a million segments cannot score them all again whenever its clock moves. So a policy gives two numbers
//! for a segment. Its *benefit* is the number of FlexPushdownDB section 5.3 at a moment. Its *rank* orders segments
//! like their benefits, and depends only on the segment's own uses:
//!
//! > for segments a and b that nobody uses in between, rank(a) < rank(b) if and only if
//! > benefit(a, now) < benefit(b, now), whatever `now` is.
//!
//! So a segment changes its place in the cache's order only when it is used. Benefits that change with time have such a
//! rank too: the recency of LRU is the time of the last access; Belady's policy ranks by the absolute time of the next
//! use; and a frequency that is halved at intervals keeps its order if, instead of halving all frequencies, later
//! accesses count twice as much ([`Rank::scaled`]).

mod belady;
mod gdsf;
mod lfu;
mod lru;
mod named;
mod rank;
mod score;
mod uses;
mod wlfu;

pub use belady::Belady;
pub use gdsf::Gdsf;
pub use lfu::Lfu;
pub use lru::Lru;
pub use named::{policies, policy_named};
pub use rank::Rank;
pub use score::{Candidate, Policy};
pub use uses::{FREQUENCY_HALF_LIFE, SegmentUse};
pub use wlfu::Wlfu;
