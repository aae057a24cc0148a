//! One error for everything that can go wrong in a database.
//!
//! ```text
//! row engine:       types::Error ----------------+
//! analytic engine:  DataFusionError -- translate -+--> Error -- place, hint: what the statement and the database say
//! storage nodes:    NodeError -------------------+
//! ```
//!
//! DataFusion's and Arrow's errors are translated here and nowhere else: their texts name parts of a library.

#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod error;
mod library;
mod names;
mod place;
mod translate;

pub use error::{Action, Error, Position, Result};
pub use names::nearest;
pub(crate) use place::Known;
