//! Reading ahead for the runs of a batch.

use std::borrow::Cow;

use super::access::Access;
use super::walk::push_parts;
use super::{Routing, Step};
use crate::error::Result;
use crate::partition::Scope;
use crate::sql::expression::{Environment, Frame, Source};
use crate::table::{Keys, Table, TupleId};
use crate::types::Value;

/// How many look-ups are made together: about as many as a core can wait for at a time.
pub(crate) const LOOK_UPS_AHEAD: usize = 16;

/// Brings what a step will look up by a whole key with each set of parameters into the processor's caches.
///
/// A row lies behind four reads, each of which follows from the one before: the index's bucket, its entry, the
/// locator, the row. Rows of a large table are in no cache, so that one look-up after the other waits four times
/// for memory. Here each of the four is done for all sets before the next one is.
pub(crate) fn read_ahead(
    step: &Step,
    routing: &Routing,
    scope: &mut Scope<'_>,
    environment: &Environment,
    sets: &[Cow<'_, [Value]>],
) -> Result<()> {
    let Access::Key { index, parts, unique: true } = &step.access else { return Ok(()) };
    let mut keys = Keys::new(environment.buffer());
    for parameters in sets {
        let frame = Frame::new(parameters, environment);
        keys.push(|key| push_parts(key, parts, &frame));
    }
    match routing {
        // Every copy has them.
        Routing::Any => scope.any()?.0.table(step.table.id)?.read_ahead(*index, &keys)?,
        // Where a key does not belong it is not found.
        _ => {
            for partition in scope.members() {
                partition.table(step.table.id)?.read_ahead(*index, &keys)?;
            }
        }
    }
    environment.keep(keys.into_buffer());
    Ok(())
}

/// The same for rows of a join's step: brings them, and what the next step will look up for each, into the caches.
pub(super) fn read_ahead_joined<'a>(
    (step, table): (&'a Step, &'a Table),
    (next, next_table): (&'a Step, &'a Table),
    ids: &[TupleId],
    frame: &mut Frame<'a>,
) -> Result<()> {
    let Access::Key { index, parts, unique: true } = &next.access else { return Ok(()) };
    table.read_rows_ahead(ids);
    let mut keys = Keys::new(frame.environment.buffer());
    for id in ids {
        frame.set(step.slot, Source::Row(table.row(*id)?));
        keys.push(|key| push_parts(key, parts, frame));
    }
    next_table.read_ahead(*index, &keys)?;
    frame.environment.keep(keys.into_buffer());
    Ok(())
}
