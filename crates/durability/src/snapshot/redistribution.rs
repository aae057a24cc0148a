//! Row files for another number of partitions.

use thermocline_machine::ids::PartitionId;
use thermocline_tables::PartitionHash;
use thermocline_tables::partition::Member;
use thermocline_tables::schema::TableDefinition;
use thermocline_tables::table::TupleId;
use thermocline_types::{Class, Result};

use super::rows::ChunkBuilder;
use super::writer::SnapshotWriter;

/// Rows written between two calls of `check`.
const ROWS_BETWEEN_CHECKS: u32 = 1 << 12;

/// Writes the rows of all partitions as those of another number of partitions: each where the hash of its table's
/// partition column puts it, and those of a replicated table once, into the first partition's file. No transaction or
/// load runs meanwhile. `check` returns an error if this is to stop.
///
/// A row that moves to another partition gets a new id there; rows keep their order by partition and id. Rows of a
/// replicated table keep their ids.
pub fn write_redistributed(
    members: &[Member],
    writer: &mut SnapshotWriter,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Some(first) = members.first() else { return Ok(()) };
    for table in first.partition.tables() {
        let definition = table.definition();
        let mut files: Vec<File> = (0..writer.partitions()).map(|_| File::default()).collect();
        match definition.partition_by {
            None => {
                for (row, id) in (1..).zip(table.scan()) {
                    ask(row, check)?;
                    first.partition.visit(definition.id, id, &mut |row| {
                        let mut file = files.iter_mut().take(1);
                        file.try_for_each(|file| file.push(definition, id, row.image(), PartitionId(0), writer))
                    })?;
                }
            }
            Some(column) => {
                for member in members {
                    let table = member.partition.table(definition.id)?;
                    for (row, id) in (1..).zip(table.scan()) {
                        ask(row, check)?;
                        member.partition.visit(definition.id, id, &mut |row| {
                            let number = PartitionHash::of(row.value(column)).partition(writer.partitions().into());
                            // The number is less than the number of partitions.
                            let partition = PartitionId(u16::try_from(number).unwrap_or(u16::MAX));
                            let Some(file) = files.get_mut(usize::from(partition.0)) else { return Ok(()) };
                            let id = file.next_id(definition)?;
                            file.push(definition, id, row.image(), partition, writer)
                        })?;
                    }
                }
            }
        }
        for (partition, file) in (0..).map(PartitionId).zip(&mut files) {
            if let Some(mut chunk) = file.rows.take() {
                writer.append(partition, &mut chunk)?;
            }
        }
    }
    Ok(())
}

fn ask(row: u32, check: &dyn Fn() -> Result<()>) -> Result<()> {
    if row.is_multiple_of(ROWS_BETWEEN_CHECKS) { check() } else { Ok(()) }
}

/// Rows of one table on their way to a partition's file.
#[derive(Debug, Default)]
struct File {
    rows: ChunkBuilder,
    /// Memory of a written chunk, for the next one.
    spare: Vec<u8>,
    next: u32,
}

impl File {
    fn next_id(&mut self, table: &TableDefinition) -> Result<TupleId> {
        let id = TupleId(self.next);
        if id > TupleId::MAX {
            let message = format_args!("table \"{}\" has more rows than one of so few partitions can have", table.name);
            return Err(Class::LimitExceeded.error(message));
        }
        self.next += 1;
        Ok(id)
    }

    fn push(
        &mut self,
        table: &TableDefinition,
        id: TupleId,
        image: &[u8],
        partition: PartitionId,
        writer: &mut SnapshotWriter,
    ) -> Result<()> {
        if let Some(mut chunk) = self.rows.push(table.id, id, image, &mut self.spare) {
            writer.append(partition, &mut chunk)?;
            chunk.clear();
            self.spare = chunk;
        }
        Ok(())
    }
}
