//! The indexes of a database, and what is known of their objects at storage nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use futures::{StreamExt, TryFutureExt};
use parking_lot::{Mutex, RwLock};
use thermocline_catalog::{ExternalTable, PlannedObject, Snapshot};
use thermocline_pushdown::wire::{IndexReport, IndexState, IndexStatus, ObjectEntry, Origin};
use thermocline_pushdown::{NodeError, user_err};
use thermocline_storage::NodeClient;
use tokio::task::JoinSet;

use super::IndexDefinition;
use super::definition::without_indexes;

/// Index objects that a statement has made at once; nodes have slots of their own.
const BUILDS_AT_ONCE: usize = 4;
/// The same in the background.
const BACKGROUND_BUILDS_AT_ONCE: usize = 2;
/// Objects that one request asks about.
const STATUS_OBJECTS_MAX: usize = 1000;
/// Pause of an index after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// Indexes by name.
///
/// ```text
///   a query's snapshot --> keep_up --> is every object's index object known? -- yes --> nothing to do
///                                                 | no
///                                     background: ask its node; make what is missing or stale
/// ```
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    defined: RwLock<BTreeMap<String, IndexDefinition>>,
    known: Arc<Known>,
    /// Background tasks that bring indexes up to date, one per index. They end with the database.
    keepers: Mutex<HashMap<String, JoinSet<()>>>,
}

/// Index objects as last seen. They may have changed since; a query acts on them all the same.
#[derive(Debug, Default)]
struct Known {
    /// Current index objects, by index.
    current: Mutex<HashMap<String, KnownObjects>>,
    /// Until when an index is left alone.
    paused: Mutex<HashMap<String, Instant>>,
}

/// Objects that have one, and what their nodes say of it.
type KnownObjects = HashMap<ObjectKey, (Arc<PlannedObject>, IndexReport)>;

/// Label of a node, and an object there in one version.
type ObjectKey = (String, ObjectEntry);

/// One row of `system.indexes`.
#[derive(Debug, Clone)]
pub(crate) struct IndexRow {
    pub(crate) definition: IndexDefinition,
    /// The table's objects; `None` if they are not known, see `error`.
    pub(crate) objects: Option<u64>,
    pub(crate) objects_indexed: Option<u64>,
    /// Of another version of the object or of the format, or damaged.
    pub(crate) objects_stale: Option<u64>,
    pub(crate) rows: Option<u64>,
    pub(crate) bytes: Option<u64>,
    /// Why nothing is known.
    pub(crate) error: Option<String>,
}

impl Indexes {
    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<IndexDefinition> {
        self.defined.read().values().cloned().collect()
    }

    /// Those of one table.
    pub(crate) fn of_table(&self, table: &str) -> Vec<IndexDefinition> {
        self.defined.read().values().filter(|index| index.table == table).cloned().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<IndexDefinition> {
        self.defined.read().get(name).cloned()
    }

    /// Adds an index.
    ///
    /// # Errors
    /// If there is one of that name.
    pub(crate) fn add(&self, definition: IndexDefinition) -> Result<()> {
        let mut defined = self.defined.write();
        if defined.contains_key(&definition.name) {
            return user_err!(DuplicateTable, "index {} already exists", definition.name);
        }
        defined.insert(definition.name.clone(), definition);
        Ok(())
    }

    /// Forgets an index and what is known of it; its objects stay.
    pub(crate) fn remove(&self, name: &str) -> Option<IndexDefinition> {
        let removed = self.defined.write().remove(name);
        self.keepers.lock().remove(name);
        self.forget(name);
        removed
    }

    /// Forgets what is known of an index's objects.
    pub(crate) fn forget(&self, name: &str) {
        self.known.current.lock().remove(name);
        self.known.paused.lock().remove(name);
    }

    /// Forgets that an object has current index objects: one was there and could not be used.
    pub(crate) fn doubt(&self, object: &PlannedObject) {
        let key = key_of(object);
        self.known.current.lock().values_mut().for_each(|known| {
            known.remove(&key);
        });
    }

    /// Remembers a made index object.
    pub(crate) fn learn(&self, name: &str, object: &Arc<PlannedObject>, report: IndexReport) {
        self.known.learn(name, object, report);
    }

    /// Average number of rows of a partition that share a value of the column, if there is a current index object.
    pub(crate) fn rows_per_value(&self, table: &str, column: &str, object: &PlannedObject) -> Option<f64> {
        let defined = self.defined.read();
        let index = defined.values().find(|index| index.table == table && index.column == column)?;
        let current = self.known.current.lock();
        current.get(&index.name)?.get(&key_of(object)).map(|(_, report)| report.rows_per_value)
    }

    /// Has the objects of `snapshot` indexed in the background.
    pub(crate) fn keep_up(&self, table: &Arc<ExternalTable>, snapshot: &Arc<Snapshot>, partition_bytes: u64) {
        for index in self.of_table(&table.definition.name) {
            // The table may be another one than when the index was defined.
            if table.schema().column_with_name(&index.column).is_none() || without_indexes(table).is_some() {
                continue;
            }
            let (unknown, gone) = self.known.compared(&index.name, snapshot);
            let mut keepers = self.keepers.lock();
            let keeper = keepers.entry(index.name.clone()).or_default();
            while keeper.try_join_next().is_some() {}
            if (unknown.is_empty() && gone.is_empty()) || !keeper.is_empty() || self.known.is_paused(&index.name) {
                continue;
            }
            let (table, known) = (Arc::clone(table), Arc::clone(&self.known));
            let work = async move {
                let gone = removed(&index, &table, by_node(gone));
                if let Err(error) =
                    gone.and_then(|()| caught_up(&index, &table, unknown, &known, partition_bytes)).await
                {
                    tracing::warn!("index {} is not up to date: {error}", index.name);
                    known.paused.lock().insert(index.name.clone(), Instant::now() + PAUSE);
                }
            };
            keeper.spawn(work);
        }
    }

    /// Asks the nodes what there is of each index, for `system.indexes`.
    pub(crate) async fn rows(&self, tables: &[Arc<ExternalTable>], partition_size: u64) -> Vec<IndexRow> {
        let mut rows = vec![];
        for definition in self.all() {
            let counted = async {
                let Some(table) = tables.iter().find(|table| table.definition.name == definition.table) else {
                    return user_err!(UndefinedTable, "table \"{}\" does not exist", definition.table);
                };
                let snapshot = table.snapshot(partition_size).await?;
                let objects = snapshot.objects.len() as u64;
                Ok((objects, statuses(&definition, table, snapshot.objects.clone()).await?))
            };
            let row = match counted.await {
                Ok((objects, statuses)) => {
                    let in_state = |states: &[IndexState]| {
                        let is = |status: &IndexStatus| states.iter().any(|state| *state as i32 == status.state);
                        Some(statuses.iter().filter(|(_, status)| is(status)).count() as u64)
                    };
                    let sum = |of: fn(&IndexReport) -> u64| {
                        Some(statuses.iter().filter_map(|(_, status)| status.report.as_ref()).map(of).sum())
                    };
                    IndexRow {
                        objects: Some(objects),
                        objects_indexed: in_state(&[IndexState::Current]),
                        objects_stale: in_state(&[IndexState::Stale, IndexState::Damaged]),
                        rows: sum(|report| report.rows),
                        bytes: sum(|report| report.bytes),
                        error: None,
                        definition,
                    }
                }
                Err(error) => IndexRow {
                    objects: None,
                    objects_indexed: None,
                    objects_stale: None,
                    rows: None,
                    bytes: None,
                    error: Some(error.strip_backtrace()),
                    definition,
                },
            };
            rows.push(row);
        }
        rows
    }
}

impl Known {
    fn learn(&self, name: &str, object: &Arc<PlannedObject>, report: IndexReport) {
        let known = (Arc::clone(object), report);
        self.current.lock().entry(name.to_owned()).or_default().insert(key_of(object), known);
    }

    /// The objects of `snapshot` that are not known to have a current index object, and those that
    /// had one and are not there any more, which are forgotten. An overwritten object is among the
    /// former only: its new index object takes the place of the old one.
    fn compared(&self, name: &str, snapshot: &Snapshot) -> (Vec<Arc<PlannedObject>>, Vec<Arc<PlannedObject>>) {
        let mut current = self.current.lock();
        let known = current.entry(name.to_owned()).or_default();
        let mut still_there = HashMap::with_capacity(known.len());
        let mut unknown = vec![];
        for object in &snapshot.objects {
            match known.remove_entry(&key_of(object)) {
                Some((key, index)) => {
                    still_there.insert(key, index);
                }
                None => unknown.push(Arc::clone(object)),
            }
        }
        let mut gone = std::mem::replace(known, still_there);
        for object in &unknown {
            gone.retain(|(node, entry), _| node != object.node.label() || *entry.path != object.entry.path);
        }
        (unknown, gone.into_values().map(|(object, _)| object).collect())
    }

    fn is_paused(&self, name: &str) -> bool {
        self.paused.lock().get(name).is_some_and(|until| *until > Instant::now())
    }
}

fn key_of(object: &PlannedObject) -> ObjectKey {
    (object.node.label().to_owned(), object.entry.clone())
}

/// Makes the index objects that are missing or stale among those of `objects`.
async fn caught_up(
    index: &IndexDefinition,
    table: &ExternalTable,
    objects: Vec<Arc<PlannedObject>>,
    known: &Known,
    partition_bytes: u64,
) -> Result<()> {
    let mut missing = vec![];
    for (object, status) in statuses(index, table, objects).await? {
        match status.report {
            Some(report) if status.state == IndexState::Current as i32 => {
                known.learn(&index.name, &object, report);
            }
            _ => missing.push(object),
        }
    }
    let origin = Origin { query_id: format!("index {}", index.name), ..Origin::default() };
    let mut built = builds(index, table, &missing, &origin, partition_bytes, BACKGROUND_BUILDS_AT_ONCE).await?;
    while let Some((object, report)) = built.next().await {
        match report {
            Ok(report) => known.learn(&index.name, &object, report),
            // It will be in another version in the next snapshot, or gone.
            Err(error) if error.is_stale() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes index objects for all of `objects`, telling `done` of each.
///
/// # Errors
/// The first failure; what was made until then stays.
pub(crate) async fn build(
    index: &IndexDefinition,
    table: &ExternalTable,
    objects: &[Arc<PlannedObject>],
    origin: Origin,
    partition_bytes: u64,
    mut done: impl FnMut(&Arc<PlannedObject>, IndexReport),
) -> Result<()> {
    let mut built = builds(index, table, objects, &origin, partition_bytes, BUILDS_AT_ONCE).await?;
    while let Some((object, report)) = built.next().await {
        done(&object, report?);
    }
    Ok(())
}

type Built = (Arc<PlannedObject>, Result<IndexReport, NodeError>);

async fn builds(
    index: &IndexDefinition,
    table: &ExternalTable,
    objects: &[Arc<PlannedObject>],
    origin: &Origin,
    partition_bytes: u64,
    at_once: usize,
) -> Result<futures::stream::BoxStream<'static, Built>> {
    let requests = objects
        .iter()
        .map(|object| {
            let request = index.build_request(table, object, origin.clone(), partition_bytes)?;
            Ok((Arc::clone(object), request))
        })
        .collect::<Result<Vec<_>>>()?;
    let built = futures::stream::iter(requests).map(|(object, request)| async move {
        let report = object.node.create_index(request).await;
        (object, report)
    });
    Ok(built.buffer_unordered(at_once).boxed())
}

/// States of the objects' index objects, from their nodes.
async fn statuses(
    index: &IndexDefinition,
    table: &ExternalTable,
    objects: Vec<Arc<PlannedObject>>,
) -> Result<Vec<(Arc<PlannedObject>, IndexStatus)>> {
    let mut statuses = vec![];
    for (node, objects) in by_node(objects) {
        for some in objects.chunks(STATUS_OBJECTS_MAX) {
            let found = node.index_status(index.status_request(table, some)?).await?;
            statuses.extend(some.iter().cloned().zip(found));
        }
    }
    Ok(statuses)
}

/// Removes the index's objects at every node.
///
/// # Errors
/// The first node's failure; others are asked nevertheless.
pub(crate) async fn remove_objects(index: &IndexDefinition, table: &ExternalTable) -> Result<()> {
    removed(index, table, by_node(table.latest().objects.clone())).await
}

async fn removed(
    index: &IndexDefinition,
    table: &ExternalTable,
    nodes: Vec<(NodeClient, Vec<Arc<PlannedObject>>)>,
) -> Result<()> {
    let keepers = nodes.into_iter().filter(|(node, _)| node.capabilities().indexes);
    let removals = futures::stream::iter(keepers).then(|(node, objects)| async move {
        for some in objects.chunks(STATUS_OBJECTS_MAX) {
            node.drop_index(index.drop_request(table, some)?).await?;
        }
        Ok(())
    });
    let outcomes: Vec<Result<()>> = removals.collect().await;
    outcomes.into_iter().collect()
}

/// Objects that one request may name: of one node, their columns in the same fields.
fn by_node(objects: Vec<Arc<PlannedObject>>) -> Vec<(NodeClient, Vec<Arc<PlannedObject>>)> {
    let mut nodes: Vec<(NodeClient, Vec<Arc<PlannedObject>>)> = vec![];
    for object in objects {
        let alike = |others: &[Arc<PlannedObject>]| others.first().is_some_and(|other| other.has_fields_of(&object));
        match nodes.iter_mut().find(|(node, others)| node.label() == object.node.label() && alike(others)) {
            Some((_, objects)) => objects.push(object),
            None => nodes.push((object.node.clone(), vec![object])),
        }
    }
    nodes
}
