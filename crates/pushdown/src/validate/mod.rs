//! Local and bounded: what a storage node agrees to run (Enhancing Computation Pushdown
//! section 4.1), and what either side agrees to decode.
//!
//! *Local*: the fragment reads one object and talks to nobody. *Bounded*: its work and memory
//! are linear in the bytes read. Filter, projection, partial aggregation, top-K with a bounded K
//! and limit are both; everything else is refused by name before any data is touched.
//!
//! Bytes of a peer pass four checks, each of which trusts only those before it:
//!
//! | check | of | before |
//! |---|---|---|
//! | [`check_message`] | fields of the protobuf message and of all messages in it | prost allocates for them |
//! | tree | operators, expressions, functions by name, literals, types, depth, column indices | DataFusion makes a plan of them |
//! | [`check_plan`] | what only a decoded plan knows: signatures of functions, schemas of aggregates | the plan runs |
//! | memory pool, deadline | what the fragment makes of the data | |
//!
//! A compute node passes its own fragments through the same checks when it plans, so that what a
//! node would refuse is never sent, and `EXPLAIN` says why.

mod expression;
mod functions;
mod limits;
mod literal;
mod message;
mod plan;
pub(crate) mod shape;
mod tree;
mod types;

pub use limits::Limits;
pub(crate) use literal::check_literal;
pub use message::{MESSAGE_FIELDS_MAX, check_message};
pub use plan::{check_operator, check_plan};
pub use shape::{Kind, Shape};
pub(crate) use tree::{check_tree, without_run_time_state};
pub(crate) use types::check_schema;
