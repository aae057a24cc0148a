//! PostgreSQL's SQL on DataFusion's planner.
//!
//! ```text
//! text --parse--> statement --in_our_dialect--> statement --DataFusion--> plan --rules--> plan with PostgreSQL's meaning
//! ```
//!
//! Each rule corrects one difference between PostgreSQL and DataFusion's planner or optimizer, described in its
//! documentation. `docs/sql.md` lists the remaining differences.
//!
//! Left out: external tables (`thermocline-catalog`), and the execution of plans (`thermocline-compute`).

pub mod rules;
mod text;

pub use text::{
    any_expression, check_depth, check_plan_size, check_statement_size, in_our_dialect, parse, parse_tokens,
};
