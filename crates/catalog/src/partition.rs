//! Objects as plans use them: partitions, sizes and statistics.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, Field, IntervalUnit, SchemaRef};
use datafusion::common::Result;
use parking_lot::RwLock;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::ParquetMetaData;
use thermocline_formats::{decode_footer, footer_schema};
use thermocline_pushdown::wire::{ColumnStatistics, Description, ErrorKind, ObjectEntry, Split, decode_scalar};
use thermocline_pushdown::{
    CsvFields, CsvFormat, FileFormat, NodeError, ObjectPath, ObjectVersion, PartitionRange, TextCompression,
};
use thermocline_storage::NodeClient;

use super::column_range::{ColumnRange, RowGroupRanges, parquet_ranges};
use super::header_fields::HeaderFields;
use super::table_schema::reads_as;

/// Bytes that the name of a column takes, about.
const COLUMN_NAME_BYTES: usize = 48;

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
    /// Its partitions, in storage order.
    pub partitions: Vec<Arc<Partition>>,
    /// Columns of the table that cannot be read of this object, by position, and why.
    misfits: Vec<(usize, String)>,
    /// Of CSV: the names in its header; empty without one.
    header: Arc<[String]>,
    /// Of CSV: where the table's columns are, if its header says otherwise than the table.
    fields: Option<CsvFields>,
}

/// One partition of an object: the unit of routing.
#[derive(Debug)]
pub struct Partition {
    /// The row groups or bytes that it covers.
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
    /// Whether the stored bytes are compressed text.
    is_compressed: bool,
    /// Per column of the table: its range, once known.
    statistics: RwLock<Vec<Option<ColumnRange>>>,
    /// Number of ranges learnt so far.
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

    /// Bytes that decoding `columns` of the table works through, to which its time is proportional: what they take in
    /// memory, or all of the text that has them.
    pub fn decoding_bytes(&self, columns: &[usize]) -> u64 {
        match self.row_oriented {
            true => self.stored_bytes(columns),
            false => columns.iter().map(|column| self.memory_bytes(*column) as u64).sum(),
        }
    }

    /// Whether the stored bytes hold whole rows, so that one column costs as much as all.
    pub fn is_row_oriented(&self) -> bool {
        self.row_oriented
    }

    /// Whether the stored bytes are uncompressed text, which is taken to be larger than any part of it in Arrow.
    pub fn is_plain_text(&self) -> bool {
        self.row_oriented && !self.is_compressed
    }

    /// The range of `column` of the table, if it is known.
    pub fn range_of(&self, column: usize) -> Option<ColumnRange> {
        self.statistics.read().get(column).cloned().flatten()
    }

    /// Bytes that it takes itself, with statistics of all columns, about.
    fn own_bytes(&self) -> usize {
        let of_column = size_of::<u64>() + size_of::<usize>() + size_of::<Option<ColumnRange>>();
        size_of::<Self>() + self.column_bytes.len() * of_column
    }

    /// Number of ranges learnt so far: while it does not change, no range does.
    pub(super) fn learnt(&self) -> u64 {
        self.learnt.load(Ordering::Acquire)
    }

    /// The same rows, of which no range is known.
    fn unlearnt(&self) -> Self {
        Self {
            range: self.range,
            rows: self.rows,
            schema: Arc::clone(&self.schema),
            column_bytes: self.column_bytes.clone(),
            memory_bytes: self.memory_bytes.clone(),
            row_oriented: self.row_oriented,
            is_compressed: self.is_compressed,
            statistics: RwLock::new(vec![None; self.schema.fields().len()]),
            learnt: AtomicU64::new(0),
        }
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
    /// Cuts an object into partitions by its node's description. A footer goes into the footer cache
    /// and is not kept with the object. The fields of CSV are the columns in their order, until
    /// [`PlannedObject::with_fields`] says otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] if the description is corrupt or does not fit the table.
    pub(super) fn plan(
        node: NodeClient,
        entry: ObjectEntry,
        description: Description,
        format: &FileFormat,
        schema: &SchemaRef,
        partition_bytes: u64,
    ) -> Result<Arc<Self>, NodeError> {
        let bad = |why: &dyn std::fmt::Display| NodeError::new(ErrorKind::BadData, format!("{}: {why}", entry.path));
        let (misfits, partitions) = match format {
            FileFormat::Parquet => {
                let footer = Arc::new(decode_footer(&entry.path, &description.footer)?);
                node.footers().put(&entry, Arc::clone(&footer));
                let file = footer_schema(&entry.path, &footer)?;
                let partitions = parquet_partitions(&entry, &footer, &file, schema, partition_bytes);
                (misfits(&file, &footer, schema), partitions.map_err(|error| bad(&error))?)
            }
            FileFormat::Csv(_) => (vec![], csv_partitions(&entry, &description.splits, schema)),
        };
        let object = Self {
            path: ObjectPath::new(entry.path.as_str()),
            version: ObjectVersion::new(entry.version.as_str()),
            node,
            entry,
            partitions: partitions.into_iter().map(Arc::new).collect(),
            misfits,
            header: description.header.into(),
            fields: None,
        };
        Ok(Arc::new(object))
    }

    /// Bytes that it takes with its partitions, about.
    pub(super) fn own_bytes(&self) -> usize {
        let names = 2 * (self.entry.path.len() + self.entry.version.len());
        let columns = (self.header.len() + self.misfits.len()) * COLUMN_NAME_BYTES;
        let partitions = self.partitions.iter().map(|partition| partition.own_bytes());
        size_of::<Self>() + names + columns + partitions.sum::<usize>()
    }

    /// The names in a CSV object's header; empty without one.
    pub(super) fn header(&self) -> &Arc<[String]> {
        &self.header
    }

    /// The object with the columns of a CSV table where `headers` finds them; itself if they are there.
    /// Otherwise all ranges known of its partitions are forgotten: they may be those of other columns.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`] if it has none of the columns.
    pub(super) fn with_fields(self: &Arc<Self>, headers: &HeaderFields<'_>) -> Result<Arc<Self>, NodeError> {
        let found = headers.of_object(&self.header);
        let found = found.map_err(|why| NodeError::new(ErrorKind::BadData, format!("{}: {why}", self.entry.path)))?;
        if found.fields == self.fields && found.misfits == self.misfits {
            return Ok(Arc::clone(self));
        }
        Ok(Arc::new(Self {
            node: self.node.clone(),
            entry: self.entry.clone(),
            path: self.path.clone(),
            version: self.version.clone(),
            partitions: self.partitions.iter().map(|partition| Arc::new(partition.unlearnt())).collect(),
            misfits: found.misfits,
            header: Arc::clone(&self.header),
            fields: found.fields,
        }))
    }

    /// The object with these of its partitions only.
    pub(super) fn with_partitions(&self, partitions: Vec<Arc<Partition>>) -> Arc<Self> {
        Arc::new(Self {
            node: self.node.clone(),
            entry: self.entry.clone(),
            path: self.path.clone(),
            version: self.version.clone(),
            partitions,
            misfits: self.misfits.clone(),
            header: Arc::clone(&self.header),
            fields: self.fields.clone(),
        })
    }

    /// Whether the columns of both objects are in the same fields.
    pub fn has_fields_of(&self, other: &Self) -> bool {
        self.fields == other.fields
    }

    /// Format of the object's bytes, in a table of `format`.
    pub fn format(&self, format: &FileFormat) -> FileFormat {
        match format {
            FileFormat::Csv(csv) if self.fields.is_some() => {
                FileFormat::Csv(CsvFormat { fields: self.fields.clone(), ..csv.clone() })
            }
            format => format.clone(),
        }
    }

    /// Checks that `columns` (positions in the table) can be read of this object.
    ///
    /// # Errors
    /// [`ErrorKind::BadData`], which names the object and the column, with both types or what else
    /// keeps it from being the table's.
    pub fn check_columns(&self, columns: &[usize]) -> Result<(), NodeError> {
        match self.misfits.iter().find(|(position, _)| columns.contains(position)) {
            None => Ok(()),
            Some((_, why)) => Err(NodeError::new(ErrorKind::BadData, format!("{}: {why}", self.entry.path))),
        }
    }
}

/// Whether the writer has said which Arrow types it wrote. Otherwise the reader takes any INTERVAL for one
/// of days and time, and leaves out its months.
fn has_arrow_schema(footer: &ParquetMetaData) -> bool {
    let metadata = footer.file_metadata().key_value_metadata();
    metadata.is_some_and(|metadata| metadata.iter().any(|entry| entry.key == ARROW_SCHEMA_META_KEY))
}

/// Columns of the table that cannot be read of a Parquet object with columns `file`.
fn misfits(file: &SchemaRef, footer: &ParquetMetaData, table: &SchemaRef) -> Vec<(usize, String)> {
    let of_file: HashMap<&str, &DataType> =
        file.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
    let is_repeated = |name: &String| {
        of_file.len() < file.fields().len() && file.fields().iter().filter(|field| field.name() == name).count() > 1
    };
    let misfit = |column: &Field| match of_file.get(column.name().as_str()) {
        None if column.is_nullable() || footer.file_metadata().num_rows() == 0 => None,
        None => Some(format!("it has no column '{}', which is NOT NULL in the table", column.name())),
        Some(DataType::Interval(IntervalUnit::DayTime)) if !has_arrow_schema(footer) => {
            Some(format!("column '{}' is an INTERVAL there, of which only days and time can be read", column.name()))
        }
        Some(_) if is_repeated(column.name()) => {
            Some(format!("column '{}' is one of several columns of that name there", column.name()))
        }
        Some(found) if !reads_as(found, column.data_type()) => {
            Some(format!("column '{}' is {} there and {} in the table", column.name(), found, column.data_type()))
        }
        Some(_) if !column.is_nullable() && states_nulls(footer, column.name()) => {
            Some(format!("column '{}' has NULLs there and is NOT NULL in the table", column.name()))
        }
        Some(_) => None,
    };
    table.fields().iter().enumerate().filter_map(|(position, field)| Some((position, misfit(field)?))).collect()
}

/// Whether the footer counts NULLs in the column.
fn states_nulls(footer: &ParquetMetaData, column: &str) -> bool {
    footer.row_groups().iter().flat_map(|group| group.columns()).any(|chunk| {
        matches!(chunk.column_path().parts(), [name] if name == column)
            && chunk.statistics().and_then(|statistics| statistics.null_count_opt()).is_some_and(|count| count > 0)
    })
}

/// Row groups, small neighbours taken together up to `partition_bytes`.
fn parquet_partitions(
    entry: &ObjectEntry,
    footer: &ParquetMetaData,
    file: &SchemaRef,
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
    let leaves = leaves_by_name(footer);
    let ranges = parquet_ranges(footer, file, schema, &leaves)?;
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
    ranges: &[RowGroupRanges],
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
        let range = ranges.get(position).and_then(|ranges| ranges.covering(group.clone()));
        let nullable = range.as_ref().and_then(|range| range.null_count) != Some(0);
        memory_bytes.push(memory_estimate(field.data_type(), nullable && field.is_nullable(), rows, plain));
        statistics.push(range);
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

fn csv_partitions(entry: &ObjectEntry, splits: &[Split], schema: &SchemaRef) -> Vec<Partition> {
    let is_compressed = TextCompression::of_path(&entry.path) != TextCompression::None;
    let mut first_row = 0;
    let columns = schema.fields().len();
    splits
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

/// Bytes of an array of `rows`: exact for values of fixed width, an upper estimate for strings whose plain text is
/// `plain` bytes and for other types; and 1 KiB for the array itself.
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
