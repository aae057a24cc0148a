//! The single error type of the database.
//!
//! ```text
//! row engine:       types::Error ----------------+
//! analytic engine:  DataFusionError -- translate -+--> Error -- place, hint: what the statement and the database say
//! storage nodes:    NodeError -------------------+
//! ```
//!
//! Only this module translates errors of DataFusion and Arrow, whose texts name parts of the library.

#[expect(clippy::module_inception, reason = "a file is named after its main type")]
mod error;
mod library;
mod place;
mod translate;

pub use error::{Action, Error, Position, Result};
pub(crate) use place::Known;
pub(crate) use translate::meant;
