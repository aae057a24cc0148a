//! Objects as planned with: their partitions, sizes and statistics.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::Array;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, ScalarValue};
use parking_lot::RwLock;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use thermocline_pushdown::wire::{ColumnStatistics, Description, ErrorKind, ObjectEntry, decode_scalar};
use thermocline_pushdown::{FileFormat, ObjectPath, ObjectVersion, PartitionRange, TextCompression};
use thermocline_storage::{NodeClient, NodeError, decode_footer};

/// Smallest and largest value of a column in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRange {
    /// No value is smaller.
    pub min: ScalarValue,
    /// No value is larger.
    pub max: ScalarValue,
    /// NULLs, if counted.
    pub null_count: Option<u64>,
}

impl ColumnRange {
    /// The range that covers all; `None` if there is none or one is not known.
    pub fn covering(ranges: impl IntoIterator<Item = Option<ColumnRange>>) -> Option<ColumnRange> {
        let mut all: Option<ColumnRange> = None;
        for range in ranges {
            let range = range?;
            all = Some(match all {
                None => range,
                Some(all) => ColumnRange {
                    min: if range.min < all.min { range.min } else { all.min },
                    max: if range.max > all.max { range.max } else { all.max },
                    null_count: all.null_count.zip(range.null_count).map(|(a, b)| a + b),
                },
            });
        }
        all
    }
}

/// One object of a table, in one version.
#[derive(Debug)]
pub struct PlannedObject {
    /// The node that holds it.
    pub node: NodeClient,
    /// Path, version and size.
    pub entry: ObjectEntry,
    /// Path and version as keys of the cache.
    pub path: ObjectPath,
    /// See [`PlannedObject::path`].
    pub version: ObjectVersion,
    /// Columns of the CSV header; empty without one.
    pub header: Vec<String>,
    /// Its partitions, in storage order.
    pub partitions: Vec<Arc<Partition>>,
}

/// One partition of an object: the unit of routing.
#[derive(Debug)]
pub struct Partition {
    /// What it covers.
    pub range: PartitionRange,
    /// Rows, exactly.
    pub rows: u64,
    /// All columns of the table.
    schema: SchemaRef,
    /// Stored bytes of each of the table's columns; of a CSV partition, which has no columns, the
    /// whole partition's for each.
    column_bytes: Vec<u64>,
    /// Bytes that each column is expected to take in memory.
    memory_bytes: Vec<usize>,
    /// Whether all columns share the stored bytes.
    row_oriented: bool,
    /// Whether these are compressed text.
    is_compressed: bool,
    /// Per column of the table: its range, once known.
    statistics: RwLock<Vec<Option<ColumnRange>>>,
    /// How often a range was learnt.
    learnt: AtomicU64,
}

impl Partition {
    /// Stored bytes that have to be read for `columns` of the table.
    pub fn stored_bytes(&self, columns: &[usize]) -> u64 {
        let of = |column: &usize| self.column_bytes.get(*column).copied().unwrap_or(0);
        if self.row_oriented {
            self.column_bytes.iter().copied().max().unwrap_or(0)
        } else {
            columns.iter().map(of).sum()
        }
    }

    /// Bytes that `column` of the table is expected to take in memory.
    pub fn memory_bytes(&self, column: usize) -> usize {
        self.memory_bytes.get(column).copied().unwrap_or(0)
    }

    /// Whether the stored bytes hold whole rows, so that one column costs as much as all.
    pub fn is_row_oriented(&self) -> bool {
        self.row_oriented
    }

    /// Whether the stored bytes are text as it is, which is larger than any part of it in Arrow.
    pub fn is_plain_text(&self) -> bool {
        self.row_oriented && !self.is_compressed
    }

    /// What is known of `column` of the table.
    pub fn range_of(&self, column: usize) -> Option<ColumnRange> {
        self.statistics.read().get(column).cloned().flatten()
    }

    /// How often a range was learnt: as long as it does not change, ranges do not.
    pub(super) fn learnt(&self) -> u64 {
        self.learnt.load(Ordering::Acquire)
    }

    /// Remembers statistics that a read of whole columns found.
    pub fn learn(&self, found: &ColumnStatistics) {
        let Some((column, field)) = self.schema.column_with_name(&found.column) else {
            return;
        };
        let (Ok(min), Ok(max)) = (decode_scalar(&found.min), decode_scalar(&found.max)) else {
            return;
        };
        if min.data_type() != *field.data_type() || max.data_type() != *field.data_type() {
            return;
        }
        let range = Some(ColumnRange { min, max, null_count: Some(found.null_count) });
        if let Some(known) = self.statistics.write().get_mut(column).filter(|known| **known != range) {
            *known = range;
            self.learnt.fetch_add(1, Ordering::Release);
        }
    }
}

impl PlannedObject {
    /// Cuts an object into partitions by what its node said of it. Gives back the footer as well, of a
    /// format that has one; it is kept with those of the node, not with the object.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] if the description is corrupt or does not fit the table.
    pub fn plan(
        node: NodeClient,
        entry: ObjectEntry,
        description: Description,
        format: &FileFormat,
        schema: &SchemaRef,
        partition_bytes: u64,
    ) -> Result<(Arc<Self>, Option<Arc<ParquetMetaData>>), NodeError> {
        let (footer, partitions) = match format {
            FileFormat::Parquet => {
                let footer = Arc::new(decode_footer(&entry.path, &description.footer)?);
                node.footers().put(&entry, Arc::clone(&footer));
                let partitions = parquet_partitions(&entry, &footer, schema, partition_bytes)
                    .map_err(|error| NodeError::new(ErrorKind::BadData, format!("{}: {error}", entry.path)))?;
                (Some(footer), partitions)
            }
            FileFormat::Csv(_) => (None, csv_partitions(&entry, &description, schema)),
        };
        let object = Self {
            path: ObjectPath::new(entry.path.as_str()),
            version: ObjectVersion::new(entry.version.as_str()),
            node,
            entry,
            header: description.header,
            partitions: partitions.into_iter().map(Arc::new).collect(),
        };
        Ok((Arc::new(object), footer))
    }
}

/// Row groups, small neighbours taken together up to `partition_bytes`.
fn parquet_partitions(
    entry: &ObjectEntry,
    footer: &ParquetMetaData,
    schema: &SchemaRef,
    partition_bytes: u64,
) -> Result<Vec<Partition>> {
    let mut groups: Vec<Range<usize>> = vec![];
    let mut bytes = 0;
    for (position, row_group) in footer.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let (start, length) = column.byte_range();
            if start.checked_add(length).is_none_or(|end| end > entry.size) {
                return Err(NodeError::new(
                    ErrorKind::BadData,
                    format!(
                        "corrupt Parquet footer: column chunk {start}+{length} lies outside of {} bytes",
                        entry.size
                    ),
                )
                .into());
            }
        }
        let size = row_group.columns().iter().map(|column| column.compressed_size().max(0) as u64).sum::<u64>();
        match groups.last_mut() {
            Some(last) if bytes + size <= partition_bytes => {
                last.end = position + 1;
                bytes += size;
            }
            _ => {
                groups.push(position..position + 1);
                bytes = size;
            }
        }
    }
    let ranges = parquet_ranges(footer, schema)?;
    let leaves = leaves_by_name(footer);
    groups.into_iter().map(|group| parquet_partition(footer, schema, &ranges, &leaves, group)).collect()
}

/// Where among the chunks of a row group those of each column are: a nested column has several leaves.
fn leaves_by_name(footer: &ParquetMetaData) -> HashMap<&str, Range<usize>> {
    let mut leaves: HashMap<&str, Range<usize>> = HashMap::new();
    for (position, leaf) in footer.file_metadata().schema_descr().columns().iter().enumerate() {
        if let Some(name) = leaf.path().parts().first() {
            leaves.entry(name).or_insert(position..position).end = position + 1;
        }
    }
    leaves
}

fn parquet_partition(
    footer: &ParquetMetaData,
    schema: &SchemaRef,
    ranges: &[Vec<Option<ColumnRange>>],
    leaves: &HashMap<&str, Range<usize>>,
    group: Range<usize>,
) -> Result<Partition> {
    let row_groups = footer.row_groups().get(group.clone()).unwrap_or_default();
    let rows: u64 = row_groups.iter().map(|row_group| row_group.num_rows().max(0) as u64).sum();
    let mut column_bytes = Vec::with_capacity(schema.fields().len());
    let mut memory_bytes = Vec::with_capacity(schema.fields().len());
    let mut statistics = Vec::with_capacity(schema.fields().len());
    for (position, field) in schema.fields().iter().enumerate() {
        let leaves = leaves.get(field.name().as_str()).cloned().unwrap_or_default();
        let leaves =
            row_groups.iter().flat_map(|row_group| row_group.columns().get(leaves.clone()).unwrap_or_default());
        let (stored, plain) = leaves.fold((0, 0), |(stored, plain), column| {
            (stored + column.compressed_size().max(0) as u64, plain + column.uncompressed_size().max(0) as usize)
        });
        column_bytes.push(stored);
        memory_bytes.push(memory_estimate(field.data_type(), field.is_nullable(), rows, plain));
        let of_column = ranges.get(position).and_then(|ranges| ranges.get(group.clone()));
        statistics.push(of_column.and_then(|ranges| ColumnRange::covering(ranges.iter().cloned())));
    }
    Ok(Partition {
        range: PartitionRange::RowGroups { start: group.start as u32, end: group.end as u32 },
        rows,
        schema: Arc::clone(schema),
        column_bytes,
        memory_bytes,
        row_oriented: false,
        is_compressed: false,
        statistics: RwLock::new(statistics),
        learnt: AtomicU64::new(0),
    })
}

/// Per column of the table, per row group, what the footer says.
fn parquet_ranges(footer: &ParquetMetaData, schema: &SchemaRef) -> Result<Vec<Vec<Option<ColumnRange>>>> {
    let groups = footer.num_row_groups();
    let file_schema = footer.file_metadata().schema_descr();
    schema
        .fields()
        .iter()
        .map(|field| {
            let unknown = || vec![None; groups];
            let Ok(converter) = StatisticsConverter::try_new(field.name(), schema, file_schema) else {
                return Ok(unknown());
            };
            let metadata = footer.row_groups();
            let (Ok(mins), Ok(maxes), Ok(nulls)) = (
                converter.row_group_mins(metadata.iter()),
                converter.row_group_maxes(metadata.iter()),
                converter.row_group_null_counts(metadata.iter()),
            ) else {
                return Ok(unknown());
            };
            (0..groups)
                .map(|group| {
                    let min = ScalarValue::try_from_array(&mins, group)?;
                    let max = ScalarValue::try_from_array(&maxes, group)?;
                    let null_count = nulls.is_valid(group).then(|| nulls.value(group));
                    Ok((!min.is_null() && !max.is_null()).then_some(ColumnRange { min, max, null_count }))
                })
                .collect()
        })
        .collect()
}

fn csv_partitions(entry: &ObjectEntry, description: &Description, schema: &SchemaRef) -> Vec<Partition> {
    let is_compressed = TextCompression::of_path(&entry.path) != TextCompression::None;
    let mut first_row = 0;
    let columns = schema.fields().len();
    description
        .splits
        .iter()
        .map(|split| {
            let bytes = split.end.saturating_sub(split.start);
            let text = (bytes as usize) / columns.max(1);
            // There is one split then, of the text.
            let stored = if is_compressed { entry.size } else { bytes };
            let partition = Partition {
                range: PartitionRange::Bytes { start: split.start, end: split.end, first_row },
                rows: split.rows,
                schema: Arc::clone(schema),
                column_bytes: vec![stored; columns],
                memory_bytes: schema
                    .fields()
                    .iter()
                    .map(|field| memory_estimate(field.data_type(), field.is_nullable(), split.rows, text))
                    .collect(),
                row_oriented: true,
                is_compressed,
                statistics: RwLock::new(vec![None; columns]),
                learnt: AtomicU64::new(0),
            };
            first_row += split.rows;
            partition
        })
        .collect()
}

/// Bytes of an array of `rows`: exact for types of fixed width, and an upper estimate for strings
/// whose plain text is `plain` bytes.
fn memory_estimate(data_type: &DataType, nullable: bool, rows: u64, plain: usize) -> usize {
    const ARRAY_BYTES: usize = 1024;
    let rows = rows as usize;
    let values = match data_type {
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8View | DataType::BinaryView => rows * 16 + plain,
        DataType::Utf8 | DataType::Binary => rows * 4 + plain,
        data_type => data_type.primitive_width().map_or(rows * 8 + plain, |width| rows * width),
    };
    let nulls = if nullable { rows.div_ceil(8) } else { 0 };
    values + nulls + ARRAY_BYTES
}

impl From<&ColumnRange> for datafusion::common::ColumnStatistics {
    fn from(range: &ColumnRange) -> Self {
        use datafusion::common::stats::Precision;
        // Parquet may have cut long strings, so the bounds hold but need not occur.
        Self {
            min_value: Precision::Inexact(range.min.clone()),
            max_value: Precision::Inexact(range.max.clone()),
            null_count: range.null_count.map_or(Precision::Absent, |count| Precision::Inexact(count as usize)),
            ..Self::new_unknown()
        }
    }
}
