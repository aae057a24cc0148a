//! Parquet partitions, read by DataFusion's Parquet source over our byte ranges: it prunes row
//! groups and pages, decodes only the needed columns, and adapts types to the table's. Footers
//! and page indexes are fetched and decoded here, too.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection};
use parquet::arrow::async_reader::{AsyncFileReader, MetadataFetch};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use thermocline_pushdown::wire::ErrorKind;
use thermocline_pushdown::{Bitmap, NodeError, canonical_batch};

use super::footer_check::check_footer;
use super::footer_schema::{int96_unit, prunable};
use super::partition::wrong_bitmap;
use super::{Footer, PartitionReader, ReadOptions};
use crate::{RangeSource, decode_arrow_schema};

/// Bytes of the first read of a footer: enough for most footers in one round trip.
const FOOTER_GUESS_BYTES: u64 = 64 << 10;
/// Longest footer that is read: decoded, it is several times as large.
const FOOTER_BYTES_MAX: u64 = 64 << 20;
/// Longest page index that is read. A longer one is of an object with many columns and row groups, of
/// which a query needs few.
const PAGE_INDEX_BYTES_MAX: u64 = 16 << 20;
/// Length field and magic number at the end of an object.
const TAIL_BYTES: u64 = 8;

/// Row groups `row_groups` of the object.
pub(super) fn stream(
    reader: &PartitionReader,
    row_groups: Range<u32>,
    options: &ReadOptions,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, NodeError> {
    let reader = reader.clone();
    let options = options.clone();
    let context = Arc::clone(context);
    let schema = Arc::new(reader.table_schema.project(&options.columns).map_err(DataFusionError::from)?);
    let object = reader.source.object().path.clone();
    let opened = async move {
        let mut footer = reader.footers.get(&reader.source, false).await?;
        if pages_help(&reader, footer.metadata(), row_groups.clone(), &options) {
            footer = reader.footers.get(&reader.source, true).await?;
        }
        let plan = scan_plan(&reader, footer, row_groups, &options)?;
        plan.execute(0, context)
    };
    let columns = Arc::clone(&schema);
    let batches = opened.into_stream().try_flatten().and_then(move |batch| {
        let batch = of_table(batch, &columns);
        async move { batch }
    });
    let named = move |error: DataFusionError| DataFusionError::from(NodeError::from(error).context(&object));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.map_err(named).boxed())))
}

/// Converts a batch to the table's schema: floats get their canonical form, and the table may declare a column NOT
/// NULL.
fn of_table(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        if !field.is_nullable() && column.logical_null_count() > 0 {
            let why = format!("column '{}' has NULLs there and is NOT NULL in the table", field.name());
            return Err(NodeError::new(ErrorKind::BadData, why).into());
        }
    }
    let batch = canonical_batch(batch)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

/// The table's columns as nullable: an object may lack a column, which is then NULL.
fn as_found(table: &SchemaRef) -> SchemaRef {
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(table.fields().iter().map(nullable).collect::<Vec<_>>()))
}

fn scan_plan(
    reader: &PartitionReader,
    footer: Arc<Footer>,
    row_groups: Range<u32>,
    options: &ReadOptions,
) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
    let object = reader.source.object();
    let metadata = footer.metadata();
    if row_groups.end as usize > metadata.num_row_groups() {
        return Err(NodeError::new(
            ErrorKind::Refused,
            format!(
                "row groups {}..{} are not among the object's {}",
                row_groups.start,
                row_groups.end,
                metadata.num_row_groups()
            ),
        )
        .into());
    }
    let access = access_plan(&object.path, metadata, row_groups.clone(), options.rows.as_deref())?;
    // Without the index at hand, the source would load and decode it again for each partition.
    let has_pages = metadata.column_index().is_some() && lists_pages(metadata, row_groups.clone());

    let predicate = match &options.predicate {
        None => None,
        Some(predicate) => {
            let predicate = over_table(predicate, &reader.table_schema)?;
            prunable(&predicate, &reader.table_schema, &object.path, metadata, row_groups)?
        }
    };

    let mut parquet = TableParquetOptions::default();
    parquet.global.coerce_int96 = Some(int96_unit(metadata, &reader.table_schema).to_owned());
    let mut source = ParquetSource::new(as_found(&reader.table_schema))
        .with_table_parquet_options(parquet)
        .with_parquet_file_reader_factory(Arc::new(SourceReaderFactory { source: Arc::clone(&reader.source), footer }))
        .with_pushdown_filters(options.late_materialisation)
        .with_enable_page_index(has_pages && predicate.is_some())
        .with_bloom_filter_on_read(false);
    if let Some(predicate) = predicate {
        source = source.with_predicate(predicate);
    }
    let file = PartitionedFile::new(object.path.clone(), object.size).with_extension(access);
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_projection_indices(Some(options.columns.clone()))?
        .with_file(file)
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Whether the page index has a page for each column of every row group that has rows. A damaged one may not, and the
/// source would panic.
fn lists_pages(metadata: &ParquetMetaData, row_groups: Range<u32>) -> bool {
    let Some(index) = metadata.offset_index() else { return false };
    row_groups.map(|group| group as usize).all(|group| {
        let empty = metadata.row_groups().get(group).is_none_or(|group| group.num_rows() <= 0);
        let listed =
            |columns: &Vec<OffsetIndexMetaData>| columns.iter().all(|column| !column.page_locations().is_empty());
        empty || index.get(group).is_some_and(listed)
    })
}

/// Whether pages can be skipped: not all rows are wanted, or a column of the predicate has an index.
fn pages_help(
    reader: &PartitionReader,
    metadata: &ParquetMetaData,
    row_groups: Range<u32>,
    options: &ReadOptions,
) -> bool {
    if options.rows.is_some() {
        return true;
    }
    let Some(predicate) = &options.predicate else { return false };
    let names: HashSet<String> = collect_columns(predicate).iter().map(|column| column.name().to_owned()).collect();
    let indexed = |column: &ColumnChunkMetaData| {
        column.column_index_offset().is_some()
            && column.column_path().parts().first().is_some_and(|name| names.contains(name))
    };
    let row_groups = metadata.row_groups().iter().skip(row_groups.start as usize).take(row_groups.len());
    !reader.table_schema.fields().is_empty() && row_groups.into_iter().any(|group| group.columns().iter().any(indexed))
}

/// Access to the whole row groups, or to the rows of each that `rows` selects.
fn access_plan(
    object: &str,
    footer: &ParquetMetaData,
    row_groups: Range<u32>,
    rows: Option<&Bitmap>,
) -> Result<ParquetAccessPlan, DataFusionError> {
    let mut access = ParquetAccessPlan::new_none(footer.num_row_groups());
    let of_group =
        |group: u32| footer.row_groups().get(group as usize).map_or(0, |group| group.num_rows().max(0) as usize);
    let Some(rows) = rows else {
        // A row group without rows has no pages, and the source assumes at least one.
        row_groups.filter(|group| of_group(*group) > 0).for_each(|group| access.scan(group as usize));
        return Ok(access);
    };
    let total: usize = row_groups.clone().map(of_group).sum();
    if total != rows.len() {
        return Err(wrong_bitmap(object, rows, &total.to_string()).into());
    }
    let mut first = 0;
    for group in row_groups {
        let bits = rows.bits().slice(first, of_group(group));
        first += bits.len();
        match bits.count_set_bits() {
            0 => {}
            selected if selected == bits.len() => access.scan(group as usize),
            _ => access.set(group as usize, RowGroupAccess::Selection(RowSelection::from_boolean_buffer(bits))),
        }
    }
    Ok(access)
}

/// Of the stored bytes of `columns` (names) in these row groups, the share of the pages that hold
/// one of `rows`, and of dictionaries that such a page may need. Without an index of pages, all of a
/// row group that has one of `rows`.
pub fn selected_share(footer: &ParquetMetaData, row_groups: Range<u32>, columns: &[&str], rows: &Bitmap) -> f64 {
    let (mut selected, mut total) = (0, 0);
    let mut first = 0;
    for group in row_groups.map(|group| group as usize) {
        let Some(metadata) = footer.row_groups().get(group) else { break };
        let length = (metadata.num_rows().max(0) as usize).min(rows.len() - first);
        let bits = rows.bits().slice(first, length);
        first += length;
        let pages = footer.offset_index().and_then(|index| index.get(group));
        for (position, column) in metadata.columns().iter().enumerate() {
            if column.column_path().parts().first().is_none_or(|name| !columns.contains(&name.as_str())) {
                continue;
            }
            let bytes = column.compressed_size().max(0) as u64;
            total += bytes;
            if bits.count_set_bits() == 0 {
                continue;
            }
            let pages = pages.and_then(|columns| columns.get(position)).map(|index| index.page_locations());
            selected += match pages {
                Some(pages) => {
                    let starts = pages.iter().map(|page| (page.first_row_index.max(0) as usize).min(length));
                    let ends = starts.clone().skip(1).chain([length]);
                    let touched = pages.iter().zip(starts.zip(ends)).filter(|(_, (start, end))| {
                        start < end && bits.slice(*start, end - start).count_set_bits() > 0
                    });
                    let size = |page: &PageLocation| page.compressed_page_size.max(0) as u64;
                    let dictionary = bytes.saturating_sub(pages.iter().map(size).sum());
                    dictionary + touched.map(|(page, _)| size(page)).sum::<u64>()
                }
                None => bytes,
            };
        }
    }
    selected as f64 / total.max(1) as f64
}

/// A predicate over the needed columns, in terms of the whole table's.
fn over_table(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    reassign_expr_columns(Arc::clone(predicate), schema)
}

/// The object's footer as stored, without magic number and length.
///
/// # Errors
/// [`ErrorKind::BadData`] if the object is not a Parquet file or is truncated.
pub async fn fetch_footer(source: &dyn RangeSource) -> Result<Bytes, NodeError> {
    let object = source.object();
    let bad = |why: String| NodeError::new(ErrorKind::BadData, format!("{}: {why}", object.path));
    if object.size < TAIL_BYTES + 4 {
        return Err(bad(format!("{} bytes are too few for a Parquet file", object.size)));
    }
    let start = object.size.saturating_sub(FOOTER_GUESS_BYTES);
    let tail = read_one(source, start..object.size).await?;
    let (before, end) = tail.split_at_checked(tail.len() - TAIL_BYTES as usize).unwrap_or((&[], &tail));
    let (length, magic) = end.split_at_checked(4).unwrap_or((&[], end));
    if magic != b"PAR1" {
        return Err(bad("not a Parquet file, or cut short: it does not end in PAR1".into()));
    }
    let length = u64::from(u32::from_le_bytes(length.try_into().unwrap_or_default()));
    let footer_end = object.size - TAIL_BYTES;
    let Some(footer_start) = footer_end.checked_sub(length).filter(|start| *start >= 4) else {
        return Err(bad(format!("corrupt Parquet file: a footer of {length} bytes in {} bytes", object.size)));
    };
    if length > FOOTER_BYTES_MAX {
        return Err(bad(format!("its footer has {length} bytes, more than the {FOOTER_BYTES_MAX} that are read")));
    }
    if footer_start >= start {
        let from = before.len() - length as usize;
        return Ok(tail.slice(from..before.len()));
    }
    read_one(source, footer_start..footer_end).await
}

/// Decodes a Parquet footer as stored, without page index.
///
/// # Errors
/// [`ErrorKind::BadData`] if the bytes are not a footer.
pub fn decode_footer(object: &str, footer: &[u8]) -> Result<ParquetMetaData, NodeError> {
    let bad = |why: String| NodeError::new(ErrorKind::BadData, format!("{object}: corrupt Parquet footer: {why}"));
    check_footer(footer).map_err(bad)?;
    let decoded = ParquetMetaDataReader::decode_metadata(footer).map_err(|error| bad(error.to_string()))?;
    for group in decoded.row_groups() {
        let negative = |column: &ColumnChunkMetaData| {
            let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
            start.min(column.compressed_size()).min(column.uncompressed_size()).min(column.num_values()) < 0
        };
        if group.num_rows() < 0 || group.columns().iter().any(negative) {
            return Err(bad("a row group has negative sizes".into()));
        }
    }
    check_arrow_schema(&decoded).map_err(bad)?;
    Ok(decoded)
}

/// Checks the Arrow schema that a writer put into the footer, from which columns get their types.
fn check_arrow_schema(footer: &ParquetMetaData) -> Result<(), String> {
    const CONTINUATION: [u8; 4] = [0xff; 4];
    let entries = footer.file_metadata().key_value_metadata().into_iter().flatten();
    let schemas = entries.filter(|entry| entry.key == ARROW_SCHEMA_META_KEY).filter_map(|entry| entry.value.as_ref());
    for encoded in schemas {
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|error| format!("its Arrow schema: {error}"))?;
        // Newer writers put a mark and the length before the message.
        let message = match bytes.split_at_checked(8) {
            Some((head, message)) if head.starts_with(&CONTINUATION) => message,
            _ => &bytes,
        };
        decode_arrow_schema(message).map_err(|why| format!("its Arrow schema: {why}"))?;
    }
    Ok(())
}

async fn read_one(source: &dyn RangeSource, range: Range<u64>) -> Result<Bytes, NodeError> {
    let read = source.read(std::slice::from_ref(&range)).await?;
    Ok(read.into_iter().next().unwrap_or_default())
}

/// The metadata with the page index, unless there is none or it is too large to be worth reading.
pub(super) async fn with_page_index(
    source: &Arc<dyn RangeSource>,
    metadata: Arc<ParquetMetaData>,
) -> Result<Arc<ParquetMetaData>, NodeError> {
    let span = page_index_span(&metadata);
    if span.as_ref().is_none_or(|span| span.end - span.start > PAGE_INDEX_BYTES_MAX) {
        return Ok(metadata);
    }
    let object = &source.object().path;
    let bad = |error: ParquetError| {
        NodeError::from(DataFusionError::from(error)).context(format!("{object}: its page index"))
    };
    let mut reader = ParquetMetaDataReader::new_with_metadata(ParquetMetaData::clone(&metadata))
        .with_page_index_policy(PageIndexPolicy::Optional);
    reader.load_page_index(SourceFetch(Arc::clone(source))).await.map_err(bad)?;
    Ok(Arc::new(reader.finish().map_err(bad)?))
}

/// Where in the object the page index is, from its first byte to its last; `None` without one.
fn page_index_span(metadata: &ParquetMetaData) -> Option<Range<u64>> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let parts = columns.flat_map(|column| {
        [
            (column.column_index_offset(), column.column_index_length()),
            (column.offset_index_offset(), column.offset_index_length()),
        ]
    });
    let ranges = parts.filter_map(|(offset, length)| {
        let (start, length) = (u64::try_from(offset?).ok()?, u64::try_from(length?).ok()?);
        Some(start..start.saturating_add(length))
    });
    ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end))
}

struct SourceFetch(Arc<dyn RangeSource>);

impl MetadataFetch for SourceFetch {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(read_one(self.0.as_ref(), range).await?) }.boxed()
    }
}

#[derive(Debug)]
struct SourceReaderFactory {
    source: Arc<dyn RangeSource>,
    footer: Arc<Footer>,
}

impl ParquetFileReaderFactory for SourceReaderFactory {
    fn create_reader(
        &self,
        _: usize,
        _: PartitionedFile,
        _: Option<usize>,
        _: &ExecutionPlanMetricsSet,
    ) -> datafusion::common::Result<Box<dyn AsyncFileReader + Send>> {
        Ok(Box::new(SourceReader { source: Arc::clone(&self.source), footer: Arc::clone(&self.footer) }))
    }
}

/// The parquet crate's view of a [`RangeSource`]: all column chunks of a row group in one read.
struct SourceReader {
    source: Arc<dyn RangeSource>,
    footer: Arc<Footer>,
}

impl AsyncFileReader for SourceReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(read_one(self.source.as_ref(), range).await?) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { Ok(self.source.read(&ranges).await?) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let metadata = Arc::clone(self.footer.metadata());
        async move { Ok(metadata) }.boxed()
    }
}
