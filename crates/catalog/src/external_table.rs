//! External tables.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use parking_lot::Mutex;
use thermocline_formats::csv::CsvDecoder;
use thermocline_formats::csv_options;
use thermocline_pushdown::{FileFormat, user_err, user_error};
use thermocline_storage::{NodeClient, RemoteOptions};
use thermocline_types::{Class, Error};

use super::csv_schema::infer_csv_schema;
use super::definition::TableDefinition;
use super::file_path::{ENDINGS, FilePath, format_of_name};
use super::location::{Location, Nodes};
use super::snapshot::{Endings, Listing, Snapshot};
use super::unread::UnreadObjects;
use crate::AllowedLocations;

/// Name of all tables of files in keys of segments: whichever path from one root leads to an object, its columns are
/// cached once.
const FILES: &str = "(files)";

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

    /// The table of files that a statement names by their path, and its objects as they are now. Its columns are those
    /// of the objects: if they have changed since `known`, the table of this path before, it is another table.
    ///
    /// # Errors
    /// If the path is not allowed, no file is there, none is of a known format or they are of several, or one is
    /// corrupt.
    pub async fn of_files(
        files: &FilePath,
        known: Option<Arc<Self>>,
        access: Access<'_>,
    ) -> Result<(Arc<Self>, Arc<Snapshot>)> {
        access.allowed.check(files.base())?;
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
        let locations = vec![location];
        let empty = Snapshot::empty(&Arc::new(Schema::empty()));
        let listed = Listing::of_any_format(&locations, &empty).await;
        let mut listing = listed.map_err(|error| match is_undefined_file(&error) {
            true => nothing(&UnreadObjects::default()),
            false => error.context(format!("'{}'", files.text())),
        })?;
        let format = match files.format() {
            Some(format) => format,
            None if listing.len() == 0 => return Err(nothing(&listing.unread)),
            None => format_of_objects(files, &listing)?,
        };
        listing.retain(&locations, &format, Endings::Own);
        if listing.len() == 0 {
            return Err(nothing(&listing.unread));
        }
        let known = known.filter(|known| known.definition.format == format);
        if let Some(known) = &known {
            let (size, snapshot) = known.latest.lock().clone();
            if size == access.partition_size && listing.is_of(&snapshot) {
                return Ok((Arc::clone(known), snapshot));
            }
        }
        let definition = TableDefinition {
            name: files.text().to_owned(),
            columns: None,
            format,
            locations: vec![files.text().to_owned()],
            sql: String::new(),
        };
        let schema = inferred(&definition, &listing, access.partition_size).await?;
        let is_same = |known: &Arc<Self>| known.schema == schema && same_places(&known.locations, &locations);
        let table = match known.filter(is_same) {
            Some(known) => known,
            None => {
                let table = Self::of_schema(definition, locations, schema, access.partition_size)?;
                Arc::new(Self { reader: FILES.into(), endings: Endings::Own, ..table })
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
        let snapshot = Snapshot::plan(
            listing,
            &known,
            &self.definition.format,
            &self.schema,
            partition_size,
            self.definition.columns.is_none(),
        )
        .await?;
        *self.latest.lock() = (partition_size, Arc::clone(&snapshot));
        Ok(snapshot)
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
        FileFormat::Csv(csv) => infer_csv_schema(&definition.name, listing, &csv_options(csv)).await,
    }
}

/// The one format of files whose path does not say it.
fn format_of_objects(files: &FilePath, listing: &Listing) -> Result<FileFormat> {
    let mut formats: Vec<(FileFormat, &str)> = vec![];
    for object in listing.objects() {
        if let Some(format) = format_of_name(&object.path)
            && !formats.iter().any(|(known, _)| *known == format)
        {
            formats.push((format, &object.path));
        }
    }
    match formats.as_slice() {
        [(format, _)] => Ok(format.clone()),
        [] => {
            let example = listing.objects().next().map(|object| object.path.as_str()).unwrap_or_default();
            user_err!(
                InvalidTableDefinition,
                "the name of '{}' does not say the format of {example}; known endings are {ENDINGS}; for other names \
                 say the format: CREATE EXTERNAL TABLE name STORED AS CSV LOCATION '{}' OPTIONS ('delimiter' ';')",
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
