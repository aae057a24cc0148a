//! Read-ahead for the runs of a batch and the rows of a join.

use thermocline_tables::partition::Scope;
use thermocline_tables::schema::IndexId;
use thermocline_tables::table::{Keys, Table, TupleId};
use thermocline_types::{Result, Value};

use super::access::KeyPart;
use super::key::push_parts;
use super::{Routing, Step};
use crate::expression::{Environment, Frame, Source};

/// Prefetches the hash index look-ups of a step, for all sets of parameters, into the processor's caches.
///
/// A look-up takes four dependent reads: bucket of the index, entry, locator, row. In a large table each misses the
/// cache, so sequential look-ups wait for memory four times each. Here each of the four reads is issued for all sets
/// before the next.
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
        // Errors recur at the look-up.
        let _ = keys.push(|key| push_parts(key, parts, &frame));
    }
    match routing {
        // Every copy has the rows.
        Routing::Any => scope.any()?.0.table(step.table.id)?.read_ahead(index, &keys)?,
        // Keys of other partitions are not found.
        _ => {
            for partition in scope.members() {
                partition.table(step.table.id)?.read_ahead(index, &keys)?;
            }
        }
    }
    environment.keep(keys.into_buffer());
    Ok(())
}

/// The next step of a join, if its row is looked up in a hash index.
#[derive(Clone, Copy)]
pub(super) struct Next<'a> {
    table: &'a Table,
    index: IndexId,
    parts: &'a [KeyPart],
}

impl<'a> Next<'a> {
    /// `None` if the step is not read ahead.
    pub fn of(step: &'a Step, table: &'a Table) -> Option<Self> {
        step.access.hashed_key().map(|(index, parts)| Self { table, index, parts })
    }

    /// Prefetches rows of the step before, and the look-up of this step for each of them.
    pub fn read_ahead(self, step: &Step, table: &'a Table, ids: &[TupleId], frame: &mut Frame<'a>) -> Result<()> {
        table.read_rows_ahead(ids);
        let mut keys = Keys::new(frame.environment.buffer());
        for id in ids {
            if step.is_answered_by_key(table, *id) {
                continue;
            }
            let Some(row) = frame.environment.present(table.row(*id))? else { continue };
            frame.set(step.slot, Source::Row(row));
            let _ = keys.push(|key| push_parts(key, self.parts, frame));
        }
        self.table.read_ahead(self.index, &keys)?;
        frame.environment.keep(keys.into_buffer());
        Ok(())
    }
}
