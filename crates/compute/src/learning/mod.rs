//! Learning: what executions of fragments selected and sent, for the routes of later ones.

mod experience;
mod shape;

pub(crate) use experience::{Expected, Experience, Place};
pub(crate) use shape::Shape;
