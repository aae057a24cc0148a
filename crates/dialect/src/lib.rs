//! SQL as PostgreSQL has it, in DataFusion's plans.
//!
//! ```text
//! text --parse--> statement --in_our_dialect--> statement --DataFusion--> plan --rules--> plan with PostgreSQL's meaning
//! ```
//!
//! Each rule mends one thing that DataFusion's planner or optimizer takes for something else, and says which.
//! `docs/sql.md` lists what still differs.
//!
//! Deliberately left out: where tables are and where plans run (`thermocline-compute`).

pub mod rules;
mod text;

pub use text::{
    any_expression, check_depth, check_plan_size, check_statement_size, in_our_dialect, parse, parse_tokens,
};
