//! Reading only the rows that an index finds.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{BooleanBufferBuilder, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use thermocline_formats::{PartitionReader, ReadOptions, selected_share};
use thermocline_pushdown::wire::{ErrorKind, FragmentReport};
use thermocline_pushdown::{BITMAP_ROWS_MAX, Bitmap, FileFormat, Lookup, NodeError, PartitionRange};

use super::StorageNode;
use crate::blocking::blocking;
use crate::index::{Found, Identity, IndexFile, KeyRanges, Position, Unusable};

/// A search ends when it has found more than one in so many rows of a partition. Spread evenly,
/// these are in nearly every page of a Parquet column (at most 20 000 rows each), and in nearly every
/// piece of a CSV object that is read at once.
const ROWS_PER_FIND: u64 = 32;
/// Of a Parquet partition, the rows found must leave at least half of the pages' bytes unread.
const SHARE_MAX: f64 = 0.5;

/// The indexes that a fragment over one object may use, and counts of their use.
#[derive(Debug)]
pub(super) struct IndexUse {
    node: Arc<StorageNode>,
    /// Lookups of the fragment's predicate in columns that have an index object.
    lookups: Vec<(Identity, PathBuf, KeyRanges)>,
    partitions: AtomicU64,
    bytes_read: AtomicU64,
    unusable: AtomicBool,
}

/// The rows of a partition that indexes leave.
enum Rows {
    /// Nothing that would save work.
    All,
    /// All others fail the predicate. Of Parquet, rows from the first one of the partition, and how
    /// many rows there are; of CSV, records.
    Only(Vec<Position>, u64),
}

impl IndexUse {
    /// The indexes that may help with `predicate`; `None` if there are none.
    pub(super) async fn of(
        node: &Arc<StorageNode>,
        reader: &PartitionReader,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
    ) -> Result<Option<Arc<Self>>, NodeError> {
        let (object, schema) = (reader.source.object(), &reader.table_schema);
        let mut lookups = vec![];
        for lookup in predicate.map(Lookup::of).unwrap_or_default() {
            let Some((column, field)) = schema.column_with_name(&lookup.column) else { continue };
            let Some(keys) = KeyRanges::of(&lookup, field.data_type()) else { continue };
            let identity = Identity::new(&object.path, &reader.format, schema, column);
            let Some(path) = node.indexes.path(&identity) else { continue };
            lookups.push((identity, path, keys));
        }
        if !lookups.is_empty() {
            lookups = blocking((), move |_| {
                lookups.retain(|(_, path, _)| path.exists());
                Ok(lookups)
            })
            .await?;
        }
        Ok((!lookups.is_empty()).then(|| {
            Arc::new(Self {
                node: Arc::clone(node),
                lookups,
                partitions: AtomicU64::new(0),
                bytes_read: AtomicU64::new(0),
                unusable: AtomicBool::new(false),
            })
        }))
    }

    /// Adds what came of it to the report of a fragment.
    pub(super) fn add_to(&self, report: &mut FragmentReport) {
        let index_bytes_read = self.bytes_read.load(Ordering::Relaxed);
        report.bytes_read += index_bytes_read;
        report.index_bytes_read = index_bytes_read;
        report.partitions_indexed = self.partitions.load(Ordering::Relaxed);
        report.index_unusable = self.unusable.load(Ordering::Relaxed);
    }

    /// The rows of a partition that may pass the predicate.
    pub(super) async fn stream(
        &self,
        reader: PartitionReader,
        range: PartitionRange,
        options: &ReadOptions,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream, NodeError> {
        let schema = Arc::new(reader.table_schema.project(&options.columns).map_err(DataFusionError::from)?);
        match self.rows(&reader, range).await? {
            Rows::All => {}
            Rows::Only(found, _) if found.is_empty() => {
                self.partitions.fetch_add(1, Ordering::Relaxed);
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty())));
            }
            Rows::Only(found, _) if matches!(reader.format, FileFormat::Csv(_)) => {
                if let Some(rows) = self.records(&reader, found, &schema, options, context).await? {
                    return Ok(rows);
                }
            }
            Rows::Only(found, rows) => {
                let selected = bitmap(&found, rows);
                if self.saves_pages(&reader, range, &options.columns, &selected).await? {
                    self.partitions.fetch_add(1, Ordering::Relaxed);
                    let options = ReadOptions { rows: Some(Arc::new(selected)), ..options.clone() };
                    return reader.stream(range, &options, context);
                }
            }
        }
        reader.stream(range, options, context)
    }

    /// The rows of a Parquet partition that may pass the predicate, if that leaves enough of
    /// `columns` unread.
    pub(super) async fn bitmap(
        &self,
        reader: &PartitionReader,
        range: PartitionRange,
        columns: &[usize],
    ) -> Result<Option<Bitmap>, NodeError> {
        if !matches!(reader.format, FileFormat::Parquet) {
            return Ok(None);
        }
        let Rows::Only(found, rows) = self.rows(reader, range).await? else { return Ok(None) };
        let selected = bitmap(&found, rows);
        let saves = found.is_empty() || self.saves_pages(reader, range, columns, &selected).await?;
        self.partitions.fetch_add(u64::from(saves), Ordering::Relaxed);
        Ok(saves.then_some(selected))
    }

    /// Records of a CSV partition; `None` if they turn out not to be readable one by one.
    async fn records(
        &self,
        reader: &PartitionReader,
        mut found: Vec<Position>,
        schema: &SchemaRef,
        options: &ReadOptions,
        context: &Arc<TaskContext>,
    ) -> Result<Option<SendableRecordBatchStream>, NodeError> {
        found.sort_unstable();
        let records: Vec<Range<u64>> =
            found.iter().map(|record| record.at..record.at.saturating_add(u64::from(record.length))).collect();
        let batches = match reader.records(&records, &options.columns, context).await {
            Ok(batches) => batches,
            Err(error) if error.kind == ErrorKind::BadData => {
                // Read in order, the partition gives the same error with the right row, or none.
                tracing::debug!("records found through an index are not read by themselves: {error}");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let memory = MemoryConsumer::new("records found through an index").register(context.memory_pool());
        memory.try_grow(batches.iter().map(RecordBatch::get_array_memory_size).sum())?;
        self.partitions.fetch_add(1, Ordering::Relaxed);
        let batches = batches.into_iter().map(move |batch| {
            memory.shrink(batch.get_array_memory_size().min(memory.size()));
            Ok(batch)
        });
        Ok(Some(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), futures::stream::iter(batches)))))
    }

    /// Whether reading only `rows` leaves enough pages of `columns` unread.
    async fn saves_pages(
        &self,
        reader: &PartitionReader,
        range: PartitionRange,
        columns: &[usize],
        rows: &Bitmap,
    ) -> Result<bool, NodeError> {
        let PartitionRange::RowGroups { start, end } = range else { return Ok(false) };
        let footer = reader.footers.get(&reader.source, true).await?;
        let footer = footer.metadata();
        let of_partition = footer.row_groups().iter().skip(start as usize).take(end.saturating_sub(start) as usize);
        let stored: i64 = of_partition.map(|group| group.num_rows().max(0)).sum();
        if stored != rows.len() as i64 {
            return Ok(false);
        }
        let names: Vec<&str> = columns
            .iter()
            .filter_map(|column| reader.table_schema.fields().get(*column))
            .map(|field| field.name().as_str())
            .collect();
        Ok(selected_share(footer, start..end, &names, rows) <= SHARE_MAX)
    }

    /// The rows of the index that finds the fewest.
    async fn rows(&self, reader: &PartitionReader, range: PartitionRange) -> Result<Rows, NodeError> {
        let mut fewest = Rows::All;
        for (identity, path, keys) in &self.lookups {
            let (node, object) = (Arc::clone(&self.node), reader.source.object().clone());
            let (identity, path, keys) = (identity.clone(), path.clone(), keys.clone());
            let (rows, bytes_read, usable) = blocking((), move |_| {
                let mut index = match node.indexes.open(&identity, &object) {
                    Ok(Some(index)) => index,
                    Ok(None) => return Ok((Rows::All, 0, true)),
                    Err(_) => return Ok((Rows::All, 0, false)),
                };
                let rows = search(&mut index, range, &keys);
                if let Err(why) = &rows {
                    node.indexes.unusable(&path, &object, why);
                }
                let usable = rows.is_ok();
                Ok((rows.unwrap_or(Rows::All), index.bytes_read, usable))
            })
            .await?;
            self.bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
            self.unusable.fetch_or(!usable, Ordering::Relaxed);
            fewest = match (fewest, rows) {
                (fewest, Rows::All) => fewest,
                (Rows::Only(known, total), Rows::Only(found, _)) if known.len() <= found.len() => {
                    Rows::Only(known, total)
                }
                (_, found) => found,
            };
        }
        Ok(fewest)
    }
}

fn search(index: &mut IndexFile, range: PartitionRange, keys: &KeyRanges) -> Result<Rows, Unusable> {
    let rows = index.rows(range)?;
    if rows > BITMAP_ROWS_MAX {
        return Ok(Rows::All);
    }
    let limit = (rows / ROWS_PER_FIND).max(1);
    Ok(match index.search(range, keys, usize::try_from(limit).unwrap_or(usize::MAX))? {
        Found::TooMany => Rows::All,
        Found::Positions(found) => Rows::Only(found, rows),
    })
}

/// The bitmap of rows `found` among `rows`.
fn bitmap(found: &[Position], rows: u64) -> Bitmap {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, false);
    for position in found {
        if let Ok(row) = usize::try_from(position.at)
            && row < rows
        {
            bits.set_bit(row, true);
        }
    }
    Bitmap::new(bits.finish())
}
