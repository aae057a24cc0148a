//! The plan of a scan as bytes, for another process that has the same table. Nothing in this program sends one yet:
//! clusters are not built.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use prost::Message;
use thermocline_catalog::{ExternalTable, PartitionSet, PlannedObject, Snapshot};
use thermocline_pushdown::wire::{ErrorKind, ObjectEntry, Range, encode_schema};
use thermocline_pushdown::{Fragment, Limits, NodeError, PartitionRange, node_functions};

use super::scan_plan::{Partitions, Pieces, ScanPlan};
use crate::query::QueryContext;

/// A [`ScanPlan`] on the wire: names, versions and ranges, and the encoded fragment. Connections, caches, and what is
/// known of the partitions come from the process that decodes it.
#[derive(Clone, PartialEq, Message)]
struct EncodedScan {
    #[prost(string, tag = "1")]
    table: String,
    /// All columns of the table.
    #[prost(bytes = "vec", tag = "2")]
    table_schema: Vec<u8>,
    /// Positions of the needed columns in the table.
    #[prost(uint32, repeated, tag = "3")]
    columns: Vec<u32>,
    #[prost(bytes = "vec", tag = "4")]
    fragment: Vec<u8>,
    #[prost(uint64, optional, tag = "5")]
    fetch: Option<u64>,
    #[prost(bool, tag = "6")]
    closed: bool,
    #[prost(uint64, tag = "7")]
    partitions_pruned: u64,
    #[prost(uint32, tag = "8")]
    outputs: u32,
    /// Stored bytes that a partition aims at, by which objects were cut.
    #[prost(uint64, tag = "9")]
    partition_size: u64,
    #[prost(message, repeated, tag = "10")]
    objects: Vec<EncodedObject>,
}

/// An object in one version, and its partitions that are to be read.
#[derive(Clone, PartialEq, Message)]
struct EncodedObject {
    /// Label of the storage that holds it.
    #[prost(string, tag = "1")]
    storage: String,
    #[prost(message, optional, tag = "2")]
    entry: Option<ObjectEntry>,
    #[prost(message, repeated, tag = "3")]
    ranges: Vec<Range>,
}

/// Encodes a scan.
///
/// # Errors
/// If its fragment has no encoding.
pub(super) fn encode(scan: &ScanPlan) -> Result<Vec<u8>> {
    let Pieces { fetch, closed, outputs, partitions_pruned } = scan.pieces();
    let mut objects: Vec<(&Arc<PlannedObject>, EncodedObject)> = vec![];
    for (object, partition) in scan.partitions() {
        let range = Range::from(partition.range);
        match objects.last_mut().filter(|(last, _)| Arc::ptr_eq(last, object)) {
            Some((_, encoded)) => encoded.ranges.push(range),
            None => {
                let (storage, entry) = (object.node.label().to_owned(), Some(object.entry.clone()));
                objects.push((object, EncodedObject { storage, entry, ranges: vec![range] }));
            }
        }
    }
    let encoded = EncodedScan {
        table: scan.table_name().to_string(),
        table_schema: scan.encoded_schema().to_vec(),
        columns: scan.columns().iter().map(|column| *column as u32).collect(),
        fragment: scan.fragment().encode().map_err(|error| DataFusionError::External(Box::new(error)))?,
        fetch: fetch.map(|rows| rows as u64),
        closed,
        partitions_pruned: partitions_pruned as u64,
        outputs: outputs as u32,
        partition_size: scan.query().limits().partition_size,
        objects: objects.into_iter().map(|(_, object)| object).collect(),
    };
    Ok(encoded.encode_to_vec())
}

/// Decodes a scan, to be run by `query`.
///
/// # Errors
/// If the bytes are no scan, `query`'s database has no such table, or one with other columns, or an object has another
/// version now ([`ErrorKind::VersionChanged`]).
pub(super) async fn decode(bytes: &[u8], query: &Arc<QueryContext>) -> Result<ScanPlan> {
    let scan = EncodedScan::decode(bytes).map_err(|error| bad(&error))?;
    let table = query.resources().table(&scan.table);
    let table = table.ok_or_else(|| bad(&format!("there is no external table '{}'", scan.table)))?;
    if encode_schema(table.schema())? != scan.table_schema {
        return Err(bad(&format!("table '{}' has other columns here", scan.table)));
    }
    let columns: Vec<usize> = scan.columns.iter().map(|column| *column as usize).collect();
    if !columns.is_sorted_by(|a, b| a < b) || columns.last().is_some_and(|last| *last >= table.schema().fields().len())
    {
        return Err(bad(&format!("table '{}' has no columns {columns:?}", scan.table)));
    }
    let fragment = Fragment::decode(&scan.fragment, node_functions(), &Limits::default());
    let (fragment, _) = fragment.map_err(|error| bad(&error))?;
    if fragment.input_schema() != Arc::new(table.schema().project(&columns)?) {
        return Err(bad(&format!("the fragment reads other columns than those of table '{}'", scan.table)));
    }
    let snapshot = table.snapshot(scan.partition_size).await?;
    let (partitions, set) = found(&scan.objects, &table, &snapshot)?;
    let pieces = Pieces {
        fetch: scan.fetch.map(|rows| rows as usize),
        closed: scan.closed,
        outputs: (scan.outputs as usize).max(1),
        partitions_pruned: scan.partitions_pruned as usize,
    };
    ScanPlan::of_pieces(&table, columns, (partitions, set), fragment, pieces, Arc::clone(query))
}

/// The partitions of a snapshot that `objects` name.
fn found(objects: &[EncodedObject], table: &ExternalTable, snapshot: &Snapshot) -> Result<(Partitions, PartitionSet)> {
    let mut wanted: HashMap<(&str, &str), (&EncodedObject, HashSet<PartitionRange>)> = HashMap::new();
    for object in objects {
        let entry = object.entry.as_ref().ok_or_else(|| bad(&"an object without a path"))?;
        let ranges = object.ranges.iter().cloned().map(PartitionRange::try_from).collect::<Result<HashSet<_>, _>>();
        let ranges = ranges.map_err(|error| bad(&error))?;
        wanted.insert((object.storage.as_str(), entry.path.as_str()), (object, ranges));
    }
    let is_wanted = |object: &PlannedObject, range: &PartitionRange| {
        let found = wanted.get(&(object.node.label(), object.entry.path.as_str()));
        found.is_some_and(|(wanted, ranges)| wanted.entry.as_ref() == Some(&object.entry) && ranges.contains(range))
    };
    let kept: Vec<bool> =
        snapshot.partitions().map(|(object, partition)| is_wanted(object, &partition.range)).collect();
    let partitions: Partitions = snapshot
        .partitions()
        .zip(&kept)
        .filter(|(_, kept)| **kept)
        .map(|((object, partition), _)| (Arc::clone(object), Arc::clone(partition)))
        .collect();
    if partitions.len() != wanted.values().map(|(object, _)| object.ranges.len()).sum::<usize>() {
        let has = |(storage, path): (&str, &str), entry: &Option<ObjectEntry>| {
            snapshot.objects.iter().any(|object| {
                object.node.label() == storage && object.entry.path == path && Some(&object.entry) == entry.as_ref()
            })
        };
        let gone = wanted.iter().find(|(at, (object, _))| !has(**at, &object.entry)).map(|((_, path), _)| *path);
        let name = &table.definition.name;
        return Err(match gone {
            Some(path) => {
                let why = format!("{path}: table '{name}' has the object in another version here, or not at all");
                NodeError::new(ErrorKind::VersionChanged, why).into()
            }
            None => bad(&format!("objects of table '{name}' have other partitions here")),
        });
    }
    Ok((partitions, snapshot.partition_set().filtered(&kept)))
}

fn bad(why: &dyn std::fmt::Display) -> DataFusionError {
    exec_datafusion_err!("an encoded scan cannot be run: {why}")
}
