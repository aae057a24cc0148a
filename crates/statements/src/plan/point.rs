//! Point look-ups by the complete key of a unique index.

use smallvec::SmallVec;
use thermocline_tables::PartitionHash;
use thermocline_tables::key::integer;
use thermocline_tables::partition::{Partition, Scope, Transaction};
use thermocline_tables::table::{Keys, OfLookUps, Row, Table, TupleId};
use thermocline_types::{DataType, Error, Result, Value};

use super::access::{Access, KeyPart};
use super::key::push_parts;
use super::{Needs, Routing, Step};
use crate::expression::{Environment, Expr, Frame};

impl Step {
    /// Whether the step finds at most one row, by a unique key.
    pub fn is_point(&self) -> bool {
        !self.outer && matches!(self.access, Access::Key { unique: true, .. })
    }

    /// Finds the row of a point look-up without checking other conditions.
    pub fn find_point(&self, table: &Table, frame: &Frame<'_>) -> Result<Option<TupleId>> {
        let Access::Key { index, parts, .. } = &self.access else { return Err(no_point()) };
        let mut key = frame.environment.buffer();
        let found = if push_parts(&mut key, parts, frame)? { table.find(*index, &key)? } else { None };
        frame.environment.keep(key);
        Ok(found)
    }

    /// Whether the row is evicted and the statement needs no more of it than its key.
    #[inline]
    pub fn is_answered_by_key(&self, table: &Table, id: TupleId) -> bool {
        self.needs != Needs::Row && table.block_place(id).is_some()
    }

    /// Writes what the statement needs of a row that [`Step::find_point`] has found, if that needs no look at the row
    /// and the row is evicted.
    pub fn key_row<'a>(
        &self,
        table: &'a Table,
        id: TupleId,
        frame: &Frame<'_>,
        image: &'a mut Vec<u8>,
    ) -> Result<Option<Row<'a>>> {
        if !self.is_answered_by_key(table, id) {
            return Ok(None);
        }
        let Access::Key { parts, .. } = &self.access else { return Err(no_point()) };
        let mut key = frame.environment.buffer();
        push_parts(&mut key, parts, frame)?;
        let row = self.needs.write(table, &key, image)?;
        frame.environment.keep(key);
        Ok(Some(row))
    }
}

#[cold]
fn no_point() -> Error {
    Error::internal("a step that is no point")
}

/// Limit on columns of a key that is encoded directly from integers.
const INTEGERS_MAX: usize = 4;

/// The parameters that make up a key, if it has few columns, all INTEGER NOT NULL and ascending.
fn integer_parameters(parts: &[KeyPart]) -> Option<SmallVec<[usize; INTEGERS_MAX]>> {
    let position = |KeyPart { column, value }: &KeyPart| match value {
        Expr::Parameter(position)
            if column.data_type == DataType::Integer && !column.nullable && !column.descending =>
        {
            Some(*position)
        }
        _ => None,
    };
    if parts.len() > INTEGERS_MAX {
        return None;
    }
    parts.iter().map(position).collect()
}

/// Adds the key of these parameters; false if one is not an INTEGER.
#[inline]
fn push_integers(keys: &mut Keys, positions: &[usize], parameters: &[Value]) -> bool {
    let mut key = [[0; size_of::<i32>()]; INTEGERS_MAX];
    for (place, position) in key.iter_mut().zip(positions) {
        let Some(Value::Int(number)) = parameters.get(*position) else { return false };
        let Ok(number) = i32::try_from(*number) else { return false };
        *place = integer(number);
    }
    key.get(..positions.len()).is_some_and(|key| {
        keys.push_bytes(key.as_flattened());
        true
    })
}

/// Rows of point look-ups for several sets of parameters, all in one partition.
pub(crate) struct Points {
    /// Hash of the partition; `None` for any partition.
    hash: Option<PartitionHash>,
    /// The row found for each set.
    pub ids: OfLookUps<Option<TupleId>>,
}

impl Points {
    /// Finds the rows with prefetching of index entries and images. `None` if they are in several partitions or on an
    /// error, which sequential runs will report.
    pub fn find<P: AsRef<[Value]>>(
        step: &Step,
        routing: &Routing,
        scope: &mut Scope<'_>,
        environment: &Environment,
        sets: &[P],
    ) -> Option<Self> {
        let Access::Key { index, parts, .. } = &step.access else { return None };
        let mut hash = None;
        if let Routing::One(_) = routing {
            let mut before: Option<&[Value]> = None;
            for parameters in sets.iter().map(AsRef::as_ref) {
                if before.replace(parameters).is_some_and(|before| routing.is_same(before, parameters)) {
                    continue;
                }
                let next = routing.one(scope, parameters).ok()??;
                match hash {
                    None => hash = Some(next),
                    Some(first) if first == next => {}
                    Some(first) if scope.one(first).ok()?.0.owns(next) => {}
                    Some(_) => return None,
                }
            }
        } else if *routing != Routing::Any {
            return None;
        }
        let mut keys = Keys::new(environment.buffer());
        let mut known: OfLookUps<bool> = OfLookUps::new();
        let integers = integer_parameters(parts);
        for parameters in sets.iter().map(AsRef::as_ref) {
            if let Some(positions) = &integers
                && push_integers(&mut keys, positions, parameters)
            {
                known.push(true);
                continue;
            }
            let frame = Frame::new(parameters, environment);
            known.push(keys.push(|key| push_parts(key, parts, &frame)).ok()?);
        }
        let (partition, _) = Self::place_of(hash, scope).ok()?;
        let mut found = partition.table(step.table.id).ok()?.find_each(*index, &keys).ok()?;
        environment.keep(keys.into_buffer());
        if found.len() < known.len() {
            let mut rest = found.into_iter();
            found = known.iter().map(|known| if *known { rest.next().flatten() } else { None }).collect();
        }
        Some(Self { hash, ids: found })
    }

    /// The partition of the rows.
    pub fn place<'s>(&self, scope: &'s mut Scope<'_>) -> Result<(&'s mut Partition, &'s mut Transaction)> {
        Self::place_of(self.hash, scope)
    }

    fn place_of<'s>(
        hash: Option<PartitionHash>,
        scope: &'s mut Scope<'_>,
    ) -> Result<(&'s mut Partition, &'s mut Transaction)> {
        match hash {
            Some(hash) => scope.one(hash),
            None => scope.any(),
        }
    }
}
