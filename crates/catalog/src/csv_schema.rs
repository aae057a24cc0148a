//! Columns of a CSV table, from samples of its objects.

use std::collections::HashSet;

use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use thermocline_formats::csv::{CsvError, CsvOptions, Unknown, detect, infer_schema};
use thermocline_formats::{csv_options, text_sample};
use thermocline_pushdown::wire::ObjectEntry;
use thermocline_pushdown::{CsvFormat, user_err};
use thermocline_storage::NodeClient;

use super::snapshot::Listing;
use super::table_schema::SchemaUnion;

/// Bytes of an object from which its columns' types are inferred.
const SAMPLE_BYTES: u64 = 1 << 20;
/// Bytes up to which that sample grows until a record ends in it.
const SAMPLE_BYTES_MAX: u64 = 128 << 20;
/// Samples that are read side by side.
const SAMPLES_AT_ONCE: usize = 16;

/// `format` with what is unknown of it as a sample of the first object shows it.
///
/// # Errors
/// If the object cannot be read, or no record behind its first ends within [`SAMPLE_BYTES_MAX`].
pub(super) async fn detected(
    table: &str,
    listing: &Listing,
    format: &CsvFormat,
    unknown: Unknown<'_>,
) -> Result<CsvFormat> {
    let first = listing.nodes.iter().find_map(|(node, entries)| Some((node, entries.first()?)));
    let (Some((node, entry)), true) = (first, unknown.delimiter || unknown.header) else { return Ok(format.clone()) };
    let options = csv_options(format);
    let detected = sampled(node, entry, |sample, is_whole| detect(sample, is_whole, &options, unknown)).await;
    let CsvOptions { delimiter, has_header, .. } = detected.map_err(|error| error.context(format!("table {table}")))?;
    Ok(CsvFormat { delimiter, has_header, ..format.clone() })
}

/// Infers the columns of `table`: the union of those that a sample of each object suggests.
///
/// # Errors
/// If an object cannot be read, is not valid CSV or has no record that ends within [`SAMPLE_BYTES_MAX`], its header
/// gives two fields one name, objects without a header have different numbers of fields, or one seems to have another
/// delimiter than the first, of which that was `unknown`, or a header where the first has none, or none.
pub(super) async fn infer_csv_schema(
    table: &str,
    listing: &Listing,
    options: &CsvOptions,
    unknown: Unknown<'_>,
) -> Result<SchemaRef> {
    let checked = Unknown { columns: None, ..unknown };
    let objects: Vec<_> = listing
        .nodes
        .iter()
        .flat_map(|(node, entries)| entries.iter().map(|entry| (node.clone(), entry.clone(), options.clone())))
        .collect();
    let samples = objects.into_iter().map(|(node, entry, options)| {
        let sampled = SpawnedTask::spawn(async move {
            Ok::<_, DataFusionError>((columns_of(&node, &entry, &options, checked).await?, entry.path))
        });
        async { sampled.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))? }
    });
    let mut samples = stream::iter(samples).buffered(SAMPLES_AT_ONCE);
    let mut union = SchemaUnion::of_text();
    let mut first: Option<(usize, String)> = None;
    while let Some((columns, path)) = samples.try_next().await? {
        if columns.fields().is_empty() {
            continue;
        }
        let mut names = HashSet::with_capacity(columns.fields().len());
        if let Some(twice) = columns.fields().iter().find(|field| !names.insert(field.name().as_str())) {
            return user_err!(
                InvalidTableDefinition,
                "table {table}: {path}: its header names more than one field '{}'; declare the table's columns, which \
                 are then the fields in their order",
                twice.name()
            );
        }
        let count = columns.fields().len();
        match &first {
            Some((expected, of)) if !options.has_header && *expected != count => {
                return user_err!(
                    InvalidTableDefinition,
                    "table {table}: without headers, objects have the same fields: {of} has {expected}, {path} has {count}"
                );
            }
            Some(_) => {}
            None => first = Some((count, path)),
        }
        union.add(&columns);
    }
    Ok(union.finish())
}

/// The columns of an object, which has the dialect of the first one as far as that was not told.
async fn columns_of(
    node: &NodeClient,
    entry: &ObjectEntry,
    options: &CsvOptions,
    unknown: Unknown<'static>,
) -> Result<SchemaRef> {
    let mut other = None;
    let schema = sampled(node, entry, |sample, is_whole| {
        let schema = infer_schema(sample, is_whole, options)?;
        let Some(found) = &schema else { return Ok(None) };
        // Only a text without the delimiter may have another one.
        let delimiter = unknown.delimiter && found.fields().len() == 1;
        let unknown = Unknown { delimiter, header: unknown.header && !found.fields().is_empty(), columns: None };
        if unknown.delimiter || unknown.header {
            match detect(sample, is_whole, options, unknown)? {
                Some(own) => other = Some(own),
                None => return Ok(None),
            }
        }
        Ok(schema)
    });
    let schema = schema.await?;
    match other {
        Some(own) if own.delimiter != options.delimiter => user_err!(
            InvalidTableDefinition,
            "{}: its delimiter seems to be {:?}, and that of the first file {:?}; say which one, as in \
             read_csv('data/*', delim => ',')",
            entry.path,
            char::from(own.delimiter),
            char::from(options.delimiter)
        ),
        Some(own) if own.has_header != options.has_header => user_err!(
            InvalidTableDefinition,
            "{}: it seems to have {}, unlike the first file; say whether there is one, as in \
             read_csv('data/*', header => true)",
            entry.path,
            if own.has_header { "a header" } else { "no header" }
        ),
        _ => Ok(schema.into()),
    }
}

/// What an object's first [`SAMPLE_BYTES`] tell, or twice as many and so on, up to [`SAMPLE_BYTES_MAX`], until they tell
/// it.
async fn sampled<T>(
    node: &NodeClient,
    entry: &ObjectEntry,
    mut tell: impl FnMut(&[u8], bool) -> Result<Option<T>, CsvError>,
) -> Result<T> {
    let mut sample_bytes = SAMPLE_BYTES;
    loop {
        let stored = super::ranges::read_range(node, entry, 0..entry.size.min(sample_bytes)).await?;
        let is_whole = entry.size <= sample_bytes;
        let (sample, is_whole) = text_sample(&entry.path, stored, is_whole, sample_bytes as usize)?;
        let told =
            tell(&sample, is_whole).map_err(|error| DataFusionError::Plan(format!("{}: {error}", entry.path)))?;
        match told {
            Some(told) => return Ok(told),
            None if sample_bytes >= SAMPLE_BYTES_MAX => {
                return user_err!(
                    InvalidTableDefinition,
                    "{}: no record ends within its first {sample_bytes} bytes",
                    entry.path
                );
            }
            None => sample_bytes *= 2,
        }
    }
}
