//! A table's objects as one query sees them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use futures::TryStreamExt;
use futures::future::try_join_all;
use thermocline_formats::{decode_footer, footer_schema};
use thermocline_pushdown::wire::{DescribeRequest, Format, ObjectEntry};
use thermocline_pushdown::{FileFormat, NodeError, TextCompression, user_err};
use thermocline_storage::NodeClient;

use super::file_path::Ending;
use super::header_fields::HeaderFields;
use super::location::Location;
use super::partition::{Partition, PlannedObject};
use super::partition_set::PartitionSet;
use super::statistics::SnapshotStatistics;
use super::table_schema::SchemaUnion;
use super::unread::UnreadObjects;

/// All objects of a table, each in one version. A query reads these versions or fails.
#[derive(Debug)]
pub struct Snapshot {
    /// Objects in the order of their locations, then nodes, then paths.
    pub objects: Vec<Arc<PlannedObject>>,
    /// Number of them at each node of each location.
    per_node: Vec<usize>,
    partitions: PartitionSet,
    /// Bytes that it takes with its objects, about.
    own_bytes: usize,
}

/// Which objects below a location a table reads; one that the location names itself it reads in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endings {
    /// Those whose names have an ending that is usual for the format of the table, which its definition says.
    Usual,
    /// Those with this ending, as nothing else says their format.
    Own(Ending),
    /// All that its pattern matches; without one, those with an ending of the kind of its format, Parquet or text.
    Matching,
}

/// Which fields of a CSV object's records are the columns of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldsOf {
    /// Those that have the names of the columns in its header, from which these were inferred.
    InferredNames,
    /// Those that have the names of the columns, which were declared, or are in their place ([`HeaderFields`]).
    DeclaredNames,
    /// All of them, in their order.
    Places,
}

/// Objects listed at their nodes, before anything is known of them.
pub(super) struct Listing {
    /// Which node holds which objects.
    pub(super) nodes: Vec<(NodeClient, Vec<ObjectEntry>)>,
    /// Entries that the table does not read.
    pub(super) unread: UnreadObjects,
}

impl Listing {
    /// Lists all locations at once.
    ///
    /// # Errors
    /// If a node cannot be reached, or a location is at none of its nodes, or is gone from one of which
    /// `known` (the previous snapshot) has objects.
    pub(super) async fn fetch(
        locations: &[Location],
        format: &FileFormat,
        endings: Endings,
        known: &Snapshot,
    ) -> Result<Self> {
        let mut listing = Self::of_any_format(locations, known).await?;
        listing.retain(locations, format, endings);
        Ok(listing)
    }

    /// The same with objects of any format.
    ///
    /// # Errors
    /// As [`Listing::fetch`].
    pub(super) async fn of_any_format(locations: &[Location], known: &Snapshot) -> Result<Self> {
        let requests = locations.iter().map(|location| async move {
            let listed = location.nodes.iter().map(|node| location.listing(node));
            Ok::<_, NodeError>((location, try_join_all(listed).await?))
        });
        let mut nodes = vec![];
        let mut unread = UnreadObjects::default();
        for (location, listed) in try_join_all(requests).await.map_err(DataFusionError::from)? {
            let nowhere = listed.iter().all(|listed| listed.missing);
            let gone = |node: &NodeClient| nowhere || known.has_objects(node, &location.prefix);
            let gone = location.nodes.iter().zip(&listed).find(|(node, listed)| listed.missing && gone(node));
            if let Some((node, _)) = gone {
                return user_err!(
                    UndefinedFile,
                    "there is no file or directory '{}' at {}",
                    location.prefix,
                    node.label()
                );
            }
            for (node, mut listed) in location.nodes.iter().zip(listed) {
                listed.objects.retain(|object| location.has(&object.path));
                if location.glob.is_none() {
                    unread.total += listed.skipped_total.saturating_sub(listed.skipped.len() as u64);
                }
                let skipped = listed.skipped.into_iter().filter(|entry| location.has(&entry.path));
                skipped.for_each(|entry| unread.add(node, entry.path, entry.size, &entry.reason));
                nodes.push((node.clone(), listed.objects));
            }
        }
        Ok(Self { nodes, unread })
    }

    /// All that several listings have.
    pub(super) fn joined(listings: Vec<Self>) -> Self {
        let mut joined = Self { nodes: vec![], unread: UnreadObjects::default() };
        for listing in listings {
            joined.nodes.extend(listing.nodes);
            joined.unread.extend(listing.unread);
        }
        joined
    }

    /// Leaves out what is not of a format.
    pub(super) fn retain(&mut self, locations: &[Location], format: &FileFormat, endings: Endings) {
        let Self { nodes, unread } = self;
        let of_nodes = locations.iter().flat_map(|location| location.nodes.iter().map(move |_| location));
        for ((node, objects), location) in nodes.iter_mut().zip(of_nodes) {
            let all_match = endings == Endings::Matching && location.glob.is_some();
            objects.retain(|object| {
                let is_read =
                    all_match || object.path == location.prefix || is_of_format(&object.path, format, endings);
                if !is_read {
                    unread.add(node, object.path.clone(), object.size, "its name has another extension");
                }
                is_read
            });
        }
    }

    /// Its objects.
    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectEntry> {
        self.nodes.iter().flat_map(|(_, objects)| objects)
    }

    /// Whether these are the objects of a snapshot, in the same versions at the same nodes.
    pub(super) fn is_of(&self, snapshot: &Snapshot) -> bool {
        let counts = self.nodes.iter().map(|(_, objects)| objects.len());
        let listed = self.nodes.iter().flat_map(|(node, objects)| objects.iter().map(move |entry| (node, entry)));
        counts.eq(snapshot.per_node.iter().copied())
            && listed
                .zip(&snapshot.objects)
                .all(|((node, entry), known)| node.label() == known.node.label() && *entry == known.entry)
    }

    /// The union of the columns of Parquet objects. Descriptions are dropped as they are read, so that
    /// memory does not grow with the number of objects.
    ///
    /// # Errors
    /// If a node cannot be reached or an object is corrupt.
    pub(super) async fn parquet_schema(&self, partition_bytes: u64) -> Result<SchemaRef> {
        let mut union = SchemaUnion::default();
        for (node, entries) in &self.nodes {
            let format = Some(Format::from(&FileFormat::Parquet));
            let mut descriptions = node.describe(DescribeRequest { objects: entries.clone(), format, partition_bytes });
            for entry in entries {
                let Some(description) = descriptions.try_next().await? else {
                    return internal_err!("a node described fewer objects than were asked for");
                };
                let footer = decode_footer(&entry.path, &description.footer)?;
                union.add(&footer_schema(&entry.path, &footer)?);
            }
        }
        Ok(union.finish())
    }

    /// Number of objects.
    pub(super) fn len(&self) -> usize {
        self.nodes.iter().map(|(_, objects)| objects.len()).sum()
    }
}

/// Whether an object belongs to a table of `format` by the ending of its name.
fn is_of_format(path: &str, format: &FileFormat, endings: Endings) -> bool {
    let of_name = || Ending::of_name(path);
    match endings {
        Endings::Own(ending) => return of_name() == Some(ending),
        Endings::Matching => {
            return of_name().is_some_and(|ending| ending.is_parquet() == (*format == FileFormat::Parquet));
        }
        Endings::Usual => {}
    }
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let (name, extensions): (_, &[&str]) = match format {
        FileFormat::Parquet => (name.as_str(), &[".parquet", ".pq"]),
        FileFormat::Csv(_) => (TextCompression::split(&name).0, &[".csv", ".tsv", ".txt", ".tbl"]),
    };
    extensions.iter().any(|extension| name.ends_with(extension))
}

impl Snapshot {
    /// The snapshot of a table without objects.
    pub(super) fn empty(schema: &SchemaRef) -> Arc<Self> {
        Self::new(vec![], schema)
    }

    fn new(per_node: Vec<Vec<Arc<PlannedObject>>>, schema: &SchemaRef) -> Arc<Self> {
        let counts = per_node.iter().map(Vec::len).collect();
        let objects: Vec<_> = per_node.into_iter().flatten().collect();
        let own_bytes = objects.iter().map(|object| object.own_bytes()).sum();
        let partitions = objects.iter().flat_map(|object| &object.partitions).cloned().collect();
        let statistics = SnapshotStatistics::new(partitions, schema.fields().len());
        let partitions = PartitionSet::all(Arc::new(statistics), Arc::clone(schema));
        Arc::new(Self { objects, per_node: counts, partitions, own_bytes })
    }

    /// Cuts the listed objects into partitions, asking the nodes only about those that `known`
    /// (the previous snapshot) does not have in the same version. Gives back `known` if nothing changed.
    ///
    /// # Errors
    /// If a node fails, an object is corrupt, or a CSV object has no column of the table. Other columns that
    /// cannot be read are an error of the queries that need them ([`PlannedObject::check_columns`]).
    pub(super) async fn plan(
        listing: Listing,
        known: &Arc<Snapshot>,
        format: &FileFormat,
        schema: &SchemaRef,
        partition_bytes: u64,
        fields: FieldsOf,
    ) -> Result<Arc<Self>> {
        let mut start = 0;
        let known_at: Vec<&[Arc<PlannedObject>]> = (0..listing.nodes.len())
            .map(|position| {
                let end = start + known.per_node.get(position).copied().unwrap_or(0);
                let objects = known.objects.get(start..end).unwrap_or_default();
                start = end;
                objects
            })
            .collect();
        let per_node = listing.nodes.iter().zip(known_at).map(|((node, entries), known)| async move {
            let mut objects = unchanged(entries, known);
            let unknown: Vec<ObjectEntry> = entries
                .iter()
                .zip(&objects)
                .filter(|(_, object)| object.is_none())
                .map(|(entry, _)| entry.clone())
                .collect();
            let changed = !unknown.is_empty() || objects.len() != known.len();
            let request =
                DescribeRequest { objects: unknown.clone(), format: Some(Format::from(format)), partition_bytes };
            let mut descriptions = node.describe(request);
            let mut unknown = unknown.into_iter();
            for object in objects.iter_mut().filter(|object| object.is_none()) {
                let (Some(entry), Some(description)) = (unknown.next(), descriptions.try_next().await?) else {
                    return internal_err!("a node described fewer objects than were asked for");
                };
                *object = Some(PlannedObject::plan(node.clone(), entry, description, format, schema, partition_bytes)?);
            }
            Ok::<_, DataFusionError>((objects.into_iter().flatten().collect::<Vec<_>>(), changed))
        });
        let mut per_node = try_join_all(per_node).await?;
        if per_node.len() == known.per_node.len() && !per_node.iter().any(|(_, changed)| *changed) {
            return Ok(Arc::clone(known));
        }
        if matches!(format, FileFormat::Csv(_)) && fields != FieldsOf::Places {
            let headers: Vec<_> =
                per_node.iter().flat_map(|(objects, _)| objects).map(|object| Arc::clone(object.header())).collect();
            let fields = HeaderFields::new(schema, fields == FieldsOf::InferredNames, headers.iter());
            for object in per_node.iter_mut().flat_map(|(objects, _)| objects) {
                *object = object.with_fields(&fields)?;
            }
        }
        Ok(Self::new(per_node.into_iter().map(|(objects, _)| objects).collect(), schema))
    }

    /// The same without all partitions but those at `positions` of [`Snapshot::partitions`].
    pub fn only(&self, positions: &BTreeSet<usize>) -> Arc<Self> {
        let mut position = 0;
        let mut per_node = vec![vec![]; self.per_node.len()];
        let nodes = self.per_node.iter().enumerate().flat_map(|(node, count)| std::iter::repeat_n(node, *count));
        for (object, node) in self.objects.iter().zip(nodes) {
            let is_kept = |number: usize| positions.contains(&(position + number));
            let kept = object.partitions.iter().enumerate().filter(|(number, _)| is_kept(*number));
            let kept: Vec<Arc<Partition>> = kept.map(|(_, partition)| Arc::clone(partition)).collect();
            position += object.partitions.len();
            if let (false, Some(objects)) = (kept.is_empty(), per_node.get_mut(node)) {
                objects.push(object.with_partitions(kept));
            }
        }
        Self::new(per_node, self.partitions.schema())
    }

    /// Bytes that it takes with its objects, about.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Statistics of all partitions, in the order of [`Snapshot::partitions`].
    pub fn partition_set(&self) -> &PartitionSet {
        &self.partitions
    }

    /// Objects that `later` does not have, or has in another version.
    pub fn objects_not_in<'a>(&'a self, later: &Snapshot) -> impl Iterator<Item = &'a Arc<PlannedObject>> {
        // Snapshots share what did not change, and mostly nothing did.
        let same = self.objects.len() == later.objects.len()
            && self.objects.iter().zip(&later.objects).all(|(object, later)| Arc::ptr_eq(object, later));
        let later: Option<HashSet<_>> =
            (!same).then(|| later.objects.iter().map(|object| (object.path.clone(), object.version.clone())).collect());
        let is_gone = move |object: &Arc<PlannedObject>| {
            later.as_ref().is_some_and(|later| !later.contains(&(object.path.clone(), object.version.clone())))
        };
        self.objects.iter().filter(move |object| is_gone(object))
    }

    /// Whether there are objects below `prefix` at `node`.
    fn has_objects(&self, node: &NodeClient, prefix: &str) -> bool {
        let below = |path: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.objects
            .iter()
            .any(|object| object.node.label() == node.label() && (prefix.is_empty() || below(&object.entry.path)))
    }

    /// All partitions with their objects.
    pub fn partitions(&self) -> impl Iterator<Item = (&Arc<PlannedObject>, &Arc<Partition>)> {
        self.objects.iter().flat_map(|object| object.partitions.iter().map(move |partition| (object, partition)))
    }
}

/// For each of `entries` the object that is known in the same version. Both are sorted by path; otherwise
/// some known objects are not found.
fn unchanged(entries: &[ObjectEntry], known: &[Arc<PlannedObject>]) -> Vec<Option<Arc<PlannedObject>>> {
    let mut known = known.iter().peekable();
    entries
        .iter()
        .map(|entry| {
            while known.next_if(|object| object.entry.path < entry.path).is_some() {}
            known.next_if(|object| object.entry == *entry).cloned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use thermocline_pushdown::CsvFormat;

    use super::*;

    #[test]
    fn tables_of_files_read_what_has_the_ending_of_their_format() {
        let csv = FileFormat::Csv(CsvFormat::default());
        let tsv = FileFormat::Csv(CsvFormat { delimiter: b'\t', ..CsvFormat::default() });
        let parquet = FileFormat::Parquet;
        for (path, usual, own) in [
            ("d/a.csv", vec![&csv, &tsv], Some(Ending::Csv)),
            ("d/a.CSV.gz", vec![&csv, &tsv], Some(Ending::Csv)),
            ("d/a.tsv", vec![&csv, &tsv], Some(Ending::Tsv)),
            ("d/README.txt", vec![&csv, &tsv], Some(Ending::Txt)),
            ("d/notes.txt.gz", vec![&csv, &tsv], Some(Ending::Txt)),
            ("d/x.tbl", vec![&csv, &tsv], Some(Ending::Tbl)),
            ("d/a.pq", vec![&parquet], Some(Ending::Parquet)),
            ("d/a.csv/part-0", vec![], None),
            ("d/csv", vec![], None),
        ] {
            for (format, ending) in [(&csv, Ending::Csv), (&tsv, Ending::Tsv), (&parquet, Ending::Parquet)] {
                assert_eq!(is_of_format(path, format, Endings::Usual), usual.contains(&format), "{path} {format:?}");
                assert_eq!(is_of_format(path, format, Endings::Matching), usual.contains(&format), "{path} {format:?}");
                assert_eq!(is_of_format(path, format, Endings::Own(ending)), own == Some(ending), "{path} {format:?}");
            }
        }
    }
}
