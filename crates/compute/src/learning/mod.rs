//! Learning: what executions of fragments selected and sent, for the routes of later ones.

mod experience;
mod shape;

pub(crate) use experience::{Expected, Experience, Observed, Place, Seen};
pub(crate) use shape::Shape;
