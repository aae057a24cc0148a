//! What executions of fragments showed, for later ones.

mod experience;
mod shape;

pub(crate) use experience::{Expected, Experience, Place};
pub(crate) use shape::Shape;
