//! Rows written by a statement.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use thermocline_machine::ids::PartitionId;
use thermocline_tables::table::{Structure, TupleId};
use thermocline_types::{Class, Result};

use crate::expression::Environment;

type Row = (PartitionId, TupleId);

/// Rows written by a statement. ON CONFLICT DO UPDATE must not change one of them again, because the order of the two
/// changes would be arbitrary.
pub(super) struct Touched<'e> {
    rows: HashSet<Row, BuildHasherDefault<DefaultHasher>>,
    memory: Structure<'e>,
}

impl<'e> Touched<'e> {
    pub fn new(environment: &'e Environment) -> Self {
        Self { rows: HashSet::default(), memory: environment.structure("rows of ON CONFLICT") }
    }

    /// Records that a row has been written.
    pub fn note(&mut self, partition: PartitionId, row: TupleId) -> Result<()> {
        if self.rows.len() == self.rows.capacity() {
            self.memory.grow((self.rows.capacity() + 3) * (size_of::<Row>() + 1) * 2)?;
        }
        self.rows.insert((partition, row));
        Ok(())
    }

    /// Returns an error if the row has been written already.
    pub fn check(&self, partition: PartitionId, row: TupleId) -> Result<()> {
        match self.rows.contains(&(partition, row)) {
            true => Err(Class::Cardinality.error(
                "ON CONFLICT DO UPDATE meets a row for the second time: no two rows of one statement may have one key",
            )),
            false => Ok(()),
        }
    }
}
