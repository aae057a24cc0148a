//! Reading ahead for the runs of a batch, and for the rows of a join.

use thermocline_tables::partition::Scope;
use thermocline_tables::schema::IndexId;
use thermocline_tables::table::{Keys, Table, TupleId};
use thermocline_types::{Result, Value};

use super::access::KeyPart;
use super::key::push_parts;
use super::{Routing, Step};
use crate::expression::{Environment, Frame, Source};

/// Brings what a step will look up in a hash index with each set of parameters into the processor's caches.
///
/// A row lies behind four reads, each of which follows from the one before: the index's bucket, its entry, the
/// locator, the row. Rows of a large table are in no cache, so that one look-up after the other waits four times
/// for memory. Here each of the four is done for all sets before the next one is.
pub(crate) fn read_ahead<P: AsRef<[Value]>>(
    step: &Step,
    routing: &Routing,
    scope: &mut Scope<'_>,
    environment: &Environment,
    sets: &[P],
) -> Result<()> {
    let Some((index, parts)) = step.access.hashed_key() else { return Ok(()) };
    let mut keys = Keys::new(environment.buffer());
    for parameters in sets {
        let frame = Frame::new(parameters.as_ref(), environment);
        // What fails will fail again where it is looked up.
        let _ = keys.push(|key| push_parts(key, parts, &frame));
    }
    match routing {
        // Every copy has them.
        Routing::Any => scope.any()?.0.table(step.table.id)?.read_ahead(index, &keys)?,
        // Where a key does not belong it is not found.
        _ => {
            for partition in scope.members() {
                partition.table(step.table.id)?.read_ahead(index, &keys)?;
            }
        }
    }
    environment.keep(keys.into_buffer());
    Ok(())
}

/// The step of a join behind another one, of which a row is looked up in a hash index.
#[derive(Clone, Copy)]
pub(super) struct Next<'a> {
    table: &'a Table,
    index: IndexId,
    parts: &'a [KeyPart],
}

impl<'a> Next<'a> {
    /// `None` if nothing is read ahead for it.
    pub fn of(step: &'a Step, table: &'a Table) -> Option<Self> {
        step.access.hashed_key().map(|(index, parts)| Self { table, index, parts })
    }

    /// The same for rows of the step before: brings them, and what is looked up for each, into the caches.
    pub fn read_ahead(self, step: &Step, table: &'a Table, ids: &[TupleId], frame: &mut Frame<'a>) -> Result<()> {
        table.read_rows_ahead(ids);
        let mut keys = Keys::new(frame.environment.buffer());
        for id in ids {
            frame.set(step.slot, Source::Row(table.row(*id)?));
            let _ = keys.push(|key| push_parts(key, self.parts, frame));
        }
        self.table.read_ahead(self.index, &keys)?;
        frame.environment.keep(keys.into_buffer());
        Ok(())
    }
}
