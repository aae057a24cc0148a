//! Rows to the bytes of one object.

use std::io::{self, Write};
use std::ops::Range;

use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::csv;
use super::source::Source;
use super::table::Table;

/// Objects of fewer rows have one row group. Also bounds a writer's memory, which holds one.
const ROW_GROUP_ROWS_MAX: usize = 1 << 20;

const PAGE_ROWS_MAX: usize = 20_000;

/// The format of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Parquet: Zstandard level 1, dictionaries where values repeat, page index, and row groups
    /// of up to 2^20 rows in pages of about 20,000 rows.
    Parquet,
    /// CSV with a header line, commas, quotes only where a value needs them, `\n` line ends.
    Csv,
}

impl Format {
    /// The object names' extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

/// Reason why rows could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The bytes could not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The columns did not fit the schema.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
    /// The Parquet writer failed; also wraps its input/output errors.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
}

/// Writes an object with the rows of `units` to `sink` and returns its size in bytes. Calls `on_rows` with the number
/// of rows of each batch written.
///
/// # Errors
/// If `sink` fails.
pub(super) fn encode<W: Write + Send>(
    source: &dyn Source,
    units: Range<u64>,
    format: Format,
    sink: W,
    on_rows: &dyn Fn(u64),
) -> Result<u64, EncodeError> {
    let mut sink = Counted { sink, bytes: 0 };
    match format {
        Format::Parquet => encode_parquet(source, units, &mut sink, on_rows)?,
        Format::Csv => encode_csv(source, units, &mut sink, on_rows)?,
    }
    sink.flush()?;
    Ok(sink.bytes)
}

fn encode_parquet<W: Write + Send>(
    source: &dyn Source,
    units: Range<u64>,
    sink: &mut W,
    on_rows: &dyn Fn(u64),
) -> Result<(), EncodeError> {
    // Without the Arrow schema in the metadata, readers see plain strings, not our dictionaries.
    let options = ArrowWriterOptions::new().with_properties(properties(source.table())?).with_skip_arrow_metadata(true);
    let schema = source.table().generated_schema();
    let mut writer = ArrowWriter::try_new_with_options(sink, schema, options)?;
    for units in batches(source, units) {
        let batch = source.batch(units)?;
        writer.write(&batch)?;
        on_rows(batch.num_rows() as u64);
    }
    writer.close()?;
    Ok(())
}

fn encode_csv<W: Write>(
    source: &dyn Source,
    units: Range<u64>,
    sink: &mut W,
    on_rows: &dyn Fn(u64),
) -> Result<(), EncodeError> {
    let mut text = Vec::new();
    csv::write_header(&source.table().generated_schema(), &mut text);
    for units in batches(source, units) {
        let batch = source.batch(units)?;
        csv::write_batch(&batch, &mut text)?;
        sink.write_all(&text)?;
        text.clear();
        on_rows(batch.num_rows() as u64);
    }
    Ok(())
}

fn properties(table: Table) -> Result<WriterProperties, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
        .set_data_page_row_count_limit(PAGE_ROWS_MAX)
        .set_statistics_enabled(EnabledStatistics::Page);
    let unique = table.columns().iter().filter(|(_, kind)| !kind.repeats());
    let properties = unique.fold(properties, |properties, (name, _)| {
        properties.set_column_dictionary_enabled(ColumnPath::from(*name), false)
    });
    Ok(properties.build())
}

/// `units` in the portions that `source` makes at a time.
fn batches(source: &dyn Source, units: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (end, portion) = (units.end, source.units_per_batch());
    units.step_by(portion as usize).map(move |start| start..end.min(start + portion))
}

/// Counts the bytes on their way to `sink`.
struct Counted<W> {
    sink: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(buffer)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
