//! External tables.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thermocline_formats::csv::{CsvDecoder, Unknown};
use thermocline_formats::csv_options;
use thermocline_pushdown::wire::ObjectEntry;
use thermocline_pushdown::{FileFormat, user_err, user_error};
use thermocline_storage::{NodeClient, RemoteOptions};
use thermocline_types::{Class, Error};

use super::csv_schema::{detected, infer_csv_schema};
use super::definition::TableDefinition;
use super::file_path::{ENDINGS, Ending, FilePath};
use super::file_reading::{CsvReading, FileReader, FileReading};
use super::location::{Location, Nodes};
use super::snapshot::{Endings, FieldsOf, Listing, Snapshot};
use super::unread::UnreadObjects;
use crate::AllowedLocations;

/// Name of all tables of files in keys of segments: whichever path from one root leads to an object, its columns are
/// cached once.
const FILES: &str = "(files)";

/// Paths of one reading that are looked up side by side.
const PATHS_AT_ONCE: usize = 8;

/// What looking for a table's objects takes.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    /// The storages that are known.
    pub nodes: &'a Nodes,
    /// The places that may be named.
    pub allowed: &'a AllowedLocations,
    /// How remote ones are spoken to.
    pub options: &'a RemoteOptions,
    /// Stored bytes that a partition aims at.
    pub partition_size: u64,
}

/// A table over objects at storages.
#[derive(Debug)]
pub struct ExternalTable {
    /// The statement that defined it.
    pub definition: TableDefinition,
    /// Its name in keys of segments.
    reader: Arc<str>,
    /// Which objects it reads.
    endings: Endings,
    schema: SchemaRef,
    locations: Vec<Location>,
    /// The objects as last seen; the next query asks only about what is new.
    latest: Mutex<(u64, Arc<Snapshot>)>,
    /// Entries of its locations that it does not read, as last seen.
    unread: Mutex<UnreadObjects>,
}

impl ExternalTable {
    /// Finds the table's objects and, unless given, its columns.
    ///
    /// # Errors
    /// If a location is not allowed, missing or unreachable, no location holds an object of the format, or an object is
    /// corrupt.
    pub async fn create(
        definition: TableDefinition,
        nodes: &Nodes,
        allowed: &AllowedLocations,
        options: &RemoteOptions,
        partition_size: u64,
    ) -> Result<Self> {
        definition.locations.iter().try_for_each(|location| allowed.check(location))?;
        let locations =
            definition.locations.iter().map(|location| nodes.resolve(location, options)).collect::<Result<Vec<_>>>()?;
        let nothing = Snapshot::empty(&Arc::new(Schema::empty()));
        let listing = Listing::fetch(&locations, &definition.format, Endings::Usual, &nothing).await?;
        if listing.len() == 0 {
            return user_err!(
                InvalidTableDefinition,
                "table {}: no {} objects at {}",
                definition.name,
                definition.format.name(),
                definition.locations.join(", ")
            );
        }
        let schema = match &definition.columns {
            Some(columns) => Arc::clone(columns),
            None => inferred(&definition, &listing, partition_size).await?,
        };
        let table = Self::of_schema(definition, locations, schema, partition_size)?;
        table.snapshot(partition_size).await?;
        Ok(table)
    }

    /// The table of files that a statement reads, and its objects as they are now. Its columns are those of the objects,
    /// unless the statement declares them: if they have changed since `known`, the table of the same reading before, it
    /// is another table.
    ///
    /// # Errors
    /// If a path is not allowed, no file is there, none is of a known format or they are of several, one is not of the
    /// format that is said, or one is corrupt.
    pub async fn of_files(
        reading: &FileReading,
        known: Option<Arc<Self>>,
        access: Access<'_>,
    ) -> Result<(Arc<Self>, Arc<Snapshot>)> {
        reading.paths.iter().try_for_each(|files| access.allowed.check(files.base()))?;
        let looked_up: Vec<_> =
            reading.paths.iter().map(|files| FoundFiles::of(files, &reading.reader, access).boxed()).collect();
        let found: Vec<FoundFiles> = stream::iter(looked_up).buffered(PATHS_AT_ONCE).try_collect().await?;
        let Some(first) = found.first() else {
            return user_err!(InvalidParameter, "{}: there is no path", reading.name);
        };
        let (mut format, endings) = (first.format.clone(), first.endings);
        if let Some((_, other)) = found.iter().zip(&reading.paths).find(|(found, _)| found.format != format) {
            return user_err!(
                InvalidTableDefinition,
                "{}: by its name '{}' has another delimiter than the files before it: say which one, as in delim => ','",
                reading.name,
                other.text()
            );
        }
        let (locations, listings): (Vec<_>, Vec<_>) =
            found.into_iter().map(|found| (found.location, found.listing)).unzip();
        let listing = Listing::joined(listings);
        let known = known.filter(|known| known.endings == endings);
        if let Some(known) = &known {
            let (size, snapshot) = known.latest.lock().clone();
            if size == access.partition_size && listing.is_of(&snapshot) {
                return Ok((Arc::clone(known), snapshot));
            }
        }
        let usual = CsvReading::default();
        let csv = match &reading.reader {
            FileReader::Csv(csv) => csv,
            FileReader::Named | FileReader::Parquet => &usual,
        };
        if let FileFormat::Csv(format) = &mut format {
            *format = detected(&reading.name, &listing, format, csv.unknown()).await?;
        }
        let mut definition = TableDefinition {
            name: reading.name.clone(),
            columns: None,
            format,
            locations: reading.paths.iter().map(|files| files.text().to_owned()).collect(),
            sql: String::new(),
        };
        let schema = match (&csv.columns, &definition.format) {
            (Some(columns), FileFormat::Csv(_)) => {
                definition.columns = Some(Arc::clone(columns));
                Arc::clone(columns)
            }
            (None, FileFormat::Csv(format)) => {
                let inferred = infer_csv_schema(&reading.name, &listing, &csv_options(format), csv.unknown()).await?;
                csv.of_inferred(&inferred, format)
            }
            (_, FileFormat::Parquet) => listing.parquet_schema(access.partition_size).await?,
        };
        let format = &definition.format;
        let is_same = |known: &Arc<Self>| {
            known.definition.format == *format && known.schema == schema && same_places(&known.locations, &locations)
        };
        let table = match known.filter(is_same) {
            Some(known) => known,
            None => {
                let table = Self::of_schema(definition, locations, schema, access.partition_size)?;
                Arc::new(Self { reader: FILES.into(), endings, ..table })
            }
        };
        let snapshot = table.planned(listing, access.partition_size).await?;
        Ok((table, snapshot))
    }

    /// A table of these columns, whose objects are not known yet.
    fn of_schema(
        definition: TableDefinition,
        locations: Vec<Location>,
        schema: SchemaRef,
        partition_size: u64,
    ) -> Result<Self> {
        if schema.fields().is_empty() {
            return user_err!(InvalidTableDefinition, "table {}: its objects have no columns", definition.name);
        }
        if let FileFormat::Csv(csv) = &definition.format {
            let all = (0..schema.fields().len()).collect();
            let readable = CsvDecoder::try_new(Arc::clone(&schema), &csv_options(csv), all, 1);
            readable.map_err(|error| user_error!(InvalidTableDefinition, "table {}: {error}", definition.name))?;
        }
        let latest = Mutex::new((partition_size, Snapshot::empty(&schema)));
        let reader = definition.name.as_str().into();
        let (endings, unread) = (Endings::Usual, Mutex::default());
        Ok(Self { definition, reader, endings, schema, locations, latest, unread })
    }

    /// The table's objects as they are now.
    ///
    /// # Errors
    /// If a node cannot be reached or an object is corrupt.
    pub async fn snapshot(&self, partition_size: u64) -> Result<Arc<Snapshot>> {
        let known = self.latest();
        let listed = Listing::fetch(&self.locations, &self.definition.format, self.endings, &known).await;
        let listing = listed.map_err(|error| error.context(format!("table {}", self.definition.name)))?;
        self.planned(listing, partition_size).await
    }

    /// The objects of a listing as the table's.
    async fn planned(&self, mut listing: Listing, partition_size: u64) -> Result<Arc<Snapshot>> {
        let (known_size, known) = self.latest.lock().clone();
        *self.unread.lock() = std::mem::take(&mut listing.unread);
        let known = if known_size == partition_size { known } else { Snapshot::empty(&self.schema) };
        let snapshot =
            Snapshot::plan(listing, &known, &self.definition.format, &self.schema, partition_size, self.fields_of())
                .await?;
        *self.latest.lock() = (partition_size, Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Which fields of CSV objects are its columns.
    fn fields_of(&self) -> FieldsOf {
        match (&self.definition.columns, self.endings) {
            (None, _) => FieldsOf::InferredNames,
            (Some(_), Endings::Usual) => FieldsOf::DeclaredNames,
            (Some(_), Endings::Own(_) | Endings::Matching) => FieldsOf::Places,
        }
    }

    /// The objects as last seen, for `system.partitions`.
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.latest.lock().1)
    }

    /// Entries of its locations that it does not read, as last seen.
    pub fn unread(&self) -> UnreadObjects {
        self.unread.lock().clone()
    }

    /// Its name in keys of segments.
    pub fn reader(&self) -> &Arc<str> {
        &self.reader
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns for the wire.
    ///
    /// # Errors
    /// If a type has no encoding.
    pub fn encoded_schema(&self) -> Result<Vec<u8>> {
        thermocline_pushdown::wire::encode_schema(&self.schema)
    }

    /// The storages of its locations.
    pub fn storages(&self) -> impl Iterator<Item = &NodeClient> {
        self.locations.iter().flat_map(|location| &location.nodes)
    }
}

/// The columns of a table's objects.
async fn inferred(definition: &TableDefinition, listing: &Listing, partition_size: u64) -> Result<SchemaRef> {
    match &definition.format {
        FileFormat::Parquet => listing.parquet_schema(partition_size).await,
        FileFormat::Csv(csv) => {
            infer_csv_schema(&definition.name, listing, &csv_options(csv), Unknown::default()).await
        }
    }
}

/// The files of one path, as they are listed, and how they are read.
struct FoundFiles {
    location: Location,
    listing: Listing,
    format: FileFormat,
    endings: Endings,
}

impl FoundFiles {
    /// Looks for files.
    ///
    /// # Errors
    /// If none is there, or they are not of one format that is known, or not of the one that is said.
    async fn of(files: &FilePath, reader: &FileReader, access: Access<'_>) -> Result<Self> {
        let nothing = |unread: &UnreadObjects| {
            let what = match (files.glob().is_some(), unread.total) {
                (true, _) => "no file matches",
                (false, 0) => "there is no file or directory",
                (false, _) => "nothing can be read of",
            };
            let why = if unread.total == 0 { String::new() } else { format!(", where {unread}") };
            user_error!(UndefinedFile, "{what} '{}': looked in {}{why}", files.text(), files.folder())
        };
        let Some(location) = access.nodes.resolve_files(files, access.options)? else {
            return Err(nothing(&UnreadObjects::default()));
        };
        let locations = std::slice::from_ref(&location);
        let empty = Snapshot::empty(&Arc::new(Schema::empty()));
        let listed = Listing::of_any_format(locations, &empty).await;
        let mut listing = listed.map_err(|error| match is_undefined_file(&error) {
            true => nothing(&UnreadObjects::default()),
            false => error.context(format!("'{}'", files.text())),
        })?;
        let (format, endings) = match reader {
            FileReader::Parquet => (FileFormat::Parquet, Endings::Matching),
            FileReader::Csv(csv) => (FileFormat::Csv(csv.format(files.ending())), Endings::Matching),
            FileReader::Named => {
                let ending = match files.ending() {
                    Some(ending) => ending,
                    None if listing.len() == 0 => return Err(nothing(&listing.unread)),
                    None => ending_of_objects(files, &listing)?,
                };
                (format_of(ending), Endings::Own(ending))
            }
        };
        listing.retain(locations, &format, endings);
        if listing.len() == 0 {
            return Err(nothing(&listing.unread));
        }
        if endings == Endings::Matching {
            check_endings(&listing, &format)?;
        }
        Ok(Self { location, listing, format, endings })
    }
}

/// The format of files with an ending of which a statement says nothing else.
fn format_of(ending: Ending) -> FileFormat {
    match ending {
        Ending::Parquet => FileFormat::Parquet,
        text => FileFormat::Csv(CsvReading::default().format(Some(text))),
    }
}

/// Checks that no object says by its ending that it is of another format than the one that it is read as.
fn check_endings(listing: &Listing, format: &FileFormat) -> Result<()> {
    let is_read_as = |ending: Ending| ending.is_parquet() == (*format == FileFormat::Parquet);
    let is_other = |object: &&ObjectEntry| Ending::of_name(&object.path).is_some_and(|ending| !is_read_as(ending));
    match (listing.objects().find(is_other), format) {
        (None, _) => Ok(()),
        (Some(object), FileFormat::Parquet) => user_err!(
            InvalidTableDefinition,
            "read_parquet reads Parquet files, and {} is text by its name: use read_csv for it",
            object.path
        ),
        (Some(object), FileFormat::Csv(_)) => user_err!(
            InvalidTableDefinition,
            "read_csv reads text, and {} is a Parquet file by its name: use read_parquet for it",
            object.path
        ),
    }
}

/// The one ending of files whose path does not say it: of those that nothing but tables have, or else of the others.
fn ending_of_objects(files: &FilePath, listing: &Listing) -> Result<Ending> {
    let mut endings: Vec<(Ending, &str)> = vec![];
    for object in listing.objects() {
        if let Some(ending) = Ending::of_name(&object.path)
            && !endings.iter().any(|(known, _)| *known == ending)
        {
            endings.push((ending, &object.path));
        }
    }
    if endings.iter().any(|(ending, _)| ending.is_of_tables()) {
        endings.retain(|(ending, _)| ending.is_of_tables());
    }
    match endings.as_slice() {
        [(ending, _)] => Ok(*ending),
        [] => {
            let example = listing.objects().next().map(|object| object.path.as_str()).unwrap_or_default();
            user_err!(
                InvalidTableDefinition,
                "the name of '{}' does not say the format of {example}; known endings are {ENDINGS}; for other names \
                 say the format: read_csv('{}', delim => ';'), or CREATE EXTERNAL TABLE name STORED AS CSV \
                 LOCATION '{}' OPTIONS ('delimiter' ';')",
                files.text(),
                files.text(),
                files.base()
            )
        }
        [(_, first), (_, second), ..] => user_err!(
            InvalidTableDefinition,
            "'{}' has files of several formats, such as {first} and {second}: name those of one, such as '{}/*.csv'",
            files.text(),
            files.base().trim_end_matches('/')
        ),
    }
}

fn same_places(a: &[Location], b: &[Location]) -> bool {
    let labels = |location: &Location| location.nodes.iter().map(|node| node.label().to_owned()).collect::<Vec<_>>();
    let is_same = |(a, b): (&Location, &Location)| a.prefix == b.prefix && a.glob == b.glob && labels(a) == labels(b);
    a.len() == b.len() && a.iter().zip(b).all(is_same)
}

fn is_undefined_file(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(error) => {
            matches!(error.downcast_ref(), Some(Error::User(Class::UndefinedFile, _)))
        }
        _ => false,
    }
}
