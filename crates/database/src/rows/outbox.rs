//! Batches between the thread of an executor partition, which fills them, and the query that takes them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;
use thermocline_transactions::reader::RowSink;
use thermocline_transactions::table::Row;
use thermocline_transactions::types::{DataType, ValueRef};
use thermocline_transactions::{Error, Result};

use crate::arrow::Column;

/// Rows per batch.
const BATCH_ROWS: usize = 8192;
/// Bytes of text after which a batch is complete with fewer rows.
const BATCH_BYTES: usize = 1 << 20;

/// Queue of batches of one partition, charged to the query.
pub struct Outbox {
    batches: Mutex<VecDeque<(RecordBatch, usize)>>,
    memory: MemoryReservation,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("bytes", &self.memory.size()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// An empty queue.
    pub fn new(memory: MemoryReservation) -> Self {
        Self { batches: Mutex::default(), memory }
    }

    /// Takes the next batch, if there is one.
    pub fn take(&self) -> Option<RecordBatch> {
        let (batch, bytes) = self.batches.lock().pop_front()?;
        self.memory.shrink(bytes);
        Some(batch)
    }

    fn put(&self, table: &str, batch: RecordBatch) -> Result<()> {
        let bytes = batch.get_array_memory_size();
        self.memory.try_grow(bytes).map_err(|error| {
            let error = error.strip_backtrace();
            Error::OutOfMemory(format!("rows of table \"{table}\" that a query has not taken yet: {error}").into())
        })?;
        self.batches.lock().push_back((batch, bytes));
        Ok(())
    }
}

/// Copies columns of rows into batches, on the thread of their partition.
pub struct BatchSink {
    /// Name of the table, for messages.
    table: Box<str>,
    schema: SchemaRef,
    /// Columns by position in the table, with their builders.
    columns: Vec<(usize, Column)>,
    rows: usize,
    bytes: usize,
    outbox: Arc<Outbox>,
    /// Whether a batch was completed with or before the last row.
    pauses: bool,
}

impl BatchSink {
    /// A sink for the columns at these positions of a table.
    pub fn new(
        table: &str,
        schema: SchemaRef,
        columns: impl Iterator<Item = (usize, DataType)>,
        outbox: Arc<Outbox>,
    ) -> Result<Self> {
        let columns = columns.map(|(position, data_type)| Ok((position, Column::new(data_type)?)));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { table: table.into(), schema, columns, rows: 0, bytes: 0, outbox, pauses: false })
    }

    /// Counts a row that is in the columns, and hands on a batch that is complete.
    fn added(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.hand_on() } else { Ok(()) }
    }

    fn hand_on(&mut self) -> Result<()> {
        let arrays = self.columns.iter_mut().map(|(_, column)| column.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        (self.rows, self.bytes, self.pauses) = (0, 0, true);
        self.outbox.put(&self.table, batch.map_err(Error::internal)?)
    }
}

impl RowSink for BatchSink {
    fn row(&mut self, row: Row<'_>) -> Result<()> {
        self.pauses = false;
        let bytes = self.columns.iter().map(|(position, _)| heap_bytes(row.value(*position))).sum::<usize>();
        // Long rows do not add up in one batch.
        if self.rows > 0 && self.bytes + bytes > BATCH_BYTES {
            self.hand_on()?;
        }
        for (position, column) in &mut self.columns {
            column.push(row.value(*position))?;
        }
        self.bytes += bytes;
        self.added()
    }

    fn count(&mut self) -> Result<bool> {
        if !self.columns.is_empty() {
            return Ok(false);
        }
        self.pauses = false;
        self.added().map(|()| true)
    }

    fn pauses(&self) -> bool {
        self.pauses
    }

    fn finish(&mut self) -> Result<()> {
        if self.rows > 0 { self.hand_on() } else { Ok(()) }
    }
}

/// Bytes of a value of variable length.
fn heap_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Bytes(bytes) => bytes.len(),
        ValueRef::Jsonb(jsonb) => jsonb.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

    use super::*;

    #[test]
    fn a_sink_that_counts_pauses_with_full_batches_alone() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let outbox = Arc::new(Outbox::new(MemoryConsumer::new("rows").register(&pool)));
        let schema = Arc::new(Schema::empty());
        let mut sink = BatchSink::new("t", schema, std::iter::empty(), Arc::clone(&outbox)).unwrap();
        let mut pauses = Vec::new();
        for row in 0..2 * BATCH_ROWS + 1 {
            assert!(sink.count().unwrap());
            if sink.pauses() {
                pauses.push(row + 1);
            }
        }
        assert_eq!(pauses, [BATCH_ROWS, 2 * BATCH_ROWS]);
        sink.finish().unwrap();
        let rows: Vec<usize> = std::iter::from_fn(|| outbox.take()).map(|batch| batch.num_rows()).collect();
        assert_eq!(rows, [BATCH_ROWS, BATCH_ROWS, 1]);
    }
}
