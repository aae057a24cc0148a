use super::{Context, Limits};
use crate::database::Answer;
use crate::error::{Class, Result};
use crate::schema::ProcedureDefinition;
use crate::types::Value;

/// A body in Lua; there is none yet.
#[derive(Debug)]
pub(super) enum LuaProcedure {}

impl LuaProcedure {
    pub fn compile(_: &ProcedureDefinition, _: u64, _: Limits) -> Result<Self> {
        Err(Class::Unsupported.error("LANGUAGE lua is not supported"))
    }

    pub fn run(&self, _: &mut Context<'_, '_>, _: &str, _: &[Value]) -> Result<Answer> {
        match *self {}
    }
}
